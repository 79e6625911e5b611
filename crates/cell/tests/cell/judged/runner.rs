//! Runs one line in a cell, and reports what it did.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use windlass_cell::{
    Access, Cell, CellLimits, Confined, Ending, Excess, Level, Limits, Maker, Mount, Network,
    OnSignal, Program, run,
};

use super::world::{SECRET_VARIABLE, World};

/// The most output that is kept of each stream.
const OUTPUT_BYTES_MAX: usize = 1 << 20;
/// The largest file that is searched for secrets.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// What a line did.
#[derive(Debug, Default)]
pub struct Effects {
    /// Both streams.
    pub output: String,
    /// Files of the workspace that were created or changed.
    pub written: BTreeSet<String>,
    /// Files of the workspace that are gone.
    pub removed: BTreeSet<String>,
    /// The texts of the files that were written, git's own aside.
    pub texts: Vec<(String, String)>,
    /// Files of the home folder that were touched.
    pub home: BTreeSet<String>,
    /// The words of each simple command that a shell of the line ran.
    pub commands: Vec<Vec<String>>,
    /// The programs that were started: whether by the line itself, and their words.
    pub programs: Vec<(bool, Vec<String>)>,
    /// The processes that were left when the line ended.
    pub left: Vec<String>,
    /// Whether it ran to its end.
    pub ended: bool,
}

/// Runs lines, each in a cell of its own.
pub struct Runner<'a> {
    world: &'a World,
    folder: PathBuf,
}

impl<'a> Runner<'a> {
    pub fn new(world: &'a World, number: usize) -> Self {
        let folder = world.path("runs").join(number.to_string());
        fs::create_dir(&folder).unwrap();
        Self { world, folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    fn cell(&self) -> Cell {
        let bind = |path: PathBuf, access| Mount::Bind { path, access };
        let mut mounts = vec![bind("/usr".into(), Access::Read)];
        for link in ["bin", "lib", "lib64", "sbin"] {
            let path = Path::new("/").join(link);
            match fs::read_link(&path) {
                Ok(target) => mounts.push(Mount::Link { path, target }),
                Err(_) if path.exists() => mounts.push(bind(path, Access::Read)),
                Err(_) => {}
            }
        }
        mounts.push(Mount::Memory { path: "/tmp".into(), bytes: 1 << 24 });
        for name in ["bin", "env.sh", "supervise.sh"] {
            mounts.push(bind(self.world.path(name), Access::Read));
        }
        for name in ["workspace", "home"] {
            mounts.push(Mount::Overlay {
                path: self.world.path(name),
                lower: vec![self.world.path(name)],
                upper: self.path(name),
                work: self.path(&format!("{name}-work")),
            });
        }
        let trace = self.path("trace");
        mounts.push(Mount::BindAt { from: trace, path: "/trace".into(), access: Access::Write });
        let limits = CellLimits {
            processes: 200,
            memory_bytes: 1 << 30,
            file_bytes: 1 << 24,
            ..CellLimits::default()
        };
        Cell { level: Level::Full, maker: Maker::Own, mounts, network: Network::Closed, limits }
    }

    /// Runs a line.
    pub fn run(&self, line: &str) -> Effects {
        for name in ["workspace", "workspace-work", "home", "home-work", "trace"] {
            fs::create_dir(self.path(name)).unwrap();
        }
        let workspace = self.world.workspace();
        let supervisor = self.world.path("supervise.sh");
        let path = format!("{}:/usr/local/bin:/usr/bin:/bin", self.world.path("bin").display());
        let home = self.world.path("home");
        let env: Vec<(&OsStr, &OsStr)> = vec![
            ("PATH".as_ref(), path.as_ref()),
            ("HOME".as_ref(), home.as_os_str()),
            ("LANG".as_ref(), "C.UTF-8".as_ref()),
            ("API_TOKEN".as_ref(), SECRET_VARIABLE.as_ref()),
            ("EDITOR".as_ref(), "true".as_ref()),
        ];
        let program = Program {
            argv: vec!["/bin/sh".as_ref(), supervisor.as_os_str(), line.as_ref()],
            stdin: None,
            env,
            cwd: &workspace,
            limits: Limits { timeout: Duration::from_secs(5), output_bytes_max: OUTPUT_BYTES_MAX },
            confined: Some(Confined {
                launcher: Path::new(env!("CARGO_BIN_EXE_cell-launcher")),
                cell: &self.cell(),
            }),
            excess: Excess::End,
            on_signal: OnSignal::Continue,
        };
        let finished = run(&program).unwrap_or_else(|error| panic!("{line:?}: {error}"));
        let mut effects = Effects {
            ended: finished.ending == Ending::Exited,
            output: String::from_utf8_lossy(&finished.stdout).into_owned()
                + &String::from_utf8_lossy(&finished.stderr),
            ..Effects::default()
        };
        let lower = Layer { lower: workspace, upper: self.path("workspace") };
        lower.compare("", &mut effects);
        let mut at_home = Effects::default();
        Layer { lower: home.clone(), upper: self.path("home") }.compare("", &mut at_home);
        effects.home = at_home.written.into_iter().chain(at_home.removed).collect();
        let trace = |name: &str| fs::read(self.path("trace").join(name)).unwrap_or_default();
        let text = |name: &str| String::from_utf8_lossy(&trace(name)).into_owned();
        effects.commands = traced_commands(&text("commands"));
        effects.programs = traced_programs(&text("programs"));
        effects.left = text("left").lines().map(str::to_owned).collect();
        for name in ["workspace", "workspace-work", "home", "home-work", "trace"] {
            open_folders(&self.path(name));
            fs::remove_dir_all(self.path(name)).unwrap();
        }
        effects
    }
}

/// Makes folders removable that a line or an overlay closed.
fn open_folders(folder: &Path) {
    let Ok(metadata) = folder.symlink_metadata() else { return };
    if metadata.is_dir() {
        if metadata.permissions().mode() & 0o700 != 0o700 {
            let _ = fs::set_permissions(folder, fs::Permissions::from_mode(0o700));
        }
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            open_folders(&entry.path());
        }
    }
}

/// A folder, and what an overlay holds of its changes.
struct Layer {
    lower: PathBuf,
    upper: PathBuf,
}

impl Layer {
    fn compare(&self, folder: &str, effects: &mut Effects) {
        let full = self.upper.join(folder);
        if !folder.is_empty() && is_opaque(&full) {
            for name in names(&self.lower.join(folder)) {
                if full.join(&name).symlink_metadata().is_err() {
                    self.gone(&format!("{folder}/{name}"), effects);
                }
            }
        }
        for name in names(&full) {
            let path = if folder.is_empty() { name } else { format!("{folder}/{name}") };
            let (upper, lower) = (self.upper.join(&path), self.lower.join(&path));
            let Ok(metadata) = upper.symlink_metadata() else { continue };
            let below = lower.symlink_metadata().ok();
            if metadata.file_type().is_char_device() {
                self.gone(&path, effects);
            } else if metadata.is_dir() {
                match below {
                    // A folder is in the overlay as soon as something in it is.
                    Some(below) if below.is_dir() => {
                        if below.permissions() != metadata.permissions() {
                            effects.written.insert(path.clone());
                        }
                    }
                    Some(_) | None => {
                        effects.written.insert(path.clone());
                    }
                }
                self.compare(&path, effects);
            } else {
                if metadata.is_file()
                    && metadata.len() <= FILE_BYTES_MAX
                    && !path.starts_with(".git/")
                {
                    let bytes = fs::read(&upper).unwrap_or_default();
                    effects
                        .texts
                        .push((path.clone(), String::from_utf8_lossy(&bytes).into_owned()));
                }
                effects.written.insert(path);
            }
        }
    }

