//! Cells on machines that do not let Windlass make them, or that are cells themselves: refused with a code and a
//! next step, or made by `bwrap`. Nothing runs free.

use std::os::unix::fs::lchown;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use windlass_testkit::example_binary;

use crate::e2e::sandbox::Lab;
use crate::harness::{Outcome, finish};

const CALL: [&str; 5] = ["call", "run", "lab/confined", "--new-key", "--json"];
/// A user without any right.
const NOBODY: u32 = 65534;

/// Runs the binary on a machine that forbids something.
fn on(lab: &Lab, machine: &str, words: &[&str]) -> Outcome {
    let mut command = Command::new(example_binary("forbid"));
    command.arg(machine).arg(env!("CARGO_BIN_EXE_windlass")).args(words);
    lab.place.settle(&mut command);
    lab.equip(&mut command);
    finish(command, &[])
}

/// Runs a script there.
fn call(lab: &Lab, machine: &str, script: &str) -> Outcome {
    lab.place.write("lab.sh", script);
    on(lab, machine, &CALL)
}

/// Runs a script that must not begin; returns why.
#[track_caller]
fn refused(lab: &Lab, machine: &str) -> String {
    let report = call(lab, machine, "touch began").exit(1).json();
    not_begun(lab, &report)
}

#[track_caller]
fn not_begun(lab: &Lab, report: &Value) -> String {
    assert_eq!(report["error"]["code"], "SANDBOX_UNAVAILABLE", "{report}");
    assert_eq!(report["error"]["may_have_run"], false, "{report}");
    assert!(!lab.place.work().join("began").exists());
    report["error"]["message"].as_str().unwrap().to_owned()
}

#[track_caller]
fn sandbox_check(outcome: &Outcome) -> Value {
    let all = outcome.json();
    let found = all.as_array().unwrap().iter().find(|check| check["name"] == "sandbox");
    found.unwrap().clone()
}

fn git(folder: &Path, words: &[&str]) {
    let mut git = Command::new("git");
    git.args(["-c", "user.name=Ann", "-c", "user.email=ann@example.com"]).args(words);
    assert!(git.current_dir(folder).status().unwrap().success(), "git {words:?}");
}

#[test]
fn where_only_bwrap_may_make_namespaces_it_makes_the_cell() {
    let lab = Lab::new();
    git(&lab.place.work(), &["init", "-q"]);
    git(&lab.place.work(), &["commit", "-q", "--allow-empty", "-m", "first"]);
    lab.place.write(".env", "TOKEN=s3cret\n");
    let script = "echo one > made; cat made .env; git log --format=%s; \
        for refused in 'cat ../home/precious' 'touch .windlass/x' 'touch .git/x' 'git commit --allow-empty -m x' \
            'mount -t tmpfs none /tmp' 'unshare -U true' 'touch /usr/x'; do \
            sh -c \"$refused\" >/dev/null 2>&1 && echo \"$refused\"; done; \
        (setsid sh -c 'while :; do echo x >> ticks; sleep 0.05; done' &); sleep 0.3";
    let report = call(&lab, "unshare", script).exit(0).json();
    let printed = report["result"]["stdout"].as_str().unwrap();
    assert_eq!(printed, "one\nfirst\n", "{report}");
    let size = || std::fs::metadata(lab.place.work().join("ticks")).unwrap().len();
    let before = size();
    std::thread::sleep(std::time::Duration::from_millis(300));
    assert_eq!(size(), before, "nothing outlives its call");
    let check = sandbox_check(&on(&lab, "unshare", &["doctor", "--json"]).exit(0));
    assert_eq!(check["verdict"], "warn", "{check}");
    on(&lab, "unshare", &["doctor"])
        .exit(0)
        .says("full, by /usr/bin/bwrap")
        .says("cannot change `.git` or caches")
        .says("    profile windlass ");
}

#[test]
fn where_nobody_makes_namespaces_nothing_runs() {
    let lab = Lab::new();
    let why = refused(&lab, "namespaces");
    assert!(why.contains("the kernel makes no namespaces") && why.contains("bwrap"), "{why}");
    let doctor = on(&lab, "namespaces", &["doctor"]).exit(1).says("[SANDBOX_UNAVAILABLE]");
    doctor.says("/etc/apparmor.d/windlass").says("\n    abi <abi/4.0>,\n").says("--security-opt");
    let check = sandbox_check(&on(&lab, "namespaces", &["doctor", "--json"]).exit(1));
    assert_eq!(check["verdict"], "bad", "{check}");
    assert!(check["advice"].as_str().unwrap().contains("{ userns, }"), "{check}");
    // A `bwrap` that the user names and that is not there, or that others can write, is not used.
    lab.place.settings("[helpers]\nbwrap = \"/no/such/bwrap\"\n");
    let why = refused(&lab, "unshare");
    assert!(why.contains("/no/such/bwrap"), "{why}");
    let program = lab.outside("bwrap");
    std::fs::copy("/usr/bin/bwrap", &program).unwrap();
    std::fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o777))
        .unwrap();
    lab.place.settings(&format!("[helpers]\nbwrap = \"{}\"\n", program.display()));
    let why = refused(&lab, "unshare");
    assert!(why.contains("others can write"), "{why}");
    // The weaker level, chosen by the user, works there.
    lab.place.settings("[sandbox]\nlevel = \"landlock\"\n");
    call(&lab, "namespaces", "echo x > made").exit(0);
}

