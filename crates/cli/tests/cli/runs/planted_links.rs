//! Links that an agent has made where Windlass itself writes: nothing is written through them.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use crate::harness::Place;
use crate::world::{Repo, passing};

const LIST: &str = "### P0\n- [ ] **Raise the price** — DoD: it is higher — Owner: bob\n";

/// A file outside of the workspace that would be obeyed, with its text.
fn victim(place: &Place) -> (PathBuf, String) {
    let path = place.home().join("profile");
    fs::create_dir_all(place.home()).unwrap();
    fs::write(&path, "mine\n").unwrap();
    (path, "mine\n".to_owned())
}

/// Numbers of the processes that are started next.
fn next_processes() -> impl Iterator<Item = u32> {
    let own = std::process::id();
    own.saturating_sub(10)..own.saturating_add(4000)
}

#[test]
fn the_draft_of_a_backlog_is_not_written_through_a_link() {
    let repo = Repo::new();
    let (victim, text) = victim(&repo.place);
    repo.write("BACKLOG.md", LIST);
    repo.commit("a backlog");
    repo.write(".git/info/exclude", "BACKLOG.md.*\n");
    for number in next_processes() {
        symlink(&victim, repo.root().join(format!("BACKLOG.md.{number}"))).unwrap();
    }
    let path = repo.answers(&passing());
    repo.windlass(&["backlog", "run", "--answers", &path]).exit(0);
    assert!(repo.read("BACKLOG.md").contains("[x] **Raise the price**"));
    assert_eq!(fs::read_to_string(victim).unwrap(), text);
    assert!(!repo.root().join("BACKLOG.md").is_symlink());
}

#[test]
fn a_backlog_that_leads_out_of_the_project_is_taken_only_if_it_is_named() {
    let repo = Repo::new();
    let list = repo.place.home().join("list.md");
    fs::create_dir_all(repo.place.home()).unwrap();
    fs::write(&list, LIST).unwrap();
    symlink(&list, repo.root().join("BACKLOG.md")).unwrap();
    repo.windlass(&["backlog", "next"]).fails_with(3, "PATH_OUTSIDE_WORKSPACE").warns("--file");
    repo.windlass(&["backlog", "next", "--file", list.to_str().unwrap()]).exit(0);
}

#[test]
fn run_files_are_not_written_through_a_link() {
    let repo = Repo::new();
    let root = "artifacts_root = \".windlass/artifacts\"";
    repo.place.replace(".windlass/config.toml", root, "artifacts_root = \"out/shown\"");
    repo.write(".gitignore", "out\n");
    repo.commit("another folder");
    let elsewhere = repo.place.home().join("elsewhere");
    fs::create_dir_all(elsewhere.join("shown")).unwrap();
    symlink(&elsewhere, repo.root().join("out")).unwrap();
    let path = repo.answers(&passing());
    repo.windlass(&["run", "Raise it", "--answers", &path]).fails_with(1, "FILE_UNWRITABLE");
    assert_eq!(fs::read_dir(elsewhere.join("shown")).unwrap().count(), 0);
}

#[test]
fn init_in_a_hostile_clone_writes_through_no_link() {
    let place = Place::new();
    let (victim, text) = victim(&place);
    let elsewhere = place.home().join("elsewhere");
    fs::create_dir_all(&elsewhere).unwrap();
    for number in next_processes() {
        symlink(&elsewhere, place.work().join(format!(".windlass.new-{number}"))).unwrap();
    }
    place.run(&["init"]).exit(0);
    assert_eq!(fs::read_dir(&elsewhere).unwrap().count(), 0);

    // A clone with a configuration, without the state of this machine.
    let clone = Place::new();
    clone.run(&["init"]).exit(0);
    let folder = clone.work().join(".windlass");
    fs::remove_dir_all(clone.state_root()).unwrap();
    for name in ["id", ".gitignore"] {
        fs::remove_file(folder.join(name)).unwrap();
    }
    let new = place.home().join("new");
    symlink(&new, folder.join(".gitignore")).unwrap();
    symlink(&victim, folder.join("id")).unwrap();
    let _ = clone.run(&["init"]);
    assert!(!new.exists());
    assert_eq!(fs::read_to_string(victim).unwrap(), text);

    // Its folder leads to another one.
    fs::rename(&folder, elsewhere.join("project")).unwrap();
    symlink(elsewhere.join("project"), &folder).unwrap();
    clone.run(&["init"]).fails_with(1, "FILE_UNREADABLE").warns("symbolic link");
}
