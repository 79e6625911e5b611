//! `windlass install` and `windlass uninstall`: hooks in the settings of coding agents.

mod codex;
mod core;
mod place;
mod show;
mod trusting;

use std::fs::File;
use std::path::{Path, PathBuf};

use windlass_hooks::{
    Client, Content, InstallError, Removal, Scope, Trust, folder_trust_file,
    install as installed_bytes, uninstall as removal_of,
};
use windlass_kernel::Code;

use self::core::{core_agents, tell_loop, without_agents};
use self::place::Place;
use self::show::{describe, show};
use self::trusting::Trusting;
use crate::args::Install;
use crate::client_file::{ClientFile, folder_of};
use crate::commands::confirm;
use crate::failure::{CommandResult, Failure};
use crate::installed::{self, Installation, InstalledFile};
use crate::output::{Output, sanitize};
use crate::session_loop;

/// What becomes of a file of a client.
struct Change {
    file: ClientFile,
    /// What it gets; nothing if it is deleted.
    after: Option<Vec<u8>>,
    /// The folders that are made for it, outermost first.
    folders: Vec<PathBuf>,
    /// Whether ours is taken out of it.
    is_removal: bool,
}

impl Change {
    fn new(file: ClientFile, after: Option<Vec<u8>>) -> Self {
        let folders = if after.is_some() { file.missing_folders() } else { Vec::new() };
        Self { file, after, folders, is_removal: false }
    }

    fn removal(file: ClientFile, after: Option<Vec<u8>>) -> Self {
        Self { is_removal: true, ..Self::new(file, after) }
    }

    fn is_none(&self) -> bool {
        self.file.bytes == self.after
    }
}

/// Adds our hooks to a client's settings.
pub fn install(named: Option<&Path>, options: &Install, output: &Output) -> CommandResult {
    let place = Place::find(named, options)?;
    let _lock = installed::lock(&place.state)?;
    let mut clients = Some(installed::lock_clients()?);
    place.require_once()?;
    let old = installed::read(&place.state, place.client, place.scope)?;
    let (path, content) = place.hook_file()?;
    require_same_place(&place, old.as_ref(), &path)?;
    let mut record = Installation {
        client: place.client,
        scope: place.scope,
        binary: place.binary.as_str().to_owned(),
        files: Vec::new(),
        folders: old.iter().flat_map(|old| moved_folders(old, &path)).collect(),
    };
    let hooks = place.read(&path)?;
    let mut changes = vec![add(&mut record, old.as_ref(), hooks, &content, None)?];
    if let Some(reason) = installed::disabled_elsewhere(&record, &place.root) {
        let message = format!("hooks would not run: {reason}");
        return Err(Failure::new(Code::ConfigInvalid, message)
            .hint("take that setting out, then run the command again"));
    }
    let mut trust = match (place.client, place.scope) {
        (Client::Codex, _) => Some(Trusting::find(&place, &path, &content)?),
        (Client::Gemini, Scope::Project) => {
            changes.push(trusted_folder(&place, &mut record, old.as_ref())?);
            None
        }
        (Client::Gemini, Scope::User) | (Client::Claude | Client::OpenCode, _) => None,
    };
    if let (Some(trust), Some(hooks)) = (&mut trust, changes.first()) {
        trust.keep(&mut record, old.as_ref(), hooks)?;
        // If the hooks are there, Codex can be asked about them at once.
        let added = hooks.is_none().then(|| trust.add(&mut record, old.as_ref())).transpose()?;
        changes.extend(added.flatten());
    }
    let is_core = options.session_loop.is_some();
    if is_core {
        changes.extend(core_agents(&place, &mut record, old.as_ref())?);
    } else {
        changes.extend(without_agents(&place, &record, old.as_ref())?);
    }
    place.warn(output);
    let has_core = is_core || place.has_other_core()?;
    tell_loop(&place, has_core, output);
    if changes.iter().all(Change::is_none) {
        if !options.dry_run {
            installed::write(&place.state, &record)?;
            session_loop::set_core(&place.state, place.client, has_core)?;
        }
        let said = "nothing to change: the hooks are there";
        return say(&place, &changes, trust.as_ref(), said, output);
    }
    if let Some(trust) = trust.as_ref().filter(|_| !output.json) {
        trust.announce(output);
    }
    if !agreed(&place, &changes, options, "Install these hooks?", &mut clients, output)? {
        return Ok(u8::from(!options.dry_run));
    }
    with_undo(&place, old.as_ref(), &mut changes, |changes| {
        installed::write(&place.state, &record)?;
        put(changes)?;
        session_loop::set_core(&place.state, place.client, has_core)?;
        let Some(trust) = trust.as_mut() else { return Ok(()) };
        if let Some(change) = trust.add(&mut record, old.as_ref())? {
            installed::write(&place.state, &record)?;
            changes.push(change);
            put(changes.get(changes.len() - 1..).unwrap_or(&[]))?;
        }
        trust.require()
    })?;
    let said = format!("installed: {} asks Windlass before it uses a tool", place.client.as_str());
    say(&place, &changes, trust.as_ref(), &said, output)
}

