//! The workspace of a command, compared at its end with what was there before.

use std::cell::OnceCell;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use windlass_cell::{Level, Mount};
use windlass_gate::{Allowed, Gate, Held, Mark, RelPath, Scope, Watch};
use windlass_workspace::{Baseline, BroughtFile, CommittedFiles, Git};

use crate::Certainty;
use crate::call_failure::CallFailure;
use crate::sandbox::Confinement;

/// The folders of a project that no command can change in a cell.
const CLOSED: [&str; 2] = [".git", ".windlass"];
/// What Windlass writes into a project while commands run.
const OWN: [&str; 3] = [".windlass/artifacts", ".windlass/checkpoints", ".windlass/id"];
/// The longest file that is compared with a commit.
const BYTES_MAX: u64 = 16 << 20;
/// The most files that the cell of a server shows read-only.
const SEALED_MAX: usize = 256;

/// The workspace while a command runs.
#[derive(Debug)]
pub(crate) struct WorkspaceWatch {
    watch: Watch,
    git: Git,
    /// The path of the workspace below the top of its repository, with a slash.
    prefix: String,
}

impl WorkspaceWatch {
    /// Writes down what is there. Fails once if an earlier command has left what no command may: it was moved.
    pub fn start(
        place: &Path,
        level: Level,
        confinement: &Confinement,
        top: Option<&Path>,
        mounts: &[Mount],
    ) -> Result<Self, CallFailure> {
        let Confinement { workspace, file_rules, named, is_server, .. } = confinement;
        let scope = Scope {
            closed: if level == Level::Full { CLOSED.to_vec() } else { Vec::new() },
            passed: OWN.to_vec(),
            shown: shown(workspace, top, mounts),
        };
        let is_about = |path: &&String| {
            file_rules.of(path).is_some() || file_rules.of(&format!("{path}/a")).is_some()
        };
        let allowed = Allowed {
            paths: named.iter().filter(is_about).cloned().collect(),
            is_sealed: *is_server,
        };
        let git = Git::new(workspace);
        let prefix = top.and_then(|top| workspace.strip_prefix(top).ok());
        let prefix = prefix.map_or_else(String::new, |prefix| {
            let text = prefix.to_string_lossy();
            if text.is_empty() { String::new() } else { format!("{text}/") }
        });
        let gate = Gate::new(place, workspace, file_rules, scope).map_err(not_started)?;
        let doubted = gate.doubted();
        let committed = Commits::new(&git, &doubted, workspace);
        let started = gate.watch(allowed, &|path, mark| committed.has(path, mark));
        let (watch, told) = started.map_err(not_started)?;
        if told.is_empty() {
            return Ok(Self { watch, git, prefix });
        }
        let message = format!(
            "an earlier command left what no command may leave: {}; this one was not started, start it again",
            told.join(", ")
        );
        Err(CallFailure::left_behind(message))
    }

    /// The mounts by which a cell cannot change the files that are there.
    pub fn seals(&self) -> Vec<Mount> {
        let files = self.watch.files().into_iter().take(SEALED_MAX);
        let read = windlass_cell::Access::Read;
        files.map(|path| Mount::Bind { path, access: read }).collect()
    }

    /// Holds back what may not be left, and says what. `brought` is what commits of the command have brought.
    pub fn look(&self, brought: &[BroughtFile]) -> Result<Vec<String>, CallFailure> {
        let held = self.held(brought)?;
        Ok(held.iter().map(Held::to_string).collect())
    }

    /// The same when nobody is there to be told.
    pub fn look_and_tell_later(&self) {
        let doubted = self.watch.doubted();
        let workspace = self.watch.workspace();
        let committed = Commits::new(&self.git, &doubted, workspace);
        // What could not be compared is compared before the next command.
        let _ = self.watch.look_and_tell_later(&|path, mark| committed.has(path, mark));
    }

