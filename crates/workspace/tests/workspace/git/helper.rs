//! The program and the filters that the user's settings choose. The environment belongs to all tests, so
//! these run in processes of their own.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use windlass_kernel::Code;
use windlass_workspace::{Git, GitSettings, Snapshots, configure_git};

use crate::git::repository::Repository;

const ROLE: &str = "WINDLASS_TEST_ROLE";
const REPOSITORY: &str = "WINDLASS_TEST_REPOSITORY";
const PROGRAM: &str = "WINDLASS_TEST_PROGRAM";

fn write_program(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

/// A process that plays a role in a repository.
fn process(role: &str, repository: &Repository) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", "git::helper::plays_its_role", "--nocapture"])
        .env(ROLE, role)
        .env(REPOSITORY, repository.path())
        .env("HOME", repository.beside("home"))
        .env_remove("XDG_CONFIG_HOME");
    command
}

#[track_caller]
fn succeed(command: &mut Command) {
    let output = command.output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
}

/// Not a test: the child processes of other tests run it.
#[test]
fn plays_its_role() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let git = Git::new(std::env::var_os(REPOSITORY).unwrap());
    let program = std::env::var_os(PROGRAM).map(PathBuf::from);
    match role.as_str() {
        "read" => {
            assert!(git.head().unwrap().is_some());
            git.status().unwrap();
        }
        "configured" => {
            let filters = ["upper".to_owned()].into();
            configure_git(GitSettings { program, filters }).unwrap();
            git.status().unwrap();
        }
        "capture" => {
            configure_git(GitSettings { program, ..GitSettings::default() }).unwrap();
            let private = git.root().with_file_name("private");
            let snapshots = Snapshots::open(&private, git.root()).unwrap();
            let tree = snapshots.capture(git.root(), "run/one").unwrap().tree;
            for name in ["a", "d/e/new", "z"] {
                let there = snapshots.read(&tree, Path::new(name), 10).unwrap().is_some();
                assert_eq!(there, git.root().join(name).exists(), "{name}");
            }
        }
        "refused program" => {
            let settings = GitSettings { program, ..GitSettings::default() };
            assert!(configure_git(settings).unwrap_err().contains("others can write"));
        }
        "filters" => {
            let error = git.tree_of_worktree().unwrap_err();
            assert_eq!(error.code(), Code::GitFilterRefused, "{error}");
            let allowed = git.with_filters(["upper".to_owned()]);
            let tree = allowed.tree_of_worktree().unwrap();
            let stat = allowed.diff_to(&allowed.empty_tree().unwrap().into(), &tree).unwrap();
            assert!(stat.files.iter().any(|file| file.path == Path::new("a")));
            println!("@{tree}");
        }
        other => panic!("{other}"),
    }
}

#[test]
fn the_search_path_does_not_decide_which_git_runs() {
    let repository = Repository::new();
    let (folder, mark) = (repository.beside("bin"), repository.beside("mark"));
    let trap = folder.join("git");
    write_program(&trap, &format!("#!/bin/sh\n/usr/bin/touch '{}'\n", mark.display()));
    let trap = trap.to_str().unwrap();
    succeed(
        process("read", &repository)
            .env("PATH", &folder)
            .env("GIT_DIR", "/nowhere")
            .env("GIT_EXEC_PATH", &folder)
            .env("GIT_EXTERNAL_DIFF", trap)
            .env("GIT_CONFIG_PARAMETERS", format!("'core.fsmonitor={trap}'")),
    );
    assert!(!mark.exists());
}

#[test]
fn the_users_settings_name_the_program() {
    let repository = Repository::new();
    let (program, mark) = (repository.beside("opt/git"), repository.beside("mark"));
    let text = format!("#!/bin/sh\n: > '{}'\nexec /usr/bin/env git \"$@\"\n", mark.display());
    write_program(&program, &text);
    succeed(process("configured", &repository).env(PROGRAM, &program));
    assert!(mark.exists());
    fs::set_permissions(&program, fs::Permissions::from_mode(0o777)).unwrap();
    succeed(process("refused program", &repository).env(PROGRAM, &program));
}

/// How often a role starts a command of git.
#[track_caller]
fn count(role: &str, repository: &Repository, command: &str) -> usize {
    let (program, log) = (repository.beside("opt/git"), repository.beside("log"));
    let text =
        format!("#!/bin/sh\necho \"$*\" >> '{}'\nexec /usr/bin/env git \"$@\"\n", log.display());
    write_program(&program, &text);
    fs::write(&log, "").unwrap();
    succeed(process(role, repository).env(PROGRAM, &program));
    let log = fs::read_to_string(log).unwrap();
    log.lines().filter(|line| line.split(' ').any(|word| word == command)).count()
}

#[test]
fn a_status_asks_for_paths_and_files_once() {
    let repository = Repository::new();
    for command in ["rev-parse", "ls-files", "status"] {
        assert_eq!(count("configured", &repository, command), 1, "{command}");
    }
}

#[test]
fn a_capture_lists_new_files_once_unless_a_folder_is_new() {
    let repository = Repository::new();
    let listed = || count("capture", &repository, "--others");
    listed();
    assert_eq!(listed(), 1);
    repository.file("z", "new\n");
    assert_eq!(listed(), 1);
    repository.file("d/e/new", "new\n");
    assert_eq!(listed(), 2);
    assert_eq!(listed(), 1);
    // What git ignores of it is asked, but not what is in it.
    fs::create_dir(repository.path().join("empty")).unwrap();
    assert_eq!(listed(), 2);
}

#[test]
fn the_users_settings_allow_a_filter_of_the_users_own() {
    let repository = Repository::new();
    repository.file("a", "small\n");
    repository.file(".gitattributes", "a filter=upper\n");
    let home = repository.beside("home");
    fs::create_dir(&home).unwrap();
    let settings = "[filter \"upper\"]\n\tclean = tr a-z A-Z\n\trequired = true\n";
    fs::write(home.join(".gitconfig"), settings).unwrap();
    let output = process("filters", &repository).output().unwrap();
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{stdout}{}", String::from_utf8_lossy(&output.stderr));
    let tree = stdout.split('@').nth(1).unwrap().lines().next().unwrap();
    assert_eq!(repository.git(&["cat-file", "-p", &format!("{tree}:a")]), "SMALL\n");
    succeed(&mut process("configured", &repository));
    // The same definition in the repository changes nothing.
    repository.git(&["config", "filter.upper.clean", "tr a-z A-Z"]);
    succeed(&mut process("configured", &repository));
}
