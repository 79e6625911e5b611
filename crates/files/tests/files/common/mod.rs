//! A workspace in a temporary folder.

#![allow(dead_code, clippy::allow_attributes, reason = "each test file uses a part of it")]

use std::path::{Path, PathBuf};

use serde_json::Value;
use windlass_files::{FileChange, FileTool, Files, FilesError};

pub const OUTPUT_BYTES_MAX: usize = 1024 * 1024;

pub struct World {
    /// Beside the workspace lies what must not be reached.
    pub outer: tempfile::TempDir,
    pub root: PathBuf,
    pub files: Files,
}

impl World {
    pub fn new() -> Self {
        Self::hiding(&[])
    }

    pub fn hiding(hidden: &[&str]) -> Self {
        let outer = tempfile::tempdir().unwrap();
        let root = outer.path().canonicalize().unwrap().join("root");
        std::fs::create_dir(&root).unwrap();
        let files = Files::new(&root, hidden.iter().map(PathBuf::from).collect()).unwrap();
        Self { outer, root, files }
    }

    pub fn path(&self, path: &str) -> PathBuf {
        self.root.join(path)
    }

    /// Puts a file there without the tools.
    pub fn put(&self, path: &str, content: impl AsRef<[u8]>) {
        let path = self.path(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }

    pub fn content(&self, path: &str) -> Vec<u8> {
        std::fs::read(self.path(path)).unwrap()
    }

    pub fn link(&self, target: impl AsRef<Path>, path: &str) {
        std::os::unix::fs::symlink(target, self.path(path)).unwrap();
    }

    pub fn perform(&self, tool: FileTool, args: &Value) -> Result<Value, FilesError> {
        self.files.perform(tool, args, None, OUTPUT_BYTES_MAX)
    }

    pub fn done(&self, tool: FileTool, args: &Value) -> Value {
        self.perform(tool, args).unwrap_or_else(|error| panic!("{args}: {error}"))
    }

    /// The kind of the error.
    pub fn refused(&self, tool: FileTool, args: &Value) -> &'static str {
        let result = self.perform(tool, args);
        result.expect_err(&args.to_string()).code()
    }

    pub fn foresee(&self, tool: FileTool, args: &Value) -> FileChange {
        self.files.foresee(tool, args).unwrap().unwrap()
    }

    /// The names in a folder, without the tools.
    pub fn names(&self, path: &str) -> Vec<String> {
        let entries = std::fs::read_dir(self.path(path)).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

pub fn version(content: &[u8]) -> String {
    windlass_kernel::Digest::of(content).hex().as_str()[..16].to_owned()
}
