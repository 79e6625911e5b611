//! Which files have hooks.

use windlass_hooks::{Binary, Client, Content, Root, Scope, Trust, plan, trust_file};

use crate::install::BINARY;

#[test]
fn each_client_has_its_file() {
    let binary = Binary::new(BINARY).unwrap();
    for (client, project, variable, in_home, user) in [
        (Client::Claude, ".claude/settings.json", "CLAUDE_CONFIG_DIR", ".claude", "settings.json"),
        (Client::Codex, ".codex/hooks.json", "CODEX_HOME", ".codex", "hooks.json"),
        (Client::Gemini, ".gemini/settings.json", "GEMINI_CLI_HOME", ".gemini", "settings.json"),
        (
            Client::OpenCode,
            ".opencode/plugin/windlass.js",
            "XDG_CONFIG_HOME",
            ".config/opencode",
            "plugin/windlass.js",
        ),
    ] {
        let files = plan(client, Scope::Project, &binary);
        assert_eq!(files.len(), 1);
        assert_eq!((files[0].root, files[0].path), (Root::Project, project));
        let files = plan(client, Scope::User, &binary);
        assert_eq!(files.len(), 1);
        assert_eq!(files[0].path, user);
        let Root::User { variable: named, in_home: found, .. } = files[0].root else { panic!() };
        assert_eq!((named, found), (variable, in_home));
    }
    let trust = trust_file(Trust::default());
    assert_eq!(trust.path, "config.toml");
    assert_eq!(trust.content, Content::Trust(Trust::default()));
}