#[test]
fn on_an_old_kernel_nothing_runs() {
    let lab = Lab::new();
    let why = refused(&lab, "landlock");
    assert!(why.contains("no Landlock"), "{why}");
    on(&lab, "landlock", &["doctor"]).exit(1).says("no Landlock").says("older than 5.13");
    lab.place.settings("[sandbox]\nlevel = \"landlock\"\n");
    assert!(refused(&lab, "landlock").contains("no Landlock"));
}

#[test]
fn in_a_container_that_hides_parts_of_proc_nothing_runs() {
    let lab = Lab::new();
    lab.place.write("lab.sh", "touch began");
    let windlass = env!("CARGO_BIN_EXE_windlass");
    let script = format!("mount -t tmpfs none /proc/sys && exec {windlass} {}", CALL.join(" "));
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-root-user", "--mount", "bash", "-c", &script]);
    lab.place.settle(&mut command);
    lab.equip(&mut command);
    let report = finish(command, &[]).exit(1).json();
    let why = not_begun(&lab, &report);
    assert!(why.contains("cannot mount `/proc`"), "{why}");
}

#[test]
fn inside_a_cell_windlass_says_so() {
    let lab = Lab::new();
    std::fs::copy(env!("CARGO_BIN_EXE_windlass"), lab.place.work().join("windlass")).unwrap();
    let script = "for words in 'call run lab/free --new-key' 'verify' 'recover'; do \
        ./windlass $words 2>&1; echo $?; done; ./windlass doctor; echo $?";
    for printed in [
        lab.prints("confined", script),
        call(&lab, "unshare", script).exit(0).json()["result"]["stdout"].to_string(),
    ] {
        let says = |text: &str| printed.matches(text).count();
        assert!(says("this is inside a cell of Windlass") >= 6, "{printed}");
        assert_eq!(says("hint: run Windlass outside of it"), 3, "{printed}");
        assert!(says("[SANDBOX_UNAVAILABLE]") >= 6 && says("apparmor") == 0, "{printed}");
    }
}

/// Gives a tree to a user.
fn give(path: &Path, user: u32) {
    lchown(path, Some(user), Some(user)).unwrap();
    if path.symlink_metadata().unwrap().is_dir() {
        for entry in std::fs::read_dir(path).unwrap() {
            give(&entry.unwrap().path(), user);
        }
    }
}

#[test]
fn an_ordinary_user_has_cells_too() {
    if !rustix::process::getuid().is_root() {
        windlass_testkit::skipped("all tests run as an ordinary user");
        return;
    }
    let lab = Lab::new();
    for (name, from) in [
        ("windlass", Path::new(env!("CARGO_BIN_EXE_windlass"))),
        ("forbid", &example_binary("forbid")),
    ] {
        std::fs::copy(from, lab.outside(name)).unwrap();
    }
    lab.place.write("lab.sh", "id -u; echo x > made; cat ../home/precious || echo none");
    give(lab.place.base(), NOBODY);
    let own = vec![lab.outside("windlass")];
    let by_bwrap = vec![lab.outside("forbid"), "unshare".into(), lab.outside("windlass")];
    for words in [own, by_bwrap] {
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).args(CALL).uid(NOBODY).gid(NOBODY);
        lab.place.settle(&mut command);
        lab.equip(&mut command);
        let report = finish(command, &[]).exit(0).json();
        assert_eq!(report["result"]["stdout"], "65534\nnone\n", "{report}");
    }
}

#[test]
fn a_git_that_is_missing_is_named_with_what_to_do() {
    let lab = Lab::with("[helpers]\ngit = \"/no/such/git\"\n");
    lab.place.run(&["doctor"]).says("/no/such/git");
    let run = lab.place.run(&["run", "raise the price"]);
    run.fails_with(1, "HELPER_MISSING").warns("/no/such/git").warns("hint: install the program");
}

#[test]
fn a_submodule_cannot_be_pointed_elsewhere() {
    let lab = Lab::new();
    let library = lab.outside("library");
    std::fs::create_dir(&library).unwrap();
    git(&library, &["init", "-q"]);
    git(&library, &["commit", "-q", "--allow-empty", "-m", "library"]);
    let work = lab.place.work();
    git(&work, &["init", "-q"]);
    let source = library.to_str().unwrap();
    git(
        &work,
        &["-c", "protocol.file.allow=always", "submodule", "--quiet", "add", source, "sub/lib"],
    );
    let link = lab.place.read("sub/lib/.git");
    let complaint = lab.fails("confined", "echo 'gitdir: /tmp/evil' > sub/lib/.git");
    assert!(complaint.contains("Read-only"), "{complaint}");
    let script = "mv sub moved && mkdir -p sub/lib && echo 'gitdir: evil' > sub/lib/.git";
    let report = lab.call("confined", script).exit(1).json();
    assert_eq!(report["error"]["code"], "PROTECTED_PATH_CHANGED", "{report}");
    assert!(report["error"]["message"].as_str().unwrap().contains("sub/lib/.git"), "{report}");
    // What was there is there again.
    assert_eq!(lab.place.read("sub/lib/.git"), link);
    assert_eq!(lab.place.read("moved/lib/.git"), link);
}
