//! Watches what the processes of a cell use together.

use std::fs;
use std::time::{Duration, Instant};

use crate::spec::{CellLimits, LimitKind};

/// The shortest time between two looks at a cell.
pub(crate) const INTERVAL: Duration = Duration::from_millis(150);

/// What all processes of the cell use at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Usage {
    threads: u64,
    memory_bytes: u64,
    /// What is mapped of it.
    shared_bytes: u64,
    /// The most files that one process has open.
    open_files: u64,
}

/// Compares what a cell uses with its limits, from time to time.
#[derive(Debug)]
pub(crate) struct Watch {
    limits: CellLimits,
    /// The shared memory of the machine when the cell began, or the least since then.
    shared_bytes: u64,
    next: Instant,
}

impl Watch {
    /// Begins to watch.
    pub fn new(limits: CellLimits) -> Self {
        Self { limits, shared_bytes: shared_bytes(), next: Instant::now() + INTERVAL }
    }

    /// The limit that is reached, if it is time to look again.
    pub fn reached(&mut self) -> Option<LimitKind> {
        if Instant::now() < self.next {
            return None;
        }
        self.next = Instant::now() + INTERVAL;
        let now = shared_bytes();
        // What others give back is not the cell's to take.
        self.shared_bytes = self.shared_bytes.min(now);
        reached(&self.limits, now.saturating_sub(self.shared_bytes))
    }
}

/// The limit that is reached now, if the shared memory of the machine has grown by so much.
///
/// Memory in files in memory, and shared memory that is not mapped at the moment, belongs to no process. What
/// the machine has of it is all that can be known; others that take it at the same time count as the cell.
fn reached(limits: &CellLimits, shared_bytes: u64) -> Option<LimitKind> {
    let usage = usage(limits.open_files);
    let memory_bytes = usage.memory_bytes.saturating_add(usage.shared_bytes.max(shared_bytes));
    let over = |used: u64, most: u64| most > 0 && used >= most;
    if over(usage.threads, limits.processes) {
        Some(LimitKind::Processes)
    } else if over(memory_bytes, limits.memory_bytes) {
        Some(LimitKind::Memory)
    } else if over(usage.open_files, limits.open_files) {
        Some(LimitKind::OpenFiles)
    } else {
        None
    }
}

/// The shared memory of the machine, files in memory included.
fn shared_bytes() -> u64 {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    number(&text, "Shmem:").saturating_mul(1024)
}

/// The number of a line of a file in `/proc`.
fn number(text: &str, key: &str) -> u64 {
    let line = text.lines().find_map(|line| line.strip_prefix(key));
    line.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok()).unwrap_or(0)
}

/// Adds up the processes in `/proc`, but for the first, which is the cell's own.
fn usage(open_files_max: u64) -> Usage {
    let mut usage = Usage::default();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let name = entry.file_name();
        let Some(pid) = name.to_str().and_then(|name| name.parse::<u32>().ok()) else { continue };
        // It may have exited meanwhile.
        let Ok(status) = fs::read_to_string(format!("/proc/{pid}/status")) else { continue };
        if pid == 1 {
            continue;
        }
        let one = of_status(&status);
        usage.threads = usage.threads.saturating_add(one.threads);
        usage.memory_bytes = usage.memory_bytes.saturating_add(one.memory_bytes);
        usage.shared_bytes = usage.shared_bytes.saturating_add(one.shared_bytes);
        // The table of open files is at most as large as needed, rounded up to a power of two.
        if open_files_max > 0 && one.open_files.saturating_mul(2) >= open_files_max {
            let open = fs::read_dir(format!("/proc/{pid}/fd")).map_or(0, Iterator::count);
            usage.open_files = usage.open_files.max(u64::try_from(open).unwrap_or(u64::MAX));
        }
    }
    usage
}

/// Reads `/proc/PID/status`. Memory that files back can be freed by the kernel and does not count.
fn of_status(status: &str) -> Usage {
    Usage {
        threads: number(status, "Threads:"),
        memory_bytes: number(status, "RssAnon:").saturating_mul(1024),
        shared_bytes: number(status, "RssShmem:").saturating_mul(1024),
        open_files: number(status, "FDSize:"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_is_read() {
        let status = "Name:\tx\nFDSize:\t64\nRssAnon:\t  12 kB\nRssFile:\t 900 kB\nRssShmem:\t 4 kB\nThreads:\t3\n";
        let expected =
            Usage { threads: 3, memory_bytes: 12 * 1024, shared_bytes: 4 * 1024, open_files: 64 };
        assert_eq!(of_status(status), expected);
        assert_eq!(of_status("garbage"), Usage::default());
    }

    #[test]
    fn this_process_is_counted() {
        let all = usage(0);
        assert!(all.threads >= 1 && all.memory_bytes > 0, "{all:?}");
        assert_eq!(
            reached(&CellLimits { processes: 1, ..CellLimits::default() }, 0),
            Some(LimitKind::Processes)
        );
        assert_eq!(
            reached(&CellLimits { processes: 0, memory_bytes: 1, ..CellLimits::default() }, 0),
            Some(LimitKind::Memory)
        );
    }
}
