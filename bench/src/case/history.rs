//! What history costs: a snapshot and a difference among many files, and many versions of one large text.

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
/// How many operations a round has.
const COUNT: usize = 100;
/// The changes between the two versions that are compared.
const CHANGES: usize = 10;
/// A text of 10 MiB.
const LINES: usize = 10 * 1024 * 1024 / 64;

/// A table of times among so many files, and one of sizes.
pub fn run(data: &Path, effort: Effort) -> Result<Vec<Table>> {
    Ok(vec![among_many(&data.join("many.db"), effort)?, versions(data, effort)?])
}

fn open(path: &Path) -> Result<(Database, Vfs)> {
    let options = DatabaseOptions { durability: Durability::Fast, ..DatabaseOptions::default() };
    let database = Database::open(path, options)?;
    let mount = Mount::new(Arc::new(database.store(["bench"])?));
    let workspace = Workspace::new(VfsPath::parse("/w")?, AccessScope::ReadWrite, mount);
    let builder = Vfs::builder(Identity::agent("bench")).lost_updates(LostUpdates::Allow);
    Ok((database, builder.workspace(workspace).build()?))
}

fn among_many(path: &Path, effort: Effort) -> Result<Table> {
    let sizes: &[usize] = match effort {
        Effort::Full => &[1_000, 200_000, 1_000_000],
        Effort::Quick => &[1_000, 200_000],
    };
    let (database, vfs) = open(path)?;
    let labels = ["snapshot", "diff of 10 changes", "undo of 10 changes"];
    let mut table = Table::new("among so many files, `fast`", &labels, &[]);
    let mut there = 0;
    for &files in sizes {
        eprintln!("  {files} files");
        for begin in (there..files).step_by(BATCH) {
            let mut batch = vfs.batch();
            for number in begin..(begin + BATCH).min(files) {
                batch.write(place(number), text(number, SIZE), &WriteOptions::new())?;
            }
            batch.apply()?;
        }
        there = files;
        let mut random = fastrand::Rng::with_seed(files as u64);
        let measured = in_turns(&[0, 1, 2], effort.rounds(), |&seat, round| {
            Ok(Some(match seat {
                0 => timed(COUNT, || {
                    for number in 0..COUNT {
                        let label = Some(format!("{files} {round} {number}"));
                        let new =
                            NewSnapshot { agent: "a".into(), prefix: None, label, at: SystemClock.now() };
                        database.snapshot(new)?;
                    }
                    Ok(())
                })?,
                _ => {
                    let before = vfs.revision_at("/w", PointInTime::Now)?;
                    let act = vfs.operation("change");
                    for number in 0..CHANGES {
                        act.write(place(random.usize(..files)), format!("{round} {number} {seat}"))?;
                    }
                    let after = vfs.revision_at("/w", PointInTime::Now)?;
                    if seat == 1 {
                        timed(1, || compared(&vfs, before, after))?
                    } else {
                        let what = stead_core::vfs::UndoTarget::Last(1);
                        timed(1, || Ok(drop(vfs.undo(what, Default::default())?)))?
                    }
                }
            }))
        })?;
        table.row(count(files), &measured, Unit::Time);
    }
    Ok(table)
}

fn compared(vfs: &Vfs, before: RevisionId, after: RevisionId) -> Result {
    let found = vfs.diff("/w", before, after, DiffOptions { text: false, context: 0 })?;
    assert!(!found.is_empty() && found.len() <= CHANGES, "the changes are what differs");
    Ok(())
}

fn place(number: usize) -> String {
    format!("/w/{}/{}/{number}", number / 10_000, number / 100)
}

/// Many versions of one text, with a line changed each time: to one as long, and to one of another length.
fn versions(data: &Path, effort: Effort) -> Result<Table> {
    let many = if effort == Effort::Full { 1_000 } else { 50 };
    let mut table = Table::new(
        format!("versions of a 10 MiB text, one changed line each ({many}; of another length {})", many / 10),
        &["as long", "of another length"],
        &[],
    );
    let mut sizes = [[0; 3]; 2];
    for (kind, count) in [many, many / 10].into_iter().enumerate() {
        eprintln!("  {count} versions");
        let path = data.join(format!("versions-{kind}.db"));
        let (database, vfs) = open(&path)?;
        let mut lines: Vec<String> = (0..LINES).map(|line| format!("{line:063}\n")).collect();
        let mut random = fastrand::Rng::with_seed(1);
        vfs.write("/w/text", lines.concat())?;
        sizes[kind][0] = size(&path)?;
        for version in 0..count {
            let length = if kind == 0 { 63 } else { 40 + random.usize(..40) };
            lines[random.usize(..LINES)] = format!("{version:0length$}\n");
            vfs.write("/w/text", lines.concat())?;
        }
        sizes[kind][1] = size(&path)?;
        let retention = Retention { age: Duration::ZERO, ..Retention::default() };
        database.forget(retention, SystemClock.now(), &mut |_| ())?;
        database.gc(GcOptions { grace: Duration::ZERO, vacuum: true }, SystemClock.now(), &mut |_| ())?;
        sizes[kind][2] = size(&path)?;
    }
    for (row, name) in ["one version", "all versions", "after gc and vacuum"].into_iter().enumerate() {
        let shown = |kind: usize| format!("{:.1} MiB", sizes[kind][row] as f64 / 1048576.0);
        table.texts(name, vec![shown(0), shown(1)]);
    }
    Ok(table)
}

/// The database with what is still in its log.
fn size(path: &Path) -> Result<u64> {
    let log = path.with_extension("db-wal");
    Ok(std::fs::metadata(path)?.len() + std::fs::metadata(log).map_or(0, |file| file.len()))
}
