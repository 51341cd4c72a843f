//! Every call leaves one record, whatever its outcome, and no call is made that can't be recorded.

use std::collections::BTreeSet;
use std::io::Read as _;

use super::*;
use crate::audit::{AuditLog, AuditOutcome, AuditRecord};
use crate::audit_facts::{AuditFacts, FactName};
use crate::clock::{Clock as _, SystemClock};
use crate::store::{Fork, QuotaLimits};
use crate::testkit::MemoryAuditLog;
use crate::vfs::{ForkHandle, MergeOptions};
use crate::workspace::ApprovalPolicy;

/// A `Vfs` with one Workspace of each scope. `store_records` says whether its Store records its own changes.
fn audited_vfs(store_records: bool) -> (Vfs, Arc<MemoryAuditLog>) {
    let audit_log = Arc::new(MemoryAuditLog::new());
    let store = || match store_records {
        true => Arc::new(ModelStore::recording(Arc::clone(&audit_log))),
        false => Arc::new(ModelStore::new()),
    };
    let (shared, other) = (store(), store());
    let builder = Vfs::builder(Identity::agent("tester").with_thread("t1")).audit(audit_log.clone());
    let workspaces = [
        workspace("/rw", ReadWrite, &shared),
        workspace("/ro", ReadOnly, &shared),
        workspace("/wo", WriteOnly, &shared),
        workspace("/far", ReadWrite, &other),
    ];
    let vfs = workspaces.into_iter().fold(builder, VfsBuilder::workspace).build().unwrap();
    for name in ["a", "b", "c", "d", "dir/e"] {
        vfs.write(&*format!("/rw/{name}"), "one\ntwo\n").unwrap();
    }
    vfs.symlink("/rw/link", "a").unwrap();
    audit_log.take();
    (vfs, audit_log)
}

fn format_record(record: &AuditRecord) -> String {
    let paths: Vec<_> = record.paths.iter().map(ToString::to_string).collect();
    let code = record.outcome.code().map_or(String::new(), |code| format!(":{code}"));
    let bytes = record.bytes.map_or(String::new(), |bytes| format!(" {bytes}"));
    format!("{} {} {}{code}{bytes}", record.call, paths.join(","), record.outcome.as_str())
}

/// The records since the last call, without the Begun ones.
fn finished_records(audit_log: &MemoryAuditLog) -> Vec<String> {
    let records = audit_log.take();
    for record in &records {
        assert_eq!((&*record.identity.agent, record.identity.thread.as_deref()), ("tester", Some("t1")));
    }
    records.iter().filter(|record| record.outcome != AuditOutcome::Begun).map(format_record).collect()
}

type VfsCall = fn(&Vfs) -> Result<()>;

