//! Modes of host files. Modes don't bind root: `cargo xtask test` also runs these as another user.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::sync::Arc;

use stead_core::store::{
    Content, DisplacedContent, DraftBase, IfMissing, NodePath, OpenPurpose, Page, Parents, Precondition,
    PutOptions, Replace, RevisionQuery, Step, StoreError, Subtree,
};
use stead_core::vfs::{LostUpdates, Overwrite, RemoveOptions, UndoOptions, UndoTarget};
use stead_core::{AccessScope, ErrorKind, Identity, Mount, Store, Vfs, VfsPath, Workspace};

use crate::{Bench, append_step, apply, at, change, write};

fn set_mode(bench: &Bench, path: &str, mode: u32) {
    fs::set_permissions(bench.host_path(path), Permissions::from_mode(mode)).unwrap();
}

fn mode(bench: &Bench, path: &str) -> u32 {
    fs::metadata(bench.host_path(path)).unwrap().mode() & 0o7777
}

/// Whether this process runs as root.
fn is_root() -> bool {
    tempfile::tempfile().unwrap().metadata().unwrap().uid() == 0
}

#[test]
fn a_file_that_this_user_may_not_read_can_not_be_read_through_the_store() {
    let bench = Bench::retaining(|_| ());
    fs::write(bench.host_path("f"), "secret").unwrap();
    set_mode(&bench, "f", 0);
    let Bench { temp, root, store } = bench;
    let store: Arc<dyn Store> = Arc::new(store);
    let workspace =
        Workspace::new(VfsPath::parse("/w").unwrap(), AccessScope::ReadWrite, Mount::from(&store));
    let builder = Vfs::builder(Identity::agent("a")).lost_updates(LostUpdates::Allow);
    let vfs = builder.workspace(workspace).build().unwrap();
    if is_root() {
        assert_eq!(vfs.read("/w/f").unwrap().bytes, b"secret");
        return;
    }
    let assert_denied =
        |answer: stead_core::Result<()>| assert_eq!(answer.unwrap_err().kind(), ErrorKind::Denied);
    let tag = store.stat(&at("f")).unwrap().tag;
    assert_denied(vfs.read("/w/f").map(drop));
    assert_denied(vfs.copy("/w/f", "/w/g", Overwrite::Refuse).map(drop));
    assert!(matches!(store.open(&at("f"), OpenPurpose::Read).map(drop), Err(StoreError::HostDenied)));
    assert_eq!(store.stat(&at("f")).unwrap().tag, tag, "a refused read must not change the tag");
    // It can't be read as displaced content either.
    vfs.write("/w/f", "public").unwrap();
    vfs.set_attributes("/w/f", Some(0o644), None).unwrap();
    let revisions = store.require_history().unwrap().revisions(&RevisionQuery::all()).unwrap().revisions;
    let before = revisions.last().unwrap().changes[0].before.as_ref().unwrap().content.as_ref().unwrap();
    assert!(matches!(
        store.require_history().unwrap().open_content(before).map(drop),
        Err(StoreError::HostDenied)
    ));
    vfs.undo(UndoTarget::Last(2), UndoOptions::default()).unwrap();
    assert_denied(vfs.read("/w/f").map(drop));
    fs::set_permissions(root.join("f"), Permissions::from_mode(0o600)).unwrap();
    assert_eq!(fs::read(root.join("f")).unwrap(), b"secret");
    vfs.remove_file("/w/f", RemoveOptions::default()).unwrap();
    drop(temp);
}

#[test]
fn a_directory_that_may_be_listed_but_not_entered_is_not_shown_as_empty() {
    let bench = Bench::new();
    fs::create_dir(bench.host_path("d")).unwrap();
    fs::write(bench.host_path("d/f"), "").unwrap();
    set_mode(&bench, "d", 0o600);
    let listed = bench.store.list(&at("d"), &Page::ALL).map(|listing| listing.entries.len());
    match is_root() {
        true => assert_eq!(listed.unwrap(), 1),
        false => assert!(matches!(listed, Err(StoreError::HostDenied)), "{listed:?}"),
    }
    set_mode(&bench, "d", 0o700);
}

#[test]
fn a_write_removes_the_setuid_and_setgid_bits() {
    let bench = Bench::new();
    let writes: [(&str, &dyn Fn()); 3] = [
        ("append", &|| {
            apply(&bench.store, append_step("f", b"more")).unwrap();
        }),
        ("write", &|| {
            write(&bench.store, "f", "other");
        }),
        ("into it", &|| {
            let node = bench.store.stat(&at("f")).unwrap().node;
            let mut draft = bench.store.draft(DraftBase::File(&NodePath::of_node(node))).unwrap();
            draft.write_at(1, b"x").unwrap();
            let content = Content::Sealed(draft.seal().unwrap());
            let step = Step::Write { at: NodePath::of_node(node), content, options: PutOptions::default() };
            apply(&bench.store, step).unwrap();
        }),
    ];
    for (name, write) in writes {
        fs::write(bench.host_path("f"), "old").unwrap();
        set_mode(&bench, "f", 0o6755);
        write();
        assert_eq!(mode(&bench, "f"), 0o755, "{name}");
    }
}

#[test]
fn content_that_is_copied_from_a_closed_file_leaves_the_preconditions_on_that_file_right() {
    for step in ["remove", "append", "rename"] {
        let bench = Bench::retaining(|_| ());
        write(&bench.store, "f", "one");
        apply(&bench.store, append_step("f", b" two")).unwrap();
        set_mode(&bench, "f", 0o200);
        let store: &dyn Store = &bench.store;
        let history = store.require_history().unwrap();
        let changes = history.revisions(&RevisionQuery::all()).unwrap().revisions[0].changes.clone();
        let before = changes[0].before.as_ref().unwrap().content.clone().unwrap();
        let expect = Precondition::Tag(bench.store.stat(&at("f")).unwrap().tag);
        let second = match step {
            "remove" => Step::Remove {
                at: at("f"),
                subtree: Subtree::File,
                expect,
                if_missing: IfMissing::Fail,
                protected: None,
                displaced: DisplacedContent::Keep,
            },
            "append" => Step::Append {
                at: at("f"),
                content: Content::Bytes(b"three".into()),
                options: PutOptions { expect, ..PutOptions::default() },
            },
            _ => Step::Rename {
                from: at("f"),
                to: at("h"),
                replace: Replace::Refuse,
                parents: Parents::Required,
                expect,
                protected: [None, None],
            },
        };
        let copy =
            Step::Write { at: at("g"), content: Content::Stored(before), options: PutOptions::default() };
        bench.store.apply(change(vec![copy, second])).unwrap_or_else(|error| panic!("{step}: {error}"));
        assert_eq!(fs::read(bench.host_path("g")).unwrap(), b"one");
    }
}
