//! The workspace of a command, compared at its end with what was there before.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use windlass_cell::{Level, Mount};
use windlass_gate::{Allowed, Gate, Held, Mark, RelPath, Rule, Rules, Scope, Watch};
use windlass_text::{Glob, GlobKind};
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
    is_closed: AtomicBool,
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
        let git = Git::new(workspace);
        let file_rules = &with_named(file_rules, &git)?;
        let is_about = |path: &&String| {
            file_rules.of(path).is_some() || file_rules.of(&format!("{path}/a")).is_some()
        };
        let allowed = Allowed {
            paths: named.iter().filter(is_about).cloned().collect(),
            ..Allowed::default()
        };
        let seal = (*is_server && level == Level::Full).then_some(SEALED_MAX);
        let prefix = top.and_then(|top| workspace.strip_prefix(top).ok());
        let prefix = prefix.map_or_else(String::new, |prefix| {
            let text = prefix.to_string_lossy();
            if text.is_empty() { String::new() } else { format!("{text}/") }
        });
        let gate = Gate::new(place, workspace, file_rules, scope).map_err(not_started)?;
        let doubted = gate.doubted();
        let committed = Commits::new(&git, &doubted, workspace, &prefix);
        let started = gate.watch(allowed, seal, &|path, mark| committed.has(path, mark));
        let (watch, told) = started.map_err(not_started)?;
        if told.is_empty() {
            return Ok(Self { watch, git, prefix, is_closed: AtomicBool::new(false) });
        }
        // This one is not started.
        let _ = watch.look(&|path, mark| committed.has(path, mark));
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

    /// Holds back what may not be left, and says what. `brought` is what commits of the command have brought.
    pub fn look(
        &self,
        brought: &[BroughtFile],
        baseline: Option<&Baseline>,
    ) -> Result<Vec<String>, CallFailure> {
        let held = self.held(brought, baseline)?;
        Ok(held.iter().map(Held::to_string).collect())
    }

    /// The same when nobody is there to be told.
    pub fn look_and_tell_later(&self) {
        let doubted = self.watch.doubted();
        let workspace = self.watch.workspace();
        let committed = Commits::new(&self.git, &doubted, workspace, &self.prefix);
        // What could not be compared is compared before the next command.
        let _ = self.watch.look_and_tell_later(&|path, mark| committed.has(path, mark));
    }

    fn held(
        &self,
        brought: &[BroughtFile],
        baseline: Option<&Baseline>,
    ) -> Result<Vec<Held>, CallFailure> {
        let fail = |error: windlass_gate::GateError| {
            CallFailure::internal(Certainty::Unknown, error.to_string())
        };
        let is_about = |path: &str| self.watch.rules().of(path).is_some();
        let mut new: BTreeSet<&BroughtFile> = brought
            .iter()
            .filter(|file| {
                let inner = file.path.strip_prefix(&self.prefix);
                file.is_link || is_about(&file.path) || inner.is_some_and(is_about)
            })
            .collect();
        if let (Some(before), false) = (baseline, new.is_empty()) {
            let known = self
                .git
                .had(before, &new)
                .map_err(|error| CallFailure::internal(Certainty::Unknown, error.to_string()))?;
            new.retain(|file| !known.contains(&(file.path.clone(), file.blob.clone())));
        }
        let before = self.watch.doubted();
        let mut doubted = before.clone();
        doubted.extend(new.iter().map(|file| name_of(&file.path, &file.blob)));
        let workspace = self.watch.workspace();
        let commits = Commits::new(&self.git, &doubted, workspace, &self.prefix);
        let held = self.watch.look(&|path, mark| commits.has(path, mark)).map_err(fail)?;
        // What is there now was accepted: a commit of it brings nothing new.
        let is_there = |file: &&&BroughtFile| {
            let inner = file.path.strip_prefix(&self.prefix);
            inner.is_some_and(|path| commits.blob_now(path).as_ref() == Some(&file.blob))
        };
        let accepted = new.iter().filter(is_there);
        let accepted: Vec<String> = accepted.map(|file| name_of(&file.path, &file.blob)).collect();
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

impl Drop for WorkspaceWatch {
    fn drop(&mut self) {
        if !self.is_closed.load(Ordering::Relaxed) {
            self.look_and_tell_later();
        }
    }
}

/// What the current commits of the work trees have, but for what commands have brought.
struct Commits<'a> {
    git: &'a Git,
    doubted: &'a BTreeSet<String>,
    workspace: &'a Path,
    prefix: &'a str,
    /// By the folder of the work tree, relative to the workspace.
    files: RefCell<BTreeMap<PathBuf, Rc<Option<CommittedFiles>>>>,
}

impl<'a> Commits<'a> {
    const fn new(
        git: &'a Git,
        doubted: &'a BTreeSet<String>,
        workspace: &'a Path,
        prefix: &'a str,
    ) -> Self {
        Self { git, doubted, workspace, prefix, files: RefCell::new(BTreeMap::new()) }
    }

    /// Whether a file is as the current commit has it, and no command has made that commit's change.
    fn has(&self, path: &RelPath, mark: Option<&Mark>) -> bool {
        if !matches!(mark, None | Some(Mark::File { .. } | Mark::Link { .. })) {
            return false;
        }
        let text = path.text();
        let tree = self.work_tree(path);
        let inner = path.as_path().strip_prefix(&tree).unwrap_or(path.as_path());
        let inner = inner.to_string_lossy().into_owned();
        let git = self.git_of(&tree);
        let known = self.files.borrow().get(&tree).cloned();
        let files = known.unwrap_or_else(|| {
            let files = Rc::new(git.committed_files().ok());
            self.files.borrow_mut().insert(tree.clone(), Rc::clone(&files));
            files
        });
        let Some(files) = files.as_ref() else { return false };
        let blob = files.blob(&inner);
        let in_repository = match tree.as_os_str().is_empty() {
            true => format!("{}{inner}", self.prefix),
            false => inner.clone(),
        };
        // What no commit ever had is a person's own, and not for git to remove.
        !self.doubted.contains(&name_of(&in_repository, blob))
            && (mark.is_some() || git.was_committed(&inner).unwrap_or(false))
            && self.blob_now(&text).as_deref() == Some(blob)
    }

    fn git_of(&self, tree: &Path) -> Git {
        if tree.as_os_str().is_empty() {
            self.git.clone()
        } else {
            Git::new(self.workspace.join(tree))
        }
    }

    /// The work tree of the same repository that a path lies in, relative to the workspace.
    fn work_tree(&self, path: &RelPath) -> PathBuf {
        let linked = path.above().filter(|folder| {
            let full = self.workspace.join(folder.as_path());
            full.join(".git").symlink_metadata().is_ok_and(|found| found.is_file())
                && Git::new(full).common_dir().ok() == self.git.common_dir().ok()
        });
        linked.last().map(|folder| folder.as_path().to_owned()).unwrap_or_default()
    }

    /// The blob of a file or link as it is now.
    fn blob_now(&self, path: &str) -> Option<String> {
        let folder = windlass_beneath::Folder::open(self.workspace).ok()?;
        let path = Path::new(path);
        let bytes = match folder.look(path).ok()?.map(|found| found.kind) {
            None => return Some(CommittedFiles::default().blob("").to_owned()),
            Some(windlass_beneath::Kind::Link) => {
                folder.link_target(path).ok()?.into_os_string().into_encoded_bytes()
            }
            Some(_) => folder.read(path, BYTES_MAX).ok()?,
        };
        self.git.blob_of(bytes).ok()
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
