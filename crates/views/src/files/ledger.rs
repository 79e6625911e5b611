//! The file of the attempt ledger: updates the lines of one run and preserves all others.

use windlass_engine::EngineError;
use windlass_formats::{LEDGER_BYTES_MAX, LEDGER_PATH};
use windlass_kernel::run::RunName;

use super::folder::Folder;

/// What is known of a run's lines in the ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Known {
    /// There are none: the run is new.
    New,
    /// So many were written; if it is none, an earlier process may have written some.
    Written(usize),
}

/// Writes the lines of a run to the ledger, apart from those that are known to be there.
///
/// If the file ends with those, or does not know the run, the others are appended, whatever its size.
/// Otherwise the run's lines are replaced in their place. For a new run the file is not searched.
///
/// `block_of` returns the lines of another run from the journal, for a run whose last line is torn.
pub(super) fn sync(
    folder: &Folder,
    run: &str,
    lines: &[Vec<u8>],
    known: Known,
    block_of: impl FnOnce(&str) -> Result<Option<Vec<u8>>, EngineError>,
) -> Result<(), EngineError> {
    let written = match known {
        Known::New => 0,
        Known::Written(written) => written,
    };
    let new = lines.get(written..).unwrap_or_default().concat();
    if written > 0 && new.is_empty() {
        return Ok(());
    }
    let locked = folder.lock()?;
    if let Some(last) = written.checked_sub(1).and_then(|last| lines.get(last))
        && folder.append_after(LEDGER_PATH, last, &new, &locked)?
    {
        return Ok(());
    }
    let appended = match known {
        Known::New => folder.append_after(LEDGER_PATH, b"\n", &new, &locked)?,
        Known::Written(0) => folder.append_unless(LEDGER_PATH, run, &new, &locked)?,
        Known::Written(_) => false,
    };
    if appended {
        return Ok(());
    }
    let existing = folder.read(LEDGER_PATH, LEDGER_BYTES_MAX);
    let existing = existing.map_err(|source| folder.unwritable(LEDGER_PATH, source))?;
    let missing = existing.is_none();
    let existing = existing.unwrap_or_default();
    let mut merged = existing.clone();
    if let Some(other) = torn_run(&existing).filter(|other| other != run)
        && let Some(block) = block_of(&other)?
    {
        merged = merge(&merged, &other, &block);
    }
    merged = merge(&merged, run, &lines.concat());
    if merged == existing && !missing {
        return Ok(());
    }
    if merged.len() > LEDGER_BYTES_MAX {
        let source = std::io::Error::new(std::io::ErrorKind::FileTooLarge, "it would be too large");
        return Err(folder.unwritable(LEDGER_PATH, source));
    }
    match merged.strip_prefix(existing.as_slice()) {
        Some(added) if folder.append_after(LEDGER_PATH, &[], added, &locked)? => Ok(()),
        Some(_) | None => folder.replace(LEDGER_PATH, &merged, &locked),
    }
}

/// Returns the ledger with one run's lines replaced by `block`, in their place or at the end.
///
/// A torn last line is dropped.
fn merge(existing: &[u8], run: &str, block: &[u8]) -> Vec<u8> {
    let mut whole = Vec::with_capacity(existing.len() + block.len());
    let mut placed = false;
    for line in existing.split_inclusive(|byte| *byte == b'\n') {
        if is_of(line, run) {
            if !placed {
                whole.extend_from_slice(block);
            }
            placed = true;
        } else if line.ends_with(b"\n") {
            whole.extend_from_slice(line);
        } else if is_json(line) {
            // Only the line feed is missing: an editor removed it.
            whole.extend_from_slice(line);
            whole.push(b'\n');
        }
    }
    if !placed {
        whole.extend_from_slice(block);
    }
    whole
}

/// The run whose last line is torn: the run of the line before it.
fn torn_run(existing: &[u8]) -> Option<String> {
    let mut lines = existing.split_inclusive(|byte| *byte == b'\n').rev();
    let torn = lines.next().filter(|line| !line.ends_with(b"\n") && !is_json(line))?;
    // A header is the first line of another run.
    if torn.starts_with(b"{\"h") {
        return None;
    }
    let before: serde_json::Value = serde_json::from_slice(lines.next()?).ok()?;
    let name = before.get("run_id")?.as_str()?;
    name.parse::<RunName>().ok().map(|name| name.to_string())
}

fn is_json(line: &[u8]) -> bool {
    serde_json::from_slice::<serde::de::IgnoredAny>(line).is_ok()
}

