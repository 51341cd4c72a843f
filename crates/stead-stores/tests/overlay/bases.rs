//! What a fork shows of its base, and what it keeps of it.

use std::os::unix::fs::symlink;

use stead_core::glob::PathGlobs;
use stead_core::search::{Grep, GrepQuery, IgnoreRules, WalkOptions};
use stead_core::store::{LinkHit, NodeKind, NodePath, OpenPurpose, Page, Replace, Step, Subtree};
use stead_core::{Store, StoreError};
use stead_stores::OverlayStore;

use crate::{
    Site, apply, assert_searches_what_it_shows, assert_sound, change, essence, found_in, names, node_path,
    read, remove, remove_step, rename, rename_step, write,
};

#[test]
fn g2_untouched_names_are_live_and_changed_names_keep_the_base() {
    let site = Site::new();
    site.put("d/touched", "base");
    site.put("d/live", "base");
    site.put("removed", "base");
    let fork = site.fork("one");
    write(&*fork, "d/touched", "fork");
    remove(&*fork, "removed");
    write(&*fork, "d/added", "fork");
    // A host program changes everything.
    for path in ["d/touched", "d/live", "d/added", "removed", "d/later", "later/deep"] {
        site.put(path, "host");
    }
    let shown =
        ["d/touched", "d/live", "d/added", "d/later", "later/deep"].map(|path| read(&*fork, path).unwrap());
    assert_eq!(shown, ["fork", "host", "fork", "host", "host"]);
    assert!(matches!(fork.stat(&node_path("removed")), Err(StoreError::NotFound)));
    assert_eq!(names(&*fork, ""), ["d", "later"]);
    assert_eq!(names(&*fork, "d"), ["added", "later", "live", "touched"]);
    std::fs::remove_dir_all(site.host_path("d")).unwrap();
    assert_eq!(names(&*fork, "d"), ["added", "touched"]);
    assert_sound(&*fork);
}

#[test]
fn g2_the_base_of_a_changed_file_is_kept_with_its_fingerprint() {
    let site = Site::new();
    site.put("d/file", "base");
    site.fork("one");
    let fork: OverlayStore = site.open_fork("one");
    let before = fork.stat(&node_path("d/file")).unwrap();
    assert_eq!(before.tag, site.store.stat(&node_path("d/file")).unwrap().tag);
    rename(&fork, "d/file", "moved");
    write(&fork, "moved", "fork");
    site.put("d/file", "host");
    let node = fork.stat(&node_path("moved")).unwrap().node;
    assert_eq!(node, before.node, "a file keeps its node when it is taken over");
    let taken = fork.taken_over(node).unwrap().unwrap();
    assert_eq!((taken.path.to_string(), taken.tag, taken.attr.size), ("d/file".into(), before.tag, 4));
    assert_eq!(read(&*fork.base_view(), "d/file").unwrap(), "base");
    write(&fork, "own", "1");
    let own = fork.stat(&node_path("own")).unwrap().node;
    assert_eq!(fork.taken_over(own).unwrap(), None);
}

#[test]
fn g2_a_change_of_the_mode_keeps_the_base_with_its_fingerprint() {
    let site = Site::new();
    site.put("d/file", "base");
    site.fork("one");
    let fork: OverlayStore = site.open_fork("one");
    let before = fork.stat(&node_path("d/file")).unwrap();
    apply(&fork, Step::SetAttr { at: node_path("d/file"), mode: Some(0o755), modified: None });
    site.put("d/file", "a host program");
    assert_eq!(read(&fork, "d/file").unwrap(), "base");
    let after = fork.stat(&node_path("d/file")).unwrap();
    assert_eq!((after.node, after.mode & 0o777, after.size), (before.node, 0o755, 4));
    let taken = fork.taken_over(after.node).unwrap().unwrap();
    let kept = (taken.path.to_string(), taken.tag, taken.attr.size, taken.attr.mode);
    assert_eq!(kept, ("d/file".to_owned(), before.tag, 4, before.mode));
    assert_eq!(read(&*fork.base_view(), "d/file").unwrap(), "base");
    assert_eq!(fork.base_view().stat(&node_path("d/file")).unwrap().mode, before.mode);
    assert_sound(&fork);
}

