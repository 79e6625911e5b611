//! A forwarded SSH agent: its socket lies where `sshd`, `ssh-agent`, desktops, tmux and editors put it, and nothing in a
//! cell may list its keys or let it sign.

use std::io::{Read as _, Write as _};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::fs::symlink;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::Value;
use windlass_testkit::{eventually, skipped};

use crate::e2e::sandbox::Lab;
use crate::harness::finish;

/// What tries them all: the paths come as words.
const PROGRAM: &str = include_str!("forwarded_agent.py");

/// A server whose one tool runs the same.
const SERVER: &str = r#"
[server.helper]
connector = "mcp-stdio"
command = ["bash", "helper.sh"]
[server.helper.tool.do]
class = "write"
"#;

const POLICY: &str = r#"
[[rule]]
id = "helper"
verdict = "allow"
reason = "a test runs what it wrote itself"
tool = "helper/*"
matches = [{ tool = "helper/do" }]
"#;

/// Places in the home folder: of programs that forward agents or are agents, and of folders that cells are shown.
const IN_HOME: [&str; 14] = [
    ".ssh/agent.sock",
    ".ssh/agent/s.AbCdEf.agent.1",
    ".ssh/S.ssh-agent",
    ".gnupg/S.gpg-agent.ssh",
    ".1password/agent.sock",
    ".bitwarden-ssh-agent.sock",
    ".cache/keyring-AbC/ssh",
    ".vscode-server/agent.sock",
    ".local/share/agent.sock",
    ".cargo/agent.sock",
    ".cargo/bin/agent.sock",
    ".npm/_cacache/agent.sock",
    ".cache/uv/agent.sock",
    "go/pkg/mod/agent.sock",
];

/// Places in the workspace.
const IN_WORKSPACE: [&str; 7] = [
    "agent.sock",
    ".vscode/agent.sock",
    "run/ssh/agent.7",
    ".ssh/agent.sock",
    "node_modules/.cache/agent.sock",
    "target/agent.sock",
    ".windlass/agent.sock",
];

/// A real agent with a key, and sockets in many places that lead to it.
struct World {
    lab: Lab,
    agent: Child,
    /// The key as `ssh-add -L` shows it.
    public: String,
    doors: Vec<String>,
    visits: Arc<AtomicUsize>,
    made: Vec<PathBuf>,
}

impl World {
    fn new(settings: &str) -> Option<Self> {
        let lab = Lab::with(settings);
        let key = lab.outside("id");
        let program = |name: &str| Command::new(name);
        let made = program("ssh-keygen")
            .args(["-q", "-t", "ed25519", "-N", "", "-C", "forwarded", "-f"])
            .arg(&key)
            .status();
        if made.is_err() || !Path::new("/usr/bin/python3").exists() {
            skipped("there is no OpenSSH or no Python");
            return None;
        }
        let socket = lab.outside("real-agent");
        let mut agent = program("ssh-agent");
        agent.arg("-D").arg("-a").arg(&socket).stdout(Stdio::null()).stderr(Stdio::null());
        let agent = agent.spawn().unwrap();
        eventually("the agent listens", || socket.exists());
        let added = program("ssh-add").arg("-q").arg(&key).env("SSH_AUTH_SOCK", &socket).status();
        assert!(added.unwrap().success());
        let public = std::fs::read_to_string(key.with_extension("pub")).unwrap();
        std::fs::remove_file(&key).unwrap();
        let public = public.split(' ').nth(1).unwrap().to_owned();
        let mut world = Self {
            lab,
            agent,
            public,
            doors: Vec::new(),
            visits: Arc::default(),
            made: Vec::new(),
        };
        world.open_doors(&socket);
        Some(world)
    }

    fn open_doors(&mut self, agent: &Path) {
        let (home, work) = (self.lab.place.home(), self.lab.place.work());
        let mark = format!("windlass-{}", std::process::id());
        let mut paths: Vec<PathBuf> = IN_HOME.iter().map(|name| home.join(name)).collect();
        paths.extend(IN_WORKSPACE.iter().map(|name| work.join(name)));
        // Where the whole machine has them; what cannot be made there is left out.
        let everywhere = [
            format!("/tmp/ssh-{mark}/agent.4711"),
            format!("/tmp/vscode-ssh-auth-{mark}.sock"),
            format!("/var/tmp/{mark}/agent.sock"),
            format!("/dev/shm/{mark}/agent.sock"),
        ];
        paths.extend(everywhere.map(PathBuf::from));
        let user = rustix::process::getuid().as_raw();
        let runtime = [format!("/run/user/{user}"), "/run".to_owned()];
        if let Some(runtime) = runtime.iter().find(|path| Path::new(path).is_dir()) {
            for name in ["keyring/ssh", "gcr/ssh", "openssh_agent", "vscode-ssh-auth-sock-1"] {
                paths.push(Path::new(runtime).join(&mark).join(name));
            }
        }
        for path in paths {
            let folder = path.parent().unwrap();
            if std::fs::create_dir_all(folder).is_err() {
                continue;
            }
            if let Ok(listener) = UnixListener::bind(&path) {
                self.lead(listener, agent);
                self.doors.push(path.display().to_string());
                if !path.starts_with(self.lab.place.base()) {
                    self.made.push(path);
                }
            }
        }
        let name = format!("{mark}-agent");
        let address = SocketAddr::from_abstract_name(&name).unwrap();
        self.lead(UnixListener::bind_addr(&address).unwrap(), agent);
        self.doors.push(format!("@{name}"));
        // tmux users keep a link to the newest one; so does an attacker in the workspace.
        for link in [home.join(".ssh/ssh_auth_sock"), work.join("link.sock")] {
            symlink(format!("/tmp/ssh-{mark}/agent.4711"), &link).unwrap();
            self.doors.push(link.display().to_string());
        }
        assert!(self.doors.len() > 25, "{:?}", self.doors);
    }

