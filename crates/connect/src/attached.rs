//! A command in its cell that has our own standard streams: for a shell that a coding agent starts.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::path::Path;
use std::process::ExitStatus;
use std::thread;
use std::time::{Duration, Instant};

use windlass_cell::{ChildInput, ProcessGroup, received_signal};

use crate::call_failure::CallFailure;
use crate::network::CommandNetwork;
use crate::open_cell::OpenCell;
use crate::sandbox::{Confinement, Sandbox};

/// How long the cell may take to be made.
const CELL_WAIT: Duration = Duration::from_secs(30);
/// How often signals are looked for.
const TICK: Duration = Duration::from_millis(50);
/// The time between the request to end and the end.
const GRACE: Duration = Duration::from_secs(2);
const CHUNK_BYTES: usize = 64 * 1024;

/// A command that has our own standard streams.
pub struct AttachedCommand<'a> {
    /// The program and its arguments.
    pub argv: &'a [String],
    /// Added to the variables that are passed on.
    pub env: &'a BTreeMap<String, String>,
    /// Its working directory.
    pub cwd: &'a Path,
}

impl Sandbox {
    /// Runs a command in a cell until it ends or a signal comes, and takes over what it did to git. `None` if its
    /// exit status was lost.
    ///
    /// # Errors
    /// Why it was not started, or what it did that cannot be accepted.
    pub fn run_attached(
        &self,
        confinement: &Confinement,
        command: &AttachedCommand<'_>,
    ) -> Result<Option<ExitStatus>, String> {
        self.try_run_attached(confinement, command).map_err(|failure| failure.message)
    }

    fn try_run_attached(
        &self,
        confinement: &Confinement,
        command: &AttachedCommand<'_>,
    ) -> Result<Option<ExitStatus>, CallFailure> {
        let cell = self.open(confinement)?;
        let ended = run(&cell, command);
        let closed = cell.close();
        let status = ended?;
        closed.map(|()| status)
    }
}

fn run(cell: &OpenCell, command: &AttachedCommand<'_>) -> Result<Option<ExitStatus>, CallFailure> {
    let mut network = CommandNetwork::new(cell.rules());
    let own = command.env.iter().map(|(name, value)| (name.as_str(), value.clone()));
    let added = cell.variables().iter().cloned().chain(network.variables());
    let env: Vec<(&str, String)> = added.chain(own).collect();
    let (mut group, streams) = windlass_cell::spawn(
        command.argv,
        env,
        command.cwd,
        ChildInput::Pipe,
        Some(cell.confined()),
    )?;
    if let Some(listener) = group.wait_started(CELL_WAIT)? {
        network.serve(listener);
    }
    if let Some(mut stdin) = streams.stdin {
        // Nobody waits for it: it ends with this process, or when one of both sides ends.
        drop(thread::spawn(move || copy(&mut std::io::stdin(), &mut stdin)));
    }
    let (mut stdout, mut stderr) = (streams.stdout, streams.stderr);
    let copies = [
        thread::spawn(move || copy(&mut stdout, &mut std::io::stdout())),
        thread::spawn(move || copy(&mut stderr, &mut std::io::stderr())),
    ];
    wait(&group);
    let status = group.finish();
    for copy in copies {
        // Whatever it has not copied, nobody wants to read.
        let _ = copy.join();
    }
    drop(network.finish());
    match group.failure() {
        Some(failure) => Err(failure.into()),
        None => Ok(status),
    }
}

/// Waits until the command has ended, or until a signal came and its time to end is over.
fn wait(group: &ProcessGroup) {
    while !group.wait(TICK) {
        if received_signal().is_some() {
            group.terminate();
            let asked = Instant::now();
            while asked.elapsed() < GRACE && !group.wait(TICK) {}
            return;
        }
    }
}

/// Copies until one side ends, without keeping anything back.
fn copy(from: &mut impl Read, to: &mut impl Write) {
    let mut chunk = vec![0; CHUNK_BYTES];
    loop {
        match from.read(&mut chunk) {
            Ok(0) => return,
            Ok(count) => {
                let written = to.write_all(chunk.get(..count).unwrap_or_default());
                if written.and_then(|()| to.flush()).is_err() {
                    return;
                }
            }
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(_) => return,
        }
    }
}
