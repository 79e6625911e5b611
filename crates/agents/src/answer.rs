//! The answer of an agent: the tool `finish`, and results of calls as a model reads them.

use serde_json::{Map, Value, json};
use windlass_engine::executors::failure_reason;
use windlass_runtime::CallReport;

/// The largest answer, in bytes of JSON.
const ANSWER_BYTES_MAX: usize = 1 << 20;

/// The name of the tool by which an agent answers.
pub const FINISH: &str = "finish";

/// The schema of the arguments of `finish`.
#[must_use]
pub fn finish_schema(verdicts: &[String]) -> Value {
    let text = |description: &str| json!({ "type": "string", "description": description });
    let mut properties = Map::new();
    properties.insert("summary".to_owned(), text("What you did or found, in two sentences."));
    let mut required = vec!["summary"];
    if !verdicts.is_empty() {
        let verdict = json!({ "type": "string", "enum": verdicts, "description": "Your verdict." });
        properties.insert("verdict".to_owned(), verdict);
        properties.insert("reason".to_owned(), text("Why, in one sentence."));
        required = vec!["verdict"];
    }
    json!({
        "type": "object",
        "description": "Your answer, with all fields that your instructions name.",
        "properties": properties,
        "required": required,
        "additionalProperties": true,
    })
}

/// Checks the arguments of `finish`.
///
/// # Errors
/// What is wrong, for the agent.
pub fn check_finish(answer: &Value, verdicts: &[String]) -> Result<(), String> {
    let Some(object) = answer.as_object() else {
        return Err("the answer must be a JSON object".to_owned());
    };
    if serde_json::to_vec(answer).map_or(true, |bytes| bytes.len() > ANSWER_BYTES_MAX) {
        return Err(format!("the answer is larger than {ANSWER_BYTES_MAX} bytes; shorten it"));
    }
    if let Err(error) = windlass_kernel::canon::check(answer) {
        return Err(format!("the answer cannot be recorded: {error}"));
    }
    for key in ["summary", "verdict", "reason"] {
        if object.get(key).is_some_and(|value| !value.is_string()) {
            return Err(format!("`{key}` must be text"));
        }
    }
    if verdicts.is_empty() {
        return match object.get("summary").and_then(Value::as_str) {
            Some(text) if !text.trim().is_empty() => Ok(()),
            Some(_) | None => Err("`summary` is missing".to_owned()),
        };
    }
    match object.get("verdict").and_then(Value::as_str) {
        Some(verdict) if verdicts.iter().any(|name| name == verdict) => Ok(()),
        Some(verdict) => {
            Err(format!("`{verdict}` is no verdict here; use one of {}", verdicts.join(", ")))
        }
        None => Err(format!("`verdict` is missing; use one of {}", verdicts.join(", "))),
    }
}

/// The result of an ended call as text for a model.
#[must_use]
pub fn text_of(report: &CallReport) -> String {
    let mut text = result_text(&report.result);
    if let Some(reason) = failure_reason(report) {
        text = if text.is_empty() { reason } else { format!("{reason}\n{text}") };
    }
    if report.edited_args.is_some() {
        text.push_str("\n(a person changed the arguments of this call before it was made)");
    }
    text
}

fn result_text(result: &Value) -> String {
    let Some(object) = result.as_object() else {
        return if result.is_null() { String::new() } else { result.to_string() };
    };
    let field = |name: &str| object.get(name).and_then(Value::as_str);
    // The output of a command.
    if let (Some(stdout), Some(stderr)) = (field("stdout"), field("stderr")) {
        let mut text = stdout.to_owned();
        if !stderr.is_empty() {
            text.push_str(if text.is_empty() || text.ends_with('\n') { "" } else { "\n" });
            text.push_str("[stderr]\n");
            text.push_str(stderr);
        }
        match object.get("exit_code").and_then(Value::as_i64) {
            Some(0) => {}
            Some(code) => text.push_str(&format!("\n[exit code {code}]")),
            None => text.push_str("\n[ended by a signal]"),
        }
        return if text.trim().is_empty() { "(no output)".to_owned() } else { text };
    }
    // The result of an MCP tool.
    if let Some(content) = object.get("content").and_then(Value::as_array) {
        let texts = content.iter().filter_map(|part| part.get("text").and_then(Value::as_str));
        return texts.collect::<Vec<_>>().join("\n");
    }
    result.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_needs_what_the_phase_needs() {
        let verdicts = ["approved".to_owned(), "rejected".to_owned()];
        for (answer, verdicts, accepted) in [
            (json!({ "summary": "done" }), &[][..], true),
            (json!({ "summary": " " }), &[], false),
            (json!({}), &[], false),
            (json!([]), &[], false),
            (json!({ "summary": 1 }), &[], false),
            (json!({ "summary": "x", "n": 9_007_199_254_740_993_u64 }), &[], false),
            (json!({ "summary": "x".repeat(ANSWER_BYTES_MAX) }), &[], false),
            (json!({ "verdict": "approved", "reason": "fine" }), &verdicts, true),
            (json!({ "verdict": "fine" }), &verdicts, false),
            (json!({ "summary": "approved" }), &verdicts, false),
            (json!({ "verdict": ["approved"] }), &verdicts, false),
        ] {
            assert_eq!(check_finish(&answer, verdicts).is_ok(), accepted, "{answer:.80}");
        }
    }

    #[test]
    fn results_read_as_a_model_expects_them() {
        let output = json!({ "exit_code": 2, "signal": null, "stdout": "a\n", "stderr": "b" });
        assert_eq!(result_text(&output), "a\n[stderr]\nb\n[exit code 2]");
        let quiet = json!({ "exit_code": 0, "signal": null, "stdout": "", "stderr": "" });
        assert_eq!(result_text(&quiet), "(no output)");
        let mcp = json!({ "content": [{ "type": "text", "text": "x" }], "isError": false });
        assert_eq!(result_text(&mcp), "x");
    }
}
