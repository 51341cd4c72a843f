-- The database's format, whole. docs/format.md says what holds between these tables.
-- Times are nanoseconds since 1970 unless a comment says otherwise. `volume` is the id of a volume, `revision` of a revision.

-- Numbers, by `id`:
--   dir_epoch             grows with every change that moves or removes a directory
--   next_node             the next free node
--   history_from          the oldest revision that can be read, except those that a snapshot or a fork pins
--   next_snapshot         the next snapshot's number; a number is never used twice
--   unaudited             how many revisions were made while the audit was off
--   forgotten_unaudited   up to which revision history was removed while the audit was off
--   identity              a random number, which the file `database` in the audit's directory has too
CREATE TABLE meta(
  id INTEGER PRIMARY KEY,
  name TEXT NOT NULL,
  value INTEGER NOT NULL
) STRICT;
INSERT INTO meta(id, name, value) VALUES
  (1, 'dir_epoch', 1),
  (2, 'next_node', 1),
  (3, 'history_from', 0),
  (4, 'next_snapshot', 1),
  (5, 'unaudited', 0),
  (6, 'forgotten_unaudited', 0),
  (7, 'identity', random());

-- A named tree. `namespace` is a JSON array of texts, and `root` the node of the tree's root directory. A fork stands on the
-- volume `base` as of `base_revision`. A Physical Store's ledger is a volume too: its namespace is {"directory":"…"}, which no
-- configuration can name, and its root is 0. A volume of a thread has the namespace {"thread":["AGENT","THREAD"],"id":N,"of":[…]}
-- and the thread's id in `thread`; so has a fork that was made in a thread. Such a volume is removed with its thread.
CREATE TABLE volume(
  id INTEGER PRIMARY KEY,
  namespace TEXT NOT NULL UNIQUE,
  root INTEGER NOT NULL,
  base INTEGER,
  base_revision INTEGER,
  thread INTEGER
) STRICT;
CREATE INDEX volume_thread ON volume(thread) WHERE thread IS NOT NULL;
CREATE INDEX volume_base ON volume(base, base_revision) WHERE base IS NOT NULL;

-- One row per change, whatever its volume: the operation that made it. The newest row is never deleted.
CREATE TABLE revision(
  id INTEGER PRIMARY KEY,
  operation BLOB NOT NULL,
  agent TEXT NOT NULL,
  thread TEXT,
  organization TEXT,
  team TEXT,
  tool TEXT NOT NULL,
  at INTEGER NOT NULL
) STRICT;
-- An agent's revisions, newest first. `at` is in the index so that older ones are skipped without reading their rows.
CREATE INDEX revision_agent ON revision(agent, id, at);
CREATE INDEX revision_operation ON revision(operation);

-- What a revision did to one name. `kind`: 1 created, 2 written, 3 attributes, 4 removed, 5 moved to, 6 moved from.
CREATE TABLE node_change(
  volume INTEGER NOT NULL,
  revision INTEGER NOT NULL,
  seq INTEGER NOT NULL,
  kind INTEGER NOT NULL,
  node INTEGER NOT NULL,
  parent INTEGER NOT NULL,
  name BLOB NOT NULL,
  PRIMARY KEY(volume, revision, seq)
) STRICT, WITHOUT ROWID;

-- Revisions that changed nothing. A WRITE_ONLY caller must not learn from a revision's number whether its change found
-- something to do, so such a change makes a revision in any case. `path` is the change's path inside the Store.
CREATE TABLE empty_revision(
  volume INTEGER NOT NULL,
  revision INTEGER NOT NULL,
  path BLOB NOT NULL,
  PRIMARY KEY(volume, revision)
) STRICT, WITHOUT ROWID;

