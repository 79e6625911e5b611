//! Programs that stand in the place of Windlass and fail.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use windlass_kernel::Code;

use super::cases::ProgramFault;
use crate::failure::Failure;

/// How long a program that never answers stays, in seconds; its client ends it before.
const HANG_SECONDS: u32 = 60;

/// Puts a program that fails in the place of one that works; `real` is that program.
pub fn replace(place: &Path, real: &Path, fault: ProgramFault) -> Result<(), Failure> {
    let at_call = match fault {
        ProgramFault::Missing => return remove(place),
        ProgramFault::NotExecutable => return put(place, &script(real, ANSWER, ""), 0o644),
        ProgramFault::Vanishes => return put(place, &script(real, ANSWER, "rm -- \"$0\""), 0o755),
        ProgramFault::Exits => "exit 1".to_owned(),
        ProgramFault::Killed => "kill -9 $$".to_owned(),
        ProgramFault::Hangs => format!("exec sleep {HANG_SECONDS}"),
        ProgramFault::Truncated => {
            format!("printf '%s' '{}'; exit 0", REFUSAL.trim_end_matches('}'))
        }
        ProgramFault::Chatters => format!("printf '%s\\n' 'a note' '{REFUSAL}'; exit 0"),
        ProgramFault::Silent => "exit 0".to_owned(),
    };
    put(place, &script(real, &at_call, ""), 0o755)
}

/// Puts a program in the place that does something of its own after the prompt.
pub fn act_after_prompt(place: &Path, real: &Path, root: &Path, line: &str) -> Result<(), Failure> {
    let line = format!("cd {} && {{ {line}; }}", quoted(root));
    put(place, &script(real, ANSWER, &line), 0o755)
}

/// A refusal that Claude Code, Codex and the bridge of OpenCode would understand, and one for Gemini CLI.
const REFUSAL: &str = r#"{"decision":"block","reason":"refused","hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"deny","permissionDecisionReason":"refused"}}"#;

const ANSWER: &str = "answer \"$@\"; exit $?";

/// Hands every event to the real program, but those before the use of a tool.
fn script(real: &Path, at_call: &str, after_prompt: &str) -> String {
    format!(
        "#!/bin/sh\n\
         event=$(cat)\n\
         answer() {{ printf '%s' \"$event\" | {} \"$@\"; }}\n\
         case $event in\n\
         *'\"PreToolUse\"'* | *'\"BeforeTool\"'* | *'\"tool.execute.before\"'*) {at_call} ;;\n\
         *'\"UserPromptSubmit\"'* | *'\"BeforeAgent\"'* | *'\"chat.message\"'*)\n\
         answer \"$@\"; code=$?\n\
         {after_prompt}\n\
         exit $code ;;\n\
         *) {ANSWER} ;;\n\
         esac\n",
        quoted(real)
    )
}

/// A path as one word of `sh`.
fn quoted(path: &Path) -> String {
    format!("'{}'", path.display().to_string().replace('\'', r"'\''"))
}

fn remove(place: &Path) -> Result<(), Failure> {
    std::fs::remove_file(place).map_err(|error| Failure::of(Code::FileUnwritable, &error))
}

/// Replaces a file and leaves alone what else has its bytes: it can be a link to the program that is running.
fn put(place: &Path, text: &str, mode: u32) -> Result<(), Failure> {
    let new = place.with_extension("new");
    std::fs::write(&new, text)
        .and_then(|()| std::fs::set_permissions(&new, std::fs::Permissions::from_mode(mode)))
        .and_then(|()| std::fs::rename(&new, place))
        .map_err(|error| Failure::of(Code::FileUnwritable, &error))
}
