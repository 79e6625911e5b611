//! The configuration of the driver loop: what is asked for, by whom it is done, how it is verified.
//!
//! All of it is data in five files. [`DriverConfig::load`] proves that they fit together, so that
//! nothing that uses a configuration has to.

mod intents;
mod models;
mod profiles;
mod routing;
mod verification;

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use windlass_kernel::{Digest, canon};

use crate::source::Source;
use crate::{
    ConfigError, FailureClass, IntentId, ModelId, Outcome, ProfileId, Response, Role, Tier,
};

pub use verification::Step;

/// The intent that makes a project's context file.
pub const CONTEXT_INTENT: &str = "generate_context";
/// The most entries of a list in a configuration file.
const LIST_MAX: usize = 1000;

/// What a task can be about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Intent {
    /// Its name.
    pub name: IntentId,
    /// Its rank: the lowest number wins.
    pub priority: u32,
    /// The phrases that call for it.
    pub triggers: Vec<Trigger>,
    /// The tiers whose models may work on it.
    pub tiers: BTreeSet<Tier>,
    /// What the model is in a task of this intent.
    pub role: Role,
    /// Whether it needs the project's context file.
    pub project_bound: bool,
    /// Whether it needs the project's memory restored first.
    pub restore_required: bool,
    /// Whether it may save to the project's memory after PASS.
    pub save_allowed: bool,
    /// Whether a hallucination halts it.
    pub critical: bool,
}

/// A phrase that calls for an intent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trigger {
    /// The phrase as it is written.
    pub text: String,
    /// The phrase as it is compared.
    pub(crate) folded: Vec<char>,
}

/// A model as routing knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Model {
    /// Its name.
    pub name: ModelId,
    /// Its authority.
    pub tier: Tier,
    /// What its provider calls it.
    pub primary: String,
    /// What takes its place when it cannot be reached, in this order.
    pub fallbacks: Vec<ModelId>,
    /// What a task that it works on may spend.
    pub profile: ProfileId,
}

/// What one task may spend.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Profile {
    /// Its name.
    pub name: ProfileId,
    /// The most calls of models, retries among them.
    pub max_calls_per_task: u64,
    /// The most of those calls that repeat an earlier one; this may be 0.
    pub max_retries: u64,
    /// The most tokens of all calls together.
    pub max_tokens: u64,
}

/// A configuration whose parts fit together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DriverConfig {
    pub(crate) digest: Digest,
    /// By priority, then name.
    pub(crate) intents: Vec<Intent>,
    pub(crate) tiers: Vec<Tier>,
    pub(crate) roles: Vec<Role>,
    pub(crate) models: BTreeMap<ModelId, Model>,
    pub(crate) routes: BTreeMap<IntentId, Vec<ModelId>>,
    pub(crate) profiles: BTreeMap<ProfileId, Profile>,
    pub(crate) context_file: String,
    pub(crate) order: Vec<Step>,
    pub(crate) outcomes: BTreeMap<FailureClass, Outcome>,
    pub(crate) responses: BTreeMap<Response, String>,
}

const INTENTS: &str = "driver/intents.toml";
const MODELS: &str = "driver/models.toml";
const ROUTING: &str = "driver/routing.toml";
const PROFILES: &str = "driver/profiles.toml";
const VERIFICATION: &str = "driver/verification.toml";

