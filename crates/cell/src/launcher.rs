//! The launcher's side: our own binary makes a cell around itself and starts the command in it.
//!
//! A process cannot be put into namespaces from outside without unsafe code between fork and exec, so the
//! command is started through two short-lived stages of our own binary:
//!
//! ```text
//! windlass ── control socket ──┐
//!    └─ `confined full`        │ makes the namespaces, waits, ends the cell when either side is gone
//!          └─ `confined init`  ┘ first process of the cell: builds the root, drops every right, starts the
//!                └─ command      command, reports its end; with it the kernel ends what is left of the cell
//! ```
//!
//! Where `bwrap` makes the cell, `confined bwrap` starts it, and it starts `confined inside` as the first process
//! of the cell, which does all that `init` does but for the root: it only checks that.

use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};
use std::sync::Arc;

use nix::sched::CloneFlags;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::RecvFlags;
use rustix::process::{
    DumpableBehavior, Pid, PidfdFlags, Signal, WaitOptions, kill_process_group, pidfd_open,
    pidfd_send_signal, set_dumpable_behavior, set_parent_process_death_signal,
};
use rustix::thread::{CapabilitySet, CapabilitySets};

use crate::control::{self, Inbox};
use crate::spec::{
    Cell, CellCommand, CellLimits, Level, LimitKind, Maker, Network, Report, Request,
};
use crate::watch::Watch;
use crate::{bwrap, locks, mounts, network};

/// The exit code of a launcher whose report says more.
const FAILED: i32 = 125;
/// How often the limits of a cell are compared with what it uses.
const WATCH_MS: i64 = 200;
/// What the first process needs until the command starts.
const NEEDED: CapabilitySet = CapabilitySet::SYS_ADMIN
    .union(CapabilitySet::NET_ADMIN)
    .union(CapabilitySet::SETPCAP)
    .union(CapabilitySet::DAC_OVERRIDE);

/// Runs one stage of the launcher and returns its exit code. The process must have one thread, and its
/// standard input must be the control socket.
#[must_use]
pub fn launch(stage: &str) -> i32 {
    let control = rustix::stdio::stdin();
    let done = close_inherited().map_err(|error| format!("cannot close descriptors: {error}"));
    let done = done.and_then(|()| match stage {
        "full" => make_namespaces(),
        "init" => run_init(control),
        "probe" => probe(control),
        "bwrap" => bwrap::start(control),
        "inside" => run_inside(control),
        "landlock" => run_with_landlock(control),
        _ => Err(format!("there is no stage `{stage}`")),
    });
    match done {
        Ok(code) => code,
        Err(reason) => {
            control::report(control, &Report::Refused(reason));
            FAILED
        }
    }
}

/// Closes every descriptor but the three standard ones: whoever started Windlass may have left some open.
fn close_inherited() -> io::Result<()> {
    let mut open = Vec::new();
    for entry in fs::read_dir("/proc/self/fd")? {
        if let Some(number) = entry?.file_name().to_str().and_then(|name| name.parse::<i32>().ok())
        {
            open.push(number);
        }
    }
    for number in open.into_iter().filter(|number| *number > 2) {
        // The descriptor of the listing itself is closed already.
        let _ = nix::unistd::close(number);
    }
    Ok(())
}

/// The first stage: new namespaces, in which the second stage is the first process.
fn make_namespaces() -> Result<i32, String> {
    unshare()?;
    let mut init = Command::new("/proc/self/exe");
    init.args(["confined", "init"]).env_clear().stdin(Stdio::inherit());
    let init = init.spawn().map_err(|error| format!("cannot start the second stage: {error}"))?;
    let pid = i32::try_from(init.id()).ok().and_then(Pid::from_raw);
    let pid = pid.ok_or_else(|| "the second stage has no number".to_owned())?;
    follow(pid).map_err(|error| format!("cannot follow the cell: {error}"))
}

fn unshare() -> Result<(), String> {
    let (user, group) = (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw());
    let spaces = CloneFlags::CLONE_NEWUSER
        | CloneFlags::CLONE_NEWNS
        | CloneFlags::CLONE_NEWPID
        | CloneFlags::CLONE_NEWIPC
        | CloneFlags::CLONE_NEWUTS
        | CloneFlags::CLONE_NEWNET
        | CloneFlags::CLONE_NEWCGROUP;
    nix::sched::unshare(spaces)
        .map_err(|error| format!("the kernel makes no namespaces: {error}"))?;
    let write = |path: &str, text: String| {
        fs::write(path, text).map_err(|error| format!("cannot write `{path}`: {error}"))
    };
    write("/proc/self/setgroups", "deny".to_owned())?;
    write("/proc/self/uid_map", format!("{user} {user} 1"))?;
    write("/proc/self/gid_map", format!("{group} {group} 1"))?;
    pass_capabilities_on().map_err(|error| format!("cannot pass capabilities on: {error}"))
}

