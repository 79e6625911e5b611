//! Processes that a program has left behind outside of its process group, found by a variable that they inherited.

use std::fs;

use rustix::process::{Pid, PidfdFlags, Signal, getpid, pidfd_open, pidfd_send_signal};

/// How often is looked for more: a process that is being killed may have started another one.
const ROUNDS_MAX: usize = 8;

/// Kills every process in whose environment a variable has this value, except this one. A program without a cell that
/// starts a session of its own leaves its process group, but keeps its variables. What has cleared its environment, or
/// belongs to another user, is not found.
pub fn kill_marked(name: &str, value: &str) {
    let mark = format!("{name}={value}").into_bytes();
    for _ in 0..ROUNDS_MAX {
        if kill_all(&mark) == 0 {
            return;
        }
    }
}

/// Kills those that are there now; returns how many.
fn kill_all(mark: &[u8]) -> usize {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let others = numbers.filter_map(Pid::from_raw).filter(|pid| *pid != getpid());
    others.filter(|pid| kill_one(*pid, mark)).count()
}

fn kill_one(pid: Pid, mark: &[u8]) -> bool {
    // The descriptor comes first: what is read is of this process, or of a later one with the same number, which is then
    // not the one that is signalled.
    let Ok(process) = pidfd_open(pid, PidfdFlags::empty()) else { return false };
    let path = format!("/proc/{}/environ", pid.as_raw_nonzero());
    let Ok(environment) = fs::read(path) else { return false };
    let is_marked = environment.split(|byte| *byte == 0).any(|variable| variable == mark);
    is_marked && pidfd_send_signal(process, Signal::KILL).is_ok()
}
