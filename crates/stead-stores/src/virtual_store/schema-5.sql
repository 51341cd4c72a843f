-- Format 5: forks. A volume may stand on another one as it was at a version.

-- `base` and `base_ver` say on what a fork stands; both are NULL where a volume stands on nothing.
ALTER TABLE volume ADD COLUMN base INTEGER;
ALTER TABLE volume ADD COLUMN base_ver INTEGER;
CREATE INDEX volume_base ON volume(base, base_ver) WHERE base IS NOT NULL;

-- The times that a directory of a forked volume had until just before version `until`.
CREATE TABLE directory_time(
  vol INTEGER NOT NULL,
  node INTEGER NOT NULL,
  until INTEGER NOT NULL,
  modified INTEGER NOT NULL,
  changed INTEGER NOT NULL,
  PRIMARY KEY(vol, node, until)
) STRICT, WITHOUT ROWID;

-- Whose fork a volume is, and which Workspace it was made of. `path` is the part of the volume that it shows;
-- `protect`, `scratch` and `quota` are those of the Workspace, as JSON.
CREATE TABLE fork(
  owner TEXT NOT NULL,
  name TEXT NOT NULL,
  vol INTEGER NOT NULL,
  maker TEXT NOT NULL,
  prefix TEXT NOT NULL,
  path TEXT NOT NULL,
  protect TEXT NOT NULL,
  scratch TEXT NOT NULL,
  quota TEXT NOT NULL,
  at INTEGER NOT NULL,
  PRIMARY KEY(owner, name)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX fork_vol ON fork(vol);

-- Only what stands on nothing: a fork's files are its own rows and those of its base together.
DROP VIEW file;
CREATE VIEW file(namespace, key, size, modified) AS
WITH RECURSIVE directory(vol, node, path) AS (
  SELECT id, root, '' FROM volume WHERE base IS NULL
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
