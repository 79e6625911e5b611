//! Consensus: a quorum of reviewers decides, in any order of reviews.

use serde_json::{Value, json};
use windlass_kernel::run::VoteDecision::{Approved, Rejected};
use windlass_kernel::run::plan::{Doer, Effect, Phase, Plan, Trigger};
use windlass_kernel::run::{
    Event, HoldRequest, Next, PhaseStatus, Resolution, Run, Vote, VoteDecision, Work,
};
use windlass_kernel::{Digest, Head, State};
use windlass_testkit::people;

use crate::run::harness::{Act, Lab, Script, done, invoke, started};
use crate::run::plans::{agreed, consensus, gate, person, phase, redo, serial, with};

fn asking(quorum: u32, reviewers: &[&str], rejected: Effect) -> Plan {
    serial(vec![
        phase("a", &[]),
        with(phase("c", &["a"]), |phase| {
            phase.doer = consensus(quorum, reviewers);
            phase.gate = agreed(rejected);
        }),
    ])
}

fn asked(quorum: u32, reviewers: &[&str]) -> Lab {
    with(Lab::new(asking(quorum, reviewers, Effect::Block)), |lab| {
        while lab.run.phases[1].status != PhaseStatus::Running {
            match lab.run.next() {
                Next::Record(event) => lab.record(*event),
                _ => {
                    let done = Box::new(done(json!({})));
                    lab.record(Event::PhaseDone { phase: "a".into(), attempt: 1, done });
                }
            }
        }
    })
}

fn held(lab: &mut Lab) -> HoldRequest {
    let Next::Record(event) = lab.run.next() else { panic!("{:?}", lab.run.next()) };
    let Event::Held(held) = *event.clone() else { panic!("{event:?}") };
    lab.record(*event);
    *held
}

fn answer(run: &Run) -> Value {
    run.phases[1].done.as_ref().unwrap().answer.clone()
}

fn refused(lab: &Lab, event: &Event, why: &str) {
    let error = lab.takes(event).unwrap_err();
    assert!(error.contains(why), "{error}");
}

/// Folds an event without encoding it, because there are many runs.
fn add(run: &Run, event: &Event, lab: &Lab) -> Run {
    let mut run = run.clone();
    let to = event.to_state_from(run.head.state.unwrap_or(State::Init));
    let head = Head { sequence_number: run.head.sequence_number + 1, state: Some(to), ..run.head };
    run.apply(event, Digest::of(b"shown"), lab.ts(), head).unwrap();
    run
}

/// The reviews so far: name, verdict and condition.
type Said = Vec<(String, VoteDecision, Option<String>)>;

/// All sequences of reviews, each compared with plain counting.
struct Every<'a> {
    lab: &'a Lab,
    names: &'a [&'a str],
    quorum: usize,
    /// Whether approvals can also have conditions.
    bound: bool,
    ends: usize,
}

