//! A Windlass that is killed, and several commands at once.

use std::path::{Path, PathBuf};

use windlass_gate::{Allowed, Gate};
use windlass_kernel::Digest;

use crate::world::{NoCommits, World};

/// The folder of the rules that are used.
fn record(state: &Path) -> PathBuf {
    let only = |folder: &Path| {
        let mut entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        entries.find(|path| path.is_dir() && !path.ends_with("held")).unwrap()
    };
    only(&only(state))
}

/// What a killed process leaves: the file of its command, which nobody locks.
fn left_by_a_killed_process(state: &Path) {
    std::fs::write(record(state).join("calls/left"), "{\"paths\":[],\"sealed\":{}}").unwrap();
}

#[test]
fn what_a_killed_windlass_did_not_compare_is_compared_before_the_next_command() {
    let world = World::new();
    world.write("CLAUDE.md", "one");
    world.held(|| ());
    world.write("CLAUDE.md", "planted");
    world.write(".vscode/tasks.json", "planted");
    left_by_a_killed_process(&world.at("../state"));
    let unsettled = Gate::unsettled(&world.at("../state")).unwrap();
    assert!(matches!(&unsettled[..], [(workspace, _)] if *workspace == world.at("")));
    let held = world.gate().settle(&NoCommits).unwrap();
    assert_eq!(held.len(), 2, "{held:?}");
    assert!(held[0].starts_with(".vscode/tasks.json: others obey it"), "{held:?}");
    assert_eq!(world.read("CLAUDE.md").as_deref(), Some("one"));
    // Once.
    assert_eq!(world.gate().settle(&NoCommits).unwrap(), [""; 0]);
    world.write("CLAUDE.md", "by a person");
    world.held(|| ());
    assert_eq!(world.read("CLAUDE.md").as_deref(), Some("by a person"));
}

#[test]
fn a_command_that_starts_while_another_runs_accepts_nothing_of_it() {
    let world = World::new();
    let (first, second) = (world.watch(), {
        world.write(".vscode/tasks.json", "planted");
        world.watch()
    });
    let held = second.look(&NoCommits).unwrap();
    assert_eq!(world.names(&held), [".vscode/tasks.json"]);
    assert_eq!(first.look(&NoCommits).unwrap(), []);
}

#[test]
fn what_one_command_may_change_is_not_taken_from_it_by_another() {
    let world = World::new();
    let allowed = Allowed { paths: ["CLAUDE.md".to_owned()].into(), ..Allowed::default() };
    let (first, _) = world.gate().watch(allowed, None, &NoCommits).unwrap();
    let second = world.watch();
    world.write("CLAUDE.md", "as a person said");
    assert_eq!(second.look(&NoCommits).unwrap(), []);
    assert_eq!(first.look(&NoCommits).unwrap(), []);
    assert_eq!(world.read("CLAUDE.md").as_deref(), Some("as a person said"));
}

#[test]
fn a_state_that_cannot_be_understood_is_made_anew() {
    let world = World::new();
    world.write("CLAUDE.md", "one");
    world.held(|| ());
    std::fs::write(record(&world.at("../state")).join("seen.json"), "{}").unwrap();
    world.held(|| ());
    assert_eq!(world.held(|| world.write("CLAUDE.md", "two")), ["CLAUDE.md"]);
}

#[test]
fn what_was_held_back_when_nobody_was_there_is_told_once() {
    let world = World::new();
    let watch = world.watch();
    world.write(".vscode/tasks.json", "planted");
    watch.look_and_tell_later(&NoCommits).unwrap();
    drop(watch);
    assert_eq!(world.read(".vscode/tasks.json"), None);
    let (_, told) = world.gate().watch(Allowed::default(), None, &NoCommits).unwrap();
    assert!(matches!(&told[..], [one] if one.starts_with(".vscode/tasks.json: ")), "{told:?}");
    world.held(|| ());
}

#[test]
fn beside_a_server_whose_cell_shows_them_read_only_a_person_may_change_files() {
    let world = World::new();
    world.write("CLAUDE.md", "one");
    world.write(".claude/settings.json", "one");
    let (watch, _) = world.gate().watch(Allowed::default(), Some(100), &NoCommits).unwrap();
    assert_eq!(watch.sealed(), [world.at(".claude"), world.at("CLAUDE.md")]);
    world.write("CLAUDE.md", "two");
    world.write(".claude/new.md", "in a folder that the server cannot write");
    // A command that starts then has nothing to do with it.
    let command = world.watch();
    assert_eq!(command.look(&NoCommits).unwrap(), []);
    drop(command);
    assert!(world.at(".claude/new.md").exists());
    std::fs::rename(world.at(".claude"), world.at("aside")).unwrap();
    world.write(".claude/settings.json", "planted");
    world.write(".vscode/tasks.json", "planted");
    let held = watch.look(&NoCommits).unwrap();
    assert_eq!(
        world.names(&held),
        [".claude/new.md", ".claude/settings.json", ".vscode/tasks.json"]
    );
    assert_eq!(world.read("CLAUDE.md").as_deref(), Some("two"));
}

#[test]
fn what_a_tool_of_ours_has_written_is_accepted() {
    let world = World::new();
    let watch = world.watch();
    world.write(".vscode/tasks.json", "as a person said");
    let state = world.at("../state");
    let written = Digest::of(b"as a person said");
    Gate::accept(&state, &world.at(""), Path::new(".vscode/tasks.json"), written).unwrap();
    assert_eq!(watch.look(&NoCommits).unwrap(), []);
    world.write(".vscode/tasks.json", "planted");
    assert_eq!(watch.look(&NoCommits).unwrap().len(), 1);
    assert_eq!(world.read(".vscode/tasks.json").as_deref(), Some("as a person said"));
}

#[test]
fn what_a_killed_command_left_is_held_against_the_rules_that_it_had() {
    let world = World::new();
    world.held(|| ());
    world.write(".vscode/tasks.json", "planted");
    world.write("notes.md", "by a person, about which the new rules are");
    left_by_a_killed_process(&world.at("../state"));
    let other = world.under(&["**/notes.md"]);
    let (watch, told) = other.watch(Allowed::default(), None, &NoCommits).unwrap();
    assert!(matches!(&told[..], [one] if one.starts_with(".vscode/tasks.json: ")), "{told:?}");
    assert!(world.at("notes.md").exists());
    assert_eq!(watch.look(&NoCommits).unwrap(), []);
    drop(watch);
    assert!(Gate::unsettled(&world.at("../state")).unwrap().is_empty());
}

#[test]
fn a_command_under_other_rules_keeps_what_it_may_change() {
    let world = World::new();
    let allowed = Allowed { paths: ["CLAUDE.md".to_owned()].into(), ..Allowed::default() };
    let (_first, _) = world.under(&["**/CLAUDE.md"]).watch(allowed, None, &NoCommits).unwrap();
    let second = world.watch();
    world.write("CLAUDE.md", "as a person said");
    assert_eq!(second.look(&NoCommits).unwrap(), []);
}
