//! The sandbox is on unless every condition for leaving it holds.

use std::collections::BTreeSet;

use proptest::prelude::*;
use serde::Deserialize;
use windlass_driver::{
    ExitConditions, ObservedState, Outcome, RecordedState, Sandbox, SandboxEvent, SandboxMismatch,
    SandboxReason, check_consistency, may_write,
};
use windlass_kernel::{Code, Digest};

use crate::world::{config, intent};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    from: Sandbox,
    event: SandboxEvent,
    to: Sandbox,
}

fn rows() -> Vec<Row> {
    serde_json::from_slice(include_bytes!("../../../../vectors/driver/sandbox.json")).unwrap()
}

fn on(reasons: &[SandboxReason]) -> Sandbox {
    Sandbox::Enabled { reasons: reasons.iter().copied().collect() }
}

#[test]
fn every_row_of_the_table_holds() {
    for Row { from, event, to } in rows() {
        assert_eq!(from.clone().apply(event), to, "{from:?} {event:?}");
    }
}

/// Exit requests: all met, each one unmet, all unmet.
fn exits() -> Vec<SandboxEvent> {
    let all = serde_json::to_value(ExitConditions::MET).unwrap();
    let keys: Vec<String> = all.as_object().unwrap().keys().cloned().collect();
    let mut found = vec![all.clone()];
    let mut none = all.clone();
    for key in keys {
        let mut one = all.clone();
        one[&key] = false.into();
        none[&key] = false.into();
        found.push(one);
    }
    found.push(none);
    let read = |conditions| serde_json::from_value(conditions).unwrap();
    found.into_iter().map(|value| SandboxEvent::ExitRequested { conditions: read(value) }).collect()
}

fn events() -> Vec<SandboxEvent> {
    let mut events = vec![
        SandboxEvent::TaskBoundary,
        SandboxEvent::Failure,
        SandboxEvent::ContextChanged,
        SandboxEvent::IntentChanged,
        SandboxEvent::IntentUnresolved,
        SandboxEvent::ContextMissing,
        SandboxEvent::ContextValidated,
        SandboxEvent::BootstrapStarted,
        SandboxEvent::BootstrapEnded,
        SandboxEvent::FirstRunInProject,
    ];
    events.extend(exits());
    events
}

#[test]
fn the_table_has_every_state_and_event() {
    let rows = rows();
    let mut states = vec![Sandbox::Disabled, on(&SandboxReason::ALL)];
    states.extend(SandboxReason::ALL.map(|reason| on(&[reason])));
    for state in states {
        for event in events() {
            let found = rows.iter().filter(|row| row.from == state && row.event == event).count();
            assert_eq!(found, 1, "{state:?} {event:?}");
        }
    }
    assert_eq!(rows.len(), 13 * events().len());
}

#[test]
fn it_is_on_by_default_and_left_only_by_request() {
    assert_eq!(Sandbox::default(), on(&[SandboxReason::Default]));
    let leave = SandboxEvent::ExitRequested { conditions: ExitConditions::MET };
    assert_eq!(Sandbox::default().apply(leave), Sandbox::Disabled);
    for event in events().into_iter().filter(|event| *event != leave) {
        assert!(Sandbox::default().apply(event).is_enabled(), "{event:?}");
    }
    for event in [
        SandboxEvent::TaskBoundary,
        SandboxEvent::Failure,
        SandboxEvent::ContextChanged,
        SandboxEvent::IntentChanged,
    ] {
        assert!(Sandbox::Disabled.apply(event).is_enabled(), "{event:?}");
    }
}

