//! Which model takes a task.

use std::collections::BTreeSet;

use proptest::prelude::*;
use windlass_driver::{DriverConfig, Outcome, SelectError, Selection, select};
use windlass_kernel::Code;

use crate::world::{all_models, config, intent, set};

fn without(config: &DriverConfig, gone: &[&str]) -> BTreeSet<String> {
    let gone = set(gone);
    all_models(config).difference(&gone).cloned().collect()
}

#[test]
fn the_first_routed_model_is_taken() {
    let config = config();
    let found = select(&config, &intent("code_review"), &all_models(&config)).unwrap();
    let expected = Selection {
        logical: "executor".parse().unwrap(),
        resolved: "claude-opus-5-5".into(),
        tier: "A".parse().unwrap(),
        profile: "mistral_exec".parse().unwrap(),
        role: "reviewer".parse().unwrap(),
        is_fallback: false,
    };
    assert_eq!(found, expected);
}

#[test]
fn a_fallback_takes_its_place_under_the_same_profile() {
    let config = config();
    let available = without(&config, &["claude-opus-5-5"]);
    let found = select(&config, &intent("refactor"), &available).unwrap();
    assert_eq!((found.logical.as_str(), found.resolved.as_str()), ("executor", "gpt-6.1-sol"));
    assert_eq!((found.profile.as_str(), found.is_fallback), ("mistral_exec", true));
}

#[test]
fn nothing_available_halts_with_what_was_tried() {
    let config = config();
    // Every model of a lower tier is there, and none is used.
    let available = without(&config, &["claude-opus-5-5", "gpt-6.1-sol"]);
    let error = select(&config, &intent("refactor"), &available).unwrap_err();
    assert_eq!(error.outcome(), Outcome::Halt);
    assert_eq!(error.code(), Code::DriverModelUnavailable);
    let tried = vec!["claude-opus-5-5".to_owned(), "gpt-6.1-sol".to_owned()];
    let message = error.to_string();
    assert_eq!(
        error,
        SelectError::Unavailable { intent: intent("refactor"), tried, refused: vec![] }
    );
    assert!(message.contains("`claude-opus-5-5`, `gpt-6.1-sol`"), "{message}");
    let error = select(&config, &intent("dance"), &available).unwrap_err();
    assert_eq!(error, SelectError::UnknownIntent { intent: intent("dance") });
}

proptest! {
    #[test]
    fn a_selection_is_available_allowed_and_the_first_of_its_route(
        which in 0..12usize,
        mask in any::<u32>(),
    ) {
        let config = config();
        let models = all_models(&config).into_iter().enumerate();
        let available: BTreeSet<String> =
            models.filter(|(at, _)| mask >> at & 1 == 1).map(|(_, model)| model).collect();
        let intent = &config.intents()[which];
        let reachable = |name: &windlass_driver::ModelId| {
            let model = &config.models()[name];
            let mut all = std::iter::once(name).chain(&model.fallbacks);
            all.any(|name| available.contains(&config.models()[name].primary))
        };
        let expected = config.route(&intent.name).iter().find(|name| reachable(name));
        let found = select(&config, &intent.name, &available);
        prop_assert_eq!(&found, &select(&config, &intent.name, &available));
        prop_assert_eq!(found.as_ref().ok().map(|found| &found.logical), expected);
        if let Ok(found) = found {
            let routed = &config.models()[&found.logical];
            prop_assert!(available.contains(&found.resolved));
            prop_assert!(intent.tiers.contains(&found.tier));
            prop_assert_eq!(&found.profile, &routed.profile);
            prop_assert_eq!(found.is_fallback, found.resolved != routed.primary);
            prop_assert_eq!(&found.role, &intent.role);
        }
    }
}
