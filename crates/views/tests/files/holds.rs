//! The packet of a hold is checked against the journal, and never decides anything.

use windlass_engine::{EngineError, HoldPackets as _};
use windlass_formats::{HoldPacket, read_hold};
use windlass_kernel::Code;
use windlass_kernel::run::plan::{RunOutcome, Trigger};
use windlass_kernel::run::{Event, VoteDecision};

use windlass_views::Files;

use crate::world::{Script, TestRecorder, World, built, name, trace, verdict};

fn on_hold(world: &mut World, files: &Files) -> (TestRecorder, std::path::PathBuf) {
    let recorder = world.run(files, &Script::from([(("review", 1), verdict("escalate"))]));
    let path = world.root().join(format!("checkpoints/CP_{}_4.yaml", name(&recorder)));
    (recorder, path)
}

fn refusal(result: Result<(), EngineError>) -> (Code, String) {
    match result {
        Err(EngineError::Packet { code, what, .. }) => (code, what),
        other => panic!("{other:?}"),
    }
}

#[test]
fn every_edit_by_hand_is_refused_and_changes_nothing() {
    let mut world = World::new();
    let files = world.files();
    let (recorder, path) = on_hold(&mut world, &files);
    let written = std::fs::read_to_string(&path).unwrap();
    let before = recorder.run().clone();
    for (from, to, code) in [
        (
            "resolution_decision: null\nresolved: false",
            "resolution_decision: APPROVED\nresolved: true",
            Code::PacketEdited,
        ),
        ("resolved: false", "resolved: true", Code::PacketInvalid),
        ("step_index: 4", "step_index: 5", Code::PacketEdited),
        ("step_name: review", "step_name: steward", Code::PacketEdited),
        ("feature X", "feature Y", Code::PacketEdited),
        ("ESCALATION_REQUESTED", "WAIVER_REQUESTED", Code::PacketEdited),
        ("expires_at: '2026", "expires_at: '2036", Code::PacketEdited),
        ("packet_hash: ", "packet_hash: null #", Code::PacketInvalid),
        ("trigger:", "trigger_:", Code::PacketInvalid),
        ("task_spec:", "approvals_needed: 1\ntask_spec:", Code::PacketEdited),
        ("checkpoint_id:", "# only a remark\ncheckpoint_id:", Code::PacketEdited),
        ("run_id: run_2026", "run_id: run_2025", Code::PacketInvalid),
        ("task_spec:", "task_spec: {", Code::PacketInvalid),
    ] {
        assert!(written.contains(from), "{from} is not in\n{written}");
        let edited = written.replacen(from, to, 1);
        std::fs::write(&path, &edited).unwrap();
        let (found, what) = refusal(files.check(recorder.run()));
        assert_eq!(found, code, "{to}: {what}");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), edited);
        assert_eq!(world.recorded(trace(&recorder)), before);
    }
    std::fs::write(&path, &written).unwrap();
    files.check(recorder.run()).unwrap();
}

#[test]
fn an_edit_with_a_digest_that_fits_is_found_too() {
    let mut world = World::new();
    let files = world.files();
    let (recorder, path) = on_hold(&mut world, &files);
    let packet = read_hold(&std::fs::read(&path).unwrap()).unwrap();
    let forged = [
        HoldPacket { trigger: "WAIVER_REQUESTED".to_owned(), ..packet.clone() },
        HoldPacket { shown_digest: None, ..packet.clone() },
        HoldPacket { expires_at: None, ..packet.clone() },
        HoldPacket {
            resolution: Some(windlass_formats::Resolution {
                decision: windlass_formats::Decision::Approved,
                by: Some("mallory".to_owned()),
                at: None,
                reason: None,
            }),
            ..packet
        },
    ];
    for packet in forged {
        std::fs::write(&path, packet.to_bytes().unwrap()).unwrap();
        assert_eq!(refusal(files.check(recorder.run())).0, Code::PacketEdited, "{packet:?}");
    }
    // The packet of another run's hold is no packet of this one.
    let (_, other) = on_hold(&mut world, &files);
    std::fs::copy(other, &path).unwrap();
    assert_eq!(refusal(files.check(recorder.run())).0, Code::PacketEdited);
}

