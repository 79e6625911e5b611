//! One intervention, on the output alone.

use std::collections::BTreeMap;

use windlass_driver::{
    CallKind, InterventionFacts, NextCall, Outcome, Sandbox, Usage, after_intervention,
    check_intervention,
};
use windlass_kernel::Digest;

use crate::world::{self, config, set};

#[test]
fn only_a_pass_after_an_intervention_is_success() {
    for first in Outcome::ALL {
        for second in Outcome::ALL {
            let success = first == Outcome::InterventionRequired && second == Outcome::Pass;
            let expected = if success { Outcome::Pass } else { Outcome::Halt };
            assert_eq!(after_intervention(first, second), expected, "{first} {second}");
        }
    }
}

fn files(list: &[(&str, &str)]) -> BTreeMap<String, Digest> {
    list.iter().map(|(path, text)| ((*path).to_owned(), Digest::of(text.as_bytes()))).collect()
}

fn good() -> InterventionFacts {
    let mut usage = Usage::new("task-1", "codex_high".parse().unwrap());
    let call = NextCall { kind: CallKind::Retry, token_estimate: 500 };
    usage.begin(&config(), call).unwrap();
    InterventionFacts {
        changed_before: Some(files(&[("src/a.rs", "one"), ("out.json", "{")])),
        changed_after: Some(files(&[("src/a.rs", "one"), ("out.json", "{}")])),
        output_paths: Some(set(&["out.json"])),
        usage_before: Some(usage.clone()),
        usage_after: Some(usage),
        sandbox: Some(Sandbox::default()),
    }
}

type Spoil = fn(&mut InterventionFacts);

#[test]
fn an_edit_of_the_output_passes_and_nothing_else() {
    let config = config();
    assert_eq!(check_intervention(&config, &good()).outcome, Outcome::Pass);
    let nothing = InterventionFacts { changed_after: good().changed_before, ..good() };
    assert_eq!(check_intervention(&config, &nothing).outcome, Outcome::Pass);

    let cases: [(Outcome, &str, Spoil); 14] = [
        (Outcome::Halt, "`src/a.rs` was edited", |facts| {
            facts.changed_after = Some(files(&[("src/a.rs", "two"), ("out.json", "{}")]));
        }),
        (Outcome::Halt, "`src/b.rs` was edited", |facts| {
            facts.changed_after.as_mut().unwrap().insert("src/b.rs".into(), Digest::of(b"new"));
        }),
        (Outcome::Halt, "`src/a.rs` was edited", |facts| {
            facts.changed_after.as_mut().unwrap().remove("src/a.rs");
        }),
        (Outcome::Halt, "a model worked", |facts| {
            let call = NextCall { kind: CallKind::First, token_estimate: 0 };
            facts.usage_after.as_mut().unwrap().begin(&world::config(), call).unwrap();
        }),
        (Outcome::Halt, "a model worked", |facts| {
            let none = NextCall { kind: CallKind::First, token_estimate: 0 };
            facts.usage_after.as_mut().unwrap().settle(none, 1);
        }),
        (Outcome::Halt, "counters changed", |facts| {
            facts.usage_after = Some(Usage::new("task-1", "codex_high".parse().unwrap()));
        }),
        (Outcome::Halt, "counters changed", |facts| {
            facts.usage_after = Some(Usage::new("task-2", "codex_high".parse().unwrap()));
        }),
        (Outcome::Halt, "sandbox is off", |facts| facts.sandbox = Some(Sandbox::Disabled)),
        (Outcome::AskUser, "not known", |facts| facts.changed_before = None),
        (Outcome::AskUser, "not known", |facts| facts.changed_after = None),
        (Outcome::AskUser, "not known", |facts| facts.output_paths = None),
        (Outcome::AskUser, "not known", |facts| facts.usage_before = None),
        (Outcome::AskUser, "not known", |facts| facts.usage_after = None),
        (Outcome::AskUser, "not known", |facts| facts.sandbox = None),
    ];
    for (at, (outcome, reason, spoil)) in cases.into_iter().enumerate() {
        let mut facts = good();
        spoil(&mut facts);
        let found = check_intervention(&config, &facts);
        assert_eq!(found.outcome, outcome, "case {at}: {found:?}");
        assert!(found.reason.as_ref().unwrap().contains(reason), "case {at}: {found:?}");
    }
}
