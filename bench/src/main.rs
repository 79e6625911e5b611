//! Measures Windlass against the raw limits of the machine it runs on, in the same run.
//!
//! `cargo xtask bench` prints every figure next to its limit. Each round measures the limit and Windlass
//! one after the other, and the median of the rounds is printed, so that other work on the machine slows
//! down both alike. The processor time of a call, which other work affects less, is printed too.
//!
//! - `--quick` makes fewer and shorter rounds.
//! - `pages`, `rates`, `verify`, `recover`, `runs`, `checkpoints`, `cell`, `policy`, `files`, `mcp`, `clients`,
//!   `hooks`, `growth` and `dashboard` select parts.
//! - `count KIND CALLS [CALLERS]` only makes calls, for a profiler. KIND is `write`, `read` or `ahead`;
//!   with the prefix `raw-`, SQLite alone makes the commits of such calls.
//! - `count verify ENTRIES` only verifies a journal.

#![expect(clippy::print_stdout, reason = "a benchmark prints its figures")]

mod agents;
mod calls;
mod cell;
mod checkpoints;
mod dashboard;
mod files;
mod growth;
mod hooks;
mod journal;
mod policy;
mod process;
mod raw;
mod runs;

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};

use crate::calls::Kind;

/// How many calls were made in a second, and the processor time of each.
#[derive(Clone, Copy)]
struct Rate {
    per_second: f64,
    cpu_micros: f64,
}

impl Rate {
    /// The rate of `calls` calls since `started`, when the process had used `cpu` seconds of processor time.
    fn new(calls: u32, started: Instant, cpu: f64) -> Result<Self> {
        let calls = f64::from(calls);
        let cpu_micros = (process::cpu_seconds()? - cpu) * 1e6 / calls;
        Ok(Self { per_second: calls / started.elapsed().as_secs_f64(), cpu_micros })
    }
}

/// How much each part measures.
struct Effort {
    rounds: usize,
    seconds: f64,
    entries: u64,
    lengths: &'static [u64],
    phases: &'static [usize],
    holds: usize,
    files: usize,
    snapshots: usize,
    starts: u32,
    runs: usize,
}

/// The parts that can be selected by name.
const PARTS: &[&str] = &[
    "pages",
    "rates",
    "verify",
    "recover",
    "runs",
    "checkpoints",
    "cell",
    "policy",
    "files",
    "mcp",
    "clients",
    "hooks",
    "growth",
    "dashboard",
];

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    // The launcher of cells.
    if let [confined, stage] = arguments.as_slice()
        && confined == "confined"
    {
        std::process::exit(windlass_cell::launch(stage));
    }
    let quick = arguments.iter().any(|argument| argument == "--quick");
    // The named parts, or all if none is named.
    let wanted = |part: &str| {
        arguments.iter().any(|argument| argument == part)
            || !arguments.iter().any(|argument| PARTS.contains(&argument.as_str()))
    };
    let effort = if quick {
        Effort {
            rounds: 1,
            seconds: 1.0,
            entries: 100_000,
            lengths: &[1_000, 10_000],
            phases: &[1_000],
            holds: 1_000,
            files: 5_000,
            snapshots: 5,
            starts: 20,
            runs: 200,
        }
    } else {
        Effort {
            rounds: 31,
            seconds: 0.4,
            entries: 1_000_000,
            lengths: &[1_000, 10_000, 100_000, 1_000_000],
            phases: &[1_000, 10_000],
            holds: 10_000,
            files: 20_000,
            snapshots: 25,
            starts: 200,
            runs: 10_000,
        }
    };
    let folder = tempfile::tempdir_in(".")?;
    match arguments.as_slice() {
        [count, kind, calls] if count == "count" => {
            return count_calls(folder.path(), kind, calls, "1");
        }
        [count, kind, calls, callers] if count == "count" => {
            return count_calls(folder.path(), kind, calls, callers);
        }
        _ => {}
    }
    println!("load before: {}", process::load());
    if wanted("pages") {
        println!("pages written to SQLite's log for a call");
        println!("  write                 {:6.2}", calls::pages(folder.path(), Kind::Write)?);
        println!(
            "  read with its effect  {:6.2}",
            calls::pages(folder.path(), Kind::ReadWithEffect)?
        );
        println!("  read write-ahead      {:6.2}", calls::pages(folder.path(), Kind::Read)?);
    }
    if wanted("rates") {
        rates(folder.path(), &effort)?;
    }
    if wanted("verify") {
        verify(folder.path(), &effort)?;
    }
    if wanted("recover") {
        recover(folder.path(), &effort)?;
    }
    if wanted("runs") {
        runs(folder.path(), &effort)?;
    }
    if wanted("checkpoints") {
        checkpoints(folder.path(), &effort)?;
    }
    if wanted("cell") {
        cell::measure(folder.path(), effort.starts)?;
    }
    if wanted("policy") {
        policy::measure(effort.rounds * 20)?;
    }
    if wanted("files") {
        files::measure(folder.path(), effort.rounds.max(5))?;
    }
    if wanted("mcp") {
        agents::gateway(folder.path(), effort.rounds.max(5) * 20)?;
    }
    if wanted("clients") {
        agents::starts(folder.path(), effort.rounds.min(9))?;
    }
    if wanted("growth") {
        growth::measure(folder.path(), effort.entries, effort.runs)?;
    }
    if wanted("dashboard") {
        let rounds = if quick { 20 } else { 100 };
        dashboard::measure(folder.path(), effort.entries, effort.runs, rounds)?;
    }
    if wanted("hooks") {
        hooks::measure(folder.path(), effort.starts.try_into().unwrap_or(usize::MAX))?;
    }
    println!("load after: {}", process::load());
    Ok(())
}

