//! Checks, inside a cell that somebody else made, that its root is what was described.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode, OFlags, ResolveFlags, Stat, fstat, openat2, readlinkat};
use rustix::io::Errno;

use crate::mounts::{DEVICES, unescape};
use crate::spec::{Access, Mount};

/// What a file or folder is, whatever its path: device and inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    device: u64,
    inode: u64,
}

impl Identity {
    pub const fn of(stat: &Stat) -> Self {
        Self { device: stat.st_dev, inode: stat.st_ino }
    }
}

/// The identities as one line.
pub(crate) fn to_text(identities: &[Identity]) -> String {
    let words: Vec<String> =
        identities.iter().map(|one| format!("{}:{}", one.device, one.inode)).collect();
    words.join(" ")
}

/// Reads such a line; what cannot be read is missing, and so does not match.
pub(crate) fn from_text(text: &str) -> Vec<Identity> {
    let one = |word: &str| {
        let (device, inode) = word.split_once(':')?;
        Some(Identity { device: device.parse().ok()?, inode: inode.parse().ok()? })
    };
    text.split(' ').map_while(one).collect()
}

/// One line of `mountinfo`.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Mounted {
    options: Vec<String>,
    kind: String,
}

impl Mounted {
    fn has(&self, option: &str) -> bool {
        self.options.iter().any(|own| own == option)
    }
}

/// The mounts of this namespace; of several at one place, the uppermost.
fn mounted(table: &str) -> BTreeMap<PathBuf, Mounted> {
    let entry = |line: &str| {
        let (own, super_block) = line.split_once(" - ")?;
        let mut words = own.split(' ').skip(4);
        let path = PathBuf::from(unescape(words.next()?));
        let options = words.next()?.split(',').map(str::to_owned).collect();
        Some((path, Mounted { options, kind: super_block.split(' ').next()?.to_owned() }))
    };
    table.lines().filter_map(entry).collect()
}

/// Checks every mount of the list, and that there is no other. With `read_only_devices` the mounts of
/// devices must be read-only.
pub(crate) fn check(
    mounts: &[Mount],
    identities: &[Identity],
    read_only_devices: bool,
) -> Result<(), String> {
    let table = std::fs::read_to_string("/proc/self/mountinfo")
        .map_err(|error| format!("the mounts cannot be listed: {error}"))?;
    let there = mounted(&table);
    for (path, found) in &there {
        if !allowed(mounts, path, found, read_only_devices) {
            let options = found.options.join(",");
            return Err(format!("bwrap has mounted `{}` with {options}", path.display()));
        }
    }
    for expected in ["/", "/proc", "/dev/shm"].iter().map(Path::new) {
        if !there.contains_key(expected) {
            return Err(format!("bwrap has not mounted `{}`", expected.display()));
        }
    }
    let mut identities = identities.iter();
    for (at, mount) in mounts.iter().enumerate() {
        let identity = match mount {
            Mount::Bind { .. } | Mount::BindAt { .. } => identities.next(),
            Mount::Mask { .. }
            | Mount::Memory { .. }
            | Mount::Overlay { .. }
            | Mount::Link { .. } => None,
        };
        let path = path_of(mount);
        let later = mounts.get(at + 1..).unwrap_or_default();
        let is_covered = later.iter().any(|later| path.starts_with(path_of(later)));
        if !is_covered && !is_as_described(mount, identity, there.get(path)) {
            let path = path.display();
            return Err(format!("`{path}` is not what was to be shown, or was just replaced"));
        }
    }
    Ok(())
}

fn path_of(mount: &Mount) -> &Path {
    match mount {
        Mount::Bind { path, .. }
        | Mount::BindAt { path, .. }
        | Mount::Mask { path }
        | Mount::Memory { path, .. }
        | Mount::Overlay { path, .. }
        | Mount::Link { path, .. } => path,
    }
}

/// Whether something may be mounted there in this way.
fn allowed(mounts: &[Mount], path: &Path, found: &Mounted, read_only_devices: bool) -> bool {
    let is_device = path.parent() == Some(Path::new("/dev"))
        && DEVICES.iter().any(|name| path.file_name() == Some(name.as_ref()));
    if is_device {
        return found.has("nosuid") && (found.has("ro") || !read_only_devices);
    }
    if !found.has("nosuid") || !found.has("nodev") {
        return false;
    }
    if path.parent().is_none() || path.starts_with("/proc") {
        return found.has("ro");
    }
    if path == Path::new("/dev/shm") {
        return true;
    }
    let around = mounts.iter().rev().filter(|mount| path.starts_with(path_of(mount)));
    match around.max_by_key(|mount| path_of(mount).as_os_str().len()) {
        Some(Mount::Bind { access, .. } | Mount::BindAt { access, .. }) => {
            *access == Access::Write || found.has("ro")
        }
        Some(Mount::Mask { path: own }) => own == path && found.has("ro"),
        Some(Mount::Memory { path: own, .. }) => own == path,
        Some(Mount::Overlay { .. } | Mount::Link { .. }) | None => false,
    }
}

