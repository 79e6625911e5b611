//! Selects the model for a task.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use thiserror::Error;
use windlass_kernel::Code;

use crate::{DriverConfig, IntentId, Model, ModelId, Outcome, ProfileId, Role, Tier};

/// The selected model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Selection {
    /// The model that the intent is routed to.
    pub logical: ModelId,
    /// The name at the provider of the model that works: the routed one or its fallback.
    pub resolved: String,
    /// The tier of the model that works.
    pub tier: Tier,
    /// The limits of the task: the routed model's profile, also for a fallback.
    pub profile: ProfileId,
    /// The role of the model in this task.
    pub role: Role,
    /// Whether a fallback works in place of the routed model.
    pub is_fallback: bool,
}

/// Why no model was selected; the task halts.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SelectError {
    /// The configuration has no such intent.
    #[error("select a model: there is no intent `{intent}`")]
    UnknownIntent {
        /// The intent.
        intent: IntentId,
    },
    /// No model that the intent allows is available.
    #[error("select a model for `{intent}`: none of these is available: {}", quoted(tried))]
    Unavailable {
        /// The intent.
        intent: IntentId,
        /// The models that were tried, in order.
        tried: Vec<String>,
        /// Available models that the intent does not allow.
        refused: Vec<String>,
    },
}

fn quoted(names: &[String]) -> String {
    let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    names.join(", ")
}

impl SelectError {
    /// The stable code of this error.
    #[must_use]
    pub const fn code(&self) -> Code {
        match self {
            Self::UnknownIntent { .. } | Self::Unavailable { .. } => Code::DriverModelUnavailable,
        }
    }

    /// The outcome of the task.
    #[must_use]
    pub const fn outcome(&self) -> Outcome {
        match self {
            Self::UnknownIntent { .. } | Self::Unavailable { .. } => Outcome::Halt,
        }
    }
}

/// Selects the first routed model whose primary, or else whose allowed fallback, is available.
///
/// `available` has the names at the providers. The result depends on nothing else, so a replayed task
/// selects the same model.
///
/// # Errors
/// [`SelectError`] when no model is available; the task then halts.
pub fn select(
    config: &DriverConfig,
    intent: &IntentId,
    available: &BTreeSet<String>,
) -> Result<Selection, SelectError> {
    let Some(declared) = config.intent(intent) else {
        return Err(SelectError::UnknownIntent { intent: intent.clone() });
    };
    let mut tried = Vec::new();
    let mut refused = Vec::new();
    for routed in config.route(intent).iter().filter_map(|name| config.models.get(name)) {
        let fallbacks = routed.fallbacks.iter().filter_map(|name| config.models.get(name));
        for model in std::iter::once(routed).chain(fallbacks) {
            if !declared.tiers.contains(&model.tier) {
                // INVARIANT: a model is never used above its authority, even if nothing else is left.
                if available.contains(&model.primary) {
                    refused.push(model.primary.clone());
                }
                continue;
            }
            if available.contains(&model.primary) {
                return Ok(Selection {
                    logical: routed.name.clone(),
                    resolved: model.primary.clone(),
                    tier: model.tier.clone(),
                    profile: routed.profile.clone(),
                    role: declared.role.clone(),
                    is_fallback: model.name != routed.name,
                });
            }
            if !tried.contains(&model.primary) {
                tried.push(model.primary.clone());
            }
        }
    }
    Err(SelectError::Unavailable { intent: intent.clone(), tried, refused })
}

impl DriverConfig {
    /// The model with this name at its provider.
    pub(crate) fn model_of(&self, resolved: &str) -> Option<&Model> {
        self.models.values().find(|model| model.primary == resolved)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::Facts;

    fn shipped() -> DriverConfig {
        let files: [(&str, &[u8]); 5] = [
            ("intents", include_bytes!("../../../loops/driver/intents.toml")),
            ("models", include_bytes!("../../../loops/driver/models.toml")),
            ("profiles", include_bytes!("../../../loops/driver/profiles.toml")),
            ("routing", include_bytes!("../../../loops/driver/routing.toml")),
            ("verification", include_bytes!("../../../loops/driver/verification.toml")),
        ];
        let files = files.map(|(name, bytes)| (format!("driver/{name}.toml"), bytes.to_vec()));
        DriverConfig::load(&BTreeMap::from(files)).unwrap()
    }

    /// Loading refuses such a configuration; selection does not rely on that.
    #[test]
    fn a_fallback_of_a_tier_that_is_not_allowed_is_refused() {
        let mut config = shipped();
        let executor: ModelId = "executor".parse().unwrap();
        let lower: ModelId = "assistant".parse().unwrap();
        let primary = config.models[&lower].primary.clone();
        config.models.get_mut(&executor).unwrap().fallbacks = vec![lower];
        let intent: IntentId = "refactor".parse().unwrap();
        let error = select(&config, &intent, &BTreeSet::from([primary.clone()])).unwrap_err();
        let tried = vec![config.models[&executor].primary.clone()];
        assert_eq!(error, SelectError::Unavailable { intent, tried, refused: vec![primary] });
    }

    #[test]
    fn a_routed_model_of_a_tier_that_is_not_allowed_is_refused() {
        let mut config = shipped();
        let intent: IntentId = "refactor".parse().unwrap();
        let lower: ModelId = "free-glm".parse().unwrap();
        let model = config.models[&lower].clone();
        config.routes.insert(intent.clone(), vec![lower.clone()]);
        let available = BTreeSet::from([model.primary.clone()]);
        assert!(select(&config, &intent, &available).is_err());
        // Nor does a selection that says so by itself pass.
        let selection = Selection {
            logical: lower,
            resolved: model.primary,
            tier: model.tier,
            profile: model.profile,
            role: config.intent(&intent).unwrap().role.clone(),
            is_fallback: false,
        };
        let facts = Facts { selection: Some(selection), ..Facts::default() };
        let declared = config.intent(&intent).unwrap();
        let finding = crate::rules::selection(&config, declared, &facts).unwrap_err();
        assert!(finding.reason.contains("does not allow"), "{finding:?}");
    }
}
