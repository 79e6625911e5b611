//! Runs whose own work commits, and commits that others make while a run waits.

use serde_json::{Value, json};

use crate::harness::text_of;
use crate::world::{Repo, answers, build, id_of, passing, review, sh, trace_of};

/// A line that writes a file and commits it.
fn committing(file: &str, words: &str) -> Value {
    let line = format!("echo {words} >> {file} && git add {file} && git commit -qm 'own: {words}'");
    build(&[sh(&line)])
}

fn approved(builds: &[Value]) -> Value {
    answers(builds, &[review("approved"), review("approved")])
}

fn roll_back(repo: &Repo, to: &str, more: &[&str]) -> crate::harness::Outcome {
    let line = ["checkpoint", "rollback", to, "--by", "ada", "--reason", "once more"];
    repo.windlass(&[&line[..], more].concat())
}

/// The only run that has not ended, if there is one.
fn open_run(repo: &Repo) -> Option<String> {
    let all = repo.windlass(&["status", "--open", "--json"]).exit(0).json();
    all[0]["run_id"].as_str().map(str::to_owned)
}

#[test]
fn work_that_commits_by_itself_is_merged_by_every_strategy() {
    for (strategy, others) in [
        ("merge", true),
        ("merge", false),
        ("squash", true),
        ("squash", false),
        ("fast-forward", false),
    ] {
        let repo = Repo::new();
        let builds = [build(&[
            sh("echo one > one.txt && git add one.txt && git commit -qm 'own: one'"),
            sh("echo two > two.txt && git add two.txt && git commit -qm 'own: two'"),
        ])];
        let done = repo.run_with(&approved(&builds), &["--worktree"]).exit(0);
        let (id, trace) = (id_of(&done), trace_of(&done));
        let tip = repo.git(&["rev-parse", &format!("windlass/{id}")]);
        assert_eq!(
            repo.git(&["log", "-1", "--format=%s", &tip]),
            "own: two",
            "nothing was left to commit"
        );
        assert_eq!(done.json()["commit"], json!(tip), "{done}");
        assert_eq!(repo.counts(&trace).get("commit_prepared"), None);
        if others {
            repo.write("other.txt", "x\n");
            repo.commit("by somebody else");
        }
        let merged = repo.windlass(&["close", &id, "--merge", "--strategy", strategy, "--json"]);
        assert_eq!(merged.exit(0).json()["merged"]["commit"], json!(repo.head()));
        assert_eq!((repo.read("one.txt"), repo.read("two.txt")), ("one\n".into(), "two\n".into()));
        assert_eq!(repo.status(), "");
        let message = repo.git(&["log", "-1", "--format=%B"]);
        match (strategy, others) {
            ("squash", _) => assert!(
                message.starts_with("price: raised")
                    && message.contains(&format!("Windlass-Run: {id}")),
                "{message}"
            ),
            ("merge", true) => assert!(message.contains(&id), "{message}"),
            _ => assert_eq!(repo.head(), tip),
        }
        repo.is_whole();
    }
}

#[test]
fn the_commit_of_a_run_is_made_on_top_of_those_of_its_work() {
    for more in [&["--worktree"][..], &[]] {
        let repo = Repo::new();
        let base = repo.head();
        let line =
            "echo one > one.txt && git add one.txt && git commit -qm own && echo two > two.txt";
        let done = repo.run_with(&approved(&[build(&[sh(line)])]), more).exit(0);
        let (id, commit) = (id_of(&done), text_of(&done.json(), "commit"));
        let log = repo.git(&["log", "--format=%s", &format!("{base}..{commit}")]);
        assert_eq!(log, "price: raised\nown");
        assert_eq!(repo.git(&["show", "--name-only", "--format=", &commit]), "two.txt");
        if !more.is_empty() {
            repo.windlass(&["close", &id, "--merge"]).exit(0);
        }
        assert_eq!((repo.read("one.txt"), repo.read("two.txt")), ("one\n".into(), "two\n".into()));
        assert_eq!(repo.status(), "");
        repo.is_whole();
    }
}