/// Tells Gemini CLI to trust the project's folder: in others it starts no hooks.
fn trusted_folder(
    place: &Place,
    record: &mut Installation,
    old: Option<&Installation>,
) -> Result<Change, Failure> {
    let folder = place.root_text()?;
    let trust = Trust { hooks: Vec::new(), project: Some(folder.to_owned()) };
    let file = folder_trust_file(folder);
    let path = folder_of(file.root, &place.root)?.join(file.path);
    add(record, old, ClientFile::read(&path, None)?, &file.content, Some(trust))
}

/// Adds our part to a file and to the record of the installation.
fn add(
    record: &mut Installation,
    old: Option<&Installation>,
    file: ClientFile,
    content: &Content,
    trust: Option<Trust>,
) -> Result<Change, Failure> {
    let after = installed_bytes(content, file.bytes.as_deref());
    let after = after.map_err(|error| refused(&file.path, record.client, &error))?;
    let part = if trust.is_some() { Installation::trust } else { Installation::hooks };
    let before = original(old, part, &file)?;
    record.files.push(InstalledFile {
        path: file.path.clone(),
        before: before.map(|bytes| text_of(&bytes)).transpose()?,
        installed: text_of(&after)?,
        trust,
        whole: false,
    });
    let change = Change::new(file, Some(after));
    for folder in &change.folders {
        if !record.folders.contains(folder) {
            record.folders.push(folder.clone());
        }
    }
    Ok(change)
}

/// Takes our hooks out of a client's settings.
pub fn uninstall(named: Option<&Path>, options: &Install, output: &Output) -> CommandResult {
    let place = Place::find(named, options)?;
    let _lock = installed::lock(&place.state)?;
    let mut clients = Some(installed::lock_clients()?);
    let old = installed::read(&place.state, place.client, place.scope)?;
    let mut changes = match &old {
        Some(old) => {
            // Trust goes before what is trusted.
            let files = old.files.iter().rev();
            files.map(|file| removal(&place, old, file)).collect::<Result<_, _>>()?
        }
        None => vec![removal_without_record(&place)?],
    };
    let has_core = place.has_other_core()?;
    tell_loop(&place, has_core, output);
    if changes.iter().all(Change::is_none) {
        if !options.dry_run {
            session_loop::set_core(&place.state, place.client, has_core)?;
            forget(&place, old.as_ref())?;
        }
        let said = "nothing to change: there are no hooks of ours";
        return say(&place, &changes, None, said, output);
    }
    if !agreed(&place, &changes, options, "Take these hooks out?", &mut clients, output)? {
        return Ok(u8::from(!options.dry_run));
    }
    with_undo(&place, old.as_ref(), &mut changes, |changes| put(changes))?;
    session_loop::set_core(&place.state, place.client, has_core)?;
    forget(&place, old.as_ref())?;
    let said = format!("taken out: {} no longer asks Windlass", place.client.as_str());
    say(&place, &changes, None, &said, output)
}

