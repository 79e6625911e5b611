//! Builds the root of a cell.
//!
//! Everything is mounted through descriptors: sources are opened first, and places in the new root are
//! looked up without following symbolic links, so that nothing an agent left in a workspace can redirect a
//! mount.

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{
    FileType, Mode, OFlags, ResolveFlags, StatVfsMountFlags, fstat, fstatvfs, mkdirat, open,
    openat, openat2, symlinkat,
};
use rustix::io::Errno;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MountFlags, MountPropagationFlags, MoveMountFlags,
    OpenTreeFlags, UnmountFlags, fsconfig_create, fsconfig_set_flag, fsconfig_set_string, fsmount,
    fsopen, mount_change, mount_remount, move_mount, open_tree, unmount,
};

use crate::sources::{Shown, keep_covered};
use crate::spec::{Access, Mount};

/// Folders on which the new root can be built; none of them is in a cell.
const STAGING: [&str; 4] = ["/sys", "/mnt", "/media", "/srv"];
/// How much the folders of the root itself may hold.
const ROOT_BYTES: u64 = 16 << 20;
/// How much `/dev/shm` may hold.
pub(crate) const SHARED_MEMORY_BYTES: u64 = 1 << 30;
/// The devices of a cell.
pub(crate) const DEVICES: [&str; 5] = ["null", "zero", "full", "random", "urandom"];
/// The links of `/dev`.
pub(crate) const DEVICE_LINKS: [(&str, &str); 5] = [
    ("fd", "/proc/self/fd"),
    ("stdin", "/proc/self/fd/0"),
    ("stdout", "/proc/self/fd/1"),
    ("stderr", "/proc/self/fd/2"),
    ("ptmx", "pts/ptmx"),
];

/// What could not be mounted, and why.
#[derive(Debug, thiserror::Error)]
#[error("cannot {what} `{}`: {error}", path.display())]
pub(crate) struct MountError {
    what: &'static str,
    path: PathBuf,
    error: io::Error,
}

pub(crate) fn failed<E: Into<io::Error>>(
    what: &'static str,
    path: &Path,
) -> impl FnOnce(E) -> MountError {
    move |error| MountError { what, path: path.to_owned(), error: error.into() }
}

