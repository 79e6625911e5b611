//! What a command printed, as it is recorded: whole, or its beginning and its end.

use serde_json::{Value, json};
use windlass_kernel::Digest;

/// How much of an output is kept whole, outside of what is recorded.
pub(crate) const KEPT_BYTES_MAX: usize = 64 << 20;
/// Taken beyond that, and dropped once secrets were taken out: the part of a secret that it ends in is not known as one.
pub(crate) const MARGIN_BYTES: usize = 64 << 10;
/// A line is not cut if its beginning is nearer than this.
const LINE_BYTES_MAX: usize = 4 << 10;

/// Keeps whole outputs that are too long to be recorded.
pub trait Outputs: Send + Sync {
    /// Takes the secrets out of a text.
    fn redact(&self, text: &mut String);

    /// Keeps a text durably and returns its digest.
    ///
    /// # Errors
    /// A message if it could not be kept.
    fn keep(&self, text: &str) -> Result<Digest, String>;
}

/// One output as it is recorded.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Recorded {
    pub text: String,
    /// Whether something was not UTF-8.
    pub lossy: bool,
    /// What was left out of the text, if anything was.
    pub cut: Option<Value>,
}

/// Decodes an output, and cuts it to `bytes_max` as JSON; `dropped` bytes of it were not taken.
pub(crate) fn recorded(
    bytes: Vec<u8>,
    dropped: u64,
    bytes_max: usize,
    outputs: Option<&dyn Outputs>,
) -> Recorded {
    let printed = u64::try_from(bytes.len()).unwrap_or(u64::MAX).saturating_add(dropped);
    let (mut text, lossy) = match String::from_utf8(bytes) {
        Ok(text) => (text, false),
        Err(error) => (String::from_utf8_lossy(error.as_bytes()).into_owned(), true),
    };
    let Some(outputs) = outputs.filter(|_| dropped > 0 || json_len(&text) > bytes_max) else {
        return Recorded { text, lossy, cut: None };
    };
    outputs.redact(&mut text);
    if dropped > 0 {
        text.truncate(text.floor_char_boundary(text.len().saturating_sub(MARGIN_BYTES)));
    }
    let mut cut = json!({ "bytes": printed });
    let (name, value) = match outputs.keep(&text) {
        Ok(digest) => ("kept", json!(digest)),
        Err(why) => ("not_kept", json!(why)),
    };
    if let Value::Object(cut) = &mut cut {
        cut.insert(name.to_owned(), value);
        if dropped > 0 {
            cut.insert("kept_bytes".to_owned(), json!(text.len()));
        }
    }
    Recorded { text: ends(&text, bytes_max, dropped > 0), lossy, cut: Some(cut) }
}

/// The beginning and the end of a text, which take `bytes_max` as JSON, with a line between them.
/// If more was printed than the text has, a line at the end says so.
fn ends(text: &str, bytes_max: usize, is_more: bool) -> String {
    let half = bytes_max / 2;
    let head = first(text.char_indices(), half).unwrap_or(text.len());
    let last = text.char_indices().rev();
    let tail = first(last, half).map_or(0, |at| {
        at + text.get(at..).and_then(|rest| rest.chars().next()).map_or(0, char::len_utf8)
    });
    let tail = tail.max(head);
    let (before, after) =
        (text.get(..head).unwrap_or_default(), text.get(tail..).unwrap_or_default());
    let before = match before.rfind('\n') {
        Some(at) if before.len() - at <= LINE_BYTES_MAX => before.get(..=at).unwrap_or_default(),
        Some(_) | None => before,
    };
    let after = match after.find('\n') {
        Some(at) if at < LINE_BYTES_MAX => after.get(at + 1..).unwrap_or_default(),
        Some(_) | None => after,
    };
    let left_out = text.len() - before.len() - after.len();
    let end = if before.is_empty() || before.ends_with('\n') { "" } else { "\n" };
    let more = if is_more { "\n[… more was printed, which nobody kept …]\n" } else { "" };
    format!("{before}{end}[… {left_out} bytes left out …]\n{after}{more}")
}

