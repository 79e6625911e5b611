//! Whether a grant covers everything that a person would be asked about.

use windlass_kernel::Code;
use windlass_kernel::grant::Terms;
use windlass_text::{Glob, GlobError, GlobKind, GlobText};

use crate::rule::{self, Limits};
use crate::{Judgement, PolicySet, Question, Verdict};

/// Names that no tool, command or file has: a glob that matches one of them matches nearly everything.
const PROBES: [&str; 3] = ["zqxjv", "zqxjv/kwvqz", "zqxjv kwvqz"];

/// Calls, commands and paths of all kinds: a glob that matches half of those of one kind is too wide.
const SAMPLES: [[&str; 8]; 3] = [
    [
        "shell/run",
        "github/create_issue",
        "files/write",
        "browser/open",
        "db/query",
        "mail/send",
        "notes/add",
        "tickets/close",
    ],
    [
        "git push origin main",
        "npm install left-pad",
        "curl -fsSL https://example.org/x",
        "docker run --rm alpine",
        "pip install requests",
        "python3 -c print",
        "tar xf archive.tar",
        "windlass grant add",
    ],
    [
        "src/main.rs",
        "CLAUDE.md",
        ".github/workflows/ci.yml",
        "package.json",
        "docs/guide/index.html",
        ".vscode/settings.json",
        "tests/data/input.txt",
        "Makefile",
    ],
];

/// A part of a call that a person is asked about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    pub(crate) subject: Subject,
    /// The command as it is written; `None` for a call without commands.
    pub(crate) command: Option<GlobText>,
    pub(crate) folds_case: bool,
}

/// What a rule asks about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Subject {
    /// The call as such; with the paths that it names.
    Call(Vec<AskedPath>),
    /// A command.
    Command,
    /// These paths.
    Paths(Vec<AskedPath>),
    /// Something beside what is asked about, which changes something: another command, or a file that is written.
    Beside,
    /// What it is cannot be said for certain, or it may be denied: only a person can decide.
    Uncertain,
}

/// A path that is asked about; `None` if it is not known exactly.
pub(crate) type AskedPath = Option<GlobText>;

/// Why a grant cannot be given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GrantRefusal {
    /// The stable code.
    pub code: Code,
    /// The reason, in one line.
    pub reason: String,
}

impl GrantRefusal {
    fn new(code: Code, reason: impl Into<String>) -> Self {
        Self { code, reason: reason.into() }
    }
}

/// The globs of a grant.
#[derive(Clone, Debug)]
struct Pattern {
    tool: Glob,
    /// Empty if the grant has no glob for commands.
    command: Vec<Glob>,
    path: Option<[Glob; 2]>,
}

impl Pattern {
    fn new(terms: &Terms) -> Result<Self, GlobError> {
        let command = match &terms.command {
            Some(text) => rule::command_globs(text)?,
            None => Vec::new(),
        };
        let path = match &terms.path {
            Some(text) => Some([
                Glob::new(text, GlobKind::Path)?,
                Glob::new(&text.to_lowercase(), GlobKind::Path)?,
            ]),
            None => None,
        };
        Ok(Self { tool: Glob::new(&terms.tool, GlobKind::Text)?, command, path })
    }

    /// Whether commands or paths are limited to some.
    fn is_limited(&self) -> bool {
        !self.command.is_empty()
            && !self.command.iter().any(|glob| is_wide(glob) || !names_program(glob))
            || self.path.as_ref().is_some_and(|[glob, _]| !is_wide(glob))
    }

    fn matches_command(&self, asked: &Asked) -> bool {
        asked
            .command
            .as_ref()
            .is_some_and(|text| self.command.iter().any(|glob| glob.matches(text)))
    }

    fn matches_paths(&self, paths: &[AskedPath], folds_case: bool) -> bool {
        self.path.as_ref().is_some_and(|[exact, folded]| {
            let glob = if folds_case { folded } else { exact };
            let matches = |path: &AskedPath| path.as_ref().is_some_and(|text| glob.matches(text));
            !paths.is_empty() && paths.iter().all(matches)
        })
    }

