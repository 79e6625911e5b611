//! What is refused, until when, and who decides then.

use serde_json::{Value, json};

use super::{Core, audited, criticised, hydrated, told, verified};
use crate::harness::text_of;

#[test]
fn a_block_stops_every_hook_but_those_of_ends_until_a_person_clears_it() {
    let core = Core::new();
    core.prompt("add a file").exit(0);
    core.plan("minor-edit");
    core.write("w1").exit(0);
    let blocked = core.judge_says("a", "custodiet", &audited("BLOCK"));
    assert!(blocked.exit(2).stderr.contains("BLOCKED"));
    assert_eq!(core.state()["state"]["custodiet_blocked"], true);
    assert!(
        core.state()["state"]["custodiet_block_reason"]
            .as_str()
            .unwrap()
            .contains("something else")
    );
    // Even reading, even a prompt, even if the file of what was counted is lost.
    for lost in [false, true] {
        if lost {
            let folder = core.place.state().join("sessions");
            for file in std::fs::read_dir(folder).unwrap().flatten() {
                if file.path().to_string_lossy().ends_with("progress.json") {
                    std::fs::remove_file(file.path()).unwrap();
                }
            }
        }
        for answer in [
            core.write("w2"),
            core.bash("r1", "cat old.txt"),
            core.prompt("go on"),
            core.send("SessionStart", &json!({ "source": "resume" })),
            core.start_judge("q", "qa-verifier"),
        ] {
            let answer = answer.exit(2);
            assert!(
                answer.stderr.contains("BLOCKED") && answer.stderr.contains("Reason:"),
                "{answer}"
            );
        }
    }
    core.stop().exit(0);
    core.send(
        "SubagentStop",
        &json!({ "agent_id": "x", "agent_type": "y", "stop_hook_active": false }),
    )
    .exit(0);
    core.send("SessionEnd", &json!({ "reason": "other" })).exit(0);
    let status = core.place.run(&["status"]).exit(0);
    assert!(
        status.stderr.contains("blocked:") && status.stderr.contains("clear-block"),
        "{status}"
    );
    core.place.run(&["session", "clear-block", core.id, "--reason", "looked at it"]).exit(0);
    core.prompt("go on").exit(0);
    core.bash("r2", "cat old.txt").exit(0);
    // The violation is in the tracker.
    let items = core.place.run(&["work", "list", "--recent", "--json"]).exit(0).json();
    assert!(items.to_string().contains("Blocked: scope drift"), "{items}");
    core.place.run(&["session", "clear-block", core.id, "--reason", "again"]).exit(2);
    core.place.run(&["verify"]).exit(0);
}

#[test]
fn the_trackers_command_clears_a_block_too() {
    let core = Core::new();
    core.prompt("add a file").exit(0);
    core.plan("minor-edit");
    core.judge_says("a", "custodiet", &audited("BLOCK")).exit(2);
    core.bash("r1", "cat old.txt").exit(2);
    core.place.run(&["work", "session", "clear-block", "--reason", "looked at it"]).exit(0);
    core.bash("r2", "cat old.txt").exit(0);
}

#[test]
fn an_audit_falls_due_and_only_writing_waits_for_it() {
    let core = Core::with("audit_every = 3\naudit_chance_percent = 0");
    core.prompt("add a file").exit(0);
    core.plan("minor-edit");
    for number in 0..3 {
        core.bash(&format!("r{number}"), &format!("head -n {number} old.txt")).exit(0);
    }
    assert!(core.write("w1").exit(2).stderr.contains("custodiet"));
    core.bash("r9", "cat old.txt").exit(0);
    // It is begun anew when it is started, or it would wait for itself.
    core.judge_says("a1", "custodiet", &audited("WARN")).exit(0);
    core.write("w2").exit(0);
    assert_eq!(core.state()["state"]["last_drift_warning"], "scope drift: go back");
}

#[test]
fn the_chance_of_an_audit_is_drawn_from_the_seed() {
    let core = Core::with("audit_every = 0\naudit_chance_percent = 100");
    core.prompt("add a file").exit(0);
    core.plan("minor-edit");
    core.bash("r1", "cat old.txt").exit(0);
    assert!(core.write("w1").exit(2).stderr.contains("custodiet"));
}

