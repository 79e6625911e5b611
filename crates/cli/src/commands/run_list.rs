//! `windlass run --tasks`: several tasks, one after the other, in one process.

use std::io::{BufRead, BufReader, Read as _};
use std::path::Path;

use serde_json::Value;
use windlass_kernel::Code;

use crate::args::RunTask;
use crate::commands::{backlog, run, status};
use crate::failure::{CommandResult, Failure};
use crate::input::{open_or_standard_input, unreadable};
use crate::output::Output;
use crate::setup::RunSetup;

/// The maximum size of one task.
const LINE_BYTES_MAX: u64 = 256 << 10;

/// Takes each task of a file through the loop; returns the exit code of the first that did not pass.
///
/// A task that ended without a pass does not keep the next ones from running. One that waits for a person does: only
/// one task is open at a time.
pub fn run_all(setup: &RunSetup, options: &RunTask, path: &Path, output: &Output) -> CommandResult {
    let mut source = BufReader::new(open_or_standard_input(path)?);
    let mut code = 0;
    let mut values: Vec<Value> = Vec::new();
    while let Some(task) = next_task(&mut source, path)? {
        let run = match run::run_task(setup, options, &task, output) {
            Ok(run) => run,
            Err(failure) => {
                // What has run is told before the failure.
                if output.json {
                    output.value(&values)?;
                }
                return Err(failure);
            }
        };
        let exit = status::exit(&run);
        code = if code == 0 { exit } else { code };
        if output.json {
            values.push(status::describe(&run));
        } else {
            status::print_end(&run, output);
        }
        backlog::complete_item(&run, output)?;
        if run.ended.is_none() {
            output.note("the tasks after this one were not started: it has not ended");
            break;
        }
    }
    if output.json {
        output.value(&values)?;
    }
    Ok(code)
}

/// The next line with a task; `None` at the end.
fn next_task(source: &mut impl BufRead, path: &Path) -> Result<Option<String>, Failure> {
    loop {
        let mut line = Vec::new();
        let read = source.take(LINE_BYTES_MAX + 1).read_until(b'\n', &mut line);
        if read.map_err(|error| unreadable(path, &error))? == 0 {
            return Ok(None);
        }
        if line.len() as u64 > LINE_BYTES_MAX {
            let message = format!("a task has more than {LINE_BYTES_MAX} bytes");
            return Err(Failure::new(Code::RequestInvalid, message));
        }
        let line = String::from_utf8(line).map_err(|_| {
            Failure::new(Code::RequestInvalid, format!("`{}` is not UTF-8", path.display()))
        })?;
        let task = line.trim();
        if !task.is_empty() && !task.starts_with('#') {
            return Ok(Some(task.to_owned()));
        }
    }
}
