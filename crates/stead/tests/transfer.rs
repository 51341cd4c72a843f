//! Import and export of trees.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use stead::store::QuotaLimits;
use stead::transfer::{
    CompareBy, ExportDestination, ImportSource, OmittedEntry, OnExisting, TransferObserver, TransferTotals,
    export, import,
};
use stead::vfs::{ListPage, Vfs};
use stead::{AccessScope, ErrorKind, Identity, MemoryStore, Mount, NodeKind, Stead, VfsPath, Workspace};

/// Collects what is left out.
#[derive(Default)]
struct Log(Vec<String>);

impl TransferObserver for Log {
    fn progressed(&mut self, _: &TransferTotals) {}
    fn omitted(&mut self, entry: &OmittedEntry) {
        self.0.push(format!("{}: {}", entry.path, entry.reason));
    }
}

fn stead(scope: AccessScope) -> Stead {
    let store = Arc::new(MemoryStore::new());
    let read_write = AccessScope::ReadWrite;
    Stead::builder("coder")
        .workspace("/in", scope, &store)
        .workspace("/all", read_write, &store)
        .build()
        .unwrap()
}

fn import_tree(vfs: &Vfs, source: ImportSource<'_>, compare: CompareBy) -> (TransferTotals, Vec<String>) {
    let mut log = Log::default();
    let totals = import(vfs, source, "/in/tree", compare, &mut log).unwrap();
    (totals, log.0)
}

fn export_tree(
    vfs: &Vfs,
    destination: ExportDestination<'_>,
    existing: OnExisting,
) -> (TransferTotals, Vec<String>) {
    let mut log = Log::default();
    let totals = export(vfs, "/in/tree", destination, existing, CompareBy::Attributes, &mut log).unwrap();
    (totals, log.0)
}

/// Makes a tree with everything that is transferred.
fn create_tree(root: &Path) {
    fs::create_dir_all(root.join("src/deep/er")).unwrap();
    fs::create_dir(root.join("empty")).unwrap();
    fs::write(root.join("README.md"), "hello\n").unwrap();
    fs::write(root.join("src/run.sh"), "#!/bin/sh\n").unwrap();
    fs::write(root.join("src/deep/er/caf\u{e9}"), "x").unwrap();
    fs::write(root.join("large"), (0..3_000_000_u32).flat_map(u32::to_le_bytes).collect::<Vec<_>>()).unwrap();
    fs::write(root.join("none"), "").unwrap();
    fs::write(root.join(format!("{}.txt", "long".repeat(40))), "long").unwrap();
    symlink("README.md", root.join("link")).unwrap();
    symlink("/nowhere/".to_owned() + &"far/".repeat(40), root.join("src/away")).unwrap();
    fs::set_permissions(root.join("src/run.sh"), fs::Permissions::from_mode(0o755)).unwrap();
    let old = SystemTime::UNIX_EPOCH + Duration::new(1_000_000_000, 123_456_789);
    fs::File::open(root.join("README.md")).unwrap().set_modified(old).unwrap();
    fs::File::open(root.join("src/deep")).unwrap().set_modified(old).unwrap();
    fs::set_permissions(root.join("empty"), fs::Permissions::from_mode(0o500)).unwrap();
}

/// Every path with its mode, time and content.
fn describe_tree(root: &Path) -> Vec<String> {
    let mut lines = Vec::new();
    let mut directories = vec![root.to_owned()];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(&directory).unwrap() {
            let path = entry.unwrap().path();
            let attr = path.symlink_metadata().unwrap();
            let relative = path.strip_prefix(root).unwrap().display().to_string();
            let content = if attr.is_dir() {
                directories.push(path.clone());
                "directory".to_owned()
            } else if attr.is_symlink() {
                lines.push(format!("{relative} -> {}", fs::read_link(&path).unwrap().display()));
                continue;
            } else {
                format!(
                    "{:x?}",
                    fs::read(&path)
                        .unwrap()
                        .iter()
                        .fold(7_u64, |sum, &b| sum.wrapping_mul(31) + u64::from(b))
                )
            };
            lines.push(format!(
                "{relative} {:o} {}.{:09} {content}",
                attr.mode(),
                attr.mtime(),
                attr.mtime_nsec()
            ));
        }
    }
    lines.sort();
    lines
}

