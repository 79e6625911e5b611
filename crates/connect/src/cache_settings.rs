//! What in caches configures tools, or is run by them: no change of it is kept for later commands.
//!
//! Caches keep what a command downloads and builds. A setting that it leaves there (a runner, a wrapper of the
//! compiler, a script at the start) would decide what later commands run, gates included.

use std::collections::BTreeSet;
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use windlass_cell::Layout;

/// Settings and programs in caches: the variable that names the cache, where it usually lies in the home folder,
/// and paths in it. A folder stands for all that is in it.
const IN_CACHES: [(&str, &str, &[&str]); 12] = [
    (
        "CARGO_HOME",
        ".cargo",
        &[
            "bin",
            "config",
            "config.toml",
            "credentials",
            "credentials.toml",
            "env",
            "env.fish",
            "env.nu",
            "env.ps1",
            "env.tcsh",
            "env.xsh",
        ],
    ),
    ("npm_config_cache", ".npm", &[".npmrc", "npmrc"]),
    ("PNPM_HOME", ".local/share/pnpm", &[".npmrc", "bin", "rc"]),
    ("PIP_CACHE_DIR", ".cache/pip", &["pip.conf"]),
    ("UV_CACHE_DIR", ".cache/uv", &["uv.toml"]),
    ("DENO_DIR", ".cache/deno", &[".npmrc", "bin", "deno.json", "deno.jsonc"]),
    ("YARN_CACHE_FOLDER", ".cache/yarn", &[".npmrc", ".yarnrc", ".yarnrc.yml"]),
    ("POETRY_CACHE_DIR", ".cache/pypoetry", &["auth.toml", "config.toml"]),
    ("NUGET_PACKAGES", ".nuget/packages", &["NuGet.Config", "NuGet.config", "nuget.config"]),
    ("CCACHE_DIR", ".cache/ccache", &["ccache.conf"]),
    ("SCCACHE_DIR", ".cache/sccache", &["config"]),
    ("COMPOSER_CACHE_DIR", ".cache/composer", &["auth.json", "config.json"]),
];

/// Settings and programs in the home folder. It is empty in a cell and lost with it, but a variable can make a
/// cache of a folder around them.
const IN_HOME: [&str; 60] = [
    ".Rprofile",
    ".bash_aliases",
    ".bash_login",
    ".bash_logout",
    ".bash_profile",
    ".bashrc",
    ".bazelrc",
    ".bundle/config",
    ".bunfig.toml",
    ".cabal/config",
    ".ccache/ccache.conf",
    ".composer/auth.json",
    ".composer/config.json",
    ".condarc",
    ".config/NuGet",
    ".config/bazel",
    ".config/cabal",
    ".config/ccache",
    ".config/composer",
    ".config/fish",
    ".config/git",
    ".config/go/env",
    ".config/npm",
    ".config/pdm",
    ".config/pip",
    ".config/pnpm",
    ".config/pypoetry",
    ".config/rustfmt",
    ".config/sccache",
    ".config/uv",
    ".config/yarn",
    ".curlrc",
    ".gemrc",
    ".gitconfig",
    ".gradle/gradle.properties",
    ".gradle/init.d",
    ".gradle/init.gradle",
    ".gradle/init.gradle.kts",
    ".local/bin",
    ".local/lib",
    ".m2/extensions.xml",
    ".m2/settings-security.xml",
    ".m2/settings.xml",
    ".m2/toolchains.xml",
    ".mavenrc",
    ".node_modules",
    ".npmrc",
    ".nuget/NuGet",
    ".pip/pip.conf",
    ".profile",
    ".pydistutils.cfg",
    ".rustfmt.toml",
    ".sbt/1.0",
    ".sbt/repositories",
    ".sbtopts",
    ".wgetrc",
    ".yarnrc",
    ".yarnrc.yml",
    ".zshenv",
    ".zshrc",
];

/// The longest file that is compared with the one beneath it.
const COMPARED_BYTES_MAX: u64 = 1 << 20;
/// The mark of a folder that hides the one beneath it. The overlay is mounted with `userxattr`.
const OPAQUE: &str = "user.overlay.opaque";

