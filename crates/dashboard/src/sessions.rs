//! Guarded sessions of coding agents: the list, and one in full. A session is a run that its client drives; what
//! happened in it is noted in its run, and its calls are traces of their own.

use std::ops::ControlFlow;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use windlass_journal::{Check, Reader, Runs};
use windlass_kernel::run::{Event, NoteKind, Run};
use windlass_kernel::{Code, Timestamp, TraceId, Uuid7};

use crate::api::wanted;
use crate::call_list::{self, CallFilter, CallRow, short};
use crate::dashboard::{Context, now};
use crate::model::{RunItem, UnusableProject};
use crate::paging::Paging;
use crate::problem::Problem;
use crate::project::StopItem;
use crate::read;

/// The most prompts and other happenings of a session that are shown, the newest ones.
const HAPPENINGS_MAX: usize = 100;
/// The most characters of one of them.
const TEXT_CHARS_MAX: usize = 2_000;
/// How much later than the end of its session a call can have been requested, as clocks go.
const LATE_MS: i64 = 60_000;

/// A page of sessions.
#[derive(Debug, Serialize, JsonSchema)]
pub struct SessionsPage {
    /// The sessions, newest first.
    pub sessions: Vec<RunItem>,
    /// The cursor of the next page; `null` at the end.
    pub next: Option<String>,
    /// The projects that cannot be used; nothing of them is listed.
    pub unusable: Vec<UnusableProject>,
}

/// A session in full.
#[derive(Debug, Serialize, JsonSchema)]
pub struct SessionDetail {
    /// What a list shows of it.
    #[serde(flatten)]
    pub item: RunItem,
    /// The client's own id of the session.
    pub session: String,
    /// What stops its tools until it is lifted.
    pub stopped: Option<StopItem>,
    /// What an audit of the core loop has stopped it for.
    pub blocked: Option<BlockItem>,
    /// Uses of tools that were not asked about.
    pub unguarded: Vec<UnguardedItem>,
    /// What was entered and what else happened, oldest first: the newest hundred.
    pub happenings: Vec<Happening>,
    /// How many older ones there are.
    pub happenings_left_out: u64,
    /// Its calls, newest first.
    pub calls: Vec<CallRow>,
    /// The cursor of the next page of calls; `null` at the end.
    pub next: Option<String>,
}

/// Why a session is stopped.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct BlockItem {
    /// Since when.
    #[schemars(with = "String")]
    pub since: Timestamp,
    /// Why.
    pub reason: String,
    /// What is wrong.
    pub issue: String,
    /// What would be right.
    pub correction: String,
}

/// A use of a tool that was not asked about.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct UnguardedItem {
    /// When it was noticed.
    #[schemars(with = "String")]
    pub at: Timestamp,
    /// The tool, as the client names it.
    pub tool: String,
    /// The client's id of the use.
    pub id: Option<String>,
}

/// Something that happened in a session.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Happening {
    /// When.
    #[schemars(with = "String")]
    pub at: Timestamp,
    /// What, such as `prompt` or `planned`.
    pub kind: String,
    /// What it says.
    pub text: String,
}

/// Lists sessions.
///
/// # Errors
/// [`Problem`] if a journal cannot be read.
pub fn list(context: &Context<'_>) -> Result<SessionsPage, Problem> {
    context.require_all()?;
    let wanted = read::Wanted { sessions_only: true, ..wanted(context)? };
    let page = read::list(context, &wanted, now())?;
    let next = page.next.map(|next| next.to_string());
    Ok(SessionsPage { sessions: page.runs, next, unusable: context.unusable() })
}

/// The session in the path.
///
/// # Errors
/// [`Problem`] if there is none, or it fails verification.
pub fn one(context: &Context<'_>) -> Result<SessionDetail, Problem> {
    context.require_all()?;
    let (project, name) = (context.project()?, context.part("session")?);
    let store = project.store()?;
    let id = Runs::new(Arc::clone(&store)).find(name)?;
    let mut notes = Notes::default();
    let mut reader = Reader::<Run>::new(id, Check::Verified);
    reader.for_each(store.as_ref(), &mut |step| {
        if let Event::Noted { what: NoteKind::Agent, body } = &step.artifact.event {
            notes.add(step.entry.ts, body);
        }
        ControlFlow::Continue(())
    })?;
    let run = reader.into_state();
    let option = |name: &str| {
        let options = run.started.as_ref().map(|started| &started.options)?;
        options.get(name).and_then(Value::as_str).map(str::to_owned)
    };
    let (Some(session), Some(_)) = (option("session"), option("client")) else {
        let message = format!("`{name}` is not a session of a coding agent");
        return Err(Problem::new(Code::RunNotFound, message));
    };
    let is_live = store.is_held(&store.load_state(id)?)?;
    let summary = windlass_views::RunSummary::of(&run);
    let mut paging = Paging::of(context)?;
    // The calls of a session that ended long ago are not looked for among all that came later.
    let ended = run.ended.as_ref().and_then(|ended| just_after(ended.at));
    paging.before = paging.before.or(ended);
    let filter = CallFilter { run: Some(id), ..CallFilter::of(context)? };
    let calls = call_list::list_in(project.id(), store.as_ref(), &filter, paging)?;
    Ok(SessionDetail {
        item: RunItem::of(project.id(), &summary, is_live, now()),
        session,
        stopped: project.stopped(&summary.run_id)?,
        blocked: notes.blocked,
        unguarded: notes.unguarded,
        happenings: notes.happenings.into(),
        happenings_left_out: notes.left_out,
        calls: calls.items,
        next: calls.next.map(|next| next.to_string()),
    })
}

