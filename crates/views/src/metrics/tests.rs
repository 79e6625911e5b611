//! What lists and metrics say of holds.

use windlass_kernel::run::plan::{RunOutcome, Trigger};
use windlass_kernel::run::{Ended, Hold, HoldRequest, Run, Vote, VoteDecision};
use windlass_kernel::{Digest, Signature, Signed, Signer, Timestamp, TraceId, Uuid7};

use super::Metrics;
use crate::summary::RunSummary;

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_unix_ms(1_780_000_000_000 + seconds * 1000).unwrap()
}

fn vote() -> Vote {
    let by = Signed {
        approver: "person ann".to_owned(),
        key: Signer::from_seed(&[1; 32]).public(),
        name: "Ann".to_owned(),
        security_key: None,
        signature: Signature::from_bytes([0; 64]),
    };
    Vote {
        by,
        conditions: Vec::new(),
        decision: VoteDecision::Approved,
        edit: None,
        files: Vec::new(),
        reason: "it is right".to_owned(),
        send_back: None,
        shown: Digest::GENESIS,
    }
}

/// A run on hold since then, with these answers.
fn on_hold(since: i64, votes: Vec<Vote>) -> Run {
    let held = HoldRequest {
        approvals: 1,
        call: None,
        change: None,
        checklist: Vec::new(),
        expires_at: None,
        evidence: serde_json::Value::Null,
        number: 1,
        phase: "build".to_owned(),
        source: None,
        question: "may it go on?".to_owned(),
        rejections: 1,
        resource: None,
        reviewers: Vec::new(),
        step_index: 0,
        trigger: Trigger::PersonRequested,
    };
    let votes = votes.into_iter().map(|vote| (vote, at(since))).collect();
    let mut run = Run::empty(TraceId(Uuid7::from_parts(1, [1; 10])));
    run.hold = Some(Hold::new(held, Digest::GENESIS, at(since), votes));
    run
}

fn ended(mut run: Run) -> Run {
    let (outcome, reason) = (RunOutcome::Blocked, "kill_switch_active".to_owned());
    run.ended = Some(Ended { outcome, reason, detail: String::new(), at: at(99) });
    run
}

#[test]
fn metrics_count_open_holds_and_know_the_oldest() {
    let mut metrics = Metrics::default();
    let answered = on_hold(1, vec![vote()]);
    for run in [answered, on_hold(7, Vec::new()), on_hold(5, Vec::new()), on_hold(6, Vec::new())] {
        metrics.add(&run);
    }
    metrics.add(&ended(on_hold(2, Vec::new())));
    assert_eq!((metrics.waiting, metrics.waiting_since), (3, Some(at(5))));
}

#[test]
fn a_run_that_has_ended_is_listed_without_its_hold() {
    let waiting = on_hold(1, Vec::new());
    assert_eq!(RunSummary::of(&waiting).hold, waiting.hold);
    let ended = ended(waiting);
    let summary = RunSummary::of(&ended);
    assert_eq!((summary.hold, summary.ended), (None, ended.ended));
}
