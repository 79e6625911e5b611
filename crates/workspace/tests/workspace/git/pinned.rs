//! Files as a commit has them.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use windlass_workspace::{
    Git, GitCause, PinnedKind, PinnedPath, check_pinned_place, require_pinned_unchanged,
};

use crate::git::repository::Repository;

fn repository() -> Repository {
    let repository = Repository::unborn();
    repository.file("scripts/check.sh", "one\n");
    repository.file("scripts/deep/er/data", "\0\n");
    repository.file("scripts/plain", "x");
    let script = repository.path().join("scripts/check.sh");
    fs::set_permissions(script, fs::Permissions::from_mode(0o755)).unwrap();
    symlink("deep/er", repository.path().join("scripts/link")).unwrap();
    symlink("scripts", repository.path().join("run")).unwrap();
    symlink("/etc/passwd", repository.path().join("outside")).unwrap();
    symlink("loop", repository.path().join("loop")).unwrap();
    symlink("../../scripts/check.sh", repository.path().join("above")).unwrap();
    repository.file(".gitattributes", "* text eol=crlf ident export-ignore\n");
    repository.commit();
    repository
}

fn shape(found: &[PinnedPath]) -> Vec<(&Path, PinnedKind)> {
    found.iter().map(|pinned| (pinned.path.as_path(), pinned.kind)).collect()
}

const SCRIPT: PinnedKind = PinnedKind::File { executable: true };

#[test]
fn paths_are_looked_up_in_the_commit_and_not_in_the_work_tree() {
    let repository = repository();
    let (git, commit) = (repository.ours(), repository.head());
    fs::remove_dir_all(repository.path().join("scripts")).unwrap();
    repository.file("new", "x");
    let names = [
        "scripts",
        "scripts/check.sh",
        "run/check.sh",
        "new",
        "outside",
        "loop",
        "scripts/x",
        "a b",
    ];
    let names = names.map(str::to_owned);
    let found = git.paths_in(&commit, &names).unwrap();
    assert_eq!(found, ["scripts", "scripts/check.sh", "run/check.sh"]);
    let found = |path: &str| git.pinned(&commit, path).unwrap();
    assert_eq!(shape(&found("scripts")), [(Path::new("scripts"), PinnedKind::Folder)]);
    assert_eq!(shape(&found("scripts/check.sh")), [(Path::new("scripts/check.sh"), SCRIPT)]);
    let plain = PinnedKind::File { executable: false };
    assert_eq!(shape(&found("scripts/plain")), [(Path::new("scripts/plain"), plain)]);
    // Links are followed in the commit.
    assert_eq!(
        shape(&found("run/check.sh")),
        [(Path::new("run"), PinnedKind::Link), (Path::new("scripts/check.sh"), SCRIPT)]
    );
    assert_eq!(
        shape(&found("run/link/data")),
        [
            (Path::new("run"), PinnedKind::Link),
            (Path::new("scripts/link"), PinnedKind::Link),
            (Path::new("scripts/deep/er/data"), plain)
        ]
    );
    assert_eq!(shape(&found("outside")), [(Path::new("outside"), PinnedKind::Link)]);
    assert_eq!(shape(&found("above")), [(Path::new("above"), PinnedKind::Link)]);
    for path in ["new", "scripts/gone", "scripts/check.sh/x", "loop"] {
        let error = git.pinned(&commit, path).unwrap_err();
        assert!(matches!(error.cause, GitCause::Refused(_)), "{path}: {error}");
    }
}

#[test]
fn paths_are_relative_to_the_folder() {
    let repository = repository();
    let (commit, inner) = (repository.head(), Git::new(repository.path().join("scripts")));
    assert_eq!(
        shape(&inner.pinned(&commit, "check.sh").unwrap()),
        [(Path::new("check.sh"), SCRIPT)]
    );
    let names = ["check.sh".to_owned(), "scripts".to_owned()];
    assert_eq!(inner.paths_in(&commit, &names).unwrap(), ["check.sh"]);
    // What lies outside of the folder is not its.
    assert_eq!(inner.pinned(&commit, "../run").unwrap(), []);
}

fn written(repository: &Repository, path: &str, name: &str) -> (PinnedPath, PathBuf) {
    let found = repository.ours().pinned(&repository.head(), path).unwrap();
    let pinned = found.last().unwrap().clone();
    let copy = repository.beside(name);
    repository.ours().write_pinned(&pinned, &copy).unwrap();
    (pinned, copy)
}

