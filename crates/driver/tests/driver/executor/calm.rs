//! Tasks in which nothing goes wrong.

use serde_json::json;
use windlass_kernel::run::{Event, NoteKind, VoteDecision};

use crate::executor::world::{REQUESTS, World, answer, detail, one, outcome, phases};

#[test]
fn a_calm_task_of_every_intent_passes_through_the_phases_in_their_order() {
    let world = World::settled();
    for (intent, request) in REQUESTS {
        let lines: &[&str] = match intent {
            "refactor" | "code_generation" => &["echo 'fn more() {}' >> src/a.rs"],
            "generate_context" => &["echo '{\"project\":\"new\"}' > ai.project.json"],
            _ => &[],
        };
        let run = world.run(request, one(answer(intent), lines));
        assert_eq!(outcome(&run), "PASS pass", "{intent}: {}", detail(&run));
        assert_eq!(run.facts["intent"], intent);
        let mut expected = vec!["p0/1", "p1/1", "p2/1"];
        if intent == "generate_context" {
            expected.push("p2a/1");
        }
        expected.extend(["p3/1", "p4/1", "p5/1", "p6/1", "p8/1"]);
        if ["architecture", "domain", "refactor"].contains(&intent) {
            expected.push("p9/1");
        }
        expected.push("p10/1");
        assert_eq!(phases(&world.events(run.head.trace_id)), expected, "{intent}");
    }
    assert_eq!(world.read("ai.project.json").unwrap(), "{\"project\":\"new\"}\n");
}

#[test]
fn an_unclear_request_asks_and_nothing_is_selected() {
    let world = World::settled();
    for request in ["do something nice", ""] {
        let run = world.run(request, one(answer("chat"), &[]));
        let question = &run.hold.as_ref().unwrap().held.question;
        assert!(question.contains("which of these"), "{question}");
        assert_eq!(phases(&world.events(run.head.trace_id)), ["p0/1", "p1/1", "p1q/1"]);
        assert_eq!(run.invocations, 0);
        // An answer that is not clear either ends it: it is asked once.
        let run = world.answer(&run, VoteDecision::Approved, "something nice");
        assert_eq!(outcome(&run), "ESCALATION_REQUESTED ASK_USER");
        assert!(detail(&run).contains("which of these"), "{}", detail(&run));
        assert_eq!(run.invocations, 0);
    }
}

#[test]
fn the_highest_priority_wins_where_several_intents_are_named() {
    let world = World::settled();
    let run = world.run("plan to refactor", one(answer("refactor"), &[]));
    assert_eq!(run.facts["intent"], "refactor");
}

#[test]
fn the_model_that_works_is_the_selected_one_with_role_and_tier_on_record() {
    let world = World::settled();
    let run = world.run("implement the cache", one(answer("code_generation"), &[]));
    let events = world.events(run.head.trace_id);
    let model = events.iter().find_map(|event| match event {
        Event::InvocationStarted { model, .. } => model.clone(),
        _ => None,
    });
    assert_eq!(model.as_deref(), Some("claude-opus-5-5"));
    let notes = world.notes(run.head.trace_id, NoteKind::Telemetry);
    let call = notes.iter().find(|note| note["record"]["call_index"] == 1).unwrap();
    let record = &call["record"];
    assert_eq!(record["model_logical_id"], "executor");
    assert_eq!(record["model_resolved_id"], "claude-opus-5-5");
    assert_eq!(record["model_tier"], "A");
    assert_eq!(record["role"], "executor");
    assert_eq!(record["capability_profile"], "mistral_exec");
}

#[test]
fn a_fallback_takes_its_place_and_one_of_a_lower_tier_is_refused() {
    let mut world = World::settled();
    world.available = Some(["gpt-6.1-sol".to_owned()].into());
    let run = world.run("implement the cache", one(answer("code_generation"), &[]));
    assert_eq!(outcome(&run), "PASS pass", "{}", detail(&run));
    let notes = world.notes(run.head.trace_id, NoteKind::Telemetry);
    let call = notes.iter().find(|note| note["record"]["call_index"] == 1).unwrap();
    assert_eq!(call["record"]["model_resolved_id"], "gpt-6.1-sol");
    assert_eq!(call["record"]["capability_profile"], "mistral_exec", "the profile stays");
    // Models of tier B and D can be reached; the intent allows A.
    world.available = Some(["gpt-6-luna".to_owned(), "kimi-k3".to_owned()].into());
    let run = world.run("implement the cache", one(answer("code_generation"), &[]));
    assert_eq!(outcome(&run), "BLOCKED HALT");
    assert!(detail(&run).contains("DRIVER_MODEL_UNAVAILABLE"), "{}", detail(&run));
    assert_eq!(run.invocations, 0);
}

#[test]
fn a_missing_context_file_asks_once_and_then_halts_until_it_is_there() {
    let world = World::empty();
    let task = || world.run("a roadmap for spring", one(answer("planning"), &[]));
    assert_eq!(outcome(&task()), "ESCALATION_REQUESTED ASK_USER");
    // A task that does not need the file neither asks nor clears that it was asked for.
    let chat = world.run("greetings", one(answer("chat"), &[]));
    assert_eq!(outcome(&chat), "PASS pass", "{}", detail(&chat));
    assert_eq!(outcome(&task()), "BLOCKED HALT");
    assert_eq!(outcome(&task()), "BLOCKED HALT");
    world.write("ai.project.json", r#"{"project":"demo"}"#);
    let run = task();
    assert_eq!(outcome(&run), "PASS pass", "{}", detail(&run));
    std::fs::remove_file(world.root().join("ai.project.json")).unwrap();
    assert_eq!(outcome(&task()), "ESCALATION_REQUESTED ASK_USER", "it was there since");
    world.write("ai.project.json", "[1]");
    let run = task();
    assert_eq!(outcome(&run), "BLOCKED HALT", "one that is not valid is none");
    assert!(detail(&run).contains("not valid"));
}

#[test]
fn the_executor_may_not_state_facts_or_end_without_an_outcome() {
    let world = World::settled();
    let mut stating = answer("chat");
    stating["facts"] = json!({ "intent": "refactor" });
    let run = world.run("greetings", one(stating, &[]));
    assert_eq!(outcome(&run), "BLOCKED HALT");
    assert_eq!(run.facts["intent"], "chat");
    for (verdict, expected) in [
        ("ASK_USER", "ESCALATION_REQUESTED ASK_USER"),
        ("HALT", "BLOCKED HALT"),
        ("fine", "BLOCKED unsupported_verdict"),
    ] {
        let mut other = answer("chat");
        other["verdict"] = json!(verdict);
        let mut run = world.run("greetings", one(other, &[]));
        if verdict == "ASK_USER" {
            // A person could answer it.
            assert_eq!(run.hold.as_ref().unwrap().held.question, "it is done");
            run = world.answer(&run, VoteDecision::Rejected, "I do not know");
        }
        assert_eq!(outcome(&run), expected);
        let notes = world.notes(run.head.trace_id, NoteKind::Telemetry);
        assert_eq!(notes.last().unwrap()["kind"], "closed");
    }
}
