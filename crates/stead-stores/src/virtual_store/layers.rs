//! Volumes in layers: a fork's own rows over its base, as that was when it was forked.
//!
//! A fork has rows only for what it changed. A row of the fork decides about its name, whatever the base has there. A
//! row of kind 0 is a whiteout: the name doesn't exist. Every other name is looked up one layer down.

use std::cmp::Ordering;
use std::ops::ControlFlow;

use rusqlite::fallible_streaming_iterator::FallibleStreamingIterator;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, OptionalExtension, Rows, Statement, params};
use stead_core::StoreError;
use stead_core::store::Attr;

use crate::database::Volume;
use crate::database::error::{DatabaseError, Result, corrupt};
use crate::virtual_store::entry_row::{EntryKind, EntryRow, WHITEOUT, entries};
use crate::virtual_store::fork::UNNAMED_LAYER_PREFIX;
use crate::virtual_store::tree::VolumeTree;

/// The parent of a root.
pub(crate) const ROOT_PARENT: i64 = 0;

/// A volume below a fork, as of the revision at which it was forked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Layer {
    pub(crate) vol: i64,
    pub(crate) as_of: i64,
}

/// What one layer says of a name.
pub(crate) enum LayerLookup {
    /// This entry has the name.
    Found(EntryRow),
    /// No entry has the name, whatever the base says.
    Whiteout,
    /// The base decides.
    NotHere,
}

/// Called for each entry with its name.
pub(crate) type Visit<'v> = dyn FnMut(EntryRow, &[u8]) -> Result<ControlFlow<()>> + 'v;

/// Called for each name: the entry (`None` for a whiteout), its parent, and the name.
type VisitMerged<'v> = dyn FnMut(Option<EntryRow>, i64, &[u8]) -> Result<ControlFlow<()>> + 'v;

/// A query for the columns of an entry with its name.
macro_rules! named_entries {
    ($rest:literal) => {
        entries!(
            "SELECT e.node, e.parent, e.kind, e.mode, e.size, e.created, e.modified, e.changed, e.content, e.since, e.name",
            $rest
        )
    };
}

impl Volume {
    /// The revision at which the volume was forked, which is older than all of its own. `None` if it isn't a fork.
    pub(crate) fn forked_at(&self) -> Option<i64> {
        self.base_layers.first().map(|base| base.as_of)
    }

    /// Fails if the volume has been destroyed: without its own rows, a fork would show its base. This isn't `NotFound`: the
    /// directory of a Workspace that isn't found counts as empty.
    pub(crate) fn check_exists(&self, conn: &Connection) -> Result<()> {
        if self.base_layers.is_empty() {
            return Ok(());
        }
        // Without its name, only forks of it need it.
        let exists = conn
            .prepare_cached("SELECT 1 FROM volume WHERE id = ?1 AND substr(namespace, 1, length(?2)) <> ?2")?
            .exists(params![self.id, UNNAMED_LAYER_PREFIX])?;
        if exists { Ok(()) } else { Err(discarded_error().into()) }
    }
}

fn discarded_error() -> StoreError {
    StoreError::Expired("the fork has been discarded; list the forks again".into())
}

/// The layers below a volume, the nearest first.
pub(crate) fn load_layers(conn: &Connection, mut vol: i64) -> Result<Vec<Layer>> {
    let mut layers = Vec::new();
    loop {
        let base = conn
            .prepare_cached("SELECT base, base_revision FROM volume WHERE id = ?1")?
            .query_row([vol], |row| Ok(row.get::<_, Option<i64>>(0)?.zip(row.get(1)?)))
            .optional()?
            .flatten();
        let Some((base, as_of)) = base else { return Ok(layers) };
        layers.push(Layer { vol: base, as_of });
        vol = base;
    }
}

/// The lowest of these layers, if it is filled from a host directory.
pub(crate) fn find_overlay(conn: &Connection, layers: &[Layer]) -> Result<Option<i64>> {
    let Some(lowest) = layers.last() else { return Ok(None) };
    let mut statement = conn.prepare_cached("SELECT 1 FROM overlay WHERE volume = ?1")?;
    Ok(statement.exists([lowest.vol])?.then_some(lowest.vol))
}

