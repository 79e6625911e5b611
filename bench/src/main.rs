//! Measures Windlass against the raw limits of the machine it runs on, in the same run.
//!
//! `cargo xtask bench` prints every figure with the limit beside it. Rates are taken in turns, limit
//! and Windlass by Windlass, and the median of the rounds counts, so that a machine that gets busy
//! meanwhile disturbs both alike; the processor's time for a call, which others disturb less, stands
//! beside each. `--quick` makes a short run of it; `pages`, `rates`, `verify`, `recover`, `runs` and
//! `checkpoints` name parts. `count write 10000` (or `read`, or `ahead`) makes so many calls and nothing
//! else, for a profiler; one more number says by how many callers; `raw-` before the kind makes the
//! commits of such calls by SQLite alone. `count verify 10000` verifies so many entries.

#![expect(clippy::print_stdout, reason = "a benchmark prints its figures")]

mod calls;
mod checkpoints;
mod journal;
mod process;
mod raw;
mod runs;

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};

use crate::calls::Kind;

/// How quickly calls were made, and what each took of the processor.
#[derive(Clone, Copy)]
struct Rate {
    per_second: f64,
    cpu_micros: f64,
}

impl Rate {
    /// Of so many calls since a moment, when the process had spent `cpu` seconds on processors.
    fn new(calls: u32, started: Instant, cpu: f64) -> Result<Self> {
        let calls = f64::from(calls);
        let cpu_micros = (process::cpu_seconds()? - cpu) * 1e6 / calls;
        Ok(Self { per_second: calls / started.elapsed().as_secs_f64(), cpu_micros })
    }
}

/// How long each part takes.
struct Effort {
    rounds: usize,
    seconds: f64,
    entries: u64,
    lengths: &'static [u64],
    phases: &'static [usize],
    holds: usize,
    files: usize,
    snapshots: usize,
}

/// The parts that can be asked for by name.
const PARTS: &[&str] = &["pages", "rates", "verify", "recover", "runs", "checkpoints"];

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let quick = arguments.iter().any(|argument| argument == "--quick");
    // A part by its name, or all of them.
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
        }
    };
    let folder = tempfile::tempdir_in(".")?;
    match arguments.as_slice() {
        [count, kind, calls] if count == "count" => {
            return counting(folder.path(), kind, calls, "1");
        }
        [count, kind, calls, callers] if count == "count" => {
            return counting(folder.path(), kind, calls, callers);
        }
        _ => {}
    }
    println!("load before: {}", process::load());
    if wanted("pages") {
        println!("pages of SQLite's log for a call");
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
        verifying(folder.path(), &effort)?;
    }
    if wanted("recover") {
        recovering(folder.path(), &effort)?;
    }
    if wanted("runs") {
        running(folder.path(), &effort)?;
    }
    if wanted("checkpoints") {
        checkpointing(folder.path(), &effort)?;
    }
    println!("load after: {}", process::load());
    Ok(())
}

/// Rounds of the limits and of Windlass in turns.
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
    println!(
        "calls per second and the processor's time for each, median of {} rounds",
        effort.rounds
    );
    let same = format!("the same {write_payload:?} bytes");
    line("raw SQLite, two commits of a 500-byte row", middle(raw2), "");
    line(&format!("raw SQLite, two commits of {same}"), middle(same2), "");
    line("write, one caller", middle(write1), &of(write1, [raw2, same2]));
    line("raw SQLite, 16 calls in two commits", middle(raw16), "");
    line("write, 16 callers", middle(write16), &times(write16, raw16));
    line("raw SQLite, 64 calls in two commits", middle(raw64), "");
    line("write, 64 callers", middle(write64), &times(write64, raw64));
    line("raw SQLite, one commit of a 500-byte row", middle(raw1), "");
    let same = format!("the same {read_payload:?} bytes");
    line(&format!("raw SQLite, one commit of {same}"), middle(same1), "");
    line("read with its effect, one caller", middle(read1), &of(read1, [raw1, same1]));
    line("read write-ahead, one caller", middle(ahead1), "");
    Ok(())
}

/// The medians of some rounds.
fn middle(column: &[Rate]) -> Rate {
    Rate {
        per_second: median(column.iter().map(|rate| rate.per_second)),
        cpu_micros: median(column.iter().map(|rate| rate.cpu_micros)),
    }
}

/// How one compares with another: the median of the rounds' ratios, since what is measured in one
/// round was measured on one machine.
fn ratio(column: &[Rate], limit: &[Rate]) -> f64 {
    let pairs = column.iter().zip(limit);
    median(pairs.map(|(rate, limit)| rate.per_second / limit.per_second))
}

fn line(what: &str, rate: Rate, beside: &str) {
    println!("  {what:<52} {:8.0}  {:6.1} µs  {beside}", rate.per_second, rate.cpu_micros);
}

/// Makes so many calls of a kind, for a profiler.
fn counting(folder: &Path, kind: &str, calls: &str, callers: &str) -> Result<()> {
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

fn verifying(folder: &Path, effort: &Effort) -> Result<()> {
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

fn recovering(folder: &Path, effort: &Effort) -> Result<()> {
    println!("where a trace stands, from a checkpoint 100 entries back");
    for length in effort.lengths {
        let micros = journal::recover(folder, *length, 100)?;
        println!("  {length:>9} entries  {micros:7.0} µs");
    }
    Ok(())
}

fn running(folder: &Path, effort: &Effort) -> Result<()> {
    println!("runs: what the engine adds to the store's two commits of a phase that does nothing");
    for phases in effort.phases {
        let took = runs::phases(folder, *phases)?;
        println!(
            "  {phases:>9} phases   {:7.0} µs a phase, {:7.0} µs of it the store, {:7.0} µs the engine",
            took.whole,
            took.store,
            took.whole - took.store
        );
        println!("                     {:7.1} ms to list the run", took.list);
    }
    let took = runs::holds(folder, effort.holds)?;
    println!(
        "  {:>9} on hold  {:7.1} ms to list twenty, {:7.1} ms for the queue's oldest, {:+} KiB",
        effort.holds, took.list, took.queue, took.grown_kib
    );
    Ok(())
}

fn checkpointing(folder: &Path, effort: &Effort) -> Result<()> {
    let took = checkpoints::measure(folder, effort.files, effort.snapshots)?;
    let [status, capture, checkout, restore] = took.times.map(|column| median(column.into_iter()));
    println!("snapshots of {} files, one of them changed", effort.files);
    println!("  git status    {status:7.1} ms");
    println!("  capture       {capture:7.1} ms  {:.2} of it", capture / status);
    println!("  git checkout  {checkout:7.1} ms");
    println!("  restore       {restore:7.1} ms  {:.2} of it", restore / checkout);
    println!(
        "  space of {} captures  {} KiB, {:.3} of one and the changes",
        checkpoints::CAPTURES,
        took.captures_kib,
        took.captures_kib as f64 / took.once_kib as f64
    );
    Ok(())
}

/// Removes a database and what lies beside it, and lets the disk come to rest: to free what was
/// written costs it time, which is not that of what is measured next.
fn remove(path: &Path) {
    for suffix in ["", "-wal", "-shm"] {
        let mut name = path.as_os_str().to_owned();
        name.push(suffix);
        // What is not there need not be removed.
        drop(std::fs::remove_file(name));
    }
    if let Some(folder) = path.parent() {
        // Where folders cannot be synced, the pause must do.
        drop(std::fs::File::open(folder).and_then(|folder| folder.sync_all()));
    }
    std::thread::sleep(Duration::from_millis(50));
}
