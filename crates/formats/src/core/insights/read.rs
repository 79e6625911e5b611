//! Reads insights, and names the first field that is wrong.

use serde_json::{Map, Value};

use super::Insights;
use crate::fields::{FieldError, Fields};

/// The longest list in insights.
pub const INSIGHTS_ITEMS_MAX: usize = 2000;
/// The longest text in insights, in characters.
pub const INSIGHTS_TEXT_CHARS_MAX: usize = 50_000;

const KEYS: [&str; 25] = [
    "session_id",
    "date",
    "project",
    "summary",
    "outcome",
    "accomplishments",
    "friction_points",
    "proposed_changes",
    "workflows_used",
    "subagents_invoked",
    "subagent_count",
    "custodiet_blocks",
    "stop_reason",
    "critic_verdict",
    "acceptance_criteria_count",
    "learning_observations",
    "skill_compliance",
    "context_gaps",
    "user_mood",
    "conversation_flow",
    "user_prompts",
    "token_metrics",
    "framework_reflections",
    "workflow_improvements",
    "timeline_events",
];

/// What the entries of a list may be.
#[derive(Clone, Copy)]
enum Entries {
    Objects,
    TextOrObjects,
    TextOrListsOrObjects,
}

impl Insights {
    /// Reads insights that are JSON already.
    ///
    /// # Errors
    /// [`FieldError`] with the path of the first field that is wrong.
    pub fn from_value(value: &Value) -> Result<Self, FieldError> {
        let fields = Fields::new(value, "", &KEYS)?;
        let count = |field| fields.maybe(field, Fields::count);
        Ok(Self {
            session_id: text(&fields, "session_id")?,
            date: fields.must("date", Fields::parsed)?,
            project: text(&fields, "project")?,
            summary: text(&fields, "summary")?,
            outcome: fields.must("outcome", Fields::parsed)?,
            accomplishments: fields.must("accomplishments", texts)?,
            friction_points: fields.maybe("friction_points", texts)?,
            proposed_changes: fields.maybe("proposed_changes", texts)?,
            workflows_used: fields.maybe("workflows_used", texts)?,
            subagents_invoked: fields.maybe("subagents_invoked", texts)?,
            subagent_count: count("subagent_count")?,
            custodiet_blocks: count("custodiet_blocks")?,
            stop_reason: fields.maybe("stop_reason", limited)?,
            critic_verdict: fields.maybe("critic_verdict", Fields::parsed)?,
            acceptance_criteria_count: count("acceptance_criteria_count")?,
            learning_observations: list(&fields, "learning_observations", Entries::TextOrObjects)?,
            skill_compliance: object(&fields, "skill_compliance")?,
            context_gaps: list(&fields, "context_gaps", Entries::TextOrObjects)?,
            user_mood: fields.maybe("user_mood", mood)?,
            conversation_flow: list(&fields, "conversation_flow", Entries::TextOrListsOrObjects)?,
            user_prompts: list(&fields, "user_prompts", Entries::TextOrListsOrObjects)?,
            token_metrics: object(&fields, "token_metrics")?,
            framework_reflections: list(&fields, "framework_reflections", Entries::Objects)?,
            workflow_improvements: list(&fields, "workflow_improvements", Entries::TextOrObjects)?,
            timeline_events: list(&fields, "timeline_events", Entries::Objects)?,
        })
    }
}

/// Text that must be there and not be empty.
fn text(fields: &Fields<'_>, field: &str) -> Result<String, FieldError> {
    let text = fields.must(field, limited)?;
    if text.trim().is_empty() {
        return Err(fields.invalid(field, "it is empty"));
    }
    Ok(text)
}

fn limited<'a>(fields: &Fields<'a>, field: &str, value: &'a Value) -> Result<String, FieldError> {
    check(fields, field, value)?;
    fields.text(field, value).map(str::to_owned)
}

fn texts<'a>(
    fields: &Fields<'a>,
    field: &str,
    value: &'a Value,
) -> Result<Vec<String>, FieldError> {
    check(fields, field, value)?;
    fields.texts(field, value)
}

fn mood(fields: &Fields<'_>, field: &str, value: &Value) -> Result<f64, FieldError> {
    match value.as_f64() {
        Some(mood) if (-1.0..=1.0).contains(&mood) => Ok(mood),
        Some(_) => Err(fields.invalid(field, "it must be from -1 to 1")),
        None => Err(fields.invalid(field, "it must be a number from -1 to 1")),
    }
}

fn object(fields: &Fields<'_>, field: &str) -> Result<Option<Map<String, Value>>, FieldError> {
    fields.maybe(field, |fields, field, value| {
        check(fields, field, value)?;
        fields.object(field, value)
    })
}

fn list(
    fields: &Fields<'_>,
    field: &str,
    entries: Entries,
) -> Result<Option<Vec<Value>>, FieldError> {
    let Some(items) = fields.maybe(field, Fields::list)? else { return Ok(None) };
    for (at, item) in items.iter().enumerate() {
        let (is_allowed, expected) = match entries {
            Entries::Objects => (item.is_object(), "an object"),
            Entries::TextOrObjects => {
                (item.is_string() || item.is_object(), "a string or an object")
            }
            Entries::TextOrListsOrObjects => (
                item.is_string() || item.is_array() || item.is_object(),
                "a string, a list or an object",
            ),
        };
        if !is_allowed {
            let (field, found) = (format!("{field}[{at}]"), crate::fields::kind(item));
            return Err(FieldError::Type { field: fields.name(&field), expected, found });
        }
    }
    check(fields, field, &Value::Array(items.to_vec()))?;
    Ok(Some(items.to_vec()))
}

/// Checks the limits of all texts and lists in a value.
fn check(fields: &Fields<'_>, place: &str, value: &Value) -> Result<(), FieldError> {
    let too_many = || fields.invalid(place, format!("more than {INSIGHTS_ITEMS_MAX} entries"));
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => Ok(()),
        Value::String(text) if text.chars().nth(INSIGHTS_TEXT_CHARS_MAX).is_some() => {
            Err(fields.invalid(place, format!("more than {INSIGHTS_TEXT_CHARS_MAX} characters")))
        }
        Value::String(_) => Ok(()),
        Value::Array(items) if items.len() > INSIGHTS_ITEMS_MAX => Err(too_many()),
        Value::Array(items) => {
            let mut items = items.iter().enumerate();
            items.try_for_each(|(at, item)| check(fields, &format!("{place}[{at}]"), item))
        }
        Value::Object(map) if map.len() > INSIGHTS_ITEMS_MAX => Err(too_many()),
        Value::Object(map) => map.iter().try_for_each(|(key, item)| {
            check(fields, &format!("{place}.{}", windlass_text::printable(key, 80)), item)
        }),
    }
}
