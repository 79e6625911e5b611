//! What is committed is what was reviewed; the repository's own hook has its say.

use std::os::unix::fs::PermissionsExt as _;

use serde_json::{Value, json};

use crate::harness::Outcome;
use crate::world::{Repo, id_of, sh, trace_of};

/// Work, a person, and a commit; the repository need not be clean.
const LOOP: &str = r#"---
id: asked
title: Asked
type: loop
category: test
version: "1"
on_restart: resume
require: [repo]
phases:
  - id: build
    doer: { agent: builder }
  - id: approve
    needs: [build]
    doer: { person: "Is it good?" }
  - id: save
    needs: [approve]
    doer: { builtin: commit }
---
"#;

fn repo() -> Repo {
    Repo::with_loop("asked", LOOP)
}

fn start(repo: &Repo, line: &str) -> (String, Outcome) {
    let work =
        json!({ "calls": [sh(line)], "answer": { "summary": "s", "commit_message": "work" } });
    let answers = json!({ "phases": { "build": [work] } });
    let held = repo.run_with(&answers, &["--loop", "asked"]).exit(4);
    (id_of(&held), held)
}

fn is_unreviewed(outcome: Outcome, file: &str) {
    let outcome = outcome.exit(3);
    assert_eq!(outcome.error()["code"], "CHANGE_UNREVIEWED");
    outcome.warns(file).warns("nothing was committed");
}

#[test]
fn a_file_that_changes_after_the_approval_is_not_committed() {
    type Edit = fn(&Repo);
    let late: [(&str, Edit, Edit); 3] = [
        (
            "`late.txt`",
            |repo| drop(repo.write("late.txt", "x")),
            |repo| {
                std::fs::remove_file(repo.root().join("late.txt")).unwrap();
            },
        ),
        (
            "`work.txt`",
            |repo| drop(repo.write("work.txt", "other\n")),
            |repo| {
                repo.write("work.txt", "work\n");
            },
        ),
        (
            "`README.md`",
            |repo| std::fs::remove_file(repo.root().join("README.md")).unwrap(),
            |repo| {
                repo.git(&["checkout", "--quiet", "README.md"]);
            },
        ),
    ];
    for (file, change, undo) in late {
        let repo = repo();
        repo.write(".git/info/exclude", "/ignored\n");
        let (id, held) = start(&repo, "echo work > work.txt");
        let (head, seen) = (repo.head(), trace_of(&held));
        change(&repo);
        // Ignored files do not matter.
        repo.write("ignored", "x");
        is_unreviewed(repo.approve(&id), file);
        assert_eq!(repo.head(), head);
        // Whoever resumes it as it is, is asked.
        let asked = repo.windlass(&["resume", &id, "--json"]).exit(4).json();
        let question = asked["hold"]["question"].as_str().unwrap();
        assert!(question.contains(file) && question.contains("approve to commit"), "{question}");
        assert_eq!(repo.head(), head);
        if file == "`late.txt`" {
            // Reviewed, it is committed.
            repo.approve(&id).exit(0);
            assert_eq!(repo.git(&["show", "HEAD:late.txt"]), "x");
        } else {
            undo(&repo);
            is_unreviewed(repo.approve(&id), file);
        }
        assert!(repo.counts(&seen)["held"] >= 2);
        repo.is_whole();

        let repo = self::repo();
        let (id, _) = start(&repo, "echo work > work.txt");
        change(&repo);
        is_unreviewed(repo.approve(&id), file);
        undo(&repo);
        let run = repo.windlass(&["resume", &id, "--json"]).exit(0).json();
        assert_eq!(run["outcome"], "PASS");
        assert_eq!(repo.git(&["show", "--format=", "--name-only", "HEAD"]), "work.txt");
        assert_eq!(repo.status(), "");
        repo.is_whole();
    }
}

