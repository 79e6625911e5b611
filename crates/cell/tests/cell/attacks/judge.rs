//! Says what a line did that no line may do. It does not know what the line tried.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use windlass_cell::{Access, Level};

use super::runner::Outcome;
use super::world::{World, give};

/// Settings of the machine that must stay as they are.
const SETTINGS: [&str; 9] = [
    "/proc/sys/kernel/hostname",
    "/proc/sys/kernel/core_pattern",
    "/proc/sys/kernel/modprobe",
    "/proc/sys/kernel/printk",
    "/proc/sys/kernel/sysrq",
    "/proc/sys/vm/swappiness",
    "/proc/sys/vm/overcommit_memory",
    "/proc/sys/net/ipv4/ip_forward",
    "/proc/self/mountinfo",
];
/// Files of the machine that must stay as they are.
const FILES: [&str; 6] =
    ["/usr/bin/env", "/bin/sh", "/etc/passwd", "/etc/hosts", "/etc/group", "/usr"];
/// Devices whose mode must stay as it is.
const DEVICES: [&str; 6] =
    ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/shm"];
/// Folders in which no file with the mark may appear.
const FOLDERS: [&str; 13] = [
    "/",
    "/tmp",
    "/var/tmp",
    "/dev",
    "/dev/shm",
    "/etc",
    "/etc/cron.d",
    "/usr",
    "/usr/bin",
    "/usr/local/bin",
    "/run",
    "/root",
    "/var/spool/cron",
];
/// How far the clock may be off.
const CLOCK: Duration = Duration::from_secs(5);

/// What changes when a file does.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Stamp {
    mode: u32,
    owner: (u32, u32),
    inode: u64,
    links: u64,
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Stamp {
    fn of(path: &Path) -> Option<Self> {
        let metadata = path.symlink_metadata().ok()?;
        Some(Self {
            mode: metadata.mode(),
            owner: (metadata.uid(), metadata.gid()),
            inode: metadata.ino(),
            links: metadata.nlink(),
            size: metadata.size(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        })
    }
}

type Tree = BTreeMap<PathBuf, Stamp>;

/// What a file holds.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Content {
    Folder,
    File(Vec<u8>),
    Link(PathBuf),
    Other,
}

/// The world before a line ran.
pub struct Judge {
    tree: Tree,
    content: BTreeMap<PathBuf, Content>,
    machine: Vec<(String, String)>,
    started: (SystemTime, Instant),
}

fn walk(folder: &Path, skip: &Path, tree: &mut Tree) {
    let Some(stamp) = Stamp::of(folder) else { return };
    let is_folder = folder.symlink_metadata().is_ok_and(|metadata| metadata.is_dir());
    tree.insert(folder.to_owned(), stamp);
    if is_folder && folder != skip {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            walk(&entry.path(), skip, tree);
        }
    }
}

fn content(path: &Path) -> Content {
    let Ok(metadata) = path.symlink_metadata() else { return Content::Other };
    if metadata.is_dir() {
        Content::Folder
    } else if metadata.is_file() {
        fs::read(path).map_or(Content::Other, Content::File)
    } else if metadata.is_symlink() {
        fs::read_link(path).map_or(Content::Other, Content::Link)
    } else {
        Content::Other
    }
}

/// The bystander and the machine, as texts.
fn machine(world: &World) -> Vec<(String, String)> {
    let pid = world.bystander.id();
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // State, priority and nice value; T is a stopped process, Z a dead one.
    let fields: Vec<&str> = stat.rsplit(") ").next().unwrap_or_default().split(' ').collect();
    let state = match fields.first() {
        Some(&("S" | "R" | "D")) => "alive",
        Some(other) => other,
        None => "gone",
    };
    let scheduling =
        format!("{state} {:?} {:?} {:?}", fields.get(15), fields.get(16), fields.get(37));
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let affinity = status.lines().find(|line| line.starts_with("Cpus_allowed:"));
    let mut all = vec![
        ("scheduling".to_owned(), scheduling),
        ("affinity".to_owned(), affinity.unwrap_or_default().to_owned()),
    ];
    let processes = ["limits", "oom_score_adj", "comm"].map(|name| format!("/proc/{pid}/{name}"));
    let own = ["/proc/self/limits", "/proc/self/oom_score_adj"].map(str::to_owned);
    for path in processes.into_iter().chain(own).chain(SETTINGS.map(str::to_owned)) {
        let text = fs::read_to_string(&path).unwrap_or_default();
        all.push((path, text));
    }
    for path in FILES {
        all.push((path.to_owned(), format!("{:?}", Stamp::of(Path::new(path)))));
    }
    for path in DEVICES {
        let stamp = Stamp::of(Path::new(path)).map(|stamp| (stamp.mode, stamp.owner));
        all.push((path.to_owned(), format!("{stamp:?}")));
    }
    for folder in FOLDERS {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        let marked =
            entries.filter(|entry| entry.file_name().to_string_lossy().contains(&world.mark));
        all.push((folder.to_owned(), marked.count().to_string()));
    }
    all
}

