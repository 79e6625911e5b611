//! The launcher's side: confine this process, then become the command.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};

use super::{Confinement, Token, report};

/// Why a command was not started in its confinement.
#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    /// The kernel does not confine this process.
    #[error("{0}")]
    Sandbox(String),
    /// A folder that is to be writable cannot be opened.
    #[error("the writable folder `{}` cannot be opened: {reason}", path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// The command's program cannot be started.
    #[error("cannot start `{}`: {source}", Path::new(program).display())]
    NoProgram {
        /// The program.
        program: OsString,
        /// Why.
        source: io::Error,
    },
}

/// Confines this process and replaces it by a command. Returns only when that fails; then the reason
/// has been reported to the process that started this one, which ignores the exit code.
///
/// The process must have one thread: other threads would not be confined.
#[must_use]
pub fn exec(confinement: &Confinement, argv: &[OsString]) -> LaunchError {
    let token = Token::from_env();
    let error = confine_and_exec(confinement, argv, token.as_ref());
    if let Some(token) = token {
        // Without a reader the report is not needed.
        let _ = token.report_failure(&error);
    }
    error
}

/// Does the work of [`exec`] without reporting the failure.
fn confine_and_exec(
    confinement: &Confinement,
    argv: &[OsString],
    token: Option<&Token>,
) -> LaunchError {
    let Some((program, arguments)) = argv.split_first() else {
        let source = io::Error::from(io::ErrorKind::InvalidInput);
        return LaunchError::NoProgram { program: OsString::new(), source };
    };
    if let Err(error) = apply(confinement) {
        return error;
    }
    if let Some(Err(error)) = token.map(Token::report_start) {
        return LaunchError::Sandbox(format!(
            "the start of the command cannot be reported: {error}"
        ));
    }
    let source = replace(program, arguments);
    LaunchError::NoProgram { program: program.clone(), source }
}

fn replace(program: &OsStr, arguments: &[OsString]) -> io::Error {
    use std::os::unix::process::CommandExt as _;
    std::process::Command::new(program).args(arguments).env_remove(report::TOKEN_VARIABLE).exec()
}

#[cfg(not(target_os = "linux"))]
fn apply(_: &Confinement) -> Result<(), LaunchError> {
    Err(LaunchError::Sandbox("commands can be confined on Linux only".to_owned()))
}

#[cfg(target_os = "linux")]
use linux::apply;

#[cfg(target_os = "linux")]
mod linux {
    use std::error::Error;
    use std::path::Path;

    use landlock::{
        ABI, Access as _, AccessFs, AccessNet, BitFlags, PathBeneath, PathFd, Ruleset,
        RulesetAttr as _, RulesetCreated, RulesetCreatedAttr as _, RulesetStatus, Scope,
    };

    use super::super::{Network, filter};
    use super::{Confinement, LaunchError};

    /// The newest rights that are requested; an older kernel grants those it has.
    const RIGHTS: ABI = ABI::V6;
    /// Devices that every command may write to. Of a terminal only the stream, not its settings.
    const DEVICES: [&str; 7] = [
        "/dev/null",
        "/dev/zero",
        "/dev/full",
        "/dev/random",
        "/dev/urandom",
        "/dev/tty",
        "/dev/shm",
    ];

    /// Confines this thread.
    pub(super) fn apply(confinement: &Confinement) -> Result<(), LaunchError> {
        let rules = ruleset(confinement)?;
        let status = rules.restrict_self().map_err(|error| sandbox("Landlock", &error))?;
        if status.ruleset == RulesetStatus::NotEnforced || !status.no_new_privs {
            return Err(LaunchError::Sandbox("the kernel has no Landlock".to_owned()));
        }
        let program =
            filter::program(confinement.network).map_err(|error| sandbox("seccomp", &error))?;
        seccompiler::apply_filter(&program).map_err(|error| sandbox("seccomp", &error))
    }

    fn ruleset(confinement: &Confinement) -> Result<RulesetCreated, LaunchError> {
        let landlock = |error: landlock::RulesetError| sandbox("Landlock", &error);
        let writing = AccessFs::from_write(RIGHTS);
        let mut rules = Ruleset::default().handle_access(writing).map_err(landlock)?;
        if confinement.network == Network::Closed {
            rules = rules.handle_access(AccessNet::from_all(RIGHTS)).map_err(landlock)?;
        }
        rules = rules.scope(Scope::from_all(RIGHTS)).map_err(landlock)?;
        let mut rules = rules.create().map_err(landlock)?;
        for path in &confinement.writable {
            let folder = PathFd::new(path).map_err(|error| {
                let reason = error.source().map_or_else(|| error.to_string(), ToString::to_string);
                LaunchError::Folder { path: path.clone(), reason }
            })?;
            rules = add(rules, folder, writing)?;
        }
        let temporary = std::env::temp_dir();
        for path in DEVICES.iter().map(Path::new).chain([temporary.as_path()]) {
            // A path that does not exist needs no right.
            let Ok(file) = PathFd::new(path) else { continue };
            let rights = if path.is_dir() { writing } else { AccessFs::WriteFile.into() };
            rules = add(rules, file, rights)?;
        }
        Ok(rules)
    }

    fn add(
        rules: RulesetCreated,
        file: PathFd,
        rights: BitFlags<AccessFs>,
    ) -> Result<RulesetCreated, LaunchError> {
        rules.add_rule(PathBeneath::new(file, rights)).map_err(|error| sandbox("Landlock", &error))
    }

    fn sandbox(what: &str, error: &dyn Error) -> LaunchError {
        let mut text = format!("{what} refuses: {error}");
        let mut cause = error.source();
        while let Some(error) = cause {
            text.push_str(&format!(": {error}"));
            cause = error.source();
        }
        LaunchError::Sandbox(text)
    }
}