#[test]
fn people_see_what_the_work_has_committed_and_the_run_goes_on() {
    let repo = Repo::new();
    let held = repo.run(&answers(&[committing("own.txt", "hello")], &[review("escalate")])).exit(4);
    let id = id_of(&held);
    repo.windlass(&["queue", "show", &id]).exit(0).says("own.txt");
    let diff = ["checkpoint", "diff", &format!("{id}/PRE_build"), &format!("{id}/POST_build")];
    repo.windlass(&diff).exit(0).says("+ own.txt");
    assert_eq!(repo.approve(&id).exit(0).json()["outcome"], "PASS");
    assert_eq!(repo.git(&["log", "-1", "--format=%s"]), "own: hello");
    let bundle = repo.place.base().join("run.bundle");
    let path = bundle.to_str().unwrap();
    repo.windlass(&["export", &id, "--bundle", path]).exit(0);
    let checked = repo.windlass(&["verify", path, "--json"]).exit(0).json();
    assert_eq!(checked["commit"], json!(repo.head()), "{checked}");
    repo.windlass(&["status", &id]).exit(0).says(&repo.head());
    repo.is_whole();
}

#[test]
fn commits_of_others_while_a_run_waits_are_refused() {
    for act in [
        &["commit", "--quiet", "--allow-empty", "-m", "by somebody else"][..],
        &["reset", "--quiet", "--hard", "HEAD~1"],
        &["switch", "--quiet", "-c", "another"],
    ] {
        let repo = Repo::new();
        let all = answers(&[committing("own.txt", "hello")], &[review("escalate")]);
        let id = id_of(&repo.run(&all).exit(4));
        let left = repo.head();
        repo.git(act);
        repo.approve(&id).exit(3).warns("REPO_MOVED");
        repo.git(&["switch", "--quiet", "main"]);
        repo.git(&["reset", "--quiet", "--hard", &left]);
        assert_eq!(repo.windlass(&["resume", &id, "--json"]).exit(0).json()["outcome"], "PASS");
        repo.is_whole();
    }
}

/// Work, a person, more work, and a commit, in a repository that need not be clean.
const TWICE: &str = r#"---
id: twice
title: Twice
type: loop
category: test
version: "1"
on_restart: resume
require: [repo]
phases:
  - id: build
    doer: { command: [sh, -c, "echo one > one.txt; git add one.txt; git commit -qm one; echo '{}'"] }
  - id: approve
    needs: [build]
    doer: { person: "Is it good?" }
  - id: more
    needs: [approve]
    doer: { command: [sh, -c, "echo two > two.txt; git add two.txt; git commit -qm two; echo '{}'"] }
  - id: save
    needs: [more]
    doer: { builtin: commit }
---
"#;

#[test]
fn work_after_a_hold_does_not_make_the_commits_of_others_its_own() {
    let repo = Repo::with_loop("twice", TWICE);
    let run = || {
        let line = ["run", "twice", "--loop", "twice", "--json", "--by", "ada"];
        id_of(&repo.windlass(&line).exit(4))
    };
    let id = run();
    assert_eq!(repo.approve(&id).exit(0).json()["outcome"], "PASS");
    assert_eq!(repo.git(&["log", "-2", "--format=%s"]), "two\none");
    repo.git(&["reset", "--quiet", "--hard", "HEAD~2"]);
    let id = run();
    repo.git(&["commit", "--quiet", "--allow-empty", "-m", "by somebody else"]);
    let blocked = repo.approve(&id).exit(3);
    assert_eq!(blocked.json()["outcome"], "BLOCKED", "{blocked}");
    repo.windlass(&["status", &id]).exit(0).says("REPO_MOVED");
    repo.is_whole();
}

