//! One way to meet each code of runs by the binary alone.

use serde_json::json;
use windlass_kernel::Code;

use crate::e2e::scenarios::Scenario;
use crate::harness::{Outcome, Place};
use crate::world::{Repo, UNTIL_GO, VOICE, answers, build, escalating, id_of, passing, review, sh};

const LIST: &str = "### P0\n- [ ] **A** — DoD: b — Owner: c\n";

/// A run that waits, and its name.
fn held(repo: Repo, more: &[&str]) -> (Repo, String) {
    let id = id_of(&repo.run_with(&escalating(), more).exit(4));
    (repo, id)
}

/// A repository with settings of work trees.
fn with_worktree(settings: &str) -> Repo {
    let repo = Repo::new();
    repo.place.append(".windlass/config.toml", &format!("\n[worktree]\n{settings}\n"));
    repo.commit("settings");
    repo.place.trust();
    repo
}

fn approve(repo: &Repo, id: &str) -> Outcome {
    repo.windlass(&[&["queue", "approve", id][..], &VOICE].concat())
}

/// A run that waits for a person who has approved, whose packet is made another.
fn with_packet(edit: fn(String) -> String) -> Outcome {
    let (repo, id) = held(Repo::new(), &[]);
    approve(&repo, &id).exit(0);
    let path = format!(".windlass/artifacts/checkpoints/CP_{id}_4.yaml");
    repo.write(&path, edit(repo.read(&path)));
    repo.windlass(&["resume", &id])
}

fn changed_meanwhile() -> Outcome {
    let repo = Repo::new();
    repo.write("BACKLOG.md", LIST);
    repo.commit("a backlog");
    let path = repo.answers(&escalating());
    let line = ["backlog", "run", "--worktree", "--json", "--answers", &path];
    let id = id_of(&repo.windlass(&line).exit(4));
    repo.write("BACKLOG.md", LIST.replace("DoD: b", "DoD: more"));
    repo.commit("edited meanwhile");
    repo.windlass(&[&["queue", "approve", &id, "--resume"][..], &VOICE].concat())
}

fn concurrent() -> Outcome {
    let repo = Repo::new();
    let slow = build(&[sh(UNTIL_GO)]);
    let path = repo.answers(&answers(&[slow], &[review("approved")]));
    let child = repo.place.command(&["run", "one", "--answers", &path]).spawn().unwrap();
    repo.until_begun();
    let second = repo.windlass(&["run", "two", "--answers", &path]);
    repo.go();
    assert!(child.wait_with_output().unwrap().status.success());
    second
}

/// The last call of a run whose calls are broken off.
fn broken_off(calls: &[serde_json::Value]) -> Outcome {
    let repo = Repo::new();
    drop(repo.run(&answers(&[build(calls)], &[review("approved")])));
    let list = repo.windlass(&["call", "list", "--json"]).exit(0).json();
    let id = list[0]["trace_id"].as_str().unwrap().to_owned();
    repo.windlass(&["recover", &id])
}

