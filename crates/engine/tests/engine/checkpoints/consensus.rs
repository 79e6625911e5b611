//! Consensus: agents review first, then people are asked; a rejection leads to revision.

use serde_json::{Value, json};
use windlass_kernel::Code;
use windlass_kernel::run::plan::{Doer, Effect, Phase, Plan, Reviewer, Trigger};
use windlass_kernel::run::{CheckpointKind, VoteDecision};
use windlass_testkit::engine::Votes as _;

use super::{calm, checkpoint, kept, names, world};
use crate::executors::{sh, with_answers};
use crate::plans::{gate, phase, plan, redo};
use crate::world::{end, trace};

fn consensus(quorum: u32) -> Phase {
    let agent = Reviewer::Agent { agent: "someone".to_owned(), prompt: None };
    let person = |name: &str| Reviewer::Person { name: name.to_owned() };
    let doer = Doer::Consensus {
        checklist: vec!["it is small".to_owned(), "it is tested".to_owned()],
        question: "Is it good?".to_owned(),
        quorum,
        reviewers: vec![agent, person("ann"), person("bob")],
    };
    let verdicts = [
        ("approved", Effect::Continue),
        ("approved_with_conditions", Effect::Continue),
        ("rejected", redo("build", 2, Effect::Block)),
    ];
    Phase { gate: gate("consensus", &verdicts), ..phase("consensus", &["build"], doer) }
}

fn agreed(quorum: u32) -> Plan {
    kept(plan(vec![phase("build", &[], sh("date +%N > a.txt; echo '{}'")), consensus(quorum)]))
}

fn reviews(list: &[Value]) -> Value {
    let list: Vec<Value> = list.iter().map(|answer| json!({"answer": answer})).collect();
    json!({"phases": {"consensus/someone": list}})
}

#[test]
fn agents_and_people_agree_with_conditions() {
    let world = world();
    let engine = calm(&world);
    let answers = reviews(&[json!({"verdict": "approved", "reason": "fine"})]);
    let run = engine.start(with_answers(agreed(2), answers)).unwrap();
    let held = &run.hold.as_ref().unwrap().held;
    assert_eq!(held.trigger, Trigger::ConsensusRequested);
    assert_eq!((held.approvals, held.rejections), (1, 2));
    assert_eq!(held.reviewers, ["ann", "bob"]);
    assert_eq!(held.checklist.len(), 2);
    assert_eq!(held.evidence["reviews"][0]["by"], "someone");
    assert_eq!(held.evidence["phases"]["build"]["status"], "complete");
    let id = trace(&run);
    let code =
        engine.vote(id, VoteDecision::Approved, "eve", "me too", None, &[]).unwrap_err().code();
    assert_eq!(code, Code::RequestInvalid);
    let conditions = ["add a test".to_owned()];
    engine.vote(id, VoteDecision::Approved, "bob", "nearly", None, &conditions).unwrap();
    let run = engine.resume(id).unwrap();
    assert_eq!(end(&run), ("PASS", "pass"), "{:?}", run.ended);
    let answer = &run.phases[1].done.as_ref().unwrap().answer;
    assert_eq!(answer["verdict"], "approved_with_conditions");
    assert_eq!(answer["conditions"], json!(["add a test"]));
    assert_eq!(answer["reviews"][1]["by"], "bob");
    let post = world.checkpoints().load(id, checkpoint(&world, &run, "POST_consensus_v1")).unwrap();
    assert_eq!(post.metadata["kind"], "approved");
    assert_eq!(post.metadata["approval"]["reviews"][0]["verdict"], "approved");
    world.verify();
}

#[test]
fn a_rejection_leads_to_revision_and_everybody_is_asked_again() {
    let world = world();
    let engine = calm(&world);
    let answers = reviews(&[
        json!({"verdict": "rejected", "reason": "too large", "findings": ["split it"]}),
        json!({"verdict": "approved"}),
    ]);
    let run = engine.start(with_answers(agreed(2), answers)).unwrap();
    let id = trace(&run);
    engine.vote(id, VoteDecision::Approved, "ann", "well", None, &[]).unwrap();
    let open = engine.read(id).unwrap();
    assert_eq!(open.hold.as_ref().unwrap().resolution(), windlass_kernel::run::Resolution::Open);
    engine.vote(id, VoteDecision::Rejected, "bob", "no", None, &[]).unwrap();
    let run = engine.resume(id).unwrap();
    // Back to build, and asked anew.
    assert_eq!(run.hold.as_ref().unwrap().held.trigger, Trigger::ConsensusRequested);
    assert_eq!(run.phases[0].attempt, 2);
    assert_eq!(run.phases[1].reviews.len(), 1);
    engine.vote(id, VoteDecision::Approved, "ann", "now", None, &[]).unwrap();
    let run = engine.resume(id).unwrap();
    assert_eq!(end(&run), ("PASS", "pass"), "{:?}", run.ended);
    let kinds: Vec<_> = world.checkpoints().list(id).unwrap().iter().map(|one| one.kind).collect();
    assert_eq!(kinds.iter().filter(|kind| **kind == CheckpointKind::Failed).count(), 1);
    assert!(names(&world, &run).contains(&"POST_consensus_v2".to_owned()));
    world.verify();
}

#[test]
fn agents_alone_can_decide_and_nonsense_is_a_no() {
    let world = world();
    let engine = calm(&world);
    let mut plan = agreed(1);
    if let Doer::Consensus { reviewers, .. } = &mut plan.phases[1].doer {
        reviewers.truncate(1);
    }
    let answers = reviews(&[json!({"verdict": "yes"}), json!({"verdict": "approved"})]);
    let run = engine.start(with_answers(plan, answers)).unwrap();
    assert_eq!(end(&run), ("PASS", "pass"), "{:?}", run.ended);
    assert_eq!(run.phases[1].attempt, 2);
}
