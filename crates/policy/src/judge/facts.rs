//! The facts about a call that rules are matched with.

use std::collections::BTreeSet;

use serde_json::Value;
use windlass_kernel::Code;

use super::command::{CommandFacts, printable};
use super::path::{PathFact, could_be_path};
use crate::shell::{self, Access, LINE_BYTES_MAX, Shell, Simple, Word};
use crate::{Pointer, Question, ResolvedPath, Tool, Workspace};

/// Devices, which are not judged as files.
const DEVICES: &[&str] = &["/dev/null", "/dev/stdout", "/dev/stderr", "/dev/stdin", "/dev/tty"];
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
}

impl Facts {
    /// Gathers the facts of a call.
    pub fn gather(question: &Question, tool: &Tool, workspace: &dyn Workspace) -> Self {
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
        match parse_commands(question, tool) {
            Ok(Some(shell)) => facts.take_shell(shell, tool, workspace),
            Ok(None) => {}
            Err((code, reason)) => facts.deny(code, reason),
        }
        facts
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
                match text {
                    Some(text) => self.take_path(text, access, workspace),
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

    fn take_shell(&mut self, shell: Shell, tool: &Tool, workspace: &dyn Workspace) {
        self.findings.extend(shell.opaque);
        if let Some(reason) = shell.refused {
            self.deny(Code::PolicyDenied, reason);
        }
        let folders = self.folders(&shell.commands, workspace);
        for redirect in &shell.redirects {
            let target = &redirect.target;
            if DEVICES.contains(&target.text.as_str()) {
                continue;
            }
            if redirect.access == Access::Write && !tool.class.writes() {
                let reason = format!("`{}` would be written by a read tool", target.text);
                self.deny(Code::PolicyDenied, reason);
            }
            for folder in &folders {
                self.take_path(&within(folder, &target.text), redirect.access, workspace);
            }
            if target.is_pattern() {
                self.findings.insert("a redirection to a file name pattern".to_owned());
            }
        }
        // The commands of a read tool only read; those of a write tool may do either.
        let access = if tool.class.writes() { None } else { Some(Access::Read) };
        for simple in &shell.commands {
            let mut paths = Vec::new();
            for (at, word) in simple.words.iter().enumerate() {
                if at > 0 || word.text.contains('/') && !word.text.starts_with('/') {
                    self.take_word(word, access, &folders, workspace, &mut paths);
                }
            }
            self.commands.push(CommandFacts::new(simple, paths));
        }
    }

    /// The folders that the line may run in: the root, and the targets of every `cd` in it.
    fn folders(&mut self, commands: &[Simple], workspace: &dyn Workspace) -> Vec<String> {
        let mut folders = vec![String::new()];
        for simple in commands {
            let [name, target] = simple.words.as_slice() else { continue };
            if name.text != "cd" {
                continue;
            }
            if target.is_pattern() {
                self.findings.insert("`cd` to a folder that is not known".to_owned());
            }
            let reached: Vec<String> =
                folders.iter().map(|folder| within(folder, &target.text)).collect();
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
        folders
    }

    /// Treats a word, and the text after `=`, `:`, `@` or an option's letter in it, as a path.
    fn take_word(
        &mut self,
        word: &Word,
        access: Option<Access>,
        folders: &[String],
        workspace: &dyn Workspace,
        paths: &mut Vec<PathFact>,
    ) {
        let text = word.text.as_str();
        let behind = |separator: char| text.split_once(separator).map(|(_, rest)| rest);
        let attached = if text.starts_with("--") { None } else { text.strip_prefix('-') };
        let attached = attached.and_then(|rest| {
            let mut chars = rest.chars();
            chars.next().map(|_| chars.as_str())
        });
        let parts = [
            (Some(text), true),
            (behind('='), true),
            (attached, true),
            (behind(':'), false),
            (behind('@'), false),
        ];
        if word.is_pattern() && !could_be_path(text) {
            // It is too long for a path, but the files that it matches need not be.
            self.findings.insert("a file name pattern that is too long".to_owned());
        }
        let mut known: BTreeSet<&str> = BTreeSet::new();
        for (part, may_ask) in parts {
            let Some(part) = part.filter(|part| could_be_path(part)) else { continue };
            if DEVICES.contains(&part) || !known.insert(part) {
                continue;
            }
            let looks = part.contains('/') || part.starts_with('~') || part == "..";
            for folder in folders {
                let (normal, outside) = match workspace.resolve(&within(folder, part)) {
                    ResolvedPath::Inside(normal) => (normal, false),
                    ResolvedPath::Outside(resolved) => (resolved, true),
                    ResolvedPath::Unresolvable(why) => {
                        self.findings.insert(format!("a word that is no path: {why}"));
                        continue;
                    }
                };
                if outside && looks && may_ask {
                    self.findings.insert(printable(&format!(
                        "the path `{part}` lies outside the workspace"
                    )));
                }
                let normal = normal.trim_start_matches(['~', '/']);
                let fact = PathFact::new(text, normal, access, self.folds_case);
                let fact = if word.is_pattern() { fact.pattern() } else { fact };
                paths.push(if looks && may_ask { fact } else { fact.maybe() });
            }
        }
    }
}

/// A path as seen from a folder.
fn within(folder: &str, path: &str) -> String {
    if folder.is_empty() || path.starts_with(['/', '~']) {
        path.to_owned()
    } else {
        format!("{folder}/{path}")
    }
}

/// The commands of a call, if its tool runs any.
fn parse_commands(question: &Question, tool: &Tool) -> Result<Option<Shell>, (Code, String)> {
    if let Some(pointer) = &tool.shell_line {
        let Some(Value::String(line)) = pointer.first(&question.args) else {
            let reason = format!("the argument `{}` is not a shell line", pointer.text());
            return Err((Code::PolicyDenied, reason));
        };
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
    Ok(Some(shell::analyse_words(&line.argv)))
}
