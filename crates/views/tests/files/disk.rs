//! What a disk can do to the files, and what others can plant there.

use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};

use crate::world::{Script, World, name, passing, spine, trace, unwritable, verdict};

#[test]
fn the_same_content_is_not_written_again() {
    let mut world = World::new();
    let files = world.files();
    let recorder = world.run(&files, &passing());
    let inodes = |world: &World| -> Vec<(u64, i64, i64)> {
        let paths = world.tree().into_keys();
        paths
            .map(|path| {
                let metadata = std::fs::metadata(world.root().join(path)).unwrap();
                (metadata.ino(), metadata.mtime(), metadata.mtime_nsec())
            })
            .collect()
    };
    let before = inodes(&world);
    world.show(&world.files(), trace(&recorder)).unwrap();
    world.show(&files, trace(&recorder)).unwrap();
    files.rebuild(trace(&recorder)).unwrap();
    assert_eq!(inodes(&world), before);
}

#[test]
fn a_folder_that_cannot_be_written_is_named() {
    let mut world = World::new();
    let files = world.files();
    let recorder = world.run(&files, &passing());
    // The file system itself refuses this, whoever asks.
    let path = unwritable(world.show(&world.files_at("/proc/windlass".as_ref()), trace(&recorder)));
    assert!(path.starts_with("/proc/windlass/"), "{path}");
    let root = world.folder.path().join("closed");
    std::fs::create_dir(&root).unwrap();
    std::fs::set_permissions(&root, std::fs::Permissions::from_mode(0o555)).unwrap();
    // Permissions do not hold back the superuser.
    if std::fs::write(root.join("probe"), b"").is_err() {
        let path = unwritable(world.show(&world.files_at(&root), trace(&recorder)));
        assert!(path.starts_with(root.to_str().unwrap()), "{path}");
    }
}

#[test]
fn a_file_in_the_place_of_a_folder_is_an_error_and_stays() {
    let mut world = World::new();
    let files = world.files();
    let recorder = world.run(&files, &passing());
    for folder in ["steps", "terminal", "loop_state"] {
        let path = world.root().join(folder);
        std::fs::remove_dir_all(&path).unwrap();
        std::fs::write(&path, b"mine").unwrap();
        let named = unwritable(world.show(&world.files(), trace(&recorder)));
        assert!(named.starts_with(path.to_str().unwrap()), "{named}");
        assert_eq!(std::fs::read(&path).unwrap(), b"mine");
        std::fs::remove_file(&path).unwrap();
        world.show(&world.files(), trace(&recorder)).unwrap();
    }
    let root = world.folder.path().join("file");
    std::fs::write(&root, b"mine").unwrap();
    unwritable(world.show(&world.files_at(&root), trace(&recorder)));
}

#[test]
fn a_planted_link_is_replaced_and_never_followed() {
    let mut world = World::new();
    let files = world.files();
    let recorder = world.run(&files, &Script::from([(("review", 1), verdict("escalate"))]));
    let tree = world.tree();
    let outside = world.folder.path().join("outside");
    for path in tree.keys().filter(|path| !path.starts_with("loop_state")) {
        std::fs::write(&outside, b"secret").unwrap();
        let target = world.root().join(path);
        std::fs::remove_file(&target).unwrap();
        symlink(&outside, &target).unwrap();
        files.rebuild(trace(&recorder)).unwrap();
        assert_eq!(std::fs::read(&outside).unwrap(), b"secret", "{path}");
        assert!(target.symlink_metadata().unwrap().is_file(), "{path}");
    }
    assert_eq!(world.tree(), tree);
}

#[test]
fn a_planted_link_to_a_ledger_or_a_folder_is_refused() {
    let mut world = World::new();
    let files = world.files();
    let recorder = world.run(&files, &Script::from([(("review", 1), verdict("escalate"))]));
    let outside = world.folder.path().join("outside");
    let ledger = world.root().join("loop_state/attempt_ledger.jsonl");
    std::fs::rename(&ledger, &outside).unwrap();
    let before = std::fs::read(&outside).unwrap();
    symlink(&outside, &ledger).unwrap();
    unwritable(world.show(&world.files(), trace(&recorder)));
    std::fs::write(&outside, &before[..before.len() - 10]).unwrap();
    unwritable(world.show(&world.files(), trace(&recorder)));
    assert_eq!(std::fs::read(&outside).unwrap(), &before[..before.len() - 10]);
    std::fs::remove_file(&ledger).unwrap();
    let folder = world.folder.path().join("elsewhere");
    std::fs::create_dir(&folder).unwrap();
    let steps = world.root().join("steps");
    std::fs::remove_dir_all(&steps).unwrap();
    symlink(&folder, &steps).unwrap();
    unwritable(world.show(&world.files(), trace(&recorder)));
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 0);
}

#[test]
fn what_a_dead_process_left_is_swept_and_nothing_else() {
    let mut world = World::new();
    let files = world.files();
    let recorder = world.run(&files, &Script::from([(("review", 1), verdict("escalate"))]));
    let half = b"half a fi";
    for folder in ["steps", "checkpoints", "loop_state"] {
        std::fs::write(world.root().join(folder).join("notes.tmp"), half).unwrap();
    }
    // Those of a process with the same number as the dead one.
    for name in [1, 99999, std::process::id()] {
        for number in 0..2000 {
            std::fs::write(world.root().join(format!(".tmp/{name}-{number}")), half).unwrap();
        }
    }
    let trace_id = trace(&recorder);
    drop(recorder);
    let files = world.files();
    let mut recorder = world.open(&files, trace_id);
    recorder.vote("bob", windlass_kernel::run::VoteDecision::Approved).unwrap();
    files.rebuild(trace(&recorder)).unwrap();
    std::fs::remove_file(world.root().join(format!("steps/{}_design.json", name(&recorder))))
        .unwrap();
    world.files().rebuild(trace(&recorder)).unwrap();
    for folder in ["steps", "checkpoints", "loop_state"] {
        let mut hidden: Vec<String> = std::fs::read_dir(world.root().join(folder))
            .unwrap()
            .map(|file| file.unwrap().file_name().into_string().unwrap())
            .filter(|name| name.starts_with('.') || name.ends_with(".tmp"))
            .collect();
        hidden.sort();
        assert_eq!(hidden, ["notes.tmp"], "{folder}");
    }
    assert_eq!(std::fs::read_dir(world.root().join(".tmp")).unwrap().count(), 0);
}

#[test]
fn many_threads_write_whole_files_only() {
    let mut world = World::new();
    let files = world.files();
    let recorders: Vec<_> = (0..4).map(|_| world.start(&files, spine()).unwrap()).collect();
    let mut recorders = recorders;
    for recorder in &mut recorders {
        recorder.drive(&passing()).unwrap();
    }
    let tree = world.tree();
    let root = world.root();
    std::fs::remove_dir_all(&root).unwrap();
    for recorder in &recorders {
        files.rebuild(trace(recorder)).unwrap();
    }
    assert_eq!(world.tree(), tree);
    for _ in 0..5 {
        for folder in ["steps", "terminal"] {
            std::fs::remove_dir_all(root.join(folder)).unwrap();
        }
        std::thread::scope(|scope| {
            for trace_id in recorders.iter().map(trace) {
                for _ in 0..2 {
                    let files = world.files();
                    scope.spawn(move || files.rebuild(trace_id).unwrap());
                }
            }
        });
        assert_eq!(world.tree(), tree);
    }
}
