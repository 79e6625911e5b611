//! The workflows that ship: they load, can be composed, and have the gates that they are meant to.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use windlass_loops::{Category, Gate, Workflows, render_plan};

fn shipped() -> Workflows {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../loops/workflows");
    let mut files = BTreeMap::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        files.insert(name, std::fs::read(path).unwrap());
    }
    Workflows::load(&files).unwrap()
}

/// Every workflow with its category and its own gates.
const TABLE: [(&str, Category, &[Gate]); 9] = [
    (
        "feature-dev",
        Category::Development,
        &[Gate::CriticReview, Gate::Tdd, Gate::TestsPass, Gate::Qa],
    ),
    ("minor-edit", Category::Development, &[Gate::Tdd, Gate::TestsPass]),
    ("debugging", Category::Development, &[Gate::ReproducibleTest]),
    ("tdd-cycle", Category::Development, &[Gate::TestsPass, Gate::NoRegression]),
    ("spec-review", Category::Planning, &[Gate::CriticFeedback, Gate::Convergence]),
    ("qa-demo", Category::Qa, &[Gate::Functionality, Gate::Quality, Gate::Completeness]),
    ("batch-processing", Category::Operations, &[Gate::AllItemsProcessed, Gate::Verified]),
    ("simple-question", Category::Information, &[Gate::InformationOnly]),
    ("direct-skill", Category::Routing, &[Gate::Delegated]),
];

#[test]
fn the_gates_are_those_of_the_table() {
    let workflows = shipped();
    let found: Vec<&str> = workflows.files().keys().map(String::as_str).collect();
    let mut expected = TABLE.map(|(id, _, _)| id);
    expected.sort_unstable();
    assert_eq!(found, expected);
    for (id, category, gates) in TABLE {
        let file = &workflows.files()[id];
        let gates: BTreeSet<Gate> = gates.iter().copied().collect();
        assert_eq!((file.category, &file.gates), (category, &gates), "{id}");
        let all = workflows.gates(id).unwrap();
        let linked = file.dependencies.iter().flat_map(|link| &workflows.files()[link].gates);
        assert!(linked.chain(&gates).all(|gate| all.contains(gate)), "{id}: {all:?}");
    }
    // What may write nothing, or is handed on, has no gates of other workflows.
    for (id, gate) in
        [("simple-question", Gate::InformationOnly), ("direct-skill", Gate::Delegated)]
    {
        assert_eq!(workflows.gates(id), Some(BTreeSet::from([gate])));
        assert!(workflows.files().values().all(|file| !file.dependencies.contains(id)), "{id}");
    }
}

#[test]
fn the_index_tries_the_workflows_in_their_order() {
    let workflows = shipped();
    let order: Vec<&str> = workflows.decision_tree().iter().map(String::as_str).collect();
    let expected = [
        "direct-skill",
        "simple-question",
        "batch-processing",
        "debugging",
        "spec-review",
        "minor-edit",
        "feature-dev",
        "qa-demo",
        // Whoever is unsure plans first.
        "spec-review",
    ];
    assert_eq!(order, expected);
    let composed = |id: &str| workflows.files().values().any(|file| file.dependencies.contains(id));
    assert!(composed("tdd-cycle"));
    for (id, _, gates) in TABLE {
        let row = workflows.index().lines().find(|line| line.starts_with(&format!("| {id} |")));
        let cells: Vec<&str> = row.unwrap().split('|').map(str::trim).collect();
        let names: Vec<String> = gates.iter().map(|gate| format!("`{}`", gate.as_str())).collect();
        assert_eq!(cells[4], names.join(", "), "{id}");
    }
}

#[test]
fn every_workflow_can_be_composed() {
    let workflows = shipped();
    for (id, file) in workflows.files() {
        let plan = workflows.compose(id).unwrap();
        let ids: BTreeSet<&str> = plan.iter().map(|step| step.id.as_str()).collect();
        assert_eq!(ids.len(), plan.len(), "{id}: ids are unique");
        let own: Vec<&str> =
            plan.iter().filter(|step| step.depth == 0).map(|step| step.id.as_str()).collect();
        let steps: Vec<&str> = file.steps.iter().map(|step| step.id.as_str()).collect();
        assert_eq!(own, steps, "{id}");
        let linked: usize = file
            .steps
            .iter()
            .filter_map(|step| workflows.compose(step.workflow.as_ref()?))
            .map(|plan| plan.len())
            .sum();
        assert_eq!(plan.len(), file.steps.len() + linked, "{id}");
        assert_eq!(render_plan(&plan).lines().count(), plan.len(), "{id}");
    }
    // The one link that is given as an example: the fourth step of `feature-dev`.
    let fourth = &workflows.files()["feature-dev"].steps[3];
    assert_eq!(fourth.workflow.as_deref(), Some("spec-review"));
}
