-- Format 2: quotas, operations that can be looked up and taken back.

-- How much lies below a directory, counted with every change. A row exists from the first change that names its quota.
CREATE TABLE quota(
  vol INTEGER NOT NULL,
  node INTEGER NOT NULL,
  bytes INTEGER NOT NULL,
  files INTEGER NOT NULL,
  PRIMARY KEY(vol, node)
) STRICT, WITHOUT ROWID;

-- Which operation was taken back by which.
CREATE TABLE undone(
  operation BLOB NOT NULL,
  by BLOB NOT NULL,
  PRIMARY KEY(operation, by)
) STRICT, WITHOUT ROWID;
CREATE INDEX undone_by ON undone(by);

-- A version with a name, kept for as long as the row is there. `prefix` is the Workspace it was made of; the whole stead
-- where it is NULL.
CREATE TABLE snapshot(
  id INTEGER PRIMARY KEY,
  agent TEXT NOT NULL,
  prefix TEXT,
  label TEXT,
  version INTEGER NOT NULL,
  at INTEGER NOT NULL
) STRICT;
CREATE UNIQUE INDEX snapshot_label ON snapshot(agent, ifnull(prefix, ''), label) WHERE label IS NOT NULL;

-- `history_from`: no version before it can be read any more, but for those that a snapshot or a fork keeps.
-- `next_snapshot`: no number is given to two.
INSERT INTO meta(id, name, value) VALUES (3, 'history_from', 0), (4, 'next_snapshot', 1);
