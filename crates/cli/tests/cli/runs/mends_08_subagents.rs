//! Mend 8: agents that an agent starts within its work.

use serde_json::{Value, json};

use crate::harness::text_of;
use crate::world::{Repo, answers, build, id_of, review, sh};

/// An agent that may start these.
fn agent(name: &str, subagents: &[&str]) -> String {
    format!(
        "---\nname: {name}\ndescription: Helps with a part.\nsubagents: [{}]\n---\n\nYou help.\n",
        subagents.join(", ")
    )
}

/// A repository whose builder may start a helper, which may start one more.
fn with_helpers(spine: Option<(&str, &str)>) -> Repo {
    let repo = match spine {
        Some((from, to)) => Repo::with_spine(from, to),
        None => Repo::new(),
    };
    let builder = ".windlass/agents/builder.md";
    repo.place.replace(builder, "ask/person\n---", "ask/person\nsubagents: [helper]\n---");
    repo.write(".windlass/agents/helper.md", agent("helper", &["deeper"]));
    repo.write(".windlass/agents/deeper.md", agent("deeper", &["helper"]));
    repo.commit("helpers");
    repo
}

fn ask(agent: &str, task: &str) -> Value {
    let args = json!({ "agent": agent, "task": task });
    json!({ "tool": "agent/run", "args": args, "intent": "a part of the work for another" })
}

fn denied(mut call: Value) -> Value {
    call["expect"] = json!("DENIED");
    call
}

/// What a helper does, and what it uses.
fn helps(calls: &[Value]) -> Value {
    json!({
        "calls": calls,
        "answer": { "summary": "helped" },
        "usage": { "input_tokens": 100, "output_tokens": 10, "cost_micros": 5 },
    })
}

/// The answers of a run whose builder and its helpers do this.
fn script(builder: &[Value], others: &[(&str, &[Value])]) -> Value {
    let mut script = answers(&[build(builder)], &[review("approved")]);
    for (name, calls) in others {
        script["phases"][format!("build/{name}")] = json!([helps(calls)]);
    }
    script
}

fn events(repo: &Repo, id: &str) -> Vec<Value> {
    repo.events(&text_of(&repo.stands(id), "trace_id"))
}

/// The number of the first invocation of an agent, and the one that asked for it.
fn invocation(events: &[Value], agent: &str) -> (Value, Value) {
    let is_start =
        |event: &&Value| event["kind"] == "invocation_started" && event["agent"] == json!(agent);
    let event = events.iter().find(is_start).unwrap_or_else(|| panic!("no {agent}: {events:?}"));
    (event["invocation"].clone(), event["parent"].clone())
}

/// What was recorded of the ends of subagents.
fn ends(events: &[Value]) -> Vec<Value> {
    let notes = events.iter().filter(|event| event["kind"] == "noted");
    notes.filter_map(|event| event["body"].get("subagent").cloned()).collect()
}

#[test]
fn mend_08_an_agent_starts_agents_within_its_try() {
    let repo = with_helpers(None);
    let script = script(
        &[ask("helper", "Write the first half."), sh("echo built >> built.txt")],
        &[
            ("helper", &[sh("echo helped >> built.txt"), ask("deeper", "Write the rest.")]),
            ("deeper", &[sh("echo deeper >> built.txt")]),
        ],
    );
    let ended = repo.run(&script).exit(0);
    let id = id_of(&ended);
    assert_eq!(repo.read("built.txt"), "helped\ndeeper\nbuilt\n");
    let events = events(&repo, &id);
    let (builder, asked_by) = invocation(&events, "builder");
    assert_eq!(asked_by, Value::Null);
    let (helper, asked_by) = invocation(&events, "helper");
    assert_eq!(asked_by, builder);
    assert_eq!(invocation(&events, "deeper").1, helper);
    let ends = ends(&events);
    assert_eq!(ends.len(), 2);
    assert_eq!((&ends[0]["agent"], &ends[1]["agent"]), (&json!("deeper"), &json!("helper")));
    assert_eq!(ends[1]["answer"], json!({ "summary": "helped" }));
    assert_eq!(ends[1]["task"], "Write the first half.");
    // Their use counts for the run, and their calls for the phase.
    let run = repo.stands(&id);
    assert_eq!(run["spent"]["tokens"], 330);
    let phases = run["phases"].as_array().unwrap();
    let phase = phases.iter().find(|phase| phase["id"] == "build").unwrap();
    assert_eq!(phase["calls"].as_array().unwrap().len(), 5, "{phase}");
    repo.is_whole();
}

