use std::fs;
use std::io::Read as _;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;
use windlass_cell::{
    Access, Cell, CellChild, CellCommand, CellLimits, Level, LimitKind, Maker, Mount, Network,
    ProcessError,
};

/// A workspace and what a cell around it has.
pub struct World {
    pub folder: TempDir,
    pub cell: Cell,
    /// The user and group of the command, if it is not ours.
    user: Option<u32>,
}

/// A user without any right.
const NOBODY: u32 = 65534;

/// A command that has ended.
#[expect(dead_code, reason = "some of it is only printed")]
#[derive(Debug)]
pub struct Done {
    pub code: Option<i32>,
    pub signal: Option<i32>,
    pub limit: Option<LimitKind>,
    pub failure: Option<ProcessError>,
    pub stdout: String,
    pub stderr: String,
}

pub fn bind(path: impl Into<PathBuf>, access: Access) -> Mount {
    Mount::Bind { path: path.into(), access }
}

/// Cells by `bwrap`.
pub fn bwrap() -> Maker {
    Maker::Bwrap { program: "/usr/bin/bwrap".into() }
}

impl World {
    pub fn new() -> Self {
        let folder = TempDir::new().unwrap();
        let workspace = folder.path().join("workspace");
        fs::create_dir(&workspace).unwrap();
        let mut mounts = vec![bind("/usr", Access::Read)];
        for link in ["bin", "lib", "lib64", "sbin"] {
            let path = Path::new("/").join(link);
            match fs::read_link(&path) {
                Ok(target) => mounts.push(Mount::Link { path, target }),
                Err(_) if path.exists() => mounts.push(bind(path, Access::Read)),
                Err(_) => {}
            }
        }
        mounts.push(Mount::Memory { path: "/tmp".into(), bytes: 1 << 26 });
        mounts.push(bind(&workspace, Access::Write));
        let limits = CellLimits::default();
        let cell = Cell {
            level: Level::Full,
            maker: Maker::Own,
            mounts,
            network: Network::Closed,
            limits,
        };
        Self { folder, cell, user: None }
    }

    /// The same once for each maker of cells.
    pub fn by_all() -> [Self; 2] {
        let (own, mut other) = (Self::new(), Self::new());
        other.cell.maker = bwrap();
        [own, other]
    }

    /// The same as an ordinary user; of tests that do not run as root, their own.
    pub fn ordinary(maker: Maker) -> Self {
        let mut world = Self::new();
        world.cell.maker = maker;
        if rustix::process::getuid().is_root() {
            world.user = Some(NOBODY);
            let open = |path: &Path| {
                fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
            };
            open(world.folder.path());
            // The folder of our binaries may be closed to others.
            fs::copy(env!("CARGO_BIN_EXE_cell-launcher"), world.launcher()).unwrap();
            open(&world.launcher());
            chown(world.workspace(), Some(NOBODY), Some(NOBODY)).unwrap();
        }
        world
    }

    fn launcher(&self) -> PathBuf {
        match self.user {
            Some(_) => self.folder.path().join("launcher"),
            None => env!("CARGO_BIN_EXE_cell-launcher").into(),
        }
    }

    pub fn workspace(&self) -> PathBuf {
        self.folder.path().join("workspace")
    }

    /// Starts a command line in the cell.
    pub fn start(&self, line: &str) -> (Child, CellChild) {
        let (child, theirs) = CellChild::new(&self.cell).unwrap();
        let mut launcher = Command::new(self.launcher());
        if let Some(user) = self.user {
            launcher.uid(user).gid(user).current_dir("/");
        }
        let launcher = launcher
            .args(child.arguments())
            .env_clear()
            .process_group(0)
            .stdin(Stdio::from(theirs))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let command = CellCommand {
            argv: ["/bin/sh", "-c", line].map(str::to_owned).to_vec(),
            env: vec![("PATH".to_owned(), "/usr/local/bin:/usr/bin:/bin".to_owned())],
            cwd: self.workspace(),
        };
        let null: OwnedFd = fs::File::open("/dev/null").unwrap().into();
        child.start(&self.cell, &command, Some(null.as_fd())).unwrap();
        (launcher, child)
    }

    /// Runs a command line to its end.
    pub fn run(&self, line: &str) -> Done {
        let (mut launcher, mut child) = self.start(line);
        let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
        launcher.stdout.take().unwrap().read_to_end(&mut stdout).unwrap();
        launcher.stderr.take().unwrap().read_to_end(&mut stderr).unwrap();
        let status = launcher.wait().unwrap();
        child.update().unwrap();
        let status = child.status(Some(status));
        Done {
            code: status.and_then(|status| status.code()),
            signal: status.and_then(|status| status.signal()),
            limit: child.limit(),
            failure: child.failure(),
            stdout: String::from_utf8_lossy(&stdout).into_owned(),
            stderr: String::from_utf8_lossy(&stderr).into_owned(),
        }
    }

    /// Runs a command line that must succeed and returns what it printed.
    pub fn output(&self, line: &str) -> String {
        let done = self.run(line);
        assert_eq!(done.code, Some(0), "{line}: {done:?}");
        done.stdout
    }
}
