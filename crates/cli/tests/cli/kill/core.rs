//! A session of the core loop whose hook is killed at each append of each event: no gate opens that should not, nothing is
//! pushed or written down twice, and the session goes on to its end.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};
use windlass_store::fault;

use crate::harness::{Outcome, Place, finish};

/// No event appends more often.
const APPENDS_MAX: u32 = 12;

/// One session, in which one event is killed.
struct Session {
    place: Place,
    events: u32,
    /// The event, from 1, the point and how often it is passed before.
    kill: (u32, &'static str, u32),
    killed: bool,
}

fn git(place: &Place, args: &[&str]) -> String {
    let mut git = Command::new("git");
    git.args(["-c", "user.name=a", "-c", "user.email=a@b.example"])
        .args(args)
        .current_dir(place.work());
    place.settle(&mut git);
    finish(git, &[]).exit(0).text().trim().to_owned()
}

impl Session {
    fn new(kill: (u32, &'static str, u32)) -> Self {
        let place = Place::with_project();
        place.write(".windlass/config.toml", "[core]\naudit_chance_percent = 0\n");
        place.run(&["install", "claude", "--loop", "core", "--yes"]).exit(0);
        let bare = place.home().join("bare.git");
        git(&place, &["init", "-q", "-b", "main"]);
        git(&place, &["init", "-q", "--bare", "-b", "main", bare.to_str().unwrap()]);
        git(&place, &["add", "-A"]);
        git(&place, &["commit", "-qm", "old"]);
        git(&place, &["remote", "add", "origin", bare.to_str().unwrap()]);
        git(&place, &["push", "-qu", "origin", "main"]);
        Self { place, events: 0, kill, killed: false }
    }

    /// Sends an event; one whose hook dies is sent again.
    fn send(&mut self, name: &str, more: &Value) -> Outcome {
        let mut event = json!({
            "session_id": "c0ffee00-9", "cwd": self.place.work(), "hook_event_name": name,
            "permission_mode": "default", "transcript_path": "/nowhere/t",
        });
        event.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        self.events += 1;
        let (at, point, count) = self.kill;
        let mut command = self.place.command(&["hook", "--client", "claude"]);
        if at == self.events {
            command.env(fault::VARIABLE, format!("{point}:{count}"));
        }
        let outcome = finish(command, event.to_string().as_bytes());
        if outcome.code.is_some() {
            return outcome;
        }
        self.killed = true;
        assert!(outcome.stdout.is_empty(), "{outcome}");
        self.states_are_whole();
        finish(self.place.command(&["hook", "--client", "claude"]), event.to_string().as_bytes())
    }

    /// Whatever was killed, the files that others read of sessions are whole.
    fn states_are_whole(&self) {
        let projects = self.place.home().join(".claude/projects");
        let folders = |folder: &Path| -> Vec<PathBuf> {
            let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
            entries.map(|entry| entry.path()).collect()
        };
        let sessions = folders(&projects).into_iter().flat_map(|project| folders(&project));
        for file in sessions.map(|session| session.join("session-state.json")) {
            if let Ok(bytes) = std::fs::read(&file) {
                let state: Value = serde_json::from_slice(&bytes).unwrap();
                assert_eq!(state["session_id"], "c0ffee00-9", "{state}");
            }
        }
    }

    fn judge(&mut self, id: &str, judge: &str, answer: &Value) {
        let input = json!({ "description": "d", "prompt": "p", "subagent_type": judge });
        let started = self.send(
            "PreToolUse",
            &json!({ "tool_name": "Agent", "tool_input": input, "tool_use_id": id }),
        );
        let started = started.exit(0).json();
        let input = started["hookSpecificOutput"]["updatedInput"].clone();
        let content = json!([{ "type": "text", "text": answer.to_string() }]);
        self.send(
            "PostToolUse",
            &json!({
                "tool_name": "Agent", "tool_input": input, "tool_use_id": id,
                "tool_response": { "status": "completed", "content": content },
            }),
        )
        .exit(0);
    }

    fn write(&mut self, id: &str) -> Outcome {
        let path = self.place.work().join("new.txt");
        let input = json!({ "file_path": path, "content": "new\n" });
        self.send(
            "PreToolUse",
            &json!({ "tool_name": "Write", "tool_input": input, "tool_use_id": id }),
        )
    }

    /// The whole session.
    fn go(&mut self) {
        self.send("SessionStart", &json!({ "source": "startup" })).exit(0);
        self.send("UserPromptSubmit", &json!({ "prompt": "add a file" })).exit(0);
        self.write("w0").exit(2);
        let shown =
            self.place.run(&["workflow", "show", "minor-edit", "--plan", "--json"]).exit(0).json();
        let steps = shown["steps"].as_array().or(shown["plan"].as_array()).unwrap().clone();
        let plan: Vec<Value> =
            steps.iter().map(|step| json!({ "step": step["id"], "text": "t" })).collect();
        self.judge("h", "prompt-hydrator", &json!({
            "intent": "Add a file", "scope": "single-session", "path": "EXECUTE", "complexity": "mechanical",
            "workflow": "minor-edit", "acceptance_criteria": ["it is there"], "plan": plan,
        }));
        self.write("w1").exit(2);
        self.judge("c", "critic", &json!({
            "verdict": "PROCEED", "reason": "r", "findings": [], "acceptance_criteria": ["it is there"],
        }));
        // One that died after it was given is not given twice; the agent tries anew.
        if self.write("w2").code == Some(2) {
            self.write("w3").exit(0);
        }
        self.place.write("new.txt", "new\n");
        assert!(self.stop().exit(2).stderr.contains("qa-verifier"));
        let passed = json!({ "result": "passed", "evidence": "e" });
        self.judge("q", "qa-verifier", &json!({
            "verdict": "VERIFIED", "reason": "r", "issues": [], "checks": {
                "intent": passed, "criteria": passed, "tests": passed, "documentation": passed, "errors": passed,
            },
        }));
        let reflection = "## Framework Reflection\n\n**Request**: r\n**Guidance received**: g\n**Followed**: Yes\n\
                          **Outcome**: Success\n**Accomplishment**: a\n**Proposed change**: none needed\n";
        self.judge(
            "f",
            "framework",
            &json!({
                "reflection": reflection, "learnings": ["l"], "improvements": [], "summary": "s",
            }),
        );
        self.stop().exit(0);
        self.send("SessionEnd", &json!({ "reason": "other" })).exit(0);
    }

    fn stop(&mut self) -> Outcome {
        self.send("Stop", &json!({ "stop_hook_active": false }))
    }

    /// What must be so however it was killed.
    fn check(&self) {
        let place = &self.place;
        let bare = place.home().join("bare.git");
        let bare = bare.to_str().unwrap();
        assert_eq!(
            git(place, &["--git-dir", bare, "rev-list", "--count", "main"]),
            "2",
            "{:?}",
            self.kill
        );
        assert_eq!(git(place, &["--git-dir", bare, "show", "main:new.txt"]), "new");
        let items = place.run(&["work", "list", "--recent", "--json"]).exit(0).json();
        for title in ["Add a file", "Reflection: Add a file", "Learning: l"] {
            let found =
                items.as_array().unwrap().iter().filter(|item| item["title"] == title).count();
            assert_eq!(found, 1, "{title}: {:?} {items}", self.kill);
        }
        let sessions = place.run(&["session", "list", "--json"]).exit(0).json();
        assert_eq!(sessions[0]["state"], "ended", "{:?} {sessions}", self.kill);
        place.run(&["verify"]).exit(0);
    }
}

#[test]
fn a_session_of_the_core_loop_survives_every_kill_of_its_hook() {
    let mut calm = Session::new((0, "append.after", 0));
    calm.go();
    calm.check();
    let mut kills = 0;
    for event in 1..=calm.events {
        for point in ["append.inside", "append.after"] {
            // One of the two for each event in a check.
            let all = std::env::var_os("WINDLASS_SOAK").is_some();
            if !all && (event % 2 == 0) != (point == "append.inside") {
                continue;
            }
            for count in 1..=APPENDS_MAX {
                let mut session = Session::new((event, point, count));
                session.go();
                session.check();
                if !session.killed {
                    break;
                }
                kills += 1;
            }
        }
    }
    println!("{kills} kills");
    assert!(kills > 20, "{kills}");
}
