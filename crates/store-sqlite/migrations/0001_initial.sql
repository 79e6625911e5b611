-- Where each trace stands, kept apart from its entries: the chain does not protect its own tail.
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

-- Finds the traces that have not ended: recovery at start, `call list`.
CREATE INDEX traces_open ON traces (trace_id) WHERE open;

-- The journal. The key is `trace_number << 24 | sequence_number`: one tree in which a trace's
-- entries lie together and new traces are added at the end. The artifact's canonical bytes lie
-- beside the entry; only they may ever be taken out. What stands between the digest and the body is
-- no part of the entry: it is what the rows in `traces` and `idempotency` are made of when the trace
-- is filed. A trace's first entry has its plan and its holder, the entry that gives the lease back is
-- marked, and the one that reserves a key has the rest of the key's record.
CREATE TABLE entries (
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

-- Up to which trace number the rows in `traces` and `idempotency` are written. Newer traces are known
-- by their entries alone.
CREATE TABLE filed (
    one  INTEGER NOT NULL PRIMARY KEY CHECK (one = 1),
    upto INTEGER NOT NULL
) STRICT;
INSERT INTO filed VALUES (1, 0);

CREATE TRIGGER entries_are_never_updated BEFORE UPDATE ON entries
BEGIN SELECT RAISE(ABORT, 'entries are append-only'); END;
CREATE TRIGGER entries_are_never_deleted BEFORE DELETE ON entries
BEGIN SELECT RAISE(ABORT, 'entries are append-only'); END;

-- What each key was first used for. What came of it is the end of its trace.
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

-- The dispatches of a call after its first, each recorded before it was made.
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
