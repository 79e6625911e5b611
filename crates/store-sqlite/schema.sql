-- What the migrations make, as the database tells it. A test holds this file against them;
-- UPDATE_SCHEMA=1 cargo test -p windlass-store-sqlite schema writes it anew.

PRAGMA application_id = 1464747084;
PRAGMA user_version = 4;

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

CREATE TABLE filed (
    one  INTEGER NOT NULL PRIMARY KEY CHECK (one = 1),
    upto INTEGER NOT NULL
) STRICT;

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

CREATE TABLE sheets_opening (
    id    INTEGER NOT NULL PRIMARY KEY,
    sheet BLOB    NOT NULL
) STRICT;

CREATE TABLE sheets_later (
    id    INTEGER NOT NULL PRIMARY KEY,
    sheet BLOB    NOT NULL
) STRICT;

CREATE TRIGGER opening_sheets_are_never_updated BEFORE UPDATE ON sheets_opening
BEGIN SELECT RAISE(ABORT, 'entries are append-only'); END;

CREATE TRIGGER opening_sheets_are_never_deleted BEFORE DELETE ON sheets_opening
BEGIN SELECT RAISE(ABORT, 'entries are append-only'); END;

CREATE TRIGGER later_sheets_are_never_updated BEFORE UPDATE ON sheets_later
BEGIN SELECT RAISE(ABORT, 'entries are append-only'); END;

CREATE TRIGGER later_sheets_are_never_deleted BEFORE DELETE ON sheets_later
BEGIN SELECT RAISE(ABORT, 'entries are append-only'); END;

CREATE VIEW sheets AS SELECT * FROM sheets_opening UNION ALL SELECT * FROM sheets_later;

CREATE TABLE idempotency (
    server_id       TEXT NOT NULL,
    tool_name       TEXT NOT NULL,
    idempotency_key TEXT NOT NULL,
    request_digest  BLOB NOT NULL,
    trace_id        BLOB NOT NULL,
    tool_call_id    BLOB NOT NULL,
    PRIMARY KEY (idempotency_key, tool_name, server_id)
) STRICT, WITHOUT ROWID;

CREATE TRIGGER keys_are_never_updated BEFORE UPDATE ON idempotency
BEGIN SELECT RAISE(ABORT, 'idempotency records are kept'); END;

CREATE TRIGGER keys_are_never_deleted BEFORE DELETE ON idempotency
BEGIN SELECT RAISE(ABORT, 'idempotency records are kept'); END;

CREATE TABLE keys (
    hash         INTEGER NOT NULL,
    trace_number INTEGER NOT NULL,
    PRIMARY KEY (hash, trace_number)
) STRICT, WITHOUT ROWID;

CREATE TRIGGER places_of_keys_are_never_updated BEFORE UPDATE ON keys
BEGIN SELECT RAISE(ABORT, 'idempotency records are kept'); END;

CREATE TRIGGER places_of_keys_are_never_deleted BEFORE DELETE ON keys
BEGIN SELECT RAISE(ABORT, 'idempotency records are kept'); END;
