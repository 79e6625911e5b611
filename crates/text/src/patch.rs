//! Patches as git writes them, taken apart by file.

/// A line that a patch of a file begins with. No line of a file's content does: each has a sign before it.
const START: &str = "diff --git ";

/// The parts of a patch, one for each file; what stands before the first is a part, too.
#[must_use]
pub fn files(patch: &str) -> Vec<&str> {
    let mut starts: Vec<usize> =
        patch.match_indices(START).map(|(at, _)| at).filter(|at| is_at_line(patch, *at)).collect();
    if starts.first() != Some(&0) {
        starts.insert(0, 0);
    }
    let ends = starts.iter().skip(1).copied().chain([patch.len()]);
    let parts = starts.iter().zip(ends).filter_map(|(start, end)| patch.get(*start..end));
    parts.filter(|part| !part.is_empty()).collect()
}

fn is_at_line(patch: &str, at: usize) -> bool {
    at == 0 || patch.as_bytes().get(at - 1) == Some(&b'\n')
}

/// The name of a file as a line such as `+++ b/NAME` has it: git ends one with a blank by a tab.
#[must_use]
pub fn name(line: &str, start: &str) -> Option<String> {
    if let Some(name) = line.strip_prefix(start) {
        return Some(name.strip_suffix('\t').unwrap_or(name).to_owned());
    }
    // `"b/NAME"`, with escapes.
    let (before, side) = start.rsplit_once(' ')?;
    let quoted = line.strip_prefix(before)?.strip_prefix(" \"")?.strip_prefix(side)?;
    unquoted(quoted.strip_suffix('"')?)
}

/// A name without the escapes of git.
fn unquoted(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'\\' {
            bytes.push(byte);
            continue;
        }
        bytes.push(match rest.next()? {
            b'a' => 7,
            b'b' => 8,
            b't' => b'\t',
            b'n' => b'\n',
            b'v' => 11,
            b'f' => 12,
            b'r' => b'\r',
            plain @ (b'"' | b'\\') => plain,
            first @ b'0'..=b'3' => {
                let mut value = first - b'0';
                for _ in 0..2 {
                    let digit = rest.next().filter(|digit| matches!(digit, b'0'..=b'7'))?;
                    value = value.checked_mul(8)?.checked_add(digit - b'0')?;
                }
                value
            }
            _ => return None,
        });
    }
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// The name of the file that a part of a patch is about, as its head says it.
#[must_use]
pub fn name_of(part: &str) -> String {
    let head = || part.lines().take_while(|line| !line.starts_with("@@"));
    let said = |start: &str| head().find_map(|line| name(line, start));
    let first = part.lines().next().unwrap_or_default();
    // A file without lines, such as a binary one, is named at its beginning only, twice.
    let twice = || {
        let both = first.strip_prefix(START)?.strip_prefix("a/")?;
        let half = both.get(..both.len().saturating_sub(3) / 2)?;
        (both.get(half.len()..) == Some(&*format!(" b/{half}"))).then(|| half.to_owned())
    };
    let renamed = || {
        let to = head().find_map(|line| line.strip_prefix("rename to "))?;
        let quoted = to.strip_prefix('"').and_then(|to| to.strip_suffix('"'));
        Some(quoted.and_then(unquoted).unwrap_or_else(|| to.to_owned()))
    };
    let found = renamed().or_else(|| said("+++ b/")).or_else(|| said("--- a/")).or_else(twice);
    found.unwrap_or_else(|| first.to_owned())
}

/// A patch that is not longer than it may be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cut {
    /// The patch. A part that is not all there says so in its last line.
    pub text: String,
    /// The files that are not shown in full.
    pub files: Vec<String>,
}

