//! The work tree as a tree, and its difference to a base.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use windlass_workspace::{DiffStat, FileChange, GitCause, LineChange, Treeish, WorktreeStatus};

use crate::git::repository::{Repository, diff_stat, hostile_names};

fn change(path: impl AsRef<Path>, added: u64, removed: u64) -> FileChange {
    let path = path.as_ref().to_owned();
    FileChange { path, lines: LineChange::Text { added, removed } }
}

fn head(repository: &Repository) -> Treeish {
    repository.head().into()
}

#[test]
fn the_tree_is_what_a_commit_of_everything_would_hold() {
    let repository = Repository::new();
    repository.file(".gitignore", "ignored\n");
    repository.file("ignored", "x");
    for name in hostile_names() {
        repository.file(name, "x\n");
    }
    repository.file("run.sh", "#!/bin/sh\n");
    fs::set_permissions(repository.path().join("run.sh"), fs::Permissions::from_mode(0o755))
        .unwrap();
    symlink("/nowhere", repository.path().join("link")).unwrap();
    fs::remove_file(repository.path().join("a")).unwrap();
    let tree = repository.ours().tree_of_worktree().unwrap();
    assert_eq!(repository.ours().tree_of_worktree().unwrap(), tree);
    repository.commit();
    assert_eq!(repository.git(&["rev-parse", "HEAD^{tree}"]).trim(), tree.as_str());
    let listed = repository.git(&["ls-tree", tree.as_str(), "run.sh", "link"]);
    assert!(listed.starts_with("120000") && listed.contains("\n100755"), "{listed}");
}

#[test]
fn secrets_that_nobody_has_committed_are_in_no_tree() {
    let repository = Repository::new();
    repository.file(".gitignore", ".env\n");
    repository.file("test.key", "a fixture");
    repository.commit();
    let before = repository.ours().tree_of_worktree().unwrap();
    for name in [".env", "deploy/.ssh/work", "sub/.env.local"] {
        repository.file(name, "SECRET");
    }
    // As a command can do.
    repository.file(".gitignore", "");
    repository.git(&["add", "-A"]);
    repository.file("test.key", "another fixture");
    repository.file(".env.example", "KEY=");
    let tree = repository.ours().tree_of_worktree().unwrap();
    let changed = repository.git(&["diff", "--name-only", before.as_str(), tree.as_str()]);
    assert_eq!(changed, ".env.example\n.gitignore\ntest.key\n");
    repository.git(&["rm", "-q", "-r", "--cached", ".env", "deploy", "sub"]);
    repository.file(".env.example", "");
    repository.git(&["add", "-A", ".env.example", ".gitignore", "test.key"]);
    repository.git(&["commit", "-qm", "the rest"]);
    assert_eq!(repository.ours().status().unwrap(), WorktreeStatus::Clean);
}

#[test]
fn line_breaks_in_the_path_of_a_repository_change_nothing() {
    let repository = Repository::new();
    repository.file("new", "1\n");
    let tree = repository.ours().tree_of_worktree().unwrap();
    let moved = repository.beside("a\n/b\n");
    fs::create_dir_all(moved.parent().unwrap()).unwrap();
    fs::rename(repository.path(), &moved).unwrap();
    let git = windlass_workspace::Git::new(&moved);
    assert_eq!(git.tree_of_worktree().unwrap(), tree);
    assert_eq!(git.common_dir().unwrap(), moved.canonicalize().unwrap().join(".git"));
    fs::rename(&moved, repository.path()).unwrap();
}

#[test]
fn a_renamed_file_is_shown_as_such() {
    let repository = Repository::new();
    let base = head(&repository);
    let git = repository.ours();
    fs::rename(repository.path().join("a"), repository.path().join("b")).unwrap();
    let tree = git.tree_of_worktree().unwrap();
    let patch = git.patch_to(&base, &tree).unwrap();
    assert!(patch.contains("rename from a\nrename to b\n"), "{patch}");
    // It counts twice all the same.
    assert_eq!(git.diff_to(&base, &tree).unwrap().files.len(), 2);
}

#[test]
fn changes_are_counted_new_files_included() {
    let repository = Repository::new();
    repository.file("gone", "1\n2\n");
    repository.commit();
    repository.file("a", "1\ntwo\n3\n4\n");
    repository.file("new", "1\n2\nno end");
    repository.file("staged", "1\n");
    repository.git(&["add", "staged"]);
    repository.file("bytes", b"\0\n\n");
    fs::remove_file(repository.path().join("gone")).unwrap();
    let expected = DiffStat {
        files: vec![
            change("a", 2, 1),
            FileChange { path: "bytes".into(), lines: LineChange::Binary },
            change("gone", 0, 2),
            change("new", 3, 0),
            change("staged", 1, 0),
        ],
        added: 6,
        removed: 3,
    };
    assert_eq!(diff_stat(&repository.ours(), &head(&repository)), expected);
    let tree = repository.ours().tree_of_worktree().unwrap();
    assert_eq!(diff_stat(&repository.ours(), &tree.into()), DiffStat::default());
}

