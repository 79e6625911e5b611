//! `windlass install codex`: hooks that Codex must also be told to trust.

use std::os::unix::fs::PermissionsExt;

use crate::e2e::install::{SCOPES, file, install, place, read, records, uninstall, write};
use crate::harness::Place;

/// A program that answers as `codex app-server` does.
fn fake_codex(place: &Place, hooks: usize) {
    let program = place.base().join("codex");
    let script = include_str!("codex.sh").replace("@HOOKS@", &hooks.to_string());
    write(&program, &script);
    std::fs::set_permissions(&program, PermissionsExt::from_mode(0o755)).unwrap();
    place.settings(&format!("[agents.codex]\ncommand = [\"{}\"]\n", program.display()));
}

#[test]
fn codex_is_told_to_trust_the_hooks() {
    let place = place();
    let config = place.home().join(".codex/config.toml");
    fake_codex(&place, 9);
    for scope in SCOPES {
        for before in [None, Some("model = \"x\" # mine\n")] {
            let path = file(&place, "codex", scope);
            if let Some(before) = before {
                write(&config, before);
            }
            install(&place, "codex", &[scope]).exit(0).says("installed").warns("to trust");
            let trusted = read(&config);
            assert_eq!(trusted.matches("[hooks.state.").count(), 9, "{trusted}");
            assert_eq!(trusted.contains("trust_level"), scope == "--project", "{trusted}");
            install(&place, "codex", &[scope]).exit(0).quiet().says("nothing to change");
            assert_eq!(read(&config), trusted);
            place.run(&["status", "--json"]).exit(0).quiet();
            // Without trust the hooks are skipped.
            write(&config, &trusted.replacen("sha256:", "sha256:0", 1));
            place.run(&["status"]).exit(0).warns("hooks of codex").warns("what is trusted");
            match before {
                Some(before) => write(&config, before),
                None => std::fs::remove_file(&config).unwrap(),
            }
            place.run(&["status"]).exit(0).warns("hooks of codex");
            install(&place, "codex", &[scope]).exit(0).says("installed");
            assert_eq!(read(&config), trusted);
            uninstall(&place, "codex", &[scope]).exit(0).says("taken out");
            assert!(!path.exists());
            assert_eq!(std::fs::read_to_string(&config).ok().as_deref(), before);
            drop(std::fs::remove_file(&config));
        }
    }
}

#[test]
fn codex_that_cannot_be_told_is_said_or_leaves_nothing() {
    let place = place();
    let path = file(&place, "codex", "--project");
    let config = place.home().join(".codex/config.toml");
    let line = ["install", "codex", "--yes"];
    // No program: the hooks are written, and it is said that they are skipped.
    let outcome = place.run_with("PATH", "/nowhere", &line).exit(3);
    outcome.says("installed").warns("AGENT_UNGUARDED").warns("SKIPS");
    assert!(path.exists() && !config.exists());
    place.run(&["status"]).exit(0).warns("Codex does not trust them");
    fake_codex(&place, 9);
    install(&place, "codex", &[]).exit(0).says("installed");
    // Hooks that stay as they are need no Codex; hooks that change do.
    place.settings("");
    place.run_with("PATH", "/nowhere", &line).exit(0).says("nothing to change");
    let written = read(&path);
    write(&path, "{}");
    place.run_with("PATH", "/nowhere", &line).fails_with(3, "AGENT_UNGUARDED");
    write(&path, &written);
    uninstall(&place, "codex", &[]).exit(0);
    assert!(!path.exists() && !config.exists());
    // A Codex that does not know them all, one that ends, and a configuration that forbids them.
    fake_codex(&place, 8);
    install(&place, "codex", &[]).exit(3).warns("AGENT_UNGUARDED").warns("8 of the 9");
    let nothing = |place: &Place| {
        assert!(!path.exists() && !path.parent().unwrap().exists());
        assert_eq!(records(&place.state()), Vec::<String>::new());
    };
    nothing(&place);
    place.settings("[agents.codex]\ncommand = [\"/bin/true\"]\n");
    install(&place, "codex", &[]).exit(1).warns("AGENT_UNAVAILABLE");
    nothing(&place);
    fake_codex(&place, 9);
    for text in ["[features]\nhooks = false\n", "a = \n", "hooks = {}\n"] {
        write(&config, text);
        install(&place, "codex", &[]).exit(2).warns("CONFIG_INVALID");
        assert_eq!(read(&config), text);
        nothing(&place);
    }
}
