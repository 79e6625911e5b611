//! The plan of a variant.

use std::collections::{BTreeMap, BTreeSet};

use thiserror::Error;
use windlass_kernel::Code;
use windlass_kernel::run::plan::{Phase, Plan};
use windlass_text::{Position, nearest};

use crate::error::{Diagnostic, Problem, shown};
use crate::file::LoopFile;
use crate::graph::select::{EDGES_MAX, SelectionProblem, select};
use crate::parts::fields::listed;
use crate::parts::phase::Draft;
use crate::parts::variant::Variant;

/// Why a loop has no plan for the selected phases.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum SelectError {
    /// The loop has no such variant.
    #[error("the loop `{id}` has no variant `{found}`")]
    UnknownVariant {
        /// The loop.
        id: String,
        /// The name that was asked for.
        found: String,
        /// A similar name.
        suggestion: Option<String>,
        /// The variants of the loop.
        known: String,
    },
    /// The loop has no such phase.
    #[error("the loop `{id}` has no phase `{found}`")]
    UnknownPhase {
        /// The loop.
        id: String,
        /// The name that was asked for.
        found: String,
        /// A similar name.
        suggestion: Option<String>,
        /// The optional phases of the loop.
        known: String,
    },
    /// The selected phases do not make a loop.
    #[error("the loop `{id}` cannot be run like this: {problem}")]
    Invalid {
        /// The loop.
        id: String,
        /// Why.
        problem: String,
    },
}

impl SelectError {
    /// The stable code.
    #[must_use]
    pub const fn code(&self) -> Code {
        match self {
            Self::UnknownVariant { .. } => Code::LoopNotFound,
            Self::UnknownPhase { .. } | Self::Invalid { .. } => Code::LoopInvalid,
        }
    }

    /// How to fix it.
    #[must_use]
    pub fn hint(&self) -> String {
        let (suggestion, known, nothing) = match self {
            Self::UnknownVariant { suggestion, known, .. } => {
                (suggestion, known, "it has no variants")
            }
            Self::UnknownPhase { suggestion, known, .. } => {
                (suggestion, known, "it has no optional phases")
            }
            Self::Invalid { .. } => {
                return "include the missing phase as well, or do not include this one".to_owned();
            }
        };
        match suggestion {
            Some(name) => format!("did you mean `{name}`?"),
            None if known.is_empty() => nothing.to_owned(),
            None => format!("it has {known}"),
        }
    }
}

/// The phases that take part: all but the optional ones, changed as the variant says.
fn present<'a>(
    phases: &'a [Phase],
    optional: &BTreeSet<String>,
    variant: Option<&Variant>,
    with: &[String],
) -> BTreeSet<&'a str> {
    let set = |names: &'_ [String]| names.iter().cloned().collect::<BTreeSet<String>>();
    let included = variant.map(|variant| set(&variant.include)).unwrap_or_default();
    let excluded = variant.map(|variant| set(&variant.exclude)).unwrap_or_default();
    let with = set(with);
    let is_there = |phase: &&'a Phase| {
        let id = &phase.id;
        let wanted = included.contains(id) || !optional.contains(id);
        with.contains(id) || (wanted && !excluded.contains(id))
    };
    phases.iter().filter(is_there).map(|phase| phase.id.as_str()).collect()
}

/// Checks the loop without a variant and with each variant; returns the phases of the former.
pub fn checked(
    drafts: &[Draft],
    phases: &[Phase],
    optional: &BTreeSet<String>,
    variants: &BTreeMap<String, (Variant, Position)>,
    position: Position,
) -> Result<Vec<Phase>, Diagnostic> {
    let check = |variant: Option<&Variant>, name: Option<&str>, position: Position| {
        let present = present(phases, optional, variant, &[]);
        select(phases, &present).map_err(|problem| locate(problem, drafts, name, position))
    };
    let canonical = check(None, None, position)?;
    for (name, (variant, position)) in variants {
        check(Some(variant), Some(name), *position)?;
    }
    Ok(canonical)
}

/// A problem at the position of the effect or phase that causes it, or else of the variant.
fn locate(
    problem: SelectionProblem,
    drafts: &[Draft],
    variant: Option<&str>,
    position: Position,
) -> Diagnostic {
    let selection = variant.map_or_else(
        || "the loop without a variant".to_owned(),
        |name| format!("the variant `{name}`"),
    );
    let draft = |id: &str| drafts.iter().find(|draft| draft.phase.id == id);
    match problem {
        SelectionProblem::MissingTarget { judged, kind, target } => {
            let references = draft(&judged).map(|draft| draft.references.as_slice());
            let mut references = references.unwrap_or_default().iter();
            let reference = references.find(|one| one.phase == target && one.kind == kind);
            let position = reference.map_or(position, |reference| reference.position);
            Problem::NotSelected { key: kind.key(), target, selection }.at(position)
        }
        SelectionProblem::UnreachableIntervention(phase) => {
            let position = draft(&phase).map_or(position, |draft| draft.position);
            Problem::UnreachableIntervention { phase, selection }.at(position)
        }
        SelectionProblem::NoPhases => Problem::NothingSelected(selection).at(position),
        SelectionProblem::TooManyEdges => Problem::TooManyEdges(selection, EDGES_MAX).at(position),
    }
}

impl LoopFile {
    /// All phases, also those that take part only if they are selected.
    #[must_use]
    pub fn all_phases(&self) -> &[Phase] {
        &self.phases
    }

    /// The plan of a variant, or of the loop without a variant, plus the phases `with`.
    ///
    /// # Errors
    /// [`SelectError`] when there is no such variant or phase, or one of these phases refers to a
    /// phase that is not selected.
    pub fn plan_with(&self, variant: Option<&str>, with: &[String]) -> Result<Plan, SelectError> {
        let id = || self.id.clone();
        let chosen = match variant {
            None => None,
            Some(name) => Some(self.variants.get(name).ok_or_else(|| {
                let names = || self.variants.keys().map(String::as_str);
                let suggestion = nearest(name, names()).map(str::to_owned);
                let known = listed(names());
                SelectError::UnknownVariant { id: id(), found: shown(name), suggestion, known }
            })?),
        };
        for name in with {
            if !self.phases.iter().any(|phase| phase.id == *name) {
                let ids = self.phases.iter().map(|phase| phase.id.as_str());
                let suggestion = nearest(name, ids).map(str::to_owned);
                let known = listed(self.optional.iter().map(String::as_str));
                return Err(SelectError::UnknownPhase {
                    id: id(),
                    found: shown(name),
                    suggestion,
                    known,
                });
            }
        }
        let present = present(&self.phases, &self.optional, chosen, with);
        let phases = select(&self.phases, &present).map_err(|problem| {
            let problem = match problem {
                SelectionProblem::MissingTarget { judged, kind, target } => {
                    format!("{} of `{judged}` names `{target}`, which is not selected", kind.key())
                }
                SelectionProblem::UnreachableIntervention(phase) => {
                    format!("nothing leads to the intervention phase `{phase}`")
                }
                SelectionProblem::NoPhases => "no phase is selected".to_owned(),
                SelectionProblem::TooManyEdges => format!("it has more than {EDGES_MAX} edges"),
            };
            SelectError::Invalid { id: id(), problem }
        })?;
        Ok(Plan { phases, variant: variant.map(str::to_owned), ..self.plan.clone() })
    }
}
