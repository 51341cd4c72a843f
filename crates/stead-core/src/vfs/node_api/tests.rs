//! What a mounted file system sees and may do through the node API.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use super::*;
use crate::audit::AuditOutcome;
use crate::error::ErrorKind;
use crate::identity::Identity;
use crate::scope::AccessScope;
use crate::store::{NodeKind, Precondition, Replace, SpecialKind};
use crate::testkit::{MemoryAuditLog, ModelStore};
use crate::vfs::{OpenOptions, RemoveOptions};
use crate::workspace::Mount;

struct Subject {
    vfs: Vfs,
    door: NodeApi,
    notes: Arc<MemoryAuditLog>,
}

fn path(text: &str) -> VfsPath {
    VfsPath::parse(text).unwrap()
}

fn name(text: &str) -> Name {
    Name::new(text.as_bytes()).unwrap()
}

/// A Workspace of each scope on one Store, and one nested in another on a second Store.
fn subject() -> Subject {
    let notes = Arc::new(MemoryAuditLog::new());
    let store = Arc::new(ModelStore::recording(Arc::clone(&notes)));
    let other = Arc::new(ModelStore::recording(Arc::clone(&notes)));
    let at = |prefix: &str, scope, below: &str| {
        let mount = Mount::at(store.clone(), &path(below));
        Workspace::new(path(prefix), scope, mount)
    };
    let far = Workspace::new(path("/rw/deep/far"), AccessScope::ReadWrite, Mount::from(&other));
    let vfs = Vfs::builder(Identity::agent("tester"))
        .audit(notes.clone())
        .workspace(at("/rw", AccessScope::ReadWrite, "/rw"))
        .workspace(at("/ro", AccessScope::ReadOnly, "/rw"))
        .workspace(at("/wo", AccessScope::WriteOnly, "/wo"))
        .workspace(far)
        .build()
        .unwrap();
    for file in ["/rw/a", "/rw/dir/b", "/wo/old"] {
        vfs.write(file, "one").unwrap();
    }
    notes.take();
    let door = NodeApi::new(&vfs);
    Subject { vfs, door, notes }
}

impl Subject {
    fn seat(&self, at: &str) -> DirectoryRef {
        let looked = self.door.lookup_path(&path(at)).unwrap();
        DirectoryRef { path: looked.path, node: looked.node }
    }

    fn records(&self) -> Vec<String> {
        let shown = |record: &crate::audit::AuditRecord| {
            let paths: Vec<_> = record.paths.iter().map(ToString::to_string).collect();
            format!("{} {} {}", record.call, paths.join(","), record.outcome.as_str())
        };
        let records = self.notes.take();
        records.iter().filter(|record| record.outcome != AuditOutcome::Begun).map(shown).collect()
    }

    fn names(&self, at: &str) -> Vec<String> {
        let seat = self.seat(at);
        self.door.begin_list(&seat).unwrap();
        let listed = self.door.list(&seat, 100).unwrap();
        listed.entries.iter().map(|(name, _)| name.to_string()).collect()
    }
}

fn kind<T: std::fmt::Debug>(result: Result<T>) -> ErrorKind {
    result.unwrap_err().kind()
}

#[test]
fn a_lookup_is_not_written_down_and_a_change_of_a_name_is() {
    let t = subject();
    let (rw, dir) = (t.seat("/rw"), t.seat("/rw/dir"));
    assert_eq!(t.door.lookup(&dir, &name("b")).unwrap().attr.size, 3);
    assert_eq!(kind(t.door.lookup(&dir, &name("none"))), ErrorKind::NotFound);
    assert!(t.records().is_empty());
    t.door.mkdir(&rw, &name("new"), 0o700).unwrap();
    t.door.symlink(&rw, &name("link"), b"a").unwrap();
    t.door.rename((&rw, &name("a")), (&dir, &name("c")), Replace::Overwrite).unwrap();
    t.door.unlink(&dir, &name("c")).unwrap();
    t.door.rmdir(&rw, &name("new")).unwrap();
    let node = t.door.lookup_path(&path("/rw/dir/b")).unwrap().node.unwrap();
    t.door.set_attributes((&path("/rw/dir/b"), node), Some(0o600), None).unwrap();
    assert_eq!(kind(t.door.mkdir(&t.seat("/ro"), &name("x"), 0o755)), ErrorKind::Denied);
    assert_eq!(t.names("/rw"), ["deep", "dir", "link"]);
    let expected = [
        "mkdir /rw/new ok",
        "symlink /rw/link ok",
        "move /rw/a,/rw/dir/c ok",
        "remove /rw/dir/c ok",
        "remove /rw/new ok",
        "set_attributes /rw/dir/b ok",
        "mkdir /ro/x denied",
        "list /rw ok",
    ];
    assert_eq!(t.records(), expected);
}