#[test]
fn an_exported_directory_equals_the_imported_one() {
    let host = tempfile::tempdir().unwrap();
    let (from, to) = (host.path().join("from"), host.path().join("to"));
    create_tree(&from);
    let stead = stead(AccessScope::ReadWrite);
    let (totals, log) = import_tree(stead.vfs(), ImportSource::open(&from).unwrap(), CompareBy::Attributes);
    assert_eq!((totals.files, totals.directories, totals.symlinks), (6, 4, 2));
    assert_eq!(totals.bytes, 12_000_000 + 6 + 10 + 1 + 4);
    assert_eq!(log, [""; 0]);
    let (out, log) = export_tree(stead.vfs(), ExportDestination::at(&to), OnExisting::Refuse);
    assert_eq!((out.files, out.bytes, log.len()), (6, totals.bytes, 0));
    assert_eq!(describe_tree(&to), describe_tree(&from));
}

#[test]
fn a_tree_exported_from_an_imported_archive_equals_the_original() {
    let host = tempfile::tempdir().unwrap();
    let (from, archive, to) = (host.path().join("from"), host.path().join("a.tar"), host.path().join("to"));
    create_tree(&from);
    let first = stead(AccessScope::ReadWrite);
    import_tree(first.vfs(), ImportSource::open(&from).unwrap(), CompareBy::Attributes);
    export_tree(first.vfs(), ExportDestination::at(&archive), OnExisting::Refuse);
    let mut streamed = Vec::new();
    export_tree(first.vfs(), ExportDestination::Stream(Box::new(&mut streamed)), OnExisting::Refuse);
    assert_eq!(streamed, fs::read(&archive).unwrap());

    let second = stead(AccessScope::ReadWrite);
    let (totals, log) =
        import_tree(second.vfs(), ImportSource::open(&archive).unwrap(), CompareBy::Attributes);
    assert_eq!((totals.files, totals.directories, totals.symlinks, log.len()), (6, 4, 2, 0));
    export_tree(second.vfs(), ExportDestination::at(&to), OnExisting::Refuse);
    assert_eq!(describe_tree(&to), describe_tree(&from));
    let (repeated, _) =
        import_tree(second.vfs(), ImportSource::stream(&*streamed, "-").unwrap(), CompareBy::Attributes);
    assert_eq!((repeated.files, repeated.unchanged), (0, 8));
}

#[test]
fn unchanged_files_are_not_transferred_again() {
    let host = tempfile::tempdir().unwrap();
    let (from, to) = (host.path().join("from"), host.path().join("to"));
    create_tree(&from);
    let stead = stead(AccessScope::ReadWrite);
    let vfs = stead.vfs();
    import_tree(vfs, ImportSource::open(&from).unwrap(), CompareBy::Attributes);
    let before = vfs.stat("/in/tree/src").unwrap();
    let (repeated, _) = import_tree(vfs, ImportSource::open(&from).unwrap(), CompareBy::Attributes);
    assert_eq!(repeated, TransferTotals { unchanged: 8, ..TransferTotals::default() });
    assert_eq!(vfs.stat("/in/tree/src").unwrap(), before);

    fs::write(from.join("src/run.sh"), "#!/bin/sh\necho\n").unwrap();
    let (partial, _) = import_tree(vfs, ImportSource::open(&from).unwrap(), CompareBy::Attributes);
    assert_eq!((partial.files, partial.bytes, partial.unchanged), (1, 15, 7));

    export_tree(vfs, ExportDestination::at(&to), OnExisting::Refuse);
    let (repeated, _) = export_tree(vfs, ExportDestination::at(&to), OnExisting::Replace);
    assert_eq!((repeated.files, repeated.symlinks, repeated.unchanged), (0, 0, 8));
    assert_eq!(describe_tree(&to), describe_tree(&from));
}

