
-- How many traces are in each state, and how many entries they have. Triggers keep it in the transaction that
-- changes a trace, so that nobody has to count; the check of the database compares it with the traces.
CREATE TABLE trace_counts (
    state   TEXT    NOT NULL PRIMARY KEY,
    traces  INTEGER NOT NULL,
    entries INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TRIGGER traces_inserted_are_counted AFTER INSERT ON traces
BEGIN
    INSERT INTO trace_counts SELECT NEW.state, 0, 0
    WHERE NOT EXISTS (SELECT 1 FROM trace_counts WHERE state = NEW.state);
    UPDATE trace_counts SET traces = traces + 1, entries = entries + NEW.last_sequence_number
    WHERE state = NEW.state;
END;
CREATE TRIGGER traces_updated_are_counted AFTER UPDATE OF state, last_sequence_number ON traces
BEGIN
    UPDATE trace_counts SET traces = traces - 1, entries = entries - OLD.last_sequence_number
    WHERE state = OLD.state;
    INSERT INTO trace_counts SELECT NEW.state, 0, 0
    WHERE NOT EXISTS (SELECT 1 FROM trace_counts WHERE state = NEW.state);
    UPDATE trace_counts SET traces = traces + 1, entries = entries + NEW.last_sequence_number
    WHERE state = NEW.state;
END;
CREATE TRIGGER traces_deleted_are_counted AFTER DELETE ON traces
BEGIN
    UPDATE trace_counts SET traces = traces - 1, entries = entries - OLD.last_sequence_number
    WHERE state = OLD.state;
END;
