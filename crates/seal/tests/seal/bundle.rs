//! Valid bundles, and runs of which no bundle is written.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt as _;

use base64::Engine as _;
use serde_json::{Value, json};
use windlass_kernel::run::Event;
use windlass_kernel::{ArtifactType, Code, Digest, TraceId};
use windlass_seal::{BundleError, BundleReport, BundleVerdict, IfExists, referenced_calls};
use windlass_store::conformance::fixture::{Ending, Fixture};

use crate::world::{
    BASE, COMMIT, CONTENT, World, archive, call_of, check, committed, done, ended, member, members,
    run_of, signer, started, trusting,
};

#[test]
fn a_bundle_contains_a_whole_run() {
    let world = World::new();
    let report = check(&world.bytes(), &trusting(&[&signer(0)]));
    let expected = BundleReport {
        faults: Vec::new(),
        signer: Some(signer(0).public().id()),
        trusted: true,
        run_id: "run-1".into(),
        trace_id: Some(world.run),
        traces: 4,
        entries: 6 + 4 + 2 + 4,
        purged: 0,
        checkpoints: 1,
        blobs: 1,
        workspaces: 0,
        outcome: Some("PASS"),
        commit: Some(COMMIT.into()),
    };
    assert_eq!(report, expected);
    assert_eq!((report.verdict(), report.code()), (BundleVerdict::Intact, None));
}

#[test]
fn the_same_input_gives_the_bytes_of_another_tar_writer() {
    let (one, other) = (World::new().bytes(), World::new().bytes());
    assert!(one == other);
    let members = members(&one);
    assert!(archive(&members) == one, "another tar writer gives the same bytes");
    let names: Vec<&str> = members.iter().map(|(name, _)| name.as_str()).collect();
    assert!(names.is_sorted());
    let kinds: Vec<&str> = names.iter().map(|name| name.split('/').next().unwrap()).collect();
    let mut expected = vec!["blobs", "checkpoints", "heads.json"];
    expected.extend(["journal"; 4]);
    expected.extend(["keys", "manifest.json", "rotations.json", "signature.json"]);
    expected.extend(["statement.dsse.json", "statement.json"]);
    assert_eq!(kinds, expected);
}

#[test]
fn the_statement_is_an_in_toto_statement() {
    let world = World::new();
    let mut members = members(&world.bytes());
    let statement = member(&mut members, "statement.json").clone();
    let value: Value = serde_json::from_slice(&statement).unwrap();
    let head = &world.heads[0];
    let expected = json!({
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [{ "name": "main", "digest": { "gitCommit": COMMIT } }],
        "predicateType": "https://windlass.dev/run/v1",
        "predicate": {
            "run_id": "run-1",
            "trace_id": world.run,
            "head": { "entry_digest": head.entry_digest, "sequence_number": 6, "state": "TERMINAL" },
            "loop": { "id": "small", "variant": null, "version": "1",
                "digest": { "sha256": Digest::of(b"loop") } },
            "policy": { "digest": { "sha256": Digest::of(b"policy") } },
            "materials": [{ "name": "main", "digest": { "gitCommit": BASE } }],
            "byproducts": [{ "name": "notes/plan.md", "annotations": { "phase": "build" },
                "digest": { "sha256": Digest::of(CONTENT) } }],
            "outcome": "PASS",
            "reason": "pass",
            "started_at": "2026-05-28T20:26:40.000Z",
            "ended_at": "2026-05-28T20:26:45.000Z",
        },
    });
    assert_eq!(value, expected);
    let envelope: Value =
        serde_json::from_slice(member(&mut members, "statement.dsse.json")).unwrap();
    let base64 = base64::engine::general_purpose::STANDARD;
    assert_eq!(base64.decode(envelope["payload"].as_str().unwrap()).unwrap(), statement);
    assert_eq!(envelope["payloadType"], "application/vnd.in-toto+json");
    let signature = &envelope["signatures"][0];
    assert_eq!(signature["keyid"], json!(signer(0).public().id()));
    let kind = "application/vnd.in-toto+json";
    let mut signed = format!("DSSEv1 28 {kind} {} ", statement.len()).into_bytes();
    signed.extend(&statement);
    let signature = serde_json::from_value(signature["sig"].clone()).unwrap();
    assert!(signer(0).public().verifies(&signed, &signature));
}

