//! Gates measure what agents cannot edit, in real cells.

use serde_json::json;

use crate::harness::Outcome;
use crate::world::{Repo, build, escalating, id_of, sh, trace_of};

/// Passes if the work is good.
const SCRIPT: &str = "#!/bin/sh\ngrep -q good work.txt\n";

/// A repository with a script, and a gate after the phase `build`.
fn gated(tool: &str) -> Repo {
    let repo = Repo::new();
    let script = repo.write("scripts/check.sh", SCRIPT);
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(script, mode).unwrap();
    repo.write("scripts/other.sh", "exit 1\n");
    repo.write("notes/a.txt", "a\n");
    repo.write(
        ".windlass/policy/governance/ours.toml",
        format!(
            "level = \"project\"\n[[gate]]\nid = \"ours\"\nphases = [\"build\"]\non_failure = \"block\"\n\
             remediation = \"do it well\"\ntool = {tool}\n"
        ),
    );
    repo.write(".windlass/loops/made.md", MADE);
    repo.write(".windlass/loops/checked.md", checked());
    repo.commit("a gate");
    repo
}

/// Takes lines of a shell through the loop `made`.
fn built(repo: &Repo, lines: &[&str], more: &[&str]) -> Outcome {
    let line = lines.join(" && ");
    repo.windlass(&[&["run", &line, "--json", "--by", "ada", "--loop", "made"][..], more].concat())
}

/// A loop whose work is the task itself: no policy judges it, and the cell is the only lock.
const MADE: &str = r#"---
id: made
title: Made
type: loop
category: test
version: "1"
on_restart: resume
require: [repo]
phases:
  - id: build
    doer: { command: [sh, -c, 'eval "$(sed -n ''s/.*"task":{"task":"\([^"]*\)".*/\1/p'')" && echo {}'] }
  - { id: save, needs: [build], doer: { builtin: commit } }
---
"#;

#[track_caller]
fn is_blocked(outcome: Outcome, why: &str) {
    let run = outcome.exit(3).json();
    assert_eq!(run["outcome"], "BLOCKED", "{run}");
    assert!(run.to_string().contains(why), "{why}: {run}");
}

const BAD: &str = "echo bad > work.txt";
const GOOD: &str = "echo good > work.txt";

#[test]
fn an_edited_script_does_not_let_a_gate_pass() {
    let ways = [
        "echo 'exit 0' > scripts/check.sh",
        "echo 'exit 0' > x && chmod +x x && mv x scripts/check.sh",
        "sed -i 's/grep.*/true/' scripts/check.sh",
    ];
    for tool in [
        r#"{ command = ["sh", "scripts/check.sh"] }"#,
        r#"{ command = ["scripts/check.sh"] }"#,
        r#"{ command = ["sh", "-c", "sh scripts/check.sh"] }"#,
        r#"{ command = ["bash", "-c", "cd scripts && cd .. && ./scripts/check.sh"] }"#,
        r#"{ command = ["sh", "-c", "x=scripts; sh $x/check.sh"], pinned = ["scripts"] }"#,
    ] {
        let repo = gated(tool);
        for way in ways {
            is_blocked(built(&repo, &[BAD, way], &["--worktree"]), "do it well");
        }
        is_blocked(built(&repo, &[BAD, ways[0]], &[]), "exited with 1");
        repo.git(&["checkout", "--quiet", "."]);
        repo.git(&["clean", "-qfd"]);
        // Good work passes, whatever became of the script.
        built(&repo, &[GOOD, "echo 'exit 1' > scripts/check.sh"], &["--worktree"]).exit(0);
    }
}

