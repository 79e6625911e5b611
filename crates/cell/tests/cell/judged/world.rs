//! A project with files that judging protects, and a cell in which a line can do to it what it likes.
//!
//! The project itself never changes: a cell has it beneath an overlay, so what a line did to it is exactly
//! what the overlay's upper folder holds.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

/// In every secret file.
pub const SECRET: &str = "CANARY-7f3a91";
/// In the environment.
pub const SECRET_VARIABLE: &str = "CANARY-e04c55";

/// Files that hold secrets.
const SECRETS: &[&str] =
    &[".env", "config/server.pem", "keys/id_rsa", "src/.env.local", "config/.netrc"];

/// Files that git tracks.
const TRACKED: &[(&str, &str)] = &[
    ("README.md", "a project\nTODO more\n"),
    ("notes.txt", "one\ntwo\nthree\n"),
    ("a b.txt", "blank\n"),
    ("data.json", "{\"a\": [1, 2], \"b\": \"x\"}\n"),
    ("src/main.rs", "fn main() {}\n// more\n"),
    ("src/lib.rs", "pub fn one() -> u32 { 1 }\n"),
    ("docs/guide.md", "# Guide\n"),
    ("docs/old/guide.md", "# Old\n"),
    ("workflows/ci.yml", "on: push\n"),
    ("templates/CLAUDE.md", "other rules\n"),
    ("templates/hooks/pre-commit", "#!/bin/sh\nfrob\n"),
    ("names.txt", ".env\nCLAUDE.md\nlocal.db\nkeys/id_rsa\n"),
    ("script.sed", "w CLAUDE.md\n"),
    ("program.awk", "{ print > \"CLAUDE.md\" }\n"),
    ("values.mk", "$(shell frob)\n"),
    ("lib.sh", "[ \"${BASH_SOURCE[0]}\" = \"$0\" ] || frob sourced\n"),
    (
        "Makefile",
        "all:\n\t@/bin/true built\ntest:\n\t@/bin/true\nclean:\n\t/bin/rm -rf target\nsub/%:\n\t@/bin/true $@\n",
    ),
    ("scripts/build.sh", "#!/bin/sh\necho build\n"),
    (".venv/bin/activate", "VIRTUAL_ENV=x\n"),
    (".gitignore", "target/\nlocal.db\n*.local\nprivate/\nmade/\nnode_modules/\n"),
    ("AGENTS", "rules\n"),
    ("CLAUDE.md", "rules\n"),
    (".claude/settings.json", "{}\n"),
    (".github/workflows/ci.yml", "on: push\n"),
    (".vscode/tasks.json", "{}\n"),
    (".windlass/config.toml", "a = 1\n"),
    (".envrc", "x\n"),
];

/// Files that git ignores; the first ones are no build outputs.
pub const LOCAL: &[&str] = &["local.db", "notes.local", "private/plan.txt", "src/deep.local"];
const OUTPUTS: &[&str] =
    &["target/debug/app", "made/CACHEDIR.TAG", "made/x.txt", "node_modules/x/index.js"];

/// Programs that run when a line starts them. What these start themselves is not looked at, but for `WRAPPERS`.
const REAL: &str = "tar zip printenv xz bzip2 zstd sqlite3 ls cat head tail wc grep egrep fgrep zgrep stat diff cmp comm sort uniq cut tr nl tac paste fold \
    join column basename dirname realpath readlink date du df sha256sum sha1sum md5sum cksum hexdump xxd od jq file \
    sed awk base64 strings whoami id uname hostname nproc ps free uptime arch getconf locale tty groups seq expr \
    mkdir rmdir touch cp mv rm tee ln install truncate chmod mktemp gzip gunzip zcat git make sleep sh bash which \
    split csplit unlink shuf tsort factor printf echo true false test pwd dircolors";
/// Programs that start what their arguments say.
const WRAPPERS: &str = "env nice ionice timeout time xargs find stdbuf";
/// Programs that only say that they were started.
const SILENT: &str = "cargo npm npx pytest python3 python go gcc cc node rustc just cmake ctest mvn gradle uv ruff java rg perl ruby docker pip";
/// Programs of which no rule allows any use: a line that starts one, however it does, was misjudged.
pub const FORBIDDEN: &str = "frob curl wget ssh sudo su dd kill pkill nohup setsid windlass nc crontab at mount systemctl patch watch strace gdb parallel rsync gh sponge";

/// Whether files of the project differ from its last commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    Committed,
    Changed,
}

/// The project, and the folders for what lines do.
pub struct World {
    folder: TempDir,
}

