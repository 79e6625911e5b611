//! Where clients keep their transcripts.

use windlass_hooks::{Client, ProjectSign, Root, read_transcript, transcript_places};

#[test]
fn opencode_has_a_database() {
    assert_eq!(read_transcript(Client::OpenCode, b"{}\n"), None);
    assert_eq!(transcript_places(Client::OpenCode, "/srv/project"), None);
}

#[test]
fn places_are_below_the_users_folder_of_the_client() {
    let places = |client, root: &str| -> Vec<_> {
        let places = transcript_places(client, root).unwrap();
        places.into_iter().map(|p| (p.root, p.folder, p.file, p.subagents, p.project)).collect()
    };
    let user = |variable, below, in_home| Root::User { variable, below, in_home };
    let claude = user("CLAUDE_CONFIG_DIR", "", ".claude");
    let folder = |path: &str| format!("projects/-srv-{path}");
    assert_eq!(
        places(Client::Claude, "/srv/a_b.c dü😀é"),
        [
            (claude, folder("a-b-c-d----*"), "*.jsonl", false, ProjectSign::Cwd),
            (claude, folder("a-b-c-d----*/*/subagents"), "agent-*.jsonl", true, ProjectSign::Cwd),
        ]
    );
    let long = places(Client::Claude, &format!("/srv/{}", "x".repeat(300)))[0].1.clone();
    assert_eq!(long, folder(&format!("{}*", "x".repeat(195))));
    let codex = user("CODEX_HOME", "", ".codex");
    let sessions = "sessions/*/*/*".to_owned();
    assert_eq!(
        places(Client::Codex, "/srv/project"),
        [(codex, sessions, "rollout-*.jsonl", false, ProjectSign::Cwd)]
    );
    let gemini = user("GEMINI_CLI_HOME", ".gemini", ".gemini");
    let sign = ProjectSign::File(".project_root");
    assert_eq!(
        places(Client::Gemini, "/srv/project"),
        [
            (gemini, "tmp/*/chats".to_owned(), "session-*.json*", false, sign),
            (gemini, "tmp/*/chats/*".to_owned(), "*.jsonl", true, sign),
        ]
    );
}