/// Tries whether the launcher itself can make cells: some machines let it make namespaces in which it then
/// has no rights.
fn probe(control: BorrowedFd<'_>) -> Result<i32, String> {
    unshare()?;
    mounts::make_private().map_err(|error| error.to_string())?;
    control::report(control, &Report::Started);
    Ok(0)
}

/// Keeps what the second stage needs across its exec, also for an ordinary user.
fn pass_capabilities_on() -> rustix::io::Result<()> {
    let sets = rustix::thread::capabilities(None)?;
    let sets = CapabilitySets { inheritable: NEEDED, ..sets };
    rustix::thread::set_capabilities(None, sets)?;
    for capability in NEEDED.iter() {
        rustix::thread::configure_capability_in_ambient_set(capability, true)?;
    }
    Ok(())
}

/// Waits for the cell. If Windlass is gone, the cell is ended.
pub(crate) fn follow(init: Pid) -> io::Result<i32> {
    let exit = pidfd_open(init, PidfdFlags::empty())?;
    let control = rustix::stdio::stdin();
    loop {
        let mut fds = [
            PollFd::new(&exit, PollFlags::IN),
            PollFd::from_borrowed_fd(control, PollFlags::RDHUP),
        ];
        match poll(&mut fds, None) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        if fds.last().is_some_and(|fd| !fd.revents().is_empty()) {
            // It may have ended by itself.
            let _ = pidfd_send_signal(&exit, Signal::KILL);
        }
        if let Some((_, status)) = rustix::process::waitpid(Some(init), WaitOptions::NOHANG)? {
            return Ok(status.exit_status().unwrap_or(FAILED));
        }
        if fds.last().is_some_and(|fd| !fd.revents().is_empty()) {
            let done = rustix::process::waitpid(Some(init), WaitOptions::empty())?;
            return Ok(done.and_then(|(_, status)| status.exit_status()).unwrap_or(FAILED));
        }
    }
}

/// The second stage: builds the cell, starts the command and waits for it.
fn run_init(control: BorrowedFd<'_>) -> Result<i32, String> {
    let fail = |what: &'static str| move |error: rustix::io::Errno| format!("{what}: {error}");
    set_parent_process_death_signal(Some(Signal::KILL))
        .map_err(fail("cannot follow the parent"))?;
    set_dumpable_behavior(DumpableBehavior::NotDumpable).map_err(fail("cannot hide"))?;
    rustix::process::setsid().map_err(fail("cannot start a session"))?;
    let (request, stdin) = control::receive_request(control)
        .map_err(|error| format!("the request cannot be read: {error}"))?;
    if (request.cell.level, &request.cell.maker) != (Level::Full, &Maker::Own) {
        return Err("the request is for another stage".to_owned());
    }
    locks::limit_numbers(&request.cell.limits);
    mounts::enter(&request.cell.mounts).map_err(|error| error.to_string())?;
    rustix::system::sethostname(b"cell").map_err(fail("cannot set the host name"))?;
    network::bring_up_loopback().map_err(|error| format!("there is no loopback: {error}"))?;
    lock_and_run(control, &request, stdin)
}

/// The stage that `bwrap` starts: checks the cell, starts the command and waits for it.
fn run_inside(control: BorrowedFd<'_>) -> Result<i32, String> {
    let fail = |what: &'static str| move |error: rustix::io::Errno| format!("{what}: {error}");
    set_parent_process_death_signal(Some(Signal::KILL))
        .map_err(fail("cannot follow the parent"))?;
    let (request, stdin) = control::receive_request(control)
        .map_err(|error| format!("the request cannot be read: {error}"))?;
    let Cell { level, maker, mounts, limits, .. } = &request.cell;
    if *level != Level::Full || *maker == Maker::Own {
        return Err("the request is for another stage".to_owned());
    }
    bwrap::finish_root(mounts, limits)?;
    set_dumpable_behavior(DumpableBehavior::NotDumpable).map_err(fail("cannot hide"))?;
    lock_and_run(control, &request, stdin)
}

/// Drops every right, starts the command in the finished root and waits for it.
fn lock_and_run(
    control: BorrowedFd<'_>,
    request: &Request,
    stdin: Option<OwnedFd>,
) -> Result<i32, String> {
    let Request { cell, command: program, .. } = request;
    let listener = match cell.network {
        Network::Closed => None,
        Network::Broker => Some(
            network::listen()
                .map_err(|error| format!("there is no port for the broker: {error}"))?,
        ),
    };
    locks::limit(&cell.limits)?;
    locks::drop_capabilities()?;
    locks::confine(cell)?;
    if let Some(listener) = listener {
        control::send(control, &Report::Listening(network::BROKER_PORT), Some(listener.as_fd()))
            .map_err(|error| format!("the broker cannot be reached: {error}"))?;
    }
    restore_signals().map_err(|error| format!("cannot restore signals: {error}"))?;
    // Before the start: whoever reads nothing more must not believe that nothing ran.
    control::report(control, &Report::Started);
    match command(program, stdin).spawn() {
        Ok(child) => {
            let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
            let pid = pid.ok_or_else(|| "the command has no number".to_owned())?;
            wait(control, pid, &cell.limits).map_err(|error| format!("cannot follow: {error}"))
        }
        Err(error) => {
            control::report(control, &Report::NoProgram(cannot_start(program, &error)));
            Ok(FAILED)
        }
    }
}

