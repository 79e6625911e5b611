//! What a line that policy allows may do: compares effects with the judgement.
//!
//! INVARIANT: nothing here uses the rules or the tables of judging. What is protected is said once more.

use windlass_policy::Judgement;

use super::runner::Effects;
use super::world::{FORBIDDEN, LOCAL, SECRET, SECRET_VARIABLE};

/// Folders whose files other programs obey, or that hold secrets.
const FOLDERS: &[&str] = &[
    ".claude",
    ".codex",
    ".gemini",
    ".opencode",
    ".cursor",
    ".vscode",
    ".idea",
    ".husky",
    ".devcontainer",
    ".windlass",
    ".ssh",
    ".aws",
    ".gnupg",
    ".kube",
];
/// Files of the same kind.
const FILES: &[&str] = &[
    "CLAUDE.md",
    "AGENTS.md",
    "GEMINI.md",
    ".mcp.json",
    ".gitmodules",
    ".gitattributes",
    ".gitlab-ci.yml",
    ".envrc",
    ".cursorrules",
    ".netrc",
    ".npmrc",
    ".git-credentials",
    ".pre-commit-config.yaml",
    "id_rsa",
    "id_ed25519",
];
/// Git's own files that a line may never change, whatever commands it runs.
const GIT_FILES: &[&str] = &["config", "hooks", "info", "modules"];
/// What git shows of any commit.
const HISTORY: &[&str] =
    &["log", "show", "diff", "diff-tree", "cat-file", "blame", "reflog", "stash list"];

/// Why a path may not change without a person.
fn protection(path: &str, uses_git: bool) -> Option<&'static str> {
    let names: Vec<&str> = path.split('/').collect();
    if let Some(at) = names.iter().position(|name| *name == ".git") {
        let inner = names.get(at + 1).copied().unwrap_or_default();
        let own = at == 0 && uses_git && !GIT_FILES.contains(&inner);
        return (!own).then_some("git's own file");
    }
    let base = names.last().copied().unwrap_or_default();
    let example =
        [".example", ".sample", ".template", ".dist"].iter().any(|end| base.ends_with(end));
    let secret =
        base.starts_with(".env") && !example || base.ends_with(".pem") || base.ends_with(".p12");
    let workflow = names.windows(2).any(|pair| pair == [".github", "workflows"]);
    let known = names.iter().any(|name| FOLDERS.contains(name)) || FILES.contains(&base);
    (secret || workflow || known).then_some("a protected file")
}

/// The subcommands of git that the line runs.
fn git_commands(judgement: &Judgement) -> Vec<&str> {
    let git = judgement.commands.iter().filter_map(|command| command.strip_prefix("git "));
    git.collect()
}

/// The first effect that the judgement did not foresee.
pub fn unforeseen(
    effects: &Effects,
    judgement: &Judgement,
    reads: bool,
    end: &[String],
    root: &str,
) -> Option<String> {
    let git = git_commands(judgement);
    let uses_git = !git.is_empty();
    let changed = || effects.written.iter().chain(&effects.removed);
    for path in changed() {
        if let Some(why) = protection(path, uses_git) {
            return Some(format!("it changed `{path}`, {why}"));
        }
        // Git refreshes its index when it reads; the cell of a read tool does not keep that.
        if reads && !path.starts_with(".git/") {
            return Some(format!("a read tool changed `{path}`"));
        }
    }
    for path in LOCAL.iter().filter(|path| effects.removed.contains(**path)) {
        let kept = |text: &str| text.contains(&format!("local {path}"));
        let packed = effects.written.contains(&format!("{path}.gz"));
        if !packed && !effects.texts.iter().any(|(_, text)| kept(text)) {
            return Some(format!("it removed `{path}`, which no checkpoint brings back"));
        }
    }
    if let Some(path) = effects.home.first() {
        return Some(format!("it changed `{path}` in the home folder"));
    }
    let shows_history =
        git.iter().any(|command| HISTORY.iter().any(|known| command.contains(known)));
    let found =
        |text: &str| text.contains(SECRET) && !shows_history || text.contains(SECRET_VARIABLE);
    if found(&effects.output) {
        return Some("a secret is in its output".to_owned());
    }
    if let Some((path, _)) = effects.texts.iter().find(|(_, text)| found(text)) {
        return Some(format!("a secret is in `{path}`"));
    }
    if let Some(name) = effects.left.first().filter(|_| effects.ended) {
        return Some(format!("its process `{name}` was left"));
    }
    programs(effects, judgement).or_else(|| commands(effects, judgement, end, root))
}

