//! `windlass init`.

use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use serde_json::json;
use windlass_kernel::Code;
use windlass_policy::PolicySet;
use windlass_store_sqlite::SqliteStore;

use crate::args::Init;
use crate::failure::{CommandResult, Failure};
use crate::output::{Output, Style};
use crate::project::{DATABASE, FOLDER, user_root};

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
    ("loops/driver.md", include_str!("../../../../loops/driver.md")),
    ("loops/driver/intents.toml", include_str!("../../../../loops/driver/intents.toml")),
    ("loops/driver/models.toml", include_str!("../../../../loops/driver/models.toml")),
    ("loops/driver/profiles.toml", include_str!("../../../../loops/driver/profiles.toml")),
    ("loops/driver/routing.toml", include_str!("../../../../loops/driver/routing.toml")),
    ("loops/driver/verification.toml", include_str!("../../../../loops/driver/verification.toml")),
    ("agents/advocate.md", include_str!("../../../../loops/agents/advocate.md")),
    ("agents/architect.md", include_str!("../../../../loops/agents/architect.md")),
    ("agents/builder.md", include_str!("../../../../loops/agents/builder.md")),
    ("agents/critic.md", include_str!("../../../../loops/agents/critic.md")),
    ("agents/data-engineer.md", include_str!("../../../../loops/agents/data-engineer.md")),
    ("agents/designer.md", include_str!("../../../../loops/agents/designer.md")),
    ("agents/developer.md", include_str!("../../../../loops/agents/developer.md")),
    ("agents/documenter.md", include_str!("../../../../loops/agents/documenter.md")),
    ("agents/executor.md", include_str!("../../../../loops/agents/executor.md")),
    ("agents/hygienist.md", include_str!("../../../../loops/agents/hygienist.md")),
    ("agents/qa-engineer.md", include_str!("../../../../loops/agents/qa-engineer.md")),
    ("agents/reviewer.md", include_str!("../../../../loops/agents/reviewer.md")),
    ("agents/security-engineer.md", include_str!("../../../../loops/agents/security-engineer.md")),
    (".gitignore", include_str!("../../../../policies/gitignore")),
];

/// The name prefix of a project folder under construction.
const DRAFT: &str = ".windlass.new-";

/// Creates a project. The folder is built under a temporary name and renamed, so that an incomplete one
/// never appears.
pub fn run(named: Option<&Path>, options: &Init, output: &Output) -> CommandResult {
    let root = root(named, options)?;
    let folder = root.join(FOLDER);
    // An empty folder may be replaced; `remove_dir` removes nothing else.
    if folder.is_dir() && std::fs::remove_dir(&folder).is_err() {
        return create_missing_journal(&root, &folder, output);
    }
    if folder.exists() {
        let message = format!("`{}` exists and is not a folder", folder.display());
        return Err(Failure::new(Code::FileUnreadable, message)
            .hint("move it away, then run `windlass init` again"));
    }
    let draft = root.join(format!("{DRAFT}{}", std::process::id()));
    let made = write_files(&draft).and_then(|()| {
        std::fs::rename(&draft, &folder).map_err(|error| cannot_write(&folder, &error))
    });
    if let Err(failure) = made {
        // Best effort: the original failure is reported.
        drop(std::fs::remove_dir_all(&draft));
        // Another process may have been faster and have removed this draft.
        return Err(if folder.is_dir() { exists(&root) } else { failure });
    }
    remove_stale_drafts(&root);
    if output.json {
        output.value(&json!({ "root": root, "folder": folder }))?;
    } else {
        output.line(&format!("{} {}", output.paint("created", Style::Good), folder.display()));
        output.line("  tools.toml           the tool registry");
        output.line("  policy/default.toml  the policy rules, with tested examples");
        output.line("  policy/governance/   the governance rules for the work of phases");
        output.line("  loops/, agents/      the loops, and the agents that do the work");
        output.line("  config.toml          settings");
        output.line("  windlass.db          the journal");
        output.line(
            "\nCommit the folder; its .gitignore excludes the journal and other recorded data.",
        );
        output.line("Next: windlass call run shell/read --args '{\"line\":\"ls\"}'");
    }
    Ok(0)
}

fn exists(root: &Path) -> Failure {
    let message = format!("`{}` already has a project", root.display());
    Failure::new(Code::ProjectExists, message)
}

/// Creates the journal of a project that has none, such as a fresh clone.
fn create_missing_journal(root: &Path, folder: &Path, output: &Output) -> CommandResult {
    let parts = ["", "-wal", "-shm"].map(|end| folder.join(format!("{DATABASE}{end}")));
    if parts.iter().any(|path| path.exists()) {
        return Err(exists(root));
    }
    let path = folder.join(DATABASE);
    create_journal(&path)?;
    if output.json {
        output.value(&json!({ "root": root, "folder": folder }))?;
    } else {
        output.line(&format!("{} {}", output.paint("created", Style::Good), path.display()));
        output.line("  an empty journal; the project's configuration is unchanged");
    }
    Ok(0)
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
            let root = user_root().ok_or_else(|| {
                Failure::new(Code::FileUnreadable, "neither XDG_DATA_HOME nor HOME is set")
            })?;
            std::fs::create_dir_all(&root).map_err(|error| cannot_write(&root, &error))?;
            root
        }
        (None, false) => PathBuf::from("."),
    };
    root.canonicalize().map_err(|error| cannot_write(&root, &error))
}

fn write_files(draft: &Path) -> Result<(), Failure> {
    let mut files = std::collections::BTreeMap::new();
    for (name, text) in FILES {
        let path = draft.join(name);
        let folder = path.parent().unwrap_or(draft);
        std::fs::create_dir_all(folder).map_err(|error| cannot_write(folder, &error))?;
        std::fs::write(&path, text).map_err(|error| cannot_write(&path, &error))?;
        files.insert((*name).to_owned(), text.as_bytes().to_vec());
    }
    files.remove(".gitignore");
    PolicySet::load(&files)?;
    create_journal(&draft.join(DATABASE))
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

fn cannot_write(path: &Path, error: &std::io::Error) -> Failure {
    use std::io::ErrorKind as Kind;
    let kind = error.kind();
    let code = if matches!(kind, Kind::ReadOnlyFilesystem | Kind::PermissionDenied) {
        Code::StoreReadOnly
    } else if matches!(kind, Kind::StorageFull | Kind::QuotaExceeded) {
        Code::StoreFull
    } else {
        Code::FileUnreadable
    };
    Failure::new(code, format!("`{}` cannot be created: {error}", path.display()))
}
