//! What a request is about.

use proptest::prelude::*;
use serde::Deserialize;
use windlass_driver::{
    Classification, DriverConfig, Outcome, REQUEST_BYTES_MAX, classify, classify_as,
};

use crate::world::{changed, config, intent};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Example {
    request: String,
    intent: Option<String>,
    #[serde(default)]
    why: String,
}

fn examples() -> Vec<Example> {
    serde_json::from_slice(include_bytes!("../../../../vectors/driver/classify.json")).unwrap()
}

fn resolved(classification: &Classification) -> Option<&str> {
    match classification {
        Classification::Resolved { intent, .. } => Some(intent.as_str()),
        Classification::Ambiguous { .. } => None,
    }
}

#[test]
fn requests_mean_what_the_vectors_say() {
    let config = config();
    for Example { request, intent, why } in examples() {
        let found = classify(&config, &request);
        assert_eq!(resolved(&found), intent.as_deref(), "`{request}`: {why}");
        let outcome = if intent.is_some() { Outcome::Pass } else { Outcome::AskUser };
        assert_eq!(found.outcome(), outcome);
    }
}

#[test]
fn every_trigger_calls_for_its_intent() {
    let config = config();
    for intent in config.intents() {
        for trigger in &intent.triggers {
            for request in [
                trigger.text.clone(),
                trigger.text.to_uppercase(),
                format!("please, {}: now", trigger.text.replace(' ', " \n ")),
            ] {
                let found = classify(&config, &request);
                assert_eq!(resolved(&found), Some(intent.name.as_str()), "{request}");
            }
            let inside = format!("x{}x", trigger.text);
            assert_eq!(resolved(&classify(&config, &inside)), None, "{inside}");
        }
    }
}

#[test]
fn a_named_intent_is_taken_and_an_unknown_one_is_asked_about() {
    let config = config();
    for intent in config.intents() {
        let name = intent.name.as_str();
        assert_eq!(resolved(&classify_as(&config, name)), Some(name));
        assert_eq!(resolved(&classify_as(&config, &name.to_uppercase())), Some(name));
        assert_eq!(resolved(&classify(&config, &format!("{name}: refactor it"))), Some(name));
    }
    for name in ["", "dance", "code_generation: x"] {
        assert_eq!(classify_as(&config, name).outcome(), Outcome::AskUser, "{name}");
    }
}

#[test]
fn two_of_one_priority_ask_and_a_higher_one_still_wins() {
    let files = changed("driver/intents.toml", "priority = 11", "priority = 10");
    let config = DriverConfig::load(&files).unwrap();
    let Classification::Ambiguous { candidates, question } =
        classify(&config, "classify and summarize")
    else {
        panic!("it was guessed");
    };
    assert_eq!(candidates, [intent("classify"), intent("summarize")]);
    assert!(question.contains("`classify`, `summarize`"), "{question}");
    assert_eq!(resolved(&classify(&config, "classify, classify")), Some("classify"));
    assert_eq!(resolved(&classify(&config, "classify and summarize the plan")), Some("planning"));
}

#[test]
fn what_is_not_recognised_is_asked_with_all_intents() {
    let config = config();
    for request in ["hello".to_owned(), "plan ".repeat(REQUEST_BYTES_MAX)] {
        let Classification::Ambiguous { candidates, question } = classify(&config, &request) else {
            panic!("it was guessed");
        };
        assert!(candidates.is_empty());
        assert!(config.intents().iter().all(|intent| question.contains(intent.name.as_str())));
    }
}

proptest! {
    #[test]
    fn any_text_is_classified_without_a_guess(text in any::<String>()) {
        let config = config();
        let found = classify(&config, &text);
        prop_assert_eq!(&found, &classify(&config, &text));
        if let Classification::Resolved { intent, trigger } = &found {
            let declared = config.intent(intent).unwrap();
            let mut phrases = declared.triggers.iter().chain(&declared.openings);
            prop_assert!(
                phrases.any(|item| item.text == *trigger) || *trigger == intent.to_string()
            );
        }
    }

    #[test]
    fn of_several_triggers_the_highest_priority_wins(
        picks in proptest::collection::vec((0..12usize, 0..2usize), 1..6),
        between in "[ ,;!\n]{1,3}",
    ) {
        let config = config();
        let chosen = picks.iter().map(|(at, trigger)| {
            let intent = &config.intents()[*at];
            (intent, intent.triggers[*trigger].text.as_str())
        });
        let chosen: Vec<_> = chosen.collect();
        let request: Vec<&str> = chosen.iter().map(|(_, trigger)| *trigger).collect();
        let best = chosen.iter().map(|(intent, _)| intent).min_by_key(|intent| intent.priority);
        let found = classify(&config, &request.join(&between));
        prop_assert_eq!(resolved(&found), best.map(|intent| intent.name.as_str()));
    }

    #[test]
    fn a_letter_beside_a_trigger_takes_it_away(
        letter in "[a-z0-9_äßжλ界\u{301}]",
        at in 0..12usize,
    ) {
        let config = config();
        let trigger = &config.intents()[at].triggers[0].text;
        for request in [format!("{trigger}{letter}"), format!("a{letter}{trigger}")] {
            // An opening may still be there.
            match classify(&config, &request) {
                Classification::Ambiguous { .. } => {}
                Classification::Resolved { intent, trigger: opening } => {
                    let declared = config.intent(&intent).unwrap();
                    let mut openings = declared.openings.iter();
                    prop_assert!(openings.any(|item| item.text == opening), "{}", request);
                }
            }
        }
    }
}
