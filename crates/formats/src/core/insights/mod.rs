//! The insights of a session: what it did, how it ended, and what can be learnt from it.

mod read;
mod trends;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};
use windlass_kernel::Digest;

pub use read::{INSIGHTS_ITEMS_MAX, INSIGHTS_TEXT_CHARS_MAX};
pub use trends::{TrendCounts, Trends};

use super::date::Date;
use super::error::{self, DocumentError};
use super::reflection::SessionOutcome;
use super::verdicts::CriticVerdict;
use crate::fields::FieldError;

/// The largest insights.
pub const INSIGHTS_BYTES_MAX: usize = 1 << 20;
/// The name of the document in errors.
pub(super) const DOCUMENT: &str = "the insights";
/// The longest session id that is used as a part of a file's name.
const ID_CHARS_MAX: usize = 128;

/// The insights of a session. Fields that are `None` are not in the file.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Insights {
    /// How many acceptance criteria there were.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub acceptance_criteria_count: Option<u32>,
    /// What was accomplished.
    pub accomplishments: Vec<String>,
    /// What the agents did not know and should have known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context_gaps: Option<Vec<Value>>,
    /// The conversation in short.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub conversation_flow: Option<Vec<Value>>,
    /// The critic's last verdict.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub critic_verdict: Option<CriticVerdict>,
    /// How often custodiet blocked the session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub custodiet_blocks: Option<u32>,
    /// The day, in UTC.
    pub date: Date,
    /// The reflections of the framework agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub framework_reflections: Option<Vec<Value>>,
    /// What hindered the work.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub friction_points: Option<Vec<String>>,
    /// What can be learnt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub learning_observations: Option<Vec<Value>>,
    /// How the session ended.
    pub outcome: SessionOutcome,
    /// The project.
    pub project: String,
    /// What should be changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub proposed_changes: Option<Vec<String>>,
    /// The session's id.
    pub session_id: String,
    /// Which skills were suggested and used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub skill_compliance: Option<Map<String, Value>>,
    /// Why the session stopped.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stop_reason: Option<String>,
    /// How often agents were invoked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subagent_count: Option<u32>,
    /// The invoked agents.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subagents_invoked: Option<Vec<String>>,
    /// The session in one sentence.
    pub summary: String,
    /// What happened when.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeline_events: Option<Vec<Value>>,
    /// The tokens used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token_metrics: Option<Map<String, Value>>,
    /// How content the user was, from -1 to 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user_mood: Option<f64>,
    /// What the user wrote.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user_prompts: Option<Vec<Value>>,
    /// How workflows could be improved.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workflow_improvements: Option<Vec<Value>>,
    /// The workflows that were used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workflows_used: Option<Vec<String>>,
}

/// What the hooks have recorded of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recorded {
    /// How many acceptance criteria there were.
    pub acceptance_criteria_count: u32,
    /// The critic's last verdict.
    pub critic_verdict: Option<CriticVerdict>,
    /// How often custodiet blocked the session.
    pub custodiet_blocks: u32,
    /// The day, in UTC.
    pub date: Date,
    /// The project.
    pub project: String,
    /// The session's id.
    pub session_id: String,
    /// Why the session stopped.
    pub stop_reason: Option<String>,
    /// The invoked agents, and how often.
    pub subagents: BTreeMap<String, u32>,
    /// The workflows that were used, in order.
    pub workflows_used: Vec<String>,
}

impl Insights {
    /// The insights that follow from the records alone. The outcome is `partial`, since nobody has
    /// judged the session.
    #[must_use]
    pub fn automatic(recorded: Recorded) -> Self {
        let count = recorded.subagents.values().fold(0_u32, |sum, next| sum.saturating_add(*next));
        Self {
            acceptance_criteria_count: Some(recorded.acceptance_criteria_count),
            accomplishments: Vec::new(),
            context_gaps: None,
            conversation_flow: None,
            critic_verdict: recorded.critic_verdict,
            custodiet_blocks: Some(recorded.custodiet_blocks),
            date: recorded.date,
            framework_reflections: None,
            friction_points: None,
            learning_observations: None,
            outcome: SessionOutcome::Partial,
            project: recorded.project,
            proposed_changes: None,
            session_id: recorded.session_id,
            skill_compliance: None,
            stop_reason: recorded.stop_reason,
            subagent_count: Some(count),
            subagents_invoked: Some(recorded.subagents.into_keys().collect()),
            summary: "Session completed".to_owned(),
            timeline_events: None,
            token_metrics: None,
            user_mood: None,
            user_prompts: None,
            workflow_improvements: None,
            workflows_used: Some(recorded.workflows_used),
        }
    }

