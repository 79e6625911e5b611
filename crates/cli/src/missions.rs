//! The missions of a project: tasks with names and parameters.

use std::collections::BTreeMap;

use serde_json::Value;
use windlass_formats::TaskSpec;
use windlass_kernel::Code;
use windlass_loops::{ExpandError, LoopFile, MissionFile};
use windlass_text::nearest;

use crate::failure::Failure;
use crate::setup::files_in;

/// The option of a run that names its mission.
pub const OPTION: &str = "mission";

/// Parses the missions among the configuration files.
pub fn missions(
    files: &BTreeMap<String, Vec<u8>>,
) -> Result<BTreeMap<String, MissionFile>, Failure> {
    let mut missions = BTreeMap::new();
    for (path, bytes) in files_in(files, "missions/") {
        let file = MissionFile::parse(path, bytes)?;
        let name = file.name.clone();
        if missions.insert(name.clone(), file).is_some() {
            let message = format!("{path}: there is another mission `{name}`");
            return Err(Failure::new(Code::LoopInvalid, message).hint("give one another name"));
        }
    }
    Ok(missions)
}

/// Finds a mission by its name.
pub fn find<'a>(
    missions: &'a BTreeMap<String, MissionFile>,
    name: &str,
) -> Result<&'a MissionFile, Failure> {
    missions.get(name).ok_or_else(|| {
        let message = format!("there is no mission `{name}`");
        let hint = match nearest(name, missions.keys().map(String::as_str)) {
            Some(near) => format!("did you mean `{near}`?"),
            None if missions.is_empty() => {
                "missions are files in `.windlass/missions`, as docs/guides/missions.md says"
                    .to_owned()
            }
            None => "`windlass mission list` lists the missions".to_owned(),
        };
        Failure::new(Code::RequestInvalid, message).hint(hint)
    })
}

/// The values of `--set NAME=VALUE`.
pub fn given_values(texts: &[String]) -> Result<BTreeMap<String, String>, Failure> {
    let mut values = BTreeMap::new();
    for text in texts {
        let Some((name, value)) = text.split_once('=') else {
            let message = format!("`--set {text}` has no value");
            return Err(
                Failure::new(Code::RequestInvalid, message).hint("write `--set NAME=VALUE`")
            );
        };
        if values.insert(name.trim().to_owned(), value.to_owned()).is_some() {
            let message = format!("`--set {name}` is given twice");
            return Err(Failure::new(Code::RequestInvalid, message));
        }
    }
    Ok(values)
}

/// The values of all parameters of a mission, and its task with them.
pub fn task_of(
    mission: &MissionFile,
    given: &BTreeMap<String, String>,
) -> Result<(BTreeMap<String, String>, Value), Failure> {
    let values = mission.values(given).map_err(|error| refusal(&error))?;
    let task = TaskSpec::from_value(&mission.expand(&values))?;
    Ok((values, Value::Object(task.to_object())))
}

fn refusal(error: &ExpandError) -> Failure {
    Failure::new(error.code(), error.to_string()).hint(error.hint())
}

/// Fails if a mission cannot be started: its loop, variant or phases do not exist, or it makes no task.
pub fn check(mission: &MissionFile, loops: &BTreeMap<String, LoopFile>) -> Result<(), Failure> {
    let name = &mission.name;
    let Some(file) = loops.get(&mission.loop_name) else {
        let message = format!("mission `{name}`: there is no loop `{}`", mission.loop_name);
        let near = nearest(&mission.loop_name, loops.keys().map(String::as_str));
        let hint = near.map_or_else(
            || "`windlass loop list` lists the loops".to_owned(),
            |near| format!("did you mean `{near}`?"),
        );
        return Err(Failure::new(Code::LoopNotFound, message).hint(hint));
    };
    file.plan_with(mission.variant.as_deref(), &mission.with)?;
    // A parameter without a default stands for any word here.
    let given: BTreeMap<String, String> = mission
        .parameters
        .iter()
        .filter(|(_, parameter)| parameter.default.is_none())
        .map(|(name, _)| (name.clone(), "value".to_owned()))
        .collect();
    task_of(mission, &given).map(drop)
}
