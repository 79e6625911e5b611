//! Runs in which nothing goes wrong.

use serde_json::{Value, json};

use crate::agents::lab::{KEY, Kind, Lab};
use crate::scripted::{answer, call, script, shell};

pub fn a_run_goes_to_a_commit(kind: &'static Kind) {
    let write = json!({ "path": "hello.txt", "content": "hello\n" });
    let read = json!({ "path": "README.md" });
    let steps = vec![
        call("fs_read", read.clone()),
        call("fs_write", write.clone()),
        shell("cat hello.txt"),
    ];
    let Some(lab) = Lab::new(kind, &script(steps)) else { return };
    let before = lab.repo.commits();
    lab.run().exit(0);
    lab.has_passed(before);
    assert_eq!(lab.repo.git(&["show", "HEAD:hello.txt"]), "hello");
    let expected =
        [("fs/read", read), ("fs/write", write), ("shell/run", json!({ "line": "cat hello.txt" }))]
            .map(|(tool, args)| (tool.to_owned(), args, "COMPLETED".to_owned()));
    assert_eq!(lab.calls(), expected);
    let requests = lab.model.requests();
    assert!(requests.iter().all(|request| request.credentials));
    assert!(!lab.repo.place.stores(KEY), "the credential is stored");
}

/// The builder starts another agent with the same client, and gets its answer.
pub fn an_agent_starts_another(kind: &'static Kind) {
    let args = json!({ "agent": "helper", "task": "Write hello.txt." });
    let mut script = script(vec![call("agent_run", args.clone())]);
    let helper =
        [shell("echo hello > hello.txt"), answer(json!({ "summary": "The part is done." }))];
    let conversations = script["conversations"].as_array_mut().expect("conversations");
    conversations.push(json!({ "when": "You help with parts", "steps": helper }));
    let Some(lab) = Lab::new(kind, &script) else { return };
    let builder = ".windlass/agents/builder.md";
    lab.repo.place.replace(builder, "ask/person\n---", "ask/person\nsubagents: [helper]\n---");
    let file = "---\nname: helper\ndescription: Writes one file.\ntools: shell/run\n---\n\nYou help with parts.\n";
    lab.repo.write(".windlass/agents/helper.md", file);
    lab.repo.commit("a helper");
    let before = lab.repo.commits();
    lab.run().exit(0);
    lab.has_passed(before);
    assert_eq!(lab.repo.git(&["show", "HEAD:hello.txt"]), "hello");
    let expected =
        [("agent/run", args), ("shell/run", json!({ "line": "echo hello > hello.txt" }))]
            .map(|(tool, args)| (tool.to_owned(), args, "COMPLETED".to_owned()));
    assert_eq!(lab.calls(), expected);
    assert!(lab.told().contains("The part is done."), "{}", lab.told());
}

/// Two tasks of the driver loop: one makes the context file inside the sandbox, the next one changes code.
pub fn tasks_of_the_driver_pass(kind: &'static Kind) {
    let context = json!({ "path": "ai.project.json", "content": "{\"project\":\"demo\"}\n" });
    let code = json!({ "path": "greet.py", "content": "def greet():\n    return \"hello\"\n" });
    let conversation = |request: &str, intent: &str, write: &Value, claims: Value| {
        let answer = answer(json!({
            "verdict": "PASS",
            "intent": intent,
            "summary": "Wrote a file.",
            "questions": [],
            "claims": claims,
            "memory": {},
        }));
        json!({ "when": request, "steps": [call("fs_write", write.clone()), answer] })
    };
    let claims = json!({ "paths": ["greet.py"], "symbols": ["greet.py#greet"], "citations": [] });
    let nothing = json!({ "paths": [], "symbols": [], "citations": [] });
    let tasks = ["initialize project", "implement a greeting"];
    let script = json!({
        "conversations": [
            conversation(tasks[0], "generate_context", &context, nothing),
            conversation(tasks[1], "code_generation", &code, claims),
        ],
        "otherwise": [],
    });
    let Some(lab) = Lab::new(kind, &script) else { return };
    for task in tasks {
        let line = ["run", task, "--loop=driver", "--json", "--agent", kind.name, "--by=ada"];
        lab.windlass(&line).exit(0);
        lab.repo.git(&["add", "-A"]);
        lab.repo.git(&["commit", "-qm", task]);
    }
    assert_eq!(lab.repo.git(&["show", "HEAD~:ai.project.json"]), "{\"project\":\"demo\"}");
    let calls = [context, code].map(|args| ("fs/write".to_owned(), args, "COMPLETED".to_owned()));
    assert_eq!(lab.calls(), calls);
    lab.repo.is_whole();
}

/// Gemini CLI checks calls itself, so that ours never see those that it refuses.
pub fn a_model_that_gets_nowhere_is_stopped(kind: &'static Kind) {
    let refused = json!({ "calls": [{ "name": "finish", "input": {} }], "repeat": -1 });
    let script = json!({ "conversations": [], "otherwise": [refused] });
    let Some(lab) = Lab::new(kind, &script) else { return };
    let ended = lab.run();
    assert_ne!(ended.code, Some(0), "{ended}");
    let id = lab.repo.place.ids().pop().expect("a trace");
    let events = lab.repo.events(&id);
    let ended = events.iter().find(|event| event["kind"] == "invocation_ended").expect("an end");
    let note = ended["note"].as_str().expect("a note");
    let expected = "no_answer: gemini: the model answered 50 times without a call;";
    assert!(note.starts_with(expected), "{note}");
}
