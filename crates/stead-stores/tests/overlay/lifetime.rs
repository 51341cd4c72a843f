//! How a fork begins, is shared, is pinned and ends, and what happens without its base.

use stead_core::glob::PathGlobs;
use stead_core::search::WalkOptions;
use stead_core::store::{
    CaptureScope, CaptureScopes, Fork, Forks, History, Maintenance, NodePath, StorePath,
};
use stead_core::{Clock, Store, StoreError, SystemClock};
use stead_stores::database::NewSnapshot;

use crate::{
    Site, assert_sound, change, fork_of, fork_record, names, node_path, read, remove, rename, write,
};

#[test]
fn g4_a_fork_outlives_the_process_and_two_processes_share_it() {
    let site = Site::new();
    site.put("d/file", "base");
    site.put("d/other", "base");
    let here = site.fork("one");
    write(&*here, "d/file", "here");
    let there = site.open_fork("one");
    assert_eq!(
        (read(&there, "d/file").unwrap(), read(&there, "d/other").unwrap()),
        ("here".into(), "base".into())
    );
    write(&there, "d/other", "there");
    rename(&there, "d", "moved");
    site.put("d/live", "host");
    for store in [&*here, &there as &dyn Store] {
        assert_eq!(names(store, "moved"), ["file", "live", "other"]);
        assert_eq!(read(store, "moved/other").unwrap(), "there");
        assert_eq!(names(store, ""), ["moved"]);
    }
    let nodes =
        [&*here, &there as &dyn Store].map(|store| store.stat(&node_path("moved/live")).unwrap().node);
    assert_eq!(nodes[0], nodes[1]);
    assert_sound(&*here);
}

#[test]
fn g5_discarding_gives_the_space_back_and_removes_the_base_layer_with_the_last_fork() {
    let site = Site::new();
    site.put("file", &"b".repeat(1_000));
    let before = ["volume", "entry", "overlay", "taken_name", "fingerprint"].map(|table| site.count(table));
    let first = site.fork("one");
    write(&*first, "file", &"f".repeat(500));
    let second = fork_of(&first, "two");
    let destroy = |store: &dyn Store| store.require_maintenance().unwrap().destroy();
    destroy(&*first).unwrap();
    assert!(matches!(first.stat(&node_path("file")), Err(StoreError::Expired(_))));
    assert_eq!(read(&*second, "file").unwrap(), "f".repeat(500));
    destroy(&*second).unwrap();
    let after = ["volume", "entry", "overlay", "taken_name", "fingerprint"].map(|table| site.count(table));
    assert_eq!(after, before);
    assert_eq!(site.database.verify(&mut |_| ()).unwrap().unreferenced, 1_500);
    assert_eq!(read(&*site.store, "file").unwrap(), "b".repeat(1_000));
    for path in ["", "file"] {
        assert!(matches!(first.stat(&node_path(path)), Err(StoreError::Expired(_))), "{path}");
    }
}

#[test]
fn g5_without_its_base_a_fork_reads_what_it_changed_and_says_so_for_the_rest() {
    let site = Site::new();
    site.put("d/touched", "base");
    site.put("d/live", "base");
    site.fork("one");
    let fork = site.open_fork("one");
    write(&fork, "d/touched", "fork");
    let check = |fork: &dyn Store, expected: &str| {
        assert_eq!(read(fork, "d/touched").unwrap(), "fork");
        for result in [
            fork.stat(&node_path("d/live")).map(drop),
            fork.list(&node_path("d"), &stead_core::store::Page::ALL).map(drop),
        ] {
            let error = result.unwrap_err();
            assert!(matches!(error, StoreError::Unavailable { .. }), "{error:?}");
            let text = error.to_string();
            assert!(
                text.contains(expected) && text.contains("What the fork has changed can still be read"),
                "{text}"
            );
        }
        let walk = WalkOptions::default();
        let mut visited = Vec::new();
        fork.walk(&NodePath::root(), &walk, &mut |entry| {
            visited.push(entry.path.to_string());
            std::ops::ControlFlow::Continue(())
        })
        .unwrap();
        assert_eq!(visited, ["d", "d/touched"]);
        assert_eq!(walk.unreadable.take().len(), 2);
    };
    std::fs::rename(site.host_path(""), site.temp.path().join("away")).unwrap();
    std::fs::remove_dir_all(site.temp.path().join("away")).unwrap();
    check(&fork, "its directory was removed");
    std::fs::create_dir(site.host_path("")).unwrap();
    site.put("d/live", "of another directory");
    check(&site.open_fork("one"), "was replaced by another one");
}

#[test]
fn g2_a_pinned_fork_shows_nothing_live() {
    let site = Site::new();
    site.put("d/file", "base");
    site.put("d/other", "base");
    let scope = CaptureScope::new(StorePath::empty(), StorePath::empty(), PathGlobs::none());
    let scopes: CaptureScopes = [scope].into_iter().collect();
    let operation = change(Vec::new()).operation;
    let captured = site.store.capture(&scopes, &operation, &mut |_| Ok(())).unwrap().unwrap();
    let at = SystemClock.now();
    let new = NewSnapshot { agent: "coder".into(), prefix: None, label: None, at, lease: None };
    let snapshot = site.database.snapshot_with_captures(new, vec![captured]).unwrap();
    let record = Fork { pinned_at: Some(snapshot.revision), ..fork_record("one") };
    let fork = site.store.fork(site.store.clone(), &record).unwrap();
    for path in ["d/file", "d/other", "d/later", "top"] {
        site.put(path, "host");
    }
    std::fs::remove_file(site.host_path("d/other")).unwrap();
    let fork_again = site.open_fork("one");
    for fork in [&*fork, &fork_again as &dyn Store] {
        assert_eq!(
            (names(fork, ""), names(fork, "d")),
            (vec!["d".to_owned()], vec!["file".to_owned(), "other".into()])
        );
        assert_eq!(read(fork, "d/other").unwrap(), "base");
        assert!(fork.feed().is_some());
    }
    write(&*fork, "d/file", "fork");
    remove(&*fork, "d/other");
    assert_eq!(names(&fork_again, "d"), ["file"]);
    // The fork keeps the snapshot, also without its name.
    site.database.forget_snapshot("coder", snapshot.id).unwrap();
    write(&*site.store, "more", "1");
    let retention = stead_stores::database::Retention { age: std::time::Duration::ZERO, versions: 1 };
    site.database.forget(retention, SystemClock.now(), &mut |_| ()).unwrap();
    assert_eq!(read(&site.open_fork("one"), "d/file").unwrap(), "fork");
    assert_eq!(names(&site.open_fork("one"), ""), ["d"]);
    assert_eq!(site.database.fork_records("coder").unwrap()[0].fork.pinned_at, Some(snapshot.revision));
    let refused = site.store.destroy().unwrap_err();
    assert_eq!(refused.to_string(), "it has pinned forks; discard them first");
    assert_sound(&*fork);
}

#[test]
fn a_fork_knows_its_directory_and_its_name_is_unique() {
    let site = Site::new();
    site.fork("one");
    let taken = site.store.fork(site.store.clone(), &fork_record("one"));
    assert!(matches!(taken, Err(StoreError::AlreadyExists)));
    let record = site.database.fork_records("coder").unwrap().remove(0);
    let location =
        stead_stores::PhysicalStore::location_in(&site.temp.path().join("state"), &site.host_path(""));
    assert_eq!((record.directory, record.namespace), (Some(location), Vec::new()));
    assert_eq!(site.count("overlay"), 1, "the refused fork has left no base layer");
}
