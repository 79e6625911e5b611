//! The tools of one workspace.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::Value;
use windlass_kernel::Digest;
use windlass_kernel::artifact::FileChange;

use crate::arguments::Arguments;
use crate::error::FilesError;
use crate::limits::OUTPUT_BYTES_MIN;
use crate::root::Root;
use crate::target::{Content, Step, Target};
use crate::tool::FileTool;
use crate::{edit, list, read, search, write};

/// The file tools of one workspace.
pub struct Files {
    root: Root,
    /// One write at a time, so that no other one falls between its check and its rename.
    writing: Mutex<()>,
    left_out: LeftOut,
}

/// Says of a path below the workspace whether a search of contents leaves the file out.
pub type LeftOut = Arc<dyn Fn(&str) -> bool + Send + Sync>;

/// The first 16 hex digits of a digest: what agents name a file's content by.
pub(crate) fn version_of(digest: &Digest) -> String {
    digest.hex().as_str().chars().take(16).collect()
}

impl Files {
    /// Opens the workspace's folder. The paths in `hidden`, absolute or relative to it, and everything in them are answered like
    /// paths that do not exist.
    ///
    /// # Errors
    /// If the folder cannot be opened or is hidden itself.
    pub fn new(root: &Path, hidden: Vec<PathBuf>) -> Result<Self, FilesError> {
        let root = Root::new(root, hidden)?;
        Ok(Self { root, writing: Mutex::new(()), left_out: Arc::new(|_| false) })
    }

    /// The same, without the contents of some files in searches of folders. That there are such files is said, not what is in
    /// them.
    #[must_use]
    pub fn leaving_out(mut self, left_out: LeftOut) -> Self {
        self.left_out = left_out;
        self
    }

    /// What a write or an edit would make of the file; `None` for tools that only read. Changes nothing.
    ///
    /// # Errors
    /// If the call would be refused now.
    pub fn foresee(&self, tool: FileTool, args: &Value) -> Result<Option<FileChange>, FilesError> {
        let arguments = Arguments::new(tool, args)?;
        match tool {
            FileTool::Read | FileTool::List | FileTool::Search => Ok(None),
            FileTool::Write => write::foresee(&self.root, &arguments).map(Some),
            FileTool::Edit => edit::foresee(&self.root, &arguments).map(Some),
        }
    }

    /// Whether a file is still as it was before a change.
    #[must_use]
    pub fn is_unmade(&self, change: &FileChange) -> bool {
        let target = Target::new(&self.root, &change.path, Content::OnlyDigest);
        target.is_ok_and(|target| matches!(target.next_step(change), Ok(Step::Write)))
    }

    /// Performs a call; its result takes at most `output_bytes_max` bytes as JSON.
    ///
    /// With `foreseen` a write happens only if the file is as it was foreseen. If the file is already as it is to
    /// become, that is a success: a call that is repeated after a crash has its effect once.
    ///
    /// # Errors
    /// If the arguments are wrong, the call is refused, the file is not as foreseen, or the operating system fails. Then the
    /// file is unchanged, except that it may have been replaced if making that durable failed.
    pub fn perform(
        &self,
        tool: FileTool,
        args: &Value,
        foreseen: Option<&FileChange>,
        output_bytes_max: usize,
    ) -> Result<Value, FilesError> {
        if output_bytes_max < OUTPUT_BYTES_MIN {
            let message = format!("a result needs room for at least {OUTPUT_BYTES_MIN} bytes");
            return Err(FilesError::Invalid(message));
        }
        let arguments = Arguments::new(tool, args)?;
        match tool {
            FileTool::Read => read::read(&self.root, &arguments, output_bytes_max),
            FileTool::List => list::list(&self.root, &arguments, output_bytes_max),
            FileTool::Search => {
                search::search(&self.root, &arguments, &self.left_out, output_bytes_max)
            }
            FileTool::Write => {
                let _writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
                write::write(&self.root, &arguments, foreseen)
            }
            FileTool::Edit => {
                let _writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
                edit::edit(&self.root, &arguments, foreseen, output_bytes_max)
            }
        }
    }
}
