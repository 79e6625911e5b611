//! A workspace and a gate around it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use tempfile::TempDir;
use windlass_gate::{
    Allowed, Asked, Gate, Held, History, Mark, RelPath, Rule, Rules, Scope, Tips, Watch,
};
use windlass_text::Glob;

/// What the rules of these tests are about.
const PATHS: [&str; 5] = [
    "**/.{claude,vscode,husky}/**",
    "**/CLAUDE.md",
    "**/*.code-workspace",
    "**/.github/workflows/**",
    "**/.mcp.json",
];

/// A repository whose commits have nothing.
pub struct NoCommits;

impl History for NoCommits {
    fn brought(&self, _: &Tips, _: &dyn Fn(&RelPath) -> bool) -> io::Result<BTreeSet<String>> {
        Ok(BTreeSet::new())
    }

    fn committed(&self, _: &[Asked<'_>], _: &BTreeSet<String>) -> BTreeSet<RelPath> {
        BTreeSet::new()
    }

    fn present(&self, _: &BTreeSet<String>, _: &BTreeMap<RelPath, Mark>) -> BTreeSet<String> {
        BTreeSet::new()
    }
}

pub struct World {
    place: TempDir,
    /// Where the gate keeps what it knows, if that is elsewhere.
    state: Option<TempDir>,
}

impl World {
    pub fn new() -> Self {
        let world = Self { place: tempfile::tempdir().unwrap(), state: None };
        fs::create_dir_all(world.at("")).unwrap();
        fs::create_dir(world.place.path().join("usr")).unwrap();
        world
    }

    /// With the state of the gate in another folder.
    pub fn with_state_in(folder: &Path) -> Self {
        Self { state: Some(tempfile::tempdir_in(folder).unwrap()), ..Self::new() }
    }

    pub fn at(&self, path: &str) -> PathBuf {
        self.place.path().join("work").join(path)
    }

    /// Where the gate keeps what it knows.
    pub fn state(&self) -> PathBuf {
        match &self.state {
            Some(state) => state.path().to_owned(),
            None => self.place.path().join("state"),
        }
    }

    pub fn outside(&self) -> PathBuf {
        self.place.path().join("usr")
    }

    pub fn write(&self, path: &str, text: &str) {
        let path = self.at(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    pub fn read(&self, path: &str) -> Option<String> {
        fs::read_to_string(self.at(path)).ok()
    }

    pub fn link(&self, target: impl AsRef<Path>, path: &str) {
        symlink(target, self.at(path)).unwrap();
    }

    pub fn run(&self, program: &str, args: &[&str]) {
        let status = Command::new(program)
            .args(args)
            .current_dir(self.at(""))
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .status();
        assert!(status.unwrap().success(), "{program} {args:?}");
    }

    pub fn gate(&self) -> Gate {
        self.under(&PATHS)
    }

    /// A gate with rules about these paths.
    pub fn under(&self, paths: &[&str]) -> Gate {
        let paths = paths.iter().map(|path| Glob::in_workspace(path).unwrap()).collect();
        let (id, reason) = ("settings".to_owned(), "others obey it".to_owned());
        let rules = Arc::new(Rules::new(vec![Rule { id, reason, paths, except: Vec::new() }]));
        let scope = Scope {
            closed: vec![".git", ".windlass"],
            passed: Vec::new(),
            shown: vec![self.outside()],
        };
        Gate::new(&self.state(), &self.at(""), &rules, scope).unwrap()
    }

    pub fn watch(&self) -> Watch {
        let (watch, held) = self.gate().watch(Allowed::default(), None, &NoCommits).unwrap();
        assert_eq!(held, [""; 0]);
        watch
    }

    /// What is held back of what `act` does, by path.
    pub fn held(&self, act: impl FnOnce()) -> Vec<String> {
        let watch = self.watch();
        act();
        self.names(&watch.look(&NoCommits).unwrap())
    }

    /// The paths of what was held back. What was moved away is no longer there.
    pub fn names(&self, held: &[Held]) -> Vec<String> {
        for one in held {
            if let Some(kept) = &one.kept {
                assert!(kept.symlink_metadata().is_ok(), "{one}");
                let now = self.at(&one.path.text()).symlink_metadata();
                assert!(one.is_back || now.is_err() || now.unwrap().is_dir(), "{one}");
            }
        }
        held.iter().map(|one| one.path.text()).collect()
    }
}
