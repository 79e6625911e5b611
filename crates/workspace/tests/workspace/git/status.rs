//! The current commit and branch, and the status.

use std::fs;
use std::path::{Path, PathBuf};

use windlass_kernel::Code;
use windlass_workspace::{Git, GitCause, WorktreeStatus};

use crate::git::repository::{Repository, diff_stat, hostile_names};

fn dirty(git: &Git) -> Vec<PathBuf> {
    match git.status().unwrap() {
        WorktreeStatus::Dirty { mut paths, count } => {
            assert_eq!(paths.len(), count);
            paths.sort();
            paths
        }
        WorktreeStatus::Clean => panic!("clean"),
    }
}

#[test]
fn an_unborn_branch_has_no_commit() {
    let repository = Repository::unborn();
    let git = repository.ours();
    assert_eq!(git.head().unwrap(), None);
    assert_eq!(git.branch().unwrap().as_deref(), Some("main"));
    assert_eq!(git.status().unwrap(), WorktreeStatus::Clean);
    repository.file("new", "");
    assert_eq!(dirty(&git), [Path::new("new")]);
}

#[test]
fn a_detached_head_is_on_no_branch() {
    let repository = Repository::new();
    repository.git(&["checkout", "-q", "--detach"]);
    assert_eq!(repository.ours().branch().unwrap(), None);
    assert_eq!(repository.head().as_str(), repository.git(&["rev-parse", "HEAD"]).trim());
}

#[test]
fn the_top_is_found_from_inside_and_only_what_is_there_counts() {
    let repository = Repository::new();
    repository.file("deep/er/file", "");
    let inside = Git::new(repository.path().join("deep/er"));
    assert_eq!(inside.top_level().unwrap(), repository.path());
    repository.file("top", "");
    assert_eq!(dirty(&inside), [Path::new("deep/er/file")]);
}

#[test]
fn outside_a_repository_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let git = Git::new(folder.path());
    let cause = GitCause::NotARepository(folder.path().to_owned());
    assert_eq!(git.top_level().unwrap_err().cause, cause);
    assert_eq!(git.head().unwrap_err().cause, cause);
    assert_eq!(git.branch().unwrap_err().cause, cause);
    assert_eq!(git.status().unwrap_err().cause, cause);
    assert_eq!(git.tree_of_worktree().unwrap_err().cause, cause);
    let error = Git::new("/no/such/folder").head().unwrap_err();
    assert_eq!(error.code(), Code::ToolServerUnavailable, "{error}");
}

#[test]
fn a_bare_repository_has_no_work_tree() {
    let repository = Repository::new();
    let bare = repository.beside("bare");
    repository.git(&["clone", "-q", "--bare", ".", bare.to_str().unwrap()]);
    let git = Git::new(&bare);
    let cause = GitCause::NoWorkTree(bare);
    assert_eq!(git.top_level().unwrap_err().cause, cause);
    assert_eq!(git.status().unwrap_err().cause, cause);
    assert_eq!(git.tree_of_worktree().unwrap_err().cause, cause);
    // A folder that looks like one may be part of a hostile repository.
    assert_eq!(git.head().unwrap_err().cause, cause);
}

#[test]
fn hostile_names_come_back_as_they_are() {
    let repository = Repository::new();
    for name in hostile_names() {
        repository.file(name, "x");
    }
    let mut expected = hostile_names().map(PathBuf::from);
    expected.sort();
    assert_eq!(dirty(&repository.ours()), expected);
    repository.commit();
    repository.assert_clean();
    // Renamed and staged: both names are dirty.
    let [first, second, ..] = hostile_names();
    fs::rename(repository.path().join(first), repository.path().join("b")).unwrap();
    repository.git(&["add", "-A"]);
    assert_eq!(dirty(&repository.ours()), [Path::new("b"), Path::new(first)]);
    fs::remove_file(repository.path().join(second)).unwrap();
    assert_eq!(dirty(&repository.ours()).len(), 3);
}

#[test]
fn many_paths_are_counted_and_few_named() {
    let repository = Repository::new();
    for number in 0..50 {
        repository.file(format!("d/{number}"), "");
    }
    let WorktreeStatus::Dirty { paths, count } = repository.ours().status().unwrap() else {
        panic!()
    };
    assert_eq!((paths.len(), count), (windlass_workspace::DIRTY_PATHS_MAX, 50));
}

#[test]
fn settings_of_the_user_hide_nothing() {
    let repository = Repository::new();
    for (name, value) in [
        ("status.showUntrackedFiles", "no"),
        ("status.relativePaths", "true"),
        ("core.fsmonitor", "/bin/false"),
        ("diff.ignoreSubmodules", "all"),
        ("color.ui", "always"),
    ] {
        repository.git(&["config", name, value]);
    }
    repository.file("new", "");
    assert_eq!(dirty(&repository.ours()), [Path::new("new")]);
}

#[test]
fn ignored_files_do_not_count() {
    let repository = Repository::new();
    repository.file(".gitignore", "target\n");
    repository.commit();
    repository.file("target/x", "");
    // As the folder `.windlass` does it.
    repository.file(".windlass/.gitignore", "*\n");
    repository.file(".windlass/windlass.db", "");
    assert_eq!(repository.ours().status().unwrap(), WorktreeStatus::Clean);
}

#[test]
fn a_submodule_is_dirty_when_it_moves_or_changes() {
    let other = Repository::new();
    let repository = Repository::new();
    repository.git(&["submodule", "--quiet", "add", other.path().to_str().unwrap(), "sub"]);
    repository.commit();
    repository.assert_clean();
    repository.file("sub/new", "");
    assert_eq!(dirty(&repository.ours()), [Path::new("sub")]);
    crate::git::repository::git_in(&repository.path().join("sub"), &["add", "-A"]);
    crate::git::repository::git_in(&repository.path().join("sub"), &["commit", "-q", "-m", "x"]);
    assert_eq!(dirty(&repository.ours()), [Path::new("sub")]);
    let stat = diff_stat(&repository.ours(), &repository.head().into());
    assert_eq!((stat.files.len(), stat.added, stat.removed), (1, 1, 1));
    repository.commit();
    repository.assert_clean();
}

#[test]
fn reading_changes_no_file_of_the_repository() {
    let repository = Repository::new();
    repository.file("a", "changed\n");
    let index = repository.path().join(".git/index");
    let before = (fs::read(&index).unwrap(), fs::metadata(&index).unwrap().modified().unwrap());
    // Another process has locked the index: reading needs no lock.
    repository.file(".git/index.lock", "");
    let git = repository.ours();
    dirty(&git);
    diff_stat(&git, &repository.head().into());
    git.tree_of_worktree().unwrap();
    let after = (fs::read(&index).unwrap(), fs::metadata(&index).unwrap().modified().unwrap());
    assert!(before == after);
}
