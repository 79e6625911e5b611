//! The answer of the prompt hydrator.

use serde::Serialize;
use serde_json::Value;

use super::answer;
use crate::core::answer::{items, optional, some, text, texts};
use crate::fields::{FieldError, Fields};
use crate::keyword::keywords;

/// The longest id of a workflow.
const WORKFLOW_CHARS_MAX: usize = 64;

keywords! {
    /// How many sessions the task needs.
    Scope {
        /// One.
        SingleSession = "single-session",
        /// More than one.
        MultiSession = "multi-session",
    }
}

keywords! {
    /// What is to be done with the prompt.
    HydratorPath {
        /// It is carried out now.
        Execute = "EXECUTE",
        /// It is written down for later.
        Triage = "TRIAGE",
    }
}

keywords! {
    /// How hard the task is.
    Complexity {
        /// It needs no decisions.
        Mechanical = "mechanical",
        /// It needs decisions.
        RequiresJudgment = "requires-judgment",
        /// It has several steps.
        MultiStep = "multi-step",
        /// It must be split first.
        NeedsDecomposition = "needs-decomposition",
        /// A person must decide first.
        BlockedHuman = "blocked-human",
    }
}

/// A step of the hydrator's plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PlanItem {
    /// The id of the workflow's step.
    pub step: String,
    /// What is done in it for this prompt.
    pub text: String,
}

/// The answer of the prompt hydrator.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct HydratorAnswer {
    /// What must hold when the task is done; at least one.
    pub acceptance_criteria: Vec<String>,
    /// How hard the task is.
    pub complexity: Complexity,
    /// What the hydrator found out about the task.
    pub context: Vec<String>,
    /// What the user wants.
    pub intent: String,
    /// What is to be done with the prompt.
    pub path: HydratorPath,
    /// The steps; at least one.
    pub plan: Vec<PlanItem>,
    /// How many sessions the task needs.
    pub scope: Scope,
    /// The answer in short.
    pub summary: Option<String>,
    /// The id of the workflow that fits.
    pub workflow: String,
}

answer!(HydratorAnswer);

const KEYS: [&str; 9] = [
    "intent",
    "scope",
    "path",
    "complexity",
    "workflow",
    "acceptance_criteria",
    "plan",
    "context",
    "summary",
];

impl HydratorAnswer {
    /// Reads an answer that is JSON already.
    ///
    /// # Errors
    /// [`FieldError`] for the first field that is wrong.
    pub fn from_value(value: &Value) -> Result<Self, FieldError> {
        let fields = Fields::new(value, "", &KEYS)?;
        let criteria = texts(&fields, "acceptance_criteria")?;
        let plan = items(&fields, "plan", |item, place| {
            let fields = Fields::new(item, place, &["step", "text"])?;
            Ok(PlanItem { step: text(&fields, "step")?, text: text(&fields, "text")? })
        })?;
        let none = "it must have at least one entry";
        Ok(Self {
            intent: text(&fields, "intent")?,
            scope: fields.must("scope", Fields::parsed)?,
            path: fields.must("path", Fields::parsed)?,
            complexity: fields.must("complexity", Fields::parsed)?,
            workflow: workflow(&fields)?,
            acceptance_criteria: some(&fields, "acceptance_criteria", criteria, none)?,
            plan: some(&fields, "plan", plan, none)?,
            context: texts(&fields, "context")?,
            summary: optional(&fields, "summary")?,
        })
    }
}

fn workflow(fields: &Fields<'_>) -> Result<String, FieldError> {
    let id = text(fields, "workflow")?;
    let allowed = |byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-');
    if id.len() <= WORKFLOW_CHARS_MAX && id.bytes().all(allowed) {
        return Ok(id);
    }
    let why = "the id of a workflow has 1 to 64 of `a-z`, `0-9`, `_` and `-`";
    Err(fields.invalid("workflow", why))
}
