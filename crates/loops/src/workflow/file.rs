//! A workflow file.

use std::collections::{BTreeMap, BTreeSet};

use windlass_kernel::Digest;
use windlass_text::Position;
use windlass_text::yaml::{Node, Value};

use super::body;
use crate::error::{Diagnostic, FileKind, LoopError, Problem, shown};
use crate::file::named_as_file;
use crate::markdown::MarkdownFile;
use crate::parts::fields::{self, Fields};
use crate::parts::text;

/// The most steps of a workflow.
pub const STEPS_MAX: usize = 50;
/// The longest description of a step, in characters.
const DESCRIPTION_CHARS_MAX: usize = 2000;

const KEYS: [&str; 7] = ["id", "title", "type", "category", "dependencies", "gates", "steps"];
const STEP_KEYS: [&str; 4] = ["id", "name", "workflow", "description"];

/// What a workflow is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Category {
    /// Changing code.
    Development,
    /// Deciding what to do.
    Planning,
    /// Checking work.
    Qa,
    /// Doing the same to many items.
    Operations,
    /// Answering without a change.
    Information,
    /// Handing the task to something else.
    Routing,
}

impl Category {
    /// All categories.
    pub const ALL: [Self; 6] = [
        Self::Development,
        Self::Planning,
        Self::Qa,
        Self::Operations,
        Self::Information,
        Self::Routing,
    ];

    /// The name in files.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Development => "development",
            Self::Planning => "planning",
            Self::Qa => "qa",
            Self::Operations => "operations",
            Self::Information => "information",
            Self::Routing => "routing",
        }
    }
}

/// A quality gate: what must hold before a task of a workflow counts as done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Gate {
    /// The critic has let the plan proceed.
    CriticReview,
    /// A failing test was written before the change.
    Tdd,
    /// The tests pass.
    TestsPass,
    /// Another agent has verified the work.
    Qa,
    /// A test reproduces the defect.
    ReproducibleTest,
    /// No test that passed before fails now.
    NoRegression,
    /// The critic's findings were answered.
    CriticFeedback,
    /// The last review has no new findings.
    Convergence,
    /// The work does what was asked.
    Functionality,
    /// The work is made well.
    Quality,
    /// Nothing that was asked is missing.
    Completeness,
    /// Every item was processed.
    AllItemsProcessed,
    /// The results were verified.
    Verified,
    /// Nothing is written.
    InformationOnly,
    /// The skill or command that the task is handed to has its own gates.
    Delegated,
}

impl Gate {
    /// All gates.
    pub const ALL: [Self; 15] = [
        Self::CriticReview,
        Self::Tdd,
        Self::TestsPass,
        Self::Qa,
        Self::ReproducibleTest,
        Self::NoRegression,
        Self::CriticFeedback,
        Self::Convergence,
        Self::Functionality,
        Self::Quality,
        Self::Completeness,
        Self::AllItemsProcessed,
        Self::Verified,
        Self::InformationOnly,
        Self::Delegated,
    ];

    /// The name in files.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::CriticReview => "critic_review",
            Self::Tdd => "tdd",
            Self::TestsPass => "tests_pass",
            Self::Qa => "qa",
            Self::ReproducibleTest => "reproducible_test",
            Self::NoRegression => "no_regression",
            Self::CriticFeedback => "critic_feedback",
            Self::Convergence => "convergence",
            Self::Functionality => "functionality",
            Self::Quality => "quality",
            Self::Completeness => "completeness",
            Self::AllItemsProcessed => "all_items_processed",
            Self::Verified => "verified",
            Self::InformationOnly => "information_only",
            Self::Delegated => "delegated",
        }
    }
}

/// A step of a workflow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkflowStep {
    /// What is done, in short.
    pub description: String,
    /// The step's id, unique in its workflow.
    pub id: String,
    /// What is done, in full: the text under the step's heading.
    pub instructions: String,
    /// The step's name.
    pub name: String,
    /// The workflow whose steps do this one.
    pub workflow: Option<String>,
    /// Where the file names that workflow.
    pub(crate) link_position: Position,
}

/// A checked workflow file. That its links have targets is checked by [`super::Workflows::load`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkflowFile {
    /// The text below the frontmatter.
    pub body: String,
    /// What the workflow is for.
    pub category: Category,
    /// The workflows that its steps link to.
    pub dependencies: BTreeSet<String>,
    /// The digest of the file's bytes.
    pub digest: Digest,
    /// Its own quality gates, without those of the workflows it links to.
    pub gates: BTreeSet<Gate>,
    /// The workflow's id: the file's name without `.md`.
    pub id: String,
    /// The steps, in order.
    pub steps: Vec<WorkflowStep>,
    /// The workflow's title.
    pub title: String,
}

impl WorkflowFile {
    /// Parses the file at `path`.
    ///
    /// # Errors
    ///
    /// [`LoopError`] with the first problem.
    pub fn parse(path: &str, bytes: &[u8]) -> Result<Self, LoopError> {
        let file = MarkdownFile { path, bytes, kind: FileKind::Workflow };
        read(&file).map_err(|diagnostic| file.locate(diagnostic))
    }
}

