//! Why a file is refused, and where.

use thiserror::Error;
use windlass_kernel::Code;
use windlass_text::yaml::{YamlError, YamlProblem};
use windlass_text::{DecodeError, DecodeProblem, Location, Position, printable};

/// A problem at a position; the file is added by [`crate::markdown::MarkdownFile::locate`].
#[derive(Debug)]
pub struct Diagnostic(Box<(Position, Problem)>);

impl Diagnostic {
    pub fn into_parts(self) -> (Position, Problem) {
        *self.0
    }
}

impl From<YamlError> for Diagnostic {
    fn from(error: YamlError) -> Self {
        Problem::Yaml(error.problem).at(error.position)
    }
}

impl From<DecodeError> for Diagnostic {
    fn from(error: DecodeError) -> Self {
        Problem::NotText(error.problem).at(error.position)
    }
}

/// Which kind of file was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKind {
    Loop,
    Agent,
    Workflow,
    Mission,
}

/// Why a loop file, an agent file or a workflow file cannot be used.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{location}: {problem}")]
pub struct LoopError {
    /// Where.
    pub location: Location,
    /// The line's text; control characters are replaced and a long line is cut.
    pub snippet: String,
    pub(crate) kind: FileKind,
    pub(crate) problem: Box<Problem>,
}

impl LoopError {
    /// The stable code.
    #[must_use]
    pub const fn code(&self) -> Code {
        match self.kind {
            FileKind::Loop | FileKind::Workflow | FileKind::Mission => Code::LoopInvalid,
            FileKind::Agent => Code::AgentInvalid,
        }
    }

    /// The problem, without the location.
    #[must_use]
    pub fn message(&self) -> String {
        self.problem.to_string()
    }

    /// How to fix it.
    #[must_use]
    pub fn hint(&self) -> String {
        self.problem.hint().into_owned()
    }
}

