//! The core loop in the files of a client: its agents and its command.

use std::path::Path;

use windlass_hooks::{Client, Content, INSIGHTS_COMMAND, install as installed_bytes};
use windlass_kernel::Code;
use windlass_sessions::core::Judge;

use super::place::Place;
use super::{Change, refused, removal};
use crate::core_session::agents;
use crate::failure::Failure;
use crate::installed::{Installation, InstalledFile};
use crate::output::Output;
use crate::session_loop;

/// Tells what becomes of the core loop, which nobody may lose in silence.
pub fn tell_loop(place: &Place, has_core: bool, output: &Output) {
    if session_loop::is_core_of(&place.state, place.client) && !has_core {
        let (client, scope) = (place.client.as_str(), place.scope.as_str());
        output.note(&format!(
            "sessions no longer go through the core loop; `windlass install {client} --{scope} --loop core` switches it \
             on again"
        ));
    }
}

/// The agents of the core loop, as subagents of the client, and its command.
pub fn core_agents(
    place: &Place,
    record: &mut Installation,
    old: Option<&Installation>,
) -> Result<Vec<Change>, Failure> {
    if place.client != Client::Claude {
        let message = "the core loop is for sessions of Claude Code";
        return Err(Failure::new(Code::RequestInvalid, message)
            .hint("use `windlass install claude --loop core`"));
    }
    let files = place.files()?;
    let (settings, _) = place.hook_file()?;
    let mut texts = vec![(
        settings.with_file_name("commands").join("session-insights.md"),
        INSIGHTS_COMMAND.to_owned(),
    )];
    for judge in Judge::ALL {
        let agent = agents::source(&files, judge)
            .map_err(|reason| Failure::new(Code::LoopInvalid, reason))?;
        let path = settings.with_file_name("agents").join(agents::file_name(judge));
        texts.push((path, agents::client_file(&agent)));
    }
    let mut changes = Vec::new();
    for (path, text) in texts {
        let file = place.read(&path)?;
        let known = old.and_then(|old| old.whole(&path, &settings));
        // One that was installed before and not changed since is replaced.
        let is_ours =
            known.is_some_and(|known| file.bytes.as_deref() == Some(known.installed.as_bytes()));
        let now = if is_ours { None } else { file.bytes.as_deref() };
        let after = installed_bytes(&Content::Whole(text.clone()), now)
            .map_err(|error| refused(&file.path, record.client, &error))?;
        // What was there before the first installation is given back after the last one.
        let before = match known {
            Some(known) => known.before.clone(),
            None => file.bytes.as_ref().map(|_| text.clone()),
        };
        record.files.push(InstalledFile {
            path: file.path.clone(),
            before,
            installed: text,
            trust: None,
            whole: true,
        });
        let change = Change::new(file, Some(after));
        for folder in &change.folders {
            if !record.folders.contains(folder) {
                record.folders.push(folder.clone());
            }
        }
        changes.push(change);
    }
    Ok(changes)
}

/// Agents that were installed before and are not wanted now.
pub fn without_agents(
    place: &Place,
    record: &Installation,
    old: Option<&Installation>,
) -> Result<Vec<Change>, Failure> {
    let Some(old) = old else { return Ok(Vec::new()) };
    let (hooks, _) = place.hook_file()?;
    let is_wanted = |path: &Path| record.whole(path, &hooks).is_some();
    let whole = old.files.iter().filter(|file| file.whole);
    let unwanted = whole.filter(|file| !is_wanted(&old.moved(&file.path, &hooks)));
    unwanted.map(|file| removal(place, old, file)).collect()
}
