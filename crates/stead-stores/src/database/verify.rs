//! Checks a database: every hash, every reference, and SQLite's own structure. The audit has its own check.

use std::collections::HashSet;
use std::sync::Arc;

use blake3::Hash;
use rusqlite::Connection;
use rusqlite::types::ValueRef;
use stead_core::store::VerifyReport;

use crate::database::error::Result;
use crate::database::revision_file::AcknowledgedRevisions;
use crate::database::{Volume, newest_revision};
use crate::virtual_store::change::quota;
use crate::virtual_store::content::{CHUNK_SIZE, hash_key, list_hash, part_ids};
use crate::virtual_store::entry_row::WHITEOUT;
use crate::virtual_store::layers;
use crate::virtual_store::tree::VolumeTree;

/// How many problems are reported in detail.
const MAX_PROBLEMS: usize = 100;
/// How many rows are checked between two calls of `progress`.
const ROWS_PER_PROGRESS: u64 = 1_024;

/// Rules that no row may break: a query for the rows that do, and what is wrong with them.
const RULES: [(&str, &str); 23] = [
    (
        "SELECT v.id FROM volume v WHERE v.base IS NOT NULL
           AND NOT EXISTS (SELECT 1 FROM volume b WHERE b.id = v.base AND b.root = v.root AND b.id <> v.id)",
        "is the volume of a fork whose base doesn't exist",
    ),
    (
        "SELECT e.node FROM entry e WHERE e.kind = 0 AND NOT EXISTS (SELECT 1 FROM volume v WHERE v.id = e.volume AND v.base IS NOT NULL)",
        "is a whiteout in a volume that isn't a fork",
    ),
    (
        "SELECT e.node FROM entry e JOIN volume v ON v.id = e.volume AND v.base IS NULL WHERE e.parent <> 0
           AND NOT EXISTS (SELECT 1 FROM entry p WHERE p.node = e.parent AND p.volume = e.volume AND p.kind = 2)",
        "has no parent directory",
    ),
    (
        "SELECT v.root FROM volume v
         WHERE v.base IS NULL AND v.root <> 0 AND NOT EXISTS (SELECT 1 FROM entry e WHERE e.volume = v.id AND e.parent = 0 AND e.name = x'' AND e.node = v.root AND e.kind = 2)",
        "is the root of a volume and doesn't exist",
    ),
    (
        "SELECT e.node FROM entry e WHERE e.parent = 0 AND e.kind <> 0 AND NOT EXISTS (SELECT 1 FROM volume v WHERE v.root = e.node AND v.id = e.volume)",
        "has no parent and isn't a root",
    ),
    (
        "SELECT e.node FROM entry e WHERE e.kind = 2 AND (e.content IS NOT NULL OR e.size <> 0)",
        "is a directory with content",
    ),
    (
        "SELECT e.node FROM entry e LEFT JOIN content c ON c.id = e.content
         WHERE e.kind <> 2 AND e.size <> ifnull(c.size, 0)
           AND NOT (e.content IS NULL AND e.volume IN (SELECT volume FROM capture_volume))",
        "has content that is missing or has the wrong length",
    ),
    (
        "SELECT h.node FROM entry_history h LEFT JOIN content c ON c.id = h.content
         WHERE h.kind <> 2 AND h.content IS NOT NULL AND h.size <> ifnull(c.size, -1)",
        "had content that is missing or has the wrong length",
    ),
    (
        "SELECT h.node FROM entry_history h WHERE h.since >= h.until",
        "has a row in the history that ends before it begins",
    ),
    (
        "SELECT h.node FROM entry_history h JOIN entry_history o
           ON o.volume = h.volume AND o.parent = h.parent AND o.name = h.name AND o.since > h.since AND o.since < h.until",
        "had its path at the same time as another node",
    ),
    (
        "SELECT h.node FROM entry_history h JOIN entry e ON e.volume = h.volume AND e.parent = h.parent AND e.name = h.name
         WHERE e.since < h.until",
        "had its path at the same time as the present node",
    ),
    (
        "SELECT node FROM entry WHERE node >= (SELECT value FROM meta WHERE id = 2) AND node < 1 << 62
           OR since > (SELECT ifnull(max(id), 0) FROM revision)",
        "has a number or a version that the database hasn't reached",
    ),
    (
        "SELECT s.volume FROM capture_volume s WHERE NOT EXISTS (SELECT 1 FROM volume v WHERE v.id = s.volume)
           OR NOT EXISTS (SELECT 1 FROM volume v WHERE v.id = s.ledger)",
        "is a capture volume whose volume or ledger doesn't exist",
    ),
    (
        "SELECT c.id FROM companion_record c WHERE NOT EXISTS (SELECT 1 FROM volume v WHERE v.id = c.volume)",
        "is a companion record whose volume doesn't exist",
    ),
    (
        "SELECT c.id FROM companion_record c WHERE c.data IS NOT NULL AND NOT json_valid(c.data)",
        "is a companion record that can't be read",
    ),
    (
        "SELECT t.parent FROM taken_name t WHERE NOT EXISTS (SELECT 1 FROM overlay o WHERE o.volume = t.volume)
           OR NOT EXISTS (SELECT 1 FROM entry e WHERE e.volume = t.volume AND e.node = t.parent AND e.kind = 2)
           OR t.node IS NOT NULL AND NOT EXISTS (SELECT 1 FROM entry e
                WHERE e.volume = t.volume AND e.parent = t.parent AND e.name = t.name AND e.node = t.node)",
        "has a name that was taken over from a host directory, without the entry",
    ),
    (
        "SELECT f.id FROM workspace_files f WHERE NOT EXISTS
           (SELECT 1 FROM managed_workspace m JOIN volume v ON v.id = m.volume WHERE m.workspace = f.workspace)",
        "is a row of a manifest whose Workspace doesn't exist",
    ),
    (
        "SELECT t.file FROM workspace_file_tag t WHERE NOT EXISTS (SELECT 1 FROM workspace_files f WHERE f.id = t.file
           AND f.workspace = t.workspace AND f.modified_at = t.written AND instr(',' || f.tags || ',', ',' || t.tag || ',') > 0)
         UNION SELECT f.id FROM workspace_files f, json_each('[' || replace(json_quote(f.tags), ',', '\",\"') || ']') j
         WHERE f.tags <> '' AND NOT EXISTS (SELECT 1 FROM workspace_file_tag t WHERE t.workspace = f.workspace AND t.tag = j.value
           AND t.written = f.modified_at AND t.file = f.id)",
        "is a row of a manifest whose tags aren't those by which it is found",
    ),
    (
        "SELECT id FROM workspace_files WHERE id >= (SELECT value FROM meta WHERE id = 2)",
        "is a row of a manifest with a number that the database hasn't reached",
    ),
    (
        "SELECT v.id FROM volume v WHERE v.thread IS NOT NULL AND NOT EXISTS (SELECT 1 FROM thread t WHERE t.id = v.thread)
           AND (SELECT file FROM pragma_database_list WHERE name = 'main') <> ''",
        // The threads of a database in memory are in another database.
        "is the volume of a thread that doesn't exist",
    ),
    (
        "SELECT l.thread FROM thread_lease l WHERE NOT EXISTS (SELECT 1 FROM lease_holder h WHERE h.id = l.holder)
           OR NOT EXISTS (SELECT 1 FROM thread t WHERE t.id = l.thread AND t.epoch >= l.epoch)",
        "has a lease whose thread or holder doesn't exist",
    ),
    (
        "SELECT id FROM thread WHERE id >= (SELECT value FROM meta WHERE id = 2)
         UNION SELECT id FROM lease_holder WHERE id >= (SELECT value FROM meta WHERE id = 2)",
        "is a thread or a lease holder with a number that the database hasn't reached",
    ),
    (
        "SELECT q.node FROM usage q JOIN volume v ON v.id = q.volume AND v.base IS NULL WHERE (q.bytes, q.files) <> (
           WITH RECURSIVE below(node, kind, size) AS (
             SELECT node, kind, size FROM entry WHERE volume = q.volume AND parent = q.node
             UNION ALL
             SELECT e.node, e.kind, e.size FROM below b CROSS JOIN entry e ON e.volume = q.volume AND e.parent = b.node
             WHERE b.kind = 2)
           SELECT ifnull(sum(iif(kind = 1, size, 0)), 0), count(*) FILTER (WHERE kind <> 2) FROM below)",
        "has a quota count that differs from its content",
    ),
];

