//! How to fix a problem.

use std::borrow::Cow;

use crate::error::Problem;

fn suggest(suggestion: Option<&String>, or: impl FnOnce() -> String) -> Cow<'static, str> {
    suggestion.map_or_else(or, |name| format!("did you mean `{name}`?")).into()
}

fn known_names(what: &str, known: &str) -> String {
    if known.is_empty() { format!("there are no {what}s here") } else { format!("known: {known}") }
}

impl Problem {
    /// How to fix it.
    pub fn hint(&self) -> Cow<'static, str> {
        match self {
            Self::NotText(problem) => problem.hint().into(),
            Self::Yaml(problem) => problem.hint().into(),
            Self::UnknownKey { suggestion, known, .. } => {
                suggest(suggestion.as_ref(), || format!("its keys are {known}"))
            }
            Self::NotOneOf { suggestion, .. } => {
                suggest(suggestion.as_ref(), || "write one of these words exactly".to_owned())
            }
            Self::UnknownPhase { suggestion, .. } => {
                suggest(suggestion.as_ref(), || "name a phase of this loop by its `id`".to_owned())
            }
            Self::Unknown { what, suggestion, known, .. } => {
                suggest(suggestion.as_ref(), || known_names(what, known))
            }
            Self::MissingKey { key, .. } => format!("add `{key}: …`").into(),
            Self::Stem { stem, .. } => format!("write `{stem}`, or rename the file").into(),
            Self::InterveneNotReady { judged, .. } => {
                format!("let it need only phases that come before `{judged}`").into()
            }
            Self::RedoNotBack(_, judged) => {
                format!("name `{judged}` itself or a phase that it needs, directly or indirectly")
                    .into()
            }
            Self::LoneReturn => "end lines with a line feed".into(),
            Self::NoFrontmatter => "the first line must be `---`".into(),
            Self::NotClosed => "add a line `---` after the last key".into(),
            Self::DuplicateName { .. } | Self::DuplicateFile { .. } => {
                "remove one, or give it another name".into()
            }
            Self::WrongType { expected, .. } => match *expected {
                "text" => "put it in quotes",
                "a list" => "write `[one, two]`",
                "a number" => "write digits without quotes",
                "true or false" => "write `true` or `false` without quotes",
                "a mapping" => "write `key: value`",
                _ => "write it in one of these forms",
            }
            .into(),
            Self::OutOfRange { .. } | Self::TooLong { .. } => "stay within the limit".into(),
            Self::NotWhole { .. } => "remove the decimals".into(),
            Self::Decimals { .. } => "round it".into(),
            Self::UnsafeNumber(_) => "write it as text, in quotes".into(),
            Self::Empty(_) => "write something, or remove the key if it is optional".into(),
            Self::Control(_) => {
                "remove the character; a value of one line cannot contain line breaks".into()
            }
            Self::BadName { .. } => "choose another name".into(),
            Self::NoPhases => "add at least one phase".into(),
            Self::TooManyPhases(..) => "split the loop".into(),
            Self::NeedsItself(_) => "remove it from its own `needs`".into(),
            Self::Cycle(_) => "remove one of these from `needs`; to go back, use `redo`".into(),
            Self::NeedsIntervention { .. } => {
                "need the judged phase instead: it runs again after the intervention".into()
            }
            Self::NoIntervene(_) => "name it in an `intervene` effect, or remove `when`".into(),
            Self::NotIntervention(_) => {
                "give that phase `when: intervention`, or use `redo`".into()
            }
            Self::IntervenesInItself(_) => "use `redo`".into(),
            Self::NoVerdicts(..) => "add `verdicts: { pass: continue, fail: block }`".into(),
            Self::NeverContinues(..) => "map one verdict to `continue`".into(),
            Self::NoEffect(_) => "give it one, such as `continue` or `block`".into(),
            Self::ThenTooDeep(_) => "end the chain with `block` or a `hold`".into(),
            Self::OneEffect | Self::OneDoer | Self::OneEvidence | Self::OneCompare => {
                "keep one of them".into()
            }
            Self::EmptyCommand => "name a program: `command: [cargo, test]`".into(),
            Self::Pattern(_) => "write a relative pattern without `..`, such as `src/**`".into(),
            Self::BranchWithoutCheckpoints(_) => {
                "a branch starts and ends with a checkpoint: remove `checkpoints: false`".into()
            }
            Self::BranchDoer(..) => "only an agent or a command can work in a branch".into(),
            Self::CheckByPeople(_) => "make it a phase of its own, with a gate".into(),
            Self::ConsensusGate(_) => {
                "reviewers answer `approved`, `approved_with_conditions` or `rejected`: map all \
                 three"
                    .into()
            }
            Self::TooMany { .. } => "remove some".into(),
            Self::NoEntries { .. } => "name at least one".into(),
            Self::IncludedAndExcluded(_) => "remove it from one of the two".into(),
            Self::NotSelected { target, .. } => {
                format!("include `{target}` there, or exclude the phase that names it as well")
                    .into()
            }
            Self::NothingSelected(_) => "keep at least one phase".into(),
            Self::UnreachableIntervention { .. } => {
                "exclude it as well, or make it `optional`".into()
            }
            Self::TooManyEdges(..) => "exclude fewer phases, or let phases need fewer".into(),
            Self::Rule { hint, .. } => (*hint).into(),
            Self::NoPrompt => "write below the second `---` what the agent should do".into(),
            Self::NotLink(_) => "write `null`, or `\"[[id]]\"` with the id of a workflow".into(),
            Self::MissingDependency(id) => format!("add `{id}` to `dependencies`").into(),
            Self::UnusedDependency(_) => "remove it, or let a step link to it".into(),
            Self::UnknownSection(_) | Self::NoSection(_) | Self::SectionOrder { .. } => {
                "write `## Overview`, `## When to Use`, `## Steps`, `## Success Metrics`, in this \
                 order; use `###` for headings inside them"
                    .into()
            }
            Self::EmptySection(_) => "write the text, or remove the heading and its step".into(),
            Self::NoStepHeading(_) | Self::StepHeading { .. } | Self::ExtraStepHeading(_) => {
                "write one heading `### N. Name` for each step, in the order of the steps".into()
            }
            Self::WorkflowCycle(_) | Self::ChainTooLong { .. } => {
                "set `workflow` of one of these steps to `null`".into()
            }
            Self::PlanTooLong { .. } => "link to fewer workflows".into(),
            Self::NoIndex => "write `WORKFLOWS.md` with a decision tree and a table".into(),
            Self::NoDecisionTree => {
                "write a numbered list whose lines end with `-> [[workflow]]`".into()
            }
            Self::NotBranch => {
                "end the line with `-> [[id]]`; use `-` for lists that are not the tree".into()
            }
            Self::BranchNumber { .. } => "number the lines from 1 without gaps".into(),
            Self::NotInTable(id) => {
                format!("add a row `| {id} | … |` to a table whose first column is `id`").into()
            }
            Self::NeverChosen(id) => {
                format!("end a line of the decision tree with `-> [[{id}]]`, or link to it").into()
            }
        }
    }
}
