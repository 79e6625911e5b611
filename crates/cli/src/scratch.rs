//! A scratch repository with a home of its own, in which clients of coding agents are checked.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use windlass_cell::{Excess, Finished, Limits, OnSignal, Program};
use windlass_kernel::Code;
use windlass_loopback_model::{LoopbackModel, Script};
use windlass_workspace::find_helper;

use crate::failure::Failure;

/// How long each program may take.
pub const TIMEOUT: Duration = Duration::from_secs(120);
/// The most that is read of what it prints.
const OUTPUT_BYTES_MAX: usize = 1 << 20;

/// A scratch repository, with a home of its own.
pub struct ScratchRepository {
    /// The repository, in which `windlass init` was run.
    pub root: PathBuf,
    /// The home folder.
    pub home: PathBuf,
    git: PathBuf,
    binary: PathBuf,
}

impl ScratchRepository {
    /// Creates the repository below a folder, with one commit.
    pub fn create(folder: &Path, settings: &str) -> Result<Self, Failure> {
        let git = find_helper("git", None).map_err(|why| Failure::new(Code::HelperMissing, why))?;
        let binary =
            std::env::current_exe().map_err(|error| Failure::of(Code::Internal, &error))?;
        let scratch =
            Self { root: folder.join("repository"), home: folder.join("home"), git, binary };
        let config = scratch.home.join(".config/windlass");
        let written = std::fs::create_dir_all(&scratch.root)
            .and_then(|()| std::fs::create_dir_all(&config))
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
        let argv =
            [program.as_os_str()].into_iter().chain(arguments.iter().map(|word| word.as_ref()));
        windlass_cell::run(&Program {
            argv: argv.collect(),
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