/// How each code of runs is met.
pub const RUN_SCENARIOS: &[(Code, Scenario)] = &[
    (Code::RunNotFound, || Repo::new().windlass(&["status", "run_20260101_000000_00000000"])),
    (Code::RunEnded, || {
        let repo = Repo::new();
        let id = id_of(&repo.run(&passing()).exit(0));
        repo.windlass(&["resume", &id])
    }),
    (Code::RunOnHold, || {
        let (repo, id) = held(Repo::new(), &[]);
        repo.windlass(&["resume", &id])
    }),
    (Code::RunNotOnHold, || {
        let repo = Repo::new();
        let id = id_of(&repo.run(&passing()).exit(0));
        repo.windlass(&["queue", "show", &id])
    }),
    (Code::CallsRepeated, || broken_off(&vec![sh("echo x >> built.txt"); 6])),
    (Code::DenialsRepeated, || {
        let denied = |at| {
            let line = format!("frobnicate {at}");
            json!({ "tool": "shell/read", "args": { "line": line }, "intent": "a step of the test", "expect": "DENIED" })
        };
        broken_off(&(0..11).map(denied).collect::<Vec<_>>())
    }),
    (Code::CallOfRun, || {
        let repo = Repo::new();
        let asked = build(&[sh("eval 'echo x > built.txt'")]);
        repo.run(&answers(&[asked], &[review("approved")])).exit(4);
        let list = repo.windlass(&["call", "list", "--json"]).exit(0).json();
        let id = list[0]["trace_id"].as_str().unwrap().to_owned();
        repo.windlass(&[&["call", "approve", &id][..], &VOICE].concat())
    }),
    (Code::RunStopped, || {
        let repo = Repo::new();
        repo.windlass(&["stop"]).exit(0);
        repo.windlass(&["run", "one"])
    }),
    (Code::RunConcurrent, concurrent),
    (Code::HoldAlreadyResolved, || {
        let (repo, id) = held(Repo::new(), &[]);
        approve(&repo, &id).exit(0);
        approve(&repo, &id)
    }),
    (Code::ApproverNotCounted, || {
        let (repo, id) = held(Repo::with_spine("approvals: 1", "approvals: 2"), &[]);
        approve(&repo, &id)
    }),
    (Code::HoldExpired, || {
        let (repo, id) = held(Repo::new(), &[]);
        repo.later(25, &[&["queue", "approve", &id][..], &VOICE].concat())
    }),
    (Code::HoldStale, || {
        let (repo, id) = held(Repo::new(), &[]);
        let shown = "0".repeat(64);
        repo.windlass(&[&["queue", "approve", &id, "--shown", &shown][..], &VOICE].concat())
    }),
    (Code::PolicyChangedMidRun, || {
        let (repo, id) = held(Repo::new(), &["--worktree"]);
        approve(&repo, &id).exit(0);
        repo.place.append(".windlass/policy/default.toml", "# changed\n");
        repo.windlass(&["resume", &id])
    }),
    (Code::RepoDirty, || {
        let repo = Repo::new();
        repo.write("new.txt", "new\n");
        repo.windlass(&["run", "one"])
    }),
    (Code::RepoMoved, || {
        let (repo, id) = held(Repo::new(), &[]);
        approve(&repo, &id).exit(0);
        repo.git(&["commit", "--quiet", "--allow-empty", "--message", "by somebody else"]);
        repo.windlass(&["resume", &id])
    }),
    (Code::MergeConflict, || {
        let repo = Repo::new();
        let id = id_of(&repo.run_with(&passing(), &["--worktree"]).exit(0));
        repo.write("built.txt", "another\n");
        repo.commit("by somebody else");
        repo.windlass(&["close", &id, "--merge"])
    }),
    (Code::RunNotPassed, || {
        let (repo, id) = held(Repo::new(), &["--worktree"]);
        repo.windlass(&[&["queue", "reject", &id][..], &VOICE].concat()).exit(0);
        repo.windlass(&["close", &id, "--merge", "--discard"])
    }),
    (Code::SetupFailed, || {
        with_worktree("setup = [[\"false\"]]").windlass(&[
            "run",
            "one",
            "--worktree",
            "--agent",
            "person",
        ])
    }),
    (Code::PortUnavailable, || {
        let repo = with_worktree("port_base = 65535\nports_per_run = 2");
        repo.windlass(&["run", "one", "--worktree", "--agent", "person"])
    }),
    (Code::RepoMissing, || Place::with_project().run(&["run", "one"])),
    (Code::LoopNotFound, || Repo::new().windlass(&["run", "one", "--loop", "none"])),
    (Code::AnswersInvalid, || {
        let repo = Repo::new();
        let path = repo.answers(&json!({ "phases": 1 }));
        repo.windlass(&["run", "one", "--answers", &path])
    }),
    (Code::FileUnwritable, || {
        let repo = Repo::new();
        repo.place.write_state("stop", "a file where a folder should be\n");
        repo.windlass(&["stop", "--clear"]).exit(1);
        repo.windlass(&["stop"])
    }),
    (Code::LoopInvalid, || {
        let repo = Repo::new();
        repo.write(".windlass/loops/bad.md", "---\nid: bad\n---\n");
        repo.windlass(&["loop", "check"])
    }),
    (Code::AgentUnavailable, || Repo::new().windlass(&["run", "one", "--agent", "claude"])),
    (Code::AgentUnguarded, || {
        let repo = Repo::new();
        let client = repo.place.home().join("claude");
        std::fs::write(&client, "#!/bin/sh\necho 99.9.9\n").unwrap();
        std::fs::set_permissions(&client, std::os::unix::fs::PermissionsExt::from_mode(0o755))
            .unwrap();
        // An endpoint that accepts connections; nothing is asked of it.
        let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let endpoint = listener.local_addr().unwrap();
        repo.place.settings(&format!(
            "[agents.claude]\ncommand = [{client:?}]\nendpoint = \"http://{endpoint}\"\n"
        ));
        repo.windlass(&["run", "one", "--agent", "claude"])
    }),
    (Code::AgentInvalid, || {
        let repo = Repo::new();
        repo.write(".windlass/agents/bad.md", "no frontmatter\n");
        repo.windlass(&["loop", "list"])
    }),
    (Code::PacketInvalid, || with_packet(|_| "- a list\n".to_owned())),
    (Code::PacketEdited, || with_packet(|text| text.replace("by: ada", "by: eve"))),
    (Code::TaskInvalid, || Repo::new().windlass(&["run", r#"{"tusk":"one"}"#])),
    (Code::BacklogInvalid, || {
        let repo = Repo::new();
        repo.write("BACKLOG.md", "### P0\n- [ ] **A**\n```\n");
        repo.windlass(&["backlog", "list"])
    }),
    (Code::BacklogLineChanged, changed_meanwhile),
];