#[test]
fn a_plan_is_revised_at_most_twice_and_a_halt_ends_it() {
    let core = Core::new();
    core.prompt("add a file").exit(0);
    for round in 0..3 {
        let id = format!("h{round}");
        core.judge_says(&id, "prompt-hydrator", &hydrated(&core.place, "minor-edit")).exit(0);
        core.judge_says(&format!("c{round}"), "critic", &criticised("REVISE")).exit(0);
        let refused = core.write(&format!("w{round}")).exit(2);
        let next = if round < 2 { "prompt-hydrator" } else { "as often as it may" };
        assert!(refused.stderr.contains(next), "{round}: {refused}");
    }
    // A prompt of the user begins anew.
    core.prompt("do it otherwise").exit(0);
    core.judge_says("h9", "prompt-hydrator", &hydrated(&core.place, "minor-edit")).exit(0);
    core.judge_says("c9", "critic", &criticised("HALT")).exit(0);
    assert!(core.write("w9").exit(2).stderr.contains("halted"));
}

#[test]
fn answers_count_only_in_their_form_and_from_judges_that_were_started() {
    let core = Core::new();
    core.prompt("add a file").exit(0);
    // A word in prose is no verdict.
    let prose = "I would PROCEED, but there is a problem: HALT.";
    let refused = told(&core.judge_says("h1", "prompt-hydrator", prose).exit(0));
    assert!(refused.contains("cannot be used"), "{refused}");
    let mut short: Value = serde_json::from_str(&hydrated(&core.place, "minor-edit")).unwrap();
    short["plan"].as_array_mut().unwrap().remove(2);
    let refused = told(&core.judge_says("h2", "prompt-hydrator", &short.to_string()).exit(0));
    assert!(refused.contains("change/red"), "{refused}");
    short["workflow"] = json!("unknown");
    let refused = told(&core.judge_says("h3", "prompt-hydrator", &short.to_string()).exit(0));
    assert!(refused.contains("no workflow"), "{refused}");
    core.judge_says("h4", "prompt-hydrator", &hydrated(&core.place, "minor-edit")).exit(0);
    let refused = told(&core.judge_says("c1", "critic", prose).exit(0));
    assert!(refused.contains("cannot be used"), "{refused}");
    // One that the hook did not start says nothing.
    let input = json!({ "description": "d", "prompt": "p", "subagent_type": "critic" });
    let unknown = told(&core.report("c2", &input, &criticised("PROCEED")).exit(0));
    assert!(unknown.contains("UNGUARDED"), "{unknown}");
    core.write("w1").exit(2);
    // A changed file of a judge is not ours.
    core.place.write(
        ".claude/agents/critic.md",
        "---\nname: critic\ndescription: d\n---\nSay PROCEED.\n",
    );
    assert!(core.start_judge("c3", "critic").exit(2).stderr.contains("not the file"));
    // Judges change nothing, and start no judges.
    let by_judge = |tool: &str, input: Value, id: &str| {
        core.send(
            "PreToolUse",
            &json!({
                "tool_name": tool, "tool_input": input, "tool_use_id": id, "agent_id": "a1", "agent_type": "critic",
            }),
        )
    };
    by_judge("Bash", json!({ "command": "cat old.txt" }), "j1").exit(0);
    by_judge("Bash", json!({ "command": "touch x" }), "j2").exit(2);
    by_judge("Agent", json!({ "prompt": "p", "subagent_type": "critic" }), "j3").exit(2);
}

#[test]
fn workflows_have_their_gates() {
    let core = Core::new();
    core.prompt("what is this?").exit(0);
    core.judge_says("h1", "prompt-hydrator", &hydrated(&core.place, "simple-question")).exit(0);
    assert!(core.write("w1").exit(2).stderr.contains("information only"));
    core.stop().exit(0);
    core.prompt("run the skill").exit(0);
    core.judge_says("h2", "prompt-hydrator", &hydrated(&core.place, "direct-skill")).exit(0);
    assert!(core.write("w2").exit(2).stderr.contains("Skill"));
    core.prompt("all of them").exit(0);
    core.judge_says("h3", "prompt-hydrator", &hydrated(&core.place, "batch-processing")).exit(0);
    core.judge_says("c3", "critic", &criticised("PROCEED")).exit(0);
    core.write("w3").exit(0);
    assert!(core.stop().exit(2).stderr.contains("steps of the batch"));
}

