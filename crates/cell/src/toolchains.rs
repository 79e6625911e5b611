//! What a cell has of toolchains in the home folder: what programs need of them, and no settings that may have credentials.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use crate::layout::{holds_home, is_system};
use crate::secret_text::has_secret;

/// Folders of toolchains: the variable that names them, or where they lie in the home folder; and what of them a cell has. `*` is
/// any name, `@` is `bin`, each of [`TOOLCHAIN_PARTS`] and [`MORE_PARTS`], and each program.
pub(crate) const TOOLCHAINS: [(&str, &str, &[&str]); 19] = [
    ("RUSTUP_HOME", ".rustup", &["settings.toml", "toolchains", "update-hashes"]),
    (
        "PYENV_ROOT",
        ".pyenv",
        &[
            "bin",
            "completions",
            "libexec",
            "plugins",
            "pyenv.d",
            "shims",
            "version",
            "versions/*/@",
        ],
    ),
    ("NVM_DIR", ".nvm", &["alias", "bash_completion", "nvm-exec", "nvm.sh", "versions/*/*/@"]),
    (
        "VOLTA_HOME",
        ".volta",
        &[
            "bin",
            "layout.v4",
            "tools/image/packages",
            "tools/image/*/*/@",
            "tools/inventory",
            "tools/shared",
            "tools/user",
        ],
    ),
    ("ASDF_DIR", ".asdf", ASDF),
    ("ASDF_DATA_DIR", ".asdf", ASDF),
    ("MISE_DATA_DIR", ".local/share/mise", &["installs/*/*/@", "plugins", "shims"]),
    ("GOROOT", ".go", &["@", "VERSION", "api", "go.env", "test"]),
    ("JAVA_HOME", ".jdk", &["@"]),
    ("SDKMAN_DIR", ".sdkman", &["bin", "candidates/*/*/@", "contrib", "libexec", "var"]),
    (
        "RBENV_ROOT",
        ".rbenv",
        &[
            "bin",
            "completions",
            "libexec",
            "plugins",
            "rbenv.d",
            "shims",
            "version",
            "versions/*/@",
        ],
    ),
    ("GEM_HOME", ".gem/ruby", GEMS),
    ("BUN_INSTALL", ".bun", &["bin", "install"]),
    ("VIRTUAL_ENV", ".virtualenv", &["@"]),
    ("CONDA_PREFIX", "miniconda3", &["@", "*-conda-linux-gnu", "shell"]),
    (
        "DOTNET_ROOT",
        ".dotnet",
        &["@", "host", "library-packs", "metadata", "packs", "sdk", "sdk-manifests", "templates"],
    ),
    (
        "UV_PYTHON_INSTALL_DIR",
        ".local/share/uv",
        &["python", "tools", "cpython-*", "graalpy-*", "pypy-*"],
    ),
    ("PIPX_HOME", ".local/share/pipx", &["py", "shared", "venvs"]),
    ("FNM_DIR", ".local/share/fnm", &["aliases", "node-versions/*/installation/@"]),
];
const ASDF: &[&str] = &[
    "asdf.sh",
    "bin",
    "completions",
    "defaults",
    "installs/*/*/@",
    "installs/*/*/erts-*",
    "internal",
    "lib",
    "libexec",
    "plugins",
    "shims",
    "version.txt",
];
const GEMS: &[&str] = &[
    "bin",
    "build_info",
    "extensions",
    "gems",
    "plugins",
    "specifications",
    "*/bin",
    "*/build_info",
    "*/extensions",
    "*/gems",
    "*/plugins",
    "*/specifications",
];

/// Files in toolchains and caches that hold credentials.
const CREDENTIALS: [&str; 12] = [
    ".git-credentials",
    ".netrc",
    ".npmrc",
    ".pypirc",
    "auth.json",
    "auth.toml",
    "credentials",
    "credentials.toml",
    "etc/npmrc",
    "npmrc",
    "nuget.config",
    "pip.conf",
];
/// Settings in them, which are shown unless they hold credentials.
const SETTINGS: [&str; 7] =
    [".yarnrc", ".yarnrc.yml", "config", "config.json", "config.toml", "rc", "uv.toml"];
