//! The shipped configuration, and a task of which everything is known and good.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use windlass_driver::{
    CallKind, ContextFacts, DriverConfig, Facts, IntentId, NextCall, ObservedState, Outcome,
    RecordedState, Sandbox, SandboxFacts, Usage, select,
};
use windlass_kernel::Digest;

pub fn files() -> BTreeMap<String, Vec<u8>> {
    let files: [(&str, &[u8]); 5] = [
        ("driver/intents.toml", include_bytes!("../../../../loops/driver/intents.toml")),
        ("driver/models.toml", include_bytes!("../../../../loops/driver/models.toml")),
        ("driver/profiles.toml", include_bytes!("../../../../loops/driver/profiles.toml")),
        ("driver/routing.toml", include_bytes!("../../../../loops/driver/routing.toml")),
        ("driver/verification.toml", include_bytes!("../../../../loops/driver/verification.toml")),
    ];
    files.into_iter().map(|(path, bytes)| (path.to_owned(), bytes.to_vec())).collect()
}

pub fn config() -> DriverConfig {
    static SHIPPED: LazyLock<DriverConfig> =
        LazyLock::new(|| DriverConfig::load(&files()).unwrap());
    SHIPPED.clone()
}

/// The shipped files with one text replaced in one of them.
pub fn changed(file: &str, from: &str, to: &str) -> BTreeMap<String, Vec<u8>> {
    let mut files = files();
    let bytes = files.get_mut(file).unwrap();
    let text = String::from_utf8(bytes.clone()).unwrap();
    assert!(text.contains(from), "{file} does not hold {from}");
    *bytes = text.replacen(from, to, 1).into_bytes();
    files
}

pub fn intent(name: &str) -> IntentId {
    name.parse().unwrap()
}

pub fn set(items: &[&str]) -> BTreeSet<String> {
    items.iter().map(|item| (*item).to_owned()).collect()
}

pub fn all_models(config: &DriverConfig) -> BTreeSet<String> {
    config.models().values().map(|model| model.primary.clone()).collect()
}

/// A task that passes every check and every step, outside the sandbox.
pub fn facts(config: &DriverConfig, name: &str) -> Facts {
    let intent = intent(name);
    let selection = select(config, &intent, &all_models(config)).unwrap();
    let context = Digest::of(b"context");
    let names = Some(intent.clone());
    Facts {
        intent: names.clone(),
        output_intent: names.clone(),
        questions_open: Some(Vec::new()),
        model_invoked: Some(selection.resolved.clone()),
        context: Some(ContextFacts {
            is_present: true,
            is_valid: Some(true),
            digest: Some(context),
            digest_assembled: Some(context),
            was_asked: false,
        }),
        memory_restored: Some(true),
        sandbox: Some(SandboxFacts {
            recorded: RecordedState {
                sandbox: Sandbox::Disabled,
                context: Some(context),
                intent: names.clone(),
            },
            observed: ObservedState {
                confined: Some(false),
                context: Some(context),
                intent: names,
            },
        }),
        is_bootstrap: Some(false),
        is_first_run: Some(false),
        has_failed: Some(false),
        paths_changed: Some(set(&["src/a.rs", "README.md"])),
        paths_allowed: Some(set(&["src/", "README.md"])),
        paths_denied: Some(set(&[".windlass/", ".git/"])),
        usage: Some(Usage::new("task-1", selection.profile.clone())),
        next_call: Some(NextCall { kind: CallKind::First, token_estimate: 1000 }),
        telemetry_writable: Some(true),
        output_well_formed: Some(true),
        claimed_paths_missing: Some(BTreeSet::new()),
        claimed_symbols_missing: Some(BTreeSet::new()),
        claimed_citations_missing: Some(BTreeSet::new()),
        output_keys_declared: Some(set(&["summary"])),
        output_keys: Some(set(&["summary", "more"])),
        verification: Some(Outcome::Pass),
        selection: Some(selection),
    }
}