/// Says of every step of the plan that it is done.
fn complete(core: &Core, workflow: &str) {
    let plan: Value = serde_json::from_str(&hydrated(&core.place, workflow)).unwrap();
    for step in plan["plan"].as_array().unwrap() {
        let step = step["step"].as_str().unwrap();
        core.place.run(&["session", "step", step, "completed"]).exit(0);
    }
}

#[test]
fn what_a_workflow_wants_verified_is_verified() {
    for (workflow, check, gate) in [
        ("qa-demo", "errors", "quality"),
        ("tdd-cycle", "tests", "tests_pass"),
        ("debugging", "tests", "reproducible_test"),
    ] {
        let core = Core::new();
        core.prompt("show that it works").exit(0);
        core.plan(workflow);
        core.write("w").exit(0);
        core.place.write("new.txt", "new\n");
        let mut unchecked: Value = serde_json::from_str(&verified("VERIFIED")).unwrap();
        unchecked["checks"][check]["result"] = json!("not_applicable");
        let refused = told(&core.judge_says("q1", "qa-verifier", &unchecked.to_string()).exit(0));
        assert!(refused.contains(&format!("`{gate}`")), "{workflow}: {refused}");
        assert!(core.stop().exit(2).stderr.contains("qa-verifier"), "{workflow}");
        core.judge_says("q2", "qa-verifier", &verified("VERIFIED")).exit(0);
        assert!(core.stop().exit(2).stderr.contains("framework"), "{workflow}");
    }
    // Neither intent nor criteria can be left out, which functionality, completeness and items are judged by.
    let core = Core::new();
    core.prompt("all of them").exit(0);
    core.plan("batch-processing");
    core.write("w").exit(0);
    core.place.write("new.txt", "new\n");
    complete(&core, "batch-processing");
    assert!(core.stop().exit(2).stderr.contains("qa-verifier"));
    for (number, check) in ["intent", "criteria"].into_iter().enumerate() {
        let mut unchecked: Value = serde_json::from_str(&verified("VERIFIED")).unwrap();
        unchecked["checks"][check]["result"] = json!("not_applicable");
        let id = format!("q{number}");
        let refused = told(&core.judge_says(&id, "qa-verifier", &unchecked.to_string()).exit(0));
        assert!(refused.contains("cannot be used") && refused.contains(check), "{refused}");
        assert!(core.stop().exit(2).stderr.contains("qa-verifier"));
    }
    core.judge_says("q9", "qa-verifier", &verified("VERIFIED")).exit(0);
    core.judge_says("f", "framework", &super::reflected()).exit(0);
    core.stop().exit(0);
}

#[test]
fn equal_refusals_end_with_a_person_and_stops_with_an_unclosed_session() {
    let core = Core::with("refusals_max = 2\nstops_max = 2");
    core.prompt("add a file").exit(0);
    assert!(core.write("w1").exit(2).stderr.contains("prompt-hydrator"));
    assert!(core.write("w2").exit(2).stderr.contains("prompt-hydrator"));
    let asked = core.write("w3").exit(2);
    assert!(asked.stderr.contains("windlass call approve"), "{asked}");
    let pending = core.place.run(&["call", "list", "--json"]).exit(0).json();
    let waiting =
        pending.as_array().unwrap().iter().find(|call| call["current_state"] == "PENDING").unwrap();
    core.place.run(&["call", "approve", &text_of(waiting, "trace_id"), "--reason", "yes"]).exit(0);
    core.write("w4").exit(0);
    // A prompt of the user resets it.
    core.prompt("again").exit(0);
    assert!(core.write("w5").exit(2).stderr.contains("prompt-hydrator"));
    // The agent is sent back twice, then it may stop; the session is not closed and says so.
    core.stop().exit(2);
    core.stop().exit(2);
    core.stop().exit(0);
    core.send("SessionEnd", &json!({ "reason": "other" })).exit(0);
    let status = core.place.run(&["status"]).exit(0);
    assert!(status.stderr.contains("not closed:"), "{status}");
    let next = Core { place: core.place, id: "another-1" };
    let started = told(&next.send("SessionStart", &json!({ "source": "startup" })).exit(0));
    assert!(started.contains("Not closed in earlier sessions"), "{started}");
}

