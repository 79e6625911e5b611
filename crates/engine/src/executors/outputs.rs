//! The output files of a phase.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::Path;

use windlass_beneath::Folder;
use windlass_kernel::Digest;
use windlass_text::{Glob, GlobKind, GlobText};
use windlass_workspace::walk_files;

/// The maximum number of matching files.
const FILES_MAX: usize = 10_000;
/// The maximum size of an output.
const BYTES_MAX: u64 = 256 << 20;

/// Digests the files that the patterns match; fails if a pattern matches no file or only empty ones.
pub(super) fn collect(
    workspace: &Path,
    patterns: &[String],
) -> Result<BTreeMap<String, Digest>, String> {
    if patterns.is_empty() {
        return Ok(BTreeMap::new());
    }
    let globs = patterns.iter().map(|pattern| {
        Glob::new(pattern, GlobKind::Path)
            .map_err(|error| format!("the output `{pattern}`: {error}"))
    });
    let globs = globs.collect::<Result<_, _>>()?;
    let matched = vec![false; patterns.len()];
    let root = Folder::open(workspace).map_err(|error| error.to_string())?;
    let mut collector = OutputCollector { root, globs, matched, outputs: BTreeMap::new() };
    walk_files(workspace, &mut |file| {
        // A name that is not UTF-8 cannot be matched by a pattern.
        if !file.is_utf8 || !file.kind.is_file() {
            return Ok(());
        }
        collector.add(file.path)
    })?;
    match patterns.iter().zip(&collector.matched).find(|(_, matched)| !**matched) {
        Some((pattern, _)) => {
            Err(format!("the output `{pattern}` matches no file, or only empty ones"))
        }
        None => Ok(collector.outputs),
    }
}

struct OutputCollector {
    root: Folder,
    globs: Vec<Glob>,
    /// For each pattern, whether it has matched a file that is not empty.
    matched: Vec<bool>,
    outputs: BTreeMap<String, Digest>,
}

impl OutputCollector {
    fn add(&mut self, path: &str) -> Result<(), String> {
        let name = GlobText::new(path);
        let globs = self.globs.iter().enumerate();
        let matching: Vec<usize> =
            globs.filter(|(_, glob)| glob.matches(&name)).map(|(at, _)| at).collect();
        if matching.is_empty() {
            return Ok(());
        }
        let unreadable = |error: std::io::Error| format!("`{path}` cannot be read: {error}");
        let content = match self.root.read(Path::new(path), BYTES_MAX) {
            Ok(content) => content,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            Err(error) if error.kind() == ErrorKind::FileTooLarge => {
                return Err(format!("`{path}` is larger than {BYTES_MAX} bytes"));
            }
            Err(error) => return Err(unreadable(error)),
        };
        if self.outputs.len() >= FILES_MAX {
            return Err(format!("the outputs match more than {FILES_MAX} files"));
        }
        let digest = Digest::of(&content);
        for at in matching {
            if let Some(matched) = self.matched.get_mut(at) {
                *matched |= !content.is_empty();
            }
        }
        self.outputs.insert(path.to_owned(), digest);
        Ok(())
    }
}
