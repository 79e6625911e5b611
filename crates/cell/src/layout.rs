//! What every cell has of the machine: programs, a few settings, toolchains and caches.
//!
//! The root is an allow list. What is not named here, or by the user, does not exist in a cell: credentials,
//! browser profiles, other projects, sockets of daemons.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use crate::spec::{Access, Mount};
use crate::toolchains::{TOOLCHAINS, credentials, parts_of, roots_of};

/// Folders of programs that are links into `/usr`, or folders of their own.
const PROGRAMS: [&str; 6] = ["/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"];

/// What programs expect in `/etc`; none of it holds a credential.
const SETTINGS: [&str; 40] = [
    "alternatives",
    "bash.bashrc",
    "bash_completion.d",
    "ca-certificates",
    "ca-certificates.conf",
    "crypto-policies",
    "debian_version",
    "default/locale",
    "fonts",
    "group",
    "gtk-3.0",
    "host.conf",
    "hostname",
    "hosts",
    "inputrc",
    "java",
    "java-11-openjdk",
    "java-17-openjdk",
    "java-21-openjdk",
    "java-25-openjdk",
    "ld.so.cache",
    "ld.so.conf",
    "ld.so.conf.d",
    "locale.alias",
    "locale.conf",
    "localtime",
    "magic",
    "maven",
    "mime.types",
    "nsswitch.conf",
    "os-release",
    "passwd",
    "pki/ca-trust",
    "pki/tls/certs",
    "profile",
    "protocols",
    "services",
    "ssl/cert.pem",
    "ssl/certs",
    "ssl/openssl.cnf",
];
/// More of `/etc`.
const MORE_SETTINGS: [&str; 8] =
    ["perl", "php", "python3", "python3.11", "python3.12", "python3.13", "terminfo", "timezone"];

/// Caches, which builds write to: the variable that names them, or where they lie in the home folder.
const CACHES: [(&str, &str); 26] = [
    ("CARGO_HOME", ".cargo"),
    ("GOMODCACHE", "go/pkg/mod"),
    ("GOCACHE", ".cache/go-build"),
    ("npm_config_cache", ".npm"),
    ("PNPM_HOME", ".local/share/pnpm"),
    ("PIP_CACHE_DIR", ".cache/pip"),
    ("UV_CACHE_DIR", ".cache/uv"),
    ("DENO_DIR", ".cache/deno"),
    ("YARN_CACHE_FOLDER", ".cache/yarn"),
    ("POETRY_CACHE_DIR", ".cache/pypoetry"),
    ("NUGET_PACKAGES", ".nuget/packages"),
    ("CCACHE_DIR", ".cache/ccache"),
    ("SCCACHE_DIR", ".cache/sccache"),
    ("COMPOSER_CACHE_DIR", ".cache/composer"),
    ("PLAYWRIGHT_BROWSERS_PATH", ".cache/ms-playwright"),
    ("PRE_COMMIT_HOME", ".cache/pre-commit"),
    ("", ".cache/node"),
    ("", ".cache/node-gyp"),
    ("", ".cache/bazel"),
    ("", ".cache/typescript"),
    ("", ".m2/repository"),
    ("", ".m2/wrapper"),
    ("", ".gradle/caches"),
    ("", ".gradle/wrapper"),
    ("", ".ivy2/cache"),
    ("", ".sbt/boot"),
];

/// How much the home folder of a cell holds besides toolchains and caches.
const HOME_BYTES: u64 = 2 << 30;

/// What a cell's layout depends on.
#[derive(Clone, Debug, Default)]
pub struct Layout {
    /// Our environment.
    pub variables: BTreeMap<String, String>,
    /// What the user shows to all cells besides.
    pub visible: Vec<PathBuf>,
    /// What the user lets all cells change besides.
    pub writable: Vec<PathBuf>,
    /// Where changes of caches go; without it caches are read-only.
    pub cache_changes: Option<PathBuf>,
    /// Changes of caches by other cells, which this one sees, uppermost first.
    pub earlier_cache_changes: Vec<PathBuf>,
    /// The folder that is `/tmp` in the cell; without it `/tmp` is in memory.
    pub temporary: Option<PathBuf>,
}

