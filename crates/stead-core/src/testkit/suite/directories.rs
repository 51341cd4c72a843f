//! Creating, listing and walking directories.

use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use super::subject::*;
use crate::glob::{Anchor, PathGlobs};
use crate::name::Name;
use crate::search::{IgnoreRules, LeftOut, WalkOptions};
use crate::store::{NodeKind, NodePath, Page, Parents, Replace, Step, StoreError, StorePath};

pub fn the_root_is_a_directory(t: &Subject) {
    let root = t.store.stat(&NodePath::root()).unwrap();
    assert_eq!((root.kind, root.size), (NodeKind::Directory, 0));
    assert!(t.names("").is_empty());
    assert!(t.walk_paths(&NodePath::root(), &WalkOptions::default()).is_empty());
}

pub fn a_directory_is_created_once(t: &Subject) {
    let outcome = t.apply_one(mkdir_with(at("dir"), Parents::Required));
    assert!(outcome.created);
    let attr = outcome.attr.unwrap();
    assert_eq!((attr.kind, attr.mode), (NodeKind::Directory, 0o755));
    assert_eq!(t.stat("dir"), attr);
    assert!(matches!(
        t.assert_step_refused(mkdir_with(at("dir"), Parents::Required)),
        StoreError::AlreadyExists
    ));

    t.write("dir/file", "1");
    let outcome = t.apply_one(mkdir("dir"));
    assert!(!outcome.created, "mkdir with parents accepts an existing directory");
    assert_eq!(outcome.attr.unwrap(), t.stat("dir"));
    assert_eq!(t.read("dir/file"), b"1");

    assert!(matches!(t.assert_step_refused(mkdir("dir/file")), StoreError::AlreadyExists));
    assert!(matches!(
        t.assert_step_refused(mkdir_with(at("dir/file"), Parents::Required)),
        StoreError::AlreadyExists
    ));
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
    for (description, act) in acts {
        let before = t.stat("dir");
        // Some hosts have coarse timestamps.
        std::thread::sleep(Duration::from_millis(20));
        act();
        let after = t.stat("dir");
        assert!(after.modified > before.modified && after.changed > before.changed, "{description}");
    }
    let before = t.stat("dir");
    std::thread::sleep(Duration::from_millis(20));
    t.write("other/beside", "2");
    assert_eq!(t.stat("dir"), before);
}

pub fn a_directory_can_be_made_with_a_mode(t: &Subject) {
    t.apply_one(Step::Mkdir { at: at("outer/inner"), parents: Parents::Create, mode: Some(0o700) });
    assert_eq!(t.stat("outer/inner").mode, 0o700);
    assert_eq!(t.stat("outer").mode, 0o755, "the mode is for the last directory only");
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
    let (mut names, mut after) = (Vec::new(), None);
    loop {
        let listing = t.store.list(&at("dir"), &Page { after, limit: 10, ..Page::ALL }).unwrap();
        assert_eq!(listing.total, 25);
        names.extend(listing.entries.iter().map(|entry| entry.name.to_string()));
        assert_eq!(listing.more, names.len() < 25);
        after = listing.entries.last().map(|entry| entry.name.clone());
        if !listing.more {
            break;
        }
    }
    assert_eq!(names, t.names("dir"));

    // The name to continue after need not exist.
    let page = Page { after: Name::new(*b"03x"), limit: 1, ..Page::ALL };
    let listing = t.store.list(&at("dir"), &page).unwrap();
    assert_eq!(listing.entries[0].name.to_string(), "04");
    let past_the_end =
        t.store.list(&at("dir"), &Page { after: Name::new(*b"z"), limit: 5, ..Page::ALL }).unwrap();
    assert_eq!((past_the_end.entries.len(), past_the_end.total, past_the_end.more), (0, 25, false));
    let full_page = t.store.list(&at("dir"), &Page { after: None, limit: 25, ..Page::ALL }).unwrap();
    assert!(!full_page.more);
}

pub fn a_listing_leaves_hidden_names_out(t: &Subject) {
    for name in [".env", "a", "b.key", "c", "d"] {
        t.write(&format!("dir/{name}"), name);
    }
    let hide = hidden(&["*.key", ".env", "/b/c", "/dir/c"], "dir");
    let (mut names, mut after) = (Vec::new(), None);
    for _ in 0..2 {
        let listing = t.store.list(&at("dir"), &Page { after, limit: 1, hide: hide.clone() }).unwrap();
        assert_eq!(listing.total, 2, "hidden names aren't counted");
        assert_eq!(listing.more, names.is_empty());
        names.extend(listing.entries.iter().map(|entry| entry.name.to_string()));
        after = listing.entries.last().map(|entry| entry.name.clone());
    }
    assert_eq!(names, ["a", "d"]);
}