impl DriverConfig {
    /// The five files, by the paths that [`DriverConfig::load`] looks for.
    pub const FILES: [&'static str; 5] = [INTENTS, MODELS, PROFILES, ROUTING, VERIFICATION];

    /// Reads a configuration from its files, by relative path.
    ///
    /// Files outside `driver/` are not looked at.
    ///
    /// # Errors
    /// The first [`ConfigError`] found: one fault refuses the whole configuration.
    pub fn load(files: &BTreeMap<String, Vec<u8>>) -> Result<Self, ConfigError> {
        for path in files.keys().filter(|path| path.starts_with("driver/")) {
            if path.ends_with(".toml") && !Self::FILES.contains(&path.as_str()) {
                return Err(Source { file: path, text: "" }.error(
                    0..0,
                    "the driver loop has no file of this name",
                    format!("its files are {}", Self::FILES.join(", ")),
                ));
            }
        }
        let profiles = profiles::load(&source(files, PROFILES)?)?;
        let models_source = source(files, MODELS)?;
        let models = models::load(&models_source, &profiles)?;
        let intents = intents::load(&source(files, INTENTS)?, &models)?;
        let routes = routing::load(&source(files, ROUTING)?, &models_source, &intents, &models)?;
        let verification = verification::load(&source(files, VERIFICATION)?)?;
        Ok(Self {
            digest: digest(files)?,
            intents,
            tiers: models.tiers,
            roles: models.roles,
            models: models.models.into_iter().map(|(name, model)| (name, model.model)).collect(),
            routes,
            profiles,
            context_file: verification.context_file,
            order: verification.order,
            outcomes: verification.outcomes,
            responses: verification.responses,
        })
    }

    /// The digest of the five files, by which a task remembers what it was judged by.
    #[must_use]
    pub const fn digest(&self) -> Digest {
        self.digest
    }

    /// All intents, by priority.
    #[must_use]
    pub fn intents(&self) -> &[Intent] {
        &self.intents
    }

    /// The intent of this name.
    #[must_use]
    pub fn intent(&self, name: &IntentId) -> Option<&Intent> {
        self.intents.iter().find(|intent| intent.name == *name)
    }

    /// All tiers, from the most authority to the least.
    #[must_use]
    pub fn tiers(&self) -> &[Tier] {
        &self.tiers
    }

    /// All roles.
    #[must_use]
    pub fn roles(&self) -> &[Role] {
        &self.roles
    }

    /// All models, by name.
    #[must_use]
    pub const fn models(&self) -> &BTreeMap<ModelId, Model> {
        &self.models
    }

    /// The models that an intent is routed to, in order.
    #[must_use]
    pub fn route(&self, intent: &IntentId) -> &[ModelId] {
        self.routes.get(intent).map_or(&[], Vec::as_slice)
    }

    /// All profiles, by name.
    #[must_use]
    pub const fn profiles(&self) -> &BTreeMap<ProfileId, Profile> {
        &self.profiles
    }

    /// The name of a project's context file.
    #[must_use]
    pub fn context_file(&self) -> &str {
        &self.context_file
    }

    /// The steps of verification, in order.
    #[must_use]
    pub fn verification_order(&self) -> &[Step] {
        &self.order
    }

    /// What a failure of this class comes to; HALT where nothing else is said.
    #[must_use]
    pub fn outcome(&self, class: FailureClass) -> Outcome {
        self.outcomes.get(&class).copied().unwrap_or(Outcome::Halt)
    }

    /// The standard text of a response.
    #[must_use]
    pub fn response(&self, response: Response) -> &str {
        self.responses.get(&response).map_or("", String::as_str)
    }
}

fn source<'a>(
    files: &'a BTreeMap<String, Vec<u8>>,
    path: &'static str,
) -> Result<Source<'a>, ConfigError> {
    match files.get(path) {
        Some(bytes) => Source::new(path, bytes),
        None => Err(Source { file: path, text: "" }.error(
            0..0,
            "the file is missing",
            "copy the shipped file of this name and change what you need",
        )),
    }
}

fn digest(files: &BTreeMap<String, Vec<u8>>) -> Result<Digest, ConfigError> {
    #[derive(Serialize)]
    #[serde(transparent)]
    struct Digests<'a>(BTreeMap<&'a str, Digest>);
    let digests = DriverConfig::FILES.into_iter();
    let digests = digests.filter_map(|path| Some((path, Digest::of(files.get(path)?))));
    canon::digest(&Digests(digests.collect())).map_err(|error| {
        Source { file: "driver", text: "" }.error(0..0, error.to_string(), "report this fault")
    })
}
