//! The driver loop, from outside.

use serde_json::{Value, json};

use crate::harness::{Outcome, text_of};
use crate::world::{Repo, VOICE, id_of, passing, trace_of};

/// The output of a task of an intent.
fn output_of(intent: &str) -> Value {
    json!({
        "verdict": "PASS",
        "intent": intent,
        "summary": "it is done",
        "questions": [],
        "claims": { "paths": [], "symbols": [], "citations": [] },
        "memory": {},
    })
}

/// Answers with one attempt of execution.
fn one(output: &Value, lines: &[&str]) -> Value {
    let call = |line: &&str| json!({ "tool": "shell/run", "args": { "line": line } });
    let calls: Vec<Value> = lines.iter().map(call).collect();
    let usage = json!({ "input_tokens": 100, "output_tokens": 20 });
    json!({ "phases": { "p5": [{ "calls": calls, "answer": output, "usage": usage }] } })
}

/// A project with a context file in which a task has ended before.
fn settled() -> Repo {
    let repo = Repo::new();
    repo.write("ai.project.json", r#"{"project":"demo"}"#);
    repo.commit("a context file");
    drive(&repo, "summarize the readme", &one(&output_of("summarize"), &[]), &[]).exit(0);
    repo
}

fn drive(repo: &Repo, task: &str, answers: &Value, more: &[&str]) -> Outcome {
    let path = repo.answers(answers);
    let line = ["run", task, "--loop", "driver", "--json", "--answers", &path, "--by", "ada"];
    repo.windlass(&[&line[..], more].concat())
}

fn intent_of(outcome: &Outcome) -> Value {
    outcome.json()["facts"]["intent"].clone()
}

fn telemetry(repo: &Repo, id: &str) -> Value {
    repo.windlass(&["trace", "show", id, "--telemetry", "--json"]).exit(0).json()
}

#[test]
fn mend_09_named_intents_and_plain_sentences_are_understood() {
    let repo = settled();
    for (task, more, intent) in [
        ("fix the bug", &[][..], "code_generation"),
        ("Please add tests", &[], "code_generation"),
        ("code_generation: the roadmap page", &[], "code_generation"),
        ("chat: refactor the plan", &[], "chat"),
        ("whatever it is", &["--intent", "research"], "research"),
        ("refactor the plan", &["--intent", "chat"], "chat"),
    ] {
        let ended = drive(&repo, task, &one(&output_of(intent), &[]), more).exit(0);
        assert_eq!(intent_of(&ended), intent, "{task}");
    }
    // Nothing is guessed, and only tasks of the driver have an intent.
    let asked = drive(&repo, "whatever", &json!({ "phases": {} }), &[]).exit(6);
    assert_eq!(intent_of(&asked), Value::Null, "{asked}");
    repo.windlass(&["run", "fix it", "--intent", "chat"]).fails_with(2, "REQUEST_INVALID");
}

#[test]
fn mend_09_phases_have_names() {
    let repo = settled();
    let ended = drive(&repo, "fix the bug", &one(&output_of("code_generation"), &[]), &[]).exit(0);
    let phases = ended.json()["phases"].clone();
    let titles: Vec<String> =
        phases.as_array().unwrap().iter().map(|phase| text_of(phase, "title")).collect();
    assert!(titles.iter().all(|title| !title.is_empty()), "{titles:?}");
    let id = id_of(&ended);
    repo.windlass(&["status", &id]).exit(0).says("p0 state validation").says("p5 execution");
    repo.windlass(&["loop", "show", "driver"]).exit(0).says("model selection");
    let path = repo.answers(&one(&output_of("chat"), &[]));
    let told = repo.windlass(&["run", "chat: x", "--loop", "driver", "--answers", &path]).exit(0);
    assert!(told.stderr.contains("p10 task termination"), "{told}");
}

#[test]
fn mend_09_a_waiting_intervention_shows_what_failed() {
    let repo = settled();
    let mut output = output_of("architecture");
    output.as_object_mut().unwrap().remove("memory");
    let held = drive(&repo, "system design", &one(&output, &[]), &[]).exit(4);
    let id = id_of(&held);
    let page = repo.windlass(&["queue", "show", &id]).exit(0);
    for part in ["failed_step", "output_contract", "memory", &format!("edits/{id}.json")] {
        assert!(page.text().contains(part), "no `{part}`\n{page}");
    }
}

#[test]
fn mend_09_save_really_saves_and_a_later_task_restores_it() {
    let repo = settled();
    let memory = repo.place.state().join("memory");
    assert!(!memory.exists(), "nothing was saved yet");
    let mut output = output_of("architecture");
    output["memory"] = json!({ "store": "one file" });
    let saved = drive(&repo, "system design", &one(&output, &[]), &[]).exit(0);
    let files: Vec<_> =
        std::fs::read_dir(&memory).unwrap().map(|one| one.unwrap().path()).collect();
    assert_eq!(files.len(), 1, "{files:?}");
    let text = std::fs::read_to_string(&files[0]).unwrap();
    assert_eq!(text.lines().count(), 1, "one version: {text}");
    let version: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(version["version"], 1);
    assert!(text.contains("one file") && text.contains(&id_of(&saved)), "{text}");
    // The next task of an intent that needs it has what was saved.
    let next = drive(&repo, "schema design", &one(&output_of("domain"), &[]), &[]).exit(0);
    let events = repo.events(&text_of(&next.json(), "trace_id"));
    let context =
        events.iter().find(|event| event["kind"] == "phase_done" && event["phase"] == "p2");
    let restored = &context.unwrap()["done"]["answer"]["memory"];
    assert_eq!(restored, &json!({ "version": 1, "entries": { "store": "one file" } }));
    // What did not pass is not saved.
    let mut output = output_of("architecture");
    output["memory"] = json!({ "store": "two files" });
    output["questions"] = json!(["which?"]);
    drive(&repo, "system design", &one(&output, &[]), &[]);
    assert_eq!(std::fs::read_to_string(&files[0]).unwrap(), text);
}

#[test]
fn mend_09_telemetry_is_sealed_after_its_last_record_and_shown() {
    let repo = settled();
    let passed = drive(&repo, "system design", &one(&output_of("architecture"), &[]), &[]).exit(0);
    let mut wrong = output_of("chat");
    wrong["intent"] = json!("refactor");
    let halted = drive(&repo, "chat: x", &one(&wrong, &[]), &[]).exit(3);
    for (ended, last) in [(&passed, "Phase10_TaskTermination"), (&halted, "Phase6_Verification")] {
        let shown = telemetry(&repo, &id_of(ended));
        let records = shown["records"].as_array().unwrap();
        assert_eq!(records.last().unwrap()["lifecycle_phase"], last, "{shown}");
        let seal = shown["seals"].as_array().unwrap().last().unwrap();
        assert_eq!(seal["kind"], "closed");
        assert_eq!(seal["records"], records.len());
        assert_eq!((&seal["matches"], &shown["is_sealed"]), (&json!(true), &json!(true)));
    }
    let id = id_of(&passed);
    let page = repo.windlass(&["trace", "show", &id, "--telemetry"]).exit(0);
    assert!(page.text().contains("Phase9_MemorySync"), "{page}");
    assert!(page.text().contains("sealed after") && page.text().contains("closed after"), "{page}");
    let other = repo.run(&passing());
    repo.windlass(&["trace", "show", &id_of(&other), "--telemetry"])
        .fails_with(2, "REQUEST_INVALID");
}

#[test]
fn mend_09_several_tasks_run_one_after_the_other_in_one_process() {
    let repo = settled();
    let answers = repo.answers(&one(&output_of("chat"), &[]));
    let list = "# three tasks\nchat: one\n\nresearch: two\n  chat: three\n";
    let file = repo.place.base().join("tasks.txt");
    std::fs::write(&file, list).unwrap();
    let file = file.display().to_string();
    let line = ["run", "--loop", "driver", "--tasks", &file, "--json", "--answers", &answers];
    // The second has the wrong intent in its output and halts; the third runs all the same.
    let all = repo.windlass(&line).exit(3).json();
    let outcomes: Vec<String> =
        all.as_array().unwrap().iter().map(|run| text_of(run, "outcome")).collect();
    assert_eq!(outcomes, ["PASS", "BLOCKED", "PASS"]);
    let session =
        |run: &Value| telemetry(&repo, &text_of(run, "run_id"))["records"][0]["session_id"].clone();
    assert!(session(&all[0]).is_string());
    assert_eq!(session(&all[0]), session(&all[2]), "one process");
    let line = ["run", "--loop", "driver", "--tasks", "-", "--json", "--answers", &answers];
    let fed = repo.place.feed(&line, b"chat: four\nchat: five\n").exit(0).json();
    assert_eq!(fed.as_array().unwrap().len(), 2);
    repo.windlass(&["run", "--loop", "driver"]).exit(2);
    repo.windlass(&["run", "chat: x", "--tasks", &file]).exit(2);
}

/// A task whose output a person must edit.
fn waiting(repo: &Repo) -> String {
    let mut output = output_of("architecture");
    output.as_object_mut().unwrap().remove("memory");
    id_of(&drive(repo, "system design", &one(&output, &[]), &[]).exit(4))
}

#[test]
fn mend_09_a_question_about_the_intent_is_answered() {
    let repo = settled();
    let answers = one(&output_of("code_generation"), &["echo fixed > fixed.txt"]);
    let asked = drive(&repo, "the parser", &answers, &[]).exit(6);
    let id = id_of(&asked);
    let shown = repo.windlass(&["queue", "show", &id]).exit(0);
    let next = format!("windlass queue answer {id} TEXT --resume");
    shown.says("which of these is it").says("`debugging`").says(&next);
    let line = ["queue", "answer", &id, "code_generation", "--by", "ada", "--resume", "--json"];
    let passed = repo.windlass(&line).exit(0);
    assert_eq!(intent_of(&passed), "code_generation");
    assert_eq!(repo.read("fixed.txt"), "fixed\n", "a question does not keep the sandbox on");
    assert_eq!(telemetry(&repo, &id)["is_sealed"], true);
    // A second unclear answer ends the task, as does a rejection; both have an exit code of their own.
    let asked = id_of(&drive(&repo, "the parser", &answers, &[]).exit(6));
    let line = ["queue", "answer", &asked, "I do not know", "--by", "ada", "--resume", "--json"];
    assert_eq!(repo.windlass(&line).exit(6).json()["reason"], "ASK_USER");
    let asked = id_of(&drive(&repo, "the parser", &answers, &[]).exit(6));
    let line = [&["queue", "reject", &asked, "--resume"][..], &VOICE].concat();
    repo.windlass(&line).exit(6);
}

#[test]
fn mend_09_a_question_of_the_agent_is_answered() {
    for intent in ["research", "code_generation"] {
        let repo = settled();
        let usage = json!({ "input_tokens": 100, "output_tokens": 20 });
        let mut asks = output_of(intent);
        (asks["verdict"], asks["questions"]) = (json!("ASK_USER"), json!(["which one?"]));
        let tries = [
            json!({ "answer": asks, "usage": usage }),
            json!({ "answer": output_of(intent), "usage": usage }),
        ];
        let script = json!({ "phases": { "p5": tries } });
        let ask = || drive(&repo, &format!("{intent}: x"), &script, &[]).exit(6);
        let asked = ask();
        let id = id_of(&asked);
        assert_eq!(asked.json()["hold"]["question"], "which one?", "{asked}");
        let next = format!("windlass queue answer {id} TEXT --resume");
        repo.windlass(&["queue", "show", &id]).exit(0).says("which one?").says(&next);
        repo.windlass(&["status", &id]).exit(0).says("which one?").says(&next);
        let line = ["queue", "answer", &id, "the second", "--by", "ada", "--resume", "--json"];
        let passed = repo.windlass(&line).exit(0);
        assert_eq!(passed.json()["outcome"], "PASS", "{passed}");
        assert_eq!(telemetry(&repo, &id)["is_sealed"], true);
        let rejected = id_of(&ask());
        repo.windlass(&[&["queue", "reject", &rejected, "--resume"][..], &VOICE].concat()).exit(6);
        repo.is_whole();
    }
}

#[test]
fn mend_09_the_sandbox_is_checked_before_it_is_left() {
    let repo = settled();
    let answers = one(&output_of("code_generation"), &["echo fixed > fixed.txt"]);
    let passed = drive(&repo, "fix the bug", &answers, &[]).exit(0);
    let events = repo.events(&trace_of(&passed));
    let checked = events.iter().position(|event| event["check"] == "before_sandbox_exit").unwrap();
    assert_eq!(events[checked]["verdict"], "PASS");
    let left = events.iter().position(|event| {
        event["what"] == "sandbox" && event["body"]["event"].get("exit_requested").is_some()
    });
    let left = left.expect("the sandbox was left");
    let works = events.iter().position(|event| event["kind"] == "invocation_started").unwrap();
    assert!(checked < left && left < works, "{checked} {left} {works}");
}

#[test]
fn mend_09_a_restart_ends_a_waiting_intervention() {
    let repo = settled();
    for answered in [false, true] {
        let id = waiting(&repo);
        if answered {
            repo.windlass(&[&["queue", "approve", &id][..], &VOICE].concat()).exit(0);
        }
        repo.windlass(&["recover"]);
        let ended = repo.stands(&id);
        assert_eq!(
            (&ended["outcome"], &ended["reason"]),
            (&json!("BLOCKED"), &json!("TERMINATED"))
        );
        assert_eq!(telemetry(&repo, &id)["is_sealed"], true);
    }
    // Work begins anew only if somebody asks for it.
    drive(&repo, "chat: again", &one(&output_of("chat"), &[]), &[]).exit(0);
}

#[test]
fn mend_09_one_task_at_a_time_holds_against_other_loops() {
    let repo = settled();
    let task = waiting(&repo);
    let refused = repo.run(&passing()).exit(1);
    assert_eq!(refused.error()["code"], "RUN_CONCURRENT");
    assert!(text_of(&refused.error(), "message").contains(&task), "{refused}");
    repo.run_with(&passing(), &["--worktree"]).exit(0);
    repo.windlass(&["cancel", &task, "--by", "ada", "--reason", "given up"]);
    // A task does not begin while a run of another loop waits in the workspace.
    let other = id_of(&repo.run(&crate::world::escalating()).exit(4));
    let halted = drive(&repo, "chat: x", &one(&output_of("chat"), &[]), &[]).exit(3).json();
    assert_eq!(halted["reason"], "HALT");
    assert!(text_of(&halted, "detail").contains(&other), "{halted}");
    repo.windlass(&["cancel", &other, "--by", "ada", "--reason", "given up"]);
    drive(&repo, "chat: x", &one(&output_of("chat"), &[]), &[]).exit(0);
}

#[test]
fn mend_09_phase_0_sees_a_process_that_a_dead_task_left() {
    let repo = settled();
    let dead = id_of(&drive(&repo, "chat: x", &one(&output_of("chat"), &[]), &[]).exit(0));
    // What the task's command would have left: a process with the run's variable.
    let mut command = std::process::Command::new("sleep");
    let mut left = command.arg("60").env("WINDLASS_RUN", &dead).spawn().unwrap();
    let halted = drive(&repo, "chat: y", &one(&output_of("chat"), &[]), &[]).exit(3).json();
    let detail = text_of(&halted, "detail");
    left.kill().unwrap();
    left.wait().unwrap();
    assert!(detail.contains(&left.id().to_string()) && detail.contains(&dead), "{detail}");
    drive(&repo, "chat: y", &one(&output_of("chat"), &[]), &[]).exit(0);
}

#[test]
fn mend_09_an_intent_that_there_is_not_is_told_before_the_task_starts() {
    let repo = Repo::new();
    let answers = one(&output_of("research"), &[]);
    let refused = drive(&repo, "whatever it is", &answers, &["--intent", "reserch"]).exit(2);
    let error = refused.error();
    assert_eq!(error["code"], "REQUEST_INVALID", "{error}");
    assert!(error["message"].as_str().unwrap().contains("`reserch`"), "{error}");
    assert!(error["hint"].as_str().unwrap().contains("research"), "{error}");
    assert_eq!(repo.traces(), 0, "nothing was started");
}

#[test]
fn mend_09_a_verdict_is_told_once() {
    let repo = settled();
    let asked = drive(&repo, "hm", &one(&output_of("chat"), &[]), &[]).exit(6);
    let shown = repo.windlass(&["status", &id_of(&asked)]).exit(0).says("ASK_USER: ");
    assert!(!shown.text().contains("ASK_USER: ASK_USER"), "{shown}");
}
