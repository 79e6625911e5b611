//! `windlass canon`.

use windlass_kernel::{Digest, canon};
use windlass_runtime::REQUEST_BYTES_MAX;

use crate::args::Canon;
use crate::commands::read_limited;
use crate::failure::CommandResult;
use crate::output::Output;

/// Prints the canonical bytes of standard input, or their digest.
pub fn run(options: &Canon, output: &Output) -> CommandResult {
    let bytes = read_limited(&mut std::io::stdin().lock(), "standard input")?;
    let canonical = canon::value_to_bytes(&canon::parse(&bytes, REQUEST_BYTES_MAX)?)?;
    if options.digest {
        output.line(&Digest::of(&canonical).to_string());
    } else {
        output.bytes(&canonical);
    }
    Ok(0)
}
