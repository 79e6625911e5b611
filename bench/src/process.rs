//! The operating system's figures about this process.

use anyhow::{Context as _, Result};

/// The resident memory of the process, in KiB.
pub fn resident_kib() -> Result<i64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).context("no VmRSS")?;
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
