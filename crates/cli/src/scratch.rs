//! A scratch repository with a home of its own, in which clients of coding agents are checked.
//!
//! What runs in it is bounded: no check begins in it, all of its programs together have a time limit, and they end with
//! the process that checks. INVARIANT: its programs are started by [`ScratchRepository::run`] alone.

use std::ffi::{OsStr, OsString};
use std::fs::{DirBuilder, File};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use windlass_cell::{Excess, Finished, Limits, OnSignal, Program};
use windlass_kernel::Code;
use windlass_loopback_model::{LoopbackModel, Script};
use windlass_workspace::{TemporaryFolder, TemporaryUse, find_helper, sweep_temporary_folders};

use crate::failure::Failure;
use crate::state::{StateRoot, cannot_write};

/// How long each program may take.
pub const TIMEOUT: Duration = Duration::from_secs(120);
/// How long all programs of one scratch repository may take together.
const TIME_MAX: Duration = Duration::from_secs(300);
/// The most that is read of what it prints.
const OUTPUT_BYTES_MAX: usize = 1 << 20;
/// The file by which the folder of states in a scratch repository is known.
const MARK: &str = ".scratch";
/// The lock that is held while a client is checked.
const LOCK: &str = ".checks";

/// Held while clients are checked: one process of a user at a time does so.
#[derive(Debug)]
pub struct CheckLock {
    _file: File,
}

impl CheckLock {
    /// Waits for the lock; fails in a scratch repository, where nothing is checked.
    pub fn wait() -> Result<Self, Failure> {
        let states = StateRoot::find()?;
        if states.path().join(MARK).exists() {
            return Err(Failure::new(Code::AgentUnavailable, "a check starts no other check"));
        }
        drop(states.lock()?);
        let path = states.path().join(LOCK);
        let opened = File::options().create(true).truncate(false).write(true).open(&path);
        let file = opened.map_err(|error| cannot_write(&path, &error))?;
        file.lock().map_err(|error| cannot_write(&path, &error))?;
        Ok(Self { _file: file })
    }

    /// Creates a temporary folder for a scratch repository.
    pub fn folder(&self) -> Result<ScratchFolder, Failure> {
        sweep_temporary_folders();
        TemporaryFolder::new(TemporaryUse::Check).map_err(|error| no_folder(&error))
    }
}

/// The failure where no temporary folder can be made.
pub fn no_folder(error: &std::io::Error) -> Failure {
    let folder = std::env::temp_dir();
    let message = format!("no folder can be made in `{}`: {error}", folder.display());
    Failure::new(Code::FileUnwritable, message)
        .hint("let TMPDIR name a folder in which you may write, or unset it")
}

/// Fails unless a folder can be made for temporary files, as git's indexes need it.
pub fn require_temporary_folder() -> Result<(), Failure> {
    TemporaryFolder::new(TemporaryUse::Index).map(drop).map_err(|error| no_folder(&error))
}

/// The temporary folder of a scratch repository.
pub type ScratchFolder = TemporaryFolder;

/// A scratch repository, with a home of its own.
pub struct ScratchRepository {
    /// The repository, in which `windlass init` was run.
    pub root: PathBuf,
    /// The home folder.
    pub home: PathBuf,
    git: PathBuf,
    binary: PathBuf,
    deadline: Instant,
}

impl ScratchRepository {
    /// Creates the repository below a folder, with one commit.
    pub fn create(folder: &ScratchFolder, settings: &str) -> Result<Self, Failure> {
        let folder = folder.path();
        let git = find_helper("git", None).map_err(|why| Failure::new(Code::HelperMissing, why))?;
        let binary =
            std::env::current_exe().map_err(|error| Failure::of(Code::Internal, &error))?;
        let scratch = Self {
            root: folder.join("repository"),
            home: folder.join("home"),
            git,
            binary,
            deadline: Instant::now() + TIME_MAX,
        };
        let config = scratch.home.join(".config/windlass");
        let written = std::fs::create_dir_all(&scratch.root)
            .and_then(|()| std::fs::create_dir_all(&config))
            .and_then(|()| DirBuilder::new().recursive(true).mode(0o700).create(scratch.states()))
            .and_then(|()| std::fs::write(scratch.states().join(MARK), ""))
            .and_then(|()| std::fs::write(config.join("config.toml"), settings))
            .and_then(|()| {
                std::fs::write(scratch.root.join("README.md"), "# A scratch repository\n")
            });
        written.map_err(|error| Failure::of(Code::FileUnwritable, &error))?;
        scratch.git(&["init", "--quiet", "--initial-branch=main"])?;
        scratch.git(&["config", "user.name", "Windlass"])?;
        scratch.git(&["config", "user.email", "windlass@localhost"])?;
        scratch.windlass(&["init"])?;
        scratch.git(&["add", "--all"])?;
        scratch.git(&["commit", "--quiet", "--message", "a scratch repository"])?;
        Ok(scratch)
    }

