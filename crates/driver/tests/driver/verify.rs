//! Verification: seven steps in order, up to the first that fails.

use std::collections::BTreeMap;

use proptest::prelude::*;
use windlass_driver::{
    DriverConfig, Facts, FailureClass, Outcome, Sandbox, Selection, VerificationStep, verify,
};
use windlass_kernel::Digest;

use crate::world::{changed, config, facts, intent, set};

type Spoil = fn(&mut Facts);

/// One way to fail each step, what it comes to, and a word of the reason.
const FAILURES: &[(VerificationStep, Outcome, &str, Spoil)] = &[
    (VerificationStep::IntentAlignment, Outcome::AskUser, "the intent is not known", |facts| {
        facts.intent = None
    }),
    (VerificationStep::IntentAlignment, Outcome::Halt, "not in the configuration", |facts| {
        facts.intent = Some(intent("dance"));
    }),
    (VerificationStep::IntentAlignment, Outcome::AskUser, "output answers is not known", |facts| {
        facts.output_intent = None
    }),
    (VerificationStep::IntentAlignment, Outcome::Halt, "answers `chat`, not `refactor`", |facts| {
        facts.output_intent = Some(intent("chat"));
    }),
    (VerificationStep::IntentAlignment, Outcome::AskUser, "not known", |facts| {
        facts.questions_open = None
    }),
    (VerificationStep::IntentAlignment, Outcome::AskUser, "`which one?`", |facts| {
        facts.questions_open = Some(vec!["which one?".into()]);
    }),
    (VerificationStep::ModelAuthority, Outcome::AskUser, "not known", |facts| {
        facts.selection = None
    }),
    (VerificationStep::ModelAuthority, Outcome::AskUser, "not known", |facts| {
        facts.model_invoked = None
    }),
    (VerificationStep::ModelAuthority, Outcome::Halt, "`other` answered", |facts| {
        facts.model_invoked = Some("other".into())
    }),
    (VerificationStep::ModelAuthority, Outcome::Halt, "not routed", |facts| {
        selection(facts).logical = "general".parse().unwrap();
    }),
    (VerificationStep::ModelAuthority, Outcome::Halt, "not routed", |facts| {
        selection(facts).logical = "nobody".parse().unwrap();
    }),
    (VerificationStep::ModelAuthority, Outcome::Halt, "is neither model", |facts| {
        // A model of an allowed tier that is not the routed one.
        selection(facts).resolved = "gpt-6.1-sol".into();
        facts.model_invoked = Some("gpt-6.1-sol".into());
    }),
    (VerificationStep::ModelAuthority, Outcome::Halt, "is neither model", |facts| {
        selection(facts).resolved = "gpt-6-luna".into();
        selection(facts).is_fallback = true;
    }),
    (VerificationStep::ModelAuthority, Outcome::Halt, "does not allow", |facts| {
        selection(facts).tier = "B".parse().unwrap();
    }),
    (VerificationStep::ModelAuthority, Outcome::Halt, "profile `codex_high`", |facts| {
        selection(facts).profile = "codex_high".parse().unwrap();
    }),
    (VerificationStep::ModelAuthority, Outcome::Halt, "role `router`", |facts| {
        selection(facts).role = "router".parse().unwrap();
    }),
    (VerificationStep::ContextCompliance, Outcome::AskUser, "not known", |facts| {
        facts.context = None
    }),
    (VerificationStep::ContextCompliance, Outcome::AskUser, "is missing", |facts| {
        facts.context.as_mut().unwrap().is_present = false;
    }),
    (VerificationStep::ContextCompliance, Outcome::Halt, "already asked", |facts| {
        let context = facts.context.as_mut().unwrap();
        context.is_present = false;
        context.was_asked = true;
    }),
    (VerificationStep::ContextCompliance, Outcome::AskUser, "is not valid", |facts| {
        facts.context.as_mut().unwrap().is_valid = Some(false);
    }),
    (VerificationStep::ContextCompliance, Outcome::AskUser, "is valid is not known", |facts| {
        facts.context.as_mut().unwrap().is_valid = None;
    }),
    (VerificationStep::ContextCompliance, Outcome::AskUser, "not known", |facts| {
        facts.context.as_mut().unwrap().digest_assembled = None;
    }),
    (VerificationStep::ContextCompliance, Outcome::Halt, "changed while the task ran", |facts| {
        facts.context.as_mut().unwrap().digest = Some(Digest::of(b"other"));
    }),
    (VerificationStep::ContextCompliance, Outcome::AskUser, "not known", |facts| {
        facts.memory_restored = None
    }),
    (VerificationStep::ContextCompliance, Outcome::Halt, "memory restored first", |facts| {
        facts.memory_restored = Some(false)
    }),
    (VerificationStep::ScopeMutationSafety, Outcome::AskUser, "not known", |facts| {
        facts.paths_changed = None
    }),
    (VerificationStep::ScopeMutationSafety, Outcome::AskUser, "not known", |facts| {
        facts.paths_allowed = None
    }),
    (VerificationStep::ScopeMutationSafety, Outcome::AskUser, "not known", |facts| {
        facts.paths_denied = None
    }),
    (VerificationStep::ScopeMutationSafety, Outcome::AskUser, "not known", |facts| {
        facts.sandbox = None
    }),
    (
        VerificationStep::ScopeMutationSafety,
        Outcome::Halt,
        "outside the scope of the task",
        |facts| change(facts, "docs/a.md"),
    ),
    (
        VerificationStep::ScopeMutationSafety,
        Outcome::Halt,
        "outside the scope of the task",
        |facts| change(facts, "srcs/a.rs"),
    ),
    (VerificationStep::ScopeMutationSafety, Outcome::Halt, "not a plain path", |facts| {
        change(facts, "src/../docs/a.md")
    }),
    (VerificationStep::ScopeMutationSafety, Outcome::Halt, "not a plain path", |facts| {
        change(facts, "/etc/passwd")
    }),
    (VerificationStep::ScopeMutationSafety, Outcome::Halt, "may never change", |facts| {
        facts.paths_allowed = Some(set(&["."]));
        change(facts, ".Windlass/policy/a.toml");
    }),
    (VerificationStep::ScopeMutationSafety, Outcome::Halt, "while the sandbox is on", |facts| {
        facts.sandbox.as_mut().unwrap().recorded.sandbox = Sandbox::default();
    }),
    (VerificationStep::StructuralIntegrity, Outcome::AskUser, "not known", |facts| {
        facts.output_well_formed = None
    }),
    (
        VerificationStep::StructuralIntegrity,
        Outcome::InterventionRequired,
        "not well formed",
        |facts| {
            facts.output_well_formed = Some(false);
        },
    ),
    (VerificationStep::Hallucination, Outcome::AskUser, "not known", |facts| {
        facts.claimed_paths_missing = None
    }),
    (VerificationStep::Hallucination, Outcome::AskUser, "not known", |facts| {
        facts.claimed_symbols_missing = None
    }),
    (VerificationStep::Hallucination, Outcome::AskUser, "not known", |facts| {
        facts.claimed_citations_missing = None
    }),
    (VerificationStep::Hallucination, Outcome::Halt, "as `src/none.rs`", |facts| {
        facts.claimed_paths_missing = Some(set(&["src/none.rs"]));
    }),
    (VerificationStep::Hallucination, Outcome::Halt, "as `none()`", |facts| {
        // A known hallucination is not excused by what is not known.
        facts.claimed_paths_missing = None;
        facts.claimed_symbols_missing = Some(set(&["none()"]));
    }),
    (VerificationStep::Hallucination, Outcome::Halt, "citations", |facts| {
        facts.claimed_citations_missing = Some(set(&["RFC 99999"]));
    }),
    (VerificationStep::OutputContract, Outcome::AskUser, "not known", |facts| {
        facts.output_keys_declared = None
    }),
    (VerificationStep::OutputContract, Outcome::AskUser, "not known", |facts| {
        facts.output_keys = None
    }),
    (VerificationStep::OutputContract, Outcome::InterventionRequired, "lacks `summary`", |facts| {
        facts.output_keys = Some(set(&["Summary"]));
    }),
];

