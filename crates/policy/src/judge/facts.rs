//! The facts about a call that rules are matched with.

use std::borrow::Cow;
use std::collections::BTreeSet;

use serde_json::Value;
use windlass_kernel::Code;

use super::command::{CommandFacts, printable};
use super::effects;
use super::fed;
use super::git;
use super::path::PathFact;
use super::search::Search;
use super::uri::file_path;
use crate::shell::{self, Access, LINE_BYTES_MAX, Shell, Simple, Word, options};
use crate::{Pointer, Question, ResolvedPath, Tool, Workspace};

/// Devices, which are not judged as files.
pub(super) const DEVICES: &[&str] = &[
    "/dev/null",
    "/dev/stdout",
    "/dev/stderr",
    "/dev/stdin",
    "/dev/tty",
    "/dev/zero",
    "/dev/random",
    "/dev/urandom",
];
/// Places of a cell that are its own: they may be written.
pub(super) const OWN_PLACES: &[&str] = &["/tmp", "/dev/shm"];
/// The most working folders of a line that are followed.
const FOLDERS_MAX: usize = 16;

/// The paths that a call would use and the commands it would run.
#[derive(Debug, Default)]
pub(crate) struct Facts {
    pub tool: String,
    pub commands: Vec<CommandFacts>,
    /// Paths of the whole call: registered arguments and redirections.
    pub paths: Vec<PathFact>,
    /// Why a person must review it.
    pub findings: BTreeSet<String>,
    /// Why it is denied regardless of rules; the first reason is kept.
    pub denied: Option<(Code, String)>,
    pub folds_case: bool,
    /// Whether the line changes what its own commands mean: variables, functions, another folder, files that it sources.
    pub alters_shell: bool,
}

impl Facts {
    /// Gathers the facts of a call.
    pub fn gather(
        question: &Question,
        tool: &Tool,
        workspace: &dyn Workspace,
        search: Option<Search>,
    ) -> Self {
        let mut facts = Self {
            tool: format!("`{}/{}`", question.server, question.tool),
            folds_case: workspace.folds_case(),
            ..Self::default()
        };
        for (pointers, access) in
            [(&tool.paths_read, Access::Read), (&tool.paths_write, Access::Write)]
        {
            for pointer in pointers {
                facts.take_path_arguments(pointer, access, &question.args, workspace);
            }
        }
        if let Some(search) = search {
            facts.take_search(&question.args, search, workspace);
        }
        match parse_commands(question, tool) {
            Ok(Some(shell)) => facts.take_shell(&shell, tool, workspace),
            Ok(None) => {}
            Err((code, reason)) => facts.deny(code, reason),
        }
        facts
    }

    /// The paths that may be written and are named exactly.
    pub fn written(&self) -> Vec<String> {
        let of_commands = self.commands.iter().flat_map(|command| &command.paths);
        let written = self.paths.iter().chain(of_commands);
        let written = written.filter(|path| path.access != Some(Access::Read));
        let exact = written.filter_map(PathFact::exact).map(|path| path.chars().iter().collect());
        exact.collect::<BTreeSet<String>>().into_iter().collect()
    }

    /// The paths for a person.
    pub fn shown_paths(&self) -> Vec<String> {
        self.paths.iter().map(|path| printable(&path.shown)).collect()
    }

    fn deny(&mut self, code: Code, reason: String) {
        self.denied.get_or_insert((code, reason));
    }

    fn take_path_arguments(
        &mut self,
        pointer: &Pointer,
        access: Access,
        args: &Value,
        workspace: &dyn Workspace,
    ) {
        for value in pointer.select(args) {
            let texts: Vec<Option<&str>> = match value {
                Value::Null => Vec::new(),
                Value::Array(list) => list.iter().map(Value::as_str).collect(),
                Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Object(_) => {
                    vec![value.as_str()]
                }
            };
            for text in texts {
                match text.map(file_path) {
                    Some(Ok(path)) => self.take_path(&path, access, workspace),
                    Some(Err(reason)) => self.deny(Code::PathOutsideWorkspace, reason),
                    None => self.deny(
                        Code::PathOutsideWorkspace,
                        format!("the argument `{}` is not a path", pointer.text()),
                    ),
                }
            }
        }
    }

    fn take_path(&mut self, text: &str, access: Access, workspace: &dyn Workspace) {
        match workspace.resolve(text) {
            ResolvedPath::Inside(normal) => {
                self.paths.push(PathFact::new(text, &normal, Some(access), self.folds_case));
            }
            ResolvedPath::Outside(resolved) => self.deny(
                Code::PathOutsideWorkspace,
                format!("the path `{text}` lies outside the workspace, at `{resolved}`"),
            ),
            ResolvedPath::Unresolvable(why) => self.deny(
                Code::PathOutsideWorkspace,
                format!("the path `{}` cannot be resolved: {why}", text.escape_debug()),
            ),
        }
    }

