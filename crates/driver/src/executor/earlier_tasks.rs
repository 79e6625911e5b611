//! The project's earlier tasks, as the journal has them.

use crate::{Memory, MemoryError};
use serde_json::Value;
use windlass_journal::{Check, JournalError, Reader, read_entry};
use windlass_kernel::run::{Event, NoteKind, Run, RunEvent};
use windlass_kernel::{Machine, State, TraceId, canon};
use windlass_store::{TraceFilter, TraceState};

use super::{Driver, is_ours, recorded};
use windlass_engine::EngineError;

/// How many traces are looked at in one go.
const PAGE: usize = 512;

impl Driver {
    /// The tasks of the project other than this one, newest first, as long as `more` wants one more.
    fn visit(
        &self,
        but: TraceId,
        open_only: bool,
        mut more: impl FnMut(&TraceState) -> Result<bool, EngineError>,
    ) -> Result<(), EngineError> {
        let mut before = None;
        loop {
            let filter = TraceFilter { open_only, state: None, before, limit: PAGE };
            let page = self.settings.store.list_traces(&filter)?;
            for trace in &page {
                let is_run = trace.head.state.is_some_and(|state| state.machine() == Machine::Run);
                if is_run
                    && trace.head.trace_id != but
                    && self.is_task(trace.head.trace_id)?
                    && !more(trace)?
                {
                    return Ok(());
                }
            }
            match page.last() {
                Some(last) if page.len() == PAGE => before = Some(last.head.trace_id),
                _ => return Ok(()),
            }
        }
    }

    /// Whether a run is a task of the driver, by its first entry alone.
    fn is_task(&self, trace_id: TraceId) -> Result<bool, EngineError> {
        let first = read_entry(self.settings.store.as_ref(), trace_id, 1)?;
        let body = first.and_then(|record| record.body);
        let event = body.and_then(|body| RunEvent::read(&body).ok()).map(|event| event.event);
        let Some(Event::Started(started)) = event else { return Ok(false) };
        Ok(started.plan.builtins().any(is_ours))
    }

    fn read(&self, trace_id: TraceId) -> Result<Run, EngineError> {
        Ok(Reader::state_of(self.settings.store.as_ref(), trace_id, Check::Verified)?)
    }

    /// Whether no task of the project has ended before this one.
    pub(super) fn is_first(&self, but: TraceId) -> Result<bool, EngineError> {
        let mut is_first = true;
        self.visit(but, false, |trace| {
            is_first &= trace.head.state != Some(State::Terminal);
            Ok(is_first)
        })?;
        Ok(is_first)
    }

    /// A task of the project that has not ended.
    pub(super) fn unfinished(&self, but: TraceId) -> Result<Option<TraceId>, EngineError> {
        let mut found = None;
        self.visit(but, true, |trace| {
            found = Some(trace.head.trace_id);
            Ok(false)
        })?;
        Ok(found)
    }

    /// Whether the person was asked for the context file, and nobody has seen it since.
    pub(super) fn was_asked(&self, but: TraceId) -> Result<bool, EngineError> {
        let mut was_asked = false;
        self.visit(but, false, |trace| {
            let run = self.read(trace.head.trace_id)?;
            let context = recorded::answer_of(&run, "context");
            match context.and_then(|context| context.get("asked")).and_then(Value::as_bool) {
                Some(asked) => {
                    was_asked = asked;
                    Ok(false)
                }
                None => Ok(true),
            }
        })?;
        Ok(was_asked)
    }

    /// The project's memory: every version that tasks have saved, in their order, checked.
    pub(super) fn remembered(&self, own: &Run) -> Result<Result<Memory, MemoryError>, EngineError> {
        let mut versions = Vec::new();
        collect(own, &self.settings.project_id, &mut versions)?;
        self.visit(own.head.trace_id, false, |trace| {
            let run = self.read(trace.head.trace_id)?;
            collect(&run, &self.settings.project_id, &mut versions)?;
            Ok(true)
        })?;
        versions.sort();
        let bytes: Vec<u8> = versions
            .into_iter()
            .flat_map(|(_, mut line)| {
                line.push(b'\n');
                line
            })
            .collect();
        Ok(Memory::from_bytes(&bytes))
    }
}

/// The versions that a task has saved, each with its number, as they are written.
fn collect(
    run: &Run,
    project: &str,
    versions: &mut Vec<(u64, Vec<u8>)>,
) -> Result<(), EngineError> {
    let trace_id = run.head.trace_id;
    for body in recorded::notes(run, NoteKind::Memory) {
        let saved = recorded::text(body, "kind") == Some("saved")
            && recorded::text(body, "project") == Some(project);
        let Some(version) = body.get("version").filter(|_| saved) else { continue };
        let number = version.get("version").and_then(Value::as_u64).unwrap_or_default();
        let line = canon::value_to_bytes(version)
            .map_err(|source| JournalError::NotCanonical { trace_id, source })?;
        versions.push((number, line));
    }
    Ok(())
}