    /// These insights, which an agent wrote, over the automatic ones of the same session.
    ///
    /// What the hooks have recorded stays as recorded; all else is the agent's, and where the agent
    /// says nothing, what the automatic ones say.
    ///
    /// # Errors
    /// [`FieldError`] when they are about another session, day or project.
    pub fn merge(self, automatic: &Self) -> Result<Self, FieldError> {
        let same = [
            ("session_id", self.session_id == automatic.session_id),
            ("date", self.date == automatic.date),
            ("project", self.project == automatic.project),
        ];
        if let Some((field, _)) = same.iter().find(|(_, is_same)| !is_same) {
            let why = "the automatic insights of the session have another value".to_owned();
            return Err(FieldError::Value { field: (*field).to_owned(), why });
        }
        let other = automatic.clone();
        Ok(Self {
            acceptance_criteria_count: other
                .acceptance_criteria_count
                .or(self.acceptance_criteria_count),
            critic_verdict: other.critic_verdict.or(self.critic_verdict),
            custodiet_blocks: other.custodiet_blocks.or(self.custodiet_blocks),
            stop_reason: other.stop_reason.or(self.stop_reason),
            subagent_count: other.subagent_count.or(self.subagent_count),
            subagents_invoked: other.subagents_invoked.or(self.subagents_invoked),
            workflows_used: other.workflows_used.or(self.workflows_used),
            context_gaps: self.context_gaps.or(other.context_gaps),
            conversation_flow: self.conversation_flow.or(other.conversation_flow),
            framework_reflections: self.framework_reflections.or(other.framework_reflections),
            friction_points: self.friction_points.or(other.friction_points),
            learning_observations: self.learning_observations.or(other.learning_observations),
            proposed_changes: self.proposed_changes.or(other.proposed_changes),
            skill_compliance: self.skill_compliance.or(other.skill_compliance),
            timeline_events: self.timeline_events.or(other.timeline_events),
            token_metrics: self.token_metrics.or(other.token_metrics),
            user_mood: self.user_mood.or(other.user_mood),
            user_prompts: self.user_prompts.or(other.user_prompts),
            workflow_improvements: self.workflow_improvements.or(other.workflow_improvements),
            ..self
        })
    }

    /// The file as bytes.
    ///
    /// # Errors
    /// [`DocumentError`] when it is too large, or a value is outside its limits.
    pub fn to_bytes(&self) -> Result<Vec<u8>, DocumentError> {
        let bytes = error::write(DOCUMENT, self, INSIGHTS_BYTES_MAX)?;
        // What is written can be read.
        Self::read(&bytes)?;
        Ok(bytes)
    }

    /// Reads a file.
    ///
    /// # Errors
    /// [`DocumentError`] with the path of the first field that is wrong.
    pub fn read(bytes: &[u8]) -> Result<Self, DocumentError> {
        let value = error::parse(DOCUMENT, bytes, INSIGHTS_BYTES_MAX)?;
        Self::from_value(&value)
            .map_err(|source| DocumentError::Field { document: DOCUMENT, source })
    }
}

impl<'de> Deserialize<'de> for Insights {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        Self::from_value(&value).map_err(serde::de::Error::custom)
    }
}

/// The file of a session's insights in the data folder. An id that cannot be a part of a file's name
/// is replaced by its SHA-256.
#[must_use]
pub fn insights_path(data_folder: &Path, date: Date, session_id: &str) -> PathBuf {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    let fits = !session_id.is_empty() && session_id.len() <= ID_CHARS_MAX;
    let id = if fits && session_id.bytes().all(allowed) {
        session_id.to_owned()
    } else {
        Digest::of(session_id.as_bytes()).to_string()
    };
    data_folder.join("sessions/insights").join(format!("{date}-{id}.json"))
}