#[test]
fn a_pinned_file_that_is_gone_or_led_elsewhere_fails_the_gate() {
    for (tool, line, why) in [
        ("{ command = [\"sh\", \"scripts/check.sh\"] }", "rm scripts/check.sh", "was removed"),
        (
            "{ command = [\"sh\", \"scripts/check.sh\"] }",
            "mv scripts old && mkdir evil && echo 'exit 0' > evil/check.sh && ln -s evil scripts",
            "a folder on the way to it is no longer a plain folder",
        ),
        (
            "{ command = [\"sh\", \"scripts/check.sh\"] }",
            "echo 'exit 0' > evil.sh && ln -sf ../evil.sh scripts/check.sh",
            "`scripts/check.sh` was a file and was replaced",
        ),
        (
            "{ command = [\"sh\", \"scripts/check.sh\"] }",
            "rm scripts/check.sh && mkdir scripts/check.sh",
            "`scripts/check.sh` was a file and was replaced",
        ),
        (
            "{ command = [\"sh\", \"-c\", \"true\"], pinned = [\"scripts\"] }",
            "rm -r scripts && echo x > scripts",
            "`scripts` was a folder and was replaced",
        ),
    ] {
        let repo = gated(tool);
        is_blocked(built(&repo, &[GOOD, line], &[]), why);
        repo.is_whole();
    }
}

#[test]
fn a_pinned_folder_is_what_it_was() {
    // A new file is not there, a removed one is, and what the gate writes is lost.
    let repo = gated(
        r#"{ command = ["sh", "-c", "test -x scripts/check.sh && test ! -e scripts/new && test -e scripts/other.sh && echo x > scripts/left && rm scripts/other.sh && chmod 0 scripts"], pinned = ["scripts"] }"#,
    );
    let lines = ["chmod -x scripts/check.sh", "touch scripts/new", "rm scripts/other.sh"];
    let run = built(&repo, &lines, &[]).exit(0).json();
    assert_eq!(run["outcome"], "PASS");
    assert_eq!(
        repo.git(&["ls-tree", "--name-only", "HEAD", "scripts/"]),
        "scripts/check.sh\nscripts/new"
    );
    assert_eq!(repo.status(), "");
    let left = std::fs::read_dir(repo.place.state().join("cells")).unwrap().flatten();
    let left = left.filter(|entry| entry.file_name().to_string_lossy().starts_with("pinned-"));
    assert_eq!(left.count(), 0);
}

