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
    api: NodeApi,
    audit_log: Arc<MemoryAuditLog>,
}

fn path(text: &str) -> VfsPath {
    VfsPath::parse(text).unwrap()
}

fn name(text: &str) -> Name {
    Name::new(text.as_bytes()).unwrap()
}

/// A Workspace of each scope on one Store, and one nested in another on a second Store.
fn subject() -> Subject {
    let audit_log = Arc::new(MemoryAuditLog::new());
    let store = Arc::new(ModelStore::recording(Arc::clone(&audit_log)));
    let other = Arc::new(ModelStore::recording(Arc::clone(&audit_log)));
    let workspace = |prefix: &str, scope, mount_path: &str| {
        let mount = Mount::at(store.clone(), &path(mount_path));
        Workspace::new(path(prefix), scope, mount)
    };
    let far = Workspace::new(path("/rw/deep/far"), AccessScope::ReadWrite, Mount::from(&other));
    let vfs = Vfs::builder(Identity::agent("tester"))
        .audit(audit_log.clone())
        .workspace(workspace("/rw", AccessScope::ReadWrite, "/rw"))
        .workspace(workspace("/ro", AccessScope::ReadOnly, "/rw"))
        .workspace(workspace("/wo", AccessScope::WriteOnly, "/wo"))
        .workspace(far)
        .build()
        .unwrap();
    for file in ["/rw/a", "/rw/dir/b", "/wo/old"] {
        vfs.write(file, "one").unwrap();
    }
    audit_log.take();
    let api = NodeApi::new(&vfs);
    Subject { vfs, api, audit_log }
}

impl Subject {
    fn directory(&self, at: &str) -> DirectoryRef {
        let lookup = self.api.lookup_path(&path(at)).unwrap();
        DirectoryRef { path: lookup.path, node: lookup.node }
    }

    fn records(&self) -> Vec<String> {
        let describe = |record: &crate::audit::AuditRecord| {
            let paths: Vec<_> = record.paths.iter().map(ToString::to_string).collect();
            format!("{} {} {}", record.call, paths.join(","), record.outcome.as_str())
        };
        let records = self.audit_log.take();
        records.iter().filter(|record| record.outcome != AuditOutcome::Begun).map(describe).collect()
    }

    fn names(&self, at: &str) -> Vec<String> {
        let directory = self.directory(at);
        self.api.begin_list(&directory).unwrap();
        let listed = self.api.list(&directory, 100).unwrap();
        listed.entries.iter().map(|(name, _)| name.to_string()).collect()
    }
}

fn kind<T: std::fmt::Debug>(result: Result<T>) -> ErrorKind {
    result.unwrap_err().kind()
}

#[test]
fn a_lookup_is_not_audited_and_a_change_of_a_name_is() {
    let t = subject();
    let (rw, dir) = (t.directory("/rw"), t.directory("/rw/dir"));
    assert_eq!(t.api.lookup(&dir, &name("b")).unwrap().attr.size, 3);
    assert_eq!(kind(t.api.lookup(&dir, &name("none"))), ErrorKind::NotFound);
    assert!(t.records().is_empty());
    t.api.mkdir(&rw, &name("new"), 0o700).unwrap();
    t.api.symlink(&rw, &name("link"), b"a").unwrap();
    t.api.rename((&rw, &name("a")), (&dir, &name("c")), Replace::Overwrite).unwrap();
    t.api.unlink(&dir, &name("c")).unwrap();
    t.api.rmdir(&rw, &name("new")).unwrap();
    let node = t.api.lookup_path(&path("/rw/dir/b")).unwrap().node.unwrap();
    t.api.set_attributes((&path("/rw/dir/b"), node), Some(0o600), None).unwrap();
    assert_eq!(kind(t.api.mkdir(&t.directory("/ro"), &name("x"), 0o755)), ErrorKind::Denied);
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
    let rw = t.directory("/rw");
    let options = OpenOptions::read_write();
    let (file, lookup) = t.api.create(&rw, &name("f"), 0o640, Precondition::Absent, options).unwrap();
    assert_eq!((lookup.attr.mode, lookup.attr.size), (0o640, 0));
    assert_eq!(t.records(), ["open /rw/f ok"]);
    for piece in 0..10 {
        file.write_at(piece * 5, b"12345").unwrap();
    }
    // A lookup through the node API shows what was written; a call by path doesn't yet.
    assert_eq!(t.api.lookup(&rw, &name("f")).unwrap().attr.size, 50);
    assert_eq!(t.vfs.stat("/rw/f").unwrap().size, 0);
    t.audit_log.take();
    file.flush().unwrap();
    assert_eq!(t.vfs.read("/rw/f").unwrap().bytes.len(), 50);
    file.flush().unwrap();
    drop(file);
    assert_eq!(t.records(), ["open /rw/f ok", "read /rw/f ok"]);
    let again = t.api.create(&rw, &name("f"), 0o640, Precondition::Absent, options);
    assert_eq!(kind(again.map(drop)), ErrorKind::AlreadyExists);
    let (again, _) = t.api.create(&rw, &name("f"), 0o640, Precondition::Any, options.truncate()).unwrap();
    assert_eq!(again.size(), 0);
}

