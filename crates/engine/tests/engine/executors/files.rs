//! The files that a phase must leave behind, and those that a task refers to.

use serde_json::json;
use windlass_kernel::Digest;

use super::{calm, detail, named, sh, with_task, write};
use crate::plans::{phase, plan};
use crate::world::{World, end, new_run};

fn outputs(world: &World, patterns: &[&str]) -> windlass_kernel::run::Run {
    let mut work = phase("p", &[], sh("echo '{}'"));
    work.outputs = patterns.iter().map(|pattern| (*pattern).to_owned()).collect();
    calm(world).start(new_run(plan(vec![work]))).unwrap()
}

#[test]
fn outputs_are_digested_and_must_be_there() {
    let world = World::new();
    write(world.root(), "docs/plan.md", "a plan");
    write(world.root(), "docs/empty.md", "");
    write(world.root(), "docs/deep/er.md", "deeper");
    let run = outputs(&world, &["docs/*.md"]);
    assert_eq!(end(&run), ("PASS", "pass"));
    let found = &run.phases[0].done.as_ref().unwrap().outputs;
    let names: Vec<&str> = found.keys().map(String::as_str).collect();
    assert_eq!(names, ["docs/empty.md", "docs/plan.md"]);
    assert_eq!(found["docs/plan.md"], Digest::of(b"a plan"));

    for (patterns, why) in [
        (vec!["docs/*.txt"], "`docs/*.txt` matches no file"),
        (vec!["docs/plan.md", "docs/empty.md"], "`docs/empty.md` matches no file, or only empty"),
        (vec!["docs"], "matches no file"),
        (vec!["../*"], "a path must be relative"),
        (vec!["docs/[*"], "docs/[*"),
    ] {
        let run = outputs(&world, &patterns);
        assert!(detail(&run).contains(why), "{}", detail(&run));
    }
}

#[cfg(unix)]
#[test]
fn links_are_no_outputs_and_loops_of_them_do_no_harm() {
    let world = World::new();
    let outside = tempfile::tempdir().unwrap();
    write(outside.path(), "secret.md", "a secret");
    write(world.root(), "docs/real.md", "real");
    let link = |to: &std::path::Path, name: &str| {
        std::os::unix::fs::symlink(to, world.root().join(name)).unwrap();
    };
    link(world.root(), "docs/loop");
    link(outside.path(), "docs/out");
    link(&outside.path().join("secret.md"), "docs/link.md");
    let run = outputs(&world, &["**/*.md"]);
    assert_eq!(end(&run), ("PASS", "pass"));
    let found = &run.phases[0].done.as_ref().unwrap().outputs;
    assert_eq!(found.keys().collect::<Vec<_>>(), ["docs/real.md"]);
}

#[test]
fn an_output_that_is_too_large_is_refused_without_reading_it() {
    let world = World::new();
    write(world.root(), "huge.bin", "x");
    let file = std::fs::File::options().write(true).open(world.root().join("huge.bin")).unwrap();
    // A hole: nothing of it is on the disk.
    file.set_len(1 << 40).unwrap();
    let run = outputs(&world, &["*.bin"]);
    assert!(detail(&run).contains("`huge.bin` is larger than"), "{}", detail(&run));
    // One that nobody asked for is not in the way.
    write(world.root(), "small.txt", "small");
    assert_eq!(end(&outputs(&world, &["small.txt"])), ("PASS", "pass"));
}

fn hydrated(world: &World, references: &serde_json::Value) -> windlass_kernel::run::Run {
    let task = json!({"task": "t", "context_refs": references});
    calm(world).start(with_task(plan(vec![named("h", &[], "hydrate", json!({}))]), task)).unwrap()
}

#[test]
fn references_are_read_inside_the_workspace_only() {
    let world = World::new();
    let outside = tempfile::tempdir().unwrap();
    write(outside.path(), "secret", "a secret");
    write(world.root(), "notes/a.md", "notes");
    write(world.root(), "huge", "x");
    std::fs::File::options()
        .write(true)
        .open(world.root().join("huge"))
        .unwrap()
        .set_len(1 << 40)
        .unwrap();
    std::os::unix::fs::symlink(outside.path().join("secret"), world.root().join("out")).unwrap();
    std::os::unix::fs::symlink(outside.path(), world.root().join("folder")).unwrap();
    std::os::unix::fs::symlink(world.root().join("notes/a.md"), world.root().join("in")).unwrap();
    let run = hydrated(&world, &json!(["notes/a.md", "in"]));
    assert_eq!(end(&run), ("PASS", "pass"));
    let context = &run.phases[0].done.as_ref().unwrap().answer["context"];
    assert_eq!(context[0]["sha256"], json!(Digest::of(b"notes")));
    assert_eq!(context[1]["bytes"], json!(5));
    let absolute = outside.path().join("secret").display().to_string();
    for (reference, why) in [
        (json!(["../secret"]), "not a path inside"),
        (json!([absolute]), "not a path inside"),
        (json!(["notes/../notes/a.md"]), "not a path inside"),
        (json!([""]), "not a path inside"),
        (json!(["out"]), "is outside"),
        (json!(["folder/secret"]), "is outside"),
        (json!(["notes"]), "is not a file"),
        (json!(["huge"]), "is larger than"),
        (json!(["missing.md"]), "cannot be read"),
        (json!("notes/a.md"), "not a list of strings"),
        (json!([7]), "not a list of strings"),
        (json!({"a": 1}), "not a list of strings"),
    ] {
        let run = hydrated(&world, &reference);
        assert!(detail(&run).contains(why), "{reference}: {}", detail(&run));
        assert!(!detail(&run).contains("a secret"));
    }
}

#[test]
fn a_task_with_constraints_of_the_wrong_kind_is_refused_at_the_policy_phase() {
    for (constraints, why) in [
        (json!({"allowed_paths": "src/**"}), "not a list of strings"),
        (json!({"denied_paths": [1]}), "not a list of strings"),
        (json!("src/**"), "is not an object"),
        (json!({"allowed_paths": ["a"], "denied_paths": ["a"]}), "both allows and denies"),
    ] {
        let world = World::new();
        let task = json!({"task": "t", "constraints": constraints});
        let plan = plan(vec![named("p", &[], "policy", json!({}))]);
        let run = calm(&world).start(with_task(plan, task)).unwrap();
        assert!(detail(&run).contains(why), "{}", detail(&run));
    }
}