fn read(file: &MarkdownFile<'_>) -> Result<WorkflowFile, Diagnostic> {
    let document = file.parse()?;
    let fields = Fields::new(&document.frontmatter, "frontmatter", "a workflow", &KEYS)?;
    let id = named_as_file(fields.required("id")?, "id", file)?;
    let title = text::line(fields.required("title")?, "title")?;
    fields::choice(fields.required("type")?, "type", &[("workflow", ())])?;
    let categories = Category::ALL.map(|category| (category.as_str(), category));
    let category = fields::choice(fields.required("category")?, "category", &categories)?;
    let dependencies_node = fields.required("dependencies")?;
    let dependencies = dependencies(dependencies_node)?;
    let gates = gates(fields.required("gates")?)?;
    let mut steps = steps(fields.required("steps")?)?;
    check_dependencies(&dependencies, dependencies_node.position, &steps)?;
    let instructions = body::instructions(&document, &steps)?;
    for (step, instructions) in steps.iter_mut().zip(instructions) {
        step.instructions = instructions;
    }
    Ok(WorkflowFile {
        body: document.body.to_owned(),
        category,
        dependencies: dependencies.into_keys().collect(),
        digest: Digest::of(file.bytes),
        gates,
        id,
        steps,
        title,
    })
}

/// Refuses a name that `seen` has already, or adds it.
fn once(
    seen: &mut BTreeMap<String, Position>,
    what: &'static str,
    name: &str,
    position: Position,
) -> Result<(), Diagnostic> {
    match seen.insert(name.to_owned(), position) {
        None => Ok(()),
        Some(first) => {
            let (name, first_line) = (shown(name), first.line);
            Err(Problem::DuplicateName { what, name, first_line }.at(position))
        }
    }
}

fn dependencies(node: &Node) -> Result<BTreeMap<String, Position>, Diagnostic> {
    let mut seen = BTreeMap::new();
    for item in fields::list(node, "dependencies")? {
        let id = text::id(item, "dependencies", "a workflow's id")?;
        once(&mut seen, "the dependency", &id, item.position)?;
    }
    Ok(seen)
}

fn gates(node: &Node) -> Result<BTreeSet<Gate>, Diagnostic> {
    let names = Gate::ALL.map(|gate| (gate.as_str(), gate));
    let mut seen = BTreeMap::new();
    let mut gates = BTreeSet::new();
    for item in fields::list(node, "gates")? {
        let gate = fields::choice(item, "gates", &names)?;
        once(&mut seen, "the gate", gate.as_str(), item.position)?;
        gates.insert(gate);
    }
    Ok(gates)
}

fn steps(node: &Node) -> Result<Vec<WorkflowStep>, Diagnostic> {
    let items = fields::list(node, "steps")?;
    if items.is_empty() {
        return Err(Problem::NoEntries { key: "steps" }.at(node.position));
    }
    if items.len() > STEPS_MAX {
        return Err(Problem::TooMany { key: "steps", max: STEPS_MAX }.at(node.position));
    }
    let mut seen = BTreeMap::new();
    let mut steps = Vec::with_capacity(items.len());
    for item in items {
        let fields = Fields::new(item, "steps", "a step", &STEP_KEYS)?;
        let id_node = fields.required("id")?;
        let id = text::id(id_node, "id", "a step's id")?;
        once(&mut seen, "the step", &id, id_node.position)?;
        let name = text::line(fields.required("name")?, "name")?;
        let link = fields.required("workflow")?;
        let description = fields.required("description")?;
        steps.push(WorkflowStep {
            description: text::prose(description, "description", DESCRIPTION_CHARS_MAX)?,
            id,
            instructions: String::new(),
            name: name.trim().to_owned(),
            workflow: target(link)?,
            link_position: link.position,
        });
    }
    Ok(steps)
}

/// The workflow that a step links to.
fn target(node: &Node) -> Result<Option<String>, Diagnostic> {
    match &node.value {
        Value::Null => Ok(None),
        Value::Text(text) => match linked(text) {
            Some(id) => Ok(Some(id.to_owned())),
            None => Err(Problem::NotLink(shown(text)).at(node.position)),
        },
        Value::Bool(_) | Value::Number(_) | Value::List(_) | Value::Map(_) => {
            Err(fields::wrong(node, "workflow", "null or a link in quotes"))
        }
    }
}

/// The id in a link such as `[[tdd-cycle]]`.
pub fn linked(text: &str) -> Option<&str> {
    text.strip_prefix("[[")?.strip_suffix("]]").filter(|id| text::is_id(id))
}

/// The dependencies must be exactly the workflows that steps link to.
fn check_dependencies(
    dependencies: &BTreeMap<String, Position>,
    position: Position,
    steps: &[WorkflowStep],
) -> Result<(), Diagnostic> {
    let links: BTreeSet<&str> = steps.iter().filter_map(|step| step.workflow.as_deref()).collect();
    if let Some(link) = links.iter().find(|link| !dependencies.contains_key(**link)) {
        return Err(Problem::MissingDependency((*link).to_owned()).at(position));
    }
    match dependencies.iter().find(|(id, _)| !links.contains(id.as_str())) {
        None => Ok(()),
        Some((id, position)) => Err(Problem::UnusedDependency(id.clone()).at(*position)),
    }
}
