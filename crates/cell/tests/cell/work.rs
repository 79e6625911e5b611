//! Real work in a cell, without a network: toolchains and caches are those of the tests' user.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use tempfile::TempDir;
use windlass_cell::{
    Access, Cell, CellLimits, Confined, Ending, Excess, Layout, Level, Limits, Maker, Network,
    OnSignal, Program, WorkspaceView, find_git,
};

/// A project that is worked on.
struct Project {
    folder: TempDir,
    cell: Cell,
}

/// Fails, with a clear message, where a tool of these tests is missing.
fn needs(tool: &str) {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let is_there = std::env::split_paths(&path).any(|entry| entry.join(tool).is_file());
    assert!(is_there, "`{tool}` must be installed for this test");
}

fn git(folder: &Path, arguments: &[&str]) {
    let done = Command::new("git")
        .args(["-c", "user.name=Test", "-c", "user.email=test@example.com"])
        .args(["-c", "protocol.file.allow=always", "-c", "init.defaultBranch=main"])
        .args(arguments)
        .current_dir(folder)
        .output()
        .expect("`git` must be installed for this test");
    assert!(done.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&done.stderr));
}

impl Project {
    /// A repository with these files, committed.
    fn new(files: &[(&str, &str)]) -> Self {
        let folder = TempDir::new().unwrap();
        for name in ["workspace", "upper", "work", "caches"] {
            fs::create_dir(folder.path().join(name)).unwrap();
        }
        let workspace = folder.path().join("workspace");
        for (name, text) in files {
            let path = workspace.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        git(&workspace, &["init", "-q"]);
        git(&workspace, &["add", "."]);
        git(&workspace, &["commit", "-q", "--allow-empty", "-m", "first"]);
        let mut project = Self {
            folder,
            cell: Cell {
                level: Level::Full,
                maker: Maker::Own,
                mounts: Vec::new(),
                network: Network::Closed,
                limits: CellLimits::default(),
            },
        };
        project.lay_out();
        project
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Lays the cell out as in production.
    fn lay_out(&mut self) {
        let variables: BTreeMap<String, String> = std::env::vars().collect();
        let layout =
            Layout { variables, cache_changes: Some(self.path("caches")), ..Layout::default() };
        let (workspace, upper, work) =
            (self.path("workspace"), self.path("upper"), self.path("work"));
        let git = find_git(&workspace).unwrap();
        let view = WorkspaceView {
            folder: &workspace,
            access: Access::Write,
            git: git.as_ref(),
            git_changes: Some((&upper, &work)),
            fixed: &BTreeSet::new(),
            hidden: &[],
        };
        self.cell.mounts = layout.mounts();
        self.cell.mounts.extend(view.mounts());
    }

    /// Runs a line that must succeed, and returns what it printed.
    fn run(&self, line: &str) -> String {
        let (name, email) = (OsStr::new("Test"), OsStr::new("test@example.com"));
        let env = ["GIT_AUTHOR", "GIT_COMMITTER"]
            .map(|who| (format!("{who}_NAME"), format!("{who}_EMAIL")));
        let mut variables: Vec<(&OsStr, &OsStr)> =
            vec![("CARGO_NET_OFFLINE".as_ref(), "true".as_ref())];
        for (as_name, as_email) in &env {
            variables.extend([(as_name.as_ref(), name), (as_email.as_ref(), email)]);
        }
        let done = windlass_cell::run(&Program {
            argv: ["/bin/sh", "-ec", line].map(OsStr::new).to_vec(),
            stdin: None,
            env: variables,
            cwd: &self.path("workspace"),
            limits: Limits { timeout: Duration::from_secs(240), output_bytes_max: 1 << 20 },
            confined: Some(Confined {
                launcher: Path::new(env!("CARGO_BIN_EXE_cell-launcher")),
                cell: &self.cell,
            }),
            excess: Excess::End,
            on_signal: OnSignal::Continue,
        })
        .unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let (stdout, stderr) = (text(&done.stdout), text(&done.stderr));
        let code = done.status.and_then(|status| status.code());
        assert_eq!((done.ending, code), (Ending::Exited, Some(0)), "{line}\n{stdout}\n{stderr}");
        stdout + &stderr
    }
}

#[test]
fn a_rust_project_is_built_and_tested() {
    needs("cargo");
    let project = Project::new(&[
        (
            "Cargo.toml",
            "[package]\nname = \"tiny\"\nversion = \"0.1.0\"\nedition = \"2021\"\n\n[dependencies]\ntwo = { path = \"vendor/two\" }\n\n[workspace]\n",
        ),
        (
            "src/lib.rs",
            "pub fn four() -> u32 { two::two() * 2 }\n\n#[test]\nfn is_four() { assert_eq!(four(), 4); }\n",
        ),
        ("src/main.rs", "fn main() { println!(\"four is {}\", tiny::four()); }\n"),
        (
            "vendor/two/Cargo.toml",
            "[package]\nname = \"two\"\nversion = \"0.1.0\"\nedition = \"2021\"\n",
        ),
        ("vendor/two/src/lib.rs", "pub fn two() -> u32 { 2 }\n"),
        (".gitignore", "target\n"),
    ]);
    let text =
        project.run("cargo build --offline && cargo test --offline && cargo run -q --offline");
    assert!(text.contains("test is_four ... ok") && text.contains("four is 4"), "{text}");
    // What the build changes in the caches stays with the project.
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home =
        home.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cargo"))).unwrap();
    project.run(&format!("touch {}/from-the-cell", home.display()));
    assert!(!home.join("from-the-cell").exists());
}

#[test]
fn a_node_project_is_tested() {
    needs("node");
    let project = Project::new(&[
        ("package.json", "{ \"name\": \"tiny\", \"type\": \"module\", \"scripts\": { \"test\": \"node --test\" } }\n"),
        ("sum.js", "export const sum = (a, b) => a + b;\n"),
        (
            "sum.test.js",
            "import test from 'node:test';\nimport assert from 'node:assert';\nimport http from 'node:http';\nimport { Worker } from 'node:worker_threads';\nimport { sum } from './sum.js';\n
test('sums', () => assert.equal(sum(1, 2), 3));
test('serves on loopback', async () => {
  const server = http.createServer((_, reply) => reply.end('hi')).listen(0, '127.0.0.1');
  await new Promise((done) => server.once('listening', done));
  const reply = await fetch(`http://127.0.0.1:${server.address().port}/`);
  assert.equal(await reply.text(), 'hi');
  server.close();
});
test('has threads', async () => {
  const worker = new Worker(\"require('node:worker_threads').parentPort.postMessage(7)\", { eval: true });
  assert.equal(await new Promise((done) => worker.once('message', done)), 7);
});
",
        ),
    ]);
    let text = project.run("node --test");
    assert!(text.contains("pass 3") && text.contains("fail 0"), "{text}");
}

#[test]
fn a_python_project_is_tested() {
    needs("python3");
    let project = Project::new(&[
        ("tiny/__init__.py", "def square(n):\n    return n * n\n"),
        (
            "tests/test_tiny.py",
            "import multiprocessing\nimport sqlite3\nimport tempfile\nimport unittest\n\nfrom tiny import square\n\n
class Tiny(unittest.TestCase):
    def test_square(self):
        self.assertEqual(square(3), 9)

    def test_processes(self):
        with multiprocessing.Pool(2) as pool:
            self.assertEqual(pool.map(square, range(4)), [0, 1, 4, 9])
        queue = multiprocessing.Queue()
        process = multiprocessing.Process(target=queue.put, args=(5,))
        process.start()
        self.assertEqual(queue.get(), 5)
        process.join()

    def test_files(self):
        with tempfile.TemporaryDirectory() as folder:
            connection = sqlite3.connect(folder + '/x.db')
            connection.execute('create table t (a)')
            connection.close()
",
        ),
        ("tests/__init__.py", ""),
    ]);
    let line = "python3 -m venv --without-pip .venv && .venv/bin/python -m unittest -v";
    let text = project.run(line);
    assert!(text.contains("Ran 3 tests") && text.contains("OK"), "{text}");
}

#[test]
fn a_c_project_is_built_and_tested() {
    needs("make");
    needs("gcc");
    let project = Project::new(&[
        (
            "Makefile",
            "CFLAGS = -O1 -Wall -Werror\nall: tiny\ntiny: main.o sum.o\n\t$(CC) -o $@ $^\ncheck: tiny\n\t./tiny | grep -x 'sum is 5'\n.PHONY: all check\n",
        ),
        (
            "main.c",
            "#include <stdio.h>\nint sum(int, int);\nint main(void) { printf(\"sum is %d\\n\", sum(2, 3)); return 0; }\n",
        ),
        ("sum.c", "int sum(int a, int b) { return a + b; }\n"),
    ]);
    let text = project.run("make -j2 CC=gcc && make check");
    assert!(text.contains("sum is 5"), "{text}");
}

#[test]
fn git_works() {
    needs("git");
    let mut project = Project::new(&[("a", "1\n"), ("b", "1\n")]);
    let workspace = project.path("workspace");
    let library = project.path("library");
    fs::create_dir(&library).unwrap();
    git(&library, &["init", "-q"]);
    git(&library, &["commit", "-q", "--allow-empty", "-m", "library"]);
    git(&workspace, &["submodule", "--quiet", "add", library.to_str().unwrap(), "library"]);
    git(&workspace, &["commit", "-qm", "submodule"]);
    project.lay_out();
    let before = Command::new("git").args(["rev-parse", "HEAD"]).current_dir(&workspace).output();
    project.run("echo 2 > a; git add a; git commit -qm 'two'; git log --oneline | grep two");
    project.run(
        "git switch -qc side; echo s > side; git add side; git commit -qm side; git switch -q main",
    );
    project
        .run("echo 3 > b; git stash -q; git diff --quiet; git stash pop -q; git commit -qam three");
    project.run("git switch -q side; git rebase -q main; git log --oneline | grep three; git switch -q main");
    project.run(
        "git merge -q --no-ff -m merged side; test -e side; git tag -a v1 -m v1; git describe",
    );
    let text = project
        .run("git worktree add -q /tmp/tree side; git worktree list; git -C /tmp/tree status");
    assert!(text.contains("/tmp/tree") && text.contains("nothing to commit"), "{text}");
    let text =
        project.run("git submodule status; git -C library log --oneline; git status --porcelain");
    assert!(text.contains("library") && !text.contains(" M "), "{text}");
    project.run("git gc -q --prune=now; git fsck --full; git log --oneline | grep merged");
    // All of it is beside the repository, not in it.
    let after = Command::new("git").args(["rev-parse", "HEAD"]).current_dir(&workspace).output();
    assert_eq!(before.unwrap().stdout, after.unwrap().stdout);
}
