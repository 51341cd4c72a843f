-- Format 6, the audit: sieves instead of indexes, archives that are remembered.

-- Every index but the one by time was in no order that records come in, so that each record touched a page of its own,
-- and ever more of them were not in memory.
DROP INDEX audit_path;
DROP INDEX audit_path2;
DROP INDEX audit_outcome;
DROP INDEX audit_late;

ALTER TABLE audit ADD COLUMN stead TEXT AS (body ->> '$.stead');
ALTER TABLE audit ADD COLUMN files INTEGER AS (body ->> '$.files');

-- What the records from `first` to `last` may tell of (`bits`: a Bloom filter), and the microseconds from 1970 until the
-- oldest of their calls began. Where a sieve does not let something through, no record there has it. Records that no
-- sieve covers are looked at one by one.
CREATE TABLE audit_sieve(
  first INTEGER PRIMARY KEY,
  last INTEGER NOT NULL,
  oldest INTEGER NOT NULL,
  bits BLOB NOT NULL
) STRICT;

-- A file of archived records: how many are in it, BLAKE3 of all of it, and the directory it was written to; empty where that
-- is the log's own. Of files from before this format, only the name is known.
CREATE TABLE audit_archive(
  file TEXT PRIMARY KEY,
  directory TEXT NOT NULL,
  at TEXT NOT NULL,
  records INTEGER NOT NULL,
  hash BLOB NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO audit_archive(file, directory, at, records, hash)
SELECT file, '', '', sum(last - first + 1), x'' FROM audit_segment GROUP BY file;
