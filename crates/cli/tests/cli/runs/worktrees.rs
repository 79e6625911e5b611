//! Work trees that are ready to work in, and their merge.

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::world::{Repo, answers, build, id_of, passing, review, sh, trace_of};

/// A repository with these settings of work trees, committed and trusted.
fn with_settings(settings: &str) -> Repo {
    let repo = Repo::new();
    repo.place.append(".windlass/config.toml", &format!("\n[worktree]\n{settings}\n"));
    repo.write(".gitignore", "*.local\ndeps/\n.windlass/artifacts/\n");
    repo.commit("settings");
    repo.place.trust();
    repo
}

fn folder(repo: &Repo, id: &str) -> PathBuf {
    repo.place.state().join("worktrees").join(id)
}

/// The only run.
fn only_run(repo: &Repo) -> String {
    repo.windlass(&["status", "--json"]).exit(0).json()[0]["run_id"].as_str().unwrap().to_owned()
}

/// The steps of the setup of a run.
fn steps(repo: &Repo, trace_id: &str) -> Vec<Value> {
    let events = repo.events(trace_id).into_iter();
    events.filter(|event| event["kind"] == "setup").collect()
}

fn does(line: &str) -> Value {
    answers(&[build(&[sh(line)])], &[review("approved")])
}

#[test]
fn copied_files_are_there_and_reach_no_commit() {
    let repo = with_settings(r#"copy = ["a.local", "conf/*.local", "none.local", "src/*"]"#);
    repo.write("a.local", "word");
    repo.write("conf/b.local", "b");
    std::fs::set_permissions(repo.root().join("a.local"), std::fs::Permissions::from_mode(0o640))
        .unwrap();
    // The agent lets git see the copies.
    let line = "cat a.local conf/b.local > built.txt; echo > .gitignore";
    let done = repo.run_with(&does(line), &["--worktree"]).exit(0);
    let (id, trace) = (id_of(&done), trace_of(&done));
    let copy = folder(&repo, &id).join("a.local");
    assert_eq!(std::fs::metadata(&copy).unwrap().permissions().mode() & 0o777, 0o640);
    assert_eq!(std::fs::read_to_string(&copy).unwrap(), "word");
    let branch = format!("windlass/{id}");
    let files = repo.git(&["ls-tree", "-r", "--name-only", &branch]);
    assert!(files.contains("built.txt") && !files.contains(".local"), "{files}");
    assert_eq!(repo.git(&["show", &format!("{branch}:built.txt")]), "wordb");
    let paths: Vec<String> = steps(&repo, &trace)[0]["files"]
        .as_array()
        .unwrap()
        .iter()
        .map(|file| file["path"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(paths, ["a.local", "conf/b.local"]);
    // What was copied is nothing to lose.
    repo.windlass(&["close", &id]).exit(0);
    repo.is_whole();
}

#[test]
fn a_link_is_not_copied() {
    let repo = with_settings(r#"copy = ["a.local"]"#);
    std::os::unix::fs::symlink("/etc/hostname", repo.root().join("a.local")).unwrap();
    let held = repo.run_with(&passing(), &["--worktree"]).exit(4);
    assert!(!folder(&repo, &id_of(&held)).join("a.local").exists());
    repo.windlass(&["queue", "show", &id_of(&held)]).exit(0).says("SETUP_FAILED");
}

#[test]
fn a_setup_runs_before_the_first_phase_and_once() {
    let repo = with_settings(
        r#"setup = [["mkdir", "-p", "deps"], ["bash", "-c", "echo $WINDLASS_RUN >> deps/log"]]"#,
    );
    let done = repo.run_with(&does("cp deps/log built.txt"), &["--worktree"]).exit(0);
    let id = id_of(&done);
    let built = repo.git(&["show", &format!("windlass/{id}:built.txt")]);
    assert_eq!(built, id, "the setup ran once, before the build");
    let told: Vec<Value> =
        steps(&repo, &trace_of(&done)).iter().map(|step| step["step"].clone()).collect();
    let command = ["command_started", "command_ended"];
    let expected: Vec<&str> =
        ["started"].into_iter().chain(command).chain(command).chain(["ended"]).collect();
    assert_eq!(told, expected);
    repo.is_whole();
}

#[test]
fn a_failed_setup_holds_the_run_until_it_is_mended() {
    let repo = with_settings(
        r#"copy = ["ok.local"]
setup = [["bash", "-c", "test -f ok.local || { echo not ready >&2; exit 3; }"]]"#,
    );
    let held = repo.run_with(&passing(), &["--worktree"]).exit(4);
    let id = id_of(&held);
    assert!(repo.stands(&id)["hold"].to_string().contains("not ready"), "{}", repo.stands(&id));
    assert!(!folder(&repo, &id).join("built.txt").exists());
    repo.write("ok.local", "");
    assert_eq!(repo.approve(&id).exit(0).json()["outcome"], "PASS");
    repo.is_whole();
}

#[test]
fn a_setup_that_changes_tracked_files_or_takes_too_long_is_refused() {
    for (settings, why) in [
        (r#"setup = [["bash", "-c", "echo x >> README.md"]]"#, "README.md"),
        ("setup_timeout_seconds = 1\nsetup = [[\"sleep\", \"60\"]]", "sleep 60"),
    ] {
        let repo = with_settings(settings);
        let id = id_of(&repo.run_with(&passing(), &["--worktree"]).exit(4));
        assert!(repo.stands(&id)["hold"].to_string().contains(why), "{}", repo.stands(&id));
    }
}

#[test]
fn a_setup_needs_trust_and_is_listed() {
    let repo = with_settings(r#"setup = [["make", "deps"]]"#);
    repo.windlass(&["trust", "--show"]).exit(0).says("make deps");
    let config = repo.read(".windlass/config.toml") + "copy = [\"other.local\"]\n";
    repo.place.write_untrusted(".windlass/config.toml", config);
    repo.commit("more");
    repo.run_with(&passing(), &["--worktree"]).exit(3).warns("PROJECT_UNTRUSTED");
}

#[test]
fn a_setup_killed_at_any_entry_is_run_again_from_its_start() {
    for at in 1..=8 {
        let repo = with_settings(
            r#"setup = [["mkdir", "-p", "deps"], ["bash", "-c", "echo x >> deps/log"]]"#,
        );
        let path = repo.answers(&passing());
        let line = ["run", "raise", "--json", "--worktree", "--answers", &path, "--by", "ada"];
        let killed = repo.place.run_with("WINDLASS_CRASH_AT", &format!("append.after:{at}"), &line);
        assert_eq!(killed.code, None, "{at}: {killed}");
        let id = only_run(&repo);
        let resumed = repo.windlass(&["resume", &id, "--json"]);
        let done = if resumed.code == Some(4) { repo.approve(&id) } else { resumed };
        assert_eq!(done.exit(0).json()["outcome"], "PASS", "{at}");
        repo.is_whole();
    }
}

#[test]
fn runs_at_once_have_different_ports_and_keep_them() {
    let repo = with_settings(
        "port_base = 21000\nports_per_run = 3\nsetup = [[\"mkdir\", \"deps\"], [\"bash\", \"-c\", \"echo \
         $WINDLASS_PORT > deps/port\"]]",
    );
    let port_of = |id: &str| {
        let text = std::fs::read_to_string(folder(&repo, id).join("deps/port")).unwrap();
        text.trim().to_owned()
    };
    let path = repo.answers(&passing());
    let line = ["run", "raise", "--json", "--worktree", "--answers", &path, "--by", "ada"];
    let runs: Vec<_> = std::thread::scope(|scope| {
        let all: Vec<_> = (0..8).map(|_| scope.spawn(|| repo.windlass(&line))).collect();
        all.into_iter().map(|one| one.join().unwrap().exit(0)).collect()
    });
    let mut ports = BTreeSet::new();
    for run in &runs {
        let id = id_of(run);
        let port = port_of(&id);
        let started = &repo.events(&trace_of(run))[0];
        assert_eq!(started["setup"]["ports"]["first"].to_string(), port);
        assert!(ports.insert(port.parse::<u16>().unwrap()), "{port} twice");
    }
    assert!(ports.iter().all(|port| *port >= 21000 && (port - 21000) % 3 == 0), "{ports:?}");
    // A port that is given back is given again.
    let first = id_of(&runs[0]);
    let port = port_of(&first);
    repo.windlass(&["close", &first]).exit(0);
    let next = repo.windlass(&line).exit(0);
    assert_eq!(port_of(&id_of(&next)), port);
}

/// A run that passed in its own work tree.
fn passed(repo: &Repo) -> String {
    id_of(&repo.run_with(&passing(), &["--worktree"]).exit(0))
}

#[test]
fn a_passed_run_is_merged_into_the_branch_that_is_checked_out() {
    let repo = Repo::new();
    let id = passed(&repo);
    let merged = repo.windlass(&["close", &id, "--merge", "--json"]).exit(0).json();
    assert_eq!(merged["merged"]["commit"], json!(repo.head()));
    assert_eq!((repo.read("built.txt"), repo.status()), ("built\n".to_owned(), String::new()));
    assert!(!folder(&repo, &id).exists());
    // Whoever merges twice changes nothing.
    let head = repo.head();
    repo.windlass(&["close", &id, "--merge"]).exit(0).says("already merged");
    assert_eq!(repo.head(), head);
    repo.is_whole();
}

#[test]
fn the_strategies_differ() {
    for (strategy, parents) in [("merge", 2), ("squash", 1), ("fast-forward", 0)] {
        let repo = Repo::new();
        let id = passed(&repo);
        repo.write("other.txt", "x\n");
        repo.commit("by somebody else");
        let head = repo.head();
        let merged = repo.windlass(&["close", &id, "--merge", "--strategy", strategy]);
        if parents == 0 {
            merged.fails_with(3, "REPO_MOVED");
            assert_eq!(repo.head(), head);
            continue;
        }
        merged.exit(0);
        assert_eq!(
            (repo.read("built.txt"), repo.read("other.txt")),
            ("built\n".into(), "x\n".into())
        );
        let line = repo.git(&["rev-list", "--parents", "-n", "1", "HEAD"]);
        assert_eq!(line.split(' ').count() - 1, parents, "{strategy}");
        let message = repo.git(&["log", "-1", "--format=%B"]);
        assert!(message.contains(&id), "{strategy}: {message}");
        assert_eq!(repo.status(), "");
    }
}

#[test]
fn a_branch_that_is_not_checked_out_is_merged_without_a_work_tree() {
    let repo = Repo::new();
    let id = passed(&repo);
    repo.git(&["switch", "--quiet", "-c", "other"]);
    repo.write("README.md", "mine\n");
    repo.windlass(&["close", &id, "--merge"]).exit(0);
    assert_eq!(repo.git(&["show", "main:built.txt"]), "built");
    assert_eq!((repo.read("built.txt"), repo.read("README.md")), (String::new(), "mine\n".into()));
}

#[test]
fn a_dirty_target_and_a_run_that_did_not_pass_are_refused() {
    let repo = Repo::new();
    let id = passed(&repo);
    let head = repo.head();
    repo.write("README.md", "mine\n");
    repo.windlass(&["close", &id, "--merge"]).fails_with(3, "REPO_DIRTY").warns("README.md");
    assert_eq!((repo.head(), repo.read("README.md")), (head, "mine\n".to_owned()));
    assert!(folder(&repo, &id).exists());
}

#[test]
fn a_conflict_changes_nothing_and_is_resolved_in_the_work_tree() {
    let repo = Repo::new();
    let id = passed(&repo);
    repo.write("built.txt", "another\n");
    repo.commit("by somebody else");
    let head = repo.head();
    let merge = format!("git -C {} merge main", folder(&repo, &id).display());
    let refused = repo.windlass(&["close", &id, "--merge"]).exit(4).warns("[MERGE_CONFLICT]");
    drop(refused.warns("built.txt").warns(&merge));
    assert_eq!((repo.head(), repo.status()), (head, String::new()));
    // It is in the queue like a hold until it is resolved.
    repo.windlass(&["queue", "list"])
        .exit(0)
        .says(&id)
        .says("MERGE_CONFLICT")
        .says("merge into main");
    repo.windlass(&["queue", "show", &id]).exit(0).says("built.txt").says(&merge);
    repo.windlass(&["status", &id]).exit(0).says(&merge);
    let listed = repo.windlass(&["queue", "list", "--json"]).exit(0).json();
    assert_eq!(listed[0]["merge_conflict"]["paths"], json!(["built.txt"]), "{listed}");
    let own = folder(&repo, &id).display().to_string();
    repo.git(&["-C", &own, "merge", "--quiet", "-s", "ours", "-m", "resolved", "main"]);
    repo.windlass(&["close", &id, "--merge"]).exit(0);
    assert_eq!((repo.read("built.txt"), repo.status()), ("built\n".to_owned(), String::new()));
    repo.windlass(&["queue", "list"]).exit(0).says("no run waits");
    repo.is_whole();
}

#[test]
fn commits_that_the_run_did_not_make_are_not_merged() {
    let repo = Repo::new();
    let id = passed(&repo);
    let own = folder(&repo, &id).display().to_string();
    repo.git(&["-C", &own, "commit", "--quiet", "--allow-empty", "-m", "smuggled"]);
    repo.windlass(&["close", &id, "--merge"]).fails_with(3, "REPO_MOVED");
}

#[test]
fn a_merge_killed_at_any_entry_is_done_once() {
    for point in ["append.before:1", "append.after:1", "append.before:2", "append.after:2"] {
        let repo = Repo::new();
        let id = passed(&repo);
        repo.write("other.txt", "x\n");
        repo.commit("by somebody else");
        let line = ["close", &id, "--merge"];
        let killed = repo.place.run_with("WINDLASS_CRASH_AT", point, &line);
        assert_eq!(killed.code, None, "{point}: {killed}");
        repo.windlass(&line).exit(0);
        assert_eq!((repo.read("built.txt"), repo.status()), ("built\n".into(), String::new()));
        assert_eq!(repo.git(&["rev-list", "--count", "--merges", "HEAD"]), "1", "{point}");
        repo.is_whole();
    }
}

#[test]
fn an_ignored_file_is_not_overwritten_by_a_merge() {
    let repo = Repo::new();
    let id = passed(&repo);
    repo.write(".git/info/exclude", "built.txt\n");
    repo.write("built.txt", "mine\n");
    repo.windlass(&["close", &id, "--merge"]).fails_with(3, "REPO_DIRTY").warns("built.txt");
    assert_eq!(repo.read("built.txt"), "mine\n");
    std::fs::remove_file(repo.root().join("built.txt")).unwrap();
    repo.windlass(&["close", &id, "--merge"]).exit(0);
    assert_eq!(repo.read("built.txt"), "built\n");
}

#[test]
fn a_closed_run_is_rolled_back_in_a_work_tree_that_is_made_again() {
    let repo = Repo::new();
    let id = id_of(&repo.run_with(&does("echo x > built.txt"), &["--worktree"]).exit(0));
    repo.windlass(&["close", &id]).exit(0);
    assert!(!folder(&repo, &id).exists());
    let to = format!("{id}/POST_design");
    let rollback = ["checkpoint", "rollback", &to, "--by", "ada", "--reason", "again"];
    repo.windlass(&[&rollback[..], &["--dry-run"]].concat())
        .fails_with(1, "CHECKPOINT_UNAVAILABLE");
    repo.windlass(&rollback).exit(0);
    assert!(folder(&repo, &id).join("README.md").exists());
    assert!(!folder(&repo, &id).join("built.txt").exists());
    repo.is_whole();
}
