//! `windlass confined`: becomes a command that is confined. The gateway starts commands by it.

use windlass_connect::{Confinement, LaunchError, Network};
use windlass_kernel::Code;

use crate::args::Confined;
use crate::failure::{Done, Failure};

/// Confines this process and replaces it; returns only if that fails.
pub fn run(options: &Confined) -> Done {
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
