//! A loop file.

use std::collections::{BTreeMap, BTreeSet};

use windlass_governance::{LocatedRule, RuleKind};
use windlass_kernel::Digest;
use windlass_kernel::run::plan::{Concurrency, Governance, OnRestart, PHASES_MAX, Phase, Plan};
use windlass_text::yaml::Node;

use crate::error::{Diagnostic, FileKind, LoopError, Problem};
use crate::graph;
use crate::markdown::MarkdownFile;
use crate::parts::doer::Context;
use crate::parts::fields::{self, Fields};
use crate::parts::phase::Draft;
use crate::parts::variant::{self, Variant};
use crate::parts::{governance, phase, settings, text};
use crate::select;

/// The names that a loop file may refer to.
#[derive(Clone, Copy, Debug)]
pub struct KnownNames<'a> {
    /// The agents.
    pub agents: &'a BTreeSet<String>,
    /// The engine's builtin functions.
    pub builtins: &'a BTreeSet<String>,
}

/// What a loop file is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoopKind {
    /// Takes a task from start to end.
    Loop,
    /// One way to do a task inside a larger loop.
    Workflow,
}

impl LoopKind {
    /// The name in files.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Loop => "loop",
            Self::Workflow => "workflow",
        }
    }
}

/// A checked loop file.
#[derive(Clone, Debug, PartialEq)]
pub struct LoopFile {
    /// The text below the frontmatter, for people.
    pub body: String,
    /// A free word, shown in lists.
    pub category: String,
    /// The digest of the file's bytes.
    pub digest: Digest,
    /// The governance rules of this loop.
    pub governance: Vec<LocatedRule>,
    /// The loop's id: the file's name without `.md`.
    pub id: String,
    /// What it is for.
    pub kind: LoopKind,
    /// The plan of the loop without a variant.
    pub plan: Plan,
    /// The loop's title.
    pub title: String,
    /// The variants, by name.
    pub variants: BTreeMap<String, Variant>,
    /// The loop's own version.
    pub version: String,
    /// All phases, sorted, optional ones included.
    pub(crate) phases: Vec<Phase>,
    /// The phases that take part only if a variant includes them.
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
    /// Parses the file at `path`.
    ///
    /// # Errors
    ///
    /// [`LoopError`] with the first problem.
    pub fn parse(path: &str, bytes: &[u8], known: &KnownNames<'_>) -> Result<Self, LoopError> {
        let file = MarkdownFile { path, bytes, kind: FileKind::Loop };
        read(&file, known).map_err(|diagnostic| file.locate(diagnostic))
    }
}

fn read(file: &MarkdownFile<'_>, known: &KnownNames<'_>) -> Result<LoopFile, Diagnostic> {
    let document = file.parse()?;
    let fields = Fields::new(&document.frontmatter, "frontmatter", "a loop", &KEYS)?;
    let id = named_as_file(fields.required("id")?, "id", file)?;
    let title = text::line(fields.required("title")?, "title")?;
    let kinds = [LoopKind::Loop, LoopKind::Workflow].map(|kind| (kind.as_str(), kind));
    let kind = fields::choice(fields.required("type")?, "type", &kinds)?;
    let category = text::word(fields.required("category")?, "category", "a category")?;
    let version = text::word(fields.required("version")?, "version", "a version")?;
    let restarts = [
        ("resume", OnRestart::Resume),
        ("hold", OnRestart::Hold),
        ("terminate", OnRestart::Terminate),
    ];
    let on_restart = fields::choice(fields.required("on_restart")?, "on_restart", &restarts)?;
    let modes = [("serial", Concurrency::Serial), ("parallel", Concurrency::Parallel)];
    let concurrency = fields.get("concurrency");
    let concurrency = concurrency.map(|node| fields::choice(node, "concurrency", &modes));
    let concurrency = concurrency.transpose()?.unwrap_or(Concurrency::Serial);
    let require = settings::require(fields.get("require"))?;
    let budget = settings::budget(fields.get("budget"))?;
    let hold = settings::hold(fields.get("hold"))?;
    let checkpoints = fields.get("checkpoints").map(|node| fields::boolean(node, "checkpoints"));
    let checkpoints = checkpoints.transpose()?.unwrap_or(true);
    let (agents, builtins, approvals) = (known.agents, known.builtins, hold.approvals);
    let phases_node = fields.required("phases")?;
    let drafts = phases(phases_node, Context { agents, builtins, approvals, checkpoints })?;
    let ids: BTreeSet<&str> = drafts.iter().map(|draft| draft.phase.id.as_str()).collect();
    let variants = variant::read(fields.get("variants"), &ids)?;
    let governance = governance::read(fields.get("governance"), &ids, file.path)?;
    let phases: Vec<Phase> = drafts.iter().map(|draft| draft.phase.clone()).collect();
    let optional = drafts.iter().filter(|draft| draft.optional);
    let optional: BTreeSet<String> = optional.map(|draft| draft.phase.id.clone()).collect();
    let canonical = select::checked(&drafts, &phases, &optional, &variants, phases_node.position)?;
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
    let (body, digest) = (document.body.to_owned(), Digest::of(file.bytes));
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

/// The rules as the plan of this loop alone has them.
fn rules(rules: &[LocatedRule]) -> Governance {
    let of = |kind| rules.iter().filter(move |one| one.kind == kind).map(|one| one.rule.clone());
    Governance {
        compliance: of(RuleKind::Compliance).collect(),
        gates: of(RuleKind::Gate).collect(),
    }
}

fn phases(node: &Node, context: Context<'_>) -> Result<Vec<Draft>, Diagnostic> {
    let items = fields::list(node, "phases")?;
    if items.is_empty() {
        return Err(Problem::NoPhases.at(node.position));
    }
    if items.len() > PHASES_MAX {
        return Err(Problem::TooManyPhases(items.len(), PHASES_MAX).at(node.position));
    }
    let drafts = items.iter().map(|item| phase::read(item, context));
    graph::order(drafts.collect::<Result<_, _>>()?)
}

/// Reads a name that must be the file's own.
pub fn named_as_file(
    node: &Node,
    key: &'static str,
    file: &MarkdownFile<'_>,
) -> Result<String, Diagnostic> {
    let id = text::id(node, key, "a name")?;
    let stem = file.stem();
    if id != stem {
        let stem = crate::error::shown(stem);
        return Err(Problem::Stem { key, found: id, stem }.at(node.position));
    }
    Ok(id)
}
