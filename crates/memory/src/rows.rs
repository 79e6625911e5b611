//! The statements of the built-in memory.

use std::collections::HashMap;

use rusqlite::{Connection, OptionalExtension as _, Row, named_params};
use windlass_kernel::Timestamp;

use crate::markdown::Passage;
use crate::walk::FoundFile;
use crate::{Hit, NewMemory};

// The lower the rank, the better; a word in a heading counts more than one in the text.
const MATCHES: &str = "
    SELECT passages.*, -bm25(words, 1.0, 2.0, 2.0) AS score
    FROM words JOIN passages ON passages.number = words.rowid
    WHERE words MATCH :query
    ORDER BY bm25(words, 1.0, 2.0, 2.0), passages.stored_at DESC LIMIT :limit";
const RECENT: &str = "
    SELECT *, 0.0 AS score FROM passages ORDER BY stored_at DESC, number DESC LIMIT :limit";

/// Finds passages, the best first; without a query the most recent.
pub fn find(
    connection: &Connection,
    query: Option<&str>,
    limit: usize,
) -> rusqlite::Result<Vec<Hit>> {
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    match query {
        Some(query) => {
            let mut statement = connection.prepare_cached(MATCHES)?;
            let rows =
                statement.query_map(named_params! { ":query": query, ":limit": limit }, hit)?;
            rows.collect()
        }
        None => {
            let mut statement = connection.prepare_cached(RECENT)?;
            let rows = statement.query_map(named_params! { ":limit": limit }, hit)?;
            rows.collect()
        }
    }
}

fn hit(row: &Row<'_>) -> rusqlite::Result<Hit> {
    let (source, heading): (String, String) = (row.get("source")?, row.get("heading")?);
    let tags: String = row.get("tags")?;
    Ok(Hit {
        text: row.get("text")?,
        source: if heading.is_empty() { source } else { format!("{source}#{heading}") },
        score: row.get("score")?,
        tags: tags.split_whitespace().map(str::to_owned).collect(),
        stored_at: row.get("stored_at")?,
    })
}

/// Stores a memory. One that is there gets the tags that it does not have.
pub fn store(
    connection: &Connection,
    id: &str,
    new: &NewMemory,
    now: &str,
) -> rusqlite::Result<()> {
    let known: Option<String> = connection
        .prepare_cached("SELECT tags FROM passages WHERE id = :id")?
        .query_row(named_params! { ":id": id }, |row| row.get(0))
        .optional()?;
    let mut tags: Vec<&str> = known.as_deref().unwrap_or_default().split_whitespace().collect();
    tags.extend(new.tags.iter().map(String::as_str));
    tags.sort_unstable();
    tags.dedup();
    let tags = tags.join(" ");
    if known.is_some() {
        connection
            .prepare_cached("UPDATE passages SET tags = :tags WHERE id = :id AND tags <> :tags")?
            .execute(named_params! { ":id": id, ":tags": tags })?;
        return Ok(());
    }
    let memory = format!("memory:{id}");
    connection
        .prepare_cached(
            "INSERT INTO passages (id, source, heading, text, tags, stored_at)
             VALUES (:id, :source, '', :text, :tags, :now)",
        )?
        .execute(named_params! {
            ":id": id,
            ":source": new.source.as_ref().unwrap_or(&memory),
            ":text": new.text,
            ":tags": tags,
            ":now": now,
        })?;
    Ok(())
}

/// The indexed files of a folder: number, size and time of the last change, by path.
pub fn files(
    connection: &Connection,
    folder: &str,
) -> rusqlite::Result<HashMap<String, (i64, i64, i64)>> {
    let mut statement = connection.prepare_cached(
        "SELECT path, number, bytes, modified_ns FROM files WHERE folder = :folder",
    )?;
    let rows = statement.query_map(named_params! { ":folder": folder }, |row| {
        Ok((row.get(0)?, (row.get(1)?, row.get(2)?, row.get(3)?)))
    })?;
    rows.collect()
}

/// Sets the passages of a file.
pub fn set_file(
    connection: &Connection,
    folder: &str,
    file: &FoundFile,
    passages: &[Passage],
) -> rusqlite::Result<()> {
    let number: i64 = connection
        .prepare_cached(
            "INSERT INTO files (folder, path, bytes, modified_ns)
             VALUES (:folder, :path, :bytes, :modified_ns)
             ON CONFLICT (folder, path) DO UPDATE
                SET bytes = excluded.bytes, modified_ns = excluded.modified_ns
             RETURNING number",
        )?
        .query_row(
            named_params! {
                ":folder": folder,
                ":path": file.path,
                ":bytes": file.bytes,
                ":modified_ns": file.modified_ns,
            },
            |row| row.get(0),
        )?;
    connection
        .prepare_cached("DELETE FROM passages WHERE file = :number")?
        .execute(named_params! { ":number": number })?;
    let modified = Timestamp::from_unix_ms(file.modified_ns / 1_000_000);
    let stored_at = modified.unwrap_or(Timestamp::EPOCH).to_string();
    for passage in passages {
        connection
            .prepare_cached(
                "INSERT INTO passages (file, source, heading, text, tags, stored_at)
                 VALUES (:file, :source, :heading, :text, '', :stored_at)",
            )?
            .execute(named_params! {
                ":file": number,
                ":source": file.path,
                ":heading": passage.heading,
                ":text": passage.text,
                ":stored_at": stored_at,
            })?;
    }
    Ok(())
}

/// Drops a file with its passages.
pub fn drop_file(connection: &Connection, number: i64) -> rusqlite::Result<()> {
    connection
        .prepare_cached("DELETE FROM passages WHERE file = :number")?
        .execute(named_params! { ":number": number })?;
    connection
        .prepare_cached("DELETE FROM files WHERE number = :number")?
        .execute(named_params! { ":number": number })?;
    Ok(())
}

/// Whether files of other folders are indexed.
pub fn has_other_folders(connection: &Connection, folder: &str) -> rusqlite::Result<bool> {
    connection
        .prepare_cached("SELECT 1 FROM files WHERE folder <> :folder LIMIT 1")?
        .exists(named_params! { ":folder": folder })
}

/// Drops the files of other folders.
pub fn drop_other_folders(connection: &Connection, folder: &str) -> rusqlite::Result<()> {
    for statement in [
        "DELETE FROM passages
         WHERE file IN (SELECT number FROM files WHERE folder <> :folder)",
        "DELETE FROM files WHERE folder <> :folder",
    ] {
        connection.prepare_cached(statement)?.execute(named_params! { ":folder": folder })?;
    }
    Ok(())
}