impl Judge {
    pub fn new(world: &World) -> Self {
        let tree = Self::look(world);
        let content = tree
            .iter()
            .filter(|(_, stamp)| stamp.size < 1 << 20)
            .map(|(path, _)| (path.clone(), content(path)))
            .collect();
        let started = (SystemTime::now(), Instant::now());
        Self { tree, content, machine: machine(world), started }
    }

    fn look(world: &World) -> Tree {
        let mut tree = Tree::new();
        walk(world.folder.path(), &world.path("changes"), &mut tree);
        // Cells get their folders there.
        tree.remove(&world.path("changes"));
        tree
    }

    /// What is wrong after a line ran; puts the workspace back.
    pub fn judge(
        &mut self,
        world: &mut World,
        outcome: &Outcome,
        changes: &Path,
        access: Access,
    ) -> Vec<String> {
        let mut wrong = Vec::new();
        if outcome.refused.is_some() {
            wrong.push(format!("the cell was not made: {:?}", outcome.refused));
        }
        if outcome.lingers {
            wrong.push("the launcher goes on after its socket was closed".to_owned());
        }
        let text = outcome.text();
        let hides = world.level == Level::Full;
        if hides && text.contains(&world.canary) {
            wrong.push("a secret was printed".to_owned());
        }
        if let Some(line) =
            text.lines().find(|line| line.contains(&format!("breach:{}", world.mark)))
        {
            wrong.push(format!("the line says: {line}"));
        }
        wrong.extend(world.doors.visitors().into_iter().map(str::to_owned));
        wrong.extend(left_over(world));
        let now = machine(world);
        for (before, after) in
            self.machine.iter().zip(&now).filter(|(before, after)| before != after)
        {
            wrong.push(format!("{} changed from {} to {}", before.0, before.1, after.1));
        }
        self.machine = now;
        let expected = self.started.0 + self.started.1.elapsed();
        let off =
            SystemTime::now().duration_since(expected).unwrap_or_else(|error| error.duration());
        if off > CLOCK {
            wrong.push(format!("the clock is {off:?} off"));
        }
        let tree = Self::look(world);
        if tree != self.tree {
            wrong.extend(self.changed(world, &tree, access));
            if hides {
                wrong.extend(self.leaked(world, &tree));
            }
            self.restore(world, &tree);
        }
        let mut changed = Tree::new();
        walk(changes, Path::new(""), &mut changed);
        wrong.extend(holders(world, changed.keys()));
        wrong
    }

    /// Protected files that are not as before.
    fn changed(&self, world: &World, tree: &Tree, access: Access) -> Vec<String> {
        let workspace = world.workspace();
        let (hidden, hides) = (world.hidden(), world.level == Level::Full);
        let free = |path: &Path| {
            access == Access::Write
                && path.strip_prefix(&workspace).is_ok_and(|inside| {
                    // The weaker level leaves what lies in the workspace to the look at the end.
                    world.level == Level::Landlock
                        || (!inside.starts_with(".git") && !inside.starts_with(".windlass"))
                })
        };
        let mut wrong = Vec::new();
        for (path, before) in &self.tree {
            // A hidden file may move along with its folder.
            let moved = || tree.values().any(|stamp| stamp == before);
            let is_kept = tree.get(path) == Some(before)
                || (free(path) && !(hides && hidden.contains(path)))
                || (hidden.contains(path) && moved());
            if !is_kept {
                wrong.push(format!("{} changed: {:?}, {before:?}", path.display(), tree.get(path)));
            }
        }
        let submodule = workspace.join("vendor/lib/.git");
        if hides
            && submodule.symlink_metadata().is_ok()
            && self.content.get(&submodule) != Some(&content(&submodule))
        {
            wrong.push("a submodule names another git directory".to_owned());
        }
        let new = tree.keys().filter(|path| !self.tree.contains_key(*path) && !free(path));
        wrong.extend(new.map(|path| format!("{} is new", path.display())));
        for path in tree.keys().filter(|path| self.tree.get(*path) != tree.get(*path)) {
            let Ok(metadata) = path.symlink_metadata() else { continue };
            if metadata.is_file() && metadata.permissions().mode() & 0o6000 != 0 {
                wrong.push(format!("{} gives its owner's rights", path.display()));
            }
            let kind = metadata.file_type();
            // A device with number 0 is none.
            if (kind.is_char_device() || kind.is_block_device()) && metadata.rdev() != 0 {
                wrong.push(format!("{} is a device", path.display()));
            }
        }
        wrong
    }