#[test]
fn a_claim_does_not_undo_what_is_recorded() {
    let leave = SandboxEvent::ExitRequested { conditions: ExitConditions::MET };
    let failed = Sandbox::default().apply(SandboxEvent::Failure);
    assert!(failed.clone().apply(leave).is_enabled());
    assert!(failed.clone().apply(SandboxEvent::ContextValidated).apply(leave).is_enabled());
    assert_eq!(failed.apply(SandboxEvent::TaskBoundary).apply(leave), Sandbox::Disabled);
    let missing =
        Sandbox::default().apply(SandboxEvent::ContextMissing).apply(SandboxEvent::TaskBoundary);
    assert!(missing.clone().apply(leave).is_enabled(), "a new task does not make a file");
    assert_eq!(missing.apply(SandboxEvent::ContextValidated).apply(leave), Sandbox::Disabled);
}

#[test]
fn a_state_is_read_strictly() {
    for text in [
        r#""ENABLED""#,
        r#"{"ENABLED":{"reasons":[]}}"#,
        r#"{"ENABLED":{"reasons":["whim"]}}"#,
        r#"{"ENABLED":{"reasons":["default"],"more":1}}"#,
        r#""disabled""#,
        r#"{"DISABLED":{}}"#,
        "null",
    ] {
        assert!(serde_json::from_str::<Sandbox>(text).is_err(), "{text}");
    }
    for text in [
        r#"{"exit_requested":{"conditions":{"context_present":true}}}"#,
        r#"{"failure":{"x":1}}"#,
        r#""exit_requested""#,
    ] {
        assert!(serde_json::from_str::<SandboxEvent>(text).is_err(), "{text}");
    }
}

#[test]
fn one_file_may_be_written_inside_it_by_one_intent() {
    let config = config();
    let inside = Sandbox::default();
    let context = intent("generate_context");
    assert!(may_write(&config, &inside, &context, "ai.project.json"));
    for path in [
        "",
        "./ai.project.json",
        "AI.project.json",
        "ai.project.json/",
        "sub/ai.project.json",
        "../ai.project.json",
        "/ai.project.json",
        "ai.project.json\0",
        "src/a.rs",
    ] {
        assert!(!may_write(&config, &inside, &context, path), "{path}");
    }
    for declared in config.intents().iter().filter(|declared| declared.name != context) {
        assert!(!may_write(&config, &inside, &declared.name, "ai.project.json"));
        assert!(may_write(&config, &Sandbox::Disabled, &declared.name, "src/a.rs"));
    }
}

#[test]
fn nothing_is_executed_when_the_world_is_not_as_recorded() {
    let digest = Some(Digest::of(b"context"));
    let name = Some(intent("refactor"));
    let recorded =
        RecordedState { sandbox: Sandbox::Disabled, context: digest, intent: name.clone() };
    let observed = ObservedState { confined: Some(false), context: digest, intent: name.clone() };
    assert_eq!(check_consistency(&recorded, &observed), Ok(()));
    let inside = RecordedState { sandbox: Sandbox::default(), context: None, intent: None };
    let confined = ObservedState { confined: Some(true), context: None, intent: None };
    assert_eq!(check_consistency(&inside, &confined), Ok(()));

    let on_off = |recorded, observed| SandboxMismatch::Confinement { recorded, observed };
    for (recorded, observed, expected) in [
        (
            recorded.clone(),
            ObservedState { confined: None, ..observed.clone() },
            SandboxMismatch::Unknown,
        ),
        (
            recorded.clone(),
            ObservedState { confined: Some(true), ..observed.clone() },
            on_off("off", "on"),
        ),
        (
            inside.clone(),
            ObservedState { confined: Some(false), ..confined.clone() },
            on_off("on", "off"),
        ),
        (
            recorded.clone(),
            ObservedState { context: None, ..observed.clone() },
            SandboxMismatch::Context,
        ),
        (inside, ObservedState { context: digest, ..confined }, SandboxMismatch::Context),
        (
            recorded.clone(),
            ObservedState { intent: None, ..observed.clone() },
            SandboxMismatch::Intent,
        ),
        (
            RecordedState { context: None, ..recorded.clone() },
            ObservedState { context: None, ..observed.clone() },
            SandboxMismatch::OffWithout { missing: "a context file" },
        ),
        (
            RecordedState { intent: None, ..recorded },
            ObservedState { intent: None, ..observed },
            SandboxMismatch::OffWithout { missing: "an intent" },
        ),
    ] {
        let error = check_consistency(&recorded, &observed).unwrap_err();
        assert_eq!(error.outcome(), Outcome::Halt);
        assert_eq!(error.code(), Code::DriverSandboxInconsistent);
        assert_eq!(error, expected);
    }
}

