//! The core loop in a session of Claude Code: gates, judges, blocks, the close. Events are those that the client sends.

use std::path::PathBuf;
use std::process::Command;

use serde_json::{Value, json};

use crate::harness::{Outcome, Place, finish, text_of};

/// A session in a project with the core loop, whose repository has a remote.
struct Core {
    place: Place,
    id: &'static str,
}

fn git(place: &Place, args: &[&str]) -> Outcome {
    let mut git = Command::new("git");
    git.args(["-c", "user.name=a", "-c", "user.email=a@b.example"]);
    git.args(args).current_dir(place.work());
    place.settle(&mut git);
    finish(git, &[]).exit(0)
}

impl Core {
    fn new() -> Self {
        Self::with("")
    }

    /// With settings of the loop.
    fn with(settings: &str) -> Self {
        let place = Place::with_project();
        place.write("old.txt", "old\n");
        place.write("AGENTS.md", "Use the tracker.\n");
        place.write("CORE.md", "This is the core.\n");
        if !settings.is_empty() {
            place.write(".windlass/config.toml", &format!("[core]\n{settings}\n"));
            let shown = place.run(&["trust", "--show", "--json"]).exit(0).json();
            place.run(&["trust", "--yes", &text_of(&shown, "digest")]).exit(0);
        }
        place.run(&["install", "claude", "--loop", "core", "--yes"]).exit(0);
        let bare = place.home().join("bare.git");
        git(&place, &["init", "-q", "-b", "main"]);
        git(&place, &["init", "-q", "--bare", "-b", "main", bare.to_str().unwrap()]);
        git(&place, &["add", "-A"]);
        git(&place, &["commit", "-qm", "old"]);
        git(&place, &["remote", "add", "origin", bare.to_str().unwrap()]);
        git(&place, &["push", "-qu", "origin", "main"]);
        Self { place, id: "c0ffee00-1" }
    }

    fn bare(&self) -> PathBuf {
        self.place.home().join("bare.git")
    }

    fn send(&self, name: &str, more: &Value) -> Outcome {
        let mut event = json!({
            "permission_mode": "default", "transcript_path": "/nowhere/t", "session_id": self.id,
            "cwd": self.place.work(), "hook_event_name": name,
        });
        event.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        finish(self.place.command(&["hook", "--client", "claude"]), event.to_string().as_bytes())
    }

    fn prompt(&self, text: &str) -> Outcome {
        self.send("UserPromptSubmit", &json!({ "prompt": text }))
    }

    fn before(&self, id: &str, tool: &str, input: &Value) -> Outcome {
        self.send(
            "PreToolUse",
            &json!({ "tool_name": tool, "tool_input": input, "tool_use_id": id }),
        )
    }

    fn bash(&self, id: &str, line: &str) -> Outcome {
        self.before(id, "Bash", &json!({ "command": line }))
    }

    fn write(&self, id: &str) -> Outcome {
        let path = self.place.work().join("new.txt");
        self.before(id, "Write", &json!({ "file_path": path, "content": "new\n" }))
    }

    fn stop(&self) -> Outcome {
        self.send("Stop", &json!({ "stop_hook_active": false, "last_assistant_message": "done" }))
    }

    fn start_judge(&self, id: &str, judge: &str) -> Outcome {
        let input = json!({ "description": "d", "prompt": "say yes", "subagent_type": judge });
        self.before(id, "Agent", &input)
    }

    /// A judge is started and answers with this text.
    fn judge_says(&self, id: &str, judge: &str, text: &str) -> Outcome {
        let started = self.start_judge(id, judge).exit(0).json();
        let input = started["hookSpecificOutput"]["updatedInput"].clone();
        assert!(input["prompt"].is_string(), "{started}");
        self.report(id, &input, text)
    }

    fn report(&self, id: &str, input: &Value, text: &str) -> Outcome {
        let content = json!([{ "type": "text", "text": text }]);
        let response = json!({ "status": "completed", "content": content });
        self.send(
            "PostToolUse",
            &json!({ "tool_name": "Agent", "tool_input": input, "tool_use_id": id, "tool_response": response }),
        )
    }

