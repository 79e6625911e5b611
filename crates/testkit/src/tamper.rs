//! Lets a test change the journal in SQLite behind the product's back, as if `entries` were one plain
//! table with a row for each entry.
//!
//! What it knows of the journal's rows it knows by itself, not from the product: a reader and a writer
//! of their own hold the format in place.
#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a test cannot go on without a journal"
)]

use rusqlite::functions::{Context, FunctionFlags};
use rusqlite::types::{Null, ToSqlOutput, Value, ValueRef};
use rusqlite::{Connection, Result, params};

/// The fields of an entry in a sheet, in their order.
const FIELDS: [&str; 18] = [
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
    "body",
];
/// Those that are text.
const TEXTS: [&str; 6] =
    ["from_state", "to_state", "artifact_type", "idempotency_key", "server_id", "tool_name"];
/// Where the digest of the entry before stands, and the entry's own.
const PREVIOUS: usize = 1;
const DIGEST: usize = 10;

type Fields = Vec<Option<Vec<u8>>>;

/// Makes `entries` a table that can be read and changed, with nothing that would stop a change. Of this
/// connection nothing else is to be asked.
///
/// # Errors
/// What SQLite says.
pub fn tamper(connection: &Connection) -> Result<()> {
    for trigger in [
        "opening_sheets_are_never_updated",
        "opening_sheets_are_never_deleted",
        "later_sheets_are_never_updated",
        "later_sheets_are_never_deleted",
        "keys_are_never_updated",
        "keys_are_never_deleted",
        "places_of_keys_are_never_updated",
        "places_of_keys_are_never_deleted",
    ] {
        connection.execute_batch(&format!("DROP TRIGGER IF EXISTS {trigger}"))?;
    }
    for table in ["sheets_opening", "sheets_later"] {
        split(connection, table)?;
    }
    let flags = FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_DETERMINISTIC;
    connection.create_scalar_function("field_of", 2, flags, |context| {
        let fields = entries_of(context.get_raw(0).as_blob().unwrap_or_default());
        let at = usize::from(context.get::<u16>(1)?);
        Ok(value_of(at, fields.first().and_then(|fields| fields.get(at)?.as_deref())))
    })?;
    connection.create_scalar_function("sheet_of", 18, flags, |context| {
        let fields: Fields = (0..FIELDS.len()).map(|at| bytes_of(context, at)).collect();
        Ok(sheet_of(&fields))
    })?;
    let columns = (FIELDS.iter().enumerate())
        .map(|(at, name)| format!("field_of(sheet, {at}) AS {name}"))
        .collect::<Vec<_>>()
        .join(", ");
    let sheet = format!("sheet_of({})", FIELDS.map(|name| format!("NEW.{name}")).join(", "));
    connection.execute_batch(&format!(
        "CREATE TEMP VIEW entries AS SELECT id, {columns} FROM sheets;
         CREATE TEMP TRIGGER update_entries INSTEAD OF UPDATE ON entries BEGIN
             UPDATE sheets_opening SET id = NEW.id, sheet = {sheet} WHERE id = OLD.id;
             UPDATE sheets_later SET id = NEW.id, sheet = {sheet} WHERE id = OLD.id;
         END;
         CREATE TEMP TRIGGER delete_entries INSTEAD OF DELETE ON entries BEGIN
             DELETE FROM sheets_opening WHERE id = OLD.id;
             DELETE FROM sheets_later WHERE id = OLD.id;
         END;
         CREATE TEMP TRIGGER insert_entries INSTEAD OF INSERT ON entries BEGIN
             DELETE FROM sheets_opening WHERE id = NEW.id;
             DELETE FROM sheets_later WHERE id = NEW.id;
             INSERT INTO sheets_later VALUES (NEW.id, {sheet});
         END;"
    ))
}

/// Puts each entry of a table on a sheet of its own.
fn split(connection: &Connection, table: &str) -> Result<()> {
    let mut statement = connection.prepare(&format!("SELECT id, sheet FROM {table}"))?;
    let sheets: Vec<(i64, Vec<u8>)> =
        statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?.collect::<Result<_>>()?;
    for (id, sheet) in sheets {
        let entries = entries_of(&sheet);
        if entries.len() < 2 {
            continue;
        }
        connection.execute(&format!("DELETE FROM {table} WHERE id = ?1"), [id])?;
        for (id, fields) in (id..).zip(&entries) {
            let sql = format!("INSERT INTO {table} VALUES (?1, ?2)");
            connection.execute(&sql, params![id, sheet_of(fields)])?;
        }
    }
    Ok(())
}

/// Reads a sheet that is whole.
fn entries_of(sheet: &[u8]) -> Vec<Fields> {
    let mut entries: Vec<Fields> = Vec::new();
    let mut at = 0;
    while at < sheet.len() {
        at += 4;
        let mut fields = Vec::new();
        for field in 0..FIELDS.len() {
            let (mut number, mut shift) = (0, 0);
            loop {
                let byte = sheet[at];
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
                    Some(sheet[at + 2 - number..at].to_vec())
                }
            });
        }
        entries.push(fields);
    }
    entries
}

/// A sheet with one entry.
fn sheet_of(fields: &Fields) -> Vec<u8> {
    let mut entry = Vec::new();
    for field in fields {
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

/// What SQL sees of a field.
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

/// What is kept of what SQL sets a field to.
fn bytes_of(context: &Context<'_>, at: usize) -> Option<Vec<u8>> {
    match context.get_raw(at) {
        ValueRef::Integer(number) if FIELDS[at] == "ts" => Some(number.to_be_bytes().to_vec()),
        ValueRef::Integer(_) | ValueRef::Real(_) => Some(vec![1]),
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => Some(bytes.to_vec()),
        ValueRef::Null => None,
    }
}
