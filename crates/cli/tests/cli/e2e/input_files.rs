//! Input files that are no regular files: a command neither waits for them nor reads without end.

use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::process::Command;

use crate::harness::Place;

#[test]
fn only_regular_files_are_read() {
    let place = Place::with_project();
    let work = place.work();
    assert!(Command::new("mkfifo").arg(work.join("pipe.json")).status().unwrap().success());
    let _socket = UnixListener::bind(work.join("socket.json")).unwrap();
    std::fs::create_dir(work.join("folder.json")).unwrap();
    symlink("/dev/zero", work.join("zero.json")).unwrap();
    symlink("pipe.json", work.join("link.json")).unwrap();
    for (name, what) in [
        ("pipe.json", "a named pipe"),
        ("socket.json", "a socket"),
        ("folder.json", "a folder"),
        ("zero.json", "a device"),
        ("link.json", "a named pipe"),
    ] {
        let at = format!("@{name}");
        for words in [
            &["call", "run", "shell/read", "--args", &at][..],
            &["policy", "explain", "shell/read", "--args", &at],
            &["policy", "test", name],
            &["loop", "check", name],
            &["verify", "some.bundle", "--key", name],
            &["verify", name, "--key", name],
            &["verify", "--file", name],
            &["verify", "--anchor", name],
            &["run", name],
            &["run", "a task", "--answers", name],
            &["import", "v1", name, "--loop", "core"],
            &["backlog", "list", "--file", name],
            &["backlog", "next", "--file", name],
        ] {
            let outcome = place.run(words).fails_with(1, "FILE_UNREADABLE");
            outcome.warns(what).warns("hint: name a regular file");
        }
    }
}

#[test]
fn an_input_file_has_a_size_limit() {
    let place = Place::with_project();
    let file = std::fs::File::create(place.work().join("huge.json")).unwrap();
    // Without blocks on the disk.
    file.set_len(1 << 40).unwrap();
    for words in [
        &["call", "run", "shell/read", "--args", "@huge.json"][..],
        &["policy", "test", "huge.json"],
        &["loop", "check", "huge.json"],
        &["verify", "some.bundle", "--key", "huge.json"],
        &["run", "huge.json"],
        &["run", "a task", "--answers", "huge.json"],
        &["import", "v1", "huge.json", "--loop", "core"],
        &["backlog", "list", "--file", "huge.json"],
    ] {
        place.run(words).fails_with(2, "DOC_SIZE_EXCEEDED").warns("huge.json");
    }
}

#[test]
fn settings_that_are_no_regular_file_are_refused() {
    let place = Place::with_project();
    let settings = place.work().join(".windlass/config.toml");
    drop(std::fs::remove_file(&settings));
    assert!(Command::new("mkfifo").arg(&settings).status().unwrap().success());
    for words in [&["verify"][..], &["policy", "check"], &["status"]] {
        place.run(words).fails_with(1, "FILE_UNREADABLE").warns("a named pipe");
    }
}

#[test]
fn force_replaces_regular_files_only() {
    let place = Place::with_project();
    place.completed();
    let work = place.work();
    place.write("target", "mine");
    place.write("old.anchor", "old");
    std::fs::create_dir(work.join("folder")).unwrap();
    symlink("target", work.join("link")).unwrap();
    symlink("/dev/null", work.join("null")).unwrap();
    assert!(Command::new("mkfifo").arg(work.join("pipe")).status().unwrap().success());
    for name in ["folder", "link", "null", "pipe"] {
        let outcome = place.run(&["anchor", name, "--force"]).fails_with(1, "FILE_UNWRITABLE");
        outcome.warns("not a regular file").warns("hint: choose another file name");
    }
    assert_eq!(std::fs::read_to_string(work.join("target")).unwrap(), "mine");
    assert!(work.join("link").is_symlink() && work.join("null").is_symlink());
    place.run(&["anchor", "old.anchor", "--force"]).exit(0);
}