/// Every public call of `Vfs` and `Batch`: its name, an example, and its record.
const CALLS: &[(&str, VfsCall, &str)] = &[
    ("stat", |vfs| vfs.stat("/rw/a").map(drop), "stat /rw/a ok"),
    ("stat_link", |vfs| vfs.stat_link("/rw/link").map(drop), "stat /rw/link ok"),
    ("exists", |vfs| vfs.exists("/rw/none").map(drop), "exists /rw/none ok"),
    ("is_file", |vfs| vfs.is_file("/rw/a").map(drop), "is_file /rw/a ok"),
    ("is_directory", |vfs| vfs.is_directory("/rw/a").map(drop), "is_directory /rw/a ok"),
    ("read", |vfs| vfs.read("/rw/link").map(drop), "read /rw/link,/rw/a ok 8"),
    ("read_many", |vfs| vfs.read_many(["/rw/a"]).remove(0).map(drop), "read /rw/a ok 8"),
    (
        "read_range",
        |vfs| vfs.read_range("/rw/a", ByteRange { offset: 2, length: 3 }).map(drop),
        "read_range /rw/a ok 3",
    ),
    (
        "read_text_range",
        |vfs| vfs.read_text_range("/rw/a", ByteRange { offset: 2, length: 3 }).map(drop),
        "read_range /rw/a ok 3",
    ),
    ("read_lines", |vfs| vfs.read_lines("/rw/a", LineRange::default()).map(drop), "read_lines /rw/a ok 8"),
    ("read_link", |vfs| vfs.read_link("/rw/link").map(drop), "read_link /rw/link ok 1"),
    (
        "reader",
        |vfs| {
            vfs.reader("/rw/a")?.read_exact(&mut [0; 5]).unwrap();
            Ok(())
        },
        "read /rw/a ok 5",
    ),
    (
        "open",
        |vfs| {
            let file = vfs.open("/rw/a", OpenOptions::read())?;
            file.read_at(0, &mut [0; 3])?;
            file.read_at(0, &mut [0; 4])?;
            file.close()
        },
        "open /rw/a ok 7",
    ),
    ("is_readable_on_host", |vfs| vfs.is_readable_on_host("/rw/a").map(drop), "stat /rw/a ok"),
    ("list", |vfs| vfs.list("/", &ListPage::all()).map(drop), "list / ok"),
    ("walk", |vfs| vfs.walk("/", &WalkQuery::default()).map(drop), "walk / ok"),
    ("glob", |vfs| vfs.glob(&GlobQuery::new("**/*.md"), "/").map(drop), "glob / ok"),
    ("count_hidden", |vfs| vfs.count_hidden("/").map(drop), "count_hidden / ok"),
    ("grep", |vfs| vfs.grep(&GrepQuery::new("two"), "/").map(drop), "grep / ok"),
    ("write", |vfs| vfs.write("/rw/new", "123").map(drop), "write /rw/new ok 3"),
    (
        "write_with",
        |vfs| vfs.write_with("/rw/new2", "123", &WriteOptions::new().create_only()).map(drop),
        "write /rw/new2 ok 3",
    ),
    (
        "write_from",
        |vfs| vfs.write_from("/rw/new3", &mut &b"1234"[..], &WriteOptions::new()).map(drop),
        "write /rw/new3 ok 4",
    ),
    ("append", |vfs| vfs.append("/rw/a", "12").map(drop), "append /rw/a ok 2"),
    (
        "append_with",
        |vfs| vfs.append_with("/rw/a", "12", &WriteOptions::new()).map(drop),
        "append /rw/a ok 2",
    ),
    (
        "append_text",
        |vfs| vfs.append_text("/rw/new", "\n", &WriteOptions::new()).map(drop),
        "append /rw/new ok 1",
    ),
    ("edit", |vfs| vfs.edit("/rw/b", "two", "2", Occurrences::One).map(drop), "edit /rw/b ok"),
    (
        "edit_with",
        |vfs| vfs.edit_with("/rw/c", "two", "2", Occurrences::One, None).map(drop),
        "edit /rw/c ok",
    ),
    (
        "edit_all",
        |vfs| {
            let [old, new] = ["2", "two"];
            vfs.edit_all("/rw/c", &[Replacement { old, new, occurrences: Occurrences::All }], None).map(drop)
        },
        "edit /rw/c ok",
    ),
    ("mkdir", |vfs| vfs.mkdir("/rw/x/y", Parents::Create).map(drop), "mkdir /rw/x/y ok"),
    ("symlink", |vfs| vfs.symlink("/rw/link2", "b").map(drop), "symlink /rw/link2 ok"),
    (
        "set_attributes",
        |vfs| vfs.set_attributes("/rw/a", Some(0o600), None).map(drop),
        "set_attributes /rw/a ok",
    ),
    ("remove_file", |vfs| vfs.remove_file("/rw/d", RemoveOptions::default()).map(drop), "remove /rw/d ok"),
    (
        "remove_directory",
        |vfs| {
            let options = RemoveOptions { recursive: true, ..RemoveOptions::default() };
            vfs.remove_directory("/rw/x", options).map(drop)
        },
        "remove /rw/x ok",
    ),
    ("copy", |vfs| vfs.copy("/rw/a", "/far/a", Overwrite::Refuse).map(drop), "copy /rw/a,/far/a ok 12"),
    ("rename", |vfs| vfs.rename("/rw/b", "/far/b", Overwrite::Refuse).map(drop), "move /rw/b,/far/b ok 6"),
    (
        "rename_if",
        |vfs| {
            let tag = vfs.current_tag("/rw/c");
            vfs.rename_if("/rw/c", "/rw/c2", Overwrite::Refuse, tag).map(drop)
        },
        "move /rw/c,/rw/c2 ok",
    ),
    ("as_of", |vfs| vfs.as_of(PointInTime::Now).map(drop), "as_of  ok"),
    ("authorize_discard", |vfs| vfs.authorize_discard("/rw"), "discard /rw ok"),
    (
        "batch",
        |vfs| {
            let mut batch = vfs.batch();
            batch.write("/rw/n/1", "1", &WriteOptions::new())?;
            batch.write_from("/rw/n/2", &mut &b"22"[..], &WriteOptions::new())?;
            batch.mkdir("/rw/n/3", None)?;
            batch.symlink("/rw/n/4", b"1")?;
            batch.set_attributes("/rw/n/1", Some(0o600), None)?;
            batch.remove_file("/rw/n/5")?;
            batch.apply().map(drop)
        },
        "batch /rw/n ok 3",
    ),
];

