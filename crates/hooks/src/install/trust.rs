//! Trust in our hooks in Codex's `config.toml`: without it, Codex skips a hook and says nothing.
//!
//! The file is read by a TOML parser, for the places of its values, and changed as text.

use std::ops::Range;

use toml_edit::{Document, Item, Table};

use super::InstallState;
use super::edit::{Splice, applied};
use super::error::{InstallError, Position};
use super::render::newline_of;
use super::text_of;

/// Trust in one hook, as `codex app-server` names it in its answer to `hooks/list`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HookTrust {
    /// The hook's key: `key`.
    pub key: String,
    /// The hash of what the hook runs: `currentHash`.
    pub hash: String,
}

const HASH: &str = "trusted_hash";

/// The configuration in which these hooks are trusted.
pub(crate) fn installed(
    hooks: &[HookTrust],
    before: Option<&[u8]>,
) -> Result<Vec<u8>, InstallError> {
    let before = text_of(before.unwrap_or_default())?;
    let config = Config::new(before)?;
    config.refuse_disabled(hooks)?;
    config.check_tables()?;
    let newline = newline_of(before);
    let mut splices = Vec::new();
    let mut added = String::new();
    for hook in hooks {
        let value = quoted(&hook.hash);
        match config.state(&hook.key) {
            None => {
                let key = quoted(&hook.key);
                added += &format!("{newline}[hooks.state.{key}]{newline}{HASH} = {value}{newline}");
            }
            Some(state) => splices.extend(config.with_hash(hook, state, newline)?),
        }
    }
    if !added.is_empty() {
        let end = if before.is_empty() || before.ends_with('\n') { "" } else { newline };
        let start = if before.is_empty() { newline.len() } else { 0 };
        let text = format!("{end}{}", added.get(start..).unwrap_or(""));
        splices.push(Splice { span: before.len()..before.len(), text });
    }
    let after = applied(before, splices).ok_or(InstallError::Unsound)?;
    let sound = Config::new(&after).is_ok_and(|config| hooks.iter().all(|it| config.trusts(it)));
    if sound { Ok(after.into_bytes()) } else { Err(InstallError::Unsound) }
}

/// The configuration without the trust that was not there before; none, if nothing is left.
pub(crate) fn removed(
    hooks: &[HookTrust],
    now: &str,
    before: Option<&str>,
) -> Result<Option<String>, InstallError> {
    let config = Config::new(now)?;
    let original = before.and_then(|text| Config::new(text).ok());
    let was_there = |hook: &HookTrust| {
        original.as_ref().is_some_and(|config| config.state(&hook.key).is_some())
    };
    let gone: Vec<_> =
        hooks.iter().filter(|hook| config.trusts(hook) && !was_there(hook)).collect();
    let splices = gone.iter().filter_map(|hook| config.removal(&hook.key));
    let after = applied(now, splices.collect()).ok_or(InstallError::Unsound)?;
    let sound = Config::new(&after).is_ok_and(|config| !gone.iter().any(|it| config.trusts(it)));
    if !sound {
        return Err(InstallError::Unsound);
    }
    Ok(if before.is_none() && after.trim_ascii().is_empty() { None } else { Some(after) })
}

/// Whether all hooks are trusted.
pub(crate) fn state(hooks: &[HookTrust], now: Option<&[u8]>) -> InstallState {
    let config = text_of(now.unwrap_or_default()).and_then(Config::new);
    let config = match config {
        Ok(config) => config,
        Err(error) => return InstallState::Changed { reason: error.to_string() },
    };
    if let Some((reason, _)) = config.disabled(hooks) {
        return InstallState::Disabled { reason };
    }
    let missing = hooks.iter().filter(|hook| config.hash(&hook.key).is_none());
    let missing: Vec<String> = missing.map(|hook| hook.key.clone()).collect();
    if !missing.is_empty() {
        return InstallState::Missing { events: missing };
    }
    match hooks.iter().find(|hook| !config.trusts(hook)) {
        Some(hook) => InstallState::Changed {
            reason: format!("`{}`: what is trusted is not the hook as it is now", hook.key),
        },
        None => InstallState::Installed,
    }
}

struct Config<'a> {
    text: &'a str,
    document: Document<&'a str>,
}

impl<'a> Config<'a> {
    fn new(text: &'a str) -> Result<Self, InstallError> {
        let document = Document::parse(text).map_err(|error| InstallError::Syntax {
            at: Position::at(text, error.span().map_or(0, |span| span.start)),
            message: format!("not TOML: {}", error.message().replace('\n', "; ")),
        })?;
        Ok(Self { text, document })
    }

    fn at(&self, item: &Item) -> Position {
        Position::at(self.text, item.span().map_or(0, |span| span.start))
    }

    /// What is said of a hook.
    fn state(&self, key: &str) -> Option<&Item> {
        self.document.get("hooks")?.get("state")?.get(key)
    }

    fn hash(&self, key: &str) -> Option<&str> {
        self.state(key)?.get(HASH)?.as_str()
    }

