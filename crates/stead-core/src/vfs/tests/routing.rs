//! Which Workspace a path belongs to, and how listings and searches combine several Workspaces.

use super::*;

#[test]
fn an_override_opens_part_of_a_read_only_workspace() {
    let (home, src) = (store_with(&[("/b", "b")]), store_with(&[]));
    let vfs = vfs_with([workspace("/home", ReadOnly, &home), workspace("/home/src", ReadWrite, &src)]);
    vfs.write("/home/src/a", "a").unwrap();
    assert_eq!(kind(vfs.write("/home/b", "x")), ErrorKind::Denied);
    assert_eq!(text(&vfs, "/home/src/a"), "a");
    assert_eq!(text(&vfs, "/home/b"), "b");
}

#[test]
fn listing_shows_nested_workspaces_and_hides_what_they_shadow() {
    let parent = store_with(&[("/src/shadowed", "x"), ("/a", ""), ("/z", ""), ("/way/own", "")]);
    let (nested, deep) = (store_with(&[("/mine", "")]), store_with(&[("/deep", "")]));
    let vfs = vfs_with([
        workspace("/home", ReadOnly, &parent),
        workspace("/home/src", ReadWrite, &nested),
        workspace("/home/way/to/it", ReadWrite, &deep),
        workspace("/home/new/one", WriteOnly, &deep),
    ]);
    assert_eq!(names(&vfs, "/"), "home");
    assert_eq!(names(&vfs, "/home"), "a new src way z");
    assert_eq!(names(&vfs, "/home/src"), "mine");
    assert_eq!(names(&vfs, "/home/way"), "own to");
    assert_eq!(names(&vfs, "/home/way/to"), "it");
    assert_eq!(names(&vfs, "/home/new"), "one");
    assert_eq!(kind(vfs.read("/home/src/shadowed")), ErrorKind::NotFound);
    assert_eq!(vfs.stat("/home/way/to").unwrap().kind, NodeKind::Directory);
    let entry = vfs.list("/home", &ListPage::all()).unwrap().entries.remove(2);
    assert_eq!((entry.name.to_string().as_str(), entry.workspace), ("src", Some(ReadWrite)));
}

#[test]
fn a_listing_with_nested_workspaces_is_paged_without_loss() {
    let files: Vec<_> = (0..20).map(|n| format!("/f{n:02}")).collect();
    let files: Vec<_> = files.iter().map(|name| (name.as_str(), "")).collect();
    let other = store_with(&[]);
    let nested = ["/a", "/f05", "/f07x", "/zz"].map(|prefix| workspace(prefix, ReadWrite, &other));
    let vfs = vfs_with(nested.into_iter().chain([workspace("/", ReadOnly, &store_with(&files))]));
    let all_names = names(&vfs, "/");
    assert_eq!(all_names.split(' ').count(), 23);
    for limit in 1..25 {
        let mut page = ListPage { cursor: None, limit };
        let mut listed_names = Vec::new();
        loop {
            let listing = vfs.list("/", &page).unwrap();
            assert!(listing.entries.len() <= limit);
            assert_eq!(listing.total, 23);
            listed_names.extend(listing.entries.iter().map(|entry| entry.name.to_string()));
            match listing.cursor {
                Some(cursor) => page.cursor = Some(cursor),
                None => break,
            }
        }
        assert_eq!(listed_names.join(" "), all_names, "pages of {limit}");
    }
    for cursor in ["zz", "+f", "a", "é"] {
        let result = vfs.list("/", &ListPage { cursor: Some(cursor.into()), limit: 1 });
        assert_eq!(kind(result), ErrorKind::Invalid, "{cursor}");
    }
}

#[test]
fn synthetic_directories_show_only_prefixes_and_accept_no_changes() {
    let vfs = vfs_with([workspace("/home/src", ReadWrite, &store_with(&[]))]);
    assert_eq!(names(&vfs, "/"), "home");
    assert_eq!(names(&vfs, "/home"), "src");
    assert_eq!(vfs.stat("/home").unwrap().tag, None);
    assert_eq!(kind(vfs.write("/home", "x")), ErrorKind::Denied);
    assert_eq!(kind(vfs.write("/home/x", "x")), ErrorKind::Denied);
    assert_eq!(kind(vfs.read("/home")), ErrorKind::Invalid);
    assert_eq!(
        kind(vfs.remove_directory("/home", RemoveOptions { recursive: true, ..Default::default() })),
        ErrorKind::Denied
    );
}

