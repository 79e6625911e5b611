//! A machine in small: a user's home folder, Windlass's state, a project, and what must not be reached.

use std::fs;
use std::io::{self, Read as _};
use std::net::{Ipv4Addr, TcpListener, UdpSocket};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::fs::{PermissionsExt as _, lchown};
use std::os::unix::net::{SocketAddr, UnixListener};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rustix::io::FdFlags;
use tempfile::TempDir;
use windlass_cell::{Level, Maker};

/// A user without any right.
pub const NOBODY: u32 = 65534;

/// What agents try to read: it holds the canary. `H` is the home folder, `S` the state, `O` another folder.
const SECRETS: [&str; 20] = [
    "H/.ssh/id_ed25519",
    "H/.aws/credentials",
    "H/.docker/config.json",
    "H/.config/gh/hosts.yml",
    "H/.gitconfig",
    "H/.git-credentials",
    "H/.netrc",
    "H/.npmrc",
    "H/.cargo/credentials.toml",
    "H/.cargo/credentials",
    "H/.gnupg/private-keys-v1.d/key",
    "H/.mozilla/firefox/x.default/logins.json",
    "H/.bash_history",
    "H/other/secret.txt",
    "H/.tool/token",
    "S/windlass.db",
    "S/keys/signing.key",
    "S/blobs/aa/blob",
    "O/secret",
    "O/folder/secret",
];

/// Files of the workspace that commands do not see.
const HIDDEN: [&str; 4] = [".env", "server.key", "sub/deploy.key", "run/agent.sock"];

/// The helper that Python lines import.
const HELPER: &str = include_str!("corpus/attack.py");

/// What listens outside; a connection or a datagram is a breach.
pub struct Doors {
    tcp: TcpListener,
    udp: UdpSocket,
    unix: Vec<UnixListener>,
    fifo: fs::File,
    pub abstract_name: String,
}

/// One user's world.
pub struct World {
    pub folder: TempDir,
    pub user: Option<u32>,
    pub maker: Maker,
    pub level: Level,
    /// In every secret.
    pub canary: String,
    /// In the environment and the names of files that commands try to leave.
    pub mark: String,
    pub doors: Doors,
    pub bystander: Child,
    /// Left open for whoever is started.
    _inherited: Vec<OwnedFd>,
}

impl World {
    /// Builds the world of the tests' own user, or of one without rights.
    pub fn new(user: Option<u32>) -> Self {
        let folder = tempfile::Builder::new().prefix("windlass-attacks-").tempdir().unwrap();
        let (canary, mark) = (format!("CANARY{}", random()), random());
        let root = folder.path();
        for name in ["home", "state", "outside", "workspace", "changes"] {
            fs::create_dir(root.join(name)).unwrap();
        }
        for secret in SECRETS {
            write(&place(root, secret), &format!("secret = {canary}\n"));
        }
        for program in ["H/.cargo/bin/tool", "H/.tool/bin/tool"] {
            write(&place(root, program), "#!/bin/sh\necho tool\n");
            set_mode(&place(root, program), 0o755);
        }
        rustix::fs::mkfifoat(
            rustix::fs::CWD,
            root.join("outside/fifo"),
            rustix::fs::Mode::from_raw_mode(0o666),
        )
        .unwrap();
        make_project(root, &canary);
        let doors = Doors::open(root, &mark);
        set_mode(root, 0o755);
        fs::copy(env!("CARGO_BIN_EXE_cell-launcher"), root.join("launcher")).unwrap();
        set_mode(&root.join("launcher"), 0o755);
        if let Some(user) = user {
            give(root, user);
        }
        let inherited = vec![
            leave_open(&root.join("outside/secret")),
            leave_open(&root.join("outside/folder")),
            leave_open(&root.join("state")),
        ];
        let mut bystander = Command::new("sleep");
        if let Some(user) = user {
            bystander.uid(user).gid(user);
        }
        bystander.arg("100000").env("TOKEN", &canary).stdout(Stdio::null()).stderr(Stdio::null());
        let bystander = bystander.current_dir(root.join("outside")).spawn().unwrap();
        let (maker, level) = (Maker::Own, Level::Full);
        Self { folder, user, maker, level, canary, mark, doors, bystander, _inherited: inherited }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn workspace(&self) -> PathBuf {
        self.path("workspace")
    }

    pub fn hidden(&self) -> Vec<PathBuf> {
        HIDDEN.iter().map(|name| self.workspace().join(name)).collect()
    }

    /// The variables that the lines of the corpus use.
    pub fn variables(&self) -> Vec<(String, String)> {
        let text = |name: &str| self.path(name).to_str().unwrap().to_owned();
        let home = text("home");
        let path = format!("{home}/.cargo/bin:{home}/.tool/bin:/usr/local/bin:/usr/bin:/bin");
        let port = self.doors.tcp.local_addr().unwrap().port();
        let udp = self.doors.udp.local_addr().unwrap().port();
        [
            ("PATH", path),
            ("HOME", home.clone()),
            ("H", home),
            ("LANG", "C".to_owned()),
            ("TMPDIR", "/tmp".to_owned()),
            ("W", text("workspace")),
            ("S", text("state")),
            ("O", text("outside")),
            ("R", text("")),
            ("PID", self.bystander.id().to_string()),
            ("PORT", port.to_string()),
            ("UDP", udp.to_string()),
            ("ABSTRACT", self.doors.abstract_name.clone()),
            ("MARK", self.mark.clone()),
            ("PYTHONPATH", text("workspace/tools")),
            ("PYTHONDONTWRITEBYTECODE", "1".to_owned()),
            ("GIT_CONFIG_NOSYSTEM", "1".to_owned()),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .to_vec()
    }
}

impl Drop for World {
    fn drop(&mut self) {
        let _ = self.bystander.kill();
        let _ = self.bystander.wait();
        open_folders(self.folder.path());
    }
}

/// Makes folders removable that an overlay closed.
pub fn open_folders(folder: &Path) {
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

impl Doors {
    fn open(root: &Path, mark: &str) -> Self {
        let abstract_name = format!("windlass-attacks-{mark}");
        let address = SocketAddr::from_abstract_name(&abstract_name).unwrap();
        let unix = vec![
            UnixListener::bind(root.join("outside/sock")).unwrap(),
            UnixListener::bind(root.join("workspace/run/agent.sock")).unwrap(),
            UnixListener::bind_addr(&address).unwrap(),
        ];
        let tcp = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)).unwrap();
        let udp = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).unwrap();
        tcp.set_nonblocking(true).unwrap();
        udp.set_nonblocking(true).unwrap();
        for listener in &unix {
            listener.set_nonblocking(true).unwrap();
        }
        let flags =
            rustix::fs::OFlags::RDWR | rustix::fs::OFlags::NONBLOCK | rustix::fs::OFlags::CLOEXEC;
        let fifo =
            rustix::fs::open(root.join("outside/fifo"), flags, rustix::fs::Mode::empty()).unwrap();
        Self { tcp, udp, unix, fifo: fifo.into(), abstract_name }
    }

