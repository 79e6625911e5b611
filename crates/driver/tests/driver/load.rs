//! What a configuration is refused for, and where.

use proptest::prelude::*;
use windlass_driver::{DriverConfig, FileError};
use windlass_kernel::Code;

use crate::world::{changed, files};

const INTENTS: &str = "driver/intents.toml";
const MODELS: &str = "driver/models.toml";
const ROUTING: &str = "driver/routing.toml";
const PROFILES: &str = "driver/profiles.toml";
const VERIFICATION: &str = "driver/verification.toml";

fn refused(file: &str, from: &str, to: &str) -> FileError {
    DriverConfig::load(&changed(file, from, to)).unwrap_err()
}

/// Where `marker` stands in the changed file, as line and column.
fn place(file: &str, from: &str, to: &str, marker: &str) -> (usize, usize) {
    let files = changed(file, from, to);
    let text = std::str::from_utf8(&files[file]).unwrap();
    let at = text.find(marker).unwrap_or_else(|| panic!("{file} does not hold {marker}"));
    let before = &text[..at];
    let column = before.rsplit('\n').next().unwrap().chars().count() + 1;
    (before.matches('\n').count() + 1, column)
}

#[test]
fn faults_are_named_with_their_place() {
    // file, what is replaced, by what, where the fault stands, what is said
    for (file, from, to, marker, message) in [
        (
            INTENTS,
            "critical = false",
            "critica = false",
            "critica = false",
            "unknown field `critica`",
        ),
        (INTENTS, "critical = false\n", "", "[[intent]]", "missing field `critical`"),
        (
            INTENTS,
            "priority = 1\n",
            "priority = 0\n",
            "0\n",
            "priority of intent `generate_context`",
        ),
        (INTENTS, "priority = 1\n", "priority = -1\n", "-1\n", "integer"),
        (INTENTS, "\"roadmap\"", "\"\"", "\"\"", "empty or too long"),
        (INTENTS, "\"roadmap\"", "\" \\t\"", "\" \\t\"", "empty or too long"),
        (INTENTS, "\"roadmap\"", "\"?!\"", "\"?!\"", "empty or too long"),
        (
            INTENTS,
            "\"roadmap\"",
            "\"Code  REVIEW\"",
            "\"Code  REVIEW\"",
            "belongs to intent `code_review`",
        ),
        (INTENTS, "\"roadmap\"", "\"PLAN\"", "\"PLAN\"", "belongs to intent `planning`"),
        (INTENTS, "[\"plan\", \"steps to\", \"roadmap\"]", "[]", "[]", "has 0 triggers"),
        (INTENTS, "\"clean up\"", "\"Debug\"", "\"debug\"", "belongs to intent `refactor`"),
        (INTENTS, "tiers = [\"B\", \"C\"]", "tiers = [\"B\", \"E\"]", "\"E\"", "unknown tier `E`"),
        (
            INTENTS,
            "tiers = [\"B\", \"C\"]",
            "tiers = [\"B\", \"B\"]",
            "\"B\"]\nrole = \"router\"",
            "listed twice",
        ),
        (INTENTS, "tiers = [\"B\", \"C\"]", "tiers = []", "[]", "allows no tier"),
        (INTENTS, "role = \"router\"", "role = \"king\"", "\"king\"", "unknown role `king`"),
        (
            INTENTS,
            "name = \"chat\"",
            "name = \"plan ning\"",
            "\"plan ning\"",
            "is not a valid name of an intent",
        ),
        (
            INTENTS,
            "name = \"chat\"",
            "name = \"classify\"",
            "\"classify\"\npriority = 12",
            "declared twice",
        ),
        (MODELS, "tier = \"C\"", "tier = \"Z\"", "\"Z\"", "unknown tier `Z`"),
        (
            MODELS,
            "profile = \"preview_readonly\"",
            "profile = \"none\"",
            "\"none\"",
            "unknown profile `none`",
        ),
        (
            MODELS,
            "fallbacks = [\"small\"]",
            "fallbacks = [\"tiny\"]",
            "\"tiny\"",
            "not a declared model",
        ),
        (
            MODELS,
            "fallbacks = [\"small\"]",
            "fallbacks = [\"medium\"]",
            "\"medium\"]",
            "falls back to itself",
        ),
        (
            MODELS,
            "primary = \"gpt-6-sol\"",
            "primary = \"gpt-6.1-sol\"",
            "\"coder-second\"\ntier",
            "is already the primary of `coder-main`",
        ),
        (MODELS, "primary = \"gpt-6-sol\"", "primary = \"\"", "\"\"", "is not a valid name"),
        (
            MODELS,
            "name = \"free-glm\"",
            "name = \"free-kimi\"",
            "\"free-kimi\"\ntier = \"D\"\nprimary = \"glm",
            "declared twice",
        ),
        // A fallback of a lower tier than a routed intent allows.
        (
            MODELS,
            "fallbacks = [\"coder-second\"]",
            "fallbacks = [\"assistant\"]",
            "\"assistant\"]\nprofile = \"codex",
            "does not allow the tier of its fallback `assistant`",
        ),
        (
            MODELS,
            "fallbacks = [\"fast\"]",
            "fallbacks = [\"free-glm\"]",
            "\"free-glm\"]",
            "does not allow the tier of its fallback `free-glm`",
        ),
        // And of a higher one: allowed is allowed, not at least.
        (
            MODELS,
            "fallbacks = [\"fast\"]",
            "fallbacks = [\"architect\"]",
            "\"architect\"]",
            "does not allow the tier",
        ),
        (
            ROUTING,
            "refactor = [\"executor\"]",
            "refactor = [\"general\"]",
            "\"general\"]\narchitecture",
            "does not allow tier `B` of model `general`",
        ),
        (
            ROUTING,
            "refactor = [\"executor\"]",
            "refactor = [\"nobody\"]",
            "\"nobody\"",
            "there is no model `nobody`",
        ),
        (
            ROUTING,
            "refactor = [\"executor\"]",
            "refactor = []",
            "[]",
            "route of intent `refactor` is empty",
        ),
        (
            ROUTING,
            "refactor = [\"executor\"]",
            "dance = [\"executor\"]",
            "dance",
            "there is no intent `dance`",
        ),
        (ROUTING, "refactor = [\"executor\"]\n", "", "#", "intent `refactor` has no route"),
        (
            ROUTING,
            "refactor = [\"executor\"]",
            "refactor = [\"executor\", \"executor\"]",
            "\"executor\"]",
            "listed twice",
        ),
        (ROUTING, "[route]", "[routes]", "routes", "unknown field `routes`"),
        (
            PROFILES,
            "max_calls_per_task = 6",
            "max_calls_per_task = 0",
            "0\n",
            "`max_calls_per_task` of profile `codex_high` is 0",
        ),
        (
            PROFILES,
            "max_tokens = 64000",
            "max_tokens = 0",
            "0\n\n",
            "`max_tokens` of profile `codex_high` is 0",
        ),
        (
            PROFILES,
            "max_tokens = 64000",
            "max_tokens = 9000000000000",
            "9000000000000",
            "is 9000000000000",
        ),
        (PROFILES, "max_tokens = 64000", "max_tokens = 6.5", "6.5", "expected u64"),
        (
            PROFILES,
            "name = \"gemini_mid\"",
            "name = \"codex_high\"",
            "\"codex_high\"\nmax_calls_per_task = 4",
            "declared twice",
        ),
        (VERIFICATION, "  \"hallucination\",\n", "", "[\n", "Hallucination is missing"),
        (
            VERIFICATION,
            "\"hallucination\"",
            "\"model_authority\"",
            "\"model_authority\",\n  \"output",
            "listed twice",
        ),
        (VERIFICATION, "\"hallucination\"", "\"luck\"", "\"luck\"", "unknown variant `luck`"),
        (
            VERIFICATION,
            "= \"ASK_USER\"",
            "= \"PASS\"",
            "\"PASS\"\n",
            "cannot have the outcome PASS",
        ),
        (VERIFICATION, "= \"ASK_USER\"", "= \"RETRY\"", "\"RETRY\"", "unknown variant `RETRY`"),
        (VERIFICATION, "\"ai.project.json\"", "\"../x\"", "\"../x\"", "cannot be the name"),
        (VERIFICATION, "\"ai.project.json\"", "\"a/x\"", "\"a/x\"", "cannot be the name"),
        (VERIFICATION, "\"Insufficient context.\"", "\" \"", "\" \"", "a response is empty"),
        (
            VERIFICATION,
            "missing_information =",
            "lost_information =",
            "lost_information",
            "unknown field",
        ),
    ] {
        let error = refused(file, from, to);
        assert!(error.message.contains(message), "{error} instead of {message}");
        assert_eq!(error.location.file, file, "{error}");
        assert_eq!(
            (error.location.line, error.location.column),
            place(file, from, to, marker),
            "{error}"
        );
        assert_eq!(error.code(), Code::DriverConfigInvalid);
        assert!(
            !error.hint.as_ref().is_none_or(String::is_empty) && !error.message.contains('\n'),
            "{error}"
        );
    }
}

