//! Looks a name up in a fork with one statement over all its layers, and so in one snapshot.
//!
//! The first arm of the statement returns the directory epoch, and only if the fork hasn't been discarded. Each other arm returns what
//! one layer says of the name.

use std::fmt::Write;
use std::sync::LazyLock;

use rusqlite::Connection;

use crate::database::Volume;
use crate::database::error::Result;
use crate::database::schema::DIR_EPOCH;
use crate::virtual_store::entry_row::{EntryRow, WHITEOUT};
use crate::virtual_store::fork::{MAX_LAYERS, UNNAMED_LAYER_PREFIX};

/// What the layers of a fork say of a name.
pub(super) struct LayeredLookup {
    /// The directory epoch of the snapshot.
    pub(super) epoch: i64,
    /// The entry, if there is one.
    pub(super) entry: Option<EntryRow>,
    /// Whether the entry is in a layer below the fork's own.
    pub(super) is_below: bool,
}

/// The statements for forks with 0, 1, ... layers below them.
static STATEMENTS: LazyLock<Vec<String>> = LazyLock::new(|| (0..=MAX_LAYERS).map(statement).collect());

fn statement(layer_count: usize) -> String {
    const ENTRY: &str = "node, parent, kind, mode, size, created, modified, changed, content, since";
    let mut sql = format!(
        "SELECT -1, m.value, 0, 0, 0, 0, 0, 0, 0, 0, 0 FROM meta m, volume v
         WHERE m.id = ?1 AND v.id = ?2 AND substr(v.namespace, 1, length(?5)) <> ?5
         UNION ALL SELECT 0, {ENTRY} FROM entry WHERE volume = ?2 AND parent = ?3 AND name = ?4"
    );
    for layer in 1..=layer_count {
        let (vol, as_of) = (2 * layer + 4, 2 * layer + 5);
        for (table, still_held) in
            [("entry", String::new()), ("entry_history", format!(" AND until > ?{as_of}"))]
        {
            write!(
                sql,
                " UNION ALL SELECT {layer}, {ENTRY} FROM {table}
                  WHERE volume = ?{vol} AND parent = ?3 AND name = ?4 AND since <= ?{as_of}{still_held}"
            )
            .expect("a string takes every text");
        }
    }
    sql
}

/// Looks a name up in the directory with the node `parent`. `None` if one statement can't say it: the fork has more layers, or has
/// been discarded.
pub(super) fn look_up(
    conn: &Connection,
    volume: &Volume,
    parent: i64,
    name: &[u8],
) -> Result<Option<LayeredLookup>> {
    let Some(sql) = STATEMENTS.get(volume.base_layers.len()) else { return Ok(None) };
    let mut statement = conn.prepare_cached(sql)?;
    statement.raw_bind_parameter(1, DIR_EPOCH)?;
    statement.raw_bind_parameter(2, volume.id)?;
    statement.raw_bind_parameter(3, parent)?;
    statement.raw_bind_parameter(4, name)?;
    statement.raw_bind_parameter(5, UNNAMED_LAYER_PREFIX)?;
    for (index, layer) in volume.base_layers.iter().enumerate() {
        statement.raw_bind_parameter(2 * index + 6, layer.vol)?;
        statement.raw_bind_parameter(2 * index + 7, layer.as_of)?;
    }
    let mut rows = statement.raw_query();
    let (mut epoch, mut uppermost, mut entry) = (None, usize::MAX, None);
    // SQL doesn't say in which order the arms are answered.
    while let Some(row) = rows.next()? {
        match usize::try_from(row.get::<_, i64>(0)?) {
            Err(_) => epoch = Some(row.get(1)?),
            Ok(layer) if layer < uppermost => {
                uppermost = layer;
                let is_whiteout = row.get::<_, i64>(3)? == WHITEOUT;
                entry = if is_whiteout { None } else { Some(EntryRow::from_columns(row, 1)?) };
            }
            Ok(_) => {}
        }
    }
    let is_below = uppermost > 0;
    Ok(epoch.map(|epoch| LayeredLookup { epoch, entry, is_below }))
}