/// Builds the root and enters it. The process must be alone in its mount namespace, and the first process
/// of its PID namespace.
pub(crate) fn enter(mounts: &[Mount]) -> Result<(), MountError> {
    let slash = Path::new("/");
    make_private()?;
    let staging = STAGING.into_iter().map(Path::new).find(|path| path.is_dir());
    let staging = staging.ok_or_else(|| {
        failed("find a folder to build on in", slash)(io::Error::from(io::ErrorKind::NotFound))
    })?;
    let root = memory(ROOT_BYTES, staging)?;
    let place = open(staging, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
        .map_err(failed("open", staging))?;
    attach(&root, &place, staging)?;
    let mounted = mount_points().map_err(failed("list the mounts of", slash))?;
    let mut root = Root { root, mounted, shown: Shown::default() };
    for (at, mount) in mounts.iter().enumerate() {
        let earlier = mounts.get(..at).unwrap_or_default();
        keep_covered(earlier, mount)?;
        root.add(mount)?;
    }
    root.devices()?;
    root.processes()?;
    root.seal()?;
    rustix::process::fchdir(&root.root).map_err(failed("enter", slash))?;
    rustix::process::pivot_root(".", ".").map_err(failed("change the root to", staging))?;
    // The old root lies above the new one; taking it away leaves nothing of it.
    unmount(".", UnmountFlags::DETACH).map_err(failed("detach the old root from", slash))?;
    rustix::process::chdir("/").map_err(failed("enter", slash))
}

/// Keeps all later changes of mounts in this namespace.
pub(crate) fn make_private() -> Result<(), MountError> {
    let slash = Path::new("/");
    mount_change(slash, MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)
        .map_err(failed("make private", slash))
}

/// The root under construction.
struct Root {
    root: OwnedFd,
    /// The mount points of the machine.
    mounted: Vec<PathBuf>,
    shown: Shown,
}

impl Root {
    fn add(&mut self, mount: &Mount) -> Result<(), MountError> {
        let (path, real) = match mount {
            Mount::Bind { path, access } => (path, Some(self.bind(path, path, *access)?)),
            Mount::BindAt { from, path, access } => {
                self.bind(from, path, *access)?;
                (path, None)
            }
            Mount::Mask { path } => return self.mask(path),
            Mount::Memory { path, bytes } => {
                let place = self.folder(path)?;
                attach(&memory(*bytes, path)?, &place, path)?;
                (path, None)
            }
            Mount::Overlay { path, lower, upper, work } => {
                (path, self.overlay(path, lower, upper, work)?)
            }
            Mount::Link { path, target } => return self.link(path, target),
        };
        self.shown.add(path, real);
        Ok(())
    }

    /// Mounts a file or folder of the machine; returns where it really lies.
    fn bind(&self, from: &Path, path: &Path, access: Access) -> Result<PathBuf, MountError> {
        let source = open(from, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())
            .map_err(failed("open", from))?;
        let real = location(&source).map_err(failed("look at", from))?;
        if from == path {
            self.shown.check(path, &real)?;
        }
        let kind = fstat(&source).map(|stat| FileType::from_raw_mode(stat.st_mode));
        let place = match kind.map_err(failed("look at", from))? {
            FileType::Directory => self.folder(path)?,
            FileType::RegularFile
            | FileType::Symlink
            | FileType::Fifo
            | FileType::Socket
            | FileType::CharacterDevice
            | FileType::BlockDevice
            | FileType::Unknown => self.file(path)?,
        };
        let tree = copy_of(&source, from)?;
        attach(&tree, &place, path)?;
        remount(tree.as_fd(), access).map_err(failed("set the access of", path))?;
        let below = self.mounted.iter().filter(|point| **point != real && point.starts_with(&real));
        for below in below {
            let inside = path.join(below.strip_prefix(&real).unwrap_or(below));
            let below = self.at(&inside).map_err(failed("open", &inside))?;
            remount(below.as_fd(), access).map_err(failed("set the access of", &inside))?;
        }
        Ok(real)
    }

    /// Covers a file by an empty file, and a folder by an empty folder.
    fn mask(&self, path: &Path) -> Result<(), MountError> {
        let place = match self.at(path) {
            Ok(place) => place,
            // It was removed since it was listed: there is nothing to cover.
            Err(Errno::NOENT) => return Ok(()),
            Err(error) => return Err(failed("open", path)(error)),
        };
        let stat = fstat(&place).map_err(failed("look at", path))?;
        if FileType::from_raw_mode(stat.st_mode) == FileType::Directory {
            let empty = memory(0, path)?;
            attach(&empty, &place, path)?;
            return remount(empty.as_fd(), Access::Read).map_err(failed("mask", path));
        }
        let empty = self.file(Path::new("/.empty"))?;
        let tree = copy_of(&empty, path)?;
        attach(&tree, &place, path)?;
        remount(tree.as_fd(), Access::Read).map_err(failed("mask", path))
    }

    fn overlay(
        &self,
        path: &Path,
        lower: &[PathBuf],
        upper: &Path,
        work: &Path,
    ) -> Result<Option<PathBuf>, MountError> {
        let fail = || failed::<Errno>("mount an overlay on", path);
        let place = self.folder(path)?;
        let filesystem = fsopen("overlay", FsOpenFlags::FSOPEN_CLOEXEC).map_err(fail())?;
        let opened = |path: &Path| {
            let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            open(path, flags, Mode::empty()).map_err(failed("open", path))
        };
        let is_itself = lower.first().is_some_and(|lower| lower == path);
        // Paths of descriptors: the kernel gives `:`, `,` and `\` a meaning in these options.
        let lower = lower.iter().map(|path| opened(path)).collect::<Result<Vec<_>, _>>()?;
        let names: Vec<String> = lower.iter().map(of_descriptor).collect();
        let real = lower.first().map(location).transpose().map_err(failed("look at", path))?;
        if let (Some(real), true) = (&real, is_itself) {
            self.shown.check(path, real)?;
        }
        fsconfig_set_string(&filesystem, "lowerdir", names.join(":").as_str()).map_err(fail())?;
        for (key, path) in [("upperdir", upper), ("workdir", work)] {
            let folder = opened(path)?;
            fsconfig_set_string(&filesystem, key, of_descriptor(&folder).as_str())
                .map_err(fail())?;
        }
        fsconfig_set_flag(&filesystem, "userxattr").map_err(fail())?;
        fsconfig_create(&filesystem).map_err(fail())?;
        let mount = fsmount(
            &filesystem,
            FsMountFlags::FSMOUNT_CLOEXEC,
            MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV,
        )
        .map_err(fail())?;
        attach(&mount, &place, path)?;
        Ok(real)
    }

    /// A device. `nodev` would disable it. Its mount is read-only, which does not keep anyone from writing
    /// to the device: otherwise root could change the mode of the machine's device without any capability.
    fn device(&self, path: &Path) -> Result<(), MountError> {
        let source = open(path, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())
            .map_err(failed("open", path))?;
        let place = self.file(path)?;
        let tree = copy_of(&source, path)?;
        attach(&tree, &place, path)?;
        set_flags(tree.as_fd(), MountFlags::NOSUID | MountFlags::RDONLY)
            .map_err(failed("set the access of", path))
    }

    fn link(&self, path: &Path, target: &Path) -> Result<(), MountError> {
        let (parent, name) = self.parent(path)?;
        symlinkat(target, &parent, name).map_err(failed("create the link", path))
    }

    /// `/dev` with the devices that every program expects, terminals and shared memory of its own.
    fn devices(&self) -> Result<(), MountError> {
        let dev = Path::new("/dev");
        for name in DEVICES {
            self.device(&dev.join(name))?;
        }
        for (name, target) in DEVICE_LINKS {
            self.link(&dev.join(name), Path::new(target))?;
        }
        let terminals = dev.join("pts");
        let place = self.folder(&terminals)?;
        let fail = || failed::<Errno>("mount", &terminals);
        let filesystem = fsopen("devpts", FsOpenFlags::FSOPEN_CLOEXEC).map_err(fail())?;
        for (key, value) in [("mode", "620"), ("ptmxmode", "666")] {
            fsconfig_set_string(&filesystem, key, value).map_err(fail())?;
        }
        fsconfig_create(&filesystem).map_err(fail())?;
        let flags = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NOEXEC;
        let mount = fsmount(&filesystem, FsMountFlags::FSMOUNT_CLOEXEC, flags).map_err(fail())?;
        attach(&mount, &place, &terminals)?;
        let shared = dev.join("shm");
        let place = self.folder(&shared)?;
        attach(&memory(SHARED_MEMORY_BYTES, &shared)?, &place, &shared)
    }

    /// `/proc` with the processes of the cell alone. Nothing in it can be written to: as root, a program
    /// could otherwise change settings of the whole machine without any capability.
    fn processes(&self) -> Result<(), MountError> {
        let path = Path::new("/proc");
        let place = self.folder(path)?;
        let fail = || failed::<Errno>("mount", path);
        let filesystem = fsopen("proc", FsOpenFlags::FSOPEN_CLOEXEC).map_err(fail())?;
        fsconfig_create(&filesystem).map_err(fail())?;
        let flags = MountAttrFlags::MOUNT_ATTR_NOSUID
            | MountAttrFlags::MOUNT_ATTR_NODEV
            | MountAttrFlags::MOUNT_ATTR_NOEXEC
            | MountAttrFlags::MOUNT_ATTR_RDONLY;
        let mount = fsmount(&filesystem, FsMountFlags::FSMOUNT_CLOEXEC, flags).map_err(fail())?;
        attach(&mount, &place, path)
    }

    /// Makes the folders of the root itself read-only.
    fn seal(&self) -> Result<(), MountError> {
        let _ = self.file(Path::new("/.empty"))?;
        remount(self.root.as_fd(), Access::Read).map_err(failed("seal", Path::new("/")))
    }

    /// Looks a path up in the new root; a symbolic link on the way is an error.
    fn at(&self, path: &Path) -> rustix::io::Result<OwnedFd> {
        let path = path.strip_prefix("/").unwrap_or(path);
        let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        openat2(
            &self.root,
            path,
            OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC,
            Mode::empty(),
            ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS,
        )
    }

    /// The folder at a path, created with its parents if it is missing.
    fn folder(&self, path: &Path) -> Result<OwnedFd, MountError> {
        match self.at(path) {
            Ok(folder) => return Ok(folder),
            Err(Errno::NOENT) => {}
            Err(error) => return Err(failed("open", path)(error)),
        }
        let mut folder = self.at(Path::new("/")).map_err(failed("open", path))?;
        for part in path.components() {
            let name = match part {
                Component::RootDir => continue,
                Component::Normal(name) => name,
                Component::Prefix(_) | Component::CurDir | Component::ParentDir => {
                    let error = io::Error::from(io::ErrorKind::InvalidInput);
                    return Err(failed("use the path", path)(error));
                }
            };
            match mkdirat(&folder, name, Mode::from_raw_mode(0o755)) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(error) => return Err(failed("create the folder", path)(error)),
            }
            folder = step(&folder, name).map_err(failed("open", path))?;
        }
        Ok(folder)
    }

    /// The file at a path, created empty if it is missing.
    fn file(&self, path: &Path) -> Result<OwnedFd, MountError> {
        match self.at(path) {
            Ok(file) => return Ok(file),
            Err(Errno::NOENT) => {}
            Err(error) => return Err(failed("open", path)(error)),
        }
        let (parent, name) = self.parent(path)?;
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let created = openat(&parent, name, flags, Mode::from_raw_mode(0o444));
        drop(created.map_err(failed("create the file", path))?);
        self.at(path).map_err(failed("open", path))
    }

    fn parent<'a>(&self, path: &'a Path) -> Result<(OwnedFd, &'a OsStr), MountError> {
        match (path.parent(), path.file_name()) {
            (Some(parent), Some(name)) => Ok((self.folder(parent)?, name)),
            _ => Err(failed("use the path", path)(io::Error::from(io::ErrorKind::InvalidInput))),
        }
    }
}