/// The settings and programs of this machine's caches.
#[derive(Debug, Default)]
pub(crate) struct CacheSettings {
    /// Files, and folders with all that is in them.
    paths: BTreeSet<PathBuf>,
    /// Folders of `PATH`, in which programs are.
    programs: BTreeSet<PathBuf>,
}

impl CacheSettings {
    /// Finds where they are, by the variables of a layout.
    pub fn of(layout: &Layout) -> Self {
        let variable = |name: &str| {
            let value = layout.variables.get(name).filter(|value| !value.is_empty());
            value.map(PathBuf::from).filter(|path| path.is_absolute())
        };
        let home = variable("HOME");
        let mut paths = BTreeSet::new();
        for (name, usual, inside) in IN_CACHES {
            let folders = [variable(name), home.as_ref().map(|home| home.join(usual))];
            for folder in folders.into_iter().flatten() {
                paths.extend(inside.iter().map(|path| folder.join(path)));
            }
        }
        paths.extend(home.iter().flat_map(|home| IN_HOME.iter().map(move |path| home.join(path))));
        let path = layout.variables.get("PATH").map(String::as_str).unwrap_or_default();
        let programs: BTreeSet<PathBuf> =
            std::env::split_paths(path).filter(|entry| entry.is_absolute()).collect();
        paths.extend(programs.iter().cloned());
        Self { paths: with_real(paths), programs: with_real(programs) }
    }

    /// Drops the changes of them from the upper folder of a cache's overlay, and returns what was dropped. No process
    /// may use the overlay.
    pub fn drop_changes(&self, cache: &Path, upper: &Path) -> io::Result<Vec<String>> {
        let mut dropped = BTreeSet::new();
        for root in with_real(BTreeSet::from([cache.to_owned()])) {
            for path in &self.paths {
                match path.strip_prefix(&root) {
                    Ok(inside) if inside.as_os_str().is_empty() => {}
                    Ok(inside) => dropped.extend(drop_change(cache, upper, inside)?),
                    Err(_) => {}
                }
            }
            if self.programs.contains(&root) {
                dropped.extend(drop_programs(cache, upper)?);
            }
        }
        let shown = |path: PathBuf| format!("{} (dropped)", cache.join(path).display());
        Ok(dropped.into_iter().map(shown).collect())
    }
}

/// The paths, and where they really are: a path can lead through links.
fn with_real(paths: BTreeSet<PathBuf>) -> BTreeSet<PathBuf> {
    let real: Vec<PathBuf> = paths.iter().filter_map(|path| path.canonicalize().ok()).collect();
    paths.into_iter().chain(real).collect()
}

