//! What the rows of a ledger do to files, for the manifests of the directory.

use serde::Deserialize;
use stead_core::store::NodeKind;

use crate::database::manifest::FileEffect;
use crate::ledger::LedgerRow;

/// The part of a row's detail that a manifest needs.
#[derive(Deserialize)]
struct Detail {
    #[serde(default)]
    before: Option<State>,
    #[serde(default)]
    after: Option<State>,
}

#[derive(Deserialize)]
struct State {
    kind: NodeKind,
    size: u64,
}

impl State {
    fn file_size(&self) -> Option<u64> {
        (self.kind == NodeKind::File).then_some(self.size)
    }
}

/// What rows do to files. A row that can't be read does nothing: sync finds what is there.
pub(super) fn file_effects(rows: &[LedgerRow]) -> Vec<FileEffect> {
    rows.iter().filter_map(file_effect).collect()
}

fn file_effect(row: &LedgerRow) -> Option<FileEffect> {
    let detail: Detail = serde_json::from_str(&row.detail_json).ok()?;
    let path = row.path.clone();
    match row.kind {
        // Placed, replaced and written into.
        1 | 2 | 6 => match detail.after?.file_size() {
            Some(size) => Some(FileEffect::Put { path, size, is_new: row.kind == 1 }),
            // A symlink has taken the place of a file.
            None if row.kind == 2 => Some(FileEffect::Remove { path }),
            None => None,
        },
        3 => Some(FileEffect::Remove { path }),
        4 => {
            let (before, to) = (detail.before?, row.other_path.clone()?);
            match before.kind {
                NodeKind::File | NodeKind::Directory => {
                    Some(FileEffect::Move { from: path, to, size: before.file_size() })
                }
                NodeKind::Symlink | NodeKind::Special(_) => None,
            }
        }
        5 => Some(FileEffect::Exchange { first: path, second: row.other_path.clone()? }),
        _ => None,
    }
}