/// Whether a path shows what it should. No symbolic link may lie on the way.
fn is_as_described(mount: &Mount, identity: Option<&Identity>, found: Option<&Mounted>) -> bool {
    let opened = openat2(
        CWD,
        path_of(mount),
        OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC,
        Mode::empty(),
        ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS,
    );
    // What is to be covered may be gone.
    if let (Mount::Mask { .. }, Err(Errno::NOENT)) = (mount, &opened) {
        return true;
    }
    if let Mount::Link { path, target } = mount {
        let link = readlinkat(CWD, path, Vec::new());
        return link.is_ok_and(|link| link.as_bytes() == target.as_os_str().as_encoded_bytes());
    }
    let (Ok(opened), Some(found)) = (opened, found) else { return false };
    let Ok(stat) = fstat(&opened) else { return false };
    match mount {
        Mount::Bind { .. } | Mount::BindAt { .. } => identity == Some(&Identity::of(&stat)),
        Mount::Mask { .. } => match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => found.kind == "tmpfs",
            FileType::RegularFile => found.kind == "tmpfs" && stat.st_size == 0,
            FileType::Symlink
            | FileType::Fifo
            | FileType::Socket
            | FileType::CharacterDevice
            | FileType::BlockDevice
            | FileType::Unknown => false,
        },
        Mount::Memory { .. } => found.kind == "tmpfs",
        Mount::Overlay { .. } | Mount::Link { .. } => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: &str = "\
65 42 0:40 /newroot / ro,nosuid,nodev,relatime - tmpfs tmpfs rw
66 65 254:0 /usr /usr ro,nosuid,nodev,relatime - ext4 /dev/vda rw
67 65 0:41 / /a\\040b rw,nosuid,nodev,relatime shared:1 - tmpfs tmpfs rw
68 65 0:6 /null /dev/null rw,nosuid,relatime - devtmpfs devtmpfs rw
";

    #[test]
    fn mounts_that_are_too_open_or_not_listed_are_seen() {
        let bind = |path: &str, access| Mount::Bind { path: path.into(), access };
        let list = [
            bind("/usr", Access::Read),
            Mount::Memory { path: "/a b".into(), bytes: 1 },
            bind("/work", Access::Write),
            bind("/work/kept", Access::Read),
        ];
        let all = |table: &str, read_only: bool| {
            mounted(table).iter().all(|(path, found)| allowed(&list, path, found, read_only))
        };
        assert!(all(PLAIN, false));
        assert!(!all(PLAIN, true));
        for (from, to) in [
            ("/usr ro,", "/usr rw,"),
            (" / ro,", " / rw,"),
            ("/usr ro,nosuid,nodev", "/usr ro,nodev"),
            ("/usr ro,nosuid,nodev", "/usr ro,nosuid"),
            (" /usr ro", " /etc ro"),
            ("/dev/null rw", "/dev/kmsg rw"),
            ("/a\\040b", "/a\\040b/c"),
        ] {
            assert!(!all(&PLAIN.replace(from, to), false), "{to}");
        }
        let more = |line: &str| all(&format!("{PLAIN}{line}\n"), false);
        assert!(more("70 65 0:50 / /work rw,nosuid,nodev - ext4 x rw"));
        assert!(more("70 65 0:50 / /work/sub rw,nosuid,nodev - ext4 x rw"));
        assert!(!more("70 65 0:50 / /work/kept rw,nosuid,nodev - ext4 x rw"));
        assert!(!more("70 65 0:50 / /work/kept/sub rw,nosuid,nodev - ext4 x rw"));
        assert!(!more("70 65 0:50 / /proc rw,nosuid,nodev - proc x rw"));
    }

    #[test]
    fn identities_are_written_and_read() {
        let all = [Identity { device: 1, inode: 2 }, Identity { device: 3, inode: 4 }];
        assert_eq!(from_text(&to_text(&all)), all);
        assert_eq!(from_text("1:2 x 3:4"), all[..1]);
        assert_eq!(from_text(""), []);
    }
}