#[test]
fn an_open_file_is_one_record_and_one_change() {
    let t = subject();
    let rw = t.seat("/rw");
    let options = OpenOptions::read_write();
    let (file, looked) = t.door.create(&rw, &name("f"), 0o640, Precondition::Absent, options).unwrap();
    assert_eq!((looked.attr.mode, looked.attr.size), (0o640, 0));
    assert_eq!(t.records(), ["open /rw/f ok"]);
    for piece in 0..10 {
        file.write_at(piece * 5, b"12345").unwrap();
    }
    // A lookup through the node API shows what was written; a call by path doesn't yet.
    assert_eq!(t.door.lookup(&rw, &name("f")).unwrap().attr.size, 50);
    assert_eq!(t.vfs.stat("/rw/f").unwrap().size, 0);
    t.notes.take();
    file.flush().unwrap();
    assert_eq!(t.vfs.read("/rw/f").unwrap().bytes.len(), 50);
    file.flush().unwrap();
    drop(file);
    assert_eq!(t.records(), ["open /rw/f ok", "read /rw/f ok"]);
    let again = t.door.create(&rw, &name("f"), 0o640, Precondition::Absent, options);
    assert_eq!(kind(again.map(drop)), ErrorKind::AlreadyExists);
    let (again, _) = t.door.create(&rw, &name("f"), 0o640, Precondition::Any, options.truncate()).unwrap();
    assert_eq!(again.size(), 0);
}

#[test]
fn times_that_are_set_before_the_change_are_the_changes() {
    let t = subject();
    let looked = t.door.lookup_path(&path("/rw/a")).unwrap();
    let file = t.door.open(&looked.path, looked.node.unwrap(), OpenOptions::write()).unwrap();
    assert!(!file.set_modified(Timestamp(5)), "nothing is written yet");
    file.append(b"more").unwrap();
    assert!(file.set_modified(Timestamp(7)));
    assert_eq!(t.door.lookup_path(&looked.path).unwrap().attr.modified, Timestamp(7));
    drop(file);
    let after = t.door.lookup_path(&looked.path).unwrap().attr;
    assert_eq!((after.modified, after.size), (Timestamp(7), 7));
}

#[test]
fn what_is_meant_is_a_node_and_not_whatever_has_its_path() {
    let t = subject();
    let (dir, file) = (t.seat("/rw/dir"), t.door.lookup_path(&path("/rw/dir/b")).unwrap());
    t.vfs.rename("/rw/dir", "/rw/elsewhere", crate::vfs::Overwrite::Refuse).unwrap();
    t.vfs.write("/rw/dir/b", "another").unwrap();
    let node = file.node.unwrap();
    assert_eq!(kind(t.door.unlink(&dir, &name("b"))), ErrorKind::Conflict);
    assert_eq!(kind(t.door.mkdir(&dir, &name("x"), 0o755)), ErrorKind::Conflict);
    assert_eq!(kind(t.door.open(&file.path, node, OpenOptions::write())), ErrorKind::Conflict);
    assert_eq!(kind(t.door.set_attributes((&file.path, node), Some(0), None)), ErrorKind::Conflict);
    let rw = t.seat("/rw");
    let moved = t.door.rename((&rw, &name("a")), (&dir, &name("a")), Replace::Overwrite);
    assert_eq!(kind(moved), ErrorKind::Conflict);
    assert_eq!(t.vfs.read("/rw/dir/b").unwrap().bytes, b"another");
    assert_eq!(t.vfs.read("/rw/elsewhere/b").unwrap().bytes, b"one");
}

