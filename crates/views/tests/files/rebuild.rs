//! Everything can be written again from the journal alone, after any death.

use windlass_engine::{Book, EngineError, Files};
use windlass_kernel::run::{Event, VoteDecision};
use windlass_kernel::{State, TraceId, Uuid7};

use crate::world::{Died, Script, World, built, failed, spine, trace, tree_of, verdict};

fn script() -> Script {
    Script::from([
        (("build", 1), built(1)),
        (("review", 1), verdict("needs_revision")),
        (("build", 2), built(2)),
        (("review", 2), verdict("waive")),
        (("steward", 1), failed("timeout")),
    ])
}

/// A run with a redo, a hold with two answers, a skipped phase and a failure.
fn play(world: &mut World, files: &Files, book: &mut Option<Book>) -> Result<(), Died> {
    let script = script();
    if book.is_none() {
        let started = world.start(files, spine());
        *book = Some(started?);
    }
    let book = book.as_mut().unwrap();
    loop {
        world.drive(book, files, &script)?;
        if book.run().ended.is_some() {
            return Ok(());
        }
        while book.run().hold.as_ref().unwrap().resolution()
            == windlass_kernel::run::Resolution::Open
        {
            let by = ["bob", "eve"][book.run().hold.as_ref().unwrap().votes.len()];
            world.vote(book, files, by, VoteDecision::Approved)?;
        }
        world.resume(book, files)?;
    }
}

#[test]
fn what_was_deleted_comes_back_as_it_was() {
    let mut world = World::new();
    let files = world.files();
    let mut book = None;
    play(&mut world, &files, &mut book).unwrap();
    let book = book.unwrap();
    let live = world.tree();
    assert_eq!(live.len(), 13);
    std::fs::remove_dir_all(world.root()).unwrap();
    let mut paths = world.files().rebuild(trace(&book)).unwrap();
    assert_eq!(world.tree(), live);
    paths.sort();
    let expected: Vec<_> = live.keys().map(|path| world.root().join(path)).collect();
    assert_eq!(paths, expected);
    // One file at a time.
    for path in live.keys() {
        std::fs::remove_file(world.root().join(path)).unwrap();
        files.rebuild(trace(&book)).unwrap();
        assert_eq!(world.tree(), live, "{path}");
    }
}

#[test]
fn a_death_after_any_append_leaves_what_the_journal_says() {
    let mut appends = 0;
    loop {
        appends += 1;
        let mut world = World::new();
        world.appends_left = appends;
        let mut book = None;
        let files = world.files();
        if play(&mut world, &files, &mut book) == Ok(()) {
            break;
        }
        drop(book);
        let trace_id = world.started.unwrap();
        // Another process takes the run up.
        world.appends_left = usize::MAX;
        let files = world.files();
        let mut book = world.open(trace_id);
        if book.run().head.state == Some(State::Running) {
            let by = "ana".to_owned();
            world.append(&mut book, &files, Event::Restarted { by }).unwrap();
        }
        windlass_engine::Projector::show(&files, book.run(), book.last()).unwrap();
        let caught_up = world.tree();
        let elsewhere = world.folder.path().join("elsewhere");
        world.files_at(&elsewhere).rebuild(trace_id).unwrap();
        assert_eq!(caught_up, tree_of(&elsewhere), "after {appends} appends");
        let mut book = Some(book);
        play(&mut world, &files, &mut book).unwrap();
        let live = world.tree();
        std::fs::remove_dir_all(world.root()).unwrap();
        world.files().rebuild(trace_id).unwrap();
        assert_eq!(world.tree(), live, "after {appends} appends");
    }
    assert!(appends > 30, "{appends}");
}

#[test]
fn only_a_run_that_holds_together_is_written() {
    let mut world = World::new();
    let files = world.files();
    let nobody = TraceId(Uuid7::from_parts(1, [1; 10]));
    assert!(matches!(files.rebuild(nobody), Err(EngineError::Store(_))));
    assert!(!world.root().exists());
    let mut book = None;
    play(&mut world, &files, &mut book).unwrap();
    let trace_id = trace(&book.unwrap());
    std::fs::remove_dir_all(world.root()).unwrap();
    world.shared.tamper(|tables| {
        tables.entries.get_mut(&trace_id).unwrap().pop();
    });
    assert!(matches!(files.rebuild(trace_id), Err(EngineError::Corrupt { .. })));
    assert!(!world.root().exists());
}
