//! Reads `driver/routing.toml`, and holds it against intents and models.

use std::collections::BTreeMap;

use serde::Deserialize;
use toml::Spanned;

use super::Intent;
use super::models::{Models, Placed, distinct};
use crate::source::Source;
use crate::{ConfigError, IntentId, ModelId};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawFile {
    route: BTreeMap<Spanned<String>, Spanned<Vec<Spanned<ModelId>>>>,
}

pub(super) fn load(
    source: &Source<'_>,
    models_source: &Source<'_>,
    intents: &[Intent],
    models: &Models,
) -> Result<BTreeMap<IntentId, Vec<ModelId>>, ConfigError> {
    let raw: RawFile = source.parse()?;
    let mut routes = BTreeMap::new();
    for (key, list) in raw.route {
        let name = key.get_ref();
        let Some(intent) = intents.iter().find(|intent| intent.name.as_str() == name) else {
            let message = format!("there is no intent `{name}`");
            let hint = "intents are declared in driver/intents.toml";
            return Err(source.error(key.span(), message, hint));
        };
        if list.get_ref().is_empty() {
            let message = format!("the route of intent `{name}` is empty");
            return Err(source.error(list.span(), message, "name at least one model"));
        }
        for model in list.get_ref() {
            let Some(placed) = models.models.get(model.get_ref()) else {
                let message = format!("there is no model `{}`", model.get_ref());
                let hint = "models are declared in driver/models.toml";
                return Err(source.error(model.span(), message, hint));
            };
            let tier = &placed.model.tier;
            if !intent.tiers.contains(tier) {
                let message = format!(
                    "intent `{name}` does not allow tier `{tier}` of model `{}`",
                    placed.model.name
                );
                let hint = "route to a model of an allowed tier, or allow the tier";
                return Err(source.error(model.span(), message, hint));
            }
            fallbacks(models_source, intent, placed, models)?;
        }
        let list = distinct(source, list.into_inner(), "model")?;
        routes.insert(intent.name.clone(), list);
    }
    if let Some(intent) = intents.iter().find(|intent| !routes.contains_key(&intent.name)) {
        let message = format!("intent `{}` has no route", intent.name);
        return Err(source.error(0..0, message, "name the models that may take it"));
    }
    Ok(routes)
}

/// A fallback may not have a tier that the intent would not allow.
fn fallbacks(
    models_source: &Source<'_>,
    intent: &Intent,
    placed: &Placed,
    models: &Models,
) -> Result<(), ConfigError> {
    for (fallback, span) in placed.model.fallbacks.iter().zip(&placed.fallback_spans) {
        let tier = models.models.get(fallback).map(|other| &other.model.tier);
        if tier.is_none_or(|tier| !intent.tiers.contains(tier)) {
            let message = format!(
                "model `{}` takes intent `{}`, which does not allow the tier of its fallback \
                 `{fallback}`",
                placed.model.name, intent.name
            );
            let hint = "fall back to a model of a tier that every routed intent allows";
            return Err(models_source.error(span.clone(), message, hint));
        }
    }
    Ok(())
}
