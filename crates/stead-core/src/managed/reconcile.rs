//! Compares a manifest with the files that are there, for sync.

use std::cmp::Ordering;

use crate::clock::Timestamp;
use crate::managed::{ManifestRepair, ManifestRow};

/// How much later than its row a file may have been changed by the change that wrote the row, in nanoseconds: a minute. The row has
/// the time at which the change began.
const WRITE_DURATION: i64 = 60_000_000_000;

/// A file that was found in the directory of a category.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundFile {
    /// Its path, relative to the Workspace's prefix.
    pub path: String,
    /// Its size in bytes.
    pub size: u64,
    /// When its content was changed last, where other programs may change it.
    pub modified: Option<Timestamp>,
}

impl ManifestRow {
    /// Whether a file was written after its row, by another program. A program can set any time: one before the row's says nothing,
    /// and neither does one in the future.
    pub fn is_outdated_by(&self, file: &FoundFile, now: Timestamp) -> bool {
        let written = self.modified_at.0.saturating_add(WRITE_DURATION);
        self.size != file.size
            || file.modified.is_some_and(|modified| written < modified.0 && modified <= now)
    }
}

/// What a comparison found.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Reconciled {
    /// What has to be done so that the manifest agrees with the files.
    pub repairs: Vec<ManifestRepair>,
}

/// Compares rows with files, both sorted by the bytes of their paths.
///
/// A row without a file is removed, a file without a row is added, and a row that is older than its file gets the file's size and
/// counts as written at `now`.
pub fn reconcile(
    rows: impl IntoIterator<Item = ManifestRow>,
    files: impl IntoIterator<Item = FoundFile>,
    now: Timestamp,
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
            (Some(row), Some(file)) if !row.is_outdated_by(&file, now) => {}
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

    const NOW: Timestamp = Timestamp(0);

    fn row((path, size): (&String, &u64)) -> ManifestRow {
        ManifestRow { id: 1, path: path.clone(), size: *size, modified_at: NOW }
    }

    fn found((path, size): (&String, &u64)) -> FoundFile {
        FoundFile { path: path.clone(), size: *size, modified: None }
    }

    #[test]
    fn w84_only_a_time_after_the_row_and_not_in_the_future_says_that_a_file_was_written() {
        let second = |seconds: i64| Timestamp(seconds * 1_000_000_000);
        let row = ManifestRow { id: 1, path: "temp/x".to_owned(), size: 1, modified_at: second(1_000) };
        let is_written = |size, modified| {
            let file = FoundFile { path: "temp/x".to_owned(), size, modified };
            let repairs = reconcile([row.clone()], [file], second(2_000)).repairs;
            matches!(&*repairs, [ManifestRepair::Resize { size: new, .. }] if *new == size)
        };
        assert!(is_written(2, None) && is_written(2, Some(second(1))));
        assert!(is_written(1, Some(second(1_500))) && is_written(1, Some(second(2_000))));
        for modified in
            [None, Some(second(0)), Some(second(1_030)), Some(second(2_001)), Some(Timestamp(i64::MAX))]
        {
            assert!(!is_written(1, modified), "{modified:?}");
        }
    }

    proptest! {
        #[test]
        fn w44_after_its_repairs_a_manifest_agrees_with_the_files_and_a_second_run_repairs_nothing(
            rows in prop::collection::btree_map("[a-c/]{1,4}", 0..3_u64, 0..20),
            files in prop::collection::btree_map("[a-c/]{1,4}", 0..3_u64, 0..20),
        ) {
            let mut repaired: BTreeMap<String, u64> = rows.clone();
            for repair in reconcile(rows.iter().map(row), files.iter().map(found), NOW).repairs {
                match repair {
                    ManifestRepair::Add { path, size } => prop_assert_eq!(repaired.insert(path, size), None),
                    ManifestRepair::Remove { row } => prop_assert!(repaired.remove(&row.path).is_some()),
                    ManifestRepair::Resize { row, size } => {
                        prop_assert_ne!(repaired.insert(row.path, size), Some(size));
                    }
                }
            }
            prop_assert_eq!(&repaired, &files);
            let again = reconcile(repaired.iter().map(row), files.iter().map(found), NOW);
            prop_assert_eq!(again, Reconciled::default());
        }
    }
}
