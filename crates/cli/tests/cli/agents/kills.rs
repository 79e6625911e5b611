//! Windlass, a client, both, or the relay between them killed at moments that nobody chose.

use std::process::Child;
use std::time::{Duration, Instant};

use windlass_testkit::{Random, soak};

use crate::agents::lab::{Kind, Lab};
use crate::agents::processes::below;
use crate::harness::Outcome;
use crate::scripted::{count, is_done_once, next_command, script};

/// How often something is killed, at least.
const KILLS: u32 = 3;
/// How often something is killed in one run, at most.
const KILLS_OF_RUN: usize = 3;
/// The lines that the builder writes.
const LINES: usize = 8;

/// What is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Victim {
    Windlass,
    Client,
    Both,
    Relay,
}

const VICTIMS: [Victim; 4] = [Victim::Windlass, Victim::Client, Victim::Both, Victim::Relay];

/// A check kills one of them with each client, another one in the next check; a soak kills them all.
pub fn survives(kind: &'static Kind) {
    for victim in soak::chosen(&VICTIMS, 1, kind.number()) {
        survives_death_of(kind, victim);
    }
}

fn survives_death_of(kind: &'static Kind, victim: Victim) {
    let seed = soak::seed(0x5eed_a6e7 + victim as u64);
    println!("seed {seed}");
    let mut random = Random::new(seed);
    let wanted = usize::try_from(soak::rounds(KILLS)).expect("small");
    let (mut killed, mut runs) = (0, 0);
    while killed < wanted {
        let Some(lab) = Lab::new(kind, &script(count(LINES))) else { return };
        let before = lab.repo.commits();
        let kills = KILLS_OF_RUN.min(wanted - killed);
        let of_run = one_run(&lab, victim, kills, &mut random);
        killed += of_run;
        runs += 1;
        assert!(runs < 3 * wanted, "nothing was killed");
        lab.has_passed(before);
        is_done_once(&lab.repo);
    }
    println!("{} {victim:?}: {killed} kills in {runs} runs", kind.name);
}

/// Takes a run to its end, and returns how often something was killed in it.
fn one_run(lab: &Lab, victim: Victim, kills: usize, random: &mut Random) -> usize {
    drop(lab.windlass(&["people", "add", "ada"]));
    let mut line: Vec<String> = lab.run_line().map(str::to_owned).to_vec();
    let mut killed = 0;
    for _ in 0..40 {
        let words: Vec<&str> = line.iter().map(String::as_str).collect();
        let mut process = lab.command(&words).spawn().expect("a process");
        while killed < kills && strike(lab, victim, &mut process, random) {
            killed += 1;
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

/// Kills what is to be killed at some moment; returns whether it was there.
fn strike(lab: &Lab, victim: Victim, process: &mut Child, random: &mut Random) -> bool {
    let requests =
        lab.model.requests().len() + 1 + usize::try_from(random.below(6)).expect("small");
    let began = Instant::now();
    while lab.model.requests().len() < requests {
        if process.try_wait().expect("a process").is_some() {
            return false;
        }
        assert!(began.elapsed() < Duration::from_secs(120), "the model is not asked");
        let _ = lab.model.wait_for(requests, Duration::from_millis(20));
    }
    // Not to wait for anything: the moment is the test.
    std::thread::sleep(Duration::from_millis(random.below(80)));
    if process.try_wait().expect("a process").is_some() {
        return false;
    }
    let processes = below(process.id());
    let clients = || processes.iter().filter(|process| process.is_of(lab.clients()));
    match victim {
        Victim::Windlass => process.kill().expect("a signal"),
        Victim::Both => {
            process.kill().expect("a signal");
            clients().for_each(|client| client.kill());
        }
        Victim::Client => {
            let is_there = clients().count() > 0;
            clients().for_each(|client| client.kill());
            return is_there;
        }
        Victim::Relay => {
            let relays: Vec<_> = processes.iter().filter(|process| process.is_relay()).collect();
            relays.iter().for_each(|relay| relay.kill());
            return !relays.is_empty();
        }
    }
    true
}
