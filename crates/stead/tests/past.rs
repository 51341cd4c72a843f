//! A stead as it was.

#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use stead::{AccessScope, ErrorKind, MemoryStore, PhysicalOptions, PhysicalStore, Stead};

#[test]
fn a_past_stead_has_what_may_be_looked_into_and_changes_nothing() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::create_dir(directory.path().join("root")).unwrap();
    let options = PhysicalOptions::new(directory.path().join("state"));
    let disk = Arc::new(PhysicalStore::open(directory.path().join("root"), options).unwrap());
    let (notes, inbox) = (Arc::new(MemoryStore::new()), Arc::new(MemoryStore::new()));
    let stead = Stead::builder("coder")
        .workspace("/notes", AccessScope::ReadWrite, &notes)
        .workspace("/inbox", AccessScope::WriteOnly, &inbox)
        .workspace("/disk", AccessScope::ReadWrite, &disk)
        .build()
        .unwrap();
    let vfs = stead.vfs();
    let first = vfs.write("/notes/a", "1").unwrap().version.unwrap();
    vfs.write("/notes/a", "2").unwrap();
    // The two databases count for themselves; this one has to have the version, too.
    vfs.write("/inbox/a", "1").unwrap();
    let past = stead.as_of(first).unwrap();
    assert_eq!(past.vfs().read("/notes/a").unwrap().bytes, b"1");
    assert_eq!(past.vfs().write("/notes/a", "3").unwrap_err().kind(), ErrorKind::Denied);
    assert_eq!(past.vfs().workspaces().count(), 1);
    assert_eq!(past.vfs().read("/disk/a").unwrap_err().kind(), ErrorKind::Denied);
    assert_eq!(past.vfs().read("/inbox/a").unwrap_err().kind(), ErrorKind::Denied);
    assert_eq!(vfs.read("/notes/a").unwrap().bytes, b"2");
}