/// What is at a path; `None` when there is nothing.
fn found(path: &Path) -> io::Result<Option<Metadata>> {
    match path.symlink_metadata() {
        Ok(found) => Ok(Some(found)),
        Err(error)
            if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) =>
        {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// Drops the change of one path, or of what leads to it; returns the path of what was dropped.
fn drop_change(cache: &Path, upper: &Path, path: &Path) -> io::Result<Option<PathBuf>> {
    let was_there = found(&cache.join(path))?.is_some();
    let mut dropped = None;
    let mut here = PathBuf::new();
    open_folder(upper)?;
    let mut parts = path.components().peekable();
    while let Some(part) = parts.next() {
        here.push(part);
        let at = upper.join(&here);
        let Some(change) = found(&at)? else { return Ok(dropped) };
        if parts.peek().is_none() {
            let is_same = is_same(&at, &change, &cache.join(&here))?;
            remove(&at, &change)?;
            return Ok(dropped.or_else(|| (!is_same).then_some(here)));
        }
        if change.is_dir() {
            open_folder(&at)?;
            if was_there && is_opaque(&at) {
                rustix::fs::lremovexattr(&at, OPAQUE)?;
                dropped.get_or_insert_with(|| here.clone());
            }
        } else if was_there || change.is_symlink() {
            // A link would lead to another file of that name; anything else hides the one that was there.
            remove(&at, &change)?;
            return Ok(Some(here));
        } else {
            return Ok(dropped);
        }
    }
    Ok(dropped)
}

/// Drops programs from a cache that is itself a folder of `PATH`.
fn drop_programs(cache: &Path, upper: &Path) -> io::Result<Vec<PathBuf>> {
    open_folder(upper)?;
    let mut dropped = Vec::new();
    for entry in fs::read_dir(upper)? {
        let entry = entry?;
        let (at, name) = (entry.path(), PathBuf::from(entry.file_name()));
        let Some(change) = found(&at)? else { continue };
        let is_program = change.is_file() && change.mode() & 0o111 != 0;
        // A removed program may uncover another one of that name.
        if is_program || change.is_symlink() || is_whiteout(&change) {
            if !is_same(&at, &change, &cache.join(&name))? {
                dropped.push(name);
            }
            remove(&at, &change)?;
        }
    }
    Ok(dropped)
}

/// Whether a change changes nothing: the kernel copies a file or folder when it is opened to be written.
fn is_same(at: &Path, change: &Metadata, beneath: &Path) -> io::Result<bool> {
    let Some(original) = found(beneath)? else { return Ok(false) };
    if change.is_dir() && original.is_dir() {
        open_folder(at)?;
        return Ok(!is_opaque(at) && fs::read_dir(at)?.next().is_none());
    }
    let comparable = change.is_file()
        && original.is_file()
        && change.mode() == original.mode()
        && change.len() == original.len()
        && change.len() <= COMPARED_BYTES_MAX;
    Ok(comparable && fs::read(at)? == fs::read(beneath)?)
}

/// The mark of the overlay that something was removed.
fn is_whiteout(change: &Metadata) -> bool {
    change.file_type().is_char_device() && change.rdev() == 0
}

fn is_opaque(folder: &Path) -> bool {
    let length = rustix::fs::lgetxattr(folder, OPAQUE, &mut [0_u8; 8]);
    length.is_ok_and(|length| length > 0)
}

/// Makes a folder accessible: a command can have closed it.
fn open_folder(folder: &Path) -> io::Result<()> {
    let mode = fs::symlink_metadata(folder)?.mode();
    match mode & 0o700 {
        0o700 => Ok(()),
        _ => fs::set_permissions(folder, fs::Permissions::from_mode(mode | 0o700)),
    }
}

fn remove(path: &Path, found: &Metadata) -> io::Result<()> {
    if !found.is_dir() {
        return fs::remove_file(path);
    }
    open_folder(path)?;
    for entry in fs::read_dir(path)? {
        let path = entry?.path();
        remove(&path, &path.symlink_metadata()?)?;
    }
    fs::remove_dir(path)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::os::unix::fs::symlink;

    use super::*;

    /// A home folder with a cache, and the upper folder of the cache's overlay.
    struct World {
        folder: tempfile::TempDir,
        settings: CacheSettings,
    }

    impl World {
        fn new(more: &[(&str, &str)]) -> Self {
            let folder = tempfile::tempdir().unwrap();
            for name in ["home/.cargo", "upper"] {
                fs::create_dir_all(folder.path().join(name)).unwrap();
            }
            let text = |path: PathBuf| path.to_str().unwrap().to_owned();
            let mut variables =
                BTreeMap::from([("HOME".to_owned(), text(folder.path().join("home")))]);
            for (name, value) in more {
                variables.insert((*name).to_owned(), text(folder.path().join(value)));
            }
            let settings = CacheSettings::of(&Layout { variables, ..Layout::default() });
            Self { folder, settings }
        }

        fn cache(&self) -> PathBuf {
            self.folder.path().join("home/.cargo")
        }

        fn upper(&self, name: &str) -> PathBuf {
            self.folder.path().join("upper").join(name)
        }

        fn put(&self, name: &str, text: &str) {
            fs::create_dir_all(self.upper(name).parent().unwrap()).unwrap();
            fs::write(self.upper(name), text).unwrap();
        }

        /// What is dropped, without the folder of the cache.
        fn dropped(&self) -> Vec<String> {
            let dropped = self.settings.drop_changes(&self.cache(), &self.upper("")).unwrap();
            let start = format!("{}/", self.cache().display());
            let name = |text: String| {
                text.strip_prefix(&start).unwrap().strip_suffix(" (dropped)").unwrap().to_owned()
            };
            dropped.into_iter().map(name).collect()
        }
    }

    #[test]
    fn settings_and_programs_are_dropped_and_packages_stay() {
        let world = World::new(&[]);
        for name in
            ["config.toml", "config", "env", "bin/cargo-x", "registry/src/a/config.toml", "kept"]
        {
            world.put(name, "new");
        }
        assert_eq!(world.dropped(), ["bin", "config", "config.toml", "env"]);
        assert!(world.upper("kept").exists());
        assert!(world.upper("registry/src/a/config.toml").exists(), "a package's own file");
        assert_eq!(world.dropped(), [""; 0]);
    }

    #[test]
    fn the_settings_of_the_user_come_back() {
        let world = World::new(&[]);
        for (name, now) in [("config.toml", "changed"), ("env", "same")] {
            fs::write(world.cache().join(name), if now == "same" { now } else { "mine" }).unwrap();
            world.put(name, now);
        }
        assert_eq!(world.dropped(), ["config.toml"], "the other one was only copied");
        assert!(!world.upper("config.toml").exists() && !world.upper("env").exists());
    }

    #[test]
    fn links_folders_and_closed_folders_are_no_way_around() {
        let world = World::new(&[]);
        world.put("other", "x");
        symlink("other", world.upper("config.toml")).unwrap();
        symlink("/tmp", world.upper("bin")).unwrap();
        world.put("env/a/b", "x");
        for (name, mode) in [("env/a", 0o000), ("env", 0o000), ("", 0o500)] {
            fs::set_permissions(world.upper(name), fs::Permissions::from_mode(mode)).unwrap();
        }
        assert_eq!(world.dropped(), ["bin", "config.toml", "env"]);
        assert!(world.upper("other").exists());
    }

    #[test]
    fn what_leads_to_a_setting_is_not_replaced() {
        // A variable makes a cache of a folder with settings of other tools in it.
        let world = World::new(&[("PIP_CACHE_DIR", "home/.config")]);
        let cache = world.folder.path().join("home/.config");
        fs::create_dir_all(cache.join("go")).unwrap();
        fs::write(cache.join("go/env"), "GOFLAGS=").unwrap();
        symlink("elsewhere", world.upper("go")).unwrap();
        symlink("elsewhere", world.upper("npm")).unwrap();
        world.put("pip/pip.conf", "x");
        world.put("elsewhere/env", "GOFLAGS=-toolexec=x");
        fs::write(world.upper("fish"), "a file").unwrap();
        let dropped = world.settings.drop_changes(&cache, &world.upper("")).unwrap();
        let names = ["fish", "go", "npm", "pip"];
        let expected: Vec<String> =
            names.iter().map(|name| format!("{}/{name} (dropped)", cache.display())).collect();
        assert_eq!(dropped, expected);
        // A folder that hides what was there is merged with it again.
        fs::create_dir(world.upper("go")).unwrap();
        let flags = rustix::fs::XattrFlags::empty();
        if rustix::fs::lsetxattr(world.upper("go"), OPAQUE, b"y", flags).is_ok() {
            world.put("go/telemetry", "x");
            let dropped = world.settings.drop_changes(&cache, &world.upper("")).unwrap();
            assert_eq!(dropped, [format!("{}/go (dropped)", cache.display())]);
            assert!(!is_opaque(&world.upper("go")) && world.upper("go/telemetry").exists());
        }
    }

    #[test]
    fn a_cache_in_path_gets_no_programs() {
        let world = World::new(&[("PATH", "home/.cargo")]);
        world.put("data", "x");
        for (name, mode) in [("git", 0o755), ("hg", 0o700), ("svn", 0o610)] {
            world.put(name, "#!/bin/sh");
            fs::set_permissions(world.upper(name), fs::Permissions::from_mode(mode)).unwrap();
        }
        symlink("data", world.upper("ls")).unwrap();
        assert_eq!(world.dropped(), ["git", "hg", "ls", "svn"]);
        assert!(world.upper("data").exists());
        // An entry that does not exist yet.
        let world = World::new(&[("PATH", "home/.cargo/tools/bin")]);
        world.put("tools/bin/git", "#!/bin/sh");
        assert_eq!(world.dropped(), ["tools/bin"]);
    }

    #[test]
    fn a_cache_that_a_variable_moves_has_its_settings_there() {
        let world = World::new(&[("CARGO_HOME", "moved")]);
        let moved = world.folder.path().join("moved");
        world.put("config.toml", "x");
        let dropped = world.settings.drop_changes(&moved, &world.upper("")).unwrap();
        assert_eq!(dropped, [format!("{}/config.toml (dropped)", moved.display())]);
    }
}
