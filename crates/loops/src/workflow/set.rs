//! The workflows of a folder, and how they are composed.

use std::collections::{BTreeMap, BTreeSet};

use windlass_text::{Position, nearest};

use super::file::{Gate, WorkflowFile};
use super::index::Index;
use super::plan::PlannedStep;
use crate::error::{Diagnostic, FileKind, LoopError, Problem, shown};
use crate::markdown::MarkdownFile;
use crate::parts::fields::listed;

/// The name of the index in a folder of workflows.
pub const INDEX_NAME: &str = "WORKFLOWS.md";
/// The most workflows that link to each other in a chain.
pub const CHAIN_MAX: usize = 8;
/// The most steps of a workflow with those of the workflows it links to.
pub const PLAN_STEPS_MAX: usize = 1000;

/// The checked workflows of a folder.
///
/// INVARIANT: every link has a target, no chain of links has a cycle or more than [`CHAIN_MAX`]
/// workflows, and no composed plan has more than [`PLAN_STEPS_MAX`] steps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Workflows {
    files: BTreeMap<String, WorkflowFile>,
    index: String,
    order: Vec<String>,
}

impl Workflows {
    /// Parses the files of a folder of workflows, by path; its index is named [`INDEX_NAME`].
    ///
    /// # Errors
    ///
    /// [`LoopError`] with the first problem.
    pub fn load(files: &BTreeMap<String, Vec<u8>>) -> Result<Self, LoopError> {
        let is_index = |path: &str| path.rsplit('/').next() == Some(INDEX_NAME);
        let mut workflows = BTreeMap::new();
        let mut sources: BTreeMap<String, MarkdownFile<'_>> = BTreeMap::new();
        let mut index = MarkdownFile { path: INDEX_NAME, bytes: &[], kind: FileKind::Workflow };
        let mut has_index = false;
        for (path, bytes) in files {
            let source = MarkdownFile { path, bytes, kind: FileKind::Workflow };
            if is_index(path) && !has_index {
                (index, has_index) = (source, true);
                continue;
            }
            let file = WorkflowFile::parse(path, bytes)?;
            if let Some(other) = sources.insert(file.id.clone(), source) {
                let (what, name) = ("the workflow", shown(&file.id));
                let problem = Problem::DuplicateFile { what, name, other: shown(other.path) };
                return Err(source.locate(problem.at(Position::START)));
            }
            workflows.insert(file.id.clone(), file);
        }
        if !has_index {
            return Err(index.locate(Problem::NoIndex.at(Position::START)));
        }
        for (id, source) in &sources {
            check_links(id, &workflows).map_err(|diagnostic| source.locate(diagnostic))?;
        }
        check_lengths(&workflows)
            .map_err(|(id, diagnostic)| sources.get(id).unwrap_or(&index).locate(diagnostic))?;
        let read = Index::read(&index).map_err(|diagnostic| index.locate(diagnostic))?;
        check_index(&read, &workflows).map_err(|diagnostic| index.locate(diagnostic))?;
        let order = read.tree.into_iter().map(|(id, _)| id).collect();
        let index = String::from_utf8_lossy(index.bytes).into_owned();
        Ok(Self { files: workflows, index, order })
    }

    /// The workflows, by id.
    #[must_use]
    pub const fn files(&self) -> &BTreeMap<String, WorkflowFile> {
        &self.files
    }

    /// The text of the index.
    #[must_use]
    pub fn index(&self) -> &str {
        &self.index
    }

    /// The workflows in the order in which the decision tree tries them.
    #[must_use]
    pub fn decision_tree(&self) -> &[String] {
        &self.order
    }

    /// The steps of a workflow. A step that links to another workflow is followed by that workflow's
    /// steps, one level deeper. `None` if there is no such workflow.
    #[must_use]
    pub fn compose(&self, id: &str) -> Option<Vec<PlannedStep>> {
        let mut plan = Vec::new();
        self.extend(&mut plan, self.files.get(id)?, "", 0);
        Some(plan)
    }

    fn extend(&self, plan: &mut Vec<PlannedStep>, file: &WorkflowFile, prefix: &str, depth: usize) {
        for step in &file.steps {
            let id = format!("{prefix}{}", step.id);
            let below = format!("{id}/");
            plan.push(PlannedStep {
                depth,
                description: step.description.clone(),
                id,
                name: step.name.clone(),
                workflow: file.id.clone(),
            });
            let target = step.workflow.as_ref().and_then(|target| self.files.get(target));
            if let Some(target) = target {
                self.extend(plan, target, &below, depth + 1);
            }
        }
    }

    /// The quality gates of a workflow and of all workflows it is composed of. `None` if there is no
    /// such workflow.
    #[must_use]
    pub fn gates(&self, id: &str) -> Option<BTreeSet<Gate>> {
        let file = self.files.get(id)?;
        let below = file.dependencies.iter().filter_map(|target| self.gates(target)).flatten();
        Some(file.gates.iter().copied().chain(below).collect())
    }
}

