//! Trust in our hooks in Codex's `config.toml`: without it, Codex skips a hook and says nothing.
//!
//! The file is read by a TOML parser, for the places of its values, and changed as text.

use std::ops::Range;

use serde::{Deserialize, Serialize};
use toml_edit::{Document, Item, Table};

use super::InstallState;
use super::edit::{Splice, applied};
use super::error::{InstallError, Position};
use super::render::newline_of;
use super::text_of;

/// Trust in one hook, as `codex app-server` names it in its answer to `hooks/list`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct HookTrust {
    /// The hook's key: `key`.
    pub key: String,
    /// The hash of what the hook runs: `currentHash`.
    pub hash: String,
}

/// What Codex is told to trust.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Trust {
    /// The hooks.
    pub hooks: Vec<HookTrust>,
    /// The folder of the project that has them: of one that is not trusted, Codex reads no hooks.
    pub project: Option<String>,
}

impl Trust {
    /// What the configuration says.
    fn settings(&self) -> Vec<Setting<'_>> {
        let project = self.project.as_deref().map(Setting::of_project);
        project.into_iter().chain(self.hooks.iter().map(Setting::of_hook)).collect()
    }
}

/// A value in a table of the configuration.
#[derive(Clone, Copy)]
struct Setting<'a> {
    /// The tables that its table is in.
    parents: &'static [&'static str],
    /// The key of its table in those.
    table: &'a str,
    name: &'static str,
    value: &'a str,
}

impl<'a> Setting<'a> {
    fn of_hook(hook: &'a HookTrust) -> Self {
        let (table, value) = (hook.key.as_str(), hook.hash.as_str());
        Self { parents: &["hooks", "state"], table, name: "trusted_hash", value }
    }

    fn of_project(folder: &'a str) -> Self {
        Self { parents: &["projects"], table: folder, name: "trust_level", value: "trusted" }
    }

    /// Its table as the file writes it.
    fn header(&self) -> String {
        format!("{}.{}", self.parents.join("."), quoted(self.table))
    }
}

/// The configuration with this trust.
pub(crate) fn installed(trust: &Trust, before: Option<&[u8]>) -> Result<Vec<u8>, InstallError> {
    let before = text_of(before.unwrap_or_default())?;
    let config = Config::new(before)?;
    config.refuse_disabled(trust)?;
    let newline = newline_of(before);
    let mut splices = Vec::new();
    let mut added = String::new();
    for setting in trust.settings() {
        config.check_tables(setting.parents)?;
        let (name, value) = (setting.name, quoted(setting.value));
        match config.table(setting) {
            None => {
                let header = setting.header();
                added += &format!("{newline}[{header}]{newline}{name} = {value}{newline}");
            }
            Some(table) => splices.extend(config.with_value(setting, table, newline)?),
        }
    }
    if !added.is_empty() {
        let end = if before.is_empty() || before.ends_with('\n') { "" } else { newline };
        let start = if before.is_empty() { newline.len() } else { 0 };
        let text = format!("{end}{}", added.get(start..).unwrap_or(""));
        splices.push(Splice { span: before.len()..before.len(), text });
    }
    let after = applied(before, splices).ok_or(InstallError::Unsound)?;
    let says_all =
        |config: Config<'_>| trust.settings().into_iter().all(|setting| config.says(setting));
    let sound = Config::new(&after).is_ok_and(says_all);
    if sound { Ok(after.into_bytes()) } else { Err(InstallError::Unsound) }
}

/// The configuration without the trust that was not there before; none, if nothing is left.
pub(crate) fn removed(
    trust: &Trust,
    now: &str,
    before: Option<&str>,
) -> Result<Option<String>, InstallError> {
    let config = Config::new(now)?;
    let original = before.and_then(|text| Config::new(text).ok());
    let was_there = |setting: Setting<'_>| {
        original.as_ref().is_some_and(|config| config.table(setting).is_some())
    };
    let settings = trust.settings().into_iter();
    let gone: Vec<_> =
        settings.filter(|setting| config.says(*setting) && !was_there(*setting)).collect();
    let splices = gone.iter().filter_map(|setting| config.removal(*setting));
    let after = applied(now, splices.collect()).ok_or(InstallError::Unsound)?;
    let sound = Config::new(&after).is_ok_and(|config| !gone.iter().any(|it| config.says(*it)));
    if !sound {
        return Err(InstallError::Unsound);
    }
    Ok(if before.is_none() && after.trim_ascii().is_empty() { None } else { Some(after) })
}

