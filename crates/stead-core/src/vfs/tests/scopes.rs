//! Access Scopes are checked before any Store is called.

use super::*;

pub(super) type Call = (&'static str, fn(&Vfs, &str) -> Result<(), Error>);

/// Every call that reads at one path.
pub(super) fn read_calls() -> Vec<Call> {
    vec![
        ("read", |vfs, path| vfs.read(path).map(drop)),
        ("read_range", |vfs, path| vfs.read_range(path, ByteRange { offset: 0, length: 1 }).map(drop)),
        ("read_lines", |vfs, path| vfs.read_lines(path, LineRange::default()).map(drop)),
        ("read_many", |vfs, path| vfs.read_many([path]).pop().unwrap().map(drop)),
        ("reader", |vfs, path| vfs.reader(path).map(drop)),
        ("open to read", |vfs, path| vfs.open(path, OpenOptions::read()).map(drop)),
        ("read_link", |vfs, path| vfs.read_link(path).map(drop)),
        ("stat", |vfs, path| vfs.stat(path).map(drop)),
        ("stat_link", |vfs, path| vfs.stat_link(path).map(drop)),
        ("exists", |vfs, path| vfs.exists(path).map(drop)),
        ("is_file", |vfs, path| vfs.is_file(path).map(drop)),
        ("is_directory", |vfs, path| vfs.is_directory(path).map(drop)),
        ("list", |vfs, path| vfs.list(path, &ListPage::default()).map(drop)),
        ("walk", |vfs, path| vfs.walk(path, &WalkQuery::default()).map(drop)),
        ("glob", |vfs, path| vfs.glob(&GlobQuery::new("**"), path).map(drop)),
        ("grep", |vfs, path| vfs.grep(&GrepQuery::new("x"), path).map(drop)),
        ("copy out", |vfs, path| vfs.copy(path, "/free/copy", Overwrite::Refuse).map(drop)),
    ]
}

pub(super) fn write_calls() -> Vec<Call> {
    vec![
        ("write", |vfs, path| vfs.write(path, "x").map(drop)),
        ("write large", |vfs, path| vfs.write(path, vec![0; 1 << 20]).map(drop)),
        ("write_from", |vfs, path| vfs.write_from(path, &mut &b"x"[..], &WriteOptions::new()).map(drop)),
        ("append", |vfs, path| vfs.append(path, "x").map(drop)),
        ("edit", |vfs, path| vfs.edit(path, "a", "b", Occurrences::One).map(drop)),
        ("mkdir", |vfs, path| vfs.mkdir(path, Parents::Create).map(drop)),
        ("symlink", |vfs, path| vfs.symlink(path, "x").map(drop)),
        ("set_attributes", |vfs, path| vfs.set_attributes(path, Some(0o600), None).map(drop)),
        ("remove_file", |vfs, path| vfs.remove_file(path, RemoveOptions::default()).map(drop)),
        ("remove_directory", |vfs, path| vfs.remove_directory(path, RemoveOptions::default()).map(drop)),
        ("open to write", |vfs, path| vfs.open(path, OpenOptions::write().create()).map(drop)),
        ("copy into", |vfs, path| vfs.copy("/free/a", path, Overwrite::Replace).map(drop)),
        ("move into", |vfs, path| vfs.rename("/free/a", path, Overwrite::Replace).map(drop)),
        ("move within", |vfs, path| vfs.rename(path, format!("{path}2"), Overwrite::Replace).map(drop)),
        ("batch write", |vfs, path| vfs.batch().write(path, "x", &WriteOptions::new())),
        ("batch mkdir", |vfs, path| vfs.batch().mkdir(path, None)),
        ("batch symlink", |vfs, path| vfs.batch().symlink(path, b"x")),
        ("batch remove", |vfs, path| vfs.batch().remove_file(path)),
    ]
}

/// A `Vfs` whose Workspace `/guarded` is on a Store that panics when it is called.
fn guarded_vfs(scope: AccessScope) -> Vfs {
    let other_store = store_with(&[("/a", "a")]);
    let guarded = Workspace::new(path("/guarded"), scope, Mount::new(Arc::new(PanickingStore)));
    vfs_with([guarded, workspace("/free", ReadWrite, &other_store)])
}

/// Whether the call reached the Store.
fn reaches_store(vfs: &Vfs, call: Call) -> bool {
    let outcome = std::panic::catch_unwind(AssertUnwindSafe(|| call.1(vfs, "/guarded/a")));
    match outcome {
        Err(_) => true,
        Ok(result) => {
            assert_eq!(kind(result), ErrorKind::Denied, "{}", call.0);
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
        let vfs = guarded_vfs(scope);
        for call in read_calls() {
            assert_eq!(reaches_store(&vfs, call), may_read, "{} in {scope}", call.0);
        }
        for call in write_calls() {
            // Adding to a batch authorizes the step, and calls the Store only to look for symlinks on the way.
            assert_eq!(reaches_store(&vfs, call), may_write, "{} in {scope}", call.0);
        }
        let move_out: Call =
            ("move out", |vfs, path| vfs.rename(path, "/free/b", Overwrite::Refuse).map(drop));
        assert_eq!(reaches_store(&vfs, move_out), may_read && may_write, "move out of {scope}");
    }
    let _ = std::panic::take_hook();
}

#[test]
fn if_one_end_is_refused_the_other_end_is_untouched() {
    let untouchable =
        |prefix, scope| Workspace::new(path(prefix), scope, Mount::new(Arc::new(PanickingStore)));
    let vfs = vfs_with([
        untouchable("/ro", ReadOnly),
        untouchable("/rw", ReadWrite),
        untouchable("/wo", WriteOnly),
    ]);
    for (from, to) in [("/rw/a", "/ro/a"), ("/wo/a", "/rw/a"), ("/rw/a", "/none/a"), ("/none/a", "/rw/a")] {
        assert_eq!(kind(vfs.copy(from, to, Overwrite::Refuse)), ErrorKind::Denied, "copy {from} {to}");
        assert_eq!(kind(vfs.rename(from, to, Overwrite::Refuse)), ErrorKind::Denied, "move {from} {to}");
    }
    assert_eq!(kind(vfs.rename("/ro/a", "/rw/a", Overwrite::Refuse)), ErrorKind::Denied);
}

#[test]
fn a_refusal_names_path_workspace_scope_and_alternatives() {
    let store = store_with(&[]);
    let vfs =
        vfs_with([workspace("/docs", ReadOnly, &store), workspace("/notes", ReadWrite, &store_with(&[]))]);
    let message = vfs.write("/docs/a.md", "x").unwrap_err().to_string();
    for part in ["/docs/a.md", "`/docs`", "READ_ONLY", "you may write in `/notes`"] {
        assert!(message.contains(part), "{message}");
    }
}

#[test]
fn paths_outside_are_denied_alike_whether_or_not_they_exist() {
    let store = store_with(&[("/secret", "x")]);
    let mount = Mount::at(store, &path("/sub"));
    let vfs = vfs_with([Workspace::new(path("/a"), ReadWrite, mount)]);
    let message = |path: &str| vfs.read(path).unwrap_err().to_string().replace(path, "");
    assert_eq!(message("/secret"), message("/nowhere"));
    assert_eq!(kind(vfs.read("/secret")), ErrorKind::Denied);
    let no_workspaces = vfs_with([]);
    for path in ["/", "/a", "/a/b"] {
        assert_eq!(kind(no_workspaces.read(path)), ErrorKind::Denied);
        assert_eq!(kind(no_workspaces.stat(path)), ErrorKind::Denied);
        assert_eq!(kind(no_workspaces.list(path, &ListPage::default())), ErrorKind::Denied);
        assert_eq!(kind(no_workspaces.write(path, "")), ErrorKind::Denied);
    }
}

#[test]
fn write_only_reveals_nothing() {
    let store = store_with(&[("/log", "secret secret\n")]);
    let vfs = vfs_with([workspace("/in", WriteOnly, &store)]);
    // The model Store doesn't record who wrote what, so the answer is always the same, whatever is there.
    let edit_message = |path: &str, old: &str| {
        let error = vfs.edit(path, old, "x", Occurrences::All).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Denied);
        error.to_string().replace(path, "")
    };
    let denied = edit_message("/in/none", "none");
    for old in ["secret", "none"] {
        assert_eq!(edit_message("/in/log", old), denied);
    }
    let move_message = vfs.rename("/in/log", "/in/log2", Overwrite::Refuse).unwrap_err().to_string();
    assert_eq!(move_message.replace("/in/log", ""), denied);
    assert_eq!(kind(vfs.stat("/in/log")), ErrorKind::Denied);
    assert_eq!(kind(vfs.exists("/in/log")), ErrorKind::Denied);
    vfs.append("/in/log", "more").unwrap();
    store_link(&store, "/l", "hidden/name");
    assert_eq!(vfs.write("/in/l", "x").unwrap().path, path("/in/l"));
    assert_eq!(vfs.append("/in/l", "x").unwrap().path, path("/in/l"));
}

#[test]
fn no_message_advises_to_read_in_a_write_only_workspace() {
    let store = store_with(&[("/log", "a a\n"), ("/d/x", "")]);
    let (vfs, other_vfs) =
        (vfs_with([workspace("/in", WriteOnly, &store)]), vfs_with([workspace("/", ReadWrite, &store)]));
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
        let message = refusal.to_string();
        assert!(!message.contains("read ") && !message.contains("list "), "{message}");
    }
    // A caller that has written before, and may not read, isn't told to read before it writes again.
    vfs.write("/in/log", "mine").unwrap();
    other_vfs.write("/log", "yours").unwrap();
    vfs.write("/in/log", "mine again").unwrap();
}
