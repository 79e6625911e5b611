//! The statements of the built-in tracker.

use rusqlite::{Connection, OptionalExtension as _, Row, named_params};

use crate::{Change, Item, Kind, LinkKind, NewItem, Status};

const OPEN: &str = "
    SELECT * FROM items WHERE status <> 'closed' ORDER BY priority, number LIMIT :limit";
const ASSIGNED: &str = "
    SELECT * FROM items WHERE status <> 'closed' AND assignee = :to
    ORDER BY priority, number LIMIT :limit";
const BLOCKED: &str = "
    SELECT * FROM items WHERE status <> 'closed' AND (
        status = 'blocked' OR EXISTS (
            SELECT 1 FROM links JOIN items AS blocker ON blocker.id = links.source
            WHERE links.target = items.id AND links.kind = 'blocks' AND blocker.status <> 'closed'))
    ORDER BY priority, number LIMIT :limit";
const RECENT: &str = "SELECT * FROM items ORDER BY updated_at DESC, number DESC LIMIT :limit";
const BLOCKERS: &str = "
    SELECT blocker.id FROM links JOIN items AS blocker ON blocker.id = links.source
    WHERE links.target = :id AND links.kind = 'blocks' AND blocker.status <> 'closed'
    ORDER BY blocker.priority, blocker.number";
// A closed blocker is a link like others: it blocks no more.
const LINKS: &str = "
    SELECT CASE kind WHEN 'parent' THEN 'child' ELSE kind END || ':' || target FROM links
    WHERE source = :id
    UNION ALL
    SELECT CASE kind WHEN 'blocks' THEN 'blocked-by' ELSE kind END || ':' || source FROM links
    WHERE target = :id AND NOT (kind = 'blocks' AND EXISTS (
        SELECT 1 FROM items WHERE items.id = links.source AND items.status <> 'closed'))
    ORDER BY 1";
const LABELS: &str = "SELECT label FROM labels WHERE item = :id ORDER BY label";
const REACHES: &str = "
    WITH RECURSIVE reached (id) AS (
        SELECT :to
        UNION
        SELECT links.target FROM links JOIN reached ON links.source = reached.id
        WHERE links.kind = :kind)
    SELECT 1 FROM reached WHERE id = :from";

/// Which items are listed.
#[derive(Clone, Copy, Debug)]
pub enum List<'a> {
    Open,
    Assigned(&'a str),
    Blocked,
    Recent,
}

/// Lists items.
pub fn list(connection: &Connection, list: List<'_>, limit: usize) -> rusqlite::Result<Vec<Item>> {
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let query = |sql: &str, to: Option<&str>| -> rusqlite::Result<Vec<Item>> {
        let mut statement = connection.prepare_cached(sql)?;
        let rows = match to {
            Some(to) => statement.query_map(named_params! { ":limit": limit, ":to": to }, item)?,
            None => statement.query_map(named_params! { ":limit": limit }, item)?,
        };
        rows.collect()
    };
    let items = match list {
        List::Open => query(OPEN, None),
        List::Assigned(to) => query(ASSIGNED, Some(to)),
        List::Blocked => query(BLOCKED, None),
        List::Recent => query(RECENT, None),
    }?;
    items.into_iter().map(|item| complete(connection, item)).collect()
}

/// Finds one item.
pub fn find(connection: &Connection, id: &str) -> rusqlite::Result<Option<Item>> {
    let mut statement = connection.prepare_cached("SELECT * FROM items WHERE id = :id")?;
    let found = statement.query_row(named_params! { ":id": id }, item).optional()?;
    found.map(|item| complete(connection, item)).transpose()
}

/// Inserts an item and returns whether its id was free.
pub fn insert(
    connection: &Connection,
    id: &str,
    new: &NewItem,
    now: &str,
) -> rusqlite::Result<bool> {
    let inserted = connection
        .prepare_cached(
            "INSERT INTO items (id, title, kind, status, assignee, priority, description, created_at, updated_at)
             VALUES (:id, :title, :kind, 'open', :assignee, :priority, :description, :now, :now)
             ON CONFLICT (id) DO NOTHING",
        )?
        .execute(named_params! {
            ":id": id,
            ":title": new.title,
            ":kind": new.kind.name(),
            ":assignee": new.assignee,
            ":priority": new.priority,
            ":description": new.description,
            ":now": now,
        })?;
    Ok(inserted == 1)
}

/// Changes the columns of an item.
pub fn change(
    connection: &Connection,
    id: &str,
    change: &Change,
    now: &str,
) -> rusqlite::Result<()> {
    let reopened = change.status.is_some();
    let mut statement = connection.prepare_cached(
        "UPDATE items SET
            title = coalesce(:title, title),
            kind = coalesce(:kind, kind),
            status = coalesce(:status, status),
            assignee = nullif(coalesce(:assignee, assignee), ''),
            priority = coalesce(:priority, priority),
            description = coalesce(:description, description),
            closed_at = iif(:reopened, NULL, closed_at),
            close_reason = iif(:reopened, NULL, close_reason),
            updated_at = max(updated_at, :now)
         WHERE id = :id",
    )?;
    statement.execute(named_params! {
        ":id": id,
        ":title": change.title,
        ":kind": change.kind.map(Kind::name),
        ":status": change.status.map(Status::name),
        ":assignee": change.assignee,
        ":priority": change.priority,
        ":description": change.description,
        ":reopened": reopened,
        ":now": now,
    })?;
    Ok(())
}

