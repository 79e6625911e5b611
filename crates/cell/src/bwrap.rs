//! A cell that `bwrap` makes, where the launcher itself may make no namespaces.
//!
//! `bwrap` looks paths up again and follows symbolic links, so a command in another cell of the same
//! workspace could redirect a mount. Therefore the launcher notes what it means to show, and the stage inside
//! compares what is there (`verify.rs`) before the command starts.

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::fs::{Mode, OFlags, fstat, open};
use rustix::io::{Errno, FdFlags, fcntl_setfd};
use rustix::mount::MountFlags;
use rustix::process::{Pid, Resource, Rlimit, WaitOptions};

use crate::launcher::follow;
use crate::mounts::{
    DEVICE_LINKS, DEVICES, MountError, SHARED_MEMORY_BYTES, failed, location, set_flags,
};
use crate::sources::{Shown, keep_covered};
use crate::spec::{Access, Cell, CellLimits, Level, Maker, Mount};
use crate::verify::{self, Identity};
use crate::{control, locks};

/// The variable that holds the identities of what is shown, for the stage inside.
const IDENTITIES: &str = "WINDLASS_CELL_IDENTITIES";
/// What is always the same.
const NAMESPACES: [&str; 17] = [
    "--unshare-user",
    "--unshare-pid",
    "--unshare-ipc",
    "--unshare-uts",
    "--unshare-net",
    "--unshare-cgroup",
    "--die-with-parent",
    "--new-session",
    // The stage inside reaps, and its end is the end of all.
    "--as-pid-1",
    "--hostname",
    "cell",
    "--clearenv",
    "--chdir",
    "/",
    "--cap-drop",
    "ALL",
    "--setenv",
];
/// What the stage inside needs where it is root: to set devices and `/proc` read-only, and to drop these.
const ROOT_NEEDS: [&str; 4] = ["--cap-add", "CAP_SYS_ADMIN", "--cap-add", "CAP_SETPCAP"];
/// The access mode of folders in memory.
const FOLDER_MODE: &str = "0755";

/// The stage outside: starts `bwrap` and follows it.
pub(crate) fn start(control: BorrowedFd<'_>) -> Result<i32, String> {
    let cell: Cell = control::receive_one(control)
        .map_err(|error| format!("the description of the cell cannot be read: {error}"))?;
    let Cell { level: Level::Full, maker: Maker::Bwrap { program }, mounts, .. } = &cell else {
        return Err("the request is for another stage".to_owned());
    };
    let arguments = Arguments::new(mounts).map_err(|error| error.to_string())?;
    // If `bwrap` dies first, the processes of the cell become children of this one.
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))
        .map_err(|error| format!("cannot adopt processes: {error}"))?;
    let mut bwrap = Command::new(program);
    bwrap.args(&arguments.words).env_clear().current_dir("/").stdin(Stdio::inherit());
    let bwrap =
        bwrap.spawn().map_err(|error| format!("cannot start `{}`: {error}", program.display()))?;
    drop(arguments);
    let pid = i32::try_from(bwrap.id()).ok().and_then(Pid::from_raw);
    let pid = pid.ok_or_else(|| "bwrap has no number".to_owned())?;
    let code = follow(pid).map_err(|error| format!("cannot follow the cell: {error}"))?;
    // The first process of the cell can be reaped only when all others of it are gone.
    while !matches!(rustix::process::wait(WaitOptions::empty()), Err(Errno::CHILD)) {}
    Ok(code)
}

/// The arguments of `bwrap`, and the descriptors that they name.
#[derive(Default)]
struct Arguments {
    words: Vec<OsString>,
    descriptors: Vec<OwnedFd>,
}

impl Arguments {
    fn new(mounts: &[Mount]) -> Result<Self, MountError> {
        raise_open_files();
        let mut all = Self::default();
        let mut identities = Vec::new();
        let mut shown = Shown::default();
        for (at, mount) in mounts.iter().enumerate() {
            keep_covered(mounts.get(..at).unwrap_or_default(), mount)?;
            identities.extend(all.mount(mount, &mut shown)?);
        }
        all.devices();
        all.add(["--proc", "/proc", "--remount-ro", "/"]);
        if !rustix::process::getuid().is_root() {
            all.add(["--remount-ro", "/proc"]);
        }
        let program = Path::new("/proc/self/exe");
        let program = all.pass_on(program, OFlags::PATH).map_err(failed("open", program))?;
        all.add(["--", &program, "confined", "inside"]);
        let mut words: Vec<OsString> = NAMESPACES.map(OsString::from).to_vec();
        words.extend([IDENTITIES.into(), verify::to_text(&identities).into()]);
        if rustix::process::getuid().is_root() {
            words.extend(ROOT_NEEDS.map(OsString::from));
        }
        words.append(&mut all.words);
        all.words = words;
        Ok(all)
    }

    fn add<W: AsRef<std::ffi::OsStr>>(&mut self, words: impl IntoIterator<Item = W>) {
        self.words.extend(words.into_iter().map(|word| word.as_ref().to_owned()));
    }

    fn option(&mut self, option: &str, path: &Path) {
        self.add([option.as_ref(), path.as_os_str()]);
    }

