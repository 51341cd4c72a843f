//! Compares a manifest with the files that are there, for sync.

use std::cmp::Ordering;

use crate::managed::{ManifestRepair, ManifestRow};

/// A file that was found in the directory of a category.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundFile {
    /// Its path, relative to the Workspace's prefix.
    pub path: String,
    /// Its size in bytes.
    pub size: u64,
}

/// What a comparison found.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Reconciled {
    /// What has to be done so that the manifest agrees with the files.
    pub repairs: Vec<ManifestRepair>,
}

/// Compares rows with files, both sorted by the bytes of their paths.
///
/// A row without a file is removed, a file without a row is added, and a row with another size than its file gets that size.
pub fn reconcile(
    rows: impl IntoIterator<Item = ManifestRow>,
    files: impl IntoIterator<Item = FoundFile>,
) -> Reconciled {
    let (mut rows, mut files) = (rows.into_iter().peekable(), files.into_iter().peekable());
    let mut repairs = Vec::new();
    loop {
        let order = match (rows.peek(), files.peek()) {
            (None, None) => return Reconciled { repairs },
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some(row), Some(file)) => row.path.as_bytes().cmp(file.path.as_bytes()),
        };
        let row = if order == Ordering::Greater { None } else { rows.next() };
        let file = if order == Ordering::Less { None } else { files.next() };
        match (row, file) {
            (Some(row), Some(file)) if row.size == file.size => {}
            (Some(row), Some(file)) => repairs.push(ManifestRepair::Resize { row, size: file.size }),
            (Some(row), None) => repairs.push(ManifestRepair::Remove { row }),
            (None, Some(file)) => repairs.push(ManifestRepair::Add { path: file.path, size: file.size }),
            (None, None) => unreachable!("one of them was there"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;
    use crate::clock::Timestamp;

    fn row((path, size): (&String, &u64)) -> ManifestRow {
        ManifestRow { id: 1, path: path.clone(), size: *size, modified_at: Timestamp(0) }
    }

    fn found((path, size): (&String, &u64)) -> FoundFile {
        FoundFile { path: path.clone(), size: *size }
    }

    proptest! {
        #[test]
        fn w44_after_its_repairs_a_manifest_agrees_with_the_files_and_a_second_run_repairs_nothing(
            rows in prop::collection::btree_map("[a-c/]{1,4}", 0..3_u64, 0..20),
            files in prop::collection::btree_map("[a-c/]{1,4}", 0..3_u64, 0..20),
        ) {
            let mut repaired: BTreeMap<String, u64> = rows.clone();
            for repair in reconcile(rows.iter().map(row), files.iter().map(found)).repairs {
                match repair {
                    ManifestRepair::Add { path, size } => prop_assert_eq!(repaired.insert(path, size), None),
                    ManifestRepair::Remove { row } => prop_assert!(repaired.remove(&row.path).is_some()),
                    ManifestRepair::Resize { row, size } => {
                        prop_assert_ne!(repaired.insert(row.path, size), Some(size));
                    }
                }
            }
            prop_assert_eq!(&repaired, &files);
            prop_assert_eq!(reconcile(repaired.iter().map(row), files.iter().map(found)), Reconciled::default());
        }
    }
}
