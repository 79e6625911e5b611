//! `WORKFLOWS.md`: the decision tree that chooses a workflow, and the table of all of them.

use std::collections::BTreeMap;

use windlass_text::Position;

use super::body::{self, Line};
use super::file::linked;
use crate::error::{Diagnostic, Problem, shown};
use crate::markdown::MarkdownFile;

/// The names of the first column of a table of workflows; other tables are not read.
const FIRST_COLUMNS: [&str; 3] = ["id", "workflow", "workflow id"];

/// The ids that the index names, each with its position.
pub struct Index {
    /// The decision tree: the workflow of each line, in order.
    pub tree: Vec<(String, Position)>,
    /// The workflows in the tables.
    pub table: BTreeMap<String, Position>,
}

impl Index {
    pub fn read(file: &MarkdownFile<'_>) -> Result<Self, Diagnostic> {
        let text = file.text()?;
        let mut index = Self { tree: Vec::new(), table: BTreeMap::new() };
        let mut row = 0usize;
        let mut is_of_workflows = false;
        for line in body::lines(text, 1).filter(|line| !line.is_code) {
            let Some(cells) = line.text.trim_start().strip_prefix('|') else {
                row = 0;
                index.branch(&line)?;
                continue;
            };
            row += 1;
            let first = cells.split('|').next().unwrap_or_default().trim();
            // The first row has the names of the columns, the second is a rule.
            match row {
                1 => is_of_workflows = FIRST_COLUMNS.contains(&first.to_lowercase().as_str()),
                2 => {}
                _ if is_of_workflows => index.row(first, &line)?,
                _ => {}
            }
        }
        if index.tree.is_empty() {
            return Err(Problem::NoDecisionTree.at(Position::START));
        }
        Ok(index)
    }

    /// Reads a line of the decision tree.
    fn branch(&mut self, line: &Line<'_>) -> Result<(), Diagnostic> {
        let text = line.text.trim_start();
        let after = text.trim_start_matches(|character: char| character.is_ascii_digit());
        let number = text.strip_suffix(after).unwrap_or_default();
        let Some(text) = after.strip_prefix(". ").filter(|_| !number.is_empty()) else {
            return Ok(());
        };
        let expected = self.tree.len() + 1;
        if number != expected.to_string() {
            let found = shown(number);
            return Err(Problem::BranchNumber { expected, found }.at(line.position()));
        }
        let target = text.rsplit_once("-> ").and_then(|(_, target)| linked(target.trim_end()));
        let target = target.ok_or_else(|| Problem::NotBranch.at(line.position()))?;
        self.tree.push((target.to_owned(), line.position()));
        Ok(())
    }

    /// Reads a row of a table, which begins with a workflow.
    fn row(&mut self, cell: &str, line: &Line<'_>) -> Result<(), Diagnostic> {
        let cell = cell.trim_matches('`');
        let id = linked(cell).unwrap_or(cell).to_owned();
        let position = line.position();
        match self.table.insert(id, position) {
            None => Ok(()),
            Some(first) => {
                let (what, name, first_line) = ("the workflow", shown(cell), first.line);
                Err(Problem::DuplicateName { what, name, first_line }.at(position))
            }
        }
    }
}
