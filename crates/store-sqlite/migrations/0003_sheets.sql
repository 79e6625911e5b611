-- The journal by appends: what one append adds to a trace is one row, a sheet. Its key is that of its
-- first entry, `trace_number << 24 | sequence_number`, and the entries lie in it one after the other, as
-- `src/sheet.rs` says. As before, what traces begin with is in one tree and what is added to them in
-- another. The entries of older formats are taken over, each on a sheet of its own.
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

-- Keys in the order of what tells them apart: all those of one tool begin alike.
DROP TRIGGER keys_are_never_updated;
DROP TRIGGER keys_are_never_deleted;
ALTER TABLE idempotency RENAME TO idempotency_by_server;
CREATE TABLE idempotency (
    server_id       TEXT NOT NULL,
    tool_name       TEXT NOT NULL,
    idempotency_key TEXT NOT NULL,
    request_digest  BLOB NOT NULL,
    trace_id        BLOB NOT NULL,
    tool_call_id    BLOB NOT NULL,
    PRIMARY KEY (idempotency_key, tool_name, server_id)
) STRICT, WITHOUT ROWID;
INSERT INTO idempotency SELECT * FROM idempotency_by_server;
DROP TABLE idempotency_by_server;

CREATE TRIGGER keys_are_never_updated BEFORE UPDATE ON idempotency
BEGIN SELECT RAISE(ABORT, 'idempotency records are kept'); END;
CREATE TRIGGER keys_are_never_deleted BEFORE DELETE ON idempotency
BEGIN SELECT RAISE(ABORT, 'idempotency records are kept'); END;
