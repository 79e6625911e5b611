//! Runs one line in a cell that is laid out as in production.

use std::collections::BTreeSet;
use std::fs;
use std::io::Read;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use windlass_cell::{
    Access, Cell, CellChild, CellCommand, CellLimits, Layout, Level, LimitKind, Maker, Mount,
    Network, ProcessError, WorkspaceView, find_git,
};

use super::world::{World, give, open_folders};

/// The most output that is kept of each stream.
const OUTPUT_BYTES_MAX: u64 = 256 << 10;
/// How long a cell may take to end once its socket is closed.
const END: Duration = Duration::from_secs(20);

/// How a line ended.
#[derive(Debug)]
pub struct Outcome {
    pub output: Vec<u8>,
    pub refused: Option<ProcessError>,
    pub limit: Option<LimitKind>,
    /// Whether the launcher went on after its socket was closed.
    pub lingers: bool,
}

impl Outcome {
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.output).into_owned()
    }
}

/// A cell to start.
pub struct Plan {
    pub access: Access,
    pub maker: Maker,
    pub level: Level,
    pub folder: PathBuf,
    pub hidden: Vec<PathBuf>,
    pub limits: CellLimits,
    pub network: Network,
    pub timeout: Duration,
}

impl Plan {
    pub fn new(world: &World, access: Access) -> Self {
        Self {
            access,
            maker: world.maker.clone(),
            level: world.level,
            folder: world.workspace(),
            hidden: world.hidden(),
            limits: CellLimits {
                memory_bytes: 16 << 30,
                file_bytes: 1 << 28,
                processes: 200,
                ..CellLimits::default()
            },
            network: Network::Closed,
            timeout: Duration::from_secs(20),
        }
    }
}

/// The mounts that production makes; changes of the git directory go to `changes`.
fn mounts(world: &World, plan: &Plan, changes: &Path) -> Result<Vec<Mount>, String> {
    if plan.level == Level::Landlock {
        let workspace = Mount::Bind { path: plan.folder.clone(), access: plan.access };
        return Ok(vec![workspace]);
    }
    let layout = Layout { variables: world.variables().into_iter().collect(), ..Layout::default() };
    let git = find_git(&plan.folder)?;
    let (upper, work) = (changes.join("upper"), changes.join("work"));
    for folder in [&upper, &work] {
        fs::create_dir_all(folder).map_err(|error| error.to_string())?;
    }
    if let Some(user) = world.user {
        give(changes, user);
    }
    let view = WorkspaceView {
        folder: &plan.folder,
        access: plan.access,
        git: git.as_ref(),
        git_changes: (plan.maker == Maker::Own).then_some((&upper, &work)),
        fixed: &BTreeSet::new(),
        hidden: &plan.hidden,
    };
    let mut mounts = layout.mounts();
    mounts.extend(view.mounts());
    Ok(mounts)
}

/// A cell that runs.
pub struct Running {
    launcher: Child,
    child: CellChild,
    changes: PathBuf,
    readers: Vec<thread::JoinHandle<Vec<u8>>>,
}

/// Starts a shell line.
pub fn start(world: &World, plan: &Plan, line: &str) -> Result<Running, String> {
    let changes = world.path("changes").join(super::world::random());
    let mounts = mounts(world, plan, &changes)?;
    let cell = Cell {
        level: plan.level,
        maker: plan.maker.clone(),
        mounts,
        network: plan.network,
        limits: plan.limits,
    };
    let command = CellCommand {
        argv: ["/bin/sh", "-c", line].map(str::to_owned).to_vec(),
        env: world.variables(),
        cwd: plan.folder.clone(),
    };
    let (child, theirs) = CellChild::new(&cell).unwrap();
    let mut launcher = Command::new(world.path("launcher"));
    if let Some(user) = world.user {
        launcher.uid(user).gid(user);
    }
    let mut launcher = launcher
        .args(child.arguments())
        // Production passes no variable on; these must not be seen either if it did.
        .env_clear()
        .envs([("TOKEN", &world.canary), ("LC_SECRET", &world.canary)])
        .envs([("BASH_ENV", "/outside"), ("TMPDIR", "/outside"), ("PATH", "/outside")])
        .current_dir(world.path("outside"))
        .process_group(0)
        .stdin(Stdio::from(theirs))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let readers =
        vec![collect(launcher.stdout.take().unwrap()), collect(launcher.stderr.take().unwrap())];
    // A launcher that has died already is noticed below.
    let _ = child.start(&cell, &command, None);
    Ok(Running { launcher, child, changes, readers })
}

/// Reads a stream to its end, and keeps the beginning.
fn collect(mut stream: impl Read + Send + 'static) -> thread::JoinHandle<Vec<u8>> {
    thread::spawn(move || {
        let mut kept = Vec::new();
        let _ = (&mut stream).take(OUTPUT_BYTES_MAX).read_to_end(&mut kept);
        let _ = std::io::copy(&mut stream, &mut std::io::sink());
        kept
    })
}

impl Running {
    fn wait(&mut self, time: Duration) -> bool {
        let deadline = Instant::now() + time;
        let mut pause = Duration::from_millis(1);
        while Instant::now() < deadline {
            if self.launcher.try_wait().unwrap().is_some() {
                return true;
            }
            thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(10));
        }
        false
    }

    /// Waits for the end, and ends it when its time is over.
    pub fn finish(mut self, timeout: Duration) -> (Outcome, PathBuf) {
        let mut lingers = false;
        if !self.wait(timeout) {
            self.child.end();
            if !self.wait(END) {
                lingers = true;
                let _ = self.launcher.kill();
                let _ = self.launcher.wait();
            }
        }
        let _ = self.child.update();
        let mut output = Vec::new();
        for reader in self.readers {
            output.extend(reader.join().unwrap());
        }
        let outcome =
            Outcome { output, refused: self.child.failure(), limit: self.child.limit(), lingers };
        (outcome, self.changes)
    }
}

/// Runs a line to its end; returns also where changes of the git directory went.
pub fn run(world: &World, plan: &Plan, line: &str) -> Result<(Outcome, PathBuf), String> {
    Ok(start(world, plan, line)?.finish(plan.timeout))
}

/// Removes the changes of a git directory.
pub fn forget(changes: &Path) {
    open_folders(changes);
    let _ = fs::remove_dir_all(changes);
}