/// An id that no workflow has.
fn unknown(id: &str, workflows: &BTreeMap<String, WorkflowFile>) -> Problem {
    let names = || workflows.keys().map(String::as_str);
    let suggestion = nearest(id, names()).map(str::to_owned);
    let (what, found, known) = ("workflow", shown(id), listed(names()));
    Problem::Unknown { what, found, suggestion, known }
}

/// Checks that the links of a workflow have targets, and that none leads back to it.
fn check_links(id: &str, workflows: &BTreeMap<String, WorkflowFile>) -> Result<(), Diagnostic> {
    let Some(file) = workflows.get(id) else { return Ok(()) };
    for step in &file.steps {
        let Some(target) = &step.workflow else { continue };
        if !workflows.contains_key(target) {
            return Err(unknown(target, workflows).at(step.link_position));
        }
        if let Some(back) = way(target, id, workflows) {
            let chain: Vec<&str> = std::iter::once(id).chain(back).collect();
            return Err(Problem::WorkflowCycle(chain.join(" -> ")).at(step.link_position));
        }
    }
    Ok(())
}

/// A chain of links from one workflow to another, both included.
fn way<'a>(
    from: &'a str,
    to: &str,
    workflows: &'a BTreeMap<String, WorkflowFile>,
) -> Option<Vec<&'a str>> {
    let mut before: BTreeMap<&str, Option<&str>> = BTreeMap::from([(from, None)]);
    let mut open = std::collections::VecDeque::from([from]);
    while let Some(id) = open.pop_front() {
        if id == to {
            let mut chain: Vec<&str> =
                std::iter::successors(Some(id), |id| before.get(id).copied().flatten()).collect();
            chain.reverse();
            return Some(chain);
        }
        for next in workflows.get(id).into_iter().flat_map(|file| &file.dependencies) {
            if !before.contains_key(next.as_str()) {
                before.insert(next, Some(id));
                open.push_back(next);
            }
        }
    }
    None
}

/// The longest chain of links from a workflow, and how many steps it is composed of.
#[derive(Clone, Default)]
struct Length<'a> {
    chain: Vec<&'a str>,
    steps: usize,
}

/// Checks the lengths of chains and plans of workflows without cycles.
fn check_lengths(workflows: &BTreeMap<String, WorkflowFile>) -> Result<(), (&str, Diagnostic)> {
    let mut known: BTreeMap<&str, Length<'_>> = BTreeMap::new();
    // Without cycles, each round finds the lengths of at least one workflow.
    while known.len() < workflows.len() {
        for (id, file) in workflows {
            let below: Option<Vec<&Length<'_>>> =
                file.dependencies.iter().map(|target| known.get(target.as_str())).collect();
            let Some(below) = below.filter(|_| !known.contains_key(id.as_str())) else { continue };
            let longest = below.iter().max_by_key(|length| length.chain.len());
            let mut chain = vec![id.as_str()];
            chain.extend(longest.into_iter().flat_map(|length| &length.chain));
            let links = file.steps.iter().filter_map(|step| step.workflow.as_deref());
            let linked = links.filter_map(|target| known.get(target)).map(|length| length.steps);
            let steps = file.steps.len() + linked.sum::<usize>();
            let first_link = file.steps.iter().find(|step| step.workflow.is_some());
            let position = first_link.map_or(Position::START, |step| step.link_position);
            if chain.len() > CHAIN_MAX {
                let chain = chain.join(" -> ");
                let problem = Problem::ChainTooLong { chain, max: CHAIN_MAX };
                return Err((id, problem.at(position)));
            }
            if steps > PLAN_STEPS_MAX {
                let problem = Problem::PlanTooLong { id: id.clone(), max: PLAN_STEPS_MAX };
                return Err((id, problem.at(position)));
            }
            known.insert(id, Length { chain, steps });
        }
    }
    Ok(())
}

/// Checks that the index names workflows that exist, all of them, and that each can be chosen.
fn check_index(
    index: &Index,
    workflows: &BTreeMap<String, WorkflowFile>,
) -> Result<(), Diagnostic> {
    let named = index.tree.iter().map(|(id, position)| (id, position)).chain(&index.table);
    for (id, position) in named {
        if !workflows.contains_key(id) {
            return Err(unknown(id, workflows).at(*position));
        }
    }
    let tree: BTreeSet<&String> = index.tree.iter().map(|(id, _)| id).collect();
    for id in workflows.keys() {
        if !index.table.contains_key(id) {
            return Err(Problem::NotInTable(id.clone()).at(Position::START));
        }
        let is_composed = workflows.values().any(|file| file.dependencies.contains(id));
        if !tree.contains(id) && !is_composed {
            return Err(Problem::NeverChosen(id.clone()).at(Position::START));
        }
    }
    Ok(())
}
