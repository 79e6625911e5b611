//! A trace as one line for each entry, and whether it holds.

use std::collections::BTreeSet;

use serde::Deserialize;
use serde_json::value::RawValue;
use windlass_kernel::canon::{self, CanonError};
use windlass_kernel::run::{Event, Run, RunEvent};
use windlass_kernel::{
    ArtifactType, ChainError, Digest, Entry, Head, Link, Links, PlanId, State, TraceId,
    is_call_artifact,
};

/// The longest line.
pub(crate) const LINE_BYTES_MAX: usize = 64 << 20;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line<'a> {
    #[serde(borrow)]
    body: Option<&'a RawValue>,
    #[serde(borrow)]
    entry: &'a RawValue,
}

/// Writes one entry with its artifact, or with `null` where that was purged.
pub(crate) fn write_line(entry: &Entry, body: Option<&[u8]>) -> Result<Vec<u8>, String> {
    let entry = canon::to_bytes(entry).map_err(|error| error.to_string())?;
    let body = body.unwrap_or(b"null");
    let line = [b"{\"body\":", body, b",\"entry\":", &entry, b"}\n"].concat();
    if body.contains(&b'\n') || line.len() > LINE_BYTES_MAX {
        return Err("an artifact does not fit into a line".to_owned());
    }
    Ok(line)
}

/// Reads what [`write_line`] writes, and nothing else.
pub(crate) fn read_line(line: &[u8]) -> Result<(Entry, Option<&[u8]>), String> {
    let parts: Line<'_> = serde_json::from_slice(line).map_err(|error| error.to_string())?;
    let value = canon::parse(parts.entry.get().as_bytes(), LINE_BYTES_MAX)
        .map_err(|error| error.to_string())?;
    let entry: Entry = serde_json::from_value(value).map_err(|error| error.to_string())?;
    let body = parts.body.map(|body| body.get().as_bytes());
    if write_line(&entry, body)? != line {
        return Err("it is not in canonical form".to_owned());
    }
    Ok((entry, body))
}

/// A tool call as an event of a run names it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Named {
    pub(crate) trace_id: TraceId,
    /// What it stood at, where that is known.
    pub(crate) at: Option<(Digest, State)>,
}

/// A trace that is being read.
pub(crate) struct Trace {
    /// The end of what holds so far.
    pub(crate) head: Head,
    /// How many artifacts were purged.
    pub(crate) purged: u64,
    /// The digests of a call's entries: never more than four.
    pub(crate) digests: Vec<Digest>,
    /// The calls that a run names.
    pub(crate) calls: Vec<Named>,
    /// The plan that a call says it belongs to.
    pub(crate) plan_id: Option<PlanId>,
    links: Links,
    run: Option<Box<Run>>,
    buffer: Vec<u8>,
}

impl Trace {
    pub(crate) fn new(trace_id: TraceId) -> Self {
        Self {
            head: Head::empty(trace_id),
            purged: 0,
            digests: Vec::new(),
            calls: Vec::new(),
            plan_id: None,
            links: Links::default(),
            run: None,
            buffer: Vec::new(),
        }
    }

    /// The run as all its events tell it; `None` when it is a call, or an event was purged.
    pub(crate) fn run(&self) -> Option<&Run> {
        if self.purged == 0 { self.run.as_deref() } else { None }
    }

    /// Checks that an entry with its artifact comes next.
    pub(crate) fn push(&mut self, entry: &Entry, body: Option<&[u8]>) -> Result<(), ChainError> {
        let head = self.head.admit(entry, &mut self.buffer)?;
        if is_call_artifact(entry.artifact_type) {
            self.digests.push(entry.entry_digest);
        }
        let Some(body) = body else {
            // The chain holds without its artifacts; what follows cannot be linked to them.
            self.purged += 1;
            self.head = head;
            return Ok(());
        };
        let mismatch = || ChainError::Artifact {
            sequence_number: entry.sequence_number,
            artifact: entry.artifact_type.as_str(),
        };
        if Digest::of(body) != entry.artifact_digest {
            return Err(mismatch());
        }
        if is_call_artifact(entry.artifact_type) {
            let link = Link::read(entry.artifact_type, body).map_err(|_| mismatch())?;
            if self.purged == 0 {
                self.links.follow(entry, link)?;
            }
            if entry.artifact_type == ArtifactType::ActionRequest {
                self.plan_id = plan_of(body);
            }
        } else {
            if self.purged == 0 {
                let run = self.run.get_or_insert_with(|| Box::new(Run::empty(entry.trace_id)));
                run.follow(entry, body, head)?;
            }
            let event = RunEvent::read(body).map_err(|_| mismatch())?;
            self.calls.extend(named(&event.event));
        }
        self.head = head;
        Ok(())
    }
}

fn plan_of(body: &[u8]) -> Option<PlanId> {
    #[derive(Deserialize)]
    struct Request {
        plan_id: PlanId,
    }
    serde_json::from_slice::<Request>(body).ok().map(|request| request.plan_id)
}

/// The calls that an event names.
fn named(event: &Event) -> Vec<Named> {
    if let Event::PhaseDone { done, .. } = event {
        let calls = done.calls.iter();
        return calls
            .map(|call| Named {
                trace_id: call.trace_id,
                at: Some((call.entry_digest, call.state)),
            })
            .collect();
    }
    let waits = match event {
        Event::Waiting { call, .. } => Some(*call),
        Event::Held(held) => held.call,
        Event::Started(_)
        | Event::Begun {}
        | Event::PhaseStarted { .. }
        | Event::PhaseSkipped { .. }
        | Event::Checked { .. }
        | Event::InvocationStarted { .. }
        | Event::InvocationEnded { .. }
        | Event::PhaseDone { .. }
        | Event::SentBack { .. }
        | Event::Warned { .. }
        | Event::Voted(_)
        | Event::Resumed { .. }
        | Event::Continued {}
        | Event::Restarted { .. }
        | Event::CommitPrepared { .. }
        | Event::Noted { .. }
        | Event::Ended { .. } => None,
    };
    waits.map(|trace_id| Named { trace_id, at: None }).into_iter().collect()
}

/// The traces of the tool calls that the stored event of a run names: they belong into its bundle.
///
/// # Errors
/// [`CanonError`] when the body is not an event of a run.
pub fn calls_of(body: &[u8]) -> Result<BTreeSet<TraceId>, CanonError> {
    Ok(named(&RunEvent::read(body)?.event).into_iter().map(|named| named.trace_id).collect())
}

/// The contents that the stored event of a run says its phase left behind, by their digests.
///
/// # Errors
/// [`CanonError`] when the body is not an event of a run.
pub fn contents_of(body: &[u8]) -> Result<BTreeSet<Digest>, CanonError> {
    let event = RunEvent::read(body)?.event;
    let Event::PhaseDone { done, .. } = event else { return Ok(BTreeSet::new()) };
    Ok(done.outputs.values().copied().collect())
}
