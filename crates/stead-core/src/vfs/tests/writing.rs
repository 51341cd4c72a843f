//! Changing files: preconditions, the lost-update guard, edits, limits, removals and batches.

use super::*;
use crate::store::TagRef;

#[test]
fn preconditions_hold_or_change_nothing() {
    let (vfs, _) = read_write_vfs();
    let first = vfs.write("/a", "1").unwrap();
    assert_eq!(first.created, Some(true));
    assert_eq!(kind(vfs.write_with("/a", "2", &WriteOptions::new().create_only())), ErrorKind::AlreadyExists);
    let second = vfs.write("/a", "2").unwrap();
    let stale_write = WriteOptions::new().if_match(first.tag.unwrap());
    assert_eq!(kind(vfs.write_with("/a", "3", &stale_write)), ErrorKind::Conflict);
    assert_eq!(kind(vfs.append_with("/a", "3", &stale_write)), ErrorKind::Conflict);
    assert_eq!(
        kind(vfs.edit_with("/a", "2", "3", Occurrences::One, first.tag.map(TagRef::from))),
        ErrorKind::Conflict
    );
    let stale_remove = RemoveOptions { if_match: first.tag.map(TagRef::from), ..RemoveOptions::default() };
    assert_eq!(kind(vfs.remove_file("/a", stale_remove)), ErrorKind::Conflict);
    assert_eq!(kind(vfs.rename_if("/a", "/b", Overwrite::Refuse, first.tag.unwrap())), ErrorKind::Conflict);
    assert_eq!(text(&vfs, "/a"), "2");
    vfs.write_with("/a", "3", &WriteOptions::new().if_match(second.tag.unwrap())).unwrap();
    assert_eq!(text(&vfs, "/a"), "3");
}

#[test]
fn a_write_over_a_version_that_was_not_read_is_refused() {
    let store = store_with(&[("/a", "1")]);
    let (agent, other_agent) =
        (vfs_with([workspace("/", ReadWrite, &store)]), vfs_with([workspace("/", ReadWrite, &store)]));
    agent.read("/a").unwrap();
    other_agent.write("/a", "2").unwrap();
    let error = agent.write("/a", "3").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict);
    assert!(error.to_string().contains("read it again"), "{error}");
    assert_eq!(text(&other_agent, "/a"), "2");
    agent.read("/a").unwrap();
    agent.write("/a", "3").unwrap();
    agent.write("/a", "4").unwrap();
    // The caller's own edits don't count as lost updates; an edit on top of another writer's change doesn't hide that
    // change.
    agent.edit("/a", "4", "5", Occurrences::One).unwrap();
    agent.append("/a", "!").unwrap();
    agent.write("/a", "6").unwrap();
    other_agent.read("/a").unwrap();
    agent.write("/a", "67").unwrap();
    other_agent.edit("/a", "7", "8", Occurrences::One).unwrap();
    assert_eq!(kind(other_agent.write("/a", "x")), ErrorKind::Conflict);
    // Content that the caller put there by a move, an open file or a batch is its own, too.
    agent.read("/a").unwrap();
    agent.write("/b", "moved").unwrap();
    agent.rename("/b", "/a", Overwrite::Replace).unwrap();
    agent.write("/a", "over it").unwrap();
    let file = agent.open("/a", OpenOptions::write()).unwrap();
    file.write_at(0, b"OVER").unwrap();
    file.close().unwrap();
    agent.write("/a", "and again").unwrap();
    let mut batch = agent.batch();
    batch.write("/a", "batch", &WriteOptions::new()).unwrap();
    batch.apply().unwrap();
    agent.write("/a", "last").unwrap();
    agent.set_attributes("/a", Some(0o600), None).unwrap();
    agent.write("/a", "very last").unwrap();
    // A file that the caller never read may be overwritten, and so may one that was removed.
    agent.remove_file("/a", RemoveOptions::default()).unwrap();
    other_agent.write("/a", "again").unwrap();
    let builder = Vfs::builder(Identity::agent("careless")).lost_updates(LostUpdates::Allow);
    let careless = builder.workspace(workspace("/", ReadWrite, &store)).build().unwrap();
    careless.read("/a").unwrap();
    other_agent.write("/a", "1").unwrap();
    careless.write("/a", "2").unwrap();
}

