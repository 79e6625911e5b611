//! The work tracker of a project.

use windlass_kernel::Code;
use windlass_work::{Bd, BuiltIn, Tracker, WorkError};

use crate::config::{Config, TrackerName};
use crate::failure::Failure;
use crate::project::Project;

/// The built-in tracker's file in the state folder.
const DATABASE: &str = "work.db";
/// The folder of a project that uses `bd`.
const BEADS: &str = ".beads";

/// Opens the work tracker that the settings name.
///
/// # Errors
/// [`Failure`], also if `bd` is named and not installed, or would be started for a project that the user
/// does not trust.
pub fn tracker(project: &Project, config: &Config) -> Result<Box<dyn Tracker>, Failure> {
    let settings = &config.work;
    let bd = || {
        let search_path = std::env::var_os("PATH").unwrap_or_default();
        Bd::find(&search_path, project.workspace(), settings.timeout())
    };
    let bd = match settings.tracker {
        TrackerName::BuiltIn => None,
        TrackerName::Auto if !project.workspace().join(BEADS).is_dir() => None,
        TrackerName::Auto => bd(),
        TrackerName::Bd => Some(bd().ok_or_else(|| {
            Failure::new(Code::HelperMissing, "`bd`, the work tracker, is not on your PATH")
                .hint("install it, or set `tracker = \"built-in\"` in .windlass/config.toml")
        })?),
    };
    if let Some(bd) = bd {
        // It reads its settings and hooks from the project.
        project.require_trust(&project.files()?)?;
        return Ok(Box::new(bd));
    }
    let path = project.state()?.join(DATABASE);
    Ok(Box::new(BuiltIn::open(&path, settings.prefix.parse()?, settings.timeout())?))
}

impl From<WorkError> for Failure {
    fn from(error: WorkError) -> Self {
        let code = match &error {
            WorkError::Unavailable { .. } => Code::ToolServerUnavailable,
            WorkError::DeadlinePassed { .. } => Code::ToolTimeout,
            WorkError::NotFound { .. } => {
                return Self::of(Code::RequestInvalid, &error)
                    .hint("`windlass work list --recent` lists the items");
            }
            WorkError::Invalid { .. } => Code::RequestInvalid,
        };
        Self::of(code, &error)
    }
}