/// Folders in them that hold whole environments, each with settings of its own.
const ENVIRONMENTS: [&str; 4] = ["envs", "tools", "venvs", "versions"];

/// What a toolchain has beside its programs. The rest of such a folder may be anything: `~/.docker/bin` lies beside credentials,
/// `~/work/bin` beside all projects, and `etc` of a Node has its `npmrc`.
const TOOLCHAIN_PARTS: [&str; 37] = [
    "Cellar",
    "boot",
    "bundled",
    "cabal",
    "cmake",
    "conda-meta",
    "condabin",
    "conf",
    "downloads",
    "envs",
    "ghc",
    "hls",
    "include",
    "init.d",
    "jmods",
    "jre",
    "lib",
    "lib32",
    "lib64",
    "libexec",
    "node_modules",
    "opt",
    "packages",
    "pkgs",
    "plugins",
    "pyvenv.cfg",
    "release",
    "runtime",
    "sbin",
    "share",
    "shared",
    "shims",
    "store",
    "toolchains",
    "tools",
    "venvs",
    "versions",
];
/// What one that is known by its variable has besides.
const MORE_PARTS: &[&str] = &[
    "VERSION",
    "compiler_compat",
    "doc",
    "etc/conda",
    "etc/fonts",
    "etc/jupyter",
    "etc/profile.d",
    "go",
    "go.env",
    "host",
    "jars",
    "kotlinc",
    "legal",
    "man",
    "misc",
    "packs",
    "pkg",
    "releases",
    "sdk",
    "src",
    "ssl",
    "usr",
];

/// What a cell has of a toolchain, of those patterns that match something.
pub(crate) fn parts_of(root: &Path, patterns: &[&str]) -> Vec<PathBuf> {
    patterns.iter().flat_map(|pattern| matching(vec![root.to_owned()], pattern)).collect()
}

fn matching(folders: Vec<PathBuf>, pattern: &str) -> Vec<PathBuf> {
    let (name, rest) = match pattern.split_once('/') {
        Some((name, rest)) => (name, Some(rest)),
        None => (pattern, None),
    };
    let found: Vec<PathBuf> = folders.iter().flat_map(|folder| named_in(folder, name)).collect();
    match rest {
        Some(rest) => matching(found, rest),
        None => found,
    }
}

/// What a folder has of one part of a pattern.
fn named_in(folder: &Path, name: &str) -> Vec<PathBuf> {
    let present = |path: &PathBuf| path.exists();
    if name == "@" {
        let parts =
            ["bin"].iter().chain(&TOOLCHAIN_PARTS).chain(MORE_PARTS).map(|part| folder.join(part));
        let programs = entries(folder).filter(|path| is_program(path));
        return parts.filter(present).chain(programs).collect();
    }
    let Some((start, end)) = name.split_once('*') else {
        return Some(folder.join(name)).filter(present).into_iter().collect();
    };
    let is_like = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str());
        // A hidden folder belongs to no toolchain.
        name.is_some_and(|name| {
            !name.starts_with('.') && name.starts_with(start) && name.ends_with(end)
        })
    };
    entries(folder).filter(|path| is_like(path) && path.is_dir()).collect()
}

fn entries(folder: &Path) -> impl Iterator<Item = PathBuf> {
    std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path())
}

