//! The plan that a workflow is composed to.

use std::fmt::Write as _;

/// A step of a composed workflow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedStep {
    /// How many links lead to it, from 0.
    pub depth: usize,
    /// What is done.
    pub description: String,
    /// The ids of the steps that lead to it and its own, such as `review/collect-feedback`.
    pub id: String,
    /// The step's name.
    pub name: String,
    /// The workflow whose step it is.
    pub workflow: String,
}

/// The steps as a numbered Markdown list of things to do; steps of a linked workflow are a list of
/// their own below the step that links to it.
#[must_use]
pub fn render_plan(steps: &[PlannedStep]) -> String {
    let mut text = String::new();
    let mut numbers: Vec<usize> = Vec::new();
    for step in steps {
        numbers.resize(step.depth + 1, 0);
        let number = numbers.last_mut().map_or(1, |number| {
            *number += 1;
            *number
        });
        let indent = "    ".repeat(step.depth);
        let description = step.description.split_whitespace().collect::<Vec<_>>().join(" ");
        let (id, name) = (&step.id, &step.name);
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{indent}{number}. [ ] {name} (`{id}`): {description}");
    }
    text
}
