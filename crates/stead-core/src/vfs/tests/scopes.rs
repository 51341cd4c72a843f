//! Access Scopes are checked before any Store is called.

use super::*;

pub(super) type Call = (&'static str, fn(&Vfs, &str) -> Result<(), Error>);

/// Every call that reads at one path.
pub(super) fn reads() -> Vec<Call> {
    vec![
        ("read", |vfs, at| vfs.read(at).map(drop)),
        ("read_range", |vfs, at| vfs.read_range(at, ByteRange { offset: 0, length: 1 }).map(drop)),
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

pub(super) fn writes() -> Vec<Call> {
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

/// A `Vfs` whose Workspace `/guarded` is on a Store that panics when it is called.
fn guarded(scope: AccessScope) -> Vfs {
    let free = store_with(&[("/a", "a")]);
    let untouchable = Workspace::new(path("/guarded"), scope, Mount::new(Arc::new(PanickingStore)));
    door([untouchable, workspace("/free", ReadWrite, &free)])
}

/// Whether the call reached the Store.
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
            // Adding to a batch authorizes the step, and calls the Store only to look for symlinks on the way.
            assert_eq!(touches(&vfs, call), may_write, "{} in {scope}", call.0);
        }
        let move_out: Call = ("move out", |vfs, at| vfs.rename(at, "/free/b", Overwrite::Refuse).map(drop));
        assert_eq!(touches(&vfs, move_out), may_read && may_write, "move out of {scope}");
    }
    let _ = std::panic::take_hook();
}

#[test]
fn a_refused_end_keeps_the_other_end_untouched() {
    let untouchable =
        |prefix, scope| Workspace::new(path(prefix), scope, Mount::new(Arc::new(PanickingStore)));
    let vfs =
        door([untouchable("/ro", ReadOnly), untouchable("/rw", ReadWrite), untouchable("/wo", WriteOnly)]);
    for (from, to) in [("/rw/a", "/ro/a"), ("/wo/a", "/rw/a"), ("/rw/a", "/none/a"), ("/none/a", "/rw/a")] {
        assert_eq!(kind(vfs.copy(from, to, Overwrite::Refuse)), ErrorKind::Denied, "copy {from} {to}");
        assert_eq!(kind(vfs.rename(from, to, Overwrite::Refuse)), ErrorKind::Denied, "move {from} {to}");
    }
    assert_eq!(kind(vfs.rename("/ro/a", "/rw/a", Overwrite::Refuse)), ErrorKind::Denied);
}

#[test]
fn a_refusal_names_path_workspace_scope_and_where_else() {
    let store = store_with(&[]);
    let vfs = door([workspace("/docs", ReadOnly, &store), workspace("/notes", ReadWrite, &store_with(&[]))]);
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
    // The model Store doesn't record who wrote what, so the answer is always the same, whatever is there.
    let say = |at: &str, old: &str| {
        let refused = vfs.edit(at, old, "x", Occurrences::All).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Denied);
        refused.to_string().replace(at, "")
    };
    let denied = say("/in/none", "none");
    for old in ["secret", "none"] {
        assert_eq!(say("/in/log", old), denied);
    }
    let moved = vfs.rename("/in/log", "/in/log2", Overwrite::Refuse).unwrap_err().to_string();
    assert_eq!(moved.replace("/in/log", ""), denied);
    assert_eq!(kind(vfs.stat("/in/log")), ErrorKind::Denied);
    assert_eq!(kind(vfs.exists("/in/log")), ErrorKind::Denied);
    vfs.append("/in/log", "more").unwrap();
    store_link(&store, "/l", "hidden/name");
    assert_eq!(vfs.write("/in/l", "x").unwrap().path, path("/in/l"));
    assert_eq!(vfs.append("/in/l", "x").unwrap().path, path("/in/l"));
}

#[test]
fn nobody_is_advised_to_read_what_may_only_be_written() {
    let store = store_with(&[("/log", "a a\n"), ("/d/x", "")]);
    let (vfs, other) =
        (door([workspace("/in", WriteOnly, &store)]), door([workspace("/", ReadWrite, &store)]));
    store_link(&store, "/l", "log");
    let stale = WriteOptions::new().if_match(crate::store::VersionTag(1));
    let refusals = [
        vfs.write("/in/d", "").unwrap_err(),
        vfs.write_with("/in/log", "", &stale).unwrap_err(),
        vfs.write_with("/in/l", "", &stale).unwrap_err(),
        vfs.edit("/in/log", "b", "c", Occurrences::One).unwrap_err(),
        vfs.edit("/in/l", "a", "c", Occurrences::One).unwrap_err(),
        vfs.append_with("/in/log", "", &stale).unwrap_err(),
    ];
    for refusal in refusals {
        let told = refusal.to_string();
        assert!(!told.contains("read ") && !told.contains("list "), "{told}");
    }
    // A caller that has written before, and may not read, isn't told to read before it writes again.
    vfs.write("/in/log", "mine").unwrap();
    other.write("/log", "yours").unwrap();
    vfs.write("/in/log", "mine again").unwrap();
}