#[test]
fn the_subject_of_a_run_without_a_commit_is_its_head() {
    let run = TraceId(Fixture::new().uuid());
    let mut plain = started();
    plain.base = None;
    let events = vec![Event::Started(Box::new(plain)), Event::Begun {}];
    let world = World::of(run, events, &[]);
    let bytes = world.bytes();
    let report = check(&bytes, &trusting(&[&signer(0)]));
    assert_eq!(
        (report.verdict(), report.outcome, report.commit),
        (BundleVerdict::Intact, None, None)
    );
    let statement: Value =
        serde_json::from_slice(member(&mut members(&bytes), "statement.json")).unwrap();
    let digest = world.heads[0].entry_digest;
    assert_eq!(statement["subject"], json!([{ "name": "run-1", "digest": { "sha256": digest } }]));
    assert_eq!(statement["predicate"]["materials"], json!([]));
    assert_eq!(statement["predicate"]["outcome"], Value::Null);
}

#[test]
fn purged_artifacts_are_counted() {
    for purge_run in [false, true] {
        let mut world = World::new();
        for (trace_id, records) in &mut world.records {
            if (*trace_id == world.run) == purge_run {
                records[1].body = None;
            }
        }
        let report = check(&world.bytes(), &trusting(&[&signer(0)]));
        assert_eq!(report.verdict(), BundleVerdict::Intact, "{:?}", report.faults);
        assert_eq!(report.purged, if purge_run { 1 } else { 3 });
        assert_eq!(
            report.outcome.is_some(),
            !purge_run,
            "a run that cannot be folded has no outcome"
        );
    }
}

#[test]
fn entries_after_the_given_head_are_left_out() {
    let mut world = World::new();
    let (head, _) = run_of(world.run, vec![Event::Started(Box::new(started())), Event::Begun {}]);
    world.heads = vec![head];
    let report = check(&world.bytes(), &trusting(&[&signer(0)]));
    assert_eq!(
        (report.verdict(), report.entries),
        (BundleVerdict::Intact, 2),
        "{:?}",
        report.faults
    );
}

#[test]
fn a_file_is_replaced_only_on_request() {
    let world = World::new();
    std::fs::write(world.path(), b"precious").unwrap();
    let error = world.write(&signer(0), IfExists::Fail).unwrap_err();
    assert!(matches!(error, BundleError::Exists { .. }), "{error}");
    assert_eq!(std::fs::read(world.path()).unwrap(), b"precious");
    world.write(&signer(0), IfExists::Replace).unwrap();
    let bytes = std::fs::read(world.path()).unwrap();
    assert_eq!(check(&bytes, &trusting(&[&signer(0)])).verdict(), BundleVerdict::Intact);
    let mode = world.path().metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "only the owner may read a journal");
}

#[track_caller]
fn refused(world: &World, code: Code, words: &str) {
    let error = world.refusal();
    assert_eq!(error.code(), code, "{error}");
    assert!(error.to_string().contains(words), "{error}");
}

#[test]
fn a_corrupt_journal_is_not_signed() {
    let mut world = World::new();
    let run = world.run;
    world.records.get_mut(&run).unwrap()[2].body = Some(b"{}".to_vec());
    refused(&world, Code::StateChecksumMismatch, "is not signed");

    let mut world = World::new();
    world.records.get_mut(&run).unwrap().remove(3);
    refused(&world, Code::StateSequenceGap, "is not signed");

    let mut world = World::new();
    world.records.get_mut(&run).unwrap().pop();
    refused(&world, Code::StateSequenceGap, "is not signed");

    let mut world = World::new();
    world.heads[0].entry_digest = Digest::of(b"another");
    refused(&world, Code::StateChecksumMismatch, "is not signed");
}

#[test]
fn inconsistent_parts_are_not_signed() {
    let mut world = World::new();
    let call = world.heads.pop().unwrap();
    refused(&world, Code::BundleInvalid, &format!("`{}`, which the run references", call.trace_id));

    let mut world = World::new();
    world.heads.remove(0);
    refused(&world, Code::BundleInvalid, "the run's own trace is missing");

    let mut world = World::new();
    world.run = world.heads[1].trace_id;
    refused(&world, Code::BundleInvalid, "`manifest.json` does not say");

    let mut world = World::new();
    world.run_id = "run-2".into();
    refused(&world, Code::BundleInvalid, "`manifest.json` does not say");

    let mut world = World::new();
    world.policy_hash = None;
    refused(&world, Code::BundleInvalid, "`manifest.json` does not say");

    let mut world = World::new();
    world.heads.push(world.heads[1]);
    refused(&world, Code::BundleInvalid, "is not valid as the name of the next member");
}