impl Every<'_> {
    fn verdict(&self, said: &Said) -> Option<VoteDecision> {
        let yes = said.iter().filter(|(_, decision, _)| *decision == Approved).count();
        let left = self.names.len() - said.len();
        if yes >= self.quorum {
            Some(Approved)
        } else if yes + left < self.quorum {
            Some(Rejected)
        } else {
            None
        }
    }

    fn walk(&mut self, run: &Run, said: &Said) {
        if let Some(verdict) = self.verdict(said) {
            return self.end(run, said, verdict);
        }
        match run.next() {
            Next::Perform(works) => {
                let [Work::Review { phase: 1, reviewer, attempt: 1 }] = works[..] else {
                    panic!("{works:?}")
                };
                let name = self.names[reviewer];
                // Agents come first, in their order.
                let agents = self.names.iter().filter(|name| name.starts_with('a'));
                assert_eq!(agents.clone().nth(said.len()), Some(&name));
                let verdicts = ["approved", "rejected", "approved_with_conditions"];
                for verdict in &verdicts[..if self.bound { 3 } else { 2 }] {
                    let event = self.lab.review(1, name, verdict);
                    let decision = if *verdict == "rejected" { Rejected } else { Approved };
                    let bound = *verdict == "approved_with_conditions";
                    let condition = bound.then(|| format!("{name} wants it short"));
                    let more = (name.to_owned(), decision, condition);
                    self.walk(&add(run, &event, self.lab), &[said.clone(), vec![more]].concat());
                }
            }
            Next::Record(event) => {
                let Event::Held(held) = *event.clone() else { panic!("{event:?}") };
                assert_eq!(held.trigger, Trigger::ConsensusRequested);
                let people = self.names.iter().filter(|name| !name.starts_with('a'));
                assert_eq!(held.reviewers, people.copied().collect::<Vec<_>>());
                self.walk(&add(run, &event, self.lab), said);
            }
            Next::Wait => self.ask(run, said),
            other => panic!("{other:?}"),
        }
    }

    fn ask(&mut self, run: &Run, said: &Said) {
        let hold = run.hold.as_ref().unwrap();
        assert_eq!(hold.resolution(), Resolution::Open);
        let open = |name: &&&str| !said.iter().any(|(by, ..)| by == **name);
        let people = self.names.iter().filter(|name| !name.starts_with('a')).filter(open);
        let people: Vec<&str> = people.copied().collect();
        let answers = [(Approved, false), (Rejected, false), (Approved, true)];
        for by in &people {
            for (decision, bound) in answers.into_iter().take(if self.bound { 3 } else { 2 }) {
                let condition = bound.then(|| format!("if {by} may look again"));
                let conditions: Vec<String> = condition.iter().cloned().collect();
                let vote = people::vote(&run.head, by, decision, "so", &conditions, hold.shown);
                let more = ((*by).to_owned(), decision, condition);
                let run = add(run, &Event::Voted(vote), self.lab);
                self.walk(&run, &[said.clone(), vec![more]].concat());
            }
        }
    }

    fn end(&mut self, run: &Run, said: &Said, verdict: VoteDecision) {
        self.ends += 1;
        let run = if run.head.state == Some(State::Checkpoint) {
            let resolution = run.hold.as_ref().unwrap().resolution();
            let wanted =
                if verdict == Approved { Resolution::Approved } else { Resolution::Rejected };
            assert_eq!(resolution, wanted, "{said:?}");
            add(run, &Event::Resumed { by: "ann".into(), worked_ms: None }, self.lab)
        } else {
            run.clone()
        };
        let conditions: Vec<&String> = said.iter().filter_map(|(.., one)| one.as_ref()).collect();
        let (word, conditions) = match verdict {
            Approved if conditions.is_empty() => ("approved", vec![]),
            Approved => ("approved_with_conditions", conditions),
            Rejected => ("rejected", vec![]),
        };
        let answer = answer(&run);
        assert_eq!(answer["verdict"], word, "{said:?}");
        assert_eq!(answer["conditions"], json!(conditions), "{said:?}");
        let by: Vec<&str> = answer["reviews"]
            .as_array()
            .unwrap()
            .iter()
            .filter_map(|one| one["by"].as_str())
            .collect();
        assert_eq!(by, said.iter().map(|(by, ..)| by.as_str()).collect::<Vec<_>>());
        let complete = run.phases[1].status == PhaseStatus::Complete;
        assert_eq!(complete, verdict == Approved);
    }
}

#[test]
fn a_quorum_of_reviewers_decides() {
    let mut ends = 0;
    for count in 1..=5 {
        for mask in 0..1_u32 << count {
            let name = |at: u32| match mask >> at & 1 {
                0 => format!("a{at}"),
                _ => format!("p{at}"),
            };
            let names: Vec<String> = (0..count).map(name).collect();
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            for quorum in 1..=count {
                let lab = asked(quorum, &names);
                let (quorum, bound) = (quorum as usize, count <= 3);
                let mut every = Every { lab: &lab, names: &names, quorum, bound, ends: 0 };
                every.walk(&lab.run, &Vec::new());
                ends += every.ends;
            }
        }
    }
    assert!(ends > 10_000, "{ends}");
}