#[test]
fn a_run_goes_on_after_a_rollback_before_a_commit_of_its_work() {
    let repo = Repo::new();
    let builds = [committing("own.txt", "hello"), committing("own.txt", "again")];
    let id = id_of(&repo.run_with(&approved(&builds), &["--worktree"]).exit(0));
    let branch = format!("windlass/{id}");
    let first = repo.git(&["rev-parse", &branch]);
    let to = format!("{id}/POST_design");
    roll_back(&repo, &to, &["--dry-run"]).exit(0).warns(&first);
    let done = roll_back(&repo, &to, &["--resume", "--json"]).exit(0);
    assert_eq!(done.json()["outcome"], "PASS", "{done}");
    // As with a commit of the run itself, the branch keeps it, and the new work lies on top.
    assert_eq!(repo.git(&["rev-parse", &format!("{branch}~1")]), first);
    assert_eq!(repo.git(&["show", &format!("{branch}:own.txt")]), "again");
    repo.windlass(&["close", &id, "--merge"]).exit(0);
    assert_eq!(repo.read("own.txt"), "again\n");
    repo.is_whole();
}

#[test]
fn work_that_was_killed_after_its_commit_is_done_again_on_top() {
    let repo = Repo::with_spine("on_restart: hold", "on_restart: resume");
    let path = repo.answers(&approved(&[committing("own.txt", "hello")]));
    let line = ["run", "raise", "--json", "--worktree", "--answers", &path, "--by", "ada"];
    // The first point at which the branch has the commit, and the phase is not done.
    for at in 12..60 {
        let killed =
            repo.place.run_with("WINDLASS_CRASH_AT", &format!("append.before:{at}"), &line);
        assert_eq!(killed.code, None, "{at}: {killed}");
        let Some(id) = open_run(&repo) else { continue };
        let has =
            repo.git(&["log", "--format=%s", &format!("windlass/{id}")]).contains("own: hello");
        let resumed = repo.windlass(&["resume", &id, "--json"]);
        let done = if resumed.code == Some(4) { repo.approve(&id) } else { resumed };
        assert_eq!(done.exit(0).json()["outcome"], "PASS", "{at}");
        repo.windlass(&["close", &id, "--merge", "--discard"]).exit(0);
        if has {
            break;
        }
    }
    assert!(repo.read("own.txt").contains("hello"));
    repo.is_whole();
}

#[test]
fn a_run_without_commits_of_its_work_is_recorded_as_before() {
    let repo = Repo::new();
    let done = repo.run(&passing()).exit(0);
    for event in repo.events(&trace_of(&done)) {
        let change = event.pointer("/done/change").cloned().unwrap_or_default();
        assert_eq!(change.get("commit"), None, "{event}");
    }
}

/// A loop that writes a file and commits it.
const SAVED: &str = r#"---
id: saved
title: Saved
type: loop
category: test
version: "1"
on_restart: resume
require: [clean_repo]
phases:
  - id: build
    doer: { command: [sh, -c, "date +%N >> work.txt; echo '{}'"], repeatable: true }
  - id: save
    needs: [build]
    doer: { builtin: commit }
---
"#;

fn gc(repo: &Repo) {
    repo.git(&["reflog", "expire", "--expire=now", "--all"]);
    repo.git(&["gc", "--quiet", "--prune=now"]);
}

/// The refs that keep commits which no branch has yet.
fn kept(repo: &Repo) -> String {
    let refs = repo.git(&["for-each-ref", "--format=%(refname)", "refs/windlass"]);
    let kept = refs.lines().filter(|name| name.ends_with("/commit") || name.ends_with("/merge"));
    kept.collect()
}

