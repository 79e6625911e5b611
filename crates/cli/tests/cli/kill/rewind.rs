//! `session rewind` and `session allow-all`, killed at every append and while files are moved: repeated, they do what
//! they were to do, and no file is lost.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::json;
use windlass_store::fault;
use windlass_testkit::soak;

use crate::harness::{Outcome, Place};
use crate::world::{Repo, tree};

/// Points that a command passes as often as each other, by groups.
const POINTS: [&[&str]; 2] =
    [&["append.before", "append.inside", "append.after"], &["index.inside"]];
/// A generous bound on how often one command can pass a point.
const PASSES_MAX: u32 = 20;
/// How many files a rewind changes.
const FILES: u32 = 40;
/// At most so many rounds are needed until a rewind is torn.
const ROUNDS_MAX: u32 = 40;

type Files = BTreeMap<String, Vec<u8>>;

/// A repository with a session in it that has changed many files.
struct Stage {
    repo: Repo,
    /// The files at the first prompt.
    first: Files,
    /// The files of now.
    now: Files,
}

impl Stage {
    fn new() -> Self {
        let repo = Repo::new();
        for number in 0..FILES {
            repo.write(&format!("changed/{number}.txt"), format!("{number} was\n"));
            repo.write(&format!("gone/{number}.txt"), "gone\n");
        }
        prompt(&repo.place, "first");
        let first = files(&repo.root());
        for number in 0..FILES {
            repo.write(&format!("changed/{number}.txt"), format!("{number} is\n"));
            repo.write(&format!("new/{number}.txt"), "new\n");
        }
        std::fs::remove_dir_all(repo.root().join("gone")).unwrap();
        prompt(&repo.place, "second");
        let now = files(&repo.root());
        assert_ne!(first, now);
        Self { repo, first, now }
    }

    fn files(&self) -> Files {
        files(&self.repo.root())
    }

    fn windlass(&self, words: &[&str]) -> Outcome {
        self.repo.place.run(words)
    }

    /// Takes a rewind back again, unless it was: a whole one would be taken back in turn.
    #[track_caller]
    fn finish_forth(&self) {
        if self.files() != self.now {
            self.windlass(&FORTH).exit(0);
        }
        assert_eq!(self.files(), self.now);
    }

    /// Every file is as one of the two states has it.
    #[track_caller]
    fn is_between(&self, what: &str) {
        let found = self.files();
        let names = found.keys().chain(self.first.keys()).chain(self.now.keys());
        for name in names {
            let states = [self.first.get(name), self.now.get(name)];
            assert!(states.contains(&found.get(name)), "{what}: {name} is neither");
        }
    }
}

fn files(root: &Path) -> Files {
    let mut files = tree(root);
    files.retain(|name, _| !name.starts_with(".git/") && !name.starts_with(".windlass/"));
    files
}

fn send(place: &Place, name: &str, more: &serde_json::Value) -> Outcome {
    let mut event = json!({
        "cwd": place.work(), "hook_event_name": name, "session_id": "s-1",
        "permission_mode": "default", "transcript_path": "/nowhere/t",
    });
    event.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    place.feed(&["hook", "--client", "claude"], event.to_string().as_bytes())
}

fn prompt(place: &Place, text: &str) -> Outcome {
    send(place, "UserPromptSubmit", &json!({ "prompt": text })).exit(0)
}

const BACK: [&str; 6] = ["session", "rewind", "--to", "1", "--reason", "wrong"];
const FORTH: [&str; 6] = ["session", "rewind", "--to", "0", "--reason", "after all"];