    /// Plan and review.
    fn plan(&self, workflow: &str) {
        self.judge_says("h", "prompt-hydrator", &hydrated(&self.place, workflow)).exit(0);
        self.judge_says("c", "critic", &criticised("PROCEED")).exit(0);
    }

    fn state(&self) -> Value {
        let folder = self.place.home().join(".claude/projects");
        let mut found = Vec::new();
        for project in std::fs::read_dir(folder).unwrap().flatten() {
            for session in std::fs::read_dir(project.path()).unwrap().flatten() {
                found.extend(std::fs::read(session.path().join("session-state.json")));
            }
        }
        assert_eq!(found.len(), 1);
        serde_json::from_slice(&found[0]).unwrap()
    }
}

/// The answer of a hydrator that follows a workflow.
fn hydrated(place: &Place, workflow: &str) -> String {
    let shown = place.run(&["workflow", "show", workflow, "--plan", "--json"]).exit(0).json();
    let steps = shown["steps"].as_array().or(shown["plan"].as_array()).expect("the steps").clone();
    let plan: Vec<Value> = steps
        .iter()
        .map(|step| json!({ "step": step["id"], "text": step["description"] }))
        .collect();
    json!({
        "intent": "Add a file", "scope": "single-session", "path": "EXECUTE", "complexity": "mechanical",
        "workflow": workflow, "acceptance_criteria": ["new.txt exists"], "plan": plan, "context": [], "summary": "s",
    })
    .to_string()
}

fn criticised(verdict: &str) -> String {
    let findings = match verdict {
        "PROCEED" => json!([]),
        _ => json!([{ "check": "feasibility", "problem": "no tests" }]),
    };
    json!({
        "verdict": verdict, "reason": "because", "findings": findings,
        "acceptance_criteria": ["new.txt exists and is new"],
    })
    .to_string()
}

fn audited(verdict: &str) -> String {
    let (issue, principle, correction) =
        if verdict == "OK" { ("", "", "") } else { ("scope drift", "scope", "go back") };
    json!({
        "verdict": verdict, "reason": "it does something else", "issue": issue, "principle": principle,
        "correction": correction,
    })
    .to_string()
}

fn verified(verdict: &str) -> String {
    let check = |result: &str| json!({ "result": result, "evidence": "seen" });
    let (result, issues) = match verdict {
        "VERIFIED" => ("passed", json!([])),
        _ => (
            "failed",
            json!([{ "dimension": "output_quality", "severity": "major", "problem": "it is empty" }]),
        ),
    };
    json!({
        "verdict": verdict, "reason": "looked at it", "issues": issues,
        "checks": {
            "intent": check(result), "criteria": check("passed"), "tests": check("passed"),
            "documentation": check("passed"), "errors": check("passed"),
        },
    })
    .to_string()
}

fn reflected() -> String {
    let reflection = "## Framework Reflection\n\n**Request**: Add a file\n**Guidance received**: the plan\n**Followed**: \
                      Yes\n\nall of it\n**Outcome**: Success.\n**Accomplishment**: new.txt\n**Proposed change**: none needed\n";
    json!({
        "reflection": reflection, "learnings": ["small files are easy"],
        "improvements": [{ "title": "Shorter plans", "description": "d" }], "summary": "s",
    })
    .to_string()
}

/// The text that the agent is given.
fn told(answer: &Outcome) -> String {
    if answer.text().is_empty() {
        return String::new();
    }
    let value = answer.json();
    value["hookSpecificOutput"]["additionalContext"].as_str().unwrap_or_default().to_owned()
}

