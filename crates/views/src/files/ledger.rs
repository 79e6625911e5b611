//! The files of the attempt ledger: updates the lines of one run and preserves all others.
//!
//! New runs are added to the ledger until it is full; then it is closed under a number, and a new one is begun. So
//! what is searched and copied for a run does not grow with the number of runs.

use windlass_engine::EngineError;
use windlass_formats::{LEDGER_BYTES_MAX, LEDGER_PATH, closed_ledger_number, closed_ledger_path};
use windlass_kernel::run::RunName;

use super::folder::{Folder, Locked};

/// The ledger is closed before a new run is added if it has so many bytes.
const FULL_BYTES: u64 = 4 << 20;

/// What is known of a run's lines in the ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Known {
    /// There are none: the run is new.
    New,
    /// So many were written; if it is none, an earlier process may have written some.
    Written(usize),
}

/// Writes the lines of a run to the ledger, apart from those that are known to be there; returns the path of the file
/// that it wrote or compared.
///
/// If the ledger ends with those, or no file of it knows the run, the others are appended. Otherwise the run's lines
/// are replaced in their place. For a new run nothing is searched. A file that is too large to be read is closed and
/// left as it is; the lines of its runs are written anew when they change.
///
/// `block_of` returns the lines of another run from the journal, for a run whose last line is torn.
pub(super) fn sync(
    folder: &Folder,
    run: &str,
    lines: &[Vec<u8>],
    known: Known,
    block_of: impl FnOnce(&str) -> Result<Option<Vec<u8>>, EngineError>,
) -> Result<Option<String>, EngineError> {
    let written = match known {
        Known::New => 0,
        Known::Written(written) => written,
    };
    let new = lines.get(written..).unwrap_or_default().concat();
    if written > 0 && new.is_empty() {
        return Ok(None);
    }
    let locked = folder.lock()?;
    if let Some(last) = written.checked_sub(1).and_then(|last| lines.get(last))
        && folder.append_after(LEDGER_PATH, last, &new, &locked)?
    {
        return Ok(Some(LEDGER_PATH.to_owned()));
    }
    close_if(folder, &locked, |bytes| bytes > u64::try_from(LEDGER_BYTES_MAX).unwrap_or(u64::MAX))?;
    let holder = match known {
        Known::New => None,
        Known::Written(_) => holder(folder, run)?,
    };
    let block = lines.concat();
    if holder.is_none() {
        if folder.append_after(LEDGER_PATH, b"\n", &[], &locked)? {
            close_if(folder, &locked, |bytes| bytes >= FULL_BYTES)?;
        }
        if folder.append_after(LEDGER_PATH, b"\n", &block, &locked)? {
            return Ok(Some(LEDGER_PATH.to_owned()));
        }
    }
    let path = holder.unwrap_or_else(|| LEDGER_PATH.to_owned());
    replace_lines(folder, &path, run, &block, block_of, &locked)?;
    Ok(Some(path))
}

/// Gives the ledger the next number if it has so many bytes, so that the next run begins a new one.
fn close_if(
    folder: &Folder,
    locked: &Locked,
    is_full: impl FnOnce(u64) -> bool,
) -> Result<(), EngineError> {
    if !folder.len(LEDGER_PATH)?.is_some_and(is_full) {
        return Ok(());
    }
    let Some(number) = closed(folder)?.first().map_or(Some(1), |last| last.checked_add(1)) else {
        // There is no later name: it goes on in this one.
        return Ok(());
    };
    folder.rename(LEDGER_PATH, &closed_ledger_path(number), locked)
}

/// The numbers of the closed files, newest first.
fn closed(folder: &Folder) -> Result<Vec<u32>, EngineError> {
    let mut numbers: Vec<u32> =
        folder.beside(LEDGER_PATH)?.iter().filter_map(|name| closed_ledger_number(name)).collect();
    numbers.sort_unstable_by(|a, b| b.cmp(a));
    Ok(numbers)
}

/// The file that has lines of a run and can be read, the newest first.
fn holder(folder: &Folder, run: &str) -> Result<Option<String>, EngineError> {
    let closed = closed(folder)?.into_iter().map(closed_ledger_path);
    for path in [LEDGER_PATH.to_owned()].into_iter().chain(closed) {
        // Lines of other runs can name it, too.
        if folder.contains(&path, run, LEDGER_BYTES_MAX)?
            && let Ok(Some(bytes)) = folder.read(&path, LEDGER_BYTES_MAX)
            && bytes.split(|byte| *byte == b'\n').any(|line| is_of(line, run))
        {
            return Ok(Some(path));
        }
    }
    Ok(None)
}

