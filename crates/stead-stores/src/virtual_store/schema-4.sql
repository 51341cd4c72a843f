-- What Physical Stores write down here: their deeds, and what they count. Their `volume` has the namespace
-- {"directory":"…"}, which no configuration can name, and no root.

-- What a version did to one name of a directory. `what`: 1 placed, 2 replaced, 3 removed, 4 moved to `other`, 5 changed
-- places with `other`, 6 written into, 7 attributes. `detail` (JSON) has what was there before and after. Where `stashed`
-- is 1, what was displaced lies in the directory's workshop as past/<ver>-<seq>; `hash` is its BLAKE3 once it was asked for.
CREATE TABLE kept(
  vol INTEGER NOT NULL,
  ver INTEGER NOT NULL,
  seq INTEGER NOT NULL,
  what INTEGER NOT NULL,
  path BLOB NOT NULL,
  other BLOB,
  detail TEXT NOT NULL,
  stashed INTEGER NOT NULL,
  hash BLOB,
  PRIMARY KEY(vol, ver, seq)
) STRICT, WITHOUT ROWID;

CREATE INDEX kept_stashed ON kept(vol, ver, seq) WHERE stashed = 1;

-- Actions that were about to happen: in which room of the workshop, by which use of a journal, and how they are undone
-- (JSON). The row goes when the change is known to have been made, or to have been taken back.
CREATE TABLE intent(
  vol INTEGER NOT NULL,
  ver INTEGER NOT NULL,
  seq INTEGER NOT NULL,
  room TEXT NOT NULL,
  journal INTEGER,
  undo TEXT NOT NULL,
  PRIMARY KEY(vol, ver, seq)
) STRICT, WITHOUT ROWID;

-- How much lies below a path of a directory, counted at `at` and with every change since; `dirty` where it has to be
-- counted again.
CREATE TABLE counted(
  vol INTEGER NOT NULL,
  path BLOB NOT NULL,
  bytes INTEGER NOT NULL,
  files INTEGER NOT NULL,
  at INTEGER NOT NULL,
  dirty INTEGER NOT NULL,
  PRIMARY KEY(vol, path)
) STRICT, WITHOUT ROWID;
