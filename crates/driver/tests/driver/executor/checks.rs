//! The four checks: each at its point, each failure to each outcome.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use windlass_driver::executor::{InMemoryConfinement, TaskConfinement};
use windlass_kernel::TraceId;
use windlass_kernel::run::Event;

use crate::executor::world::{World, answer, detail, one, outcome, phases};

/// Tells the truth about the sandbox but for one time.
pub struct Liar {
    truth: InMemoryConfinement,
    asked: AtomicU64,
    lies_at: u64,
    /// What it says then: the opposite, or nothing.
    knows: bool,
}

impl Liar {
    pub fn at(lies_at: u64, knows: bool) -> Arc<Self> {
        Arc::new(Self {
            truth: InMemoryConfinement::default(),
            asked: AtomicU64::new(0),
            lies_at,
            knows,
        })
    }
}

impl TaskConfinement for Liar {
    fn set_confined(&self, task: TraceId, on: bool) {
        self.truth.set_confined(task, on);
    }
    fn is_confined(&self, task: TraceId) -> Option<bool> {
        let truth = self.truth.is_confined(task);
        if self.asked.fetch_add(1, Ordering::SeqCst) + 1 != self.lies_at {
            return truth;
        }
        truth.map(|truth| !truth).filter(|_| self.knows)
    }
}

/// The times at which a refactoring looks at the sandbox, with the check that looks.
const LOOKS: [(u64, &str, &str); 5] = [
    (1, "before_sandbox_exit", "p5"),
    // Before and after it is left.
    (2, "before_model", "p5"),
    (3, "before_model", "p5"),
    (4, "after_model", "p5"),
    // The fifth time is verification's.
    (6, "before_save", "p9"),
];

#[test]
fn each_check_fails_at_its_point_and_each_failure_comes_to_what_the_table_says() {
    for (at, check, phase) in LOOKS {
        for (named, expected) in [
            ("HALT", "BLOCKED HALT"),
            ("ASK_USER", "ESCALATION_REQUESTED ASK_USER"),
            ("INTERVENTION_REQUIRED", "ESCALATION_REQUESTED INTERVENTION_REQUIRED"),
        ] {
            let mut world = World::settled();
            let file = world.files.get_mut("driver/verification.toml").unwrap();
            let from = "policy_or_authority_violation = \"HALT\"";
            let to = format!("policy_or_authority_violation = \"{named}\"");
            let text = String::from_utf8(file.clone()).unwrap();
            assert!(text.contains(from));
            *file = text.replace(from, &to).into_bytes();
            *world.confinement.lock().unwrap() = Some(Liar::at(at, true));
            let run = world.run("refactor the parser", one(answer("refactor"), &[]));
            // No edit of an output mends a sandbox: after the model that is a halt.
            let mends_nothing = check == "after_model" && named == "INTERVENTION_REQUIRED";
            let expected = if mends_nothing { "BLOCKED HALT" } else { expected };
            assert_eq!(outcome(&run), expected, "{check}");
            let reason = detail(&run);
            assert!(reason.contains("DRIVER_SANDBOX_INCONSISTENT"), "{check}: {reason}");
            let events = world.events(run.head.trace_id);
            let last = events.iter().rev().find_map(|event| match event {
                Event::Checked { phase, check, .. } => Some((phase.as_str(), check.as_str())),
                _ => None,
            });
            assert_eq!(last, Some((phase, check)));
            assert_eq!(phases(&events).last().unwrap(), &format!("{phase}/1"));
            assert_eq!(run.invocations, u64::from(at > 3), "{check}");
        }
    }
}

#[test]
fn a_sandbox_that_nobody_can_look_at_is_inconsistent() {
    for (at, check, _) in LOOKS {
        let world = World::settled();
        *world.confinement.lock().unwrap() = Some(Liar::at(at, false));
        let run = world.run("refactor the parser", one(answer("refactor"), &[]));
        assert_eq!(outcome(&run), "BLOCKED HALT", "{check}");
        assert!(detail(&run).contains("could not be determined"), "{}", detail(&run));
    }
}

#[test]
fn the_checks_of_a_calm_task_stand_at_their_points() {
    let world = World::settled();
    let run = world.run("refactor the parser", one(answer("refactor"), &[]));
    let events = world.events(run.head.trace_id);
    let seen: Vec<String> = events
        .iter()
        .filter_map(|event| match event {
            Event::Checked { check, verdict, .. } => Some(format!("{check} {verdict}")),
            Event::InvocationStarted { .. } => Some("model".to_owned()),
            Event::Noted { body, .. } if body["kind"] == "saved" => Some("save".to_owned()),
            Event::Noted { body, .. } if body["sandbox"] == "DISABLED" => Some("exit".to_owned()),
            _ => None,
        })
        .collect();
    assert_eq!(
        seen,
        [
            "before_sandbox_exit PASS",
            "exit",
            "before_model PASS",
            "model",
            "after_model PASS",
            "before_save PASS"
        ]
    );
}

#[test]
fn a_model_that_was_not_selected_halts() {
    let world = World::settled();
    let mut answers = one(answer("planning"), &[]);
    answers["model"] = "kimi-k3".into();
    let run = world.run("a roadmap for spring", answers);
    assert_eq!(outcome(&run), "BLOCKED HALT");
    assert!(detail(&run).contains("`kimi-k3` answered"), "{}", detail(&run));
}

#[test]
fn what_the_task_may_not_change_halts() {
    for (task, line) in [
        (serde_json::json!({ "allowed_paths": ["docs"] }), "echo x >> src/a.rs"),
        (serde_json::json!({ "denied_paths": ["src/a.rs"] }), "echo x >> src/a.rs"),
    ] {
        let world = World::settled();
        let process = world.process(crate::executor::faults::Fault::None);
        let task = serde_json::json!({ "task": "implement the cache", "constraints": task });
        let run = process.start(&world, task, one(answer("code_generation"), &[line])).unwrap();
        assert_eq!(outcome(&run), "BLOCKED HALT");
        assert!(detail(&run).contains("`src/a.rs`"), "{}", detail(&run));
    }
    // A denial that cannot be understood is not one that does not hold.
    let world = World::settled();
    let process = world.process(crate::executor::faults::Fault::None);
    let constraints = serde_json::json!({ "denied_paths": ["src/**"] });
    let task = serde_json::json!({ "task": "implement the cache", "constraints": constraints });
    let line = "echo x >> src/a.rs";
    let run = process.start(&world, task, one(answer("code_generation"), &[line])).unwrap();
    assert_eq!(outcome(&run), "ESCALATION_REQUESTED ASK_USER");
}