#[test]
fn agents_review_first_then_people_complete_the_quorum() {
    let mut lab = asked(3, &["bob", "a1", "cid", "a2", "dan"]);
    refused(&lab, &lab.review(1, "a2", "approved"), "not the next to review");
    refused(&lab, &lab.review(1, "bob", "approved"), "not the next to review");
    refused(&lab, &lab.review(1, "eve", "approved"), "not the next to review");
    lab.record(lab.review(1, "a1", "approved_with_conditions"));
    refused(&lab, &lab.review(1, "a1", "approved"), "not the next to review");
    lab.record(lab.review(1, "a2", "rejected"));
    refused(&lab, &lab.review(1, "bob", "approved"), "not the next to review");
    let held = held(&mut lab);
    assert_eq!((held.approvals, held.rejections), (2, 2));
    assert_eq!(held.reviewers, ["bob", "cid", "dan"]);
    assert_eq!((held.question.as_str(), held.checklist.len()), ("do you agree?", 1));
    assert_eq!(held.evidence["quorum"], 3);
    assert_eq!(held.evidence["phases"]["a"]["status"], "complete");
    assert_eq!(held.evidence["reviews"][0]["verdict"], "approved_with_conditions");
    refused(&lab, &lab.vote("eve", Approved), "may not answer");
    refused(&lab, &lab.vote("a1", Approved), "may not answer");
    let Event::Voted(vote) = lab.vote("bob", Rejected) else { panic!() };
    let bound = Box::new(Vote { conditions: vec!["no".into()], ..*vote });
    refused(&lab, &Event::Voted(bound), "a rejection cannot have conditions");
    lab.record(lab.vote("dan", Rejected));
    refused(&lab, &lab.vote("dan", Approved), "same person");
    refused(&lab, &Event::Resumed { by: "ann".into(), worked_ms: None }, "not been answered");
    lab.record(lab.vote_if("bob", "tests first"));
    lab.record(lab.vote("cid", Approved));
    refused(&lab, &lab.vote("cid", Approved), "has been answered");
    lab.record(Event::Resumed { by: "ann".into(), worked_ms: None });
    let answer = answer(&lab.run);
    assert_eq!(answer["conditions"], json!(["a1 wants it short", "tests first"]));
    assert_eq!(answer["findings"], answer["conditions"]);
    assert_eq!(answer["checklist"], json!(["is it right?"]));
    assert_eq!(lab.run.phases[1].status, PhaseStatus::Complete);
}

#[test]
fn only_reviewers_end_a_consensus_and_only_they_have_conditions() {
    let mut lab = asked(1, &["a1"]);
    let approved = Box::new(done(json!({"verdict": "approved"})));
    let event = Event::PhaseDone { phase: "c".into(), attempt: 1, done: approved };
    refused(&lab, &event, "ends by answers or reviews");
    refused(&lab, &lab.review(0, "a1", "approved"), "not in progress");
    let Event::Reviewed { reviewer, verdict, reason, findings, .. } =
        lab.review(1, "a1", "rejected")
    else {
        panic!()
    };
    lab.record(Event::Reviewed {
        phase: "c".into(),
        attempt: 1,
        reviewer,
        verdict,
        conditions: vec!["as if".into()],
        reason,
        findings,
        usage: crate::run::harness::tokens(7),
        duration_ms: 1,
    });
    assert_eq!(answer(&lab.run)["conditions"], json!([]));
    assert_eq!(answer(&lab.run)["findings"], json!([["a1 rejected"]]));
    assert_eq!(lab.run.spent.tokens, 7);
    let plain = serial(vec![with(phase("a", &[]), |phase| phase.doer = person(1))]);
    let mut lab = Lab::new(plain);
    Script::new().walk(&mut lab);
    refused(&lab, &lab.vote_if("ann", "tests first"), "only a reviewer's approval");
    let mut lab = Lab::new(serial(vec![phase("a", &[])]));
    lab.record(Event::Begun {});
    lab.record(Event::PhaseStarted { phase: "a".into(), attempt: 1 });
    refused(&lab, &lab.review(0, "a1", "approved"), "has no reviewers");
}

