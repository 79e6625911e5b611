//! The sweep's own test: parts that are broken on purpose, each of which some invariant must catch.
//! The unbroken parts must pass the very same runs.

mod parts;
mod store_bugs;
mod table_bugs;

use std::sync::Arc;

use serde_json::json;
use windlass_connect::{Job, Reply};
use windlass_kernel::{ToolCallId, Uuid7};
use windlass_policy::{OnUncertain, Verdict};
use windlass_testkit::gateway::{Honest, Parts, RacedLease, Tally, World, explore, race, scenario};

use parts::{ConnectBug, DeathBug, StoreBug, SupervisorBug};

/// In which runs a bug must show.
#[derive(Clone, Copy)]
enum Run {
    /// A scenario with so many crashes in a row.
    Sweep(&'static str, usize),
    /// Two processes that meet.
    Race(&'static str, RacedLease),
}

impl Run {
    fn with(self, parts: &Arc<dyn Parts>) -> Tally {
        match self {
            Self::Sweep(name, crashes) => explore(&scenario(name), parts.as_ref(), crashes),
            Self::Race(name, lease) => race(&scenario(name), parts, lease),
        }
    }
}

struct Bug {
    name: &'static str,
    run: Run,
    parts: Arc<dyn Parts>,
}

fn bug(name: &'static str, run: Run, parts: impl Parts + 'static) -> Bug {
    Bug { name, run, parts: Arc::new(parts) }
}

fn was_dispatched(world: &World, job: &Job<'_>) -> bool {
    world.tools.lock().dispatches.iter().any(|past| past.tool_call_id == job.tool_call_id)
}

const FRESH: ToolCallId = ToolCallId(Uuid7::from_parts(7, [7; 10]));

fn connector_bugs() -> Vec<Bug> {
    let retry = Run::Sweep("retry", 1);
    vec![
        bug(
            "a fresh key on re-dispatch",
            retry,
            ConnectBug(|world, honest, job| {
                let again = was_dispatched(world, job);
                let idempotency_key = if again { Some("fresh") } else { job.idempotency_key };
                honest.perform(&Job { idempotency_key, ..*job })
            }),
        ),
        bug(
            "a fresh tool_call_id on re-dispatch",
            retry,
            ConnectBug(|world, honest, job| {
                let again = was_dispatched(world, job);
                let tool_call_id = if again { FRESH } else { job.tool_call_id };
                honest.perform(&Job { tool_call_id, ..*job })
            }),
        ),
        bug(
            "other arguments on re-dispatch",
            retry,
            ConnectBug(|world, honest, job| {
                let other = json!({ "value": 2 });
                let args = if was_dispatched(world, job) { &other } else { job.args };
                honest.perform(&Job { args, ..*job })
            }),
        ),
        bug(
            "a dispatch that is made twice",
            Run::Sweep("retry", 0),
            ConnectBug(|_, honest, job| {
                drop(honest.perform(job));
                honest.perform(job)
            }),
        ),
        bug(
            "the probe's answer ignored",
            Run::Sweep("probe", 1),
            ConnectBug(|_, honest, job| {
                let reply = honest.perform(job);
                let nothing = Reply::Success { result: json!({ "found": false }) };
                if job.tool == "find" { nothing } else { reply }
            }),
        ),
        bug(
            "a probe that always finds",
            Run::Sweep("probe", 1),
            ConnectBug(|_, honest, job| {
                let reply = honest.perform(job);
                let found = json!({ "found": true, "result": { "wrote": { "value": 1 } } });
                if job.tool == "find" { Reply::Success { result: found } } else { reply }
            }),
        ),
        bug(
            "the undo skipped",
            Run::Sweep("compensate", 1),
            ConnectBug(|_, honest, job| {
                let nothing = Reply::Success { result: json!({ "cancelled": "key-1" }) };
                if job.tool == "cancel" { nothing } else { honest.perform(job) }
            }),
        ),
        bug(
            "a dispatch that is not made",
            Run::Sweep("retry", 0),
            ConnectBug(|_, _, job| Reply::Success { result: json!({ "wrote": job.args }) }),
        ),
    ]
}

fn supervisor_bugs() -> Vec<Bug> {
    let judge = |judge| SupervisorBug { judge, prepare: |_| {} };
    let prepare = |prepare| SupervisorBug { judge: |_| {}, prepare };
    vec![
        bug(
            "a denied call executed",
            Run::Sweep("denied", 0),
            judge(|ruling| {
                ruling.verdict = Verdict::Allow;
            }),
        ),
        bug(
            "an asked call executed unasked",
            Run::Sweep("asked, then denied", 0),
            judge(|ruling| {
                if ruling.verdict == Verdict::Ask {
                    ruling.verdict = Verdict::Allow;
                }
            }),
        ),
        bug(
            "a hold executed blindly",
            Run::Sweep("hold, then denied", 1),
            prepare(|preparation| {
                preparation.on_uncertain = OnUncertain::Retry;
            }),
        ),
        bug(
            "a call re-dispatched instead of probed",
            Run::Sweep("probe", 1),
            prepare(|preparation| {
                preparation.on_uncertain = OnUncertain::Retry;
            }),
        ),
        bug(
            "a retry cap ignored",
            Run::Sweep("parked, then approved", 3),
            prepare(|preparation| {
                preparation.retries_max = u32::MAX;
            }),
        ),
    ]
}

fn store_bugs() -> Vec<Bug> {
    use store_bugs::{
        AckedNotWritten, ConflictExecuted, Deferred, HolderRobbed, LoserReleases, LostKey,
        LostTail, RedispatchUnrecorded, SkippedFence, SplitKey, Stale, TornBatch, Volatile,
    };
    let store = |make| StoreBug(make);
    let volatile = Volatile::default();
    vec![
        bug("an append kept in memory until the next", Run::Sweep("retry", 1), volatile),
        bug(
            "an effect acknowledged and not written",
            Run::Sweep("retry", 0),
            store(|inner, _| AckedNotWritten::over(inner)),
        ),
        bug(
            "a lost reservation",
            Run::Sweep("repeated", 0),
            store(|inner, _| LostKey::over(inner)),
        ),
        bug(
            "a reservation apart from its entry",
            Run::Sweep("retry", 1),
            store(|inner, world| SplitKey::over(inner, world)),
        ),
        bug(
            "a batch of entries torn apart",
            Run::Sweep("retry", 1),
            store(|inner, _| TornBatch::over(inner)),
        ),
        bug(
            "a write recorded with its effect",
            Run::Sweep("retry", 0),
            store(|inner, _| Deferred::over(inner)),
        ),
        bug(
            "a re-dispatch despite a recorded effect",
            Run::Sweep("retry", 1),
            store(|inner, world| Stale::ended(inner, world)),
        ),
        bug(
            "a decision made twice",
            Run::Sweep("decided twice", 0),
            store(|inner, world| Stale::decided(inner, world)),
        ),
        bug(
            "a re-dispatch that is not recorded",
            Run::Sweep("retry", 1),
            store(|inner, _| RedispatchUnrecorded::over(inner)),
        ),
        bug(
            "a conflict executed",
            Run::Sweep("conflict", 0),
            store(|inner, _| ConflictExecuted::over(inner)),
        ),
        bug("a trace without its tail after a crash", Run::Sweep("retry", 1), LostTail),
        bug(
            "a skipped fence",
            Run::Race("repeated", RacedLease::Lost),
            store(|inner, world| SkippedFence::over(inner, world)),
        ),
        bug(
            "a live holder robbed",
            Run::Race("repeated, probed", RacedLease::Kept),
            store(|inner, world| HolderRobbed::over(inner, world)),
        ),
        bug(
            "a holder's lock released by a loser",
            Run::Race("repeated, probed", RacedLease::Kept),
            store(|inner, world| LoserReleases::over(inner, world)),
        ),
    ]
}

fn table_bugs() -> Vec<Bug> {
    let retry = Run::Sweep("retry", 1);
    let asked = Run::Sweep("asked, then approved", 1);
    vec![
        bug("a truncated tail", retry, DeathBug(table_bugs::cut_tail)),
        bug("a swapped body", retry, DeathBug(table_bugs::swap_bodies)),
        bug("a removed body", retry, DeathBug(table_bugs::remove_body)),
        bug("reordered entries", retry, DeathBug(table_bugs::reorder)),
        bug("a duplicate entry", retry, DeathBug(table_bugs::duplicate)),
        bug("a rewritten entry", retry, DeathBug(table_bugs::rewrite)),
        bug("a checkpoint from the future", asked, DeathBug(table_bugs::future_checkpoint)),
        bug("a tampered checkpoint", asked, DeathBug(table_bugs::tampered_checkpoint)),
        bug("a key given to another trace", retry, DeathBug(table_bugs::stolen_key)),
    ]
}

#[test]
fn every_planted_bug_is_caught() {
    let bugs: Vec<Bug> = [connector_bugs(), supervisor_bugs(), store_bugs(), table_bugs()]
        .into_iter()
        .flatten()
        .collect();
    let honest: Arc<dyn Parts> = Arc::new(Honest);
    let mut missed = Vec::new();
    for Bug { name, run, parts } in &bugs {
        assert_eq!(run.with(&honest).violations, [], "{name}: the unbroken system must pass");
        let caught = run.with(parts).violations;
        match caught.first() {
            Some(violation) => println!("  {name}: {}", violation.invariant),
            None => missed.push(*name),
        }
    }
    println!("planted bugs: {} of {} caught", bugs.len() - missed.len(), bugs.len());
    assert_eq!(missed, [""; 0]);
}