/// Shortens a patch to about so many bytes. Each file gets its share, so that a long one hides no other.
#[must_use]
pub fn cut(patch: &str, bytes_max: usize) -> Cut {
    if patch.len() <= bytes_max {
        return Cut { text: patch.to_owned(), files: Vec::new() };
    }
    let parts = files(patch);
    let share = share(parts.iter().map(|part| part.len()).collect(), bytes_max);
    let mut cut = Cut { text: String::with_capacity(bytes_max), files: Vec::new() };
    for part in parts {
        let shown = part.get(..part.floor_char_boundary(share)).unwrap_or_default();
        cut.text.push_str(shown);
        let more = part.len() - shown.len();
        if more > 0 {
            if !shown.ends_with('\n') && !shown.is_empty() {
                cut.text.push('\n');
            }
            cut.text.push_str(&format!("… {more} more bytes of this file are not shown\n"));
            cut.files.push(name_of(part));
        }
    }
    cut
}

/// How much each may have at most, so that all have no more than the sum.
fn share(mut sizes: Vec<usize>, sum: usize) -> usize {
    sizes.sort_unstable();
    let (mut left, mut count) = (sum, sizes.len());
    for size in sizes {
        if size > left / count {
            return left / count;
        }
        left -= size;
        count -= 1;
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(name: &str, lines: usize) -> String {
        let content = "+diff --git a/x b/x\n".repeat(lines);
        format!(
            "diff --git a/{name} b/{name}\n--- /dev/null\n+++ b/{name}\n@@ -0,0 +1,{lines} @@\n{content}"
        )
    }

    #[test]
    fn a_long_file_hides_no_other() {
        let patch = [part("a", 2), part("long", 5000), part("z", 3)].concat();
        assert_eq!(files(&patch).len(), 3);
        let cut = cut(&patch, 10_000);
        assert_eq!(cut.files, ["long"]);
        assert!(cut.text.len() < 10_200, "{}", cut.text.len());
        assert!(cut.text.starts_with(&part("a", 2)) && cut.text.ends_with(&part("z", 3)));
        let more = cut.text.lines().filter(|line| line.starts_with('…')).collect::<Vec<_>>();
        assert_eq!(more.len(), 1, "{more:?}");
        assert_eq!(super::cut(&patch, patch.len()).files, [""; 0]);
    }

    #[test]
    fn one_line_and_many_files_are_cut_too() {
        let patch = format!("{}+{}\n", part("one", 0), "é".repeat(50_000));
        let one = cut(&patch, 1000);
        assert!(one.text.len() < 1100 && one.files == ["one"], "{}", one.text.len());
        let patch: String = (0..1000).map(|number| part(&format!("f{number}"), 1)).collect();
        let many = cut(&patch, 100);
        assert_eq!(many.files.len(), 1000);
        assert_eq!(cut("", 0), Cut { text: String::new(), files: Vec::new() });
    }

    #[test]
    fn names_are_read_as_git_writes_them() {
        let named = |lines: &[&str]| name_of(&(lines.join("\n") + "\n"));
        assert_eq!(
            named(&["diff --git a/my file b/my file", "+++ b/my file\t", "@@ x"]),
            "my file"
        );
        assert_eq!(named(&["diff --git a/a b/b", "rename from a", "rename to b c"]), "b c");
        assert_eq!(named(&["diff --git a/c.png b/c.png", "Binary files differ"]), "c.png");
        assert_eq!(named(&["diff --git a/g b/g", "--- a/g", "+++ /dev/null"]), "g");
        let quoted = r#"+++ "b/n\303\244me\t\"x\\""#;
        assert_eq!(named(&["diff --git x", "--- /dev/null", quoted]), "näme\t\"x\\");
        assert_eq!(name(r#"+++ "b/\8""#, "+++ b/"), None);
        assert_eq!(named(&["diff --git x", "@@ -1 +1 @@", "+++ b/false"]), "diff --git x");
    }

    #[test]
    fn the_share_is_all_that_there_is() {
        assert_eq!(share(vec![10, 100, 1000], 300), 190);
        assert_eq!(share(vec![10, 10], 300), 300);
        assert_eq!(share(vec![1000, 1000], 300), 150);
        assert_eq!(share(Vec::new(), 300), 300);
    }
}
