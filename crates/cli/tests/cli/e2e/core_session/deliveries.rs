//! When the tracker is asked, and what becomes of what it could not take.

use std::path::PathBuf;

use serde_json::{Value, json};

use super::{Core, audited, git, reflected, told, verified};

/// A tracker that cannot be opened: a folder stands where its file should be.
struct Broken {
    database: PathBuf,
    aside: PathBuf,
}

impl Broken {
    fn of(core: &Core) -> Self {
        let database = core.place.state().join("work.db");
        let aside = core.place.home().join("work.db");
        for end in ["", "-wal", "-shm"] {
            let name = |path: &PathBuf| PathBuf::from(format!("{}{end}", path.display()));
            if name(&database).exists() {
                std::fs::rename(name(&database), name(&aside)).unwrap();
            }
        }
        std::fs::create_dir(&database).unwrap();
        Self { database, aside }
    }

    fn mend(self) {
        std::fs::remove_dir(&self.database).unwrap();
        for end in ["", "-wal", "-shm"] {
            let name = |path: &PathBuf| PathBuf::from(format!("{}{end}", path.display()));
            if name(&self.aside).exists() {
                std::fs::rename(name(&self.aside), name(&self.database)).unwrap();
            }
        }
    }
}

fn titles(core: &Core) -> Vec<String> {
    let items = core.place.run(&["work", "list", "--recent", "--json"]).exit(0).json();
    let title = |item: &Value| item["title"].as_str().unwrap().to_owned();
    items.as_array().unwrap().iter().map(title).collect()
}

fn blocks(core: &Core) -> usize {
    titles(core).iter().filter(|title| *title == "Blocked: scope drift").count()
}

#[test]
fn the_write_up_of_a_block_is_tried_again_by_later_sessions() {
    let core = Core::new();
    core.prompt("add a file").exit(0);
    core.plan("minor-edit");
    let broken = Broken::of(&core);
    core.judge_says("a", "custodiet", &audited("BLOCK")).exit(2);
    core.stop().exit(0);
    core.send("SessionEnd", &json!({ "reason": "other" })).exit(0);
    // Neither the end nor a session that begins while the tracker is broken writes it.
    let next = Core { place: core.place, id: "another-1" };
    next.send("SessionStart", &json!({ "source": "startup" })).exit(0);
    broken.mend();
    assert_eq!(blocks(&next), 0);
    next.prompt("go on").exit(0);
    assert_eq!(blocks(&next), 1);
    // The first session has it in its journal, too, and does not write it twice.
    let core = Core { place: next.place, id: "c0ffee00-1" };
    core.place.run(&["session", "clear-block", core.id, "--reason", "seen"]).exit(0);
    core.prompt("go on").exit(0);
    assert_eq!(blocks(&core), 1);
    let left = std::fs::read_dir(core.place.state().join("deliveries")).unwrap().flatten();
    let left: Vec<_> = left.map(|entry| entry.file_name()).filter(|name| *name != "lock").collect();
    assert_eq!(left, [] as [std::ffi::OsString; 0]);
}

#[test]
fn a_stop_without_a_close_asks_no_tracker() {
    let core = Core::new();
    core.prompt("add a file").exit(0);
    core.plan("minor-edit");
    core.judge_says("a", "custodiet", &audited("BLOCK")).exit(2);
    core.stop().exit(0);
    assert_eq!(titles(&core), [] as [&str; 0]);
    let next = Core { place: core.place, id: "another-1" };
    next.send("SessionStart", &json!({ "source": "startup" })).exit(0);
    assert_eq!(blocks(&next), 1);
    // The work that the critic has approved comes with it.
    assert!(titles(&next).contains(&"Add a file".to_owned()));
}

#[test]
fn the_framework_agent_gets_what_the_tracker_said_at_the_prompt() {
    let core = Core::new();
    core.place.run(&["work", "create", "Reflection: an earlier one"]).exit(0);
    core.prompt("add a file").exit(0);
    core.plan("minor-edit");
    let broken = Broken::of(&core);
    let started = core.start_judge("f", "framework").exit(0).json();
    assert!(started.to_string().contains("Reflection: an earlier one"), "{started}");
    broken.mend();
}

#[test]
fn a_close_by_hand_brings_the_tracker_up_to_date() {
    let core = Core::with("close = false");
    core.prompt("add a file").exit(0);
    core.plan("minor-edit");
    core.write("w1").exit(0);
    core.place.write("new.txt", "new\n");
    core.judge_says("q", "qa-verifier", &verified("VERIFIED")).exit(0);
    core.judge_says("f", "framework", &reflected()).exit(0);
    core.stop().exit(0);
    assert_eq!(titles(&core), [] as [&str; 0]);
    core.place.run(&["session", "close", core.id]).exit(0);
    let items = core.place.run(&["work", "list", "--recent", "--json"]).exit(0).json();
    let work = items.as_array().unwrap().iter().find(|item| item["title"] == "Add a file").unwrap();
    assert_eq!(work["status"], "closed", "{items}");
    assert!(titles(&core).contains(&"Reflection: Add a file".to_owned()), "{items}");
}

#[test]
fn a_tracker_that_hangs_does_not_keep_a_session() {
    let core = Core::new();
    let bin = core.place.home().join("bin");
    std::fs::create_dir_all(&bin).unwrap();
    let bd = bin.join("bd");
    std::fs::write(&bd, "#!/bin/sh\nsleep 60\n").unwrap();
    std::fs::set_permissions(&bd, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    core.place.write(".beads/here", "");
    git(&core.place, &["add", "-A"]);
    git(&core.place, &["commit", "-qm", "beads"]);
    git(&core.place, &["push", "-q"]);
    let mut hook = core.place.command(&["hook", "--client", "claude"]);
    let path = std::env::var("PATH").unwrap_or_default();
    hook.env("PATH", format!("{}:{path}", bin.display()));
    let event = json!({
        "session_id": core.id, "cwd": core.place.work(), "hook_event_name": "UserPromptSubmit", "prompt": "add a file",
        "transcript_path": "/nowhere/t",
    });
    let begun = std::time::Instant::now();
    let answer = crate::harness::finish(hook, event.to_string().as_bytes()).exit(0);
    assert!(told(&answer).contains("The tracker was not asked"), "{answer}");
    assert!(begun.elapsed().as_secs() < 15, "{:?}", begun.elapsed());
}