#[test]
fn a_mount_reaches_nothing_outside_its_path() {
    let store = store_with(&[("/agents/marcus/a", "mine"), ("/agents/julia/b", "hers"), ("/top", "t")]);
    store_link(&store, "/agents/marcus/up", "../../top");
    store_link(&store, "/agents/marcus/abs", "/agents/julia/b");
    let vfs = vfs_with([Workspace::new(path("/w"), ReadWrite, Mount::at(store, &path("/agents/marcus")))]);
    assert_eq!(text(&vfs, "/w/a"), "mine");
    assert_eq!(names(&vfs, "/w"), "a abs up");
    for path in ["/w/up", "/w/abs", "/w/../agents/julia/b"] {
        assert_eq!(kind(vfs.read(path)), ErrorKind::Denied, "{path}");
    }
}

#[test]
fn a_mount_whose_path_is_a_symlink_is_denied() {
    let store = store_with(&[("/real/a", "x")]);
    store_link(&store, "/way", "real");
    let vfs = vfs_with([Workspace::new(path("/w"), ReadWrite, Mount::at(store, &path("/way")))]);
    assert_eq!(kind(vfs.read("/w/a")), ErrorKind::Denied);
    assert_eq!(kind(vfs.write("/w/b", "x")), ErrorKind::Denied);
}

#[test]
fn an_empty_mount_lists_as_an_empty_directory() {
    let vfs =
        vfs_with([Workspace::new(path("/w"), ReadWrite, Mount::at(store_with(&[]), &path("/not/yet")))]);
    assert_eq!(names(&vfs, "/w"), "");
    assert_eq!(vfs.stat("/w").unwrap().kind, NodeKind::Directory);
    vfs.write("/w/a", "x").unwrap();
    assert_eq!(names(&vfs, "/w"), "a");
}

