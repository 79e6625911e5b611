//! The files that a phase must leave behind.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::Path;

use windlass_kernel::Digest;
use windlass_text::{Glob, GlobKind};
use windlass_workspace::walk_files;

/// How many files the patterns may match.
const FILES_MAX: usize = 10_000;
/// The largest file that is digested.
const BYTES_MAX: u64 = 256 << 20;

/// Digests what the patterns match; a pattern that matches nothing, or only empty files, is a fault.
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
    let mut found = Found { globs, full: vec![false; patterns.len()], outputs: BTreeMap::new() };
    walk_files(workspace, &mut |file| {
        // A name that is not UTF-8 cannot be matched by a pattern.
        if !file.is_utf8 || !file.kind.is_file() {
            return Ok(());
        }
        found.look_at(&workspace.join(file.path), file.path)
    })?;
    match patterns.iter().zip(&found.full).find(|(_, full)| !**full) {
        Some((pattern, _)) => {
            Err(format!("the output `{pattern}` matches no file, or only empty ones"))
        }
        None => Ok(found.outputs),
    }
}

struct Found {
    globs: Vec<Glob>,
    /// Which pattern has matched a file that is not empty.
    full: Vec<bool>,
    outputs: BTreeMap<String, Digest>,
}

impl Found {
    fn look_at(&mut self, file: &Path, path: &str) -> Result<(), String> {
        let name: Vec<char> = path.chars().collect();
        let globs = self.globs.iter().enumerate();
        let matching: Vec<usize> =
            globs.filter(|(_, glob)| glob.matches(&name)).map(|(at, _)| at).collect();
        if matching.is_empty() {
            return Ok(());
        }
        let fault = |error: std::io::Error| format!("`{path}` cannot be read: {error}");
        let bytes = match std::fs::symlink_metadata(file) {
            Ok(metadata) => metadata.len(),
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(fault(error)),
        };
        if bytes > BYTES_MAX {
            return Err(format!("`{path}` is larger than {BYTES_MAX} bytes"));
        }
        if self.outputs.len() >= FILES_MAX {
            return Err(format!("the outputs match more than {FILES_MAX} files"));
        }
        let digest = Digest::of(&std::fs::read(file).map_err(fault)?);
        for at in matching {
            if let Some(full) = self.full.get_mut(at) {
                *full |= bytes > 0;
            }
        }
        self.outputs.insert(path.to_owned(), digest);
        Ok(())
    }
}
