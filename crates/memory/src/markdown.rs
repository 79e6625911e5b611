//! A Markdown file as passages: at most one section each, and not too long.

/// The longest passage.
pub const PASSAGE_CHARACTERS_MAX: usize = 2000;

/// A part of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Passage {
    /// The headings around it, the outermost first, joined by ` / `.
    pub heading: String,
    /// The text, with its own heading.
    pub text: String,
}

/// Splits a file at its headings, and sections that are too long at blank lines, lines or words.
pub fn passages(text: &str) -> Vec<Passage> {
    let mut found = Vec::new();
    let mut headings: Vec<(usize, String)> = Vec::new();
    let mut section = String::new();
    let mut fence: Option<&str> = None;
    for line in text.split_inclusive('\n') {
        let trimmed = line.trim_start();
        let marks = ["```", "~~~"].into_iter().find(|mark| trimmed.starts_with(mark));
        match (fence, marks) {
            (Some(open), Some(mark)) if open == mark => fence = None,
            (None, Some(mark)) => fence = Some(mark),
            (Some(_) | None, _) => {}
        }
        if let Some((level, title)) = heading(line).filter(|_| fence.is_none()) {
            add_section(&mut found, &headings, &section);
            section.clear();
            headings.retain(|(above, _)| *above < level);
            headings.push((level, title.to_owned()));
        }
        section.push_str(line);
    }
    add_section(&mut found, &headings, &section);
    found
}

/// The level and title of a heading.
fn heading(line: &str) -> Option<(usize, &str)> {
    let marks = line.bytes().take_while(|byte| *byte == b'#').count();
    let title = line.get(marks..)?;
    if !(1..=6).contains(&marks) || !title.starts_with([' ', '\t']) {
        return None;
    }
    let title = title.trim().trim_end_matches('#').trim_end();
    Some((marks, title)).filter(|(_, title)| !title.is_empty())
}

fn add_section(found: &mut Vec<Passage>, headings: &[(usize, String)], section: &str) {
    let titles: Vec<&str> = headings.iter().map(|(_, title)| title.as_str()).collect();
    let heading = titles.join(" / ");
    let mut rest = section.trim();
    while !rest.is_empty() {
        let (text, after) = rest.split_at(cut(rest));
        rest = after.trim_start();
        let text = text.trim_end();
        if text.contains(char::is_alphanumeric) {
            found.push(Passage { heading: heading.clone(), text: text.to_owned() });
        }
    }
}

/// Where a passage ends: at the limit, or at the last blank line, line or word before it.
fn cut(text: &str) -> usize {
    let Some((end, _)) = text.char_indices().nth(PASSAGE_CHARACTERS_MAX) else {
        return text.len();
    };
    let within = text.get(..end).unwrap_or_default();
    // Not so early that a passage says nothing.
    let late = |at: &usize| *at >= end / 2;
    ["\n\n", "\n", " "].iter().find_map(|mark| within.rfind(mark).filter(late)).unwrap_or(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(text: &str) -> Vec<(String, String)> {
        passages(text).into_iter().map(|found| (found.heading, found.text)).collect()
    }

    #[test]
    fn files_are_split_at_headings() {
        let text =
            "intro\n\n# A\nalpha\n## B ##\nbeta\n\n```sh\n# not a heading\n```\n#hash\n# C\n";
        let expected = [
            ("", "intro"),
            ("A", "# A\nalpha"),
            ("A / B", "## B ##\nbeta\n\n```sh\n# not a heading\n```\n#hash"),
            ("C", "# C"),
        ];
        let expected: Vec<_> =
            expected.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect();
        assert_eq!(pairs(text), expected);
        assert_eq!(pairs(" \n---\n\n"), []);
    }

    #[test]
    fn long_sections_are_split_and_nothing_is_lost() {
        let paragraph = "word ".repeat(100);
        let text = format!("# T\n{}", vec![paragraph.trim(); 20].join("\n\n"));
        let found = passages(&text);
        assert!(found.len() > 4);
        for passage in &found {
            assert!(passage.text.chars().count() <= PASSAGE_CHARACTERS_MAX);
            assert_eq!(passage.heading, "T");
        }
        let words = |text: &str| text.split_whitespace().count();
        assert_eq!(found.iter().map(|found| words(&found.text)).sum::<usize>(), words(&text));
        // Without any place to cut, and with characters of many bytes.
        let found = passages(&"\u{10ffff}é".repeat(3000));
        assert_eq!(found.iter().map(|found| found.text.chars().count()).sum::<usize>(), 6000);
        assert!(found.iter().all(|found| found.text.chars().count() <= PASSAGE_CHARACTERS_MAX));
    }
}
