-- Lets a test change the journal behind the product's back, as if `entries` were one plain table.
DROP TRIGGER IF EXISTS opening_entries_are_never_updated;
DROP TRIGGER IF EXISTS opening_entries_are_never_deleted;
DROP TRIGGER IF EXISTS later_entries_are_never_updated;
DROP TRIGGER IF EXISTS later_entries_are_never_deleted;
DROP TRIGGER IF EXISTS keys_are_never_updated;
DROP TRIGGER IF EXISTS keys_are_never_deleted;

CREATE TEMP TRIGGER update_entries INSTEAD OF UPDATE ON main.entries BEGIN
    UPDATE entries_opening SET
        id = NEW.id, trace_id = NEW.trace_id, prev_entry_digest = NEW.prev_entry_digest,
        ts = NEW.ts, from_state = NEW.from_state, to_state = NEW.to_state,
        artifact_type = NEW.artifact_type, artifact_id = NEW.artifact_id,
        artifact_digest = NEW.artifact_digest, tool_call_id = NEW.tool_call_id,
        idempotency_key = NEW.idempotency_key, entry_digest = NEW.entry_digest,
        plan_id = NEW.plan_id, holder = NEW.holder, released = NEW.released,
        server_id = NEW.server_id, tool_name = NEW.tool_name, request_digest = NEW.request_digest,
        body = NEW.body
    WHERE id = OLD.id;
    UPDATE entries_later SET
        id = NEW.id, trace_id = NEW.trace_id, prev_entry_digest = NEW.prev_entry_digest,
        ts = NEW.ts, from_state = NEW.from_state, to_state = NEW.to_state,
        artifact_type = NEW.artifact_type, artifact_id = NEW.artifact_id,
        artifact_digest = NEW.artifact_digest, tool_call_id = NEW.tool_call_id,
        idempotency_key = NEW.idempotency_key, entry_digest = NEW.entry_digest,
        plan_id = NEW.plan_id, holder = NEW.holder, released = NEW.released,
        server_id = NEW.server_id, tool_name = NEW.tool_name, request_digest = NEW.request_digest,
        body = NEW.body
    WHERE id = OLD.id;
END;
CREATE TEMP TRIGGER delete_entries INSTEAD OF DELETE ON main.entries BEGIN
    DELETE FROM entries_opening WHERE id = OLD.id;
    DELETE FROM entries_later WHERE id = OLD.id;
END;
CREATE TEMP TRIGGER insert_entries INSTEAD OF INSERT ON main.entries BEGIN
    DELETE FROM entries_opening WHERE id = NEW.id;
    DELETE FROM entries_later WHERE id = NEW.id;
    INSERT INTO entries_later VALUES (
        NEW.id, NEW.trace_id, NEW.prev_entry_digest, NEW.ts, NEW.from_state, NEW.to_state,
        NEW.artifact_type, NEW.artifact_id, NEW.artifact_digest, NEW.tool_call_id,
        NEW.idempotency_key, NEW.entry_digest, NEW.plan_id, NEW.holder, NEW.released,
        NEW.server_id, NEW.tool_name, NEW.request_digest, NEW.body
    );
END;
