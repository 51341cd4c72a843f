-- Format 1. docs/format.md says what holds between these tables.

-- Counters. `dir_epoch` grows with every change that moves or removes a directory; `next_node` is the next free node.
CREATE TABLE meta(
  id INTEGER PRIMARY KEY,
  name TEXT NOT NULL,
  value INTEGER NOT NULL
) STRICT;
INSERT INTO meta(id, name, value) VALUES (1, 'dir_epoch', 1), (2, 'next_node', 1);

-- A namespace, as a JSON array of texts, and the directory that is its root.
CREATE TABLE volume(
  id INTEGER PRIMARY KEY,
  namespace TEXT NOT NULL UNIQUE,
  root INTEGER NOT NULL
) STRICT;

-- One row per change that changed something, whatever the volume. The newest row is never deleted.
CREATE TABLE version(
  id INTEGER PRIMARY KEY,
  operation BLOB NOT NULL,
  agent TEXT NOT NULL,
  thread TEXT,
  organization TEXT,
  team TEXT,
  tool TEXT NOT NULL,
  at INTEGER NOT NULL
) STRICT;

-- What each version did to which name. `what`: 1 created, 2 written, 3 attributes, 4 removed, 5 moved to, 6 moved from.
CREATE TABLE change(
  vol INTEGER NOT NULL,
  ver INTEGER NOT NULL,
  seq INTEGER NOT NULL,
  what INTEGER NOT NULL,
  node INTEGER NOT NULL,
  parent INTEGER NOT NULL,
  name BLOB NOT NULL,
  PRIMARY KEY(vol, ver, seq)
) STRICT, WITHOUT ROWID;

-- What is there now. `kind`: 1 file, 2 directory, 3 symlink. Times are nanoseconds since 1970.
CREATE TABLE entry(
  vol INTEGER NOT NULL,
  parent INTEGER NOT NULL,
  name BLOB NOT NULL,
  node INTEGER NOT NULL,
  kind INTEGER NOT NULL,
  mode INTEGER NOT NULL,
  size INTEGER NOT NULL,
  created INTEGER NOT NULL,
  modified INTEGER NOT NULL,
  changed INTEGER NOT NULL,
  content INTEGER,
  since INTEGER NOT NULL,
  PRIMARY KEY(vol, parent, name)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX entry_node ON entry(vol, node);

-- What was there from version `since` until just before version `until`.
CREATE TABLE entry_history(
  vol INTEGER NOT NULL,
  parent INTEGER NOT NULL,
  name BLOB NOT NULL,
  node INTEGER NOT NULL,
  kind INTEGER NOT NULL,
  mode INTEGER NOT NULL,
  size INTEGER NOT NULL,
  created INTEGER NOT NULL,
  modified INTEGER NOT NULL,
  changed INTEGER NOT NULL,
  content INTEGER,
  since INTEGER NOT NULL,
  until INTEGER NOT NULL,
  PRIMARY KEY(vol, parent, name, since)
) STRICT, WITHOUT ROWID;
CREATE INDEX entry_history_node ON entry_history(vol, node, since);

-- Bytes, once each. Either `data`, or `parts`: a JSON array of the ids of the chunks. `key` is the start of `hash`.
-- `data` comes last, so that the rest is read without it.
CREATE TABLE content(
  id INTEGER PRIMARY KEY,
  key INTEGER NOT NULL,
  hash BLOB NOT NULL,
  size INTEGER NOT NULL,
  condemned_at INTEGER,
  parts TEXT,
  data BLOB
) STRICT;
CREATE INDEX content_key ON content(key);

-- Content that a draft has staged and no entry refers to yet.
CREATE TABLE pin(
  draft INTEGER NOT NULL,
  content INTEGER NOT NULL,
  at INTEGER NOT NULL,
  PRIMARY KEY(draft, content)
) STRICT, WITHOUT ROWID;

-- For people: every file with its namespace and its path.
CREATE VIEW file(namespace, key, size, modified) AS
WITH RECURSIVE directory(vol, node, path) AS (
  SELECT id, root, '' FROM volume
  UNION ALL
  SELECT e.vol, e.node, d.path || CAST(e.name AS TEXT) || '/'
  FROM directory d JOIN entry e ON e.vol = d.vol AND e.parent = d.node
  WHERE e.kind = 2
)
SELECT v.namespace, d.path || CAST(e.name AS TEXT), e.size, e.modified
FROM directory d
JOIN volume v ON v.id = d.vol
JOIN entry e ON e.vol = d.vol AND e.parent = d.node
WHERE e.kind = 1;