fn selection(facts: &mut Facts) -> &mut Selection {
    facts.selection.as_mut().unwrap()
}

fn change(facts: &mut Facts, path: &str) {
    facts.paths_changed.as_mut().unwrap().insert(path.to_owned());
}

#[test]
fn what_is_known_and_good_passes_in_order() {
    let config = config();
    for declared in config.intents() {
        let found = verify(&config, &facts(&config, declared.name.as_str()));
        assert_eq!((found.outcome, found.failed_step), (Outcome::Pass, None), "{found:?}");
        let steps: Vec<VerificationStep> = found.steps.iter().map(|result| result.step).collect();
        assert_eq!(steps, VerificationStep::ALL);
        assert!(found.steps.iter().all(|step| step.result.outcome.is_success()));
    }
}

#[test]
fn each_failure_stops_at_its_step() {
    let config = config();
    for (at, (step, outcome, reason, spoil)) in FAILURES.iter().enumerate() {
        let mut facts = facts(&config, "refactor");
        spoil(&mut facts);
        let found = verify(&config, &facts);
        assert_eq!(found.failed_step, Some(*step), "case {at}: {found:?}");
        assert_eq!(found.outcome, *outcome, "case {at}: {found:?}");
        let last = found.steps.last().unwrap();
        let done = VerificationStep::ALL.iter().position(|other| other == step).unwrap() + 1;
        assert_eq!((last.step, found.steps.len()), (*step, done), "case {at}");
        assert!(last.result.reason.as_ref().unwrap().contains(reason), "case {at}: {found:?}");
        assert_eq!(config.outcome(last.result.class.unwrap()), *outcome, "case {at}");
        assert!(!last.result.response.as_ref().unwrap().is_empty(), "case {at}");
    }
    for step in VerificationStep::ALL {
        assert!(FAILURES.iter().any(|(other, ..)| *other == step), "{step:?} has no failure");
    }
}