fn step(folder: &OwnedFd, name: &OsStr) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat(folder, name, flags, Mode::empty())
}

/// A file system in memory that is not attached anywhere yet. With 0 bytes nothing can be put into it.
fn memory(bytes: u64, path: &Path) -> Result<OwnedFd, MountError> {
    let fail = || failed::<Errno>("mount a file system in memory on", path);
    let filesystem = fsopen("tmpfs", FsOpenFlags::FSOPEN_CLOEXEC).map_err(fail())?;
    // 0 would be no limit.
    let size = if bytes == 0 { 4096 } else { bytes };
    fsconfig_set_string(&filesystem, "size", size.to_string().as_str()).map_err(fail())?;
    fsconfig_set_string(&filesystem, "mode", "0755").map_err(fail())?;
    fsconfig_create(&filesystem).map_err(fail())?;
    let flags = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV;
    let mount = fsmount(&filesystem, FsMountFlags::FSMOUNT_CLOEXEC, flags).map_err(fail())?;
    Ok(mount)
}

/// A copy of the mount of an open file or folder, with all mounts below it.
fn copy_of(source: &OwnedFd, path: &Path) -> Result<OwnedFd, MountError> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_EMPTY_PATH
        | OpenTreeFlags::AT_RECURSIVE;
    open_tree(source, "", flags).map_err(failed("copy the mount of", path))
}

