-- A file of records as the first schema has it, with one record. It never changes: what was once kept must be read by every later duan.
CREATE TABLE machine (
    only INTEGER PRIMARY KEY CHECK (only = 1),
    id TEXT NOT NULL
) STRICT;
INSERT INTO machine VALUES (1, lower(hex(randomblob(8))));
CREATE TABLE records (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    uid TEXT NOT NULL UNIQUE,
    taken_unix_s INTEGER NOT NULL,
    kind TEXT NOT NULL,
    engine TEXT NOT NULL,
    machine TEXT,
    chip TEXT,
    model_filename TEXT NOT NULL,
    model_sha256 TEXT,
    model_type TEXT NOT NULL,
    backend TEXT NOT NULL,
    head TEXT NOT NULL,
    document TEXT NOT NULL
) STRICT;
CREATE INDEX records_by_time ON records (taken_unix_s, id);
CREATE TABLE results (
    id INTEGER PRIMARY KEY,
    record INTEGER NOT NULL REFERENCES records ON DELETE CASCADE,
    place INTEGER NOT NULL,
    test TEXT NOT NULL,
    n_prompt INTEGER NOT NULL,
    n_gen INTEGER NOT NULL,
    n_depth INTEGER NOT NULL,
    unit TEXT NOT NULL,
    median REAL NOT NULL,
    low REAL,
    high REAL,
    UNIQUE (record, place)
) STRICT;
CREATE TABLE samples (
    result INTEGER NOT NULL REFERENCES results ON DELETE CASCADE,
    place INTEGER NOT NULL,
    value REAL NOT NULL,
    PRIMARY KEY (result, place)
) STRICT, WITHOUT ROWID;
CREATE TABLE tags (
    record INTEGER NOT NULL REFERENCES records ON DELETE CASCADE,
    tag TEXT NOT NULL,
    PRIMARY KEY (record, tag)
) STRICT, WITHOUT ROWID;
CREATE INDEX tags_by_name ON tags (tag);
UPDATE machine SET id = '0011223344556677';
INSERT INTO records VALUES (
    7, '00112233445566778899aabbccddeeff', 1796040000, 'bench', 'duan', '0011223344556677', 'A Processor, 4 cores, x86_64', 'a.gguf', 'abcd',
    'llama 135M Q4_1', 'cpu',
    '{"taken_at":"2026-11-30T12:00:00Z","kind":"bench","engine":"duan","engine_version":"0.1.0","threads_decode":2,"of_then":1}',
    '{"state":null}'
);
INSERT INTO results VALUES (3, 7, 0, 'tg128', 0, 128, 0, 'tokens/s', 70.5, NULL, NULL);
INSERT INTO samples VALUES (3, 0, 70.0), (3, 1, 71.0);
INSERT INTO tags VALUES (7, 'base');
PRAGMA application_id = 1685414254;
PRAGMA user_version = 1;
