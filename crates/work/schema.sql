-- The built-in work tracker, format 1. The application id is "WNDW".
PRAGMA application_id = 1464747095;
PRAGMA user_version = 1;

CREATE TABLE items (
    number INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    title TEXT NOT NULL,
    kind TEXT NOT NULL CHECK (kind IN ('task', 'feature', 'bug', 'epic', 'chore')),
    status TEXT NOT NULL CHECK (status IN ('open', 'in_progress', 'blocked', 'closed')),
    assignee TEXT,
    priority INTEGER NOT NULL CHECK (priority BETWEEN 0 AND 4),
    description TEXT NOT NULL,
    created_at TEXT NOT NULL,
    updated_at TEXT NOT NULL,
    closed_at TEXT,
    close_reason TEXT,
    CHECK ((status = 'closed') = (closed_at IS NOT NULL)),
    CHECK ((closed_at IS NULL) = (close_reason IS NULL))
) STRICT;

-- The open items, the most urgent and then the oldest first.
CREATE INDEX items_open ON items (priority, number) WHERE status <> 'closed';
-- The items that were changed last.
CREATE INDEX items_recent ON items (updated_at, number);

CREATE TABLE labels (
    item TEXT NOT NULL REFERENCES items (id),
    label TEXT NOT NULL,
    PRIMARY KEY (item, label)
) STRICT, WITHOUT ROWID;

-- `source` blocks, is related to, or is the parent of `target`.
CREATE TABLE links (
    source TEXT NOT NULL REFERENCES items (id),
    kind TEXT NOT NULL CHECK (kind IN ('blocks', 'related', 'parent')),
    target TEXT NOT NULL REFERENCES items (id),
    PRIMARY KEY (source, kind, target),
    CHECK (source <> target)
) STRICT, WITHOUT ROWID;

-- The links of an item from its other side.
CREATE INDEX links_target ON links (target, kind, source);
