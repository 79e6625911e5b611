//! What must hold between the journal and what the tools were told and did.

use std::collections::BTreeMap;

use serde_json::Value;
use windlass_kernel::{ArtifactType, State, ToolCallId};
use windlass_policy::{OnUncertain, Verdict};
use windlass_runtime::ReadDurability;
use windlass_store::Slot;

use super::invariant::{Outcome, Trace, has_person, require};
use super::supervisor::test_set;
use super::tools::{Dispatch, Standing};

fn is_read(tool: &str) -> bool {
    let found = test_set().registry().find("world", tool);
    found.is_some_and(|(_, tool)| !tool.class.writes())
}

fn trace_of<'a>(outcome: &'a Outcome<'_>, dispatch: &Dispatch) -> Option<&'a Trace> {
    let id = Some(dispatch.tool_call_id);
    let carries = |trace: &&Trace| trace.executing().is_some_and(|entry| entry.tool_call_id == id);
    outcome.traces.values().find(carries)
}

/// Nothing is handed over before the journal says so; only a read may be recorded with its effect.
pub(super) fn invariant_announced(outcome: &Outcome<'_>, _: &Outcome<'_>) -> Result<(), String> {
    for dispatch in &outcome.tools.dispatches {
        let later = outcome.scenario.reads == ReadDurability::WithEffect
            && is_read(&dispatch.tool)
            && dispatch.key.is_none();
        let unrecorded = dispatch.standing == Standing::Unrecorded;
        require(later || !unrecorded, || format!("{dispatch:?}"))?;
    }
    Ok(())
}

/// Nothing is handed over once its effect is recorded.
pub(super) fn invariant_no_dispatch_after_effect(
    outcome: &Outcome<'_>,
    _: &Outcome<'_>,
) -> Result<(), String> {
    for dispatch in &outcome.tools.dispatches {
        let ended = matches!(dispatch.standing, Standing::Ended { .. });
        require(!ended, || format!("{dispatch:?}"))?;
    }
    Ok(())
}

/// Every dispatch of a call has the id, the key and the arguments that are recorded.
pub(super) fn invariant_same_identity(
    outcome: &Outcome<'_>,
    _: &Outcome<'_>,
) -> Result<(), String> {
    let mut ids: BTreeMap<(&str, &str), ToolCallId> = BTreeMap::new();
    for dispatch in &outcome.tools.dispatches {
        if let Some(trace) = trace_of(outcome, dispatch) {
            let request = trace.body(ArtifactType::ActionRequest);
            let args = request.and_then(|body| body.pointer("/proposal/args"));
            let same = trace.tool() == dispatch.tool
                && trace.key() == dispatch.key.as_deref()
                && args == Some(&dispatch.args);
            require(same, || format!("recorded {request:?}, handed over {dispatch:?}"))?;
        }
        if let Some(key) = &dispatch.key {
            let id = *ids.entry((&dispatch.tool, key)).or_insert(dispatch.tool_call_id);
            require(id == dispatch.tool_call_id, || format!("{id} is also {dispatch:?}"))?;
        }
    }
    Ok(())
}

/// What policy denies is never handed over; what it asks about only after a person's approval.
pub(super) fn invariant_only_allowed(outcome: &Outcome<'_>, _: &Outcome<'_>) -> Result<(), String> {
    for dispatch in &outcome.tools.dispatches {
        let decided = trace_of(outcome, dispatch).map_or("", |trace| {
            let kind = ArtifactType::SupervisorDecision;
            require_approval(trace, kind)
        });
        let allowed = match outcome.honest.verdict(&dispatch.tool) {
            Verdict::Allow => true,
            Verdict::Ask => decided == "person",
            Verdict::Deny => false,
        };
        require(allowed, || format!("decided by {decided:?}: {dispatch:?}"))?;
    }
    Ok(())
}

fn require_approval(trace: &Trace, kind: ArtifactType) -> &str {
    let approved = trace.text(kind, "/decision") == "APPROVE";
    if approved { trace.text(kind, "/decided_by/by") } else { "" }
}