#[test]
fn a_write_only_workspace_shows_the_kind_of_what_was_made_here() {
    let t = subject();
    let wo = t.seat("/wo");
    assert_eq!(kind(t.door.lookup(&wo, &name("old"))), ErrorKind::NotFound);
    assert_eq!(kind(t.door.begin_list(&wo)), ErrorKind::Denied);
    assert_eq!(kind(t.door.list(&wo, 10)), ErrorKind::Denied);
    let options = OpenOptions::write();
    let (file, looked) = t.door.create(&wo, &name("new"), 0o644, Precondition::Any, options).unwrap();
    file.append(b"secret").unwrap();
    file.close().unwrap();
    assert_eq!((looked.attr.kind, looked.attr.size), (NodeKind::File, 0));
    let looked = t.door.lookup(&wo, &name("new")).unwrap();
    assert_eq!((looked.attr.kind, looked.attr.size, looked.attr.mode), (NodeKind::File, 0, 0o200));
    let node = looked.node.unwrap();
    assert_eq!(kind(t.door.open(&looked.path, node, OpenOptions::read())), ErrorKind::Denied);
    // Writing to an existing file looks like writing to a new one.
    let (old, _) = t.door.create(&wo, &name("old"), 0o644, Precondition::Any, options).unwrap();
    old.append(b" and two").unwrap();
    old.close().unwrap();
    t.vfs.mkdir("/wo/d", Parents::Create).unwrap();
    assert_eq!(kind(t.door.lookup(&wo, &name("d"))), ErrorKind::NotFound);
    assert_eq!(t.door.mkdir(&wo, &name("d"), 0o755).unwrap().attr.kind, NodeKind::Directory);
    assert_eq!(kind(t.door.mkdir(&wo, &name("old"), 0o755)), ErrorKind::Denied);
    assert_eq!(t.door.lookup(&wo, &name("d")).unwrap().attr.kind, NodeKind::Directory);
}

#[test]
fn workspaces_in_workspaces_are_levels() {
    let t = subject();
    assert!(t.seat("/").node.is_none());
    assert_eq!(t.names("/"), ["ro", "rw", "wo"]);
    let deep = t.door.lookup(&t.seat("/rw"), &name("deep")).unwrap();
    assert!(deep.is_synthetic && deep.node.is_none());
    // The directory is created when something is put into it.
    let seat = DirectoryRef { path: deep.path, node: None };
    t.door.mkdir(&seat, &name("own"), 0o755).unwrap();
    assert_eq!(t.names("/rw/deep"), ["far", "own"]);
    let (rw, far) = (t.seat("/rw"), t.seat("/rw/deep/far"));
    let moved = t.door.rename((&rw, &name("a")), (&far, &name("a")), Replace::Overwrite);
    assert!(matches!(moved, Err(Error::AcrossWorkspaces { .. })), "{moved:?}");
    assert!(matches!(t.door.rmdir(&t.seat("/rw/deep"), &name("far")), Err(Error::IsWorkspace { .. })));
    assert!(matches!(t.door.rmdir(&rw, &name("deep")), Err(Error::ContainsWorkspace { .. })));
    assert_eq!(kind(t.door.mkdir(&t.seat("/"), &name("x"), 0o755)), ErrorKind::Denied);
    assert_eq!(kind(t.door.lookup(&t.seat("/"), &name("x"))), ErrorKind::Denied);
}