#[test]
fn what_is_measured_is_not_pinned_and_an_empty_list_pins_nothing() {
    let repo = gated(r#"{ command = ["sh", "scripts/check.sh"], pinned = [] }"#);
    built(&repo, &[BAD, "echo 'exit 0' > scripts/check.sh"], &[]).exit(0);
    // Folders of sources, and files that are neither run nor tests, are what a command measures.
    let repo = gated(r#"{ command = ["grep", "-rq", "new", "notes", "README.md"] }"#);
    built(&repo, &["echo new > notes/b.txt"], &["--worktree"]).exit(0);
    built(&repo, &["echo new > README.md"], &["--worktree"]).exit(0);
}

#[test]
fn links_of_the_base_are_followed_and_must_stay() {
    let tool = "{ command = [\"sh\", \"run/check.sh\"] }";
    for (line, why) in [
        ("echo 'exit 0' > scripts/check.sh", "do it well"),
        (
            "mkdir evil && echo 'exit 0' > evil/check.sh && ln -sfn evil run",
            "`run` was a symbolic link",
        ),
        ("rm run && mkdir run && echo 'exit 0' > run/check.sh", "`run` was a symbolic link"),
    ] {
        let repo = gated(tool);
        std::os::unix::fs::symlink("scripts", repo.root().join("run")).unwrap();
        repo.commit("a link");
        is_blocked(built(&repo, &[BAD, line], &[]), why);
    }
}

#[test]
fn without_namespaces_a_changed_pinned_file_fails_the_gate() {
    let repo = gated(r#"{ command = ["sh", "scripts/check.sh"] }"#);
    repo.place.settings("[sandbox]\nlevel = \"landlock\"\n");
    built(&repo, &[GOOD], &["--worktree"]).exit(0);
    let changed = built(&repo, &[GOOD, "echo '# x' >> scripts/check.sh"], &["--worktree"]);
    is_blocked(changed, "`scripts/check.sh` is not what it was when the run started");
}

#[test]
fn what_cannot_be_pinned_refuses_the_start() {
    let repo = gated(r#"{ command = ["true"], pinned = ["scripts/gone.sh"] }"#);
    for more in [&[][..], &["--worktree"]] {
        let refused = built(&repo, &[GOOD], more).exit(3);
        assert_eq!(refused.error()["code"], "PINNED_UNAVAILABLE");
        refused.warns("`scripts/gone.sh` is not in the commit from which the run started");
    }
    assert_eq!(repo.traces(), 0);
    for bad in ["../x", "/etc", "scripts/*.sh", "a//b", ".git/hooks"] {
        let repo = gated(&format!(r#"{{ command = ["true"], pinned = ["{bad}"] }}"#));
        repo.windlass(&["policy", "check"])
            .fails_with(2, "GOVERNANCE_INVALID")
            .warns("cannot be pinned");
    }
    // Without a repository there is nothing to take files from.
    let place = crate::harness::Place::with_project();
    place.write("scripts/check.sh", SCRIPT);
    place.write(".windlass/loops/checked.md", checked().replace("require: [repo]\n", ""));
    let refused = place.run(&["run", "x", "--loop", "checked", "--json"]).exit(3);
    assert_eq!(refused.error()["code"], "PINNED_UNAVAILABLE");
    refused.warns("is not a git repository");
}

/// The loop `made` with a check instead of a commit.
fn checked() -> String {
    let check = "    checks:\n      - id: script\n        at: after\n        doer: { command: [sh, -c, \". ./scripts/check.sh\"] }\n        \
                 pinned: [scripts]\n        verdicts: { pass: continue, fail: block }\n";
    let save = "  - { id: save, needs: [build], doer: { builtin: commit } }\n";
    MADE.replace("id: made", "id: checked").replace(save, check)
}

#[test]
fn a_check_of_a_phase_gets_pinned_files_too() {
    let repo = gated(r#"{ command = ["true"] }"#);
    let run = |lines: &[&str]| {
        let line = lines.join(" && ");
        repo.windlass(&["run", &line, "--json", "--worktree", "--loop", "checked"])
    };
    run(&[GOOD, "echo 'exit 1' > scripts/check.sh"]).exit(0);
    is_blocked(run(&[BAD, "echo 'exit 0' > scripts/check.sh"]), "script_fail");
    is_blocked(
        run(&[GOOD, "rm -r scripts"]),
        "[PINNED_UNAVAILABLE] `scripts` was a folder and was removed",
    );
}

#[test]
fn changed_tests_and_scripts_are_listed_for_the_person() {
    let repo = gated(r#"{ command = ["true"] }"#);
    let mut waits = escalating();
    let line = "echo x > latest.txt; mkdir tests; echo x > tests/b.rs; echo x >> scripts/other.sh";
    waits["phases"]["build"] = json!([build(&[sh(line)])]);
    let held = repo.run(&waits).exit(4);
    let id = id_of(&held);
    let listed = json!(["scripts/other.sh", "tests/b.rs"]);
    assert_eq!(held.json()["changed_tests_and_scripts"], listed);
    let shown = repo.windlass(&["queue", "show", &id, "--json"]).exit(0).json();
    assert_eq!(shown["changed_tests_and_scripts"], listed);
    repo.windlass(&["queue", "show", &id])
        .exit(0)
        .says("changed tests and scripts\n    scripts/other.sh\n    tests/b.rs\n");
    let packets = repo.artifacts();
    let packet = packets.iter().find(|name| name.starts_with("checkpoints/CP_")).unwrap();
    let packet = repo.artifact(packet);
    assert!(packet.contains("changed_tests_and_scripts:\n"), "{packet}");
    assert!(packet.contains("tests/b.rs") && !packet.contains("latest"), "{packet}");
    repo.approve(&id).exit(0);
    repo.windlass(&["status", &id])
        .exit(0)
        .says("changed tests and scripts\n    scripts/other.sh\n");
    let end = repo.artifacts().into_iter().find(|name| name.starts_with("terminal/")).unwrap();
    assert!(repo.artifact(&end).contains("changed_tests_and_scripts:"));
    let kinds = repo.counts(&trace_of(&held));
    assert_eq!(kinds["commit_prepared"], 1);
}
