//! What management adds to a write, counted in pages of the database's log: unlike times, those are the same in every run.

use std::sync::Arc;
use std::time::Instant;

use stead_core::managed::{Category, FileFilter, SearchPattern, Tags};
use stead_core::vfs::managed::FilePage;
use stead_core::vfs::{LostUpdates, WriteOptions};
use stead_core::{AccessScope, Mount, Vfs, VfsPath, Workspace};
use stead_stores::Durability;

use crate::host::{DAY, Host, Kind};

/// How many writes are counted.
const WRITES: usize = 200;

fn stead(host: &Host, is_managed: bool) -> Vfs {
    let workspace = match is_managed {
        true => host.workspace("/w", AccessScope::ReadWrite),
        false => Workspace::new(
            VfsPath::parse("/w").unwrap(),
            AccessScope::ReadWrite,
            Mount::new(Arc::clone(&host.store)),
        ),
    };
    let vfs = host.builder("coder").lost_updates(LostUpdates::Allow).workspace(workspace).build().unwrap();
    vfs.write(format!("/w/code/{DAY}/first.py"), "x").unwrap();
    if is_managed {
        vfs.managed(None).unwrap().sync().unwrap();
    }
    vfs
}

/// Writes files of 4 KiB, all with different content.
fn write(vfs: &Vfs, names: impl Iterator<Item = String>, is_routed: bool) {
    for (number, name) in names.enumerate() {
        let content = format!("{number:>16} {name:>16}").repeat(128)[..4_096].to_owned();
        let path = if is_routed { format!("/w/{name}") } else { format!("/w/code/{DAY}/{name}") };
        vfs.write(path, content).unwrap();
    }
}

/// How many pages the database's log has. It isn't written back during a test.
fn pages(host: &Host) -> u64 {
    // A header of 32 bytes, and 24 before each page of 4 KiB.
    (std::fs::metadata(host.directory.path().join("stead.db-wal")).unwrap().len() - 32) / (24 + 4_096)
}

/// How many pages a write adds to the log, in a Workspace that is managed and in one that isn't.
fn pages_per_write(kind: Kind, is_managed: bool, is_new: bool) -> f64 {
    let host = Host::with(kind, Durability::Fast);
    let vfs = stead(&host, is_managed);
    let name = |number: usize| format!("f{:03}.py", if is_new { number } else { number % 50 });
    if !is_new {
        write(&vfs, (0..50).map(name), false);
    }
    let before = pages(&host);
    write(&vfs, (0..WRITES).map(name), is_managed && is_new);
    (pages(&host) - before) as f64 / WRITES as f64
}

#[test]
fn a_new_file_of_a_managed_workspace_writes_five_pages_more_and_an_overwrite_six() {
    for kind in [Kind::Virtual, Kind::Physical] {
        for (is_new, most) in [(true, 5.0), (false, 6.0)] {
            let (plain, managed) =
                (pages_per_write(kind, false, is_new), pages_per_write(kind, true, is_new));
            eprintln!("{kind:?}, new {is_new}: {plain} and {managed}");
            assert!(managed - plain <= most, "{kind:?}, new {is_new}: {plain} and {managed}");
        }
    }
}

/// Does the same work for a profiler or a tracer to look at: `STEAD_COST=KIND,MANAGED,OPERATION,COUNT,DURABILITY`.
#[test]
#[ignore = "for a profiler"]
fn work() {
    let text = std::env::var("STEAD_COST").unwrap();
    let [kind, managed, operation, count, durability] =
        text.split(',').collect::<Vec<_>>().try_into().unwrap();
    let kind = if kind == "virtual" { Kind::Virtual } else { Kind::Physical };
    let durability = if durability == "full" { Durability::Full } else { Durability::Fast };
    let host = Host::with(kind, durability);
    let is_managed = managed == "managed";
    let vfs = stead(&host, is_managed);
    let count: usize = count.parse().unwrap();
    write(&vfs, (0..100).map(|number| format!("o{number}.py")), false);
    let start = Instant::now();
    match operation {
        "create" => write(&vfs, (0..count).map(|number| format!("f{number}.py")), is_managed),
        _ => write(&vfs, (0..count).map(|number| format!("o{}.py", number % 100)), false),
    }
    eprintln!("{text}: {:.1} µs", start.elapsed().as_secs_f64() * 1e6 / count.max(1) as f64);
}

