//! A repository whose git directory is an overlay while a script runs.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;
use windlass_workspace::{Baseline, TakeOverError, TakenOver, take_over};

pub struct Cell {
    folder: TempDir,
    /// Below the folder.
    workspace: &'static str,
    /// The git directory, below the folder.
    common: &'static str,
}

/// What a person sees of a repository.
pub type View = BTreeMap<&'static str, String>;

impl Cell {
    /// A repository with three branches, a tag, packed and loose refs, and a file of ours among the refs.
    pub fn new(format: &str) -> Self {
        let cell = Self { folder: TempDir::new().unwrap(), workspace: "repo", common: "repo/.git" };
        fs::create_dir(cell.root().join("repo")).unwrap();
        fs::create_dir(cell.upper()).unwrap();
        fs::create_dir(cell.root().join("work")).unwrap();
        cell.outside(&format!(
            "git init -q -b main --object-format={format} &&
             printf '1\\n2\\n3\\n' > a && echo b > b && git add -A && git commit -q -m one &&
             git branch old && git branch packed && git tag v1 &&
             git update-ref refs/windlass/run/pre HEAD^{{tree}} && git pack-refs --all &&
             git switch -q -c side && echo side > side && git add -A && git commit -q -m side &&
             git switch -q main && echo 4 >> a && git commit -q -a -m two"
        ));
        cell
    }

    /// A repository whose workspace is a linked work tree.
    pub fn linked() -> Self {
        let mut cell = Self::new("sha1");
        cell.outside("git worktree add -q ../linked -b linked");
        cell.workspace = "linked";
        cell
    }

    /// A repository whose workspace is a submodule.
    pub fn submodule() -> Self {
        let mut cell = Self::new("sha1");
        cell.outside(
            "git init -q -b main ../sub && git -C ../sub commit -q --allow-empty -m s && \
             git submodule add -q ../sub sub && git commit -q -m sub",
        );
        (cell.workspace, cell.common) = ("repo/sub", "repo/.git/modules/sub");
        cell
    }

    pub fn root(&self) -> PathBuf {
        self.folder.path().canonicalize().unwrap()
    }

    pub fn workspace(&self) -> PathBuf {
        self.root().join(self.workspace)
    }

    pub fn common(&self) -> PathBuf {
        self.root().join(self.common)
    }

    pub fn upper(&self) -> PathBuf {
        self.root().join("upper")
    }

    pub fn baseline(&self) -> Baseline {
        let base = Baseline::read(&self.common(), &self.workspace()).unwrap();
        base.show_in(&self.upper()).unwrap();
        base
    }

    /// Runs a script in the workspace as the user would.
    #[track_caller]
    pub fn outside(&self, script: &str) -> String {
        succeed(script, &command(&self.workspace(), script).output().unwrap())
    }

    /// Runs a script in the workspace, with an overlay over the git directory.
    #[track_caller]
    pub fn inside(&self, script: &str) -> String {
        let mount = format!(
            "mount -t overlay overlay -o userxattr,lowerdir='{common}',upperdir='{upper}',\
             workdir='{work}' '{common}' || exit 99\ncd . && {{ {script}\n}}",
            common = self.common().display(),
            upper = self.upper().display(),
            work = self.root().join("work").display(),
        );
        let mut unshare = command(&self.workspace(), "");
        let mut with = Command::new("unshare");
        with.args(["-Urm", "sh", "-e", "-c", &mount]).current_dir(self.workspace());
        for (name, value) in unshare.env("X", "").get_envs() {
            with.env(name, value.unwrap_or_default());
        }
        succeed(script, &with.output().unwrap())
    }

    pub fn take_over(&self, base: &Baseline) -> Result<TakenOver, TakeOverError> {
        take_over(&self.common(), &self.upper(), &self.workspace(), base)
    }

    /// Runs a script in the overlay and takes over what it did.
    #[track_caller]
    pub fn run(&self, script: &str) -> TakenOver {
        let base = self.baseline();
        self.inside(script);
        let taken = self.take_over(&base).unwrap();
        self.clear();
        taken
    }

    /// Empties the upper folder, for the next command.
    pub fn clear(&self) {
        for folder in ["upper", "work"] {
            let folder = self.root().join(folder);
            let remove = format!("chmod -R u+rwx '{0}'; rm -rf '{0}'", folder.display());
            assert!(Command::new("sh").args(["-c", &remove]).status().unwrap().success());
            fs::create_dir(&folder).unwrap();
        }
    }

    /// Every file of the real git directory.
    pub fn files(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let mut files = BTreeMap::new();
        walk(&self.common(), &mut files);
        files
    }

    /// What a person sees, without the paths of this test.
    #[track_caller]
    pub fn view(&self) -> View {
        let root = self.root();
        let commands = [
            ("status", "git status --porcelain=v2 --branch"),
            ("full status", "git status"),
            ("log", "git log --all --graph --decorate=full --format='%H %d %s'"),
            ("refs", "git for-each-ref; git symbolic-ref -q HEAD || git rev-parse HEAD"),
            ("stash", "git stash list; git stash show -p 2>&1 || true"),
            ("reflog", "git reflog --all --format='%gd %H %gs'"),
            ("worktrees", "git worktree list --porcelain"),
            ("index", "git ls-files -s; git diff; git diff --cached"),
            ("submodules", "git submodule status"),
        ];
        let mut view = View::new();
        for (name, script) in commands {
            let text = self.outside(script).replace(root.to_str().unwrap(), "ROOT");
            view.insert(name, text);
        }
        self.outside("git fsck --strict --no-dangling 2>&1");
        view
    }
}

fn walk(folder: &Path, files: &mut BTreeMap<PathBuf, Vec<u8>>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            walk(&path, files);
        } else {
            files.insert(path.clone(), fs::read(path).unwrap());
        }
    }
}

fn command(folder: &Path, script: &str) -> Command {
    let mut command = Command::new("sh");
    command.args(["-e", "-c", script]).current_dir(folder);
    for (name, value) in [
        ("GIT_CONFIG_GLOBAL", "/dev/null"),
        ("GIT_CONFIG_NOSYSTEM", "1"),
        ("GIT_CONFIG_COUNT", "3"),
        ("GIT_CONFIG_KEY_0", "protocol.file.allow"),
        ("GIT_CONFIG_VALUE_0", "always"),
        // The dates of these tests are old.
        ("GIT_CONFIG_KEY_1", "gc.reflogExpire"),
        ("GIT_CONFIG_VALUE_1", "never"),
        ("GIT_CONFIG_KEY_2", "gc.reflogExpireUnreachable"),
        ("GIT_CONFIG_VALUE_2", "never"),
        ("GIT_AUTHOR_NAME", "a"),
        ("GIT_AUTHOR_EMAIL", "a@a"),
        ("GIT_AUTHOR_DATE", "@1700000000 +0000"),
        ("GIT_COMMITTER_NAME", "c"),
        ("GIT_COMMITTER_EMAIL", "c@c"),
        ("GIT_COMMITTER_DATE", "@1700000000 +0000"),
        ("GIT_EDITOR", "true"),
        ("LC_ALL", "C"),
    ] {
        command.env(name, value);
    }
    command
}

#[track_caller]
fn succeed(script: &str, output: &Output) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(
        output.status.success(),
        "{script}: {}\n{}\n{}",
        output.status,
        text(&output.stdout),
        text(&output.stderr)
    );
    text(&output.stdout)
}
