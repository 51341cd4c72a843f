//! What the door promises, shown over the model Store: no disk, no database.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use super::*;
use crate::edit::Occurrences;
use crate::error::{Error, ErrorKind};
use crate::path::VfsPath;
use crate::scope::AccessScope::{self, ReadOnly, ReadWrite, WriteOnly};
use crate::search::{GrepQuery, Output};
use crate::store::{Kind, Parents, Store};
use crate::testkit::{Fault, Faulty, Meddling, ModelStore, Untouchable};
use crate::workspace::Mount;

fn path(text: &str) -> VfsPath {
    VfsPath::parse(text).unwrap()
}

fn workspace(prefix: &str, scope: AccessScope, store: &Arc<ModelStore>) -> Workspace {
    Workspace::new(path(prefix), scope, Mount::new(store.clone()))
}

fn door(workspaces: impl IntoIterator<Item = Workspace>) -> Vfs {
    let builder = Vfs::builder(Identity::agent("tester"));
    workspaces.into_iter().fold(builder, VfsBuilder::workspace).build().unwrap()
}

/// A READ_WRITE door on a fresh Store at `/`.
fn open_door() -> (Vfs, Arc<ModelStore>) {
    let store = Arc::new(ModelStore::new());
    (door([workspace("/", ReadWrite, &store)]), store)
}

/// A Store with files in it.
fn store_with(files: &[(&str, &str)]) -> Arc<ModelStore> {
    let (vfs, store) = open_door();
    for (path, content) in files {
        vfs.write(*path, *content).unwrap();
    }
    store
}

fn kind<T: std::fmt::Debug>(result: Result<T, Error>) -> ErrorKind {
    result.unwrap_err().kind()
}

fn text(vfs: &Vfs, path: &str) -> String {
    String::from_utf8(vfs.read(path).unwrap().bytes).unwrap()
}

fn names(vfs: &Vfs, path: &str) -> String {
    let directory = vfs.list(path, &ListPage::all()).unwrap();
    assert_eq!(directory.total, directory.entries.len() as u64);
    directory.entries.iter().map(|entry| entry.name.to_string()).collect::<Vec<_>>().join(" ")
}

mod scopes {
    use super::*;

    type Call = (&'static str, fn(&Vfs, &str) -> Result<(), Error>);

    /// Every operation that acts on one path, and what it needs.
    fn reads() -> Vec<Call> {
        vec![
            ("read", |vfs, at| vfs.read(at).map(drop)),
            ("read_range", |vfs, at| vfs.read_range(at, Range { offset: 0, length: 1 }).map(drop)),
            ("read_lines", |vfs, at| vfs.read_lines(at, LineRange::default()).map(drop)),
            ("read_many", |vfs, at| vfs.read_many([at]).pop().unwrap().map(drop)),
            ("reader", |vfs, at| vfs.reader(at).map(drop)),
            ("open to read", |vfs, at| vfs.open(at, OpenOptions::read()).map(drop)),
            ("read_link", |vfs, at| vfs.read_link(at).map(drop)),
            ("stat", |vfs, at| vfs.stat(at).map(drop)),
            ("stat_link", |vfs, at| vfs.stat_link(at).map(drop)),
            ("exists", |vfs, at| vfs.exists(at).map(drop)),
            ("is_file", |vfs, at| vfs.is_file(at).map(drop)),
            ("is_directory", |vfs, at| vfs.is_directory(at).map(drop)),
            ("list", |vfs, at| vfs.list(at, &ListPage::default()).map(drop)),
            ("walk", |vfs, at| vfs.walk(at, &WalkQuery::default()).map(drop)),
            ("glob", |vfs, at| vfs.glob("**", at, 10).map(drop)),
            ("grep", |vfs, at| vfs.grep(&GrepQuery::new("x"), at).map(drop)),
            ("copy out", |vfs, at| vfs.copy(at, "/free/copy", Overwrite::Refuse).map(drop)),
        ]
    }

    fn writes() -> Vec<Call> {
        vec![
            ("write", |vfs, at| vfs.write(at, "x").map(drop)),
            ("write large", |vfs, at| vfs.write(at, vec![0; 1 << 20]).map(drop)),
            ("write_from", |vfs, at| vfs.write_from(at, &mut &b"x"[..], &WriteOptions::new()).map(drop)),
            ("append", |vfs, at| vfs.append(at, "x").map(drop)),
            ("edit", |vfs, at| vfs.edit(at, "a", "b", Occurrences::One).map(drop)),
            ("mkdir", |vfs, at| vfs.mkdir(at, Parents::Create).map(drop)),
            ("symlink", |vfs, at| vfs.symlink(at, "x").map(drop)),
            ("set_attributes", |vfs, at| vfs.set_attributes(at, Some(0o600), None).map(drop)),
            ("remove_file", |vfs, at| vfs.remove_file(at, RemoveOptions::default()).map(drop)),
            ("remove_directory", |vfs, at| vfs.remove_directory(at, RemoveOptions::default()).map(drop)),
            ("open to write", |vfs, at| vfs.open(at, OpenOptions::write().create()).map(drop)),
            ("copy into", |vfs, at| vfs.copy("/free/a", at, Overwrite::Replace).map(drop)),
            ("move into", |vfs, at| vfs.rename("/free/a", at, Overwrite::Replace).map(drop)),
            ("move within", |vfs, at| vfs.rename(at, format!("{at}2"), Overwrite::Replace).map(drop)),
            ("batch write", |vfs, at| vfs.batch().write(at, "x", &WriteOptions::new())),
            ("batch mkdir", |vfs, at| vfs.batch().mkdir(at, None)),
            ("batch symlink", |vfs, at| vfs.batch().symlink(at, b"x")),
            ("batch remove", |vfs, at| vfs.batch().remove_file(at)),
        ]
    }

    /// A door whose one interesting Workspace stands on a Store that panics when touched.
    fn guarded(scope: AccessScope) -> Vfs {
        let free = store_with(&[("/a", "a")]);
        let untouchable = Workspace::new(path("/guarded"), scope, Mount::new(Arc::new(Untouchable)));
        door([untouchable, workspace("/free", ReadWrite, &free)])
    }

    /// Whether the call got as far as the Store.
    fn touches(vfs: &Vfs, call: Call) -> bool {
        let called = std::panic::catch_unwind(AssertUnwindSafe(|| call.1(vfs, "/guarded/a")));
        match called {
            Err(_) => true,
            Ok(refused) => {
                assert_eq!(kind(refused), ErrorKind::Denied, "{}", call.0);
                false
            }
        }
    }

    #[test]
    fn a_refusal_happens_before_the_store_is_called() {
        std::panic::set_hook(Box::new(|_| ()));
        for (scope, may_read, may_write) in
            [(ReadOnly, true, false), (ReadWrite, true, true), (WriteOnly, false, true)]
        {
            let vfs = guarded(scope);
            for call in reads() {
                assert_eq!(touches(&vfs, call), may_read, "{} in {scope}", call.0);
            }
            for call in writes() {
                // What is only added to a batch has been judged, and reaches no Store before it is applied, except to
                // look for symlinks on the way.
                assert_eq!(touches(&vfs, call), may_write, "{} in {scope}", call.0);
            }
            let move_out: Call =
                ("move out", |vfs, at| vfs.rename(at, "/free/b", Overwrite::Refuse).map(drop));
            assert_eq!(touches(&vfs, move_out), may_read && may_write, "move out of {scope}");
        }
        let _ = std::panic::take_hook();
    }

    #[test]
    fn a_refused_end_keeps_the_other_end_untouched() {
        let untouchable =
            |prefix, scope| Workspace::new(path(prefix), scope, Mount::new(Arc::new(Untouchable)));
        let vfs = door([
            untouchable("/ro", ReadOnly),
            untouchable("/rw", ReadWrite),
            untouchable("/wo", WriteOnly),
        ]);
        for (from, to) in [("/rw/a", "/ro/a"), ("/wo/a", "/rw/a"), ("/rw/a", "/none/a"), ("/none/a", "/rw/a")]
        {
            assert_eq!(kind(vfs.copy(from, to, Overwrite::Refuse)), ErrorKind::Denied, "copy {from} {to}");
            assert_eq!(kind(vfs.rename(from, to, Overwrite::Refuse)), ErrorKind::Denied, "move {from} {to}");
        }
        assert_eq!(kind(vfs.rename("/ro/a", "/rw/a", Overwrite::Refuse)), ErrorKind::Denied);
    }

    #[test]
    fn a_refusal_names_path_workspace_scope_and_where_else() {
        let store = store_with(&[]);
        let vfs =
            door([workspace("/docs", ReadOnly, &store), workspace("/notes", ReadWrite, &store_with(&[]))]);
        let message = vfs.write("/docs/a.md", "x").unwrap_err().to_string();
        for part in ["/docs/a.md", "`/docs`", "READ_ONLY", "you may write in `/notes`"] {
            assert!(message.contains(part), "{message}");
        }
    }

    #[test]
    fn outside_is_denied_alike_whether_or_not_something_is_there() {
        let store = store_with(&[("/secret", "x")]);
        let mount = Mount::at(store, &path("/sub"));
        let vfs = door([Workspace::new(path("/a"), ReadWrite, mount)]);
        let message = |at: &str| vfs.read(at).unwrap_err().to_string().replace(at, "");
        assert_eq!(message("/secret"), message("/nowhere"));
        assert_eq!(kind(vfs.read("/secret")), ErrorKind::Denied);
        let none = door([]);
        for at in ["/", "/a", "/a/b"] {
            assert_eq!(kind(none.read(at)), ErrorKind::Denied);
            assert_eq!(kind(none.stat(at)), ErrorKind::Denied);
            assert_eq!(kind(none.list(at, &ListPage::default())), ErrorKind::Denied);
            assert_eq!(kind(none.write(at, "")), ErrorKind::Denied);
        }
    }

    #[test]
    fn write_only_reveals_nothing() {
        let store = store_with(&[("/log", "secret secret\n")]);
        let vfs = door([workspace("/in", WriteOnly, &store)]);
        let say = |result: Result<Edited, Error>| result.unwrap_err().to_string();
        let ambiguous = say(vfs.edit("/in/log", "secret", "x", Occurrences::One));
        assert!(ambiguous.contains("more than once") && !ambiguous.contains('2'), "{ambiguous}");
        assert!(say(vfs.edit("/in/log", "none", "x", Occurrences::One)).contains("does not hold the text"));
        assert_eq!(vfs.edit("/in/log", "secret", "x", Occurrences::All).unwrap().replaced, 2);
        assert_eq!(kind(vfs.stat("/in/log")), ErrorKind::Denied);
        assert_eq!(kind(vfs.exists("/in/log")), ErrorKind::Denied);
        vfs.append("/in/log", "more").unwrap();
        store_link(&store, "/l", "hidden/name");
        assert_eq!(vfs.write("/in/l", "x").unwrap().path, path("/in/l"));
        assert_eq!(vfs.append("/in/l", "x").unwrap().path, path("/in/l"));
    }
}

mod routing {
    use super::*;

