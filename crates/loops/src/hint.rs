//! What would be right where something is wrong.

use std::borrow::Cow;

use crate::error::Problem;

fn perhaps(near: Option<&String>, otherwise: impl FnOnce() -> String) -> Cow<'static, str> {
    near.map_or_else(otherwise, |near| format!("did you mean `{near}`?")).into()
}

fn there_are(what: &str, known: &str) -> String {
    if known.is_empty() { format!("no {what} is known here") } else { format!("known: {known}") }
}

impl Problem {
    /// What would be right.
    pub fn hint(&self) -> Cow<'static, str> {
        match self {
            Self::UnknownKey { near, known, .. } => {
                perhaps(near.as_ref(), || format!("its keys are {known}"))
            }
            Self::NotOneOf { near, .. } => {
                perhaps(near.as_ref(), || "write one of them exactly".to_owned())
            }
            Self::UnknownPhase { near, .. } => {
                perhaps(near.as_ref(), || "name a phase of this loop by its `id`".to_owned())
            }
            Self::Unknown { what, near, known, .. } => {
                perhaps(near.as_ref(), || there_are(what, known))
            }
            Self::MissingKey { key, .. } => format!("add `{key}: …`").into(),
            Self::Stem { stem, .. } => format!("write `{stem}`, or rename the file").into(),
            Self::InterveneNotReady { judged, .. } => {
                format!("let it need only phases that come before `{judged}`").into()
            }
            Self::RedoNotBack(_, judged) => {
                format!("name `{judged}` itself or a phase that it needs, directly or not").into()
            }
            Self::TooLarge { .. } => "move prose into files of its own".into(),
            Self::NotUtf8 => "save the file as UTF-8".into(),
            Self::Nul => "remove the character".into(),
            Self::LoneReturn => "end lines with a line feed".into(),
            Self::NoFrontmatter => "the first line must be `---`".into(),
            Self::NotClosed => "put a line `---` after the last key".into(),
            Self::NotYaml(_) => "text with `: `, ` #` or brackets in it must be quoted".into(),
            Self::Tab => "indent with spaces".into(),
            Self::Anchor | Self::Alias | Self::MergeKey => {
                "write the value out at each place; quote it if it is text".into()
            }
            Self::Tag => "leave the tag out; quote the value if it is text".into(),
            Self::SecondDocument => "keep one document between the two `---` lines".into(),
            Self::TooDeep(_) => "make the values flatter".into(),
            Self::KeyNotText => "quote the key".into(),
            Self::Doubtful(..) => {
                "quote it if it is text; else write `true`, `false` or plain digits".into()
            }
            Self::DuplicateKey { .. } => "leave one of the two out".into(),
            Self::DuplicateName { .. } => "give each a name of its own".into(),
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
            Self::NotWhole { .. } => "leave the decimals out".into(),
            Self::Decimals { .. } => "round it".into(),
            Self::UnsafeNumber(_) => "write it as text, in quotes".into(),
            Self::Empty(_) => "say something, or leave the key out if it is optional".into(),
            Self::Control(_) => {
                "remove the character; text of several lines is not taken here".into()
            }
            Self::BadName { .. } => "use another name".into(),
            Self::NoPhases => "add at least one phase".into(),
            Self::TooManyPhases(..) => "split the loop".into(),
            Self::NeedsItself(_) => "leave it out of its own `needs`".into(),
            Self::Cycle(_) => {
                "leave one of these out of `needs`; going back is what `redo` is for".into()
            }
            Self::NeedsIntervention { .. } => {
                "need the judged phase instead: it is done again after the intervention".into()
            }
            Self::NoIntervene(_) => "name it by `intervene`, or leave `when` out".into(),
            Self::NotIntervention(_) => {
                "give that phase `when: intervention`, or use `redo`".into()
            }
            Self::IntervenesInItself(_) => "use `redo`".into(),
            Self::NoVerdicts(..) => "add `verdicts: { pass: continue, fail: block }`".into(),
            Self::NeverContinues(..) => "map one verdict to `continue`".into(),
            Self::NoEffect(_) => "give it one, such as `continue` or `block`".into(),
            Self::ThenTooDeep(_) => "end the chain with `block` or a `hold`".into(),
            Self::OneEffect | Self::OneDoer => "keep one of them".into(),
            Self::EmptyCommand => "name a program: `command: [cargo, test]`".into(),
            Self::Pattern(_) => "write a relative pattern without `..`, such as `src/**`".into(),
            Self::BranchWithoutCheckpoints(_) => {
                "a branch begins and ends with a checkpoint: leave `checkpoints: false` out".into()
            }
            Self::BranchDoer(..) => "only an agent or a command works in a branch".into(),
            Self::CheckByPeople(_) => "make it a phase of its own, with a gate".into(),
            Self::ConsensusGate(_) => {
                "reviewers say `approved`, `approved_with_conditions` or `rejected`: map all three"
                    .into()
            }
            Self::TooMany { .. } => "leave some out".into(),
            Self::NoEntries { .. } => "name at least one".into(),
            Self::BothWays(_) => "keep one of the two".into(),
            Self::LeftOut { target, .. } => {
                format!("keep `{target}` there, or leave out what names it as well").into()
            }
            Self::NothingLeft(_) => "keep at least one phase".into(),
            Self::InterveneLost { .. } => "leave it out as well, or make it `optional`".into(),
            Self::TooManyEdges(..) => "leave fewer phases out, or need fewer".into(),
            Self::OneEvidence | Self::OneCompare => "keep one of them".into(),
            Self::Flaw { hint, .. } => (*hint).into(),
            Self::NoPrompt => "say below the second `---` what the agent shall do".into(),
        }
    }
}
