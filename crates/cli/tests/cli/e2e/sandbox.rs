//! Commands in the sandbox: what they can change and reach, and what they cannot.

use std::net::TcpListener;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use crate::harness::{Outcome, Place, finish};

const TOOLS: &str = r#"
[server.lab]
connector = "command"
[server.lab.tool.confined]
class = "write"
argv = ["lab", "lab.sh"]
[server.lab.tool.network]
class = "write"
argv = ["lab", "lab.sh"]
network = ["host.example:443"]
[server.lab.tool.free]
class = "write"
argv = ["lab", "lab.sh"]
sandbox = false
[server.lab.tool.reading]
class = "read"
argv = ["lab", "lab.sh"]
[server.lab.tool.none]
class = "write"
argv = ["no-such-program"]
"#;

const POLICY: &str = r#"
[[rule]]
id = "lab"
verdict = "allow"
reason = "a test runs what it wrote itself"
tool = "lab/*"
matches = [{ tool = "lab/free" }]
"#;

/// A project whose scripts run in the sandbox, with a temporary folder of its own.
pub struct Lab {
    pub place: Place,
}

impl Lab {
    pub fn new() -> Self {
        let place = Place::with_project();
        std::fs::create_dir(place.base().join("tmp")).unwrap();
        std::fs::write(place.base().join("home/precious"), "gold\n").unwrap();
        // The policy would ask about a shell by its own name, and rightly so.
        std::fs::create_dir(place.base().join("bin")).unwrap();
        std::os::unix::fs::symlink("/bin/bash", place.base().join("bin/lab")).unwrap();
        place.append(".windlass/tools.toml", TOOLS);
        place.write(".windlass/policy/lab.toml", POLICY);
        Self { place }
    }

    /// With settings of the user.
    pub fn with(settings: &str) -> Self {
        let lab = Self::new();
        lab.place.settings(settings);
        lab
    }

    pub fn outside(&self, name: &str) -> PathBuf {
        self.place.base().join(name)
    }

    /// Runs a script by one of the tools.
    pub fn call(&self, tool: &str, script: &str) -> Outcome {
        self.place.write("lab.sh", script);
        let tool = format!("lab/{tool}");
        let mut command = self.place.command(&["call", "run", &tool, "--new-key", "--json"]);
        self.equip(&mut command);
        finish(command, &[])
    }

    /// Sets the path, and a temporary folder that is not everybody's.
    pub fn equip(&self, command: &mut Command) {
        let path = std::env::var("PATH").unwrap();
        let cargo = PathBuf::from(std::env::var_os("CARGO").unwrap());
        let (own, cargo) = (self.outside("bin"), cargo.parent().unwrap().display().to_string());
        command.env("PATH", format!("{}:{cargo}:{path}", own.display()));
        command.env("TMPDIR", self.outside("tmp"));
    }

    /// Runs a script that must do well, and returns what it printed.
    #[track_caller]
    pub fn prints(&self, tool: &str, script: &str) -> String {
        let report = self.call(tool, script).exit(0).json();
        report["result"]["stdout"].as_str().unwrap().to_owned()
    }

    /// Runs a script that must fail, and returns its complaint.
    #[track_caller]
    pub fn fails(&self, tool: &str, script: &str) -> String {
        let report = self.call(tool, script).exit(1).json();
        assert_eq!(report["error"]["code"], "TOOL_FAILED", "{report}");
        report["result"]["stderr"].as_str().unwrap().to_owned()
    }

    /// Runs a script that must not even begin, and returns the error.
    #[track_caller]
    pub fn refused(&self, tool: &str) -> Value {
        let report = self.call(tool, "touch began").exit(1).json();
        assert_eq!(report["state"], "FAILED", "{report}");
        assert_eq!(report["error"]["may_have_run"], false, "{report}");
        assert!(!self.place.work().join("began").exists());
        report["error"].clone()
    }
}