fn is_program(path: &Path) -> bool {
    path.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

/// What a cell has of the toolchain to which an entry of `PATH` belongs.
pub(crate) fn roots_of(entry: &Path, home: Option<&Path>) -> Vec<PathBuf> {
    if !entry.is_absolute() || !entry.is_dir() || is_system(entry) || holds_home(entry, home) {
        return Vec::new();
    }
    let is_inner = entry
        .file_name()
        .is_some_and(|name| ["bin", "sbin", "shims"].iter().any(|inner| name == *inner));
    let Some(parent) = entry.parent().filter(|parent| is_inner && !holds_home(parent, home)) else {
        return vec![entry.to_owned()];
    };
    let is_in_home = home.is_some_and(|home| parent.starts_with(home));
    // The sources of Go's own library belong to its compiler.
    if !is_in_home || parent.join("pkg/tool").is_dir() {
        return vec![parent.to_owned()];
    }
    let mut roots = vec![entry.to_owned()];
    // `~/.local` holds much more than programs.
    if home.is_some_and(|home| parent != home.join(".local")) {
        let parts = TOOLCHAIN_PARTS.iter().map(|name| parent.join(name));
        roots.extend(parts.filter(|path| path.exists() && path != entry));
    }
    roots
}

/// The credential files of a toolchain or cache.
pub(crate) fn credentials(folder: &Path) -> Vec<PathBuf> {
    let is_environments =
        folder.file_name().is_some_and(|name| ENVIRONMENTS.iter().any(|known| name == *known));
    let inner = entries(folder).filter(|_| is_environments);
    let mut found = Vec::new();
    for folder in inner.chain([folder.to_owned()]) {
        let all = CREDENTIALS.iter().map(|name| folder.join(name));
        found.extend(all.filter(|path| path.is_file()));
        let settings = SETTINGS.iter().map(|name| folder.join(name));
        found.extend(settings.filter(|path| path.is_file() && is_secret(path)));
    }
    found
}

/// Whether a file of settings holds a credential, or cannot be read.
fn is_secret(path: &Path) -> bool {
    std::fs::read(path).map_or(true, |bytes| has_secret(&String::from_utf8_lossy(&bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_root_of_a_path_entry_is_never_the_home_folder() {
        let folder = tempfile::tempdir().unwrap();
        let home = folder.path();
        let make = |name: &str| {
            std::fs::create_dir_all(home.join(name)).unwrap();
            home.join(name)
        };
        let roots = |entry: PathBuf| roots_of(&entry, Some(home));
        let node = make(".node/v20/bin");
        let library = make(".node/v20/lib");
        make(".node/v20/private");
        assert_eq!(roots(node.clone()), [node, library]);
        assert_eq!(roots(make("bin")), [home.join("bin")]);
        make(".local/share");
        assert_eq!(roots(make(".local/bin")), [home.join(".local/bin")]);
        make("work/project");
        assert_eq!(roots(make("work/bin")), [home.join("work/bin")]);
        make("go1/pkg/tool");
        assert_eq!(roots(make("go1/bin")), [home.join("go1")]);
        assert_eq!(roots_of(&make("x/bin"), None), [home.join("x")]);
        for none in
            [home.to_owned(), "/usr/bin".into(), "relative".into(), home.join("missing/bin")]
        {
            assert!(roots(none.clone()).is_empty(), "{none:?}");
        }
    }

    #[test]
    fn of_toolchains_only_what_programs_need_is_shown() {
        let folder = tempfile::tempdir().unwrap();
        for name in [
            "versions/node/v20/bin/node",
            "versions/node/v20/etc/npmrc",
            "versions/node/v20/lib/x",
            "alias/default",
            "nvm.sh",
            ".npmrc",
            "credentials",
        ] {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "").unwrap();
        }
        let (_, _, nvm) = TOOLCHAINS.iter().find(|(name, ..)| *name == "NVM_DIR").unwrap();
        let mut parts = parts_of(folder.path(), nvm);
        parts.sort();
        let expected = ["alias", "nvm.sh", "versions/node/v20/bin", "versions/node/v20/lib"];
        assert_eq!(parts, expected.map(|name| folder.path().join(name)));
    }

    #[test]
    fn settings_with_credentials_are_masked_and_others_are_not() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::write(at("config.toml"), "[build]\nrustc-wrapper = \"sccache\"\n").unwrap();
        assert!(credentials(folder.path()).is_empty());
        std::fs::write(at("config.toml"), "[registries.x]\ntoken = \"t\"\n").unwrap();
        assert_eq!(credentials(folder.path()), [at("config.toml")]);
    }
}