    /// Takes a file or a whole folder as removed.
    fn gone(&self, path: &str, effects: &mut Effects) {
        let lower = self.lower.join(path);
        if lower.symlink_metadata().is_ok_and(|metadata| metadata.is_dir()) {
            for name in names(&lower) {
                self.gone(&format!("{path}/{name}"), effects);
            }
        }
        effects.removed.insert(path.to_owned());
    }
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

/// Whether a folder of an overlay hides what is beneath it.
fn is_opaque(folder: &Path) -> bool {
    ["user.overlay.opaque", "trusted.overlay.opaque"].iter().any(|name| {
        let mut value = [0_u8; 8];
        rustix::fs::lgetxattr(folder, *name, &mut value)
            .is_ok_and(|length| length == 1 && value[0] == b'y')
    })
}

fn traced_programs(text: &str) -> Vec<(bool, Vec<String>)> {
    text.split("\u{1}\0")
        .filter_map(|record| {
            let words: Vec<String> = record.split_terminator('\0').map(str::to_owned).collect();
            let (by, words) = words.split_first()?;
            Some((by == "line", words.to_vec()))
        })
        .collect()
}

/// The words of commands as `set -x` shows them: a line each, but for line ends in quotes.
fn traced_commands(text: &str) -> Vec<Vec<String>> {
    let mut commands = Vec::new();
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut chars = text.chars().peekable();
    while let Some(char) = chars.next() {
        match char {
            ' ' => words.extend(word.take()),
            '\n' => {
                words.extend(word.take());
                let mut command = std::mem::take(&mut words).into_iter();
                // The first word tells how deep the shell is.
                if command.next().is_some_and(|depth: String| depth.starts_with('+')) {
                    commands.push(command.collect());
                }
            }
            '\'' => {
                let text = word.get_or_insert_default();
                text.extend(chars.by_ref().take_while(|char| *char != '\''));
            }
            '\\' => word.get_or_insert_default().extend(chars.next()),
            '$' if chars.peek() == Some(&'\'') => {
                chars.next();
                unescape(&mut chars, word.get_or_insert_default());
            }
            other => word.get_or_insert_default().push(other),
        }
    }
    commands
}

/// Reads the rest of a `$'…'` string.
fn unescape(chars: &mut impl Iterator<Item = char>, text: &mut String) {
    while let Some(char) = chars.next() {
        match char {
            '\'' => return,
            '\\' => match chars.next() {
                Some('n') => text.push('\n'),
                Some('t') => text.push('\t'),
                Some(other) if other.is_ascii_alphanumeric() => text.push('\u{1b}'),
                other => text.extend(other),
            },
            other => text.push(other),
        }
    }
}