#[test]
fn nothing_known_is_no_pass() {
    let found = verify(&config(), &Facts::default());
    assert_eq!(
        (found.outcome, found.failed_step),
        (Outcome::AskUser, Some(VerificationStep::IntentAlignment))
    );
}

#[test]
fn a_hallucination_that_is_not_critical_is_a_persons_to_edit() {
    let config = config();
    let mut facts = facts(&config, "code_review");
    facts.claimed_symbols_missing = Some(set(&["none()"]));
    let found = verify(&config, &facts);
    assert_eq!(found.outcome, Outcome::InterventionRequired);
    let class = found.steps.last().unwrap().result.class;
    assert_eq!(class, Some(FailureClass::StructuralOrFormattingError));
}

#[test]
fn an_intent_that_is_not_project_bound_needs_no_context_file() {
    let config = config();
    for (name, expected) in [("research", Outcome::Pass), ("planning", Outcome::AskUser)] {
        let mut facts = facts(&config, name);
        facts.context = None;
        facts.memory_restored = None;
        assert_eq!(verify(&config, &facts).outcome, expected, "{name}");
    }
}

#[test]
fn in_the_sandbox_the_context_file_passes_and_no_other() {
    let config = config();
    let mut facts = facts(&config, "generate_context");
    facts.sandbox.as_mut().unwrap().recorded.sandbox = Sandbox::default();
    facts.paths_allowed = Some(set(&["."]));
    facts.paths_changed = Some(set(&["ai.project.json"]));
    assert_eq!(verify(&config, &facts).outcome, Outcome::Pass);
    change(&mut facts, "src/a.rs");
    let found = verify(&config, &facts);
    assert_eq!(
        (found.outcome, found.failed_step),
        (Outcome::Halt, Some(VerificationStep::ScopeMutationSafety))
    );
}

#[test]
fn order_and_outcomes_are_those_of_the_configuration() {
    let files = changed(
        "driver/verification.toml",
        "  \"intent_alignment\",\n  \"model_authority\",",
        "  \"model_authority\",\n  \"intent_alignment\",",
    );
    let config = DriverConfig::load(&files).unwrap();
    let mut facts = facts(&config, "refactor");
    facts.output_intent = None;
    facts.model_invoked = None;
    assert_eq!(verify(&config, &facts).failed_step, Some(VerificationStep::ModelAuthority));
    let files = changed("driver/verification.toml", "= \"ASK_USER\"", "= \"HALT\"");
    assert_eq!(verify(&DriverConfig::load(&files).unwrap(), &facts).outcome, Outcome::Halt);
}

proptest! {
    #[test]
    fn of_several_failures_the_first_in_order_decides(
        picks in proptest::collection::vec(0..FAILURES.len(), 1..4),
    ) {
        let config = config();
        let mut facts = facts(&config, "refactor");
        // One per step: two of one step may spoil the same fact.
        let picks: BTreeMap<VerificationStep, Spoil> =
            picks.into_iter().map(|at| (FAILURES[at].0, FAILURES[at].3)).collect();
        for spoil in picks.values() {
            spoil(&mut facts);
        }
        let found = verify(&config, &facts);
        prop_assert!(!found.outcome.is_success());
        prop_assert_eq!(found.failed_step.as_ref(), picks.keys().next());
    }

    #[test]
    fn any_facts_at_all_pass_only_when_every_step_did(
        gone in proptest::collection::btree_set(0..25usize, 0..4),
    ) {
        let config = config();
        let whole = serde_json::to_value(facts(&config, "refactor")).unwrap();
        let mut part = whole.clone();
        let keys: Vec<String> = whole.as_object().unwrap().keys().cloned().collect();
        for at in gone {
            if let Some(key) = keys.get(at) {
                part.as_object_mut().unwrap().remove(key);
            }
        }
        let facts: Facts = serde_json::from_value(part.clone()).unwrap();
        let found = verify(&config, &facts);
        // These are for the checks, not for verification.
        let unused = [
            "has_failed", "is_bootstrap", "is_first_run", "next_call", "telemetry_writable",
            "usage", "verification",
        ];
        let complete = keys
            .iter()
            .all(|key| part.get(key).is_some() || unused.contains(&key.as_str()));
        prop_assert_eq!(found.outcome.is_success(), complete, "{:?}", found);
    }
}