#[test]
fn recursive_operations_respect_nested_workspaces() {
    let (home, nested, hidden) = (
        store_with(&[("/d/a", "hit"), ("/d/n/shadow", "hit")]),
        store_with(&[("/b", "hit")]),
        store_with(&[("/c", "hit")]),
    );
    let vfs = vfs_with([
        workspace("/home", ReadWrite, &home),
        workspace("/home/d/n", ReadOnly, &nested),
        workspace("/home/d/w", WriteOnly, &hidden),
    ]);
    let paths: Vec<_> = vfs
        .walk("/home", &WalkQuery::default())
        .unwrap()
        .entries
        .into_iter()
        .map(|entry| entry.path)
        .collect();
    assert_eq!(paths, ["/home/d", "/home/d/a", "/home/d/n", "/home/d/n/b"]);
    let glob = |pattern: &str| {
        let entries = vfs.glob(&GlobQuery::new(pattern), "/home").unwrap().entries;
        entries.into_iter().map(|entry| entry.path).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(glob("**/b"), "/home/d/n/b");
    assert_eq!(glob("d/*"), "/home/d/a /home/d/n");
    assert_eq!(glob("/home/d/n/*"), "/home/d/n/b");
    for pattern in ["../x/*", "/../*", "d/../../*"] {
        assert_eq!(glob(pattern), "", "{pattern}");
    }
    let files = |path: &str| {
        let matches = vfs.grep(&GrepQuery::new("hit"), path).unwrap().files;
        matches.into_iter().map(|file| file.path).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(files("/"), "/home/d/a /home/d/n/b");
    assert_eq!(files("/home/d/n"), "/home/d/n/b");
    assert_eq!(files("/home/d/a"), "/home/d/a");
    assert_eq!(kind(vfs.grep(&GrepQuery::new("hit"), "/home/d/w")), ErrorKind::Denied);

    let recursive = RemoveOptions { recursive: true, ..RemoveOptions::default() };
    let error = vfs.remove_directory("/home/d", recursive).unwrap_err();
    assert!(
        matches!(&error, Error::ContainsWorkspace { nested, .. } if *nested == path("/home/d/n")),
        "{error}"
    );
    assert!(matches!(
        vfs.rename("/home/d", "/home/e", Overwrite::Refuse),
        Err(Error::ContainsWorkspace { .. })
    ));
    assert!(matches!(vfs.remove_directory("/home/d/n", recursive), Err(Error::ScopeDenied { .. })));
    assert!(matches!(vfs.remove_directory("/home", recursive), Err(Error::IsWorkspace { .. })));
    assert_eq!(text(&vfs, "/home/d/a"), "hit");
}

#[test]
fn walks_are_limited_by_depth_extension_and_number() {
    let store = store_with(&[("/a/b/c.rs", ""), ("/a/d.md", ""), ("/e.rs", ""), ("/.rs", "")]);
    let vfs = vfs_with([workspace("/", ReadOnly, &store)]);
    let walk = |query: WalkQuery| {
        let entries = vfs.walk("/", &query).unwrap().entries;
        entries.into_iter().map(|entry| entry.path).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(walk(WalkQuery { depth: 1, ..Default::default() }), "/.rs /a /e.rs");
    assert_eq!(walk(WalkQuery { extensions: vec!["rs".into()], ..Default::default() }), "/a/b/c.rs /e.rs");
    assert_eq!(walk(WalkQuery { limit: 2, ..Default::default() }), "/.rs /a");
    assert_eq!(walk(WalkQuery { limit: 0, ..Default::default() }), "");
}

#[test]
fn an_unreadable_nested_workspace_is_reported_and_does_not_hide_others() {
    let (outer, inner) = (store_with(&[("/a.md", "fox")]), store_with(&[("/b.md", "fox")]));
    let vfs_with_fault = |fault: Fault| {
        let mount = Mount::new(Arc::new(FaultyStore::new(inner.clone(), fault)));
        vfs_with([workspace("/", ReadOnly, &outer), Workspace::new(path("/in"), ReadOnly, mount)])
    };
    let walk = |vfs: &Vfs| {
        let result = vfs.walk("/", &WalkQuery::default()).unwrap();
        let names = |paths: Vec<String>| paths.join(" ");
        let unreadable = result.unreadable.into_iter().map(|unreadable| unreadable.path).collect();
        (names(result.entries.into_iter().map(|entry| entry.path).collect()), names(unreadable))
    };
    assert_eq!(walk(&vfs_with_fault(Fault::Never)), ("/a.md /in /in/b.md".into(), "".into()));
    let vfs = vfs_with_fault(Fault::From(1));
    assert_eq!(walk(&vfs), ("/a.md /in".into(), "/in".into()));
    let result = vfs.grep(&GrepQuery::new("fox"), "/").unwrap();
    assert_eq!((result.files.len(), result.unreadable.len()), (1, 1));
    assert_eq!(vfs.glob(&GlobQuery::new("**"), "/").unwrap().unreadable.len(), 1);
    assert_eq!(kind(vfs.walk("/in", &WalkQuery::default())), ErrorKind::Unavailable);
}

#[test]
fn a_refusal_is_short_however_many_workspaces_there_are() {
    let store = store_with(&[]);
    let many = (0..1000).map(|number| workspace(&format!("/w{number:03}"), ReadWrite, &store));
    let vfs = vfs_with(many.chain([workspace("/x/ro", ReadOnly, &store)]));
    let outside = vfs.read("/y").unwrap_err().to_string();
    assert_eq!(
        outside,
        "`/y` is in none of your Workspaces: you have `/w000`, `/w001`, `/w002`, `/w003`, `/w004`, `/w005`, `/w006`, \
         `/w007` and 993 more"
    );
    let refused = vfs.write("/x/ro/a", "x").unwrap_err();
    assert!(refused.to_string().ends_with("you may write in `/w000`, `/w001`, `/w002`, `/w003`, `/w004`, `/w005`, `/w006`, `/w007` and 992 more"), "{refused}");
    assert!(format!("{refused:?}").len() < 500, "{refused:?}");
}
