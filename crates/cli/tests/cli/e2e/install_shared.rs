//! `windlass install` where several clients, projects or installations share a file.

use crate::e2e::install::{file, install, place, read, uninstall, write};
use crate::harness::{Place, finish};

/// The agents and the command of the core loop.
fn of_core(folder: &std::path::Path) -> Vec<String> {
    let names = |name: &str| {
        let entries = std::fs::read_dir(folder.join(name)).into_iter().flatten();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect::<Vec<_>>()
    };
    let mut all = names("agents");
    all.extend(names("commands"));
    all.sort();
    all
}

#[test]
fn the_core_loop_of_one_client_is_not_another_ones() {
    let place = place();
    let is_core = || place.state().join("session-loop").exists();
    let core = ["--loop", "core"];
    install(&place, "claude", &core).exit(0);
    for client in ["opencode", "gemini"] {
        install(&place, client, &[]).exit(0);
        assert!(is_core(), "install {client}");
        install(&place, client, &[]).exit(0).says("nothing to change");
        assert!(is_core(), "install {client} again");
        uninstall(&place, client, &[]).exit(0);
        assert!(is_core(), "uninstall {client}");
        uninstall(&place, client, &[]).exit(0).says("nothing to change");
        assert!(is_core(), "uninstall {client} again");
    }
    // Its own client takes it away, and says so.
    install(&place, "claude", &[]).exit(0).warns("no longer go through the core loop");
    assert!(!is_core());
    install(&place, "claude", &core).exit(0);
    uninstall(&place, "claude", &[]).exit(0).warns("no longer go through the core loop");
    assert!(!is_core());
}

#[test]
fn installations_at_the_same_time_lose_nothing_of_each_other() {
    let place = place();
    let roots: Vec<_> = (0..6).map(|number| place.base().join(format!("p{number}"))).collect();
    for root in &roots {
        std::fs::create_dir(root).unwrap();
        let mut init = place.command(&["init"]);
        finish(
            {
                init.current_dir(root);
                init
            },
            &[],
        )
        .exit(0);
    }
    for round in ["install", "uninstall", "install"] {
        let started = roots.iter().map(|root| {
            let mut command = place.command(&[round, "gemini", "--project", "--yes"]);
            command.current_dir(root).spawn().unwrap()
        });
        let started: Vec<_> = started.collect();
        for child in started {
            let output = child.wait_with_output().unwrap();
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{round}: {said}");
        }
    }
    let trusted = read(&place.home().join(".gemini/trustedFolders.json"));
    for root in &roots {
        let root = root.canonicalize().unwrap();
        assert!(trusted.contains(root.to_str().unwrap()), "{} in {trusted}", root.display());
    }
}

#[test]
fn a_project_that_was_moved_loses_the_agents_of_its_core_loop() {
    let place = place();
    install(&place, "claude", &["--loop", "core"]).exit(0);
    let moved = place.base().join("moved");
    std::fs::rename(place.work(), &moved).unwrap();
    std::fs::create_dir(place.work()).unwrap();
    let run = |line: &[&str]| {
        let mut command = place.command(line);
        command.current_dir(&moved);
        finish(command, &[])
    };
    run(&["state", "move"]).exit(0);
    assert!(of_core(&moved.join(".claude")).len() > 2);
    let outcome = run(&["uninstall", "claude", "--yes"]).exit(0).says("taken out");
    assert!(!moved.join(".claude").exists(), "{outcome}");
}

#[test]
fn a_file_that_stays_is_not_told_as_taken_out() {
    let place = place();
    install(&place, "claude", &["--loop", "core"]).exit(0);
    let folder = place.work().join(".claude");
    let name = std::fs::read_dir(folder.join("agents")).unwrap().next().unwrap().unwrap();
    write(&name.path(), "mine now\n");
    let outcome = uninstall(&place, "claude", &[]).exit(0).says("taken out");
    assert_eq!(read(&name.path()), "mine now\n");
    assert!(!outcome.text().contains(&format!("  {}", name.path().display())), "{outcome}");
    outcome.warns("left as it is").warns(name.path().to_str().unwrap());
}

/// A place where the team has a file that is just as the core loop's.
fn with_file_of_team() -> (Place, std::path::PathBuf, String) {
    let place = place();
    install(&place, "claude", &["--loop", "core"]).exit(0);
    let agents = file(&place, "claude", "--project").with_file_name("agents");
    let path = std::fs::read_dir(agents).unwrap().next().unwrap().unwrap().path();
    let text = read(&path);
    uninstall(&place, "claude", &[]).exit(0);
    assert!(!path.exists());
    write(&path, &text);
    (place, path, text)
}

#[test]
fn a_file_that_was_there_before_two_installations_stays() {
    let (place, path, text) = with_file_of_team();
    install(&place, "claude", &["--loop", "core"]).exit(0);
    install(&place, "claude", &["--loop", "core"]).exit(0);
    uninstall(&place, "claude", &[]).exit(0);
    assert_eq!(read(&path), text);
}