struct DatabaseCheck<'a> {
    conn: &'a Connection,
    progress: &'a mut dyn FnMut(u64),
    rows_checked: u64,
    report: VerifyReport,
}

/// Checks everything in the database in one snapshot. `acknowledged` is what the file beside the database says.
pub(crate) fn verify(
    conn: &Connection,
    acknowledged: Option<AcknowledgedRevisions>,
    progress: &mut dyn FnMut(u64),
) -> Result<VerifyReport> {
    let _transaction = conn.unchecked_transaction()?;
    let mut check = DatabaseCheck { conn, progress, rows_checked: 0, report: VerifyReport::default() };
    check.structure()?;
    // If the structure is broken, no query can be trusted.
    if check.report.problems.is_empty() {
        check.audit_records()?;
        check.entries()?;
        check.forks()?;
        check.contents()?;
        check.unreferenced()?;
        check.revisions(acknowledged)?;
    }
    (check.progress)(check.rows_checked);
    Ok(check.report)
}

impl DatabaseCheck<'_> {
    fn add_problem(&mut self, problem: String) {
        match self.report.problems.len() {
            MAX_PROBLEMS => self.report.problems.push("there are more problems, which aren't listed".into()),
            count if count < MAX_PROBLEMS => self.report.problems.push(problem),
            _ => {}
        }
    }

    fn advance(&mut self) {
        self.rows_checked += 1;
        if self.rows_checked.is_multiple_of(ROWS_PER_PROGRESS) {
            (self.progress)(self.rows_checked);
        }
    }

    /// Checks that all acknowledged revisions exist, according to the file beside the database.
    fn revisions(&mut self, acknowledged: Option<AcknowledgedRevisions>) -> Result<()> {
        let Some(AcknowledgedRevisions { revision, lost: (mut first, mut last) }) = acknowledged else {
            return Ok(());
        };
        let newest = newest_revision(self.conn)?;
        if revision > newest {
            (first, last) = (if first > 0 { first.min(newest + 1) } else { newest + 1 }, revision);
        }
        if first > 0 {
            self.add_problem(format!(
                "versions {first} to {last} were acknowledged and are lost: the end of the write-ahead log was cut \
                 off, or the file was replaced by an older database; restore a backup with `stead restore-backup`, or \
                 accept the loss by setting the line `lost` in the file that ends with `-version` to zeros"
            ));
        }
        Ok(())
    }

    fn structure(&mut self) -> Result<()> {
        for problem in structure_problems(self.conn)? {
            self.add_problem(problem);
        }
        Ok(())
    }

    fn audit_records(&mut self) -> Result<()> {
        let is_any_damaged = "SELECT EXISTS (SELECT 1 FROM audit WHERE NOT json_valid(body))";
        if self.conn.query_row(is_any_damaged, [], |row| row.get(0))? {
            self.add_problem("a record of the audit is damaged; run `stead audit verify`".into());
        }
        Ok(())
    }

    fn entries(&mut self) -> Result<()> {
        let count: i64 = self.conn.query_row(
            "SELECT (SELECT count(*) FROM entry) + (SELECT count(*) FROM entry_history)",
            [],
            |row| row.get(0),
        )?;
        self.report.entries = count.cast_unsigned();
        for (query, problem) in RULES {
            let mut statement = self.conn.prepare(query)?;
            let mut rows = statement.query([])?;
            while let Some(row) = rows.next()? {
                let node: i64 = row.get(0)?;
                self.add_problem(format!("node {node} {problem}"));
            }
        }
        Ok(())
    }

    /// Checks that a fork's own rows lie in directories that the fork shows, that its whiteouts hide existing entries,
    /// and that its quotas count everything that it shows.
    fn forks(&mut self) -> Result<()> {
        let mut statement = self.conn.prepare("SELECT id, root FROM volume WHERE base IS NOT NULL")?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let (id, root) = (row.get(0)?, row.get(1)?);
            let base_layers = layers::load_layers(self.conn, id)?;
            let volume = Volume { id, root, dirs: Arc::default(), base_layers, overlay: None };
            for node in misplaced_in_fork(&VolumeTree::new(self.conn, &volume, None))? {
                self.add_problem(format!(
                    "node {node} of a fork has no parent, hides nothing, or has a wrong quota count"
                ));
            }
        }
        Ok(())
    }

    /// Checks that every content has the hash and the size of its row, and every list its chunks.
    fn contents(&mut self) -> Result<()> {
        let mut statement =
            self.conn.prepare("SELECT id, key, hash, size, parts, data FROM content ORDER BY id")?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let (id, stored_key, size): (i64, i64, i64) = (row.get(0)?, row.get(1)?, row.get(3)?);
            let hash = row.get_ref(2)?.as_blob().ok().and_then(|hash| Hash::from_slice(hash).ok());
            let computed = match (row.get_ref(4)?, row.get_ref(5)?) {
                (ValueRef::Null, ValueRef::Blob(data))
                    if data.len() as i64 == size && data.len() <= CHUNK_SIZE =>
                {
                    Some(blake3::hash(data))
                }
                (ValueRef::Text(_), ValueRef::Null) => {
                    self.list_hash(row.get_ref(4)?.as_str().unwrap_or(""), size)?
                }
                _ => None,
            };
            if computed.is_none() || computed != hash {
                self.add_problem(format!("content {id} doesn't match its hash"));
            } else if hash.map(hash_key) != Some(stored_key) {
                self.add_problem(format!("content {id} can't be found by its hash"));
            }
            self.report.contents += 1;
            self.advance();
        }
        Ok(())
    }

    /// The hash of a list of chunks; `None` if a chunk is missing or has a wrong size.
    fn list_hash(&self, parts: &str, size: i64) -> Result<Option<Hash>> {
        let Ok(ids) = part_ids(parts) else { return Ok(None) };
        let mut statement =
            self.conn.prepare_cached("SELECT hash, size FROM content WHERE id = ?1 AND data IS NOT NULL")?;
        let (mut hashes, mut remaining) = (Vec::with_capacity(ids.len()), size);
        for id in ids {
            let mut rows = statement.query([id])?;
            let Some(row) = rows.next()? else { return Ok(None) };
            let expected = remaining.min(CHUNK_SIZE as i64);
            if row.get::<_, i64>(1)? != expected || expected <= 0 {
                return Ok(None);
            }
            remaining -= expected;
            hashes.push(Hash::from_bytes(row.get(0)?));
        }
        Ok((remaining == 0).then(|| list_hash(hashes.into_iter())))
    }

    fn unreferenced(&mut self) -> Result<()> {
        let mut referenced = HashSet::new();
        let mut statement = self.conn.prepare(
            "WITH used(id) AS (
               SELECT content FROM entry WHERE content IS NOT NULL
               UNION SELECT content FROM entry_history WHERE content IS NOT NULL
               UNION SELECT content FROM pin)
             SELECT id FROM used
             UNION SELECT p.value FROM used JOIN content c ON c.id = used.id JOIN json_each(c.parts) p",
        )?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            referenced.insert(row.get::<_, i64>(0)?);
        }
        let mut statement = self.conn.prepare("SELECT id, size FROM content WHERE parts IS NULL")?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            if !referenced.contains(&row.get(0)?) {
                self.report.unreferenced += row.get::<_, i64>(1)?.cast_unsigned();
            }
        }
        Ok(())
    }
}