#[test]
fn before_the_first_commit_the_base_is_the_empty_tree() {
    let repository = Repository::unborn();
    let git = repository.ours();
    let base: Treeish = git.empty_tree().unwrap().into();
    assert_eq!(Treeish::from(git.tree_of_worktree().unwrap()), base);
    assert_eq!(diff_stat(&git, &base), DiffStat::default());
    repository.file("a", "1\n");
    assert_eq!(diff_stat(&git, &base).files, [change("a", 1, 0)]);
}

#[test]
fn nothing_can_be_hidden_from_the_count() {
    let repository = Repository::new();
    let base = head(&repository);
    repository.git(&["update-index", "--assume-unchanged", "a"]);
    repository.file("a", "1\n2\n3\n4\n");
    repository.file(".gitattributes", "* -diff\n*.x binary\n");
    repository.file("b.x", "1\n");
    repository.git(&["config", "diff.external", "/bin/false"]);
    repository.git(&["config", "diff.renames", "copies"]);
    let expected = [change(".gitattributes", 2, 0), change("a", 1, 0), change("b.x", 1, 0)];
    assert_eq!(diff_stat(&repository.ours(), &base).files, expected);
}

#[test]
fn line_endings_follow_the_users_setting() {
    let repository = Repository::new();
    repository.git(&["config", "core.autocrlf", "true"]);
    repository.git(&["config", "core.safecrlf", "true"]);
    repository.file("a", "1\r\n2\r\n3\r\n");
    let base = head(&repository);
    assert_eq!(diff_stat(&repository.ours(), &base), DiffStat::default());
    repository.file("mixed", "1\r\n2\n");
    assert_eq!(diff_stat(&repository.ours(), &base).files, [change("mixed", 2, 0)]);
    repository.git(&["config", "core.autocrlf", "false"]);
    assert_eq!(diff_stat(&repository.ours(), &base).added, 5);
}

#[test]
fn a_huge_file_is_counted() {
    let repository = Repository::new();
    // More than git may write as output.
    let file = fs::File::create(repository.path().join("huge")).unwrap();
    file.set_len(100 * 1024 * 1024).unwrap();
    let (git, base) = (repository.ours(), head(&repository));
    let stat = diff_stat(&git, &base);
    assert_eq!(stat.files, [FileChange { path: "huge".into(), lines: LineChange::Binary }]);
    repository.file("huge", "line\n".repeat(16 * 1024 * 1024));
    assert_eq!(diff_stat(&git, &base).added, 16 * 1024 * 1024);
}

#[test]
fn a_sparse_work_tree_is_refused() {
    let repository = Repository::new();
    repository.file("d/b", "");
    repository.commit();
    repository.git(&["sparse-checkout", "set", "--no-cone", "a"]);
    assert_eq!(repository.ours().tree_of_worktree().unwrap_err().cause, GitCause::Sparse);
}

#[test]
fn a_folder_inside_has_the_rest_of_the_tree_as_it_is_committed() {
    let repository = Repository::new();
    repository.file("d/b", "1\n");
    repository.file("d-not", "1\n");
    repository.file("a", "mine\n");
    let inside = windlass_workspace::Git::new(repository.path().join("d"));
    let stat = diff_stat(&inside, &head(&repository));
    assert_eq!(stat.files, [change("d/b", 1, 0)]);
    // What is known of the files of one is no mistake of the other.
    let stat = diff_stat(&repository.ours(), &head(&repository));
    assert_eq!(stat.files, [change("a", 1, 3), change("d-not", 1, 0), change("d/b", 1, 0)]);
    assert_eq!(diff_stat(&inside, &head(&repository)).files, [change("d/b", 1, 0)]);
    repository.git(&["add", "d"]);
    repository.git(&["commit", "-q", "-m", "d"]);
    assert_eq!(inside.status().unwrap(), WorktreeStatus::Clean);
    assert_ne!(repository.ours().status().unwrap(), WorktreeStatus::Clean);
}

#[test]
fn a_file_that_git_would_leave_out_is_refused() {
    for name in ["git~1", ".git ", ".g\u{200c}it"] {
        let repository = Repository::new();
        repository.file(format!("sub/{name}/config"), "x\n");
        let error = repository.ours().tree_of_worktree().unwrap_err().to_string();
        assert!(error.contains("stands for `.git` elsewhere"), "{error}");
    }
}

