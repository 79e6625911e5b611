//! What a tamperer, or a disk, does to the tables while no process lives.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use windlass_kernel::{ReplayPoint, ReplayPointState, RiskLevel, TraceId, Uuid7};
use windlass_store::Tables;

fn each_trace(tables: &mut Tables, change: impl Fn(&mut Vec<windlass_store::Record>)) {
    tables.entries.values_mut().for_each(change);
}

pub fn cut_tail(tables: &mut Tables) {
    each_trace(tables, |records| drop(records.pop()));
}

pub fn swap_bodies(tables: &mut Tables) {
    each_trace(tables, |records| {
        if let [first, second, ..] = records.as_mut_slice() {
            std::mem::swap(&mut first.body, &mut second.body);
        }
    });
}

pub fn remove_body(tables: &mut Tables) {
    each_trace(tables, |records| records.iter_mut().for_each(|record| record.body = None));
}

pub fn reorder(tables: &mut Tables) {
    each_trace(tables, |records| {
        if records.len() > 1 {
            records.swap(0, 1);
        }
    });
}

pub fn duplicate(tables: &mut Tables) {
    each_trace(tables, |records| records.extend(records.last().cloned()));
}

/// A request that asks for something else, body and digest alike.
pub fn rewrite(tables: &mut Tables) {
    each_trace(tables, |records| {
        if let Some(first) = records.first_mut() {
            let body = first.body.take().unwrap_or_default();
            let text = String::from_utf8(body).unwrap();
            let body = text.replace(RiskLevel::Write.as_str(), RiskLevel::Read.as_str());
            first.entry.artifact_digest = windlass_kernel::Digest::of(body.as_bytes());
            first.body = Some(body.into_bytes());
        }
    });
}

fn each_checkpoint(tables: &mut Tables, change: impl Fn(&mut ReplayPoint)) {
    tables.replay_points.values_mut().flatten().for_each(change);
}

pub fn future_checkpoint(tables: &mut Tables) {
    each_checkpoint(tables, |checkpoint| {
        let state = checkpoint.checkpoint_state;
        let last_sequence_number = state.last_sequence_number + 5;
        let state = ReplayPointState { last_sequence_number, ..state };
        *checkpoint = ReplayPoint::new(state, checkpoint.ts);
    });
}

pub fn tampered_checkpoint(tables: &mut Tables) {
    each_checkpoint(tables, |checkpoint| {
        checkpoint.checkpoint_state.current_state = windlass_kernel::State::Completed;
    });
}

pub fn stolen_key(tables: &mut Tables) {
    let thief = TraceId(Uuid7::from_parts(1, [1; 10]));
    tables.keys.values_mut().flatten().for_each(|record| record.trace_id = thief);
}
