-- Where a key is found: a number that is made of its server, its tool and itself, and the number of the
-- trace that has reserved it. The record itself is in that trace's entries, as `src/keys.rs` says. Keys
-- that no entry names, and those that older formats have filed, stay in `idempotency`.
CREATE TABLE keys (
    hash         INTEGER NOT NULL,
    trace_number INTEGER NOT NULL,
    PRIMARY KEY (hash, trace_number)
) STRICT, WITHOUT ROWID;

CREATE TRIGGER places_of_keys_are_never_updated BEFORE UPDATE ON keys
BEGIN SELECT RAISE(ABORT, 'idempotency records are kept'); END;
CREATE TRIGGER places_of_keys_are_never_deleted BEFORE DELETE ON keys
BEGIN SELECT RAISE(ABORT, 'idempotency records are kept'); END;