#[test]
fn content_is_compared_if_attributes_are_not_trusted() {
    let host = tempfile::tempdir().unwrap();
    let from = host.path().join("from");
    create_tree(&from);
    let stead = stead(AccessScope::ReadWrite);
    import_tree(stead.vfs(), ImportSource::open(&from).unwrap(), CompareBy::Attributes);
    // The same size and time, but different content.
    let attr = fs::metadata(from.join("README.md")).unwrap();
    fs::write(from.join("README.md"), "HELLO\n").unwrap();
    fs::File::open(from.join("README.md")).unwrap().set_modified(attr.modified().unwrap()).unwrap();
    // The same content, but a different time.
    fs::File::open(from.join("large")).unwrap().set_modified(attr.modified().unwrap()).unwrap();
    let (totals, _) = import_tree(stead.vfs(), ImportSource::open(&from).unwrap(), CompareBy::Content);
    assert_eq!((totals.files, totals.unchanged), (1, 7));
    assert_eq!(stead.vfs().read("/in/tree/README.md").unwrap().bytes, b"HELLO\n");
    assert_eq!(
        stead.vfs().stat("/in/tree/large").unwrap().modified,
        stead.vfs().stat("/in/tree/README.md").unwrap().modified
    );
}

#[test]
fn an_import_into_a_write_only_workspace_works() {
    let host = tempfile::tempdir().unwrap();
    create_tree(&host.path().join("from"));
    let stead = stead(AccessScope::WriteOnly);
    for _ in 0..2 {
        let (totals, _) = import_tree(
            stead.vfs(),
            ImportSource::open(&host.path().join("from")).unwrap(),
            CompareBy::Content,
        );
        assert_eq!((totals.files, totals.unchanged), (6, 0));
    }
    assert_eq!(stead.vfs().read("/all/tree/README.md").unwrap().bytes, b"hello\n");
}

#[test]
fn an_import_into_a_read_only_workspace_is_denied() {
    let host = tempfile::tempdir().unwrap();
    let stead = stead(AccessScope::ReadOnly);
    let source = ImportSource::open(host.path()).unwrap();
    let denied = import(stead.vfs(), source, "/in", CompareBy::Attributes, &mut Log::default()).unwrap_err();
    assert_eq!(denied.kind(), ErrorKind::Denied);
    assert!(denied.to_string().contains("READ_ONLY: writing is not allowed there"));
}

#[test]
fn an_import_that_is_refused_leaves_nothing_behind() {
    let host = tempfile::tempdir().unwrap();
    create_tree(&host.path().join("from"));
    let limits = QuotaLimits { files: Some(0), ..QuotaLimits::default() };
    let workspace = Workspace::new(
        VfsPath::parse("/in").unwrap(),
        AccessScope::ReadWrite,
        Mount::new(Arc::new(MemoryStore::new())),
    );
    let vfs = Vfs::builder(Identity::agent("a")).workspace(workspace.with_quota(limits)).build().unwrap();
    let source = ImportSource::open(&host.path().join("from")).unwrap();
    let destination = "/in/new/tree";
    let refused = import(&vfs, source, destination, CompareBy::Attributes, &mut Log::default()).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Quota);
    assert_eq!(vfs.list("/in", &ListPage::all()).unwrap().total, 0);
    // An empty directory is imported as a directory.
    let empty = tempfile::tempdir().unwrap();
    let source = ImportSource::open(empty.path()).unwrap();
    import(&vfs, source, destination, CompareBy::Attributes, &mut Log::default()).unwrap();
    assert_eq!(vfs.stat(destination).unwrap().kind, NodeKind::Directory);
}

#[test]
fn entries_that_can_not_be_imported_are_reported() {
    let host = tempfile::tempdir().unwrap();
    let from = host.path();
    fs::create_dir_all(from.join(".git/hooks")).unwrap();
    fs::create_dir(from.join(".stead")).unwrap();
    fs::write(from.join(".git/hooks/pre-commit"), "evil").unwrap();
    fs::write(from.join(".git/HEAD"), "ref").unwrap();
    fs::write(from.join("a\nb"), "x").unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(from.join("socket")).unwrap();
    let stead = stead(AccessScope::ReadWrite);
    stead.vfs().write("/in/tree/.git/HEAD/x", "a directory where a file should be").unwrap();
    let (totals, log) = import_tree(stead.vfs(), ImportSource::open(from).unwrap(), CompareBy::Attributes);
    insta::assert_snapshot!(log.join("\n"), @r#"
    /in/tree/.git/HEAD: a directory with this name exists, but a file is needed
    /in/tree/.git/hooks/pre-commit: it is protected from agents
    /in/tree/.stead: it is Stead's own state directory
    /in/tree/a\u{a}b: this name can't be part of a path
    /in/tree/socket: it isn't a file, directory or symlink
    "#);
    assert_eq!((totals.skipped, totals.protected, totals.refused), (2, 1, 2));
}

fn archive(build: impl FnOnce(&mut tar::Builder<Vec<u8>>)) -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    build(&mut builder);
    builder.into_inner().unwrap()
}