/// Whether a line belongs to this run, as far as it can be read.
fn is_of(line: &[u8], run: &str) -> bool {
    // A fast check: most lines belong to other runs and do not contain its name.
    if !contains(line, run.as_bytes()) {
        return false;
    }
    match serde_json::from_slice::<serde_json::Value>(line) {
        Ok(value) => value.get("run_id").and_then(serde_json::Value::as_str) == Some(run),
        Err(_) => contains(line, format!("\"run_id\":\"{run}\"").as_bytes()),
    }
}

fn contains(line: &[u8], part: &[u8]) -> bool {
    line.windows(part.len()).any(|window| window == part)
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: &str = "run_20260202_120000_0000000a";
    const B: &str = "run_20260202_120000_0000000b";

    fn line(run: &str, text: &str) -> String {
        format!("{{\"rationale\":\"{text}\",\"run_id\":\"{run}\"}}\n")
    }

    fn merged(existing: &str, run: &str, block: &str) -> String {
        String::from_utf8(merge(existing.as_bytes(), run, block.as_bytes())).unwrap()
    }

    #[test]
    fn lines_are_replaced_in_their_place_and_others_are_preserved() {
        let (a, b) = (line(A, "1"), line(B, "1"));
        let tampered = "{\"run_id\": \"".to_owned() + B + "\", garbage\n";
        let existing = [a.as_str(), &tampered, &b].concat();
        let block = [line(A, "1"), line(A, "2")].concat();
        assert_eq!(merged(&existing, A, &block), [block.as_str(), &tampered, &b].concat());
        let stray = [existing.as_str(), &line(A, "9")].concat();
        assert_eq!(merged(&stray, A, &block), [block.as_str(), &tampered, &b].concat());
        assert_eq!(merged("", A, &block), block);
        // A line that mentions a run in a text does not belong to it.
        let quoting = line(B, A);
        assert_eq!(merged(&quoting, A, &block), [quoting.as_str(), &block].concat());
    }

    #[test]
    fn a_new_run_is_appended_and_a_known_one_is_found_wherever_it_is() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("loop_state/attempt_ledger.jsonl");
        std::fs::create_dir(path.parent().unwrap()).unwrap();
        let nobody =
            |_: &str| -> Result<Option<Vec<u8>>, EngineError> { panic!("no line is torn") };
        let (first, second) = (line(A, "1").into_bytes(), line(A, "2").into_bytes());
        // Its only line begins at all places around the end of what is searched at a time.
        for before in (64 * 1024 - 120..64 * 1024 + 20).step_by(7) {
            let folder = Folder::new(root.path().to_owned());
            let filler = format!("{}\n", "x".repeat(before));
            std::fs::write(&path, &filler).unwrap();
            sync(&folder, A, std::slice::from_ref(&first), Known::Written(0), nobody).unwrap();
            let appended = [filler.as_bytes(), &first].concat();
            assert_eq!(std::fs::read(&path).unwrap(), appended, "{before}");
            let other = line(B, "1");
            sync(&folder, B, &[other.clone().into_bytes()], Known::New, nobody).unwrap();
            sync(&folder, A, &[first.clone(), second.clone()], Known::Written(0), nobody).unwrap();
            let replaced = [filler.as_bytes(), &first, &second, other.as_bytes()].concat();
            assert_eq!(std::fs::read(&path).unwrap(), replaced, "{before}");
        }
    }

    #[test]
    fn a_torn_end_is_dropped_and_its_run_is_found() {
        let (a, b) = (line(A, "1"), line(B, "1"));
        let whole = [a.as_str(), &b].concat();
        for cut in a.len() + 1..whole.len() - 1 {
            let existing = &whole[..cut];
            assert_eq!(torn_run(existing.as_bytes()).as_deref(), Some(A), "{cut}");
            let expected = [a.as_str(), &line(A, "2")].concat();
            assert_eq!(merged(existing, A, &expected), expected, "{cut}");
            assert_eq!(merged(existing, B, &b), whole, "{cut}");
        }
        let unended = &whole[..whole.len() - 1];
        assert_eq!(torn_run(unended.as_bytes()), None);
        assert_eq!(merged(unended, A, &a), whole);
        assert_eq!(torn_run(format!("{a}{{\"header_h").as_bytes()), None);
        assert_eq!(torn_run(b""), None);
        assert_eq!(torn_run(b"{\"actions"), None);
    }
}
