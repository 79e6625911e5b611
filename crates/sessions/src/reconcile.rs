//! Compares a client's own record of a session with the journal.

use std::collections::BTreeSet;

use serde_json::Value;
use windlass_hooks::{
    Client, MappedCall, Mapping, ToolTable, ToolUse, Transcript, TranscriptUse, UseOutcome,
    unwrap_cell_line,
};
use windlass_kernel::{Call, Code, State, TraceId};
use windlass_runtime::parts;

use crate::history::SessionHistory;
use crate::note::{SessionNote, Unguarded};
use crate::tool_use::{plain_name, tool_use_ids};

/// What writes into a running shell of Codex, and has no hook.
const WRITE_STDIN: &str = "write_stdin";

/// What is needed to know which call of ours a use in a transcript is.
pub struct Reconciler<'a> {
    /// The client.
    pub client: Client,
    /// The folder that is worked in.
    pub root: &'a str,
    /// The paths of our program, under which it runs or ran lines of shell in cells.
    pub programs: &'a [String],
    /// Takes the secrets out of arguments, as they are taken out before they are recorded.
    pub redact: &'a dyn Fn(&mut Value),
}

impl Reconciler<'_> {
    /// The uses that happened and that the journal does not permit. `session` is the client's id.
    #[must_use]
    pub fn unguarded(
        &self,
        session: &str,
        transcript: &Transcript,
        history: &SessionHistory,
    ) -> Vec<Unguarded> {
        let given = history.calls.iter().filter(|call| was_given(call));
        let mut free: Vec<_> = given.flat_map(parts_of).map(Some).collect();
        let happened = transcript.uses.iter().filter(|one| match one.outcome {
            UseOutcome::Ran => true,
            // It may have been cancelled before it was asked about; this tool is never asked about.
            UseOutcome::MayHaveRun => one.tool == WRITE_STDIN,
            UseOutcome::Refused | UseOutcome::Unknown => false,
        });
        let cwd = transcript.cwd.as_deref().unwrap_or(self.root);
        let mut found = Vec::new();
        for one in happened {
            let is_missing = match &one.id {
                Some(id) => {
                    let parts = self.calls(one, cwd).map_or(0, |calls| calls.len());
                    self.chose_its_program(one)
                        || is_outside(self.client, one) && !is_permitted(history, id, parts)
                }
                None => match self.calls(one, cwd) {
                    Some(calls) => !take(&calls, &mut free),
                    None => false,
                },
            };
            if is_missing {
                let (session, tool) = (session.to_owned(), one.tool.clone());
                found.push(Unguarded { session, tool, id: one.id.clone() });
            }
        }
        found
    }

    /// Whether a line of shell ran by a program or with variables that nobody was asked about: the event before it may
    /// not show them, so that the line itself was permitted.
    fn chose_its_program(&self, one: &TranscriptUse) -> bool {
        one.outcome == UseOutcome::Ran
            && ToolTable::shipped().foreign_program(self.client, &as_tool_use(one)).is_some()
    }

    /// The calls that a use stands for, as they are recorded; `None` if it does nothing outside the client.
    fn calls(&self, one: &TranscriptUse, cwd: &str) -> Option<Vec<MappedCall>> {
        let table = ToolTable::shipped();
        let mut tool_use = as_tool_use(one);
        let line = table.command_of(self.client, &tool_use);
        let inner = line.and_then(|line| {
            self.programs.iter().find_map(|program| unwrap_cell_line(program, &line))
        });
        if let Some(input) =
            inner.and_then(|line| table.with_command(self.client, &tool_use, &line))
        {
            tool_use.input = input;
        }
        let mut calls = match table.map_within(self.client, &tool_use, self.root, cwd) {
            Mapping::Calls(calls) => calls,
            Mapping::Mcp { server, tool, args } => {
                vec![MappedCall { server: plain_name(&server), tool: plain_name(&tool), args }]
            }
            Mapping::Internal => return None,
            // Such a use is refused, so that no call permits it.
            Mapping::Unknown | Mapping::Invalid { .. } => return Some(Vec::new()),
        };
        calls.iter_mut().for_each(|call| (self.redact)(&mut call.args));
        Some(calls)
    }
}

fn as_tool_use(one: &TranscriptUse) -> ToolUse {
    ToolUse { id: None, name: one.tool.clone(), input: one.input.clone(), mcp_server: None }
}

/// Whether a use does something outside the client.
fn is_outside(client: Client, one: &TranscriptUse) -> bool {
    // It only waits for the output of a shell.
    let waits = one.tool == WRITE_STDIN
        && one.input.get("chars").and_then(Value::as_str).is_none_or(str::is_empty);
    let mapping = ToolTable::shipped().map_within(client, &as_tool_use(one), "/", "/");
    !waits && mapping != Mapping::Internal
}

/// Whether all calls of the use with this id were permitted. It stands for so many `parts`: a hook that died may have
/// recorded fewer.
fn is_permitted(history: &SessionHistory, id: &str, parts: usize) -> bool {
    let mut permitted: BTreeSet<TraceId> = BTreeSet::new();
    permitted.extend(history.notes.iter().filter_map(|(_, note)| match note {
        SessionNote::LetThrough { id: own, call } if own == id => Some(*call),
        SessionNote::LetThrough { .. }
        | SessionNote::Event { .. }
        | SessionNote::Prompt { .. }
        | SessionNote::Unguarded(_)
        | SessionNote::Core(_)
        | SessionNote::PolicyChanged { .. }
        | SessionNote::Rewound { .. } => None,
    }));
    let let_through = !permitted.is_empty();
    for call in history.calls.iter().filter(|call| tool_use_ids(call).any(|own| own == id)) {
        if was_given(call) {
            permitted.insert(call.head.trace_id);
        } else if !let_through && !is_repetition(call) {
            return false;
        }
    }
    let stands_for = |call: &&Call| permitted.contains(&call.head.trace_id);
    let count: usize =
        history.calls.iter().filter(stands_for).map(|call| parts_of(call).len()).sum();
    // A call that was let through in another session is not among those of this one.
    count.max(permitted.len()) >= parts.max(1)
}

/// Whether the client was given the call.
const fn was_given(call: &Call) -> bool {
    matches!(call.head.state, Some(State::Executing | State::Completed | State::Failed))
}

/// Whether it was refused because the same use had been permitted before.
fn is_repetition(call: &Call) -> bool {
    let code = call.decision.as_ref().and_then(|(decision, _)| decision.code);
    code == Some(Code::IdempotencyConflict)
}

/// The calls that a recorded one stands for.
fn parts_of(call: &Call) -> Vec<(&str, &str, &Value)> {
    call.request.as_ref().map_or_else(Vec::new, |(request, _)| parts(&request.proposal))
}

/// Takes one permitted call for each of these; false if there is none for one of them.
fn take(calls: &[MappedCall], slots: &mut [Option<(&str, &str, &Value)>]) -> bool {
    !calls.is_empty()
        && calls.iter().all(|wanted| {
            let wanted = (wanted.server.as_str(), wanted.tool.as_str(), &wanted.args);
            let found = slots.iter_mut().find(|slot| slot.is_some_and(|slot| slot == wanted));
            found.is_some_and(|slot| slot.take().is_some())
        })
}