#[test]
fn g2_reads_leave_nothing_in_the_database() {
    let site = Site::new();
    site.put("d/e/file", "needle");
    let fork = site.fork("one");
    let tables = ["entry", "taken_name", "content", "node_change", "revision", "fingerprint"];
    let before = tables.map(|table| site.count(table));
    fork.stat(&node_path("d/e/file")).unwrap();
    read(&*fork, "d/e/file").unwrap();
    fork.open(&node_path("d/e/file"), OpenPurpose::Read).unwrap();
    names(&*fork, "d/e");
    fork.walk(&NodePath::root(), &WalkOptions::default(), &mut |_| std::ops::ControlFlow::Continue(()))
        .unwrap();
    let grep = Grep::new(&GrepQuery::new("needle"), None, PathGlobs::none()).unwrap();
    let mut hits = Vec::new();
    fork.grep(&NodePath::root(), &grep, &mut |found| {
        hits.push(found.path.to_string());
        std::ops::ControlFlow::Continue(())
    })
    .unwrap();
    assert_eq!(hits, ["d/e/file"]);
    assert_eq!(tables.map(|table| site.count(table)), before);
}

#[test]
fn g2_a_search_finds_what_the_fork_and_the_host_have_now() {
    let site = Site::new();
    for path in
        ["d/changed", "d/removed", "d/live", "d/e/moved", "d/e/live", "f/replaced", "f/live", "g/h/live"]
    {
        site.put(path, "needle");
    }
    let fork = site.fork("one");
    write(&*fork, "d/changed", "another needle");
    write(&*fork, "d/own", "needle");
    write(&*fork, "new/own", "needle");
    remove(&*fork, "d/removed");
    rename(&*fork, "d/e/moved", "d/e/renamed");
    remove(&*fork, "f/replaced");
    write(&*fork, "f/replaced/below", "needle");
    for path in ["d/removed", "d/own", "new/host", "f/replaced", "later/host"] {
        let host = site.host_path(path);
        if path == "f/replaced" {
            std::fs::write(host, "needle").unwrap();
        } else {
            site.put(path, "needle");
        }
    }
    let search = |fork: &dyn Store| {
        let mut grep = Grep::new(&GrepQuery::new("needle"), None, PathGlobs::none()).unwrap();
        grep.ignore = Some(IgnoreRules::new(Vec::new()));
        found_in(fork, &grep)
    };
    let all = [
        "d/changed",
        "d/e/live",
        "d/e/renamed",
        "d/live",
        "d/own",
        "f/live",
        "f/replaced/below",
        "g/h/live",
        "later/host",
        "new/own",
    ];
    assert_eq!(search(&*fork), all);
    // A directory that the fork has moved is searched at its new path.
    rename(&*fork, "g/h", "g/i");
    let moved = all.map(|path| if path == "g/h/live" { "g/i/live" } else { path });
    assert_eq!(search(&*fork), moved);
    // Ignore files count as the fork shows them.
    site.put("d/.gitignore", "e/\n");
    let without = |ignored: &[&str]| -> Vec<&str> {
        moved.into_iter().filter(|path| !ignored.iter().any(|start| path.starts_with(start))).collect()
    };
    assert_eq!(search(&*fork), without(&["d/e/"]));
    write(&*fork, "d/.gitignore", "live\n");
    assert_eq!(search(&*fork), without(&["d/live", "d/e/live"]));
    remove(&*fork, "d/.gitignore");
    assert_eq!(search(&*fork), moved);
    // The host has a file where the fork has a directory.
    std::fs::remove_dir_all(site.host_path("d")).unwrap();
    site.put("d", "needle");
    assert_eq!(search(&*fork), without(&["d/live", "d/e/live"]));
    std::fs::remove_dir_all(site.host_path("f")).unwrap();
    assert_eq!(search(&*fork), without(&["d/live", "d/e/live", "f/live"]));
    // The fork has taken over more than the host directory would skip.
    for number in 0..300 {
        site.put(&format!("many/{number}"), "needle");
        write(&*fork, &format!("many/{number}"), "fork");
    }
    site.put("many/live", "needle");
    assert_searches_what_it_shows(&*fork);
    assert_sound(&*fork);
}

