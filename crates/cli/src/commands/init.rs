//! `windlass init`.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use windlass_beneath::{Access, Folder};
use windlass_kernel::Code;
use windlass_policy::PolicySet;
use windlass_store_sqlite::SqliteStore;

use crate::args::Init;
use crate::failure::{CommandResult, Failure};
use crate::output::{Output, Style, sanitize};
use crate::people::AccountPeople;
use crate::project::{DATABASE, FOLDER};
use crate::state::{
    self, Binding, ProjectId, ProjectRecord, StateFolder, StateLock, StateRoot, cannot_write,
    write_id,
};
use crate::trust::TrustRecord;
use crate::user_folders;

/// The files of a new project.
const FILES: &[(&str, &str)] = &[
    ("config.toml", include_str!("../../../../policies/config.toml")),
    ("tools.toml", include_str!("../../../../policies/tools.toml")),
    ("policy/default.toml", include_str!("../../../../policies/default.toml")),
    (
        "policy/governance/universal.toml",
        include_str!("../../../../policies/governance/universal.toml"),
    ),
    ("loops/spine.md", include_str!("../../../../loops/spine.md")),
    ("loops/phases.md", include_str!("../../../../loops/phases.md")),
    ("loops/core.md", include_str!("../../../../loops/core.md")),
    ("core/AXIOMS.md", include_str!("../../../../loops/core/AXIOMS.md")),
    ("core/hydration-context.md", include_str!("../../../../loops/core/hydration-context.md")),
    ("workflows/WORKFLOWS.md", include_str!("../../../../loops/workflows/WORKFLOWS.md")),
    (
        "workflows/batch-processing.md",
        include_str!("../../../../loops/workflows/batch-processing.md"),
    ),
    ("workflows/debugging.md", include_str!("../../../../loops/workflows/debugging.md")),
    ("workflows/direct-skill.md", include_str!("../../../../loops/workflows/direct-skill.md")),
    ("workflows/feature-dev.md", include_str!("../../../../loops/workflows/feature-dev.md")),
    ("workflows/minor-edit.md", include_str!("../../../../loops/workflows/minor-edit.md")),
    ("workflows/qa-demo.md", include_str!("../../../../loops/workflows/qa-demo.md")),
    (
        "workflows/simple-question.md",
        include_str!("../../../../loops/workflows/simple-question.md"),
    ),
    ("workflows/spec-review.md", include_str!("../../../../loops/workflows/spec-review.md")),
    ("workflows/tdd-cycle.md", include_str!("../../../../loops/workflows/tdd-cycle.md")),
    ("loops/insights.md", include_str!("../../../../loops/insights.md")),
    ("loops/driver.md", include_str!("../../../../loops/driver.md")),
    ("loops/driver/intents.toml", include_str!("../../../../loops/driver/intents.toml")),
    ("loops/driver/models.toml", include_str!("../../../../loops/driver/models.toml")),
    ("loops/driver/profiles.toml", include_str!("../../../../loops/driver/profiles.toml")),
    ("loops/driver/routing.toml", include_str!("../../../../loops/driver/routing.toml")),
    ("loops/driver/verification.toml", include_str!("../../../../loops/driver/verification.toml")),
    ("agents/advocate.md", include_str!("../../../../loops/agents/advocate.md")),
    ("agents/analyst.md", include_str!("../../../../loops/agents/analyst.md")),
    ("agents/architect.md", include_str!("../../../../loops/agents/architect.md")),
    ("agents/builder.md", include_str!("../../../../loops/agents/builder.md")),
    ("agents/critic.md", include_str!("../../../../loops/agents/critic.md")),
    ("agents/custodiet.md", include_str!("../../../../loops/agents/custodiet.md")),
    ("agents/data-engineer.md", include_str!("../../../../loops/agents/data-engineer.md")),
    ("agents/designer.md", include_str!("../../../../loops/agents/designer.md")),
    ("agents/developer.md", include_str!("../../../../loops/agents/developer.md")),
    ("agents/documenter.md", include_str!("../../../../loops/agents/documenter.md")),
    ("agents/executor.md", include_str!("../../../../loops/agents/executor.md")),
    ("agents/framework.md", include_str!("../../../../loops/agents/framework.md")),
    ("agents/helper.md", include_str!("../../../../loops/agents/helper.md")),
    ("agents/hygienist.md", include_str!("../../../../loops/agents/hygienist.md")),
    ("agents/prompt-hydrator.md", include_str!("../../../../loops/agents/prompt-hydrator.md")),
    ("agents/qa-engineer.md", include_str!("../../../../loops/agents/qa-engineer.md")),
    ("agents/qa-verifier.md", include_str!("../../../../loops/agents/qa-verifier.md")),
    ("agents/reviewer.md", include_str!("../../../../loops/agents/reviewer.md")),
    ("agents/security-engineer.md", include_str!("../../../../loops/agents/security-engineer.md")),
    ("agents/skeptic.md", include_str!("../../../../loops/agents/skeptic.md")),
    ("agents/worker.md", include_str!("../../../../loops/agents/worker.md")),
];