    /// Passes what comes on to the agent, and counts who comes.
    fn lead(&self, listener: UnixListener, agent: &Path) {
        let (visits, agent) = (Arc::clone(&self.visits), agent.to_owned());
        std::thread::spawn(move || {
            for visitor in listener.incoming().flatten() {
                visits.fetch_add(1, Ordering::Relaxed);
                let Ok(agent) = UnixStream::connect(&agent) else { continue };
                let (mut from, mut to) = (visitor.try_clone().unwrap(), agent.try_clone().unwrap());
                std::thread::spawn(move || drop(std::io::copy(&mut from, &mut to)));
                std::thread::spawn(move || {
                    let (mut from, mut to) = (agent, visitor);
                    let mut part = [0; 4096];
                    while let Ok(count @ 1..) = from.read(&mut part) {
                        if to.write_all(&part[..count]).is_err() {
                            break;
                        }
                    }
                });
            }
        });
    }

    fn script(&self, tool: &str) -> String {
        let doors = self.doors.iter().map(|door| format!(" '{door}'")).collect::<String>();
        // Without a cell it keeps to the sockets of this test.
        let only = if tool == "lab/free" { "ONLY_THESE=1 " } else { "" };
        format!(
            "{only}/usr/bin/python3 - '{}'{doors} <<'END_OF_PROGRAM'\n{PROGRAM}\nEND_OF_PROGRAM\n",
            self.public
        )
    }

    /// Makes all attempts by a tool; `variable` is the agent that the user's own shell has.
    fn attempt(&self, tool: &str, variable: &str) -> Value {
        self.lab.place.write("lab.sh", self.script(tool));
        let words = ["call", "run", tool, "--new-key", "--json"];
        let mut command = self.lab.place.command(&words);
        self.lab.equip(&mut command);
        command.env("SSH_AUTH_SOCK", variable).env("SSH_AGENT_PID", self.agent.id().to_string());
        finish(command, &[]).json()
    }

    /// Requires that every attempt was made and none had success.
    #[track_caller]
    fn holds(&self, tool: &str, variable: &str) {
        let before = self.visits.load(Ordering::Relaxed);
        let report = self.attempt(tool, variable).to_string();
        let made = report.split("attempts: ").nth(1).unwrap_or_else(|| panic!("{report}"));
        let made: String = made.chars().take_while(char::is_ascii_digit).collect();
        assert!(made.parse::<usize>().unwrap() >= 50, "{report}");
        assert!(!report.contains("breach"), "{tool}: {report}");
        assert!(!report.contains(&self.public), "{tool}: {report}");
        assert_eq!(self.visits.load(Ordering::Relaxed), before, "{tool}: somebody came: {report}");
    }
}

impl Drop for World {
    fn drop(&mut self) {
        drop(self.agent.kill());
        drop(self.agent.wait());
        for path in &self.made {
            drop(std::fs::remove_file(path));
            for folder in path.ancestors().skip(1).take(2) {
                // Only what is empty goes.
                drop(std::fs::remove_dir(folder));
            }
        }
    }
}

#[test]
fn no_cell_reaches_a_forwarded_agent() {
    let Some(world) = World::new("") else { return };
    // Where nothing confines it, the same finds it.
    let report = world.attempt("lab/free", &world.doors[0]).to_string();
    let found = report.matches("breach").count();
    assert!(found >= 50, "{found}: {report}");
    for tool in ["lab/confined", "lab/reading", "lab/network"] {
        world.holds(tool, &world.doors[0]);
    }
    // The variable names one in the workspace, in a cache, and the abstract one.
    for ending in ["work/agent.sock", ".cargo/agent.sock", "-agent"] {
        let variable = world.doors.iter().find(|door| door.ends_with(ending)).unwrap();
        world.holds("lab/confined", variable);
    }
}

#[test]
fn no_tool_server_reaches_a_forwarded_agent() {
    let Some(world) = World::new("") else { return };
    world.lab.place.append(".windlass/tools.toml", SERVER);
    world.lab.place.write(".windlass/policy/helper.toml", POLICY);
    world.lab.place.write("helper.sh", crate::e2e::server_sandbox::SERVER);
    world.holds("helper/do", &world.doors[0]);
}

#[test]
fn the_weaker_level_reaches_no_forwarded_agent() {
    let Some(world) = World::new("[sandbox]\nlevel = \"landlock\"\n") else { return };
    world.holds("lab/confined", &world.doors[0]);
}
