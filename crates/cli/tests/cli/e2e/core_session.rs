//! The core loop in a session of Claude Code: gates, judges, blocks, the close. Events are those that the client sends.

mod attacks;
mod closes;
mod commits;
mod conflicts;
mod deliveries;
mod details;
mod flow;
mod folders;
mod gates;
mod recorded;
mod records;

use std::path::PathBuf;
use std::process::Command;

use serde_json::{Value, json};

use crate::harness::{Outcome, Place, finish};

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
        // Whether a use is drawn for an audit depends on the session's id, which is another one each time.
        let chance = if settings.contains("audit_chance_percent") {
            ""
        } else {
            "audit_chance_percent = 0\n"
        };
        place.write(".windlass/config.toml", format!("[core]\n{chance}{settings}\n"));
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