fn attach(mount: &OwnedFd, place: &OwnedFd, path: &Path) -> Result<(), MountError> {
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    move_mount(mount, "", place, "", flags).map_err(failed("mount", path))
}

/// Sets the access of an attached mount.
fn remount(mount: BorrowedFd<'_>, access: Access) -> rustix::io::Result<()> {
    let flags = MountFlags::NOSUID | MountFlags::NODEV;
    set_flags(
        mount,
        match access {
            Access::Read => flags | MountFlags::RDONLY,
            Access::Write => flags,
        },
    )
}

/// Adds flags to an attached mount. Those that it has stay: the kernel refuses to take them away.
pub(crate) fn set_flags(mount: BorrowedFd<'_>, flags: MountFlags) -> rustix::io::Result<()> {
    let has = fstatvfs(mount)?.f_flag;
    let mut flags = flags | MountFlags::BIND;
    for (present, flag) in [
        (StatVfsMountFlags::RDONLY, MountFlags::RDONLY),
        (StatVfsMountFlags::NOEXEC, MountFlags::NOEXEC),
        (StatVfsMountFlags::NOATIME, MountFlags::NOATIME),
        (StatVfsMountFlags::NODIRATIME, MountFlags::NODIRATIME),
        (StatVfsMountFlags::RELATIME, MountFlags::RELATIME),
    ] {
        if has.contains(present) {
            flags |= flag;
        }
    }
    mount_remount(of_descriptor(&mount), flags, "")
}

/// A path that names an open descriptor of this process.
fn of_descriptor(descriptor: &impl AsFd) -> String {
    format!("/proc/self/fd/{}", descriptor.as_fd().as_raw_fd())
}

/// Where an open file or folder lies, without symbolic links.
pub(crate) fn location(file: &OwnedFd) -> io::Result<PathBuf> {
    std::fs::read_link(of_descriptor(file))
}

/// The mount points of this namespace, outermost first.
fn mount_points() -> io::Result<Vec<PathBuf>> {
    let table = std::fs::read_to_string("/proc/self/mountinfo")?;
    let points = table.lines().filter_map(|line| line.split(' ').nth(4));
    let mut points: Vec<PathBuf> = points.map(|point| PathBuf::from(unescape(point))).collect();
    points.sort();
    points.dedup();
    Ok(points)
}

/// Decodes the octal escapes of `mountinfo`.
pub(crate) fn unescape(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('\\') {
        plain.push_str(before);
        let code = after.get(..3).and_then(|digits| u8::from_str_radix(digits, 8).ok());
        match code {
            Some(code) => {
                plain.push(char::from(code));
                rest = after.get(3..).unwrap_or_default();
            }
            None => {
                plain.push('\\');
                rest = after;
            }
        }
    }
    plain.push_str(rest);
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_of_mountinfo_are_decoded() {
        assert_eq!(unescape(r"/a\040b\134c"), "/a b\\c");
        assert_eq!(unescape(r"/plain"), "/plain");
        assert_eq!(unescape(r"/odd\9"), r"/odd\9");
    }

    #[test]
    fn mount_points_are_listed() {
        let points = mount_points().unwrap();
        assert!(points.contains(&PathBuf::from("/proc")) && points.contains(&PathBuf::from("/")));
    }
}