#[test]
fn the_hold_asks_for_the_missing_votes() {
    let mut lab = asked(2, &["a1", "bob", "cid"]);
    refused(
        &lab,
        &Event::Held(Box::new(HoldRequest { ..asked_people(&lab) })),
        "still in progress",
    );
    lab.record(lab.review(1, "a1", "approved"));
    let good = asked_people(&lab);
    assert_eq!((good.approvals, good.rejections), (1, 2));
    assert_eq!(lab.takes(&Event::Held(Box::new(good.clone()))), Ok(()));
    for bad in [
        HoldRequest { approvals: 2, ..good.clone() },
        HoldRequest { rejections: 1, ..good.clone() },
        HoldRequest { reviewers: vec![], ..good.clone() },
        HoldRequest { reviewers: vec!["bob".into(), "cid".into(), "eve".into()], ..good.clone() },
        HoldRequest { trigger: Trigger::PersonRequested, ..good.clone() },
        HoldRequest { phase: "a".into(), ..good },
    ] {
        refused(&lab, &Event::Held(Box::new(bad)), "no cause");
    }
}

/// The hold of the people after the reviews of the agents.
fn asked_people(lab: &Lab) -> HoldRequest {
    let mut later = lab.clone();
    while let Next::Perform(works) = later.run.next() {
        let [Work::Review { reviewer, .. }] = works[..] else { panic!() };
        let name = crate::run::keeping::reviewer_name(&later.run, 1, reviewer);
        later.record(later.review(1, &name, "approved"));
    }
    held(&mut later)
}

#[test]
fn a_redo_asks_all_reviewers_again() {
    let mut lab = Lab::new(asking(2, &["a1", "a2", "bob"], redo("a", 1, Effect::Block)));
    let told = Script::new()
        .at("c/a1", 1, Act::Say("rejected"))
        .at("c/a2", 1, Act::Die)
        .votes(&[("bob", Rejected), ("bob", Approved)])
        .at("c/a2", 2, Act::Say("gibberish"))
        .walk(&mut lab);
    assert_eq!(
        told[3..],
        [
            "start c 1",
            "reviewed c/a1 1 rejected",
            "invoke c 1",
            "restarted",
            "reviewed c/a2 1 approved",
            "held 1 CONSENSUS_REQUESTED at c for 1",
            "bob REJECTED",
            "resumed",
            "continued",
            "back c/gate rejected -> a 1",
            "start a 2",
            "done a 2",
            "start c 2",
            "reviewed c/a1 2 approved",
            "reviewed c/a2 2 gibberish",
            "held 2 CONSENSUS_REQUESTED at c for 1",
            "bob APPROVED",
            "resumed",
            "continued",
            "ended PASS pass",
        ][..],
    );
    assert_eq!(lab.run.phases[1].reviews.len(), 3);
    assert!(lab.takes(&invoke(&lab, "c", 2)).is_err());
}

#[test]
fn a_rejection_sends_the_findings_of_those_who_rejected() {
    let mut lab = Lab::new(asking(2, &["a1", "a2"], redo("a", 1, Effect::Block)));
    Script::new().at("c/a2", 1, Act::Say("rejected")).walk(&mut lab);
    let back = lab.told().iter().position(|line| line.starts_with("back")).unwrap();
    let entries = lab.entries[..=back].to_vec();
    let then = Lab { entries, events: lab.events[..=back].to_vec(), ..lab }.refolded();
    assert_eq!(then.phases[0].findings, json!([["a2 rejected"]]));
    assert_eq!(then.phases[1].reviews, []);
}