/// Calls that need history, on a Store that has none: they are recorded as well.
const HISTORY_CALLS: &[(&str, VfsCall, &str)] = &[
    ("log", |vfs| vfs.log(&LogQuery::default()).map(drop), "log  failed:invalid"),
    (
        "diff",
        |vfs| vfs.diff("/rw", PointInTime::Now, PointInTime::Now, DiffOptions::default()).map(drop),
        "diff /rw failed:unsupported",
    ),
    ("blame", |vfs| vfs.blame("/rw/a").map(drop), "blame /rw/a failed:unsupported"),
    ("undo", |vfs| vfs.undo(UndoTarget::Last(1), UndoOptions::default()).map(drop), "undo  failed:invalid"),
    (
        "restore",
        |vfs| vfs.restore("/rw", PointInTime::Now, &RestoreOptions::default()).map(drop),
        "restore /rw failed:unsupported",
    ),
    (
        "revision_at",
        |vfs| vfs.revision_at("/rw", PointInTime::Now).map(drop),
        "revision_at /rw failed:unsupported",
    ),
    ("fork", |vfs| vfs.fork("/rw", "draft".parse().unwrap(), "a").map(drop), "fork /rw failed:unsupported"),
    (
        "fork_with_nested",
        |vfs| vfs.fork_with_nested("/rw", "draft".parse().unwrap(), "a", None).map(drop),
        "fork /rw failed:unsupported",
    ),
    (
        "merge_fork",
        |vfs| with_fork(vfs, |fork| vfs.merge_fork("/rw", fork, &MergeOptions::default()).map(drop)),
        "merge /rw failed:unsupported",
    ),
    (
        "unmerged_changes",
        |vfs| {
            with_fork(vfs, |fork| {
                vfs.unmerged_changes(Some(&path("/rw")), fork, &MergeOptions::default()).map(drop)
            })
        },
        "merge /rw failed:unsupported",
    ),
    (
        "update_fork",
        |vfs| with_fork(vfs, |fork| vfs.update_fork("/rw", fork, &MergeOptions::default()).map(drop)),
        "update /rw failed:unsupported",
    ),
    (
        "diff_fork",
        |vfs| with_fork(vfs, |fork| vfs.diff_fork("/rw", fork, DiffOptions::default()).map(drop)),
        "diff /rw failed:unsupported",
    ),
];

