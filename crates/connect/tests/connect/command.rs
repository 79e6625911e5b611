//! Commands, with real processes.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use windlass_connect::{Certainty, Connect, Connectors, Job, Limits, Outputs, Reply, Target};
use windlass_kernel::{Code, Digest};

use crate::common::{self, PATIENT, eventually, failure, is_alive, success};

fn argv(argv: &[&str], cwd: &Path) -> Target {
    Target::Command {
        argv: argv.iter().map(|&word| word.to_owned()).collect(),
        stdin: None,
        env: BTreeMap::new(),
        cwd: cwd.to_owned(),
    }
}

fn run(target: &Target, limits: Limits) -> Reply {
    let args = json!({});
    Connectors::new().perform(&Job { limits, ..common::job(target, "", &args) })
}

fn sh(script: &str, cwd: &Path, limits: Limits) -> Reply {
    run(&argv(&["/bin/sh", "-c", script], cwd), limits)
}

fn exited(code: i32, stdout: &str, stderr: &str) -> Value {
    json!({ "exit_code": code, "signal": null, "stdout": stdout, "stderr": stderr })
}

#[test]
fn output_and_exit_are_reported() {
    let reply = sh("printf one; printf two >&2", Path::new("/"), PATIENT);
    assert_eq!(success(reply), exited(0, "one", "two"));
}

#[test]
fn no_shell_is_added() {
    let reply = run(&argv(&["printf", "%s|", "$HOME", "*", ";"], Path::new("/")), PATIENT);
    assert_eq!(success(reply), exited(0, "$HOME|*|;|", ""));
}

#[test]
fn a_bad_exit_is_the_tools_own_failure() {
    let reply = sh("echo no >&2; exit 7", Path::new("/"), PATIENT);
    let (message, result) = failure(reply, Code::ToolFailed, Certainty::Ran);
    assert!(message.contains("status 7"), "{message}");
    assert_eq!(result, Some(exited(7, "", "no\n")));
}

#[test]
fn a_signal_is_reported() {
    let reply = sh("kill -USR1 $$", Path::new("/"), PATIENT);
    let (_, result) = failure(reply, Code::ToolFailed, Certainty::Ran);
    let expected = json!({ "exit_code": null, "signal": 10, "stdout": "", "stderr": "" });
    assert_eq!(result, Some(expected));
}

#[test]
fn out_of_time_kills_children_that_ignore_the_request() {
    let dir = tempfile::tempdir().unwrap();
    let script = "trap '' TERM
        sh -c 'echo $$ > child; exec sleep 1000' &
        echo $$ > leader; echo ready; wait; wait";
    let limits = Limits { timeout: Duration::from_secs(3), ..PATIENT };
    let reply = sh(script, dir.path(), limits);
    let (message, result) = failure(reply, Code::ToolTimeout, Certainty::Unknown);
    assert!(message.contains("3000 ms"), "{message}");
    let expected = json!({ "exit_code": null, "signal": 9, "stdout": "ready\n", "stderr": "" });
    assert_eq!(result, Some(expected));
    let pid = |name| std::fs::read_to_string(dir.path().join(name)).unwrap().trim().to_owned();
    assert!(!Path::new("/proc").join(pid("leader")).exists(), "not reaped");
    let child = pid("child");
    eventually("the grandchild is dead", || !is_alive(&child));
}

#[test]
fn out_of_time_is_asked_to_end_first() {
    let script = "trap 'echo asked; exit 0' TERM; echo ready; while :; do sleep 0.1; done";
    let limits = Limits { timeout: Duration::from_secs(3), ..PATIENT };
    let reply = sh(script, Path::new("/"), limits);
    let (_, result) = failure(reply, Code::ToolTimeout, Certainty::Unknown);
    assert_eq!(result.unwrap()["stdout"], "ready\nasked\n");
}

#[test]
fn too_much_output_is_refused() {
    let limits = Limits { output_bytes_max: 1000, ..PATIENT };
    for (script, stream) in [("yes", "stdout"), ("yes >&2", "stderr")] {
        let reply = sh(script, Path::new("/"), limits);
        let (message, result) = failure(reply, Code::ToolOutputTooLarge, Certainty::Unknown);
        assert!(message.contains(stream) && result.is_none(), "{message}");
    }
    let fits = sh("head -c 1000 /dev/zero | tr '\\0' x", Path::new("/"), limits);
    assert_eq!(success(fits)["stdout"], "x".repeat(1000));
    let exceeds = sh("head -c 1001 /dev/zero | tr '\\0' x", Path::new("/"), limits);
    failure(exceeds, Code::ToolOutputTooLarge, Certainty::Unknown);
}

