//! What changes in a file, for people to read.

/// The lines shown around a change.
const CONTEXT: usize = 3;

/// The most lines of which a shortest difference is looked for; others are shown as a whole.
const CHANGED_LINES_MAX: usize = 2000;

/// A line of a difference.
#[derive(Clone, Copy)]
enum Line<'a> {
    Same(&'a str),
    Removed(&'a str),
    Added(&'a str),
}

/// A unified difference of two texts, without the names of files; empty, if they are equal.
#[must_use]
pub fn diff(before: &[u8], after: &[u8]) -> String {
    if before == after {
        return String::new();
    }
    let (before, after) = (String::from_utf8_lossy(before), String::from_utf8_lossy(after));
    let old: Vec<&str> = before.split_inclusive('\n').collect();
    let new: Vec<&str> = after.split_inclusive('\n').collect();
    let lines = compared(&old, &new);
    let mut shown = String::new();
    let mut at = 0;
    while let Some(first) = (at..lines.len()).find(|index| is_change(&lines, *index)) {
        let start = first.saturating_sub(CONTEXT).max(at);
        let mut last = first;
        // A change that is near belongs to the same part.
        while let Some(next) = (last + 1..lines.len().min(last + 2 + 2 * CONTEXT))
            .find(|index| is_change(&lines, *index))
        {
            last = next;
        }
        let end = lines.len().min(last + 1 + CONTEXT);
        shown += &hunk(&lines, start, end);
        at = end;
    }
    shown
}

fn is_change(lines: &[Line<'_>], index: usize) -> bool {
    match lines.get(index) {
        Some(Line::Removed(_) | Line::Added(_)) => true,
        Some(Line::Same(_)) | None => false,
    }
}

fn hunk(lines: &[Line<'_>], start: usize, end: usize) -> String {
    let count = |lines: &[Line<'_>]| {
        lines.iter().fold((0, 0), |(old, new), line| match line {
            Line::Same(_) => (old + 1, new + 1),
            Line::Removed(_) => (old + 1, new),
            Line::Added(_) => (old, new + 1),
        })
    };
    let part = lines.get(start..end).unwrap_or(&[]);
    let (old_before, new_before) = count(lines.get(..start).unwrap_or(&[]));
    let (old, new) = count(part);
    // As in other tools, a part without lines names the line before it.
    let range =
        |before: usize, count: usize| format!("{},{count}", before + usize::from(count > 0));
    let mut shown = format!("@@ -{} +{} @@\n", range(old_before, old), range(new_before, new));
    for line in part {
        let (sign, text) = match line {
            Line::Same(text) => (' ', text),
            Line::Removed(text) => ('-', text),
            Line::Added(text) => ('+', text),
        };
        shown.push(sign);
        shown += text.trim_end_matches(['\r', '\n']);
        shown += if text.ends_with('\n') { "\n" } else { "\n\\ No newline at end of file\n" };
    }
    shown
}

/// All lines of both texts, in order.
fn compared<'a>(old: &[&'a str], new: &[&'a str]) -> Vec<Line<'a>> {
    let common = |pairs: &mut dyn Iterator<Item = (&&str, &&str)>| {
        pairs.take_while(|(old, new)| old == new).count()
    };
    let head = common(&mut old.iter().zip(new));
    let (old_rest, new_rest) = (old.get(head..).unwrap_or(&[]), new.get(head..).unwrap_or(&[]));
    let tail = common(&mut old_rest.iter().rev().zip(new_rest.iter().rev()));
    let middle = |rest: &[&'a str]| rest.get(..rest.len() - tail).unwrap_or(&[]).to_vec();
    let (old_middle, new_middle) = (middle(old_rest), middle(new_rest));
    let mut lines: Vec<Line<'a>> = old.iter().take(head).map(|line| Line::Same(line)).collect();
    if old_middle.len().max(new_middle.len()) > CHANGED_LINES_MAX {
        lines.extend(old_middle.into_iter().map(Line::Removed));
        lines.extend(new_middle.into_iter().map(Line::Added));
    } else {
        lines.extend(shortest(&old_middle, &new_middle));
    }
    lines.extend(old.iter().skip(old.len() - tail).map(|line| Line::Same(line)));
    lines
}

/// The difference with the most common lines.
fn shortest<'a>(old: &[&'a str], new: &[&'a str]) -> Vec<Line<'a>> {
    let width = new.len() + 1;
    // For each pair of places, how many lines are common from there on.
    let mut common = vec![0_usize; (old.len() + 1) * width];
    let get =
        |common: &[usize], i: usize, j: usize| common.get(i * width + j).copied().unwrap_or(0);
    for (i, old) in old.iter().enumerate().rev() {
        for (j, new) in new.iter().enumerate().rev() {
            let best = if old == new {
                get(&common, i + 1, j + 1) + 1
            } else {
                get(&common, i + 1, j).max(get(&common, i, j + 1))
            };
            if let Some(cell) = common.get_mut(i * width + j) {
                *cell = best;
            }
        }
    }
    let (mut i, mut j) = (0, 0);
    let mut lines = Vec::new();
    loop {
        match (old.get(i), new.get(j)) {
            (Some(line), Some(other)) if line == other => {
                lines.push(Line::Same(line));
                (i, j) = (i + 1, j + 1);
            }
            (Some(line), other)
                if other.is_none() || get(&common, i + 1, j) >= get(&common, i, j + 1) =>
            {
                lines.push(Line::Removed(line));
                i += 1;
            }
            (_, Some(line)) => {
                lines.push(Line::Added(line));
                j += 1;
            }
            (_, None) => return lines,
        }
    }
}
