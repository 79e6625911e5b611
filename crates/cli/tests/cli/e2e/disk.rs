//! Disks that are full, read-only or lost, and journals that are not journals.

use std::process::Command;

use crate::e2e::sandbox::Lab;
use crate::harness::{Outcome, Place, finish};

const CALL: &[&str] = &["call", "run", "shell/run", "--key", "k", "--args"];

/// Runs the binary by way of a shell that sets things up first.
fn through(place: &Place, setup: &str, args: &[&str]) -> Outcome {
    let mut command = Command::new("bash");
    command.args(["-c", &format!("{setup}; exec \"$@\""), "bash"]);
    command.arg(env!("CARGO_BIN_EXE_windlass")).args(args);
    place.settle(&mut command);
    finish(command, &[])
}

#[test]
fn a_file_that_may_not_grow_loses_nothing() {
    let place = Place::with_project();
    let before = place.completed();
    let args = [CALL, &[r#"{"line":"echo x >> note"}"#]].concat();
    // The signal is ignored in one case and ends the process in the other.
    for (setup, exit) in [("trap '' XFSZ; ulimit -f 1", Some(1)), ("ulimit -c 0 -f 1", None)] {
        let outcome = through(&place, setup, &args);
        if exit.is_some() {
            let outcome = outcome.exit(1);
            assert!(outcome.stdout.is_empty(), "{outcome}");
            assert!(outcome.stderr.contains("[STORE_"), "{outcome}");
            outcome.warns("hint: ");
        }
        assert!(!place.work().join("note").exists(), "nothing acts that is not recorded");
        place.run(&["verify"]).exit(0);
        assert_eq!(place.ids(), [before.as_str()]);
    }
    place.run(&args).exit(0);
    assert_eq!(place.read("note"), "x\n");
    place.run(&["recover"]).exit(0);
    place.run(&["verify"]).exit(0).says("intact: 2 traces");
}

/// Runs a script with the states on a small disk of their own.
fn on_small_disk(place: &Place, script: &str) -> Outcome {
    let windlass = env!("CARGO_BIN_EXE_windlass");
    let script = format!(
        "set -u; windlass() {{ {windlass} \"$@\"; }}
         mkdir ../disk; mount -t tmpfs -o size=1m,mode=700 tmpfs ../disk || exit 77
         cp -r ~/.local/state/windlass/. ../disk/; export WINDLASS_STATE=$(realpath ../disk)
         {script}"
    );
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-root-user", "--mount", "bash", "-c", &script]);
    place.settle(&mut command);
    finish(command, &[])
}

#[test]
fn a_full_disk_is_told_and_everything_goes_on_after() {
    let place = Place::with_project();
    let outcome = on_small_disk(
        &place,
        r#"windlass call run shell/read --args '{"line":"ls"}' >/dev/null || exit 1
           head -c 2M /dev/zero > ../disk/ballast 2>/dev/null
           windlass call run shell/run --key k --args '{"line":"mkdir made"}'; echo "full $?"
           windlass init -C . ; mkdir other; windlass init -C other; echo "init $?"
           ls -d made 2>/dev/null; ls -A other
           rm ../disk/ballast
           windlass recover; echo "recover $?"
           windlass call run shell/run --key k --args '{"line":"mkdir made"}' >/dev/null; echo "call $?"
           ls -d made
           windlass verify"#,
    );
    if outcome.code == Some(77) || outcome.stderr.contains("unshare") {
        windlass_testkit::skipped("no namespaces here: the limit on a file's size has to do");
        return;
    }
    let outcome = outcome.exit(0).warns("[STORE_FULL]").warns("hint: free some space");
    assert_eq!(
        outcome.text(),
        "full 1\ninit 1\nnothing to recover\nrecover 0\ncall 0\nmade\n\
         intact: 2 traces, 8 entries, 0 corrupt\n",
        "{outcome}"
    );
}

/// What a command changes in `.git` lies on that disk until it is taken over.
#[test]
fn a_disk_that_fills_up_during_a_command_loses_nothing() {
    let lab = Lab::new();
    let outcome = on_small_disk(
        &lab.place,
        r#"export PATH=$(realpath ../bin):$PATH
           git init -q; git config user.name Ann; git config user.email ann@example.com
           git commit -q --allow-empty -m first || exit 1
           call() { windlass call run lab/confined --key $1 --json; }
           free() { df --output=avail -B1 ../disk | tail -1; }
           echo 'echo one > one && git add one && git commit -qm one' > lab.sh
           call a > ../a || { cat ../a; exit 1; }
           head -c $(( $(free) - 400000 )) /dev/zero > ../disk/ballast
           echo 'head -c 900000 /dev/urandom > big && git add big' > lab.sh
           call b | grep -o '"code":"[A-Z_]*"'
           echo 'touch ready; until [ -e filled ]; do sleep 0.05; done; git commit -q --allow-empty -m two' > lab.sh
           (until [ -e ready ]; do sleep 0.05; done; cat /dev/zero > ../disk/ballast2; touch filled) 2>/dev/null &
           call c > ../c 2>&1; echo "full $?"; grep -o '"code":"[A-Z_]*"' ../c | sed s/STORE_FULL/TOOL_FAILED/
           wait
           rm ../disk/ballast*
           git log --format=%s
           git fsck --strict 2>&1 | grep -v dangling
           windlass recover > /dev/null 2>&1
           echo 'git commit -q --allow-empty -m three' > lab.sh
           call d > /dev/null; echo "call $?"
           git log -1 --format=%s
           windlass verify | grep -o '0 corrupt'"#,
    );
    if outcome.code == Some(77) || outcome.stderr.contains("unshare") {
        windlass_testkit::skipped("no namespaces here: a small disk cannot be made");
        return;
    }
    let outcome = outcome.exit(0);
    // The room that the command's own files leave may be enough to record that it failed.
    let expected = "\"code\":\"TOOL_FAILED\"\nfull 1\n\"code\":\"TOOL_FAILED\"\none\nfirst\ncall 0\nthree\n0 corrupt\n";
    assert_eq!(outcome.text(), expected, "{outcome}");
}

#[test]
fn a_read_only_disk_is_told() {
    let place = Place::with_project();
    let outcome = on_small_disk(
        &place,
        r#"windlass call run shell/read --args '{"line":"ls"}' >/dev/null || exit 1
           mount -o remount,ro ../disk || exit 77
           windlass call run shell/run --key k --args '{"line":"mkdir made"}'; echo "call $?"
           windlass verify; echo "verify $?"
           mkdir other; windlass init -C other; echo "init $?"; ls -A other
           mount -o remount,rw ../disk
           windlass verify"#,
    );
    if outcome.code == Some(77) || outcome.stderr.contains("unshare") {
        windlass_testkit::skipped("no namespaces here: a disk cannot be made read-only");
        return;
    }
    let outcome = outcome.exit(0).warns("[STORE_READ_ONLY]").warns("hint: ");
    let outcome = outcome.warns("the journal in `").warns("a copy of it is verified");
    let outcome = outcome.says("call 1\n").says("verify 0\n").says("init 1\n");
    assert_eq!(outcome.text().matches("intact: 1 trace,").count(), 2, "{outcome}");
}

#[test]
fn a_journal_that_is_gone_is_not_begun_anew_in_silence() {
    let place = Place::with_project();
    place.completed();
    std::fs::remove_file(place.database()).unwrap();
    for words in [vec!["call", "list"], vec!["verify"], vec!["recover"], vec!["trace", "list"]] {
        place.run(&words).fails_with(1, "STORE_UNAVAILABLE").warns("hint: ").warns("windlass.db");
    }
    place.shell("shell/read", "ls", &[]).fails_with(1, "STORE_UNAVAILABLE");
    place.run(&["init"]).fails_with(2, "PROJECT_EXISTS");
    assert!(!place.database().exists());
}

#[test]
fn a_journal_that_is_something_else_is_left_as_it_is() {
    let place = Place::with_project();
    let text = "a text file, not a journal\n".repeat(50);
    std::fs::write(place.database(), &text).unwrap();
    for name in ["windlass.db-wal", "windlass.db-shm"] {
        drop(std::fs::remove_file(place.state().join(name)));
    }
    for words in [vec!["call", "list"], vec!["verify"], vec!["recover"]] {
        place.run(&words).fails_with(5, "STORE_CORRUPT").warns("hint: ");
    }
    place.shell("shell/read", "ls", &[]).fails_with(5, "STORE_CORRUPT");
    assert_eq!(std::fs::read_to_string(place.database()).unwrap(), text);
    std::fs::remove_file(place.database()).unwrap();
    std::fs::create_dir(place.database()).unwrap();
    place.run(&["verify"]).fails_with(5, "STORE_CORRUPT");
}

#[test]
fn a_journal_of_a_newer_version_is_not_touched() {
    let place = Place::with_project();
    place.completed();
    place
        .tamper()
        .execute_batch("PRAGMA user_version = 99; PRAGMA wal_checkpoint(TRUNCATE)")
        .unwrap();
    let bytes = std::fs::read(place.database()).unwrap();
    for words in [vec!["call", "list"], vec!["verify"], vec!["recover"]] {
        place.run(&words).fails_with(1, "STORE_TOO_NEW").warns("format 99").warns("hint: ");
    }
    place.shell("shell/read", "ls", &[]).fails_with(1, "STORE_TOO_NEW");
    assert_eq!(std::fs::read(place.database()).unwrap(), bytes);
}

#[test]
fn a_journal_whose_pages_are_damaged_is_found() {
    let place = Place::with_project();
    for _ in 0..3 {
        place.completed();
    }
    place.tamper().execute_batch("PRAGMA wal_checkpoint(TRUNCATE)").unwrap();
    let mut bytes = std::fs::read(place.database()).unwrap();
    for byte in bytes.iter_mut().skip(4096) {
        *byte ^= 0x5a;
    }
    std::fs::write(place.database(), bytes).unwrap();
    let outcome = place.run(&["verify"]);
    assert_eq!(outcome.code, Some(5), "{outcome}");
    place.shell("shell/read", "ls", &[]).exit(5);
}

#[test]
fn a_run_that_has_no_folder_for_temporary_files_does_not_begin() {
    let repo = crate::world::Repo::new();
    let args = ["run", "one", "--agent", "person"];
    // Nobody can make a folder there, whoever runs the tests.
    let refused = repo.place.run_with("TMPDIR", "/proc", &args);
    refused.fails_with(1, "FILE_UNWRITABLE").warns("/proc").warns("TMPDIR");
    assert_eq!(repo.traces(), 0);
}