#[test]
fn g1_a_fork_costs_the_same_whatever_the_size_of_the_directory() {
    let site = Site::new();
    let tables = ["volume", "entry", "overlay", "taken_name", "fork", "content"];
    let counts = || tables.map(|table| site.count(table));
    site.fork("empty");
    let one = counts();
    let count = if std::env::var_os("STEAD_TEST_LONG").is_some() { 100_000 } else { 2_000 };
    for number in 0..count {
        site.put(&format!("d{}/{number}", number % 200), "content");
    }
    let began = std::time::Instant::now();
    site.fork("full");
    println!("a fork of {count} files took {:?}", began.elapsed());
    assert_eq!(counts(), one.map(|count| count * 2));
}

#[test]
fn g3_a_removed_directory_with_a_new_one_in_its_place_shows_only_the_new_one() {
    let site = Site::new();
    site.put("d/old", "base");
    site.put("d/e/old", "base");
    let before = site.host_tree();
    let fork = site.fork("one");
    remove(&*fork, "d");
    write(&*fork, "d/new", "fork");
    assert_eq!(names(&*fork, "d"), ["new"]);
    assert_eq!(essence(&site.host_tree()), essence(&before));
    site.put("d/later", "host");
    assert_eq!(names(&*fork, "d"), ["new"]);
    assert_sound(&*fork);
}

#[test]
fn g3_a_moved_directory_takes_its_untouched_content_along() {
    let site = Site::new();
    site.put("a/b/file", "base");
    site.put("a/b/other", "base");
    let fork = site.fork("one");
    let contents = site.count("content");
    rename(&*fork, "a", "x/y");
    assert_eq!(site.count("content"), contents, "no content of it was copied");
    assert_eq!(read(&*fork, "x/y/b/file").unwrap(), "base");
    assert!(matches!(fork.stat(&node_path("a")), Err(StoreError::NotFound)));
    site.put("a/b/file", "host");
    site.put("a/late", "host");
    assert_eq!(
        (names(&*fork, ""), names(&*fork, "x/y")),
        (vec!["x".to_owned()], vec!["b".into(), "late".into()])
    );
    assert_eq!(read(&*fork, "x/y/b/file").unwrap(), "host");
    write(&*fork, "x/y/b/file", "fork");
    rename(&*fork, "x/y/b", "b");
    assert_eq!(
        (read(&*fork, "b/file").unwrap(), read(&*fork, "b/other").unwrap()),
        ("fork".into(), "base".into())
    );
    // A new directory at the old name is empty.
    write(&*fork, "a/new", "fork");
    assert_eq!(names(&*fork, "a"), ["new"]);
    assert_sound(&*fork);
}

#[test]
fn g3_the_case_of_a_name_changes_like_any_name() {
    let site = Site::new();
    site.put("Readme/file", "base");
    let fork = site.fork("one");
    rename(&*fork, "Readme", "README");
    assert_eq!(
        (names(&*fork, ""), read(&*fork, "README/file").unwrap()),
        (vec!["README".to_owned()], "base".into())
    );
    assert!(fork.stat(&node_path("Readme")).is_err());
}

#[test]
fn g3_symlinks_are_reported_and_never_followed() {
    let site = Site::new();
    site.put("d/real/file", "base");
    symlink("real", site.host_path("d/link")).unwrap();
    let fork = site.fork("one");
    let hit = |result: Result<(), StoreError>| match result {
        Err(StoreError::Link(LinkHit { depth, target, .. })) => (depth, String::from_utf8(target).unwrap()),
        other => panic!("{other:?}"),
    };
    let expected = (2, "real".to_owned());
    assert_eq!(hit(fork.read(&node_path("d/link/file"), 9).map(drop)), expected);
    rename(&*fork, "d", "moved/deeper");
    let deeper = (3, "real".to_owned());
    assert_eq!(hit(fork.read(&node_path("moved/deeper/link/file"), 9).map(drop)), deeper);
    let refused =
        fork.apply(change(vec![crate::write_step("moved/deeper/link/new", "x", Default::default())]));
    assert_eq!(hit(refused.map(drop)), deeper);
    assert_eq!(fork.read_link(&node_path("moved/deeper/link")).unwrap(), b"real");
    assert_eq!(hit(fork.read(&node_path("moved/deeper/link/file"), 9).map(drop)), deeper);
}

