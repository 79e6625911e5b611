//! The four check points.

use windlass_driver::{
    CallKind, CheckPoint, Facts, FailureClass, NextCall, Outcome, Sandbox, SandboxEvent, Usage,
    check, exit_conditions,
};
use windlass_kernel::Digest;

use crate::world::{config, facts, intent, set};

type Spoil = fn(&mut Facts);
const ALL: &[CheckPoint] = &CheckPoint::ALL;
const MODEL: &[CheckPoint] = &[CheckPoint::BeforeModel, CheckPoint::AfterModel];
const BEFORE: &[CheckPoint] = &[CheckPoint::BeforeModel];
const AFTER: &[CheckPoint] = &[CheckPoint::AfterModel];
const SAVE: &[CheckPoint] = &[CheckPoint::BeforeSave];
const EXIT: &[CheckPoint] = &[CheckPoint::BeforeSandboxExit];
const NOT_AFTER: &[CheckPoint] =
    &[CheckPoint::BeforeModel, CheckPoint::BeforeSave, CheckPoint::BeforeSandboxExit];

/// What goes wrong, at which points it is noticed, and what it comes to.
const FAILURES: &[(&[CheckPoint], Outcome, &str, Spoil)] = &[
    (ALL, Outcome::Halt, "telemetry cannot", |facts| facts.telemetry_writable = Some(false)),
    (ALL, Outcome::Halt, "telemetry can be written is not known", |facts| {
        facts.telemetry_writable = None
    }),
    (ALL, Outcome::AskUser, "intent is not known", |facts| facts.intent = None),
    (ALL, Outcome::Halt, "not in the configuration", |facts| facts.intent = Some(intent("dance"))),
    (ALL, Outcome::AskUser, "sandbox is not known", |facts| facts.sandbox = None),
    (ALL, Outcome::Halt, "recorded as off but is on", |facts| {
        facts.sandbox.as_mut().unwrap().observed.confined = Some(true);
    }),
    (ALL, Outcome::Halt, "could not be determined", |facts| {
        facts.sandbox.as_mut().unwrap().observed.confined = None;
    }),
    (ALL, Outcome::Halt, "another intent", |facts| {
        let sandbox = facts.sandbox.as_mut().unwrap();
        sandbox.recorded.intent = Some(intent("chat"));
        sandbox.observed.intent = Some(intent("chat"));
    }),
    (MODEL, Outcome::AskUser, "selected model is not known", |facts| facts.selection = None),
    (MODEL, Outcome::Halt, "does not allow", |facts| {
        facts.selection.as_mut().unwrap().tier = "D".parse().unwrap();
    }),
    (NOT_AFTER, Outcome::AskUser, "context file is missing", |facts| {
        facts.context.as_mut().unwrap().is_present = false;
    }),
    (NOT_AFTER, Outcome::Halt, "already asked", |facts| {
        let context = facts.context.as_mut().unwrap();
        (context.is_present, context.was_asked) = (false, true);
    }),
    (NOT_AFTER, Outcome::Halt, "changed while", |facts| {
        facts.context.as_mut().unwrap().digest_assembled = Some(Digest::GENESIS);
    }),
    (
        &[CheckPoint::BeforeModel, CheckPoint::BeforeSave],
        Outcome::Halt,
        "restored first",
        |facts| {
            facts.memory_restored = Some(false);
        },
    ),
    (
        &[CheckPoint::BeforeModel, CheckPoint::BeforeSandboxExit],
        Outcome::AskUser,
        "question is open",
        |facts| {
            facts.questions_open = Some(vec!["why?".into()]);
        },
    ),
    (MODEL, Outcome::AskUser, "used is not known", |facts| facts.usage = None),
    (MODEL, Outcome::Halt, "another profile", |facts| {
        facts.usage = Some(Usage::new("task-1", "codex_high".parse().unwrap()));
    }),
    (BEFORE, Outcome::AskUser, "next call is not known", |facts| facts.next_call = None),
    (BEFORE, Outcome::Halt, "tokens; profile", |facts| {
        facts.next_call = Some(NextCall { kind: CallKind::First, token_estimate: 10_000_000 });
    }),
    (MODEL, Outcome::Halt, "tokens; profile", |facts| {
        let none = NextCall { kind: CallKind::First, token_estimate: 0 };
        facts.usage.as_mut().unwrap().settle(none, 10_000_000);
    }),
    (AFTER, Outcome::AskUser, "answered is not known", |facts| facts.model_invoked = None),
    (AFTER, Outcome::Halt, "`other` answered", |facts| facts.model_invoked = Some("other".into())),
    (AFTER, Outcome::Halt, "outside the scope of the task", |facts| {
        facts.paths_changed = Some(set(&["docs/x"]))
    }),
    (AFTER, Outcome::AskUser, "changed is not known", |facts| facts.paths_changed = None),
    (AFTER, Outcome::InterventionRequired, "not well formed", |facts| {
        facts.output_well_formed = Some(false)
    }),
    (SAVE, Outcome::AskUser, "verification ended is not known", |facts| facts.verification = None),
    (SAVE, Outcome::Halt, "ended in ASK_USER", |facts| facts.verification = Some(Outcome::AskUser)),
    (SAVE, Outcome::Halt, "ended in INTERVENTION_REQUIRED", |facts| {
        facts.verification = Some(Outcome::InterventionRequired);
    }),
    (EXIT, Outcome::Halt, "being made", |facts| facts.is_bootstrap = Some(true)),
    (EXIT, Outcome::AskUser, "not known", |facts| facts.is_bootstrap = None),
    (EXIT, Outcome::Halt, "first run", |facts| facts.is_first_run = Some(true)),
    (EXIT, Outcome::AskUser, "not known", |facts| facts.is_first_run = None),
    (EXIT, Outcome::Halt, "something failed", |facts| facts.has_failed = Some(true)),
    (EXIT, Outcome::AskUser, "not known", |facts| facts.has_failed = None),
];

