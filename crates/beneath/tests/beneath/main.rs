//! The tests of the crate, one program.

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::{MetadataExt as _, symlink};
use std::path::Path;

use tempfile::TempDir;
use windlass_beneath::{Access, Folder, Kind};

/// A workspace with `inside/file`, beside a folder with `secret`, and links to that folder.
fn world() -> (TempDir, Folder) {
    let place = tempfile::tempdir().unwrap();
    let at = |name: &str| place.path().join(name);
    fs::create_dir_all(at("work/inside")).unwrap();
    fs::create_dir(at("outside")).unwrap();
    fs::write(at("outside/secret"), "s3cret").unwrap();
    fs::write(at("work/inside/file"), "text").unwrap();
    symlink("../outside", at("work/leaves")).unwrap();
    symlink("inside", at("work/stays")).unwrap();
    symlink("../outside/secret", at("work/link")).unwrap();
    let folder = Folder::open(&at("work")).unwrap();
    (place, folder)
}

#[test]
fn nothing_is_read_through_a_link_or_outside() {
    let (_place, folder) = world();
    assert_eq!(folder.read(Path::new("inside/file"), 4).unwrap(), b"text");
    for path in [
        "leaves/secret",
        "stays/file",
        "link",
        "../outside/secret",
        "inside/../../outside/secret",
        "/etc/passwd",
    ] {
        assert!(folder.read(Path::new(path), 100).is_err(), "{path}");
        assert!(folder.folder(Path::new(path)).is_err(), "{path}");
    }
    assert_eq!(folder.look(Path::new("link")).unwrap().unwrap().kind, Kind::Link);
    assert_eq!(folder.look(Path::new("leaves/secret")).unwrap(), None);
    assert_eq!(folder.link_target(Path::new("link")).unwrap(), Path::new("../outside/secret"));
    assert!(
        folder.leads_beneath(Path::new("stays/file")) && !folder.leads_beneath(Path::new("link"))
    );
}

#[test]
fn a_file_that_grows_beyond_the_limit_is_not_read() {
    let (_place, folder) = world();
    let error = folder.read(Path::new("inside/file"), 3).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::FileTooLarge);
}

#[test]
fn a_pipe_is_refused_at_once() {
    let (place, folder) = world();
    let made = std::process::Command::new("mkfifo").arg(place.path().join("work/pipe")).status();
    assert!(made.unwrap().success());
    assert_eq!(folder.look(Path::new("pipe")).unwrap().unwrap().kind, Kind::Pipe);
    assert!(folder.file(Path::new("pipe")).is_err());
}

#[test]
fn what_is_written_never_goes_through_a_link() {
    let (place, folder) = world();
    let secret = || fs::read_to_string(place.path().join("outside/secret")).unwrap();
    for path in ["leaves/secret", "leaves/new", "stays/new", "../outside/new"] {
        assert!(folder.replace(Path::new(path), b"x", 0o644).is_err(), "{path}");
        assert!(folder.create(Path::new(path), b"x", 0o644).is_err(), "{path}");
        assert!(folder.remove_file(Path::new(path)).is_err(), "{path}");
    }
    assert!(folder.make_folder(Path::new("leaves/deep")).is_err());
    let error = folder.create(Path::new("link"), b"x", 0o644).unwrap_err();
    assert_eq!((error.kind(), secret().as_str()), (ErrorKind::AlreadyExists, "s3cret"));
    // The link itself is replaced.
    folder.replace(Path::new("link"), b"new", 0o640).unwrap();
    assert_eq!(secret(), "s3cret");
    let written = fs::symlink_metadata(place.path().join("work/link")).unwrap();
    assert!(written.is_file() && written.mode() & 0o777 == 0o640);
    assert_eq!(fs::read_dir(place.path().join("outside")).unwrap().count(), 1);
    let names: Vec<_> = folder.entries().unwrap().into_iter().map(|(name, _)| name).collect();
    assert!(
        names.iter().all(|name| !name.to_string_lossy().starts_with(".windlass-tmp")),
        "{names:?}"
    );
}

