//! Lets a test change the journal in SQLite without the product, as if `entries` were one plain table with
//! a row for each entry.
//!
//! The encoding of entry batches is implemented here a second time, independently of the product, so
//! that a change of the format does not go unnoticed.
#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a test cannot go on without a journal"
)]

use rusqlite::config::DbConfig;
use rusqlite::functions::{Context, FunctionFlags};
use rusqlite::types::{Null, ToSqlOutput, Value, ValueRef};
use rusqlite::{Connection, Result, params};

/// The fields of an entry in a batch, in their order.
const FIELDS: [&str; 21] = [
    "trace_id",
    "prev_entry_digest",
    "ts",
    "from_state",
    "to_state",
    "artifact_type",
    "artifact_id",
    "artifact_digest",
    "tool_call_id",
    "idempotency_key",
    "entry_digest",
    "plan_id",
    "holder",
    "released",
    "server_id",
    "tool_name",
    "request_digest",
    "reserved_key",
    "reserved_call",
    "checksum",
    "body",
];
/// The fields that are text.
const TEXTS: [&str; 7] = [
    "from_state",
    "to_state",
    "artifact_type",
    "idempotency_key",
    "server_id",
    "tool_name",
    "reserved_key",
];
/// The positions of the digest of the entry before, and of the entry's own digest.
const PREVIOUS: usize = 1;
const DIGEST: usize = 10;
/// The position of the checksum, which covers the fields from the digest to the one before it.
const CHECKSUM: usize = 19;

type Fields = Vec<Option<Vec<u8>>>;

/// Creates `entries`, a view that can be read and changed, and switches the triggers off that refuse
/// changes. The checksums of changed rows are made anew, so that what is changed looks as if the product had
/// written it. The connection should be used for nothing else.
///
/// # Errors
/// An error of SQLite.
pub fn tamper(connection: &Connection) -> Result<()> {
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false)?;
    for table in ["first_batches", "later_batches"] {
        split(connection, table)?;
    }
    let flags = FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_DETERMINISTIC;
    connection.create_scalar_function("field_of", 2, flags, |context| {
        let fields = entries_of(context.get_raw(0).as_blob().unwrap_or_default());
        let at = usize::from(context.get::<u16>(1)?);
        Ok(value_of(at, fields.first().and_then(|fields| fields.get(at)?.as_deref())))
    })?;
    connection.create_scalar_function("batch_of", 21, flags, |context| {
        let fields: Fields = (0..FIELDS.len()).map(|at| bytes_of(context, at)).collect();
        Ok(batch_of(&fields))
    })?;
    let columns = (FIELDS.iter().enumerate())
        .map(|(at, name)| format!("field_of(entries, {at}) AS {name}"))
        .collect::<Vec<_>>()
        .join(", ");
    let batch = format!("batch_of({})", FIELDS.map(|name| format!("NEW.{name}")).join(", "));
    connection.execute_batch(&format!(
        "CREATE TEMP VIEW entries AS SELECT id, {columns} FROM entry_batches;
         CREATE TEMP TRIGGER update_entries INSTEAD OF UPDATE ON entries BEGIN
             UPDATE first_batches SET id = NEW.id, entries = {batch} WHERE id = OLD.id;
             UPDATE later_batches SET id = NEW.id, entries = {batch} WHERE id = OLD.id;
         END;
         CREATE TEMP TRIGGER delete_entries INSTEAD OF DELETE ON entries BEGIN
             DELETE FROM first_batches WHERE id = OLD.id;
             DELETE FROM later_batches WHERE id = OLD.id;
         END;
         CREATE TEMP TRIGGER insert_entries INSTEAD OF INSERT ON entries BEGIN
             DELETE FROM first_batches WHERE id = NEW.id;
             DELETE FROM later_batches WHERE id = NEW.id;
             INSERT INTO later_batches VALUES (NEW.id, {batch});
         END;"
    ))?;
    connection.create_scalar_function("trace_checksum", -1, flags, |context| {
        let values: Vec<ValueRef<'_>> = (0..context.len()).map(|at| context.get_raw(at)).collect();
        Ok(checksum(&row_bytes(&values)))
    })?;
    let columns = TRACE_COLUMNS.map(|name| format!("NEW.{name}")).join(", ");
    connection.execute_batch(&format!(
        "CREATE TEMP TRIGGER update_traces AFTER UPDATE ON main.traces
         WHEN NEW.checksum = OLD.checksum BEGIN
             UPDATE traces SET checksum = trace_checksum({columns}) WHERE trace_id = NEW.trace_id;
         END;"
    ))
}

/// The columns that the checksum of a row in `traces` covers, in their order.
const TRACE_COLUMNS: [&str; 11] = [
    "trace_id",
    "plan_id",
    "trace_number",
    "state",
    "last_sequence_number",
    "last_entry_digest",
    "tool_call_id",
    "holder",
    "fence",
    "open",
    "redispatches",
];