#[test]
fn a_commit_keeps_the_times_that_were_set_on_the_draft() {
    let t = subject();
    let lookup = t.api.lookup_path(&path("/rw/a")).unwrap();
    let file = t.api.open(&lookup.path, lookup.node.unwrap(), OpenOptions::write()).unwrap();
    assert!(!file.set_modified(Timestamp(5)), "nothing is written yet");
    file.append(b"more").unwrap();
    assert!(file.set_modified(Timestamp(7)));
    assert_eq!(t.api.lookup_path(&lookup.path).unwrap().attr.modified, Timestamp(7));
    drop(file);
    let after = t.api.lookup_path(&lookup.path).unwrap().attr;
    assert_eq!((after.modified, after.size), (Timestamp(7), 7));
}

#[test]
fn a_call_conflicts_if_another_node_has_taken_the_path() {
    let t = subject();
    let (dir, file) = (t.directory("/rw/dir"), t.api.lookup_path(&path("/rw/dir/b")).unwrap());
    t.vfs.rename("/rw/dir", "/rw/elsewhere", crate::vfs::Overwrite::Refuse).unwrap();
    t.vfs.write("/rw/dir/b", "another").unwrap();
    let node = file.node.unwrap();
    assert_eq!(kind(t.api.unlink(&dir, &name("b"))), ErrorKind::Conflict);
    assert_eq!(kind(t.api.mkdir(&dir, &name("x"), 0o755)), ErrorKind::Conflict);
    assert_eq!(kind(t.api.open(&file.path, node, OpenOptions::write())), ErrorKind::Conflict);
    assert_eq!(kind(t.api.set_attributes((&file.path, node), Some(0), None)), ErrorKind::Conflict);
    let rw = t.directory("/rw");
    let moved = t.api.rename((&rw, &name("a")), (&dir, &name("a")), Replace::Overwrite);
    assert_eq!(kind(moved), ErrorKind::Conflict);
    assert_eq!(t.vfs.read("/rw/dir/b").unwrap().bytes, b"another");
    assert_eq!(t.vfs.read("/rw/elsewhere/b").unwrap().bytes, b"one");
}

#[test]
fn a_write_only_workspace_shows_only_the_kind_of_nodes_created_through_the_api() {
    let t = subject();
    let wo = t.directory("/wo");
    assert_eq!(kind(t.api.lookup(&wo, &name("old"))), ErrorKind::NotFound);
    assert_eq!(kind(t.api.begin_list(&wo)), ErrorKind::Denied);
    assert_eq!(kind(t.api.list(&wo, 10)), ErrorKind::Denied);
    let options = OpenOptions::write();
    let (file, lookup) = t.api.create(&wo, &name("new"), 0o644, Precondition::Any, options).unwrap();
    file.append(b"secret").unwrap();
    file.close().unwrap();
    assert_eq!((lookup.attr.kind, lookup.attr.size), (NodeKind::File, 0));
    let lookup = t.api.lookup(&wo, &name("new")).unwrap();
    assert_eq!((lookup.attr.kind, lookup.attr.size, lookup.attr.mode), (NodeKind::File, 0, 0o200));
    let node = lookup.node.unwrap();
    assert_eq!(kind(t.api.open(&lookup.path, node, OpenOptions::read())), ErrorKind::Denied);
    // Writing to an existing file looks like writing to a new one.
    let (old, _) = t.api.create(&wo, &name("old"), 0o644, Precondition::Any, options).unwrap();
    old.append(b" and two").unwrap();
    old.close().unwrap();
    t.vfs.mkdir("/wo/d", Parents::Create).unwrap();
    assert_eq!(kind(t.api.lookup(&wo, &name("d"))), ErrorKind::NotFound);
    assert_eq!(t.api.mkdir(&wo, &name("d"), 0o755).unwrap().attr.kind, NodeKind::Directory);
    assert_eq!(kind(t.api.mkdir(&wo, &name("old"), 0o755)), ErrorKind::Denied);
    assert_eq!(t.api.lookup(&wo, &name("d")).unwrap().attr.kind, NodeKind::Directory);
}