/// Calls a function with a fork whose Store has no forks.
fn with_fork<T>(vfs: &Vfs, call: impl FnOnce(ForkHandle<'_>) -> T) -> T {
    let workspace = vfs.workspaces().find(|workspace| workspace.prefix().as_str() == "/rw").unwrap();
    let fork = Fork {
        owner: "a".into(),
        name: "draft".parse().unwrap(),
        created_by: "a".into(),
        base_prefix: path("/rw"),
        path: VfsPath::root(),
        protect: Vec::new(),
        hide: Vec::new(),
        scratch: Vec::new(),
        quota: QuotaLimits::default(),
        approval_policy: ApprovalPolicy::default(),
        excluded: Vec::new(),
        created: SystemClock.now(),
        pinned_at: None,
        lease: None,
        place: VfsPath::root(),
        scope: AccessScope::ReadWrite,
        parts: Vec::new(),
        made_by: None,
    };
    call(ForkHandle { fork: &fork, store: workspace.mount().store() })
}

impl Vfs {
    /// A file's version tag, read without a call.
    fn current_tag(&self, text: &str) -> crate::store::VersionTag {
        let path = path(text);
        let route = self.router().route(&path).unwrap();
        let mount = route.workspace.mount();
        mount.store().stat(&mount.node_path(route.relative_path)).unwrap().tag
    }
}

#[test]
fn every_call_makes_one_record() {
    for store_records in [true, false] {
        let (vfs, audit_log) = audited_vfs(store_records);
        for (name, call, expected) in CALLS {
            call(&vfs).unwrap_or_else(|error| panic!("{name}: {error}"));
            assert_eq!(finished_records(&audit_log), [*expected], "{name}");
        }
        for (name, call, expected) in HISTORY_CALLS {
            assert!(call(&vfs).is_err(), "{name}");
            assert_eq!(finished_records(&audit_log), [*expected], "{name}");
        }
    }
}

#[test]
fn every_public_call_is_in_the_audit_test() {
    let sources = [
        include_str!("../mod.rs"),
        include_str!("../read.rs"),
        include_str!("../list.rs"),
        include_str!("../as_of.rs"),
        include_str!("../search.rs"),
        include_str!("../hiding.rs"),
        include_str!("../write.rs"),
        include_str!("../append.rs"),
        include_str!("../edit.rs"),
        include_str!("../suggest.rs"),
        include_str!("../copy.rs"),
        include_str!("../open_file.rs"),
        include_str!("../batch.rs"),
        include_str!("../fork.rs"),
        include_str!("../compound.rs"),
        include_str!("../history/log.rs"),
        include_str!("../history/compare.rs"),
        include_str!("../history/restore.rs"),
        include_str!("../history/undo.rs"),
        include_str!("../history/merge/mod.rs"),
        include_str!("../history/merge/unmerged.rs"),
    ];
    // These answer without calling a Store, or look something up for a call that is recorded.
    let unaudited = [
        "message_with_suggestion",
        "builder",
        "identity",
        "lease",
        "has_read_files",
        "workspaces",
        "with_workspaces",
        "router",
        "operation",
        "with_approval",
        "with_monitor",
        "with_facts",
        "with_symlinks",
        "facts",
        "watch",
        "compound",
        "set_file_count",
        "note_partial_failure",
        "store_revisions",
        "find_operations",
        "workspaces_forked_with",
        "has_fork_changes",
        "has_target_changes",
    ];
    let mut public_calls = BTreeSet::new();
    for source in sources {
        for impl_block in source.split("\nimpl Vfs {").skip(1) {
            let (impl_block, _) = impl_block.split_once("\n}\n").unwrap();
            let names =
                impl_block.split("    pub fn ").skip(1).map(|rest| rest.split(['(', '<']).next().unwrap());
            public_calls.extend(names.filter(|name| !unaudited.contains(name)));
        }
    }
    let tested: BTreeSet<_> = CALLS.iter().chain(HISTORY_CALLS).map(|(name, ..)| *name).collect();
    assert_eq!(public_calls, tested);
}

#[test]
fn refused_and_failed_calls_are_recorded() {
    let (vfs, audit_log) = audited_vfs(true);
    let options = WriteOptions::new();
    let cases: [(VfsCall, &str); 11] = [
        (|vfs| vfs.read("/nowhere/x").map(drop), "read /nowhere/x denied:denied"),
        (|vfs| vfs.read("/wo/a").map(drop), "read /wo/a denied:denied"),
        (|vfs| vfs.write("/ro/a", "x").map(drop), "write /ro/a denied:denied 1"),
        (|vfs| vfs.write("/rw/.git/config", "x").map(drop), "write /rw/.git/config denied:denied 1"),
        (|vfs| vfs.read("/../x").map(drop), "read  failed:invalid"),
        (|vfs| vfs.copy("/rw/a", "/b\0", Overwrite::Refuse).map(drop), "copy /rw/a failed:invalid"),
        (|vfs| vfs.read("/rw/none").map(drop), "read /rw/none failed:not_found"),
        (|vfs| vfs.reader("/rw/none").map(drop), "read /rw/none failed:not_found"),
        (|vfs| vfs.open("/wo/a", OpenOptions::read()).map(drop), "open /wo/a denied:denied"),
        (|vfs| vfs.rename("/ro/a", "/far/a", Overwrite::Refuse).map(drop), "move /ro/a,/far/a denied:denied"),
        (|vfs| vfs.glob(&GlobQuery::new("["), "/rw").map(drop), "glob /rw failed:invalid"),
    ];
    for (call, expected) in cases {
        call(&vfs).unwrap_err();
        assert_eq!(finished_records(&audit_log), [expected]);
    }
    // A refused step is recorded at once; the steps added before it are recorded with the batch.
    let mut batch = vfs.batch();
    batch.write("/rw/x", "1", &options).unwrap();
    batch.write("/ro/x", "1", &options).unwrap_err();
    assert_eq!(finished_records(&audit_log), ["batch /ro/x denied:denied"]);
    batch.apply().unwrap();
    assert_eq!(finished_records(&audit_log), ["batch /rw ok 1"]);
}

#[test]
fn a_record_names_the_tool_the_scope_the_operation_and_the_version() {
    let (vfs, audit_log) = audited_vfs(true);
    let tool = vfs.operation("write_file");
    let written = tool.write("/wo/x", "1").unwrap();
    tool.exists("/rw").unwrap();
    vfs.exists("/").unwrap();
    let [write, exists, plain] = <[AuditRecord; 3]>::try_from(audit_log.take()).unwrap();
    assert_eq!((&*write.call, write.scope, write.outcome), ("write_file", Some(WriteOnly), AuditOutcome::Ok));
    assert_eq!(
        (write.operation, write.revision),
        (Some(written.operation), written.revision.map(|revision| revision.number))
    );
    assert_eq!(
        (&*exists.call, exists.scope, exists.operation),
        ("write_file", Some(ReadWrite), write.operation)
    );
    assert_eq!((&*plain.call, plain.scope, plain.operation), ("exists", None, None));
}

#[test]
fn every_record_has_the_facts_of_its_vfs() {
    let fact = FactName::new("executor.run").unwrap();
    for store_records in [true, false] {
        let (vfs, audit_log) = audited_vfs(store_records);
        let facts = AuditFacts::default().with(fact.clone(), 7).unwrap();
        let vfs_with_facts = vfs.with_facts(facts.clone());
        vfs_with_facts.operation("write_file").write("/rw/a", "1").unwrap();
        vfs_with_facts.rename("/rw/b", "/far/b", Overwrite::Refuse).unwrap();
        vfs_with_facts.write("/ro/a", "1").unwrap_err();
        drop(vfs_with_facts.reader("/rw/c").unwrap());
        vfs_with_facts
            .compound("import", "/rw", |_: &Error| None, |vfs| vfs.write("/rw/d", "1").map(drop))
            .unwrap();
        let end = |_: &Error| CallEnd::Pending;
        vfs_with_facts.single_record("undo", None, end, |_| Ok(())).unwrap();
        let records = audit_log.take();
        assert!(records.len() >= 8, "{records:?}");
        assert!(records.iter().all(|record| record.facts == facts), "{records:?}");
        vfs.read("/rw/a").unwrap();
        assert!(audit_log.take()[0].facts.is_empty());
    }
}

#[test]
fn a_call_that_cannot_be_recorded_is_not_made() {
    for store_records in [true, false] {
        let (vfs, audit_log) = audited_vfs(store_records);
        audit_log.set_full(true);
        assert!(matches!(vfs.read("/rw/a"), Err(Error::AuditUnavailable(_))));
        assert!(matches!(vfs.reader("/rw/a"), Err(Error::AuditUnavailable(_))));
        assert!(matches!(vfs.open("/rw/a", OpenOptions::read()), Err(Error::AuditUnavailable(_))));
        assert_eq!(kind(vfs.write("/rw/new", "x")), ErrorKind::Unavailable);
        assert_eq!(kind(vfs.write("/ro/new", "x")), ErrorKind::Unavailable);
        assert_eq!(kind(vfs.rename("/rw/a", "/far/a", Overwrite::Refuse)), ErrorKind::Unavailable);
        audit_log.set_full(false);
        assert_eq!(names(&vfs, "/rw"), "a b c d dir link");
        assert_eq!(names(&vfs, "/far"), "");
    }
}

#[test]
fn changes_of_a_store_without_records_are_recorded_before_and_after() {
    let (vfs, audit_log) = audited_vfs(false);
    vfs.write("/rw/new", "x").unwrap();
    vfs.write("/rw/link", "y").unwrap();
    vfs.remove_file("/rw/none", RemoveOptions::default()).unwrap_err();
    let formatted: Vec<_> = audit_log.take().iter().map(format_record).collect();
    let expected = [
        "write /rw/new begun 1",
        "write /rw/new ok 1",
        // Announced again where a symlink led elsewhere: the record has to name the path before it is changed.
        "write /rw/link begun 1",
        "write /rw/link,/rw/a begun 1",
        "write /rw/link,/rw/a ok 1",
        "remove /rw/none begun",
        "remove /rw/none failed:not_found",
    ];
    assert_eq!(formatted, expected);
}

#[test]
fn a_move_between_stores_is_announced_and_then_done() {
    let (vfs, audit_log) = audited_vfs(true);
    vfs.rename("/rw/a", "/far/a", Overwrite::Refuse).unwrap();
    let records = audit_log.take();
    let formatted: Vec<_> = records.iter().map(format_record).collect();
    assert_eq!(formatted, ["move /rw/a,/far/a begun 8", "move /rw/a,/far/a ok 8"]);
    assert_eq!(records[0].operation, records[1].operation);
}

#[test]
fn an_open_file_makes_one_record_for_its_reads_and_one_for_each_change() {
    let (vfs, audit_log) = audited_vfs(true);
    let file = vfs.open("/rw/made", OpenOptions::write().create()).unwrap();
    assert_eq!(finished_records(&audit_log), ["open /rw/made ok"]);
    file.write_at(0, b"12345").unwrap();
    file.sync().unwrap();
    file.sync().unwrap();
    assert_eq!(finished_records(&audit_log), ["open /rw/made ok 5"]);
    file.close().unwrap();
    assert_eq!(finished_records(&audit_log), [""; 0]);

    let file = vfs.open("/rw/made", OpenOptions::read_write()).unwrap();
    assert_eq!(audit_log.take().iter().map(format_record).collect::<Vec<_>>(), ["open /rw/made begun"]);
    file.write_at(5, b"6").unwrap();
    file.read_at(0, &mut [0; 6]).unwrap();
    file.close().unwrap();
    assert_eq!(finished_records(&audit_log), ["open /rw/made ok 6", "open /rw/made ok 6"]);

    vfs.open("/rw/made", OpenOptions::write()).unwrap().close().unwrap();
    assert_eq!(finished_records(&audit_log), ["open /rw/made ok 0"]);
}

#[test]
fn a_store_that_records_to_another_log_is_not_relied_on() {
    let store = Arc::new(ModelStore::recording(Arc::new(MemoryAuditLog::new())));
    let audit_log = Arc::new(MemoryAuditLog::new());
    assert_ne!(store.info().database, Some(audit_log.database()));
    let builder = Vfs::builder(Identity::agent("tester")).audit(audit_log.clone());
    let vfs = builder.workspace(workspace("/", ReadWrite, &store)).build().unwrap();
    vfs.write("/a", "1").unwrap();
    assert_eq!(audit_log.take().len(), 2);
}

/// Reads, writes, looks for a missing file, and returns `result`.
fn many_calls(vfs: &Vfs, result: Result<()>) -> Result<()> {
    vfs.stat("/rw/a")?;
    vfs.read("/rw/a")?;
    assert!(vfs.stat("/rw/none").is_err());
    let mut batch = vfs.batch();
    batch.write("/rw/in/1", "12345", &WriteOptions::new())?;
    batch.apply()?;
    vfs.operation("another").write("/rw/in/2", "1")?;
    std::io::copy(&mut vfs.reader("/rw/b")?, &mut std::io::sink()).unwrap();
    vfs.set_file_count(2);
    result
}

#[test]
fn a_compound_operation_makes_one_record_and_one_for_each_change() {
    let kind = |error: &Error| Some(error.kind());
    let (vfs, audit_log) = audited_vfs(true);
    vfs.compound("import", "/rw/in", kind, |vfs| many_calls(vfs, Ok(()))).unwrap();
    let records = audit_log.take();
    let formatted: Vec<_> = records.iter().map(format_record).collect();
    let expected =
        ["import /rw/in begun", "import /rw/in begun 5", "import /rw/in/2 begun 1", "import /rw/in ok 22"];
    assert_eq!(formatted, expected);
    assert_eq!((records[3].file_count, records[3].scope), (Some(2), Some(ReadWrite)));
    assert!(records.iter().all(|record| record.operation == records[0].operation));

    vfs.compound("import", "/rw/in", kind, |vfs| many_calls(vfs, Err(Error::Invalid("no".into()))))
        .unwrap_err();
    assert_eq!(finished_records(&audit_log), ["import /rw/in failed:invalid 22"]);
    let result =
        vfs.compound("import", "/../x", kind, |_| -> Result<()> { unreachable!("the path is invalid") });
    assert_eq!(
        (kind(&result.unwrap_err()), finished_records(&audit_log)),
        (Some(ErrorKind::Invalid), vec!["import  failed:invalid".into()])
    );

    // For a Store that doesn't record its own changes, one record announces all of them.
    let (vfs, audit_log) = audited_vfs(false);
    vfs.compound("import", "/rw/in", kind, |vfs| many_calls(vfs, Ok(()))).unwrap();
    let formatted: Vec<_> = audit_log.take().iter().map(format_record).collect();
    let is_persistent = vfs.workspaces().next().unwrap().mount().store().info().is_persistent();
    let mut expected = vec!["import /rw/in begun"; 1 + usize::from(is_persistent)];
    expected.push("import /rw/in ok 22");
    assert_eq!(formatted, expected);
}

#[test]
fn a_denial_within_a_compound_operation_is_recorded_once() {
    let kind = |error: &Error| Some(error.kind());
    let (vfs, audit_log) = audited_vfs(true);
    vfs.compound("cat", "/wo/a", kind, |vfs| vfs.read("/wo/a")).unwrap_err();
    assert_eq!(finished_records(&audit_log), ["cat /wo/a denied:denied"]);
    let read_all = |vfs: &Vfs| {
        vfs.read("/wo").unwrap_err();
        vfs.read("/wo/a").unwrap_err();
        vfs.read("/wo").unwrap_err();
        Ok(())
    };
    vfs.compound("export", "/wo", kind, read_all).unwrap();
    let denied = ["export /wo/a denied:denied", "export /wo denied:denied", "export /wo denied:denied"];
    assert_eq!(finished_records(&audit_log), [&denied[..], &["export /wo ok"]].concat());
}

#[test]
fn a_compound_operation_that_cannot_be_recorded_does_not_begin() {
    let (vfs, audit_log) = audited_vfs(true);
    audit_log.set_full(true);
    let kind = |error: &Error| Some(error.kind());
    let result = vfs.compound("export", "/rw", kind, |_| -> Result<()> {
        unreachable!("the call is refused before it starts")
    });
    assert!(matches!(result, Err(Error::AuditUnavailable(_))));
}

#[test]
fn a_record_names_the_stead() {
    let audit_log = Arc::new(MemoryAuditLog::new());
    let store = Arc::new(ModelStore::recording(Arc::clone(&audit_log)));
    let builder = Vfs::builder(Identity::agent("tester")).stead("tester/t").audit(audit_log.clone());
    let vfs = builder.workspace(workspace("/", ReadWrite, &store)).build().unwrap();
    vfs.write("/a", "1").unwrap();
    vfs.read("/a").unwrap();
    vfs.compound("cat", "/a", |_: &Error| None, |vfs| vfs.read("/a")).unwrap();
    let records = audit_log.take();
    assert_eq!(records.len(), 4);
    assert!(records.iter().all(|record| record.stead.as_deref() == Some("tester/t")));
}

#[test]
fn a_record_names_the_target_of_a_symlink() {
    for store_records in [true, false] {
        let (vfs, audit_log) = audited_vfs(store_records);
        vfs.symlink("/rw/far", "/far").unwrap();
        vfs.symlink("/rw/closed", "/ro").unwrap();
        audit_log.take();
        vfs.write("/rw/far/x", "1").unwrap();
        vfs.read("/rw/far/x").unwrap();
        vfs.list("/rw/far", &ListPage::all()).unwrap();
        vfs.copy("/rw/far/x", "/rw/far/y", Overwrite::Refuse).unwrap();
        vfs.write("/rw/closed/x", "1").unwrap_err();
        assert_eq!(
            finished_records(&audit_log),
            [
                "write /rw/far/x,/far/x ok 1",
                "read /rw/far/x,/far/x ok 1",
                "list /rw/far,/far ok",
                "copy /far/x,/far/y ok",
                "write /rw/closed/x,/ro/x denied:denied 1",
            ]
        );
    }
}

#[test]
fn a_call_of_a_surface_has_one_record_however_often_it_calls_the_vfs() {
    use crate::vfs::CallEnd;
    let outcome = |error: &Error| CallEnd::Outcome(AuditOutcome::from_error_kind(error.kind()));
    for store_records in [true, false] {
        let (vfs, audit_log) = audited_vfs(store_records);
        let call_once =
            |call: fn(&Vfs) -> Result<()>| drop(vfs.single_record("tool", Some("/rw/a"), outcome, call));
        call_once(|_| Ok(()));
        call_once(|_| Err(Error::Invalid("no".into())));
        call_once(|vfs| vfs.read("/rw/none").map(drop).or_else(|_| vfs.read("/rw/b").map(drop)));
        call_once(|vfs| vfs.stat("/rw/a").and_then(|_| vfs.read("/wo/x")).map(drop));
        call_once(|vfs| vfs.stat("/rw/a").and_then(|_| vfs.write("/rw/c", "1")).map(drop));
        call_once(|vfs| vfs.compound("other", "/rw", |_| None, |vfs| vfs.read("/rw/a").map(drop)));
        let expected = [
            "tool /rw/a ok",
            "tool /rw/a failed:invalid",
            "tool /rw/b ok 8",
            "tool /wo/x denied:denied",
            "tool /rw/c ok 1",
            "other /rw ok 8",
        ];
        assert_eq!(finished_records(&audit_log), expected, "along: {store_records}");
        let pending = |_: &Error| CallEnd::Pending;
        drop(vfs.single_record("tool", None, pending, |vfs| vfs.read("/rw/none").map(drop)));
        assert_eq!(finished_records(&audit_log), [""; 0]);
    }
}

#[test]
fn closing_a_file_that_was_opened_only_for_writing_fails_if_it_cannot_be_recorded() {
    let (vfs, audit_log) = audited_vfs(false);
    let open = || vfs.open("/rw/a", OpenOptions::write()).unwrap();
    let file = open();
    audit_log.set_full(true);
    assert!(matches!(file.close(), Err(Error::AuditUnavailable(_))));
    audit_log.set_full(false);
    assert_eq!(finished_records(&audit_log), [""; 0]);
    open().close().unwrap();
    assert_eq!(finished_records(&audit_log), ["open /rw/a ok 0"]);
}