impl<'c> VolumeTree<'c> {
    /// The tree one layer down.
    pub(crate) fn base(&self) -> Option<VolumeTree<'c>> {
        let (base, layers_below) = self.base_layers.split_first()?;
        Some(VolumeTree { vol: base.vol, as_of: Some(base.as_of), base_layers: layers_below, ..*self })
    }

    /// A node's row and name, from the uppermost layer that has the node.
    pub(crate) fn node_with_name(&self, node: i64) -> Result<Option<(EntryRow, Vec<u8>)>> {
        const SQL: [&str; 2] = named_entries!("e.node = ?3");
        {
            // Given back before the layer below is asked with the same statement: otherwise each call would compile it again.
            let mut statement = self.conn.prepare_cached(self.select_sql(SQL))?;
            let mut rows = statement.query(params![self.vol, self.as_of, node])?;
            if let Some(row) = rows.next()? {
                return Ok(Some((self.with_times_as_of(EntryRow::from_columns(row, 0)?)?, row.get(10)?)));
            }
        }
        let Some(base) = self.base() else { return Ok(None) };
        let Some((row, name)) = base.node_with_name(node)? else { return Ok(None) };
        // If this volume has a row for the name, the node is no longer there.
        Ok(matches!(self.lookup_own(row.parent, &name)?, LayerLookup::NotHere).then_some((row, name)))
    }

    /// Visits the entries of a directory whose names come after `after`, sorted. Visits at least `limit` of them, if
    /// there are as many, and in a fork possibly more.
    pub(crate) fn children(
        &self,
        parent: i64,
        after: &[u8],
        limit: i64,
        visit: &mut Visit<'_>,
    ) -> Result<()> {
        const SQL: [&str; 2] = named_entries!("e.parent = ?3 AND e.name > ?4 ORDER BY e.name LIMIT ?5");
        // How many rows each layer has to return isn't known before they are merged.
        let limit = if self.base_layers.is_empty() { limit } else { -1 };
        self.visit(SQL, &[&parent, &after, &limit], visit)
    }

    /// Like [`VolumeTree::children`], for callers that need only attributes.
    pub(crate) fn list_attrs(
        &self,
        parent: i64,
        after: &[u8],
        limit: i64,
        mut visit: impl FnMut(Attr, &[u8]) -> Result<ControlFlow<()>>,
    ) -> Result<()> {
        // Reading a column costs as much as everything done with it, so there are as few as possible.
        const SQL: &str = "
            SELECT e.name, e.node, e.kind, e.mode, e.size, e.created, e.modified, e.changed, e.since
            FROM entry e WHERE e.volume = ?1 AND e.parent = ?2 AND e.name > ?3 ORDER BY e.name LIMIT ?4";
        if self.as_of.is_some() || !self.base_layers.is_empty() {
            return self.children(parent, after, limit, &mut |row, name| visit(row.attr(), name));
        }
        let mut statement = self.conn.prepare_cached(SQL)?;
        let mut rows = statement.query(params![self.vol, parent, after, limit])?;
        while let Some(row) = rows.next()? {
            let listed = EntryRow {
                node: row.get(1)?,
                parent,
                kind: EntryKind::from_code(row.get(2)?)?,
                mode: row.get(3)?,
                size: row.get(4)?,
                created: row.get(5)?,
                modified: row.get(6)?,
                changed: row.get(7)?,
                content: None,
                since: row.get(8)?,
            };
            let name = row.get_ref(0)?.as_blob().map_err(|_| missing_name_error())?;
            if visit(listed.attr(), name)?.is_break() {
                break;
            }
        }
        Ok(())
    }

    /// Visits all entries of a directory, sorted. Files whose names don't end with `ending` may be left out, except ignore
    /// files.
    pub(crate) fn children_ending(&self, parent: i64, ending: &[u8], visit: &mut Visit<'_>) -> Result<()> {
        // The names in hexadecimal are `.gitignore` and `.ignore`.
        const SQL: [&str; 2] = named_entries!(
            "e.parent = ?3 AND (e.kind <> 1 OR substr(e.name, ?4) = ?5
                 OR e.name IN (x'2e67697469676e6f7265', x'2e69676e6f7265')) ORDER BY e.name"
        );
        match self.ending_offset(ending) {
            Some(offset) => self.visit(SQL, &[&parent, &offset, &ending], visit),
            None => self.children(parent, b"", -1, visit),
        }
    }

    /// The offset of the ending in a name, for `substr`; `None` if the database can't filter by it. A fork needs the
    /// rows that don't match, too, because of what they hide.
    fn ending_offset(&self, ending: &[u8]) -> Option<i64> {
        let length = i64::try_from(ending.len()).ok()?;
        (length > 0 && self.base_layers.is_empty()).then_some(-length)
    }

    /// How many entries a directory has.
    pub(crate) fn count(&self, parent: i64) -> Result<u64> {
        const SQL: [&str; 2] = entries!("SELECT count(*)", "e.parent = ?3");
        if self.base_layers.is_empty() {
            let mut statement = self.conn.prepare_cached(self.select_sql(SQL))?;
            let count: i64 = statement.query_row(params![self.vol, self.as_of, parent], |row| row.get(0))?;
            return Ok(count.cast_unsigned());
        }
        let mut count = 0;
        self.children(parent, b"", -1, &mut |_, _| {
            count += 1;
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(count)
    }

    /// How many entries of a directory have a name that `is_counted` accepts.
    pub(crate) fn count_names(&self, parent: i64, is_counted: impl Fn(&[u8]) -> bool) -> Result<u64> {
        const SQL: [&str; 2] = entries!("SELECT e.name", "e.parent = ?3");
        let mut count = 0;
        if !self.base_layers.is_empty() {
            self.children(parent, b"", -1, &mut |_, name| {
                count += u64::from(is_counted(name));
                Ok(ControlFlow::Continue(()))
            })?;
            return Ok(count);
        }
        let mut statement = self.conn.prepare_cached(self.select_sql(SQL))?;
        let mut rows = statement.query(params![self.vol, self.as_of, parent])?;
        while let Some(row) = rows.next()? {
            count += u64::from(is_counted(row.get_ref(0)?.as_blob().unwrap_or_default()));
        }
        Ok(count)
    }

    /// Visits all entries but the root, sorted by directory and name. Files whose names don't end with `ending` may be
    /// left out, except ignore files.
    pub(crate) fn all_entries(&self, ending: &[u8], visit: &mut Visit<'_>) -> Result<()> {
        const SQL: [&str; 2] = named_entries!("e.parent > ?3 ORDER BY e.parent, e.name");
        // The names in hexadecimal are `.gitignore` and `.ignore`.
        const SQL_WITH_ENDING: [&str; 2] = named_entries!(
            "e.parent > ?3 AND (e.kind <> 1 OR substr(e.name, ?4) = ?5
                 OR e.name IN (x'2e67697469676e6f7265', x'2e69676e6f7265')) ORDER BY e.parent, e.name"
        );
        match self.ending_offset(ending) {
            Some(offset) => self.visit(SQL_WITH_ENDING, &[&ROOT_PARENT, &offset, &ending], visit),
            None => self.visit(SQL, &[&ROOT_PARENT], visit),
        }
    }

    /// Visits what `sql` finds, in one layer or in several.
    fn visit(
        &self,
        sql: [&'static str; 2],
        parameters: &[&dyn rusqlite::ToSql],
        visit: &mut Visit<'_>,
    ) -> Result<()> {
        if !self.base_layers.is_empty() {
            return self.merged(sql, parameters, &mut |row, _, name| match row {
                Some(row) => visit(row, name),
                None => Ok(ControlFlow::Continue(())),
            });
        }
        let mut statement = self.conn.prepare_cached(self.select_sql(sql))?;
        self.bind(&mut statement, parameters)?;
        let mut rows = statement.raw_query();
        while let Some(row) = rows.next()? {
            if visit(self.with_times_as_of(EntryRow::from_columns(row, 0)?)?, name_column(row)?)?.is_break() {
                break;
            }
        }
        Ok(())
    }

    fn bind(&self, statement: &mut Statement<'_>, parameters: &[&dyn rusqlite::ToSql]) -> Result<()> {
        statement.raw_bind_parameter(1, self.vol)?;
        statement.raw_bind_parameter(2, self.as_of)?;
        for (index, value) in parameters.iter().enumerate() {
            statement.raw_bind_parameter(index + 3, value)?;
        }
        Ok(())
    }

    /// Everything below a directory, each directory before its content.
    pub(crate) fn below(&self, top: i64) -> Result<Vec<(EntryRow, Vec<u8>)>> {
        let mut found: Vec<(EntryRow, Vec<u8>)> = Vec::new();
        let (mut next, mut directory) = (0, top);
        loop {
            self.children(directory, b"", -1, &mut |row, name| {
                found.push((row, name.to_vec()));
                Ok(ControlFlow::Continue(()))
            })?;
            let Some(offset) = found[next..].iter().position(|(row, _)| row.is_directory()) else {
                return Ok(found);
            };
            directory = found[next + offset].0.node;
            next += offset + 1;
        }
    }

    /// Visits what `sql` finds in all layers, sorted by directory and name: for each name the uppermost row, or `None`
    /// if that is a whiteout. The first of `parameters` is the statement's third parameter.
    pub(crate) fn merged(
        &self,
        sql: [&'static str; 2],
        parameters: &[&dyn rusqlite::ToSql],
        visit: &mut VisitMerged<'_>,
    ) -> Result<()> {
        let mut trees = vec![*self];
        trees.extend(std::iter::successors(self.base(), VolumeTree::base));
        let mut statements = Vec::with_capacity(trees.len());
        for (depth, tree) in trees.iter().enumerate() {
            let sql = tree.select_sql(sql);
            let mut statement = match depth {
                0 => self.conn.prepare_cached(sql)?,
                // The statements run at the same time, and the cache holds one for each text.
                depth => self.conn.prepare_cached(&format!("{sql} -- {depth}"))?,
            };
            tree.bind(&mut statement, parameters)?;
            statements.push(statement);
        }
        let mut sources: Vec<Rows<'_>> =
            statements.iter_mut().map(|statement| statement.raw_query()).collect();
        for source in &mut sources {
            source.advance()?;
        }
        let mut same = Vec::with_capacity(trees.len());
        loop {
            let Some(first) = first_of(&sources, &mut same)? else { return Ok(()) };
            let row = sources[first].get().ok_or_else(|| corrupt("a row is missing"))?;
            let entry = match row.get_ref(2)? {
                ValueRef::Integer(WHITEOUT) => None,
                _ => Some(trees[first].with_times_as_of(EntryRow::from_columns(row, 0)?)?),
            };
            if visit(entry, row.get(1)?, name_column(row)?)?.is_break() {
                return Ok(());
            }
            for &index in &same {
                sources[index].advance()?;
            }
        }
    }

    /// The row with the times that a directory had as of the revision. Such times are stored only where a fork needs
    /// them.
    pub(crate) fn with_times_as_of(&self, row: EntryRow) -> Result<EntryRow> {
        let Some(as_of) = self.as_of.filter(|_| row.is_directory()) else { return Ok(row) };
        let times = self
            .conn
            .prepare_cached(
                "SELECT modified, changed FROM directory_time WHERE volume = ?1 AND node = ?2 AND until > ?3
                 ORDER BY until LIMIT 1",
            )?
            .query_row([self.vol, row.node, as_of], |times| Ok((times.get(0)?, times.get(1)?)))
            .optional()?;
        Ok(times.map_or(row, |(modified, changed)| EntryRow { modified, changed, ..row }))
    }
}

/// The index of the source with the smallest key, the uppermost if several have it. All sources with that key are put
/// into `same`.
fn first_of(sources: &[Rows<'_>], same: &mut Vec<usize>) -> Result<Option<usize>> {
    same.clear();
    let mut first: Option<(i64, &[u8])> = None;
    for (index, source) in sources.iter().enumerate() {
        let Some(row) = source.get() else { continue };
        let key = (row.get(1)?, name_column(row)?);
        match first.map_or(Ordering::Less, |first| key.cmp(&first)) {
            Ordering::Less => {
                first = Some(key);
                same.clear();
                same.push(index);
            }
            Ordering::Equal => same.push(index),
            Ordering::Greater => {}
        }
    }
    Ok(same.first().copied())
}

fn name_column<'r>(row: &'r rusqlite::Row<'_>) -> Result<&'r [u8]> {
    row.get_ref(10)?.as_blob().map_err(|_| missing_name_error())
}

fn missing_name_error() -> DatabaseError {
    corrupt("an entry has an invalid name")
}
