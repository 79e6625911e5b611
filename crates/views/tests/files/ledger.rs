//! The attempt ledger's file: of many runs, appended to, and mended from the journal.

use std::os::unix::fs::MetadataExt as _;

use serde_json::Value;
use windlass_formats::{LEDGER_BYTES_MAX, check_ledger};
use windlass_kernel::run::VoteDecision;
use windlass_kernel::run::plan::Concurrency;

use crate::world::{Script, World, built, failed, name, passing, spine, trace, verdict};

const LEDGER: &str = "loop_state/attempt_ledger.jsonl";
const CLOSED: &str = "loop_state/attempt_ledger.0001.jsonl";

fn records(world: &World) -> Vec<Value> {
    let text = world.read(LEDGER);
    check_ledger(text.as_bytes()).unwrap();
    text.lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .filter(|line| line.get("type").is_none())
        .collect()
}

fn column<'a>(records: &'a [Value], field: &str) -> Vec<&'a str> {
    records.iter().map(|record| record[field].as_str().unwrap_or("-")).collect()
}

#[test]
fn every_try_has_a_record_that_says_what_follows() {
    let mut world = World::new();
    let files = world.files();
    let script = Script::from([
        (("build", 1), built(1)),
        (("review", 1), verdict("needs_revision")),
        (("build", 2), built(2)),
        (("review", 2), verdict("waive")),
    ]);
    let mut recorder = world.run(&files, &script);
    for by in ["bob", "eve"] {
        recorder.vote(by, VoteDecision::Approved).unwrap();
    }
    recorder.resume().unwrap();
    recorder.drive(&script).unwrap();
    let records = records(&world);
    assert_eq!(records.len(), 9);
    let [goes_on, retry, waiver, terminate] = ["continue", "retry", "waiver", "terminate"];
    assert_eq!(
        column(&records, "next_action"),
        [goes_on, goes_on, goes_on, goes_on, retry, goes_on, goes_on, waiver, terminate]
    );
    let rejection = "review_rejection";
    assert_eq!(
        column(&records, "failure_class"),
        ["-", "-", "-", "-", rejection, "-", "-", rejection, "-"]
    );
    assert_eq!(column(&records, "terminal_reason")[8], "pass");
    assert_eq!(records[3]["actions_taken"], serde_json::json!(["fs/write", "fs/read", "fs/write"]));
    assert_eq!(records[3]["changed_files"], serde_json::json!(["src/a.rs", "src/b.rs"]));
    assert_eq!(
        records[3]["evidence_hashes"].as_object().unwrap().keys().collect::<Vec<_>>(),
        ["answer", "call_1", "call_2", "call_3"]
    );
    assert_eq!(records[2]["diff_hash"], Value::Null);
    assert_ne!(records[3]["diff_hash"], records[6]["diff_hash"]);
    // The second design was given the review's findings; the policy step was given one answer more.
    assert_ne!(records[2]["input_hash"], records[5]["input_hash"]);
    assert_ne!(records[0]["input_hash"], records[1]["input_hash"]);
    assert_eq!(
        records[4]["rationale"],
        "`review` of `review` said `needs_revision`: the run goes back to `design`"
    );
}

#[test]
fn the_same_input_has_the_same_digest() {
    let mut world = World::new();
    let files = world.files();
    world.run(&files, &passing());
    world.run(&files, &passing());
    let records = records(&world);
    let inputs = column(&records, "input_hash");
    assert_eq!(inputs[..6], inputs[6..]);
}

#[test]
fn classes_of_failures_are_those_of_the_list() {
    for (class, expected) in
        [("timeout", "timeout"), ("validation_error", "validation_error"), ("internal", "unknown")]
    {
        let mut world = World::new();
        let files = world.files();
        world.run(&files, &Script::from([(("design", 1), failed(class))]));
        let records = records(&world);
        let last = records.last().unwrap();
        assert_eq!(last["failure_class"], expected);
        assert_eq!(last["success"], false);
        assert_eq!(last["terminal_reason"], "mission_failed");
        assert_eq!(last["next_action"], "terminate");
    }
}

