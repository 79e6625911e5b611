//! Mend 8: backups of the journal.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use serde_json::json;

use crate::harness::finish;
use crate::world::{Repo, escalating, id_of};

/// The files of a folder, by name.
fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// Puts a backup in the place of the journal, as the guide says.
fn restore(repo: &Repo, backup: &Path) {
    let state = repo.place.state();
    for name in names(&state).iter().filter(|name| name.starts_with("windlass.db")) {
        let path = state.join(name);
        if path.is_dir() {
            fs::remove_dir_all(path).unwrap();
        } else {
            fs::remove_file(path).unwrap();
        }
    }
    fs::remove_dir_all(repo.place.state_root().join(".heads")).unwrap();
    fs::copy(backup, state.join("windlass.db")).unwrap();
}

#[test]
fn mend_08_a_backup_goes_to_any_folder_and_is_restored() {
    let repo = Repo::new();
    let id = id_of(&repo.run(&escalating()).exit(4));
    let folder = repo.place.base().join("a folder, elsewhere");
    fs::create_dir(&folder).unwrap();
    let target = folder.display().to_string();
    let made = repo.windlass(&["store", "backup", &target, "--json"]).exit(0).json();
    let found = names(&folder);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].starts_with("windlass-work-") && found[0].ends_with(".db"), "{found:?}");
    let backup = folder.join(&found[0]);
    assert_eq!(made["file"], json!(backup));
    assert_eq!(fs::metadata(&backup).unwrap().permissions().mode() & 0o777, 0o600);
    // What happens later is not in it, and what was before is.
    repo.approve(&id).exit(0);
    restore(&repo, &backup);
    repo.windlass(&["verify"]).exit(0).says("intact");
    assert_eq!(repo.stands(&id)["state"], "CHECKPOINT");
}

#[test]
fn mend_08_a_backup_replaces_nothing_and_leaves_nothing_half_written() {
    let repo = Repo::new();
    repo.run(&escalating()).exit(4);
    let folder = repo.place.base().join("backups");
    fs::create_dir(&folder).unwrap();
    let file = folder.join("journal.db");
    fs::write(&file, "mine").unwrap();
    let named = file.display().to_string();
    repo.windlass(&["store", "backup", &named]).fails_with(1, "FILE_UNWRITABLE").warns("exists");
    assert_eq!(fs::read_to_string(&file).unwrap(), "mine");
    // A journal that is damaged is not copied.
    repo.place.tamper().execute_batch("CREATE TABLE mine (x)").unwrap();
    let other = folder.join("other.db").display().to_string();
    repo.windlass(&["store", "backup", &other]).fails_with(5, "STORE_CORRUPT");
    assert_eq!(names(&folder), ["journal.db"]);
}

#[test]
fn mend_08_a_backup_is_not_written_into_the_states() {
    let repo = Repo::new();
    let states = repo.place.state_root();
    let link = repo.place.base().join("link");
    std::os::unix::fs::symlink(repo.place.state(), &link).unwrap();
    let before = names(&repo.place.state());
    for target in [
        states.join("copy.db"),
        repo.place.state().join("copy.db"),
        repo.place.state(),
        link.join("copy.db"),
    ] {
        let target = target.display().to_string();
        repo.windlass(&["store", "backup", &target])
            .fails_with(1, "FILE_UNWRITABLE")
            .warns("folder of states");
    }
    assert_eq!(names(&repo.place.state()), before);
}

#[test]
fn mend_08_a_journal_that_can_only_be_read_is_backed_up() {
    let repo = Repo::new();
    repo.run(&escalating()).exit(4);
    let target = repo.place.base().join("copy.db");
    let script =
        "mount --bind \"$0\" \"$0\" && mount -o remount,bind,ro \"$0\" || exit 99; exec \"$@\"";
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-root-user", "--mount", "sh", "-c", script]);
    command.arg(repo.place.state_root()).arg(env!("CARGO_BIN_EXE_windlass"));
    command.args(["store", "backup"]).arg(&target);
    repo.place.settle(&mut command);
    let outcome = finish(command, &[]);
    if outcome.code == Some(99) || outcome.stderr.starts_with("unshare:") {
        windlass_testkit::skipped("no file system can be mounted");
        return;
    }
    outcome.exit(0).says("verified");
    restore(&repo, &target);
    repo.windlass(&["verify"]).exit(0).says("intact");
}