#[test]
fn mend_08_only_declared_agents_are_started_and_two_deep() {
    let repo = with_helpers(None);
    let mut unknown = ask("helper", "x");
    unknown["args"]["model"] = json!("large");
    let script = script(
        &[
            denied(ask("reviewer", "Look at it.")),
            denied(ask("nobody", "Look at it.")),
            denied(ask("helper", " ")),
            denied(unknown),
            ask("helper", "Do it."),
        ],
        &[
            ("helper", &[ask("deeper", "Do it.")]),
            // It declares the helper, but there is no third level.
            ("deeper", &[denied(ask("helper", "Do it.")), sh("echo deep > built.txt")]),
        ],
    );
    let id = id_of(&repo.run(&script).exit(0));
    let started = events(&repo, &id);
    let agents = started.iter().filter(|event| event["kind"] == "invocation_started");
    let agents: Vec<String> = agents.map(|event| text_of(event, "agent")).collect();
    assert_eq!(agents.iter().filter(|name| *name == "helper").count(), 1, "{agents:?}");
    assert!(!agents.contains(&"nobody".to_owned()));
}

#[test]
fn mend_08_an_agent_without_subagents_starts_none() {
    let repo = Repo::new();
    let calls = [denied(ask("reviewer", "Look at it.")), sh("echo built > built.txt")];
    repo.run(&script(&calls, &[])).exit(0);
    // Nor does a person, outside of a run.
    let args = r#"{"agent":"reviewer","task":"Look at it."}"#;
    let call = repo.windlass(&["call", "run", "agent/run", "--args", args, "--key=k", "--json"]);
    assert_ne!(call.code, Some(0), "{call}");
    assert_eq!(call.json()["state"], "FAILED");
}

#[test]
fn mend_08_the_policy_judges_the_start_and_the_calls_of_subagents() {
    let judge = |repo: &Repo, verdict: &str| {
        let rule = |verdict: &str| format!("id = \"start-subagents\"\nverdict = \"{verdict}\"");
        let policy = ".windlass/policy/default.toml";
        repo.place.replace(policy, &rule("allow"), &rule(verdict));
        repo.commit("another policy");
    };
    let repo = with_helpers(None);
    judge(&repo, "deny");
    let calls = [denied(ask("helper", "Do it.")), sh("echo built > built.txt")];
    repo.run(&script(&calls, &[("helper", &[])])).exit(0);
    // A person is asked, and then it starts once.
    let repo = with_helpers(None);
    judge(&repo, "ask");
    let helped = script(
        &[ask("helper", "Do it.")],
        &[("helper", &[sh("echo helped >> built.txt"), denied(json!({ "tool": "no/tool" }))])],
    );
    let id = id_of(&repo.run(&helped).exit(4));
    assert_eq!(repo.read("built.txt"), "");
    assert_eq!(repo.approve(&id).exit(0).json()["outcome"], "PASS");
    assert_eq!(repo.read("built.txt"), "helped\n");
    assert_eq!(ends(&events(&repo, &id)).len(), 1);
}

#[test]
fn mend_08_a_call_of_a_subagent_waits_for_a_person() {
    let repo = with_helpers(None);
    let push = "git push origin main; echo pushed >> built.txt";
    let script = script(
        &[ask("helper", "Push it."), sh("echo built >> built.txt")],
        &[("helper", &[sh("echo before >> built.txt"), sh(push)])],
    );
    let id = id_of(&repo.run(&script).exit(4));
    assert_eq!(repo.read("built.txt"), "before\n");
    repo.approve(&id).exit(0);
    assert_eq!(repo.read("built.txt"), "before\npushed\nbuilt\n", "nothing is done twice");
    assert_eq!(ends(&events(&repo, &id)).len(), 1);
    repo.is_whole();
}

