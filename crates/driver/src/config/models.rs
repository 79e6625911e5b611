//! Reads `driver/models.toml`.

use std::collections::BTreeMap;
use std::ops::Range;

use serde::Deserialize;
use toml::Spanned;

use super::{LIST_MAX, Model, Profile};
use crate::source::Source;
use crate::{ConfigError, ModelId, ProfileId, Role, Tier};

const PRIMARY_BYTES_MAX: usize = 200;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawFile {
    tiers: Vec<Spanned<Tier>>,
    roles: Vec<Spanned<Role>>,
    model: Vec<RawModel>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawModel {
    name: Spanned<ModelId>,
    tier: Spanned<Tier>,
    primary: Spanned<String>,
    fallbacks: Vec<Spanned<ModelId>>,
    profile: Spanned<ProfileId>,
}

/// What the file declares.
pub(super) struct Models {
    pub tiers: Vec<Tier>,
    pub roles: Vec<Role>,
    pub models: BTreeMap<ModelId, Placed>,
}

/// A model, and where its fallbacks stand.
pub(super) struct Placed {
    pub model: Model,
    pub fallback_spans: Vec<Range<usize>>,
}

pub(super) fn load(
    source: &Source<'_>,
    profiles: &BTreeMap<ProfileId, Profile>,
) -> Result<Models, ConfigError> {
    let raw: RawFile = source.parse()?;
    let tiers = distinct(source, raw.tiers, "tier")?;
    let roles = distinct(source, raw.roles, "role")?;
    let mut models: BTreeMap<ModelId, Placed> = BTreeMap::new();
    let mut primaries: BTreeMap<String, ModelId> = BTreeMap::new();
    for raw in raw.model {
        let span = raw.name.span();
        let placed = model(source, raw, &tiers, profiles)?;
        let Model { name, primary, .. } = placed.model.clone();
        if let Some(first) = primaries.insert(primary.clone(), name.clone()) {
            // One resolved model with two tiers would have no tier.
            let message = format!("`{primary}` is the primary of `{first}` already");
            return Err(source.error(span, message, "route to that model instead"));
        }
        if models.len() >= LIST_MAX || models.insert(name.clone(), placed).is_some() {
            let message = format!("the model `{name}` is declared before, or there are too many");
            return Err(source.error(span, message, "give it a name of its own"));
        }
    }
    for placed in models.values() {
        for (fallback, span) in placed.model.fallbacks.iter().zip(&placed.fallback_spans) {
            if !models.contains_key(fallback) {
                let message = format!("the fallback `{fallback}` is no declared model");
                let hint = "a fallback is the `name` of a model in this file";
                return Err(source.error(span.clone(), message, hint));
            }
        }
    }
    Ok(Models { tiers, roles, models })
}

fn model(
    source: &Source<'_>,
    raw: RawModel,
    tiers: &[Tier],
    profiles: &BTreeMap<ProfileId, Profile>,
) -> Result<Placed, ConfigError> {
    let name = raw.name.into_inner();
    let tier = raw.tier.get_ref();
    if !tiers.contains(tier) {
        let message = format!("model `{name}` has the unknown tier `{tier}`");
        return Err(source.error(raw.tier.span(), message, "the tiers are listed in `tiers`"));
    }
    let profile = raw.profile.get_ref();
    if !profiles.contains_key(profile) {
        let message = format!("model `{name}` has the unknown profile `{profile}`");
        let hint = "profiles are declared in driver/profiles.toml";
        return Err(source.error(raw.profile.span(), message, hint));
    }
    let primary = raw.primary.get_ref();
    let strange = |char: char| char.is_whitespace() || char.is_control();
    if primary.is_empty() || primary.len() > PRIMARY_BYTES_MAX || primary.contains(strange) {
        let message = format!("the primary of model `{name}` is no name of a model");
        let hint = format!("1 to {PRIMARY_BYTES_MAX} bytes without spaces, as the provider has it");
        return Err(source.error(raw.primary.span(), message, hint));
    }
    let fallback_spans: Vec<_> = raw.fallbacks.iter().map(Spanned::span).collect();
    let fallbacks = distinct(source, raw.fallbacks, "fallback")?;
    if let Some(at) = fallbacks.iter().position(|fallback| *fallback == name) {
        let span = fallback_spans.get(at).cloned().unwrap_or(0..0);
        let message = format!("model `{name}` falls back to itself");
        return Err(source.error(span, message, "leave it out"));
    }
    let model = Model {
        tier: raw.tier.into_inner(),
        primary: raw.primary.into_inner(),
        fallbacks,
        profile: raw.profile.into_inner(),
        name,
    };
    Ok(Placed { model, fallback_spans })
}

/// The values of a list that may name nothing twice.
pub(super) fn distinct<T: PartialEq + std::fmt::Display>(
    source: &Source<'_>,
    list: Vec<Spanned<T>>,
    what: &str,
) -> Result<Vec<T>, ConfigError> {
    let mut values: Vec<T> = Vec::with_capacity(list.len().min(LIST_MAX));
    for item in list {
        let span = item.span();
        let item = item.into_inner();
        if values.len() >= LIST_MAX || values.contains(&item) {
            let message = format!("the {what} `{item}` is listed before, or there are too many");
            return Err(source.error(span, message, "leave it out"));
        }
        values.push(item);
    }
    Ok(values)
}
