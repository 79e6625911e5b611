//! Commands in the sandbox: what they can change and reach, and what they cannot.

use std::net::{TcpListener, UdpSocket};
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
struct Lab {
    place: Place,
}

impl Lab {
    fn new() -> Self {
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
    fn with(settings: &str) -> Self {
        let lab = Self::new();
        lab.place.settings(settings);
        lab
    }

    fn outside(&self, name: &str) -> PathBuf {
        self.place.base().join(name)
    }

    /// Runs a script by one of the tools.
    fn call(&self, tool: &str, script: &str) -> Outcome {
        self.place.write("lab.sh", script);
        let tool = format!("lab/{tool}");
        let mut command = self.place.command(&["call", "run", &tool, "--new-key", "--json"]);
        self.equip(&mut command);
        finish(command, &[])
    }

    /// Sets the path, and a temporary folder that is not everybody's.
    fn equip(&self, command: &mut Command) {
        let path = std::env::var("PATH").unwrap();
        command.env("PATH", format!("{}:{path}", self.outside("bin").display()));
        command.env("TMPDIR", self.outside("tmp"));
    }

    /// Runs a script that must do well, and returns what it printed.
    #[track_caller]
    fn prints(&self, tool: &str, script: &str) -> String {
        let report = self.call(tool, script).exit(0).json();
        report["result"]["stdout"].as_str().unwrap().to_owned()
    }

    /// Runs a script that must fail, and returns its complaint.
    #[track_caller]
    fn fails(&self, tool: &str, script: &str) -> String {
        let report = self.call(tool, script).exit(1).json();
        assert_eq!(report["error"]["code"], "TOOL_FAILED", "{report}");
        report["result"]["stderr"].as_str().unwrap().to_owned()
    }

    /// Runs a script that must not even begin, and returns the error.
    #[track_caller]
    fn refused(&self, tool: &str) -> Value {
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
        && echo two >> f && rm e && mkfifo p && cat a/d && echo x > /dev/null \
        && echo t > \"$TMPDIR/t\" && cat ../home/precious";
    assert_eq!(lab.prints("confined", inside), "one\ntwo\ngold\n");
    assert_eq!(std::fs::read_to_string(lab.outside("tmp/t")).unwrap(), "t\n");
    for script in [
        "echo x > ../new",
        "echo x >> ../home/precious",
        ": > ../home/precious",
        "truncate -s 0 ../home/precious",
        "rm ../home/precious",
        "mv ../home/precious .",
        "mv lab.sh ../home/",
        "ln ../home/precious mine && echo x > mine",
        "ln -s .. up && echo x > up/new",
        "ln -s ../home/precious link && echo x > link",
        "mkdir ../new",
        "mkfifo ../new",
        "cd .. && echo x > new",
        "echo x > /proc/self/cwd/../new",
        "rm -rf ../home",
    ] {
        let complaint = lab.fails("confined", script);
        assert!(complaint.contains("denied") || complaint.contains("cross-device"), "{complaint}");
    }
    assert_eq!(std::fs::read_to_string(lab.outside("home/precious")).unwrap(), "gold\n");
    assert!(!lab.outside("new").exists());
    // The same script does it where it is let out.
    lab.prints("free", "echo x > ../new");
    assert!(lab.outside("new").exists());
}

#[test]
fn children_and_those_who_leave_are_confined_too() {
    let lab = Lab::new();
    for script in [
        "bash -c 'bash -c \"echo x > ../new\"'",
        "(echo x > ../new) & wait $!",
        "setsid --wait bash -c 'echo x > ../new'",
        "env -i /bin/bash -c 'echo x > ../new'",
        "cp \"$(command -v bash)\" mine && ./mine -c 'echo x > ../new'",
    ] {
        let complaint = lab.fails("confined", script);
        assert!(complaint.contains("denied"), "{script}: {complaint}");
    }
    assert!(!lab.outside("new").exists());
}

#[test]
fn no_socket_reaches_anybody_unless_it_is_opened() {
    let lab = Lab::new();
    let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
    let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
    udp.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let tcp_script =
        format!("exec 3<>/dev/tcp/127.0.0.1/{}; echo hello >&3", tcp.local_addr().unwrap().port());
    let udp_script =
        format!("exec 3<>/dev/udp/127.0.0.1/{}; echo hello >&3", udp.local_addr().unwrap().port());
    for script in [&tcp_script, &udp_script] {
        let complaint = lab.fails("confined", script);
        assert!(complaint.contains("not permitted"), "{complaint}");
    }
    tcp.set_nonblocking(true).unwrap();
    assert_eq!(tcp.accept().unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
    lab.prints("network", &tcp_script);
    tcp.accept().unwrap();
    lab.prints("network", &udp_script);
    assert_eq!(udp.recv(&mut [0; 16]).unwrap(), 6);
    // Files stay closed.
    assert!(lab.fails("network", "echo x > ../new").contains("denied"));
}

#[test]
fn the_tools_of_the_trade_work_in_it() {
    let lab = Lab::new();
    let cargo = PathBuf::from(std::env::var_os("CARGO").unwrap());
    let script = format!(
        "set -e; export PATH='{}':$PATH
         git init -q r; cd r
         git config user.name t; git config user.email t@t
         cargo init -q --vcs none --name hello .
         cargo run -q --offline
         git add -A; git commit -q -m one; git log --format=%s
         git worktree add -q ../w; git -C ../w status --short
         seq 3 | xargs -P 3 -n 1 echo | sort | tr '\\n' ' '
         diff <(echo a) <(echo a); cat <<< here; mktemp -u > /dev/null; mktemp > /dev/null",
        cargo.parent().unwrap().display()
    );
    assert_eq!(lab.prints("confined", &script), "Hello, world!\none\n1 2 3 here\n");
}

#[test]
fn the_users_settings_open_folders_and_nothing_closes_it() {
    let lab = Lab::with("[sandbox]\nwritable = [\"~/\"]\n");
    lab.prints("confined", "echo x > ../home/new");
    assert!(lab.fails("confined", "echo x > ../new").contains("denied"));
    let absolute = format!("[sandbox]\nwritable = [{:?}]\n", lab.outside("home"));
    let lab = Lab::with(&absolute);
    assert!(lab.fails("confined", "echo x > ../home/new").contains("denied"), "another's home");
    for off in ["enabled = false", "level = \"off\"", "level = \"none\"", "network = true"] {
        lab.place.settings(&format!("[sandbox]\n{off}\n"));
        lab.call("confined", "echo x > ../new").exit(2);
        lab.place.run(&["doctor"]).exit(1).says("[CONFIG_INVALID]");
    }
    assert!(!lab.outside("new").exists());
    lab.place.settings("[sandbox]\nlevel = \"landlock\"\n");
    assert!(lab.fails("confined", "echo x > ../new").contains("denied"));
}

#[test]
fn a_registered_server_is_free() {
    let place = Place::with_server();
    let tmp = place.base().join("tmp");
    std::fs::create_dir(&tmp).unwrap();
    let words = ["call", "run", "count/add", "--new-key"];
    place.run_with("TMPDIR", &tmp.display().to_string(), &words).exit(0);
    assert_eq!(place.executed(), 1, "its record lies outside the project");
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

    // Landlock can be stacked 16 times; then the kernel refuses.
    let lab = Lab::with("[sandbox]\nlevel = \"landlock\"\n");
    lab.place.write("lab.sh", "touch began");
    let windlass = env!("CARGO_BIN_EXE_windlass");
    let mut words = Vec::new();
    for _ in 0..16 {
        words.extend([windlass, "confined", "--write", "/", "--network", "--"]);
    }
    words.extend([windlass, "call", "run", "lab/confined", "--new-key", "--json"]);
    let mut command = Command::new(windlass);
    command.args(&words[1..]);
    lab.place.settle(&mut command);
    lab.equip(&mut command);
    let report = finish(command, &[]).exit(1).json();
    assert_eq!(report["error"]["code"], "SANDBOX_UNAVAILABLE", "{report}");
    assert_eq!(report["error"]["may_have_run"], false, "{report}");
    assert!(!lab.place.work().join("began").exists());
}

#[test]
fn a_program_that_is_missing_did_not_run() {
    let error = Lab::new().refused("none");
    assert_eq!(error["code"], "TOOL_SERVER_UNAVAILABLE", "{error}");
    let message = error["message"].as_str().unwrap();
    assert!(message.starts_with("cannot start `no-such-program`"), "{message}");
    assert!(!message.contains("windlass-confined"), "{message}");
}

#[test]
fn a_command_cannot_claim_that_it_never_ran() {
    let lab = Lab::new();
    let seen =
        lab.prints("confined", "env; tr '\\0' '\\n' < /proc/self/environ; cat /proc/$$/cmdline");
    assert!(!seen.contains("TOKEN") && seen.contains("PATH="), "{seen}");
    for word in ["refused", "no-program"] {
        let script = format!("echo 'windlass-confined x {word} no' >&2; exit 1");
        let complaint = lab.fails("confined", &script);
        assert_eq!(complaint, format!("windlass-confined x {word} no\n"));
    }
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
    let more = lab.call("confined", "head -c 1001 /dev/zero | tr '\\0' x >&2").exit(1).json();
    assert_eq!(more["error"]["code"], "TOOL_OUTPUT_TOO_LARGE");
}

#[test]
fn bwrap_keeps_what_decides_and_what_git_would_start() {
    let lab = Lab::new();
    lab.prints("free", "git init -q && echo no > .git/hooks/none || true");
    if !lab.place.run(&["doctor"]).text().contains("bwrap protects .windlass") {
        eprintln!("no bwrap here: what it protects cannot be tried");
        return;
    }
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
    let script = "export GIT_AUTHOR_NAME=t GIT_AUTHOR_EMAIL=t GIT_COMMITTER_NAME=t \
        GIT_COMMITTER_EMAIL=t; git add lab.sh && git commit -qm one && git log --format=%s";
    assert_eq!(lab.prints("confined", script), "one\n");
    lab.place.run(&["verify"]).exit(0);
    lab.place.run(&["doctor"]).exit(0).says("bwrap protects .windlass");
}

#[test]
fn a_bwrap_that_does_not_work_is_no_reason_to_go_on_without_it() {
    let lab = Lab::new();
    let programs = lab.outside("bin");
    lab.place.write("lab.sh", "touch began");
    let path = programs.display().to_string();
    let words = ["call", "run", "lab/confined", "--new-key"];
    let broken = lab.outside("broken");
    std::fs::write(&broken, "#!/bin/bash\necho 'bwrap: not today' >&2\nexit 1\n").unwrap();
    std::fs::set_permissions(&broken, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    lab.place.settings(&format!("[helpers]\nbwrap = {broken:?}\n"));
    for _ in 0..2 {
        let outcome = lab.place.run_with("PATH", &path, &words).exit(1);
        outcome.says("[SANDBOX_UNAVAILABLE]").says("not today");
        let doctor = lab.place.run_with("PATH", &path, &["doctor"]).exit(1);
        doctor.says("bwrap: not today").says("level = \"landlock\"");
        // The same one, found on the path.
        lab.place.settings("");
        drop(std::fs::rename(&broken, programs.join("bwrap")));
    }
    assert!(!lab.place.work().join("began").exists());
}
