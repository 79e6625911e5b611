//! The errors of the engine.

use thiserror::Error;
use windlass_connect::{ReceivedSignal, received_signal};
use windlass_journal::{JournalError, ObserverError};
use windlass_kernel::run::Run;
use windlass_kernel::{Code, is_same_name};
use windlass_runtime::{GatewayError, PersonError};
use windlass_store::StoreError;
use windlass_workspace::{BlobError, GitError, SnapshotError};

/// A run cannot start or continue. Nothing was recorded unless the variant says so.
#[derive(Debug, Error)]
pub enum EngineError {
    /// The run has ended.
    #[error("run `{run}` has ended: {outcome}, {reason}")]
    Ended {
        /// The run.
        run: String,
        /// Its outcome.
        outcome: &'static str,
        /// The reason.
        reason: String,
    },
    /// A checkpoint cannot be created, or the run cannot be rolled back to it.
    #[error("{what}")]
    NoCheckpoint {
        /// The reason.
        what: String,
    },
    /// Files have changed since the run left them.
    #[error(
        "files have changed since run `{run}` left them: {}{}",
        listed(paths),
        told(unfinished)
    )]
    Changed {
        /// The run.
        run: String,
        /// The files.
        paths: Vec<String>,
        /// A phase that may have changed some of them itself, because it is not done.
        unfinished: Option<String>,
    },
    /// A change of the workspace would overwrite what others have made; nothing was changed.
    #[error("{message}")]
    InTheWay {
        /// The files that have changed and cannot be merged.
        changed: Vec<String>,
        /// The files that lie where others are to be written.
        in_the_way: Vec<String>,
        /// The fault.
        message: String,
        /// How to fix it.
        hint: Option<String>,
    },
    /// The hold is not answered.
    #[error("run `{run}` waits for a person: {question}")]
    Unresolved {
        /// The run.
        run: String,
        /// The question of the hold.
        question: String,
    },
    /// The run is not on hold.
    #[error("run `{run}` does not wait for a person")]
    NotOnHold {
        /// The run.
        run: String,
    },
    /// The hold has been answered.
    #[error("the hold of run `{run}` has been answered: {decision}")]
    AlreadyResolved {
        /// The run.
        run: String,
        /// The decision.
        decision: &'static str,
    },
    /// The same person cannot approve twice.
    #[error("{}", same_person(run, by, other))]
    SamePerson {
        /// The run.
        run: String,
        /// The person.
        by: String,
        /// The person who has answered.
        other: String,
    },
    /// Who started the run is not one of several who must approve.
    #[error("`{by}` started run `{run}` and does not count where several must approve")]
    Starter {
        /// The run.
        run: String,
        /// The person.
        by: String,
    },
    /// The person cannot decide.
    #[error(transparent)]
    Person(#[from] PersonError),
    /// The hold has expired; the run has been ended.
    #[error("the hold of run `{run}` has expired; the run has ended BLOCKED")]
    Expired {
        /// The run.
        run: String,
    },
    /// The hold is not the one that the person was shown.
    #[error("{}", stale(run, path.as_deref()))]
    Stale {
        /// The run.
        run: String,
        /// A file that has changed since the question, if one has.
        path: Option<String>,
    },
    /// A requirement of a run is not met.
    #[error("{message}")]
    Requirement {
        /// The stable code.
        code: Code,
        /// The requirement that is not met.
        message: String,
    },
    /// Windlass was asked to end by a signal; the run stays where it is.
    #[error("{signal} came while run `{run}` was at work; what it had started was ended")]
    Interrupted {
        /// The run.
        run: String,
        /// The signal.
        signal: &'static str,
    },
    /// The policy differs from the run's; the run has been ended.
    #[error("the policy has changed since run `{run}` began; the run has ended BLOCKED")]
    PolicyChanged {
        /// The run.
        run: String,
    },
    /// The stop switch is on.
    #[error("stopped by {by}: {reason}")]
    Stopped {
        /// The person or program that stopped it.
        by: String,
        /// The reason.
        reason: String,
        /// The run that the request is for; `None` if it is for all.
        run: Option<String>,
    },
    /// A hold packet does not match the journal.
    #[error("`{path}` {what}")]
    Packet {
        /// The stable code.
        code: Code,
        /// The file.
        path: String,
        /// The fault.
        what: String,
    },
    /// A file cannot be written.
    #[error("`{path}` cannot be written")]
    Unwritable {
        /// The file.
        path: String,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
    /// The input is not valid.
    #[error("{message}")]
    Invalid {
        /// The stable code.
        code: Code,
        /// The fault.
        message: String,
        /// How to fix it.
        hint: Option<String>,
    },
    /// The gateway failed.
    #[error(transparent)]
    Gateway(#[from] GatewayError),
    /// The run's trace could not be read or written.
    #[error(transparent)]
    Journal(#[from] JournalError),
}

impl From<StoreError> for EngineError {
    fn from(error: StoreError) -> Self {
        Self::Journal(error.into())
    }
}

impl EngineError {
    /// Whether a trace is corrupt; other traces may be intact.
    #[must_use]
    pub const fn is_damage(&self) -> bool {
        matches!(self, Self::Journal(error) if error.is_damage())
    }

    /// The signal that came while a run was at work.
    pub(crate) fn interrupted(run: &Run) -> Self {
        let run = run.started.as_ref().map(|started| started.run_id.clone()).unwrap_or_default();
        Self::Interrupted {
            run,
            signal: received_signal().map_or("a signal", ReceivedSignal::name),
        }
    }

    /// The stable code.
    #[must_use]
    pub fn code(&self) -> Code {
        match self {
            Self::Ended { .. } => Code::RunEnded,
            Self::NoCheckpoint { .. } => Code::CheckpointUnavailable,
            Self::Changed { .. } | Self::InTheWay { .. } => Code::WorkspaceChanged,
            Self::Unresolved { .. } => Code::RunOnHold,
            Self::NotOnHold { .. } => Code::RunNotOnHold,
            Self::AlreadyResolved { .. } => Code::HoldAlreadyResolved,
            Self::SamePerson { .. } | Self::Starter { .. } => Code::ApproverNotCounted,
            Self::Person(error) => error.code,
            Self::Expired { .. } => Code::HoldExpired,
            Self::Stale { .. } => Code::HoldStale,
            Self::PolicyChanged { .. } => Code::PolicyChangedMidRun,
            Self::Stopped { .. } => Code::RunStopped,
            Self::Interrupted { .. } => Code::Interrupted,
            Self::Unwritable { .. } => Code::FileUnwritable,
            Self::Requirement { code, .. }
            | Self::Packet { code, .. }
            | Self::Invalid { code, .. } => *code,
            Self::Gateway(error) => error.code(),
            Self::Journal(error) => error.code(),
        }
    }

    /// This error as an observer reports it: the entries are durable, but a view is not up to date.
    #[must_use]
    pub fn into_observer_error(self) -> ObserverError {
        let (code, message) = (self.code(), self.to_string());
        let source = if let Self::Unwritable { source, .. } = self { Some(source) } else { None };
        ObserverError { code, message, source }
    }

    /// How to fix it, if the hint of the code is not enough.
    #[must_use]
    pub fn hint(&self) -> Option<&str> {
        let (Self::Invalid { hint, .. } | Self::InTheWay { hint, .. }) = self else { return None };
        hint.as_deref()
    }
}

macro_rules! requirement_from {
    ($($error:ty),*) => {$(
        impl From<$error> for EngineError {
            fn from(error: $error) -> Self {
                Self::Requirement { code: error.code(), message: error.to_string() }
            }
        }
    )*};
}
requirement_from!(BlobError, GitError);

impl From<SnapshotError> for EngineError {
    fn from(error: SnapshotError) -> Self {
        let (code, message) = (error.code(), error.to_string());
        let SnapshotError::Changed { changed, in_the_way } = error else {
            return Self::Requirement { code, message };
        };
        let names = |paths: Vec<std::path::PathBuf>| {
            paths.iter().map(|path| path.to_string_lossy().into_owned()).collect()
        };
        let (changed, in_the_way) = (names(changed), names(in_the_way));
        Self::InTheWay { changed, in_the_way, message, hint: None }
    }
}

/// How many files a message lists, and how much of each path.
const LISTED_MAX: usize = 5;
const PATH_CHARS_MAX: usize = 100;

/// Lists the first few files. A long path is shown by its end.
pub(crate) fn listed(paths: &[String]) -> String {
    listed_of(paths.iter().map(String::as_str), paths.len())
}

/// Lists the first few of so many files.
pub(crate) fn listed_of<'a>(paths: impl Iterator<Item = &'a str>, count: usize) -> String {
    let shortened = |path: &str| match path.chars().count().checked_sub(PATH_CHARS_MAX) {
        None | Some(0) => format!("`{path}`"),
        Some(more) => format!("`…{}`", path.chars().skip(more).collect::<String>()),
    };
    let names: Vec<String> = paths.take(LISTED_MAX).map(shortened).collect();
    match count.saturating_sub(names.len()) {
        0 => names.join(", "),
        more => format!("{} and {more} more", names.join(", ")),
    }
}

fn told(unfinished: &Option<String>) -> String {
    unfinished.as_ref().map_or_else(String::new, |phase| {
        format!(
            "; phase `{phase}` is not done, and what it changed cannot be told from your changes"
        )
    })
}

fn same_person(run: &str, by: &str, other: &str) -> String {
    if is_same_name(by, other) {
        format!("`{by}` has answered this hold of run `{run}` before; it needs another person")
    } else {
        format!(
            "`{by}` and `{other}`, who has answered this hold of run `{run}`, count as one approver: every \
             process of the account can use their keys"
        )
    }
}

fn stale(run: &str, path: Option<&str>) -> String {
    match path {
        Some(path) => {
            format!(
                "`{path}`, which the call on hold in run `{run}` names, has changed since the question"
            )
        }
        None => format!("the hold of run `{run}` has changed since you were shown it"),
    }
}
