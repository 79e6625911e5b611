//! A run driven in memory: a real chain, a clock under the test's control, and all recorded events.

use std::collections::BTreeMap;

use serde_json::json;
use windlass_kernel::run::plan::Plan;
use windlass_kernel::run::{
    Change, Event, Next, PhaseResult, Resolution, Revocation, Run, RunEvent, Usage, VoteDecision,
    WaitsFor, Work,
};
use windlass_kernel::{
    ArtifactId, ArtifactType, ChainError, Digest, Draft, Entry, Head, State, Timestamp, TraceId,
    Transition,
};
use windlass_testkit::people;
use windlass_testkit::plans;
pub use windlass_testkit::plans::{done, failed as failure, id};

use crate::run::keeping::{name_of, reviewer_name};
use crate::run::tell::tell;

pub fn started(plan: Plan) -> Event {
    Event::Started(Box::new(plans::started(plan)))
}

/// One run with all its recorded events.
#[derive(Clone)]
pub struct Lab {
    pub run: Run,
    pub entries: Vec<(Entry, Vec<u8>)>,
    pub events: Vec<(Event, Digest)>,
    pub now: i64,
}

/// Folds one more entry from the journal's bytes.
fn follow(run: &mut Run, entry: &Entry, body: &[u8], head: Head) -> Result<(), ChainError> {
    assert_eq!(Digest::of(body), entry.artifact_digest);
    let event = RunEvent::of_entry(entry, body)?;
    run.apply(&event.event, entry.artifact_digest, entry.ts, head)
}

impl Lab {
    pub fn empty() -> Self {
        let run = Run::empty(TraceId(id(1)));
        Self {
            run,
            entries: Vec::new(),
            events: Vec::new(),
            now: i64::try_from(plans::START_MS).unwrap(),
        }
    }

    pub fn new(plan: Plan) -> Self {
        let mut lab = Self::empty();
        lab.record(started(plan));
        lab
    }

    pub fn ts(&self) -> Timestamp {
        Timestamp::from_unix_ms(self.now).unwrap()
    }

    /// Creates the entry of an event, as a recorder does.
    pub fn entry(&self, event: &Event) -> Result<(Entry, Vec<u8>, Head), String> {
        let head = self.run.head;
        let artifact_id = ArtifactId(id(1000 + head.sequence_number));
        let body = RunEvent::new(head.trace_id, artifact_id, self.ts(), event.clone());
        let body = body.to_bytes().unwrap();
        let from = head.state.unwrap_or(State::Init);
        let draft = Draft {
            ts: self.ts(),
            transition: Transition {
                from,
                to: event.to_state_from(from),
                artifact: ArtifactType::RunEvent,
            },
            artifact_id,
            artifact_digest: Digest::of(&body),
            tool_call_id: None,
            idempotency_key: None,
        };
        let (entry, head) = head.append(draft).map_err(|error| error.to_string())?;
        Ok((entry, body, head))
    }

    /// Records an event that must be possible, and the checkpoint that becomes due.
    pub fn record(&mut self, event: Event) {
        self.record_only(event);
        if let Some(checkpoint) = self.due_checkpoint() {
            self.record_only(checkpoint);
        }
    }

    /// Records an event that must be possible.
    pub fn record_only(&mut self, event: Event) {
        let (entry, body, head) = self.entry(&event).unwrap();
        if let Err(error) = follow(&mut self.run, &entry, &body, head) {
            panic!("{error}\nafter {:#?}", self.told());
        }
        self.events.push((event, entry.artifact_digest));
        self.entries.push((entry, body));
    }

    /// Whether an event can be recorded now.
    pub fn takes(&self, event: &Event) -> Result<(), String> {
        let (entry, body, head) = self.entry(event)?;
        follow(&mut self.run.clone(), &entry, &body, head).map_err(|error| error.to_string())
    }

    /// The run folded again from its events.
    pub fn refolded(&self) -> Run {
        let mut run = Run::empty(self.run.head.trace_id);
        for ((event, digest), (entry, _)) in self.events.iter().zip(&self.entries) {
            let head = run.head.follow(entry).unwrap();
            run.apply(event, *digest, entry.ts, head).unwrap();
        }
        run
    }