#[test]
fn a_missing_or_unreadable_packet_is_invalid() {
    let mut world = World::new();
    let files = world.files();
    let (recorder, path) = on_hold(&mut world, &files);
    let written = std::fs::read(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    let missing = (Code::PacketInvalid, "is missing".to_owned());
    assert_eq!(refusal(files.check(recorder.run())), missing);
    for content in [&b""[..], b"\0", b"[1]", &written[..written.len() / 2], &[0xff; 40]] {
        std::fs::write(&path, content).unwrap();
        assert_eq!(refusal(files.check(recorder.run())).0, Code::PacketInvalid);
    }
    std::fs::remove_file(&path).unwrap();
    std::fs::create_dir(&path).unwrap();
    assert_eq!(refusal(files.check(recorder.run())).0, Code::PacketInvalid);
    std::fs::remove_dir(&path).unwrap();
    // Even a link to a true copy is not the packet.
    let copy = world.folder.path().join("copy.yaml");
    std::fs::write(&copy, &written).unwrap();
    std::os::unix::fs::symlink(&copy, &path).unwrap();
    assert_eq!(refusal(files.check(recorder.run())).0, Code::PacketInvalid);
    std::fs::remove_file(&path).unwrap();
    files.rebuild(trace(&recorder)).unwrap();
    files.check(recorder.run()).unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), written);
}

#[test]
fn a_run_that_is_not_on_hold_has_nothing_to_check() {
    let mut world = World::new();
    let files = world.files();
    let recorder = world.run(&files, &crate::world::passing());
    files.check(recorder.run()).unwrap();
}

#[test]
fn an_answer_that_was_recorded_but_not_shown_is_caught_up_with() {
    let mut world = World::new();
    let files = world.files();
    let (mut recorder, path) = on_hold(&mut world, &files);
    let open = std::fs::read(&path).unwrap();
    recorder.vote("bob", VoteDecision::Approved).unwrap();
    let resolved = std::fs::read(&path).unwrap();
    assert_ne!(open, resolved);
    std::fs::write(&path, &open).unwrap();
    world.files().check(recorder.run()).unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), resolved);
}

#[test]
fn a_second_hold_at_the_same_step_has_a_packet_of_its_own() {
    let mut world = World::new();
    let files = world.files();
    let script = Script::from([
        (("build", 1), built(1)),
        (("review", 1), verdict("needs_revision")),
        (("build", 2), built(2)),
        (("review", 2), verdict("needs_revision")),
        (("build", 3), built(3)),
        (("review", 3), verdict("needs_revision")),
    ]);
    let mut recorder = world.run(&files, &script);
    let run = name(&recorder);
    // The same hold again after it was let pass: by a process that died.
    recorder.vote("bob", VoteDecision::Approved).unwrap();
    let first = world.read(&format!("checkpoints/CP_{run}_4.yaml"));
    recorder.resume().unwrap();
    recorder.append(Event::Continued {}).unwrap();
    for number in 2..=11 {
        let Event::Held(mut held) = recorder.run().restart_hold() else { panic!() };
        assert_eq!(held.trigger, Trigger::RestartRequested);
        (held.step_index, held.phase) = (4, "review".to_owned());
        recorder.append(Event::Held(held)).unwrap();
        let packet = world.read(&format!("checkpoints/CP_{run}_4-{number}.yaml"));
        let packet = read_hold(packet.as_bytes()).unwrap();
        assert_eq!(packet.checkpoint_id.to_string(), format!("CP_{run}_4-{number}"));
        assert_eq!((packet.step_index, packet.trigger.as_str()), (4, "RESTART_REQUESTED"));
        files.check(recorder.run()).unwrap();
        recorder.vote("bob", VoteDecision::Approved).unwrap();
        recorder.resume().unwrap();
        recorder.append(Event::Continued {}).unwrap();
    }
    assert_eq!(world.read(&format!("checkpoints/CP_{run}_4.yaml")), first);
}

#[test]
fn two_people_are_both_shown() {
    let mut world = World::new();
    let files = world.files();
    let mut recorder = world.run(&files, &Script::from([(("review", 1), verdict("waive"))]));
    let read = |world: &World, recorder: &TestRecorder| {
        let packet = world.read(&format!("checkpoints/CP_{}_4.yaml", name(recorder)));
        read_hold(packet.as_bytes()).unwrap()
    };
    assert_eq!(read(&world, &recorder).approvals_needed, Some(2));
    recorder.vote("bob", VoteDecision::Approved).unwrap();
    let half = read(&world, &recorder);
    assert_eq!((half.approvals.len(), half.resolution), (1, None));
    recorder.vote("eve", VoteDecision::Approved).unwrap();
    let whole = read(&world, &recorder);
    let people: Vec<&str> = whole.approvals.iter().map(|one| one.by.as_str()).collect();
    assert_eq!(people, ["bob", "eve"]);
    assert_eq!(whole.resolution.unwrap().by.as_deref(), Some("eve"));
    files.check(recorder.run()).unwrap();
}

#[test]
fn a_hold_that_lapsed_stays_unresolved() {
    let mut world = World::new();
    let files = world.files();
    let (mut recorder, path) = on_hold(&mut world, &files);
    let open = std::fs::read(&path).unwrap();
    let (reason, detail) = ("checkpoint_expired".to_owned(), "nobody answered".to_owned());
    let ended = Event::Ended { outcome: RunOutcome::Blocked, reason, detail };
    recorder.append(ended).unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), open);
    files.check(recorder.run()).unwrap();
}