    fn trusts(&self, hook: &HookTrust) -> bool {
        self.hash(&hook.key) == Some(&hook.hash)
    }

    /// What switches our hooks off, and where.
    fn disabled(&self, hooks: &[HookTrust]) -> Option<(String, &Item)> {
        let off = |item: Option<&'_ Item>| item.and_then(Item::as_bool) == Some(false);
        let features = self.document.get("features");
        for name in ["hooks", "codex_hooks"] {
            let feature = features.and_then(|features| features.get(name));
            if let Some(item) = feature.filter(|item| off(Some(item))) {
                return Some((format!("`features.{name}` is false"), item));
            }
        }
        let states = hooks.iter().filter_map(|hook| Some((hook, self.state(&hook.key)?)));
        let mut switches = states.filter_map(|(hook, state)| Some((hook, state.get("enabled")?)));
        let (hook, item) = switches.find(|(_, item)| off(Some(item)))?;
        Some((format!("the hook `{}` is switched off", hook.key), item))
    }

    fn refuse_disabled(&self, hooks: &[HookTrust]) -> Result<(), InstallError> {
        match self.disabled(hooks) {
            Some((reason, item)) => Err(InstallError::Disabled { reason, at: self.at(item) }),
            None => Ok(()),
        }
    }

    /// Checks that tables can be added below `hooks.state`.
    fn check_tables(&self) -> Result<(), InstallError> {
        let hooks = self.document.get("hooks");
        let state = hooks.and_then(|hooks| hooks.get("state"));
        for (name, item) in [("hooks", hooks), ("hooks.state", state)] {
            if let Some(item) = item
                && item.as_table().is_none_or(Table::is_dotted)
            {
                let (name, expected) = (name.to_owned(), "a table with a header");
                return Err(InstallError::WrongType { name, expected, at: self.at(item) });
            }
        }
        Ok(())
    }

    /// What changes when a hook that is known gets this hash.
    fn with_hash(
        &self,
        hook: &HookTrust,
        state: &Item,
        newline: &str,
    ) -> Result<Option<Splice>, InstallError> {
        let wrong = || InstallError::WrongType {
            name: format!("hooks.state.{}", quoted(&hook.key)),
            expected: "a table with a header",
            at: self.at(state),
        };
        if self.trusts(hook) {
            return Ok(None);
        }
        let value = quoted(&hook.hash);
        if let Some(old) = state.get(HASH) {
            let span = old.span().ok_or_else(wrong)?;
            return Ok(Some(Splice { span, text: value }));
        }
        let header = state.as_table().filter(|table| !table.is_dotted());
        let header = header.and_then(|table| table.span()).ok_or_else(wrong)?;
        let end = self.line_end(header.end);
        let line = format!("{HASH} = {value}{newline}");
        let complete = self.text.get(..end).is_some_and(|text| text.ends_with('\n'));
        let text = if complete { line } else { format!("{newline}{line}") };
        Ok(Some(Splice { span: end..end, text }))
    }

    /// What is taken out with the trust in a hook: its table, if there is nothing else in it.
    fn removal(&self, key: &str) -> Option<Splice> {
        let state = self.state(key)?;
        let (key, item) = state.as_table_like()?.get_key_value(HASH)?;
        let span = match state.as_table().filter(|table| !table.is_dotted()) {
            Some(table) => {
                let line = self.line_start(key.span()?.start)..self.line_end(item.span()?.end);
                self.whole_table(table, &line).unwrap_or(line)
            }
            // Within a line there is no telling what belongs to it, so that the hash becomes empty.
            None => return Some(Splice { span: item.span()?, text: quoted("") }),
        };
        Some(Splice { span, text: String::new() })
    }

    /// The place of a table of which the hash's line is all, with the empty line before it.
    fn whole_table(&self, table: &Table, line: &Range<usize>) -> Option<Range<usize>> {
        let header = table.span()?;
        let header = self.line_start(header.start)..self.line_end(header.end);
        let body = self.text.get(table.span()?.end..line.end)?;
        if table.len() != 1 || header.end != line.start || body.contains('#') {
            return None;
        }
        let before = self.text.get(..header.start)?;
        let empty = ["\r\n", "\n"]
            .into_iter()
            .find(|newline| before.strip_suffix(newline).is_some_and(|rest| rest.ends_with('\n')));
        Some(header.start - empty.map_or(0, str::len)..line.end)
    }

    fn line_start(&self, at: usize) -> usize {
        let before = self.text.get(..at).unwrap_or("");
        before.rfind('\n').map_or(0, |newline| newline + 1)
    }

    /// The end of a line, with what ends it.
    fn line_end(&self, at: usize) -> usize {
        let rest = self.text.get(at..).unwrap_or("");
        at + rest.find('\n').map_or(rest.len(), |newline| newline + 1)
    }
}

/// A TOML string within one line.
fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for char in text.chars() {
        match char {
            '"' | '\\' => quoted.extend(['\\', char]),
            char if char.is_control() => quoted += &format!("\\u{:04X}", u32::from(char)),
            char => quoted.push(char),
        }
    }
    quoted + "\""
}
