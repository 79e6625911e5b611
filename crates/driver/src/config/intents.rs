//! Parses `driver/intents.toml`.

use std::collections::BTreeMap;

use serde::Deserialize;
use toml::Spanned;
use windlass_text::{FileError, SourceFile};

use super::models::{Models, distinct};
use super::{CONTEXT_INTENT, FORM_HINT, Intent, LIST_MAX, Trigger};
use crate::classify::{fold, has_word};
use crate::{IntentId, Role, Tier};

const TRIGGER_BYTES_MAX: usize = 200;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawFile {
    intent: Vec<RawIntent>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawIntent {
    name: Spanned<IntentId>,
    priority: Spanned<u32>,
    triggers: Spanned<Vec<Spanned<String>>>,
    #[serde(default)]
    openings: Vec<Spanned<String>>,
    tiers: Spanned<Vec<Spanned<Tier>>>,
    role: Spanned<Role>,
    project_bound: bool,
    restore_required: bool,
    save_allowed: bool,
    critical: bool,
}

pub(super) fn load(source: &SourceFile<'_>, models: &Models) -> Result<Vec<Intent>, FileError> {
    let raw: RawFile = source.parse_toml(FORM_HINT)?;
    let mut intents: Vec<Intent> = Vec::new();
    // The intent of each folded trigger.
    let mut owners: BTreeMap<Vec<char>, IntentId> = BTreeMap::new();
    for raw in raw.intent {
        let span = raw.name.span();
        let name = raw.name.get_ref().clone();
        if intents.len() >= LIST_MAX || intents.iter().any(|intent| intent.name == name) {
            let message = format!("the intent `{name}` is declared twice, or there are too many");
            return Err(source.error(span, message).with_hint("choose another name"));
        }
        intents.push(intent(source, raw, models, &mut owners)?);
    }
    if !intents.iter().any(|intent| intent.name.as_str() == CONTEXT_INTENT) {
        let message = format!("there is no intent `{CONTEXT_INTENT}`");
        let hint = "without it no project could ever get its context file";
        return Err(source.error(0..0, message).with_hint(hint));
    }
    intents.sort_by(|one, other| (one.priority, &one.name).cmp(&(other.priority, &other.name)));
    Ok(intents)
}

fn intent(
    source: &SourceFile<'_>,
    raw: RawIntent,
    models: &Models,
    owners: &mut BTreeMap<Vec<char>, IntentId>,
) -> Result<Intent, FileError> {
    let name = raw.name.into_inner();
    if *raw.priority.get_ref() == 0 {
        let message = format!("the priority of intent `{name}` is 0");
        return Err(source.error(raw.priority.span(), message).with_hint("priorities start at 1"));
    }
    let listed = raw.tiers.span();
    for tier in raw.tiers.get_ref() {
        if !models.tiers.contains(tier.get_ref()) {
            let message = format!("intent `{name}` allows the unknown tier `{}`", tier.get_ref());
            let hint = "tiers are listed in driver/models.toml";
            return Err(source.error(tier.span(), message).with_hint(hint));
        }
    }
    let tiers = distinct(source, raw.tiers.into_inner(), "tier")?;
    if tiers.is_empty() {
        let message = format!("intent `{name}` allows no tier");
        return Err(source.error(listed, message).with_hint("name the tiers that may work on it"));
    }
    let role = raw.role.get_ref();
    if !models.roles.contains(role) {
        let message = format!("intent `{name}` has the unknown role `{role}`");
        return Err(source
            .error(raw.role.span(), message)
            .with_hint("roles are listed in driver/models.toml"));
    }
    let listed = raw.triggers.span();
    let count = raw.triggers.get_ref().len();
    if count == 0 || count > LIST_MAX || raw.openings.len() > LIST_MAX {
        let message =
            format!("intent `{name}` has {count} triggers and {} openings", raw.openings.len());
        let hint = format!(
            "it needs 1 to {LIST_MAX} triggers: without one it could never be selected; openings may be absent"
        );
        return Err(source.error(listed, message).with_hint(hint));
    }
    let triggers = phrases(source, &name, raw.triggers.into_inner(), owners)?;
    let openings = phrases(source, &name, raw.openings, owners)?;
    Ok(Intent {
        priority: raw.priority.into_inner(),
        triggers,
        openings,
        tiers: tiers.into_iter().collect(),
        role: raw.role.into_inner(),
        project_bound: raw.project_bound,
        restore_required: raw.restore_required,
        save_allowed: raw.save_allowed,
        critical: raw.critical,
        name,
    })
}

/// Reads triggers or openings; no phrase may belong to two intents.
fn phrases(
    source: &SourceFile<'_>,
    name: &IntentId,
    raw: Vec<Spanned<String>>,
    owners: &mut BTreeMap<Vec<char>, IntentId>,
) -> Result<Vec<Trigger>, FileError> {
    let mut triggers = Vec::with_capacity(raw.len());
    for trigger in raw {
        let span = trigger.span();
        let text = trigger.into_inner();
        let folded = fold(&text);
        if text.len() > TRIGGER_BYTES_MAX || !has_word(&folded) {
            let message = format!("a trigger of intent `{name}` is empty or too long");
            let hint = format!("a word or phrase of at most {TRIGGER_BYTES_MAX} bytes");
            return Err(source.error(span, message).with_hint(hint));
        }
        if let Some(owner) = owners.insert(folded.clone(), name.clone()) {
            let message = format!("the trigger `{text}` already belongs to intent `{owner}`");
            return Err(source.error(span, message).with_hint("remove it from one of the two"));
        }
        triggers.push(Trigger { text, folded });
    }
    Ok(triggers)
}