#[test]
fn a_prompt_goes_from_plan_to_push() {
    let core = Core::new();
    let place = &core.place;
    place.run(&["work", "create", "Sort the attic"]).exit(0);
    place.run(&["memory", "add", "files are named in lower case"]).exit(0);
    // A session starts with what it needs to know.
    let env = place.home().join("env.sh");
    let mut start = place.command(&["hook", "--client", "claude"]);
    start.env("CLAUDE_ENV_FILE", &env);
    let event = json!({
        "session_id": core.id, "cwd": place.work(), "hook_event_name": "SessionStart", "source": "startup",
        "transcript_path": "/nowhere/t",
    });
    let started = told(&finish(start, event.to_string().as_bytes()).exit(0));
    for part in ["Use the tracker.", "This is the core.", "AXIOMS.md", "Sort the attic"] {
        assert!(started.contains(part), "{part}: {started}");
    }
    let variables = std::fs::read_to_string(&env).unwrap();
    for name in
        ["export AOPS=", "export ACA_DATA=", "export PYTHONPATH=", "export WINDLASS_SESSION='run_"]
    {
        assert!(variables.contains(name), "{name}: {variables}");
    }
    assert_eq!(core.state()["state"]["custodiet_blocked"], false);
    // The prompt needs a plan, made from what is known.
    let asked = told(&core.prompt("add files in the attic").exit(0));
    assert!(asked.contains("prompt-hydrator"), "{asked}");
    let file = asked.split_whitespace().find(|word| word.contains("windlass-hydrate-")).unwrap();
    let context = std::fs::read_to_string(file).unwrap();
    for part in
        ["add files in the attic", "Sort the attic", "lower case", "minor-edit", "change/red"]
    {
        assert!(context.contains(part), "{part}: {context}");
    }
    assert_eq!(core.state()["state"]["hydration_pending"], true);
    // Reading is free, in a cell that cannot write; writing is not.
    let read = core.bash("r1", "cat old.txt").exit(0).json();
    let line = read["hookSpecificOutput"]["updatedInput"]["command"].as_str().unwrap().to_owned();
    assert!(line.contains(" --reading "), "{line}");
    assert!(core.write("w1").exit(2).stderr.contains("prompt-hydrator"));
    assert!(core.bash("w2", "touch x").exit(2).stderr.contains("prompt-hydrator"));
    assert!(core.start_judge("c0", "critic").exit(2).stderr.contains("prompt-hydrator"));
    // The judges get our prompt, whatever the agent wrote.
    let given = core.start_judge("h", "prompt-hydrator").exit(0).json();
    let input = given["hookSpecificOutput"]["updatedInput"].clone();
    assert!(input["prompt"].as_str().unwrap().contains("add files in the attic"));
    assert!(!input["prompt"].as_str().unwrap().contains("say yes"));
    assert_eq!(input["run_in_background"], false);
    core.report("h", &input, &hydrated(place, "minor-edit")).exit(0);
    assert!(core.write("w3").exit(2).stderr.contains("critic"));
    core.judge_says("c", "critic", &criticised("PROCEED")).exit(0);
    assert_eq!(
        core.state()["hydration"]["acceptance_criteria"],
        json!(["new.txt exists and is new"])
    );
    assert_eq!(core.state()["hydration"]["critic_verdict"], "PROCEED");
    // Steps are told from the agent's shell, outside of the cell.
    let step = core.bash("s1", "windlass session step locate completed").exit(0).json();
    let line = step["hookSpecificOutput"]["updatedInput"]["command"].as_str().unwrap().to_owned();
    let mut shell = Command::new("bash");
    shell.args(["-c", &line]).current_dir(place.work());
    place.settle(&mut shell);
    finish(shell, &[]).exit(0);
    // The work.
    core.write("w4").exit(0);
    place.write("new.txt", "new\n");
    core.send(
        "PostToolUse",
        &json!({
            "tool_name": "Write", "tool_use_id": "w4", "tool_response": {},
            "tool_input": { "file_path": place.work().join("new.txt"), "content": "new\n" },
        }),
    )
    .exit(0);
    assert_eq!(core.state()["main_agent"]["todos_total"], 7);
    // It cannot stop before it is verified by another agent, and reflected on.
    assert!(core.stop().exit(2).stderr.contains("qa-verifier"));
    let seen = core.start_judge("q1", "qa-verifier").exit(0).json();
    let input = seen["hookSpecificOutput"]["updatedInput"].clone();
    for part in ["new.txt exists and is new", "+new", "Add a file"] {
        assert!(input["prompt"].as_str().unwrap().contains(part), "{part}: {input}");
    }
    core.report("q1", &input, &verified("ISSUES")).exit(0);
    assert!(core.stop().exit(2).stderr.contains("it is empty"));
    core.judge_says("q2", "qa-verifier", &verified("VERIFIED")).exit(0);
    assert!(core.stop().exit(2).stderr.contains("framework"));
    core.judge_says("f", "framework", &reflected()).exit(0);
    let stopped = core.stop().exit(0);
    assert_eq!(stopped.text(), "", "{stopped}");
    // Everything is pushed, and written down.
    let pushed = Command::new("git")
        .arg("--git-dir")
        .arg(core.bare())
        .args(["show", "main:new.txt"])
        .output();
    assert_eq!(pushed.unwrap().stdout, b"new\n");
    let items = place.run(&["work", "list", "--recent", "--json"]).exit(0).json();
    let titles: Vec<String> =
        items.as_array().unwrap().iter().map(|item| text_of(item, "title")).collect();
    for title in ["Reflection: Add a file", "Learning: small files are easy", "Shorter plans"] {
        assert!(titles.iter().any(|one| one == title), "{title}: {titles:?}");
    }
    let state = core.state();
    assert_eq!(state["insights"]["critic_verdict"], "PROCEED");
    assert_eq!(state["insights"]["workflows_used"], json!(["minor-edit"]));
    assert_eq!(state["main_agent"]["todos_completed"], 1);
    core.send("SessionEnd", &json!({ "reason": "other" })).exit(0);
    assert!(core.state()["ended_at"].is_string());
    let listed = place.run(&["session", "list", "--json"]).exit(0).json();
    assert_eq!(listed[0]["state"], "ended", "{listed}");
    let trends = place.run(&["session", "trends", "--json"]).exit(0).json();
    assert_eq!(trends["total"]["sessions"], 1);
    place.run(&["verify"]).exit(0);
}

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
fn prompts_with_the_escape_need_no_plan_but_verification() {
    let core = Core::new();
    for prompt in ["/compact", "# /help", ". just do it"] {
        assert_eq!(told(&core.prompt(prompt).exit(0)), "", "{prompt}");
    }
    assert_eq!(core.state()["state"]["gates_bypassed"], true);
    core.write("w1").exit(0);
    assert!(core.stop().exit(2).stderr.contains("qa-verifier"));
}