    #[test]
    fn an_override_opens_part_of_a_read_only_workspace() {
        let (home, src) = (store_with(&[("/b", "b")]), store_with(&[]));
        let vfs = door([workspace("/home", ReadOnly, &home), workspace("/home/src", ReadWrite, &src)]);
        vfs.write("/home/src/a", "a").unwrap();
        assert_eq!(kind(vfs.write("/home/b", "x")), ErrorKind::Denied);
        assert_eq!(text(&vfs, "/home/src/a"), "a");
        assert_eq!(text(&vfs, "/home/b"), "b");
    }

    #[test]
    fn listing_shows_nested_workspaces_and_hides_what_they_shadow() {
        let parent = store_with(&[("/src/shadowed", "x"), ("/a", ""), ("/z", ""), ("/way/own", "")]);
        let (nested, deep) = (store_with(&[("/mine", "")]), store_with(&[("/deep", "")]));
        let vfs = door([
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
        assert_eq!(vfs.stat("/home/way/to").unwrap().kind, Kind::Directory);
        let entry = vfs.list("/home", &ListPage::all()).unwrap().entries.remove(2);
        assert_eq!((entry.name.to_string().as_str(), entry.workspace), ("src", Some(ReadWrite)));
    }

    #[test]
    fn a_listing_with_nested_workspaces_is_paged_without_loss() {
        let files: Vec<_> = (0..20).map(|n| format!("/f{n:02}")).collect();
        let files: Vec<_> = files.iter().map(|name| (name.as_str(), "")).collect();
        let other = store_with(&[]);
        let nested = ["/a", "/f05", "/f07x", "/zz"].map(|prefix| workspace(prefix, ReadWrite, &other));
        let vfs = door(nested.into_iter().chain([workspace("/", ReadOnly, &store_with(&files))]));
        let whole = names(&vfs, "/");
        assert_eq!(whole.split(' ').count(), 23);
        for limit in 1..25 {
            let mut page = ListPage { cursor: None, limit };
            let mut seen = Vec::new();
            loop {
                let directory = vfs.list("/", &page).unwrap();
                assert!(directory.entries.len() <= limit);
                assert_eq!(directory.total, 23);
                seen.extend(directory.entries.iter().map(|entry| entry.name.to_string()));
                match directory.cursor {
                    Some(cursor) => page.cursor = Some(cursor),
                    None => break,
                }
            }
            assert_eq!(seen.join(" "), whole, "pages of {limit}");
        }
        assert_eq!(
            kind(vfs.list("/", &ListPage { cursor: Some("zz".into()), limit: 1 })),
            ErrorKind::Invalid
        );
    }

    #[test]
    fn synthetic_levels_show_only_prefixes_and_take_no_changes() {
        let vfs = door([workspace("/home/src", ReadWrite, &store_with(&[]))]);
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
        let vfs = door([Workspace::new(path("/w"), ReadWrite, Mount::at(store, &path("/agents/marcus")))]);
        assert_eq!(text(&vfs, "/w/a"), "mine");
        assert_eq!(names(&vfs, "/w"), "a abs up");
        for at in ["/w/up", "/w/abs", "/w/../agents/julia/b"] {
            assert_eq!(kind(vfs.read(at)), ErrorKind::Denied, "{at}");
        }
    }

    #[test]
    fn a_mount_whose_path_is_a_symlink_leads_nowhere() {
        let store = store_with(&[("/real/a", "x")]);
        store_link(&store, "/way", "real");
        let vfs = door([Workspace::new(path("/w"), ReadWrite, Mount::at(store, &path("/way")))]);
        assert_eq!(kind(vfs.read("/w/a")), ErrorKind::Denied);
        assert_eq!(kind(vfs.write("/w/b", "x")), ErrorKind::Denied);
    }

    #[test]
    fn an_empty_mount_lists_as_an_empty_directory() {
        let vfs =
            door([Workspace::new(path("/w"), ReadWrite, Mount::at(store_with(&[]), &path("/not/yet")))]);
        assert_eq!(names(&vfs, "/w"), "");
        assert_eq!(vfs.stat("/w").unwrap().kind, Kind::Directory);
        vfs.write("/w/a", "x").unwrap();
        assert_eq!(names(&vfs, "/w"), "a");
    }

    #[test]
    fn recursive_operations_meet_nested_workspaces() {
        let (home, nested, hidden) = (
            store_with(&[("/d/a", "hit"), ("/d/n/shadow", "hit")]),
            store_with(&[("/b", "hit")]),
            store_with(&[("/c", "hit")]),
        );
        let vfs = door([
            workspace("/home", ReadWrite, &home),
            workspace("/home/d/n", ReadOnly, &nested),
            workspace("/home/d/w", WriteOnly, &hidden),
        ]);
        let walked: Vec<_> =
            vfs.walk("/home", &WalkQuery::default()).unwrap().into_iter().map(|found| found.path).collect();
        assert_eq!(walked, ["/home/d", "/home/d/a", "/home/d/n", "/home/d/n/b"]);
        let glob = |pattern: &str| {
            let found = vfs.glob(pattern, "/home", 99).unwrap().found;
            found.into_iter().map(|found| found.path).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(glob("**/b"), "/home/d/n/b");
        assert_eq!(glob("d/*"), "/home/d/a /home/d/n");
        assert_eq!(glob("/home/d/n/*"), "/home/d/n/b");
        for climbing in ["../x/*", "/../*", "d/../../*"] {
            assert_eq!(glob(climbing), "", "{climbing}");
        }
        let files = |at: &str| {
            let found = vfs.grep(&GrepQuery::new("hit"), at).unwrap().files;
            found.into_iter().map(|file| file.path).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(files("/"), "/home/d/a /home/d/n/b");
        assert_eq!(files("/home/d/n"), "/home/d/n/b");
        assert_eq!(files("/home/d/a"), "/home/d/a");
        assert_eq!(kind(vfs.grep(&GrepQuery::new("hit"), "/home/d/w")), ErrorKind::Denied);

        let recursive = RemoveOptions { recursive: true, ..RemoveOptions::default() };
        let refused = vfs.remove_directory("/home/d", recursive).unwrap_err();
        assert!(
            matches!(&refused, Error::HoldsWorkspace { nested, .. } if *nested == path("/home/d/n")),
            "{refused}"
        );
        assert!(matches!(
            vfs.rename("/home/d", "/home/e", Overwrite::Refuse),
            Err(Error::HoldsWorkspace { .. })
        ));
        assert!(matches!(vfs.remove_directory("/home/d/n", recursive), Err(Error::Scope { .. })));
        assert!(matches!(vfs.remove_directory("/home", recursive), Err(Error::IsWorkspace { .. })));
        assert_eq!(text(&vfs, "/home/d/a"), "hit");
    }

    #[test]
    fn walks_are_limited_by_depth_extension_and_number() {
        let store = store_with(&[("/a/b/c.rs", ""), ("/a/d.md", ""), ("/e.rs", ""), ("/.rs", "")]);
        let vfs = door([workspace("/", ReadOnly, &store)]);
        let walk = |query: WalkQuery| {
            let found = vfs.walk("/", &query).unwrap();
            found.into_iter().map(|found| found.path).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(walk(WalkQuery { depth: 1, ..Default::default() }), "/.rs /a /e.rs");
        assert_eq!(
            walk(WalkQuery { extensions: vec!["rs".into()], ..Default::default() }),
            "/a/b/c.rs /e.rs"
        );
        assert_eq!(walk(WalkQuery { limit: 2, ..Default::default() }), "/.rs /a");
    }
}

/// Plants a symlink directly in a Store.
fn store_link(store: &Arc<ModelStore>, at: &str, target: &str) {
    door([workspace("/", ReadWrite, store)]).symlink(at, target).unwrap();
}

mod symlinks {
    use super::*;

    #[test]
    fn links_are_followed_within_and_across_workspaces_and_judged_where_they_lead() {
        let (ro, rw) = (store_with(&[("/a", "ro a"), ("/d/x", "ro x")]), store_with(&[("/b", "rw b")]));
        store_link(&rw, "/near", "b");
        store_link(&rw, "/far", "../ro/a");
        store_link(&rw, "/abs", "/ro/d");
        store_link(&ro, "/out", "/rw/b");
        store_link(&rw, "/chain", "near");
        let vfs = door([workspace("/ro", ReadOnly, &ro), workspace("/rw", ReadWrite, &rw)]);
        assert_eq!(text(&vfs, "/rw/near"), "rw b");
        assert_eq!(text(&vfs, "/rw/chain"), "rw b");
        assert_eq!(text(&vfs, "/rw/far"), "ro a");
        assert_eq!(text(&vfs, "/rw/abs/x"), "ro x");
        assert_eq!(vfs.read("/rw/abs/x").unwrap().path, path("/ro/d/x"));
        // Written in READ_WRITE, but it leads into READ_ONLY.
        assert_eq!(kind(vfs.write("/rw/far", "no")), ErrorKind::Denied);
        assert_eq!(kind(vfs.write("/rw/abs/y", "no")), ErrorKind::Denied);
        assert_eq!(kind(vfs.edit("/rw/abs/x", "ro", "no", Occurrences::One)), ErrorKind::Denied);
        // The other way round a refusal comes first: to find out where a path in READ_ONLY leads, its Store would have
        // to be called for a write.
        assert_eq!(text(&vfs, "/ro/out"), "rw b");
        assert_eq!(kind(vfs.write("/ro/out", "no")), ErrorKind::Denied);
        assert_eq!(text(&vfs, "/rw/b"), "rw b");
        // A removal takes the symlink, not what it leads to.
        vfs.remove_file("/rw/near", RemoveOptions::default()).unwrap();
        assert_eq!(text(&vfs, "/rw/b"), "rw b");
        assert_eq!(kind(vfs.read("/rw/chain")), ErrorKind::NotFound);
    }

    #[test]
    fn a_link_cannot_carry_an_operation_past_a_nested_workspace() {
        let (outer, inner) = (store_with(&[("/n/hidden", "outer")]), store_with(&[("/f", "inner")]));
        store_link(&outer, "/shortcut", "n");
        let vfs = door([workspace("/o", ReadWrite, &outer), workspace("/o/n", ReadOnly, &inner)]);
        assert_eq!(kind(vfs.read("/o/shortcut/hidden")), ErrorKind::NotFound);
        assert_eq!(text(&vfs, "/o/shortcut/f"), "inner");
        assert_eq!(kind(vfs.write("/o/shortcut/f", "x")), ErrorKind::Denied);
        assert_eq!(kind(vfs.rename("/o/shortcut/f", "/o/g", Overwrite::Refuse)), ErrorKind::Denied);
    }

    #[test]
    fn a_link_that_leads_nowhere_the_agent_may_go_says_so() {
        let store = store_with(&[]);
        for (at, target) in
            [("/up", "../../etc"), ("/abs", "/etc/passwd"), ("/none", "../other/x"), ("/ctl", "a\u{7}b")]
        {
            store_link(&store, at, target);
        }
        let vfs = door([workspace("/w", ReadWrite, &store)]);
        for at in ["/w/up", "/w/abs", "/w/none", "/w/ctl", "/w/up/deeper"] {
            let error = vfs.read(at).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Denied, "{at}");
            assert!(error.to_string().contains("leads outside your Workspaces"), "{error}");
            assert!(!error.to_string().contains("etc"), "{error}");
            assert_eq!(kind(vfs.write(at, "x")), ErrorKind::Denied, "{at}");
        }
    }

    #[test]
    fn circles_end() {
        let store = store_with(&[]);
        store_link(&store, "/a", "b");
        store_link(&store, "/b", "a");
        store_link(&store, "/self", "self/x");
        let vfs = door([workspace("/", ReadWrite, &store)]);
        for at in ["/a", "/self", "/a/x/y"] {
            assert!(matches!(vfs.read(at), Err(Error::TooManyLinks { .. })), "{at}");
            assert!(matches!(vfs.write(at, "x"), Err(Error::TooManyLinks { .. })), "{at}");
            assert!(matches!(vfs.grep(&GrepQuery::new("x"), at), Err(Error::TooManyLinks { .. })), "{at}");
        }
    }

    #[test]
    fn a_dangling_link_is_written_through() {
        let (vfs, _) = open_door();
        vfs.symlink("/l", "made/here").unwrap();
        vfs.write("/l", "x").unwrap();
        assert_eq!(text(&vfs, "/made/here"), "x");
        assert_eq!(vfs.read_link("/l").unwrap(), "made/here");
        assert_eq!(vfs.stat_link("/l").unwrap().kind, Kind::Symlink);
        assert_eq!(vfs.stat("/l").unwrap().kind, Kind::File);
    }
}

mod writing {
    use super::*;

    #[test]
    fn preconditions_hold_or_change_nothing() {
        let (vfs, _) = open_door();
        let first = vfs.write("/a", "1").unwrap();
        assert!(first.created);
        assert_eq!(
            kind(vfs.write_with("/a", "2", &WriteOptions::new().create_only())),
            ErrorKind::AlreadyExists
        );
        let second = vfs.write("/a", "2").unwrap();
        let old = WriteOptions::new().if_match(first.tag.unwrap());
        assert_eq!(kind(vfs.write_with("/a", "3", &old)), ErrorKind::Conflict);
        assert_eq!(kind(vfs.append_with("/a", "3", &old)), ErrorKind::Conflict);
        assert_eq!(kind(vfs.edit_with("/a", "2", "3", Occurrences::One, first.tag)), ErrorKind::Conflict);
        let stale = RemoveOptions { if_match: first.tag, ..RemoveOptions::default() };
        assert_eq!(kind(vfs.remove_file("/a", stale)), ErrorKind::Conflict);
        assert_eq!(
            kind(vfs.rename_if("/a", "/b", Overwrite::Refuse, first.tag.unwrap())),
            ErrorKind::Conflict
        );
        assert_eq!(text(&vfs, "/a"), "2");
        vfs.write_with("/a", "3", &WriteOptions::new().if_match(second.tag.unwrap())).unwrap();
        assert_eq!(text(&vfs, "/a"), "3");
    }

    #[test]
    fn a_write_over_a_version_that_was_not_read_is_refused() {
        let store = store_with(&[("/a", "1")]);
        let (one, other) =
            (door([workspace("/", ReadWrite, &store)]), door([workspace("/", ReadWrite, &store)]));
        one.read("/a").unwrap();
        other.write("/a", "2").unwrap();
        let refused = one.write("/a", "3").unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Conflict);
        assert!(refused.to_string().contains("read it again"), "{refused}");
        assert_eq!(text(&other, "/a"), "2");
        one.read("/a").unwrap();
        one.write("/a", "3").unwrap();
        one.write("/a", "4").unwrap();
        // Its own edits don't stand in its way; an edit on top of another's change does not hide that change.
        one.edit("/a", "4", "5", Occurrences::One).unwrap();
        one.append("/a", "!").unwrap();
        one.write("/a", "6").unwrap();
        other.read("/a").unwrap();
        one.write("/a", "67").unwrap();
        other.edit("/a", "7", "8", Occurrences::One).unwrap();
        assert_eq!(kind(other.write("/a", "x")), ErrorKind::Conflict);
        // What it put there by other means is its own, too.
        one.read("/a").unwrap();
        one.write("/b", "moved").unwrap();
        one.rename("/b", "/a", Overwrite::Replace).unwrap();
        one.write("/a", "over it").unwrap();
        let file = one.open("/a", OpenOptions::write()).unwrap();
        file.write_at(0, b"OVER").unwrap();
        file.close().unwrap();
        one.write("/a", "and again").unwrap();
        let mut batch = one.batch();
        batch.write("/a", "batch", &WriteOptions::new()).unwrap();
        batch.apply().unwrap();
        one.write("/a", "last").unwrap();
        one.set_attributes("/a", Some(0o600), None).unwrap();
        one.write("/a", "very last").unwrap();
        // What it never read may be overwritten, and so may what is gone.
        one.remove_file("/a", RemoveOptions::default()).unwrap();
        other.write("/a", "again").unwrap();
        let builder = Vfs::builder(Identity::agent("careless")).lost_updates(LostUpdates::Allow);
        let careless = builder.workspace(workspace("/", ReadWrite, &store)).build().unwrap();
        careless.read("/a").unwrap();
        other.write("/a", "1").unwrap();
        careless.write("/a", "2").unwrap();
    }

    #[test]
    fn edits_say_what_is_wrong() {
        let (vfs, _) = open_door();
        vfs.write("/a", "x y y").unwrap();
        let message = |old, new| vfs.edit("/a", old, new, Occurrences::One).unwrap_err().to_string();
        assert!(message("z", "q").contains("does not hold the text"));
        assert!(message("y", "q").contains("2 times"));
        assert!(message("", "q").contains("empty"));
        assert!(message("x", "x").contains("equal"));
        assert_eq!(vfs.edit("/a", "y", "z", Occurrences::All).unwrap().replaced, 2);
        assert_eq!(text(&vfs, "/a"), "x z z");
        assert_eq!(kind(vfs.edit("/none", "a", "b", Occurrences::One)), ErrorKind::NotFound);
    }

    #[test]
    fn a_size_limit_is_kept_before_memory_is_taken() {
        let store = store_with(&[("/large", "0123456789")]);
        let limits = Limits { whole_read: 9, file_size: 4 };
        let builder = Vfs::builder(Identity::agent("tester")).limits(limits);
        let vfs = builder.workspace(workspace("/", ReadWrite, &store)).build().unwrap();
        assert_eq!(kind(vfs.read("/large")), ErrorKind::TooLarge);
        assert_eq!(vfs.read_range("/large", Range { offset: 8, length: u64::MAX }).unwrap().bytes, b"89");
        assert_eq!(kind(vfs.write("/new", "12345")), ErrorKind::TooLarge);
        assert_eq!(
            kind(vfs.write_from("/new", &mut std::io::repeat(0), &WriteOptions::new())),
            ErrorKind::TooLarge
        );
        assert_eq!(
            kind(vfs.open("/large", OpenOptions::read_write()).unwrap().write_at(3, b"xx")),
            ErrorKind::TooLarge
        );
        assert!(!vfs.exists("/new").unwrap());
    }

    #[test]
    fn removal_says_what_it_needs() {
        let (vfs, _) = open_door();
        vfs.write("/d/a", "x").unwrap();
        let with = |recursive, force| RemoveOptions { recursive, force, if_match: None };
        assert_eq!(kind(vfs.remove_directory("/d", with(false, false))), ErrorKind::AlreadyExists);
        assert_eq!(kind(vfs.remove_file("/d", with(false, false))), ErrorKind::Invalid);
        assert_eq!(kind(vfs.remove_file("/none", with(false, false))), ErrorKind::NotFound);
        vfs.remove_file("/none", with(false, true)).unwrap();
        vfs.remove_directory("/d", with(true, false)).unwrap();
        assert!(!vfs.exists("/d/a").unwrap());
    }

    #[test]
    fn a_batch_happens_whole_or_not_at_all() {
        let (vfs, store) = open_door();
        let mut batch = vfs.batch();
        batch.mkdir("/d", None).unwrap();
        batch.write("/d/a", "1", &WriteOptions::new()).unwrap();
        batch.symlink("/l", b"d/a").unwrap();
        batch.write_from("/d/b", &mut &b"22"[..], &WriteOptions::new()).unwrap();
        assert_eq!(batch.apply().unwrap().len(), 4);
        assert_eq!(text(&vfs, "/l"), "1");
        let mut batch = vfs.batch();
        batch.remove_file("/d/a").unwrap();
        batch.write("/d/b", "", &WriteOptions::new().create_only()).unwrap();
        assert_eq!(kind(batch.apply()), ErrorKind::AlreadyExists);
        assert_eq!(text(&vfs, "/d/a"), "1");
        let two = door([workspace("/x", ReadWrite, &store), workspace("/y", ReadWrite, &store_with(&[]))]);
        let mut batch = two.batch();
        batch.write("/x/a", "", &WriteOptions::new()).unwrap();
        assert_eq!(kind(batch.write("/y/a", "", &WriteOptions::new())), ErrorKind::Invalid);
        assert!(vfs.batch().apply().unwrap().is_empty());
    }

    #[test]
    fn a_batch_resolves_symlinks_on_the_way() {
        let (rw, ro) = (store_with(&[]), store_with(&[]));
        store_link(&rw, "/in", "real");
        store_link(&rw, "/out", "/ro");
        let vfs = door([workspace("/rw", ReadWrite, &rw), workspace("/ro", ReadOnly, &ro)]);
        let mut batch = vfs.batch();
        batch.write("/rw/in/a", "x", &WriteOptions::new()).unwrap();
        assert_eq!(kind(batch.write("/rw/out/a", "x", &WriteOptions::new())), ErrorKind::Denied);
        batch.apply().unwrap();
        assert_eq!(text(&vfs, "/rw/real/a"), "x");
    }
}

mod protection {
    use super::*;

    fn repository() -> (Vfs, Arc<ModelStore>) {
        let store = store_with(&[]);
        let free =
            Workspace::new(path("/"), ReadWrite, Mount::new(store.clone())).with_protect::<&str>([]).unwrap();
        let free = door([free]);
        for file in ["/r/.git/hooks/pre-commit", "/r/.git/config", "/r/.git/HEAD", "/evil/hooks/post-merge"] {
            free.write(file, "x").unwrap();
        }
        (door([workspace("/", ReadWrite, &store)]), store)
    }

    #[test]
    fn hooks_and_config_are_read_only_even_where_the_scope_is_read_write() {
        let (vfs, _) = repository();
        let hook = "/r/.git/hooks/pre-commit";
        assert_eq!(text(&vfs, hook), "x");
        let refused = vfs.write(hook, "evil").unwrap_err();
        assert!(
            matches!(refused, Error::Protected { .. })
                && refused.to_string().contains("read-only for agents")
        );
        assert!(matches!(vfs.write("/r/.git/hooks/new", "evil"), Err(Error::Protected { .. })));
        assert!(matches!(vfs.write("/.git/config", "evil"), Err(Error::Protected { .. })));
        assert!(matches!(vfs.append("/r/.git/config", "evil"), Err(Error::Protected { .. })));
        assert!(matches!(vfs.edit(hook, "x", "y", Occurrences::One), Err(Error::Protected { .. })));
        assert!(matches!(vfs.remove_file(hook, RemoveOptions::default()), Err(Error::Protected { .. })));
        assert!(matches!(vfs.rename("/r/.git/HEAD", hook, Overwrite::Replace), Err(Error::Protected { .. })));
        assert!(matches!(vfs.open(hook, OpenOptions::write()), Err(Error::Protected { .. })));
        vfs.write("/r/.git/HEAD", "y").unwrap();
    }

    #[test]
    fn a_whole_directory_cannot_carry_it_away_or_bring_it_in() {
        let (vfs, _) = repository();
        let recursive = RemoveOptions { recursive: true, ..RemoveOptions::default() };
        for refused in [
            vfs.remove_directory("/r/.git", recursive).map(drop),
            vfs.remove_directory("/r", recursive).map(drop),
            vfs.rename("/r/.git", "/moved", Overwrite::Refuse).map(drop),
            vfs.rename("/evil", "/.git", Overwrite::Refuse).map(drop),
            vfs.copy("/evil", "/new/.git", Overwrite::Refuse).map(drop),
        ] {
            let error = refused.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
            assert!(error.to_string().contains("protected"), "{error}");
        }
        vfs.rename("/evil", "/good", Overwrite::Refuse).unwrap();
    }

    #[test]
    fn nothing_else_can_take_the_place_of_a_directory_that_leads_there() {
        let (vfs, _) = repository();
        vfs.write("/f", "gitdir: /evil").unwrap();
        vfs.symlink("/l", "evil").unwrap();
        assert!(matches!(vfs.symlink("/.git", "evil"), Err(Error::Protected { .. })));
        assert!(matches!(vfs.symlink("/sub/.git/hooks", "/evil/hooks"), Err(Error::Protected { .. })));
        assert!(matches!(vfs.write("/.git", "gitdir: /evil"), Err(Error::Protected { .. })));
        assert!(matches!(vfs.rename("/l", "/.git", Overwrite::Refuse), Err(Error::Protected { .. })));
        assert!(matches!(vfs.copy("/f", "/.git", Overwrite::Refuse), Err(Error::Protected { .. })));
        vfs.mkdir("/sub/.git/hooks", Parents::Create).unwrap();
    }

    #[test]
    fn a_tree_cannot_bring_a_stand_in_along() {
        let (vfs, store) = repository();
        let free =
            Workspace::new(path("/"), ReadWrite, Mount::new(store.clone())).with_protect::<&str>([]).unwrap();
        let free = door([free]);
        free.symlink("/tree/x/hooks", "/evil/hooks").unwrap();
        free.write("/file/.git", "gitdir: /evil").unwrap();
        let other = store_with(&[]);
        let both = door(vfs.workspaces().cloned().chain([workspace("/other", ReadWrite, &other)]));
        for (from, to) in
            [("/tree/x", "/tree/.git"), ("/tree/x", "/other/.git"), ("/file", "/copy"), ("/file", "/other/f")]
        {
            assert_eq!(kind(both.copy(from, to, Overwrite::Refuse)), ErrorKind::Denied, "copy {from} {to}");
            assert_eq!(kind(both.rename(from, to, Overwrite::Refuse)), ErrorKind::Denied, "move {from} {to}");
        }
        // What is there may go.
        let recursive = RemoveOptions { recursive: true, ..RemoveOptions::default() };
        both.remove_directory("/file", recursive).unwrap();
    }

    #[test]
    fn what_makes_git_look_elsewhere_is_protected_too() {
        let (vfs, _) = repository();
        for at in [
            "commondir",
            "config.worktree",
            "modules/sub/hooks/post-checkout",
            "modules/a/b/config",
            "worktrees/w/commondir",
        ] {
            assert!(matches!(vfs.write(format!("/r/.git/{at}"), ""), Err(Error::Protected { .. })), "{at}");
        }
    }

    #[test]
    fn a_mount_inside_a_repository_is_protected_as_well() {
        let (_, store) = repository();
        let inside = Workspace::new(path("/n"), ReadWrite, Mount::at(store, &path("/r/.git")));
        let vfs = door([inside]);
        assert!(matches!(vfs.write("/n/hooks/pre-commit", ""), Err(Error::Protected { .. })));
        assert!(matches!(vfs.write("/n/config", ""), Err(Error::Protected { .. })));
        assert!(matches!(vfs.symlink("/n/hooks", "x"), Err(Error::Protected { .. })));
        vfs.write("/n/HEAD", "").unwrap();
    }

    #[test]
    fn it_holds_for_copies_from_another_store() {
        let (vfs, _) = repository();
        let target = store_with(&[]);
        let both = door(vfs.workspaces().cloned().chain([workspace("/other", ReadWrite, &target)]));
        assert_eq!(kind(both.copy("/evil", "/other/.git", Overwrite::Refuse)), ErrorKind::Denied);
        assert_eq!(kind(both.rename("/r", "/other/r", Overwrite::Refuse)), ErrorKind::Denied);
        assert!(!both.exists("/other/r").unwrap() && both.exists("/r/.git/HEAD").unwrap());
    }
}

mod copying {
    use super::*;

    fn two() -> (Vfs, Arc<ModelStore>, Arc<ModelStore>) {
        let (a, b) = (store_with(&[("/f", "file"), ("/d/x", "in x"), ("/d/e/y", "in y")]), store_with(&[]));
        store_link(&a, "/d/l", "x");
        (door([workspace("/a", ReadWrite, &a), workspace("/b", ReadWrite, &b)]), a, b)
    }

    #[test]
    fn files_and_directories_are_copied_within_and_across_stores() {
        for target in ["/a", "/b"] {
            let (vfs, ..) = two();
            vfs.set_attributes("/a/d/x", Some(0o755), None).unwrap();
            vfs.copy("/a/f", format!("{target}/deep/er/f"), Overwrite::Refuse).unwrap();
            assert_eq!(text(&vfs, &format!("{target}/deep/er/f")), "file");
            vfs.copy("/a/d", format!("{target}/copy"), Overwrite::Refuse).unwrap();
            assert_eq!(text(&vfs, &format!("{target}/copy/e/y")), "in y");
            assert_eq!(vfs.read_link(format!("{target}/copy/l")).unwrap(), "x");
            assert_eq!(vfs.stat(format!("{target}/copy/x")).unwrap().mode, 0o755);
            assert_eq!(
                kind(vfs.copy("/a/d", format!("{target}/copy"), Overwrite::Replace)),
                ErrorKind::AlreadyExists
            );
            assert_eq!(
                kind(vfs.copy("/a/f", format!("{target}/copy/x"), Overwrite::Refuse)),
                ErrorKind::AlreadyExists
            );
            vfs.copy("/a/f", format!("{target}/copy/x"), Overwrite::Replace).unwrap();
            assert_eq!(text(&vfs, &format!("{target}/copy/x")), "file");
            assert_eq!(vfs.stat(format!("{target}/copy/x")).unwrap().mode, 0o755);
            assert_eq!(text(&vfs, "/a/d/x"), "in x");
        }
    }

    #[test]
    fn files_and_directories_are_moved_within_and_across_stores() {
        for target in ["/a", "/b"] {
            let (vfs, ..) = two();
            vfs.rename("/a/f", format!("{target}/g"), Overwrite::Refuse).unwrap();
            assert!(!vfs.exists("/a/f").unwrap());
            vfs.rename("/a/d", format!("{target}/moved"), Overwrite::Refuse).unwrap();
            assert!(!vfs.exists("/a/d").unwrap());
            assert_eq!(text(&vfs, &format!("{target}/moved/e/y")), "in y");
            assert_eq!(text(&vfs, &format!("{target}/moved/l")), "in x");
        }
    }

    #[test]
    fn a_script_stays_executable_when_something_is_put_over_it() {
        for from in ["/a/f", "/b/f"] {
            let (vfs, ..) = two();
            vfs.copy("/a/f", "/b/f", Overwrite::Refuse).unwrap();
            vfs.set_attributes("/a/d/x", Some(0o755), None).unwrap();
            vfs.copy(from, "/a/d/x", Overwrite::Replace).unwrap();
            assert_eq!(vfs.stat("/a/d/x").unwrap().mode, 0o755);
            let moved = vfs.rename(from, "/a/d/x", Overwrite::Replace).unwrap();
            let stat = vfs.stat("/a/d/x").unwrap();
            assert_eq!((stat.mode, stat.tag), (0o755, moved.tag));
            assert!(!vfs.exists(from).unwrap());
        }
    }

    #[test]
    fn a_move_across_stores_that_fails_anywhere_loses_nothing() {
        type Faulted = fn(u64) -> Fault;
        let faults: [Faulted; 3] = [Fault::Before, Fault::After, Fault::From];
        let files = [("/d/x", "in x"), ("/d/e/y", "in y")];
        for (which, fault) in faults.iter().enumerate() {
            for faulty_end in ["/a", "/b"] {
                for call in 1.. {
                    let (a, b) = (store_with(&files), store_with(&[]));
                    let mount = |prefix: &str, store: &Arc<ModelStore>| {
                        let fault = if prefix == faulty_end { fault(call) } else { Fault::Never };
                        let store = Arc::new(Faulty::new(store.clone(), fault));
                        (Workspace::new(path(prefix), ReadWrite, Mount::new(store.clone())), store)
                    };
                    let ((at_a, line_a), (at_b, line_b)) = (mount("/a", &a), mount("/b", &b));
                    let moved = door([at_a, at_b]).rename("/a/d", "/b/d", Overwrite::Refuse);
                    let (from, to) =
                        (door([workspace("/", ReadOnly, &a)]), door([workspace("/", ReadOnly, &b)]));
                    let whole = |vfs: &Vfs| {
                        files
                            .iter()
                            .all(|(at, is)| vfs.read(*at).is_ok_and(|read| read.bytes == is.as_bytes()))
                    };
                    let case = format!("fault {which} at call {call} of {faulty_end}");
                    match &moved {
                        Ok(_) => assert!(whole(&to) && !from.exists("/d").unwrap(), "{case}"),
                        // Whatever else was left behind: all of it is still there, at one end at least.
                        Err(_) => assert!(whole(&from) || whole(&to), "{case}"),
                    }
                    let calls = if faulty_end == "/a" { line_a.calls() } else { line_b.calls() };
                    if moved.is_ok() && calls < call {
                        break;
                    }
                    assert!(call < 200, "it never succeeds");
                }
            }
        }
    }

    #[test]
    fn a_source_that_changes_while_it_is_moved_is_a_conflict() {
        let (vfs, a, b) = two();
        // The destination's Store changes the source while it takes the copy in.
        let meddler = door([workspace("/", ReadWrite, &a)]);
        let meddling = Arc::new(Meddling {
            store: b.clone(),
            meddle: Box::new(move || drop(meddler.write("/d/new", "x"))),
        });
        let both = door(vfs.workspaces().take(1).cloned().chain([Workspace::new(
            path("/b"),
            ReadWrite,
            Mount::new(meddling),
        )]));
        assert_eq!(kind(both.rename("/a/d", "/b/d", Overwrite::Refuse)), ErrorKind::Conflict);
        assert_eq!(text(&vfs, "/a/d/new"), "x");
        assert_eq!(text(&vfs, "/a/d/e/y"), "in y");
        assert!(!vfs.exists("/b/d").unwrap());
    }

    #[test]
    fn a_directory_goes_into_itself_neither_copied_nor_moved() {
        let (vfs, ..) = two();
        assert_eq!(kind(vfs.rename("/a/d", "/a/d/e/z", Overwrite::Refuse)), ErrorKind::Invalid);
        assert_eq!(kind(vfs.copy("/a/d", "/a/d/z", Overwrite::Refuse)), ErrorKind::Invalid);
        assert_eq!(text(&vfs, "/a/d/e/y"), "in y");
        assert!(!vfs.exists("/a/d/z").unwrap());
    }

    #[test]
    fn a_workspace_stays_where_it_is() {
        let (vfs, ..) = two();
        assert!(matches!(vfs.rename("/a", "/b/a", Overwrite::Refuse), Err(Error::IsWorkspace { .. })));
        assert!(matches!(vfs.copy("/a/f", "/b", Overwrite::Replace), Err(Error::IsWorkspace { .. })));
        vfs.copy("/a", "/b/all", Overwrite::Refuse).unwrap();
        assert_eq!(text(&vfs, "/b/all/d/e/y"), "in y");
    }

    #[test]
    fn links_on_the_way_are_judged_at_both_ends() {
        let (vfs, a, _) = two();
        store_link(&a, "/to-b", "/b");
        store_link(&a, "/outside", "/c");
        vfs.copy("/a/f", "/a/to-b/f", Overwrite::Refuse).unwrap();
        assert_eq!(text(&vfs, "/b/f"), "file");
        vfs.rename("/a/to-b/f", "/a/back", Overwrite::Refuse).unwrap();
        assert_eq!(text(&vfs, "/a/back"), "file");
        assert_eq!(kind(vfs.copy("/a/f", "/a/outside/f", Overwrite::Refuse)), ErrorKind::Denied);
        assert_eq!(kind(vfs.copy("/a/outside/f", "/b/f", Overwrite::Refuse)), ErrorKind::Denied);
    }
}

mod reading {
    use super::*;

    #[test]
    fn lines_say_when_there_is_more_and_how_to_get_it() {
        let (vfs, _) = open_door();
        vfs.write("/a", "1\n2\n3\n").unwrap();
        let read = |offset, limit| vfs.read_lines("/a", LineRange { offset, limit, ..LineRange::default() });
        let first = read(1, 2).unwrap();
        assert_eq!(
            (&*first.text, first.more().as_deref()),
            ("1\n2\n", Some("There is more; read on with offset 3."))
        );
        assert_eq!(read(3, 2).unwrap().more(), None);
        assert_eq!(read(9, 1).unwrap_err().to_string(), "`/a` has 3 lines; line 9 is past its end");
        vfs.write("/b", "\u{0}").unwrap();
        vfs.write("/c", vec![0xff]).unwrap();
        vfs.write("/empty", "").unwrap();
        assert!(matches!(vfs.read_lines("/b", LineRange::default()), Err(Error::Binary { .. })));
        assert!(matches!(vfs.read_lines("/c", LineRange::default()), Err(Error::Binary { .. })));
        assert_eq!(vfs.read_lines("/empty", LineRange::default()).unwrap().text, "");
    }

    #[test]
    fn a_file_tells_its_kind_size_and_media_type() {
        let (vfs, _) = open_door();
        let written = vfs.write("/a.html", "<p>").unwrap();
        let stat = vfs.stat("/a.html").unwrap();
        assert_eq!((stat.kind, stat.size, stat.mime), (Kind::File, 3, Some("text/html")));
        assert_eq!((stat.tag, stat.scope), (written.tag, Some(ReadWrite)));
        assert!(vfs.is_file("/a.html").unwrap() && !vfs.is_directory("/a.html").unwrap());
        assert!(
            vfs.is_directory("/").unwrap()
                && !vfs.exists("/none").unwrap()
                && !vfs.exists("/a.html/x").unwrap()
        );
    }

    #[test]
    fn search_results_come_in_the_same_order_up_to_the_limit() {
        let files: Vec<_> = (0..30).map(|n| (format!("/f{n:02}"), "hit\nmiss\nhit\n")).collect();
        let files: Vec<_> = files.iter().map(|(name, text)| (name.as_str(), *text)).collect();
        let vfs = door([workspace("/", ReadOnly, &store_with(&files))]);
        let grep = |output, max_results| {
            let found = vfs.grep(&GrepQuery { output, max_results, ..GrepQuery::new("hit") }, "/").unwrap();
            let files: Vec<_> =
                found.files.iter().map(|file| format!("{}:{}", file.path, file.count)).collect();
            (files.join(" "), found.truncated)
        };
        assert_eq!(grep(Output::Lines, 5), ("/f00:2 /f01:2 /f02:1".into(), true));
        assert_eq!(grep(Output::Files, 2), ("/f00:1 /f01:1".into(), true));
        assert_eq!(grep(Output::Counts, 1), ("/f00:2".into(), true));
        assert!(!grep(Output::Lines, 60).1);
    }

    #[test]
    fn a_reader_goes_through_a_file_piece_by_piece() {
        use std::io::{Read, Seek, SeekFrom};
        let (vfs, _) = open_door();
        vfs.write("/a", "0123456789").unwrap();
        let mut reader = vfs.reader("/a").unwrap();
        vfs.remove_file("/a", RemoveOptions::default()).unwrap();
        let mut rest = String::new();
        reader.seek(SeekFrom::End(-3)).unwrap();
        reader.read_to_string(&mut rest).unwrap();
        assert_eq!(rest, "789");
        assert!(reader.seek(SeekFrom::Current(-99)).is_err());
    }
}

mod open_files {
    use super::*;

    fn whole(file: &OpenFile) -> String {
        let mut buffer = vec![0; usize::try_from(file.size()).unwrap()];
        assert_eq!(file.read_at(0, &mut buffer).unwrap(), buffer.len());
        String::from_utf8(buffer).unwrap()
    }

    #[test]
    fn what_is_written_becomes_one_change_at_sync_and_close() {
        let (vfs, store) = open_door();
        vfs.write("/a", "0123456789").unwrap();
        let cursor = store.changes_since(None, 0).unwrap().cursor;
        let file = vfs.open("/a", OpenOptions::read_write()).unwrap();
        let other = vfs.open("/a", OpenOptions::read()).unwrap();
        file.write_at(2, b"ab").unwrap();
        file.write_at(4, b"cd").unwrap();
        file.set_size(8).unwrap();
        assert_eq!(whole(&other), "01abcd67");
        assert_eq!(text(&vfs, "/a"), "0123456789");
        assert!(store.changes_since(Some(cursor), 9).unwrap().changes.is_empty());
        file.sync().unwrap();
        assert_eq!(text(&vfs, "/a"), "01abcd67");
        assert_eq!(store.changes_since(Some(cursor), 9).unwrap().changes.len(), 1);
        file.write_at(0, b"X").unwrap();
        drop(file);
        assert_eq!(whole(&other), "X1abcd67");
        drop(other);
        assert_eq!(text(&vfs, "/a"), "X1abcd67");
    }

    #[test]
    fn an_open_file_outlives_its_name() {
        let (vfs, _) = open_door();
        vfs.write("/a", "old").unwrap();
        vfs.write("/b", "other").unwrap();
        let file = vfs.open("/a", OpenOptions::read_write()).unwrap();
        vfs.rename("/b", "/a", Overwrite::Replace).unwrap();
        file.write_at(3, b"er").unwrap();
        file.sync().unwrap();
        assert_eq!(whole(&file), "older");
        assert_eq!(text(&vfs, "/a"), "other");
        file.close().unwrap();
        assert_eq!(text(&vfs, "/a"), "other");
        let file = vfs.open("/a", OpenOptions::read_write()).unwrap();
        vfs.rename("/a", "/c", Overwrite::Refuse).unwrap();
        file.write_at(0, b"OTHER").unwrap();
        file.close().unwrap();
        assert_eq!(text(&vfs, "/c"), "OTHER");
        assert!(!vfs.exists("/a").unwrap());
    }

    #[test]
    fn opening_creates_truncates_and_keeps_to_what_was_asked() {
        let (vfs, _) = open_door();
        assert_eq!(kind(vfs.open("/a", OpenOptions::write())), ErrorKind::NotFound);
        let file = vfs.open("/a", OpenOptions::write().create()).unwrap();
        file.write_at(2, b"x").unwrap();
        assert_eq!(kind(file.read_at(0, &mut [0])), ErrorKind::Invalid);
        file.close().unwrap();
        assert_eq!(vfs.read("/a").unwrap().bytes, b"\0\0x");
        let file = vfs.open("/a", OpenOptions::read_write().truncate()).unwrap();
        assert_eq!(file.size(), 0);
        file.close().unwrap();
        assert_eq!(vfs.read("/a").unwrap().bytes, b"");
        assert_eq!(kind(vfs.open("/a", OpenOptions::read()).unwrap().write_at(0, b"x")), ErrorKind::Invalid);
        assert_eq!(kind(vfs.open("/a", OpenOptions::default())), ErrorKind::Invalid);
        assert_eq!(kind(vfs.open("/", OpenOptions::read())), ErrorKind::Invalid);
    }
}

#[test]
fn one_operation_spans_all_that_is_changed_through_it() {
    let (vfs, _) = open_door();
    let act = vfs.operation("refactor");
    let (one, two) = (act.write("/a", "1").unwrap(), act.write("/b", "2").unwrap());
    assert_eq!(one.operation, two.operation);
    assert_ne!(vfs.write("/c", "3").unwrap().operation, vfs.write("/d", "4").unwrap().operation);
}
