-- Format 12: versions that changed nothing. One is made where the caller must not learn from the versions' numbers whether
-- its change found something to do. `path` is what it was about, from the root of the Store.
CREATE TABLE unchanged(
  vol INTEGER NOT NULL,
  ver INTEGER NOT NULL,
  path BLOB NOT NULL,
  PRIMARY KEY(vol, ver)
) STRICT, WITHOUT ROWID;
