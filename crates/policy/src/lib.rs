//! Judges a question against a frozen policy set, and computes the policy hash.
//!
//! Policy is data: rules in `policy/*.toml` and the tool registry in `tools.toml`. [`PolicySet::load`]
//! reads and proves a set from bytes, [`PolicySet::judge`] answers one question. All matching rules
//! count and the strictest wins; no match denies, and so does anything that cannot be judged.
//!
//! Of a path-constrained rule on a call with several paths: a deny or ask rule matches if any path
//! matches, an allow rule only if all do. Of a shell line every simple command is judged by itself,
//! so an allowance for one command never covers another one.
//!
//! Nothing here does IO, reads a clock, or allows by default. Where a path lies is asked of a
//! [`Workspace`].

mod error;
mod glob;
mod judge;
mod pointer;
mod question;
mod registry;
mod rule;
mod set;
mod shell;
mod source;
mod workspace;

pub use error::PolicyError;
pub use pointer::Pointer;
pub use question::{Judgement, Question, RuleHit};
pub use registry::{
    ArgvPart, CommandLine, CommandLineError, Connector, OnUncertain, Registry, Server,
    TIMEOUT_MS_MAX, TOOL_BYTES_MAX, TemplateError, Tool, fill_template,
};
pub use rule::{RULES_MAX, Rule, Verdict};
pub use set::{CaseOutcome, CaseReport, PolicySet};
pub use shell::Access;
pub use workspace::{LexicalWorkspace, Place, Workspace};
