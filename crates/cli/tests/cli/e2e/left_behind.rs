//! What commands leave in a workspace: held against the policy's rules about files, however they end.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::e2e::sandbox::Lab;
use crate::harness::finish;

/// Runs git as a person does, outside of every cell.
#[track_caller]
fn git(folder: &Path, args: &[&str]) -> String {
    let who =
        ["-c", "user.name=a", "-c", "user.email=a@b.example", "-c", "init.defaultBranch=main"];
    let output = Command::new("git").args(who).args(args).current_dir(folder).output().unwrap();
    assert!(output.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

fn repository(lab: &Lab) {
    let work = lab.place.work();
    git(&work, &["init", "-q"]);
    git(&work, &["add", "-A"]);
    git(&work, &["commit", "-qm", "first"]);
}

/// Runs a script that leaves what it may not, and returns the message.
#[track_caller]
fn held(lab: &Lab, script: &str) -> String {
    let report: Value = lab.call("confined", script).exit(1).json();
    assert_eq!(report["error"]["code"], "PROTECTED_PATH_CHANGED", "{report}");
    report["error"]["message"].as_str().unwrap().to_owned()
}

#[test]
fn a_script_leaves_no_settings_that_others_obey() {
    let lab = Lab::new();
    lab.place.write("CLAUDE.md", "be careful\n".repeat(2000));
    repository(&lab);
    let names = [
        ".vscode/tasks.json",
        ".husky/pre-commit",
        ".githooks/pre-push",
        ".github/workflows/new.yml",
        ".claude/agents/judge.md",
        ".claude/skills/x/SKILL.md",
        ".claude/skills/vendor/SKILL.md",
        ".cursor/rules/node_modules/x.mdc",
        ".agents/skills/x.md",
        ".gemini/extensions/x/gemini-extension.json",
        ".codex/prompts/x.md",
        ".opencode/plugin/x.js",
        ".cursor/mcp.json",
        ".envrc",
        ".lfsconfig",
        ".pnpmfile.cjs",
        ".mvn/extensions.xml",
        ".yarn/plugins/x.cjs",
        ".helix/languages.toml",
        ".woodpecker.yml",
        ".gitlab/ci/x.yml",
        "azure-pipelines.yaml",
        ".openhands/setup.sh",
        ".amp/settings.json",
        ".factory/settings.json",
        ".cargo/config.toml",
        ".pre-commit-config.yaml",
        ".hg/hgrc",
        ".jj/repo/config.toml",
        ".tekton/run.yaml",
        "cloudbuild.yaml",
        ".gdbinit",
    ];
    let mut script = "echo work > work.txt\nsed -i s/careful/careless/ CLAUDE.md\n".to_owned();
    for name in names {
        script += &format!("mkdir -p \"$(dirname {name})\"\necho planted > {name}\n");
    }
    let message = held(&lab, &script);
    let work = lab.place.work();
    for name in names {
        assert!(!work.join(name).exists(), "{name} was left: {message}");
    }
    assert!(lab.place.read("CLAUDE.md").starts_with("be careful"));
    assert_eq!(lab.place.read("work.txt"), "work\n");
}

#[test]
fn no_git_of_a_person_runs_what_a_command_left() {
    let lab = Lab::new();
    repository(&lab);
    let work = lab.place.work();
    let pwned = lab.outside("tmp/pwned");
    let script = format!(
        "git init -q sub && git -C sub config core.fsmonitor 'touch {0}' && git add sub\n\
         git init -q --bare bare && git -C bare config core.fsmonitor 'touch {0}'\n\
         mkdir -p deep/.git/hooks deep/.git/objects deep/.git/refs\n\
         echo 'ref: refs/heads/main' > deep/.git/HEAD\n\
         printf '#!/bin/sh\\ntouch {0}\\n' > deep/.git/hooks/post-index-change\n\
         chmod +x deep/.git/hooks/post-index-change\n\
         printf 'gitdir: ../elsewhere' > sub/file; echo work > work.txt",
        pwned.display()
    );
    let message = held(&lab, &script);
    assert!(message.contains("sub/.git/config"), "{message}");
    for folder in [".", "sub", "deep", "bare"] {
        let folder = work.join(folder);
        if folder.is_dir() {
            let _ = Command::new("git").arg("status").current_dir(&folder).output().unwrap();
        }
    }
    assert!(!pwned.exists());
    assert_eq!(lab.place.read("work.txt"), "work\n");
}

#[test]
fn what_a_broken_git_directory_hides_is_found() {
    let lab = Lab::new();
    repository(&lab);
    let script = "mkdir -p .claude && echo '{}' > .claude/settings.json && echo '{}' > .mcp.json\n\
                  echo garbage > .git/refs/heads/bad";
    // The take-over of git is what the call fails with; the files are held back all the same.
    lab.call("confined", script).exit(1);
    assert!(!lab.place.work().join(".claude/settings.json").exists());
    assert!(!lab.place.work().join(".mcp.json").exists());
}

#[test]
fn guards_are_not_moved_away() {
    let lab = Lab::new();
    lab.place.write(".claude/settings.json", "{\"hooks\": {}}\n");
    lab.place.write(".claude/agents/critic.md", "judge\n");
    repository(&lab);
    held(&lab, "mv .claude aside");
    assert_eq!(lab.place.read(".claude/settings.json"), "{\"hooks\": {}}\n");
    assert_eq!(lab.place.read(".claude/agents/critic.md"), "judge\n");
    held(&lab, "ln -s .windlass .codex; mv .claude x; mkdir -p fake; ln -s fake .claude");
    assert!(!lab.place.work().join(".codex").is_symlink());
    assert!(!lab.place.work().join(".claude").is_symlink());
    assert!(lab.place.work().join(".windlass/config.toml").exists());
    assert_eq!(lab.place.read(".claude/settings.json"), "{\"hooks\": {}}\n");
}

#[test]
fn no_pipe_is_left_in_which_git_hangs() {
    let lab = Lab::new();
    repository(&lab);
    let message = held(&lab, "mkfifo .gitignore sub.fifo; mkdir d; mkfifo d/.gitattributes");
    assert!(message.contains(".gitignore"), "{message}");
    git(&lab.place.work(), &["status", "-s"]);
}

#[test]
fn branches_that_were_there_may_be_switched_to_and_those_of_commands_bring_nothing() {
    let lab = Lab::new();
    lab.place.write("CLAUDE.md", "main\n");
    repository(&lab);
    let work = lab.place.work();
    git(&work, &["switch", "-qc", "other"]);
    lab.place.write("CLAUDE.md", "other\n");
    git(&work, &["commit", "-qam", "other"]);
    git(&work, &["switch", "-q", "main"]);
    lab.prints("confined", "git switch -q other");
    assert_eq!(lab.place.read("CLAUDE.md"), "other\n");
    lab.prints("confined", "git switch -q main && echo a > a && git add a && git commit -qm a");
    assert_eq!(lab.place.read("CLAUDE.md"), "main\n");
    // Committed without the work tree, and brought by a later command.
    lab.prints(
        "confined",
        "blob=$(echo planted | git hash-object -w --stdin) && git branch evil && \
         GIT_INDEX_FILE=$TMPDIR/index git read-tree HEAD && \
         GIT_INDEX_FILE=$TMPDIR/index git update-index --add --cacheinfo 100644,$blob,CLAUDE.md && \
         tree=$(GIT_INDEX_FILE=$TMPDIR/index git write-tree) && \
         git update-ref refs/heads/evil $(git commit-tree -p HEAD -m evil $tree)",
    );
    let message = held(&lab, "git switch -q evil");
    assert!(message.contains("CLAUDE.md"), "{message}");
    assert_eq!(lab.place.read("CLAUDE.md"), "main\n");
}

#[test]
fn what_a_killed_windlass_left_is_found_by_recover() {
    let lab = Lab::new();
    repository(&lab);
    lab.place.write(
        "lab.sh",
        "mkdir -p .vscode && echo planted > .vscode/tasks.json && touch began && sleep 60",
    );
    let mut command = lab.place.command(&["call", "run", "lab/confined", "--new-key", "--json"]);
    lab.equip(&mut command);
    let mut child = command.spawn().unwrap();
    let began = lab.place.work().join("began");
    for _ in 0..600 {
        if began.exists() {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    assert!(began.exists());
    child.kill().unwrap();
    child.wait().unwrap();
    let planted = lab.place.work().join(".vscode/tasks.json");
    assert!(planted.exists());
    let mut recover = lab.place.command(&["recover"]);
    lab.equip(&mut recover);
    let outcome = finish(recover, &[]);
    assert!(outcome.stderr.contains(".vscode/tasks.json"), "{outcome}");
    assert!(!planted.exists());
    let kept = lab.outside("home/.local/state/windlass");
    assert!(fs::read_dir(kept).unwrap().next().is_some());
    // Once.
    lab.prints("confined", "true");
}

#[test]
fn ordinary_work_with_such_files_passes() {
    let lab = Lab::new();
    lab.place.write("CLAUDE.md", "one\n");
    lab.place.write(".github/workflows/ci.yml", "on: push\n");
    std::os::unix::fs::symlink("/nonexistent/x", lab.place.work().join("broken")).unwrap();
    repository(&lab);
    let work = lab.place.work();
    git(&work, &["switch", "-qc", "branch"]);
    lab.place.write("a", "a\n");
    git(&work, &["add", "a"]);
    git(&work, &["commit", "-qm", "a"]);
    git(&work, &["switch", "-q", "main"]);
    lab.place.write("CLAUDE.md", "two\n");
    git(&work, &["commit", "-qam", "two"]);
    git(&work, &["switch", "-q", "branch"]);
    // What a person has committed comes by a merge, too.
    lab.prints("confined", "git merge -q -m merged main");
    assert_eq!(lab.place.read("CLAUDE.md"), "two\n");
    // A work tree has what its commit has.
    lab.prints("confined", "git worktree add -q wt main 2>&1");
    assert_eq!(lab.place.read("wt/CLAUDE.md"), "two\n");
    assert!(lab.place.work().join("wt/.windlass/config.toml").exists());
    assert!(lab.place.work().join("wt/broken").is_symlink());
    // Nobody obeys what packages bring.
    lab.prints(
        "confined",
        "mkdir -p node_modules/x/.github/workflows && touch node_modules/x/{.travis.yml,.github/workflows/a.yml}",
    );
    lab.prints(
        "confined",
        "git rm -q broken && git commit -qm gone && git switch -q --detach main",
    );
    assert!(lab.place.work().join("broken").is_symlink());
}

#[test]
fn what_a_person_has_not_committed_is_put_back() {
    let lab = Lab::new();
    repository(&lab);
    for name in [".vscode/settings.json", "CLAUDE.md", "AGENTS.md"] {
        lab.place.write(name, "mine\n");
    }
    held(&lab, "rm -rf .vscode CLAUDE.md; mv AGENTS.md b");
    for name in [".vscode/settings.json", "CLAUDE.md", "AGENTS.md"] {
        assert_eq!(lab.place.read(name), "mine\n", "{name}");
    }
}

#[test]
fn a_folder_that_nobody_may_enter_hides_nothing() {
    let lab = Lab::new();
    repository(&lab);
    let deep = "d=$(printf 'x%.0s' {1..200}); for i in {1..24}; do mkdir -p $d && cd $d || break; done; ln -s /etc/passwd l";
    let script = format!(
        "mkdir -p aa/.vscode shut && echo x > aa/.vscode/tasks.json && chmod 555 aa/.vscode && chmod 000 shut\n\
         mkdir -p .husky && echo x > .husky/pre-commit\n({deep}) 2>/dev/null; true"
    );
    let report = lab.call("confined", &script).exit(1).json();
    assert_eq!(report["error"]["code"], "PROTECTED_PATH_CHANGED", "{report}");
    for name in ["aa/.vscode/tasks.json", ".husky/pre-commit"] {
        assert!(!lab.place.work().join(name).exists(), "{name}: {report}");
    }
    // What lies too deep to be moved is told until a person removes it.
    let told = lab.call("confined", "true").exit(1).json();
    assert_eq!(told["error"]["code"], "PROTECTED_PATH_CHANGED", "{told}");
    std::fs::remove_dir_all(lab.place.work().join("x".repeat(200))).unwrap();
    lab.prints("confined", "true");
}

#[test]
fn a_script_changes_nothing_that_settings_of_git_name() {
    let lab = Lab::new();
    lab.place.write("tools/git.inc", "[alias]\n\tst = status\n");
    lab.place.write("tools/clean.sh", "cat\n");
    repository(&lab);
    let work = lab.place.work();
    git(&work, &["config", "include.path", "../tools/git.inc"]);
    git(&work, &["config", "filter.x.clean", "sh tools/clean.sh"]);
    git(&work, &["config", "core.hooksPath", "ci/steps"]);
    git(&work, &["config", "alias.later", "!tools/later.sh"]);
    let message = held(
        &lab,
        "printf '[core]\\n\\tfsmonitor = touch pwned\\n' >> tools/git.inc\n\
         echo 'touch pwned' >> tools/clean.sh\n\
         mkdir -p ci/steps && echo 'touch pwned' > ci/steps/post-checkout && chmod +x ci/steps/*\n\
         echo 'touch pwned' > tools/later.sh\n\
         echo work > tools/other.sh",
    );
    for (path, setting) in [
        ("tools/git.inc", "include.path"),
        ("tools/clean.sh", "filter.x.clean"),
        ("ci/steps/post-checkout", "core.hookspath"),
        ("tools/later.sh", "alias.later"),
    ] {
        assert!(message.contains(path) && message.contains(setting), "{path}: {message}");
    }
    assert_eq!(lab.place.read("tools/clean.sh"), "cat\n");
    assert_eq!(lab.place.read("tools/git.inc"), "[alias]\n\tst = status\n");
    assert!(!work.join("ci/steps/post-checkout").exists() && !work.join("tools/later.sh").exists());
    assert_eq!(lab.place.read("tools/other.sh"), "work\n");
    // A person takes no part in what the settings do not name.
    lab.prints("confined", "echo more >> tools/other.sh; mkdir -p ci/other && touch ci/other/x");
}

#[test]
fn a_person_takes_over_what_was_held_back() {
    let lab = Lab::new();
    lab.place.write("CLAUDE.md", "one\n");
    repository(&lab);
    let run = |args: &[&str]| lab.place.run(&[&["call", "held-back"], args].concat());
    run(&[]).exit(0).says("nothing is held back");
    held(&lab, "echo two > CLAUDE.md; mkdir -p .vscode && echo '{}' > .vscode/tasks.json");
    let list = run(&["--json"]).exit(0).json();
    let name = list[0]["name"].as_str().unwrap();
    let items = list[0]["items"].as_array().unwrap();
    let paths: Vec<&str> = items.iter().map(|item| item["path"].as_str().unwrap()).collect();
    assert_eq!(paths, [".vscode/tasks.json", "CLAUDE.md"]);
    run(&[name]).exit(0).says("-one").says("+two").says("tasks.json");
    run(&[name, "--take", "other"]).fails_with(2, "REQUEST_INVALID");
    // The person is asked as if an agent had made the call, and the decision is recorded.
    let report = run(&[name, "--take", "CLAUDE.md", "--json"]).exit(4).json();
    assert_eq!(lab.place.read("CLAUDE.md"), "one\n");
    let id = report["trace_id"].as_str().unwrap();
    let why = ["--by", "ada", "--reason", "looked at it"];
    lab.place.run(&[&["call", "approve", id], &why[..]].concat()).exit(0);
    assert_eq!(lab.place.read("CLAUDE.md"), "two\n");
    // It was accepted: no later command is blamed for it.
    lab.prints("confined", "true");
    assert_eq!(lab.place.read("CLAUDE.md"), "two\n");
    let report = run(&[name, "--take", ".vscode/tasks.json", "--json"]).exit(4).json();
    let id = report["trace_id"].as_str().unwrap();
    lab.place.run(&[&["call", "approve", id], &why[..]].concat()).exit(0);
    assert_eq!(run(&["--json"]).exit(0).json()[0]["taken"], true);
    run(&[name, "--drop"]).exit(0);
    run(&[]).exit(0).says("nothing is held back");
}

/// Commits settings that others obey without the work tree, and puts the commit's name in a variable.
const COMMITTED: &str = "B=$(echo planted | git hash-object -w --stdin); export GIT_INDEX_FILE=$TMPDIR/index; git read-tree HEAD\n\
    git update-index --add --cacheinfo 100644,$B,.vscode/tasks.json; T=$(git write-tree); unset GIT_INDEX_FILE\n\
    C=$(git commit-tree $T -p HEAD -m x); echo $C > commit.txt\n";

#[test]
fn what_a_command_commits_to_a_new_work_tree_is_doubted() {
    for add in ["--detach wt $C", "-b side wt $C"] {
        let lab = Lab::new();
        repository(&lab);
        let work = lab.place.work();
        let message = held(&lab, &format!("{COMMITTED}git worktree add -q {add}"));
        assert!(message.contains("wt/.vscode/tasks.json"), "{message}");
        assert!(!work.join("wt/.vscode/tasks.json").exists());
        let message = held(&lab, "git merge -q --ff-only $(cat commit.txt)");
        assert!(message.contains(".vscode/tasks.json"), "{message}");
        assert!(!work.join(".vscode/tasks.json").exists());
    }
}

#[test]
fn no_pipe_keeps_it_from_being_found_out_what_a_command_committed() {
    let lab = Lab::new();
    repository(&lab);
    let began = std::time::Instant::now();
    held(
        &lab,
        "mkdir .vscode; echo planted > .vscode/tasks.json; git add -f .vscode; git commit -qm x; mkfifo .mailmap\n\
         mkdir -p fake/objects fake/refs sub/.vscode && echo 'ref: refs/heads/main' > fake/HEAD && mkfifo fake/commondir\n\
         echo 'gitdir: ../fake' > sub/.git; touch sub/.vscode/a sub/.vscode/b",
    );
    assert!(began.elapsed().as_secs() < 60, "{:?}", began.elapsed());
    let work = lab.place.work();
    for name in [".vscode/tasks.json", ".mailmap", "fake/commondir", "sub/.vscode/a"] {
        assert!(work.join(name).symlink_metadata().is_err(), "{name}");
    }
    lab.prints("confined", "true");
    // It is in a commit, and stays doubted.
    held(&lab, "git checkout -q HEAD -- .vscode");
    assert!(!work.join(".vscode/tasks.json").exists());
}

#[test]
fn what_a_killed_command_has_committed_is_doubted() {
    // Without a cell of its own git directory the commit is there at once.
    let lab = Lab::with("[sandbox]\nlevel = \"landlock\"\n");
    repository(&lab);
    lab.place.write(
        "lab.sh",
        "mkdir .vscode; echo planted > .vscode/tasks.json; git add -f .vscode; git commit -qm x; touch began; sleep 20",
    );
    let mut command = lab.place.command(&["call", "run", "lab/confined", "--new-key", "--json"]);
    lab.equip(&mut command);
    let mut child = command.spawn().unwrap();
    let work = lab.place.work();
    for _ in 0..600 {
        if work.join("began").exists() {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    assert!(work.join("began").exists());
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(git(&work, &["log", "--format=%s"]).starts_with("x"));
    let report = lab.call("confined", "true").exit(1).json();
    assert_eq!(report["error"]["code"], "PROTECTED_PATH_CHANGED", "{report}");
    assert!(!work.join(".vscode/tasks.json").exists());
    held(&lab, "git checkout -q HEAD -- .vscode");
    assert!(!work.join(".vscode/tasks.json").exists());
}

#[test]
fn what_was_held_back_is_not_staged() {
    let lab = Lab::new();
    lab.place.write("CLAUDE.md", "one\n");
    repository(&lab);
    let work = lab.place.work();
    lab.place.write("CLAUDE.md", "staged by a person\n");
    git(&work, &["add", "CLAUDE.md"]);
    held(
        &lab,
        "mkdir .vscode; touch .vscode/tasks.json work.txt; echo planted > CLAUDE.md; git add -f .vscode work.txt CLAUDE.md",
    );
    assert_eq!(git(&work, &["diff", "--cached", "--name-only"]), "CLAUDE.md\nwork.txt");
    assert_eq!(git(&work, &["show", ":CLAUDE.md"]), "staged by a person");
    assert_eq!(lab.place.read("CLAUDE.md"), "staged by a person\n");
}
