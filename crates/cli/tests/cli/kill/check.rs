//! What must hold of a project once nothing runs in it any more.

use std::fs::{File, TryLockError};

use windlass_testkit::eventually;

use crate::kill::project::Project;

/// Checks the journal, and that nothing is left behind: no open call, no lock, no draft, no process.
pub fn is_whole(project: &Project) {
    is_sound(project);
    let open = project.run(&["trace", "list", "--open", "--limit", "100000"]);
    assert_eq!(open.out, serde_json::json!([]), "{open:?}");
}

/// The same, but calls may wait for a person.
pub fn is_sound(project: &Project) {
    let verified = project.run(&["verify"]);
    assert_eq!(verified.exit, Some(0), "{verified:?}");
    assert_eq!(verified.out["chain_valid"], true, "{verified:?}");
    for name in ["broken", "missing_artifacts"] {
        assert_eq!(verified.out[name], 0, "{verified:?}");
    }
    eventually("no process left", || project.children().is_empty());
    for lock in std::fs::read_dir(project.state().join("windlass.db.locks")).unwrap() {
        let lock = File::open(lock.unwrap().path()).unwrap();
        assert!(!matches!(lock.try_lock_shared(), Err(TryLockError::WouldBlock)), "{lock:?}");
    }
    for folder in [project.root(), project.configuration(), project.state()] {
        for file in std::fs::read_dir(folder).unwrap() {
            let name = file.unwrap().file_name();
            assert!(!name.to_string_lossy().contains("new-"), "{}", name.display());
        }
    }
}
