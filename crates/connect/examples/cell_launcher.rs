//! The launcher without the rest of Windlass, for the tests of this crate.

use std::process::ExitCode;

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let code = match (arguments.next().as_deref(), arguments.next()) {
        (Some("confined"), Some(stage)) => windlass_cell::launch(&stage),
        _ => 2,
    };
    ExitCode::from(u8::try_from(code).unwrap_or(u8::MAX))
}
