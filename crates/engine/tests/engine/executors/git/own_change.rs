//! What a commit has: the run's own change, and nothing that was there before.

use std::path::Path;

use serde_json::json;
use windlass_engine::{GitRepository, Repository as _};
use windlass_kernel::Timestamp;
use windlass_kernel::run::plan::{OnRestart, Plan, Requirement};

use super::{CHANGE, building, calm, engine, git, task, world};
use crate::crash::Life;
use crate::executors::{detail, with_task, write};
use crate::world::end;

/// As [`building`], but the repository may have changes.
fn building_on_changes(script: &str) -> Plan {
    let mut plan = building(script);
    plan.require = vec![Requirement::Repo];
    plan
}

#[test]
fn only_the_runs_own_change_is_committed() {
    let world = world();
    let root = world.root();
    let lines = |numbers: &[&str]| numbers.join("\n") + "\n";
    let ten: Vec<String> = (0..10).map(|number| number.to_string()).collect();
    let ten: Vec<&str> = ten.iter().map(String::as_str).collect();
    for name in ["both.txt", "gone.txt", "mine.txt", "staged.txt"] {
        write(root, name, &lines(&ten));
    }
    git(root, &["add", "-A"]);
    git(root, &["commit", "-q", "-m", "ten"]);
    write(root, "both.txt", &lines(&[&["mine"], &ten[..]].concat()));
    write(root, "mine.txt", "password\n");
    write(root, "new.txt", "secret\n");
    write(root, "staged.txt", "staged\n");
    write(root, "added.txt", "added\n");
    git(root, &["add", "staged.txt", "added.txt"]);
    std::fs::remove_file(root.join("gone.txt")).unwrap();
    let before = git(root, &["status", "--porcelain"]);
    let script = format!("echo end >> both.txt; {CHANGE}");
    let run = calm(&world).start(with_task(building_on_changes(&script), task(json!({})))).unwrap();
    assert_eq!(end(&run), ("PASS", "pass"), "{:?}", run.ended);
    let committed = git(root, &["show", "--format=", "--name-only", "HEAD"]);
    assert_eq!(committed, "both.txt\nsrc/a.txt\nsrc/b.txt");
    assert_eq!(run.change.unwrap().files, ["both.txt", "src/a.txt", "src/b.txt"]);
    assert_eq!(git(root, &["show", "HEAD:both.txt"]), lines(&[&ten[..], &["end"]].concat()).trim());
    // What was there before is there as before, staged or not.
    assert_eq!(git(root, &["status", "--porcelain"]), before);
    assert_eq!(
        std::fs::read_to_string(root.join("both.txt")).unwrap(),
        lines(&[&["mine"], &ten[..], &["end"]].concat())
    );
    world.verify();
}

#[test]
fn files_that_git_does_not_compare_are_never_committed() {
    let hide =
        |root: &Path, flag: &str| git(root, &["update-index", flag, "local.txt", "gone.txt"]);
    for flag in ["--skip-worktree", "--assume-unchanged"] {
        let world = world();
        let root = world.root();
        write(root, "local.txt", "none\n");
        write(root, "gone.txt", "gone\n");
        git(root, &["add", "-A"]);
        git(root, &["commit", "-q", "-m", "settings"]);
        hide(root, flag);
        write(root, "local.txt", "password\n");
        std::fs::remove_file(root.join("gone.txt")).unwrap();
        assert_eq!(git(root, &["status", "--porcelain"]), "");
        let run = calm(&world).start(with_task(building(CHANGE), task(json!({})))).unwrap();
        assert_eq!(end(&run), ("PASS", "pass"), "{flag}: {:?}", run.ended);
        let committed = git(root, &["show", "--format=", "--name-only", "HEAD"]);
        assert_eq!(committed, "src/a.txt\nsrc/b.txt", "{flag}");
        assert_eq!(git(root, &["status", "--porcelain"]), "", "{flag}");
        assert_eq!(std::fs::read_to_string(root.join("local.txt")).unwrap(), "password\n");
        assert!(!root.join("gone.txt").exists());
        world.verify();
    }
}

#[test]
fn what_is_outside_of_the_projects_folder_is_not_committed() {
    let world = world();
    let root = world.root();
    write(root, "mine.txt", "mine\n");
    write(root, "src/b.txt", "new\n");
    let project = GitRepository::new(root.join("src"));
    project.require_clean(&root.join("src")).unwrap_err();
    project.commit_all("of the project", Timestamp::from_unix_ms(0).unwrap()).unwrap();
    assert_eq!(git(root, &["show", "--format=", "--name-only", "HEAD"]), "src/b.txt");
    assert_eq!(git(root, &["status", "--porcelain"]), "?? mine.txt");
    project.require_clean(&root.join("src")).unwrap();
}

#[test]
fn a_change_of_lines_that_were_not_committed_is_no_commit() {
    let world = world();
    let root = world.root();
    let before = git(root, &["rev-parse", "HEAD"]);
    write(root, "src/a.txt", "mine\n");
    let script = "echo theirs > src/a.txt; echo '{}'";
    let run = calm(&world).start(with_task(building_on_changes(script), task(json!({})))).unwrap();
    assert!(detail(&run).contains("[MERGE_CONFLICT]"), "{}", detail(&run));
    assert!(detail(&run).contains("src/a.txt"), "{}", detail(&run));
    assert_eq!(git(root, &["rev-parse", "HEAD"]), before);
    assert_eq!(git(root, &["status", "--porcelain"]), "M src/a.txt");
}

#[test]
fn a_detached_head_moves_no_branch_that_is_checked_out_meanwhile() {
    let prepared = |at: u32| {
        let world = world();
        git(world.root(), &["checkout", "-q", "--detach"]);
        let life = Life::until(Some(at));
        let mut plan = building(CHANGE);
        plan.on_restart = OnRestart::Resume;
        let over = engine(&world, &life).start(with_task(plan, task(json!({})))).is_ok();
        (world, over)
    };
    let (world, _) = (1..)
        .map(prepared)
        .find(|(world, over)| *over || world.kinds().contains(&"commit_prepared"))
        .unwrap();
    let root = world.root();
    let before = git(root, &["rev-parse", "main"]);
    git(root, &["checkout", "-q", "main"]);
    let run = calm(&world).recover().unwrap().pop().unwrap().result.unwrap();
    assert!(detail(&run).contains("REPO_MOVED"), "{}", detail(&run));
    assert_eq!(git(root, &["rev-parse", "main"]), before);
}
