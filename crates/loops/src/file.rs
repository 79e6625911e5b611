//! A loop file.

use std::collections::BTreeSet;

use windlass_kernel::Digest;
use windlass_kernel::run::plan::{Concurrency, Governance, OnRestart, PHASES_MAX, Plan};

use crate::error::{Fault, FileKind, LoopError, Problem};
use crate::graph;
use crate::parts::doer::Context;
use crate::parts::shape::{self, Fields};
use crate::parts::{phase, settings, text};
use crate::source::Source;
use crate::yaml::Node;

/// What a loop file may name.
#[derive(Clone, Copy, Debug)]
pub struct Known<'a> {
    /// The agents that there are.
    pub agents: &'a BTreeSet<String>,
    /// The functions of the engine that a phase or a check may be done by.
    pub builtins: &'a BTreeSet<String>,
}

/// What a loop file is meant for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It takes a task from start to end.
    Loop,
    /// It is one way to do a task inside a larger loop.
    Workflow,
}

impl Kind {
    /// The name in files.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Loop => "loop",
            Self::Workflow => "workflow",
        }
    }
}

/// A loop file, read and checked.
#[derive(Clone, Debug, PartialEq)]
pub struct LoopFile {
    /// The text below the frontmatter, for people.
    pub body: String,
    /// A free word for lists.
    pub category: String,
    /// The digest of the file's bytes.
    pub digest: Digest,
    /// The loop's name, which is the file's without `.md`.
    pub id: String,
    /// What it is meant for.
    pub kind: Kind,
    /// What the run machine takes.
    pub plan: Plan,
    /// The loop's title.
    pub title: String,
    /// The loop's own version.
    pub version: String,
}

const KEYS: [&str; 11] = [
    "id",
    "title",
    "type",
    "category",
    "version",
    "on_restart",
    "concurrency",
    "require",
    "budget",
    "hold",
    "phases",
];

impl LoopFile {
    /// Reads the bytes of the file that is named `file_name`.
    ///
    /// # Errors
    ///
    /// The first thing that is wrong, at its place.
    pub fn parse(file_name: &str, bytes: &[u8], known: &Known<'_>) -> Result<Self, LoopError> {
        let source = Source { file: file_name, bytes, kind: FileKind::Loop };
        read(&source, known).map_err(|fault| source.locate(fault))
    }
}

fn read(source: &Source<'_>, known: &Known<'_>) -> Result<LoopFile, Fault> {
    let parts = source.parts()?;
    let fields = Fields::of(&parts.front, "frontmatter", "a loop", &KEYS)?;
    let id = named_as_file(fields.need("id")?, "id", source)?;
    let title = text::line(fields.need("title")?, "title")?;
    let kinds = [Kind::Loop, Kind::Workflow].map(|kind| (kind.as_str(), kind));
    let kind = shape::choice(fields.need("type")?, "type", &kinds)?;
    let category = text::word(fields.need("category")?, "category", "a category")?;
    let version = text::word(fields.need("version")?, "version", "a version")?;
    let restarts = [
        ("resume", OnRestart::Resume),
        ("hold", OnRestart::Hold),
        ("terminate", OnRestart::Terminate),
    ];
    let on_restart = shape::choice(fields.need("on_restart")?, "on_restart", &restarts)?;
    let ways = [("serial", Concurrency::Serial), ("parallel", Concurrency::Parallel)];
    let concurrency = fields.get("concurrency");
    let concurrency = concurrency.map(|node| shape::choice(node, "concurrency", &ways));
    let concurrency = concurrency.transpose()?.unwrap_or(Concurrency::Serial);
    let require = settings::require(fields.get("require"))?;
    let budget = settings::budget(fields.get("budget"))?;
    let hold = settings::hold(fields.get("hold"))?;
    let context =
        Context { agents: known.agents, builtins: known.builtins, approvals: hold.approvals };
    let phases = phases(fields.need("phases")?, context)?;
    let plan = Plan {
        budget,
        checkpoints: true,
        concurrency,
        governance: Governance::default(),
        hold,
        id: id.clone(),
        on_restart,
        phases,
        require,
        title: title.clone(),
        variant: None,
        version: version.clone(),
    };
    let (body, digest) = (parts.body.to_owned(), Digest::of(source.bytes));
    Ok(LoopFile { body, category, digest, id, kind, plan, title, version })
}

fn phases(
    node: &Node,
    context: Context<'_>,
) -> Result<Vec<windlass_kernel::run::plan::Phase>, Fault> {
    let items = shape::list(node, "phases")?;
    if items.is_empty() {
        return Err(Problem::NoPhases.at(node.at));
    }
    if items.len() > PHASES_MAX {
        return Err(Problem::TooManyPhases(items.len(), PHASES_MAX).at(node.at));
    }
    let drafts = items.iter().map(|item| phase::read(item, context));
    graph::order(drafts.collect::<Result<_, _>>()?)
}

/// A name that must be the file's own.
pub fn named_as_file(node: &Node, key: &'static str, source: &Source<'_>) -> Result<String, Fault> {
    let id = text::id(node, key, "a name")?;
    let stem = source.stem();
    if id != stem {
        let stem = crate::error::shown(stem);
        return Err(Problem::Stem { key, found: id, stem }.at(node.at));
    }
    Ok(id)
}
