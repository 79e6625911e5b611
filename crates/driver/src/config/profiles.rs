//! Reads `driver/profiles.toml`.

use std::collections::BTreeMap;

use serde::Deserialize;
use toml::Spanned;

use super::{LIST_MAX, Profile};
use crate::source::Source;
use crate::{ConfigError, ProfileId};

/// No limit is above this: counters stay far from where canonical JSON would refuse them.
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

pub(super) fn load(source: &Source<'_>) -> Result<BTreeMap<ProfileId, Profile>, ConfigError> {
    let raw: RawFile = source.parse()?;
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
            Err(source.error(value.span(), message, hint))
        };
        let profile = Profile {
            max_calls_per_task: limit("max_calls_per_task", &raw.max_calls_per_task, 1)?,
            // A task without retries is a task.
            max_retries: limit("max_retries", &raw.max_retries, 0)?,
            max_tokens: limit("max_tokens", &raw.max_tokens, 1)?,
            name: name.clone(),
        };
        if profiles.len() >= LIST_MAX || profiles.insert(name.clone(), profile).is_some() {
            let message = format!("the profile `{name}` is declared before, or there are too many");
            return Err(source.error(raw.name.span(), message, "give it a name of its own"));
        }
    }
    Ok(profiles)
}