#[test]
fn protected_names_stay_what_they_are() {
    let t = subject();
    let rw = t.seat("/rw");
    t.door.mkdir(&rw, &name(".git"), 0o755).unwrap();
    let git = t.seat("/rw/.git");
    let options = OpenOptions::write();
    let made = t.door.create(&git, &name("config"), 0o644, Precondition::Any, options);
    assert!(matches!(made, Err(Error::Protected { .. })), "{made:?}");
    assert!(matches!(t.door.symlink(&git, &name("hooks"), b"/rw/dir"), Err(Error::Protected { .. })));
    let moved = t.door.rename((&rw, &name("a")), (&git, &name("config")), Replace::Overwrite);
    assert!(matches!(moved, Err(Error::Protected { .. })), "{moved:?}");
    let exchanged = t.door.rename((&rw, &name("dir")), (&rw, &name(".git")), Replace::Exchange);
    assert!(matches!(exchanged, Err(Error::Protected { .. })), "{exchanged:?}");
    t.door.rename((&rw, &name("a")), (&t.seat("/rw/dir"), &name("b")), Replace::Exchange).unwrap();
}

#[test]
fn names_that_no_path_can_hold_are_refused_and_not_found() {
    let t = subject();
    let rw = t.seat("/rw");
    for odd in [&b"a\nb"[..], b"a\\b", b"a\xff"] {
        let odd = Name::new(odd).unwrap();
        assert_eq!(kind(t.door.lookup(&rw, &odd)), ErrorKind::NotFound);
        assert_eq!(kind(t.door.mkdir(&rw, &odd, 0o755)), ErrorKind::Invalid);
    }
}

#[test]
fn a_directory_is_listed_page_by_page() {
    let t = subject();
    for number in 0..25 {
        t.vfs.write(&*format!("/rw/dir/f{number:02}"), "x").unwrap();
    }
    t.notes.take();
    let dir = t.seat("/rw/dir");
    let begun = t.door.begin_list(&dir).unwrap();
    let mut page = t.door.list(&dir, 10).unwrap();
    let mut names: Vec<_> = page.entries.iter().map(|(name, _)| name.to_string()).collect();
    while let Some(next) = page.next {
        page = t.door.list_next(&dir, &next, 10).unwrap();
        names.extend(page.entries.iter().map(|(name, _)| name.to_string()));
    }
    assert_eq!(names.len(), 26);
    assert!(names.is_sorted());
    assert_eq!(t.records(), ["list /rw/dir ok"]);
    assert_eq!(t.door.begin_list(&dir).unwrap().attr, begun.attr);
    t.vfs.remove_file("/rw/dir/f00", RemoveOptions::default()).unwrap();
    assert_ne!(t.door.begin_list(&dir).unwrap().attr.changed, begun.attr.changed);
}

#[test]
fn who_reads_sees_what_another_has_changed_once_that_is_told() {
    let t = subject();
    let looked = t.door.lookup_path(&path("/rw/a")).unwrap();
    let node = looked.node.unwrap();
    let file = t.door.open(&looked.path, node, OpenOptions::read()).unwrap();
    t.vfs.write("/rw/a", "three").unwrap();
    t.door.refresh(looked.workspace.unwrap(), node);
    let mut buffer = [0; 16];
    let count = file.read_at(0, &mut buffer).unwrap();
    assert_eq!(&buffer[..count], b"three");
}

#[test]
fn a_pipe_is_only_in_its_own_directory() {
    let t = subject();
    let (rw, dir, far) = (t.seat("/rw"), t.seat("/rw/dir"), t.seat("/rw/deep/far"));
    for seat in [&rw, &dir] {
        t.door.make_special(seat, &name("pipe"), SpecialKind::Fifo, 0o600).unwrap();
    }
    // A directory whose node wasn't known when it was looked up.
    let listed = t.door.list(&DirectoryRef { path: path("/rw"), node: None }, 100).unwrap();
    let names: Vec<_> = listed.entries.iter().map(|(name, _)| name.to_string()).collect();
    assert_eq!(names, ["deep", "pipe", "a", "dir"]);
    // A directory of another Store, with the same node id as the one that holds the pipe.
    let twin = (0..100).map(|number| name(&format!("d{number}"))).find(|name| {
        let made = t.door.mkdir(&far, name, 0o700).unwrap();
        made.node == dir.node
    });
    let twin = twin.expect("a Store counts its ids up");
    t.door.rmdir(&far, &twin).unwrap();
    assert_eq!(kind(t.door.rmdir(&rw, &name("dir"))), ErrorKind::AlreadyExists);
}
