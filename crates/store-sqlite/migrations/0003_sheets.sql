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
