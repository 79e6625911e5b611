-- What the migrations make, as the database tells it. A test holds this file against them;
-- UPDATE_SCHEMA=1 cargo test -p windlass-store-sqlite schema writes it anew.

PRAGMA application_id = 1464747084;
PRAGMA user_version = 2;

CREATE TABLE traces (
    trace_id             BLOB    NOT NULL PRIMARY KEY,
    plan_id              BLOB    NOT NULL,
    trace_number         INTEGER NOT NULL,
    state                TEXT    NOT NULL,
    last_sequence_number INTEGER NOT NULL,
    last_entry_digest    BLOB    NOT NULL,
    tool_call_id         BLOB,
    holder               BLOB,
    fence                INTEGER NOT NULL,
    open                 INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX traces_open ON traces (trace_id) WHERE open;

CREATE TABLE "entries_opening" (
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

CREATE TABLE filed (
    one  INTEGER NOT NULL PRIMARY KEY CHECK (one = 1),
    upto INTEGER NOT NULL
) STRICT;

CREATE TABLE idempotency (
    server_id       TEXT NOT NULL,
    tool_name       TEXT NOT NULL,
    idempotency_key TEXT NOT NULL,
    request_digest  BLOB NOT NULL,
    trace_id        BLOB NOT NULL,
    tool_call_id    BLOB NOT NULL,
    PRIMARY KEY (server_id, tool_name, idempotency_key)
) STRICT, WITHOUT ROWID;

CREATE TRIGGER keys_are_never_updated BEFORE UPDATE ON idempotency
BEGIN SELECT RAISE(ABORT, 'idempotency records are kept'); END;

CREATE TRIGGER keys_are_never_deleted BEFORE DELETE ON idempotency
BEGIN SELECT RAISE(ABORT, 'idempotency records are kept'); END;

CREATE TABLE checkpoints (
    trace_id        BLOB    NOT NULL,
    sequence_number INTEGER NOT NULL,
    document        BLOB    NOT NULL,
    PRIMARY KEY (trace_id, sequence_number)
) STRICT, WITHOUT ROWID;

CREATE TABLE redispatches (
    trace_id BLOB    NOT NULL,
    attempt  INTEGER NOT NULL,
    document BLOB    NOT NULL,
    PRIMARY KEY (trace_id, attempt)
) STRICT, WITHOUT ROWID;

CREATE TRIGGER redispatches_are_never_updated BEFORE UPDATE ON redispatches
BEGIN SELECT RAISE(ABORT, 'dispatches are append-only'); END;

CREATE TRIGGER redispatches_are_never_deleted BEFORE DELETE ON redispatches
BEGIN SELECT RAISE(ABORT, 'dispatches are append-only'); END;

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

CREATE TRIGGER opening_entries_are_never_updated BEFORE UPDATE ON entries_opening
BEGIN SELECT RAISE(ABORT, 'entries are append-only'); END;

CREATE TRIGGER opening_entries_are_never_deleted BEFORE DELETE ON entries_opening
BEGIN SELECT RAISE(ABORT, 'entries are append-only'); END;

CREATE TRIGGER later_entries_are_never_updated BEFORE UPDATE ON entries_later
BEGIN SELECT RAISE(ABORT, 'entries are append-only'); END;

CREATE TRIGGER later_entries_are_never_deleted BEFORE DELETE ON entries_later
BEGIN SELECT RAISE(ABORT, 'entries are append-only'); END;

CREATE VIEW entries AS SELECT * FROM entries_opening UNION ALL SELECT * FROM entries_later;
