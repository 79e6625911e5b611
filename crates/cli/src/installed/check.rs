//! Whether hooks are still in the files of clients as they were installed.

use std::fmt;
use std::path::{Path, PathBuf};

use windlass_hooks::{
    Binary, Client, Content, FILE_BYTES_MAX, InstallState, Scope, Trust, plan, state, trust_file,
};

use super::{Installation, InstalledFile, asks_twice, read};
use crate::client_file::folder_of;
use crate::input;
use crate::output::sanitize;
use crate::project::Project;

/// Why the hooks of a client may not run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The client.
    pub client: Client,
    /// For whom the hooks were installed.
    pub scope: Scope,
    /// What is wrong.
    pub reason: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (client, scope) = (self.client.as_str(), self.scope.as_str());
        let reason = sanitize(&self.reason);
        write!(
            f,
            "the hooks of {client} are not as they were installed: {reason}; \
             `windlass install {client} --{scope}` installs them again"
        )
    }
}

/// An installation and what is wrong with it.
pub struct Checked {
    /// The client.
    pub client: Client,
    /// For whom.
    pub scope: Scope,
    /// The file that has the hooks.
    pub path: Option<PathBuf>,
    /// What is wrong with it; nothing, if it is as it was installed.
    pub problem: Option<Problem>,
}

/// All installations that hold in a project: its own and the user's.
pub fn all(project: &Project) -> Vec<Checked> {
    let mut states: Vec<PathBuf> = project.state().map(Path::to_owned).into_iter().collect();
    let user = Project::of_user();
    states.extend(user.and_then(|user| user.state().map(Path::to_owned).ok()));
    states.dedup();
    let mut found = Vec::new();
    for state in states {
        for client in Client::ALL {
            for scope in [Scope::Project, Scope::User] {
                found.extend(checked(&state, client, scope, Some(&project.root)));
            }
        }
    }
    for client in Client::ALL.into_iter().filter(|client| asks_twice(*client)) {
        let mut of_client = found.iter_mut().filter(|checked| checked.client == client);
        if let (Some(_), Some(second)) = (of_client.next(), of_client.next()) {
            let (client, scope) = (second.client, second.scope);
            let reason =
                "with those of the project it asks twice, and is refused; uninstall one of them";
            let twice = Problem { client, scope, reason: reason.to_owned() };
            second.problem = second.problem.take().or(Some(twice));
        }
    }
    found
}

/// What is wrong with the installations that hold in a project.
pub fn problems(project: &Project) -> Vec<Problem> {
    all(project).into_iter().filter_map(|checked| checked.problem).collect()
}

/// What is wrong with the installation of a client that is recorded in a state folder, for sessions in `project`. Reads
/// one record and the client's settings.
pub fn problem_of(state: &Path, client: Client, project: &Path) -> Option<String> {
    let scopes = [Scope::Project, Scope::User].into_iter();
    let mut found =
        scopes.filter_map(|scope| checked(state, client, scope, Some(project))?.problem);
    found.next().map(|problem| problem.to_string())
}

/// What in a file of settings switches the hooks of a client off.
pub fn switched_off(client: Client, path: &Path) -> Option<String> {
    let binary = Binary::new(&std::env::current_exe().ok()?.display().to_string()).ok()?;
    let content = plan(client, Scope::Project, &binary).into_iter().next()?.content;
    match state(&content, bytes_of(path).ok()?.as_deref()) {
        InstallState::Disabled { reason } => Some(format!("`{}`: {reason}", path.display())),
        InstallState::Installed | InstallState::Missing { .. } | InstallState::Changed { .. } => {
            None
        }
    }
}