#[test]
fn what_a_check_changes_after_the_approval_is_not_committed() {
    let check = "    checks:\n      - { id: late, at: before, doer: { command: [sh, -c, \"echo x > late.txt\"] }, verdicts: { pass: continue } }\n";
    let text = LOOP.replace(
        "    doer: { builtin: commit }\n",
        &format!("    doer: {{ builtin: commit }}\n{check}"),
    );
    let repo = Repo::with_loop("asked", &text);
    let (id, _) = start(&repo, "echo work > work.txt");
    is_unreviewed(repo.approve(&id), "`late.txt`");
    assert_eq!(repo.read("late.txt"), "x\n");
    // So is what the program of a rule changes, for a phase that does no work itself.
    let repo = Repo::with_loop(
        "asked",
        &LOOP.replace("    needs: [approve]\n", "    needs: [look]\n").replace(
            "  - id: save\n",
            "  - { id: look, needs: [approve], doer: { builtin: scope } }\n  - id: save\n",
        ),
    );
    repo.write(
        ".windlass/policy/governance/ours.toml",
        "level = \"project\"\n[[gate]]\nid = \"ours\"\nphases = [\"look\"]\non_failure = \"block\"\n\
         remediation = \"r\"\ntool = { command = [\"sh\", \"-c\", \"echo x > late.txt\"] }\n",
    );
    repo.commit("a gate");
    let (id, _) = start(&repo, "echo work > work.txt");
    is_unreviewed(repo.approve(&id), "`late.txt`");
}

fn hook(repo: &Repo, path: &str, text: &str, mode: u32) {
    let path = repo.write(path, format!("#!/bin/sh\n{text}\n"));
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

const HOOK: &str = ".git/hooks/pre-commit";

#[test]
fn the_hook_of_the_repository_decides_in_a_cell() {
    let repo = repo();
    let outside = repo.place.home().join("outside");
    let text = format!(
        "touch '{}'; git diff --cached --name-only; git status --short; exit 1",
        outside.display()
    );
    hook(&repo, HOOK, &text, 0o755);
    let (id, held) = start(&repo, "echo work > work.txt; echo 1 >> README.md");
    let run = repo.approve(&id).exit(3).json();
    let detail = run["detail"].as_str().unwrap();
    for part in
        ["the pre-commit hook refuses the commit", "exited with status 1", "README.md", "work.txt"]
    {
        assert!(detail.contains(part), "{detail}");
    }
    assert!(!outside.exists() && repo.commits() == 2);
    let events = repo.events(&trace_of(&held));
    let hooks: Vec<&Value> = events.iter().filter(|event| event["runner"] == "hook").collect();
    assert_eq!((hooks.len(), &hooks[0]["agent"]), (1, &json!("pre-commit")));
    assert!(events.iter().any(|event| {
        event["kind"] == "invocation_ended" && event["note"].to_string().contains("hook refuses")
    }));
    // The staged state is what is committed; the user's own index is not touched.
    let repo = self::repo();
    hook(
        &repo,
        HOOK,
        "test \"$(git diff --cached --name-only)\" = work.txt && git show :work.txt | grep -q work && git rm -q --cached work.txt",
        0o755,
    );
    let (id, _) = start(&repo, "echo work > work.txt");
    repo.approve(&id).exit(0);
    assert_eq!(
        (repo.git(&["show", "HEAD:work.txt"]), repo.status()),
        ("work".to_owned(), String::new())
    );
    // One that is not executable is ignored.
    let repo = self::repo();
    hook(&repo, HOOK, "exit 1", 0o644);
    let (id, _) = start(&repo, "echo work > work.txt");
    repo.approve(&id).exit(0);
}

#[test]
fn what_a_hook_does_to_git_is_dropped() {
    let repo = repo();
    hook(
        &repo,
        HOOK,
        "git branch other && git tag mark && \
         git update-ref refs/heads/main \"$(git commit-tree -p HEAD -m evil $(git write-tree))\"",
        0o755,
    );
    let (id, _) = start(&repo, "echo work > work.txt");
    repo.approve(&id).exit(0);
    let log = repo.git(&["log", "--all", "--format=%s", "--not", "--glob=refs/windlass/*"]);
    assert!(!log.contains("evil"), "{log}");
    assert_eq!(repo.git(&["for-each-ref", "refs/heads/other", "refs/tags"]), "");
    assert_eq!(repo.git(&["show", "HEAD:work.txt"]), "work");
}

#[test]
fn a_hook_that_changes_files_refuses_the_commit() {
    let repo = repo();
    hook(&repo, HOOK, "echo formatted > work.txt; git add work.txt", 0o755);
    let (id, _) = start(&repo, "echo work > work.txt");
    is_unreviewed(repo.approve(&id), "`work.txt`");
    assert_eq!((repo.commits(), repo.read("work.txt").as_str()), (2, "formatted\n"));
    // The formatted file can be reviewed; then the hook changes nothing.
    repo.windlass(&["resume", &id, "--json"]).exit(4);
    repo.approve(&id).exit(0);
    assert_eq!(repo.git(&["show", "HEAD:work.txt"]), "formatted");
}

#[test]
fn a_hook_in_the_work_tree_is_that_of_the_base() {
    for line in [
        "echo work > work.txt; echo 'exit 0' > .hooks/pre-commit",
        "echo work > work.txt; rm .hooks/pre-commit",
    ] {
        let repo = repo();
        repo.git(&["config", "core.hooksPath", ".hooks"]);
        hook(&repo, ".hooks/pre-commit", "echo no; exit 1", 0o755);
        repo.commit("a hook");
        let (id, _) = start(&repo, line);
        // A change of what git starts is asked about, and then the work.
        repo.approve(&id).exit(4);
        let run = repo.approve(&id).exit(3).json();
        assert!(run["detail"].as_str().unwrap().contains("pre-commit hook"), "{run}");
        assert_eq!(repo.commits(), 3);
    }
    // The user's own hooks are not in a cell.
    let repo = repo();
    let folder = repo.place.home().join("hooks");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("pre-commit"), "#!/bin/sh\nexit 1\n").unwrap();
    std::fs::set_permissions(folder.join("pre-commit"), std::fs::Permissions::from_mode(0o755))
        .unwrap();
    repo.git(&["config", "core.hooksPath", &folder.display().to_string()]);
    let (id, _) = start(&repo, "echo work > work.txt");
    let run = repo.approve(&id).exit(0).json();
    let summary = run["phases"][2]["summary"].as_str().unwrap();
    assert!(summary.contains("lies outside of the repository"), "{summary}");
}

