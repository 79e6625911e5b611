//! Mend 8: a model that starts another agent within its work.

use serde_json::{Value, json};

use crate::runners::lab::{APIS, Lab};
use crate::scripted::{answer, call, calls, script, shell};

const HELPER: &str = "---
name: helper
description: Writes one file.
tools: shell/run
---

You help with parts.
";

/// The script of a run whose builder takes these steps, and its helper those.
fn with_helper(build: Vec<Value>, mut helper: Vec<Value>) -> Value {
    helper.push(answer(json!({ "summary": "The part is done." })));
    let mut script = script(build);
    let conversations = script["conversations"].as_array_mut().expect("conversations");
    conversations.push(json!({ "when": "You help with parts", "steps": helper }));
    script
}

/// Lets the builder of a laboratory start the helper.
fn declare(lab: &Lab) {
    let builder = ".windlass/agents/builder.md";
    lab.repo.place.replace(builder, "ask/person\n---", "ask/person\nsubagents: [helper]\n---");
    lab.repo.write(".windlass/agents/helper.md", HELPER);
    lab.repo.commit("a helper");
}

#[test]
fn mend_08_a_model_starts_an_agent_and_gets_its_answer() {
    let args = json!({ "agent": "helper", "task": "Write hello.txt." });
    for api in APIS {
        let script = with_helper(
            vec![call("agent_run", args.clone())],
            vec![shell("echo hello > hello.txt")],
        );
        let lab = Lab::new(api, &script, "");
        declare(&lab);
        let before = lab.repo.commits();
        lab.run().exit(0);
        lab.has_passed(before);
        assert_eq!(lab.repo.git(&["show", "HEAD:hello.txt"]), "hello");
        let made = [
            ("agent/run", args.clone()),
            ("shell/run", json!({ "line": "echo hello > hello.txt" })),
        ];
        let made = made.map(|(tool, args)| (tool.to_owned(), args, "COMPLETED".to_owned()));
        assert_eq!(calls(&lab.repo), made);
        let requests = lab.model.requests();
        let offered = requests
            .iter()
            .filter(|request| request.tools.iter().any(|tool| tool.to_string() == "agent_run"));
        // Only the builder's two requests: its subagents are its own, and the helper has none.
        assert_eq!(offered.count(), 2);
        let told = serde_json::to_string(&requests).expect("JSON");
        assert!(told.contains("The part is done."), "{told}");
        let status = lab.windlass(&["status", "last", "--transcript", "build"]).exit(0);
        assert!(status.text().contains("helper"), "{status}");
    }
}

#[test]
fn mend_08_what_subagents_use_is_the_runs() {
    let mut costly = shell("echo hello > hello.txt");
    costly["usage"] = json!({ "input": 5000, "output": 100 });
    let args = json!({ "agent": "helper", "task": "Write hello.txt." });
    let steps = vec![call("agent_run", args), shell("echo more > more.txt")];
    let lab = Lab::new(APIS[0], &with_helper(steps, vec![costly]), "");
    declare(&lab);
    lab.repo.place.replace(".windlass/loops/spine.md", "tokens: 100000", "tokens: 5000");
    lab.repo.commit("a small budget");
    let held = lab.run().exit(4).json();
    assert_eq!(held["hold"]["trigger"], "BUDGET_EXHAUSTED", "{held}");
    assert!(held["spent"]["tokens"].as_u64().expect("a number") >= 5000, "{held}");
    assert!(!lab.repo.root().join("more.txt").exists());
}