/// Checks one installation; nothing if there is none. In a `project`, settings of others are looked at, too.
fn checked(state: &Path, client: Client, scope: Scope, project: Option<&Path>) -> Option<Checked> {
    let problem = |reason: String| Some(Problem { client, scope, reason });
    match read(state, client, scope) {
        Ok(None) => None,
        Ok(Some(record)) => {
            let reason = reason_of(&record).or_else(|| disabled_elsewhere(&record, project?));
            let path = record.hooks().map(|file| file.path.clone());
            Some(Checked { client, scope, path, problem: reason.and_then(problem) })
        }
        Err(failure) => {
            Some(Checked { client, scope, path: None, problem: problem(failure.summary()) })
        }
    }
}

/// What is wrong with an installation.
fn reason_of(record: &Installation) -> Option<String> {
    if !Path::new(&record.binary).is_file() {
        return Some(format!("they start `{}`, which is gone", record.binary));
    }
    if let Some(reason) = record.files.iter().find_map(|file| reason_of_file(record, file)) {
        return Some(reason);
    }
    (record.client == Client::Codex && record.trust().is_none())
        .then(|| "Codex does not trust them, and skips them without a word".to_owned())
}

fn reason_of_file(record: &Installation, file: &InstalledFile) -> Option<String> {
    let path = file.path.display();
    let now = match bytes_of(&file.path) {
        Ok(now) => now,
        Err(why) => return Some(why),
    };
    if now.as_deref() == Some(file.installed.as_bytes()) {
        return None;
    }
    let content = match record.content(file) {
        Ok(content) => content,
        Err(error) => return Some(error.to_string()),
    };
    match state(&content, now.as_deref()) {
        // What Codex trusts depends on the order of hooks in the file.
        InstallState::Installed if record.client == Client::Codex && file.trust.is_none() => {
            Some(format!("`{path}` has changed since Codex was told to trust it"))
        }
        InstallState::Installed => None,
        InstallState::Missing { events } if now.is_none() => {
            Some(format!("`{path}` is gone, and with it {}", events.join(", ")))
        }
        InstallState::Missing { events } => {
            Some(format!("`{path}` does not have {}", events.join(", ")))
        }
        InstallState::Changed { reason } | InstallState::Disabled { reason } => {
            Some(format!("`{path}`: {reason}"))
        }
    }
}

/// What is in a file; nothing if there is none.
fn bytes_of(path: &Path) -> Result<Option<Vec<u8>>, String> {
    // A path through something that is not a folder names no file.
    if !path.exists() {
        return Ok(None);
    }
    let bytes_max = u64::try_from(FILE_BYTES_MAX).unwrap_or(u64::MAX);
    input::read(path, bytes_max).map(Some).map_err(|failure| failure.summary())
}

/// What in other settings of the client switches hooks off.
pub fn disabled_elsewhere(record: &Installation, project: &Path) -> Option<String> {
    let binary = Binary::new(&record.binary).ok()?;
    switches(record.client, &binary, project).into_iter().find_map(|(path, content)| {
        match state(&content, bytes_of(&path).ok()?.as_deref()) {
            InstallState::Disabled { reason } => Some(format!("`{}`: {reason}", path.display())),
            InstallState::Installed
            | InstallState::Missing { .. }
            | InstallState::Changed { .. } => None,
        }
    })
}

/// The files in which a client's hooks can be switched off.
fn switches(client: Client, binary: &Binary, project: &Path) -> Vec<(PathBuf, Content)> {
    let mut files = plan(client, Scope::User, binary);
    files.extend(plan(client, Scope::Project, binary));
    let mut more: Vec<(&str, Content)> = Vec::new();
    match client {
        Client::Claude => {
            let settings = files.first().map(|file| file.content.clone());
            more.extend(settings.map(|content| (".claude/settings.local.json", content)));
        }
        Client::Codex => {
            let trust = trust_file(Trust::default());
            more.push((".codex/config.toml", trust.content.clone()));
            files.push(trust);
        }
        Client::Gemini | Client::OpenCode => {}
    }
    let files = files.into_iter().filter_map(|file| {
        Some((folder_of(file.root, project).ok()?.join(file.path), file.content))
    });
    files.chain(more.into_iter().map(|(path, content)| (project.join(path), content))).collect()
}