/// Why a file is refused. User input in it has gone through [`shown`].
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum Problem {
    #[error(transparent)]
    NotText(DecodeProblem),
    #[error("a line ends with a carriage return alone")]
    LoneReturn,
    #[error("the file does not start with frontmatter")]
    NoFrontmatter,
    #[error("the frontmatter is not closed")]
    NotClosed,
    #[error(transparent)]
    Yaml(YamlProblem),

    #[error("{what} has no key `{key}`")]
    UnknownKey { what: &'static str, key: String, suggestion: Option<String>, known: String },
    #[error("{what} needs the key `{key}`")]
    MissingKey { what: &'static str, key: &'static str },
    #[error("`{key}` must be {expected}, not {found}")]
    WrongType { key: String, expected: &'static str, found: &'static str },
    #[error("`{key}` must be one of {allowed}, not `{found}`")]
    NotOneOf { key: &'static str, allowed: String, found: String, suggestion: Option<String> },
    #[error("`{key}` must be {range}, not `{found}`")]
    OutOfRange { key: &'static str, range: String, found: String },
    #[error("`{key}` must be a whole number, not `{found}`")]
    NotWhole { key: &'static str, found: String },
    #[error("`{key}` has more than {max} decimal places: `{found}`")]
    Decimals { key: &'static str, max: u32, found: String },
    #[error("the number `{0}` is too large to be recorded exactly")]
    UnsafeNumber(String),
    #[error("`{0}` is empty")]
    Empty(String),
    #[error("`{key}` has more than {max} characters")]
    TooLong { key: String, max: usize },
    #[error("`{0}` contains a control character")]
    Control(String),
    #[error("`{found}` cannot be {what}: use only {allowed}, at most {max} characters")]
    BadName { what: &'static str, found: String, allowed: &'static str, max: usize },
    #[error("the {key} is `{found}`, but the file is named `{stem}`")]
    Stem { key: &'static str, found: String, stem: String },
    #[error("{what} `{name}` appears twice, first in line {first_line}")]
    DuplicateName { what: &'static str, name: String, first_line: usize },

    #[error("the loop has no phases")]
    NoPhases,
    #[error("the loop has {0} phases, more than {1}")]
    TooManyPhases(usize, usize),
    #[error("{key} names the phase `{found}`, which does not exist")]
    UnknownPhase { key: &'static str, found: String, suggestion: Option<String> },
    #[error("the phase `{0}` needs itself")]
    NeedsItself(String),
    #[error("the phases need each other in a cycle: {0}")]
    Cycle(String),
    #[error("the phase `{phase}` can never run: it needs the intervention phase `{need}`")]
    NeedsIntervention { phase: String, need: String },
    #[error("the intervention phase `{0}` can never run: no gate or check sends a run there")]
    NoIntervene(String),
    #[error("`{0}` does not come before `{1}`, so a run cannot go back to it")]
    RedoNotBack(String, String),
    #[error("`intervene` names `{0}`, which is not an intervention phase")]
    NotIntervention(String),
    #[error("`{phase}` cannot intervene in `{judged}`: a phase that it needs is not done by then")]
    InterveneNotReady { phase: String, judged: String },
    #[error("`{0}` cannot intervene in itself")]
    IntervenesInItself(String),

    #[error("the {0} `{1}` has no verdicts")]
    NoVerdicts(&'static str, String),
    #[error("no verdict of the {0} `{1}` lets the run continue")]
    NeverContinues(&'static str, String),
    #[error("the verdict `{0}` has no effect")]
    NoEffect(String),
    #[error("`then` is nested deeper than {0}")]
    ThenTooDeep(usize),
    #[error("an effect must have exactly one of {EFFECTS}")]
    OneEffect,
    #[error("a doer must have exactly one of {DOERS}")]
    OneDoer,
    #[error("there is no {what} `{found}`")]
    Unknown { what: &'static str, found: String, suggestion: Option<String>, known: String },
    #[error("the command is empty")]
    EmptyCommand,
    #[error("{0}")]
    Pattern(String),
    #[error("the phase `{0}` is a branch, but the loop keeps no checkpoints")]
    BranchWithoutCheckpoints(String),
    #[error("the phase `{0}` is a branch, but {1} does it, which writes nothing")]
    BranchDoer(String, &'static str),
    #[error("a check cannot be made by {0}")]
    CheckByPeople(&'static str),
    #[error("{0}")]
    ConsensusGate(String),
    #[error("`{key}` has more than {max} entries")]
    TooMany { key: &'static str, max: usize },
    #[error("`{key}` has no entries")]
    NoEntries { key: &'static str },
    #[error("the phase `{0}` is both included and excluded")]
    IncludedAndExcluded(String),
    #[error("{key} names `{target}`, which is not part of {selection}")]
    NotSelected { key: &'static str, target: String, selection: String },
    #[error("{0} has no phases")]
    NothingSelected(String),
    #[error("the intervention phase `{phase}` can never run: nothing in {selection} leads to it")]
    UnreachableIntervention { phase: String, selection: String },
    #[error("{0} has more than {1} edges")]
    TooManyEdges(String, usize),
    #[error("a rule must have exactly one of `metric`, `tool`, `validator`")]
    OneEvidence,
    #[error("a metric must have exactly one of `at_least`, `at_most`, `equal`")]
    OneCompare,
    #[error("{message}")]
    Rule { message: String, hint: &'static str },
    #[error("there is no prompt below the frontmatter")]
    NoPrompt,

    #[error("`workflow` must be null or a link to a workflow, not `{0}`")]
    NotLink(String),
    #[error("a step links to `{0}`, which is not in `dependencies`")]
    MissingDependency(String),
    #[error("no step links to the dependency `{0}`")]
    UnusedDependency(String),
    #[error("a workflow has no section `## {0}`")]
    UnknownSection(String),
    #[error("the section `## {0}` is missing")]
    NoSection(&'static str),
    #[error("here must be the section `## {expected}`, not `## {found}`")]
    SectionOrder { expected: &'static str, found: String },
    #[error("there is no text below the heading `{0}`")]
    EmptySection(String),
    #[error("`## Steps` has no heading `{0}`")]
    NoStepHeading(String),
    #[error("the heading of this step must be `{expected}`, not `{found}`")]
    StepHeading { expected: String, found: String },
    #[error("the heading `{0}` belongs to no step")]
    ExtraStepHeading(String),
    #[error("the workflows link to each other in a cycle: {0}")]
    WorkflowCycle(String),
    #[error("the workflows link to each other more than {max} deep: {chain}")]
    ChainTooLong { chain: String, max: usize },
    #[error(
        "the workflow `{id}` has more than {max} steps with those of the workflows it links to"
    )]
    PlanTooLong { id: String, max: usize },
    #[error("{what} `{name}` is also in the file `{other}`")]
    DuplicateFile { what: &'static str, name: String, other: String },
    #[error("the folder of workflows has no `WORKFLOWS.md`")]
    NoIndex,
    #[error("the decision tree is missing")]
    NoDecisionTree,
    #[error("a line of the decision tree must end with `-> [[workflow]]`")]
    NotBranch,
    #[error("this line of the decision tree must have the number {expected}, not {found}")]
    BranchNumber { expected: usize, found: String },
    #[error("the workflow `{0}` is not in a table of `WORKFLOWS.md`")]
    NotInTable(String),
    #[error("the workflow `{0}` can never be chosen: nothing leads to it")]
    NeverChosen(String),
}

const EFFECTS: &str = "`continue`, `block`, `redo`, `hold`, `intervene`, `stop`";
const DOERS: &str = "`agent`, `builtin`, `command`, `consensus`, `person`";

impl Problem {
    /// This problem at a position.
    pub fn at(self, position: Position) -> Diagnostic {
        Diagnostic(Box::new((position, self)))
    }
}

/// User input as a message shows it: one line, cut, without control characters.
pub fn shown(text: &str) -> String {
    printable(text, 80)
}
