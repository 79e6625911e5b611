//! The setup of a work tree before the first phase, and the merge after the end.

use serde_json::json;
use windlass_kernel::run::plan::{RunOutcome, Trigger};
use windlass_kernel::run::{
    CopiedFile, Event, Failure, Integration, IntegrationStep, MergeStrategy, Next, PortRange,
    Setup, SetupStep, VoteDecision, Work,
};
use windlass_kernel::{Digest, State};
use windlass_testkit::plans;

use crate::run::harness::{Lab, done};
use crate::run::plans::{phase, serial};

fn argv(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

/// A run whose work tree needs two commands, at its beginning.
pub fn begun() -> Lab {
    let mut started = plans::started(serial(vec![phase("a", &[])]));
    started.setup = Some(Setup {
        commands: vec![argv(&["npm", "ci"]), argv(&["make"])],
        copy: argv(&[".env.local"]),
        ports: Some(PortRange { count: 2, first: 4000 }),
        timeout_seconds: 600,
    });
    let mut lab = Lab::empty();
    lab.record(Event::Started(Box::new(started)));
    lab.record(Event::Begun {});
    lab
}

/// A run that has passed.
pub fn passed() -> Lab {
    let mut lab = Lab::new(serial(vec![phase("a", &[])]));
    lab.record(Event::Begun {});
    work(&mut lab);
    lab
}

fn work(lab: &mut Lab) {
    lab.record(Event::PhaseStarted { phase: "a".into(), attempt: 1 });
    let done = Box::new(done(json!({})));
    lab.record(Event::PhaseDone { phase: "a".into(), attempt: 1, done });
    lab.record(Event::Ended {
        outcome: RunOutcome::Pass,
        reason: "pass".into(),
        detail: String::new(),
    });
}

fn step(step: SetupStep) -> Event {
    Event::Setup(Box::new(step))
}

fn start(attempt: u32) -> Event {
    let path = ".env.local".to_owned();
    let file = CopiedFile { bytes: 1, digest: Digest::of(b"a"), mode: 0o600, path };
    step(SetupStep::Started { attempt, files: vec![file] })
}

fn command(command: u32, words: &[&str]) -> Event {
    step(SetupStep::CommandStarted { command, argv: argv(words) })
}

fn failure() -> Option<Failure> {
    Some(Failure { class: "critical_failure".into(), reason: "exit 1".into() })
}

fn end(command: u32, failure: Option<Failure>) -> Event {
    step(SetupStep::CommandEnded { command, duration_ms: 1, output: String::new(), failure })
}

fn ended(failure: Option<Failure>) -> Event {
    step(SetupStep::Ended { failure })
}

#[test]
fn no_phase_starts_before_the_setup_is_complete_and_it_is_done_once() {
    let mut lab = begun();
    let first = Event::PhaseStarted { phase: "a".into(), attempt: 1 };
    let setup = Next::Perform(vec![Work::Setup]);
    assert_eq!(lab.run.next(), setup);
    assert!(lab.takes(&first).is_err());
    lab.record(start(1));
    assert_eq!(lab.run.setup.files.len(), 1);
    // In their order, each once, as they were planned.
    assert!(lab.takes(&command(2, &["make"])).is_err());
    assert!(lab.takes(&command(1, &["make"])).is_err());
    assert!(lab.takes(&ended(None)).is_err());
    lab.record(command(1, &["npm", "ci"]));
    assert!(lab.takes(&ended(failure())).is_err());
    lab.record(end(1, None));
    assert!(lab.takes(&ended(None)).is_err());
    lab.record(command(2, &["make"]));
    lab.record(end(2, None));
    assert_eq!(lab.run.next(), setup);
    lab.record(ended(None));
    assert!(lab.run.setup.complete);
    assert!(lab.takes(&start(2)).is_err());
    assert_eq!(lab.run.next(), Next::Record(Box::new(first)));
    work(&mut lab);
    assert_eq!(lab.refolded(), lab.run);
}

#[test]
fn after_a_crash_it_is_run_from_its_first_command() {
    let mut lab = begun();
    lab.record(start(1));
    lab.record(command(1, &["npm", "ci"]));
    lab.record(end(1, None));
    lab.record(command(2, &["make"]));
    lab.record(Event::Restarted { by: "ann".into() });
    assert_eq!(lab.run.next(), Next::Perform(vec![Work::Setup]));
    assert!(lab.takes(&start(1)).is_err());
    lab.record(start(2));
    assert!(lab.takes(&command(2, &["make"])).is_err());
    lab.record(command(1, &["npm", "ci"]));
}

#[test]
fn a_failure_holds_the_run_until_a_person_lets_it_be_repeated() {
    let mut lab = begun();
    lab.record(start(1));
    lab.record(command(1, &["npm", "ci"]));
    lab.record(end(1, failure()));
    assert!(lab.takes(&command(2, &["make"])).is_err());
    assert!(lab.takes(&ended(None)).is_err());
    lab.record(ended(failure()));
    let Next::Record(held) = lab.run.next() else { panic!("{:?}", lab.run.next()) };
    let Event::Held(request) = held.as_ref() else { panic!("{held:?}") };
    assert_eq!(request.trigger, Trigger::SetupFailed);
    assert!(request.question.contains("exit 1"), "{}", request.question);
    assert!(lab.takes(&start(2)).is_err());
    lab.record(*held);
    assert_eq!(lab.run.next(), Next::Wait);
    lab.record(lab.vote("ann", VoteDecision::Approved));
    lab.record(Event::Resumed { by: "ann".into(), worked_ms: None });
    lab.record(Event::Continued {});
    assert_eq!(lab.run.next(), Next::Perform(vec![Work::Setup]));
    lab.record(start(2));
}

#[test]
fn every_command_knows_the_run_and_its_port() {
    let started = begun().run.started.unwrap();
    let variables = started.variables();
    assert_eq!(variables["WINDLASS_RUN"], started.run_id);
    assert_eq!(variables["WINDLASS_PORT"], "4000");
    let without = plans::started(serial(vec![phase("a", &[])])).variables();
    assert!(without.contains_key("WINDLASS_RUN") && !without.contains_key("WINDLASS_PORT"));
}

#[test]
fn only_what_passed_is_merged_and_only_as_prepared() {
    let prepared = |commit: &str| {
        Event::Integration(Box::new(IntegrationStep::Prepared(Box::new(Integration {
            before: "b".into(),
            by: "ann".into(),
            commit: commit.into(),
            into: "main".into(),
            strategy: MergeStrategy::Squash,
            tip: "t".into(),
        }))))
    };
    let merged = |commit: &str| {
        Event::Integration(Box::new(IntegrationStep::Done { commit: commit.into() }))
    };
    let mut lab = passed();
    assert!(lab.takes(&merged("c")).is_err());
    lab.record(prepared("c"));
    assert!(lab.takes(&merged("d")).is_err());
    // The branch moved meanwhile: it is prepared again.
    lab.record(prepared("d"));
    lab.record(merged("d"));
    assert!(lab.takes(&merged("d")).is_err());
    assert!(lab.run.integration.done);
    assert_eq!((lab.run.head.state, lab.run.next()), (Some(State::Terminal), Next::Done));
    assert_eq!(lab.refolded(), lab.run);
    let mut blocked = begun();
    blocked.record(Event::Ended {
        outcome: RunOutcome::Blocked,
        reason: "r".into(),
        detail: String::new(),
    });
    assert!(blocked.takes(&prepared("c")).is_err());
}
