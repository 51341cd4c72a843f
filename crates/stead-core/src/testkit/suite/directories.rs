//! Creating, listing and walking directories.

use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use super::subject::*;
use crate::glob::{Anchor, PathGlobs};
use crate::name::Name;
use crate::search::WalkOptions;
use crate::store::{NodeKind, NodePath, Page, Parents, Replace, Step, StoreError, StorePath};

pub fn the_root_is_a_directory(t: &Subject) {
    let root = t.store.stat(&NodePath::root()).unwrap();
    assert_eq!((root.kind, root.size), (NodeKind::Directory, 0));
    assert!(t.names("").is_empty());
    assert!(t.walked(&NodePath::root(), &WalkOptions::default()).is_empty());
}

pub fn a_directory_is_made_once(t: &Subject) {
    let outcome = t.apply_one(mkdir_with(at("dir"), Parents::Required));
    assert!(outcome.created);
    let attr = outcome.attr.unwrap();
    assert_eq!((attr.kind, attr.mode), (NodeKind::Directory, 0o755));
    assert_eq!(t.stat("dir"), attr);
    assert!(matches!(t.refused(mkdir_with(at("dir"), Parents::Required)), StoreError::AlreadyExists));

    t.write("dir/file", "1");
    let again = t.apply_one(mkdir("dir"));
    assert!(!again.created, "mkdir with parents accepts an existing directory");
    assert_eq!(again.attr.unwrap(), t.stat("dir"));
    assert_eq!(t.read("dir/file"), b"1");

    assert!(matches!(t.refused(mkdir("dir/file")), StoreError::AlreadyExists));
    assert!(matches!(t.refused(mkdir_with(at("dir/file"), Parents::Required)), StoreError::AlreadyExists));
}

/// A caller that has listed a directory can tell by its times whether the entries are still the same.
pub fn the_times_of_a_directory_follow_its_names(t: &Subject) {
    t.apply_one(mkdir("dir"));
    t.apply_one(mkdir("other"));
    t.write("other/beside", "1");
    let acts: [(&str, &dyn Fn()); 6] = [
        ("made", &|| {
            t.write("dir/a", "1");
        }),
        ("a directory made", &|| {
            t.apply_one(mkdir("dir/sub"));
        }),
        ("renamed", &|| t.rename("dir/a", "dir/b", Replace::Refuse)),
        ("moved away", &|| t.rename("dir/b", "other/b", Replace::Refuse)),
        ("moved in", &|| t.rename("other/b", "dir/c", Replace::Refuse)),
        ("removed", &|| t.remove("dir/c")),
    ];
    for (what, act) in acts {
        let before = t.stat("dir");
        // Some hosts have coarse timestamps.
        std::thread::sleep(Duration::from_millis(20));
        act();
        let after = t.stat("dir");
        assert!(after.modified > before.modified && after.changed > before.changed, "{what}");
    }
    let before = t.stat("dir");
    std::thread::sleep(Duration::from_millis(20));
    t.write("other/beside", "2");
    assert_eq!(t.stat("dir"), before);
}

pub fn a_directory_can_be_made_with_a_mode(t: &Subject) {
    t.apply_one(Step::Mkdir { at: at("outer/inner"), parents: Parents::Create, mode: Some(0o700) });
    assert_eq!(t.stat("outer/inner").mode, 0o700);
    assert_eq!(t.stat("outer").mode, 0o755, "the mode is for the last one only");
}

pub fn a_listing_is_sorted_by_bytes(t: &Subject) {
    for name in ["b", "a", "B", "a.b", "a-b", "ab", "\u{e9}", "z", "10", "9"] {
        t.write(&format!("dir/{name}"), name);
    }
    t.mkdir("dir/a+");
    t.link("dir/0", "nowhere");
    assert_eq!(t.names("dir"), ["0", "10", "9", "B", "a", "a+", "a-b", "a.b", "ab", "b", "z", "\u{e9}"]);
    for entry in t.store.list(&at("dir"), &Page::ALL).unwrap().entries {
        assert_eq!(entry.attr, t.stat(&format!("dir/{}", entry.name)));
    }
    assert_eq!(t.names(""), ["dir"]);
}

pub fn a_listing_comes_in_pages(t: &Subject) {
    let steps = (0..25).map(|number| write(&format!("dir/{number:02}"), "x")).collect();
    t.apply(steps).unwrap();
    let (mut seen, mut after) = (Vec::new(), None);
    loop {
        let listing = t.store.list(&at("dir"), &Page { after, limit: 10 }).unwrap();
        assert_eq!(listing.total, 25);
        seen.extend(listing.entries.iter().map(|entry| entry.name.to_string()));
        assert_eq!(listing.more, seen.len() < 25);
        after = listing.entries.last().map(|entry| entry.name.clone());
        if !listing.more {
            break;
        }
    }
    assert_eq!(seen, t.names("dir"));

    // The name to continue after need not exist.
    let page = Page { after: Name::new(*b"03x"), limit: 1 };
    let listing = t.store.list(&at("dir"), &page).unwrap();
    assert_eq!(listing.entries[0].name.to_string(), "04");
    let past_the_end = t.store.list(&at("dir"), &Page { after: Name::new(*b"z"), limit: 5 }).unwrap();
    assert_eq!((past_the_end.entries.len(), past_the_end.total, past_the_end.more), (0, 25, false));
    let exactly = t.store.list(&at("dir"), &Page { after: None, limit: 25 }).unwrap();
    assert!(!exactly.more);
}