#[test]
fn the_intent_that_makes_the_context_file_must_be_there() {
    let mut files = changed(INTENTS, "\"generate_context\"", "\"make_context\"");
    let routing = files.get_mut(ROUTING).unwrap();
    let text = String::from_utf8(routing.clone()).unwrap();
    *routing = text.replace("generate_context", "make_context").into_bytes();
    let error = DriverConfig::load(&files).unwrap_err();
    assert!(error.message.contains("there is no intent `generate_context`"), "{error}");
}

#[test]
fn a_missing_or_unknown_file_is_refused() {
    for path in DriverConfig::FILES {
        let mut files = files();
        files.remove(path);
        let error = DriverConfig::load(&files).unwrap_err();
        assert_eq!(
            (error.location.file.as_str(), error.message.as_str()),
            (path, "the file is missing")
        );
    }
    let mut files = files();
    files.insert("driver/intent.toml".into(), Vec::new());
    let error = DriverConfig::load(&files).unwrap_err();
    assert_eq!(error.location.file, "driver/intent.toml");
}

#[test]
fn hostile_bytes_are_refused() {
    for path in DriverConfig::FILES {
        for (bytes, code) in [
            (b"a = \xff".to_vec(), Code::DriverConfigInvalid),
            (Vec::new(), Code::DriverConfigInvalid),
            (vec![b'['; 100_000], Code::DriverConfigInvalid),
            (vec![b' '; 1024 * 1024 + 1], Code::DocSizeExceeded),
        ] {
            let mut files = files();
            files.insert(path.to_owned(), bytes);
            let error = DriverConfig::load(&files).unwrap_err();
            assert_eq!((error.location.file.as_str(), error.code()), (path, code), "{error}");
        }
    }
}