impl Layout {
    /// The mounts of a cell, before those of its workspace.
    #[must_use]
    pub fn mounts(&self) -> Vec<Mount> {
        let mut mounts = vec![bind("/usr".into(), Access::Read)];
        for path in PROGRAMS.map(PathBuf::from) {
            match std::fs::read_link(&path) {
                Ok(target) => mounts.push(Mount::Link { path, target }),
                Err(_) if path.is_dir() => mounts.push(bind(path, Access::Read)),
                Err(_) => {}
            }
        }
        let settings =
            SETTINGS.iter().chain(&MORE_SETTINGS).map(|name| Path::new("/etc").join(name));
        mounts.extend(settings.filter(|path| path.exists()).map(|path| bind(path, Access::Read)));
        mounts.push(match &self.temporary {
            Some(folder) => {
                Mount::BindAt { from: folder.clone(), path: "/tmp".into(), access: Access::Write }
            }
            None => Mount::Memory { path: "/tmp".into(), bytes: HOME_BYTES },
        });
        mounts.push(Mount::Link { path: "/var/tmp".into(), target: "/tmp".into() });
        let home = self.home();
        if let Some(home) = &home {
            mounts.push(Mount::Memory { path: home.clone(), bytes: HOME_BYTES });
        }
        let caches = self.caches(home.as_deref());
        let toolchains = self.toolchains(home.as_deref(), &caches);
        let mut masks = Vec::new();
        for path in toolchains {
            masks.extend(credentials(&path));
            mounts.push(bind(path, Access::Read));
        }
        let programs = self.programs_in(&caches);
        for path in caches {
            masks.extend(credentials(&path));
            mounts.push(self.cache(path));
        }
        // What a command puts there would be run by later ones, and by gates.
        mounts.extend(programs.into_iter().map(|path| bind(path, Access::Read)));
        mounts.extend(masks.into_iter().map(|path| Mount::Mask { path }));
        let shown = |paths: &[PathBuf], access: Access| {
            paths.iter().map(|path| bind(path.clone(), access)).collect::<Vec<_>>()
        };
        mounts.extend(shown(&self.visible, Access::Read));
        mounts.extend(shown(&self.writable, Access::Write));
        mounts
    }

    /// Makes a link of the machine an empty folder if something is shown below it.
    pub fn make_way(mounts: &mut [Mount]) {
        let paths: Vec<PathBuf> = mounts.iter().map(|mount| mount.path().to_owned()).collect();
        for mount in mounts {
            if let Mount::Link { path, .. } = mount
                && paths.iter().any(|other| other != path && other.starts_with(&*path))
            {
                *mount = Mount::Memory { path: path.clone(), bytes: HOME_BYTES };
            }
        }
    }