#[test]
fn a_command_changes_its_project_and_nothing_else() {
    let lab = Lab::new();
    let inside = "mkdir -p a/b && echo one > a/b/c && mv a/b/c a/d && ln a/d e && ln -s a/d f \
        && echo two >> f && rm e && mkfifo p && rm p && cat a/d && echo x > /dev/null \
        && echo t > \"$TMPDIR/t\" && cat /tmp/t";
    assert_eq!(lab.prints("confined", inside), "one\ntwo\nt\n");
    assert!(!lab.outside("tmp/t").exists());
    for script in [
        "cat ../home/precious",
        "rm ../home/precious",
        "mv ../home/precious .",
        "ln -s ../home/precious link; cat link; code=$?; rm link; exit $code",
        "echo x > /proc/1/root/new",
    ] {
        let complaint = lab.fails("confined", script);
        assert!(complaint.contains("No such file") || complaint.contains("denied"), "{complaint}");
    }
    // Here the parent folder lies in the private `/tmp`.
    for script in [
        "echo x > ../new",
        "mkdir ../new",
        "mkfifo ../new",
        "cd .. && echo x > new",
        "echo x >> ../home/precious",
    ] {
        lab.call("confined", script);
    }
    assert_eq!(std::fs::read_to_string(lab.outside("home/precious")).unwrap(), "gold\n");
    assert!(!lab.outside("new").exists());
    // The same script does it where it is let out.
    lab.prints("free", "echo x > ../new");
    assert!(lab.outside("new").exists());
}

#[test]
fn a_read_cannot_write() {
    let lab = Lab::new();
    assert_eq!(lab.prints("reading", "cat .windlass/id | wc -l"), "1\n");
    for script in ["touch x", "rm lab.sh", "chmod 600 lab.sh", "git init -q ."] {
        let complaint = lab.fails("reading", script);
        assert!(complaint.contains("Read-only"), "{complaint}");
    }
}

#[test]
fn children_are_confined_and_end_with_their_command() {
    let lab = Lab::new();
    for script in [
        "bash -c 'bash -c \"echo x > ../new\"'",
        "(echo x > ../new) & wait $!",
        "setsid --wait bash -c 'echo x > ../new'",
        "env -i /bin/bash -c 'echo x > ../new'",
        "cp \"$(command -v bash)\" mine && ./mine -c 'echo x > ../new'",
    ] {
        lab.call("confined", script);
    }
    assert!(!lab.outside("new").exists());
    lab.prints(
        "confined",
        "setsid bash -c 'while :; do date >> ticks; sleep 0.05; done' & sleep 0.3",
    );
    let size = || std::fs::metadata(lab.place.work().join("ticks")).unwrap().len();
    let before = size();
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(size(), before);
}

