//! Rules on real programs and files: what is not met blocks or warns, and is on record.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use serde_json::json;
use windlass_engine::GitRepository;
use windlass_kernel::run::GateStatus::{Blocked, Passed, Warned};
use windlass_kernel::run::plan::{
    Compare, Effect, Evidence, OnFailure, Phase, Plan, Rule, RuleLevel,
};
use windlass_kernel::run::{Event, GovernanceResult, Run};

use super::{detail, sh, write};
use crate::crash::Life;
use crate::plans::{gate, phase, plan, redo};
use crate::world::{World, end, new_run};

fn rule(id: &str, on_failure: OnFailure, evidence: Evidence) -> Rule {
    Rule {
        evidence,
        id: id.to_owned(),
        level: RuleLevel::Project,
        on_failure,
        phases: Vec::new(),
        remediation: format!("mend {id}"),
    }
}

fn argv(script: &str) -> Vec<String> {
    ["sh", "-c", script].map(str::to_owned).to_vec()
}

fn metric(script: &str, timeout_ms: u64) -> Evidence {
    Evidence::Metric {
        argv: argv(script),
        compare: Compare::AtLeast,
        pinned: None,
        pointer: "/coverage".to_owned(),
        threshold: 80.into(),
        timeout_ms,
    }
}

fn tool(script: &str) -> Evidence {
    Evidence::Tool { argv: argv(script), pinned: None, timeout_ms: 10_000 }
}

fn files(patterns: &[&str], require: Option<&str>, forbid: Option<&str>) -> Evidence {
    Evidence::Validator {
        bytes_max: None,
        files: patterns.iter().map(|pattern| (*pattern).to_owned()).collect(),
        forbid: forbid.map(str::to_owned),
        json: false,
        require: require.map(str::to_owned),
    }
}

fn work(script: &str) -> Phase {
    phase("p", &[], sh(script))
}

fn ruled(phases: Vec<Phase>, gates: Vec<Rule>, compliance: Vec<Rule>) -> Plan {
    let mut plan = plan(phases);
    plan.governance.gates = gates;
    plan.governance.compliance = compliance;
    plan
}

/// A world without a repository: every file counts.
fn bare() -> World {
    let world = World::new();
    world.repository.missing.store(true, Ordering::SeqCst);
    world
}

fn run_in(world: &World, plan: Plan) -> Run {
    let run = super::calm(world).start(new_run(plan)).unwrap();
    world.verify();
    run
}

/// What the only phase was measured at, as the journal has it.
fn recorded(world: &World) -> Option<GovernanceResult> {
    let mut events = world.only_events().into_iter();
    events.find_map(|event| match event {
        Event::PhaseDone { done, .. } => Some(done.governance),
        _ => None,
    })?
}

fn one_gate(evidence: Evidence, on_failure: OnFailure) -> (Run, GovernanceResult) {
    let world = bare();
    let plan = ruled(vec![work("echo '{}'")], vec![rule("g", on_failure, evidence)], Vec::new());
    let run = run_in(&world, plan);
    let governed = recorded(&world).unwrap();
    assert_eq!(run.phases[0].done.as_ref().unwrap().governance.as_ref(), Some(&governed));
    (run, governed)
}