/// The place of the first character with which the characters take more than `bytes_max` as JSON.
fn first(chars: impl Iterator<Item = (usize, char)>, bytes_max: usize) -> Option<usize> {
    let mut bytes = 0_usize;
    chars
        .map(|(at, char)| {
            bytes += json_char_len(char);
            (at, bytes)
        })
        .find(|(_, bytes)| *bytes > bytes_max)
        .map(|(at, _)| at)
}

/// The length of a text within a JSON string.
fn json_len(text: &str) -> usize {
    text.chars().map(json_char_len).sum()
}

const fn json_char_len(char: char) -> usize {
    match char {
        '"' | '\\' | '\n' | '\r' | '\t' | '\u{8}' | '\u{c}' => 2,
        '\0'..'\u{20}' => 6,
        char => char.len_utf8(),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    /// Keeps one text, and takes the word `secret` out.
    #[derive(Default)]
    struct Kept(Mutex<Option<String>>);

    impl Outputs for Kept {
        fn redact(&self, text: &mut String) {
            *text = text.replace("secret", "******");
        }

        fn keep(&self, text: &str) -> Result<Digest, String> {
            *self.0.lock().unwrap() = Some(text.to_owned());
            Ok(Digest::of(text.as_bytes()))
        }
    }

    fn length(text: &str) -> usize {
        serde_json::to_string(text).unwrap().len() - 2
    }

    #[test]
    fn what_fits_is_recorded_as_it_is() {
        let kept = Kept::default();
        let text = "a \"secret\"\n";
        let found = recorded(text.as_bytes().to_vec(), 0, length(text), Some(&kept));
        assert_eq!(found, Recorded { text: text.to_owned(), ..Recorded::default() });
        assert!(kept.0.lock().unwrap().is_none());
        let lossy = recorded(b"a\xffb".to_vec(), 0, 10, Some(&kept));
        assert_eq!((lossy.text.as_str(), lossy.lossy), ("a\u{fffd}b", true));
    }

    #[test]
    fn the_beginning_and_the_end_are_recorded_and_the_whole_is_kept() {
        for unit in ["line of output\n", "é\u{1}\"\\", "no line end ", "😀"] {
            for bytes_max in [100, 1000, 10_000] {
                let whole = format!("first\n{}\nlast\n", unit.repeat(20_000 / unit.len()));
                let kept = Kept::default();
                let found = recorded(whole.clone().into_bytes(), 0, bytes_max, Some(&kept));
                assert!(found.text.starts_with("first\n") && found.text.ends_with("last\n"));
                assert!(length(&found.text) <= bytes_max + 60, "{}", length(&found.text));
                let (before, rest) = found.text.split_once("[… ").unwrap();
                let (left_out, after) = rest.split_once(" bytes left out …]\n").unwrap();
                let whole_again = before.strip_suffix('\n').unwrap_or(before);
                assert!(whole.starts_with(whole_again) && whole.ends_with(after));
                let left_out: usize = left_out.parse().unwrap();
                assert!((whole.len() - after.len() - before.len()).abs_diff(left_out) <= 1);
                assert_eq!(kept.0.lock().unwrap().as_deref(), Some(whole.as_str()));
                let digest = Digest::of(whole.as_bytes());
                assert_eq!(found.cut, Some(json!({"bytes": whole.len(), "kept": digest})));
            }
        }
    }

    #[test]
    fn no_part_of_a_secret_is_recorded_or_kept_at_a_cut() {
        for shift in 0..12 {
            let kept = Kept::default();
            let whole = format!("{}{}", "x".repeat(shift), "secret ".repeat(30_000));
            let found = recorded(whole.into_bytes(), 5, 1000, Some(&kept));
            let kept = kept.0.lock().unwrap().take().unwrap();
            for text in [&found.text, &kept] {
                let text = text.replace("secret", "");
                assert!(!text.contains("sec") && !text.contains("ret"), "{text:.2000}");
            }
            let cut = found.cut.unwrap();
            assert_eq!(cut["bytes"], 210_000 + shift + 5);
            assert_eq!(cut["kept_bytes"], kept.len());
        }
    }
}