#[test]
fn only_listed_hosts_are_reached_and_each_request_is_recorded() {
    let lab = Lab::new();
    let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = tcp.local_addr().unwrap().port();
    let direct = format!("exec 3<>/dev/tcp/127.0.0.1/{port}; echo hello >&3");
    for tool in ["confined", "network"] {
        lab.fails(tool, &direct);
    }
    tcp.set_nonblocking(true).unwrap();
    assert_eq!(tcp.accept().unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
    let tools = lab.place.read(".windlass/tools.toml");
    lab.place.write(
        ".windlass/tools.toml",
        tools.replace("host.example:443", &format!("localhost:{port}")),
    );
    lab.place.settings(&format!("[network]\nprivate = [\"localhost:{port}\"]\n"));
    tcp.set_nonblocking(false).unwrap();
    let server = std::thread::spawn(move || {
        let (mut stream, _) = tcp.accept().unwrap();
        let mut head = [0; 1000];
        let _ = std::io::Read::read(&mut stream, &mut head).unwrap();
        std::io::Write::write_all(
            &mut stream,
            b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
        )
        .unwrap();
    });
    let ask = |host: &str| {
        format!(
            "exec 3<>/dev/tcp/127.0.0.1/${{http_proxy##*:}}; \
             printf 'GET http://{host}/ HTTP/1.1\\r\\nHost: {host}\\r\\nConnection: close\\r\\n\\r\\n' >&3; cat <&3"
        )
    };
    let report = lab.call("network", &ask(&format!("localhost:{port}"))).exit(0).json();
    assert!(report["result"]["stdout"].as_str().unwrap().ends_with("hello"), "{report}");
    let event = &report["result"]["network"]["events"][0];
    assert_eq!(event["allowed"], format!("GET localhost:{port}"), "{report}");
    server.join().unwrap();
    let report = lab.call("network", &ask("other.example")).exit(0).json();
    assert!(report["result"]["stdout"].as_str().unwrap().contains("NETWORK_REFUSED"), "{report}");
    assert_eq!(
        report["result"]["network"]["events"][0]["refused"], "GET other.example",
        "{report}"
    );
}

#[test]
fn the_tools_of_the_trade_work_in_it() {
    let lab = Lab::new();
    let script = "set -e
         git init -q r; cd r
         git config user.name t; git config user.email t@t
         cargo init -q --vcs none --name hello .
         cargo run -q --offline
         git add -A; git commit -q -m one; git log --format=%s
         git worktree add -q ../w; git -C ../w status --short
         seq 3 | xargs -P 3 -n 1 echo | sort | tr '\n' ' '
         diff <(echo a) <(echo a); cat <<< here; mktemp -u > /dev/null; mktemp > /dev/null";
    assert_eq!(lab.prints("confined", script), "Hello, world!\none\n1 2 3 here\n");
}

#[test]
fn what_git_does_in_the_cell_is_taken_over_and_its_settings_are_not() {
    let lab = Lab::new();
    let work = lab.place.work();
    let git = |words: &[&str]| {
        let output = Command::new("git").args(words).current_dir(&work).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    git(&["init", "-q", "-b", "main"]);
    git(&["-c", "user.name=t", "-c", "user.email=t", "commit", "-q", "--allow-empty", "-m", "one"]);
    let id =
        "export GIT_AUTHOR_NAME=t GIT_AUTHOR_EMAIL=t GIT_COMMITTER_NAME=t GIT_COMMITTER_EMAIL=t;";
    lab.prints(
        "confined",
        &format!("{id} echo 1 > f && git add f && git commit -qm two && git branch side"),
    );
    assert_eq!(git(&["log", "-1", "--format=%s"]), "two\n");
    assert!(git(&["branch", "--list", "side"]).contains("side"));
    let before = git(&["rev-parse", "HEAD"]);
    for script in [
        "echo x >> .windlass/config.toml",
        "rm -rf .windlass/policy",
        "rm .windlass/id",
        "mv .windlass away",
        "echo x > .git/hooks/post-checkout",
        "git config core.fsmonitor ./evil",
        "echo '*' >> .git/info/exclude",
        "mv .git away",
    ] {
        let complaint = lab.fails("confined", script);
        assert!(
            ["Read-only", "busy", "could not"].iter().any(|word| complaint.contains(word)),
            "{script}: {complaint}"
        );
    }
    // Whatever is left of it in the cell, the repository stays as it was.
    let report = lab.call("confined", "rm -rf .git/* 2>/dev/null; true").exit(1).json();
    assert_eq!(report["error"]["code"], "GIT_DAMAGED", "{report}");
    assert_eq!(git(&["rev-parse", "HEAD"]), before);
    git(&["fsck", "--full"]);
    lab.place.run(&["verify"]).exit(0);
}

#[test]
fn a_protected_name_that_appears_is_removed_and_fails_the_call() {
    let lab = Lab::new();
    let script = "git init -q . && git config core.pager evil && echo done";
    let report = lab.call("confined", script).exit(1).json();
    assert_eq!(report["error"]["code"], "PROTECTED_PATH_CHANGED", "{report}");
    assert_eq!(report["result"]["stdout"], "done\n", "{report}");
    assert!(!lab.place.work().join(".git").exists());
}

#[test]
fn programs_in_caches_are_not_replaced_for_later_commands() {
    let lab = Lab::new();
    let bin = lab.outside("home/.cargo/bin");
    std::fs::create_dir_all(&bin).unwrap();
    std::os::unix::fs::symlink("/bin/true", bin.join("measure")).unwrap();
    lab.place.write(
        "lab.sh",
        "rm -f ~/.cargo/bin/measure; echo x > ~/.cargo/bin/measure; echo y > ~/.cargo/kept",
    );
    let call = || {
        let mut command =
            lab.place.command(&["call", "run", "lab/confined", "--new-key", "--json"]);
        lab.equip(&mut command);
        let path = std::env::var("PATH").unwrap();
        let own = lab.outside("bin");
        command.env("PATH", format!("{}:{}:{path}", bin.display(), own.display()));
        finish(command, &[]).exit(0).json()["result"].clone()
    };
    let said = call()["stderr"].to_string();
    assert_eq!(said.matches("Read-only").count(), 2, "{said}");
    lab.place.write("lab.sh", "measure && cat ~/.cargo/kept");
    assert_eq!(call()["stdout"], "y\n", "other files of a cache are kept for the project");
}

#[test]
fn settings_in_caches_are_not_kept_for_later_commands() {
    let lab = Lab::new();
    let cargo = lab.outside("home/.cargo");
    std::fs::create_dir_all(&cargo).unwrap();
    std::fs::write(cargo.join("env"), "mine").unwrap();
    for script in [
        "echo x > ~/.cargo/config.toml",
        "mkdir ~/.cargo/new && echo x > ~/.cargo/new/f && mv ~/.cargo/new ~/.cargo/config.toml",
        "echo x > ~/.cargo/f; ln -s f ~/.cargo/config.toml",
        "echo x > ~/.cargo/f; ln -f ~/.cargo/f ~/.cargo/config.toml",
        "echo x > ~/.cargo/env",
        "rm ~/.cargo/env",
        "mkdir -p ~/.cargo/bin && echo x > ~/.cargo/bin/cargo-x",
    ] {
        let report =
            lab.call("confined", &format!("{script}; echo y > ~/.cargo/kept")).exit(1).json();
        assert_eq!(report["error"]["code"], "PROTECTED_PATH_CHANGED", "{script}: {report}");
        let message = report["error"]["message"].to_string();
        assert!(message.contains(".cargo/") && message.contains("dropped"), "{script}: {report}");
        let later = "ls -A ~/.cargo/config.toml ~/.cargo/bin; cat ~/.cargo/env ~/.cargo/kept";
        let report = lab.call("confined", later).exit(0).json();
        assert_eq!(report["result"]["stdout"], "miney\n", "{script}: {report}");
    }
    // Settings in the home folder outside of caches are lost with the cell.
    lab.call(
        "confined",
        "echo x > ~/.npmrc; mkdir -p ~/.config/pip; echo x > ~/.config/pip/pip.conf",
    )
    .exit(0);
    let report = lab.call("confined", "cat ~/.npmrc ~/.config/pip/pip.conf || echo none").exit(0);
    assert_eq!(report.json()["result"]["stdout"], "none\n");
}

#[test]
fn secrets_of_the_workspace_are_not_there() {
    let lab = Lab::new();
    lab.place.write(".env", "TOKEN=s3cret\n");
    lab.place.write("deploy/server.key", "s3cret\n");
    lab.place.write(".env.example", "TOKEN=\n");
    let seen = lab.prints("confined", "cat .env deploy/server.key .env.example");
    assert_eq!(seen, "TOKEN=\n");
    assert_eq!(lab.place.read(".env"), "TOKEN=s3cret\n");
}

#[test]
fn the_users_settings_open_folders_and_nothing_closes_it() {
    let lab = Lab::new();
    std::fs::create_dir(lab.outside("home/shared")).unwrap();
    assert!(lab.fails("confined", "ls ../home/shared").contains("No such file"));
    lab.place.settings("[sandbox]\nwritable = [\"~/shared\"]\nvisible = [\"~/precious\"]\n");
    assert_eq!(
        lab.prints("confined", "echo x > ../home/shared/new; cat ../home/precious"),
        "gold\n"
    );
    assert!(lab.outside("home/shared/new").exists());
    assert!(lab.fails("confined", "echo x > ../home/precious").contains("Read-only"));
    // All of it would hold every credential.
    lab.place.settings("[sandbox]\nwritable = [\"~/\"]\n");
    assert_eq!(lab.refused("confined")["code"], "SANDBOX_UNAVAILABLE");
    for off in ["enabled = false", "level = \"off\"", "level = \"none\"", "network = true"] {
        lab.place.settings(&format!("[sandbox]\n{off}\n"));
        lab.call("confined", "echo x > ../new").exit(2);
        lab.place.run(&["doctor"]).exit(1).says("[CONFIG_INVALID]");
    }
    assert!(!lab.outside("new").exists());
    lab.place.settings("[sandbox]\nlevel = \"landlock\"\n");
    assert!(lab.fails("confined", "echo x > ../new").contains("denied"));
    lab.place.run(&["doctor"]).exit(0).says("as you chose");
}

#[test]
fn a_registry_that_contradicts_itself_is_refused() {
    let place = Place::with_project();
    let tools = place.read(".windlass/tools.toml");
    for (more, says) in [
        ("[server.x.tool.y]\nclass = \"read\"\nargv = [\"a\"]\nnetwork = 1", "expected a sequence"),
        (
            "[server.x.tool.y]\nclass = \"read\"\nargv = [\"a\"]\nnetwork = [\"a.example:1\"]\nsandbox = false",
            "has no effect",
        ),
    ] {
        let text = format!("{tools}\n[server.x]\nconnector = \"command\"\n{more}\n");
        place.write(".windlass/tools.toml", text);
        place.run(&["policy", "check"]).fails_with(2, "POLICY_INVALID").warns(says);
    }
    for server in ["command", "mcp-http"] {
        let text = format!("{tools}\n[server.x]\nconnector = \"{server}\"\nsandbox = false\n");
        place.write(".windlass/tools.toml", text);
        let outcome = place.run(&["policy", "check"]).fails_with(2, "POLICY_INVALID");
        outcome.warns("belong to the connector `mcp-stdio`");
    }
    for key in ["network = []", "sandbox = true"] {
        let text = format!(
            "{tools}\n[server.x]\nconnector = \"mcp-stdio\"\ncommand = [\"a\"]\n\
             [server.x.tool.y]\nclass = \"read\"\n{key}\n"
        );
        place.write(".windlass/tools.toml", text);
        let outcome = place.run(&["policy", "check"]).fails_with(2, "POLICY_INVALID");
        outcome.warns("belong to the connector `command`");
    }
}

#[test]
fn what_cannot_be_confined_does_not_run() {
    let lab = Lab::with("[sandbox]\nwritable = [\"~/missing\"]\n");
    let error = lab.refused("confined");
    assert_eq!(error["code"], "SANDBOX_UNAVAILABLE");
    assert!(error["message"].as_str().unwrap().contains("missing"), "{error}");
    lab.prints("free", "echo x > ../new");

    let lab = Lab::with("[sandbox]\nlevel = \"landlock\"\n");
    let tools = lab.place.read(".windlass/tools.toml");
    lab.place.write(".windlass/tools.toml", tools);
    assert_eq!(lab.refused("network")["code"], "SANDBOX_UNAVAILABLE");
}

#[test]
fn a_program_that_is_missing_did_not_run() {
    let error = Lab::new().refused("none");
    assert_eq!(error["code"], "TOOL_SERVER_UNAVAILABLE", "{error}");
    let message = error["message"].as_str().unwrap();
    assert!(message.starts_with("cannot start `no-such-program`"), "{message}");
}

#[test]
fn output_is_limited_as_it_is_outside() {
    let lab = Lab::new();
    let tools = lab.place.read(".windlass/tools.toml");
    let limited = tools.replacen(
        "[server.lab.tool.confined]\n",
        "[server.lab.tool.confined]\noutput_bytes_max = 1000\n",
        1,
    );
    lab.place.write(".windlass/tools.toml", limited);
    let text = lab.call("confined", "head -c 1000 /dev/zero | tr '\\0' x >&2").exit(0).json();
    assert_eq!(text["result"]["stderr"], "x".repeat(1000));
    let more = lab.call("confined", "head -c 2000 /dev/zero | tr '\\0' x >&2").exit(0).json();
    assert!(more["result"]["stderr"].as_str().unwrap().contains("bytes left out"));
    assert_eq!(more["result"]["cut"]["stderr"]["bytes"], 2000);
}
