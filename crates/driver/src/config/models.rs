//! Parses `driver/models.toml`.

use std::collections::BTreeMap;
use std::ops::Range;

use serde::Deserialize;
use toml::Spanned;
use windlass_text::{FileError, SourceFile};

use super::{FORM_HINT, LIST_MAX, Model, Profile};
use crate::{ModelId, ProfileId, Role, Tier};

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

/// The content of the file.
pub(super) struct Models {
    pub tiers: Vec<Tier>,
    pub roles: Vec<Role>,
    pub models: BTreeMap<ModelId, LocatedModel>,
}

/// A model and the spans of its fallbacks.
pub(super) struct LocatedModel {
    pub model: Model,
    pub fallback_spans: Vec<Range<usize>>,
}

pub(super) fn load(
    source: &SourceFile<'_>,
    profiles: &BTreeMap<ProfileId, Profile>,
) -> Result<Models, FileError> {
    let raw: RawFile = source.parse_toml(FORM_HINT)?;
    let tiers = distinct(source, raw.tiers, "tier")?;
    let roles = distinct(source, raw.roles, "role")?;
    let mut models: BTreeMap<ModelId, LocatedModel> = BTreeMap::new();
    let mut primaries: BTreeMap<String, ModelId> = BTreeMap::new();
    for raw in raw.model {
        let span = raw.name.span();
        let located = model(source, raw, &tiers, profiles)?;
        let Model { name, primary, .. } = located.model.clone();
        if let Some(first) = primaries.insert(primary.clone(), name.clone()) {
            // A provider model with two tiers would be ambiguous.
            let message = format!("`{primary}` is already the primary of `{first}`");
            return Err(source.error(span, message).with_hint("route to that model instead"));
        }
        if models.len() >= LIST_MAX || models.insert(name.clone(), located).is_some() {
            let message = format!("the model `{name}` is declared twice, or there are too many");
            return Err(source.error(span, message).with_hint("choose another name"));
        }
    }
    for located in models.values() {
        for (fallback, span) in located.model.fallbacks.iter().zip(&located.fallback_spans) {
            if !models.contains_key(fallback) {
                let message = format!("the fallback `{fallback}` is not a declared model");
                let hint = "a fallback is the `name` of a model in this file";
                return Err(source.error(span.clone(), message).with_hint(hint));
            }
        }
    }
    Ok(Models { tiers, roles, models })
}

fn model(
    source: &SourceFile<'_>,
    raw: RawModel,
    tiers: &[Tier],
    profiles: &BTreeMap<ProfileId, Profile>,
) -> Result<LocatedModel, FileError> {
    let name = raw.name.into_inner();
    let tier = raw.tier.get_ref();
    if !tiers.contains(tier) {
        let message = format!("model `{name}` has the unknown tier `{tier}`");
        return Err(source
            .error(raw.tier.span(), message)
            .with_hint("the tiers are listed in `tiers`"));
    }
    let profile = raw.profile.get_ref();
    if !profiles.contains_key(profile) {
        let message = format!("model `{name}` has the unknown profile `{profile}`");
        let hint = "profiles are declared in driver/profiles.toml";
        return Err(source.error(raw.profile.span(), message).with_hint(hint));
    }
    let primary = raw.primary.get_ref();
    let strange = |char: char| char.is_whitespace() || char.is_control();
    if primary.is_empty() || primary.len() > PRIMARY_BYTES_MAX || primary.contains(strange) {
        let message = format!("the primary of model `{name}` is not a valid name");
        let hint =
            format!("use the name at the provider: 1 to {PRIMARY_BYTES_MAX} bytes without spaces");
        return Err(source.error(raw.primary.span(), message).with_hint(hint));
    }
    let fallback_spans: Vec<_> = raw.fallbacks.iter().map(Spanned::span).collect();
    let fallbacks = distinct(source, raw.fallbacks, "fallback")?;
    if let Some(at) = fallbacks.iter().position(|fallback| *fallback == name) {
        let span = fallback_spans.get(at).cloned().unwrap_or(0..0);
        let message = format!("model `{name}` falls back to itself");
        return Err(source.error(span, message).with_hint("remove it"));
    }
    let model = Model {
        tier: raw.tier.into_inner(),
        primary: raw.primary.into_inner(),
        fallbacks,
        profile: raw.profile.into_inner(),
        name,
    };
    Ok(LocatedModel { model, fallback_spans })
}

/// The values of a list without duplicates.
pub(super) fn distinct<T: PartialEq + std::fmt::Display>(
    source: &SourceFile<'_>,
    list: Vec<Spanned<T>>,
    what: &str,
) -> Result<Vec<T>, FileError> {
    let mut values: Vec<T> = Vec::with_capacity(list.len().min(LIST_MAX));
    for item in list {
        let span = item.span();
        let item = item.into_inner();
        if values.len() >= LIST_MAX || values.contains(&item) {
            let message = format!("the {what} `{item}` is listed twice, or there are too many");
            return Err(source.error(span, message).with_hint("remove it"));
        }
        values.push(item);
    }
    Ok(values)
}
