//! Scope, commits and work trees on real repositories.

mod own_change;

use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use serde_json::{Value, json};
use windlass_engine::{Engine, GitRepository, NewRun};
use windlass_kernel::run::plan::{CheckTiming, Effect, OnRestart, Plan, Requirement, Trigger};
use windlass_kernel::run::{Event, VoteDecision};
use windlass_kernel::{Code, State};
use windlass_testkit::engine::Votes as _;

use super::{detail, named, sh, with_answers, with_task, write};
use crate::crash::Life;
use crate::holds::approve;
use crate::plans::{agent, check, hold, person, phase, plan};
use crate::world::{World, end, trace};

fn git(root: &Path, arguments: &[&str]) -> String {
    let output = Command::new("git").current_dir(root).args(arguments).output().unwrap();
    assert!(output.status.success(), "git {arguments:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// A world whose folder is a repository with one commit.
fn world() -> World {
    let world = World::new();
    let root = world.root();
    git(root, &["init", "-q", "-b", "main"]);
    git(root, &["config", "user.name", "Ann"]);
    git(root, &["config", "user.email", "ann@example.com"]);
    write(root, ".git/info/exclude", "/locks\n/stop\n/.windlass\n");
    write(root, "src/a.txt", "one\n");
    git(root, &["add", "-A"]);
    git(root, &["commit", "-q", "-m", "first"]);
    world
}

fn engine(world: &World, life: &Arc<Life>) -> Engine {
    super::engine(world, life, Arc::new(GitRepository::new(world.root().to_owned())))
}

fn calm(world: &World) -> Engine {
    engine(world, &Life::until(None))
}

/// Something is changed, its scope is checked, and it is committed.
fn building(script: &str) -> Plan {
    let mut build = phase("build", &[], sh(script));
    build.checks = vec![check(
        "scope",
        CheckTiming::After,
        named("x", &[], "scope", json!({})).doer,
        &[("pass", Effect::Continue), ("violation", hold(Trigger::WaiverRequested))],
    )];
    let mut plan = plan(vec![build, named("commit", &["build"], "commit", json!({}))]);
    plan.require = vec![Requirement::CleanRepo];
    plan
}

const CHANGE: &str =
    r#"echo two >> src/a.txt; echo new > src/b.txt; echo '{"commit_message":"Add two"}'"#;

fn task(constraints: Value) -> Value {
    json!({"task": "add two", "constraints": constraints})
}

#[test]
fn a_change_is_committed_once_and_the_tree_is_clean_afterwards() {
    let world = world();
    let root = world.root();
    // Other hooks than `pre-commit` are the user's, not ours: ones that would refuse and leave a mark.
    for hook in ["prepare-commit-msg", "commit-msg", "post-commit", "reference-transaction"] {
        write(root, &format!(".git/hooks/{hook}"), "#!/bin/sh\ntouch hooked\nexit 1\n");
        let path = root.join(".git/hooks").join(hook);
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(path, mode).unwrap();
    }
    let before = git(root, &["rev-parse", "HEAD"]);
    let run = calm(&world).start(with_task(building(CHANGE), task(json!({})))).unwrap();
    assert_eq!(end(&run), ("PASS", "pass"), "{:?}", run.ended);
    assert_eq!(git(root, &["rev-list", "--count", "HEAD"]), "2");
    assert_eq!(git(root, &["rev-parse", "HEAD^"]), before);
    assert_eq!(git(root, &["symbolic-ref", "--short", "HEAD"]), "main");
    let message = git(root, &["log", "-1", "--format=%B"]);
    assert!(message.starts_with("Add two\n\nWindlass-Run: run_"), "{message}");
    assert_eq!(git(root, &["log", "-1", "--format=%an <%ae>"]), "Ann <ann@example.com>");
    assert_eq!(git(root, &["status", "--porcelain"]), "");
    assert_eq!(git(root, &["show", "HEAD:src/b.txt"]), "new");
    assert!(!root.join("hooked").exists());
    let commit = run.commit.as_ref().unwrap();
    assert_eq!(git(root, &["rev-parse", "HEAD"]), commit.commit);
    world.verify();
}

#[test]
fn a_hook_is_run_in_a_cell_only() {
    let world = world();
    let root = world.root();
    write(root, ".git/hooks/pre-commit", "#!/bin/sh\ntouch hooked\n");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(root.join(".git/hooks/pre-commit"), mode).unwrap();
    let run = calm(&world).start(with_task(building(CHANGE), task(json!({})))).unwrap();
    assert!(detail(&run).contains("[SANDBOX_UNAVAILABLE]"), "{}", detail(&run));
    assert!(!root.join("hooked").exists());
    assert_eq!(git(root, &["rev-list", "--count", "HEAD"]), "1");
    world.verify();
}

#[test]
fn what_appears_between_the_record_and_the_branch_is_not_committed() {
    let (world, _) = (1..)
        .map(|at| dies(at, OnRestart::Resume))
        .find(|(world, over)| !over || world.kinds().contains(&"commit_prepared"))
        .unwrap();
    let root = world.root();
    assert_eq!(git(root, &["rev-list", "--count", "HEAD"]), "1");
    write(root, "late.txt", "late\n");
    let run = calm(&world).recover().unwrap().pop().unwrap().result.unwrap();
    assert_eq!(end(&run), ("PASS", "pass"), "{:?}", run.ended);
    let committed = git(root, &["show", "--format=", "--name-only", "HEAD"]);
    assert_eq!(committed, "src/a.txt\nsrc/b.txt");
    assert_eq!(git(root, &["status", "--porcelain"]), "?? late.txt");
    // The commit has the recorded tree.
    let tree = run.commit.unwrap().tree;
    assert_eq!(
        (Some(&tree), git(root, &["rev-parse", "HEAD^{tree}"])),
        (run.reviewed.as_ref(), tree.clone())
    );
}

#[test]
fn a_crash_before_the_commit_does_not_hide_what_appears() {
    // The process dies when the work is done, before the commit is recorded.
    let (world, _) = (1..)
        .map(|at| dies(at, OnRestart::Resume))
        .find(|(world, over)| {
            let started = world.kinds().iter().filter(|kind| **kind == "phase_started").count();
            !over || started == 2
        })
        .unwrap();
    let root = world.root();
    assert!(!world.kinds().contains(&"commit_prepared"));
    write(root, "late.txt", "late\n");
    let engine = calm(&world);
    let run = engine.recover().unwrap().pop().unwrap().result.unwrap();
    let held = &run.hold.as_ref().unwrap().held;
    assert!(held.question.contains("`late.txt`"), "{}", held.question);
    assert_eq!(held.change.as_ref().unwrap().files, ["late.txt", "src/a.txt", "src/b.txt"]);
    assert_eq!(git(root, &["rev-list", "--count", "HEAD"]), "1");
    approve(&engine, &run, "ann");
    let run = engine.resume(trace(&run)).unwrap();
    assert_eq!(end(&run), ("PASS", "pass"), "{:?}", run.ended);
    assert_eq!(git(root, &["show", "HEAD:late.txt"]), "late");
    world.verify();
}

#[test]
fn nothing_changed_is_nothing_committed() {
    let world = world();
    let run = calm(&world).start(with_task(building("echo '{}'"), task(json!({})))).unwrap();
    assert_eq!(end(&run), ("PASS", "pass"));
    assert_eq!(git(world.root(), &["rev-list", "--count", "HEAD"]), "1");
    assert!(run.commit.is_none());
}

#[test]
fn a_detached_head_is_moved_and_no_branch_is() {
    let world = world();
    let root = world.root();
    git(root, &["checkout", "-q", "--detach"]);
    let run = calm(&world).start(with_task(building(CHANGE), task(json!({})))).unwrap();
    assert_eq!(end(&run), ("PASS", "pass"), "{:?}", run.ended);
    assert_eq!(git(root, &["rev-list", "--count", "HEAD"]), "2");
    assert_eq!(git(root, &["rev-list", "--count", "main"]), "1");
    assert_eq!(git(root, &["status", "--porcelain"]), "");
}

#[test]
fn what_is_out_of_scope_comes_before_a_person_and_is_never_committed() {
    for (constraints, finding) in [
        (json!({"allowed_paths": ["docs/**"]}), "not among the task's allowed paths"),
        (json!({"denied_paths": ["src"]}), "is denied by the task"),
        (json!({"denied_paths": ["./src/"]}), "is denied by the task"),
        (json!({"allowed_paths": ["src"], "denied_paths": ["**/b.*"]}), "`src/b.txt` is denied"),
        (json!({"max_diff_lines": 1}), "2 lines are changed"),
    ] {
        let world = world();
        let engine = calm(&world);
        let run = engine.start(with_task(building(CHANGE), task(constraints))).unwrap();
        assert_eq!(run.head.state, Some(State::Checkpoint), "{:?}", run.ended);
        let held = &run.hold.as_ref().unwrap().held;
        assert_eq!(held.trigger, Trigger::WaiverRequested);
        assert!(held.question.contains(finding), "{}", held.question);
        assert_eq!(held.change.as_ref().unwrap().files, ["src/a.txt", "src/b.txt"]);
        // Whoever waives the check has not waived the task's own rules for the commit.
        approve(&engine, &run, "ann");
        let run = engine.resume(trace(&run)).unwrap();
        assert!(detail(&run).contains(finding), "{}", detail(&run));
        assert_eq!(git(world.root(), &["rev-list", "--count", "HEAD"]), "1");
    }
    for (constraints, why) in [
        (json!({"max_diff_lines": "1"}), "not a whole number"),
        (json!({"allowed_paths": "docs"}), "not a list of strings"),
        (json!({"allowed_paths": [""]}), "is empty"),
        (json!({"denied_paths": ["[a"]}), "the path"),
    ] {
        let world = world();
        let run = calm(&world).start(with_task(building(CHANGE), task(constraints))).unwrap();
        // The check could not say anything that counts.
        assert_eq!(end(&run), ("BLOCKED", "unsupported_verdict"), "{why}");
        let said = world.only_events().into_iter().find_map(|event| match event {
            Event::Checked { reason, .. } => Some(reason),
            _ => None,
        });
        assert!(said.as_ref().unwrap().contains(why), "{said:?}");
    }
}

/// Starts a run whose process dies at a point; tells what is left of it.
fn dies(at: u32, on_restart: OnRestart) -> (World, bool) {
    let world = world();
    let mut plan = building(CHANGE);
    plan.on_restart = on_restart;
    let life = Life::until(Some(at));
    drop(engine(&world, &life).start(with_task(plan, task(json!({})))));
    let over = life.is_over();
    (world, over)
}

/// Takes a run up until it has ended.
fn finish(world: &World) {
    let engine = calm(world);
    for _ in 0..20 {
        match world.runs()[0] {
            (_, State::Terminal) => return,
            (trace_id, State::Checkpoint) => {
                drop(engine.vote(trace_id, VoteDecision::Approved, "ann", "go on", None, &[]));
                engine.resume(trace_id).unwrap();
            }
            _ => {
                engine.recover().unwrap().pop().unwrap().result.unwrap();
            }
        }
    }
    panic!("it does not end: {:?}", world.kinds());
}

#[test]
fn whatever_dies_there_is_one_commit() {
    let mut ways = 0;
    let mut prepared = 0;
    // The first points come before anything of git's; the commit comes late.
    for (from, on_restart) in [(9, OnRestart::Resume), (13, OnRestart::Hold)] {
        for at in (from..).step_by(1) {
            let (world, over) = dies(at, on_restart);
            if !over {
                break;
            }
            let root = world.root();
            let unpublished = world.kinds().contains(&"commit_prepared")
                && git(root, &["rev-list", "--count", "HEAD"]) == "1";
            prepared += u32::from(unpublished);
            finish(&world);
            let run = calm(&world).read(world.runs()[0].0).unwrap();
            assert_eq!(end(&run), ("PASS", "pass"), "point {at}: {:?}", run.ended);
            assert_eq!(git(root, &["rev-list", "--count", "HEAD"]), "2", "point {at}");
            assert_eq!(git(root, &["status", "--porcelain"]), "", "point {at}");
            let commits = world.kinds().iter().filter(|kind| **kind == "commit_prepared").count();
            assert!(commits <= 2, "point {at}");
            world.verify();
            ways += 1;
        }
    }
    println!("{ways} ways to die around a commit, {prepared} of them before it was published");
    assert!(prepared > 0);
}

#[test]
fn flags_in_the_index_stop_no_commit_and_hide_nothing() {
    for flags in [
        "git update-index --skip-worktree src/a.txt",
        "git update-index --assume-unchanged src/a.txt",
        "git update-index --split-index; git add -N src/b.txt",
    ] {
        let world = world();
        let root = world.root();
        let script = format!("echo >src/b.txt; {flags}; {CHANGE}");
        let run = calm(&world).start(with_task(building(&script), task(json!({})))).unwrap();
        assert_eq!(end(&run), ("PASS", "pass"), "{flags}: {:?}", run.ended);
        let committed = git(root, &["show", "--format=", "--name-only", "HEAD"]);
        assert_eq!(committed, "src/a.txt\nsrc/b.txt", "{flags}");
        assert_eq!(git(root, &["ls-files", "-v"]), "H src/a.txt\nH src/b.txt", "{flags}");
        assert_eq!(git(root, &["status", "--porcelain"]), "", "{flags}");
        world.verify();
    }
}

#[test]
fn a_branch_that_was_moved_without_its_index_is_completed() {
    let (world, _) = (1..)
        .map(|at| dies(at, OnRestart::Resume))
        .find(|(world, over)| !over || world.kinds().contains(&"commit_prepared"))
        .unwrap();
    let root = world.root();
    let commit = calm(&world).read(world.runs()[0].0).unwrap().commit.unwrap().commit;
    git(root, &["update-ref", "refs/heads/main", &commit]);
    git(root, &["update-index", "--skip-worktree", "src/a.txt"]);
    let run = calm(&world).recover().unwrap().pop().unwrap().result.unwrap();
    assert_eq!(end(&run), ("PASS", "pass"), "{:?}", run.ended);
    assert_eq!(git(root, &["rev-parse", "HEAD"]), commit);
    assert_eq!(git(root, &["ls-files", "-v"]), "H src/a.txt\nH src/b.txt");
    assert_eq!(git(root, &["status", "--porcelain"]), "");
}

#[test]
fn a_branch_that_has_moved_meanwhile_is_not_overwritten() {
    let (world, _) = (1..)
        .map(|at| dies(at, OnRestart::Resume))
        .find(|(world, over)| !over || world.kinds().contains(&"commit_prepared"))
        .unwrap();
    let root = world.root();
    assert_eq!(git(root, &["rev-list", "--count", "HEAD"]), "1");
    git(root, &["commit", "-q", "--allow-empty", "-m", "somebody else"]);
    let theirs = git(root, &["rev-parse", "HEAD"]);
    let run = calm(&world).recover().unwrap().pop().unwrap().result.unwrap();
    assert!(detail(&run).contains("REPO_MOVED"), "{}", detail(&run));
    assert_eq!(git(root, &["rev-parse", "HEAD"]), theirs);
    // What the run made is still there under the name in the journal.
    let commit = run.commit.unwrap().commit;
    assert_eq!(git(root, &["cat-file", "-t", &commit]), "commit");
}

#[test]
fn a_branch_that_was_rewritten_before_the_commit_ends_the_run() {
    let world = world();
    let script = format!("git commit -q --amend --allow-empty -m other; {CHANGE}");
    let run = calm(&world).start(with_task(building(&script), task(json!({})))).unwrap();
    assert!(detail(&run).contains("REPO_MOVED"), "{}", detail(&run));
    assert_eq!(git(world.root(), &["log", "-1", "--format=%s"]), "other");
}

#[test]
fn somebody_elses_branch_keeps_its_index() {
    let (world, _) = (1..)
        .map(|at| dies(at, OnRestart::Resume))
        .find(|(world, over)| !over || world.kinds().contains(&"commit_prepared"))
        .unwrap();
    let root = world.root();
    git(root, &["stash", "-q", "-u"]);
    git(root, &["checkout", "-q", "-b", "elsewhere"]);
    write(root, "staged.txt", "mine\n");
    git(root, &["add", "staged.txt"]);
    let run = calm(&world).recover().unwrap().pop().unwrap().result.unwrap();
    assert_eq!(end(&run), ("PASS", "pass"), "{:?}", run.ended);
    assert_eq!(git(root, &["rev-list", "--count", "main"]), "2");
    assert_eq!(git(root, &["diff", "--cached", "--name-only"]), "staged.txt");
}

#[test]
fn a_dirty_repository_is_refused_and_named() {
    let world = world();
    write(world.root(), "untracked.txt", "x");
    let error = calm(&world).start(with_task(building(CHANGE), task(json!({})))).unwrap_err();
    assert_eq!(error.code(), Code::RepoDirty);
    assert!(error.to_string().contains("`untracked.txt`"), "{error}");
    assert_eq!(world.runs(), Vec::new());
}

/// Files are changed, then a person is asked.
fn asking() -> Plan {
    let mut plan = building(CHANGE);
    plan.phases.insert(1, phase("ask", &["build"], person(1)));
    plan.phases[2].needs = vec!["ask".to_owned()];
    plan
}

#[test]
fn a_run_on_hold_goes_on_only_from_what_it_left() {
    let world = world();
    let engine = calm(&world);
    let root = world.root();
    let run = engine.start(with_task(asking(), task(json!({})))).unwrap();
    assert_eq!(run.head.state, Some(State::Checkpoint));
    approve(&engine, &run, "ann");
    let before = world.only_events();
    write(root, "src/b.txt", "edited by hand\n");
    let error = engine.resume(trace(&run)).unwrap_err();
    assert_eq!(error.code(), Code::RepoDirty);
    assert!(error.to_string().contains("`src/b.txt`"), "{error}");
    write(root, "src/b.txt", "new\n");
    write(root, "another.txt", "x\n");
    assert_eq!(engine.resume(trace(&run)).unwrap_err().code(), Code::RepoDirty);
    std::fs::remove_file(root.join("another.txt")).unwrap();
    git(root, &["commit", "-q", "--allow-empty", "-m", "other"]);
    assert_eq!(engine.resume(trace(&run)).unwrap_err().code(), Code::RepoMoved);
    git(root, &["reset", "-q", "--soft", "HEAD^"]);
    assert_eq!(world.only_events(), before);
    let run = engine.resume(trace(&run)).unwrap();
    assert_eq!(end(&run), ("PASS", "pass"), "{:?}", run.ended);
}

#[test]
fn what_a_try_had_changed_before_its_call_waited_is_no_obstacle() {
    let world = world();
    let engine = calm(&world);
    // A check writes a file; then a call of the next phase waits.
    let mut plan = building(CHANGE);
    plan.phases[0].checks[0].doer = sh("echo report > report.txt");
    plan.phases.truncate(1);
    plan.phases.push(phase("work", &["build"], agent()));
    let answers = json!({"phases": {"work": [{
        "calls": [{"tool": "world/ask", "args": {"value": 1}, "intent": "a step of a test"}],
        "answer": {},
    }]}});
    let run = engine.start(with_answers(plan, answers)).unwrap();
    let held = &run.hold.as_ref().unwrap().held;
    assert_eq!(held.trigger, Trigger::CallApproval);
    // The person is shown all of it.
    let files = &held.change.as_ref().unwrap().files;
    assert_eq!(files, &["report.txt", "src/a.txt", "src/b.txt"]);
    approve(&engine, &run, "ann");
    assert_eq!(end(&engine.resume(trace(&run)).unwrap()), ("PASS", "pass"));
}

#[test]
fn a_run_in_its_own_work_tree_leaves_the_main_tree_alone() {
    let world = world();
    let root = world.root();
    let before = git(root, &["rev-parse", "main"]);
    let engine = calm(&world);
    let new = NewRun { worktree: true, ..with_task(asking(), task(json!({}))) };
    let run = engine.start(new).unwrap();
    let started = run.started.as_ref().unwrap();
    let own = root.join(".windlass").join(started.worktree.as_ref().unwrap());
    assert_eq!(std::fs::read_to_string(own.join("src/b.txt")).unwrap(), "new\n");
    assert!(!root.join("src/b.txt").exists());
    // The hold keeps the tree, and the run goes on in it.
    approve(&engine, &run, "ann");
    let run = engine.resume(trace(&run)).unwrap();
    assert_eq!(end(&run), ("PASS", "pass"), "{:?}", run.ended);
    let branch = format!("windlass/{}", started.run_id);
    assert_eq!(git(root, &["rev-list", "--count", &branch]), "2");
    assert_eq!(git(root, &["show", &format!("{branch}:src/b.txt")]), "new");
    assert_eq!(git(root, &["rev-parse", "main"]), before);
    assert_eq!(git(root, &["status", "--porcelain"]), "");
    assert_eq!(git(root, &["symbolic-ref", "--short", "HEAD"]), "main");
}