/// Closes an item that is open.
pub fn close(connection: &Connection, id: &str, reason: &str, now: &str) -> rusqlite::Result<()> {
    let mut statement = connection.prepare_cached(
        "UPDATE items SET status = 'closed', closed_at = :now, close_reason = :reason,
            updated_at = max(updated_at, :now)
         WHERE id = :id AND status <> 'closed'",
    )?;
    statement.execute(named_params! { ":id": id, ":reason": reason, ":now": now })?;
    Ok(())
}

/// Adds and removes labels, and returns how many there are then.
pub fn set_labels(
    connection: &Connection,
    id: &str,
    added: &[String],
    removed: &[String],
) -> rusqlite::Result<usize> {
    for label in removed {
        connection
            .prepare_cached("DELETE FROM labels WHERE item = :id AND label = :label")?
            .execute(named_params! { ":id": id, ":label": label })?;
    }
    for label in added {
        connection
            .prepare_cached("INSERT INTO labels VALUES (:id, :label) ON CONFLICT DO NOTHING")?
            .execute(named_params! { ":id": id, ":label": label })?;
    }
    let mut statement =
        connection.prepare_cached("SELECT count(*) FROM labels WHERE item = :id")?;
    let count: i64 = statement.query_row(named_params! { ":id": id }, |row| row.get(0))?;
    Ok(usize::try_from(count).unwrap_or_default())
}

/// Whether a chain of links of one kind leads from `to` to `from`.
pub fn reaches(
    connection: &Connection,
    from: &str,
    to: &str,
    kind: LinkKind,
) -> rusqlite::Result<bool> {
    let mut statement = connection.prepare_cached(REACHES)?;
    statement.exists(named_params! { ":from": from, ":to": to, ":kind": kind.name() })
}

/// The parent of an item.
pub fn parent(connection: &Connection, id: &str) -> rusqlite::Result<Option<String>> {
    connection
        .prepare_cached("SELECT source FROM links WHERE target = :id AND kind = 'parent'")?
        .query_row(named_params! { ":id": id }, |row| row.get(0))
        .optional()
}

/// How many links an item has.
pub fn link_count(connection: &Connection, id: &str) -> rusqlite::Result<usize> {
    let mut statement = connection
        .prepare_cached("SELECT count(*) FROM links WHERE source = :id OR target = :id")?;
    let count: i64 = statement.query_row(named_params! { ":id": id }, |row| row.get(0))?;
    Ok(usize::try_from(count).unwrap_or_default())
}

/// Inserts a link and returns whether it is new.
pub fn insert_link(
    connection: &Connection,
    from: &str,
    to: &str,
    kind: LinkKind,
) -> rusqlite::Result<bool> {
    let inserted = connection
        .prepare_cached("INSERT INTO links VALUES (:from, :kind, :to) ON CONFLICT DO NOTHING")?
        .execute(named_params! { ":from": from, ":kind": kind.name(), ":to": to })?;
    Ok(inserted == 1)
}

/// Sets the time of the last change.
pub fn touch(connection: &Connection, id: &str, now: &str) -> rusqlite::Result<()> {
    connection
        .prepare_cached("UPDATE items SET updated_at = max(updated_at, :now) WHERE id = :id")?
        .execute(named_params! { ":id": id, ":now": now })?;
    Ok(())
}

/// An item without its labels and links.
fn item(row: &Row<'_>) -> rusqlite::Result<Item> {
    let named = |name: &str| -> rusqlite::Result<String> { row.get(name) };
    let unknown = |text: &str| {
        let error = format!("`{}` is unknown", text.escape_debug());
        rusqlite::Error::FromSqlConversionFailure(0, rusqlite::types::Type::Text, error.into())
    };
    let (kind, status) = (named("kind")?, named("status")?);
    Ok(Item {
        id: row.get("id")?,
        title: row.get("title")?,
        kind: kind.parse().map_err(|_| unknown(&kind))?,
        status: status.parse().map_err(|_| unknown(&status))?,
        assignee: row.get("assignee")?,
        priority: row.get("priority")?,
        description: row.get("description")?,
        labels: Vec::new(),
        blockers: Vec::new(),
        links: Vec::new(),
        created_at: row.get("created_at")?,
        updated_at: row.get("updated_at")?,
        closed_at: row.get("closed_at")?,
        close_reason: row.get("close_reason")?,
    })
}

/// Adds the labels and links.
fn complete(connection: &Connection, mut item: Item) -> rusqlite::Result<Item> {
    let texts = |sql: &str| -> rusqlite::Result<Vec<String>> {
        let mut statement = connection.prepare_cached(sql)?;
        let rows = statement.query_map(named_params! { ":id": item.id }, |row| row.get(0))?;
        rows.collect()
    };
    let (labels, blockers, links) = (texts(LABELS)?, texts(BLOCKERS)?, texts(LINKS)?);
    item.labels = labels;
    item.blockers = blockers;
    item.links = links;
    Ok(item)
}