    /// Listens at a path whose socket was removed.
    pub fn listen_again(&mut self, path: &Path) {
        let listener = UnixListener::bind(path).unwrap();
        listener.set_nonblocking(true).unwrap();
        self.unix.push(listener);
    }

    /// What came in since the last look.
    pub fn visitors(&self) -> Vec<&'static str> {
        let mut came = Vec::new();
        if self.tcp.accept().is_ok() {
            came.push("a TCP connection");
        }
        if self.udp.recv_from(&mut [0; 64]).is_ok() {
            came.push("a UDP datagram");
        }
        if self.unix.iter().any(|listener| listener.accept().is_ok()) {
            came.push("a connection to a unix socket");
        }
        if (&self.fifo).read(&mut [0; 64]).is_ok_and(|count| count > 0) {
            came.push("bytes in the FIFO");
        }
        came
    }
}

fn place(root: &Path, name: &str) -> PathBuf {
    let (start, rest) = name.split_once('/').unwrap();
    let start = match start {
        "H" => "home",
        "S" => "state",
        _ => "outside",
    };
    root.join(start).join(rest)
}

pub fn random() -> String {
    let mut bytes = [0; 12];
    fs::File::open("/dev/urandom").unwrap().read_exact(&mut bytes).unwrap();
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

pub fn write(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// Gives a tree to a user.
pub fn give(path: &Path, user: u32) {
    lchown(path, Some(user), Some(user)).unwrap();
    if path.symlink_metadata().unwrap().is_dir() {
        for entry in fs::read_dir(path).unwrap() {
            give(&entry.unwrap().path(), user);
        }
    }
}

/// A descriptor that every child inherits.
fn leave_open(path: &Path) -> OwnedFd {
    let file = fs::File::open(path).unwrap();
    rustix::io::fcntl_setfd(file.as_fd(), FdFlags::empty()).unwrap();
    file.into()
}

/// Runs git in a folder.
pub fn git(folder: &Path, arguments: &[&str]) {
    let run = || -> io::Result<std::process::Output> {
        Command::new("git")
            .args(["-c", "user.name=Test", "-c", "user.email=test@example.com"])
            .args(["-c", "protocol.file.allow=always", "-c", "init.defaultBranch=main"])
            .args(["-c", "commit.gpgsign=false", "-c", "safe.directory=*"])
            .args(arguments)
            .current_dir(folder)
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .output()
    };
    let done = run().expect("git must be installed");
    assert!(done.status.success(), "git {arguments:?}: {}", String::from_utf8_lossy(&done.stderr));
}

/// A repository with a hook, a linked work tree, a tag and a submodule, and files that are hidden.
fn make_project(root: &Path, canary: &str) {
    let library = root.join("outside/library");
    write(&library.join("lib.c"), "int one(void) { return 1; }\n");
    git(&library, &["init", "-q"]);
    git(&library, &["add", "."]);
    git(&library, &["commit", "-qm", "library"]);
    let workspace = root.join("workspace");
    git(&workspace, &["init", "-q"]);
    write(&workspace.join("README"), "a project\n");
    write(&workspace.join("src/main.c"), "int main(void) { return 0; }\n");
    write(&workspace.join("tools/attack.py"), HELPER);
    write(&workspace.join(".windlass/config.toml"), "[sandbox]\nlevel = \"full\"\n");
    write(&workspace.join(".windlass/policy.toml"), "default = \"deny\"\n");
    write(&workspace.join(".gitignore"), ".env\n*.key\nrun/\n");
    git(&workspace, &["add", "."]);
    git(&workspace, &["commit", "-qm", "first"]);
    git(&workspace, &["tag", "v1"]);
    git(&workspace, &["branch", "side"]);
    let library = library.to_str().unwrap();
    git(&workspace, &["submodule", "--quiet", "add", library, "vendor/lib"]);
    git(&workspace, &["commit", "-qm", "submodule"]);
    git(&workspace, &["worktree", "add", "-q", "../linked", "side"]);
    let hook = workspace.join(".git/hooks/pre-push");
    write(&hook, "#!/bin/sh\nexit 0\n");
    set_mode(&hook, 0o755);
    for secret in HIDDEN.iter().filter(|name| !name.ends_with(".sock")) {
        write(&workspace.join(secret), &format!("TOKEN={canary}\n"));
    }
    fs::create_dir_all(workspace.join("run")).unwrap();
}
