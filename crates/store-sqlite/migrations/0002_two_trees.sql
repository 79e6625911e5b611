-- The journal in two trees: one for what traces begin with, one for what is added to them. New traces
-- stand at the end of the first. What is added to those that are under way side by side stands at the
-- end of the second, in nearly the order in which they began, and not inside pages that are full.
-- `entries` is both: whoever reads need not know.
ALTER TABLE entries RENAME TO entries_opening;
CREATE TABLE entries_later (
    id                INTEGER NOT NULL PRIMARY KEY,
    trace_id          BLOB    NOT NULL,
    prev_entry_digest BLOB    NOT NULL,
    ts                INTEGER NOT NULL,
    from_state        TEXT    NOT NULL,
    to_state          TEXT    NOT NULL,
    artifact_type     TEXT    NOT NULL,
    artifact_id       BLOB    NOT NULL,
    artifact_digest   BLOB    NOT NULL,
    tool_call_id      BLOB,
    idempotency_key   TEXT,
    entry_digest      BLOB    NOT NULL,
    plan_id           BLOB,
    holder            BLOB,
    released          INTEGER,
    server_id         TEXT,
    tool_name         TEXT,
    request_digest    BLOB,
    body              BLOB
) STRICT;

DROP TRIGGER entries_are_never_updated;
DROP TRIGGER entries_are_never_deleted;
CREATE TRIGGER opening_entries_are_never_updated BEFORE UPDATE ON entries_opening
BEGIN SELECT RAISE(ABORT, 'entries are append-only'); END;
CREATE TRIGGER opening_entries_are_never_deleted BEFORE DELETE ON entries_opening
BEGIN SELECT RAISE(ABORT, 'entries are append-only'); END;
CREATE TRIGGER later_entries_are_never_updated BEFORE UPDATE ON entries_later
BEGIN SELECT RAISE(ABORT, 'entries are append-only'); END;
CREATE TRIGGER later_entries_are_never_deleted BEFORE DELETE ON entries_later
BEGIN SELECT RAISE(ABORT, 'entries are append-only'); END;

CREATE VIEW entries AS SELECT * FROM entries_opening UNION ALL SELECT * FROM entries_later;
