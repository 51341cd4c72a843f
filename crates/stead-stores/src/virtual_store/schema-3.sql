-- Format 3: the audit.

-- A running instance: one process that had the log open. `seq` and `hash` are a late record of its chain, and the last
-- one of an instance that has ended; of the records that came through its spool, the first `spooled` are here.
CREATE TABLE audit_instance(
  id INTEGER PRIMARY KEY,
  uuid TEXT NOT NULL UNIQUE,
  seq INTEGER NOT NULL,
  hash BLOB NOT NULL,
  spooled INTEGER NOT NULL
) STRICT;

-- One record each. `id` grows, and is at least the microseconds from 1970 until it was put here. `body` is the record
-- as JSON, `hash` is BLAKE3 of the hash before it in the chain and of `body`. The columns after it only read the body.
CREATE TABLE audit(
  id INTEGER PRIMARY KEY,
  instance INTEGER NOT NULL,
  seq INTEGER NOT NULL,
  hash BLOB NOT NULL,
  body TEXT NOT NULL,
  at TEXT AS (body ->> '$.at'),
  agent TEXT AS (body ->> '$.agent'),
  thread TEXT AS (body ->> '$.thread'),
  call TEXT AS (body ->> '$.call'),
  path TEXT AS (body ->> '$.paths[0]'),
  path2 TEXT AS (body ->> '$.paths[1]'),
  outcome TEXT AS (body ->> '$.outcome'),
  operation TEXT AS (body ->> '$.operation')
) STRICT;
-- A change touches as few pages as can be: what begins and is over soon is found in time by its id.
CREATE INDEX audit_path ON audit(path, at);
CREATE INDEX audit_path2 ON audit(path2, at) WHERE path2 IS NOT NULL;
CREATE INDEX audit_outcome ON audit(outcome) WHERE outcome <> 'ok';
CREATE INDEX audit_late ON audit(at) WHERE id / 1000000 > unixepoch(at) + 60;

-- What a chain's newest record was at some time, signed with a key that is not in the database.
CREATE TABLE audit_head(
  instance INTEGER NOT NULL,
  seq INTEGER NOT NULL,
  hash BLOB NOT NULL,
  at TEXT NOT NULL,
  key TEXT NOT NULL,
  signature BLOB NOT NULL,
  PRIMARY KEY(instance, seq)
) STRICT, WITHOUT ROWID;

-- Records up to `last` that lie in an archive instead; `last` is a signed head.
CREATE TABLE audit_segment(
  instance INTEGER NOT NULL,
  first INTEGER NOT NULL,
  last INTEGER NOT NULL,
  file TEXT NOT NULL,
  PRIMARY KEY(instance, last)
) STRICT, WITHOUT ROWID;

CREATE TRIGGER audit_unchanged BEFORE UPDATE ON audit
BEGIN SELECT raise(ABORT, 'the audit is only ever added to'); END;
CREATE TRIGGER audit_kept BEFORE DELETE ON audit
WHEN NOT EXISTS (SELECT 1 FROM audit_segment s WHERE s.instance = OLD.instance AND s.last >= OLD.seq)
BEGIN SELECT raise(ABORT, 'the audit is only ever added to'); END;