/// Calls `act` with each point in turn, until it says that nothing was killed there; tells how often it was.
fn at_every_point(mut act: impl FnMut(&str) -> Killed) -> u32 {
    let mut kills = 0;
    for alike in POINTS {
        for count in 1..PASSES_MAX {
            let killed =
                alike.iter().take_while(|point| act(&format!("{point}:{count}")) == Killed::Yes);
            match killed.count() {
                0 => break,
                some => kills += some,
            }
        }
    }
    u32::try_from(kills).unwrap()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Killed {
    Yes,
    No,
}

/// Runs a command that is to die at a point.
#[track_caller]
fn kill(place: &Place, words: &[&str], point: &str) -> Killed {
    let outcome = place.run_with(fault::VARIABLE, point, words);
    if outcome.code.is_some() {
        outcome.exit(0);
        return Killed::No;
    }
    place.run(&["verify"]).exit(0);
    Killed::Yes
}

#[test]
fn a_rewind_killed_at_every_append_is_repeated() {
    let kills = at_every_point(|point| {
        let stage = Stage::new();
        if kill(&stage.repo.place, &BACK, point) == Killed::No {
            return Killed::No;
        }
        stage.is_between("a killed rewind");
        stage.windlass(&BACK).exit(0);
        assert_eq!(stage.files(), stage.first);
        prompt(&stage.repo.place, "third").says("brought the files back");
        stage.windlass(&FORTH).exit(0);
        assert_eq!(stage.files(), stage.now);
        stage.windlass(&["verify"]).exit(0);
        Killed::Yes
    });
    assert!(kills >= 3, "{kills}");
}

#[test]
fn a_rewind_that_is_taken_back_and_killed_at_every_append_is_repeated() {
    let kills = at_every_point(|point| {
        let stage = Stage::new();
        stage.windlass(&BACK).exit(0);
        assert_eq!(stage.files(), stage.first);
        if kill(&stage.repo.place, &FORTH, point) == Killed::No {
            return Killed::No;
        }
        stage.is_between("a killed rewind");
        stage.finish_forth();
        stage.windlass(&BACK).exit(0);
        assert_eq!(stage.files(), stage.first);
        stage.windlass(&["verify"]).exit(0);
        Killed::Yes
    });
    assert!(kills >= 3, "{kills}");
}

/// Starts a rewind and kills it as soon as a file has changed, or it has ended.
fn kill_at(stage: &Stage, words: &[&str], file: &Path) {
    let look = || std::fs::read(file).ok();
    let before = look();
    let mut process = stage.repo.place.command(words).spawn().unwrap();
    while look() == before && process.try_wait().unwrap().is_none() {
        std::hint::spin_loop();
    }
    process.kill().unwrap();
    process.wait_with_output().unwrap();
}

#[test]
fn a_rewind_killed_while_it_moves_files_is_repeated_and_taken_back() {
    let mut torn = 0;
    let mut round = 0;
    // Whether a kill comes in the middle is up to the machine: on a busy one it may take some rounds more.
    while round < soak::rounds(4) || (torn == 0 && round < ROUNDS_MAX) {
        let stage = Stage::new();
        let place = ["new", "changed", "gone"][usize::try_from(round % 3).unwrap()];
        let file = stage.repo.root().join(format!("{place}/{}.txt", round * 7 % FILES));
        kill_at(&stage, &BACK, &file);
        stage.is_between("a torn rewind");
        let found = stage.files();
        torn += u32::from(found != stage.first && found != stage.now);
        if round % 2 == 0 {
            // It is finished first.
            stage.windlass(&BACK).exit(0);
            assert_eq!(stage.files(), stage.first, "round {round}");
        }
        kill_at(&stage, &FORTH, &file);
        stage.is_between("a torn rewind, taken back");
        stage.finish_forth();
        stage.windlass(&["verify"]).exit(0);
        round += 1;
    }
    println!("{torn} rewinds were torn");
    assert!(torn > 0, "no rewind was torn");
}

#[test]
fn breaking_glass_killed_at_every_append_is_repeated() {
    let allow = ["session", "allow-all", "--minutes", "5", "--by", "ada", "--reason", "fire"];
    let ask = |place: &Place, id: &str| {
        let input = json!({ "command": "frobnicate" });
        let fields = json!({ "tool_name": "Bash", "tool_input": input, "tool_use_id": id });
        send(place, "PreToolUse", &fields)
    };
    let kills = at_every_point(|point| {
        let place = Place::with_project();
        prompt(&place, "go on");
        ask(&place, "t1").exit(2);
        if kill(&place, &allow, point) == Killed::No {
            return Killed::No;
        }
        // Whatever is on record of it holds, and is shown; it is never half of a grant.
        let grants = place.run(&["grant", "list", "--json"]).exit(0).json();
        let is_granted = grants.as_array().is_some_and(|grants| !grants.is_empty());
        let code = ask(&place, "t2").code;
        assert_eq!(code, Some(if is_granted { 0 } else { 2 }), "{point}: {grants}");
        place.run(&allow).exit(0);
        ask(&place, "t3").exit(0);
        place.run(&["status"]).exit(0).warns("every tool");
        place.run(&["verify"]).exit(0);
        Killed::Yes
    });
    assert!(kills >= 3, "{kills}");
}
