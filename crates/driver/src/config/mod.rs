//! The configuration of the driver loop: intents, models, routes, limits, verification.
//!
//! It is data in five files. [`DriverConfig::load`] checks that they are consistent, so that users of
//! a configuration can rely on it.

mod intents;
mod models;
mod profiles;
mod routing;
mod verification;

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use windlass_kernel::{Code, Digest, canon};
use windlass_text::{FileError, SourceFile};

use crate::{FailureClass, IntentId, ModelId, Outcome, ProfileId, Response, Role, Tier};

pub use verification::VerificationStep;

/// The intent that makes a project's context file.
pub const CONTEXT_INTENT: &str = "generate_context";
/// The largest configuration file.
const FILE_BYTES_MAX: usize = 1024 * 1024;
/// The hint of an error in the form of a file.
const FORM_HINT: Option<&str> =
    Some("use the keys of the shipped file of this name, each with its type");
/// The most entries of a list in a configuration file.
const LIST_MAX: usize = 1000;

/// What a task is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Intent {
    /// Its name.
    pub name: IntentId,
    /// Its priority: the lowest number wins.
    pub priority: u32,
    /// The phrases that select it.
    pub triggers: Vec<Trigger>,
    /// The phrases that select it at the beginning of a request without any trigger.
    pub openings: Vec<Trigger>,
    /// The tiers whose models may work on it.
    pub tiers: BTreeSet<Tier>,
    /// The role of the model in a task of this intent.
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

/// A phrase that selects an intent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trigger {
    /// The phrase as it is written.
    pub text: String,
    /// The phrase in the form that is compared.
    pub(crate) folded: Vec<char>,
}

/// A model that intents are routed to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Model {
    /// Its name.
    pub name: ModelId,
    /// Its tier of authority.
    pub tier: Tier,
    /// Its name at the provider.
    pub primary: String,
    /// The models that replace it when it is unavailable, in this order.
    pub fallbacks: Vec<ModelId>,
    /// The limits of a task that it works on.
    pub profile: ProfileId,
}

/// The limits of a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Profile {
    /// Its name.
    pub name: ProfileId,
    /// The most model calls, including retries.
    pub max_calls_per_task: u64,
    /// The most retries; may be 0.
    pub max_retries: u64,
    /// The most tokens of all calls.
    pub max_tokens: u64,
}

/// A consistent configuration.
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
    pub(crate) order: Vec<VerificationStep>,
    pub(crate) outcomes: BTreeMap<FailureClass, Outcome>,
    pub(crate) responses: BTreeMap<Response, String>,
}

const INTENTS: &str = "driver/intents.toml";
const MODELS: &str = "driver/models.toml";
const ROUTING: &str = "driver/routing.toml";
const PROFILES: &str = "driver/profiles.toml";
const VERIFICATION: &str = "driver/verification.toml";

impl DriverConfig {
    /// The paths of the five files.
    pub const FILES: [&'static str; 5] = [INTENTS, MODELS, PROFILES, ROUTING, VERIFICATION];

    /// Loads a configuration from its files, by relative path. Files outside `driver/` are ignored.
    ///
    /// # Errors
    /// The first [`FileError`]: one error refuses the whole configuration.
    pub fn load(files: &BTreeMap<String, Vec<u8>>) -> Result<Self, FileError> {
        for path in files.keys().filter(|path| path.starts_with("driver/")) {
            if path.ends_with(".toml") && !Self::FILES.contains(&path.as_str()) {
                return Err(no_file(path)
                    .error(0..0, "the driver loop has no configuration file of this name")
                    .with_hint(format!("its files are {}", Self::FILES.join(", "))));
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

    /// The digest of the five files, which a task records.
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
    pub fn verification_order(&self) -> &[VerificationStep] {
        &self.order
    }

    /// The outcome of a failure of this class; HALT by default.
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

/// For errors that concern no position in a file.
const fn no_file(path: &str) -> SourceFile<'_> {
    SourceFile::empty(path, Code::DriverConfigInvalid)
}

fn source<'a>(
    files: &'a BTreeMap<String, Vec<u8>>,
    path: &'static str,
) -> Result<SourceFile<'a>, FileError> {
    match files.get(path) {
        Some(bytes) => SourceFile::new(path, bytes, FILE_BYTES_MAX, Code::DriverConfigInvalid),
        None => Err(no_file(path)
            .error(0..0, "the file is missing")
            .with_hint("copy the shipped file of this name and change what you need")),
    }
}

fn digest(files: &BTreeMap<String, Vec<u8>>) -> Result<Digest, FileError> {
    #[derive(Serialize)]
    #[serde(transparent)]
    struct Digests<'a>(BTreeMap<&'a str, Digest>);
    let digests = DriverConfig::FILES.into_iter();
    let digests = digests.filter_map(|path| Some((path, Digest::of(files.get(path)?))));
    canon::digest(&Digests(digests.collect())).map_err(|error| {
        no_file("driver").error(0..0, error.to_string()).with_hint("please report this error")
    })
}