fn some_tree(t: &Subject) {
    for path in ["a/b/deep", "a/b.txt", "a-file", "a/x", "b/c/d/e", "top"] {
        t.write(path, path);
    }
    t.mkdir("empty");
    t.link("a/link", "b");
}

pub fn a_walk_is_sorted_component_by_component(t: &Subject) {
    some_tree(t);
    let all = [
        "a", "a/b", "a/b/deep", "a/b.txt", "a/link", "a/x", "a-file", "b", "b/c", "b/c/d", "b/c/d/e",
        "empty", "top",
    ];
    assert_eq!(t.walked(&NodePath::root(), &WalkOptions::default()), all);
    assert_eq!(t.walked(&at("a"), &WalkOptions::default()), ["b", "b/deep", "b.txt", "link", "x"]);
    assert_eq!(t.walked(&at("b/c"), &WalkOptions::default()), ["d", "d/e"]);
    assert!(t.walked(&at("empty"), &WalkOptions::default()).is_empty());
}

pub fn a_walk_gives_attributes_and_stops_when_told(t: &Subject) {
    some_tree(t);
    let mut seen = 0;
    let visit = &mut |found: crate::store::WalkEntry| {
        assert_eq!(found.attr, t.store.stat(&NodePath::from_root(found.path)).unwrap());
        seen += 1;
        if seen == 4 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    t.store.walk(&NodePath::root(), &WalkOptions::default(), visit).unwrap();
    assert_eq!(seen, 4);
}

pub fn a_walk_goes_as_deep_as_asked(t: &Subject) {
    some_tree(t);
    let depth = |depth| t.walked(&NodePath::root(), &WalkOptions { depth, ..WalkOptions::default() });
    assert_eq!(depth(1), ["a", "a-file", "b", "empty", "top"]);
    assert_eq!(depth(2), ["a", "a/b", "a/b.txt", "a/link", "a/x", "a-file", "b", "b/c", "empty", "top"]);
    assert_eq!(t.walked(&at("b"), &WalkOptions { depth: 2, ..WalkOptions::default() }), ["c", "c/d"]);
}

pub fn a_walk_leaves_out_what_it_is_told_to_skip(t: &Subject) {
    some_tree(t);
    let skip = ["a/b", "b", "a-file", "elsewhere"].map(StorePath::from_checked).into();
    let walk = WalkOptions { skip, ..WalkOptions::default() };
    assert_eq!(t.walked(&NodePath::root(), &walk), ["a", "a/b.txt", "a/link", "a/x", "empty", "top"]);
}

pub fn a_walk_visits_only_what_matches(t: &Subject) {
    some_tree(t);
    let only = |glob: &str| {
        let only = Some(PathGlobs::new([glob], Anchor::Start).unwrap());
        t.walked(&NodePath::root(), &WalkOptions { include: only, ..WalkOptions::default() })
    };
    assert_eq!(only("**/deep"), ["a/b/deep"]);
    assert_eq!(only("a/*"), ["a/b", "a/b.txt", "a/link", "a/x"]);
    assert_eq!(only("{top,b/**/e}"), ["b/c/d/e", "top"]);
    assert_eq!(only("**/*.txt"), ["a/b.txt"]);
    assert_eq!(only("*/*k"), ["a/link"]);
    assert_eq!(only("*-file"), ["a-file"]);
    assert!(only("../*").is_empty());
    let below = Some(PathGlobs::new(["*"], Anchor::Start).unwrap());
    assert_eq!(t.walked(&at("b/c"), &WalkOptions { include: below, ..WalkOptions::default() }), ["d"]);
}

pub fn a_walk_that_is_late_gives_up(t: &Subject) {
    some_tree(t);
    let walk = WalkOptions { deadline: Some(Instant::now()), ..WalkOptions::default() };
    let result = t.store.walk(&NodePath::root(), &walk, &mut |_| ControlFlow::Continue(()));
    assert_refused!(result, StoreError::Unavailable { .. });
}

pub fn a_deep_tree_is_no_trouble(t: &Subject) {
    let deep = vec!["d"; 63].join("/") + "/file";
    t.write(&deep, "deep");
    assert_eq!(t.read(&deep), b"deep");
    let walked = t.walked(&NodePath::root(), &WalkOptions::default());
    assert_eq!((walked.len(), walked.last()), (64, Some(&deep)));
    t.apply_one(copy("d", "e", crate::store::Replace::Refuse));
    assert_eq!(t.read(&deep.replacen('d', "e", 1)), b"deep");
    t.remove("d");
    t.remove("e");
    assert!(t.names("").is_empty());
}

pub fn a_wide_directory_is_no_trouble(t: &Subject) {
    let names: Vec<_> = (0..2_000).map(|number| format!("{number:04}")).collect();
    t.apply(names.iter().map(|name| write(&format!("wide/{name}"), name)).collect()).unwrap();
    assert_eq!(t.names("wide"), names);
    assert_eq!(t.walked(&at("wide"), &WalkOptions::default()), names);
    t.rename("wide", "moved", crate::store::Replace::Refuse);
    assert_eq!(t.names("moved"), names);
    t.remove("moved");
    assert!(t.names("").is_empty());
}