#[test]
fn mend_08_a_failure_of_a_subagent_is_told_to_the_agent() {
    let repo = with_helpers(None);
    let mut failing = ask("helper", "Do it.");
    failing["expect"] = json!("FAILED");
    let mut script = script(&[failing, sh("echo built > built.txt")], &[]);
    script["phases"]["build/helper"] =
        json!([{ "fail": { "class": "validation_error", "reason": "it cannot be done" } }]);
    let id = id_of(&repo.run(&script).exit(0));
    let ends = ends(&events(&repo, &id));
    assert_eq!(ends[0]["failure"]["reason"], "it cannot be done");
}

#[test]
fn mend_08_no_subagent_starts_once_the_budget_is_used_up() {
    let repo = with_helpers(Some(("tokens: 100000", "tokens: 100")));
    let script = script(
        &[ask("helper", "Do it."), denied(ask("helper", "Do it again."))],
        &[("helper", &[sh("echo helped >> built.txt")])],
    );
    let held = repo.run(&script).exit(4).json();
    assert_eq!(held["hold"]["trigger"], "BUDGET_EXHAUSTED", "{held}");
    assert_eq!(repo.read("built.txt"), "helped\n");
}

#[test]
fn mend_08_a_killed_run_starts_no_subagent_again_whose_answer_is_recorded() {
    let write = |path: &str| json!({ "tool": "fs/write", "args": { "path": path, "content": "x\n" }, "intent": "a step of the test" });
    let script = script(
        &[ask("helper", "Do it."), write("built.txt")],
        &[("helper", &[write("helped.txt"), write("more.txt")])],
    );
    let mut killed = 0;
    for at in 1.. {
        let repo = with_helpers(Some(("on_restart: hold", "on_restart: resume")));
        let path = repo.answers(&script);
        let line = ["run", "one", "--json", "--answers", &path, "--by", "ada"];
        let variable = windlass_store::fault::VARIABLE;
        let outcome = repo.place.run_with(variable, &format!("append.after:{at}"), &line);
        if outcome.code.is_some() {
            break;
        }
        killed += 1;
        for _ in 0..6 {
            let runs = repo.windlass(&["status", "--json"]).exit(0).json();
            let Some(run) = runs.as_array().unwrap().first().cloned() else { break };
            match (run["outcome"].is_null(), run["state"] == "CHECKPOINT") {
                (false, _) => break,
                (true, true) => drop(repo.approve(&text_of(&run, "run_id"))),
                (true, false) => drop(repo.windlass(&["recover", "--json"])),
            }
        }
        let runs = repo.windlass(&["status", "--json"]).exit(0).json();
        let Some(run) = runs.as_array().unwrap().first().cloned() else { continue };
        assert_eq!(run["outcome"], "PASS", "killed at append {at}: {run}");
        let events = events(&repo, &text_of(&run, "run_id"));
        assert_eq!(ends(&events).len(), 1, "killed at append {at}");
        let last_start = events
            .iter()
            .rposition(|event| event["kind"] == "invocation_started" && event["agent"] == "helper");
        let end = events.iter().position(|event| event["body"].get("subagent").is_some());
        assert!(last_start < end, "killed at append {at}");
        // Each call has one trace that ended, however often it was asked for.
        let list = repo.windlass(&["trace", "list", "--json"]).exit(0).json();
        let all = list.as_array().unwrap().len();
        assert_eq!(all, 1 + 4, "killed at append {at}: {list}");
        repo.is_whole();
    }
    assert!(killed > 20, "{killed}");
}

#[test]
fn mend_08_a_change_of_a_subagents_file_changes_the_policy_of_the_run() {
    let repo = with_helpers(None);
    let hash = || repo.windlass(&["policy", "hash", "--loop", "spine"]).exit(0).text().to_owned();
    let before = hash();
    repo.place.append(".windlass/agents/critic.md", "\nMore.\n");
    assert_eq!(hash(), before, "it is not used");
    repo.place.append(".windlass/agents/deeper.md", "\nMore.\n");
    assert_ne!(hash(), before);
    repo.place.replace(".windlass/agents/deeper.md", "subagents: [helper]", "subagents: [nobody]");
    repo.windlass(&["run", "one"]).fails_with(2, "CONFIG_INVALID").warns("nobody");
}