#[test]
fn bad_names_and_missing_parts_are_refused() {
    for name in ["../up", "a/b", "", "näh", &"long".repeat(30)] {
        let mut world = World::new();
        world.checkpoints.insert(name.to_owned(), b"{}".to_vec());
        refused(&world, Code::BundleInvalid, "is not valid as the name of the next member");
    }
    let mut world = World::new();
    world.checkpoints.insert("x".into(), b"{\"a\":1,\"a\":2}".to_vec());
    refused(&world, Code::BundleInvalid, "checkpoints/x.json");

    let mut world = World::new();
    world.keys.clear();
    refused(&world, Code::BundleInvalid, "keys/");

    let mut world = World::new();
    world.blob_digests.insert(Digest::of(b"never stored"));
    refused(&world, Code::BlobMissing, "blob");
}

#[test]
fn a_corrupt_blob_is_not_signed() {
    let world = World::new();
    let hex = Digest::of(CONTENT).to_string();
    let path = world.blobs().path().join(&hex[..2]).join(format!("{}.zst", &hex[2..]));
    let mut bytes = std::fs::read(&path).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    std::fs::write(&path, bytes).unwrap();
    refused(&world, Code::BundleInvalid, &hex);
}

#[test]
fn a_call_that_the_run_does_not_reference_must_reference_the_run() {
    // The plan id of the fixture's call is the trace id of the run.
    let fixture = Fixture::new();
    let call = fixture.call(Ending::Executing);
    let events = || vec![Event::Started(Box::new(started())), Event::Begun {}];
    let world = World::of(TraceId(call.plan_id.0), events(), std::slice::from_ref(&call));
    let report = check(&world.bytes(), &trusting(&[&signer(0)]));
    assert_eq!(
        (report.verdict(), report.traces),
        (BundleVerdict::Intact, 2),
        "{:?}",
        report.faults
    );
    let world = World::of(TraceId(fixture.uuid()), events(), std::slice::from_ref(&call));
    let foreign = format!("trace `{}` does not belong", call.trace_id);
    refused(&world, Code::BundleInvalid, &foreign);
}

#[test]
fn a_referenced_call_must_match_the_reference() {
    let fixture = Fixture::new();
    let (ended_call, pending) = (fixture.call(Ending::Completed), fixture.call(Ending::Completed));
    let run = TraceId(fixture.uuid());
    let with = |calls| {
        let started_phase = Event::PhaseStarted { phase: "build".into(), attempt: 1 };
        let begun = [Event::Started(Box::new(started())), Event::Begun {}, started_phase];
        let mut events = begun.to_vec();
        events.extend([done(calls, BTreeMap::new()), committed(), ended()]);
        World::of(run, events, &[ended_call.clone(), pending.clone()])
    };
    // A call that had not ended when it was referenced may have more entries now.
    let mut early = call_of(&pending);
    (early.entry_digest, early.state) =
        (pending.head_after(1).entry_digest, windlass_kernel::State::Pending);
    let report = check(&with(vec![call_of(&ended_call), early]).bytes(), &trusting(&[&signer(0)]));
    assert_eq!(report.verdict(), BundleVerdict::Intact, "{:?}", report.faults);
    // A call that had ended may not.
    for change in [1, 2] {
        let mut wrong = call_of(&pending);
        match change {
            1 => wrong.entry_digest = pending.head_after(3).entry_digest,
            _ => wrong.state = windlass_kernel::State::Failed,
        }
        let world = with(vec![call_of(&ended_call), wrong]);
        refused(&world, Code::BundleInvalid, "does not match the run's reference to it");
    }
}

#[test]
fn references_to_calls_are_read_from_each_artifact() {
    let world = World::new();
    let mut calls = Vec::new();
    for record in &world.records[&world.run] {
        let body = record.body.as_deref().unwrap();
        calls.extend(referenced_calls(record.entry.artifact_type, body).unwrap());
    }
    let expected: Vec<TraceId> = world.heads[1..].iter().map(|head| head.trace_id).collect();
    assert_eq!(calls, expected);
    assert!(referenced_calls(ArtifactType::RunEvent, b"{}").is_err());
}
