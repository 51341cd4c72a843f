//! Changes of a fork: preconditions and nodes across the moment at which a file is taken over, several steps, quotas.

use stead_core::store::{
    Change, Content, DraftBase, NodePath, OpenPurpose, Precondition, PutOptions, QuotaLimits, QuotaRoot,
    Replace, RevisionQuery, Step, StorePath, Subtree, Usage,
};
use stead_core::{Store, StoreError};

use crate::{
    Site, apply, assert_sound, change, fork_of, names, node_path, read, remove, remove_step, rename,
    rename_step, write, write_step,
};

#[test]
fn g3_a_version_tag_of_the_host_holds_until_the_file_changes() {
    let site = Site::new();
    site.put("d/file", "base");
    let fork = site.fork("one");
    let tag = fork.stat(&node_path("d/file")).unwrap().tag;
    let stale = |tag| fork.apply(change(vec![write_step("d/file", "fork", Precondition::Tag(tag))]));
    site.put("d/file", "host");
    assert!(matches!(stale(tag), Err(StoreError::Conflict)), "a host program has changed it");
    // The refused change has taken the file over. The tag that a reader has is still the host's.
    let tag = fork.stat(&node_path("d/file")).unwrap().tag;
    assert_eq!(tag, site.store.stat(&node_path("d/file")).unwrap().tag);
    let applied =
        fork.apply(change(vec![write_step("d/file", "fork", Precondition::ShortTag(tag.short()))])).unwrap();
    assert_eq!(applied.outcomes[0].before, Some(tag));
    assert!(matches!(stale(tag), Err(StoreError::Conflict)));
    let next = applied.outcomes[0].attr.unwrap().tag;
    stale(next).unwrap();
}

#[test]
fn g3_an_open_file_and_its_node_stay_when_the_file_is_taken_over() {
    let site = Site::new();
    site.put("d/file", "base");
    let fork = site.fork("one");
    let (directory, file) =
        (fork.stat(&node_path("d")).unwrap().node, fork.stat(&node_path("d/file")).unwrap().node);
    let open = fork.open(&NodePath::of_node(file), OpenPurpose::Read).unwrap();
    let mut draft = fork.draft(DraftBase::File(&NodePath::of_node(file))).unwrap();
    draft.write_at(4, b" and more").unwrap();
    let content = Content::Sealed(draft.seal().unwrap());
    let options = PutOptions::default();
    apply(&*fork, Step::Write { at: NodePath::of_node(file), content, options });
    let mut buffer = [0; 9];
    assert_eq!(open.read_at(0, &mut buffer).unwrap(), 4);
    assert_eq!(read(&*fork, "d/file").unwrap(), "base and more");
    assert_eq!(fork.stat(&node_path("d/file")).unwrap().node, file);
    let expect_nodes = vec![(StorePath::from_checked("d"), directory)];
    fork.apply(Change { expect_nodes, ..change(vec![write_step("d/new", "1", Precondition::Absent)]) })
        .unwrap();
    assert_eq!(names(&*fork, "d"), ["file", "new"]);
}

/// The host gives the inode of a removed file to the next one. The fork still has the first file.
#[test]
fn two_files_of_one_inode_number_are_two_nodes() {
    let site = Site::new();
    site.put("first", "base");
    std::fs::hard_link(site.host_path("first"), site.host_path("second")).unwrap();
    let fork = site.fork("one");
    write(&*fork, "first", "fork");
    let nodes = ["first", "second"].map(|path| fork.stat(&node_path(path)).unwrap().node);
    assert_ne!(nodes[0], nodes[1]);
    write(&*fork, "second", "fork too");
    assert_eq!(fork.stat(&NodePath::of_node(nodes[1])).unwrap().size, 8);
    assert_eq!(
        (read(&*fork, "first").unwrap(), read(&*fork, "second").unwrap()),
        ("fork".into(), "fork too".into())
    );
    assert_sound(&*fork);
}

#[test]
fn the_steps_of_a_change_see_what_an_earlier_step_has_moved() {
    let site = Site::new();
    site.put("d/e/file", "base");
    site.put("d/other", "base");
    let fork = site.fork("one");
    fork.apply(change(vec![
        rename_step("d", "moved", Replace::Refuse),
        write_step("moved/e/file", "fork", Precondition::Any),
        rename_step("moved/other", "d/other", Replace::Refuse),
        remove_step("moved/e", Subtree::Any),
        write_step("moved/e", "a file now", Precondition::Absent),
    ]))
    .unwrap();
    assert_eq!(
        (names(&*fork, ""), names(&*fork, "d")),
        (vec!["d".to_owned(), "moved".into()], vec!["other".to_owned()])
    );
    assert_eq!(
        (names(&*fork, "moved"), read(&*fork, "moved/e").unwrap()),
        (vec!["e".to_owned()], "a file now".into())
    );
    // A refused change changes nothing.
    let refused = fork.apply(change(vec![
        rename_step("moved", "again", Replace::Refuse),
        write_step("again/e/below", "x", Precondition::Any),
    ]));
    assert!(matches!(refused, Err(StoreError::NotADirectory)), "{refused:?}");
    assert_eq!(names(&*fork, ""), ["d", "moved"]);
    assert_sound(&*fork);
}