#[test]
fn a_prepared_commit_outlives_the_garbage_collection_of_somebody_else() {
    let line = ["run", "save", "--loop", "saved", "--json", "--worktree", "--by", "ada"];
    let mut prepared = 0;
    for at in 4..12 {
        for lost in [false, true] {
            let repo = Repo::with_loop("saved", SAVED);
            let point = format!("append.after:{at}");
            if repo.place.run_with("WINDLASS_CRASH_AT", &point, &line).code.is_some() {
                continue;
            }
            let Some(id) = open_run(&repo) else { continue };
            prepared += usize::from(!kept(&repo).is_empty());
            if lost {
                // As in a run of an older version, which kept nothing.
                let name = format!("refs/windlass/{id}/commit");
                repo.git(&["update-ref", "-d", &name]);
            }
            gc(&repo);
            repo.windlass(&["checkpoint", "check"]).exit(0);
            let done = repo.windlass(&["resume", &id, "--json"]).exit(0).json();
            assert_eq!(done["outcome"], "PASS", "{at}: {done}");
            let tip = repo.git(&["rev-parse", &format!("windlass/{id}")]);
            assert_eq!(done["commit"], json!(tip), "{at}");
            assert_eq!(kept(&repo), "", "{at}");
            repo.windlass(&["close", &id, "--merge"]).exit(0);
            repo.git(&["fsck"]);
            repo.is_whole();
        }
    }
    assert!(prepared > 0, "no commit was prepared and not published");
}

#[test]
fn a_run_whose_prepared_commit_is_lost_goes_on_after_a_rollback() {
    let line = ["run", "save", "--loop", "saved", "--json", "--worktree", "--by", "ada"];
    for at in 4..12 {
        let repo = Repo::with_loop("saved", SAVED);
        let point = format!("append.after:{at}");
        repo.place.run_with("WINDLASS_CRASH_AT", &point, &line);
        let Some(id) = open_run(&repo) else { continue };
        if kept(&repo).is_empty() {
            continue;
        }
        repo.git(&["update-ref", "-d", &format!("refs/windlass/{id}/commit")]);
        gc(&repo);
        let to = format!("{id}/PRE_save");
        let done = roll_back(&repo, &to, &["--resume", "--json"]).exit(0);
        assert_eq!(done.json()["outcome"], "PASS", "{done}");
        repo.windlass(&["close", &id, "--merge"]).exit(0);
        return;
    }
    panic!("no commit was prepared and not published");
}

#[test]
fn a_prepared_merge_outlives_the_garbage_collection_of_somebody_else() {
    for strategy in ["merge", "squash"] {
        for (point, lost) in [
            ("append.before:1", false),
            ("append.after:1", false),
            ("append.after:1", true),
            ("append.before:2", false),
        ] {
            let repo = Repo::new();
            let id = id_of(&repo.run_with(&passing(), &["--worktree"]).exit(0));
            repo.write("other.txt", "x\n");
            repo.commit("by somebody else");
            let line = ["close", &id, "--merge", "--strategy", strategy];
            let killed = repo.place.run_with("WINDLASS_CRASH_AT", point, &line);
            assert_eq!(killed.code, None, "{point}: {killed}");
            if lost {
                repo.git(&["update-ref", "-d", &format!("refs/windlass/{id}/merge")]);
            }
            gc(&repo);
            repo.windlass(&line).exit(0);
            assert_eq!((repo.read("built.txt"), repo.status()), ("built\n".into(), String::new()));
            assert_eq!(kept(&repo), "", "{point}");
            repo.git(&["fsck"]);
            repo.is_whole();
        }
    }
}

#[test]
fn a_run_waits_for_a_merge_that_is_writing_its_files() {
    let repo = Repo::new();
    let locks = repo.place.state().join("locks");
    std::fs::create_dir_all(&locks).unwrap();
    let lock = std::fs::File::create(locks.join("integration.lock")).unwrap();
    lock.lock().unwrap();
    repo.write("half.txt", "half of a merge\n");
    std::thread::scope(|scope| {
        let run = scope.spawn(|| repo.run_with(&passing(), &["--worktree"]));
        std::thread::sleep(std::time::Duration::from_millis(500));
        std::fs::remove_file(repo.root().join("half.txt")).unwrap();
        lock.unlock().unwrap();
        assert_eq!(run.join().unwrap().exit(0).json()["outcome"], "PASS");
    });
}