/// Adds an entry with its name unchanged, however hostile.
fn append_raw(
    builder: &mut tar::Builder<Vec<u8>>,
    kind: tar::EntryType,
    name: &str,
    link: &str,
    content: &str,
) {
    let mut header = tar::Header::new_gnu();
    header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
    header.set_link_name_literal(link).unwrap();
    header.set_entry_type(kind);
    header.set_mode(0o4755);
    header.set_size(content.len() as u64);
    header.set_cksum();
    builder.append(&header, content.as_bytes()).unwrap();
}

#[test]
fn a_hostile_archive_writes_nothing_outside_the_destination() {
    use tar::EntryType::{Char, Directory, Link, Regular, Symlink};
    let stead = stead(AccessScope::ReadWrite);
    let hostile = archive(|tar| {
        append_raw(tar, Regular, "/etc/passwd", "", "root");
        append_raw(tar, Regular, "../../all/escaped", "", "x");
        append_raw(tar, Regular, "a/../../escaped", "", "x");
        append_raw(tar, Symlink, "door", "/all", "");
        append_raw(tar, Regular, "door/escaped", "", "x");
        append_raw(tar, Directory, "door", "", "");
        append_raw(tar, Directory, "door/escaped-too/", "", "");
        append_raw(tar, Regular, "file", "", "x");
        append_raw(tar, Regular, "file/below", "", "x");
        append_raw(tar, Link, "hard", "file", "");
        append_raw(tar, Link, "stolen", "door/secret", "");
        append_raw(tar, Link, "climbing", "../../all/secret", "");
        append_raw(tar, Char, "device", "", "");
        append_raw(tar, Regular, "tab\there", "", "x");
        append_raw(tar, Regular, "suid", "", "x");
        append_raw(tar, Regular, "file", "", "twice");
    });
    stead.vfs().write("/all/secret", "secret").unwrap();
    let (totals, log) =
        import_tree(stead.vfs(), ImportSource::stream(&*hostile, "-").unwrap(), CompareBy::Attributes);
    insta::assert_snapshot!(log.join("\n"), @r#"
    /etc/passwd: its path is absolute
    ../../all/escaped: its path contains `..`
    a/../../escaped: its path contains `..`
    /in/tree/door: a symlink with this name exists already
    /in/tree/door: a symlink with this name exists already
    /in/tree/door: a symlink with this name exists already
    /in/tree/file: a file with this name exists, but a directory is needed
    /in/tree/stolen: it is a hard link to a file that is not earlier in the archive
    climbing: its path contains `..`
    device: it isn't a file, directory or symlink
    tab\u{9}here: this name can't be part of a path
    "#);
    assert_eq!(totals.skipped, 1);
    let names = |path: &str| {
        let listed = stead.vfs().list(path, &ListPage::all()).unwrap();
        listed.entries.iter().map(|entry| entry.name.to_string()).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(names("/all"), "secret tree");
    assert_eq!(names("/in/tree"), "door file hard suid");
    assert_eq!(stead.vfs().read("/in/tree/hard").unwrap().bytes, b"x");
    assert_eq!(stead.vfs().read("/in/tree/file").unwrap().bytes, b"twice");
    assert_eq!(stead.vfs().stat("/in/tree/suid").unwrap().mode, 0o755);
}

#[test]
fn an_import_follows_no_existing_symlink() {
    let stead = stead(AccessScope::ReadWrite);
    stead.vfs().mkdir("/in/tree", stead::store::Parents::Create).unwrap();
    stead.vfs().symlink("/in/tree/door", "/all").unwrap();
    let hostile = archive(|tar| append_raw(tar, tar::EntryType::Regular, "door/escaped", "", "x"));
    let (_, log) =
        import_tree(stead.vfs(), ImportSource::stream(&*hostile, "-").unwrap(), CompareBy::Attributes);
    assert_eq!(log, ["/in/tree/door: a symlink with this name exists, but a directory is needed"]);
    assert!(!stead.vfs().exists("/all/escaped").unwrap());
}

#[test]
fn a_file_that_is_no_archive_is_refused() {
    let error_for = |bytes: &[u8]| ImportSource::stream(bytes, "x").unwrap_err().to_string();
    assert_eq!(error_for(b"hello"), "`x` isn't a tar archive");
    assert_eq!(error_for(&[b'a'; 600]), "`x` isn't a tar archive");
    assert!(error_for(&[0x1f, 0x8b, 8]).contains("gzip -dc FILE | stead import - PREFIX"));
    assert!(ImportSource::stream(&[0; 1024][..], "x").is_ok());
}

#[test]
fn a_truncated_archive_leaves_no_partial_file() {
    for size in [10, 20 << 20] {
        let complete = archive(|tar| append_raw(tar, tar::EntryType::Regular, "file", "", &"x".repeat(size)));
        let stead = stead(AccessScope::ReadWrite);
        let source = ImportSource::stream(&complete[..512 + size * 9 / 10], "x").unwrap();
        let error =
            import(stead.vfs(), source, "/in", CompareBy::Attributes, &mut Log::default()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
        assert!(!stead.vfs().exists("/in/file").unwrap());
    }
}

#[test]
fn an_export_writes_through_no_symlink_of_the_host() {
    let host = tempfile::tempdir().unwrap();
    let (to, outside) = (host.path().join("to"), host.path().join("outside"));
    fs::create_dir_all(&to).unwrap();
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("file"), "keep").unwrap();
    let stead = stead(AccessScope::ReadWrite);
    stead.vfs().write("/in/tree/directory/x", "1").unwrap();
    stead.vfs().write("/in/tree/file", "2").unwrap();
    stead.vfs().write("/in/tree/taken", "3").unwrap();
    symlink(&outside, to.join("directory")).unwrap();
    symlink(outside.join("file"), to.join("file")).unwrap();
    fs::create_dir(to.join("taken")).unwrap();

    let refused = export(
        stead.vfs(),
        "/in/tree",
        ExportDestination::at(&to),
        OnExisting::Refuse,
        CompareBy::Attributes,
        &mut Log::default(),
    );
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::AlreadyExists);
    let (totals, log) = export_tree(stead.vfs(), ExportDestination::at(&to), OnExisting::Replace);
    assert_eq!((totals.files, totals.refused), (1, 2));
    insta::assert_snapshot!(log.join("\n"), @r#"
    /in/tree/directory: something with this name exists there that isn't a directory; the destination stays as it is
    /in/tree/taken: a directory with this name exists there; the destination stays as it is
    "#);
    assert_eq!(fs::read_to_string(outside.join("file")).unwrap(), "keep");
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 1);
    assert!(to.join("file").symlink_metadata().unwrap().is_file());
    assert_eq!(fs::read_to_string(to.join("file")).unwrap(), "2");
}

#[test]
fn an_archive_is_replaced_completely_or_not_at_all() {
    let host = tempfile::tempdir().unwrap();
    let archive = host.path().join("a.tar");
    fs::write(&archive, "mine").unwrap();
    let stead = stead(AccessScope::ReadWrite);
    stead.vfs().write("/in/tree/file", "2").unwrap();
    let refused = export(
        stead.vfs(),
        "/in/tree",
        ExportDestination::at(&archive),
        OnExisting::Refuse,
        CompareBy::Attributes,
        &mut Log::default(),
    );
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::AlreadyExists);
    assert_eq!(fs::read_to_string(&archive).unwrap(), "mine");
    export_tree(stead.vfs(), ExportDestination::at(&archive), OnExisting::Replace);
    assert!(fs::read(&archive).unwrap().len() > 1024);
    assert_eq!(fs::read_dir(host.path()).unwrap().count(), 1);
}

