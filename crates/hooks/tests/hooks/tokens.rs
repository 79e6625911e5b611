//! Tokens in clients' transcripts.

use windlass_hooks::Client;

#[test]
fn tokens_are_counted_once() {
    let tokens = |client, text: &str| {
        let read = windlass_hooks::read_transcript(client, text.as_bytes()).unwrap().tokens;
        (read.input, read.output)
    };
    let usage = r#"{"input_tokens":5,"cache_read_input_tokens":90,"cache_creation_input_tokens":5,"output_tokens":10}"#;
    let line = |id: &str| {
        format!(r#"{{"type":"assistant","message":{{"id":"{id}","usage":{usage},"content":[]}}}}"#)
    };
    let claude = format!("{}\n{}\n{}\n{{\"usage\":1}}\n", line("a"), line("a"), line("b"));
    assert_eq!(tokens(Client::Claude, &claude), (200, 20));
    let count = |input: u64| {
        format!(
            r#"{{"ordinal":9,"type":"event_msg","payload":{{"type":"token_count","info":{{"total_token_usage":{{"input_tokens":{input},"output_tokens":7}}}}}}}}"#
        )
    };
    let codex = format!("{}\n{}\n", count(100), count(250));
    assert_eq!(tokens(Client::Codex, &codex), (250, 7));
    let message = r#"{"id":"m","type":"gemini","tokens":{"input":100,"output":10,"thoughts":5}}"#;
    assert_eq!(tokens(Client::Gemini, &format!("{message}\n{message}\n")), (100, 15));
    assert_eq!(tokens(Client::Gemini, "{}"), (0, 0));
}