/// What must be so for the sandbox to be off, told from the history alone.
fn may_be_off(history: &[SandboxEvent]) -> bool {
    let leave = SandboxEvent::ExitRequested { conditions: ExitConditions::MET };
    let Some(left) = history.iter().rposition(|event| *event == leave) else { return false };
    // Since then nothing but a validation or another request that was met.
    if history[left + 1..].iter().any(|event| *event != SandboxEvent::ContextValidated) {
        return false;
    }
    let before = &history[..left];
    let refused = |event: &SandboxEvent, reason: SandboxReason| matches!(event, SandboxEvent::ExitRequested { conditions } if conditions.unmet().contains(&reason));
    let last = |test: &dyn Fn(&SandboxEvent) -> bool| before.iter().rposition(test);
    let boundary = last(&|event| *event == SandboxEvent::TaskBoundary);
    let failed =
        last(&|event| *event == SandboxEvent::Failure || refused(event, SandboxReason::Failure));
    let first = last(&|event| {
        *event == SandboxEvent::FirstRunInProject || refused(event, SandboxReason::FirstRun)
    });
    let bootstrap = last(&|event| {
        *event == SandboxEvent::BootstrapStarted || refused(event, SandboxReason::Bootstrap)
    });
    let ended =
        last(&|event| matches!(event, SandboxEvent::BootstrapEnded | SandboxEvent::TaskBoundary));
    let spoiled = last(&|event| {
        matches!(event, SandboxEvent::ContextChanged | SandboxEvent::ContextMissing)
            || refused(event, SandboxReason::ContextMissing)
            || refused(event, SandboxReason::ContextUnvalidated)
    });
    let validated = last(&|event| *event == SandboxEvent::ContextValidated);
    failed <= boundary && first <= boundary && bootstrap <= ended && spoiled <= validated
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(ProptestConfig::default().cases * 8))]

    #[test]
    fn off_only_after_all_conditions_and_nothing_since(
        picks in proptest::collection::vec(0..events().len(), 0..14),
        leave in any::<bool>(),
    ) {
        let all = events();
        let mut history: Vec<SandboxEvent> = picks.iter().map(|at| all[*at]).collect();
        if leave {
            history.push(SandboxEvent::ExitRequested { conditions: ExitConditions::MET });
        }
        let end = history.iter().fold(Sandbox::default(), |sandbox, event| sandbox.apply(*event));
        if !end.is_enabled() {
            prop_assert!(may_be_off(&history), "{:?}", history);
        }
        if let Sandbox::Enabled { reasons } = &end {
            prop_assert!(!reasons.is_empty());
        }
        let text = serde_json::to_string(&end).unwrap();
        prop_assert_eq!(serde_json::from_str::<Sandbox>(&text).unwrap(), end);
    }

    #[test]
    fn one_unmet_condition_is_enough_to_stay(
        picks in proptest::collection::vec(0..events().len(), 0..8),
        unmet in 1..9usize,
    ) {
        let all = events();
        let before = picks.iter().fold(Sandbox::default(), |sandbox, at| sandbox.apply(all[*at]));
        prop_assert!(before.apply(exits()[unmet]).is_enabled());
    }
}

#[test]
fn every_unmet_condition_has_a_reason_of_its_own() {
    let mut reasons = BTreeSet::new();
    for event in &exits()[1..8] {
        let SandboxEvent::ExitRequested { conditions } = event else { panic!("{event:?}") };
        assert_eq!(conditions.unmet().len(), 1);
        reasons.extend(conditions.unmet());
    }
    assert_eq!(reasons.len(), 7);
    assert!(ExitConditions::MET.unmet().is_empty());
}