#[test]
fn nested_workspaces_keep_their_own_scope() {
    let (outer, inner) = (Arc::new(MemoryStore::new()), Arc::new(MemoryStore::new()));
    let stead = Stead::builder("coder")
        .workspace("/in", AccessScope::ReadWrite, &outer)
        .workspace("/in/tree/box", AccessScope::WriteOnly, &inner)
        .build()
        .unwrap();
    let host = tempfile::tempdir().unwrap();
    let (from, to) = (host.path().join("from"), host.path().join("to"));
    fs::create_dir_all(from.join("box")).unwrap();
    for name in ["a", "box/b", "c"] {
        fs::write(from.join(name), name).unwrap();
    }
    let (totals, log) = import_tree(stead.vfs(), ImportSource::open(&from).unwrap(), CompareBy::Attributes);
    assert_eq!((totals.files, log.len()), (3, 0));
    let (totals, log) = export_tree(stead.vfs(), ExportDestination::at(&to), OnExisting::Refuse);
    assert_eq!((totals.files, totals.skipped), (2, 1));
    assert!(log[0].contains("WRITE_ONLY: reading is not allowed there"), "{log:?}");
    assert!(!to.join("box/b").exists());
}

#[test]
fn steads_own_names_are_neither_imported_into_directories_nor_exported() {
    let directory = tempfile::tempdir().unwrap();
    let (root, out) = (directory.path().join("root"), directory.path().join("out"));
    fs::create_dir(&root).unwrap();
    let options = stead::PhysicalOptions::new(directory.path().join("state"));
    let disk = Arc::new(stead::PhysicalStore::open(&root, options).unwrap());
    let notes = Arc::new(MemoryStore::new());
    let stead = Stead::builder("coder")
        .workspace("/in", AccessScope::ReadWrite, &disk)
        .workspace("/v", AccessScope::ReadWrite, &notes)
        .build()
        .unwrap();
    let tar = archive(|tar| {
        for name in ["a", ".stead/x", "sub/stead.toml", "z"] {
            append_raw(tar, tar::EntryType::Regular, name, "", "x");
        }
    });
    let (totals, log) =
        import_tree(stead.vfs(), ImportSource::stream(&*tar, "-").unwrap(), CompareBy::Attributes);
    assert_eq!((totals.files, totals.refused), (2, 2), "{log:?}");
    assert!(root.join("tree/a").exists() && root.join("tree/z").exists());
    assert!(!root.join("tree/.stead").exists() && !root.join("tree/sub/stead.toml").exists());

    let vfs = stead.vfs();
    for name in ["a", ".stead/stead.db", "stead.toml"] {
        vfs.write(format!("/v/{name}"), "evil").unwrap();
    }
    fs::create_dir_all(out.join(".stead")).unwrap();
    fs::write(out.join("stead.toml"), "mine").unwrap();
    let mut log = Log::default();
    let destination = ExportDestination::Directory(out.clone());
    export(vfs, "/v", destination, OnExisting::Replace, CompareBy::Attributes, &mut log).unwrap();
    assert_eq!(log.0.len(), 2, "{:?}", log.0);
    assert_eq!(fs::read_to_string(out.join("stead.toml")).unwrap(), "mine");
    assert!(out.join("a").exists() && !out.join(".stead/stead.db").exists());
}

