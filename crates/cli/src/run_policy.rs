//! The configuration files that decide about a run, and their digest.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use windlass_driver::executor::DRIVER_BUILTINS;
use windlass_engine::{EngineError, PolicyReader, PolicyStamp};
use windlass_kernel::Digest;
use windlass_kernel::run::plan::Plan;
use windlass_loops::AgentFile;
use windlass_policy::policy_hash;

use crate::core_run;
use crate::failure::Failure;
use crate::part::{CONFIGURATION_FILES, CONFIGURATION_FOLDERS};
use crate::project::Project;
use crate::setup::files_in;

/// Reads the policy of the runs of a project.
pub struct RunPolicy {
    /// The project.
    pub project: Project,
}

impl PolicyReader for RunPolicy {
    fn hash(&self, plan: &Plan) -> Result<Digest, EngineError> {
        let files = self.project.files().map_err(Failure::into_engine_error)?;
        hash_of_run(files, plan).map_err(Failure::into_engine_error)
    }

    fn stamp(&self) -> PolicyStamp {
        let mut stamp = PolicyStamp::new();
        let mut open: Vec<PathBuf> = CONFIGURATION_FILES
            .iter()
            .chain(&CONFIGURATION_FOLDERS)
            .map(|name| self.project.folder.join(name))
            .collect();
        while let Some(path) = open.pop() {
            let Ok(metadata) = std::fs::metadata(&path) else { continue };
            if metadata.is_dir() {
                let inside = std::fs::read_dir(&path).into_iter().flatten().flatten();
                open.extend(inside.map(|entry| entry.path()));
            } else {
                stamp.insert(path, (metadata.len(), metadata.modified().ok()));
            }
        }
        stamp
    }
}

/// The policy hash of a run of this plan: the digest of all files but the loops, agents and tables that it
/// does not use.
pub fn hash_of_run(mut files: BTreeMap<String, Vec<u8>>, plan: &Plan) -> Result<Digest, Failure> {
    let agents = with_subagents(plan.agents().map(str::to_owned), &subagents_of(&files));
    let uses = |names: &[&str]| plan.builtins().any(|name| names.contains(&name));
    let (is_driven, is_core) = (uses(&DRIVER_BUILTINS), uses(&core_run::BUILTINS));
    files.retain(|path, _| {
        let name = path.rsplit('/').next().and_then(|name| name.strip_suffix(".md"));
        match (path.split_once('/').map(|(folder, _)| folder), name) {
            (Some("loops"), Some(name)) => name == plan.id,
            (Some("loops"), None) => is_driven,
            // Their builtins choose agents while they run.
            (Some("agents"), Some(name)) => is_driven || is_core || agents.contains(name),
            // What a mission asks for is recorded with the run.
            (Some("missions"), _) => false,
            (Some(_) | None, _) => true,
        }
    });
    Ok(policy_hash(&files)?)
}

/// The agents that each agent may start, as their files say.
pub fn subagents_of(files: &BTreeMap<String, Vec<u8>>) -> BTreeMap<String, Vec<String>> {
    // What is wrong with a file is told where agents are read.
    let agents = files_in(files, "agents/").filter_map(|(path, bytes)| {
        let file = AgentFile::parse(path, bytes).ok()?;
        Some((file.name, file.subagents))
    });
    agents.collect()
}

/// The agents, and all that they may start directly or indirectly.
pub fn with_subagents(
    agents: impl IntoIterator<Item = String>,
    subagents: &BTreeMap<String, Vec<String>>,
) -> BTreeSet<String> {
    let mut all = BTreeSet::new();
    let mut open: Vec<String> = agents.into_iter().collect();
    while let Some(name) = open.pop() {
        if all.insert(name.clone()) {
            open.extend(subagents.get(&name).into_iter().flatten().cloned());
        }
    }
    all
}