#[test]
fn edit_errors_say_what_is_wrong() {
    let (vfs, _) = read_write_vfs();
    vfs.write("/a", "x y y").unwrap();
    let message = |old, new| vfs.edit("/a", old, new, Occurrences::One).unwrap_err().to_string();
    assert!(message("z", "q").contains("doesn't contain the text"));
    assert!(message("y", "q").contains("2 times"));
    assert!(message("", "q").contains("empty"));
    assert!(message("x", "x").contains("equal"));
    assert_eq!(vfs.edit("/a", "y", "z", Occurrences::All).unwrap().replaced, 2);
    assert_eq!(text(&vfs, "/a"), "x z z");
    assert_eq!(kind(vfs.edit("/none", "a", "b", Occurrences::One)), ErrorKind::NotFound);
}

#[test]
fn a_size_limit_is_enforced_before_memory_is_allocated() {
    let store = store_with(&[("/large", "0123456789")]);
    let limits = Limits { max_read_size: 9, max_file_size: 4 };
    let builder = Vfs::builder(Identity::agent("tester")).limits(limits);
    let vfs = builder.workspace(workspace("/", ReadWrite, &store)).build().unwrap();
    assert_eq!(kind(vfs.read("/large")), ErrorKind::TooLarge);
    assert_eq!(vfs.read_range("/large", ByteRange { offset: 8, length: u64::MAX }).unwrap().bytes, b"89");
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
fn an_append_past_the_size_limit_is_refused_and_changes_nothing() {
    let store = store_with(&[("/a", "123"), ("/over", "12345")]);
    let limits = Limits { max_file_size: 4, ..Limits::default() };
    let builder = Vfs::builder(Identity::agent("tester")).limits(limits);
    let vfs = builder.workspace(workspace("/", ReadWrite, &store)).build().unwrap();
    assert_eq!(kind(vfs.append("/a", "45")), ErrorKind::TooLarge);
    assert_eq!(text(&vfs, "/a"), "123");
    vfs.append("/a", "4").unwrap();
    vfs.append("/over", "").unwrap();
    assert_eq!((text(&vfs, "/a"), text(&vfs, "/over")), ("1234".into(), "12345".into()));
}

#[test]
fn removal_errors_say_what_is_needed() {
    let (vfs, _) = read_write_vfs();
    vfs.write("/d/a", "x").unwrap();
    let options = |recursive, force| RemoveOptions { recursive, force, if_match: None };
    assert_eq!(kind(vfs.remove_directory("/d", options(false, false))), ErrorKind::AlreadyExists);
    assert_eq!(kind(vfs.remove_file("/d", options(false, false))), ErrorKind::Invalid);
    assert_eq!(kind(vfs.remove_file("/none", options(false, false))), ErrorKind::NotFound);
    vfs.remove_file("/none", options(false, true)).unwrap();
    vfs.remove_directory("/d", options(true, false)).unwrap();
    assert!(!vfs.exists("/d/a").unwrap());
}

#[test]
fn a_batch_is_applied_completely_or_not_at_all() {
    let (vfs, store) = read_write_vfs();
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
    let two_workspaces =
        vfs_with([workspace("/x", ReadWrite, &store), workspace("/y", ReadWrite, &store_with(&[]))]);
    let mut batch = two_workspaces.batch();
    batch.write("/x/a", "", &WriteOptions::new()).unwrap();
    assert_eq!(kind(batch.write("/y/a", "", &WriteOptions::new())), ErrorKind::Invalid);
    assert!(vfs.batch().apply().unwrap().is_empty());
}

#[test]
fn a_batch_resolves_symlinks_in_its_paths() {
    let (rw, ro) = (store_with(&[]), store_with(&[]));
    store_link(&rw, "/in", "real");
    store_link(&rw, "/out", "/ro");
    let vfs = vfs_with([workspace("/rw", ReadWrite, &rw), workspace("/ro", ReadOnly, &ro)]);
    let mut batch = vfs.batch();
    batch.write("/rw/in/a", "x", &WriteOptions::new()).unwrap();
    assert_eq!(kind(batch.write("/rw/out/a", "x", &WriteOptions::new())), ErrorKind::Denied);
    batch.apply().unwrap();
    assert_eq!(text(&vfs, "/rw/real/a"), "x");
}