/// What changes a work tree, or how git reads it. All of it happens within a second or two.
const STEPS: [&str; 38] = [
    "true",
    "printf '1\\n2\\n4\\n' > a",
    "printf '1\\n2\\n5\\n' > a && touch -d @1 a",
    "printf '1\\n2\\n6\\n' > a && touch -d @1 a",
    "printf '1\\n2\\n3\\n' > a && touch -d @1 a",
    "cp a b && touch -d @1 a b",
    "printf '1\\n2\\n7\\n' > b && touch -d @1 b",
    "git add -A && git commit -q -m b",
    "printf '1\\n2\\n8\\n' > b && touch -d @1 b",
    "printf '1\\n2\\n9\\n' > c && mv c b && touch -d @1 b",
    "git checkout -q -- b",
    "chmod +x b",
    "chmod -x b",
    "rm b",
    "ln -s a b",
    "rm b && mkdir b && echo x > b/c",
    "rm -r b && git checkout -q -- b",
    "echo x > new",
    "echo new > .gitignore",
    "echo '#' > .gitignore",
    "rm .gitignore new",
    "printf 'x\\r\\ny\\r\\n' > crlf",
    "git add crlf && git commit -q -m crlf",
    "echo '* text' > .gitattributes",
    "echo '* -text' > .gitattributes",
    "echo '* text eol=crlf' > .gitattributes",
    "git add .gitattributes && git commit -q -m attributes",
    "rm .gitattributes",
    "git rm -q --cached .gitattributes && git commit -q -m none",
    "git config core.autocrlf input",
    "git config core.autocrlf false",
    "echo '* text' > .git/info/attributes",
    "rm .git/info/attributes",
    "git config core.trustctime false && printf '1\\n2\\n0\\n' > a && touch -d @1 a",
    "git config core.filemode false && chmod +x a",
    "git config core.filemode true && git update-index --assume-unchanged a && echo x > a",
    "git gc -q --prune=now",
    "git reset -q --hard HEAD~2",
];

#[test]
fn what_is_known_of_a_work_tree_changes_no_tree() {
    let repository = Repository::new();
    let git = repository.ours();
    let shell = |script: &str| {
        let mut shell = std::process::Command::new("sh");
        shell.args(["-e", "-c", script]).current_dir(repository.path());
        for who in ["AUTHOR", "COMMITTER"] {
            shell.env(format!("GIT_{who}_NAME"), "a").env(format!("GIT_{who}_EMAIL"), "a@a");
        }
        let output = shell.output().unwrap();
        assert!(output.status.success(), "{script}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    // An index of its own, without the status of any file.
    let expected = "export GIT_INDEX_FILE=.git/fresh; rm -f .git/fresh; git read-tree HEAD && git add -A . && \
                    git write-tree && rm .git/fresh";
    for step in STEPS {
        shell(step);
        for time in 1..=2 {
            let tree = git.tree_of_worktree().unwrap();
            assert_eq!(tree.as_str(), shell(expected).trim(), "{step}: {time}");
        }
    }
}

#[test]
fn what_is_known_of_a_work_tree_hides_no_filter() {
    let repository = Repository::new();
    let git = repository.ours();
    git.tree_of_worktree().unwrap();
    repository.git(&["config", "filter.evil.clean", "touch ran; cat"]);
    git.tree_of_worktree().unwrap();
    repository.file(".gitattributes", "new filter=evil\n");
    git.tree_of_worktree().unwrap();
    repository.file("new", "x\n");
    let error = git.tree_of_worktree().unwrap_err();
    assert!(matches!(error.cause, GitCause::Filter { .. }), "{error}");
    assert!(git.status().is_err());
    repository.file(".gitattributes", "a filter=evil\n");
    assert!(git.tree_of_worktree().is_err());
    repository.file(".gitattributes", "");
    git.tree_of_worktree().unwrap();
    assert!(git.status().is_ok());
    assert!(!repository.path().join("ran").exists());
}

#[test]
fn what_stands_for_a_file_of_attributes_stops_nothing() {
    let repository = Repository::new();
    let git = repository.ours();
    let folder = repository.path().join("sub");
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(folder.join("x"), "x\n").unwrap();
    let path = folder.join(".gitattributes");
    // To open it waits for somebody who writes.
    let made = std::process::Command::new("mkfifo").arg(&path).status().unwrap();
    assert!(made.success());
    let error = git.tree_of_worktree().unwrap_err().to_string();
    assert!(error.contains(".gitattributes` is not a file"), "{error}");
    assert!(git.status().is_err());
    std::fs::remove_file(&path).unwrap();
    let tree = git.tree_of_worktree().unwrap();
    // It never ends; git does not follow links there.
    std::fs::write(folder.join(".gitignore"), ".gitattributes\n.gitignore\n").unwrap();
    std::os::unix::fs::symlink("/dev/zero", &path).unwrap();
    assert_eq!(git.tree_of_worktree().unwrap(), tree);
}