    /// Opens a file that `bwrap` inherits; returns its path there.
    fn pass_on(&mut self, path: &Path, flags: OFlags) -> rustix::io::Result<String> {
        let file = open(path, flags, Mode::empty())?;
        fcntl_setfd(&file, FdFlags::empty())?;
        let name = format!("/proc/self/fd/{}", file.as_raw_fd());
        self.descriptors.push(file);
        Ok(name)
    }

    /// Adds one mount; returns what must be there, if it is of the machine.
    fn mount(&mut self, mount: &Mount, shown: &mut Shown) -> Result<Option<Identity>, MountError> {
        match mount {
            Mount::Bind { path, access } => {
                let (identity, real) = look_at(path)?;
                shown.check(path, &real)?;
                shown.add(path, Some(real));
                self.bind(path, path, *access);
                Ok(Some(identity))
            }
            Mount::BindAt { from, path, access } => {
                let (identity, _) = look_at(from)?;
                shown.add(path, None);
                self.bind(from, path, *access);
                Ok(Some(identity))
            }
            Mount::Mask { path } => {
                self.mask(path)?;
                Ok(None)
            }
            Mount::Memory { path, bytes } => {
                shown.add(path, None);
                self.memory(path, *bytes);
                Ok(None)
            }
            Mount::Overlay { path, .. } => {
                Err(failed("mount an overlay on", path)(io::Error::other("bwrap has none")))
            }
            Mount::Link { path, target } => {
                self.option("--symlink", target);
                self.add([path]);
                Ok(None)
            }
        }
    }

    fn bind(&mut self, from: &Path, path: &Path, access: Access) {
        let option = match access {
            Access::Read => "--ro-bind",
            Access::Write => "--bind",
        };
        self.option(option, from);
        self.add([path]);
    }

    /// Covers a file by an empty file, and a folder by an empty folder. `bwrap` would create what is missing,
    /// in the workspace itself.
    fn mask(&mut self, path: &Path) -> Result<(), MountError> {
        match path.symlink_metadata() {
            Ok(metadata) if metadata.is_dir() => {
                self.memory(path, 4096);
                self.option("--remount-ro", path);
            }
            Ok(_) => {
                let null = Path::new("/dev/null");
                let name = self.pass_on(null, OFlags::RDONLY).map_err(failed("open", null))?;
                let number = name.rsplit('/').next().unwrap_or_default();
                self.add(["--perms", "0444", "--ro-bind-data", number]);
                self.add([path]);
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(failed("look at", path)(error)),
        }
        Ok(())
    }

    fn memory(&mut self, path: &Path, bytes: u64) {
        self.add(["--perms", FOLDER_MODE, "--size", &bytes.max(4096).to_string()]);
        self.option("--tmpfs", path);
    }

    /// `/dev` with the devices that every program expects, and shared memory of its own. Terminals are missing:
    /// `bwrap` would need a second user namespace for them.
    fn devices(&mut self) {
        let dev = Path::new("/dev");
        self.add(["--perms", FOLDER_MODE]);
        self.option("--dir", dev);
        for name in DEVICES {
            self.option("--dev-bind", &dev.join(name));
            self.add([dev.join(name)]);
        }
        for (name, target) in DEVICE_LINKS.into_iter().filter(|(name, _)| *name != "ptmx") {
            self.add(["--symlink", target]);
            self.add([dev.join(name)]);
        }
        self.memory(&dev.join("shm"), SHARED_MEMORY_BYTES);
    }
}

/// What a path shows, and where that really lies.
fn look_at(path: &Path) -> Result<(Identity, std::path::PathBuf), MountError> {
    let source = open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty());
    let source = source.map_err(failed("open", path))?;
    let stat = fstat(&source).map_err(failed("look at", path))?;
    let real = location(&source).map_err(failed("look at", path))?;
    Ok((Identity::of(&stat), real))
}

/// Every hidden file needs a descriptor.
fn raise_open_files() {
    let limit = rustix::process::getrlimit(Resource::Nofile);
    // With the old limit, a cell with many hidden files is refused.
    let _ = rustix::process::setrlimit(
        Resource::Nofile,
        Rlimit { current: limit.maximum, maximum: limit.maximum },
    );
}

/// The stage inside: finishes the root that `bwrap` made, and checks it.
pub(crate) fn finish_root(mounts: &[Mount], limits: &CellLimits) -> Result<(), String> {
    let identities = std::env::var(IDENTITIES).unwrap_or_default();
    let is_root = rustix::process::getuid().is_root();
    if is_root {
        // The kernel does not apply the other limit of processes to root.
        locks::limit_numbers(limits);
        let plain = MountFlags::NOSUID | MountFlags::RDONLY;
        let devices = DEVICES.iter().map(|name| (Path::new("/dev").join(name), plain));
        for (path, flags) in devices.chain([("/proc".into(), plain | MountFlags::NODEV)]) {
            add_flags(&path, flags)
                .map_err(failed("set the access of", &path))
                .map_err(|error| error.to_string())?;
        }
    }
    verify::check(mounts, &verify::from_text(&identities), is_root)
}

/// Adds flags to a mount. A device that is read-only can still be written to: but otherwise root could change
/// the mode of the machine's device without any capability.
fn add_flags(path: &Path, flags: MountFlags) -> rustix::io::Result<()> {
    let place = open(path, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())?;
    set_flags(place.as_fd(), flags)
}
