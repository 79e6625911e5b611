//! `edit`: exact replacements in a text.

use serde_json::{Value, json};
use windlass_kernel::Digest;
use windlass_kernel::artifact::FileChange;

use crate::arguments::{Arguments, Edit};
use crate::diff::diff;
use crate::error::FilesError;
use crate::files::version_of;
use crate::limits::{DIFF_BYTES_MAX, FILE_BYTES_MAX, OUTPUT_BYTES_MIN, REPLACEMENTS_MAX};
use crate::root::Root;
use crate::segments::{Replaced, Segments};
use crate::target::{Content, Step, Target};

/// How many line numbers a message lists.
const LINES_LISTED: usize = 10;

pub(crate) fn foresee(root: &Root, arguments: &Arguments<'_>) -> Result<FileChange, FilesError> {
    let target = Target::new(root, arguments.path(), Content::Keep)?;
    target.check_version(arguments.text("version"))?;
    let edited = edited(&target, arguments)?;
    Ok(target.change(Digest::of(edited.text.as_bytes())))
}

pub(crate) fn edit(
    root: &Root,
    arguments: &Arguments<'_>,
    foreseen: Option<&FileChange>,
    output_bytes_max: usize,
) -> Result<Value, FilesError> {
    let target = Target::new(root, arguments.path(), Content::Keep)?;
    if let Some(foreseen) = foreseen {
        if target.next_step(foreseen)? == Step::Nothing {
            return Ok(json!({
                "path": foreseen.path,
                "version": version_of(&foreseen.after),
                "note": "the edit was already made",
            }));
        }
    } else {
        target.check_version(arguments.text("version"))?;
    }
    let edited = edited(&target, arguments)?;
    let after = Digest::of(edited.text.as_bytes());
    if foreseen.is_some_and(|foreseen| foreseen.after != after) {
        let message = "the edits are not those that were foreseen; make the call again";
        return Err(FilesError::Changed(message.to_owned()));
    }
    target.write(root, edited.text.as_bytes(), None)?;
    let bytes_max = DIFF_BYTES_MAX.min(output_bytes_max.saturating_sub(OUTPUT_BYTES_MIN / 2));
    let before = target.content().unwrap_or_default();
    let (diff, is_whole) = diff(before, edited.text.as_bytes(), &edited.segments, bytes_max);
    let mut notes = edited.notes;
    if !is_whole {
        notes.push("the diff is cut; read the file for the rest".to_owned());
    }
    let mut result = json!({
        "path": target.text,
        "version": version_of(&after),
        "replacements": edited.replacements,
        "diff": diff,
    });
    if let (false, Value::Object(result)) = (notes.is_empty(), &mut result) {
        result.insert("note".to_owned(), json!(notes.join(". ")));
    }
    Ok(result)
}

/// A text after its edits.
pub(crate) struct Edited {
    pub(crate) text: String,
    pub(crate) replacements: usize,
    pub(crate) segments: Segments,
    notes: Vec<String>,
}

fn edited(target: &Target, arguments: &Arguments<'_>) -> Result<Edited, FilesError> {
    let path = &target.text;
    let Some(content) = target.content() else {
        return Err(FilesError::NotFound { path: arguments.path().to_owned() });
    };
    let text = std::str::from_utf8(content).ok().filter(|text| !text.contains('\0'));
    let Some(text) = text else {
        return Err(FilesError::Refused(format!("`{path}` is not UTF-8 text, which `edit` needs")));
    };
    let edited = apply(path, text, &arguments.edits()?)?;
    if edited.text == text {
        let message = format!("the edits leave `{path}` as it is; leave them out");
        return Err(FilesError::Invalid(message));
    }
    Ok(edited)
}

