//! Parses `driver/routing.toml`, and checks it against intents and models.

use std::collections::BTreeMap;

use serde::Deserialize;
use toml::Spanned;
use windlass_text::{FileError, SourceFile};

use super::models::{LocatedModel, Models, distinct};
use super::{FORM_HINT, Intent};
use crate::{IntentId, ModelId};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawFile {
    route: BTreeMap<Spanned<String>, Spanned<Vec<Spanned<ModelId>>>>,
}

pub(super) fn load(
    source: &SourceFile<'_>,
    models_source: &SourceFile<'_>,
    intents: &[Intent],
    models: &Models,
) -> Result<BTreeMap<IntentId, Vec<ModelId>>, FileError> {
    let raw: RawFile = source.parse_toml(FORM_HINT)?;
    let mut routes = BTreeMap::new();
    for (key, list) in raw.route {
        let name = key.get_ref();
        let Some(intent) = intents.iter().find(|intent| intent.name.as_str() == name) else {
            let message = format!("there is no intent `{name}`");
            let hint = "intents are declared in driver/intents.toml";
            return Err(source.error(key.span(), message).with_hint(hint));
        };
        if list.get_ref().is_empty() {
            let message = format!("the route of intent `{name}` is empty");
            return Err(source.error(list.span(), message).with_hint("name at least one model"));
        }
        for model in list.get_ref() {
            let Some(located) = models.models.get(model.get_ref()) else {
                let message = format!("there is no model `{}`", model.get_ref());
                let hint = "models are declared in driver/models.toml";
                return Err(source.error(model.span(), message).with_hint(hint));
            };
            let tier = &located.model.tier;
            if !intent.tiers.contains(tier) {
                let message = format!(
                    "intent `{name}` does not allow tier `{tier}` of model `{}`",
                    located.model.name
                );
                let hint = "route to a model of an allowed tier, or allow the tier";
                return Err(source.error(model.span(), message).with_hint(hint));
            }
            fallbacks(models_source, intent, located, models)?;
        }
        let list = distinct(source, list.into_inner(), "model")?;
        routes.insert(intent.name.clone(), list);
    }
    if let Some(intent) = intents.iter().find(|intent| !routes.contains_key(&intent.name)) {
        let message = format!("intent `{}` has no route", intent.name);
        return Err(source.error(0..0, message).with_hint("name the models that may work on it"));
    }
    Ok(routes)
}

/// Checks that the intent allows the tier of every fallback.
fn fallbacks(
    models_source: &SourceFile<'_>,
    intent: &Intent,
    located: &LocatedModel,
    models: &Models,
) -> Result<(), FileError> {
    for (fallback, span) in located.model.fallbacks.iter().zip(&located.fallback_spans) {
        let tier = models.models.get(fallback).map(|other| &other.model.tier);
        if tier.is_none_or(|tier| !intent.tiers.contains(tier)) {
            let message = format!(
                "model `{}` works on intent `{}`, which does not allow the tier of its fallback \
                 `{fallback}`",
                located.model.name, intent.name
            );
            let hint = "fall back to a model of a tier that every routed intent allows";
            return Err(models_source.error(span.clone(), message).with_hint(hint));
        }
    }
    Ok(())
}
