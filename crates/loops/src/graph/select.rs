//! Selects some phases of a loop: a phase that needs an excluded one needs what that one needed.

use std::collections::{BTreeMap, BTreeSet};

use windlass_kernel::run::plan::{Effect, Phase, PhaseCondition};

use crate::parts::effect::ReferenceKind;

/// The most edges of a plan: excluding phases can turn few edges into many.
pub const EDGES_MAX: usize = 2_000_000;

/// Why the selected phases do not make a loop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SelectionProblem {
    /// An effect names a phase that is not selected.
    MissingTarget {
        judged: String,
        kind: ReferenceKind,
        target: String,
    },
    /// No effect leads to this intervention phase.
    UnreachableIntervention(String),
    NoPhases,
    TooManyEdges,
}

/// The phases of sorted `phases` that are in `present`, with edges through the others replaced.
pub fn select(phases: &[Phase], present: &BTreeSet<&str>) -> Result<Vec<Phase>, SelectionProblem> {
    let mut through: BTreeMap<&str, Vec<&String>> = BTreeMap::new();
    let mut selected = Vec::new();
    let mut edges = 0usize;
    for phase in phases {
        let mut seen: BTreeSet<&str> = BTreeSet::new();
        let mut needs: Vec<&String> = Vec::new();
        for need in &phase.needs {
            let own = [need];
            let stand_in = through.get(need.as_str()).map_or(&own[..], Vec::as_slice);
            needs.extend(stand_in.iter().copied().filter(|need| seen.insert(need.as_str())));
        }
        edges = edges.saturating_add(needs.len());
        if edges > EDGES_MAX {
            return Err(SelectionProblem::TooManyEdges);
        }
        if present.contains(phase.id.as_str()) {
            let needs = needs.into_iter().cloned().collect();
            selected.push(Phase { needs, ..phase.clone() });
        } else {
            through.insert(&phase.id, needs);
        }
    }
    if selected.is_empty() {
        return Err(SelectionProblem::NoPhases);
    }
    check(&selected, present)?;
    Ok(selected)
}

/// Checks that every effect names a selected phase, and that every intervention is reachable.
fn check(selected: &[Phase], present: &BTreeSet<&str>) -> Result<(), SelectionProblem> {
    let mut leads: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for phase in selected {
        for (kind, target) in effects(phase) {
            if !present.contains(target) {
                let (judged, target) = (phase.id.clone(), target.to_owned());
                return Err(SelectionProblem::MissingTarget { judged, kind, target });
            }
            if kind == ReferenceKind::Intervene {
                leads.entry(&phase.id).or_default().push(target);
            }
        }
    }
    let is_intervention = |phase: &&Phase| phase.when == PhaseCondition::Intervention;
    let mut open: Vec<&str> = selected
        .iter()
        .filter(|phase| !is_intervention(phase))
        .map(|phase| phase.id.as_str())
        .collect();
    let mut reached: BTreeSet<&str> = BTreeSet::new();
    while let Some(id) = open.pop() {
        let targets = leads.get(id).into_iter().flatten();
        open.extend(targets.copied().filter(|target| reached.insert(target)));
    }
    let mut interventions = selected.iter().filter(is_intervention);
    match interventions.find(|phase| !reached.contains(phase.id.as_str())) {
        Some(phase) => Err(SelectionProblem::UnreachableIntervention(phase.id.clone())),
        None => Ok(()),
    }
}

/// The phases that the effects of a phase name.
fn effects(phase: &Phase) -> Vec<(ReferenceKind, &str)> {
    let verdicts = phase.checks.iter().map(|check| &check.verdicts);
    let verdicts = verdicts.chain(phase.gate.iter().map(|gate| &gate.verdicts));
    let mut named = Vec::new();
    let mut open: Vec<&Effect> = verdicts.flat_map(|verdicts| verdicts.values()).collect();
    while let Some(effect) = open.pop() {
        match effect {
            Effect::Intervene { phase, then } => {
                named.push((ReferenceKind::Intervene, phase.as_str()));
                open.push(then);
            }
            Effect::Redo { phase, then, .. } => {
                named.push((ReferenceKind::Redo, phase.as_str()));
                open.push(then);
            }
            Effect::Block | Effect::Continue | Effect::Hold { .. } | Effect::Stop { .. } => {}
        }
    }
    named
}
