//! The stop switch: files whose presence stops runs. The engine checks for them before every effect.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::error::EngineError;

/// The file that stops everything.
const ALL: &str = "ALL";
/// The maximum size of a request.
const BYTES_MAX: u64 = 64 * 1024;

/// A request to stop runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StopRequest {
    /// The person or program that requested it.
    pub by: String,
    /// The reason.
    pub reason: String,
    /// Whether the run is given up: then it ends, wherever it stands.
    #[serde(default)]
    pub cancel: bool,
}

/// The folder of stop requests.
#[derive(Clone, Debug)]
pub struct StopSwitch {
    folder: PathBuf,
}

impl StopSwitch {
    /// Uses the requests in a folder.
    #[must_use]
    pub const fn new(folder: PathBuf) -> Self {
        Self { folder }
    }

    /// The request that stops a run, if there is one. A request that cannot be read stops the run too.
    #[must_use]
    pub fn requested(&self, run: Option<&str>) -> Option<StopRequest> {
        let names = [Some(ALL), run];
        names.into_iter().flatten().find_map(|name| self.read(name))
    }

    fn read(&self, name: &str) -> Option<StopRequest> {
        let path = self.folder.join(name);
        let unknown =
            |reason| StopRequest { by: "the stop switch".to_owned(), reason, cancel: false };
        match std::fs::metadata(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
            Err(error) => Some(unknown(format!("it cannot be read: {error}"))),
            Ok(metadata) if metadata.len() > BYTES_MAX => {
                Some(unknown("its file is too large to be read".to_owned()))
            }
            Ok(_) => Some(match std::fs::read(&path).map(|bytes| serde_json::from_slice(&bytes)) {
                Ok(Ok(request)) => request,
                Ok(Err(_)) => unknown("no reason is given".to_owned()),
                Err(error) => unknown(format!("it cannot be read: {error}")),
            }),
        }
    }

    /// Stops a run, or all runs.
    ///
    /// # Errors
    /// [`EngineError::Unwritable`].
    pub fn request(&self, run: Option<&str>, request: &StopRequest) -> Result<(), EngineError> {
        let path = self.folder.join(run.unwrap_or(ALL));
        let unwritable =
            |source| EngineError::Unwritable { path: path.display().to_string(), source };
        std::fs::create_dir_all(&self.folder).map_err(unwritable)?;
        let bytes = serde_json::to_vec(request).unwrap_or_default();
        // An incomplete file would stop as well: a request that fails must not have happened.
        let part = self.folder.join(format!(".{}-{}", run.unwrap_or(ALL), std::process::id()));
        let written = std::fs::write(&part, bytes).and_then(|()| std::fs::rename(&part, &path));
        if written.is_err() {
            drop(std::fs::remove_file(&part));
        }
        written.map_err(unwritable)
    }

    /// Removes the request for a run, or for all runs; returns whether there was one.
    ///
    /// # Errors
    /// [`EngineError::Unwritable`].
    pub fn clear(&self, run: Option<&str>) -> Result<bool, EngineError> {
        let path = self.folder.join(run.unwrap_or(ALL));
        match std::fs::remove_file(&path) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(false),
            Err(source) => {
                Err(EngineError::Unwritable { path: path.display().to_string(), source })
            }
        }
    }

    /// Fails while the switch is on.
    ///
    /// # Errors
    /// [`EngineError::Stopped`].
    pub fn check(&self, run: Option<&str>) -> Result<(), EngineError> {
        let stopped = |request: StopRequest, run: Option<&str>| {
            let StopRequest { by, reason, .. } = request;
            Err(EngineError::Stopped { by, reason, run: run.map(str::to_owned) })
        };
        if let Some(request) = self.read(ALL) {
            return stopped(request, None);
        }
        match run.and_then(|name| self.read(name)) {
            Some(request) => stopped(request, run),
            None => Ok(()),
        }
    }
}
