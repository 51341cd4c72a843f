//! The cost of history: a snapshot, a diff and an undo among many files, and many versions of one large text.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use stead_core::store::RevisionId;
use stead_core::vfs::{DiffOptions, LostUpdates, PointInTime, WriteOptions};
use stead_core::{AccessScope, Clock, Identity, Mount, SystemClock, Vfs, VfsPath, Workspace};
use stead_stores::database::{GcOptions, NewSnapshot, Retention};
use stead_stores::{Database, DatabaseOptions, Durability};

use crate::Result;
use crate::case::Effort;
use crate::content::text;
use crate::measure::{in_turns, timed};
use crate::table::{Table, Unit, count};

const SIZE: usize = 100;
const BATCH: usize = 1_000;
/// How many operations one round makes.
const COUNT: usize = 100;
/// How many changes lie between the two versions that are compared.
const CHANGES: usize = 10;
/// A text of 10 MiB.
const LINES: usize = 10 * 1024 * 1024 / 64;

/// Returns a table of times per number of files, and a table of sizes.
pub fn run(data: &Path, effort: Effort) -> Result<Vec<Table>> {
    Ok(vec![many_files(&data.join("many.db"), effort)?, versions(data, effort)?])
}

fn open(path: &Path) -> Result<(Database, Vfs)> {
    let options = DatabaseOptions { durability: Durability::Fast, ..DatabaseOptions::default() };
    let database = Database::open(path, options)?;
    let mount = Mount::new(Arc::new(database.store(["bench"])?));
    let workspace = Workspace::new(VfsPath::parse("/w")?, AccessScope::ReadWrite, mount);
    let builder = Vfs::builder(Identity::agent("bench")).lost_updates(LostUpdates::Allow);
    Ok((database, builder.workspace(workspace).build()?))
}

fn many_files(path: &Path, effort: Effort) -> Result<Table> {
    let sizes: &[usize] = match effort {
        Effort::Full => &[1_000, 200_000, 1_000_000],
        Effort::Quick => &[1_000, 200_000],
    };
    let (database, vfs) = open(path)?;
    let labels = ["snapshot", "diff of 10 changes", "undo of 10 changes"];
    let mut table = Table::new("among so many files, `fast`", &labels, &[]);
    let mut existing = 0;
    for &files in sizes {
        eprintln!("  {files} files");
        for start in (existing..files).step_by(BATCH) {
            let mut batch = vfs.batch();
            for number in start..(start + BATCH).min(files) {
                batch.write(file_path(number), text(number, SIZE), &WriteOptions::new())?;
            }
            batch.apply()?;
        }
        existing = files;
        let mut random = fastrand::Rng::with_seed(files as u64);
        let measured = in_turns(&[0, 1, 2], effort.rounds(), |&column, round| {
            Ok(Some(match column {
                0 => timed(COUNT, || {
                    for number in 0..COUNT {
                        let label = Some(format!("{files} {round} {number}"));
                        let snapshot = NewSnapshot {
                            agent: "a".into(),
                            prefix: None,
                            label,
                            at: SystemClock.now(),
                            lease: None,
                        };
                        database.snapshot(snapshot)?;
                    }
                    Ok(())
                })?,
                _ => {
                    let before = vfs.revision_at("/w", PointInTime::Now)?;
                    let operation = vfs.operation("change");
                    for number in 0..CHANGES {
                        operation
                            .write(file_path(random.usize(..files)), format!("{round} {number} {column}"))?;
                    }
                    let after = vfs.revision_at("/w", PointInTime::Now)?;
                    if column == 1 {
                        timed(1, || diff_revisions(&vfs, before, after))?
                    } else {
                        let target = stead_core::vfs::UndoTarget::Last(1);
                        timed(1, || Ok(drop(vfs.undo(target, Default::default())?)))?
                    }
                }
            }))
        })?;
        table.row(count(files), &measured, Unit::Time);
    }
    Ok(table)
}

fn diff_revisions(vfs: &Vfs, before: RevisionId, after: RevisionId) -> Result {
    let diff = vfs.diff("/w", before, after, DiffOptions { text: false, context: 0 })?;
    assert!(
        !diff.is_empty() && diff.len() <= CHANGES,
        "the diff has to contain the changes and nothing else"
    );
    Ok(())
}

fn file_path(number: usize) -> String {
    format!("/w/{}/{}/{number}", number / 10_000, number / 100)
}

/// Measures the size of many versions of one text. Each version changes one line: to a line of the same length in the
/// first column, to a line of another length in the second.
fn versions(data: &Path, effort: Effort) -> Result<Table> {
    let version_count = if effort == Effort::Full { 1_000 } else { 50 };
    let mut table = Table::new(
        format!(
            "versions of a 10 MiB text, one changed line each ({version_count}; of another length {})",
            version_count / 10
        ),
        &["as long", "of another length"],
        &[],
    );
    let mut sizes = [[0; 3]; 2];
    for (column, count) in [version_count, version_count / 10].into_iter().enumerate() {
        eprintln!("  {count} versions");
        let path = data.join(format!("versions-{column}.db"));
        let (database, vfs) = open(&path)?;
        let mut lines: Vec<String> = (0..LINES).map(|line| format!("{line:063}\n")).collect();
        let mut random = fastrand::Rng::with_seed(1);
        vfs.write("/w/text", lines.concat())?;
        sizes[column][0] = size(&path)?;
        for version in 0..count {
            let length = if column == 0 { 63 } else { 40 + random.usize(..40) };
            lines[random.usize(..LINES)] = format!("{version:0length$}\n");
            vfs.write("/w/text", lines.concat())?;
        }
        sizes[column][1] = size(&path)?;
        let retention = Retention { age: Duration::ZERO, ..Retention::default() };
        database.forget(retention, SystemClock.now(), &mut |_| ())?;
        database.gc(GcOptions { grace: Duration::ZERO, vacuum: true }, SystemClock.now(), &mut |_| ())?;
        sizes[column][2] = size(&path)?;
    }
    for (row, name) in ["one version", "all versions", "after gc and vacuum"].into_iter().enumerate() {
        let mebibytes = |column: usize| format!("{:.1} MiB", sizes[column][row] as f64 / 1048576.0);
        table.texts(name, vec![mebibytes(0), mebibytes(1)]);
    }
    Ok(table)
}

/// The size of the database and of its write-ahead log.
fn size(path: &Path) -> Result<u64> {
    let log = path.with_extension("db-wal");
    Ok(std::fs::metadata(path)?.len() + std::fs::metadata(log).map_or(0, |file| file.len()))
}