/// Measures the limits and Windlass alternately, round by round.
fn rates(folder: &Path, effort: &Effort) -> Result<()> {
    let write_payload = calls::payload(folder, Kind::Write)?;
    let read_payload = calls::payload(folder, Kind::ReadWithEffect)?;
    let seconds = effort.seconds;
    let mut columns: [Vec<Rate>; 11] = Default::default();
    for _ in 0..effort.rounds {
        let figures = [
            raw::rate(folder, &[500, 500], 1, seconds)?,
            raw::rate(folder, &write_payload, 1, seconds)?,
            calls::rate(folder, Kind::Write, 1, seconds)?,
            calls::rate(folder, Kind::Write, 16, seconds)?,
            raw::rate(folder, &write_payload, 16, seconds)?,
            calls::rate(folder, Kind::Write, 64, seconds)?,
            raw::rate(folder, &write_payload, 64, seconds)?,
            raw::rate(folder, &[500], 1, seconds)?,
            raw::rate(folder, &read_payload, 1, seconds)?,
            calls::rate(folder, Kind::ReadWithEffect, 1, seconds)?,
            calls::rate(folder, Kind::Read, 1, seconds)?,
        ];
        for (column, figure) in columns.iter_mut().zip(figures) {
            column.push(figure);
        }
    }
    let [raw2, same2, write1, write16, raw16, write64, raw64, raw1, same1, read1, ahead1] =
        &columns;
    let of = |column: &[Rate], limits: [&[Rate]; 2]| {
        let [small, same] = limits.map(|limit| ratio(column, limit));
        format!("{small:.2} and {same:.2} of raw")
    };
    let times = |column: &[Rate], limit: &[Rate]| {
        let (times, part) = (ratio(column, write1), ratio(column, limit));
        format!("{times:.1} times one, {part:.2} of raw")
    };
    println!("calls per second and processor time for each, median of {} rounds", effort.rounds);
    let same = format!("the same {write_payload:?} bytes");
    line("raw SQLite, two commits of a 500-byte row", medians(raw2), "");
    line(&format!("raw SQLite, two commits of {same}"), medians(same2), "");
    line("write, one caller", medians(write1), &of(write1, [raw2, same2]));
    line("raw SQLite, 16 calls in two commits", medians(raw16), "");
    line("write, 16 callers", medians(write16), &times(write16, raw16));
    line("raw SQLite, 64 calls in two commits", medians(raw64), "");
    line("write, 64 callers", medians(write64), &times(write64, raw64));
    line("raw SQLite, one commit of a 500-byte row", medians(raw1), "");
    let same = format!("the same {read_payload:?} bytes");
    line(&format!("raw SQLite, one commit of {same}"), medians(same1), "");
    line("read with its effect, one caller", medians(read1), &of(read1, [raw1, same1]));
    line("read write-ahead, one caller", medians(ahead1), "");
    Ok(())
}

/// The medians of all rounds.
fn medians(column: &[Rate]) -> Rate {
    Rate {
        per_second: median(column.iter().map(|rate| rate.per_second)),
        cpu_micros: median(column.iter().map(|rate| rate.cpu_micros)),
    }
}

/// The median of the rounds' ratios: within one round both were measured under the same load.
fn ratio(column: &[Rate], limit: &[Rate]) -> f64 {
    let pairs = column.iter().zip(limit);
    median(pairs.map(|(rate, limit)| rate.per_second / limit.per_second))
}