#[test]
fn of_phases_side_by_side_only_the_last_ends_the_run() {
    let mut world = World::new();
    let files = world.files();
    let mut plan = spine();
    plan.concurrency = Concurrency::Parallel;
    plan.phases.truncate(3);
    for phase in &mut plan.phases {
        phase.needs.clear();
    }
    let mut recorder = world.start(&files, plan).unwrap();
    let script = Script::from([(("policy", 1), failed("timeout"))]);
    recorder.drive(&script).unwrap();
    let records = records(&world);
    assert_eq!(column(&records, "next_action"), ["continue", "retry", "terminate"]);
    assert_eq!(column(&records, "failure_class"), ["-", "timeout", "-"]);
    assert_eq!(column(&records, "terminal_reason"), ["-", "-", "mission_failed"]);
}

#[test]
fn runs_side_by_side_leave_each_other_alone() {
    let mut world = World::new();
    let (ours, theirs) = (world.files(), world.files());
    let script = passing();
    let mut one = world.start(&ours, spine()).unwrap();
    let mut two = world.start(&theirs, spine()).unwrap();
    let mut before = world.read(LEDGER);
    let names = [name(&one), name(&two)];
    let mut turns = 0;
    while one.run().ended.is_none() || two.run().ended.is_none() {
        for recorder in [&mut one, &mut two] {
            if recorder.run().ended.is_some() {
                continue;
            }
            // One append each in turn.
            recorder.step(&script).unwrap();
            let now = world.read(LEDGER);
            let of = |text: &str, run: &str| -> String {
                text.split_inclusive('\n').filter(|line| line.contains(run)).collect()
            };
            let [first, second] = &names;
            let (own, other) =
                if name(recorder) == *first { (first, second) } else { (second, first) };
            assert!(of(&now, own).starts_with(&of(&before, own)));
            assert_eq!(of(&now, other), of(&before, other));
            check_ledger(now.as_bytes()).unwrap();
            before = now;
            turns += 1;
        }
    }
    assert!(turns > 20);
    let summary = check_ledger(before.as_bytes()).unwrap();
    assert_eq!(summary.runs.len(), 2);
    assert!(summary.runs.iter().all(|run| run.attempts == 6));
}

#[test]
fn a_run_at_the_end_is_appended_to_and_never_copied() {
    let mut world = World::new();
    let files = world.files();
    world.run(&files, &passing());
    let inode = |world: &World| std::fs::metadata(world.root().join(LEDGER)).unwrap().ino();
    let first = inode(&world);
    let before = world.read(LEDGER);
    world.run(&files, &passing());
    assert_eq!(inode(&world), first);
    assert!(world.read(LEDGER).starts_with(&before));
    // A second name of the file may lie elsewhere: that one is not written to.
    let elsewhere = world.folder.path().join("elsewhere");
    std::fs::hard_link(world.root().join(LEDGER), &elsewhere).unwrap();
    let linked = std::fs::read(&elsewhere).unwrap();
    world.run(&files, &passing());
    assert_eq!(std::fs::read(&elsewhere).unwrap(), linked);
    assert_eq!(records(&world).len(), 18);
}

#[test]
fn a_torn_end_is_written_anew_from_the_journal() {
    let mut world = World::new();
    let files = world.files();
    world.run(&files, &passing());
    let recorder = world.run(&files, &Script::from([(("review", 1), verdict("escalate"))]));
    let whole = world.read(LEDGER);
    let first_end = whole.match_indices('\n').nth(6).unwrap().0 + 1;
    for cut in (first_end..whole.len()).step_by(37).chain([whole.len() - 1, first_end]) {
        std::fs::write(world.root().join(LEDGER), &whole.as_bytes()[..cut]).unwrap();
        // A new process is shown the run.
        world.show(&world.files(), trace(&recorder)).unwrap();
        assert_eq!(world.read(LEDGER), whole, "{cut}");
    }
}

#[test]
fn a_torn_end_of_another_run_is_mended_too() {
    let mut world = World::new();
    let files = world.files();
    let recorder = world.run(&files, &Script::from([(("review", 1), verdict("escalate"))]));
    world.run(&files, &passing());
    let whole = world.read(LEDGER);
    std::fs::write(world.root().join(LEDGER), &whole[..whole.len() - 40]).unwrap();
    world.show(&world.files(), trace(&recorder)).unwrap();
    assert_eq!(world.read(LEDGER), whole);
}

