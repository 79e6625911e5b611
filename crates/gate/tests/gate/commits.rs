//! What commits of commands have brought.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::io;

use windlass_gate::{Allowed, Asked, History, Mark, RelPath, Tips, Watch};

use crate::world::World;

/// A repository whose commit has whatever is there, and in which commands have committed one file.
#[derive(Default)]
struct Repository {
    /// Whether it can be told what commits have brought.
    is_mute: Cell<bool>,
    /// Since when it was asked about.
    asked: RefCell<Vec<Tips>>,
}

const BROUGHT: &str = "blob .vscode/tasks.json";

impl History for Repository {
    fn brought(
        &self,
        tips: &Tips,
        is_asked: &dyn Fn(&RelPath) -> bool,
    ) -> io::Result<BTreeSet<String>> {
        self.asked.borrow_mut().push(tips.clone());
        assert!(is_asked(&RelPath::from(".vscode/tasks.json")) && !is_asked(&RelPath::from("src")));
        match self.is_mute.get() {
            true => Err(io::Error::other("git hangs")),
            false => Ok([BROUGHT.to_owned()].into()),
        }
    }

    fn committed(&self, asked: &[Asked<'_>], doubted: &BTreeSet<String>) -> BTreeSet<RelPath> {
        let is_doubted = |path: &RelPath| doubted.contains(&format!("blob {path}"));
        asked.iter().map(|(path, _)| (*path).clone()).filter(|path| !is_doubted(path)).collect()
    }

    fn present(
        &self,
        names: &BTreeSet<String>,
        marks: &BTreeMap<RelPath, Mark>,
    ) -> BTreeSet<String> {
        let has = |name: &&String| marks.keys().any(|path| name.ends_with(&path.text()));
        names.iter().filter(has).cloned().collect()
    }
}

fn first() -> Tips {
    ["first".to_owned()].into()
}

fn watch(world: &World, history: &Repository) -> Watch {
    let allowed = Allowed { tips: Some(first()), ..Allowed::default() };
    let (watch, told) = world.gate().watch(allowed, None, history).unwrap();
    assert_eq!(told, [""; 0]);
    watch
}

#[test]
fn as_long_as_it_is_unknown_what_commits_brought_nothing_counts_as_committed() {
    let (world, history) = (World::new(), Repository::default());
    let command = watch(&world, &history);
    world.write(".vscode/tasks.json", "committed by the command");
    world.write("CLAUDE.md", "committed by a person");
    history.is_mute.set(true);
    let error = command.look(&history).unwrap_err().to_string();
    assert!(error.contains("git hangs"), "{error}");
    assert_eq!((world.read(".vscode/tasks.json"), world.read("CLAUDE.md")), (None, None));
    drop(command);
    // As long as it cannot be told, nothing starts, in whatever process.
    world.write(".vscode/tasks.json", "checked out by a later command");
    let error = world.gate().watch(Allowed::default(), None, &history).unwrap_err().to_string();
    assert!(error.contains("git hangs"), "{error}");
    assert_eq!(world.read(".vscode/tasks.json"), None);
    // Then it is asked since when the first command started, and what it brought stays doubted.
    history.is_mute.set(false);
    history.asked.take();
    world.write("CLAUDE.md", "as a person has it");
    let (_, told) = world.gate().watch(Allowed::default(), None, &history).unwrap();
    assert_eq!(told.len(), 3, "{told:?}");
    assert_eq!(world.read("CLAUDE.md").as_deref(), Some("as a person has it"));
    assert_eq!(history.asked.take(), [first()]);
    let command = watch(&world, &history);
    command.made_no_commit();
    world.write(".vscode/tasks.json", "checked out");
    assert_eq!(world.names(&command.look(&history).unwrap()), [".vscode/tasks.json"]);
    assert_eq!(history.asked.take(), [] as [Tips; 0]);
}

#[test]
fn what_a_killed_command_committed_is_doubted() {
    let (world, history) = (World::new(), Repository::default());
    drop(watch(&world, &history));
    // It was not looked at: the process has ended. Its commit has the file.
    world.write(".vscode/tasks.json", "committed by the command");
    let told = world.gate().settle(&history).unwrap();
    assert_eq!(told.len(), 1, "{told:?}");
    assert_eq!(world.read(".vscode/tasks.json"), None);
    assert_eq!(history.asked.take(), [first()]);
}

#[test]
fn what_another_command_committed_and_nobody_judged_is_doubted() {
    let (world, history) = (World::new(), Repository::default());
    let _first = watch(&world, &history);
    let (second, _) = world.gate().watch(Allowed::default(), None, &history).unwrap();
    world.write(".vscode/tasks.json", "committed by the first one");
    assert_eq!(world.names(&second.look(&history).unwrap()), [".vscode/tasks.json"]);
}

#[test]
fn what_was_accepted_in_the_workspace_is_doubted_no_more() {
    let (world, history) = (World::new(), Repository::default());
    world.write(".vscode/tasks.json", "by a person, and committed by a command");
    assert_eq!(watch(&world, &history).look(&history).unwrap(), []);
    let command = watch(&world, &history);
    command.made_no_commit();
    world.write(".vscode/tasks.json", "checked out");
    assert_eq!(command.look(&history).unwrap(), []);
}

#[test]
fn doubts_that_cannot_be_read_are_not_forgotten() {
    let (world, history) = (World::new(), Repository::default());
    let command = watch(&world, &history);
    world.write("CLAUDE.md", "x");
    let base = std::fs::read_dir(world.state()).unwrap().next().unwrap().unwrap().path();
    std::fs::write(base.join("doubted.json"), "[").unwrap();
    let error = command.look(&history).unwrap_err().to_string();
    assert!(error.contains("doubted.json"), "{error}");
    assert_eq!(world.read("CLAUDE.md"), None);
}