#[test]
fn plans_with_an_impossible_consensus_are_refused() {
    let plan = |change: fn(&mut Phase)| {
        serial(vec![with(phase("a", &[]), |phase| {
            phase.doer = consensus(2, &["a1", "bob"]);
            phase.gate = agreed(Effect::Block);
            change(phase);
        })])
    };
    let refuses = |change: fn(&mut Phase), why: &str| {
        refused(&Lab::empty(), &started(plan(change)), why);
    };
    assert_eq!(Lab::empty().takes(&started(plan(|_| {}))), Ok(()));
    refuses(|phase| phase.doer = consensus(0, &["a1", "bob"]), "quorum");
    refuses(|phase| phase.doer = consensus(3, &["a1", "bob"]), "quorum");
    refuses(|phase| phase.doer = consensus(1, &[]), "quorum");
    refuses(|phase| phase.doer = consensus(1, &["bob", "bob"]), "distinct, non-empty names");
    refuses(|phase| phase.doer = consensus(1, &["a1", ""]), "distinct, non-empty names");
    refuses(|phase| phase.doer = consensus(1, &["a1", " \t"]), "distinct, non-empty names");
    refuses(|phase| phase.gate = None, "does not handle the verdict `approved`");
    refuses(
        |phase| phase.gate = gate(&[("approved", Effect::Continue), ("rejected", Effect::Block)]),
        "does not handle the verdict `approved_with_conditions`",
    );
    refuses(
        |phase| {
            phase.gate = gate(&[
                ("approved", Effect::Continue),
                ("approved_with_conditions", Effect::Continue),
            ]);
        },
        "does not handle the verdict `rejected`",
    );
    refuses(
        |phase| {
            let doer = std::mem::replace(&mut phase.doer, crate::run::plans::agent());
            assert!(matches!(doer, Doer::Consensus { .. }));
            let at = windlass_kernel::run::plan::CheckTiming::After;
            phase.checks =
                vec![with(crate::run::plans::check("x", at, &[]), |check| check.doer = doer)];
        },
        "done by a person",
    );
}

/// The answer of somebody whose key is one of several without protection of an account.
fn by_account(lab: &Lab, name: &str, decision: VoteDecision) -> Event {
    let shown = lab.run.hold.as_ref().unwrap().shown;
    Event::Voted(people::vote_for(&lab.run.head, name, "account one", decision, shown))
}

#[test]
fn rejections_of_one_account_count_as_they_are_shown() {
    let names = ["eve", "bob", "cid", "dan"];
    let mut lab = asked(2, &names);
    let asked_for = held(&mut lab);
    assert_eq!((asked_for.approvals, asked_for.rejections), (2, 3));
    for (at, name) in names.into_iter().take(3).enumerate() {
        let hold = lab.run.hold.as_ref().unwrap();
        assert_eq!((hold.resolution(), hold.count(Rejected)), (Resolution::Open, at));
        let vote = by_account(&lab, name, Rejected);
        lab.record(vote);
    }
    let hold = lab.run.hold.as_ref().unwrap();
    assert_eq!((hold.resolution(), hold.count(Rejected)), (Resolution::Rejected, 3));
    // A journal in which they counted as one has the fourth as well.
    let fourth = by_account(&lab, "dan", Rejected);
    lab.record(fourth);
    assert_eq!(lab.run.hold.as_ref().unwrap().resolution(), Resolution::Rejected);
    // Approvals of one account stay one.
    let mut lab = asked(2, &names);
    held(&mut lab);
    let vote = by_account(&lab, "eve", Approved);
    lab.record(vote);
    refused(&lab, &by_account(&lab, "bob", Approved), "already answered");
    assert_eq!(lab.run.hold.as_ref().unwrap().count(Approved), 1);
}
