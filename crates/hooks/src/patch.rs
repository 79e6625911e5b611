//! Patches in the envelope of `apply_patch`: which files they change, and how.
//!
//! Stricter than the clients' own readers, which differ: what they may read in another way is refused.

/// The change of one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum FileChange {
    /// A new file.
    Added { path: String, content: String },
    /// Replacements in a file, which may be moved.
    Updated { path: String, target: Option<String>, replacements: Vec<Replacement> },
    /// The file is deleted.
    Deleted { path: String },
}

/// Lines and what replaces them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Replacement {
    pub(crate) old: String,
    pub(crate) new: String,
}

/// A line of the envelope itself.
enum Marker<'a> {
    Begin,
    End,
    EndOfFile,
    Add(&'a str),
    Update(&'a str),
    Delete(&'a str),
    Move(&'a str),
}

/// Reads a patch.
///
/// # Errors
/// What is not a whole envelope, or a line that does not belong where it stands.
pub(crate) fn read(text: &str) -> Result<Vec<FileChange>, String> {
    let mut changes: Vec<FileChange> = Vec::new();
    let (mut began, mut ended) = (false, false);
    for (number, line) in (1..).zip(text.trim().lines()) {
        let wrong = |what: &str| format!("line {number} of the patch {what}");
        if ended {
            return Err(wrong("stands after its end"));
        }
        match (marker(line).map_err(wrong)?, began) {
            (Some(Marker::Begin), false) => began = true,
            (_, false) => return Err(wrong("is not `*** Begin Patch`")),
            (Some(Marker::Begin), true) => return Err(wrong("begins it again")),
            (Some(Marker::End), true) => ended = true,
            (Some(Marker::Add(path)), true) => {
                changes.push(FileChange::Added { path: path.to_owned(), content: String::new() });
            }
            (Some(Marker::Delete(path)), true) => {
                changes.push(FileChange::Deleted { path: path.to_owned() });
            }
            (Some(Marker::Update(path)), true) => changes.push(FileChange::Updated {
                path: path.to_owned(),
                target: None,
                replacements: Vec::new(),
            }),
            (Some(Marker::Move(path)), true) => match changes.last_mut() {
                Some(FileChange::Updated { target: target @ None, replacements, .. })
                    if replacements.is_empty() =>
                {
                    *target = Some(path.to_owned());
                }
                Some(
                    FileChange::Updated { .. }
                    | FileChange::Added { .. }
                    | FileChange::Deleted { .. },
                )
                | None => return Err(wrong("moves no file")),
            },
            (Some(Marker::EndOfFile), true) => match changes.last() {
                Some(FileChange::Updated { .. }) => {}
                Some(FileChange::Added { .. } | FileChange::Deleted { .. }) | None => {
                    return Err(wrong("ends no file"));
                }
            },
            (None, true) => body(changes.last_mut(), line).map_err(wrong)?,
        }
    }
    if !ended {
        return Err("the patch has no end".to_owned());
    }
    if changes.is_empty() {
        return Err("the patch changes no file".to_owned());
    }
    Ok(changes)
}

/// Takes a line of the change that the envelope last named.
fn body(change: Option<&mut FileChange>, line: &str) -> Result<(), &'static str> {
    let (sign, rest) = line.split_at_checked(1).unwrap_or_default();
    match change {
        Some(FileChange::Added { content, .. }) if sign == "+" => {
            content.push_str(rest);
            content.push('\n');
            Ok(())
        }
        Some(FileChange::Updated { replacements, .. }) => {
            if line.starts_with("@@") {
                replacements.push(Replacement::default());
                return Ok(());
            }
            if replacements.is_empty() {
                replacements.push(Replacement::default());
            }
            let Some(Replacement { old, new }) = replacements.last_mut() else { return Ok(()) };
            let (is_old, is_new) = match sign {
                "" | " " => (true, true),
                "-" => (true, false),
                "+" => (false, true),
                _ => return Err("is neither context nor a change"),
            };
            for (_, text) in [(is_old, old), (is_new, new)].into_iter().filter(|(is, _)| *is) {
                text.push_str(rest);
                text.push('\n');
            }
            Ok(())
        }
        Some(FileChange::Added { .. } | FileChange::Deleted { .. }) | None => {
            Err("belongs to no file")
        }
    }
}

/// Reads a line of the envelope; an indented one is refused, since some clients take it for one and others do not.
fn marker(line: &str) -> Result<Option<Marker<'_>>, &'static str> {
    let known = match line.trim() {
        "*** Begin Patch" => Some(Marker::Begin),
        "*** End Patch" => Some(Marker::End),
        "*** End of File" => Some(Marker::EndOfFile),
        line => file_marker(line),
    };
    match (line.starts_with("***"), known) {
        (
            true,
            Some(
                Marker::Add(path)
                | Marker::Update(path)
                | Marker::Delete(path)
                | Marker::Move(path),
            ),
        ) if path.contains(':') => Err("has a path with a colon"),
        (true, Some(known)) => Ok(Some(known)),
        (true, None) => Err("is not known"),
        (false, Some(_)) => Err("is indented"),
        (false, None) => Ok(None),
    }
}

fn file_marker(line: &str) -> Option<Marker<'_>> {
    let path = |name: &str| {
        let path = line.strip_prefix(name)?;
        Some(path.strip_prefix(' ').unwrap_or(path))
    };
    (path("*** Add File:").map(Marker::Add))
        .or_else(|| path("*** Update File:").map(Marker::Update))
        .or_else(|| path("*** Delete File:").map(Marker::Delete))
        .or_else(|| path("*** Move to:").map(Marker::Move))
}