/// Each value as its type (0 for none, 1 for a number, 2 for text, 3 for bytes), its length (eight bytes,
/// big-endian) and its bytes.
fn row_bytes(values: &[ValueRef<'_>]) -> Vec<u8> {
    let mut all = Vec::new();
    for value in values {
        let (kind, bytes) = match value {
            ValueRef::Null | ValueRef::Real(_) => (0, Vec::new()),
            ValueRef::Integer(number) => (1, number.to_be_bytes().to_vec()),
            ValueRef::Text(bytes) => (2, bytes.to_vec()),
            ValueRef::Blob(bytes) => (3, bytes.to_vec()),
        };
        all.push(kind);
        all.extend((bytes.len() as u64).to_be_bytes());
        all.extend(bytes);
    }
    all
}

/// The first eight bytes of a digest.
fn checksum(bytes: &[u8]) -> i64 {
    let digest = windlass_kernel::Digest::of(bytes);
    i64::from_be_bytes(digest.as_bytes()[..8].try_into().expect("eight bytes"))
}

/// Replaces the batches of a table by batches of one entry each.
fn split(connection: &Connection, table: &str) -> Result<()> {
    let mut statement = connection.prepare(&format!("SELECT id, entries FROM {table}"))?;
    let batches: Vec<(i64, Vec<u8>)> =
        statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?.collect::<Result<_>>()?;
    for (id, batch) in batches {
        let entries = entries_of(&batch);
        if entries.len() < 2 {
            continue;
        }
        connection.execute(&format!("DELETE FROM {table} WHERE id = ?1"), [id])?;
        for (id, fields) in (id..).zip(&entries) {
            let sql = format!("INSERT INTO {table} VALUES (?1, ?2)");
            connection.execute(&sql, params![id, batch_of(fields)])?;
        }
    }
    Ok(())
}

/// Decodes a batch that is not damaged.
fn entries_of(batch: &[u8]) -> Vec<Fields> {
    let mut entries: Vec<Fields> = Vec::new();
    let mut at = 0;
    while at < batch.len() {
        at += 4;
        let mut fields = Vec::new();
        for field in 0..FIELDS.len() {
            let (mut number, mut shift) = (0, 0);
            loop {
                let byte = batch[at];
                at += 1;
                number |= usize::from(byte & 127) << shift;
                shift += 7;
                if byte < 128 {
                    break;
                }
            }
            fields.push(match number {
                0 => None,
                1 => {
                    let before = entries.last().expect("an entry before it");
                    before[if field == PREVIOUS { DIGEST } else { field }].clone()
                }
                _ => {
                    at += number - 2;
                    Some(batch[at + 2 - number..at].to_vec())
                }
            });
        }
        entries.push(fields);
    }
    entries
}

/// Encodes a batch of one entry.
fn batch_of(fields: &Fields) -> Vec<u8> {
    let mut covered = Vec::new();
    for field in &fields[DIGEST..CHECKSUM] {
        covered.push(u8::from(field.is_some()));
        covered.extend((field.as_ref().map_or(0, Vec::len) as u64).to_be_bytes());
        covered.extend(field.iter().flatten());
    }
    let mut fields = fields.clone();
    fields[CHECKSUM] = Some(checksum(&covered).to_be_bytes().to_vec());
    let mut entry = Vec::new();
    for field in &fields {
        let mut number = field.as_ref().map_or(0, |bytes| bytes.len() + 2);
        while number > 127 {
            entry.push(128 | (number % 128) as u8);
            number /= 128;
        }
        entry.push(number as u8);
        entry.extend(field.iter().flatten());
    }
    let length = u32::try_from(entry.len()).expect("a length");
    [length.to_le_bytes().as_slice(), &entry].concat()
}

/// The SQL value of a field.
fn value_of(at: usize, bytes: Option<&[u8]>) -> ToSqlOutput<'static> {
    let Some(bytes) = bytes else { return ToSqlOutput::from(Null) };
    let name = FIELDS[at];
    ToSqlOutput::Owned(match bytes.try_into() {
        Ok(number) if name == "ts" => Value::Integer(i64::from_be_bytes(number)),
        _ if name == "released" => Value::Integer(1),
        _ if TEXTS.contains(&name) => Value::Text(String::from_utf8_lossy(bytes).into_owned()),
        _ => Value::Blob(bytes.to_vec()),
    })
}

/// The bytes of a field for an SQL value.
fn bytes_of(context: &Context<'_>, at: usize) -> Option<Vec<u8>> {
    match context.get_raw(at) {
        ValueRef::Integer(number) if FIELDS[at] == "ts" => Some(number.to_be_bytes().to_vec()),
        ValueRef::Integer(_) | ValueRef::Real(_) => Some(vec![1]),
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => Some(bytes.to_vec()),
        ValueRef::Null => None,
    }
}