#[test]
fn nested_workspaces_are_shown_as_directories() {
    let t = subject();
    assert!(t.directory("/").node.is_none());
    assert_eq!(t.names("/"), ["ro", "rw", "wo"]);
    let deep = t.api.lookup(&t.directory("/rw"), &name("deep")).unwrap();
    assert!(deep.is_synthetic && deep.node.is_none());
    // The directory is created when something is put into it.
    let directory = DirectoryRef { path: deep.path, node: None };
    t.api.mkdir(&directory, &name("own"), 0o755).unwrap();
    assert_eq!(t.names("/rw/deep"), ["far", "own"]);
    let (rw, far) = (t.directory("/rw"), t.directory("/rw/deep/far"));
    let moved = t.api.rename((&rw, &name("a")), (&far, &name("a")), Replace::Overwrite);
    assert!(matches!(moved, Err(Error::AcrossWorkspaces { .. })), "{moved:?}");
    assert!(matches!(t.api.rmdir(&t.directory("/rw/deep"), &name("far")), Err(Error::IsWorkspace { .. })));
    assert!(matches!(t.api.rmdir(&rw, &name("deep")), Err(Error::ContainsWorkspace { .. })));
    assert_eq!(kind(t.api.mkdir(&t.directory("/"), &name("x"), 0o755)), ErrorKind::Denied);
    assert_eq!(kind(t.api.lookup(&t.directory("/"), &name("x"))), ErrorKind::Denied);
}

#[test]
fn protected_names_cannot_be_changed() {
    let t = subject();
    let rw = t.directory("/rw");
    t.api.mkdir(&rw, &name(".git"), 0o755).unwrap();
    let git = t.directory("/rw/.git");
    let options = OpenOptions::write();
    let result = t.api.create(&git, &name("config"), 0o644, Precondition::Any, options);
    assert!(matches!(result, Err(Error::Protected { .. })), "{result:?}");
    assert!(matches!(t.api.symlink(&git, &name("hooks"), b"/rw/dir"), Err(Error::Protected { .. })));
    let moved = t.api.rename((&rw, &name("a")), (&git, &name("config")), Replace::Overwrite);
    assert!(matches!(moved, Err(Error::Protected { .. })), "{moved:?}");
    let exchanged = t.api.rename((&rw, &name("dir")), (&rw, &name(".git")), Replace::Exchange);
    assert!(matches!(exchanged, Err(Error::Protected { .. })), "{exchanged:?}");
    t.api.rename((&rw, &name("a")), (&t.directory("/rw/dir"), &name("b")), Replace::Exchange).unwrap();
}

#[test]
fn a_hidden_file_is_listed_with_its_attributes_and_not_opened() {
    let t = subject();
    let rw = t.directory("/rw");
    let options = OpenOptions::read_write();
    let (file, _) = t.api.create(&rw, &name(".env"), 0o600, Precondition::Any, options).unwrap();
    // The program that has created the file keeps its handle.
    file.write_at(0, b"secret").unwrap();
    file.flush().unwrap();
    assert_eq!(file.read_at(0, &mut [0; 6]).unwrap(), 6);
    let created = t.api.lookup(&rw, &name(".env")).unwrap();
    t.api.set_attributes((&created.path, created.node.unwrap()), Some(0o640), None).unwrap();
    drop(file);
    t.api.symlink(&rw, &name("id_rsa"), b"a").unwrap();
    assert_eq!(t.names("/rw"), ["deep", ".env", "a", "dir", "id_rsa"]);
    let lookup = t.api.lookup(&rw, &name(".env")).unwrap();
    assert_eq!((lookup.attr.size, lookup.attr.mode), (6, 0o640));
    let node = lookup.node.unwrap();
    for result in [
        t.api.set_attributes((&lookup.path, node), Some(0o644), None).map(drop),
        t.api.open(&lookup.path, node, OpenOptions::read()).map(drop),
        t.api.open(&lookup.path, node, OpenOptions::write()).map(drop),
        t.api.create(&rw, &name(".env"), 0o600, Precondition::Any, options).map(drop),
        t.api.link_target(&path("/rw/id_rsa")).map(drop),
    ] {
        assert!(matches!(result, Err(Error::HiddenName { .. })), "{result:?}");
    }
    // For calls by path it doesn't exist.
    assert_eq!(kind(t.vfs.stat("/rw/.env")), ErrorKind::NotFound);
    t.api.unlink(&rw, &name(".env")).unwrap();
    t.api.create(&rw, &name(".env"), 0o600, Precondition::Absent, options).unwrap();
}