#[test]
fn what_is_known_and_good_passes_at_every_point() {
    let config = config();
    for point in CheckPoint::ALL {
        let found = check(&config, point, &facts(&config, "refactor"));
        assert_eq!((found.outcome, found.class, found.reason), (Outcome::Pass, None, None));
    }
}

#[test]
fn each_failure_is_noticed_at_its_points_and_only_there() {
    let config = config();
    for (at, (points, outcome, reason, spoil)) in FAILURES.iter().enumerate() {
        for point in CheckPoint::ALL {
            let mut facts = facts(&config, "refactor");
            spoil(&mut facts);
            let found = check(&config, point, &facts);
            if !points.contains(&point) {
                assert_eq!(found.outcome, Outcome::Pass, "case {at} {point:?}: {found:?}");
                continue;
            }
            assert_eq!(found.outcome, *outcome, "case {at} {point:?}: {found:?}");
            assert!(found.reason.as_ref().unwrap().contains(reason), "case {at}: {found:?}");
            assert_eq!(config.outcome(found.class.unwrap()), *outcome, "case {at}");
        }
    }
}

#[test]
fn nothing_known_passes_nowhere() {
    let config = config();
    for point in CheckPoint::ALL {
        let found = check(&config, point, &Facts::default());
        assert_eq!(found.outcome, Outcome::Halt, "{point:?}: telemetry comes first");
        let telemetry = Facts { telemetry_writable: Some(true), ..Facts::default() };
        let found = check(&config, point, &telemetry);
        assert_eq!(found.outcome, Outcome::AskUser, "{point:?}");
        assert_eq!(found.class, Some(FailureClass::MissingInformation));
        assert_eq!(found.response.as_deref(), Some("Insufficient context."));
    }
}

#[test]
fn a_model_selected_under_another_allowed_tier_is_refused() {
    let config = config();
    let mut facts = facts(&config, "summarize");
    let selection = facts.selection.as_mut().unwrap();
    assert_eq!(selection.tier.as_str(), "D");
    selection.tier = "B".parse().unwrap();
    let found = check(&config, CheckPoint::BeforeModel, &facts);
    assert_eq!(found.outcome, Outcome::Halt, "{found:?}");
    assert_eq!(found.response.as_deref(), Some("Model authority violation detected."));
}

#[test]
fn only_some_intents_save() {
    let config = config();
    for declared in config.intents() {
        let found = check(&config, CheckPoint::BeforeSave, &facts(&config, declared.name.as_str()));
        let expected = if declared.save_allowed { Outcome::Pass } else { Outcome::Halt };
        assert_eq!(found.outcome, expected, "{}", declared.name);
    }
}

#[test]
fn conditions_for_leaving_follow_from_the_facts() {
    let config = config();
    let leave = |facts: &Facts| {
        let conditions = exit_conditions(&config, facts);
        Sandbox::default().apply(SandboxEvent::ExitRequested { conditions })
    };
    let mut inside = facts(&config, "refactor");
    let sandbox = inside.sandbox.as_mut().unwrap();
    sandbox.recorded.sandbox = Sandbox::default();
    sandbox.observed.confined = Some(true);
    assert_eq!(leave(&inside), Sandbox::Disabled);
    // What is not known does not hold, each by itself.
    assert_eq!(exit_conditions(&config, &Facts::default()).unmet().len(), 7);
    for (points, .., spoil) in FAILURES {
        let mut facts = inside.clone();
        spoil(&mut facts);
        // One of them says that the world is confined, which it is here.
        let noticed = points.contains(&CheckPoint::BeforeSandboxExit)
            && check(&config, CheckPoint::BeforeSandboxExit, &facts).outcome != Outcome::Pass;
        assert_eq!(leave(&facts).is_enabled(), noticed);
    }
}