/// The files of a new project, by their paths in its folder.
pub fn shipped_files() -> BTreeMap<String, Vec<u8>> {
    FILES.iter().map(|(path, text)| ((*path).to_owned(), text.as_bytes().to_vec())).collect()
}

/// The file that keeps what belongs to one machine out of git.
const GITIGNORE: &str = include_str!("../../../../policies/gitignore");

/// The permissions of the files of a project, less what the user's mask takes away.
const FILE_MODE: u32 = 0o666;
/// The name prefix of a project folder under construction.
const DRAFT: &str = ".windlass.new-";

/// Creates a project: its configuration, and its state outside of it. Both folders are built under
/// temporary names and renamed, the state first, so that an incomplete one never appears; what a crash in
/// between leaves is an unused state folder, which the next `init` here removes.
pub fn run(named: Option<&Path>, options: &Init, output: &Output) -> CommandResult {
    let root = root(named, options)?;
    let folder = root.join(FOLDER);
    let state = StateRoot::find()?;
    state.require_outside(&root)?;
    let lock = state.lock()?;
    if folder.is_symlink() {
        let message = format!("`{}` is a symbolic link", folder.display());
        return Err(Failure::new(Code::FileUnreadable, message)
            .hint("replace it by the folder that it leads to, then run `windlass init` again"));
    }
    // An empty folder may be replaced; `remove_dir` removes nothing else.
    if folder.is_dir() && std::fs::remove_dir(&folder).is_err() {
        return add_state(&root, &folder, options, &state, &lock, output);
    }
    if folder.exists() {
        let message = format!("`{}` exists and is not a folder", folder.display());
        return Err(Failure::new(Code::FileUnreadable, message)
            .hint("move it away, then run `windlass init` again"));
    }
    remove_unused_state(&root, options, &state, &lock)?;
    let record = ProjectRecord::of(&root, ProjectId::random()?)?;
    // A repository may have links under any name that can be foreseen.
    let place = Folder::open(&root).map_err(|error| cannot_write(&root, &error))?;
    let draft = place.make_draft_folder(DRAFT).map_err(|error| cannot_write(&folder, &error))?;
    let made = write_files(&place, &root.join(&draft), &record.id).and_then(|trusted| {
        let made = state.create(&lock, &record, |state| {
            create_journal(&state.join(DATABASE))?;
            // What `init` itself wrote needs no second look.
            trusted.write(state)
        })?;
        place.move_to(Path::new(&draft), &place, Path::new(FOLDER)).map_err(|error| {
            // Best effort: it is unused, so the next `init` would remove it.
            drop(state.remove(&lock, &made, |_| ()));
            cannot_write(&folder, &error)
        })?;
        Ok(made)
    });
    let made = match made {
        Ok(made) => made,
        Err(failure) => {
            // Best effort: the original failure is reported.
            drop(std::fs::remove_dir_all(root.join(&draft)));
            // A process with another state folder may have been faster and have removed this draft.
            return Err(if folder.is_dir() { exists(&root) } else { failure });
        }
    };
    remove_stale_drafts(&root);
    let decider = AccountPeople::open()?.add_user()?;
    if output.json {
        output.value(&describe(&root, &record.id, &made, true))?;
    } else {
        output.line(&format!("{} {}", output.paint("created", Style::Good), folder.display()));
        output.line("  tools.toml           the tool registry");
        output.line("  policy/default.toml  the policy rules, with tested examples");
        output.line("  policy/governance/   the governance rules for the work of phases");
        output.line("  loops/, agents/      the loops, and the agents that do the work");
        output.line("  workflows/, core/    the workflows, axioms and template of the core loop");
        output.line("  config.toml          settings");
        output.line(&format!("the journal is in {}", made.path.display()));
        if let Some(name) = decider {
            let name = sanitize(&name);
            output.line(&format!("decisions are signed by {name}; `windlass people` adds others"));
        }
        output.line("\nCommit the folder; its .gitignore excludes what belongs to this machine.");
        output.line("Next: windlass call run shell/read --args '{\"line\":\"ls\"}'");
    }
    Ok(0)
}

fn describe(root: &Path, id: &ProjectId, state: &StateFolder, trusted: bool) -> Value {
    let folder = root.join(FOLDER);
    json!({ "root": root, "folder": folder, "id": id, "state": state.path, "trusted": trusted })
}

fn exists(root: &Path) -> Failure {
    let message = format!("`{}` already has a project", root.display());
    Failure::new(Code::ProjectExists, message)
}