    /// The program that is running.
    pub fn binary(&self) -> &Path {
        &self.binary
    }

    /// The folder of states.
    pub fn states(&self) -> PathBuf {
        self.home.join(".local/state/windlass")
    }

    /// Runs git, which must succeed.
    pub fn git(&self, arguments: &[&str]) -> Result<Finished, Failure> {
        let ended = self.run(&self.git, arguments, &[], TIMEOUT)?;
        match ended.status.is_some_and(|status| status.success()) {
            true => Ok(ended),
            false => {
                let said = String::from_utf8_lossy(&ended.stderr).trim().to_owned();
                Err(Failure::new(
                    Code::GitDamaged,
                    format!("git in the scratch repository: {said}"),
                ))
            }
        }
    }

    /// Runs Windlass.
    pub fn windlass(&self, arguments: &[&str]) -> Result<Finished, Failure> {
        self.run(&self.binary, arguments, &[], TIMEOUT)
    }

    /// Runs a program in the repository, with these variables besides those of the home.
    pub fn run(
        &self,
        program: &Path,
        arguments: &[&str],
        variables: &[(String, String)],
        timeout: Duration,
    ) -> Result<Finished, Failure> {
        let own = [
            ("HOME", self.home.clone()),
            ("XDG_CONFIG_HOME", self.home.join(".config")),
            ("XDG_DATA_HOME", self.home.join(".local/share")),
            ("XDG_STATE_HOME", self.home.join(".local/state")),
            ("XDG_CACHE_HOME", self.home.join(".cache")),
            ("WINDLASS_STATE", self.states()),
        ];
        let own = own.map(|(name, value)| (OsString::from(name), value.into_os_string()));
        let more = variables.iter().map(|(name, value)| (name.into(), value.into()));
        let env: Vec<(OsString, OsString)> = own.into_iter().chain(more).collect();
        let argv: Vec<&OsStr> = [program.as_os_str()]
            .into_iter()
            .chain(arguments.iter().map(|word| word.as_ref()))
            .collect();
        let argv = windlass_cell::bound(&self.binary, &argv);
        let timeout = timeout.min(self.deadline.saturating_duration_since(Instant::now()));
        windlass_cell::run(&Program {
            argv: argv.iter().map(OsString::as_os_str).collect(),
            stdin: None,
            env: env.iter().map(|(name, value)| (name.as_os_str(), value.as_os_str())).collect(),
            cwd: &self.root,
            limits: Limits { timeout, output_bytes_max: OUTPUT_BYTES_MAX },
            confined: None,
            excess: Excess::End,
            on_signal: OnSignal::End,
        })
        .map_err(|error| Failure::new(Code::Internal, error.to_string()))
    }
}

/// Starts a model that follows a script.
pub fn start_model(script: &serde_json::Value) -> Result<LoopbackModel, Failure> {
    let script = Script::from_json(&script.to_string());
    let script = script.map_err(|error| Failure::of(Code::Internal, &error))?;
    LoopbackModel::start(script).map_err(|error| Failure::of(Code::Internal, &error))
}

/// The address of a scripted model, with the path of the usual one.
pub fn endpoint_like(usual: &str, model: &LoopbackModel) -> String {
    let path =
        usual.split_once("://").and_then(|(_, rest)| rest.find('/').and_then(|at| rest.get(at..)));
    format!("http://{}{}", model.address(), path.unwrap_or_default())
}
