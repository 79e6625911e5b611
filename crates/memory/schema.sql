-- The built-in memory, format 1. The application id is "WNDM".
PRAGMA application_id = 1464747085;
PRAGMA user_version = 1;

-- The files of the knowledge folder, as they were when they were indexed.
CREATE TABLE files (
    number INTEGER PRIMARY KEY,
    folder TEXT NOT NULL,
    path TEXT NOT NULL,
    bytes INTEGER NOT NULL,
    modified_ns INTEGER NOT NULL,
    UNIQUE (folder, path)
) STRICT;

-- What is searched: stored memories, which have an id, and passages of files.
CREATE TABLE passages (
    number INTEGER PRIMARY KEY,
    id TEXT UNIQUE,
    file INTEGER REFERENCES files (number) ON DELETE CASCADE,
    source TEXT NOT NULL,
    heading TEXT NOT NULL,
    text TEXT NOT NULL,
    tags TEXT NOT NULL,
    stored_at TEXT NOT NULL,
    CHECK ((id IS NULL) <> (file IS NULL))
) STRICT;

-- The passages of a file, when it is indexed again.
CREATE INDEX passages_file ON passages (file) WHERE file IS NOT NULL;
-- The most recent ones.
CREATE INDEX passages_recent ON passages (stored_at, number);

CREATE VIRTUAL TABLE words USING fts5 (
    text, heading, tags,
    content = 'passages', content_rowid = 'number',
    tokenize = 'unicode61 remove_diacritics 2', prefix = '2 3'
);

CREATE TRIGGER passages_inserted AFTER INSERT ON passages BEGIN
    INSERT INTO words (rowid, text, heading, tags)
    VALUES (new.number, new.text, new.heading, new.tags);
END;
CREATE TRIGGER passages_deleted AFTER DELETE ON passages BEGIN
    INSERT INTO words (words, rowid, text, heading, tags)
    VALUES ('delete', old.number, old.text, old.heading, old.tags);
END;
CREATE TRIGGER passages_updated AFTER UPDATE ON passages BEGIN
    INSERT INTO words (words, rowid, text, heading, tags)
    VALUES ('delete', old.number, old.text, old.heading, old.tags);
    INSERT INTO words (rowid, text, heading, tags)
    VALUES (new.number, new.text, new.heading, new.tags);
END;