    fn take_shell(&mut self, shell: &Shell, tool: &Tool, workspace: &dyn Workspace) {
        self.findings.extend(shell.opaque.iter().cloned());
        self.alters_shell =
            shell.sets_variables || shell.commands.iter().any(|one| alters_shell(&one.words));
        if let Some(reason) = &shell.refused {
            self.deny(Code::PolicyDenied, reason.clone());
        }
        let (folders, reached) = self.folders(&shell.commands, workspace);
        for redirect in &shell.redirects {
            let target = &redirect.target;
            if DEVICES.contains(&target.text.as_str()) {
                continue;
            }
            let own = lies_in(OWN_PLACES, &target.text);
            if redirect.access == Access::Write && !tool.class.writes() {
                let reason = format!("`{}` would be written by a read tool", target.text);
                self.deny(Code::PolicyDenied, reason);
            }
            for folder in folders.iter().filter(|_| !own) {
                let path = within(folder, &target.text);
                self.take_path(&path, redirect.access, workspace);
                if redirect.access == Access::Write {
                    self.take_overwriting(&path, workspace);
                }
            }
            if own {
                let normal = target.text.trim_start_matches('/');
                let fact = PathFact::new(&target.text, normal, Some(redirect.access), false);
                self.paths.push(fact.maybe());
            }
            if target.is_pattern() {
                self.findings.insert("a redirection to a file name pattern".to_owned());
            }
        }
        let fed = fed::of(shell).filter(|fed| !Self::has_split_names(fed, &folders, workspace));
        for (simple, reached) in shell.commands.iter().zip(reached) {
            // The commands of a read tool only read; those of a write tool may do either.
            let access = if tool.class.writes() {
                effects::access(&simple.words)
            } else {
                Some(Access::Read)
            };
            let mut paths = Vec::new();
            for (at, word) in simple.words.iter().enumerate() {
                let is_name = word.is_pattern() && effects::shows_names_only(&simple.words);
                let is_path = at > 0 || word.text.contains('/') && !word.text.starts_with('/');
                if is_path
                    && !word.inert
                    && !is_name
                    && self.take_pathspec(
                        &simple.words,
                        word,
                        access,
                        &folders,
                        workspace,
                        &mut paths,
                    )
                {
                    let is_made = effects::makes_from_example(&simple.words, at)
                        && self.is_free(&word.text, &folders, workspace);
                    let mut unused = Vec::new();
                    let paths = if is_made || effects::asks_about_files(&simple.words) {
                        &mut unused
                    } else {
                        &mut paths
                    };
                    let outside = self.take_word(word, access, &folders, workspace, paths);
                    // From one of the folders that the line has reached it must lie inside.
                    if let Some(Some(path)) = outside.get(..reached).and_then(|all| {
                        all.iter().all(Option::is_some).then(|| all.first().cloned().flatten())
                    }) {
                        self.findings.insert(printable(&format!(
                            "the path `{path}` lies outside the workspace"
                        )));
                    }
                }
            }
            let files = self.take_fed(simple, fed.as_ref(), workspace);
            self.take_trees(&files, access, &folders, workspace, &mut paths);
            self.take_effects(simple, &folders, workspace, &mut paths);
            self.commands.push(CommandFacts::new(simple, paths));
        }
        self.check_links(shell);
        self.check_branches(shell);
    }

    /// Asks about a line that makes a link and uses it: where it leads is not known before.
    fn check_links(&mut self, shell: &Shell) {
        for link in shell.commands.iter().filter_map(|simple| effects::link(&simple.words)) {
            let link = link.trim_end_matches('/');
            let leads = |word: &Word| {
                word.text
                    .strip_prefix(link)
                    .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
            };
            let others = shell.commands.iter().filter(|simple| {
                effects::link(&simple.words).is_none()
                    && (effects::changes_folder(&simple.words)
                        || !effects::shows_names_only(&simple.words))
            });
            let words = others.flat_map(|simple| &simple.words);
            let targets = shell.redirects.iter().map(|redirect| &redirect.target);
            if words.chain(targets).any(leads) {
                self.findings.insert(printable(&format!("the link `{link}` is made and used")));
            }
        }
    }

    /// Asks about a line that makes a branch or a tag and takes files from it: what it has is not known before.
    fn check_branches(&mut self, shell: &Shell) {
        let made: BTreeSet<&str> =
            shell.commands.iter().flat_map(|simple| git::made(&simple.words)).collect();
        let taken = shell.commands.iter().flat_map(|simple| git::revisions(&simple.words));
        for name in taken.filter(|name| made.contains(name.as_str())) {
            self.findings.insert(printable(&format!("the branch `{name}` is made and used")));
        }
    }