#[test]
fn no_rename_gives_a_hidden_file_a_name_under_which_it_can_be_opened() {
    let t = subject();
    let (rw, options) = (t.directory("/rw"), OpenOptions::write());
    t.api.mkdir(&rw, &name("node_modules"), 0o755).unwrap();
    let modules = t.directory("/rw/node_modules");
    for (directory, file) in [(&rw, ".env"), (&t.directory("/rw/dir"), "x.key"), (&modules, "test.key")] {
        t.api.create(directory, &name(file), 0o600, Precondition::Any, options).unwrap();
    }
    let rename = |from: &str, to: &str, replace| t.api.rename((&rw, &name(from)), (&rw, &name(to)), replace);
    for (from, to, replace) in [
        (".env", "plain", Replace::Overwrite),
        (".env", "a", Replace::Exchange),
        ("a", ".env", Replace::Exchange),
        // `*.key` isn't hidden below `node_modules`.
        ("dir", "vendor", Replace::Overwrite),
        ("dir", "node_modules", Replace::Exchange),
    ] {
        assert_eq!(kind(rename(from, to, replace)), ErrorKind::Denied, "{from} {to}");
    }
    // Hidden before and after, or hidden only after.
    rename(".env", ".env.old", Replace::Overwrite).unwrap();
    rename("dir", "dir2", Replace::Overwrite).unwrap();
    rename("a", ".env", Replace::Overwrite).unwrap();
    rename("node_modules", "packages", Replace::Overwrite).unwrap();
    assert_eq!(kind(rename("packages", "node_modules", Replace::Overwrite)), ErrorKind::Denied);
}

#[test]
fn names_that_no_path_can_hold_are_refused_and_not_found() {
    let t = subject();
    let rw = t.directory("/rw");
    for bytes in [&b"a\nb"[..], b"a\\b", b"a\xff"] {
        let name = Name::new(bytes).unwrap();
        assert_eq!(kind(t.api.lookup(&rw, &name)), ErrorKind::NotFound);
        assert_eq!(kind(t.api.mkdir(&rw, &name, 0o755)), ErrorKind::Invalid);
    }
}

#[test]
fn a_directory_is_listed_page_by_page() {
    let t = subject();
    for number in 0..25 {
        t.vfs.write(&*format!("/rw/dir/f{number:02}"), "x").unwrap();
    }
    t.audit_log.take();
    let dir = t.directory("/rw/dir");
    let begun = t.api.begin_list(&dir).unwrap();
    let mut page = t.api.list(&dir, 10).unwrap();
    let mut names: Vec<_> = page.entries.iter().map(|(name, _)| name.to_string()).collect();
    while let Some(next) = page.next {
        page = t.api.list_next(&dir, &next, 10).unwrap();
        names.extend(page.entries.iter().map(|(name, _)| name.to_string()));
    }
    assert_eq!(names.len(), 26);
    assert!(names.is_sorted());
    assert_eq!(t.records(), ["list /rw/dir ok"]);
    assert_eq!(t.api.begin_list(&dir).unwrap().attr, begun.attr);
    t.vfs.remove_file("/rw/dir/f00", RemoveOptions::default()).unwrap();
    assert_ne!(t.api.begin_list(&dir).unwrap().attr.changed, begun.attr.changed);
}

#[test]
fn an_open_file_shows_another_writers_change_after_a_refresh() {
    let t = subject();
    let lookup = t.api.lookup_path(&path("/rw/a")).unwrap();
    let node = lookup.node.unwrap();
    let file = t.api.open(&lookup.path, node, OpenOptions::read()).unwrap();
    t.vfs.write("/rw/a", "three").unwrap();
    t.api.refresh(lookup.workspace.unwrap(), node);
    let mut buffer = [0; 16];
    let count = file.read_at(0, &mut buffer).unwrap();
    assert_eq!(&buffer[..count], b"three");
}

#[test]
fn a_pipe_is_only_in_its_own_directory() {
    let t = subject();
    let (rw, dir, far) = (t.directory("/rw"), t.directory("/rw/dir"), t.directory("/rw/deep/far"));
    for directory in [&rw, &dir] {
        t.api.make_special(directory, &name("pipe"), SpecialKind::Fifo, 0o600).unwrap();
    }
    // A directory whose node wasn't known when it was looked up.
    let listed = t.api.list(&DirectoryRef { path: path("/rw"), node: None }, 100).unwrap();
    let names: Vec<_> = listed.entries.iter().map(|(name, _)| name.to_string()).collect();
    assert_eq!(names, ["deep", "pipe", "a", "dir"]);
    // A directory of another Store, with the same node id as the one that holds the pipe.
    let twin = (0..100).map(|number| name(&format!("d{number}"))).find(|name| {
        let created = t.api.mkdir(&far, name, 0o700).unwrap();
        created.node == dir.node
    });
    let twin = twin.expect("a Store counts its ids up");
    t.api.rmdir(&far, &twin).unwrap();
    assert_eq!(kind(t.api.rmdir(&rw, &name("dir"))), ErrorKind::AlreadyExists);
}
