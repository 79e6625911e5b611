//! `windlass workflow`: the built-in workflows, and those of a project.

use serde_json::json;

use crate::harness::{Place, repository};

/// Copies the workflows that ship into the project.
fn with_files() -> Place {
    let place = Place::with_project();
    for entry in std::fs::read_dir(repository("loops/workflows")).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        place.write(&format!(".windlass/workflows/{name}"), std::fs::read(&path).unwrap());
    }
    place
}

#[test]
fn a_project_without_workflows_has_the_built_in_ones() {
    let place = Place::with_project();
    std::fs::remove_dir_all(place.work().join(".windlass/workflows")).ok();
    place.trust();
    let list = place.run(&["workflow", "list"]).exit(0).quiet();
    list.says("WORKFLOW").says("simple-question").says("information_only");
    let list = place.run(&["workflow", "list", "--json"]).exit(0).json();
    let list = list.as_array().unwrap();
    assert_eq!(list.len(), 9);
    assert!(list.iter().all(|one| one["origin"] == "built-in"), "{list:?}");
    place.run(&["workflow", "check"]).exit(0).quiet().says("ok: 9 workflows");
}

#[test]
fn a_workflow_is_shown_with_all_links_resolved() {
    let place = with_files();
    let page = place.run(&["workflow", "show", "feature-dev"]).exit(0).quiet();
    page.says("feature-dev: Feature Development")
        .says("category: development")
        .says("tests_pass")
        .says("no_regression")
        .says("review-plan/draft")
        .says("## When to Use");
    let plan = place.run(&["workflow", "show", "feature-dev", "--plan"]).exit(0).quiet();
    assert!(plan.text().starts_with("1. [ ] Understand the request (`understand`): "), "{plan}");
    assert!(plan.text().contains("\n4. [ ] Review the plan (`review-plan`): "), "{plan}");
    assert!(plan.text().contains("\n    1. [ ] Write the draft (`review-plan/draft`): "), "{plan}");
    let value = place.run(&["workflow", "show", "feature-dev", "--json"]).exit(0).json();
    assert_eq!(value["origin"], "project");
    assert_eq!(value["gates"], json!(["critic_review", "tdd", "tests_pass", "qa"]));
    assert!(value["all_gates"].as_array().unwrap().contains(&json!("convergence")), "{value}");
    let steps = value["steps"].as_array().unwrap();
    let draft = steps.iter().find(|step| step["id"] == "review-plan/draft").unwrap();
    assert_eq!((&draft["workflow"], &draft["depth"]), (&json!("spec-review"), &json!(1)));
    let plan = place.run(&["workflow", "show", "feature-dev", "--plan", "--json"]).exit(0).json();
    assert_eq!(plan, json!({ "id": "feature-dev", "steps": value["steps"] }));
    let missing = place.run(&["workflow", "show", "none"]).fails_with(2, "LOOP_NOT_FOUND");
    missing.warns("windlass workflow list");
}

#[test]
fn the_workflows_of_a_project_are_checked() {
    let place = with_files();
    place.run(&["workflow", "check", "--json"]).exit(0).says("\"tdd-cycle\"");
    let path = ".windlass/workflows/tdd-cycle.md";
    let good = place.read(path);
    place.write(path, good.replace("## Overview", "## Summary"));
    let refused = place.run(&["workflow", "check"]).fails_with(2, "LOOP_INVALID");
    refused.warns("workflows/tdd-cycle.md:").warns("no section `## Summary`").warns("hint: ");
    place.run(&["workflow", "list"]).fails_with(2, "LOOP_INVALID");
    let link = good.replacen("workflow: null", "workflow: \"[[feature-dev]]\"", 1);
    place.write(path, link.replace("dependencies: []", "dependencies: [feature-dev]"));
    let cycle = place.run(&["workflow", "check"]).fails_with(2, "LOOP_INVALID");
    cycle.warns("in a cycle: feature-dev -> tdd-cycle -> feature-dev");
    place.write(path, good);
    place.run(&["workflow", "check"]).exit(0);
}

#[test]
fn any_folder_can_be_checked() {
    let place = with_files();
    place.run(&["workflow", "check", ".windlass/workflows"]).exit(0).says("ok: 9 workflows");
    std::fs::create_dir(place.work().join("mine")).unwrap();
    let empty = place.run(&["workflow", "check", "mine"]).fails_with(2, "LOOP_INVALID");
    empty.warns("no `WORKFLOWS.md`");
    place.write("mine/WORKFLOWS.md", "| id |\n|---|\n| a |\n\n1. Always -> [[a]]\n");
    let unknown = place.run(&["workflow", "check", "mine"]).fails_with(2, "LOOP_INVALID");
    unknown.warns("mine/WORKFLOWS.md:5:1").warns("there is no workflow `a`");
    place.run(&["workflow", "check", "none"]).fails_with(1, "FILE_UNREADABLE");
}

#[test]
fn workflows_need_trust_as_all_configuration_does() {
    let place = with_files();
    place.shell("shell/read", "ls", &[]).exit(0);
    place.write_untrusted(".windlass/workflows/more.txt", "text");
    let refused = place.shell("shell/read", "ls", &[]).fails_with(3, "PROJECT_UNTRUSTED");
    refused.warns("added `workflows/more.txt`");
}
