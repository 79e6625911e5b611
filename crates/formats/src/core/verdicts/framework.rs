//! The answer of the framework agent.

use serde::Serialize;
use serde_json::Value;

use super::answer;
use crate::core::answer::{items, optional, text, texts};
use crate::core::reflection::Reflection;
use crate::fields::{FieldError, Fields};

/// An improvement that the agent proposes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Improvement {
    /// What should be changed, and why.
    pub description: String,
    /// The improvement in one line.
    pub title: String,
}

/// The answer of the framework agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FrameworkAnswer {
    /// The improvements, each a work item of its own.
    pub improvements: Vec<Improvement>,
    /// What was learnt, each a work item of its own.
    pub learnings: Vec<String>,
    /// The reflection.
    pub reflection: Reflection,
    /// The answer in short.
    pub summary: Option<String>,
}

answer!(FrameworkAnswer);

impl FrameworkAnswer {
    /// Reads an answer that is JSON already.
    ///
    /// # Errors
    /// [`FieldError`] for the first field that is wrong.
    pub fn from_value(value: &Value) -> Result<Self, FieldError> {
        let known = ["reflection", "learnings", "improvements", "summary"];
        let fields = Fields::new(value, "", &known)?;
        let reflection = Reflection::parse(&text(&fields, "reflection")?)
            .map_err(|error| fields.invalid("reflection", error.to_string()))?;
        fields.required("learnings")?;
        fields.required("improvements")?;
        let improvements = items(&fields, "improvements", |item, place| {
            let fields = Fields::new(item, place, &["title", "description"])?;
            let (title, description) = (text(&fields, "title")?, text(&fields, "description")?);
            if title.contains(['\n', '\r']) {
                return Err(fields.invalid("title", "it must be one line"));
            }
            Ok(Improvement { description, title })
        })?;
        Ok(Self {
            improvements,
            learnings: texts(&fields, "learnings")?,
            reflection,
            summary: optional(&fields, "summary")?,
        })
    }
}