    /// The run folded again from the journal's bytes.
    pub fn reread(&self) -> Run {
        let mut run = Run::empty(self.run.head.trace_id);
        for (entry, body) in &self.entries {
            let head = run.head.admit(entry, &mut Vec::new()).unwrap();
            follow(&mut run, entry, body, head).unwrap();
        }
        run
    }

    pub fn told(&self) -> Vec<String> {
        self.events.iter().map(|(event, _)| tell(event)).collect()
    }

    pub fn revoke(&self, by: &str) -> Event {
        let shown = self.run.hold.as_ref().map_or(Digest::GENESIS, |hold| hold.shown);
        let reason = "a mistake".to_owned();
        let statement = Revocation::statement(&self.run.head, &reason, shown);
        let by = people::signed(by, &statement);
        Event::Revoked(Box::new(Revocation { by, reason, shown }))
    }

    pub fn vote(&self, by: &str, decision: VoteDecision) -> Event {
        let shown = self.run.hold.as_ref().map_or(Digest::GENESIS, |hold| hold.shown);
        Event::Voted(people::vote(&self.run.head, by, decision, "because", &[], shown))
    }
}

pub fn changed(diff: &str, lines: u64) -> Change {
    let diff_digest = Digest::of(diff.as_bytes());
    Change { commit: None, diff_digest, files: vec!["a".into()], lines, tree: "t".into() }
}

pub fn tokens(count: u64) -> Usage {
    Usage { input_tokens: count, ..Usage::default() }
}

/// The scripted action for one piece of work.
#[derive(Clone)]
pub enum Act {
    /// The work ends with this result.
    Done(PhaseResult),
    /// The check or gate gives this verdict.
    Say(&'static str),
    /// A call goes on hold.
    Wait,
    /// An invocation begins and the process dies; the run is restarted.
    Die,
    /// The branch has a conflict.
    Conflict,
}

/// The scripted actions of a run; unscripted work succeeds.
#[derive(Clone, Default)]
pub struct Script {
    acts: BTreeMap<(String, u32), Vec<Act>>,
    votes: Vec<(&'static str, VoteDecision)>,
    pub work_ms: i64,
}

impl Script {
    pub fn new() -> Self {
        Self { work_ms: 1000, ..Self::default() }
    }

    /// For this attempt of a phase, or of its check as `phase/check`; a second call: the next time.
    pub fn at(mut self, name: &str, attempt: u32, act: Act) -> Self {
        self.acts.entry((name.into(), attempt)).or_default().push(act);
        self
    }