/// Creates the state of a project whose configuration is there, such as a fresh clone. The configuration
/// is not trusted by that.
fn add_state(
    root: &Path,
    folder: &Path,
    options: &Init,
    state: &StateRoot,
    lock: &StateLock,
    output: &Output,
) -> CommandResult {
    match state::open(root, folder) {
        Ok(found) if !options.new || found.join(DATABASE).exists() => return Err(exists(root)),
        Ok(_) => {}
        Err(failure) if failure.code() == Code::ProjectMissing => {
            remove_unused_state(root, options, state, lock)?;
        }
        Err(failure) if options.new && is_replaceable(failure.code()) => {}
        Err(failure) => return Err(failure),
    }
    let record = ProjectRecord::of(root, ProjectId::random()?)?;
    let made = state.create(lock, &record, |state| create_journal(&state.join(DATABASE)))?;
    let ignore = folder.join(".gitignore");
    let write = || {
        let folder = Folder::open(root)?.folder(Path::new(FOLDER))?;
        match create_file(&folder, Path::new(".gitignore"), GITIGNORE) {
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Ok(()),
            written => written,
        }
    };
    let written = write().map_err(|error: std::io::Error| cannot_write(&ignore, &error));
    if let Err(failure) = written.and_then(|()| write_id(folder, &record.id)) {
        // Best effort: it is unused, so the next `init` would remove it.
        drop(state.remove(lock, &made, |_| ()));
        return Err(failure);
    }
    if output.json {
        output.value(&describe(root, &record.id, &made, false))?;
    } else {
        let path = made.path.display();
        output.line(&format!("{} {path}", output.paint("created", Style::Good)));
        output.line("  an empty journal; the project's configuration is unchanged");
        output.line("Next: windlass trust, which shows what the configuration would start");
    }
    Ok(0)
}

/// Whether `init --new` may replace the id of a project with this problem.
const fn is_replaceable(code: Code) -> bool {
    matches!(
        code,
        Code::ProjectMoved | Code::ProjectCopied | Code::StateMissing | Code::StateDamaged
    )
}

/// Removes the state folders of this place that an interrupted `init` left: no project has their id, and
/// their journals are empty. One with entries is not replaced silently.
fn remove_unused_state(
    root: &Path,
    options: &Init,
    state: &StateRoot,
    lock: &StateLock,
) -> Result<(), Failure> {
    for found in state.folders()? {
        let Ok(record) = found.record() else { continue };
        if record.binding(root)? != Binding::Here {
            continue;
        }
        if found.is_unused()? {
            state.remove(lock, &found, |_| ())?;
        } else if !options.new {
            let message = format!(
                "`{}` has the journal of a project that was in this folder",
                found.path.display()
            );
            let again = if root.join(FOLDER).is_dir() {
                "`windlass state move` uses it again; "
            } else {
                ""
            };
            return Err(Failure::new(Code::ProjectMoved, message)
                .hint(format!("{again}`windlass init --new` starts with an empty journal")));
        }
    }
    Ok(())
}

/// Removes the drafts of processes that died. A live process's draft goes too: this one has won.
fn remove_stale_drafts(root: &Path) {
    for file in std::fs::read_dir(root).into_iter().flatten().flatten() {
        if file.file_name().to_string_lossy().starts_with(DRAFT) {
            // A draft that cannot be removed does no harm.
            drop(std::fs::remove_dir_all(file.path()));
        }
    }
}

fn root(named: Option<&Path>, options: &Init) -> Result<PathBuf, Failure> {
    let root = match (named, options.user) {
        (Some(root), false) => root.to_owned(),
        (_, true) => {
            let root = user_folders::project().ok_or_else(|| {
                Failure::new(Code::FileUnreadable, "neither XDG_DATA_HOME nor HOME is set")
            })?;
            std::fs::create_dir_all(&root).map_err(|error| cannot_write(&root, &error))?;
            root
        }
        (None, false) => PathBuf::from("."),
    };
    root.canonicalize().map_err(|error| cannot_write(&root, &error))
}

/// Writes the configuration into a folder of `place`; returns the record of its trust.
fn write_files(place: &Folder, draft: &Path, id: &ProjectId) -> Result<TrustRecord, Failure> {
    let mut files = std::collections::BTreeMap::new();
    let below = Path::new(draft.file_name().unwrap_or_default());
    for (name, text) in FILES.iter().chain(&[(".gitignore", GITIGNORE)]) {
        let path = below.join(name);
        let write = || {
            drop(place.make_folder(path.parent().unwrap_or(below))?);
            create_file(place, &path, text)
        };
        write().map_err(|error: std::io::Error| cannot_write(&draft.join(name), &error))?;
        files.insert((*name).to_owned(), text.as_bytes().to_vec());
    }
    write_id(draft, id)?;
    files.remove(".gitignore");
    PolicySet::load(&files)?;
    TrustRecord::of(&files)
}

fn create_file(folder: &Folder, path: &Path, text: &str) -> std::io::Result<()> {
    let mut file = folder.draft(path, Access::AtMost(FILE_MODE))?;
    file.write_all(text.as_bytes())?;
    file.create()
}

/// Creates an empty journal readable only by its owner: it will contain tool inputs and outputs.
fn create_journal(path: &Path) -> Result<(), Failure> {
    // SQLite gives its other files the permissions of this one.
    std::fs::OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(path)
        .map_err(|error| cannot_write(path, &error))?;
    SqliteStore::open(path, windlass_store_sqlite::Settings::default())?;
    Ok(())
}