/// Shows what would change, and asks whether it should.
fn agreed(
    place: &Place,
    changes: &[Change],
    options: &Install,
    question: &str,
    clients: &mut Option<File>,
    output: &Output,
) -> Result<bool, Failure> {
    if output.json && options.dry_run {
        output.value(&describe(place, changes, false))?;
    } else if !output.json {
        show(changes, output);
    }
    if options.dry_run {
        return Ok(false);
    }
    if !options.yes {
        // Nobody else waits for the answer.
        drop(clients.take());
        if !confirm(question, "--yes", output)? {
            output.note("nothing was changed");
            return Ok(false);
        }
        *clients = Some(installed::lock_clients()?);
    }
    // What was shown is what is changed.
    changes.iter().try_for_each(|change| change.file.require_unchanged())?;
    Ok(true)
}

/// Says what was done; hooks that Codex would skip are a failure.
fn say(
    place: &Place,
    changes: &[Change],
    trust: Option<&Trusting<'_>>,
    said: &str,
    output: &Output,
) -> CommandResult {
    if output.json {
        output.value(&describe(place, changes, true))?;
    } else {
        output.line(said);
        let (kept, changed): (Vec<_>, Vec<_>) = changes.iter().partition(|change| change.is_none());
        // If nothing changed, these are the files that were looked at.
        let named = if changed.is_empty() { &kept } else { &changed };
        for change in named {
            output.line(&format!("  {}", change.file.path.display()));
        }
        for change in kept.iter().filter(|change| {
            !changed.is_empty() && change.is_removal && change.file.bytes.is_some()
        }) {
            let path = sanitize(&change.file.path.display().to_string());
            output.note(&format!("left as it is, since it was changed: {path}"));
        }
    }
    trust.map_or(Ok(()), Trusting::require_program)?;
    Ok(0)
}

/// Writes the files that change.
fn put(changes: &[Change]) -> Result<(), Failure> {
    let mut changed = changes.iter().filter(|change| !change.is_none());
    changed.try_for_each(|change| change.file.put(change.after.as_deref()))
}

/// Does what changes files and records, or nothing: if it fails, everything is as it was.
fn with_undo(
    place: &Place,
    old: Option<&Installation>,
    changes: &mut Vec<Change>,
    work: impl FnOnce(&mut Vec<Change>) -> Result<(), Failure>,
) -> Result<(), Failure> {
    work(changes).inspect_err(|_| {
        // Best effort: the original failure is reported.
        for change in changes.iter().filter(|change| !change.is_none()) {
            drop(change.file.put(change.file.bytes.as_deref()));
            for folder in change.folders.iter().rev() {
                drop(std::fs::remove_dir(folder));
            }
        }
        drop(match old {
            Some(old) => installed::write(&place.state, old),
            None => installed::remove(&place.state, place.client, place.scope),
        });
    })
}

/// Removes the record of an installation, and the folders that were made for it if they are empty.
fn forget(place: &Place, old: Option<&Installation>) -> Result<(), Failure> {
    let (hooks, _) = place.hook_file()?;
    let mut folders: Vec<PathBuf> = old.iter().flat_map(|old| moved_folders(old, &hooks)).collect();
    while let Some(folder) = folders.pop() {
        // One with files of others stays.
        drop(std::fs::remove_dir(folder));
    }
    installed::remove(&place.state, place.client, place.scope)
}

/// The folders that were made for an installation, where they are now.
fn moved_folders(old: &Installation, hooks: &Path) -> Vec<PathBuf> {
    old.folders.iter().map(|folder| old.moved(folder, hooks)).collect()
}

/// Fails if the hooks were installed into another file, because a variable names another folder of the client now.
fn require_same_place(
    place: &Place,
    old: Option<&Installation>,
    path: &Path,
) -> Result<(), Failure> {
    // A project may have been moved, and its file with it.
    let old = old.filter(|_| place.scope == Scope::User).and_then(Installation::hooks);
    let Some(old) = old.filter(|old| old.path != path) else { return Ok(()) };
    let message = format!(
        "the hooks of {} are installed in `{}`, not in `{}`",
        place.client.as_str(),
        old.path.display(),
        path.display()
    );
    let (client, scope) = (place.client.as_str(), place.scope.as_str());
    Err(Failure::new(Code::RequestInvalid, message)
        .hint(format!("take them out first: `windlass uninstall {client} --{scope}`")))
}