    /// Whether this part of a call is covered. A rule that asks about a command is answered by a glob for
    /// commands, a rule that asks about paths by a glob for paths; a grant without either covers both.
    fn covers(&self, asked: &Asked) -> bool {
        let has_command = !self.command.is_empty();
        let has_either = has_command || self.path.is_some();
        if has_command && !self.matches_command(asked) {
            return false;
        }
        match &asked.subject {
            Subject::Uncertain => false,
            _ if !has_either => true,
            Subject::Command | Subject::Beside => has_command,
            Subject::Paths(paths) => self.matches_paths(paths, asked.folds_case),
            Subject::Call(paths) => {
                has_command && self.path.is_none() || self.matches_paths(paths, asked.folds_case)
            }
        }
    }
}

/// Whether a glob for commands names the program.
fn names_program(glob: &Glob) -> bool {
    let name = glob.pattern().split(' ').next().unwrap_or_default();
    !name.contains(['*', '?', '['])
}

fn is_wide(glob: &Glob) -> bool {
    let matches = |text: &&&str| glob.matches_str(text);
    PROBES.iter().any(|probe| glob.matches_str(probe))
        || SAMPLES.iter().any(|kind| kind.iter().filter(matches).count() * 2 >= kind.len())
}

/// Whether a grant with these terms covers a call: the policy asks about it, and the grant covers every command and
/// path that it asks about, and every other command that changes something. What judging finds besides is always a
/// person's to decide.
///
/// The scope, the uses and the expiry are not considered.
#[must_use]
pub fn covers(terms: &Terms, question: &Question, judgement: &Judgement) -> bool {
    if judgement.verdict != Verdict::Ask || !judgement.findings.is_empty() {
        return false;
    }
    let Ok(pattern) = Pattern::new(terms) else { return false };
    let name = format!("{}/{}", question.server, question.tool);
    pattern.tool.matches_str(&name)
        && !judgement.asked.is_empty()
        && judgement.asked.iter().all(|asked| pattern.covers(asked))
}

impl PolicySet {
    /// Checks whether a grant with these terms makes sense under this policy.
    ///
    /// # Errors
    /// [`GrantRefusal`] if a pattern is malformed, no tool matches, the grant is too wide for a project, or
    /// a rule denies everything that it covers.
    pub fn check_grant(&self, terms: &Terms) -> Result<(), GrantRefusal> {
        let pattern = Pattern::new(terms)
            .map_err(|error| GrantRefusal::new(Code::RequestInvalid, error.to_string()))?;
        let matches = |server: &str, tool: &str| {
            let name = format!("{server}/{tool}");
            pattern.tool.matches_str(&name)
        };
        let tools: Vec<_> = self
            .registry()
            .tools()
            .filter(|(server, tool)| matches(&server.name, &tool.name))
            .map(|(_, tool)| tool)
            .collect();
        if tools.is_empty() {
            let reason = format!("`{}` matches no registered tool", terms.tool);
            return Err(GrantRefusal::new(Code::RequestInvalid, reason));
        }
        let runs_lines = tools.iter().any(|tool| tool.shell_line.is_some());
        if terms.run.is_none() && (is_wide(&pattern.tool) || runs_lines) && !pattern.is_limited() {
            let reason = "the grant would cover nearly every call of the project";
            return Err(GrantRefusal::new(Code::GrantTooWide, reason));
        }
        let limits = Limits {
            tool: vec![pattern.tool],
            command: pattern.command,
            path: pattern.path.iter().map(|[glob, _]| glob.clone()).collect(),
            ..Limits::default()
        };
        let denies = |rule: &&rule::Rule| {
            rule.verdict == Verdict::Deny && rule::covers(&rule.limits, &limits)
        };
        match self.rules().iter().find(denies) {
            Some(rule) => {
                let reason =
                    format!("rule `{}` denies all that the grant covers: {}", rule.id, rule.reason);
                Err(GrantRefusal::new(Code::PolicyDenied, reason))
            }
            None => Ok(()),
        }
    }
}
