//! A loop file.

use std::collections::{BTreeMap, BTreeSet};

use windlass_governance::{Kind as RuleKind, Stated};
use windlass_kernel::Digest;
use windlass_kernel::run::plan::{Concurrency, Governance, OnRestart, PHASES_MAX, Phase, Plan};

use crate::error::{Fault, FileKind, LoopError, Problem};
use crate::graph;
use crate::parts::doer::Context;
use crate::parts::phase::Draft;
use crate::parts::shape::{self, Fields};
use crate::parts::variant::{self, Variant};
use crate::parts::{governance, phase, settings, text};
use crate::select;
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
    /// The rules of this loop that its work is measured by, with their places.
    pub governance: Vec<Stated>,
    /// The loop's name, which is the file's without `.md`.
    pub id: String,
    /// What it is meant for.
    pub kind: Kind,
    /// What the run machine takes when no variant is asked for.
    pub plan: Plan,
    /// The loop's title.
    pub title: String,
    /// The variants, by name.
    pub variants: BTreeMap<String, Variant>,
    /// The loop's own version.
    pub version: String,
    /// All phases, sorted, those that are left out included.
    pub(crate) phases: Vec<Phase>,
    /// The phases that are left out unless a variant includes them.
    pub(crate) optional: BTreeSet<String>,
}

const KEYS: [&str; 14] = [
    "id",
    "title",
    "type",
    "category",
    "version",
    "on_restart",
    "concurrency",
    "checkpoints",
    "require",
    "budget",
    "hold",
    "phases",
    "variants",
    "governance",
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
    let checkpoints = fields.get("checkpoints").map(|node| shape::boolean(node, "checkpoints"));
    let checkpoints = checkpoints.transpose()?.unwrap_or(true);
    let (agents, builtins, approvals) = (known.agents, known.builtins, hold.approvals);
    let phases_node = fields.need("phases")?;
    let drafts = phases(phases_node, Context { agents, builtins, approvals, checkpoints })?;
    let ids: BTreeSet<&str> = drafts.iter().map(|draft| draft.phase.id.as_str()).collect();
    let variants = variant::read(fields.get("variants"), &ids)?;
    let governance = governance::read(fields.get("governance"), &ids, source.file)?;
    let phases: Vec<Phase> = drafts.iter().map(|draft| draft.phase.clone()).collect();
    let optional = drafts.iter().filter(|draft| draft.optional);
    let optional: BTreeSet<String> = optional.map(|draft| draft.phase.id.clone()).collect();
    let canonical = select::checked(&drafts, &phases, &optional, &variants, phases_node.at)?;
    let plan = Plan {
        budget,
        checkpoints,
        concurrency,
        governance: rules(&governance),
        hold,
        id: id.clone(),
        on_restart,
        phases: canonical,
        require,
        title: title.clone(),
        variant: None,
        version: version.clone(),
    };
    let (body, digest) = (parts.body.to_owned(), Digest::of(source.bytes));
    let variants = variants.into_iter().map(|(name, (variant, _))| (name, variant)).collect();
    Ok(LoopFile {
        body,
        category,
        digest,
        governance,
        id,
        kind,
        plan,
        title,
        variants,
        version,
        phases,
        optional,
    })
}

/// The rules as a plan has them: for this loop alone.
fn rules(stated: &[Stated]) -> Governance {
    let of = |kind| stated.iter().filter(move |one| one.kind == kind).map(|one| one.rule.clone());
    Governance {
        compliance: of(RuleKind::Compliance).collect(),
        gates: of(RuleKind::Gate).collect(),
    }
}

fn phases(node: &Node, context: Context<'_>) -> Result<Vec<Draft>, Fault> {
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
