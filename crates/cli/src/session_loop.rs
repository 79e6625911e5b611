//! Which loop the sessions of a client go through in a project. It lies in the state folder, which agents cannot reach.

use std::io::ErrorKind;
use std::path::Path;

use windlass_hooks::Client;
use windlass_kernel::Code;

use crate::atomic;
use crate::failure::Failure;
use crate::project::Project;
use crate::state::cannot_write;

/// The file with the name of the loop. Only sessions of Claude Code can have one.
const FILE: &str = "session-loop";
/// The name of the core loop.
pub const CORE: &str = "core";

/// Whether sessions go through the core loop. Without a file they go through none.
pub fn is_core(state: &Path) -> Result<bool, Failure> {
    let path = state.join(FILE);
    match std::fs::read_to_string(&path) {
        Ok(text) if text.trim() == CORE => Ok(true),
        Ok(_) => Err(Failure::new(
            Code::StateDamaged,
            format!("`{}` does not name a loop", path.display()),
        )
        .hint("`windlass install claude --loop core` writes it anew")),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        Err(error) => Err(crate::input::unreadable(&path, &error)),
    }
}

/// Whether sessions in whose name a project works go through the core loop: by its own setting, or by that of the user,
/// which holds in every folder.
pub fn holds_for(project: &Project) -> Result<bool, Failure> {
    if is_core(project.state()?)? {
        return Ok(true);
    }
    let Some(user) = Project::of_user().filter(|user| user.root != project.root) else {
        return Ok(false);
    };
    match user.state() {
        Ok(state) => is_core(state),
        // Nothing was ever installed from it.
        Err(failure) if failure.code() == Code::ProjectMissing => Ok(false),
        Err(failure) => Err(failure),
    }
}

/// Whether sessions of a client go through the core loop; a damaged file is none that can be kept.
pub fn is_core_of(state: &Path, client: Client) -> bool {
    client == Client::Claude && is_core(state).unwrap_or(true)
}

/// Sets whether sessions of a client go through the core loop. Those of others stay as they are.
pub fn set_core(state: &Path, client: Client, is_on: bool) -> Result<(), Failure> {
    if client != Client::Claude {
        return Ok(());
    }
    let path = state.join(FILE);
    let result = if is_on {
        atomic::write(&path, format!("{CORE}\n").as_bytes())
    } else {
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
            Ok(()) | Err(_) => Ok(()),
        }
    };
    result.map_err(|error| cannot_write(&path, &error))
}
