//! `windlass canon`.

use windlass_kernel::{Digest, canon};
use windlass_runtime::REQUEST_BYTES_MAX;

use crate::args::Canon;
use crate::failure::CommandResult;
use crate::input;
use crate::output::Output;

/// Prints the canonical bytes of standard input, or their digest.
pub fn run(options: &Canon, output: &Output) -> CommandResult {
    let limit = u64::try_from(REQUEST_BYTES_MAX).unwrap_or(u64::MAX);
    let bytes = input::read_standard_input(limit)?;
    let canonical = canon::value_to_bytes(&canon::parse(&bytes, REQUEST_BYTES_MAX)?)?;
    if options.digest {
        output.line(&Digest::of(&canonical).to_string());
    } else {
        output.bytes(&canonical);
    }
    Ok(0)
}
