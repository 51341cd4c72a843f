//! What management adds to a write, and what its manifest costs as it grows.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use stead_core::managed::{Category, FileFilter, SearchPattern, Ttl};
use stead_core::vfs::managed::{CleanupOptions, FilePage};
use stead_core::vfs::{LostUpdates, ManagedFiles, WriteOptions};
use stead_core::{AccessScope, Clock, Identity, Mount, Store, SystemClock, Vfs, VfsPath, Workspace};
use stead_stores::{Database, DatabaseOptions, LedgerSource, PhysicalOptions, PhysicalStore};

use crate::Result;
use crate::case::Effort;
use crate::contender::Durability;
use crate::content::{SMALL, renumber, text};
use crate::measure::{CpuTimeScope, Summary, cpu_timed, in_turns, timed};
use crate::table::{Table, Unit, count};

/// How many writes one round has.
const COUNT: usize = 400;
/// How many files one change writes while a Store is filled.
const BATCH: usize = 1_000;
/// How many pages of expired files a cleanup removes, and the size of a page.
const PAGES: usize = 4;
const PAGE: usize = 128;

/// A table for writes, one for sync, and one for manifests of several sizes.
pub fn run(data: &Path, effort: Effort) -> Result<Vec<Table>> {
    Ok(vec![writes(data, effort)?, sync(data, effort)?, growth(data, effort)?])
}

/// A Workspace `/w` on a Store of its own.
struct Host {
    database: Database,
    vfs: Vfs,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Virtual,
    Physical,
}

impl Host {
    fn open(directory: &Path, kind: Kind, durability: Durability, is_managed: bool) -> Result<Host> {
        std::fs::create_dir_all(directory.join("root"))?;
        std::fs::create_dir_all(directory.join("state"))?;
        let options = DatabaseOptions { durability: durability.into(), ..DatabaseOptions::default() };
        let database = Database::open(directory.join("stead.db"), options)?;
        let store: Arc<dyn Store> = match kind {
            Kind::Virtual => Arc::new(database.store(["bench"])?),
            Kind::Physical => {
                let ledger = database.clone();
                let ledger = LedgerSource::new(database.id(), move |_| Ok(Some(ledger.clone())));
                let state = directory.join("state");
                let options =
                    PhysicalOptions { durability: durability.into(), ledger, ..PhysicalOptions::new(state) };
                Arc::new(PhysicalStore::open(directory.join("root"), options)?)
            }
        };
        let mut workspace = Workspace::new(VfsPath::parse("/w")?, AccessScope::ReadWrite, Mount::new(store));
        if is_managed {
            workspace = workspace.with_managed(Ttl::default());
        }
        let builder = Vfs::builder(Identity::agent("bench")).lost_updates(LostUpdates::Allow);
        Ok(Host { database, vfs: builder.workspace(workspace).build()? })
    }

    fn files(&self) -> Result<ManagedFiles> {
        Ok(self.vfs.managed(None)?)
    }
}

