//! For whom hooks are installed, where, and which program they start.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use windlass_hooks::{Binary, Client, Content, Scope, plan};
use windlass_kernel::Code;

use crate::args::Install;
use crate::client_file::{ClientFile, folder_of};
use crate::commands::install::refused;
use crate::failure::Failure;
use crate::input::unreadable;
use crate::installed;
use crate::output::{Output, Style, sanitize};
use crate::project::Project;

/// The variable that names a project.
const VARIABLE: &str = "WINDLASS_PROJECT";

/// For whom hooks are installed, where, and which program they start.
pub struct Place {
    pub client: Client,
    pub scope: Scope,
    /// The project whose policy and state serve.
    project: Project,
    /// Its folder, without links.
    pub root: PathBuf,
    /// Its state folder.
    pub state: PathBuf,
    /// The program.
    pub binary: Binary,
}

impl Place {
    /// Finds the project by the options: a project's own hooks, or those of the user.
    pub fn find(named: Option<&Path>, options: &Install) -> Result<Self, Failure> {
        let (project, scope) = project_of(named, options)?;
        let client = options.client.client();
        let root = project.root.canonicalize();
        let root = root.map_err(|error| unreadable(&project.root, &error))?;
        let state = project.state()?.to_owned();
        Ok(Self { client, scope, root, state, project, binary: binary(client)? })
    }

    /// The project's folder as clients name it.
    pub fn root_text(&self) -> Result<&str, Failure> {
        self.root.to_str().ok_or_else(|| {
            Failure::new(Code::FileUnreadable, "the path of the project is not UTF-8")
        })
    }

    /// Fails if the client has hooks of the other scope, and would ask twice: the second question is a refusal.
    pub fn require_once(&self) -> Result<(), Failure> {
        let (other, state) = match self.scope {
            Scope::Project => (Scope::User, Project::of_user()),
            Scope::User => (Scope::Project, around_here()?),
        };
        let state = state.and_then(|project| project.state().map(Path::to_owned).ok());
        let there = state.map(|state| installed::read(&state, self.client, other)).transpose()?;
        if there.flatten().is_none() || !installed::asks_twice(self.client) {
            return Ok(());
        }
        let (client, other) = (self.client.as_str(), other.as_str());
        let message = format!(
            "{client} has the hooks of `--{other}` already: with both it would ask twice, and be refused"
        );
        Err(Failure::new(Code::RequestInvalid, message)
            .hint(format!("take those out first: `windlass uninstall {client} --{other}`")))
    }

    /// Whether the hooks of the other scope, if their record lies in the same state, have the core loop.
    pub fn has_other_core(&self) -> Result<bool, Failure> {
        let other = match self.scope {
            Scope::Project => Scope::User,
            Scope::User => Scope::Project,
        };
        let other = installed::read(&self.state, self.client, other)?;
        Ok(other.is_some_and(|other| other.files.iter().any(|file| file.whole)))
    }

    /// The client's file that has the hooks, and what is written into it.
    pub fn hook_file(&self) -> Result<(PathBuf, Content), Failure> {
        let file = plan(self.client, self.scope, &self.binary).into_iter().next();
        let file = file.ok_or_else(|| Failure::new(Code::Internal, "a client without a file"))?;
        Ok((folder_of(file.root, &self.root)?.join(file.path), file.content))
    }

    /// The configuration of the project.
    pub fn files(&self) -> Result<BTreeMap<String, Vec<u8>>, Failure> {
        self.project.files()
    }

    /// Reads a file that has hooks.
    pub fn read(&self, path: &Path) -> Result<ClientFile, Failure> {
        let inside = match self.scope {
            Scope::Project => Some(self.root.as_path()),
            Scope::User => None,
        };
        ClientFile::read(path, inside)
    }

    /// Tells what the user should know before hooks start this program by this project's policy.
    pub fn warn(&self, output: &Output) {
        if output.json {
            return;
        }
        for warning in self.warnings() {
            let word = output.paint_note("warning:", Style::Warn);
            output.note(&format!("{word} {}", sanitize(&warning)));
        }
    }

