//! The shipped files say what the tables say.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use windlass_driver::{FailureClass, Outcome, Phase, Response, VerificationStep};

use crate::world::{config, files, intent};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Tables {
    intents_priority: Vec<String>,
    intent_triggers: BTreeMap<String, Vec<String>>,
    tiers: BTreeMap<String, BTreeSet<String>>,
    allowed_tiers: BTreeMap<String, BTreeSet<String>>,
    routing: BTreeMap<String, Vec<String>>,
    model_resolution: BTreeMap<String, Resolution>,
    capability_profiles: BTreeMap<String, Limits>,
    roles: Vec<String>,
    project_bound_intents: BTreeSet<String>,
    restore_required: BTreeSet<String>,
    save_allowed: BTreeSet<String>,
    critical_intents: BTreeSet<String>,
    verification_order: Vec<VerificationStep>,
    failure_class_to_outcome: BTreeMap<FailureClass, Outcome>,
    standard_failure_responses: [String; 4],
    /// What the shipped files call each model of the tables.
    shipped_name: BTreeMap<String, String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Resolution {
    #[serde(rename = "primary")]
    _primary: String,
    fallback: Vec<String>,
    capability_profile: String,
}

#[derive(Deserialize, PartialEq, Debug)]
#[serde(deny_unknown_fields)]
struct Limits {
    max_calls_per_task: u64,
    max_retries: u64,
    max_tokens: u64,
}

fn tables() -> Tables {
    serde_json::from_slice(include_bytes!("../../../../vectors/driver/tables.json")).unwrap()
}

#[test]
fn intents_are_those_of_the_tables_in_their_order() {
    let (config, tables) = (config(), tables());
    let names: Vec<&str> = config.intents().iter().map(|intent| intent.name.as_str()).collect();
    assert_eq!(names, tables.intents_priority);
    let priorities: BTreeSet<u32> = config.intents().iter().map(|intent| intent.priority).collect();
    assert_eq!(priorities.len(), names.len(), "no two of one priority");
    for intent in config.intents() {
        let name = intent.name.as_str();
        let triggers: Vec<&str> = intent.triggers.iter().map(|item| item.text.as_str()).collect();
        assert_eq!(triggers, tables.intent_triggers[name], "{name}");
        let tiers: BTreeSet<String> = intent.tiers.iter().map(ToString::to_string).collect();
        assert_eq!(tiers, tables.allowed_tiers[name], "{name}");
        let flags =
            [intent.project_bound, intent.restore_required, intent.save_allowed, intent.critical];
        let expected = [
            &tables.project_bound_intents,
            &tables.restore_required,
            &tables.save_allowed,
            &tables.critical_intents,
        ];
        assert_eq!(flags, expected.map(|set| set.contains(name)), "{name}");
        assert!(tables.roles.contains(&intent.role.to_string()), "{name}");
    }
    let roles: Vec<String> = config.roles().iter().map(ToString::to_string).collect();
    assert_eq!(roles, tables.roles);
}

#[test]
fn models_have_the_tables_tiers_routes_and_profiles() {
    let (config, tables) = (config(), tables());
    let ours = |name: &String| tables.shipped_name[name].clone();
    let distinct: BTreeSet<&String> = tables.shipped_name.values().collect();
    assert_eq!(distinct.len(), tables.shipped_name.len(), "one name each");
    for (tier, models) in &tables.tiers {
        let expected: BTreeSet<String> = models.iter().map(ours).collect();
        let models = config.models().values().filter(|model| model.tier.as_str() == tier);
        assert_eq!(models.map(|model| model.name.to_string()).collect::<BTreeSet<_>>(), expected);
    }
    let order: Vec<String> = config.tiers().iter().map(ToString::to_string).collect();
    assert_eq!(order, tables.tiers.keys().cloned().collect::<Vec<_>>());
    for (name, route) in &tables.routing {
        let shipped: Vec<String> =
            config.route(&intent(name)).iter().map(ToString::to_string).collect();
        assert_eq!(shipped, route.iter().map(ours).collect::<Vec<_>>(), "{name}");
    }
    for (name, resolution) in &tables.model_resolution {
        let model = &config.models()[&ours(name).parse().unwrap()];
        assert_eq!(model.profile.as_str(), resolution.capability_profile, "{name}");
        // The tables' own fallbacks are of a lower tier than any routed intent allows.
        for fallback in &resolution.fallback {
            let fallback = &config.models()[&ours(fallback).parse().unwrap()];
            assert!(fallback.tier > model.tier && !model.fallbacks.contains(&fallback.name));
        }
        let tier_of = |name| &config.models()[name].tier;
        assert!(model.fallbacks.iter().all(|fallback| *tier_of(fallback) == model.tier), "{name}");
    }
    let profiles = config.profiles().values().map(|profile| {
        let limits = Limits {
            max_calls_per_task: profile.max_calls_per_task,
            max_retries: profile.max_retries,
            max_tokens: profile.max_tokens,
        };
        (profile.name.to_string(), limits)
    });
    assert_eq!(profiles.collect::<BTreeMap<_, _>>(), tables.capability_profiles);
}

#[test]
fn verification_is_that_of_the_tables() {
    let (config, tables) = (config(), tables());
    assert_eq!(config.verification_order(), tables.verification_order);
    assert_eq!(tables.failure_class_to_outcome.len(), 4);
    for (class, outcome) in tables.failure_class_to_outcome {
        assert_eq!(config.outcome(class), outcome);
    }
    let responses = [
        Response::InsufficientContext,
        Response::ScopeExceeded,
        Response::AuthorityViolation,
        Response::VerificationFailed,
    ];
    assert_eq!(
        responses.map(|response| config.response(response)),
        tables.standard_failure_responses
    );
    assert_eq!(config.context_file(), "ai.project.json");
}

#[test]
fn two_phases_are_for_some_intents_only() {
    let (config, tables) = (config(), tables());
    for name in &tables.intents_priority {
        let name = intent(name);
        let absent = Phase::ALL.into_iter().filter(|phase| !phase.is_for(&config, &name));
        let mut expected = Vec::new();
        if name.as_str() != "generate_context" {
            expected.push(Phase::ContextBootstrap);
        }
        if !tables.save_allowed.contains(name.as_str()) {
            expected.push(Phase::MemorySync);
        }
        assert_eq!(absent.collect::<Vec<_>>(), expected, "{name}");
    }
    assert!(Phase::ALL.iter().all(|phase| !phase.is_for(&config, &intent("other"))));
}

#[test]
fn the_digest_covers_each_file_and_no_other() {
    let digest = config().digest();
    let mut more = files();
    more.insert("policy/default.toml".into(), Vec::new());
    assert_eq!(windlass_driver::DriverConfig::load(&more).unwrap().digest(), digest);
    for path in windlass_driver::DriverConfig::FILES {
        let mut changed = files();
        changed.get_mut(path).unwrap().extend(b"# one more line\n");
        assert_ne!(windlass_driver::DriverConfig::load(&changed).unwrap().digest(), digest);
    }
}
