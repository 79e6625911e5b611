//! What a tracker accepts. Both trackers have the same limits, so that what fits one fits the other.

use crate::{Change, NewItem, Status, WorkError};

/// The longest title.
pub const TITLE_BYTES_MAX: usize = 500;
/// The longest description. It must fit into one argument of a program.
pub const DESCRIPTION_BYTES_MAX: usize = 64 * 1024;
/// The longest reason for closing.
pub const REASON_BYTES_MAX: usize = 16 * 1024;
/// The longest label, and the longest name of an assignee.
pub const NAME_BYTES_MAX: usize = 100;
/// The longest id.
pub const ID_BYTES_MAX: usize = 64;
/// How many labels an item may have.
pub const LABELS_MAX: usize = 32;
/// The highest number of a priority.
const PRIORITY_MAX: u8 = 4;

/// Checks an item before it is created.
pub fn check_new(new: &NewItem) -> Result<(), WorkError> {
    title(&new.title)?;
    priority(new.priority)?;
    text("description", &new.description, DESCRIPTION_BYTES_MAX)?;
    if let Some(to) = &new.assignee {
        assignee(to)?;
    }
    labels(&new.labels)
}

/// Checks a change before it is made.
pub fn check_change(change: &Change) -> Result<(), WorkError> {
    if *change == Change::default() {
        return Err(WorkError::invalid("nothing is to be changed"));
    }
    if change.status == Some(Status::Closed) {
        return Err(WorkError::invalid("an item is closed with a reason, not by its status"));
    }
    change.title.as_deref().map_or(Ok(()), title)?;
    change.priority.map_or(Ok(()), priority)?;
    let description = change.description.as_deref().unwrap_or_default();
    text("description", description, DESCRIPTION_BYTES_MAX)?;
    match change.assignee.as_deref() {
        None | Some("") => {}
        Some(to) => assignee(to)?,
    }
    labels(&change.labels_added)?;
    labels(&change.labels_removed)
}

/// Checks the reason for closing an item.
pub fn check_reason(reason: &str) -> Result<(), WorkError> {
    if reason.trim().is_empty() {
        return Err(WorkError::invalid("an item is closed with a reason"));
    }
    text("reason", reason, REASON_BYTES_MAX)
}

/// Checks an id: it must not be an option of a program, and nothing but an id.
pub fn check_id(id: &str) -> Result<(), WorkError> {
    if is_id(id) {
        return Ok(());
    }
    let shown: String = id.chars().take(ID_BYTES_MAX).collect();
    Err(WorkError::invalid(format!("`{}` is not an id", shown.escape_debug())))
}

/// Whether a text can be an id.
pub fn is_id(id: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    (1..=ID_BYTES_MAX).contains(&id.len())
        && id.bytes().all(plain)
        && id.as_bytes().first().is_some_and(u8::is_ascii_alphanumeric)
}

/// Checks the name of an assignee.
pub fn assignee(to: &str) -> Result<(), WorkError> {
    line("assignee", to, NAME_BYTES_MAX)
}

fn title(title: &str) -> Result<(), WorkError> {
    line("title", title, TITLE_BYTES_MAX)
}

const fn is_priority(priority: u8) -> bool {
    priority <= PRIORITY_MAX
}

fn priority(priority: u8) -> Result<(), WorkError> {
    if is_priority(priority) {
        return Ok(());
    }
    Err(WorkError::invalid(format!("the priority is 0 to {PRIORITY_MAX}, not {priority}")))
}

fn labels(labels: &[String]) -> Result<(), WorkError> {
    if labels.len() > LABELS_MAX {
        return Err(WorkError::invalid(format!("an item has at most {LABELS_MAX} labels")));
    }
    labels.iter().try_for_each(|label| {
        line("label", label, NAME_BYTES_MAX)?;
        // Programs take lists of labels apart at these.
        if label.contains([',', '"', '\'']) || label.contains(char::is_whitespace) {
            return Err(WorkError::invalid("a label has no commas, quotes or spaces"));
        }
        Ok(())
    })
}

/// Checks a text of one line.
fn line(what: &str, line: &str, bytes_max: usize) -> Result<(), WorkError> {
    text(what, line, bytes_max)?;
    if line.trim().is_empty() {
        return Err(WorkError::invalid(format!("the {what} is empty")));
    }
    if line.contains(char::is_control) {
        return Err(WorkError::invalid(format!("the {what} is not one line of text")));
    }
    Ok(())
}

/// Checks a text of many lines.
fn text(what: &str, text: &str, bytes_max: usize) -> Result<(), WorkError> {
    let bytes = text.len();
    if bytes > bytes_max {
        let reason = format!("the {what} has {bytes} bytes, more than {bytes_max}");
        return Err(WorkError::invalid(reason));
    }
    if text.contains('\0') {
        return Err(WorkError::invalid(format!("the {what} has a zero byte")));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_plain_and_no_options() {
        for id in ["ws-4k2p", "bd-a3f8.1", "Proj_2-x"] {
            assert_eq!(check_id(id), Ok(()), "{id}");
        }
        let long = "a".repeat(ID_BYTES_MAX + 1);
        for id in ["", "-rf", "--all", "a b", "a;b", "../x", "a\0", "é", &long] {
            assert!(check_id(id).is_err(), "{id}");
        }
    }

    #[test]
    fn limits_hold_for_every_text() {
        let task = |title: &str| NewItem::task(title);
        assert_eq!(check_new(&task(&"x".repeat(TITLE_BYTES_MAX))), Ok(()));
        let described = |text: String| NewItem { description: text, ..task("t") };
        assert_eq!(check_new(&described("x\n\t'\"".to_owned())), Ok(()));
        let labelled = |label: &str| NewItem { labels: vec![label.to_owned()], ..task("t") };
        assert_eq!(check_new(&labelled("area:cli")), Ok(()));
        for new in [
            task(""),
            task(" \u{a0}"),
            task("a\nb"),
            task("a\0"),
            task(&"x".repeat(TITLE_BYTES_MAX + 1)),
            described("x".repeat(DESCRIPTION_BYTES_MAX + 1)),
            described("\0".to_owned()),
            labelled("a,b"),
            labelled("a b"),
            labelled("\"a\""),
            labelled(""),
            NewItem { labels: vec!["a".to_owned(); LABELS_MAX + 1], ..task("t") },
            NewItem { assignee: Some(String::new()), ..task("t") },
            NewItem { priority: 5, ..task("t") },
        ] {
            assert!(check_new(&new).is_err(), "{new:?}");
        }
        for reason in ["", " ", "\0", &"x".repeat(REASON_BYTES_MAX + 1)] {
            assert!(check_reason(reason).is_err());
        }
        assert!(check_change(&Change::default()).is_err());
        let closing = Change { status: Some(Status::Closed), ..Change::default() };
        assert!(check_change(&closing).is_err());
        let nobody = Change { assignee: Some(String::new()), ..Change::default() };
        assert_eq!(check_change(&nobody), Ok(()));
    }
}