    /// What the user should know.
    pub fn warnings(&self) -> Vec<String> {
        let binary = Path::new(self.binary.as_str());
        let mut warnings = Vec::new();
        if self.scope == Scope::Project && binary.starts_with(&self.root) {
            warnings.push(format!(
                "`{}` lies in the project, where an agent could replace it; install windlass elsewhere",
                binary.display()
            ));
        } else if temporary_folders().iter().any(|folder| binary.starts_with(folder)) {
            warnings.push(format!(
                "`{}` lies in a folder for temporary files; when it is gone, no hook can start",
                binary.display()
            ));
        }
        // The others also look in the folders above.
        if self.scope == Scope::Project && matches!(self.client, Client::Claude | Client::Gemini) {
            warnings.push(format!(
                "a session that is started in a folder below `{}` does not read these hooks; those of `--user` hold there, too",
                self.root.display()
            ));
        }
        if self.client == Client::Gemini && self.scope == Scope::User {
            warnings.push(
                "Gemini CLI starts no hooks in folders that it was told not to trust, and runs tools there unasked"
                    .to_owned(),
            );
        }
        let trusted = self.project.files().and_then(|files| self.project.require_trust(&files));
        if let Err(failure) = trusted {
            warnings.push(format!("until then every tool is refused: {}", failure.summary()));
        }
        warnings
    }
}

fn temporary_folders() -> Vec<PathBuf> {
    let named = [std::env::temp_dir(), "/tmp".into(), "/var/tmp".into(), "/dev/shm".into()];
    named.into_iter().filter_map(|folder| folder.canonicalize().ok()).collect()
}

fn project_of(named: Option<&Path>, options: &Install) -> Result<(Project, Scope), Failure> {
    if options.user {
        let by_variable =
            std::env::var_os(VARIABLE).is_some_and(|it| Some(Path::new(&it)) == named);
        if named.is_some() && !by_variable {
            let message = "`--user` and `--project` cannot be used together";
            return Err(Failure::new(Code::RequestInvalid, message)
                .hint("`--user` installs for all folders, `--project` for one"));
        }
        let project = Project::of_user().ok_or_else(|| {
            let message = "you have no project of your own, whose policy and journal would serve";
            Failure::new(Code::ProjectMissing, message)
                .hint("create it with `windlass init --user`, then run the command again")
        })?;
        return Ok((project, Scope::User));
    }
    let found = match named {
        // `--project` without a folder.
        Some(root) if root == Path::new(".") => around_here()?,
        Some(root) => return Ok((Project::find(Some(root))?, Scope::Project)),
        None => around_here()?,
    };
    if let Some(project) = found {
        return Ok((project, Scope::Project));
    }
    match Project::of_user().filter(|_| named.is_none()) {
        Some(project) => Ok((project, Scope::User)),
        None => {
            let message = "there is no project in this folder or a parent folder";
            Err(Failure::new(Code::ProjectMissing, message).hint(
                "create one with `windlass init`, or one for all folders with `windlass init --user`",
            ))
        }
    }
}

fn around_here() -> Result<Option<Project>, Failure> {
    let here =
        std::env::current_dir().map_err(|error| Failure::of(Code::FileUnreadable, &error))?;
    Ok(Project::around(&here))
}

/// The running program, as clients are told to start it.
fn binary(client: Client) -> Result<Binary, Failure> {
    let path = std::env::current_exe().and_then(|path| path.canonicalize());
    let path = path.map_err(|error| {
        Failure::new(Code::Internal, format!("the path of the windlass binary is unknown: {error}"))
    })?;
    let text = path.to_str().ok_or_else(|| {
        let message = format!("the path `{}` of windlass is not UTF-8", path.display());
        Failure::new(Code::ConfigInvalid, message).hint("install windlass in another folder")
    })?;
    Binary::new(text).map_err(|error| refused(&path, client, &error))
}
