//! Files that other programs write, where neither the size nor the name says so.

use std::path::Path;
use std::time::{Duration, SystemTime};

use stead_core::Timestamp;
use stead_core::managed::{FileFilter, RepairCounts};
use stead_core::vfs::managed::{ChangedFiles, CleanupOptions, FilePage};

use crate::host::{DAY, Host, Kind, listed};

/// Writes a file as another program does at this time.
fn write_at(path: &Path, content: &str, time: Timestamp) {
    std::fs::write(path, content).unwrap();
    let time = SystemTime::UNIX_EPOCH + Duration::from_nanos(u64::try_from(time.0).unwrap());
    std::fs::File::options().write(true).open(path).unwrap().set_modified(time).unwrap();
}

const DRY_RUN: CleanupOptions = CleanupOptions { dry_run: true };

#[test]
fn w84_a_file_that_another_program_rewrites_with_the_same_size_begins_its_time_to_live_again() {
    let host = Host::new(Kind::Physical);
    let paths = ["synced", "watched", "cleaned", "old"].map(|name| format!("temp/{DAY}/{name}"));
    for path in &paths {
        host.vfs().write(format!("/notes/{path}"), "aaaa").unwrap();
        write_at(&host.on_disk(path), "aaaa", host.now());
    }
    assert_eq!(listed(&host.files()).len(), 4);
    host.advance_days(6);
    let resized = RepairCounts { added: 0, removed: 0, resized: 1 };
    write_at(&host.on_disk(&paths[0]), "bbbb", host.now());
    assert_eq!(host.files().sync().unwrap().counts, resized);
    assert_eq!(host.files().sync().unwrap().counts, RepairCounts::default(), "a second sync changes nothing");
    write_at(&host.on_disk(&paths[1]), "bbbb", host.now());
    let changed = ChangedFiles::Paths([paths[1].clone()].into());
    assert_eq!(host.files().sync_changed(&changed).unwrap(), resized);
    host.advance_days(2);
    write_at(&host.on_disk(&paths[2]), "bbbb", host.now());
    for options in [DRY_RUN, CleanupOptions::default()] {
        let report = host.files().cleanup(&options).unwrap();
        assert_eq!((report.run.removed, report.paths[0].name()), (1, Some("old")), "{options:?}");
    }
    assert_eq!(host.rows().len(), 3);
    assert_eq!(std::fs::read(host.on_disk(&paths[2])).unwrap(), b"bbbb");
}

#[test]
fn w42_and_w84_a_time_that_another_program_sets_never_makes_a_file_expire_sooner() {
    let host = Host::new(Kind::Physical);
    for (name, seconds) in [("past", 1_000_000_000), ("future", 8_000_000_000)] {
        let path = host.on_disk(&format!("temp/{name}"));
        host.vfs().write(format!("/notes/temp/{name}"), "aaaa").unwrap();
        write_at(&path, "aaaa", Timestamp::from_secs(seconds));
    }
    listed(&host.files());
    host.advance_days(6);
    assert_eq!(host.files().sync().unwrap().counts, RepairCounts::default());
    assert_eq!(host.files().cleanup(&CleanupOptions::default()).unwrap().run.removed, 0);
    host.advance_days(2);
    assert_eq!(host.files().cleanup(&CleanupOptions::default()).unwrap().run.removed, 2);
}

#[test]
fn w79_a_dry_run_leaves_out_what_another_program_has_written() {
    let host = Host::new(Kind::Physical);
    for name in ["grown", "old"] {
        host.vfs().write(format!("/notes/temp/{name}"), "x").unwrap();
    }
    listed(&host.files());
    host.advance_days(8);
    std::fs::write(host.on_disk("temp/grown"), "longer").unwrap();
    for options in [DRY_RUN, CleanupOptions::default()] {
        let report = host.files().cleanup(&options).unwrap();
        assert_eq!((report.run.removed, report.paths[0].name()), (1, Some("old")), "{options:?}");
    }
}

#[test]
fn w54_and_w55_pages_are_right_after_another_program_has_removed_a_file() {
    let host = Host::new(Kind::Physical);
    for number in 1..=3 {
        host.vfs().write(format!("/notes/f{number}.py"), "x").unwrap();
        host.advance_days(1);
    }
    listed(&host.files());
    let newest = host.rows().pop().unwrap();
    std::fs::remove_file(host.on_disk(&newest)).unwrap();
    let page = |offset| {
        let page = host.files().list(&FileFilter::default(), FilePage { offset, limit: 1 }).unwrap();
        assert_eq!((page.total.count, page.offset), (2, offset));
        page.files.iter().map(|listed| listed.file.original_name.clone().unwrap()).collect::<Vec<_>>()
    };
    assert_eq!([page(0), page(1), page(2)].concat(), ["f2.py", "f1.py"]);
}
