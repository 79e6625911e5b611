//! A program as an agent, written for `sh`.

use serde_json::json;

use crate::harness::{Outcome, finish};
use crate::scripted::calls;
use crate::world::Repo;

/// A program that answers as planner and reviewer, and does this as builder. `brief` has its first line.
pub fn program(builder: &str) -> String {
    let plan = json!({ "type": "finish", "answer": { "summary": "p", "steps": [], "checks": [], "risks": [] } });
    let verdict = json!({ "type": "finish", "answer": { "verdict": "approved", "reason": "r", "summary": "s" } });
    format!(
        "read -r brief\ncase \"$brief\" in\n*'You plan one change'*) echo '{plan}';;\n\
         *'You carry out the plan'*)\n{builder}\n;;\n*) echo '{verdict}';;\nesac\n"
    )
}

/// The last line of a builder.
pub const DONE: &str = r#"echo '{"type":"finish","answer":{"summary":"s","commit_message":"Add a file","checks":[]}}'"#;

pub fn repo(builder: &str) -> Repo {
    let repo = Repo::new();
    let path = repo.place.base().join("agent.sh");
    std::fs::write(&path, program(builder)).expect("a file");
    repo.place.settings(&format!(
        "[agents.mine]\nkind = \"command\"\ncommand = [\"/bin/sh\", \"{}\"]\n",
        path.display()
    ));
    drop(repo.windlass(&["people", "add", "ada"]));
    repo
}

pub fn run(repo: &Repo) -> Outcome {
    let line = ["run", "leave a greeting", "--json", "--agent", "mine", "--by=ada"];
    finish(repo.place.command(&line), &[])
}

#[test]
fn a_program_takes_a_run_to_a_commit() {
    let builder = format!(
        "echo '{{\"type\":\"call\",\"id\":\"1\",\"name\":\"fs_write\",\"arguments\":{{\"path\":\"a.txt\",\"content\":\"a\"}}}}'\n\
         echo '{{\"type\":\"call\",\"id\":\"2\",\"name\":\"nothing\",\"arguments\":{{}}}}'\n\
         echo '{{\"type\":\"usage\",\"input_tokens\":5,\"cost_micros\":7}}'\n\
         read -r one\nread -r two\n\
         echo '{{\"type\":\"finish\",\"answer\":{{}}}}'\nread -r refused\n\
         case \"$one$two\" in *'there is no tool `nothing`'*) ;; *) exit 3;; esac\n\
         case \"$refused\" in *summary*) ;; *) exit 4;; esac\n{DONE}"
    );
    let repo = repo(&builder);
    let before = repo.commits();
    run(&repo).exit(0);
    assert_eq!(repo.commits(), before + 1);
    assert_eq!(repo.git(&["show", "HEAD:a.txt"]), "a");
    repo.is_whole();
    assert_eq!(calls(&repo).len(), 1);
}

#[test]
fn it_sees_nothing_and_reaches_nothing() {
    let builder = format!(
        "[ -z \"$(ls -A .)\" ] || exit 3\n[ ! -e '{{ROOT}}' ] || exit 4\n\
         echo '{{\"type\":\"call\",\"id\":\"1\",\"name\":\"shell_run\",\"arguments\":{{\"line\":\"echo x > x.txt\"}}}}'\n\
         read -r one\n{DONE}"
    );
    let repo = repo("exit 5");
    let path = repo.place.base().join("agent.sh");
    let builder = builder.replace("{ROOT}", &repo.root().display().to_string());
    std::fs::write(path, program(&builder)).expect("a file");
    run(&repo).exit(0);
    assert_eq!(repo.git(&["show", "HEAD:x.txt"]), "x");
}

#[test]
fn what_is_not_of_the_protocol_ends_it() {
    let call = |id: &str, path: &str| {
        let line =
            json!({ "type": "call", "id": id, "name": "fs_read", "arguments": { "path": path } });
        format!("echo '{line}'")
    };
    for (builder, class, says) in [
        ("echo hello".to_owned(), "validation_error", "not of the protocol"),
        (
            "echo '{\"type\":\"call\",\"name\":\"fs_read\"}'".to_owned(),
            "validation_error",
            "missing field `id`",
        ),
        (
            format!("{}\n{}\nread -r x", call("1", "README.md"), call("1", "other")),
            "validation_error",
            "two different calls",
        ),
        ("head -c 2000000 /dev/zero | tr '\\0' x".to_owned(), "validation_error", "more than"),
        ("exit 0".to_owned(), "no_answer", "ended without an answer"),
        ("echo broken >&2; exit 7".to_owned(), "no_answer", "it printed: broken"),
        (
            "while :; do echo '{\"type\":\"finish\",\"answer\":{}}'; read -r x || exit; done"
                .to_owned(),
            "validation_error",
            "not accepted",
        ),
    ] {
        let repo = repo(&builder);
        let outcome = run(&repo);
        assert_ne!(outcome.code, Some(0), "{outcome}");
        let id = repo.place.ids().pop().expect("a trace");
        let text = serde_json::to_string(&repo.events(&id)).expect("JSON");
        assert!(
            text.contains(&format!("{class}: mine: ")) && text.contains(says),
            "{builder}: {text}"
        );
        repo.is_whole();
    }
}

#[test]
fn a_program_may_call_ahead() {
    let builder = format!(
        "i=0\nwhile [ $i -lt 100 ]; do\n\
         echo '{{\"type\":\"call\",\"id\":\"'$i'\",\"name\":\"fs_write\",\"arguments\":{{\"path\":\"'$i'.txt\",\"content\":\"a\"}}}}'\n\
         i=$((i+1))\ndone\n{DONE}\ncat > /dev/null"
    );
    let repo = repo(&builder);
    run(&repo).exit(0);
    assert_eq!(calls(&repo).len(), 100);
    let changed = repo.git(&["show", "--format=", "--name-only", "HEAD"]);
    assert_eq!(changed.lines().count(), 100);
    repo.is_whole();
}

#[test]
fn a_program_may_claim_any_usage() {
    let usage = "echo '{\"type\":\"usage\",\"input_tokens\":18446744073709551615}'";
    let repo = repo(&format!("{usage}\n{DONE}\ncat > /dev/null"));
    let held = run(&repo).exit(4).json();
    assert_eq!(held["state"], "CHECKPOINT", "{held}");
    repo.is_whole();
}

#[test]
fn a_program_that_is_killed_can_be_run_again() {
    let repo = repo(&format!("[ -e /tmp/never ] || kill -9 $$\n{DONE}"));
    let held = run(&repo).exit(4).json();
    assert_eq!(held["hold"]["trigger"], "AGENT_UNAVAILABLE", "{held}");
    repo.is_whole();
}

#[test]
fn an_answer_does_not_pass_a_call_that_waits_for_a_person() {
    let call = r#"echo '{"type":"call","id":"1","name":"shell_run","arguments":{"line":"eval \"echo x > x.txt\""}}'"#;
    let repo = repo(&format!("{call}\n{DONE}\ncat > /dev/null"));
    let held = run(&repo).exit(4).json();
    assert_eq!(held["hold"]["trigger"], "CALL_APPROVAL", "{held}");
    repo.is_whole();
}
