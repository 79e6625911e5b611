//! Reads the project's earlier tasks from the journal.

use std::sync::Arc;

use crate::{Memory, MemoryError};
use serde_json::Value;
use windlass_journal::{Check, JournalError, Reader, Runs, read_entry};
use windlass_kernel::run::plan::Plan;
use windlass_kernel::run::{Event, NoteKind, Run, RunEvent, RunName, Started};
use windlass_kernel::{Machine, State, TraceId, canon};
use windlass_store::{TraceFilter, TraceState};

use super::{Driver, is_driver_builtin, recorded};
use windlass_engine::EngineError;

/// The number of traces in one page.
const PAGE: usize = 512;

impl Driver {
    /// Calls `visit` with the tasks of the project except one, newest first, until it returns `false`.
    fn for_each_task(
        &self,
        except: TraceId,
        open_only: bool,
        mut visit: impl FnMut(&TraceState) -> Result<bool, EngineError>,
    ) -> Result<(), EngineError> {
        let mut before = None;
        loop {
            let machine = Some(Machine::Run);
            let filter = TraceFilter { open_only, machine, before, ..TraceFilter::all(PAGE) };
            let page = self.settings.store.list_traces(&filter)?;
            for trace in &page {
                if trace.head.trace_id != except
                    && self.is_task(trace.head.trace_id)?
                    && !visit(trace)?
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

    /// Whether a run is a task of the driver; reads only its first entry.
    fn is_task(&self, trace_id: TraceId) -> Result<bool, EngineError> {
        Ok(self.started(trace_id)?.is_some_and(|started| is_task(&started.plan)))
    }

    /// The first entry of a run.
    fn started(&self, trace_id: TraceId) -> Result<Option<Box<Started>>, EngineError> {
        let first = read_entry(self.settings.store.as_ref(), trace_id, 1)?;
        let body = first.and_then(|record| record.body);
        let event = body.and_then(|body| RunEvent::read(&body).ok()).map(|event| event.event);
        let Some(Event::Started(started)) = event else { return Ok(None) };
        Ok(Some(started))
    }

    fn read(&self, trace_id: TraceId) -> Result<Run, EngineError> {
        Ok(Reader::state_of(self.settings.store.as_ref(), trace_id, Check::Verified)?)
    }

    /// Whether no other task of the project has ended.
    pub(super) fn is_first(&self, except: TraceId) -> Result<bool, EngineError> {
        let mut is_first = true;
        self.for_each_task(except, false, |trace| {
            is_first &= trace.head.state != Some(State::Terminal);
            Ok(is_first)
        })?;
        Ok(is_first)
    }

    /// Returns another task of the project that has not ended, or a run of another loop that has not ended and works in
    /// the project's own workspace.
    pub(super) fn unfinished(&self, except: TraceId) -> Result<Option<TraceId>, EngineError> {
        let mut before = None;
        loop {
            let machine = Some(Machine::Run);
            let filter = TraceFilter { machine, before, ..TraceFilter::open(PAGE) };
            let page = self.settings.store.list_traces(&filter)?;
            for trace in &page {
                let trace_id = trace.head.trace_id;
                if trace_id != except
                    && let Some(started) = self.started(trace_id)?
                    && (is_task(&started.plan)
                        || (started.worktree.is_none() && !started.plan.is_session()))
                {
                    return Ok(Some(trace_id));
                }
            }
            match page.last() {
                Some(last) if page.len() == PAGE => before = Some(last.head.trace_id),
                _ => return Ok(None),
            }
        }
    }

    /// Whether a name is that of a task of the driver in this journal.
    pub(super) fn is_task_of(&self, name: &RunName) -> bool {
        let runs = Runs::new(Arc::clone(&self.settings.store));
        let found = runs.find_named(name).ok().flatten();
        found.is_some_and(|trace_id| self.is_task(trace_id).unwrap_or(false))
    }

    /// Whether the newest task that looked for the context file asked the person for it.
    pub(super) fn was_asked(&self, except: TraceId) -> Result<bool, EngineError> {
        let mut was_asked = false;
        self.for_each_task(except, false, |trace| {
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

    /// The project's memory: all versions that tasks have saved, in order, verified.
    pub(super) fn recorded_memory(
        &self,
        own: &Run,
    ) -> Result<Result<Memory, MemoryError>, EngineError> {
        let mut versions = Vec::new();
        collect(own, &self.settings.project_id, &mut versions)?;
        self.for_each_task(own.head.trace_id, false, |trace| {
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

/// Whether a plan is that of a task of the driver.
fn is_task(plan: &Plan) -> bool {
    plan.builtins().any(is_driver_builtin)
}

/// Collects the versions that a task has saved: their numbers and canonical bytes.
fn collect(
    run: &Run,
    project: &str,
    versions: &mut Vec<(u64, Vec<u8>)>,
) -> Result<(), EngineError> {
    let trace_id = run.head.trace_id;
    for body in recorded::notes(run, NoteKind::Memory) {
        let saved = recorded::str_field(body, "kind") == Some("saved")
            && recorded::str_field(body, "project") == Some(project);
        let Some(version) = body.get("version").filter(|_| saved) else { continue };
        let number = version.get("version").and_then(Value::as_u64).unwrap_or_default();
        let line = canon::value_to_bytes(version)
            .map_err(|source| JournalError::NotCanonical { trace_id, source })?;
        versions.push((number, line));
    }
    Ok(())
}