pub fn a_walk_enters_no_hidden_directory(t: &Subject) {
    for path in ["top/.ssh/id", "top/a/.ssh/x/y", "top/a/b", "top/c.key/d", "top/e"] {
        t.write(path, path);
    }
    let hide = hidden(&[".ssh/**", "*.key", "/top/e"], "top");
    let walk = WalkOptions { hide, ..WalkOptions::default() };
    assert_eq!(t.walk_paths(&at("top"), &walk), ["a", "a/b"]);
}

fn create_sample_tree(t: &Subject) {
    for path in ["a/b/deep", "a/b.txt", "a-file", "a/x", "b/c/d/e", "top"] {
        t.write(path, path);
    }
    t.mkdir("empty");
    t.link("a/link", "b");
}

pub fn a_walk_is_sorted_component_by_component(t: &Subject) {
    create_sample_tree(t);
    let all = [
        "a", "a/b", "a/b/deep", "a/b.txt", "a/link", "a/x", "a-file", "b", "b/c", "b/c/d", "b/c/d/e",
        "empty", "top",
    ];
    assert_eq!(t.walk_paths(&NodePath::root(), &WalkOptions::default()), all);
    assert_eq!(t.walk_paths(&at("a"), &WalkOptions::default()), ["b", "b/deep", "b.txt", "link", "x"]);
    assert_eq!(t.walk_paths(&at("b/c"), &WalkOptions::default()), ["d", "d/e"]);
    assert!(t.walk_paths(&at("empty"), &WalkOptions::default()).is_empty());
}

