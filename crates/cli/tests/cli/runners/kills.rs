//! Windlass killed at moments that nobody chose, while a model works.

use std::time::Duration;

use windlass_testkit::{Random, soak};

use crate::harness::Outcome;
use crate::runners::lab::{APIS, Lab};
use crate::scripted::{count, is_done_once, next_command, script};

/// How often it is killed, at least.
const KILLS: u32 = 5;
/// The lines that the builder writes.
const LINES: usize = 6;

#[test]
fn nothing_is_done_twice() {
    let mut random = Random::new(soak::seed(0x5eed_0de1));
    let wanted = usize::try_from(soak::rounds(KILLS)).expect("small");
    let mut killed = 0;
    for round in 0..3 * wanted {
        if killed >= wanted {
            return;
        }
        let lab = Lab::new(APIS[round % 3], &script(count(LINES)), "");
        let before = lab.repo.commits();
        killed += one_run(&lab, &mut random);
        lab.has_passed(before);
        is_done_once(&lab.repo);
    }
    panic!("it was killed only {killed} times");
}

/// Takes a run to its end, and returns how often it was killed.
fn one_run(lab: &Lab, random: &mut Random) -> usize {
    let start = ["run", "leave a greeting", "--json", "--agent", "m", "--by=ada"];
    let mut line: Vec<String> = start.map(str::to_owned).to_vec();
    let mut killed = 0;
    for _ in 0..40 {
        let words: Vec<&str> = line.iter().map(String::as_str).collect();
        let mut process = lab.command(&words).spawn().expect("a process");
        if killed < 3 {
            let more = 1 + usize::try_from(random.below(4)).expect("small");
            let requests = lab.model.requests().len() + more;
            while !lab.model.wait_for(requests, Duration::from_millis(20)) {
                if process.try_wait().expect("a process").is_some() {
                    break;
                }
            }
            // Not to wait for anything: the moment is the test.
            std::thread::sleep(Duration::from_millis(random.below(60)));
            if process.try_wait().expect("a process").is_none() {
                process.kill().expect("a signal");
                killed += 1;
            }
        }
        let output = process.wait_with_output().expect("an output");
        let outcome = Outcome::of(format!("windlass {}", words.join(" ")), output);
        if outcome.code == Some(0) {
            return killed;
        }
        line = next_command(&lab.repo, &outcome).unwrap_or(line);
    }
    panic!("the run does not end");
}