#[test]
fn contents_modes_and_links_are_those_of_the_commit() {
    let repository = repository();
    repository.file("scripts/check.sh", "two\n");
    repository.file("scripts/new", "x");
    let (_, copy) = written(&repository, "scripts", "copy");
    let mode = |name: &str| fs::metadata(copy.join(name)).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode("check.sh"), mode("plain")), (0o755, 0o644));
    assert_eq!(fs::read(copy.join("check.sh")).unwrap(), b"one\n");
    assert_eq!(fs::read(copy.join("deep/er/data")).unwrap(), b"\0\n");
    assert_eq!(fs::read_link(copy.join("link")).unwrap(), Path::new("deep/er"));
    assert!(!copy.join("new").exists());
    let (_, copy) = written(&repository, "scripts/check.sh", "file");
    assert_eq!(fs::read(copy).unwrap(), b"one\n");
}

#[test]
fn a_submodule_cannot_be_pinned() {
    let repository = repository();
    let inner = repository.head();
    let entry = format!("160000,{inner},scripts/module", inner = inner.as_str());
    repository.git(&["update-index", "--add", "--cacheinfo", &entry]);
    repository.git(&["commit", "-q", "-m", "module"]);
    let (git, commit) = (repository.ours(), repository.head());
    let error = git.pinned(&commit, "scripts/module").unwrap_err();
    assert!(error.to_string().contains("submodule"), "{error}");
    let folder = git.pinned(&commit, "scripts").unwrap();
    let error = git.write_pinned(folder.first().unwrap(), &repository.beside("copy")).unwrap_err();
    assert!(error.to_string().contains("submodule"), "{error}");
}

#[test]
fn a_place_is_lost_by_another_kind_and_by_links() {
    let repository = repository();
    let root = repository.path();
    let (file, copy) = written(&repository, "scripts/check.sh", "copy");
    assert_eq!(check_pinned_place(&root, &file, &copy), Ok(()));
    fs::write(root.join("scripts/check.sh"), "changed").unwrap();
    assert_eq!(check_pinned_place(&root, &file, &copy), Ok(()));
    fs::rename(root.join("scripts"), root.join("elsewhere")).unwrap();
    assert!(check_pinned_place(&root, &file, &copy).unwrap_err().contains("was removed"));
    symlink("elsewhere", root.join("scripts")).unwrap();
    assert!(check_pinned_place(&root, &file, &copy).unwrap_err().contains("on the way"));
    let (link, copy) = written(&repository, "outside", "link");
    assert_eq!(check_pinned_place(&root, &link, &copy), Ok(()));
    fs::remove_file(root.join("outside")).unwrap();
    symlink("/etc/group", root.join("outside")).unwrap();
    assert!(check_pinned_place(&root, &link, &copy).unwrap_err().contains("was replaced"));
}

#[test]
fn every_difference_is_found() {
    type Edit = fn(&Path);
    let changes: [(&str, Edit); 5] = [
        ("scripts/check.sh", |root| fs::write(root.join("scripts/check.sh"), "two\n").unwrap()),
        ("scripts/plain", |root| {
            let open = fs::Permissions::from_mode(0o755);
            fs::set_permissions(root.join("scripts/plain"), open).unwrap();
        }),
        ("scripts/deep/ignored", |root| fs::write(root.join("scripts/deep/ignored"), "").unwrap()),
        ("scripts/deep/er/data", |root| {
            fs::remove_file(root.join("scripts/deep/er/data")).unwrap()
        }),
        ("scripts/link", |root| {
            fs::remove_file(root.join("scripts/link")).unwrap();
            symlink("deep", root.join("scripts/link")).unwrap();
        }),
    ];
    for (path, change) in changes {
        let repository = repository();
        repository.file(".git/info/exclude", "ignored\n");
        let folder = repository.ours().pinned(&repository.head(), "scripts").unwrap();
        let parent = repository.beside("");
        let check = || require_pinned_unchanged(&repository.path(), &folder, &parent);
        assert_eq!(check(), Ok(()));
        change(&repository.path());
        assert!(check().unwrap_err().contains(&format!("`{path}` is not what it was")), "{path}");
    }
}

#[test]
fn hooks_are_found_where_git_looks_for_them() {
    let repository = repository();
    let git = repository.ours();
    let hook = git.hook("pre-commit").unwrap();
    assert_eq!(hook.path, repository.path().join(".git/hooks/pre-commit"));
    assert!(!hook.runs && !hook.is_outside && hook.in_worktree.is_none());
    repository.git(&["config", "core.hooksPath", "./a/../scripts"]);
    let hook = git.hook("pre-commit").unwrap();
    assert_eq!(hook.in_worktree.as_deref(), Some(Path::new("scripts/pre-commit")));
    repository.git(&["config", "core.hooksPath", "../elsewhere"]);
    assert!(git.hook("pre-commit").unwrap().is_outside);
}
