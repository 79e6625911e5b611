//! Commands in real cells: what of the machine and of a repository they are shown.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::json;
use tempfile::TempDir;
use windlass_cell::{CellLimits, Layout, Level};
use windlass_connect::{
    Access, Certainty, Confinement, Connect as _, Connectors, Job, Reply, Sandbox, SandboxSettings,
    Target,
};
use windlass_kernel::{Code, HostRule};

use crate::common;

/// A home folder, a repository and the state of Windlass.
struct World {
    /// Not below `/tmp`, or commands of a run would not share theirs.
    base: TempDir,
    variables: BTreeMap<String, String>,
}

impl World {
    fn new() -> Self {
        let base = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        for name in ["home", "repo", "state"] {
            std::fs::create_dir(base.path().join(name)).unwrap();
        }
        let text = |path: PathBuf| path.to_str().unwrap().to_owned();
        let variables = BTreeMap::from([
            ("HOME".to_owned(), text(base.path().join("home"))),
            ("PATH".to_owned(), std::env::var("PATH").unwrap()),
        ]);
        let world = Self { base, variables };
        world.git(&["init", "-q"]);
        world.git(&["commit", "-q", "--allow-empty", "-m", "first"]);
        world
    }

    fn at(&self, name: &str) -> PathBuf {
        self.base.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.at(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    #[track_caller]
    fn git(&self, words: &[&str]) -> String {
        let mut git = Command::new("git");
        git.current_dir(self.at("repo")).args([
            "-c",
            "user.name=a",
            "-c",
            "user.email=a@b.example",
        ]);
        let output = git.args(words).output().unwrap();
        assert!(output.status.success(), "{words:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    fn connectors(&self) -> Connectors {
        Connectors::new().with_sandbox(Sandbox::new(SandboxSettings {
            level: Level::Full,
            launcher: windlass_testkit::example_binary("cell_launcher"),
            bwrap: None,
            layout: Layout { variables: self.variables.clone(), ..Layout::default() },
            limits: CellLimits::default(),
            folder: self.at("state"),
            private_hosts: Vec::new(),
        }))
    }

    /// A command in a folder of the repository.
    fn confinement(&self, folder: &str) -> Confinement {
        Confinement::writing(&self.at(folder), "run")
    }
}

/// Runs a script and returns what it printed, errors included.
#[track_caller]
fn prints(connectors: &Connectors, confinement: &Confinement, script: &str) -> String {
    common::success(run(connectors, confinement, script))["stdout"].as_str().unwrap().to_owned()
}

/// Runs a script.
fn run(connectors: &Connectors, confinement: &Confinement, script: &str) -> Reply {
    let home = confinement.workspace.ancestors().map(|above| above.join("home"));
    let home = home.into_iter().find(|home| home.is_dir()).unwrap();
    let script = format!("exec 2>&1; HOME={}\n{script}\ntrue", home.display());
    let target = Target::Command {
        argv: ["/bin/bash", "-c", &script].map(str::to_owned).to_vec(),
        stdin: None,
        env: BTreeMap::new(),
        cwd: confinement.workspace.clone(),
    };
    let args = json!({});
    let job = Job { confinement: Some(confinement), ..common::job(&target, "", &args) };
    connectors.perform(&job)
}

/// A program that says something to whoever connects to a socket.
fn listen(path: &Path) -> UnixListener {
    UnixListener::bind(path).unwrap()
}

#[test]
fn secrets_and_sockets_of_the_whole_work_tree_are_masked() {
    let world = World::new();
    for (name, text) in [
        ("repo/.env", "TOP"),
        ("repo/other/server.key", "OTHER"),
        ("repo/pkg/.env", "OWN"),
        ("repo/other/plain", "shown"),
    ] {
        world.write(name, text);
    }
    let _listener = listen(&world.at("repo/other/sock"));
    let connectors = world.connectors();
    for access in [Access::Write, Access::Read] {
        let confinement = Confinement { access, ..world.confinement("repo/pkg") };
        let script = "cat ../.env ../other/server.key .env ../other/plain; test -S ../other/sock && echo SOCKET";
        assert_eq!(prints(&connectors, &confinement, script), "shown");
    }
}

#[test]
fn secrets_in_folders_with_any_name_are_masked() {
    let world = World::new();
    let odd = world.at("repo").join(OsStr::from_bytes(b"odd\xff"));
    std::fs::create_dir(&odd).unwrap();
    std::fs::write(odd.join(".env"), "SECRET").unwrap();
    let connectors = world.connectors();
    assert_eq!(prints(&connectors, &world.confinement("repo"), "cat */.env"), "");
}

#[test]
fn a_folder_by_which_a_secret_is_known_keeps_its_name() {
    let world = World::new();
    world.write("repo/deploy/.docker/config.json", "SECRET");
    let connectors = world.connectors();
    let confinement = world.confinement("repo");
    let said =
        prints(&connectors, &confinement, "mv deploy/.docker plain; mv deploy moved; ls -A moved");
    assert!(said.contains("busy") && said.ends_with(".docker\n"), "{said}");
    assert_eq!(prints(&connectors, &confinement, "cat moved/.docker/config.json"), "");
}

/// The confinement of a command with these privileges.
fn with(world: &World, network: bool, has_secrets: bool) -> Confinement {
    let host = HostRule::parse("host.example:443").unwrap();
    let hosts = if network { vec![host] } else { Vec::new() };
    Confinement { hosts, has_secrets, ..world.confinement("repo") }
}

#[test]
fn a_cell_sees_what_cells_with_no_less_privileges_left_in_caches_and_with_no_more_secrets() {
    let world = World::new();
    world.write("home/.npm/own", "");
    let connectors = world.connectors();
    let kinds = [(false, false), (true, false), (false, true), (true, true)];
    let name = |(network, secrets): (bool, bool)| format!("{network}-{secrets}");
    for kind in kinds {
        let script = format!("mkdir -p ~/.npm/_npx; touch ~/.npm/_npx/{}", name(kind));
        prints(&connectors, &with(&world, kind.0, kind.1), &script);
    }
    for (kind, seen) in [
        ((false, false), "false-false true-false"),
        ((true, false), "true-false"),
        ((false, true), "false-true true-true"),
        ((true, true), "true-true"),
    ] {
        for is_server in [false, true] {
            let confinement = Confinement { is_server, ..with(&world, kind.0, kind.1) };
            let found = prints(&connectors, &confinement, "ls ~/.npm ~/.npm/_npx");
            let all: Vec<&str> = found.lines().filter(|line| line.contains('-')).collect();
            assert_eq!(all.join(" "), seen, "{kind:?} {found}");
        }
    }
}

#[test]
fn what_measures_shares_no_temporary_files_and_no_caches_with_what_is_measured() {
    let world = World::new();
    world.write("home/.npm/own", "mine");
    let connectors = world.connectors();
    let plain = world.confinement("repo");
    let measuring = Confinement { measures: true, ..world.confinement("repo") };
    prints(&connectors, &plain, "echo poison | tee /tmp/a ~/.npm/a");
    // A package, which a command with the network has brought.
    prints(&connectors, &with(&world, true, false), "echo package > ~/.npm/c");
    let look = "cat /tmp/* ~/.npm/*";
    assert!(prints(&connectors, &plain, look).matches("poison").count() == 2);
    for _ in 0..2 {
        let said =
            prints(&connectors, &measuring, &format!("{look}; echo x | tee /tmp/b ~/.npm/b"));
        assert!(!said.contains("poison"), "{said}");
        assert!(said.contains("mine") && said.contains("package"), "{said}");
    }
    assert!(!prints(&connectors, &plain, look).contains('x'));
}

#[test]
fn credentials_in_git_settings_and_folders_of_tools_are_not_shown() {
    let world = World::new();
    world.git(&["remote", "add", "origin", "https://me:SECRET@example.org/a.git"]);
    world.git(&["config", "http.extraHeader", "AUTHORIZATION: basic SECRET"]);
    for name in [
        "home/.local/share/uv/credentials/x",
        "home/.dotnet/corefx/cryptography/x509stores/my/x",
        "home/.nvm/versions/node/v20/etc/npmrc",
        "home/.pyenv/versions/3/pip.conf",
        "home/.cargo/config.toml",
    ] {
        world.write(name, "token = \"SECRET\"");
    }
    for name in [
        "home/.local/share/uv/python/x",
        "home/.dotnet/sdk/x",
        "home/.nvm/versions/node/v20/lib/x",
        "home/.pyenv/versions/3/lib/x",
        "home/.cargo/registry/x",
    ] {
        world.write(name, "shown");
    }
    let connectors = world.connectors();
    let script =
        "grep -rhoE 'SECRET|shown' ~ .git/config; git remote get-url origin; git log --format=%s";
    for (access, is_server) in
        [(Access::Write, false), (Access::Read, false), (Access::Write, true)]
    {
        let confinement = Confinement { access, is_server, ..world.confinement("repo") };
        let said = prints(&connectors, &confinement, script);
        let expected = format!("{}https://example.org/a.git\nfirst\n", "shown\n".repeat(5));
        assert_eq!(said, expected);
    }
}

#[test]
fn what_a_command_does_not_see_it_cannot_stage() {
    let world = World::new();
    world.write("repo/.env", "SECRET");
    world.write("repo/.gitignore", ".env\n");
    let connectors = world.connectors();
    let confinement = world.confinement("repo");
    let stage = run(&connectors, &confinement, ": > .gitignore; echo a > a; git add -A");
    let (message, _) = common::failure(stage, Code::ProtectedPathChanged, Certainty::Ran);
    assert!(message.contains(".env (staged"), "{message}");
    assert_eq!(world.git(&["ls-files"]), ".gitignore\na\n");
    let script = "git add -A && git -c user.name=a -c user.email=a@b.example commit -qm x";
    let (message, _) = common::failure(
        run(&connectors, &confinement, script),
        Code::ProtectedPathChanged,
        Certainty::Ran,
    );
    assert!(message.contains(".env (committed"), "{message}");
    // What it makes itself is its own.
    prints(&connectors, &confinement, "echo x > new.key; git add new.key");
    assert!(world.git(&["ls-files"]).contains("new.key"));
}