    fn variable(&self, name: &str) -> Option<&str> {
        self.variables.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// The home folder, if it can be replaced by an empty one.
    fn home(&self) -> Option<PathBuf> {
        let home = PathBuf::from(self.variable("HOME")?);
        (home.is_absolute() && home.parent().is_some() && home.is_dir()).then_some(home)
    }

    /// The folder that a variable names, or its usual place.
    fn named(&self, home: Option<&Path>, variable: &str, usual: &str) -> Option<PathBuf> {
        let named = self.variable(variable).map(PathBuf::from).filter(|path| path.is_absolute());
        let path = named.or_else(|| Some(home?.join(usual)))?;
        (path.is_dir() && !is_system(&path) && !holds_home(&path, home)).then_some(path)
    }

    fn caches(&self, home: Option<&Path>) -> BTreeSet<PathBuf> {
        let named = CACHES.iter().filter_map(|(name, usual)| self.named(home, name, usual));
        outermost(named)
    }

    /// Folders of toolchains, and the roots of `PATH`.
    fn toolchains(&self, home: Option<&Path>, caches: &BTreeSet<PathBuf>) -> BTreeSet<PathBuf> {
        let named = TOOLCHAINS.iter().filter_map(|(name, usual, parts)| {
            Some(parts_of(&self.named(home, name, usual)?, parts))
        });
        let path = self.variable("PATH").unwrap_or_default();
        let path = std::env::split_paths(path).flat_map(|entry| roots_of(&entry, home));
        let all = outermost(named.flatten().chain(path));
        all.into_iter().filter(|path| !caches.iter().any(|cache| path.starts_with(cache))).collect()
    }

    /// The folders of `PATH` that lie in caches.
    fn programs_in(&self, caches: &BTreeSet<PathBuf>) -> BTreeSet<PathBuf> {
        let path = self.variable("PATH").unwrap_or_default();
        let inside = |entry: &PathBuf| {
            let in_cache = |cache: &PathBuf| entry != cache && entry.starts_with(cache);
            // A link cannot be mounted over.
            caches.iter().any(in_cache) && entry.canonicalize().is_ok_and(|real| real == *entry)
        };
        std::env::split_paths(path).filter(|entry| entry.is_dir() && inside(entry)).collect()
    }

    fn cache(&self, path: PathBuf) -> Mount {
        let Some(changes) = &self.cache_changes else { return bind(path, Access::Read) };
        let name = path.to_string_lossy().replace('%', "%25").replace('/', "%2F");
        let earlier = self.earlier_cache_changes.iter();
        let earlier: Vec<PathBuf> = earlier
            .map(|changes| changes.join(&name).join("upper"))
            .filter(|folder| folder.is_dir())
            .collect();
        let folder = changes.join(name);
        let (upper, work) = (folder.join("upper"), folder.join("work"));
        let made =
            [&upper, &work].into_iter().all(|folder| std::fs::create_dir_all(folder).is_ok());
        if made {
            let lower = earlier.into_iter().chain([path.clone()]).collect();
            Mount::Overlay { lower, path, upper, work }
        } else {
            bind(path, Access::Read)
        }
    }
}

const fn bind(path: PathBuf, access: Access) -> Mount {
    Mount::Bind { path, access }
}

/// Whether every cell has this path anyway.
pub(crate) fn is_system(path: &Path) -> bool {
    path.starts_with("/usr") || PROGRAMS.iter().any(|programs| path.starts_with(programs))
}

/// Whether showing this path would show the home folder, or the whole machine.
pub(crate) fn holds_home(path: &Path, home: Option<&Path>) -> bool {
    path.parent().is_none() || home.is_some_and(|home| home.starts_with(path))
}

/// The paths without those that lie in another one.
fn outermost(paths: impl Iterator<Item = PathBuf>) -> BTreeSet<PathBuf> {
    let mut all = BTreeSet::<PathBuf>::new();
    for path in paths.collect::<BTreeSet<_>>() {
        if !all.iter().any(|outer| path.starts_with(outer)) {
            all.insert(path);
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shown_below_a_link_is_in_a_folder() {
        let link = || Mount::Link { path: "/var/tmp".into(), target: "/tmp".into() };
        let mut mounts = [link(), bind("/var/tmp/project".into(), Access::Write)];
        Layout::make_way(&mut mounts);
        assert_eq!(mounts[0], Mount::Memory { path: "/var/tmp".into(), bytes: HOME_BYTES });
        let mut mounts = [link(), bind("/var/tmpfiles".into(), Access::Write)];
        Layout::make_way(&mut mounts);
        assert_eq!(mounts[0], link());
    }

    #[test]
    fn credentials_are_masked_and_nothing_else_of_the_home_is_shown() {
        let folder = tempfile::tempdir().unwrap();
        let home = folder.path();
        for name in [".ssh", ".cargo/bin", ".aws"] {
            std::fs::create_dir_all(home.join(name)).unwrap();
        }
        std::fs::write(home.join(".cargo/credentials.toml"), "token").unwrap();
        let text = |path: PathBuf| path.to_str().unwrap().to_owned();
        let layout = Layout {
            variables: BTreeMap::from([
                ("HOME".to_owned(), text(home.to_owned())),
                ("PATH".to_owned(), text(home.join(".cargo/bin"))),
            ]),
            ..Layout::default()
        };
        let mounts = layout.mounts();
        let in_home: Vec<&Mount> = mounts
            .iter()
            .filter(|mount| match mount {
                Mount::Bind { path, .. } | Mount::Mask { path } => path.starts_with(home),
                Mount::BindAt { .. }
                | Mount::Memory { .. }
                | Mount::Overlay { .. }
                | Mount::Link { .. } => false,
            })
            .collect();
        let cargo = home.join(".cargo");
        assert_eq!(
            in_home,
            [
                &bind(cargo.clone(), Access::Read),
                &bind(cargo.join("bin"), Access::Read),
                &Mount::Mask { path: cargo.join("credentials.toml") }
            ]
        );
    }
}
