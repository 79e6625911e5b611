//! The operating system's figures about this process.

use anyhow::{Context as _, Result};

/// The resident memory of the process, in KiB.
pub fn resident_kib() -> Result<i64> {
    resident_kib_of("self")
}

/// The resident memory of a process, in KiB.
pub fn resident_kib_of(pid: &str) -> Result<i64> {
    status_kib(pid, "VmRSS:")
}

/// The most resident memory that a process has had, in KiB.
pub fn peak_kib_of(pid: &str) -> Result<i64> {
    status_kib(pid, "VmHWM:")
}

fn status_kib(pid: &str, field: &'static str) -> Result<i64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find(|line| line.starts_with(field)).context(field)?;
    Ok(line.split_whitespace().nth(1).context("no value")?.parse()?)
}

/// The processor time that the process has used.
pub fn cpu_seconds() -> Result<f64> {
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    let fields: Vec<&str> =
        stat.rsplit(')').next().context("no fields")?.split_whitespace().collect();
    let ticks = |index: usize| -> Result<f64> {
        Ok(fields.get(index).context("no such field")?.parse::<f64>()?)
    };
    // Linux counts these in hundredths of a second.
    Ok((ticks(11)? + ticks(12)?) / 100.0)
}

/// The machine's load average of the last minute.
pub fn load() -> String {
    std::fs::read_to_string("/proc/loadavg")
        .ok()
        .and_then(|text| text.split(' ').next().map(str::to_owned))
        .unwrap_or_default()
}