/// Whether everything is trusted.
pub(crate) fn state(trust: &Trust, now: Option<&[u8]>) -> InstallState {
    let config = text_of(now.unwrap_or_default()).and_then(Config::new);
    let config = match config {
        Ok(config) => config,
        Err(error) => return InstallState::Changed { reason: error.to_string() },
    };
    if let Some((reason, _)) = config.disabled(trust) {
        return InstallState::Disabled { reason };
    }
    let settings = trust.settings();
    let missing = settings.iter().filter(|setting| config.value(**setting).is_none());
    let missing: Vec<String> = missing.map(|setting| setting.table.to_owned()).collect();
    if !missing.is_empty() {
        return InstallState::Missing { events: missing };
    }
    match settings.iter().find(|setting| !config.says(**setting)) {
        Some(setting) => InstallState::Changed {
            reason: format!("`{}`: what is trusted is not the hook as it is now", setting.table),
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

    /// The table of a setting.
    fn table(&self, setting: Setting<'_>) -> Option<&Item> {
        let mut parent = self.document.as_item();
        for name in setting.parents {
            parent = parent.get(name)?;
        }
        parent.get(setting.table)
    }

    fn value(&self, setting: Setting<'_>) -> Option<&str> {
        self.table(setting)?.get(setting.name)?.as_str()
    }

    fn says(&self, setting: Setting<'_>) -> bool {
        self.value(setting) == Some(setting.value)
    }

    /// What switches our hooks off, and where.
    fn disabled(&self, trust: &Trust) -> Option<(String, &Item)> {
        let off = |item: Option<&'_ Item>| item.and_then(Item::as_bool) == Some(false);
        let features = self.document.get("features");
        for name in ["hooks", "codex_hooks"] {
            let feature = features.and_then(|features| features.get(name));
            if let Some(item) = feature.filter(|item| off(Some(item))) {
                return Some((format!("`features.{name}` is false"), item));
            }
        }
        if let Some(setting) = trust.project.as_deref().map(Setting::of_project)
            && let Some(level) = self.table(setting).and_then(|table| table.get(setting.name))
            && level.as_str() != Some(setting.value)
        {
            return Some((format!("Codex is told not to trust `{}`", setting.table), level));
        }
        let states =
            trust.hooks.iter().filter_map(|hook| Some((hook, self.table(Setting::of_hook(hook))?)));
        let mut switches = states.filter_map(|(hook, state)| Some((hook, state.get("enabled")?)));
        let (hook, item) = switches.find(|(_, item)| off(Some(item)))?;
        Some((format!("the hook `{}` is switched off", hook.key), item))
    }

    fn refuse_disabled(&self, trust: &Trust) -> Result<(), InstallError> {
        match self.disabled(trust) {
            Some((reason, item)) => Err(InstallError::Disabled { reason, at: self.at(item) }),
            None => Ok(()),
        }
    }

    /// Checks that tables can be added below these.
    fn check_tables(&self, parents: &[&str]) -> Result<(), InstallError> {
        let mut item = Some(self.document.as_item());
        for (index, name) in parents.iter().enumerate() {
            item = item.and_then(|item| item.get(name));
            if let Some(item) = item
                && item.as_table().is_none_or(Table::is_dotted)
            {
                let name = parents.get(..=index).unwrap_or(parents).join(".");
                let expected = "a table with a header";
                return Err(InstallError::WrongType { name, expected, at: self.at(item) });
            }
        }
        Ok(())
    }

    /// What changes when a table that is there gets this value.
    fn with_value(
        &self,
        setting: Setting<'_>,
        table: &Item,
        newline: &str,
    ) -> Result<Option<Splice>, InstallError> {
        let wrong = || InstallError::WrongType {
            name: setting.header(),
            expected: "a table with a header",
            at: self.at(table),
        };
        if self.says(setting) {
            return Ok(None);
        }
        let value = quoted(setting.value);
        if let Some(old) = table.get(setting.name) {
            let span = old.span().ok_or_else(wrong)?;
            return Ok(Some(Splice { span, text: value }));
        }
        let header = table.as_table().filter(|table| !table.is_dotted());
        let header = header.and_then(|table| table.span()).ok_or_else(wrong)?;
        let end = self.line_end(header.end);
        let line = format!("{} = {value}{newline}", setting.name);
        let complete = self.text.get(..end).is_some_and(|text| text.ends_with('\n'));
        let text = if complete { line } else { format!("{newline}{line}") };
        Ok(Some(Splice { span: end..end, text }))
    }

    /// What is taken out with a setting: its table, if there is nothing else in it.
    fn removal(&self, setting: Setting<'_>) -> Option<Splice> {
        let state = self.table(setting)?;
        let (key, item) = state.as_table_like()?.get_key_value(setting.name)?;
        let span = match state.as_table().filter(|table| !table.is_dotted()) {
            Some(table) => {
                let line = self.line_start(key.span()?.start)..self.line_end(item.span()?.end);
                self.whole_table(table, &line).unwrap_or(line)
            }
            // Within a line there is no telling what belongs to it, so that the value becomes empty.
            None => return Some(Splice { span: item.span()?, text: quoted("") }),
        };
        Some(Splice { span, text: String::new() })
    }

    /// The place of a table of which the value's line is all, with the empty line before it.
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
