//! Serves a script until it is ended, and prints each request as a line of JSON.
//!
//! `cargo run -p windlass-loopback-model --example serve -- script.json`

#![expect(clippy::print_stdout, reason = "the output is what the example is for")]

use std::error::Error;
use std::io::Write;
use std::time::Duration;

use windlass_loopback_model::{LoopbackModel, Script};

fn main() -> Result<(), Box<dyn Error>> {
    let file = std::env::args_os().nth(1).ok_or("the file with the script is missing")?;
    let model = LoopbackModel::start(Script::from_json(&std::fs::read_to_string(file)?)?)?;
    println!("http://{}", model.address());
    let mut printed = 0;
    loop {
        std::io::stdout().flush()?;
        let _ = model.wait_for(printed + 1, Duration::from_secs(3600));
        for request in model.requests().iter().skip(printed) {
            println!("{}", serde_json::to_string(request)?);
            printed += 1;
        }
    }
}