/// What a file is without our hooks, to be given back when they are taken out.
fn original(
    old: Option<&Installation>,
    part: fn(&Installation) -> Option<&InstalledFile>,
    file: &ClientFile,
) -> Result<Option<Vec<u8>>, Failure> {
    let recorded = old.and_then(|old| Some((old, part(old)?)));
    let Some((old, recorded)) = recorded else { return Ok(file.bytes.clone()) };
    if file.bytes.as_deref() == Some(recorded.installed.as_bytes()) {
        return Ok(recorded.before.clone().map(String::into_bytes));
    }
    // It was changed since, and the changes are the user's.
    without_ours(old, recorded, file)
}

/// What is left of a file without our hooks.
fn without_ours(
    old: &Installation,
    recorded: &InstalledFile,
    file: &ClientFile,
) -> Result<Option<Vec<u8>>, Failure> {
    let Some(now) = &file.bytes else { return Ok(None) };
    let before = recorded.before.as_deref().map(str::as_bytes);
    let removal = old
        .content(recorded)
        .and_then(|content| removal_of(&content, now, before, recorded.installed.as_bytes()));
    let removal = removal.map_err(|error| refused(&file.path, old.client, &error))?;
    Ok(left(removal, now))
}

fn left(removal: Removal, now: &[u8]) -> Option<Vec<u8>> {
    match removal {
        Removal::Unchanged => Some(now.to_vec()),
        Removal::Write(bytes) => Some(bytes),
        Removal::Delete => None,
    }
}

fn removal(place: &Place, old: &Installation, recorded: &InstalledFile) -> Result<Change, Failure> {
    let file = match (&recorded.trust, place.scope) {
        _ if recorded.whole => place.read(&old.moved(&recorded.path, &place.hook_file()?.0))?,
        (None, Scope::Project) => place.read(&place.hook_file()?.0)?,
        (Some(_), _) | (None, Scope::User) => ClientFile::read(&recorded.path, None)?,
    };
    let after = without_ours(old, recorded, &file)?;
    Ok(Change::removal(file, after))
}

/// Takes out hooks that another project or an older state installed.
fn removal_without_record(place: &Place) -> Result<Change, Failure> {
    let (path, content) = place.hook_file()?;
    let file = place.read(&path)?;
    let after = match &file.bytes {
        None => None,
        Some(now) => {
            let removal = removal_of(&content, now, None, &[]);
            left(removal.map_err(|error| refused(&path, place.client, &error))?, now)
        }
    };
    Ok(Change::new(file, after))
}

fn text_of(bytes: &[u8]) -> Result<String, Failure> {
    String::from_utf8(bytes.to_vec()).map_err(|error| Failure::of(Code::Internal, &error))
}

/// The failure for a file that is not edited.
fn refused(path: &Path, client: Client, error: &InstallError) -> Failure {
    let code = match error {
        InstallError::Unsound => Code::Internal,
        InstallError::Binary { .. }
        | InstallError::TooLarge { .. }
        | InstallError::NotUtf8 { .. }
        | InstallError::ByteOrderMark
        | InstallError::Syntax { .. }
        | InstallError::Comment { .. }
        | InstallError::DuplicateKey { .. }
        | InstallError::WrongType { .. }
        | InstallError::Disabled { .. }
        | InstallError::Foreign => Code::ConfigInvalid,
    };
    let client = client.as_str();
    let hint = match error {
        InstallError::Disabled { .. } => {
            format!("with that setting {client} starts no hooks; take it out first")
        }
        InstallError::Foreign => "move it away, then run the command again".to_owned(),
        InstallError::Binary { .. } => "install windlass in another folder".to_owned(),
        InstallError::TooLarge { .. }
        | InstallError::NotUtf8 { .. }
        | InstallError::ByteOrderMark
        | InstallError::Syntax { .. }
        | InstallError::Comment { .. }
        | InstallError::DuplicateKey { .. }
        | InstallError::WrongType { .. }
        | InstallError::Unsound => "correct the file, then run the command again".to_owned(),
    };
    let message = format!("`{}` is left as it is: {error}", path.display());
    Failure::new(code, message).hint(hint)
}