/// Replaces a run's lines in one file, or adds them, and mends the run whose last line is torn.
fn replace_lines(
    folder: &Folder,
    path: &str,
    run: &str,
    block: &[u8],
    block_of: impl FnOnce(&str) -> Result<Option<Vec<u8>>, EngineError>,
    locked: &Locked,
) -> Result<(), EngineError> {
    let existing = folder.read(path, LEDGER_BYTES_MAX);
    let existing = existing.map_err(|source| folder.unwritable(path, source))?;
    let missing = existing.is_none();
    let existing = existing.unwrap_or_default();
    let mut merged = existing.clone();
    if let Some(other) = torn_run(&existing).filter(|other| other != run)
        && let Some(block) = block_of(&other)?
    {
        merged = merge(&merged, &other, &block);
    }
    merged = merge(&merged, run, block);
    if merged == existing && !missing {
        return Ok(());
    }
    match merged.strip_prefix(existing.as_slice()) {
        Some(added) if folder.append_after(path, &[], added, locked)? => Ok(()),
        Some(_) | None => folder.replace(path, &merged, locked),
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
#[expect(clippy::disallowed_methods, reason = "tests look at the files as others do")]
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

    /// A ledger with these files, and nobody whose last line is torn.
    struct Ledger {
        root: tempfile::TempDir,
        folder: Folder,
    }

    impl Ledger {
        fn new() -> Self {
            let root = tempfile::tempdir().unwrap();
            std::fs::create_dir(root.path().join("loop_state")).unwrap();
            let folder = Folder::new(root.path().to_owned());
            Self { root, folder }
        }

        fn path(&self, file: &str) -> std::path::PathBuf {
            self.root.path().join("loop_state").join(file)
        }

        fn sync(&self, run: &str, texts: &[&str], known: Known) -> Option<String> {
            let lines: Vec<Vec<u8>> =
                texts.iter().map(|text| line(run, text).into_bytes()).collect();
            let path =
                sync(&self.folder, run, &lines, known, |_| panic!("no line is torn")).unwrap();
            path.map(|path| path.rsplit('/').next().unwrap().to_owned())
        }

        fn read(&self, file: &str) -> String {
            std::fs::read_to_string(self.path(file)).unwrap()
        }
    }

    const CURRENT: &str = "attempt_ledger.jsonl";
    const FIRST: &str = "attempt_ledger.0001.jsonl";
    const SECOND: &str = "attempt_ledger.0002.jsonl";

    #[test]
    fn a_full_ledger_is_closed_for_a_new_run_and_its_runs_are_updated_where_they_are() {
        let ledger = Ledger::new();
        ledger.sync(A, &["1"], Known::New);
        let filler = line(B, &"x".repeat(1 << 20)).repeat(4);
        std::fs::write(ledger.path(CURRENT), line(A, "1") + &filler).unwrap();
        let new = "run_20260202_120000_0000000c";
        assert_eq!(ledger.sync(new, &["1"], Known::New).as_deref(), Some(CURRENT));
        assert_eq!(ledger.read(CURRENT), line(new, "1"));
        assert_eq!(ledger.read(FIRST), line(A, "1") + &filler);
        // A run of the closed file goes on, by a process that wrote it and by another.
        for known in [Known::Written(1), Known::Written(0)] {
            assert_eq!(ledger.sync(A, &["1", "2"], known).as_deref(), Some(FIRST));
            assert_eq!(ledger.read(FIRST), line(A, "1") + &line(A, "2") + &filler);
        }
        assert_eq!(ledger.read(CURRENT), line(new, "1"));
        // The next one to be closed has the next number, whatever else lies there.
        std::fs::write(ledger.path("attempt_ledger.7.jsonl"), "").unwrap();
        std::fs::write(ledger.path("attempt_ledger.+009.jsonl"), "").unwrap();
        std::fs::write(ledger.path(CURRENT), line(new, "1") + &filler).unwrap();
        let last = "run_20260202_120000_0000000d";
        assert_eq!(ledger.sync(last, &["1"], Known::Written(0)).as_deref(), Some(CURRENT));
        assert_eq!(ledger.read(SECOND), line(new, "1") + &filler);
        assert_eq!(ledger.read(CURRENT), line(last, "1"));
        assert_eq!(ledger.sync(A, &["1", "2"], Known::Written(2)), None);
    }

    #[test]
    fn a_ledger_that_is_too_large_to_be_read_blocks_no_run() {
        let ledger = Ledger::new();
        let large = |file: &str| {
            std::fs::write(ledger.path(file), line(A, "1")).unwrap();
            let file = std::fs::OpenOptions::new().write(true).open(ledger.path(file)).unwrap();
            file.set_len(u64::try_from(LEDGER_BYTES_MAX).unwrap() + 1).unwrap();
        };
        large(CURRENT);
        for _ in 0..2 {
            let written = ledger.sync(A, &["1", "2"], Known::Written(0));
            assert_eq!(written.as_deref(), Some(CURRENT));
            assert_eq!(ledger.read(CURRENT), line(A, "1") + &line(A, "2"));
        }
        assert!(ledger.path(FIRST).metadata().unwrap().len() > LEDGER_BYTES_MAX as u64);
        large(CURRENT);
        assert_eq!(ledger.sync(B, &["1"], Known::New).as_deref(), Some(CURRENT));
        assert_eq!(ledger.read(CURRENT), line(B, "1"));
        assert!(ledger.path(SECOND).exists());
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

    #[test]
    fn a_name_in_a_line_of_another_run_does_not_double_a_run() {
        let ledger = Ledger::new();
        std::fs::write(ledger.path(FIRST), line(A, "1")).unwrap();
        // B has changed a file of that name.
        std::fs::write(ledger.path(CURRENT), line(B, A)).unwrap();
        assert_eq!(ledger.sync(A, &["1", "2"], Known::Written(0)).as_deref(), Some(FIRST));
        assert_eq!(ledger.read(CURRENT), line(B, A));
        assert_eq!(ledger.read(FIRST), line(A, "1") + &line(A, "2"));
    }
}
