//! Snapshots of a large repository, compared with git's own commands.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context as _, Result, anyhow};
use windlass_workspace::{OnConflict, Snapshots, TreeId, WorkspaceChange};

/// For how many captures the space is measured.
pub const CAPTURES: usize = 100;

/// The results.
pub struct Measured {
    /// Milliseconds of `git status`, a capture, `git checkout` and a restore, each with one changed file.
    pub times: [Vec<f64>; 4],
    /// The space of many captures.
    pub captures_kib: u64,
    /// The space of one capture and of the files that the others changed.
    pub once_kib: u64,
}

/// Creates a repository with `files` files and measures git and snapshots alternately.
pub fn measure(folder: &Path, files: usize, rounds: usize) -> Result<Measured> {
    let folder = tempfile::tempdir_in(folder)?;
    let project = folder.path().canonicalize()?.join("project");
    fs::create_dir(&project)?;
    git(&project, &["init", "-q", "-b", "main"])?;
    let name = |file: usize| project.join(format!("d{}/e{}/f{file}", file % 20, file / 20 % 20));
    for file in 0..files {
        let path = name(file);
        fs::create_dir_all(path.parent().context("no folder")?)?;
        fs::write(path, format!("file {file}\n{}", format!("line {file}\n").repeat(20)))?;
    }
    git(&project, &["add", "-A"])?;
    git(&project, &["commit", "-q", "-m", "one"])?;
    let private = folder.path().join("snapshots.git");
    let snapshots = Snapshots::open(&private, &project)?;
    let place = |number: usize| name(number * 7919 % files);

    let first = snapshots.capture(&project, "bench/first")?.tree;
    let once_kib = kib(&project.join(".git/objects"))?;
    let mut trees = vec![first];
    let mut changes_kib = 0;
    for number in 1..=CAPTURES {
        let path = place(number);
        fs::write(&path, format!("changed {number}\n").repeat(20))?;
        changes_kib += fs::metadata(&path)?.blocks().div_ceil(2);
        trees.push(snapshots.capture(&project, &format!("bench/{number}"))?.tree);
    }
    let captures_kib = kib(&project.join(".git/objects"))?;
    let times = alternate(&project, &snapshots, &trees, &place, rounds)?;
    Ok(Measured { times, captures_kib, once_kib: once_kib + changes_kib })
}

fn alternate(
    project: &Path,
    snapshots: &Snapshots,
    trees: &[TreeId],
    place: &dyn Fn(usize) -> PathBuf,
    rounds: usize,
) -> Result<[Vec<f64>; 4]> {
    let mut times: [Vec<f64>; 4] = Default::default();
    let [status, capture, checkout, restore] = &mut times;
    let last = trees.last().context("no captures")?;
    // The two commits differ as two neighbouring captures do.
    git(project, &["add", "-A"])?;
    git(project, &["commit", "-q", "-m", "two"])?;
    let path = place(0);
    let original = fs::read(&path)?;
    for round in 0..rounds {
        fs::write(&path, format!("round {round}\n").repeat(20))?;
        let (took, ()) = time(|| git(project, &["status"]))?;
        status.push(took);
        let (took, _) = time(|| Ok(snapshots.capture(project, "bench/round")?))?;
        capture.push(took);
    }
    git(project, &["commit", "-q", "-a", "-m", "three"])?;
    fs::write(&path, &original)?;
    git(project, &["commit", "-q", "-a", "-m", "four"])?;
    let now = snapshots.capture_unreferenced(project)?.tree;
    if now != *last {
        return Err(anyhow!("the workspace differs from the last capture"));
    }
    let before = trees.get(trees.len() - 2).context("no captures")?;
    for _ in 0..rounds {
        for (from, to) in [(last, before), (before, last)] {
            let (took, _) = time(|| Ok(snapshots.change(project, &change(from, to))?))?;
            restore.push(took);
        }
        // The restored file has new times.
        git(project, &["update-index", "-q", "--refresh"])?;
        for commit in ["HEAD~1", "main"] {
            let (took, ()) = time(|| git(project, &["checkout", "-q", commit]))?;
            checkout.push(took);
        }
    }
    Ok(times)
}

/// Runs `act` and returns its time in milliseconds.
fn time<T>(act: impl FnOnce() -> Result<T>) -> Result<(f64, T)> {
    let started = Instant::now();
    let made = act()?;
    Ok((started.elapsed().as_secs_f64() * 1e3, made))
}

fn git(project: &Path, arguments: &[&str]) -> Result<()> {
    let status = Command::new("git")
        .args(["-c", "user.name=bench", "-c", "user.email=bench@localhost", "-c", "gc.auto=0"])
        .args(arguments)
        .current_dir(project)
        .stdout(Stdio::null())
        .status()?;
    if status.success() { Ok(()) } else { Err(anyhow!("git {arguments:?} failed")) }
}

/// The space that a folder uses on the disk.
fn kib(folder: &Path) -> Result<u64> {
    let mut sum = 0;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let found = entry.metadata()?;
        sum += if found.is_dir() { kib(&entry.path())? } else { found.blocks().div_ceil(2) };
    }
    Ok(sum)
}

/// The change of a workspace from one snapshot to another.
const fn change<'a>(expected: &'a TreeId, wanted: &'a TreeId) -> WorkspaceChange<'a> {
    WorkspaceChange { expected, wanted, keep: "bench/change", on_conflict: OnConflict::Refuse }
}