#[cfg(test)]
mod tests {
    use windlass_hooks::{HookTrust, install};

    use super::*;

    /// A state folder and the file of a client, in which hooks were installed.
    fn installed(client: Client, folder: &Path) -> (Installation, PathBuf) {
        let binary = std::env::current_exe().unwrap().display().to_string();
        let mut record = Installation {
            client,
            scope: Scope::Project,
            binary,
            files: Vec::new(),
            folders: Vec::new(),
        };
        let path = folder.join("settings");
        let mut file = InstalledFile {
            path: path.clone(),
            before: None,
            installed: String::new(),
            trust: None,
            whole: false,
        };
        let bytes = install(&record.content(&file).unwrap(), None).unwrap();
        std::fs::write(&path, &bytes).unwrap();
        file.installed = String::from_utf8(bytes).unwrap();
        record.files.push(file);
        drop(super::super::lock(folder).unwrap());
        super::super::write(folder, &record).unwrap();
        (record, path)
    }

    #[test]
    fn hooks_that_are_not_as_installed_are_a_problem() {
        for client in [Client::Claude, Client::Gemini, Client::OpenCode] {
            let folder = tempfile::tempdir().unwrap();
            let problem = || problem_of(folder.path(), client, folder.path());
            assert_eq!(problem(), None);
            let (record, path) = installed(client, folder.path());
            let written = record.files[0].installed.clone();
            assert_eq!(problem(), None);
            assert_eq!(problem_of(folder.path(), Client::Codex, folder.path()), None);
            std::fs::remove_file(&path).unwrap();
            assert!(problem().unwrap().contains("is gone"), "{:?}", problem());
            for text in ["", "{}", "{", "\u{1b}[2J", &written.replace("30", "9")] {
                std::fs::write(&path, text).unwrap();
                let said = problem().unwrap();
                let way = format!("`windlass install {} --project`", client.as_str());
                assert!(said.contains(&way) && !said.contains('\u{1b}'), "{said}");
            }
            std::fs::write(&path, &written).unwrap();
            assert_eq!(problem(), None);
            let gone = Installation { binary: "/nowhere/windlass".to_owned(), ..record };
            super::super::write(folder.path(), &gone).unwrap();
            assert!(problem().unwrap().contains("`/nowhere/windlass`, which is gone"));
            let name = format!("installed/{}-project.json", client.as_str());
            std::fs::write(folder.path().join(name), "{").unwrap();
            assert!(problem().unwrap().contains("damaged"));
        }
    }

    #[test]
    fn what_others_add_is_none_but_for_codex_whose_trust_depends_on_it() {
        for (client, expected) in [(Client::Claude, false), (Client::Codex, true)] {
            let folder = tempfile::tempdir().unwrap();
            let (mut record, path) = installed(client, folder.path());
            assert_eq!(problem_of(folder.path(), client, folder.path()).is_some(), expected);
            let config = folder.path().join("config.toml");
            let hook = HookTrust { key: "k".to_owned(), hash: "h".to_owned() };
            let trust = Trust { hooks: vec![hook], project: None };
            let bytes = install(&trust_file(trust.clone()).content, None).unwrap();
            if client == Client::Codex {
                std::fs::write(&config, &bytes).unwrap();
                record.files.push(InstalledFile {
                    path: config,
                    before: None,
                    installed: String::from_utf8(bytes).unwrap(),
                    trust: Some(trust),
                    whole: false,
                });
                super::super::write(folder.path(), &record).unwrap();
            }
            assert_eq!(problem_of(folder.path(), client, folder.path()), None);
            let more = record.files[0].installed.replacen('{', "{\"description\": \"x\",", 1);
            std::fs::write(&path, more).unwrap();
            let found = problem_of(folder.path(), client, folder.path());
            assert_eq!(found.is_some(), expected, "{found:?}");
        }
    }
}