/// Keeps outputs in memory, and takes the word `secret` out.
#[derive(Default)]
struct InMemory(Mutex<Vec<String>>);

impl Outputs for InMemory {
    fn redact(&self, text: &mut String) {
        *text = text.replace("secret", "******");
    }

    fn keep(&self, text: &str) -> Result<Digest, String> {
        if text.contains("unkept") {
            return Err("the disk is full".to_owned());
        }
        self.0.lock().unwrap().push(text.to_owned());
        Ok(Digest::of(text.as_bytes()))
    }
}

#[test]
fn too_much_output_is_cut_where_the_whole_is_kept() {
    let kept = Arc::new(InMemory::default());
    let connectors = Connectors::new();
    connectors.keep_outputs(Arc::clone(&kept) as Arc<dyn Outputs>);
    let limits = Limits { output_bytes_max: 1000, ..PATIENT };
    let run = |script: &str| {
        let target = argv(&["/bin/sh", "-c", script], Path::new("/"));
        connectors.perform(&Job { limits, ..common::job(&target, "", &json!({})) })
    };
    let result = success(run("seq 100000; echo secret; seq 10 >&2"));
    let stdout = result["stdout"].as_str().unwrap();
    assert!(stdout.starts_with("1\n2\n3\n") && stdout.ends_with("\n100000\n******\n"), "{stdout}");
    assert!(stdout.contains("bytes left out") && stdout.len() < 1100, "{stdout}");
    let whole: String =
        (1..=100_000).map(|n| format!("{n}\n")).chain(["******\n".into()]).collect();
    assert_eq!(kept.0.lock().unwrap().as_slice(), std::slice::from_ref(&whole));
    let cut = json!({"stdout": {"bytes": whole.len(), "kept": Digest::of(whole.as_bytes())}});
    assert_eq!(
        (&result["cut"], &result["stderr"]),
        (&cut, &json!("1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n"))
    );
    // A failure is the command's own, and the record says so if nothing more is kept.
    let (_, result) =
        failure(run("yes unkept | head -1000 >&2; exit 7"), Code::ToolFailed, Certainty::Ran);
    let result = result.unwrap();
    assert_eq!((&result["exit_code"], &result["stdout"]), (&json!(7), &json!("")));
    assert_eq!(result["cut"], json!({"stderr": {"bytes": 7000, "not_kept": "the disk is full"}}));
    // What fits is recorded as ever, to the last byte.
    let fits = success(run("head -c 1000 /dev/zero | tr '\\0' x"));
    assert_eq!((&fits["stdout"], fits.get("cut")), (&json!("x".repeat(1000)), None));
    // One that never ends is ended by its time, and only so much of it is kept.
    let limits = Limits { timeout: Duration::from_secs(2), ..limits };
    let target = argv(&["yes"], Path::new("/"));
    let endless = connectors.perform(&Job { limits, ..common::job(&target, "", &json!({})) });
    let (_, result) = failure(endless, Code::ToolTimeout, Certainty::Unknown);
    let result = result.unwrap();
    let cut = &result["cut"]["stdout"];
    assert!(cut["kept"].is_string() && cut["bytes"].as_u64() > Some(2000), "{cut}");
    if cut["kept_bytes"].is_u64() {
        assert!(
            result["stdout"]
                .as_str()
                .unwrap()
                .ends_with("[… more was printed, which nobody kept …]\n")
        );
    }
}

#[test]
fn input_is_given_whole_or_not_at_all() {
    let text = "line\n".repeat(100_000);
    let mut target = argv(&["cat"], Path::new("/"));
    let Target::Command { stdin, .. } = &mut target else { panic!() };
    *stdin = Some(text.clone());
    assert_eq!(success(run(&target, PATIENT))["stdout"], text);
    // A command that does not read its input does not fail.
    let Target::Command { argv, .. } = &mut target else { panic!() };
    *argv = vec!["true".to_owned()];
    assert_eq!(success(run(&target, PATIENT)), exited(0, "", ""));
    assert_eq!(success(sh("cat", Path::new("/"), PATIENT)), exited(0, "", ""));
}

