//! Parses `driver/profiles.toml`.

use std::collections::BTreeMap;

use serde::Deserialize;
use toml::Spanned;
use windlass_text::{FileError, SourceFile};

use super::{FORM_HINT, LIST_MAX, Profile};
use crate::ProfileId;

/// The largest limit, far below the largest integer of canonical JSON.
const LIMIT_MAX: u64 = 1_000_000_000_000;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawFile {
    profile: Vec<RawProfile>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawProfile {
    name: Spanned<ProfileId>,
    max_calls_per_task: Spanned<u64>,
    max_retries: Spanned<u64>,
    max_tokens: Spanned<u64>,
}

pub(super) fn load(source: &SourceFile<'_>) -> Result<BTreeMap<ProfileId, Profile>, FileError> {
    let raw: RawFile = source.parse_toml(FORM_HINT)?;
    let mut profiles = BTreeMap::new();
    for raw in raw.profile {
        let name = raw.name.get_ref().clone();
        let limit = |key: &str, value: &Spanned<u64>, least: u64| {
            let number = *value.get_ref();
            if (least..=LIMIT_MAX).contains(&number) {
                return Ok(number);
            }
            let message = format!("`{key}` of profile `{name}` is {number}");
            let hint = format!("it must be between {least} and {LIMIT_MAX}");
            Err(source.error(value.span(), message).with_hint(hint))
        };
        let profile = Profile {
            max_calls_per_task: limit("max_calls_per_task", &raw.max_calls_per_task, 1)?,
            // A task may forbid retries.
            max_retries: limit("max_retries", &raw.max_retries, 0)?,
            max_tokens: limit("max_tokens", &raw.max_tokens, 1)?,
            name: name.clone(),
        };
        if profiles.len() >= LIST_MAX || profiles.insert(name.clone(), profile).is_some() {
            let message = format!("the profile `{name}` is declared twice, or there are too many");
            return Err(source.error(raw.name.span(), message).with_hint("choose another name"));
        }
    }
    Ok(profiles)
}
