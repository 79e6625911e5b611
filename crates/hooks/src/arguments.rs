//! The inputs of clients' tools as arguments of ours.

use serde_json::{Map, Value, json};

use crate::glob;
use crate::patch::{self, FileChange};
use crate::paths::{Folders, join};
use crate::tools::{Form, MappedCall, Names};

/// Shells whose lines are understood.
const SHELLS: [&str; 3] = ["bash", "sh", "zsh"];
/// Folders whose programs are the system's. A program elsewhere may be one that the agent has written, and it would run
/// outside the cell.
const SYSTEM_FOLDERS: [&str; 4] = ["/bin", "/usr/bin", "/usr/local/bin", "/opt/homebrew/bin"];

/// The path of the system's shell that a client's word names; `None` for anything else.
fn system_shell(word: &str) -> Option<String> {
    let (folder, name) = word.rsplit_once('/').unwrap_or(("/bin", word));
    let is_known = SHELLS.contains(&name) && SYSTEM_FOLDERS.contains(&folder);
    is_known.then(|| format!("{folder}/{name}"))
}

/// Whether a word names a shell, of the system or not.
fn names_shell(word: &str) -> bool {
    word.rsplit('/').next().is_some_and(|name| SHELLS.contains(&name))
}

/// Refuses a shell that is not the system's.
///
/// # Errors
/// Which one.
pub(crate) fn check_program(form: &Form, input: &Value) -> Result<(), String> {
    let Form::Command { line, shell, .. } = form else { return Ok(()) };
    let input = Input(input);
    if let Some(shell) = input.text(shell)?
        && system_shell(shell).is_none()
    {
        return Err(format!("the shell `{shell}` is not one of the system that is understood"));
    }
    if let Some((_, Value::Array(words))) = input.field(line)?
        && let [program, option, _] = words.as_slice()
        && let (Some(program), Some("-c" | "-lc")) = (program.as_str(), option.as_str())
        && names_shell(program)
        && system_shell(program).is_none()
    {
        return Err(format!("the shell `{program}` is not one of the system"));
    }
    Ok(())
}

/// The input of a tool.
struct Input<'a>(&'a Value);

impl<'a> Input<'a> {
    /// The field that is given of those with the same meaning.
    fn field(&self, names: &'a [String]) -> Result<Option<(&'a str, &'a Value)>, String> {
        let given =
            |name: &&String| self.0.get(name.as_str()).is_some_and(|value| !value.is_null());
        let mut given = names.iter().filter(given);
        let first = given.next();
        if let (Some(first), Some(second)) = (first, given.next()) {
            return Err(format!("it has both `{first}` and `{second}`"));
        }
        Ok(first.and_then(|name| Some((name.as_str(), self.0.get(name.as_str())?))))
    }

