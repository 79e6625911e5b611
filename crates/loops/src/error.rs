//! What is wrong with a file, and where.

use thiserror::Error;
use windlass_kernel::Code;

use crate::near;

/// A place in a file: line and column count from 1, columns in characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    pub line: usize,
    pub column: usize,
}

/// A problem at its place; the file is added on the way out.
#[derive(Debug)]
pub struct Fault(Box<(Place, Problem)>);

impl Fault {
    pub fn place(&self) -> Place {
        self.0.0
    }

    pub fn into_parts(self) -> (Place, Problem) {
        *self.0
    }
}

/// Which kind of file was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKind {
    Loop,
    Agent,
}

/// Why a loop file or an agent file cannot be used.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{file}:{line}:{column}: {problem}")]
pub struct LoopError {
    /// The file, as it was named.
    pub file: String,
    /// The line, from 1.
    pub line: usize,
    /// The column, from 1, in characters.
    pub column: usize,
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
            FileKind::Loop => Code::LoopInvalid,
            FileKind::Agent => Code::AgentInvalid,
        }
    }

    /// What is wrong, without the place.
    #[must_use]
    pub fn message(&self) -> String {
        self.problem.to_string()
    }

    /// What would be right.
    #[must_use]
    pub fn hint(&self) -> String {
        self.problem.hint().into_owned()
    }
}