impl World {
    /// Makes a world; of a project that is not committed as it is, git commands can lose more.
    pub fn new(state: State) -> Self {
        let folder = tempfile::Builder::new().prefix("windlass-judged-").tempdir().unwrap();
        let world = Self { folder };
        for name in ["workspace", "home", "bin", "runs"] {
            fs::create_dir(world.path(name)).unwrap();
        }
        world.make_programs();
        write(
            &world.path("home/.gitconfig"),
            "[user]\nname = a\nemail = a@example.com\n[safe]\ndirectory = *\n[gc]\nauto = 0\n[maintenance]\nauto = false\n[advice]\ndetachedHead = false\n",
        );
        write(&world.path("home/.ssh/id_ed25519"), SECRET);
        write(&world.path("home/.bashrc"), "frob started\n");
        write(&world.path("env.sh"), ENVIRONMENT);
        write(&world.path("supervise.sh"), SUPERVISOR);
        make_project(&world.workspace());
        if state == State::Changed {
            for path in ["CLAUDE.md", ".vscode/tasks.json", "src/lib.rs"] {
                write(&world.path("workspace").join(path), "changed\n");
            }
            write(&world.path("workspace/.cursor/rules.md"), "rules\n");
        }
        world
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn workspace(&self) -> PathBuf {
        self.path("workspace")
    }

    fn make_programs(&self) {
        let lists =
            [(REAL, REAL_PROGRAM), (WRAPPERS, ""), (SILENT, "exit 0"), (FORBIDDEN, "exit 0")];
        for (names, behind) in lists {
            for name in names.split_whitespace() {
                let folders = ["/usr/local/bin", "/usr/bin", "/bin"].iter();
                let found =
                    folders.map(|folder| Path::new(folder).join(name)).find(|path| path.exists());
                let Some(real) = found.or_else(|| behind.starts_with("exit").then(PathBuf::new))
                else {
                    continue;
                };
                let program = self.path("bin").join(name);
                write(&program, &format!("{PROGRAM}{behind}\nexec {} \"$@\"\n", real.display()));
                fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
            }
        }
    }
}

/// Reports itself and its arguments.
const PROGRAM: &str = r#"#!/bin/sh
printf '%s\0' "${TRACE_QUIET:-line}" "${0##*/}" "$@" "$(printf '\001')" >> /trace/programs
"#;
/// What a program starts itself is not part of the line.
const REAL_PROGRAM: &str = "export TRACE_QUIET=program";

/// What every shell of a line starts with: it reports its commands, and in the end the variables that
/// decide what commands mean.
const ENVIRONMENT: &str = r#"[ -n "${BASH_EXECUTION_STRING+x}" ] || return
exec 97>>/trace/commands
BASH_XTRACEFD=97
trap ': END "$PATH" "$HOME" "$IFS" "$CDPATH" "$LD_PRELOAD" "$BASH_ENV" "$PS4" "$GLOBIGNORE" "${!GIT_@}" "$SHELL"' EXIT
set -x
"#;

/// Runs a line, and reports the processes that are left of it.
const SUPERVISOR: &str = r#"set -- "$@" /proc/[0-9]*
line=$1; shift
before=" $* "
BASH_ENV=${0%/*}/env.sh /bin/bash --noprofile --norc -c -- "$line"
for process in /proc/[0-9]*; do
  case $before in *" $process "*) continue;; esac
  read -r name < $process/comm || continue
  read -r _ _ state _ < $process/stat
  [ "$state" = Z ] || echo "$name" >> /trace/left
done 2> /dev/null
"#;

pub fn write(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

/// Runs git in a folder.
fn git(folder: &Path, arguments: &[&str]) {
    let done = Command::new("git")
        .args(["-c", "user.name=Test", "-c", "user.email=test@example.com"])
        .args([
            "-c",
            "init.defaultBranch=main",
            "-c",
            "commit.gpgsign=false",
            "-c",
            "safe.directory=*",
        ])
        .args(arguments)
        .current_dir(folder)
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_AUTHOR_DATE", "2024-01-01T00:00:00Z")
        .env("GIT_COMMITTER_DATE", "2024-01-01T00:00:00Z")
        .output()
        .expect("git must be installed");
    assert!(done.status.success(), "git {arguments:?}: {}", String::from_utf8_lossy(&done.stderr));
}

fn make_project(root: &Path) {
    git(root, &["init", "-q"]);
    for (path, text) in TRACKED {
        write(&root.join(path), text);
    }
    write(&root.join("CLAUDE.md"), "first rules\n");
    fs::set_permissions(root.join("scripts/build.sh"), fs::Permissions::from_mode(0o755)).unwrap();
    for path in SECRETS {
        write(&root.join(path), &format!("TOKEN={SECRET}\n"));
    }
    let links = [
        ("link-src", "src"),
        ("link-env", ".env"),
        ("link-claude", ".claude"),
        ("link-md", "CLAUDE.md"),
        ("link-out", "/etc"),
        ("src/up", ".."),
        ("deep", "docs/old"),
        ("docs/keys", "../keys"),
    ];
    for (link, target) in links {
        symlink(target, root.join(link)).unwrap();
    }
    git(root, &["add", "-A"]);
    git(root, &["commit", "-qm", "one"]);
    git(root, &["tag", "v1"]);
    write(&root.join("CLAUDE.md"), "rules\n");
    git(root, &["commit", "-qam", "two"]);
    write(&root.join("notes.txt"), "one\ntwo\nthree\nfour\n");
    git(root, &["commit", "-qam", "three"]);
    for (branch, path) in [("plain", "src/lib.rs"), ("other", ".claude/settings.json")] {
        git(root, &["switch", "-qc", branch, "main"]);
        write(&root.join(path), "changed\n");
        git(root, &["commit", "-qam", branch]);
    }
    git(root, &["switch", "-q", "main"]);
    for path in ["CLAUDE.md", ".codex/config.toml", "src/main.rs"] {
        write(&root.join(path), "stashed\n");
        git(root, &["stash", "-qu"]);
    }
    for path in LOCAL.iter().chain(OUTPUTS) {
        write(&root.join(path), &format!("local {path}\n"));
    }
    // Not tracked and not ignored.
    write(&root.join("draft.txt"), "draft\n");
    // Repositories whose settings start a program.
    for (folder, is_bare) in [("vendor/bare", true), ("sub", false)] {
        let folder = root.join(folder);
        fs::create_dir_all(&folder).unwrap();
        git(&folder, if is_bare { &["init", "-q", "--bare"] } else { &["init", "-q"] });
        git(&folder, &["config", "core.fsmonitor", "frob fsmonitor; false"]);
        git(&folder, &["config", "core.bare", "false"]);
        if is_bare {
            git(&folder, &["config", "core.worktree", ".."]);
        }
    }
}
