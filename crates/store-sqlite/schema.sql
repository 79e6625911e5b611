-- The schema of a store. How the tables work together is described in src/lib.rs.
PRAGMA application_id = 1464747084;
PRAGMA user_version = 1;

-- The entries, one row for each append. The id is that of the first entry in the row,
-- `trace_number << 24 | sequence_number`; src/entry_batch.rs describes the encoding. The first append
-- of each trace is in one table, the later ones are in another, so that both grow at their end even if
-- many traces are appended to at the same time.
CREATE TABLE first_batches (
    id      INTEGER NOT NULL PRIMARY KEY,
    entries BLOB    NOT NULL
) STRICT;
CREATE TABLE later_batches (
    id      INTEGER NOT NULL PRIMARY KEY,
    entries BLOB    NOT NULL
) STRICT;
CREATE VIEW entry_batches AS SELECT * FROM first_batches UNION ALL SELECT * FROM later_batches;

CREATE TRIGGER first_batches_are_never_updated BEFORE UPDATE ON first_batches
BEGIN SELECT RAISE(ABORT, 'entries are append-only'); END;
CREATE TRIGGER first_batches_are_never_deleted BEFORE DELETE ON first_batches
BEGIN SELECT RAISE(ABORT, 'entries are append-only'); END;
CREATE TRIGGER later_batches_are_never_updated BEFORE UPDATE ON later_batches
BEGIN SELECT RAISE(ABORT, 'entries are append-only'); END;
CREATE TRIGGER later_batches_are_never_deleted BEFORE DELETE ON later_batches
BEGIN SELECT RAISE(ABORT, 'entries are append-only'); END;

-- Head and lease of each indexed trace; the digest that binds its rows in `redispatches`, if it has any; and
-- the checksum of the row.
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
    open                 INTEGER NOT NULL,
    redispatches         BLOB,
    checksum             INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Finds the traces that have not ended: recovery at start, `call list`.
CREATE INDEX traces_open ON traces (trace_id) WHERE open;

-- Which trace has reserved an idempotency key. The hash is made of server, tool and key; the record is
-- in an entry of the trace.
CREATE TABLE keys (
    hash         INTEGER NOT NULL,
    trace_number INTEGER NOT NULL,
    PRIMARY KEY (hash, trace_number)
) STRICT, WITHOUT ROWID;

CREATE TRIGGER keys_are_never_updated BEFORE UPDATE ON keys
BEGIN SELECT RAISE(ABORT, 'idempotency records are kept'); END;
CREATE TRIGGER keys_are_never_deleted BEFORE DELETE ON keys
BEGIN SELECT RAISE(ABORT, 'idempotency records are kept'); END;

-- The highest trace number whose rows in `traces` and `keys` are written; how many writes there were,
-- without those of the batches above that number; the id of the store; and the checksum of the row.
CREATE TABLE indexed (
    one      INTEGER NOT NULL PRIMARY KEY CHECK (one = 1),
    upto     INTEGER NOT NULL,
    writes   INTEGER NOT NULL,
    store    INTEGER NOT NULL,
    checksum INTEGER NOT NULL
) STRICT;

-- States of traces, written to read them faster; the checksum covers the row.
CREATE TABLE replay_points (
    trace_id        BLOB    NOT NULL,
    sequence_number INTEGER NOT NULL,
    document        BLOB    NOT NULL,
    checksum        INTEGER NOT NULL,
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
