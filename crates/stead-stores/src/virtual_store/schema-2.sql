-- Format 2: quotas, and operations that can be looked up.

-- How much lies below a directory, counted with every change. A row exists from the first change that names its quota.
CREATE TABLE quota(
  vol INTEGER NOT NULL,
  node INTEGER NOT NULL,
  bytes INTEGER NOT NULL,
  files INTEGER NOT NULL,
  PRIMARY KEY(vol, node)
) STRICT, WITHOUT ROWID;