    /// Files of the workspace that now hold a secret.
    fn leaked(&self, world: &World, tree: &Tree) -> Vec<String> {
        let secrets: Vec<&Stamp> =
            world.hidden().iter().filter_map(|path| self.tree.get(path)).collect();
        let new = tree.iter().filter(|(path, stamp)| {
            self.tree.get(*path) != Some(stamp) && !secrets.contains(stamp)
        });
        holders(world, new.map(|(path, _)| path))
    }

    fn restore(&mut self, world: &mut World, tree: &Tree) {
        let workspace = world.workspace();
        let ours = |path: &Path| path != workspace && path.starts_with(&workspace);
        for path in tree.keys().rev().filter(|path| ours(path) && !self.tree.contains_key(*path)) {
            super::runner::forget(path);
            let _ = fs::remove_file(path);
        }
        let changed =
            self.tree.iter().filter(|(path, stamp)| ours(path) && tree.get(*path) != Some(stamp));
        for (path, stamp) in changed {
            let Some(content) = self.content.get(path) else { continue };
            let is_folder = path.symlink_metadata().is_ok_and(|metadata| metadata.is_dir());
            if is_folder && *content != Content::Folder {
                super::runner::forget(path);
            } else if !is_folder {
                let _ = fs::remove_file(path);
            }
            match content {
                Content::Folder => fs::create_dir_all(path).unwrap(),
                Content::File(bytes) => fs::write(path, bytes).unwrap(),
                Content::Link(target) => std::os::unix::fs::symlink(target, path).unwrap(),
                Content::Other => world.doors.listen_again(path),
            }
            if !matches!(content, Content::Link(_)) {
                fs::set_permissions(path, fs::Permissions::from_mode(stamp.mode & 0o7777)).unwrap();
            }
            if let Some(user) = world.user {
                give(path, user);
            }
        }
        self.tree = Self::look(world);
    }

    /// Compares what all files hold with what they held at the beginning.
    pub fn compare(&self, world: &World) -> Vec<String> {
        let differs = |(path, before): &(&PathBuf, &Content)| content(path) != **before;
        let paths = self.content.iter().filter(|(path, _)| **path != world.path("changes"));
        paths.filter(differs).map(|(path, _)| format!("{} differs", path.display())).collect()
    }
}

/// Which of these files hold the canary.
fn holders<'a>(world: &World, paths: impl Iterator<Item = &'a PathBuf>) -> Vec<String> {
    let holds = |path: &&PathBuf| {
        let is_file = path
            .symlink_metadata()
            .is_ok_and(|metadata| metadata.is_file() && metadata.size() < 8 << 20);
        let bytes = if is_file { fs::read(path).unwrap_or_default() } else { Vec::new() };
        String::from_utf8_lossy(&bytes).contains(&world.canary)
    };
    paths.filter(holds).map(|path| format!("a secret is in {}", path.display())).collect()
}

/// Processes of the machine that are in a cell of this world.
fn left_over(world: &World) -> Option<String> {
    let own = fs::read_link("/proc/self/ns/pid").ok();
    let name =
        world.folder.path().file_name().and_then(std::ffi::OsStr::to_str).unwrap_or_default();
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let mut left = entries.filter(|entry| {
        let space = fs::read_link(entry.path().join("ns/pid")).ok();
        // The numbers of namespaces are used again; what is mounted says whose cell it is.
        let mounts = || fs::read_to_string(entry.path().join("mountinfo")).unwrap_or_default();
        space.is_some() && space != own && mounts().contains(name)
    });
    left.next().map(|entry| format!("process {} outlives the cell", entry.file_name().display()))
}
