//! A year of simulated days: writes, overwrites, pins, moves, deletions by other programs, and rows that a crash has lost or left
//! behind. After each day the manifest agrees with the files after one sync, and cleanup has removed exactly what has expired.

use std::collections::BTreeMap;

use stead_core::managed::{Category, FileFilter, TagMode, Tags, Ttl, category_of};
use stead_core::vfs::managed::{CleanupOptions, FilePage, MoveTarget};
use stead_core::{Timestamp, VfsPath};

use crate::host::{Host, Kind};

/// The days of a run. On a disk with other load, a year takes minutes, so that CI lives the first two months there.
fn days(kind: Kind) -> usize {
    match kind {
        Kind::Physical if std::env::var_os("STEAD_TEST_LONG").is_none() => 60,
        _ => 365,
    }
}

const FILES_PER_DAY: usize = 8;

/// Numbers that look random and are the same in every run: SplitMix64.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((mixed ^ (mixed >> 31)) % limit as u64).unwrap()
    }
}

/// What the test knows of a file: when it was last written, or found again, and whether it is pinned.
#[derive(Debug, Clone, Copy)]
struct Known {
    written: Timestamp,
    is_pinned: bool,
}

fn relative(path: &VfsPath) -> String {
    path.as_str().strip_prefix("/notes/").unwrap().to_owned()
}

fn live_a_year(kind: Kind) {
    let host = Host::new(kind);
    // The host has its own clock, and says that all files were written today. All days of the run come after that.
    host.advance_days(36_500);
    let (vfs, files, ttl) = (host.vfs(), host.files(), Ttl::default());
    let mut random = Random(19);
    let mut known: BTreeMap<String, Known> = BTreeMap::new();
    let (days, mut expired_in_all) = (days(kind), 0);
    let untracked = ["/notes/memory/temp/x", "/notes/AGENTS.md", "/notes/drafts/temp/x"];
    for path in untracked {
        vfs.write(path, "x").unwrap();
    }
    for day in 0..days {
        for number in 0..FILES_PER_DAY {
            let extension = ["py", "md", "csv", "png", "zip", "bin"][random.below(6)];
            let written = vfs.write(format!("/notes/d{day}-{number}.{extension}"), "x").unwrap();
            known.insert(relative(&written.path), Known { written: host.now(), is_pinned: false });
        }
        let pick = |random: &mut Random| known.keys().nth(random.below(known.len())).unwrap().clone();
        let (overwritten, pinned, moved, removed) =
            (pick(&mut random), pick(&mut random), pick(&mut random), pick(&mut random));
        // Another process writes it: the guard against lost updates isn't what is tested here.
        host.vfs().write(format!("/notes/{overwritten}"), "overwritten").unwrap();
        known.get_mut(&overwritten).unwrap().written = host.now();
        files.tag(format!("/notes/{pinned}"), TagMode::Add, &Tags::parse(["pin"]).unwrap()).unwrap();
        known.get_mut(&pinned).unwrap().is_pinned = true;
        let target = MoveTarget { category: Some(Category::ALL[random.below(6)]), name: None };
        if let Ok(result) = files.move_file(format!("/notes/{moved}"), target) {
            let state = known.remove(&moved).unwrap();
            known.insert(relative(&result.to), state);
        }
        if kind == Kind::Physical && known.contains_key(&removed) {
            std::fs::remove_file(host.on_disk(&removed)).unwrap();
            known.remove(&removed);
            // A row that a crash has lost: the file counts as new when sync finds it.
            let lost = known.keys().nth(random.below(known.len())).unwrap().clone();
            let conn = rusqlite::Connection::open(host.directory.path().join("stead.db")).unwrap();
            conn.busy_timeout(std::time::Duration::from_secs(5)).unwrap();
            conn.execute("DELETE FROM workspace_files WHERE path = ?1", [&lost]).unwrap();
            known.insert(lost, Known { written: host.now(), is_pinned: false });
        }
        if day % 30 == 0 {
            files.sync().unwrap();
            assert!(files.sync().unwrap().counts.is_empty(), "one sync is enough on day {day}");
            assert_eq!(host.rows(), known.keys().cloned().collect::<Vec<_>>(), "day {day}");
            let pinned = FileFilter { tags: Tags::parse(["pin"]).unwrap(), ..FileFilter::default() };
            let expected = known.values().filter(|state| state.is_pinned).count() as u64;
            let found = files.list(&pinned, FilePage::default()).unwrap();
            assert_eq!(found.total.count, expected, "day {day}");
            assert_eq!(
                host.database.verify(&mut |_| ()).unwrap().problems,
                Vec::<String>::new(),
                "day {day}"
            );
        } else if kind == Kind::Physical {
            files.sync().unwrap();
        }

        host.advance_days(1);
        let now = host.now();
        let report = files.cleanup(&CleanupOptions::default()).unwrap();
        let is_expired = |path: &str, known: &Known| {
            !known.is_pinned && ttl.has_expired(category_of(path).unwrap(), known.written, now)
        };
        let before = known.len();
        known.retain(|path, state| !is_expired(path, state));
        assert_eq!(report.run.removed, (before - known.len()) as u64, "day {day}: {:?}", report.run);
        assert_eq!(report.run.errors, Vec::<String>::new());
        assert_eq!(host.rows(), known.keys().cloned().collect::<Vec<_>>(), "day {day}");
        expired_in_all += report.run.removed;
    }
    assert!(expired_in_all > days as u64, "{expired_in_all} files have expired in {days} days");
    for path in known.keys() {
        assert!(vfs.exists(format!("/notes/{path}")).unwrap(), "{path}");
    }
    for path in untracked {
        assert!(vfs.exists(path).unwrap(), "{path}");
    }
}

#[test]
fn w81_w82_w84_w87_and_w90_a_year_on_a_virtual_store_removes_what_has_expired_and_nothing_else() {
    live_a_year(Kind::Virtual);
}

#[test]
fn w81_w82_w84_w87_and_w90_a_year_on_a_physical_store_removes_what_has_expired_and_nothing_else() {
    live_a_year(Kind::Physical);
}