    fn held(&self, brought: &[BroughtFile]) -> Result<Vec<Held>, CallFailure> {
        let fail = |error: windlass_gate::GateError| {
            CallFailure::internal(Certainty::Unknown, error.to_string())
        };
        let new: BTreeSet<(String, String)> = brought
            .iter()
            .filter_map(|file| Some((file.path.strip_prefix(&self.prefix)?, &file.blob)))
            .filter(|(path, _)| self.watch.rules().of(path).is_some())
            .map(|(path, blob)| (path.to_owned(), blob.clone()))
            .collect();
        let before = self.watch.doubted();
        let mut doubted = before.clone();
        doubted.extend(new.iter().map(|(path, blob)| name_of(path, blob)));
        let workspace = self.watch.workspace();
        let commits = Commits::new(&self.git, &doubted, workspace);
        let held = self.watch.look(&|path, mark| commits.has(path, mark)).map_err(fail)?;
        // What is there now was accepted: a commit of it brings nothing new.
        let accepted =
            new.iter().filter(|(path, blob)| commits.blob_now(path).as_ref() == Some(blob));
        let accepted: Vec<String> = accepted.map(|(path, blob)| name_of(path, blob)).collect();
        doubted.retain(|name| !accepted.contains(name));
        if doubted != before {
            self.watch.doubt(&doubted).map_err(fail)?;
        }
        Ok(held)
    }

    /// What commits have brought that were made or fetched since the baseline.
    pub fn brought(&self, before: &Baseline) -> Result<Vec<BroughtFile>, CallFailure> {
        let brought = self.git.brought(before);
        brought.map_err(|error| CallFailure::internal(Certainty::Unknown, error.to_string()))
    }
}

/// What the current commit has, but for what commands have brought.
struct Commits<'a> {
    git: &'a Git,
    doubted: &'a BTreeSet<String>,
    workspace: &'a Path,
    files: OnceCell<Option<CommittedFiles>>,
}

impl<'a> Commits<'a> {
    const fn new(git: &'a Git, doubted: &'a BTreeSet<String>, workspace: &'a Path) -> Self {
        Self { git, doubted, workspace, files: OnceCell::new() }
    }

    /// Whether a file is as the current commit has it, and no command has made that commit's change.
    fn has(&self, path: &RelPath, mark: Option<&Mark>) -> bool {
        if !matches!(mark, None | Some(Mark::File { .. })) {
            return false;
        }
        let text = path.text();
        let files = self.files.get_or_init(|| self.git.committed_files().ok());
        let Some(files) = files else { return false };
        let blob = files.blob(&text);
        !self.doubted.contains(&name_of(&text, blob))
            && self.blob_now(&text).as_deref() == Some(blob)
    }

    /// The blob of a file as it is now.
    fn blob_now(&self, path: &str) -> Option<String> {
        let folder = windlass_beneath::Folder::open(self.workspace).ok()?;
        match folder.look(Path::new(path)).ok()? {
            None => Some(CommittedFiles::default().blob(path).to_owned()),
            Some(_) => self.git.blob_of(folder.read(Path::new(path), BYTES_MAX).ok()?).ok(),
        }
    }
}

fn name_of(path: &str, blob: &str) -> String {
    format!("{blob} {path}")
}

/// Where links may lead: to what every cell has, and to the rest of the work tree.
fn shown(workspace: &Path, top: Option<&Path>, mounts: &[Mount]) -> Vec<PathBuf> {
    let places = mounts.iter().filter_map(|mount| match mount {
        Mount::Bind { path, .. } | Mount::Overlay { path, .. } => Some(path.clone()),
        Mount::BindAt { .. } | Mount::Mask { .. } | Mount::Memory { .. } | Mount::Link { .. } => {
            None
        }
    });
    let outside =
        places.filter(|path| !path.starts_with(workspace) && !workspace.starts_with(path));
    outside.chain(top.map(Path::to_owned)).collect()
}

fn not_started(error: windlass_gate::GateError) -> CallFailure {
    CallFailure::sandbox(error.to_string())
}
