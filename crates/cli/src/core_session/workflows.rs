//! The workflows of a project.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use windlass_loops::{Workflows, render_plan};
use windlass_sessions::core::{PlanStep, Workflow};

fn load(files: &BTreeMap<String, Vec<u8>>) -> Result<Workflows, String> {
    crate::workflows::load(files).map(|(all, _)| all).map_err(|failure| failure.summary())
}

/// A workflow with those that it is composed of.
pub fn selected(files: &BTreeMap<String, Vec<u8>>, id: &str) -> Result<Workflow, String> {
    let all = load(files)?;
    let (Some(steps), Some(gates)) = (all.compose(id), all.gates(id)) else {
        let known: Vec<&str> = all.files().keys().map(String::as_str).collect();
        return Err(format!("there is no workflow `{id}`; there are {}", known.join(", ")));
    };
    // The gates of the selected workflow decide; those that it is composed of do their part in its steps.
    let own = all.files().get(id).map(|file| file.gates.clone()).unwrap_or(gates);
    Ok(Workflow {
        steps: steps
            .into_iter()
            .map(|step| PlanStep { id: step.id, text: step.description })
            .collect(),
        gates: own.iter().map(|gate| gate.as_str().to_owned()).collect(),
    })
}

/// The index and the composed steps of each workflow, for the hydrator.
pub fn described(files: &BTreeMap<String, Vec<u8>>) -> Result<String, String> {
    let all = load(files)?;
    let mut text = format!("{}\n", all.index().trim());
    for id in all.files().keys() {
        let steps = all.compose(id).unwrap_or_default();
        let _ = write!(text, "\n### Steps of {id}\n\n{}\n", render_plan(&steps).trim_end());
        let ids: Vec<&str> = steps.iter().map(|step| step.id.as_str()).collect();
        let _ = write!(text, "\nIds, in order: {}\n", ids.join(", "));
    }
    Ok(text)
}