#[test]
fn g3_special_files_are_listed_and_refused_and_reserved_names_stay_reserved() {
    let site = Site::new();
    site.put("d/file", "base");
    site.put(".stead/secret", "hidden");
    let fifo =
        std::ffi::CString::new(site.host_path("d/pipe").into_os_string().into_encoded_bytes()).unwrap();
    assert_eq!(
        rustix::fs::mknodat(rustix::fs::CWD, fifo, rustix::fs::FileType::Fifo, 0o600.into(), 0),
        Ok(())
    );
    let fork = site.fork("one");
    assert_eq!(
        (names(&*fork, ""), names(&*fork, "d")),
        (vec!["d".to_owned()], vec!["file".into(), "pipe".into()])
    );
    assert!(matches!(fork.stat(&node_path("d/pipe")).unwrap().kind, NodeKind::Special(_)));
    assert!(matches!(fork.read(&node_path("d/pipe"), 9), Err(StoreError::Special(_))));
    let refused = fork.apply(change(vec![rename_step("d/pipe", "other", Replace::Refuse)])).unwrap_err();
    assert!(matches!(refused, StoreError::Special(_)), "{refused:?}");
    for path in [".stead/x", "d/.Stead", "stead.toml"] {
        let refused = fork.apply(change(vec![crate::write_step(path, "x", Default::default())])).unwrap_err();
        assert!(matches!(refused, StoreError::InvalidName(_)), "{refused:?}");
        assert!(fork.stat(&node_path(path)).is_err());
    }
    // A directory can be removed with the special files in it.
    remove(&*fork, "d");
    assert_eq!(names(&*fork, ""), Vec::<String>::new());
}

#[test]
fn a_directory_counts_as_empty_only_without_untouched_content() {
    let site = Site::new();
    site.put("full/e/file", "base");
    std::fs::create_dir(site.host_path("empty")).unwrap();
    let fork = site.fork("one");
    for path in ["full", "full/e"] {
        let refused = fork.apply(change(vec![remove_step(path, Subtree::EmptyDirectory)])).unwrap_err();
        assert!(matches!(refused, StoreError::NotEmpty), "{refused:?}");
    }
    let refused = fork.apply(change(vec![rename_step("empty", "full", Replace::Overwrite)])).unwrap_err();
    assert!(matches!(refused, StoreError::NotEmpty), "{refused:?}");
    apply(&*fork, remove_step("empty", Subtree::EmptyDirectory));
    remove(&*fork, "full/e/file");
    apply(&*fork, remove_step("full/e", Subtree::EmptyDirectory));
    assert_eq!(names(&*fork, "full"), Vec::<String>::new());
}

#[test]
fn pages_of_a_directory_count_both_sides() {
    let site = Site::new();
    for name in ["a", "c", "e", "g"] {
        site.put(name, "base");
    }
    let fork = site.fork("one");
    remove(&*fork, "c");
    write(&*fork, "b", "fork");
    write(&*fork, "e", "fork");
    let mut after = None;
    let mut found = Vec::new();
    loop {
        let page = Page { after: after.take(), limit: 2, ..Page::ALL };
        let listing = fork.list(&node_path(""), &page).unwrap();
        assert_eq!(listing.total, 4);
        found.extend(listing.entries.iter().map(|entry| entry.name.to_string()));
        if !listing.more {
            break;
        }
        after = listing.entries.last().map(|entry| entry.name.clone());
    }
    assert_eq!(found, ["a", "b", "e", "g"]);
}
