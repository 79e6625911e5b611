//! The files of folders that a command uses as a whole.

use windlass_text::{Glob, GlobKind};

use super::command::printable;
use super::effects;
use super::facts::{Facts, folder_of_pattern, within};
use super::fed::{self, Fed};
use super::git::git;
use super::path::PathFact;
use super::pathspec;
use crate::shell::{Access, Simple, takes_files};
use crate::{ResolvedPath, Workspace};

/// A folder or file, the pattern that the files in it must fit, and whether what git ignores there may be lost.
pub(super) type Tree = (String, Option<String>, bool);

impl Facts {
    /// The folders whose files a command uses: those that it names, or that `xargs` gets.
    pub(super) fn take_fed(
        &mut self,
        simple: &Simple,
        fed: Option<&Fed>,
        workspace: &dyn Workspace,
    ) -> Vec<Tree> {
        let words = &simple.words;
        if words.first().is_none_or(|name| name.text != "xargs") {
            if let Some(("grep", rest)) = git(words)
                && let Some(trees) = pathspec::searched_paths(rest)
            {
                return trees.into_iter().map(|(tree, pattern)| (tree, pattern, false)).collect();
            }
            let is_path = |text: &str| match workspace.resolve(text) {
                ResolvedPath::Inside(normal) => {
                    workspace.files_below(&normal).is_some_and(|files| !files.is_empty())
                }
                ResolvedPath::Outside(_) | ResolvedPath::Unresolvable(_) => false,
            };
            if pathspec::shows_unnamed(words, is_path) {
                return vec![(".".to_owned(), None, false)];
            }
            let patterns = effects::found(words);
            let trees = effects::trees(words).into_iter();
            let tree = |tree: &str| {
                let tree = tree.to_owned();
                patterns.iter().map(move |pattern| (tree.clone(), pattern.clone(), false)).collect()
            };
            return trees.flat_map(|one| -> Vec<Tree> { tree(one) }).collect();
        }
        let started = fed::started(words);
        if started.is_some_and(effects::shows_names_only) {
            return Vec::new();
        }
        let changes = started.is_some_and(takes_files);
        if changes && fed.is_none_or(|fed| fed.may_be_option) {
            self.findings.insert("`xargs` adds arguments that are not known".to_owned());
        }
        let loses = changes && effects::access(words).is_none();
        match fed {
            Some(fed) => {
                let tree = |(tree, pattern): &(String, Option<String>)| {
                    (tree.clone(), pattern.clone(), loses && fed.may_be_ignored)
                };
                fed.trees.iter().map(tree).collect()
            }
            None => vec![(".".to_owned(), None, loses)],
        }
    }

    /// Whether a name that `xargs` gets has a character at which it takes the name apart.
    pub(super) fn has_split_names(
        fed: &Fed,
        folders: &[String],
        workspace: &dyn Workspace,
    ) -> bool {
        let splits = |file: &String| file.contains([' ', '\t', '\n', '\'', '"', '\\']);
        let below = |folder: &str, tree: &str| {
            let start = within(folder, folder_of_pattern(tree));
            let ResolvedPath::Inside(normal) = workspace.resolve(&start) else { return false };
            workspace.files_below(&normal).is_none_or(|files| files.iter().any(splits))
        };
        fed.splits
            && fed.trees.iter().any(|(tree, _)| folders.iter().any(|folder| below(folder, tree)))
    }

    /// Takes the files of folders.
    pub(super) fn take_trees(
        &mut self,
        trees: &[Tree],
        access: Option<Access>,
        folders: &[String],
        workspace: &dyn Workspace,
        paths: &mut Vec<PathFact>,
    ) {
        for (tree, pattern, loses) in trees {
            let glob = pattern.as_ref().and_then(|text| Glob::new(text, GlobKind::Path).ok());
            for folder in folders {
                let start = within(folder, folder_of_pattern(tree));
                let ResolvedPath::Inside(normal) = workspace.resolve(&start) else { continue };
                if *loses {
                    self.take_removal(&normal, pattern.as_deref(), workspace);
                }
                let Some(files) = workspace.files_below(&normal) else {
                    self.findings.insert(printable(&format!(
                        "more files in `{tree}` than can be looked at"
                    )));
                    continue;
                };
                // What a found folder has in it counts, too.
                let fits = |file: &&String| {
                    let ends = file.match_indices('/').map(|(at, _)| at).chain([file.len()]);
                    glob.as_ref().is_none_or(|glob| {
                        ends.into_iter()
                            .any(|end| file.get(..end).is_some_and(|part| glob.matches_str(part)))
                    })
                };
                for file in files.iter().filter(fits) {
                    let shown = format!("{file} in {tree}");
                    paths.push(PathFact::new(&shown, file, access, self.folds_case).one_of_many());
                }
            }
        }
    }
}
