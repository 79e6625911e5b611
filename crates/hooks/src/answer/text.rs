//! Reasons and messages, made safe to print.

/// The longest reason.
pub const REASON_BYTES_MAX: usize = 4096;

/// The longest text that the agent is given besides.
pub const MESSAGE_BYTES_MAX: usize = 64 << 10;

/// What precedes a reason. Gemini CLI takes a reason that happens to be JSON for an answer: this makes it none.
const PREFIX: &str = "refused: ";

/// What stands in for a reason without a word in it.
const NO_REASON: &str = "no reason was given";

/// The reason for a refusal in one line: never empty, never JSON.
pub(super) fn reason(reason: &str) -> String {
    cut(format!("{PREFIX}{}", line(reason)))
}

/// The reason for a question in one line: never empty.
pub(super) fn question(reason: &str) -> String {
    cut(line(reason))
}

fn line(text: &str) -> String {
    let spaced = |char| if matches!(char, '\n' | '\t' | '\r') { ' ' } else { char };
    let line: String = text.chars().map(spaced).filter(|char| is_shown(*char)).collect();
    let line = line.trim();
    let line = if line.chars().any(char::is_alphanumeric) { line } else { NO_REASON };
    line.to_owned()
}

/// A message; it may have several lines, or none.
pub(super) fn message(text: &str) -> String {
    let shown = |char: &char| matches!(char, '\n' | '\t') || is_shown(*char);
    let text = text.chars().filter(shown).collect::<String>().trim().to_owned();
    cut_to(text, MESSAGE_BYTES_MAX)
}

/// Whether a character is neither a control character nor changes how its neighbours are shown.
fn is_shown(char: char) -> bool {
    !char.is_control()
        && !matches!(char, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
        && char != '\u{feff}'
}

fn cut(text: String) -> String {
    cut_to(text, REASON_BYTES_MAX)
}

fn cut_to(mut text: String, bytes_max: usize) -> String {
    text.truncate(text.floor_char_boundary(bytes_max));
    text
}