#[test]
fn a_close_that_fails_is_told_and_tried_again() {
    let core = Core::new();
    core.prompt("add a file").exit(0);
    core.plan("minor-edit");
    core.write("w1").exit(0);
    core.place.write("old.txt", "mine\n");
    // Somebody else pushed a change of the same line.
    let other = core.place.home().join("other");
    git(&core.place, &["clone", "-q", core.bare().to_str().unwrap(), other.to_str().unwrap()]);
    std::fs::write(other.join("old.txt"), "theirs\n").unwrap();
    let folder = other.to_str().unwrap();
    git(&core.place, &["-C", folder, "commit", "-qam", "theirs"]);
    git(&core.place, &["-C", folder, "push", "-q"]);
    core.judge_says("q", "qa-verifier", &verified("VERIFIED")).exit(0);
    core.judge_says("f", "framework", &reflected()).exit(0);
    let stopped = core.stop().exit(0);
    assert!(stopped.text().contains("conflict") && stopped.text().contains("old.txt"), "{stopped}");
    core.send("SessionEnd", &json!({ "reason": "other" })).exit(0);
    assert!(core.place.run(&["status"]).exit(0).stderr.contains("close failed at pull"));
    // A person resolves it.
    git(&core.place, &["pull", "-q", "--rebase", "-X", "theirs"]);
    let closed = core.place.run(&["session", "close", core.id, "--json"]).exit(0).json();
    assert_eq!(closed["closed"], true, "{closed}");
    assert!(!core.place.run(&["status"]).exit(0).stderr.contains("not closed"));
}

