-- Each volume knows for itself which operations were undone there: an operation that spans several Stores may be undone in
-- one of them before another one fails.
CREATE TABLE undone_by_volume(
  vol INTEGER NOT NULL,
  operation BLOB NOT NULL,
  by BLOB NOT NULL,
  PRIMARY KEY(vol, operation, by)
) STRICT, WITHOUT ROWID;
INSERT OR IGNORE INTO undone_by_volume(vol, operation, by)
  SELECT did.vol, undone.operation, undone.by FROM undone JOIN version ON version.operation = undone.operation
    JOIN (SELECT vol, ver FROM change UNION SELECT vol, ver FROM kept) did ON did.ver = version.id;
DROP TABLE undone;
ALTER TABLE undone_by_volume RENAME TO undone;
CREATE INDEX undone_by ON undone(vol, by);
-- Format 10: the places of a fork that were Workspaces of their own for its maker, and are no part of it. A JSON array of
-- paths, counted from the fork's top.
ALTER TABLE fork ADD COLUMN left_out TEXT NOT NULL DEFAULT '[]';
