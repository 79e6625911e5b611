//! What a task may spend.

use proptest::prelude::*;
use windlass_driver::{CallKind, Limit, NextCall, Outcome, Usage, UsageError};
use windlass_kernel::Code;

use crate::world::config;

const FIRST: NextCall = NextCall { kind: CallKind::First, token_estimate: 100 };
const RETRY: NextCall = NextCall { kind: CallKind::Retry, token_estimate: 100 };

fn usage(profile: &str) -> Usage {
    Usage::new("task-1", profile.parse().unwrap())
}

fn limit(error: &UsageError) -> Option<Limit> {
    match error {
        UsageError::Exceeded { limit, .. } => Some(*limit),
        UsageError::UnknownProfile { .. } => None,
    }
}

#[test]
fn each_limit_is_reached_and_not_passed() {
    let config = config();
    let mut spent = usage("codex_high");
    for _ in 0..6 {
        spent.begin(&config, FIRST).unwrap();
    }
    let error = spent.clone().begin(&config, FIRST).unwrap_err();
    assert_eq!(limit(&error), Some(Limit::Calls));
    assert_eq!(error.to_string(), "task `task-1` needs 7 calls; profile `codex_high` allows 6");
    assert_eq!((error.outcome(), error.code()), (Outcome::Halt, Code::DriverCapabilityExceeded));

    let mut spent = usage("codex_high");
    spent.begin(&config, RETRY).unwrap();
    assert_eq!(limit(&spent.admit(&config, RETRY).unwrap_err()), Some(Limit::Retries));
    assert_eq!(
        limit(&usage("free_assistive").admit(&config, RETRY).unwrap_err()),
        Some(Limit::Retries)
    );

    let all = NextCall { token_estimate: 64_000, ..FIRST };
    assert_eq!(usage("codex_high").admit(&config, all), Ok(()));
    let more = NextCall { token_estimate: 64_001, ..FIRST };
    assert_eq!(limit(&usage("codex_high").admit(&config, more).unwrap_err()), Some(Limit::Tokens));
    let most = NextCall { token_estimate: u64::MAX, ..FIRST };
    assert_eq!(limit(&usage("codex_high").admit(&config, most).unwrap_err()), Some(Limit::Tokens));
}

#[test]
fn what_a_call_really_used_counts() {
    let config = config();
    let mut spent = usage("codex_high");
    spent.begin(&config, FIRST).unwrap();
    spent.settle(FIRST, 63_000);
    assert_eq!((spent.calls(), spent.tokens()), (1, 63_000));
    assert_eq!(spent.within(&config), Ok(()));
    spent.begin(&config, FIRST).unwrap();
    spent.settle(FIRST, u64::MAX);
    assert_eq!(limit(&spent.within(&config).unwrap_err()), Some(Limit::Tokens));
    assert!(windlass_kernel::canon::to_bytes(&spent).is_ok(), "it can still be recorded");
}

#[test]
fn an_unknown_profile_allows_nothing() {
    let error = usage("unlimited").admit(&config(), FIRST).unwrap_err();
    assert_eq!((limit(&error), error.outcome()), (None, Outcome::Halt));
}

#[test]
fn a_record_is_read_as_it_was_written() {
    let mut spent = usage("codex_high");
    spent.begin(&config(), RETRY).unwrap();
    let text = serde_json::to_string(&spent).unwrap();
    assert_eq!(serde_json::from_str::<Usage>(&text).unwrap(), spent);
    let more = text.replacen('{', "{\"model\":\"x\",", 1);
    assert!(serde_json::from_str::<Usage>(&more).is_err());
    assert!(serde_json::from_str::<Usage>(&text.replace(":1,", ":-1,")).is_err());
}

proptest! {
    #[test]
    fn what_was_admitted_is_within_and_what_was_not_changes_nothing(
        calls in proptest::collection::vec((any::<bool>(), 0..40_000u64), 0..12),
    ) {
        let config = config();
        let mut spent = usage("gemini_mid");
        let (mut first, mut retries, mut tokens) = (0, 0, 0);
        for (is_retry, token_estimate) in calls {
            let kind = if is_retry { CallKind::Retry } else { CallKind::First };
            let before = spent.clone();
            let fits = first + retries < 4
                && (!is_retry || retries < 1)
                && tokens + token_estimate <= 32_000;
            let next = NextCall { kind, token_estimate };
            prop_assert_eq!(spent.admit(&config, next).is_ok(), fits);
            prop_assert_eq!(spent.begin(&config, next).is_ok(), fits);
            if fits {
                if is_retry { retries += 1 } else { first += 1 }
                tokens += token_estimate;
                let counted = (spent.calls(), spent.retries(), spent.tokens());
                prop_assert_eq!(counted, (first + retries, retries, tokens));
            } else {
                prop_assert_eq!(&spent, &before);
            }
            prop_assert_eq!(spent.within(&config), Ok(()));
        }
    }
}
