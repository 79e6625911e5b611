//! `windlass install`: a session that a person starts is guarded from then on, and not before or after.

use crate::agents::lab::{Kind, Lab};
use crate::agents::session::{client, configure, run, script, shell};

/// A client without hooks does what the model says. With them, what policy denies has no effect, the model is told why,
/// and what is allowed is on record.
pub fn guard_a_session(kind: &'static Kind, scope: &'static str) {
    let denied = "touch denied; cat ~/.ssh/id_rsa";
    let calls = [shell(kind.name, denied), shell(kind.name, "touch made")];
    let Some(lab) = Lab::new(kind, &script(&calls)) else { return };
    configure(&lab);
    let (place, root) = (&lab.repo.place, lab.repo.root());
    if scope == "--user" {
        lab.windlass(&["init", "--user"]).exit(0);
    }
    lab.windlass(&["install", kind.name, scope, "--yes"]).exit(0);
    let ended = run(client(&lab));
    assert!(root.join("made").exists(), "{ended}\n{}", lab.told());
    assert!(!root.join("denied").exists(), "{ended}");
    assert!(lab.told().contains("refused: "), "{}", lab.told());
    let calls = lab.calls();
    let states: Vec<(&str, &str)> =
        calls.iter().map(|(tool, _, state)| (tool.as_str(), state.as_str())).collect();
    assert_eq!(states, [("shell/run", "DENIED"), ("shell/run", "COMPLETED")], "{ended}");
    assert_eq!(calls[1].1["line"], "touch made");
    lab.windlass(&["verify"]).exit(0);
    lab.windlass(&["status", "--json"]).exit(0).quiet();
    let runs = lab.windlass(&["status", "--json"]).exit(0).json();
    assert_eq!(runs[0]["loop"], "session", "{runs}");
    // Without hooks the same session is free.
    lab.windlass(&["uninstall", kind.name, scope, "--yes"]).exit(0);
    std::fs::remove_file(root.join("made")).expect("the file");
    let ended = run(client(&lab));
    assert!(root.join("denied").exists() && root.join("made").exists(), "{ended}");
    assert_eq!(lab.calls().len(), calls.len());
    assert!(!place.home().join(".codex/hooks.json").exists());
}

/// Where the client looks for a project's hooks: all look in the folder that they are started in, some also above it.
pub fn are_found_from_below(kind: &'static Kind) {
    let calls = [shell(kind.name, "touch denied; cat ~/.ssh/id_rsa")];
    let Some(lab) = Lab::new(kind, &script(&calls)) else { return };
    configure(&lab);
    let installed = lab.windlass(&["install", kind.name, "--project", "--yes"]).exit(0);
    let below = lab.repo.root().join("src");
    let mut command = client(&lab);
    command.current_dir(&below);
    let ended = run(command);
    // What stays open is told when the hooks are installed.
    let open = installed.stderr.contains("started in a folder below");
    assert_eq!(open, matches!(kind.name, "claude" | "gemini"), "{installed}");
    assert_eq!(below.join("denied").exists(), open, "{ended}");
    assert_eq!(lab.calls().is_empty(), open, "{ended}");
}

/// Hooks of the project and of the user at once: a client that would ask twice does not get both.
pub fn are_asked_once(kind: &'static Kind) {
    let calls = [shell(kind.name, "touch made")];
    let Some(lab) = Lab::new(kind, &script(&calls)) else { return };
    configure(&lab);
    lab.windlass(&["init", "--user"]).exit(0);
    lab.windlass(&["install", kind.name, "--user", "--yes"]).exit(0);
    let both = lab.windlass(&["install", kind.name, "--project", "--yes"]);
    assert_eq!(both.code == Some(0), matches!(kind.name, "claude" | "gemini"), "{both}");
    let ended = run(client(&lab));
    assert!(lab.repo.root().join("made").exists(), "{ended}");
    let states: Vec<String> = lab.calls().into_iter().map(|(_, _, state)| state).collect();
    assert_eq!(states, ["COMPLETED"], "{ended}");
}
