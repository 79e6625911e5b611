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
    std::fs::write(world.at("CLAUDE.md"), "two").unwrap();
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

#[test]
fn a_seal_holds_only_as_long_as_its_file_is_there() {
    use std::os::unix::ffi::OsStrExt as _;
    let world = World::new();
    world.write("CLAUDE.md", "one");
    world.write("sub/CLAUDE.md", "one");
    let odd = world.at("").join(std::ffi::OsStr::from_bytes(b"odd\xff/CLAUDE.md"));
    std::fs::create_dir(odd.parent().unwrap()).unwrap();
    std::fs::write(&odd, "one").unwrap();
    let (watch, _) = world.gate().watch(Allowed::default(), Some(100), &NoCommits).unwrap();
    assert!(watch.sealed().contains(&odd), "{:?}", watch.sealed());
    // An editor saves: the kernel lifts the seal, and the server can write the file.
    world.write("new", "two");
    std::fs::rename(world.at("new"), world.at("CLAUDE.md")).unwrap();
    std::fs::write(world.at("sub/CLAUDE.md"), "two").unwrap();
    assert_eq!(world.names(&watch.look(&NoCommits).unwrap()), ["CLAUDE.md"]);
    assert_eq!(world.read("CLAUDE.md").as_deref(), Some("one"));
    std::fs::write(world.at("CLAUDE.md"), "three").unwrap();
    assert_eq!(world.names(&watch.look(&NoCommits).unwrap()), ["CLAUDE.md"]);
    assert_eq!(world.read("sub/CLAUDE.md").as_deref(), Some("two"));
}

#[test]
fn only_what_was_approved_is_accepted() {
    let world = World::new();
    world.write("CLAUDE.md", "one");
    let watch = world.watch();
    world.write("CLAUDE.md", "swapped after the write");
    let approved = Digest::of(b"approved");
    let path = Path::new("CLAUDE.md");
    let error = Gate::accept(&world.state(), &world.at(""), path, approved).unwrap_err();
    assert!(error.to_string().contains("changed again"), "{error}");
    assert_eq!(world.names(&watch.look(&NoCommits).unwrap()), ["CLAUDE.md"]);
    assert_eq!(world.read("CLAUDE.md").as_deref(), Some("one"));
}

#[test]
fn a_command_under_other_rules_is_compared_with_what_was_there_when_it_started() {
    let world = World::new();
    world.write("CLAUDE.md", "one");
    let _running = world.watch();
    let (other, _) =
        world.under(&["**/{CLAUDE,x}.md"]).watch(Allowed::default(), None, &NoCommits).unwrap();
    world.write("x.md", "planted");
    assert_eq!(world.names(&other.look(&NoCommits).unwrap()), ["x.md"]);
    assert_eq!(world.read("CLAUDE.md").as_deref(), Some("one"));
}

#[test]
fn without_a_state_to_compare_with_nothing_is_accepted() {
    let world = World::new();
    let watch = world.watch();
    world.write(".vscode/tasks.json", "planted");
    std::fs::remove_file(record(&world.state()).join("seen.json")).unwrap();
    assert_eq!(world.names(&watch.look(&NoCommits).unwrap()), [".vscode/tasks.json"]);
}

#[test]
fn what_was_moved_when_windlass_was_killed_is_put_back() {
    let world = World::new();
    world.run("git", &["init", "-q", "mine"]);
    world.run("git", &["-C", "mine", "config", "core.pager", "less"]);
    let config = world.read("mine/.git/config");
    let watch = world.watch();
    world.write("mine/.git/config", "[core]\n\tpager = evil\n");
    let place = record(&world.state());
    let kept = place.join("moving.json");
    // As if it had been killed between the move and the end.
    let seen: serde_json::Value =
        serde_json::from_slice(&std::fs::read(place.join("seen.json")).unwrap()).unwrap();
    let mark = &seen["marks"]["mine/.git/config"];
    std::fs::write(&kept, serde_json::json!({ "mine/.git/config": mark }).to_string()).unwrap();
    std::fs::remove_file(world.at("mine/.git/config")).unwrap();
    drop(watch);
    world.gate().settle(&NoCommits).unwrap();
    assert_eq!(world.read("mine/.git/config"), config);
    assert!(!kept.exists());
}