#[test]
fn a_metric_passes_warns_or_blocks() {
    let good = metric(r#"echo '{"coverage": 80.5}'"#, 10_000);
    let (run, governed) = one_gate(good, OnFailure::Block);
    assert_eq!(end(&run), ("PASS", "pass"));
    let result = &governed.quality_gates[0];
    assert!(governed.passed && result.status == Passed);
    assert_eq!((&result.actual, &result.threshold), (&json!(80.5), &json!(80)));

    let bad = metric(r#"echo '{"coverage": 12}'"#, 10_000);
    let (run, governed) = one_gate(bad.clone(), OnFailure::Warn);
    assert_eq!(end(&run), ("PASS", "pass"));
    assert!(governed.passed && governed.quality_gates[0].status == Warned);

    let (run, governed) = one_gate(bad, OnFailure::Block);
    assert!(!governed.passed && governed.quality_gates[0].status == Blocked);
    let failure = run.phases[0].done.as_ref().unwrap().failure.clone().unwrap();
    assert_eq!(failure.class, "governance_blocked");
    assert_eq!(failure.reason, "gate `g`: 12, expected at least 80 (mend g)");
    assert!(detail(&run).contains(&failure.reason), "{}", detail(&run));
}

#[test]
fn what_cannot_be_measured_is_not_met() {
    for (script, why) in [
        ("echo '{}'", "has no value at `/coverage`"),
        (r#"echo '{"coverage": "80"}'"#, "is not a number"),
        (r#"echo '{"coverage": NaN}'"#, "is not one JSON value"),
        ("true", "is not one JSON value"),
        ("echo hello", "is not one JSON value"),
        (r#"echo '{"coverage": 99}'; echo broken >&2; exit 3"#, "exited with 3: broken"),
        (r#"echo '{"coverage": 99}'; kill -9 $$"#, "a signal ended the program"),
        ("head -c 20000000 /dev/zero", "is not one JSON value"),
    ] {
        let (run, governed) = one_gate(metric(script, 10_000), OnFailure::Block);
        let message = &governed.quality_gates[0].message;
        assert!(message.contains(why), "{script}: {message}");
        assert!(governed.quality_gates[0].actual.is_null() && !governed.passed);
        assert!(detail(&run).contains("mend g"));
    }
    let slow = metric(r#"sleep 86400; echo '{"coverage": 99}'"#, 100);
    let (_, governed) = one_gate(slow, OnFailure::Block);
    assert!(!governed.passed);
    assert!(governed.quality_gates[0].message.starts_with("there is no result"));
    let missing = Evidence::Tool {
        argv: vec!["/no/such/program".to_owned()],
        pinned: None,
        timeout_ms: 1000,
    };
    let (_, governed) = one_gate(missing, OnFailure::Warn);
    assert!(governed.passed && governed.quality_gates[0].status == Warned);
    assert!(governed.quality_gates[0].message.starts_with("there is no result"));
}

#[test]
fn a_tool_is_judged_by_its_exit() {
    for (script, met, actual) in
        [("true", true, json!(0)), ("exit 7", false, json!(7)), ("kill -9 $$", false, json!(null))]
    {
        let (run, governed) = one_gate(tool(script), OnFailure::Block);
        assert_eq!(governed.passed, met, "{script}");
        assert_eq!(governed.quality_gates[0].actual, actual);
        assert_eq!(end(&run).0, if met { "PASS" } else { "BLOCKED" });
    }
}

#[test]
fn all_rules_are_looked_at_and_only_those_that_apply() {
    let world = bare();
    let mut other = rule("other", OnFailure::Block, tool("exit 1"));
    other.phases = vec!["q".to_owned()];
    let mut mine = rule("mine", OnFailure::Block, tool("touch mine; exit 1"));
    mine.phases = vec!["q".to_owned(), "p".to_owned()];
    let compliance = vec![
        rule("kept", OnFailure::Block, tool("touch kept; exit 2")),
        rule("fine", OnFailure::Warn, tool("touch fine")),
    ];
    let plan = ruled(vec![work("echo '{}'")], vec![other, mine], compliance);
    let run = run_in(&world, plan);
    let governed = recorded(&world).unwrap();
    let gates: Vec<_> =
        governed.quality_gates.iter().map(|gate| (gate.gate_id.as_str(), gate.status)).collect();
    assert_eq!(gates, [("mine", Blocked)]);
    let checks = governed.compliance_checks.iter();
    let checks: Vec<_> = checks.map(|one| (one.compliance_type.as_str(), one.status)).collect();
    assert_eq!(checks, [("kept", Blocked), ("fine", Passed)]);
    let reason = detail(&run);
    assert!(reason.contains("gate `mine`") && reason.contains("compliance `kept`"), "{reason}");
    assert!(reason.contains("(mend mine)") && reason.contains("(mend kept)"), "{reason}");
    for name in ["mine", "kept", "fine"] {
        assert!(world.root().join(name).exists(), "{name}");
    }
    // Each program is on record as a start and an end, beside that of the phase itself.
    let kinds = world.only_events();
    let starts = kinds.iter().filter(|event| matches!(event, Event::InvocationStarted { .. }));
    assert_eq!(starts.count(), 4);
}

#[test]
fn work_without_rules_or_that_has_failed_is_not_measured() {
    let world = bare();
    run_in(&world, plan(vec![work("echo '{}'")]));
    assert_eq!(recorded(&world), None);
    for script in ["exit 1", "echo none"] {
        let world = bare();
        let gates = vec![rule("g", OnFailure::Block, tool("touch looked"))];
        let run = run_in(&world, ruled(vec![work(script)], gates, Vec::new()));
        assert_eq!(run.phases[0].done.as_ref().unwrap().governance, None);
        assert!(!world.root().join("looked").exists());
    }
    // What must be left behind comes before what it is measured by.
    let world = bare();
    let mut lacking = work("echo '{}'");
    lacking.outputs = vec!["out.txt".to_owned()];
    let gates = vec![rule("g", OnFailure::Block, tool("touch looked"))];
    let run = run_in(&world, ruled(vec![lacking], gates, Vec::new()));
    assert_eq!(
        run.phases[0].done.as_ref().unwrap().failure.clone().unwrap().class,
        "validation_error"
    );
    assert!(!world.root().join("looked").exists());
}

#[test]
fn a_blocked_phase_can_be_done_again() {
    let world = bare();
    let mut build = work(r#"echo x >> tries; echo '{"verdict":"ok"}'"#);
    let again = redo("p", 3, Effect::Block);
    build.gate = gate("g", &[("ok", Effect::Continue), ("failed", again)]);
    let twice = tool("test $(wc -l < tries) -ge 2");
    let run = run_in(
        &world,
        ruled(vec![build], vec![rule("twice", OnFailure::Block, twice)], Vec::new()),
    );
    assert_eq!(end(&run), ("PASS", "pass"), "{:?}", run.ended);
    assert_eq!(std::fs::read_to_string(world.root().join("tries")).unwrap(), "x\nx\n");
    let done = world.only_events().into_iter().filter_map(|event| match event {
        Event::PhaseDone { done, .. } => Some(done.governance.unwrap().passed),
        _ => None,
    });
    assert_eq!(done.collect::<Vec<_>>(), [false, true]);
}

#[test]
fn files_are_validated_where_they_lie() {
    let world = bare();
    write(world.root(), "src/good.rs", "// Licence\nfn a() {}\n");
    write(world.root(), "src/deep/bad.rs", "fn b() {}\n");
    write(world.root(), ".git/config.rs", "fn c() {}\n");
    let look = |evidence: Evidence| {
        let gates = vec![rule("g", OnFailure::Warn, evidence)];
        let world = world.fork();
        world.repository.missing.store(true, Ordering::SeqCst);
        let run = super::calm(&world)
            .start(new_run(ruled(vec![work("echo '{}'")], gates, vec![])))
            .unwrap();
        let done = run.phases[0].done.clone().unwrap();
        let gate = done.governance.clone().unwrap().quality_gates[0].clone();
        (gate.status == Passed, gate.message)
    };
    let licence = Some("^// Licence$");
    assert!(look(files(&["src/*.rs"], licence, None)).0);
    let (met, message) = look(files(&["**/*.rs"], licence, None));
    assert_eq!((met, message.as_str()), (false, "`src/deep/bad.rs` lacks the required text"));
    let (met, message) = look(files(&["src/*.md"], licence, None));
    assert_eq!((met, message.as_str()), (false, "the patterns match no file, or only empty files"));
    assert!(look(files(&["src/*.md"], None, Some("fn"))).0);
    let (met, message) = look(files(&["src/*.rs"], None, Some("fn a")));
    assert_eq!((met, message.as_str()), (false, "`src/good.rs` has forbidden text in line 2"));
    // A rule that cannot be used came from nowhere that reads rules, and is not met either.
    assert!(!look(files(&["src/*.rs"], None, Some("("))).0);
    assert!(!look(files(&["src/*.rs"], None, Some("((a{200}){200}){200}"))).0);
}

/// Puts something into a world.
type Make<'a> = &'a dyn Fn(&World);

#[test]
fn links_lead_nowhere_else_and_what_is_no_file_is_not_opened() {
    let outside = tempfile::tempdir().unwrap();
    write(outside.path(), "ok.txt", "ok");
    let link = |world: &World, to: &Path, name: &str| {
        std::os::unix::fs::symlink(to, world.root().join(name)).unwrap();
    };
    let look = |make: Make<'_>| {
        let world = bare();
        write(world.root(), "real/ok.txt", "ok");
        make(&world);
        let (require, forbid) =
            (files(&["*.txt"], Some("ok"), None), files(&["*.txt"], None, Some("no")));
        let mut small = files(&["*.txt"], None, None);
        if let Evidence::Validator { bytes_max, .. } = &mut small {
            *bytes_max = Some(100);
        }
        let gates = [require, forbid, small].map(|evidence| rule("g", OnFailure::Warn, evidence));
        let gates = gates
            .into_iter()
            .zip(["a", "b", "c"])
            .map(|(rule, id)| Rule { id: id.to_owned(), ..rule });
        run_in(&world, ruled(vec![work("echo '{}'")], gates.collect(), Vec::new()));
        let gates = recorded(&world).unwrap().quality_gates;
        gates.into_iter().map(|gate| (gate.status == Passed, gate.message)).collect::<Vec<_>>()
    };
    // A link to a file of the workspace is that file.
    let met = look(&|world| link(world, Path::new("real/ok.txt"), "a.txt"));
    assert!(met.iter().all(|(met, _)| *met), "{met:?}");
    let refusals: [(Make<'_>, &str); 5] = [
        (
            &|world| link(world, &outside.path().join("ok.txt"), "a.txt"),
            "it leads outside the workspace",
        ),
        (&|world| link(world, outside.path(), "a.txt"), "it leads outside the workspace"),
        (&|world| link(world, Path::new("gone"), "a.txt"), "it leads nowhere"),
        (&|world| link(world, Path::new("a.txt"), "a.txt"), "could not be checked"),
        (
            &|world| {
                let path = world.root().join("a.txt");
                assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
            },
            "it is not a file",
        ),
    ];
    for (make, why) in refusals {
        for (met, message) in look(make) {
            assert!(!met && message.contains(why), "{why}: {message}");
        }
    }
    let huge = look(&|world| {
        let file = std::fs::File::create(world.root().join("a.txt")).unwrap();
        file.set_len(1 << 40).unwrap();
    });
    assert!(huge.iter().all(|(met, _)| !met), "{huge:?}");
}

fn git(root: &Path, arguments: &[&str]) {
    let output = Command::new("git").current_dir(root).args(arguments).output().unwrap();
    assert!(output.status.success(), "git {arguments:?}: {output:?}");
}

#[test]
fn what_is_only_forbidden_is_looked_for_in_what_the_run_has_changed() {
    let world = World::new();
    let root = world.root();
    git(root, &["init", "-q", "-b", "main"]);
    git(root, &["config", "user.name", "Ann"]);
    git(root, &["config", "user.email", "ann@example.com"]);
    write(root, ".git/info/exclude", "/locks\n/stop\n/.windlass\n");
    for name in ["old.txt", "gone.txt", "later.txt"] {
        write(root, name, "<<<<<<< ours\n");
    }
    git(root, &["add", "-A"]);
    git(root, &["commit", "-q", "-m", "first"]);
    let marks = files(&["**"], None, Some("^<<<<<<< "));
    let run = |script: &str| {
        let gates = vec![rule("marks", OnFailure::Block, marks.clone())];
        let place = Arc::new(GitRepository::new(root.to_owned()));
        let engine = super::engine(&world, &Life::until(None), place);
        engine.start(new_run(ruled(vec![work(script)], gates, Vec::new()))).unwrap()
    };
    assert_eq!(end(&run("rm gone.txt; echo good > new.txt; echo '{}'")).0, "PASS");
    let mixed = run("echo more >> later.txt; echo '<<<<<<< ours' > 'new one.txt'; echo '{}'");
    let reason = detail(&mixed);
    assert!(reason.contains("`later.txt` has forbidden text in line 1"), "{reason}");
    assert!(reason.contains("2 violations in all") && !reason.contains("old.txt"), "{reason}");
    // What a program of a rule leaves behind belongs to the change.
    let world = World::new();
    git(world.root(), &["init", "-q", "-b", "main"]);
    git(
        world.root(),
        &[
            "-c",
            "user.name=A",
            "-c",
            "user.email=a@b",
            "commit",
            "-q",
            "--allow-empty",
            "-m",
            "first",
        ],
    );
    write(world.root(), ".git/info/exclude", "/locks\n/stop\n/.windlass\n");
    let gates = vec![rule("report", OnFailure::Block, tool("echo r > report.txt"))];
    let engine = super::engine(
        &world,
        &Life::until(None),
        Arc::new(GitRepository::new(world.root().to_owned())),
    );
    let run = engine
        .start(new_run(ruled(vec![super::named("p", &[], "policy", json!({}))], gates, Vec::new())))
        .unwrap();
    assert_eq!(run.phases[0].done.as_ref().unwrap().change.as_ref().unwrap().files, ["report.txt"]);
}

#[test]
fn the_time_of_a_run_limits_its_rules_too() {
    let world = bare();
    let gates = vec![
        rule("slow", OnFailure::Block, tool("sleep 86400")),
        rule("next", OnFailure::Block, tool("true")),
    ];
    let mut plan = ruled(vec![work("echo '{}'")], gates, Vec::new());
    plan.budget.wall_ms = Some(400);
    super::calm(&world).start(new_run(plan)).unwrap();
    let gates = recorded(&world).unwrap().quality_gates;
    assert!(gates.iter().all(|gate| gate.status == Blocked), "{gates:?}");
}