/// The nodes of a fork that are in a wrong place, and the quota directories whose counted usage is wrong.
fn misplaced_in_fork(tree: &VolumeTree<'_>) -> Result<Vec<i64>> {
    let mut misplaced = Vec::new();
    let mut statement =
        tree.conn.prepare_cached("SELECT node, parent, kind, name FROM entry WHERE volume = ?1")?;
    let mut rows = statement.query([tree.vol])?;
    while let Some(row) = rows.next()? {
        let (node, parent, kind): (i64, i64, i64) = (row.get(0)?, row.get(1)?, row.get(2)?);
        let is_valid = if kind == WHITEOUT {
            let name: Vec<u8> = row.get(3)?;
            let hidden = tree.base().map(|base| base.child(parent, &name)).transpose()?.flatten();
            hidden.is_some_and(|hidden| hidden.node == -node)
        } else {
            node == tree.root && parent == 0 || tree.node(parent)?.is_some_and(|row| row.is_directory())
        };
        if !is_valid {
            misplaced.push(node);
        }
    }
    let mut statement = tree.conn.prepare_cached("SELECT node FROM usage WHERE volume = ?1")?;
    let mut rows = statement.query([tree.vol])?;
    while let Some(row) = rows.next()? {
        let node = row.get(0)?;
        if quota::counted_usage(tree.conn, tree.vol, node)? != Some(quota::count_usage(tree, node)?.usage()) {
            misplaced.push(node);
        }
    }
    Ok(misplaced)
}

/// What is wrong with SQLite's own structure, one sentence each.
pub(crate) fn structure_problems(conn: &Connection) -> Result<Vec<String>> {
    let mut problems = Vec::new();
    let mut statement = conn.prepare("PRAGMA integrity_check(100)")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let message: String = row.get(0)?;
        if message != "ok" {
            problems.push(format!("the database's structure is broken: {message}"));
        }
    }
    Ok(problems)
}