/// Compares the same writes in a Workspace that is managed and in one that isn't. Both end at the same path.
fn writes(data: &Path, effort: Effort) -> Result<Table> {
    let pair = ("managed", "plain");
    let mut table = Table::new("4 KiB files, through the door", &["plain", "managed"], &[pair]);
    let day = SystemClock.now().to_string()[..10].to_owned();
    for durability in [Durability::Full, Durability::Fast] {
        for kind in [Kind::Virtual, Kind::Physical] {
            let name = |is_managed: bool| data.join(format!("{kind:?}-{durability:?}-{is_managed}"));
            let open = |is_managed| Host::open(&name(is_managed), kind, durability, is_managed);
            let hosts = [(open(false)?, false), (open(true)?, true)];
            for (host, is_managed) in &hosts {
                host.vfs.write(format!("/w/code/{day}/first.py"), "x")?;
                if *is_managed {
                    host.files()?.sync()?;
                }
            }
            let suffix = if durability == Durability::Full { ", surviving a power cut" } else { "" };
            let mut next = 0;
            let created = in_turns(&hosts, effort.rounds(), |(host, is_managed), _| {
                let first = next;
                next += COUNT;
                let mut content = text(0, SMALL);
                Ok(Some(timed(COUNT, || {
                    for number in first..first + COUNT {
                        renumber(&mut content, number);
                        // The managed Workspace puts a bare name where the other one is told to.
                        let path = match is_managed {
                            true => format!("/w/f{number}.py"),
                            false => format!("/w/code/{day}/f{number}.py"),
                        };
                        host.vfs.write(path, content.clone())?;
                    }
                    Ok(())
                })?))
            })?;
            table.row(format!("{kind:?}: create{suffix}"), &created, Unit::Time);
            if durability == Durability::Fast {
                let mut next = next;
                let measured = in_turns(&hosts, effort.rounds(), |(host, is_managed), _| {
                    let first = next;
                    next += COUNT;
                    let mut content = text(0, SMALL);
                    Ok(Some(cpu_timed(CpuTimeScope::AllThreads, COUNT, || {
                        for number in first..first + COUNT {
                            renumber(&mut content, number);
                            let path = match is_managed {
                                true => format!("/w/c{number}.py"),
                                false => format!("/w/code/{day}/c{number}.py"),
                            };
                            host.vfs.write(path, content.clone())?;
                        }
                        Ok(())
                    })?))
                })?;
                table.row(format!("{kind:?}: create, processor time of all threads"), &measured, Unit::Time);
            }
            let overwritten = in_turns(&hosts, effort.rounds(), |(host, _), round| {
                let mut content = text(0, SMALL);
                Ok(Some(timed(COUNT, || {
                    for number in 0..COUNT {
                        renumber(&mut content, next + round * COUNT + number);
                        host.vfs.write(format!("/w/code/{day}/o{}.py", number % 100), content.clone())?;
                    }
                    Ok(())
                })?))
            })?;
            table.row(format!("{kind:?}: overwrite{suffix}"), &overwritten, Unit::Time);
        }
    }
    Ok(table)
}

/// Measures sync of a host directory after other programs have changed a few files.
fn sync(data: &Path, effort: Effort) -> Result<Table> {
    let total = match effort {
        Effort::Full => 100_000,
        Effort::Quick => 20_000,
    };
    let directory = data.join("sync");
    let host = Host::open(&directory, Kind::Physical, Durability::Fast, true)?;
    let path = |number: usize| directory.join(format!("root/code/{:03}/f{number}.py", number / 100));
    for number in 0..total {
        let path = path(number);
        if number % 100 == 0 {
            std::fs::create_dir_all(path.parent().ok_or("the path has no parent")?)?;
        }
        std::fs::write(path, number.to_string())?;
    }
    let files = host.files()?;
    let mut table = Table::new(format!("sync of {} files of a host directory", count(total)), &["time"], &[]);
    let found = timed(1, || expect(files.sync()?.counts.added, total as u64))?;
    table.row("all of them are new", &[Some(Summary { median: found.each, worst: found.worst })], Unit::Time);
    let unchanged = in_turns(&[()], effort.rounds(), |(), _| {
        Ok(Some(timed(1, || expect(u64::from(!files.sync()?.counts.is_empty()), 0))?))
    })?;
    table.row("nothing has changed", &unchanged, Unit::Time);
    let changed = in_turns(&[()], effort.rounds(), |(), round| {
        for number in 0..10 {
            std::fs::write(path(round * 997 + number * 31), "x".repeat(20 + round))?;
        }
        Ok(Some(timed(1, || expect(files.sync()?.counts.resized, 10))?))
    })?;
    table.row("10 were changed by another program", &changed, Unit::Time);
    Ok(table)
}

