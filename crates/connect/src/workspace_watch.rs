//! The workspace of a command, compared at its end with what was there before.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use windlass_cell::{Level, Mount, find_git};
use windlass_gate::{Allowed, Gate, Held, Rule, Rules, Scope, Tips, Watch};
use windlass_text::{Glob, GlobKind};
use windlass_workspace::Git;

use crate::Certainty;
use crate::call_failure::CallFailure;
use crate::commits::Commits;
use crate::sandbox::Confinement;

/// The folders of a project that no command can change in a cell.
const CLOSED: [&str; 2] = [".git", ".windlass"];
/// What Windlass writes into a project while commands run.
const OWN: [&str; 3] = [".windlass/artifacts", ".windlass/checkpoints", ".windlass/id"];
/// The most files that the cell of a server shows read-only.
const SEALED_MAX: usize = 256;

/// The workspace while a command runs.
#[derive(Debug)]
pub(crate) struct WorkspaceWatch {
    watch: Watch,
    commits: Commits,
    is_closed: AtomicBool,
}

/// What is known of the repository when a command starts.
#[derive(Debug, Default)]
pub(crate) struct Repository {
    /// The top of the work tree.
    pub top: Option<PathBuf>,
    /// The commits that are there; `None` if the command can make none.
    pub tips: Option<Tips>,
    /// The files that it does not see, relative to the top.
    pub hidden: Vec<String>,
}

impl Repository {
    /// That of a command that changes its git directory itself.
    pub fn without_cell(workspace: &Path) -> Result<Self, CallFailure> {
        let Some(git) = find_git(workspace).map_err(CallFailure::sandbox)? else {
            return Ok(Self::default());
        };
        let tips = windlass_workspace::tips(&git.common);
        let tips = tips.map_err(|error| CallFailure::git(Certainty::DidNotRun, &error))?;
        Ok(Self { top: Some(git.top), tips: Some(tips), hidden: Vec::new() })
    }
}

impl WorkspaceWatch {
    /// Writes down what is there. Fails once if an earlier command has left what no command may: it was moved.
    pub fn start(
        place: &Path,
        level: Level,
        confinement: &Confinement,
        repository: Repository,
        mounts: &[Mount],
    ) -> Result<Self, CallFailure> {
        let Confinement { workspace, file_rules, named, is_server, .. } = confinement;
        let Repository { top, tips, hidden } = repository;
        let top = top.as_deref();
        let scope = Scope {
            closed: if level == Level::Full { CLOSED.to_vec() } else { Vec::new() },
            passed: OWN.to_vec(),
            shown: shown(workspace, top.filter(|_| level == Level::Full), mounts),
        };
        let file_rules = &with_named(file_rules, &Git::new(workspace))?;
        let is_about = |path: &&String| {
            file_rules.of(path).is_some() || file_rules.of(&format!("{path}/a")).is_some()
        };
        let paths = named.iter().filter(is_about).cloned().collect();
        let allowed = Allowed { paths, tips, ..Allowed::default() };
        let seal = (*is_server && level == Level::Full).then_some(SEALED_MAX);
        let gate = Gate::new(place, workspace, file_rules, scope).map_err(not_started)?;
        let commits = Commits::new(workspace, top, hidden);
        let (watch, told) = gate.watch(allowed, seal, &commits).map_err(not_started)?;
        if told.is_empty() {
            return Ok(Self { watch, commits, is_closed: AtomicBool::new(false) });
        }
        // This one is not started.
        watch.made_no_commit();
        let _ = watch.look(&commits);
        let message = format!(
            "an earlier command left what no command may leave: {}; this one was not started, start it again",
            told.join(", ")
        );
        Err(CallFailure::left_behind(message))
    }

    /// The mounts by which a cell cannot change the files that are there.
    pub fn seals(&self) -> Vec<Mount> {
        let files = self.watch.sealed().into_iter();
        let read = windlass_cell::Access::Read;
        files.map(|path| Mount::Bind { path, access: read }).collect()
    }

    /// Says that the command has ended: there is nothing more to look at.
    pub fn close(&self) {
        self.is_closed.store(true, Ordering::Relaxed);
    }

    /// Says that the command has moved no ref.
    pub fn made_no_commit(&self) {
        self.watch.made_no_commit();
    }

    /// The files that the command does not see and has committed all the same.
    pub fn unseen(&self) -> BTreeSet<String> {
        self.commits.unseen()
    }

    /// Holds back what may not be left.
    pub fn look(&self) -> Result<Vec<Held>, CallFailure> {
        let held = self.watch.look(&self.commits);
        held.map_err(|error| CallFailure::internal(Certainty::Unknown, error.to_string()))
    }

    /// The same when nobody is there to be told.
    pub fn look_and_tell_later(&self) {
        // What could not be compared is compared before the next command.
        let _ = self.watch.look_and_tell_later(&self.commits);
    }
}

impl Drop for WorkspaceWatch {
    fn drop(&mut self) {
        if !self.is_closed.load(Ordering::Relaxed) {
            self.look_and_tell_later();
        }
    }
}

/// The rules with one about the files that git's settings name.
fn with_named(rules: &Arc<Rules>, git: &Git) -> Result<Arc<Rules>, CallFailure> {
    let named = git.named_by_settings().map_err(|error| CallFailure::sandbox(error.to_string()))?;
    let mut more = Vec::new();
    for (path, setting) in named {
        let literal: String = path.chars().fold(String::new(), |mut text, char| {
            if "\\*?[]{}!".contains(char) {
                text.push('\\');
            }
            text.push(char);
            text
        });
        let globs = [literal.clone(), format!("{literal}/**")];
        let globs =
            globs.iter().map(|text| Glob::new(text, GlobKind::Path)).collect::<Result<_, _>>();
        more.push(Rule {
            id: "named-by-git".to_owned(),
            reason: format!("git obeys it: its setting `{setting}` names it"),
            paths: globs.map_err(|error| CallFailure::sandbox(error.to_string()))?,
            except: Vec::new(),
        });
    }
    Ok(if more.is_empty() { Arc::clone(rules) } else { Arc::new(rules.with(more)) })
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