#[test]
fn g3_what_a_fork_removed_is_in_its_history_with_the_content_of_the_base() {
    let site = Site::new();
    site.put("d/e/file", "base");
    let fork = site.fork("one");
    remove(&*fork, "d");
    site.put("d/e/file", "host");
    let history = fork.require_history().unwrap();
    let page = history.revisions(&RevisionQuery::all()).unwrap();
    assert_eq!(page.revisions.len(), 1);
    let removed = |name: &str| {
        let changes = page.revisions[0].changes.iter();
        changes
            .filter_map(|change| change.before.clone())
            .find(|before| before.path.to_string() == name)
            .unwrap()
    };
    let content = history.open_content(removed("d/e/file").content.as_ref().unwrap()).unwrap();
    let mut bytes = [0; 4];
    content.read_at(0, &mut bytes).unwrap();
    assert_eq!(&bytes, b"base");
    assert_eq!(removed("d/e").kind, stead_core::store::NodeKind::Directory);
    // A file that the fork never changed has no revisions in it.
    site.put("untouched", "host");
    let query = RevisionQuery { at: Some(node_path("untouched")), ..RevisionQuery::all() };
    assert!(history.revisions(&query).unwrap().revisions.is_empty());
    let query = RevisionQuery { at: Some(node_path("missing")), ..RevisionQuery::all() };
    assert!(matches!(history.revisions(&query), Err(StoreError::NotFound)));
}

#[test]
fn g3_a_fork_of_a_fork_starts_as_it_was_and_an_earlier_version_can_be_read() {
    let site = Site::new();
    site.put("d/file", "base");
    site.put("d/live", "base");
    let first = site.fork("one");
    let early = write(&*first, "d/file", "first");
    let second = fork_of(&first, "two");
    write(&*first, "d/file", "first again");
    write(&*second, "d/own", "second");
    rename(&*second, "d", "e");
    assert_eq!(
        (read(&*second, "e/file").unwrap(), read(&*second, "e/live").unwrap()),
        ("first".into(), "base".into())
    );
    assert_eq!(
        (names(&*first, "d"), names(&*second, "e")),
        (vec!["file".to_owned(), "live".into()], vec!["file".to_owned(), "live".into(), "own".into()])
    );
    let past = first.require_history().unwrap().as_of(early).unwrap();
    assert_eq!(
        (read(&*past, "d/file").unwrap(), read(&*past, "d/live").unwrap()),
        ("first".into(), "base".into())
    );
    assert!(matches!(past.apply(change(Vec::new())), Err(StoreError::Unsupported(_))));
    assert_sound(&*second);
}

#[test]
fn g3_a_quota_counts_what_the_fork_stores() {
    let site = Site::new();
    site.put("large", &"x".repeat(1_000));
    site.put("small", "12345");
    let fork = site.fork("one");
    let limits = QuotaLimits { bytes: Some(10), ..QuotaLimits::default() };
    let limited =
        |steps| Change { quotas: vec![QuotaRoot::new(StorePath::empty(), limits)], ..change(steps) };
    fork.apply(limited(vec![write_step("own", "1234", Precondition::Any)])).unwrap();
    assert_eq!(fork.usage(&StorePath::empty()).unwrap(), Usage { bytes: 4, files: 1 });
    fork.apply(limited(vec![write_step("small", "123456", Precondition::Any)])).unwrap();
    assert_eq!(fork.usage(&StorePath::empty()).unwrap(), Usage { bytes: 10, files: 2 });
    let refused = fork.apply(limited(vec![write_step("own", "12345", Precondition::Any)]));
    assert!(matches!(refused, Err(StoreError::OverQuota { .. })));
    // What is removed doesn't count, whatever its size was.
    fork.apply(limited(vec![remove_step("large", Subtree::Any)])).unwrap();
    assert_eq!(fork.usage(&StorePath::empty()).unwrap(), Usage { bytes: 10, files: 2 });
    assert_sound(&*fork);
}

/// As root this proves nothing, because modes don't bind root: `cargo xtask second-user` runs it as another user.
#[test]
fn g2_a_file_that_the_host_forbids_to_read_is_refused_and_stays_as_it_is_on_the_host() {
    use std::os::unix::fs::{MetadataExt, PermissionsExt};
    let site = Site::new();
    site.put("secret", "base");
    site.put("other", "base");
    let fork = site.fork("one");
    let file = site.host_path("secret");
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o000)).unwrap();
    let before = std::fs::metadata(&file).unwrap();
    let changed = fork.apply(change(vec![write_step("secret", "fork", Precondition::Any)]));
    if std::fs::read(&file).is_ok() {
        return;
    }
    assert!(matches!(changed, Err(StoreError::HostDenied)), "{changed:?}");
    let after = std::fs::metadata(&file).unwrap();
    assert_eq!((after.ctime(), after.ctime_nsec()), (before.ctime(), before.ctime_nsec()));
    write(&*fork, "other", "fork");
    assert_eq!(read(&*fork, "other").unwrap(), "fork");
}