    /// The folders that the line may run in: the root, and the targets of every `cd` in it; and how
    /// many of them each command can have reached.
    fn folders(
        &mut self,
        commands: &[Simple],
        workspace: &dyn Workspace,
    ) -> (Vec<String>, Vec<usize>) {
        let mut folders = vec![String::new()];
        let mut counts = Vec::with_capacity(commands.len());
        for simple in commands {
            counts.push(folders.len());
            let Some((name, rest)) = simple.words.split_first() else { continue };
            let name = name.text.rsplit('/').next().unwrap_or_default();
            let mut targets = options::folders(name, rest);
            if targets.iter().any(|target| target.contains("{}")) {
                self.findings.insert("a folder that is not known".to_owned());
            }
            if matches!(name, "cd" | "pushd") {
                targets.extend(rest.iter().map(|word| word.text.as_str()));
                if rest.iter().any(Word::is_pattern) {
                    self.findings.insert("`cd` to a folder that is not known".to_owned());
                }
            }
            let reached: Vec<String> = targets
                .iter()
                .flat_map(|target| folders.iter().map(|folder| within(folder, target).into_owned()))
                .collect();
            for folder in reached {
                let normal = match workspace.resolve(&folder) {
                    ResolvedPath::Inside(normal) if normal == "." => String::new(),
                    ResolvedPath::Inside(normal) => normal,
                    ResolvedPath::Outside(resolved) => resolved,
                    ResolvedPath::Unresolvable(_) => folder,
                };
                if !folders.contains(&normal) {
                    folders.push(normal);
                }
            }
            if folders.len() > FOLDERS_MAX {
                folders.truncate(FOLDERS_MAX);
                self.findings.insert("more folders than can be followed".to_owned());
            }
        }
        (folders, counts)
    }
}

/// Builtins that change what the commands behind them mean.
const ALTERING: &[&str] = &[
    "cd",
    "pushd",
    "popd",
    "source",
    ".",
    "export",
    "read",
    "alias",
    "unalias",
    "eval",
    "exec",
    "set",
    "unset",
    "shopt",
    "declare",
    "typeset",
    "local",
    "readonly",
    "hash",
    "enable",
    "trap",
    "mapfile",
    "readarray",
    "umask",
];

/// Whether a command changes what others mean, or runs them in another environment.
fn alters_shell(words: &[Word]) -> bool {
    let Some((name, rest)) = words.split_first() else { return false };
    let name = name.text.rsplit('/').next().unwrap_or_default();
    ALTERING.contains(&name)
        || name == "env"
            && rest.iter().any(|word| word.text.contains('=') || word.text.starts_with('-'))
}

/// Whether a path lies in one of these places, by its text.
pub(super) fn lies_in(places: &[&str], path: &str) -> bool {
    let below = |place: &&str| {
        path.strip_prefix(*place).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    places.iter().any(below) && !path.split('/').any(|name| name == "..")
}

/// The folder that a file name pattern starts in.
#[must_use]
pub fn folder_of_pattern(path: &str) -> &str {
    let Some(at) = path.find(['*', '?', '[']) else { return path };
    let before = path.get(..at).unwrap_or_default();
    before.rsplit_once('/').map_or(".", |(folder, _)| if folder.is_empty() { "/" } else { folder })
}

/// A path as seen from a folder.
pub(super) fn within<'a>(folder: &str, path: &'a str) -> Cow<'a, str> {
    if folder.is_empty() || path.starts_with(['/', '~']) {
        Cow::Borrowed(path)
    } else {
        Cow::Owned(format!("{folder}/{path}"))
    }
}

/// The commands of a call, if its tool runs any.
fn parse_commands(question: &Question, tool: &Tool) -> Result<Option<Shell>, (Code, String)> {
    if let Some(pointer) = &tool.shell_line {
        let name = pointer.text().trim_start_matches('/');
        let line = match pointer.first(&question.args) {
            Some(Value::String(line)) => line,
            Some(_) => {
                let reason = format!("the argument `{name}`, the shell line, is not text");
                return Err((Code::RequestInvalid, reason));
            }
            None => {
                let reason = format!("the argument `{name}`, the shell line, is missing");
                return Err((Code::RequestInvalid, reason));
            }
        };
        no_nul(line)?;
        if line.len() > LINE_BYTES_MAX {
            let reason = format!("the shell line is longer than {LINE_BYTES_MAX} bytes");
            return Err((Code::DocSizeExceeded, reason));
        }
        return Ok(Some(shell::analyse(line)));
    }
    if tool.argv.is_empty() {
        return Ok(None);
    }
    let line = tool
        .command_line(&question.args)
        .map_err(|error| (Code::PolicyDenied, error.to_string()))?;
    line.argv.iter().try_for_each(|word| no_nul(word))?;
    Ok(Some(shell::analyse_words(&line.argv)))
}

/// No program can be started with such a word.
fn no_nul(text: &str) -> Result<(), (Code, String)> {
    if text.contains('\0') {
        return Err((Code::RequestInvalid, "a command cannot contain a NUL character".to_owned()));
    }
    Ok(())
}
