//! The check of a client whose cage was not measured in its version: it starts no other check, is bounded, and leaves
//! nothing.

use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use windlass_testkit::eventually;

use crate::harness::Place;

/// A place with a client of an unknown version that does this instead of working.
fn with_client(body: &str) -> (Place, PathBuf, TcpListener) {
    let place = Place::with_project();
    let client = place.base().join("claude");
    let text = format!("#!/bin/sh\n[ \"$1\" != --version ] || {{ echo 99.9.9; exit; }}\n{body}\n");
    std::fs::write(&client, text).unwrap();
    std::fs::set_permissions(&client, PermissionsExt::from_mode(0o755)).unwrap();
    // An endpoint that accepts connections; nothing is asked of it.
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let endpoint = listener.local_addr().unwrap();
    place.settings(&format!(
        "[agents.claude]\ncommand = [{client:?}]\nendpoint = \"http://{endpoint}\"\n"
    ));
    let temporary = place.base().join("temporary");
    std::fs::create_dir(&temporary).unwrap();
    (place, temporary, listener)
}

/// The command lines of the processes that work in a folder or below it.
fn processes_in(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let works_there = |entry: &std::fs::DirEntry| {
        let place = std::fs::read_link(entry.path().join("cwd"));
        place.is_ok_and(|place| place.starts_with(folder))
    };
    let words = |entry: std::fs::DirEntry| std::fs::read(entry.path().join("cmdline")).ok();
    let all = entries.filter(works_there).filter_map(words);
    all.map(|words| String::from_utf8_lossy(&words).into_owned()).collect()
}

fn is_empty(folder: &Path) -> bool {
    std::fs::read_dir(folder).unwrap().next().is_none()
}

#[test]
fn a_check_starts_no_other_check() {
    let (place, temporary, _listener) = with_client("exit 3");
    let outcome = place
        .run_with("TMPDIR", temporary.to_str().unwrap(), &["agents", "check", "claude", "--json"])
        .exit(1);
    let checked = outcome.json();
    assert_eq!(
        (&checked[0]["version"], &checked[0]["result"]),
        (&"99.9.9".into(), &"failed".into())
    );
    // What the client itself did wrong, not that its run, which checked again, never ended.
    let reason = checked[0]["reason"].as_str().unwrap();
    assert!(!reason.contains("did not end") && !reason.contains("check"), "{reason}");
    assert!(is_empty(&temporary));
}

#[test]
fn what_a_check_starts_ends_with_it_and_its_folder_is_swept() {
    let (place, temporary, _listener) = with_client("sleep 1000");
    let check = ["agents", "check", "claude"];
    let mut command = place.command(&check);
    command.env("TMPDIR", &temporary);
    let mut child = command.spawn().unwrap();
    eventually("the scratch run works", || {
        processes_in(&temporary).iter().any(|words| words.contains("leave a greeting"))
    });
    child.kill().unwrap();
    child.wait().unwrap();
    eventually("nothing of it is left", || processes_in(&temporary).is_empty());
    for left in std::fs::read_dir(&temporary).unwrap() {
        // One that was just made may not be locked yet.
        let old = std::time::SystemTime::now() - std::time::Duration::from_secs(3600);
        std::fs::File::open(left.unwrap().path()).unwrap().set_modified(old).unwrap();
    }
    assert!(!is_empty(&temporary));
    // The next one removes what the first has left.
    std::fs::write(place.base().join("claude"), "#!/bin/sh\necho 99.9.9\n").unwrap();
    place.run_with("TMPDIR", temporary.to_str().unwrap(), &check).exit(1);
    assert!(is_empty(&temporary));
}