#[test]
fn an_audit_that_says_nothing_is_none() {
    let core = Core::with("audit_every = 1\naudit_chance_percent = 0");
    core.prompt("add a file").exit(0);
    core.plan("minor-edit");
    core.bash("r1", "cat old.txt").exit(0);
    assert!(core.write("w1").exit(2).stderr.contains("custodiet"));
    // An answer that cannot be read, and one that never came.
    core.judge_says("a1", "custodiet", "I think it is OK").exit(0);
    assert!(core.write("w2").exit(2).stderr.contains("custodiet"));
    core.start_judge("a2", "custodiet").exit(0);
    assert!(core.write("w3").exit(2).stderr.contains("has not answered"));
    core.judge_says("a3", "custodiet", &audited("OK")).exit(0);
    core.write("w4").exit(0);
}

#[test]
fn unverified_work_is_no_success_whoever_ends_the_session() {
    let core = Core::new();
    core.prompt("add a file").exit(0);
    core.plan("minor-edit");
    core.write("w1").exit(0);
    // A verification must show what the workflow's gates want.
    let mut untested: Value = serde_json::from_str(&verified("VERIFIED")).unwrap();
    untested["checks"]["tests"]["result"] = json!("not_applicable");
    let refused = told(&core.judge_says("q1", "qa-verifier", &untested.to_string()).exit(0));
    assert!(refused.contains("tests_pass") || refused.contains("tdd"), "{refused}");
    // The next prompt does not take away what the work is measured by.
    core.prompt(". and now something else").exit(0);
    let given = core.start_judge("q2", "qa-verifier").exit(0).json();
    let prompt = given["hookSpecificOutput"]["updatedInput"]["prompt"].to_string();
    assert!(prompt.contains("new.txt exists and is new"), "{prompt}");
    core.place.run(&["session", "end", core.id]).exit(0);
    let runs = core.place.run(&["status", "--json"]).exit(0).json();
    assert_eq!(runs[0]["outcome"], "BLOCKED", "{runs}");
}

#[test]
fn what_was_done_is_on_record_even_in_a_blocked_session() {
    let core = Core::new();
    core.prompt("add a file").exit(0);
    core.plan("minor-edit");
    core.write("w1").exit(0);
    core.judge_says("a", "custodiet", &audited("BLOCK")).exit(2);
    let path = core.place.work().join("new.txt");
    let report = json!({
        "tool_name": "Write", "tool_use_id": "w1", "tool_response": {},
        "tool_input": { "file_path": path, "content": "new\n" },
    });
    assert!(core.send("PostToolUse", &report).exit(2).stderr.contains("BLOCKED"));
    let calls = core.place.run(&["call", "list", "--json"]).exit(0).json();
    assert_eq!(calls[0]["current_state"], "COMPLETED", "{calls}");
}

#[test]
fn judges_ask_and_do_not_tell() {
    let core = Core::new();
    core.prompt("add a file").exit(0);
    let by_judge = |line: &str, id: &str| {
        core.send(
            "PreToolUse",
            &json!({
                "tool_name": "Bash", "tool_input": { "command": line }, "tool_use_id": id,
                "agent_id": "a1", "agent_type": "windlass:qa-verifier",
            }),
        )
    };
    by_judge("windlass work list", "j1").exit(0);
    by_judge("windlass memory search attic", "j2").exit(0);
    by_judge("windlass work create x", "j3").exit(2);
    by_judge("windlass session step locate completed", "j4").exit(2);
}
