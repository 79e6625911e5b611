//! Answers as exact text, for each client and event.

use serde_json::json;
use windlass_hooks::{
    Answer, Client, HookOutput, MESSAGE_BYTES_MAX, REASON_BYTES_MAX, refuse_unreadable, render,
};

fn output(exit_code: u8, stdout: &str, stderr: &str) -> HookOutput {
    HookOutput { exit_code, stdout: stdout.to_owned(), stderr: stderr.to_owned() }
}

fn printed(stdout: &str) -> HookOutput {
    output(0, stdout, "")
}

fn refused() -> HookOutput {
    output(2, "", "refused: no")
}

fn halted() -> HookOutput {
    output(2, r#"{"continue":false,"stopReason":"refused: no"}"#, "refused: no")
}

/// The answers, in this order: proceed, allow, allow without prompt, allow with input, allow with input and without
/// prompt, deny, ask, defer, halt, tell.
fn answers() -> [Answer; 10] {
    let reason = || "no".to_owned();
    let allow = |input: bool, skip_prompt| Answer::Allow {
        input: input.then(|| json!({ "command": "x" })),
        skip_prompt,
    };
    [
        Answer::Proceed,
        allow(false, false),
        allow(false, true),
        allow(true, false),
        allow(true, true),
        Answer::Deny { reason: reason() },
        Answer::Ask { reason: reason(), input: None },
        Answer::Defer { reason: reason() },
        Answer::Halt { reason: reason() },
        Answer::Tell { text: "a\nb".to_owned() },
    ]
}

fn check(client: Client, event: &str, expected: [HookOutput; 10]) {
    for (answer, expected) in answers().iter().zip(expected) {
        assert_eq!(render(client, event, answer), expected, "{client:?} {event} {answer:?}");
    }
}

fn context(event: &str) -> HookOutput {
    let text = r#"{"hookSpecificOutput":{"additionalContext":"a\nb","hookEventName":"EVENT"}}"#;
    printed(&text.replace("EVENT", event))
}

fn message() -> HookOutput {
    printed(r#"{"systemMessage":"a\nb"}"#)
}

fn no_input() -> HookOutput {
    output(2, "", "refused: the client takes no changed input here")
}

const CHANGED: &str = r#"{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"allow","updatedInput":{"command":"x"}}}"#;

#[test]
fn claude_before_a_tool() {
    let decided = |decision: &str| {
        let text = r#"{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"DECISION","permissionDecisionReason":"no"}}"#;
        printed(&text.replace("DECISION", decision))
    };
    check(
        Client::Claude,
        "PreToolUse",
        [
            printed(""),
            printed(""),
            printed(
                r#"{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"allow"}}"#,
            ),
            printed(CHANGED),
            printed(CHANGED),
            refused(),
            decided("ask"),
            decided("defer"),
            halted(),
            context("PreToolUse"),
        ],
    );
}

#[test]
fn claude_when_a_permission_is_requested() {
    let decision = |decision: &str| {
        let text =
            r#"{"hookSpecificOutput":{"decision":{DECISION},"hookEventName":"PermissionRequest"}}"#;
        printed(&text.replace("DECISION", decision))
    };
    let deny = || decision(r#""behavior":"deny","message":"refused: no""#);
    check(
        Client::Claude,
        "PermissionRequest",
        [
            printed(""),
            printed(""),
            decision(r#""behavior":"allow""#),
            decision(
                r#""behavior":"deny","message":"refused: the client takes no changed input here""#,
            ),
            decision(r#""behavior":"allow","updatedInput":{"command":"x"}"#),
            deny(),
            printed(""),
            deny(),
            printed(
                r#"{"continue":false,"hookSpecificOutput":{"decision":{"behavior":"deny","interrupt":true,"message":"refused: no"},"hookEventName":"PermissionRequest"},"stopReason":"refused: no"}"#,
            ),
            message(),
        ],
    );
}

/// The answers to an event without a form of its own.
fn plain(halted: HookOutput, told: HookOutput) -> [HookOutput; 10] {
    let silence = || printed("");
    [
        silence(),
        silence(),
        silence(),
        no_input(),
        no_input(),
        refused(),
        refused(),
        refused(),
        halted,
        told,
    ]
}

#[test]
fn claude_at_other_events() {
    for event in
        ["SessionStart", "UserPromptSubmit", "SubagentStart", "PostToolUse", "PostToolUseFailure"]
    {
        check(Client::Claude, event, plain(halted(), context(event)));
    }
    for event in ["Stop", "SubagentStop", "ConfigChange", "SessionEnd", "Notification", "Tomorrow"]
    {
        check(Client::Claude, event, plain(halted(), message()));
    }
}

#[test]
fn codex_at_all_events() {
    let mut expected = plain(refused(), context("PreToolUse"));
    expected[3] = printed(CHANGED);
    expected[4] = printed(CHANGED);
    check(Client::Codex, "PreToolUse", expected);
    let mut expected = plain(refused(), message());
    expected[2] = printed(
        r#"{"hookSpecificOutput":{"decision":{"behavior":"allow"},"hookEventName":"PermissionRequest"}}"#,
    );
    check(Client::Codex, "PermissionRequest", expected);
    for event in ["SessionStart", "UserPromptSubmit", "SubagentStart", "PostToolUse"] {
        check(Client::Codex, event, plain(refused(), context(event)));
    }
    for event in ["PreCompact", "PostCompact", "SessionEnd", "SubagentStop", "Stop", "Tomorrow"] {
        check(Client::Codex, event, plain(refused(), message()));
    }
}

#[test]
fn gemini_at_all_events() {
    let mut expected = plain(halted(), message());
    let changed = r#"{"decision":"allow","hookSpecificOutput":{"hookEventName":"BeforeTool","tool_input":{"command":"x"}}}"#;
    expected[2] = printed(r#"{"decision":"allow"}"#);
    expected[3] = printed(changed);
    expected[4] = printed(changed);
    check(Client::Gemini, "BeforeTool", expected);
    for event in ["SessionStart", "BeforeAgent", "AfterTool"] {
        check(Client::Gemini, event, plain(halted(), context(event)));
    }
    for event in
        ["SessionEnd", "AfterAgent", "BeforeModel", "AfterModel", "PreCompress", "Notification"]
    {
        check(Client::Gemini, event, plain(halted(), message()));
    }
}

#[test]
fn opencode_at_all_events() {
    let allow = || printed(r#"{"decision":"allow"}"#);
    let changed = || printed(r#"{"decision":"allow","input":{"command":"x"}}"#);
    let deny = || output(2, r#"{"decision":"deny","reason":"refused: no"}"#, "refused: no");
    for event in [
        "tool.execute.before",
        "tool.execute.after",
        "session.created",
        "session.deleted",
        "chat.message",
    ] {
        let expected = [
            allow(),
            allow(),
            allow(),
            changed(),
            changed(),
            deny(),
            deny(),
            deny(),
            deny(),
            printed(r#"{"decision":"allow","reason":"a\nb"}"#),
        ];
        check(Client::OpenCode, event, expected);
    }
}

#[test]
fn an_event_that_cannot_be_read_is_refused() {
    for client in [None, Some(Client::Claude), Some(Client::Codex), Some(Client::Gemini)] {
        assert_eq!(refuse_unreadable(client, "no"), refused());
    }
    let deny = output(2, r#"{"decision":"deny","reason":"refused: no"}"#, "refused: no");
    assert_eq!(refuse_unreadable(Some(Client::OpenCode), "no"), deny);
}

#[test]
fn reasons_are_one_safe_line() {
    let shown = |reason: &str| refuse_unreadable(None, reason).stderr;
    for empty in ["", " \n", "\0", "\u{feff}", "\u{200b}\u{202e}", "--"] {
        assert_eq!(shown(empty), "refused: no reason was given", "{empty:?}");
    }
    assert_eq!(shown(" a\nb\tc\r\u{1b}[31m\u{202e}d "), "refused: a b c [31md");
    assert_eq!(shown(r#"{"decision":"allow"}"#), r#"refused: {"decision":"allow"}"#);
    for letter in ["x", "ö", "語", "𝒳"] {
        let cut = shown(&letter.repeat(REASON_BYTES_MAX));
        assert!((REASON_BYTES_MAX - 3..=REASON_BYTES_MAX).contains(&cut.len()), "{letter}");
        assert_eq!(cut.trim_start_matches("refused: ").replace(letter, ""), "");
    }
}

#[test]
fn an_empty_message_is_silence() {
    let told =
        |client, event, text: &str| render(client, event, &Answer::Tell { text: text.to_owned() });
    assert_eq!(told(Client::Claude, "PostToolUse", " \0"), printed(""));
    assert_eq!(told(Client::Gemini, "BeforeTool", ""), printed(""));
    let long = told(Client::Codex, "Stop", &"€".repeat(50_000)).stdout;
    assert_eq!(long, format!(r#"{{"systemMessage":"{}"}}"#, "€".repeat(MESSAGE_BYTES_MAX / 3)));
}