/// How long lists and searches take in a manifest of so many rows, and a sync with nothing to do in one of so many files:
/// `STEAD_COST=ROWS,FILES`. The numbers are for people.
#[test]
#[ignore = "for a profiler"]
fn growth() {
    let text = std::env::var("STEAD_COST").unwrap();
    let (rows, files) = text.split_once(',').unwrap();
    let host = Host::new(Kind::Virtual);
    let vfs = stead(&host, true);
    let managed = vfs.managed(None).unwrap();
    let conn = rusqlite::Connection::open(host.directory.path().join("stead.db")).unwrap();
    conn.execute_batch(&format!(
        "WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < {rows} - 1),
           c(number, category) AS (VALUES (0, 'code'), (1, 'documents'), (2, 'data'), (3, 'images'))
         INSERT INTO workspace_files(workspace, path, category, original_name, size_bytes, source_tool, created_at, modified_at,
                                     session_key, since)
         SELECT (SELECT workspace FROM managed_workspace), printf('%s/d%04d/note-%07d.csv', category, i / 200, i), category,
                printf('note-%07d.csv', i), 6, 'write', '2026-01-01T00:00:00.000Z',
                strftime('%Y-%m-%dT%H:%M:%S.000Z', '2026-01-01', (i / 100) || ' seconds'), 'coder', 0
         FROM n JOIN c ON c.number = i % 4;
         UPDATE workspace_files SET tags = 'rare' WHERE id % 10000 = 0;
         UPDATE workspace_files SET tags = iif(tags = '', 'common', tags || ',common') WHERE id % 10 = 0;",
    ))
    .unwrap();
    let searched =
        |text: &str| FileFilter { search: Some(SearchPattern::new(text)), ..FileFilter::default() };
    let tagged = |tag: &str| FileFilter { tags: Tags::parse([tag]).unwrap(), ..FileFilter::default() };
    let of_session =
        |session: &str| FileFilter { session: Some(session.to_owned()), ..FileFilter::default() };
    for (name, filter) in [
        ("all", FileFilter::default()),
        ("category", FileFilter { category: Some(Category::Data), ..FileFilter::default() }),
        ("rare tag", tagged("rare")),
        ("common tag", tagged("common")),
        ("session of nobody", of_session("nobody")),
        ("search: every name", searched("note")),
        ("search: one name", searched("note-0000777.")),
        ("search: none", searched("xylophone")),
        ("search: a pattern", searched("*-0000?77.csv")),
        (
            "search: none, in a category",
            FileFilter { category: Some(Category::Data), ..searched("xylophone") },
        ),
    ] {
        let times = (0..5).map(|_| {
            let start = Instant::now();
            managed.list(&filter, FilePage::default()).unwrap();
            start.elapsed().as_secs_f64() * 1e3
        });
        let mut times: Vec<f64> = times.collect();
        times.sort_by(f64::total_cmp);
        eprintln!("{name}: {:.1} ms, at most {:.1} ms", times[2], times[4]);
    }
    conn.execute_batch("DELETE FROM workspace_files").unwrap();
    for first in (0..files.parse::<usize>().unwrap()).step_by(1_000) {
        let mut batch = vfs.batch();
        for number in first..first + 1_000 {
            let path = format!("/w/{}/d{:04}/note-{number:07}", ["code", "data"][number % 2], number / 200);
            batch.write(path, number.to_string(), &WriteOptions::new()).unwrap();
        }
        batch.apply().unwrap();
    }
    managed.sync().unwrap();
    for _ in 0..3 {
        let start = Instant::now();
        assert!(managed.sync().unwrap().counts.is_empty());
        eprintln!("sync of {files} files with nothing to do: {:.1} ms", start.elapsed().as_secs_f64() * 1e3);
    }
}
