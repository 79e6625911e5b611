//! A diff, line by line.

use maud::{Markup, html};

/// The kind of a line.
fn kind(line: &str) -> &'static str {
    match line.as_bytes() {
        [b'd', b'i', b'f', b'f', b' ', ..] => "file",
        [b'@', b'@', ..] => "hunk",
        [b'+', b'+', b'+', b' ', ..] | [b'-', b'-', b'-', b' ', ..] => "meta",
        [b'+', ..] => "add",
        [b'-', ..] => "del",
        [b' ', ..] | [] => "same",
        _ => "meta",
    }
}

/// Shows a diff.
pub(super) fn show(text: &str) -> Markup {
    html! {
        div.scroll.diff tabindex="0" role="group" aria-label="Diff" {
            @for line in text.lines() {
                div class=(format!("line {}", kind(line))) { (line) }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_have_their_kind_and_are_escaped() {
        let text = "diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-old\n+<b>new</b>\n same\n";
        let kinds: Vec<&str> = text.lines().map(kind).collect();
        assert_eq!(kinds, ["file", "meta", "meta", "hunk", "del", "add", "same"]);
        assert!(!show(text).into_string().contains("<b>"));
    }
}