#[test]
fn an_export_that_was_killed_can_be_repeated() {
    let host = tempfile::tempdir().unwrap();
    let stead = stead(AccessScope::ReadWrite);
    stead.vfs().write("/in/tree/a", "content").unwrap();
    let (archive, partial) = (host.path().join("out.tar"), host.path().join("out.tar.partial"));
    let export_to_archive = || {
        let destination = ExportDestination::Archive(archive.clone());
        export(
            stead.vfs(),
            "/in/tree",
            destination,
            OnExisting::Refuse,
            CompareBy::Attributes,
            &mut Log::default(),
        )
    };
    // Another export is writing it.
    let running = fs::File::create(&partial).unwrap();
    running.lock().unwrap();
    export_to_archive().unwrap_err();
    // What a killed export leaves is longer than what is written now.
    fs::write(&partial, vec![b'x'; 1 << 20]).unwrap();
    drop(running);
    export_to_archive().unwrap();
    assert!(!partial.exists());
    assert!(fs::metadata(&archive).unwrap().len() < 1 << 20);
    // A symlink there leads nowhere.
    fs::remove_file(&archive).unwrap();
    fs::write(host.path().join("precious"), "precious").unwrap();
    symlink("precious", &partial).unwrap();
    export_to_archive().unwrap_err();
    assert_eq!(fs::read(host.path().join("precious")).unwrap(), b"precious");
}