#[test]
fn a_filter_that_is_not_allowed_refuses_the_start() {
    let repo = repo();
    repo.write(".gitattributes", "*.bin filter=odd\n");
    repo.write("a.bin", "x");
    repo.commit("attributes");
    repo.git(&["config", "filter.odd.clean", "touch ran; cat"]);
    let answers = json!({ "phases": { "build": [{ "answer": { "summary": "s" } }] } });
    let refused = repo.run_with(&answers, &["--loop", "asked"]).exit(1);
    assert_eq!(refused.error()["code"], "GIT_FILTER_REFUSED");
    assert_eq!(repo.traces(), 0);
    assert!(!repo.root().join("ran").exists());
}

#[test]
fn an_encoding_is_refused_and_the_hint_says_what_allows_it() {
    let repo = repo();
    repo.write(".gitattributes", "*.enc working-tree-encoding=UTF-16LE\n");
    repo.commit("attributes");
    std::fs::write(repo.root().join("a.enc"), b"x\0\n\0").unwrap();
    repo.commit("an encoded file");
    let answers = json!({ "phases": { "build": [{ "answer": { "summary": "s" } }] } });
    let refused = repo.run_with(&answers, &["--loop", "asked"]).exit(1);
    let error = refused.error();
    assert_eq!(error["code"], "GIT_FILTER_REFUSED");
    assert!(error["message"].to_string().contains("working-tree-encoding"), "{error}");
    let setting = r#"["working-tree-encoding"]"#;
    assert!(error["hint"].as_str().unwrap().contains(setting), "{error}");
    // What the hint says is true.
    repo.place.settings(&format!("[git]\nfilters = {setting}\n"));
    let run = repo.run_with(&answers, &["--loop", "asked"]);
    assert!(!run.stderr.contains("GIT_FILTER_REFUSED"), "{run}");
    assert_eq!(repo.traces(), 1);
}