#[test]
fn a_changed_line_of_another_run_is_left_as_it_is() {
    let mut world = World::new();
    let files = world.files();
    world.run(&files, &passing());
    let path = world.root().join(LEDGER);
    let tampered = world.read(LEDGER).replacen("\"success\":true", "\"success\":false", 1)
        + "this is no record\n";
    std::fs::write(&path, &tampered).unwrap();
    let recorder = world.run(&files, &passing());
    let now = world.read(LEDGER);
    assert!(now.starts_with(&tampered));
    assert_eq!(now.lines().filter(|line| line.contains(&name(&recorder))).count(), 7);
    // Its own line is written anew.
    let own = now[tampered.len()..].replacen("\"success\":true", "\"success\":false", 1);
    std::fs::write(&path, tampered.clone() + &own).unwrap();
    world.files().rebuild(trace(&recorder)).unwrap();
    assert_eq!(world.read(LEDGER), now);
}

#[test]
fn a_long_list_is_cut_and_the_run_goes_on() {
    let mut world = World::new();
    let files = world.files();
    let mut large = built(1);
    let change = large.change.as_mut().unwrap();
    change.files = (0..20_000).map(|number| format!("src/{number:0100}.rs")).collect();
    large.summary = "é".repeat(5000);
    let script = Script::from([(("build", 1), large), (("review", 1), verdict("approved"))]);
    let recorder = world.run(&files, &script);
    assert!(recorder.run().ended.is_some());
    let records = records(&world);
    let files = records[3]["changed_files"].as_array().unwrap();
    let last = files.last().unwrap().as_str().unwrap();
    assert_eq!(last, format!("… and {} more", 20_000 - (files.len() - 1)));
}

/// The bytes that this process has read so far.
#[cfg(target_os = "linux")]
fn bytes_read() -> u64 {
    let io = std::fs::read_to_string("/proc/self/io").unwrap();
    let line = io.lines().find_map(|line| line.strip_prefix("rchar: ")).unwrap();
    line.parse().unwrap()
}

#[cfg(target_os = "linux")]
#[test]
fn mend_19_a_new_run_does_not_read_the_lines_of_all_others() {
    const OTHERS_BYTES: usize = 8 << 20;
    let mut world = World::new();
    let files = world.files();
    world.run(&files, &passing());
    let first = world.read(LEDGER);
    let line = "{\"rationale\":\"other\",\"run_id\":\"run_20200202_120000_0000000a\"}\n";
    let others = line.repeat(OTHERS_BYTES / line.len());
    std::fs::write(world.root().join(LEDGER), format!("{first}{others}")).unwrap();
    let before = bytes_read();
    let new = name(&world.run(&files, &passing()));
    let read = bytes_read() - before;
    assert!(read < 1 << 20, "{read} bytes were read");
    let added = world.read(LEDGER);
    assert!(added.lines().count() > 3 && added.lines().all(|line| line.contains(&new)), "{added}");
    assert!(world.read(CLOSED) == format!("{first}{others}"));
}

#[test]
fn a_ledger_larger_than_can_be_read_stops_no_run_and_no_rebuild() {
    let mut world = World::new();
    let files = world.files();
    let recorder = world.run(&files, &Script::from([(("review", 1), verdict("escalate"))]));
    let path = world.root().join(LEDGER);
    let ledger = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
    ledger.set_len(u64::try_from(LEDGER_BYTES_MAX).unwrap() + 1).unwrap();
    // What waits is shown and goes on, and a new run begins and ends.
    world.show(&world.files(), trace(&recorder)).unwrap();
    assert!(world.read(LEDGER).lines().all(|line| line.contains(&name(&recorder))));
    let written = world.files().rebuild(trace(&recorder)).unwrap();
    assert!(written.contains(&path), "{written:?}");
    world.run(&files, &passing());
    assert_eq!(check_ledger(world.read(LEDGER).as_bytes()).unwrap().runs.len(), 2);
}
