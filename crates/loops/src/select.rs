//! The plan of a variant.

use std::collections::{BTreeMap, BTreeSet};

use thiserror::Error;
use windlass_kernel::Code;
use windlass_kernel::run::plan::{Phase, Plan};

use crate::error::{Fault, Place, Problem, shown};
use crate::file::LoopFile;
use crate::graph::select::{EDGES_MAX, Misfit, select};
use crate::near;
use crate::parts::phase::Draft;
use crate::parts::shape::listed;
use crate::parts::variant::Variant;

/// Why a loop has no such plan.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum SelectError {
    /// The loop has no such variant.
    #[error("the loop `{id}` has no variant `{found}`")]
    UnknownVariant {
        /// The loop.
        id: String,
        /// What was asked for.
        found: String,
        /// The variant that may be meant.
        near: Option<String>,
        /// Those that there are.
        known: String,
    },
    /// The loop has no such phase.
    #[error("the loop `{id}` has no phase `{found}`")]
    UnknownPhase {
        /// The loop.
        id: String,
        /// What was asked for.
        found: String,
        /// The phase that may be meant.
        near: Option<String>,
        /// The optional ones that there are.
        known: String,
    },
    /// The phases that would be there make no loop.
    #[error("the loop `{id}` cannot be run like this: {problem}")]
    Misfit {
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
            Self::UnknownPhase { .. } | Self::Misfit { .. } => Code::LoopInvalid,
        }
    }

    /// What would be right.
    #[must_use]
    pub fn hint(&self) -> String {
        let (near, known, what) = match self {
            Self::UnknownVariant { near, known, .. } => (near, known, "it has no variants"),
            Self::UnknownPhase { near, known, .. } => (near, known, "it has no optional phases"),
            Self::Misfit { .. } => {
                return "include the phase that is named as well, or leave this one out".to_owned();
            }
        };
        match near {
            Some(near) => format!("did you mean `{near}`?"),
            None if known.is_empty() => what.to_owned(),
            None => format!("it has {known}"),
        }
    }
}

/// The phases that are there: all but the optional ones, as the variant says.
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

/// Checks the loop without a variant and each of its variants; returns the phases of the former.
pub fn checked(
    drafts: &[Draft],
    phases: &[Phase],
    optional: &BTreeSet<String>,
    variants: &BTreeMap<String, (Variant, Place)>,
    at: Place,
) -> Result<Vec<Phase>, Fault> {
    let one = |variant: Option<&Variant>, name: Option<&str>, at: Place| {
        let there = present(phases, optional, variant, &[]);
        select(phases, &there).map_err(|misfit| locate(misfit, drafts, name, at))
    };
    let canonical = one(None, None, at)?;
    for (name, (variant, at)) in variants {
        one(Some(variant), Some(name), *at)?;
    }
    Ok(canonical)
}

/// A misfit at its place: that of the effect which leads nowhere, or of the variant.
fn locate(misfit: Misfit, drafts: &[Draft], variant: Option<&str>, at: Place) -> Fault {
    let by = variant.map_or_else(
        || "the loop without a variant".to_owned(),
        |name| format!("the variant `{name}`"),
    );
    let draft = |id: &str| drafts.iter().find(|draft| draft.phase.id == id);
    match misfit {
        Misfit::Leads { judged, by: way, target } => {
            let references = draft(&judged).map(|draft| draft.references.as_slice());
            let place = references.and_then(|references| {
                let same = references.iter().find(|one| one.phase == target && one.by == way);
                same.map(|reference| reference.at)
            });
            Problem::LeftOut { key: way.key(), target, by }.at(place.unwrap_or(at))
        }
        Misfit::Lost(phase) => {
            let place = draft(&phase).map_or(at, |draft| draft.at);
            Problem::InterveneLost { phase, by }.at(place)
        }
        Misfit::Nothing => Problem::NothingLeft(by).at(at),
        Misfit::Edges => Problem::TooManyEdges(by, EDGES_MAX).at(at),
    }
}

impl LoopFile {
    /// The plan of a variant, or of the loop as it is without one.
    ///
    /// # Errors
    /// [`SelectError::UnknownVariant`].
    pub fn plan_for(&self, variant: Option<&str>) -> Result<Plan, SelectError> {
        self.plan_with(variant, &[])
    }

    /// The plan of a variant with more phases, which it would leave out.
    ///
    /// # Errors
    /// [`SelectError`] when there is no such variant or phase, or one of these phases names one that
    /// is left out.
    pub fn plan_with(&self, variant: Option<&str>, with: &[String]) -> Result<Plan, SelectError> {
        let id = || self.id.clone();
        let chosen = match variant {
            None => None,
            Some(name) => Some(self.variants.get(name).ok_or_else(|| {
                let names = || self.variants.keys().map(String::as_str);
                let near = near::nearest(name, names());
                let known = listed(names());
                SelectError::UnknownVariant { id: id(), found: shown(name), near, known }
            })?),
        };
        for name in with {
            if !self.phases.iter().any(|phase| phase.id == *name) {
                let ids = self.phases.iter().map(|phase| phase.id.as_str());
                let near = near::nearest(name, ids);
                let known = listed(self.optional.iter().map(String::as_str));
                return Err(SelectError::UnknownPhase {
                    id: id(),
                    found: shown(name),
                    near,
                    known,
                });
            }
        }
        let there = present(&self.phases, &self.optional, chosen, with);
        let phases = select(&self.phases, &there).map_err(|misfit| {
            let problem = match misfit {
                Misfit::Leads { judged, by, target } => {
                    format!("{} of `{judged}` names `{target}`, which is left out", by.key())
                }
                Misfit::Lost(phase) => format!("nothing leads to the intervention `{phase}`"),
                Misfit::Nothing => "no phase is left".to_owned(),
                Misfit::Edges => format!("it has more edges than {EDGES_MAX}"),
            };
            SelectError::Misfit { id: id(), problem }
        })?;
        Ok(Plan { phases, variant: variant.map(str::to_owned), ..self.plan.clone() })
    }
}
