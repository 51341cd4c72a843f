-- Format 8: what host directories held at their snapshots, and which directories have one history.

-- The volume `vol` holds what the directory with the books `ledger` held when it was last taken in. `turn` grows whenever
-- someone begins to take it in; `at` is when that last went on.
CREATE TABLE shadow(
  ledger INTEGER PRIMARY KEY,
  vol INTEGER NOT NULL UNIQUE,
  turn INTEGER NOT NULL,
  at INTEGER NOT NULL
) STRICT;

-- What the host told of a file when its state since version `since` was read.
CREATE TABLE seen(
  vol INTEGER NOT NULL,
  node INTEGER NOT NULL,
  since INTEGER NOT NULL,
  tag BLOB NOT NULL,
  PRIMARY KEY(vol, node)
) STRICT, WITHOUT ROWID;

-- As of version `ver`, a shadow holds what these parts of its directory held (JSON).
CREATE TABLE held(
  vol INTEGER NOT NULL,
  ver INTEGER NOT NULL,
  parts TEXT NOT NULL,
  PRIMARY KEY(vol, ver)
) STRICT, WITHOUT ROWID;

-- Which books a directory has at which place: one that comes to another's place goes on with its books.
CREATE TABLE attached(
  directory TEXT NOT NULL,
  place TEXT NOT NULL,
  vol INTEGER NOT NULL,
  PRIMARY KEY(directory, place)
) STRICT, WITHOUT ROWID;
CREATE INDEX attached_place ON attached(place);
INSERT INTO attached(directory, place, vol)
  SELECT namespace ->> '$.directory', '', id FROM volume WHERE namespace LIKE '{"directory":%';

-- Without shadows, whose files are the host's.
DROP VIEW file;
CREATE VIEW file(namespace, key, size, modified) AS
WITH RECURSIVE directory(vol, node, path) AS (
  SELECT id, root, '' FROM volume WHERE base IS NULL AND namespace LIKE '[%'
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
