//! `windlass confined`: confines itself, then executes a command. The gateway starts commands through it.

use windlass_connect::{Confinement, LaunchError, Network};
use windlass_kernel::Code;

use crate::args::Confined;
use crate::failure::{CommandResult, Failure};

/// Confines this process and replaces it by the command; returns only on failure.
pub fn run(options: &Confined) -> CommandResult {
    let confinement = Confinement {
        writable: options.write.clone(),
        protected: Vec::new(),
        network: if options.network { Network::Open } else { Network::Closed },
    };
    let error = windlass_connect::exec(&confinement, &options.argv);
    let code = match error {
        LaunchError::NoProgram { .. } => Code::ToolServerUnavailable,
        LaunchError::Sandbox(_) | LaunchError::Folder { .. } => Code::SandboxUnavailable,
    };
    Err(Failure::new(code, error.to_string()))
}
