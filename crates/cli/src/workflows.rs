//! The workflows of a project, or the built-in ones if it has none.

use std::collections::BTreeMap;
use std::path::Path;

use windlass_kernel::Code;
use windlass_loops::Workflows;

use crate::failure::Failure;
use crate::input::{self, unreadable};
use crate::project::FILE_BYTES_MAX;
use crate::setup::files_in;

/// The folder of workflows in the configuration.
const FOLDER: &str = "workflows/";
/// The most files in a folder of workflows.
const FILES_MAX: usize = 1000;

/// The built-in workflows and their index.
pub const BUILT_IN: &[(&str, &str)] = &[
    ("workflows/WORKFLOWS.md", include_str!("../../../loops/workflows/WORKFLOWS.md")),
    ("workflows/batch-processing.md", include_str!("../../../loops/workflows/batch-processing.md")),
    ("workflows/debugging.md", include_str!("../../../loops/workflows/debugging.md")),
    ("workflows/direct-skill.md", include_str!("../../../loops/workflows/direct-skill.md")),
    ("workflows/feature-dev.md", include_str!("../../../loops/workflows/feature-dev.md")),
    ("workflows/minor-edit.md", include_str!("../../../loops/workflows/minor-edit.md")),
    ("workflows/qa-demo.md", include_str!("../../../loops/workflows/qa-demo.md")),
    ("workflows/simple-question.md", include_str!("../../../loops/workflows/simple-question.md")),
    ("workflows/spec-review.md", include_str!("../../../loops/workflows/spec-review.md")),
    ("workflows/tdd-cycle.md", include_str!("../../../loops/workflows/tdd-cycle.md")),
];

/// Where workflows come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The project's configuration.
    Project,
    /// The program.
    BuiltIn,
}

impl Origin {
    /// The name in output.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Project => "project",
            Self::BuiltIn => "built-in",
        }
    }
}

/// The workflows among the configuration files; the built-in ones if there are none.
pub fn load(files: &BTreeMap<String, Vec<u8>>) -> Result<(Workflows, Origin), Failure> {
    let own: BTreeMap<String, Vec<u8>> =
        files_in(files, FOLDER).map(|(path, bytes)| (path.to_owned(), bytes.to_vec())).collect();
    if !own.is_empty() {
        return Ok((Workflows::load(&own)?, Origin::Project));
    }
    let built_in = BUILT_IN.iter();
    let built_in = built_in.map(|(path, text)| ((*path).to_owned(), text.as_bytes().to_vec()));
    Ok((Workflows::load(&built_in.collect())?, Origin::BuiltIn))
}

/// The workflows in any folder.
pub fn load_folder(folder: &Path) -> Result<Workflows, Failure> {
    let mut files = BTreeMap::new();
    for entry in std::fs::read_dir(folder).map_err(|error| unreadable(folder, &error))? {
        let path = entry.map_err(|error| unreadable(folder, &error))?.path();
        if path.extension().is_none_or(|extension| extension != "md") {
            continue;
        }
        let bytes = input::read(&path, FILE_BYTES_MAX)?;
        files.insert(path.display().to_string(), bytes);
        if files.len() > FILES_MAX {
            let message = format!("`{}` has more than {FILES_MAX} files", folder.display());
            return Err(Failure::new(Code::LoopInvalid, message).hint("name a folder with fewer"));
        }
    }
    Ok(Workflows::load(&files)?)
}
