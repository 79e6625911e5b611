//! The loop `phases`: its graph is the drawing of the phase model, its variants are its table.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use windlass_kernel::run::plan::{
    Concurrency, Doer, Effect, OnRestart, Plan, Requirement, Reviewer,
};
use windlass_loops::{AgentFile, KnownNames, LoopFile};

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../loops")
}

fn phases() -> LoopFile {
    let mut agents = BTreeSet::new();
    for entry in std::fs::read_dir(folder().join("agents")).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        agents.insert(AgentFile::parse(&name, &std::fs::read(&path).unwrap()).unwrap().name);
    }
    let builtins = ["hydrate", "commit"].map(str::to_owned).into();
    let bytes = std::fs::read(folder().join("phases.md")).unwrap();
    LoopFile::parse("phases.md", &bytes, &KnownNames { agents: &agents, builtins: &builtins })
        .unwrap()
}

fn edges(plan: &Plan) -> BTreeMap<String, Vec<String>> {
    plan.phases.iter().map(|phase| (phase.id.clone(), phase.needs.clone())).collect()
}

/// The drawing, from top to bottom.
const DRAWING: [(&str, &[&str]); 13] = [
    ("intake", &[]),
    ("planning", &["intake"]),
    ("data", &["planning"]),
    ("architecture", &["planning"]),
    ("security", &["planning"]),
    ("consensus", &["data", "architecture", "security"]),
    ("development", &["consensus"]),
    ("qa", &["development"]),
    ("acceptance", &["qa"]),
    ("documentation", &["acceptance"]),
    ("review", &["acceptance"]),
    ("hygiene", &["acceptance"]),
    ("complete", &["documentation", "review", "hygiene"]),
];

/// The drawing without some phases: whoever needed one needs what that one needed.
fn drawing(without: &[&str]) -> BTreeMap<String, Vec<String>> {
    let mut edges = BTreeMap::new();
    for (id, needs) in DRAWING.iter().filter(|(id, _)| !without.contains(id)) {
        let mut closed: Vec<String> = Vec::new();
        for need in *needs {
            // In the drawing only what needs planning is ever left out.
            let need = if without.contains(need) { "planning" } else { need };
            if !closed.iter().any(|other| other == need) {
                closed.push(need.to_owned());
            }
        }
        edges.insert((*id).to_owned(), closed);
    }
    edges
}

#[test]
fn the_graph_is_the_drawing() {
    let file = phases();
    assert_eq!(edges(&file.plan), drawing(&["security"]));
    let full = file.plan_with(None, &["security".to_owned()]).unwrap();
    assert_eq!(edges(&full), drawing(&[]));
    let plan = &file.plan;
    assert_eq!((plan.concurrency, plan.on_restart), (Concurrency::Parallel, OnRestart::Resume));
    assert_eq!((plan.checkpoints, &plan.require[..]), (true, &[Requirement::Repo][..]));
    assert!(plan.budget.tokens.is_some() && plan.budget.attempts.is_some());
}

/// The table: made sure of, left out.
const TABLE: [(&str, &[&str], &[&str]); 4] = [
    ("analytics", &["data", "development", "documentation"], &["security"]),
    ("ml", &["data", "development", "qa", "documentation"], &[]),
    ("webapp", &["development", "qa", "documentation", "security"], &["data"]),
    ("optimization", &["data", "development", "qa", "documentation"], &[]),
];

#[test]
fn the_variants_are_the_table() {
    let file = phases();
    let names: Vec<&str> = file.variants.keys().map(String::as_str).collect();
    assert_eq!(names, ["analytics", "ml", "optimization", "webapp"]);
    for (name, included, excluded) in TABLE {
        let variant = file.variants.get(name).unwrap();
        assert_eq!(
            (&variant.include[..], &variant.exclude[..]),
            (&texts(included)[..], &texts(excluded)[..])
        );
        let plan = file.plan_with(Some(name), &[]).unwrap();
        let edges = edges(&plan);
        assert!(included.iter().all(|phase| edges.contains_key(*phase)), "{name}");
        assert!(!excluded.iter().any(|phase| edges.contains_key(*phase)), "{name}");
        // What the table does not name stays as it is drawn; security is optional.
        let mut without = excluded.to_vec();
        if !included.contains(&"security") && !without.contains(&"security") {
            without.push("security");
        }
        assert_eq!(edges, drawing(&without), "{name}");
    }
}

fn texts(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

#[test]
fn what_writes_beside_others_has_a_branch_and_what_agrees_can_send_back() {
    let plan = phases().plan_with(None, &["security".to_owned()]).unwrap();
    let branches: Vec<&str> =
        plan.phases.iter().filter(|phase| phase.branch).map(|phase| phase.id.as_str()).collect();
    assert_eq!(branches, ["data", "architecture", "security", "documentation", "hygiene"]);
    for (id, back) in [("consensus", "planning"), ("acceptance", "development")] {
        let phase = plan.phases.iter().find(|phase| phase.id == id).unwrap();
        let Doer::Consensus { checklist, quorum, reviewers, .. } = &phase.doer else {
            unreachable!("{id} is no consensus");
        };
        assert!(!checklist.is_empty());
        assert_eq!(usize::try_from(*quorum).unwrap(), reviewers.len());
        assert!(reviewers.iter().any(|one| matches!(one, Reviewer::Person { .. })));
        let rejected = phase.gate.as_ref().unwrap().verdicts.get("rejected").unwrap();
        let Effect::Redo { max: 2, phase, then } = rejected else {
            unreachable!("{rejected:?}");
        };
        assert_eq!(phase, back);
        assert!(matches!(**then, Effect::Hold { .. }));
    }
}
