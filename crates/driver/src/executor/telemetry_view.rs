//! The telemetry of a task as a person or a program looks at it.

use serde::Serialize;
use serde_json::Value;
use windlass_kernel::run::{NoteKind, Run};
use windlass_kernel::{Digest, canon};

use super::recorded;

/// The telemetry of a task.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TaskTelemetry {
    /// The records, in order.
    pub records: Vec<Value>,
    /// The seals, in order; the last one closes the task.
    pub seals: Vec<TelemetrySeal>,
    /// Whether the last seal closes the task, covers every record and matches them.
    pub is_sealed: bool,
}

/// A seal over the records before it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TelemetrySeal {
    /// `sealed` by phase 8, `closed` at the end of the task.
    pub kind: String,
    /// The number of records that it covers.
    pub records: u64,
    /// Whether its number and digest are those of the records before it.
    pub matches: bool,
}

/// Reads the telemetry of a task, and compares each seal with the records before it.
#[must_use]
pub fn task_telemetry(run: &Run) -> TaskTelemetry {
    let mut bytes = Vec::new();
    let mut records: Vec<Value> = Vec::new();
    let mut seals: Vec<TelemetrySeal> = Vec::new();
    for note in run.notes.iter().filter(|note| note.what == NoteKind::Telemetry) {
        if let Some(record) = note.body.get("record") {
            bytes.extend(canon::value_to_bytes(record).unwrap_or_default());
            bytes.push(b'\n');
            records.push(record.clone());
            continue;
        }
        let kind = recorded::str_field(&note.body, "kind").unwrap_or_default();
        if !matches!(kind, "sealed" | "closed") {
            continue;
        }
        let count = recorded::field::<u64>(&note.body, "records").unwrap_or_default();
        let digest = recorded::field::<Digest>(&note.body, "digest");
        let matches = count == records.len() as u64 && digest == Some(Digest::of(&bytes));
        seals.push(TelemetrySeal { kind: kind.to_owned(), records: count, matches });
    }
    let all = seals.iter().all(|seal| seal.matches);
    let is_sealed = all
        && seals
            .last()
            .is_some_and(|seal| seal.kind == "closed" && seal.records == records.len() as u64);
    TaskTelemetry { records, seals, is_sealed }
}