/// Signals that whoever started Windlass ignored get their default action in the command: a handler does
/// not survive the start of another program.
fn restore_signals() -> io::Result<()> {
    use signal_hook::consts::{SIGALRM, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};
    let more = [rustix::process::Signal::XFSZ.as_raw(), rustix::process::Signal::XCPU.as_raw()];
    for signal in
        [SIGALRM, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2].into_iter().chain(more)
    {
        signal_hook::flag::register(signal, Arc::default())?;
    }
    Ok(())
}

fn command(program: &CellCommand, stdin: Option<OwnedFd>) -> Command {
    let mut command = Command::new(program.argv.first().map_or("", String::as_str));
    command
        .args(program.argv.iter().skip(1))
        .env_clear()
        .envs(program.env.iter().map(|(name, value)| (name, value)))
        .current_dir(&program.cwd)
        .stdin(stdin.map_or_else(Stdio::null, Stdio::from))
        .process_group(0);
    command
}

fn cannot_start(program: &CellCommand, error: &io::Error) -> String {
    let name = program.argv.first().map_or("", String::as_str);
    format!("cannot start `{name}` in `{}`: {error}", program.cwd.display())
}

/// Waits for the command as the first process of its PID namespace, and reaps the others.
fn wait(control: BorrowedFd<'_>, command: Pid, limits: &CellLimits) -> io::Result<i32> {
    let exit = pidfd_open(command, PidfdFlags::empty())?;
    let mut inbox = Inbox::default();
    let mut watch = Watch::new(*limits);
    loop {
        let mut fds =
            [PollFd::new(&exit, PollFlags::IN), PollFd::from_borrowed_fd(control, PollFlags::IN)];
        let tick = Timespec { tv_sec: 0, tv_nsec: WATCH_MS * 1_000_000 };
        match poll(&mut fds, Some(&tick)) {
            // The command can send signals at any rate: they must not keep the limits from being watched.
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        while let Ok(Some((pid, status))) = rustix::process::wait(WaitOptions::NOHANG) {
            if pid == command {
                let (code, signal) = (status.exit_status(), status.terminating_signal());
                if let Some(limit) = limit_of(code, signal) {
                    control::report(control, &Report::Limit(limit));
                }
                control::report(control, &Report::Exited { code, signal });
                return Ok(0);
            }
        }
        if fds.last().is_some_and(|fd| !fd.revents().is_empty()) {
            inbox.read(control, RecvFlags::DONTWAIT)?;
            if inbox.ended {
                return Ok(FAILED);
            }
            if inbox.take_terminate() {
                // It may have exited already.
                let _ = kill_process_group(command, Signal::TERM);
            }
        }
        if let Some(limit) = watch.reached() {
            control::report(control, &Report::Limit(limit));
            return Ok(FAILED);
        }
    }
}

/// The limit that a signal means; a shell passes it on as an exit code.
fn limit_of(code: Option<i32>, signal: Option<i32>) -> Option<LimitKind> {
    let too_large = Signal::XFSZ.as_raw();
    let limit = signal == Some(too_large) || code == Some(128 + too_large);
    limit.then_some(LimitKind::FileSize)
}

/// The weaker level: no namespaces; this process becomes the command.
fn run_with_landlock(control: BorrowedFd<'_>) -> Result<i32, String> {
    let (Request { cell, command: program, .. }, stdin) = control::receive_request(control)
        .map_err(|error| format!("the request cannot be read: {error}"))?;
    if cell.level != Level::Landlock {
        return Err("the request is for another level".to_owned());
    }
    if cell.network != Network::Closed {
        return Err("the broker needs the full level".to_owned());
    }
    locks::limit(&cell.limits)?;
    locks::confine(&cell)?;
    restore_signals().map_err(|error| format!("cannot restore signals: {error}"))?;
    // The command replaces this process, so the socket must outlive its place as standard input.
    let reports = control.try_clone_to_owned().map_err(|error| error.to_string())?;
    control::report(&reports, &Report::Started);
    let error = command(&program, stdin).exec();
    control::report(&reports, &Report::NoProgram(cannot_start(&program, &error)));
    Ok(FAILED)
}
