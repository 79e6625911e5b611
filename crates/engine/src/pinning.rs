//! Which files of a run's base a program gets, and the hook that a commit has to pass.

use std::collections::BTreeSet;
use std::path::Path;

use windlass_kernel::Code;
use windlass_kernel::run::{
    Base, NamedAs, NamedPath, Run, is_measuring, is_measuring_folder, named_paths,
    pinned_path_error,
};
use windlass_workspace::{CommitId, Git, GitCause, GitError, Hook, PinnedKind, PinnedPath};

use crate::error::EngineError;
use crate::git_repository::{git_of, recorded_commit};
use crate::own_commit::tree_to_commit;
use crate::repository::{CommitHook, PinRequest};

/// The hook that a commit has to pass.
const HOOK: &str = "pre-commit";

fn unavailable(message: String) -> EngineError {
    EngineError::Requirement { code: Code::PinnedUnavailable, message }
}

/// Finds the pinned files of a program, outermost first and none inside another.
pub(crate) fn pinned_paths(request: &PinRequest<'_>) -> Result<Vec<PinnedPath>, EngineError> {
    let PinRequest { workspace, base, argv, written } = *request;
    let Some(base) = base else {
        return match written.and_then(<[String]>::first) {
            Some(path) => Err(unavailable(format!(
                "`{path}` cannot be pinned: the project is not a git repository with a commit"
            ))),
            None => Ok(Vec::new()),
        };
    };
    let git = Git::new(workspace);
    let commit = recorded_commit(&base.commit)?;
    let found = match written {
        Some(paths) => {
            let mut found = Vec::new();
            for path in paths {
                found.extend(look_up(&git, &commit, path)?);
            }
            found
        }
        None => named_files(&git, &commit, argv)?,
    };
    Ok(outermost(found))
}

fn look_up(git: &Git, commit: &CommitId, path: &str) -> Result<Vec<PinnedPath>, EngineError> {
    if let Some(why) = pinned_path_error(path) {
        return Err(unavailable(format!("`{path}` cannot be pinned: {why}")));
    }
    git.pinned(commit, path).map_err(|error| match error {
        GitError { cause: GitCause::Refused(why), .. } => unavailable(why),
        error => error.into(),
    })
}

/// The files that measure, of those that a command names: its programs and scripts, tests, and build
/// settings. What else it names, such as a report or a folder of sources, is what it measures.
fn named_files(
    git: &Git,
    commit: &CommitId,
    argv: &[String],
) -> Result<Vec<PinnedPath>, EngineError> {
    let named = named_paths(argv);
    let paths: Vec<String> = named.iter().map(|named| named.path.clone()).collect();
    let existing: BTreeSet<String> = git.paths_in(commit, &paths)?.into_iter().collect();
    let (mut found, mut scripts) = (Vec::new(), BTreeSet::new());
    for NamedPath { path, command, role } in named {
        if !existing.contains(&path) {
            continue;
        }
        let pinned = look_up(git, commit, &path)?;
        let measures = match pinned.last().map(|last| last.kind) {
            Some(PinnedKind::Folder) => is_measuring_folder(&path),
            Some(PinnedKind::File { executable }) => {
                let is_script = role == NamedAs::Script && scripts.insert(command);
                is_script || executable || role == NamedAs::Program || is_measuring(&path)
            }
            Some(PinnedKind::Link) | None => true,
        };
        if measures {
            found.extend(pinned);
        }
    }
    Ok(found)
}

/// Sorts them, and leaves out those inside another.
fn outermost(mut found: Vec<PinnedPath>) -> Vec<PinnedPath> {
    found.sort_by(|one, other| one.path.cmp(&other.path));
    found.dedup();
    let mut outer: Vec<PinnedPath> = Vec::new();
    for pinned in found {
        let holds = |outer: &PinnedPath| {
            outer.kind == PinnedKind::Folder && pinned.path.starts_with(&outer.path)
        };
        if !outer.iter().any(holds) {
            outer.push(pinned);
        }
    }
    outer
}

/// Finds the repository's own hook, and what it is to be shown.
pub(crate) fn commit_hook(workspace: &Path, run: &Run) -> Result<CommitHook, EngineError> {
    let git = git_of(workspace, run);
    let Hook { path, in_worktree, is_outside, runs } = git.hook(HOOK)?;
    if is_outside && runs {
        let why = format!(
            "the hook `{}` lies outside of the repository, where a cell does not reach, and was not run",
            path.display()
        );
        return Ok(CommitHook::Refused { why });
    }
    if is_outside || (in_worktree.is_none() && !runs) {
        return Ok(CommitHook::None);
    }
    let top = git.top_level()?;
    let base = run.started.as_ref().and_then(|started| started.base.as_ref());
    let pinned = match (&in_worktree, base) {
        (Some(inside), Some(base)) => in_base(&top, workspace, inside, base)?,
        (_, _) => Vec::new(),
    };
    // A hook of the base must run, even if the run has removed it.
    let is_program = |pinned: &PinnedPath| pinned.kind == PinnedKind::File { executable: true };
    if !(runs || pinned.iter().any(is_program)) {
        return Ok(CommitHook::None);
    }
    match tree_to_commit(&git, run)? {
        None => Ok(CommitHook::None),
        Some(tree) => Ok(CommitHook::Run { program: path, cwd: top, pinned, tree }),
    }
}

/// The hook as the base has it; nothing if the base does not have it, or commands cannot change it.
fn in_base(
    top: &Path,
    workspace: &Path,
    inside: &Path,
    base: &Base,
) -> Result<Vec<PinnedPath>, EngineError> {
    let inside = top.join(inside);
    let real = workspace.canonicalize().unwrap_or_else(|_| workspace.to_owned());
    let Some(path) = inside.strip_prefix(real).ok().and_then(Path::to_str) else {
        return Ok(Vec::new());
    };
    let argv = [path.to_owned()];
    let request = PinRequest { workspace, base: Some(base), argv: &argv, written: None };
    pinned_paths(&request)
}
