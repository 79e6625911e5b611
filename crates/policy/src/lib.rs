//! Judges tool calls against a frozen policy set, and computes the policy hash.
//!
//! Policy is data: rules in `policy/*.toml` and the tool registry in `tools.toml`. [`PolicySet::load`]
//! parses a set from bytes and runs its examples, [`PolicySet::judge`] judges one call. All matching
//! rules count and the strictest wins; a call that no rule matches, or that cannot be judged, is
//! denied.
//!
//! If a rule constrains paths and a call has several, a deny or ask rule matches if any path
//! matches, an allow rule only if all do. Every simple command of a shell line is judged on its own,
//! so an allow rule for one command never covers another.
//!
//! Nothing here does IO, reads a clock, or allows by default. A [`Workspace`] knows the files.

mod grant;
mod judge;
mod pointer;
mod question;
mod registry;
mod rule;
mod set;
mod shell;
mod strings;
mod workspace;

pub use grant::{Asked, GrantRefusal, covers};
pub use judge::{UnreadablePaths, folder_of_pattern};
pub use pointer::Pointer;
pub use question::{Judgement, Question, RuleHit};
pub use registry::{
    ArgvPart, CommandLine, CommandLineError, Connector, OnUncertain, Registry, Server,
    TIMEOUT_MS_MAX, TOOL_BYTES_MAX, TemplateError, Tool, WRAPPED_PREFIX, fill_template,
    is_secret_name, secret_name,
};
pub use rule::{RULES_MAX, Rule, Verdict};
pub use set::{CaseOutcome, CaseReport, PolicySet, policy_hash};
pub use shell::Access;
pub use windlass_text::FileError;
pub use workspace::{
    IgnoredPath, LexicalWorkspace, ResolvedPath, UncommittedFile, Workspace, files_matching,
    is_build_output,
};
