//! Full disks, read-only disks and write-protected files: tested in a child process with its own small
//! file system, or without the right to ignore permissions.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use windlass_kernel::Code;
use windlass_store::conformance::fixture::{Ending, Trace};
use windlass_store::{After, AppendError, Store};

use crate::support::{Place, assert_reads_back, fixture, open, player, put, succeeds, verify};

/// Whether a command succeeds.
fn works(command: &[&str]) -> bool {
    let [program, arguments @ ..] = command else { return false };
    let quiet = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    quiet.is_ok_and(|status| status.success())
}

/// Plays a role on a file system of 1 MB that no other process sees.
fn plays_on_a_small_disk(role: &str) {
    let place = Place::new();
    let own = [&["--mount"][..], &["--user", "--map-root-user", "--mount"][..]];
    let own = own.into_iter().find(|own| works(&[&["unshare"], *own, &["true"]].concat()));
    let own = own.expect("a mount namespace: be root, or allow unprivileged user namespaces");
    let script = r#"mount -t tmpfs -o size=1m none "$0" && exec "$@""#;
    let folder = place.folder().to_str().unwrap();
    let before = [&["unshare"], own, &["sh", "-c", script, folder]].concat();
    succeeds(&player(&before, role, &place.path()).output().unwrap());
    assert!(!place.path().exists(), "the disk was the child's own");
}

/// Changes the file system that the database is on.
fn remount(database: &Path, options: &str) {
    let folder = database.parent().unwrap().to_str().unwrap();
    // With its source named, so that options which only its maker could give are left out.
    let options = format!("remount,{options}");
    assert!(works(&["mount", "-t", "tmpfs", "-o", &options, "none", folder]));
}

/// A run with a second entry of so many bytes.
fn run_of(make: &windlass_store::conformance::fixture::Fixture, bytes: usize) -> Trace {
    make.run_carrying(vec![b"{}".to_vec(), vec![b'x'; bytes]])
}

/// Appends until the disk is full; returns the traces that were appended and the one that was not.
fn append_until_full(store: &dyn Store, bytes: usize, number: u64) -> (Vec<Trace>, Trace) {
    let make = fixture(number);
    let mut landed = Vec::new();
    for _ in 0..1_000 {
        let trace = run_of(&make, bytes);
        match store.append(trace.create(2, After::Release)) {
            Ok(_) => landed.push(trace),
            Err(AppendError::Store(error)) => {
                assert_eq!(error.code(), Code::StoreFull, "{error:?}");
                return (landed, trace);
            }
            Err(error) => panic!("refused otherwise: {error}"),
        }
    }
    panic!("the disk never fills")
}

/// A child, alone on a disk of 1 MB.
pub fn fills_the_disk(database: &Path) {
    let store = open(database).unwrap();
    let (mut all, mut lost) = append_until_full(&store, 40_000, 1);
    assert!(all.len() > 2);
    // Smaller and smaller ones still fit, until nothing does.
    for (number, bytes) in [(2, 8_000), (3, 100), (4, 100)] {
        let (more, last) = append_until_full(&store, bytes, number);
        all.extend(more);
        lost = last;
    }
    let check = |store: &dyn Store, all: &[Trace]| {
        assert_eq!(verify(store), (all.len(), all.len() * 2));
        for trace in all {
            assert_reads_back(store, trace, 2);
        }
    };
    check(&store, &all);
    let error = store.load_state(lost.trace_id).unwrap_err();
    assert_eq!(error.code(), Code::TraceNotFound, "nothing of the refused one");
    // Other writes fail in the same way.
    let first = all.first().unwrap();
    let error = store.acquire(first.trace_id).unwrap_err();
    assert_eq!(error.code(), Code::StoreFull, "{error:?}");
    // A new store cannot be created either.
    let other = database.with_file_name("other.db");
    let error = open(&other).err().unwrap();
    assert_eq!(error.code(), Code::StoreFull, "{error:?}");
    // There is space again: the store goes on.
    remount(database, "size=8m");
    store.append(lost.create(2, After::Release)).expect("there is space again");
    all.push(lost);
    let lease = store.acquire(all.first().unwrap().trace_id).unwrap();
    store.release(lease).unwrap();
    check(&store, &all);
    drop(store);
    check(&open(database).unwrap(), &all);
    put(&open(&other).unwrap(), &fixture(9).run_long(3));
}

#[test]
fn a_full_disk_is_said_to_be_full_and_loses_nothing() {
    plays_on_a_small_disk("fills the disk");
}

/// A child, alone on a disk that it can make read-only.
pub fn meets_a_read_only_disk(database: &Path) {
    let trace = fixture(1).call(Ending::Completed);
    put(&open(database).unwrap(), &trace);
    remount(database, "ro");
    let error = open(database).err().unwrap();
    assert_eq!(error.code(), Code::StoreReadOnly, "{error:?}");
    let error = open(&database.with_file_name("new.db")).err().unwrap();
    assert_eq!(error.code(), Code::StoreReadOnly, "{error:?}");
    remount(database, "rw");
    let store = open(database).unwrap();
    assert_reads_back(&store, &trace, 4);
    put(&store, &fixture(2).run_long(2));
}

#[test]
fn a_read_only_disk_is_said_to_be_read_only() {
    plays_on_a_small_disk("meets a read-only disk");
}

fn set_mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

/// A child that cannot ignore permissions.
pub fn lacks_permission(database: &Path) {
    let folder = database.parent().unwrap();
    let trace = fixture(1).call(Ending::Completed);
    // An unwritable folder, without and with a store in it.
    let new = folder.join("new.db");
    set_mode(folder, 0o555);
    let error = open(&new).err().unwrap();
    assert_eq!(error.code(), Code::StoreReadOnly, "{error:?}");
    assert!(!new.exists());
    set_mode(folder, 0o755);
    put(&open(database).unwrap(), &trace);
    // As it is after a clean end of whatever used it last: without log and index.
    drop(rusqlite::Connection::open(database).unwrap().execute_batch("SELECT * FROM traces"));
    set_mode(folder, 0o555);
    let error = open(database).err().unwrap();
    assert_eq!(error.code(), Code::StoreReadOnly, "{error:?}");
    set_mode(folder, 0o755);
    // A read-only file.
    let before = std::fs::read(database).unwrap();
    set_mode(database, 0o444);
    let error = open(database).err().unwrap();
    assert_eq!(error.code(), Code::StoreReadOnly, "{error:?}");
    assert!(std::fs::read(database).unwrap() == before);
    set_mode(database, 0o644);
    let store = open(database).unwrap();
    assert_reads_back(&store, &trace, 4);
    put(&store, &fixture(3).run_long(2));
}

#[test]
fn what_may_not_be_written_is_said_to_be_read_only() {
    let place = Place::new();
    let probe = place.folder().join("probe");
    std::fs::create_dir(&probe).unwrap();
    set_mode(&probe, 0o555);
    // Root ignores permissions, unless it gives up that right.
    let powerless = ["setpriv", "--inh-caps=-all", "--ambient-caps=-all", "--bounding-set=-all"];
    let binds = std::fs::write(probe.join("file"), "").is_err();
    let before = if binds { &[][..] } else { &powerless[..] };
    succeeds(&player(before, "lacks permission", &place.path()).output().unwrap());
}