    fn text(&self, names: &'a [String]) -> Result<Option<&'a str>, String> {
        match self.field(names)? {
            None => Ok(None),
            Some((_, Value::String(text))) => Ok(Some(text)),
            Some((name, _)) => Err(format!("`{name}` is not text")),
        }
    }

    fn needed(&self, names: &'a [String]) -> Result<&'a str, String> {
        self.text(names)?.ok_or_else(|| missing(names))
    }

    fn flag(&self, names: &'a [String]) -> Result<bool, String> {
        match self.field(names)? {
            None => Ok(false),
            Some((_, Value::Bool(flag))) => Ok(*flag),
            Some((name, _)) => Err(format!("`{name}` is not true or false")),
        }
    }
}

fn missing(names: &[String]) -> String {
    format!("it has no `{}`", names.first().map_or("", String::as_str))
}

/// Returns the calls that a tool of this form makes with this input.
///
/// # Errors
/// Why the input does not fit.
pub(crate) fn calls(
    form: &Form,
    input: &Value,
    folders: Folders<'_>,
) -> Result<Vec<MappedCall>, String> {
    let whole = input;
    let input = Input(input);
    let path = |names| folders.path(input.needed(names)?);
    let folder = |names| input.text(names)?.map_or_else(|| folders.cwd(), |at| folders.path(at));
    let call = match form {
        Form::Command { line, folder, .. } => {
            check_program(form, whole)?;
            command(&input, (line, folder), folders)?
        }
        Form::Read { path: names, counts } => {
            let mut args = Map::from_iter([("path".to_owned(), json!(path(names)?))]);
            for (ours, theirs) in counts {
                if let Some(count) = input.0.get(theirs).and_then(Value::as_u64).filter(|n| *n > 0)
                {
                    args.insert(ours.clone(), json!(count));
                }
            }
            file("read", Value::Object(args))
        }
        Form::List { path } => file("list", json!({ "path": folder(path)? })),
        Form::Find { pattern, path } => {
            let (below, glob) = glob::split(input.needed(pattern)?)?;
            let within = join(&folder(path)?, below);
            // The pattern's own folders may be absolute.
            let within = if below.starts_with('/') { folders.path(below)? } else { within };
            file("search", json!({ "glob": glob, "path": within }))
        }
        Form::Search { pattern, path, glob, ignore_case, ignored } => {
            let mut args = json!({ "path": folder(path)?, "pattern": input.needed(pattern)? });
            if let Some(names) = input.text(glob)? {
                glob::check(names)?;
                insert(&mut args, "glob", json!(names));
            }
            if input.flag(ignore_case)? {
                insert(&mut args, "ignore_case", json!(true));
            }
            if input.flag(ignored)? {
                insert(&mut args, "include_ignored", json!(true));
            }
            file("search", args)
        }
        Form::Write { path: names, content } => {
            file("write", json!({ "content": input.needed(content)?, "path": path(names)? }))
        }
        Form::Edit { path: names, list, old, new, all } => {
            let edits = edits(&input, list, (old, new, all))?;
            file("edit", json!({ "edits": edits, "path": path(names)? }))
        }
        // A cell that is deleted has no source.
        Form::Notebook { path: names, source } => {
            let edit = json!({ "new": input.text(source)?.unwrap_or_default(), "old": "" });
            file("edit", json!({ "edits": [edit], "path": path(names)? }))
        }
        Form::Patch { text } => return patched(input.needed(text)?, folders),
        Form::Own { tool } => {
            MappedCall { server: "client".to_owned(), tool: tool.clone(), args: whole.clone() }
        }
        Form::Internal => return Ok(Vec::new()),
    };
    Ok(vec![call])
}

/// Returns the input with another command.
pub(crate) fn with_command(form: &Form, input: &Value, line: &str) -> Option<Value> {
    let Form::Command { line: names, shell: shells, .. } = form else { return None };
    check_program(form, input).ok()?;
    let (name, old) = Input(input).field(names).ok()??;
    let new = match old {
        Value::String(_) => json!(line),
        Value::Array(words) => match script(words) {
            Some((program, option, _)) => json!([program, option, line]),
            None => json!(["/bin/bash", "-c", line]),
        },
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => return None,
    };
    let mut changed = input.clone();
    insert(&mut changed, name, new);
    if let Some((name, Value::String(shell))) = Input(input).field(shells).ok()? {
        insert(&mut changed, name, json!(system_shell(shell)?));
    }
    Some(changed)
}

fn insert(object: &mut Value, key: &str, value: Value) {
    if let Value::Object(map) = object {
        map.insert(key.to_owned(), value);
    }
}

fn file(tool: &str, args: Value) -> MappedCall {
    MappedCall { server: "fs".to_owned(), tool: tool.to_owned(), args }
}

fn command(
    input: &Input<'_>,
    (line, folder): (&Names, &Names),
    folders: Folders<'_>,
) -> Result<MappedCall, String> {
    let input = Input(input.0);
    let text = line_of(&input, line)?;
    if text.trim().is_empty() || text.contains('\0') {
        return Err("its command is empty or has a null character".to_owned());
    }
    let folder = input.text(folder)?.map_or_else(|| folders.cwd(), |at| folders.path(at))?;
    let line = match folder.as_str() {
        "." => text,
        // On a line of its own, so that it holds for every command after it.
        folder if folder.starts_with('-') => {
            format!("cd {}\n{text}", quoted(&format!("./{folder}")))
        }
        folder => format!("cd {}\n{text}", quoted(folder)),
    };
    Ok(MappedCall {
        server: "shell".to_owned(),
        tool: "run".to_owned(),
        args: json!({ "line": line }),
    })
}

/// The line as the client gives it.
fn line_of<'a>(input: &Input<'a>, names: &'a Names) -> Result<String, String> {
    match input.field(names)? {
        None => Err(missing(names)),
        Some((_, Value::String(text))) => Ok(text.clone()),
        Some((name, Value::Array(words))) => {
            words_as_line(words).ok_or_else(|| format!("`{name}` is not a list of words"))
        }
        Some((name, _)) => Err(format!("`{name}` is not text")),
    }
}

/// The line of shell in the input of a tool that runs one.
pub(crate) fn command_of(form: &Form, input: &Value) -> Option<String> {
    let Form::Command { line, .. } = form else { return None };
    line_of(&Input(input), line).ok()
}

/// A shell of the system, its option and its line, if the words are those.
fn script(words: &[Value]) -> Option<(String, &str, &str)> {
    let [program, option, line] = words else { return None };
    let (program, option) = (system_shell(program.as_str()?)?, option.as_str()?);
    matches!(option, "-c" | "-lc").then_some((program, option, line.as_str()?))
}

fn words_as_line(words: &[Value]) -> Option<String> {
    if let Some((_, _, line)) = script(words) {
        return Some(line.to_owned());
    }
    let words: Option<Vec<String>> = words.iter().map(|word| word.as_str().map(quoted)).collect();
    words.map(|words| words.join(" "))
}

/// A word of a shell line.
fn quoted(word: &str) -> String {
    let is_plain = |byte: u8| {
        byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.' | b'/' | b',' | b':')
    };
    if !word.is_empty() && word.bytes().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

fn edits(
    input: &Input<'_>,
    list: &Names,
    (old, new, all): (&Names, &Names, &Names),
) -> Result<Vec<Value>, String> {
    let one = |edit: &Value| {
        let edit = Input(edit);
        let mut ours = json!({ "new": edit.needed(new)?, "old": edit.needed(old)? });
        if edit.flag(all)? {
            insert(&mut ours, "all", json!(true));
        }
        Ok(ours)
    };
    if list.is_empty() {
        return Ok(vec![one(input.0)?]);
    }
    match Input(input.0).field(list)? {
        Some((_, Value::Array(items))) if !items.is_empty() => items.iter().map(one).collect(),
        Some((name, _)) => Err(format!("`{name}` is not a list of edits")),
        None => Err(missing(list)),
    }
}

/// The calls of a patch: one for each file that it names. A deletion is judged as writing nothing.
fn patched(text: &str, folders: Folders<'_>) -> Result<Vec<MappedCall>, String> {
    let write = |path: &str, content: String| -> Result<MappedCall, String> {
        Ok(file("write", json!({ "content": content, "path": folders.path(path)? })))
    };
    let mut calls = Vec::new();
    for change in patch::read(text)? {
        match change {
            FileChange::Added { path, content } => calls.push(write(&path, content)?),
            FileChange::Deleted { path } => calls.push(write(&path, String::new())?),
            FileChange::Updated { path, target, replacements } => {
                let edits: Vec<Value> = replacements
                    .iter()
                    .map(|change| json!({ "new": change.new, "old": change.old }))
                    .collect();
                let at = folders.path(&path)?;
                calls.push(match edits.is_empty() {
                    // Only moved: nothing is left there.
                    true => write(&path, String::new())?,
                    false => file("edit", json!({ "edits": edits, "path": at })),
                });
                if let Some(target) = target {
                    let content: String =
                        replacements.into_iter().map(|change| change.new).collect();
                    calls.push(write(&target, content)?);
                }
            }
        }
    }
    Ok(calls)
}