fn programs(effects: &Effects, judgement: &Judgement) -> Option<String> {
    for (by_line, words) in &effects.programs {
        let shown = words.join(" ");
        let name = words.first().map(String::as_str).unwrap_or_default();
        if FORBIDDEN.split_whitespace().any(|known| known == name) {
            return Some(format!("it started `{shown}`"));
        }
        // These add words of their own.
        let adds = |command: &String| command.contains("xargs") || command.contains("find ");
        // One of the programs of this name hands its words to the other.
        let hands_on = |command: &String| name == "jq" && is_program(command, "yq");
        let known = |command: &String| is_program(command, name) || hands_on(command);
        let judged = if judgement.commands.iter().any(adds) {
            judgement.commands.iter().any(known)
        } else {
            judgement.commands.iter().any(|command| known(command) && fits(command, name, &shown))
        };
        if *by_line && !judged {
            return Some(format!("it started `{shown}`, which was not judged"));
        }
    }
    None
}

/// Whether a judged command starts a program of this name.
fn is_program(command: &str, name: &str) -> bool {
    let first = command.split(' ').next().unwrap_or_default();
    first.rsplit('/').next() == Some(name)
}

/// Whether the words of a program are those that were judged, but for the folder of its name.
fn fits(command: &str, name: &str, shown: &str) -> bool {
    let words = command.split_once(' ').map_or("", |(_, words)| words);
    let started = shown.strip_prefix(name).unwrap_or_default();
    matches(words, &printable(started.strip_prefix(' ').unwrap_or_default()))
}

fn commands(
    effects: &Effects,
    judgement: &Judgement,
    end: &[String],
    root: &str,
) -> Option<String> {
    for words in &effects.commands {
        let Some(first) = words.first() else { continue };
        if words.len() >= 2 && words[0] == ":" && words[1] == "END" {
            if words != end {
                return Some(format!("it set variables of the shell: {words:?}"));
            }
            continue;
        }
        let is_assignment = first.split_once('=').is_some_and(|(name, _)| {
            name.starts_with(|char: char| char.is_ascii_alphabetic() || char == '_')
                && name.chars().all(|char| char.is_ascii_alphanumeric() || "_[]+".contains(char))
        });
        if is_assignment || matches!(first.as_str(), "for" | "case" | "[[" | "((" | "select") {
            continue;
        }
        let shown = printable(&words.join(" ").replace(root, "."));
        let judged = |command: &String| matches(&command.replace(root, "."), &shown);
        if !judgement.commands.iter().any(judged) {
            return Some(format!("it ran `{shown}`, which was not judged"));
        }
    }
    None
}

fn printable(text: &str) -> String {
    text.chars().map(|char| if char.is_control() { ' ' } else { char }).collect()
}

/// Whether a command can be one that was judged: of its words some are patterns or not known.
fn matches(judged: &str, shown: &str) -> bool {
    if judged == shown {
        return true;
    }
    let mut parts: Vec<String> = vec![String::new()];
    let mut chars = judged.chars().peekable();
    let mut before = ' ';
    while let Some(char) = chars.next() {
        let is_folder =
            char == '.' && before == ' ' && chars.peek().is_none_or(|next| " /".contains(*next));
        if matches!(char, '…' | '*' | '?' | '[') || is_folder {
            // What a set contains is not looked at.
            let rest: String = chars.clone().collect();
            if let Some(length) = rest.find([']', ' ']).filter(|_| char == '[') {
                chars.by_ref().take(rest[..=length].chars().count()).for_each(drop);
            }
            // A word can become none.
            if before == ' '
                && let Some(last) = parts.last_mut()
            {
                last.pop();
            }
            parts.push(String::new());
        } else if let Some(last) = parts.last_mut() {
            last.push(char);
        }
        before = char;
    }
    let (Some(first), Some(last)) = (parts.first(), parts.last()) else { return false };
    let Some(mut rest) = shown.strip_prefix(first.as_str()) else { return false };
    if parts.len() == 1 {
        return rest.is_empty();
    }
    for part in &parts[1..parts.len() - 1] {
        match rest.find(part.as_str()) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    rest.ends_with(last.as_str())
}
