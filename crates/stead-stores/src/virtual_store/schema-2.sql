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