#[test]
fn a_move_replaces_nothing() {
    let (place, folder) = world();
    let other = folder.make_folder(Path::new("a/b")).unwrap();
    folder.create(Path::new("a/b/file"), b"mine", 0o600).unwrap();
    let error = folder.move_to(Path::new("inside/file"), &other, Path::new("file")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AlreadyExists);
    folder.move_to(Path::new("inside/file"), &other, Path::new("moved")).unwrap();
    assert_eq!(fs::read_to_string(place.path().join("work/a/b/moved")).unwrap(), "text");
    // A link is moved as one.
    folder.move_to(Path::new("leaves"), &other, Path::new("leaves")).unwrap();
    assert!(place.path().join("work/a/b/leaves").is_symlink());
    assert!(folder.move_to(Path::new("stays/x"), &other, Path::new("x")).is_err());
}

#[test]
fn the_time_of_the_last_change_cannot_be_put_back() {
    let (place, folder) = world();
    let path = Path::new("inside/file");
    let before = folder.look(path).unwrap().unwrap();
    assert_eq!(folder.glance(path).unwrap(), Some(before));
    std::thread::sleep(std::time::Duration::from_millis(20));
    fs::write(place.path().join("work/inside/file"), "TEXT").unwrap();
    let file = fs::File::options().write(true).open(place.path().join("work/inside/file")).unwrap();
    let old = std::time::UNIX_EPOCH
        + std::time::Duration::from_nanos(u64::try_from(before.modified).unwrap());
    file.set_modified(old).unwrap();
    let after = folder.look(path).unwrap().unwrap();
    assert_eq!(
        (after.modified, after.size, after.inode),
        (before.modified, before.size, before.inode)
    );
    assert!(after.changed > before.changed);
}

#[test]
fn a_real_path_has_no_link_anywhere() {
    let (place, _folder) = world();
    let place = place.path().canonicalize().unwrap();
    let at = |name: &str| place.join(name);
    Folder::open_real(&at("work/inside")).unwrap();
    Folder::make_real(&at("work/inside/a/b")).unwrap();
    assert!(at("work/inside/a/b").is_dir());
    symlink("work", at("linked")).unwrap();
    for path in ["linked/inside", "work/leaves", "work/stays"] {
        assert!(Folder::open_real(&at(path)).is_err(), "{path}");
        assert!(Folder::make_real(&at(path).join("new")).is_err(), "{path}");
    }
    assert!(Folder::open_real(Path::new("work")).is_err());
    assert_eq!(Folder::read_real(&at("work/inside/file"), 4).unwrap(), b"text");
    for path in ["work/link", "work/leaves/secret", "work/stays/file", "linked/inside/file"] {
        assert!(Folder::read_real(&at(path), 100).is_err(), "{path}");
    }
}

#[test]
fn a_draft_takes_its_place_or_vanishes() {
    let (place, folder) = world();
    let path = place.path().join("work/inside/file");
    let mode = || fs::metadata(&path).unwrap().mode() & 0o777;
    folder.replace_durably(Path::new("inside/file"), b"two", Access::Exactly(0o604)).unwrap();
    assert_eq!((fs::read(&path).unwrap().as_slice(), mode()), (b"two".as_slice(), 0o604));
    folder.replace_durably(Path::new("inside/file"), b"three", Access::AtMost(0o600)).unwrap();
    assert_eq!((fs::read(&path).unwrap().as_slice(), mode()), (b"three".as_slice(), 0o600));
    drop(folder.draft(Path::new("inside/file"), Access::AtMost(0o600)).unwrap());
    let name = folder.make_draft_folder(".new-").unwrap();
    assert!(place.path().join("work").join(name).is_dir());
    assert_eq!(fs::read_dir(place.path().join("work/inside")).unwrap().count(), 1);
}