/// What is wrong. User input in it has gone through [`shown`].
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum Problem {
    #[error("the file has {bytes} bytes, more than {max}")]
    TooLarge { bytes: usize, max: usize },
    #[error("the file is not UTF-8")]
    NotUtf8,
    #[error("the file holds a NUL character")]
    Nul,
    #[error("a carriage return stands alone")]
    LoneReturn,
    #[error("the file does not start with a frontmatter")]
    NoFrontmatter,
    #[error("the frontmatter is not closed")]
    NotClosed,
    #[error("this is not YAML: {0}")]
    NotYaml(String),
    #[error("a tab is used as indentation")]
    Tab,
    #[error("YAML anchors are refused")]
    Anchor,
    #[error("YAML aliases are refused")]
    Alias,
    #[error("YAML tags are refused")]
    Tag,
    #[error("YAML merge keys are refused")]
    MergeKey,
    #[error("the frontmatter has a second document")]
    SecondDocument,
    #[error("values are nested deeper than {0}")]
    TooDeep(usize),
    #[error("a key must be text")]
    KeyNotText,
    #[error("`{0}` is read as text by some and as {1} by others")]
    Doubtful(String, &'static str),
    #[error("the key `{key}` is there twice, first in line {first}")]
    DuplicateKey { key: String, first: usize },

    #[error("{what} has no key `{key}`")]
    UnknownKey { what: &'static str, key: String, near: Option<String>, known: String },
    #[error("{what} needs the key `{key}`")]
    MissingKey { what: &'static str, key: &'static str },
    #[error("`{key}` must be {expected}, not {found}")]
    WrongType { key: String, expected: &'static str, found: &'static str },
    #[error("`{key}` must be one of {allowed}, not `{found}`")]
    NotOneOf { key: &'static str, allowed: String, found: String, near: Option<String> },
    #[error("`{key}` must be {range}, not `{found}`")]
    OutOfRange { key: &'static str, range: String, found: String },
    #[error("`{key}` must be a whole number, not `{found}`")]
    NotWhole { key: &'static str, found: String },
    #[error("`{key}` has more than {most} decimals: `{found}`")]
    Decimals { key: &'static str, most: u32, found: String },
    #[error("the number `{0}` is too large to be recorded exactly")]
    UnsafeNumber(String),
    #[error("`{0}` is empty")]
    Empty(String),
    #[error("`{key}` has more than {most} characters")]
    TooLong { key: String, most: usize },
    #[error("`{0}` holds a control character")]
    Control(String),
    #[error("`{found}` is not {what}: only {allowed}, at most {most}")]
    BadName { what: &'static str, found: String, allowed: &'static str, most: usize },
    #[error("the {key} is `{found}`, the file is named `{stem}`")]
    Stem { key: &'static str, found: String, stem: String },
    #[error("{what} `{name}` is there twice, first in line {first}")]
    DuplicateName { what: &'static str, name: String, first: usize },

    #[error("the loop has no phases")]
    NoPhases,
    #[error("the loop has {0} phases, more than {1}")]
    TooManyPhases(usize, usize),
    #[error("{key} names no phase: `{found}`")]
    UnknownPhase { key: &'static str, found: String, near: Option<String> },
    #[error("the phase `{0}` needs itself")]
    NeedsItself(String),
    #[error("the phases need each other in a circle: {0}")]
    Cycle(String),
    #[error("the phase `{phase}` can never be done: it needs the intervention phase `{need}`")]
    NeedsIntervention { phase: String, need: String },
    #[error("the intervention phase `{0}` can never be done: no gate or check sends a run there")]
    NoIntervene(String),
    #[error("`{0}` is not before `{1}`, so a run cannot go back to it")]
    RedoNotBack(String, String),
    #[error("`intervene` names `{0}`, which is not an intervention phase")]
    NotIntervention(String),
    #[error("`{phase}` cannot intervene in `{judged}`: what it needs is not done by then")]
    InterveneNotReady { phase: String, judged: String },
    #[error("`{0}` cannot intervene in itself")]
    IntervenesInItself(String),

    #[error("the {0} `{1}` has no verdicts")]
    NoVerdicts(&'static str, String),
    #[error("no verdict of the {0} `{1}` lets the run go on")]
    NeverContinues(&'static str, String),
    #[error("the verdict `{0}` has no effect")]
    NoEffect(String),
    #[error("`then` is nested deeper than {0}")]
    ThenTooDeep(usize),
    #[error("an effect must say exactly one of {EFFECTS}")]
    OneEffect,
    #[error("a doer must say exactly one of {DOERS}")]
    OneDoer,
    #[error("there is no {what} `{found}`")]
    Unknown { what: &'static str, found: String, near: Option<String>, known: String },
    #[error("the command is empty")]
    EmptyCommand,
    #[error("the pattern `{0}` does not stay inside the workspace")]
    Pattern(String),
    #[error("the phase `{0}` is a branch, but the loop keeps no checkpoints")]
    BranchWithoutCheckpoints(String),
    #[error("the phase `{0}` is a branch, but {1} does it, which writes nothing")]
    BranchDoer(String, &'static str),
    #[error("a check is made by {0}")]
    CheckByPeople(&'static str),
    #[error("{0}")]
    ConsensusGate(String),
    #[error("`{key}` has more than {most} entries")]
    TooMany { key: &'static str, most: usize },
    #[error("`{key}` has no entries")]
    NoEntries { key: &'static str },
    #[error("the phase `{0}` is both included and excluded")]
    BothWays(String),
    #[error("{key} names `{target}`, which {by} leaves out")]
    LeftOut { key: &'static str, target: String, by: String },
    #[error("{0} leaves no phase")]
    NothingLeft(String),
    #[error("the intervention phase `{phase}` can never be done: {by} leaves out what leads to it")]
    InterveneLost { phase: String, by: String },
    #[error("{0} has more edges than {1}")]
    TooManyEdges(String, usize),
    #[error("a rule must say exactly one of `metric`, `tool`, `validator`")]
    OneEvidence,
    #[error("a metric must say exactly one of `at_least`, `at_most`, `equal`")]
    OneCompare,
    #[error("{message}")]
    Flaw { message: String, hint: &'static str },
    #[error("there is no prompt below the frontmatter")]
    NoPrompt,
}

const EFFECTS: &str = "`continue`, `block`, `redo`, `hold`, `intervene`, `stop`";
const DOERS: &str = "`agent`, `builtin`, `command`, `consensus`, `person`";

impl Problem {
    /// This problem, at a place.
    pub fn at(self, place: Place) -> Fault {
        Fault(Box::new((place, self)))
    }
}

/// User input as a message may show it: one line, cut, without control characters.
pub fn shown(text: &str) -> String {
    near::clean(text, 80)
}
