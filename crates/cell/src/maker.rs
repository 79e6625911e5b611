//! Finds out who can make cells on this machine.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::child::CellChild;
use crate::layout::Layout;
use crate::one_line::one_line;
use crate::process::{self, Confined, ProcessError};
use crate::run::{Excess, Limits, OnSignal, Program, run};
use crate::spec::{Cell, CellLimits, Level, Maker, Network};

/// How long a trial may take.
const TRIAL: Duration = Duration::from_secs(10);

/// Tries whether the launcher can make namespaces, and if not, whether `bwrap` can.
///
/// # Errors
/// Why neither can.
pub fn choose_maker(
    launcher: &Path,
    bwrap: impl FnOnce() -> Result<PathBuf, String>,
) -> Result<Maker, String> {
    let Err(own) = probe(launcher) else { return Ok(Maker::Own) };
    if let Some(inside) = inside_a_cell() {
        return Err(inside.to_owned());
    }
    let program = bwrap().map_err(|why| format!("{own}, and {why}"))?;
    let maker = Maker::Bwrap { program };
    match try_out(launcher, &maker) {
        Ok(()) => Ok(maker),
        Err(why) => Err(format!("{own}, and bwrap makes no cell either: {why}")),
    }
}

/// Lets the launcher make namespaces, and nothing in them.
fn probe(launcher: &Path) -> Result<(), String> {
    let (cell, socket) =
        CellChild::probe().map_err(|error| format!("there is no control socket: {error}"))?;
    let mut command = Command::new(launcher);
    command.args(cell.arguments()).env_clear().stdin(Stdio::from(socket));
    let (mut group, _streams) =
        process::start(command, None, Some(cell)).map_err(|error| error.to_string())?;
    let _ = group.wait(TRIAL);
    group.finish();
    group.failure().map_or(Ok(()), |failure| Err(failure.to_string()))
}

/// Makes a whole cell, in which nothing is to be done.
fn try_out(launcher: &Path, maker: &Maker) -> Result<(), String> {
    let cell = Cell {
        level: Level::Full,
        maker: maker.clone(),
        mounts: Layout::default().mounts(),
        network: Network::Closed,
        limits: CellLimits::default(),
    };
    let program = Program {
        argv: vec!["true".as_ref()],
        stdin: None,
        env: Vec::new(),
        cwd: Path::new("/"),
        limits: Limits { timeout: TRIAL, output_bytes_max: 4096 },
        confined: Some(Confined { launcher, cell: &cell }),
        excess: Excess::End,
        on_signal: OnSignal::Continue,
    };
    match run(&program) {
        // A machine without this program has a cell all the same.
        Ok(_) | Err(ProcessError::NotStarted(_)) => Ok(()),
        Err(error @ (ProcessError::NotConfined(_) | ProcessError::Lost(_))) => {
            Err(one_line(&error.to_string()))
        }
    }
}

/// Says so if this process is itself in a cell: what holds it forbids to make more.
#[must_use]
pub fn inside_a_cell() -> Option<&'static str> {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let has = |line: &str| status.lines().any(|own| own == line);
    let name = rustix::system::uname();
    let is_inside = name.nodename().to_bytes() == b"cell"
        && has("NoNewPrivs:\t1")
        && has("Seccomp:\t2")
        && has("CapBnd:\t0000000000000000");
    is_inside.then_some("this is inside a cell of Windlass already, where no other can be made")
}