#[test]
fn the_repositorys_hook_validates_the_commit_in_a_cell() {
    let core = Core::with("format = \"sh format.sh\"");
    let hooks = core.place.work().join(".git/hooks");
    std::fs::create_dir_all(&hooks).unwrap();
    let hook = hooks.join("pre-commit");
    std::fs::write(&hook, "#!/bin/sh\nhostname > hooked\ngrep -q formatted new.txt\n").unwrap();
    std::fs::set_permissions(&hook, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    core.place.write("format.sh", "echo formatted >> new.txt\n");
    core.prompt("add a file").exit(0);
    core.plan("minor-edit");
    core.write("w1").exit(0);
    core.place.write("new.txt", "new\n");
    core.judge_says("q", "qa-verifier", &verified("VERIFIED")).exit(0);
    core.judge_says("f", "framework", &reflected()).exit(0);
    let stopped = core.stop().exit(0);
    assert_eq!(stopped.text(), "", "{stopped}");
    let mut show = Command::new("git");
    show.arg("--git-dir").arg(core.bare()).args(["show", "main:new.txt", "main:hooked"]);
    let shown = show.output().unwrap();
    assert_eq!(String::from_utf8_lossy(&shown.stdout), "new\nformatted\ncell\n");
}

#[test]
fn malformed_events_and_a_damaged_loop_are_refusals() {
    let core = Core::new();
    core.prompt("add a file").exit(0);
    core.send("PreToolUse", &json!({ "tool_name": 1, "tool_input": [], "tool_use_id": "x" }))
        .exit(2);
    let without_id =
        json!({ "cwd": core.place.work(), "hook_event_name": "PreToolUse", "tool_name": "Bash" });
    finish(core.place.command(&["hook", "--client", "claude"]), without_id.to_string().as_bytes())
        .exit(2);
    // What the gates go by cannot be switched off by damage.
    let file = core.place.state().join("session-loop");
    std::fs::write(&file, "garbage\n").unwrap();
    core.bash("r1", "cat old.txt").exit(2);
}

#[test]
fn what_was_said_is_read_from_the_clients_record_and_analysed() {
    let core = Core::new();
    let place = &core.place;
    core.prompt("add a file").exit(0);
    core.plan("minor-edit");
    let record = place.home().join(".claude/projects/-somewhere");
    std::fs::create_dir_all(&record).unwrap();
    let lines = [
        r#"{"type":"user","message":{"role":"user","content":"add a file"}}"#,
        "a line that nobody can read \"message\"",
        r#"{"type":"assistant","message":{"content":[{"type":"text","text":"I add it."},{"type":"tool_use","id":"t","name":"Write","input":{"file_path":"x"}}]}}"#,
        r#"{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"t","content":"ok"}]}}"#,
    ];
    std::fs::write(record.join(format!("{}.jsonl", core.id)), lines.join("\n")).unwrap();
    let said = place.run(&["session", "transcript", "--said", core.id]).exit(0);
    assert!(
        said.text().contains("## User\n\nadd a file") && said.text().contains("I add it."),
        "{said}"
    );
    let turns = place.run(&["session", "transcript", "--said", core.id, "--json"]).exit(0).json();
    assert_eq!(turns[1], json!({ "turn": "response", "text": "I add it.", "at": null }));
    // The automatic insights are there at each stop; an agent's go over them, and what is recorded stays.
    core.stop().exit(0);
    let answer = json!({
        "summary": "A file was added.", "outcome": "success", "accomplishments": ["a file"], "friction_points": ["slow"],
        "proposed_changes": [], "learning_observations": ["x"], "context_gaps": [], "skill_compliance": {},
        "user_mood": 0.5, "conversation_flow": ["asked", "done"], "user_prompts": ["add a file"],
    });
    let mut bad = answer.clone();
    bad["user_mood"] = json!(7);
    let answers = place.home().join("answers.json");
    let script = json!({ "phases": { "analyse": [{ "answer": bad }, { "answer": answer }] } });
    std::fs::write(&answers, script.to_string()).unwrap();
    git(place, &["add", "-A"]);
    place.run(&["session", "insights", core.id, "--answers", answers.to_str().unwrap()]).exit(0);
    let mut files =
        std::fs::read_dir(place.home().join(".local/share/windlass/sessions/insights")).unwrap();
    let written: Value =
        serde_json::from_slice(&std::fs::read(files.next().unwrap().unwrap().path()).unwrap())
            .unwrap();
    assert_eq!(written["summary"], "A file was added.");
    assert_eq!(written["critic_verdict"], "PROCEED");
    // The next stop keeps them.
    core.stop().exit(0);
    assert_eq!(core.state()["insights"]["user_mood"], 0.5);
    let trends = place.run(&["session", "trends", "--json"]).exit(0).json();
    assert_eq!(trends["total"]["outcomes"]["success"], 1, "{trends}");
}

/// The events of a whole session, with unknown and odd ones between them, each get a decision.
#[test]
fn a_recorded_stream_of_events_is_decided_on_event_by_event() {
    let core = Core::new();
    let stream = [
        ("SessionStart", json!({ "source": "startup" })),
        ("InstructionsLoaded", json!({ "file": "CLAUDE.md" })),
        ("UserPromptSubmit", json!({ "prompt": "add a file" })),
        (
            "PreToolUse",
            json!({ "tool_name": "Read", "tool_use_id": "1", "tool_input": { "file_path": "old.txt" } }),
        ),
        (
            "PostToolUse",
            json!({ "tool_name": "Read", "tool_use_id": "1", "tool_input": { "file_path": "old.txt" }, "tool_response": {} }),
        ),
        (
            "PreToolUse",
            json!({ "tool_name": "Write", "tool_use_id": "2", "tool_input": { "file_path": "x", "content": "" } }),
        ),
        ("PreToolUse", json!({ "tool_name": "NoSuchTool", "tool_use_id": "3", "tool_input": {} })),
        (
            "PreToolUse",
            json!({ "tool_name": "TodoWrite", "tool_use_id": "4", "tool_input": { "todos": [] } }),
        ),
        ("Notification", json!({ "message": "m", "notification_type": "idle" })),
        ("PreCompact", json!({ "trigger": "auto" })),
        ("SubagentStart", json!({ "agent_id": "a", "agent_type": "general-purpose" })),
        (
            "SubagentStop",
            json!({ "agent_id": "a", "agent_type": "general-purpose", "stop_hook_active": false }),
        ),
        ("Stop", json!({ "stop_hook_active": false })),
        ("FutureEvent", json!({ "prompt": "?" })),
        ("SessionEnd", json!({ "reason": "other" })),
    ];
    let codes: Vec<Option<i32>> =
        stream.iter().map(|(name, more)| core.send(name, more).code).collect();
    let expected = [0, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 0, 2, 2, 0].map(Some);
    assert_eq!(codes, expected);
    core.place.run(&["verify"]).exit(0);
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

#[test]
fn a_session_is_given_as_much_as_is_set_and_told_what_was_cut() {
    let core = Core::with("context_bytes_max = 12000");
    core.place.write("AGENTS.md", "a".repeat(8000));
    core.place.write("CORE.md", "c".repeat(8000));
    let started = told(&core.send("SessionStart", &json!({ "source": "startup" })).exit(0));
    assert!(started.contains(&"a".repeat(8000)), "{}", started.len());
    assert!(
        started.contains("[cut to 12000 bytes: CORE.md"),
        "{}",
        &started[started.len() - 200..]
    );
}