fn line(what: &str, rate: Rate, comment: &str) {
    println!("  {what:<52} {:8.0}  {:6.1} µs  {comment}", rate.per_second, rate.cpu_micros);
}

/// Makes calls of one kind, for a profiler.
fn count_calls(folder: &Path, kind: &str, calls: &str, callers: &str) -> Result<()> {
    if kind == "verify" {
        let verified = journal::verify(folder, calls.parse()?)?;
        let cpu_micros = verified.cpu_seconds * 1e6 / verified.entries as f64;
        let per_second = verified.entries as f64 / verified.seconds;
        line("entries", Rate { per_second, cpu_micros }, "");
        return Ok(());
    }
    let raw = kind.strip_prefix("raw-");
    let kind = match raw.unwrap_or(kind) {
        "write" => Kind::Write,
        "read" => Kind::ReadWithEffect,
        "ahead" => Kind::Read,
        other => return Err(anyhow!("`{other}` is none of write, read, ahead, verify")),
    };
    let rate = match raw {
        Some(_) => raw::count(folder, &calls::payload(folder, kind)?, calls.parse()?)?,
        None => calls::count(folder, kind, calls.parse()?, callers.parse()?)?,
    };
    line("calls", rate, "");
    Ok(())
}

fn median(figures: impl Iterator<Item = f64>) -> f64 {
    let mut figures: Vec<f64> = figures.collect();
    figures.sort_by(f64::total_cmp);
    figures.get(figures.len() / 2).copied().unwrap_or_default()
}

fn verify(folder: &Path, effort: &Effort) -> Result<()> {
    println!("verification, every digest, link and head, one thread");
    for entries in [effort.entries / 10, effort.entries] {
        let verified = journal::verify(folder, entries)?;
        let count = verified.entries as f64;
        println!(
            "  {:>9} entries  {:9.0} per second  {:9.0} per second of processor  {:+} KiB",
            verified.entries,
            count / verified.seconds,
            count / verified.cpu_seconds,
            verified.grown_kib
        );
    }
    Ok(())
}

fn recover(folder: &Path, effort: &Effort) -> Result<()> {
    println!("replay of a trace from a checkpoint 100 entries before its end");
    for length in effort.lengths {
        let micros = journal::recover(folder, *length, 100)?;
        println!("  {length:>9} entries  {micros:7.0} µs");
    }
    Ok(())
}

fn runs(folder: &Path, effort: &Effort) -> Result<()> {
    println!("runs of empty phases: time of the engine beside the store's two commits");
    for phases in effort.phases {
        let took = runs::phases(folder, *phases)?;
        println!(
            "  {phases:>9} phases   {:7.0} µs for a phase: {:7.0} µs the store, {:7.0} µs the engine",
            took.whole,
            took.store,
            took.whole - took.store
        );
        println!("                     {:7.1} ms to list the run", took.list);
    }
    let took = runs::holds(folder, effort.holds)?;
    println!(
        "  {:>9} on hold  {:7.1} ms to list 20, {:7.1} ms for the oldest 20 of the queue, {:+} KiB",
        effort.holds, took.list, took.queue, took.grown_kib
    );
    Ok(())
}

fn checkpoints(folder: &Path, effort: &Effort) -> Result<()> {
    let took = checkpoints::measure(folder, effort.files, effort.snapshots)?;
    let [status, capture, checkout, restore] = took.times.map(|column| median(column.into_iter()));
    println!("snapshots of {} files, one of them changed", effort.files);
    println!("  git status    {status:7.1} ms");
    println!("  capture       {capture:7.1} ms  {:.2} of git status", capture / status);
    println!("  git checkout  {checkout:7.1} ms");
    println!("  restore       {restore:7.1} ms  {:.2} of git checkout", restore / checkout);
    println!(
        "  space of {} captures  {} KiB, {:.3} of one capture and the changes",
        checkpoints::CAPTURES,
        took.captures_kib,
        took.captures_kib as f64 / took.once_kib as f64
    );
    Ok(())
}

/// Removes a database with its log, and waits until the disk is idle: freeing the blocks takes time that
/// the next measurement must not include.
fn remove(path: &Path) {
    for suffix in ["", "-wal", "-shm", ".head"] {
        let mut name = path.as_os_str().to_owned();
        name.push(suffix);
        // It may not exist.
        drop(std::fs::remove_file(name));
    }
    if let Some(folder) = path.parent() {
        // Where folders cannot be synced, the pause has to be enough.
        drop(std::fs::File::open(folder).and_then(|folder| folder.sync_all()));
    }
    std::thread::sleep(Duration::from_millis(50));
}
