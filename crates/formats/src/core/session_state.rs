//! `session-state.json`: what a session's hooks and agents have done so far.
//!
//! A projection of the journal: nothing is decided by reading it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use windlass_kernel::{Code, Digest};

use super::date::Date;
use super::error::{self, DocumentError};
use super::insights::Insights;
use super::verdicts::CriticVerdict;
use crate::moment::Moment;

/// The largest session state.
pub const SESSION_STATE_BYTES_MAX: usize = 4 << 20;
/// The name of the document in errors.
const DOCUMENT: &str = "the session state";
/// The length of the part of a session's id that names its folder, in characters.
const SHORT_CHARS: usize = 8;
/// The longest name of a project's folder, which many file systems limit to 255 bytes.
const PROJECT_BYTES_MAX: usize = 200;

/// The state of a session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SessionState {
    /// The day on which it started, in UTC.
    pub date: Date,
    /// When it ended.
    pub ended_at: Option<Moment>,
    /// What the hydrator and the critic found.
    pub hydration: HydrationState,
    /// The insights, once they are written.
    pub insights: Option<Insights>,
    /// The progress of the main agent.
    pub main_agent: MainAgentState,
    /// The session's id, as the client gives it.
    pub session_id: String,
    /// When it started.
    pub started_at: Moment,
    /// The state that the hooks keep.
    pub state: SessionFlags,
    /// The agents that were invoked, by name.
    pub subagents: BTreeMap<String, SubagentState>,
}

/// The state that the hooks of a session keep.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SessionFlags {
    /// The skill in use.
    pub active_skill: Option<String>,
    /// The workflow that the hydrator selected.
    pub current_workflow: Option<String>,
    /// Why custodiet blocked the session.
    pub custodiet_block_reason: Option<String>,
    /// Whether custodiet has blocked the session.
    pub custodiet_blocked: bool,
    /// The last error of a hook.
    pub error_flag: Option<String>,
    /// Whether the user has told the gates to let the current prompt pass.
    pub gates_bypassed: bool,
    /// Whether the current prompt is not hydrated yet.
    pub hydration_pending: bool,
    /// When custodiet last judged the session.
    pub last_compliance_ts: Option<Moment>,
    /// Custodiet's last warning.
    pub last_drift_warning: Option<String>,
    /// When a prompt was last hydrated.
    pub last_hydration_ts: Option<Moment>,
    /// The tool calls since custodiet last judged the session.
    pub tool_calls_since_compliance: u32,
}

/// What the hydrator and the critic found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HydrationState {
    /// The acceptance criteria, as the critic approved them.
    pub acceptance_criteria: Vec<String>,
    /// The critic's verdict on the plan.
    pub critic_verdict: Option<CriticVerdict>,
    /// What the user wants, in the hydrator's words.
    pub hydrated_intent: Option<String>,
    /// What the user wrote.
    pub original_prompt: Option<String>,
}

/// The progress of the main agent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MainAgentState {
    /// The work item in progress.
    pub current_task: Option<String>,
    /// The completed steps of the plan.
    pub todos_completed: u32,
    /// All steps of the plan.
    pub todos_total: u32,
}

/// The last invocation of an agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SubagentState {
    /// The acceptance criteria that it approved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub acceptance_criteria: Option<Vec<String>>,
    /// When.
    pub last_invoked: Moment,
    /// Its result; none while it runs, and for agents with a verdict of their own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<String>,
    /// Its verdict on a plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdict: Option<String>,
}

impl SessionState {
    /// The state of a session that has just started.
    #[must_use]
    pub fn new(session_id: &str, date: Date, started_at: Moment) -> Self {
        Self {
            date,
            ended_at: None,
            hydration: HydrationState::default(),
            insights: None,
            main_agent: MainAgentState::default(),
            session_id: session_id.to_owned(),
            started_at,
            state: SessionFlags::default(),
            subagents: BTreeMap::new(),
        }
    }

    /// The file as bytes.
    ///
    /// # Errors
    /// [`DocumentError`] when it is too large.
    pub fn to_bytes(&self) -> Result<Vec<u8>, DocumentError> {
        error::write(DOCUMENT, self, SESSION_STATE_BYTES_MAX)
    }

    /// Reads a file.
    ///
    /// # Errors
    /// [`DocumentError`] when it is not a session state.
    pub fn read(bytes: &[u8]) -> Result<Self, DocumentError> {
        let value = error::parse(DOCUMENT, bytes, SESSION_STATE_BYTES_MAX)?;
        serde_json::from_value(value).map_err(|error| DocumentError::Json {
            document: DOCUMENT,
            code: Code::RequestInvalid,
            why: error.to_string(),
        })
    }
}

/// The part of a session's id that names its folder: the first 8 characters if they are letters and
/// digits, else the first 8 of the id's SHA-256.
#[must_use]
pub fn short_session_id(session_id: &str) -> String {
    match session_id.get(..SHORT_CHARS) {
        Some(start) if start.bytes().all(|byte| byte.is_ascii_alphanumeric()) => start.to_owned(),
        Some(_) | None => hash_start(session_id),
    }
}

fn hash_start(text: &str) -> String {
    Digest::of(text.as_bytes()).hex().as_str().chars().take(SHORT_CHARS).collect()
}

/// The file of a session's state in the home folder of a user, for the project with this absolute
/// path.
///
/// A project's name that is too long for a folder is cut, and ends with a part of the path's SHA-256.
#[must_use]
pub fn session_state_path(
    home: &Path,
    project_path: &str,
    date: Date,
    session_id: &str,
) -> PathBuf {
    let mut project = project_path.replace('/', "-").replace('.', "_");
    if project.len() > PROJECT_BYTES_MAX {
        let mut end = PROJECT_BYTES_MAX - SHORT_CHARS - 1;
        while !project.is_char_boundary(end) {
            end -= 1;
        }
        project.truncate(end);
        project = format!("{project}-{}", hash_start(project_path));
    }
    let folder = format!("{}-{}", date.compact(), short_session_id(session_id));
    home.join(".claude/projects").join(project).join(folder).join("session-state.json")
}