/// Makes all edits in order, or none.
pub(crate) fn apply(path: &str, text: &str, edits: &[Edit<'_>]) -> Result<Edited, FilesError> {
    let mut edited = Edited {
        text: text.to_owned(),
        replacements: 0,
        segments: Segments::new(text.len()),
        notes: Vec::new(),
    };
    let mut converted = Vec::new();
    for (number, edit) in (1..).zip(edits) {
        let invalid =
            |what: &str| Err(FilesError::Invalid(format!("edit {number} of `{path}`: {what}")));
        if edit.old.is_empty() {
            return invalid("`old` is empty; copy the text to replace from the file");
        }
        if edit.old == edit.new {
            return invalid("`old` and `new` are the same");
        }
        // In a file with CRLF, an `old` with LF can only mean its lines.
        let (old, new) = (with_crlf(edit.old), with_crlf(edit.new));
        let is_converted =
            old != edit.old && !edited.text.contains(edit.old) && edited.text.contains(&old);
        let (old, new) = if is_converted {
            converted.push(number.to_string());
            (old.as_str(), new.as_str())
        } else {
            (edit.old, edit.new)
        };
        let found = find(path, number, &edited.text, old, edit.all)?;
        edited.replace(path, &found, old, new)?;
    }
    if !converted.is_empty() {
        let numbers = converted.join(", ");
        edited
            .notes
            .push(format!("line ends of edit {numbers} were taken as CRLF, as in the file"));
    }
    if has_only_crlf(text) && !has_only_crlf(&edited.text) {
        let note = "the file had only CRLF line ends and now has LF ones, too";
        edited.notes.push(note.to_owned());
    }
    Ok(edited)
}

/// The text with CRLF for each LF that has no CR.
fn with_crlf(text: &str) -> String {
    let mut converted = String::with_capacity(text.len());
    let mut last = '\0';
    for character in text.chars() {
        if character == '\n' && last != '\r' {
            converted.push('\r');
        }
        converted.push(character);
        last = character;
    }
    converted
}

/// Whether there are lines, and all of them end with CRLF.
fn has_only_crlf(text: &str) -> bool {
    let mut ends = text.match_indices('\n').peekable();
    ends.peek().is_some()
        && ends.all(|(at, _)| text.get(..at).is_some_and(|text| text.ends_with('\r')))
}

/// Where `old` is replaced.
fn find(
    path: &str,
    number: usize,
    text: &str,
    old: &str,
    all: bool,
) -> Result<Vec<usize>, FilesError> {
    let mut found: Vec<usize> =
        text.match_indices(old).map(|(at, _)| at).take(REPLACEMENTS_MAX + 1).collect();
    // Two occurrences may overlap: then one cannot tell which is meant either.
    if let (false, [first]) = (all, found.as_slice()) {
        let next = first + old.chars().next().map_or(1, char::len_utf8);
        if let Some(second) = text.get(next..).and_then(|rest| rest.find(old)) {
            found.push(next + second);
        }
    }
    let refused = |what: String| {
        Err(FilesError::Ambiguous(format!("no edit was made: `old` of edit {number} {what}")))
    };
    if found.is_empty() {
        return refused(format!(
            "does not occur in `{path}`{}; read the file and copy the text exactly",
            hint(text, old)
        ));
    }
    if found.len() > REPLACEMENTS_MAX {
        return Err(FilesError::TooLarge(format!(
            "no edit was made: `old` of edit {number} occurs more than {REPLACEMENTS_MAX} times in `{path}`"
        )));
    }
    if !all && found.len() > 1 {
        return refused(format!(
            "occurs {} times in `{path}`, at line {}; add lines around it to make it unique, or set `all`",
            found.len(),
            lines_of(text, &found)
        ));
    }
    Ok(found)
}

/// The numbers of the lines at these positions.
fn lines_of(text: &str, positions: &[usize]) -> String {
    let (mut line, mut counted) = (1, 0);
    let mut lines = Vec::new();
    for position in positions.iter().take(LINES_LISTED) {
        line += text.get(counted..*position).map_or(0, |part| part.matches('\n').count());
        counted = *position;
        lines.push(line.to_string());
    }
    lines.dedup();
    if positions.len() > LINES_LISTED {
        lines.push("…".to_owned());
    }
    lines.join(", ")
}

/// Where the first line of an `old` that does not occur is found, without regard to spaces around it.
fn hint(text: &str, old: &str) -> String {
    let Some(wanted) = old.lines().map(str::trim).find(|line| !line.is_empty()) else {
        return String::new();
    };
    let found = (1..).zip(text.lines()).find(|(_, line)| line.trim() == wanted);
    found.map_or_else(String::new, |(line, _)| {
        format!(" (line {line} looks like its first line, but indentation or a later line differs)")
    })
}

impl Edited {
    /// Replaces `old` by `new` at all these positions.
    fn replace(
        &mut self,
        path: &str,
        found: &[usize],
        old: &str,
        new: &str,
    ) -> Result<(), FilesError> {
        self.replacements += found.len();
        // Checked before anything is built: a small call can ask for a huge text.
        let length = self.text.len() - found.len() * old.len();
        let length = found.len().checked_mul(new.len()).and_then(|more| more.checked_add(length));
        let fits = length.and_then(|length| u64::try_from(length).ok());
        if fits.is_none_or(|length| length > FILE_BYTES_MAX) || self.replacements > REPLACEMENTS_MAX
        {
            return Err(FilesError::TooLarge(format!(
                "no edit was made: `{path}` would be larger than {FILE_BYTES_MAX} bytes, or more than \
                 {REPLACEMENTS_MAX} places would be replaced"
            )));
        }
        let same_start = common_bytes(old.bytes(), new.bytes());
        let rest = |text: &str| text.len() - same_start;
        let same_end =
            common_bytes(old.bytes().rev(), new.bytes().rev()).min(rest(old)).min(rest(new));
        let replaced: Vec<Replaced> = found
            .iter()
            .map(|at| Replaced {
                range: at + same_start..at + old.len() - same_end,
                length: rest(new) - same_end,
            })
            .collect();
        self.segments.replace(&replaced);
        let mut text = String::with_capacity(length.unwrap_or_default());
        let mut copied = 0;
        for at in found {
            text.push_str(self.text.get(copied..*at).unwrap_or_default());
            text.push_str(new);
            copied = at + old.len();
        }
        text.push_str(self.text.get(copied..).unwrap_or_default());
        self.text = text;
        Ok(())
    }
}

/// How many bytes are the same from the start of both.
fn common_bytes(one: impl Iterator<Item = u8>, other: impl Iterator<Item = u8>) -> usize {
    one.zip(other).take_while(|(one, other)| one == other).count()
}