/// An id that is younger than those of all traces of a time.
fn just_after(at: Timestamp) -> Option<TraceId> {
    let ms = u64::try_from(at.unix_ms().saturating_add(LATE_MS)).ok()?;
    Some(TraceId(Uuid7::from_parts(ms, [0xff; 10])))
}

/// What the notes of a session say.
#[derive(Default)]
struct Notes {
    blocked: Option<BlockItem>,
    unguarded: Vec<UnguardedItem>,
    happenings: std::collections::VecDeque<Happening>,
    left_out: u64,
}

impl Notes {
    fn add(&mut self, at: Timestamp, body: &Value) {
        let text = |name: &str| body.get(name).and_then(Value::as_str).unwrap_or_default();
        let (kind, said) = match (text("note"), text("core")) {
            ("prompt", _) => {
                let number = body.get("number").and_then(Value::as_u64).unwrap_or_default();
                (format!("prompt {number}"), text("text").to_owned())
            }
            ("unguarded", _) => {
                let id = body.get("id").and_then(Value::as_str).map(str::to_owned);
                self.unguarded.push(UnguardedItem { at, tool: text("tool").to_owned(), id });
                ("unguarded".to_owned(), text("tool").to_owned())
            }
            ("let_through", _) => ("let through".to_owned(), text("call").to_owned()),
            ("policy_changed", _) => {
                ("policy changed".to_owned(), format!("from {} to {}", text("from"), text("to")))
            }
            ("rewound", _) => {
                ("files brought back".to_owned(), format!("{}: {}", text("by"), text("reason")))
            }
            ("core", core) => {
                self.note_core(at, body, core);
                let said = ["verdict", "intent", "missing", "reason", "step", "status", "detail"];
                let said = said.iter().map(|name| text(name)).filter(|text| !text.is_empty());
                (core.replace('_', " "), said.collect::<Vec<_>>().join(" · "))
            }
            ("event", _) => (text("event").to_owned(), text("subagent").to_owned()),
            // A note of a later version.
            (other, _) => (other.to_owned(), String::new()),
        };
        if self.happenings.len() == HAPPENINGS_MAX {
            self.happenings.pop_front();
            self.left_out += 1;
        }
        let text = said.chars().take(TEXT_CHARS_MAX).collect();
        self.happenings.push_back(Happening { at, kind: short(&kind, 60), text });
    }

    /// Follows whether an audit has stopped the session.
    fn note_core(&mut self, at: Timestamp, body: &Value, core: &str) {
        let text =
            |name: &str| body.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        match (core, text("verdict").as_str()) {
            ("audited", "OK" | "WARN") => {}
            ("audited", _) => {
                let (reason, issue) = (text("reason"), text("issue"));
                let correction = text("correction");
                self.blocked = Some(BlockItem { since: at, reason, issue, correction });
            }
            ("block_cleared", _) => self.blocked = None,
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_block_lasts_until_it_is_cleared() {
        let mut notes = Notes::default();
        let at = Timestamp::EPOCH;
        let audit = |verdict: &str| json!({ "note": "core", "core": "audited", "verdict": verdict, "reason": "r", "issue": "i", "correction": "c" });
        notes.add(at, &audit("WARN"));
        assert!(notes.blocked.is_none());
        notes.add(at, &audit("BLOCK"));
        assert_eq!(notes.blocked.as_ref().map(|block| block.issue.as_str()), Some("i"));
        notes.add(at, &audit("OK"));
        assert!(notes.blocked.is_some());
        let cleared =
            json!({ "note": "core", "core": "block_cleared", "by": "ada", "reason": "x" });
        notes.add(at, &cleared);
        assert!(notes.blocked.is_none());
    }

    #[test]
    fn the_newest_happenings_are_kept_and_the_others_counted() {
        let mut notes = Notes::default();
        for number in 1..=103 {
            let note = json!({ "note": "prompt", "number": number, "text": "do it" });
            notes.add(Timestamp::EPOCH, &note);
        }
        assert_eq!((notes.happenings.len(), notes.left_out), (100, 3));
        assert_eq!(notes.happenings[0].kind, "prompt 4");
    }
}