/// What a tool did under a key is what its call's end says: once, or not at all.
pub(super) fn invariant_executed_once(
    outcome: &Outcome<'_>,
    _: &Outcome<'_>,
) -> Result<(), String> {
    for (tool, key) in outcome.tools.runs.keys() {
        let known = outcome.traces.values().any(|trace| {
            trace.tool() == tool && trace.key() == Some(key) && trace.executing().is_some()
        });
        require(known, || format!("{tool} ran under {key:?}, which no trace has"))?;
    }
    for (trace_id, trace) in &outcome.traces {
        let (tool, key) = (trace.tool(), trace.key().unwrap_or_default());
        if is_read(tool) || trace.executing().is_none() {
            continue;
        }
        let run = outcome.tools.runs.get(&(tool.to_owned(), key.to_owned())).cloned();
        let run = run.unwrap_or_default();
        let did = run.executed.saturating_sub(run.undone);
        let by_person = trace.redispatches.iter().filter(|again| again.by.is_some()).count();
        let most = match Outcome::rule(tool) {
            OnUncertain::Hold => 1 + u32::try_from(by_person).unwrap_or(u32::MAX),
            OnUncertain::Retry | OnUncertain::Probe { .. } | OnUncertain::Compensate { .. } => 1,
        };
        let effect = ArtifactType::ToolEffect;
        let expected = match trace.text(effect, "/error/code") {
            "TOOL_COMPENSATED" => 0..=0,
            "TOOL_OUTCOME_UNKNOWN" => 0..=most,
            _ if trace.state == Some(State::Executing) => 0..=most,
            _ => 1..=most,
        };
        require(expected.contains(&did), || format!("{trace_id}: {run:?} for {expected:?}"))?;
    }
    Ok(())
}

/// Every dispatch after the first is recorded before it is made, and a person is behind those that
/// the tool's rule does not give.
pub(super) fn invariant_redispatches_recorded(
    outcome: &Outcome<'_>,
    _: &Outcome<'_>,
) -> Result<(), String> {
    for (trace_id, trace) in &outcome.traces {
        let Some(executing) = trace.executing() else { continue };
        let same = |dispatch: &&Dispatch| Some(dispatch.tool_call_id) == executing.tool_call_id;
        let dispatched = outcome.tools.dispatches.iter().filter(same).count();
        let again = &trace.redispatches;
        require(dispatched <= 1 + again.len(), || format!("{trace_id}: {dispatched} dispatches"))?;
        let numbered = again.iter().zip(2..).all(|(one, attempt)| one.attempt == attempt);
        require(numbered, || format!("{trace_id}: {again:?}"))?;
        let automatic = again.iter().filter(|one| one.by.is_none()).count();
        let found = test_set().registry().find("world", trace.tool());
        let retries_max =
            match found.map(|(server, tool)| (tool.on_uncertain(server, trace.key()), tool)) {
                None | Some((OnUncertain::Hold | OnUncertain::Compensate { .. }, _)) => 0,
                Some((OnUncertain::Retry | OnUncertain::Probe { .. }, tool)) => tool.retries_max,
            };
        let within = u32::try_from(automatic).is_ok_and(|count| count <= retries_max);
        require(within, || format!("{trace_id}: {automatic} redispatches by themselves"))?;
        require(automatic == again.len() || has_person(outcome.scenario), || {
            format!("{trace_id}: a person nobody asked: {again:?}")
        })?;
        if let Some(effect) = trace.body(ArtifactType::ToolEffect) {
            let told = effect.get("redispatches").and_then(Value::as_array).map(Vec::len);
            require(told == Some(again.len()), || format!("{trace_id}: {told:?} {again:?}"))?;
        }
    }
    Ok(())
}

/// A key belongs to the one call that is handed over under it, and that call has its key.
pub(super) fn invariant_keys_bound(outcome: &Outcome<'_>, _: &Outcome<'_>) -> Result<(), String> {
    for (trace_id, trace) in &outcome.traces {
        let (Some(executing), Some(key)) = (trace.executing(), trace.key()) else { continue };
        let slot = Slot {
            server_id: "world".to_owned(),
            tool_name: trace.tool().to_owned(),
            idempotency_key: key.to_owned(),
        };
        let bound = outcome.keys.get(&slot).is_some_and(|record| {
            record.trace_id == *trace_id
                && Some(record.reservation.tool_call_id) == executing.tool_call_id
        });
        require(bound, || format!("{trace_id} does not have its key {key:?}"))?;
    }
    for (slot, record) in &outcome.keys {
        let trace = outcome.traces.get(&record.trace_id);
        let used = trace.is_some_and(|trace| trace.executing().is_some());
        require(used, || format!("{slot:?} is reserved for nothing"))?;
    }
    Ok(())
}