/// Measures lists, searches and cleanups of manifests of several sizes.
fn growth(data: &Path, effort: Effort) -> Result<Table> {
    let sizes: &[usize] = match effort {
        Effort::Full => &[10_000, 100_000, 1_000_000],
        Effort::Quick => &[10_000, 100_000],
    };
    let labels: Vec<String> = sizes.iter().map(|size| format!("{} files", count(*size))).collect();
    let labels: Vec<&str> = labels.iter().map(String::as_str).collect();
    let mut table = Table::new("the manifest of a Virtual Store", &labels, &[]);
    let mut rows: Vec<(&str, Vec<Option<Summary>>)> = Vec::new();
    for (index, &size) in sizes.iter().enumerate() {
        let host = Host::open(&data.join(format!("growth-{size}")), Kind::Virtual, Durability::Fast, true)?;
        fill(&host, size)?;
        let files = host.files()?;
        let mut add = |name: &'static str, summary: Option<Summary>| {
            if rows.iter().all(|(known, _)| *known != name) {
                rows.push((name, vec![None; index]));
            }
            let row = rows.iter_mut().find(|(known, _)| *known == name).expect("it was just added");
            row.1.push(summary);
        };
        for (name, filter, page) in queries() {
            let measured = in_turns(&[()], effort.rounds(), |(), _| {
                Ok(Some(timed(1, || {
                    let listed = files.list(&filter, page)?;
                    let is_full = listed.total.count >= 10_000 || !listed.total.is_more;
                    if is_full { Ok(()) } else { Err("a total stops at 10,000".into()) }
                })?))
            })?;
            add(name, measured[0]);
        }
        let (mut syncs, mut pages) = (Vec::new(), Vec::new());
        for round in 0..=effort.rounds().min(3) {
            expire(&data.join(format!("growth-{size}")), round)?;
            let start = Instant::now();
            let report = files.cleanup(&CleanupOptions::default())?;
            let cleaned = start.elapsed().as_secs_f64();
            expect(report.run.removed, (PAGES * PAGE) as u64)?;
            let start = Instant::now();
            expect(u64::from(!files.sync()?.counts.is_empty()), 0)?;
            if round > 0 {
                syncs.push(start.elapsed().as_secs_f64());
                pages.push(cleaned / PAGES as f64);
            }
        }
        let summary = |mut values: Vec<f64>| {
            values.sort_by(f64::total_cmp);
            let worst = *values.last()?;
            Some(Summary { median: values[values.len() / 2], worst })
        };
        add("cleanup: a page of 128 expired files, removed", summary(pages));
        add("sync, with nothing to do", summary(syncs));
        drop(host.database);
    }
    for (name, summaries) in rows {
        table.row(name, &summaries, Unit::Time);
    }
    Ok(table)
}

/// The lists and searches that are measured.
fn queries() -> Vec<(&'static str, FileFilter, FilePage)> {
    let first = FilePage { offset: 0, limit: 50 };
    let search = |text: &str| FileFilter { search: Some(SearchPattern::new(text)), ..FileFilter::default() };
    let tagged = stead_core::managed::Tags::parse(["rare"]).expect("it is a tag");
    vec![
        ("list: the first page of all", FileFilter::default(), first),
        ("list: a page at offset 5,000", FileFilter::default(), FilePage { offset: 5_000, limit: 50 }),
        (
            "list: the first page of a category",
            FileFilter { category: Some(Category::Data), ..FileFilter::default() },
            first,
        ),
        (
            "list: with a tag that 1 in 10,000 has",
            FileFilter { tags: tagged, ..FileFilter::default() },
            first,
        ),
        ("search: part of every name", search("note"), first),
        ("search: part of one name", search("note-0000777."), first),
        ("search: in none", search("xylophone"), first),
        ("search: a pattern", search("*-0000?77.csv"), first),
    ]
}

/// Writes files into directories of days, 200 to a day.
fn fill(host: &Host, size: usize) -> Result {
    let extensions = ["py", "md", "csv", "png"];
    for first in (0..size).step_by(BATCH) {
        if first % 100_000 == 0 {
            eprintln!("  {} files", count(first));
        }
        let mut batch = host.vfs.batch();
        for number in first..(first + BATCH).min(size) {
            let extension = extensions[number % extensions.len()];
            let category = Category::of_name(&format!("x.{extension}"));
            let path = format!("/w/{category}/d{:04}/note-{number:07}.{extension}", number / 200);
            batch.write(path, number.to_string(), &WriteOptions::new())?;
        }
        batch.apply()?;
    }
    for round in 0..4 {
        let mut batch = host.vfs.batch();
        for number in 0..PAGES * PAGE {
            let path = format!("/w/temp/r{round}/old-{number}");
            batch.write(path, format!("{round} {number}"), &WriteOptions::new())?;
        }
        batch.apply()?;
    }
    host.files()?.sync()?;
    Ok(())
}

/// Makes the temporary files of a round old, and at first some files have a rare tag.
fn expire(directory: &Path, round: usize) -> Result {
    let conn = rusqlite::Connection::open(directory.join("stead.db"))?;
    conn.busy_timeout(std::time::Duration::from_secs(60))?;
    if round == 0 {
        conn.execute("UPDATE workspace_files SET tags = 'rare' WHERE id % 10000 = 0", [])?;
    }
    conn.execute(
        "UPDATE workspace_files SET modified_at = '2020-01-01T00:00:00.000Z' WHERE path >= ?1 AND path < ?2",
        [format!("temp/r{round}/"), format!("temp/r{round}0")],
    )?;
    Ok(())
}

fn expect(found: u64, wanted: u64) -> Result {
    if found == wanted { Ok(()) } else { Err(format!("{found} instead of {wanted}").into()) }
}