-- What is there now, since revision `since`. `kind`: 0 whiteout (in a fork), 1 file, 2 directory, 3 symlink.
CREATE TABLE entry(
  volume INTEGER NOT NULL,
  parent INTEGER NOT NULL,
  name BLOB NOT NULL,
  node INTEGER NOT NULL,
  kind INTEGER NOT NULL,
  mode INTEGER NOT NULL,
  size INTEGER NOT NULL,
  created INTEGER NOT NULL,
  modified INTEGER NOT NULL,
  changed INTEGER NOT NULL,
  content INTEGER,
  since INTEGER NOT NULL,
  PRIMARY KEY(volume, parent, name)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX entry_node ON entry(volume, node);

-- What was there from revision `since` until just before revision `until`.
CREATE TABLE entry_history(
  volume INTEGER NOT NULL,
  parent INTEGER NOT NULL,
  name BLOB NOT NULL,
  node INTEGER NOT NULL,
  kind INTEGER NOT NULL,
  mode INTEGER NOT NULL,
  size INTEGER NOT NULL,
  created INTEGER NOT NULL,
  modified INTEGER NOT NULL,
  changed INTEGER NOT NULL,
  content INTEGER,
  since INTEGER NOT NULL,
  until INTEGER NOT NULL,
  PRIMARY KEY(volume, parent, name, since)
) STRICT, WITHOUT ROWID;
CREATE INDEX entry_history_node ON entry_history(volume, node, since);

-- The times that a directory of a volume with forks had until just before revision `until`.
CREATE TABLE directory_time(
  volume INTEGER NOT NULL,
  node INTEGER NOT NULL,
  until INTEGER NOT NULL,
  modified INTEGER NOT NULL,
  changed INTEGER NOT NULL,
  PRIMARY KEY(volume, node, until)
) STRICT, WITHOUT ROWID;

-- Bytes, each stored once: either `data`, or `parts`, a JSON array of the ids of the chunks. `key` is the start of `hash`.
-- Garbage collection sets `unreferenced_at`, and deletes the row if it is still unreferenced later.
-- `data` comes last, so that the other columns are read without it.
CREATE TABLE content(
  id INTEGER PRIMARY KEY,
  key INTEGER NOT NULL,
  hash BLOB NOT NULL,
  size INTEGER NOT NULL,
  unreferenced_at INTEGER,
  parts TEXT,
  data BLOB
) STRICT;
CREATE INDEX content_key ON content(key);

-- Content that a draft has stored and no entry refers to yet.
CREATE TABLE pin(
  draft INTEGER NOT NULL,
  content INTEGER NOT NULL,
  at INTEGER NOT NULL,
  PRIMARY KEY(draft, content)
) STRICT, WITHOUT ROWID;

-- How much lies below a directory, updated with every change. A row exists from the first change that names its quota.
CREATE TABLE usage(
  volume INTEGER NOT NULL,
  node INTEGER NOT NULL,
  bytes INTEGER NOT NULL,
  files INTEGER NOT NULL,
  PRIMARY KEY(volume, node)
) STRICT, WITHOUT ROWID;

-- Which operation was undone by which operation, per volume: an operation that spans several Stores may be undone in one of
-- them before another one fails.
CREATE TABLE undone(
  volume INTEGER NOT NULL,
  operation BLOB NOT NULL,
  undone_by BLOB NOT NULL,
  PRIMARY KEY(volume, operation, undone_by)
) STRICT, WITHOUT ROWID;
CREATE INDEX undone_by ON undone(volume, undone_by);

-- Rows that changes wrote beside their files, such as manifests and leases; `data` is JSON. `path`, `node`, `size` and `tag` are
-- what a step of the change left, and `revision` is what the change made. Of several rows with one key the newest (`id`) counts;
-- without `data` it says that the record is removed. A row is `pending` until its change is known to be made: it is deleted if
-- the change is rolled back, and otherwise the older rows of its key are.
CREATE TABLE companion_record(
  id INTEGER PRIMARY KEY,
  volume INTEGER NOT NULL,
  kind TEXT NOT NULL,
  key TEXT NOT NULL,
  revision INTEGER,
  path BLOB,
  node INTEGER,
  size INTEGER,
  tag BLOB,
  data TEXT,
  pending INTEGER NOT NULL
) STRICT;
CREATE INDEX companion_record_key ON companion_record(volume, kind, key, id);
CREATE INDEX companion_record_pending ON companion_record(volume, revision) WHERE pending = 1;

-- A revision with a name, pinned for as long as the row exists. `prefix` is the Workspace that the snapshot is of, or NULL for
-- the whole stead.
CREATE TABLE snapshot(
  id INTEGER PRIMARY KEY,
  agent TEXT NOT NULL,
  prefix TEXT,
  label TEXT,
  revision INTEGER NOT NULL,
  at INTEGER NOT NULL
) STRICT;
CREATE UNIQUE INDEX snapshot_label ON snapshot(agent, ifnull(prefix, ''), label) WHERE label IS NOT NULL;

-- Who owns a fork, who made it, and of which Workspace. `path` is the part of the volume that the fork shows; `protect`,
-- `hide`, `scratch`, `quota` (JSON) and `ask` are the Workspace's. `omitted` is a JSON array of paths inside the fork: the nested
-- Workspaces of its maker. The volume shows nothing there: a part of the fork does, or nothing. `origin` is the agent whose Workspace
-- the content comes from: the maker or, for a fork of a fork, the `origin` of the first one.
CREATE TABLE fork(
  owner TEXT NOT NULL,
  name TEXT NOT NULL,
  volume INTEGER NOT NULL,
  created_by TEXT NOT NULL,
  prefix TEXT NOT NULL,
  path TEXT NOT NULL,
  protect TEXT NOT NULL,
  hide TEXT NOT NULL,
  scratch TEXT NOT NULL,
  quota TEXT NOT NULL,
  at INTEGER NOT NULL,
  ask TEXT NOT NULL,
  omitted TEXT NOT NULL,
  origin TEXT NOT NULL,
  PRIMARY KEY(owner, name)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX fork_volume ON fork(volume);

-- The parts of forks: a nested Workspace that was forked with the one around it has a volume of its own. `place` is where it is in
-- the fork, and `scope` what the owner may do there. `fork` is the volume of the fork itself, and NULL until that is made, with the
-- same `made_by`. The other columns are those of `fork`. A part is removed with its fork.
CREATE TABLE fork_part(
  volume INTEGER PRIMARY KEY,
  fork INTEGER,
  owner TEXT NOT NULL,
  name TEXT NOT NULL,
  place TEXT NOT NULL,
  scope TEXT NOT NULL,
  made_by BLOB NOT NULL,
  created_by TEXT NOT NULL,
  prefix TEXT NOT NULL,
  path TEXT NOT NULL,
  protect TEXT NOT NULL,
  hide TEXT NOT NULL,
  scratch TEXT NOT NULL,
  quota TEXT NOT NULL,
  at INTEGER NOT NULL,
  ask TEXT NOT NULL,
  omitted TEXT NOT NULL,
  origin TEXT NOT NULL
) STRICT;
CREATE UNIQUE INDEX fork_part_place ON fork_part(owner, name, place, made_by);
CREATE INDEX fork_part_fork ON fork_part(fork);

-- A volume that holds what the forks of a host directory have taken over from it: each name when a fork first changed something
-- there. Its rows hold since revision `since`, the one at which the first fork was made. `location` is the directory's, as in
-- `ledger_directory`, and `created` is when the directory itself was created, if the host knows. A pinned fork reads what it has
-- not taken over from the snapshot of revision `pinned`; every other fork reads it from the directory as it is.
CREATE TABLE overlay(
  volume INTEGER PRIMARY KEY,
  location TEXT NOT NULL,
  since INTEGER NOT NULL,
  created INTEGER,
  pinned INTEGER
) STRICT;
CREATE INDEX overlay_location ON overlay(location);

-- The names that the volume of an overlay has taken over, in the order of `seq`: from then on the volume decides about the name,
-- whatever happens in the directory. `node` is NULL if nothing had the name then. An empty `name` says that the volume has taken
-- over every name of the directory `parent`.
CREATE TABLE taken_name(
  volume INTEGER NOT NULL,
  seq INTEGER NOT NULL,
  parent INTEGER NOT NULL,
  name BLOB NOT NULL,
  node INTEGER,
  PRIMARY KEY(volume, seq)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX taken_name_parent ON taken_name(volume, parent, name);

-- Up to which revision a fork (`volume`) has taken in the changes of the volume `target` that it was made from: when it was made
-- (number 0), and with every update and merge since. It has the rows of the target's manifest up to `manifest_revision`. `operation`
-- is what took them in, and `merge_operation` the merge of the fork into its target that this belongs to. A sync doesn't count if
-- `operation` is undone, or if the sync that counted when it was planned (`based_on`) doesn't count. If the merge alone is undone, the
-- files that it changed have the base that they had just before it, at revision `before_merge`.
CREATE TABLE fork_sync(
  volume INTEGER NOT NULL,
  number INTEGER NOT NULL,
  based_on INTEGER,
  target INTEGER NOT NULL,
  target_revision INTEGER NOT NULL,
  manifest_revision INTEGER NOT NULL,
  operation BLOB,
  merge_operation BLOB,
  before_merge INTEGER,
  PRIMARY KEY(volume, number)
) STRICT, WITHOUT ROWID;
CREATE INDEX fork_sync_target ON fork_sync(target, target_revision);

-- Nodes that differ from the rest of a sync: those whose base is still the target's `base_revision`, because their changes were in
-- conflict or left out, or the fork's owner may not see them; those that were written with conflict markers; and those that have no
-- base (neither of the two), because the target has moved them to where the fork's owner can't see them. `is_marked` is 1 for those with
-- markers, and 2 for those with a `base_revision` that the target has moved to where the fork's owner can't see them.
CREATE TABLE fork_sync_node(
  volume INTEGER NOT NULL,
  number INTEGER NOT NULL,
  node INTEGER NOT NULL,
  base_revision INTEGER,
  is_marked INTEGER NOT NULL,
  PRIMARY KEY(volume, number, node)
) STRICT, WITHOUT ROWID;

-- Threads -------------------------------------------------------------------------------------------------------------------

-- A thread of an agent that has files of its own. `id` comes from the node counter, so it is never used again. Times are those of
-- the database's clock: nanoseconds since 1970, whole milliseconds. Without `idle_timeout`, the thread never ends by itself. `epoch`
-- grows with every lease that is taken. `ending` is the lease holder that is removing the thread; if that holder is gone or has
-- expired, another one finishes the removal.
CREATE TABLE thread(
  id INTEGER PRIMARY KEY,
  agent TEXT NOT NULL,
  name TEXT NOT NULL,
  created INTEGER NOT NULL,
  last_used INTEGER NOT NULL,
  idle_timeout INTEGER,
  epoch INTEGER NOT NULL,
  ending INTEGER
) STRICT;
CREATE UNIQUE INDEX thread_name ON thread(agent, name);
CREATE INDEX thread_idle ON thread(last_used + idle_timeout) WHERE idle_timeout IS NOT NULL;
CREATE INDEX thread_ending ON thread(ending) WHERE ending IS NOT NULL;

-- A process that uses threads, until `expires` by the database's clock unless it renews. A holder that has expired gets a new row.
CREATE TABLE lease_holder(
  id INTEGER PRIMARY KEY,
  expires INTEGER NOT NULL
) STRICT;

-- That a holder uses a thread. Every change of the thread names the whole row, and is refused without it.
CREATE TABLE thread_lease(
  thread INTEGER NOT NULL,
  holder INTEGER NOT NULL,
  epoch INTEGER NOT NULL,
  PRIMARY KEY(thread, holder)
) STRICT, WITHOUT ROWID;
CREATE INDEX thread_lease_holder ON thread_lease(holder);

-- Managed Workspaces --------------------------------------------------------------------------------------------------------

-- A directory whose files are managed: `path` in `volume`. `workspace` is both of them as one text, such as `3:/notes`. Where
-- `unsynced` is 1, files may lack rows until sync has run. `last_cleanup` is how the last cleanup went (JSON).
CREATE TABLE managed_workspace(
  workspace TEXT NOT NULL PRIMARY KEY,
  volume INTEGER NOT NULL,
  path TEXT NOT NULL,
  unsynced INTEGER NOT NULL,
  last_cleanup TEXT
) STRICT, WITHOUT ROWID;
CREATE INDEX managed_workspace_volume ON managed_workspace(volume);

-- The manifest: one row for each file in the directory of a category. `id` comes from the node counter, so it is never used again.
-- `path` is relative to the managed directory. Times are RFC 3339 in UTC with milliseconds. `tags` has commas between the tags. The
-- row is as it is since revision `since`.
CREATE TABLE workspace_files(
  id INTEGER PRIMARY KEY,
  workspace TEXT NOT NULL,
  path TEXT NOT NULL,
  category TEXT NOT NULL,
  original_name TEXT,
  size_bytes INTEGER NOT NULL,
  source_tool TEXT,
  tags TEXT NOT NULL DEFAULT '',
  created_at TEXT NOT NULL,
  modified_at TEXT NOT NULL,
  accessed_at TEXT,
  session_key TEXT,
  since INTEGER NOT NULL,
  UNIQUE(workspace, path)
) STRICT;
-- Each index is one more page that every new file writes. A list of all categories merges theirs.
CREATE INDEX workspace_files_category ON workspace_files(workspace, category, modified_at);
CREATE INDEX workspace_files_name ON workspace_files(workspace, original_name);
-- The few files whose name isn't the end of their path any more, for searches.
CREATE INDEX workspace_files_renamed ON workspace_files(workspace, original_name)
  WHERE substr(path, -length(original_name)) <> original_name;

-- The tags of `workspace_files`, one row for each tag of a file: `file` is the row's `id`, and `written` its `modified_at`. Triggers
-- keep it where tags change and where rows go. What inserts a row with tags adds them, and what sets `modified_at` of such a row sets
-- `tags`, too: a trigger that each write of a file ran would cost more than the row.
CREATE TABLE workspace_file_tag(
  workspace TEXT NOT NULL,
  tag TEXT NOT NULL,
  written TEXT NOT NULL,
  file INTEGER NOT NULL,
  PRIMARY KEY(workspace, tag, written, file)
) STRICT, WITHOUT ROWID;
CREATE TRIGGER workspace_files_tags_removed AFTER DELETE ON workspace_files WHEN OLD.tags <> '' BEGIN
  DELETE FROM workspace_file_tag WHERE workspace = OLD.workspace AND written = OLD.modified_at AND file = OLD.id
    AND tag IN (SELECT value FROM json_each('[' || replace(json_quote(OLD.tags), ',', '","') || ']'));
END;
CREATE TRIGGER workspace_files_tags_changed AFTER UPDATE OF workspace, tags ON workspace_files
  WHEN OLD.tags <> '' OR NEW.tags <> '' BEGIN
  DELETE FROM workspace_file_tag WHERE workspace = OLD.workspace AND written = OLD.modified_at AND file = OLD.id
    AND tag IN (SELECT value FROM json_each('[' || replace(json_quote(OLD.tags), ',', '","') || ']'));
  INSERT OR IGNORE INTO workspace_file_tag(workspace, tag, written, file) SELECT NEW.workspace, value, NEW.modified_at, NEW.id
    FROM json_each('[' || replace(json_quote(NEW.tags), ',', '","') || ']');
END;

-- Rows of the manifest as they were from revision `since` until just before revision `until`.
CREATE TABLE workspace_file_history(
  id INTEGER NOT NULL,
  workspace TEXT NOT NULL,
  path TEXT NOT NULL,
  category TEXT NOT NULL,
  original_name TEXT,
  size_bytes INTEGER NOT NULL,
  source_tool TEXT,
  tags TEXT NOT NULL,
  created_at TEXT NOT NULL,
  modified_at TEXT NOT NULL,
  accessed_at TEXT,
  session_key TEXT,
  since INTEGER NOT NULL,
  until INTEGER NOT NULL,
  PRIMARY KEY(workspace, path, until)
) STRICT, WITHOUT ROWID;

-- The last rows of files that were gone when sync looked, and that no change of Stead has removed: a disk that wasn't mounted, or
-- another program that moved them away. A file that comes back gets its row back. `until` is the newest revision when it was gone.
CREATE TABLE workspace_file_missing(
  id INTEGER NOT NULL,
  workspace TEXT NOT NULL,
  path TEXT NOT NULL,
  category TEXT NOT NULL,
  original_name TEXT,
  size_bytes INTEGER NOT NULL,
  source_tool TEXT,
  tags TEXT NOT NULL,
  created_at TEXT NOT NULL,
  modified_at TEXT NOT NULL,
  accessed_at TEXT,
  session_key TEXT,
  since INTEGER NOT NULL,
  until INTEGER NOT NULL,
  PRIMARY KEY(workspace, path)
) STRICT, WITHOUT ROWID;

-- The ledger of Physical Stores ---------------------------------------------------------------------------------------------

-- What a revision did to one name of a directory. `kind`: 1 placed, 2 replaced, 3 removed, 4 moved to `other_path`,
-- 5 exchanged with `other_path`, 6 written into, 7 attributes set. `detail` (JSON) has the states before and after. Where
-- `displaced` is 1, the displaced content lies in the directory's staging area as displaced/<revision>-<seq>; `hash` is its
-- BLAKE3 once it was computed.
CREATE TABLE ledger_event(
  volume INTEGER NOT NULL,
  revision INTEGER NOT NULL,
  seq INTEGER NOT NULL,
  kind INTEGER NOT NULL,
  path BLOB NOT NULL,
  other_path BLOB,
  detail TEXT NOT NULL,
  displaced INTEGER NOT NULL,
  hash BLOB,
  PRIMARY KEY(volume, revision, seq)
) STRICT, WITHOUT ROWID;
CREATE INDEX ledger_event_displaced ON ledger_event(volume, revision, seq) WHERE displaced = 1;

-- Events of threads that have ended, as far as their revision has other rows in `ledger_event`: the digest in the record of the
-- revision covers all of them. Nothing but the check of the audit reads these rows.
CREATE TABLE forgotten_event(
  volume INTEGER NOT NULL,
  revision INTEGER NOT NULL,
  seq INTEGER NOT NULL,
  kind INTEGER NOT NULL,
  path BLOB NOT NULL,
  other_path BLOB,
  PRIMARY KEY(volume, revision, seq)
) STRICT, WITHOUT ROWID;

-- Actions that are about to happen: in which staging directory, in which use of its intent log, and how to undo them (JSON). The
-- row is deleted when the change is known to have been made or rolled back.
CREATE TABLE intent(
  volume INTEGER NOT NULL,
  revision INTEGER NOT NULL,
  seq INTEGER NOT NULL,
  staging_dir TEXT NOT NULL,
  intent_log INTEGER,
  undo TEXT NOT NULL,
  PRIMARY KEY(volume, revision, seq)
) STRICT, WITHOUT ROWID;

-- How much lies below a path of a directory: counted at `at`, and updated with every change since. Where `dirty` is 1, it must
-- be counted again.
CREATE TABLE ledger_usage(
  volume INTEGER NOT NULL,
  path BLOB NOT NULL,
  bytes INTEGER NOT NULL,
  files INTEGER NOT NULL,
  at INTEGER NOT NULL,
  dirty INTEGER NOT NULL,
  PRIMARY KEY(volume, path)
) STRICT, WITHOUT ROWID;

-- Which ledger belongs to the directory with this identity at this location. A directory that takes the place of another one
-- continues its ledger.
CREATE TABLE ledger_directory(
  identity TEXT NOT NULL,
  location TEXT NOT NULL,
  volume INTEGER NOT NULL,
  PRIMARY KEY(identity, location)
) STRICT, WITHOUT ROWID;
CREATE INDEX ledger_directory_location ON ledger_directory(location);

-- `volume` holds what snapshots have captured of the directory whose ledger is `ledger`. `turn` grows with every capture that
-- begins; `at` is when the running capture last made progress.
CREATE TABLE capture_volume(
  ledger INTEGER PRIMARY KEY,
  volume INTEGER NOT NULL UNIQUE,
  turn INTEGER NOT NULL,
  at INTEGER NOT NULL
) STRICT;

-- As of `revision`, a capture volume holds what these parts of its directory held (JSON).
CREATE TABLE capture(
  volume INTEGER NOT NULL,
  revision INTEGER NOT NULL,
  parts TEXT NOT NULL,
  PRIMARY KEY(volume, revision)
) STRICT, WITHOUT ROWID;

-- The version tag that the host's file had when the entry's state since revision `since` was captured or taken over. In the mirror of
-- a directory, the file's inode number follows.
CREATE TABLE fingerprint(
  volume INTEGER NOT NULL,
  node INTEGER NOT NULL,
  since INTEGER NOT NULL,
  tag BLOB NOT NULL,
  PRIMARY KEY(volume, node)
) STRICT, WITHOUT ROWID;

-- The audit -----------------------------------------------------------------------------------------------------------------

-- One process that had the log open. `seq` and `hash` belong to a late record of its chain, and to the last one of an instance
-- that has ended. `spooled` of the records that went through its spool are in the database.
CREATE TABLE audit_instance(
  id INTEGER PRIMARY KEY,
  uuid TEXT NOT NULL UNIQUE,
  seq INTEGER NOT NULL,
  hash BLOB NOT NULL,
  spooled INTEGER NOT NULL
) STRICT;

-- One record each. `id` grows, and is at least the time of insertion in microseconds since 1970. `body` is the record as JSON;
-- `hash` is BLAKE3 of the chain's previous hash and of `body`. The columns after it only read the body; they are NULL if it isn't
-- valid JSON, so that a damaged record can still be selected and copied. The table isn't STRICT, because a STRICT table computes
-- them at every insertion.
CREATE TABLE audit(
  id INTEGER PRIMARY KEY,
  instance INTEGER NOT NULL,
  seq INTEGER NOT NULL,
  hash BLOB NOT NULL,
  body TEXT NOT NULL,
  at TEXT AS (CASE WHEN json_valid(body) THEN body ->> '$.at' END),
  agent TEXT AS (CASE WHEN json_valid(body) THEN body ->> '$.agent' END),
  thread TEXT AS (CASE WHEN json_valid(body) THEN body ->> '$.thread' END),
  call TEXT AS (CASE WHEN json_valid(body) THEN body ->> '$.call' END),
  path TEXT AS (CASE WHEN json_valid(body) THEN body ->> '$.paths[0]' END),
  path2 TEXT AS (CASE WHEN json_valid(body) THEN body ->> '$.paths[1]' END),
  outcome TEXT AS (CASE WHEN json_valid(body) THEN body ->> '$.outcome' END),
  operation TEXT AS (CASE WHEN json_valid(body) THEN body ->> '$.operation' END),
  stead TEXT AS (CASE WHEN json_valid(body) THEN body ->> '$.stead' END),
  files INTEGER AS (CASE WHEN json_valid(body) THEN CAST(body ->> '$.files' AS INTEGER) END)
);

-- What the records from `first` to `last` may contain (`bits`: a Bloom filter), and when the oldest of their calls began, in
-- microseconds since 1970. Records that no filter covers are read one by one. Filters replace indexes: an index would make each
-- record touch a page of its own, in no order.
CREATE TABLE audit_filter(
  first INTEGER PRIMARY KEY,
  last INTEGER NOT NULL,
  oldest INTEGER NOT NULL,
  bits BLOB NOT NULL
) STRICT;

-- The newest record of a chain at some time, signed with a key that isn't in the database.
CREATE TABLE audit_head(
  instance INTEGER NOT NULL,
  seq INTEGER NOT NULL,
  hash BLOB NOT NULL,
  at TEXT NOT NULL,
  key TEXT NOT NULL,
  signature BLOB NOT NULL,
  PRIMARY KEY(instance, seq)
) STRICT, WITHOUT ROWID;

-- Records up to `last` that were moved to an archive file; `last` is a signed head.
CREATE TABLE audit_segment(
  instance INTEGER NOT NULL,
  first INTEGER NOT NULL,
  last INTEGER NOT NULL,
  file TEXT NOT NULL,
  PRIMARY KEY(instance, last)
) STRICT, WITHOUT ROWID;

-- A file of archived records: how many it has, its BLAKE3, and the directory that it was written to (empty for the log's own).
CREATE TABLE audit_archive(
  file TEXT PRIMARY KEY,
  directory TEXT NOT NULL,
  at TEXT NOT NULL,
  records INTEGER NOT NULL,
  hash BLOB NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TRIGGER audit_no_update BEFORE UPDATE ON audit
BEGIN SELECT raise(ABORT, 'audit records can only be added'); END;
CREATE TRIGGER audit_no_delete BEFORE DELETE ON audit
WHEN NOT EXISTS (SELECT 1 FROM audit_segment s WHERE s.instance = OLD.instance AND s.last >= OLD.seq)
BEGIN SELECT raise(ABORT, 'audit records can only be added'); END;

-- For people --------------------------------------------------------------------------------------------------------------

-- Every file of a Virtual Store with its namespace and path. Forks are left out, since their files are their own rows and their
-- base's together; so are capture volumes, whose files are the host's.
CREATE VIEW file(namespace, key, size, modified) AS
WITH RECURSIVE directory(volume, node, path) AS (
  SELECT id, root, '' FROM volume WHERE base IS NULL AND (namespace LIKE '[%' OR namespace LIKE '{"thread"%')
  UNION ALL
  SELECT e.volume, e.node, d.path || CAST(e.name AS TEXT) || '/'
  FROM directory d JOIN entry e ON e.volume = d.volume AND e.parent = d.node
  WHERE e.kind = 2
)
SELECT v.namespace, d.path || CAST(e.name AS TEXT), e.size, e.modified
FROM directory d
JOIN volume v ON v.id = d.volume
JOIN entry e ON e.volume = d.volume AND e.parent = d.node
WHERE e.kind = 1;