    pub fn votes(mut self, votes: &[(&'static str, VoteDecision)]) -> Self {
        self.votes.extend_from_slice(votes);
        self
    }

    fn act(&mut self, name: &str, attempt: u32) -> Option<Act> {
        let acts = self.acts.get_mut(&(name.to_owned(), attempt))?;
        (!acts.is_empty()).then(|| acts.remove(0))
    }

    /// Drives a run until it ends or gets no answer; returns the events after `started`.
    pub fn walk(mut self, lab: &mut Lab) -> Vec<String> {
        let from = lab.events.len();
        for _ in 0..10_000 {
            match lab.run.next() {
                Next::Nothing => panic!("nothing was recorded"),
                Next::Record(event) => lab.record(*event),
                Next::Perform(works) => self.perform(lab, works[0]),
                Next::Wait => {
                    if !self.answer(lab) {
                        return lab.told().split_off(from);
                    }
                }
                Next::Done => {
                    assert!(self.acts.values().all(Vec::is_empty), "not all of the script came");
                    assert!(self.votes.is_empty(), "not everybody was asked");
                    assert_eq!(lab.reread(), lab.run);
                    return lab.told().split_off(from);
                }
            }
        }
        panic!("it does not end: {:#?}", lab.told());
    }

    fn perform(&mut self, lab: &mut Lab, work: Work) {
        let (at, attempt, check) = match work {
            Work::Check { phase, check, attempt } => (phase, attempt, Some(check)),
            Work::Do { phase, attempt } => (phase, attempt, None),
            Work::Review { phase, reviewer, attempt } => {
                let name = reviewer_name(&lab.run, phase, reviewer);
                let act = self.act(&format!("{}/{name}", name_of(&lab.run, phase)), attempt);
                lab.now += self.work_ms;
                return match act {
                    Some(Act::Die) => die(lab, &name_of(&lab.run, phase), attempt),
                    Some(Act::Say(verdict)) => lab.record(lab.review(phase, &name, verdict)),
                    _ => lab.record(lab.review(phase, &name, "approved")),
                };
            }
            Work::Merge { phase, attempt } => {
                let act = self.act(&format!("{}/merge", name_of(&lab.run, phase)), attempt);
                return lab.merge(phase, matches!(act, Some(Act::Conflict)));
            }
            Work::Restore => return lab.record(Event::RolledBack { change: None }),
            Work::Setup => unreachable!("no plan of these tests has a setup"),
        };
        let (phase, state) = lab.run.phase(at).unwrap();
        assert_eq!(state.attempt, attempt);
        let (phase, check) = (phase.clone(), check.map(|check| phase.checks[check].clone()));
        let name = phase.id.clone();
        let verdicts = check.as_ref().map(|check| &check.verdicts);
        let calm = verdicts
            .or(phase.gate.as_ref().map(|gate| &gate.verdicts))
            .and_then(|all| all.keys().find(|key| ["approved", "ok"].contains(&key.as_str())))
            .cloned()
            .unwrap_or_default();
        let key = check.as_ref().map_or(name.clone(), |check| format!("{name}/{}", check.id));
        let act = self.act(&key, attempt);
        lab.now += self.work_ms;
        let verdict = match &act {
            Some(Act::Wait) => {
                let waits_for = WaitsFor::Call { call: TraceId(id(7)) };
                let question = "may it?".into();
                return lab.record(Event::Waiting {
                    phase: name,
                    attempt,
                    change: None,
                    evidence: serde_json::Value::Null,
                    question,
                    waits_for,
                });
            }
            Some(Act::Die) => return die(lab, &name, attempt),
            Some(Act::Say(verdict)) => (*verdict).to_owned(),
            Some(Act::Done(_) | Act::Conflict) | None => calm,
        };
        if let Some(check) = check {
            return lab.record(Event::Checked {
                phase: name,
                attempt,
                check: check.id,
                verdict,
                reason: String::new(),
                findings: json!([format!("{key} {attempt}")]),
                usage: Usage::default(),
                duration_ms: 1,
            });
        }
        let answer = json!({"verdict": verdict, "findings": [format!("{key} {attempt}")]});
        let mut done = match act {
            Some(Act::Done(done)) => done,
            Some(Act::Say(_) | Act::Wait | Act::Die | Act::Conflict) | None => done(answer.clone()),
        };
        if done.answer.is_null() {
            done.answer = answer;
        }
        lab.record(Event::PhaseDone { phase: name, attempt, done: Box::new(done) });
    }

    /// Votes and resumes the run, or lets it end.
    fn answer(&mut self, lab: &mut Lab) -> bool {
        let hold = lab.run.hold.clone().unwrap();
        // Time on hold is long and is not counted.
        lab.now += 3_600_000;
        match hold.resolution() {
            Resolution::Open if self.votes.is_empty() => return false,
            Resolution::Open => {
                let (by, decision) = self.votes.remove(0);
                lab.record(lab.vote(by, decision));
            }
            Resolution::Rejected if !lab.run.continues_after_rejection(&hold) => {
                assert!(lab.takes(&Event::Resumed { by: "ann".into(), worked_ms: None }).is_err());
                lab.record(ended("checkpoint_rejected"));
            }
            Resolution::Approved | Resolution::Rejected => {
                lab.record(Event::Resumed { by: "ann".into(), worked_ms: None });
            }
        }
        true
    }
}

pub fn ended(reason: &str) -> Event {
    let outcome = windlass_kernel::run::plan::RunOutcome::Blocked;
    Event::Ended { outcome, reason: reason.into(), detail: String::new() }
}

fn die(lab: &mut Lab, phase: &str, attempt: u32) {
    lab.record(invoke(lab, phase, attempt));
    lab.now += 86_400_000;
    lab.record(Event::Restarted { by: "ann".into() });
}

pub fn invoke(lab: &Lab, phase: &str, attempt: u32) -> Event {
    Event::InvocationStarted {
        phase: phase.into(),
        attempt,
        invocation: lab.run.invocations + 1,
        agent: "a".into(),
        runner: "script".into(),
        model: None,
        parent: None,
    }
}