#[test]
fn two_intents_may_have_one_priority() {
    assert!(DriverConfig::load(&changed(INTENTS, "priority = 12", "priority = 11")).is_ok());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(ProptestConfig::default().cases / 4))]

    #[test]
    fn a_file_with_a_piece_cut_out_is_refused_or_still_fits_together(
        which in 0..DriverConfig::FILES.len(),
        from in 0..4000usize,
        length in 1..200usize,
    ) {
        let mut files = files();
        let bytes = files.get_mut(DriverConfig::FILES[which]).unwrap();
        let from = from.min(bytes.len());
        let until = (from + length).min(bytes.len());
        bytes.drain(from..until);
        if let Ok(config) = DriverConfig::load(&files) {
            for intent in config.intents() {
                prop_assert!(!intent.triggers.is_empty());
                prop_assert!(!config.route(&intent.name).is_empty());
                for name in config.route(&intent.name) {
                    let model = &config.models()[name];
                    prop_assert!(intent.tiers.contains(&model.tier));
                    prop_assert!(config.profiles().contains_key(&model.profile));
                    for fallback in &model.fallbacks {
                        prop_assert!(intent.tiers.contains(&config.models()[fallback].tier));
                    }
                }
            }
            prop_assert_eq!(config.verification_order().len(), 7);
        }
    }
}