#[test]
fn the_environment_is_clean() {
    let mut target = argv(&["env"], Path::new("/"));
    let Target::Command { env, .. } = &mut target else { panic!() };
    env.insert("WANTED".to_owned(), "yes".to_owned());
    env.insert("HOME".to_owned(), "/nowhere".to_owned());
    let result = success(run(&target, PATIENT));
    let lines: Vec<_> = result["stdout"].as_str().unwrap().lines().collect();
    assert!(lines.contains(&"WANTED=yes") && lines.contains(&"HOME=/nowhere"), "{lines:?}");
    // Cargo sets many for a test. Toolchain variables are passed on.
    assert!(std::env::vars().any(|(name, _)| name.starts_with("CARGO_PKG_")));
    for line in lines {
        let name = line.split('=').next().unwrap();
        let known = ["PATH", "HOME", "LANG", "TMPDIR", "USER", "WANTED"].contains(&name);
        let place = windlass_cell::TOOLCHAIN_VARIABLES.contains(&name);
        assert!(known || place || name.starts_with("LC_"), "{line}");
    }
}

#[test]
fn nothing_of_ours_is_open_in_the_child() {
    let ours = tempfile::NamedTempFile::new().unwrap();
    let result = success(run(&argv(&["ls", "-l", "/proc/self/fd"], Path::new("/")), PATIENT));
    let list = result["stdout"].as_str().unwrap();
    let name = ours.path().file_name().unwrap().to_str().unwrap();
    assert!(list.contains("/proc/") && !list.contains(name), "{list}");
}

#[test]
fn it_runs_where_it_should() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().canonicalize().unwrap();
    let result = success(run(&argv(&["pwd"], &path), PATIENT));
    assert_eq!(result["stdout"], format!("{}\n", path.display()));
}

#[test]
fn what_cannot_start_did_not_run() {
    let root = Path::new("/");
    for (target, part) in [
        (argv(&["/no/such/program"], root), "/no/such/program"),
        (argv(&["no-such-program-anywhere"], root), "no-such-program-anywhere"),
        (argv(&["true"], Path::new("/no/such/directory")), "/no/such/directory"),
        (argv(&[], root), "empty"),
        (argv(&["/etc/passwd"], root), "/etc/passwd"),
        (argv(&["true", "nul\0byte"], root), "nul"),
    ] {
        let reply = run(&target, PATIENT);
        let (message, _) = failure(reply, Code::ToolServerUnavailable, Certainty::DidNotRun);
        assert!(message.contains(part), "{message}");
    }
}

#[test]
fn a_grandchild_that_keeps_the_stream_open_is_killed() {
    let dir = tempfile::tempdir().unwrap();
    let reply = sh("sleep 1000 & echo $! > child; echo done", dir.path(), PATIENT);
    assert_eq!(success(reply), exited(0, "done\n", ""));
    let child = std::fs::read_to_string(dir.path().join("child")).unwrap();
    eventually("the grandchild is dead", || !is_alive(child.trim()));
}

#[test]
fn a_grandchild_that_left_the_group_does_not_hold_us_up() {
    let dir = tempfile::tempdir().unwrap();
    let script = "setsid sh -c 'echo $$ > child; echo up; exec sleep 1000' & 
        while ! test -s child; do sleep 0.01; done; exit 3";
    let reply = sh(script, dir.path(), PATIENT);
    let (_, result) = failure(reply, Code::ToolFailed, Certainty::Ran);
    assert_eq!(result.unwrap()["exit_code"], 3);
    let child = std::fs::read_to_string(dir.path().join("child")).unwrap();
    let killed = std::process::Command::new("kill").arg(child.trim()).status().unwrap();
    assert!(killed.success(), "it was to be alive");
}

#[test]
fn what_is_not_utf8_is_flagged() {
    let result = success(sh("printf 'a\\377b'", Path::new("/"), PATIENT));
    let expected = json!({
        "exit_code": 0, "signal": null, "stdout": "a\u{fffd}b", "stderr": "", "lossy": true
    });
    assert_eq!(result, expected);
}
