//! Everything can be written again from the journal alone, after any death.

use std::sync::atomic::Ordering;

use windlass_engine::EngineError;
use windlass_journal::JournalError;
use windlass_kernel::run::{Event, VoteDecision};
use windlass_kernel::{State, TraceId, Uuid7};

use windlass_views::Files;

use crate::world::{
    Died, Script, TestRecorder, World, built, failed, spine, trace, tree_of, verdict,
};

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
fn play(world: &mut World, files: &Files, recorder: &mut Option<TestRecorder>) -> Result<(), Died> {
    let script = script();
    if recorder.is_none() {
        let started = world.start(files, spine());
        *recorder = Some(started?);
    }
    let recorder = recorder.as_mut().unwrap();
    loop {
        recorder.drive(&script)?;
        if recorder.run().ended.is_some() {
            return Ok(());
        }
        while recorder.run().hold.as_ref().unwrap().resolution()
            == windlass_kernel::run::Resolution::Open
        {
            let by = ["bob", "eve"][recorder.run().hold.as_ref().unwrap().votes.len()];
            recorder.vote(by, VoteDecision::Approved)?;
        }
        recorder.resume()?;
    }
}

#[test]
fn what_was_deleted_comes_back_as_it_was() {
    let mut world = World::new();
    let files = world.files();
    let mut recorder = None;
    play(&mut world, &files, &mut recorder).unwrap();
    let recorder = recorder.unwrap();
    let live = world.tree();
    assert_eq!(live.len(), 13);
    std::fs::remove_dir_all(world.root()).unwrap();
    let mut paths = world.files().rebuild(trace(&recorder)).unwrap();
    assert_eq!(world.tree(), live);
    paths.sort();
    let expected: Vec<_> = live.keys().map(|path| world.root().join(path)).collect();
    assert_eq!(paths, expected);
    // One file at a time.
    for path in live.keys() {
        std::fs::remove_file(world.root().join(path)).unwrap();
        files.rebuild(trace(&recorder)).unwrap();
        assert_eq!(world.tree(), live, "{path}");
    }
}

#[test]
fn a_death_after_any_append_leaves_what_the_journal_says() {
    let mut appends = 0;
    loop {
        appends += 1;
        let mut world = World::new();
        world.appends_left.store(appends, Ordering::SeqCst);
        let mut recorder = None;
        let files = world.files();
        if play(&mut world, &files, &mut recorder) == Ok(()) {
            break;
        }
        drop(recorder);
        let trace_id = world.started.unwrap();
        // Another process takes the run up.
        world.appends_left.store(usize::MAX, Ordering::SeqCst);
        let files = world.files();
        let mut recorder = world.open(&files, trace_id);
        if recorder.run().head.state == Some(State::Running) {
            let by = "ana".to_owned();
            recorder.append(Event::Restarted { by }).unwrap();
        }
        recorder.notify();
        let caught_up = world.tree();
        let elsewhere = world.folder.path().join("elsewhere");
        world.files_at(&elsewhere).rebuild(trace_id).unwrap();
        assert_eq!(caught_up, tree_of(&elsewhere), "after {appends} appends");
        let mut recorder = Some(recorder);
        play(&mut world, &files, &mut recorder).unwrap();
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
    assert!(matches!(files.rebuild(nobody), Err(EngineError::Journal(JournalError::Store(_)))));
    assert!(!world.root().exists());
    let mut recorder = None;
    play(&mut world, &files, &mut recorder).unwrap();
    let trace_id = trace(&recorder.unwrap());
    std::fs::remove_dir_all(world.root()).unwrap();
    world.shared.tamper(|tables| {
        tables.entries.get_mut(&trace_id).unwrap().pop();
    });
    assert!(matches!(
        files.rebuild(trace_id),
        Err(EngineError::Journal(JournalError::Corrupt { .. }))
    ));
    assert!(!world.root().exists());
}