pub fn a_walk_returns_attributes_and_stops_on_break(t: &Subject) {
    create_sample_tree(t);
    let mut visited = 0;
    let visit = &mut |entry: crate::store::WalkEntry| {
        assert_eq!(entry.attr, t.store.stat(&NodePath::from_root(entry.path)).unwrap());
        visited += 1;
        if visited == 4 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    t.store.walk(&NodePath::root(), &WalkOptions::default(), visit).unwrap();
    assert_eq!(visited, 4);
}

pub fn a_walk_stops_at_its_depth(t: &Subject) {
    create_sample_tree(t);
    let walk_to_depth =
        |depth| t.walk_paths(&NodePath::root(), &WalkOptions { depth, ..WalkOptions::default() });
    assert_eq!(walk_to_depth(1), ["a", "a-file", "b", "empty", "top"]);
    assert_eq!(
        walk_to_depth(2),
        ["a", "a/b", "a/b.txt", "a/link", "a/x", "a-file", "b", "b/c", "empty", "top"]
    );
    assert_eq!(t.walk_paths(&at("b"), &WalkOptions { depth: 2, ..WalkOptions::default() }), ["c", "c/d"]);
}

pub fn a_walk_skips_the_given_subtrees(t: &Subject) {
    create_sample_tree(t);
    let skip = ["a/b", "b", "a-file", "elsewhere"].map(StorePath::from_checked).into();
    let walk = WalkOptions { skip, ..WalkOptions::default() };
    assert_eq!(t.walk_paths(&NodePath::root(), &walk), ["a", "a/b.txt", "a/link", "a/x", "empty", "top"]);
}

pub fn a_walk_visits_only_matching_paths(t: &Subject) {
    create_sample_tree(t);
    let walk_matching = |glob: &str| {
        let include = Some(PathGlobs::new([glob], Anchor::Start).unwrap());
        t.walk_paths(&NodePath::root(), &WalkOptions { include, ..WalkOptions::default() })
    };
    assert_eq!(walk_matching("**/deep"), ["a/b/deep"]);
    assert_eq!(walk_matching("a/*"), ["a/b", "a/b.txt", "a/link", "a/x"]);
    assert_eq!(walk_matching("{top,b/**/e}"), ["b/c/d/e", "top"]);
    assert_eq!(walk_matching("**/*.txt"), ["a/b.txt"]);
    assert_eq!(walk_matching("*/*k"), ["a/link"]);
    assert_eq!(walk_matching("*-file"), ["a-file"]);
    assert!(walk_matching("../*").is_empty());
    let include = Some(PathGlobs::new(["*"], Anchor::Start).unwrap());
    assert_eq!(t.walk_paths(&at("b/c"), &WalkOptions { include, ..WalkOptions::default() }), ["d"]);
}

pub fn a_walk_leaves_out_what_ignore_files_name(t: &Subject) {
    t.write(".gitignore", "*.o\n/out/\n!deep/keep.o");
    t.write(".git/info/exclude", "excluded");
    t.write("deep/.ignore", "own");
    for path in ["a.o", "b", "deep/a.o", "deep/b", "deep/keep.o", "deep/own", "excluded", "out/b", "own"] {
        t.write(path, path);
    }
    t.mkdir("deep/.gitignore");
    let walk = |start: &NodePath, options: WalkOptions| {
        let ignore = IgnoreRules::new(Vec::new());
        let paths = t.walk_paths(start, &WalkOptions { ignore: Some(ignore.clone()), ..options });
        (paths.join(" "), ignore.left_out())
    };
    let left_out = |ignored, git| LeftOut { ignored, git };
    let all = ".gitignore b deep deep/.gitignore deep/.ignore deep/b deep/keep.o own";
    assert_eq!(walk(&NodePath::root(), WalkOptions::default()), (all.into(), left_out(true, true)));
    let one_level = WalkOptions { depth: 1, ..WalkOptions::default() };
    assert_eq!(walk(&NodePath::root(), one_level), (".gitignore b deep own".into(), left_out(true, true)));
    assert_eq!(
        walk(&at("deep"), WalkOptions::default()),
        (".gitignore .ignore a.o b keep.o".into(), left_out(true, false)),
        "the rules from above the start are the caller's to pass"
    );
    // An ignore file is found though it doesn't match, and only what would have matched is said to be left out.
    let matching = |pattern: &str| {
        let include = Some(PathGlobs::new([pattern], Anchor::Start).unwrap());
        walk(&NodePath::root(), WalkOptions { include, ..WalkOptions::default() })
    };
    assert_eq!(matching("**/*.o"), ("deep/keep.o".into(), left_out(true, true)));
    assert_eq!(matching("deep/*.o"), ("deep/keep.o".into(), left_out(true, false)));
    assert_eq!(matching("deep/b"), ("deep/b".into(), left_out(false, false)));
    assert_eq!(matching("*.o"), (String::new(), left_out(true, false)));
    // A path that is skipped isn't left out: the walk knows nothing of it.
    let skip = [".git", "a.o", "excluded", "out", "deep"].map(StorePath::from_checked).into();
    let skipping = walk(&NodePath::root(), WalkOptions { skip, ..WalkOptions::default() });
    assert_eq!(skipping, (".gitignore b own".into(), left_out(false, false)));
}

pub fn a_walk_past_its_deadline_fails(t: &Subject) {
    create_sample_tree(t);
    let walk = WalkOptions { deadline: Some(Instant::now()), ..WalkOptions::default() };
    let result = t.store.walk(&NodePath::root(), &walk, &mut |_| ControlFlow::Continue(()));
    assert_refused!(result, StoreError::Unavailable { .. });
}

pub fn a_deep_tree_works(t: &Subject) {
    let path = vec!["d"; 63].join("/") + "/file";
    t.write(&path, "deep");
    assert_eq!(t.read(&path), b"deep");
    let paths = t.walk_paths(&NodePath::root(), &WalkOptions::default());
    assert_eq!((paths.len(), paths.last()), (64, Some(&path)));
    t.apply_one(copy("d", "e", crate::store::Replace::Refuse));
    assert_eq!(t.read(&path.replacen('d', "e", 1)), b"deep");
    t.remove("d");
    t.remove("e");
    assert!(t.names("").is_empty());
}

pub fn a_wide_directory_works(t: &Subject) {
    let names: Vec<_> = (0..2_000).map(|number| format!("{number:04}")).collect();
    t.apply(names.iter().map(|name| write(&format!("wide/{name}"), name)).collect()).unwrap();
    assert_eq!(t.names("wide"), names);
    assert_eq!(t.walk_paths(&at("wide"), &WalkOptions::default()), names);
    t.rename("wide", "moved", crate::store::Replace::Refuse);
    assert_eq!(t.names("moved"), names);
    t.remove("moved");
    assert!(t.names("").is_empty());
}
