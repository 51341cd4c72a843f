//! Every call leaves one record, whatever its outcome, and no call is made that can't be recorded.

use std::collections::BTreeSet;
use std::io::Read as _;

use super::*;
use crate::audit::{AuditLog, AuditOutcome, AuditRecord};
use crate::testkit::MemoryAuditLog;

/// A `Vfs` with one Workspace of each scope. `along` says whether its Store records its own changes.
fn audited(along: bool) -> (Vfs, Arc<MemoryAuditLog>) {
    let notes = Arc::new(MemoryAuditLog::new());
    let store = || match along {
        true => Arc::new(ModelStore::recording(Arc::clone(&notes))),
        false => Arc::new(ModelStore::new()),
    };
    let (shared, other) = (store(), store());
    let builder = Vfs::builder(Identity::agent("tester").with_thread("t1")).audit(notes.clone());
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
    notes.take();
    (vfs, notes)
}

fn shown(record: &AuditRecord) -> String {
    let paths: Vec<_> = record.paths.iter().map(ToString::to_string).collect();
    let code = record.outcome.code().map_or(String::new(), |code| format!(":{code}"));
    let bytes = record.bytes.map_or(String::new(), |bytes| format!(" {bytes}"));
    format!("{} {} {}{code}{bytes}", record.call, paths.join(","), record.outcome.as_str())
}

/// The records since the last call, without the Begun ones.
fn ended(notes: &MemoryAuditLog) -> Vec<String> {
    let records = notes.take();
    for record in &records {
        assert_eq!((&*record.identity.agent, record.identity.thread.as_deref()), ("tester", Some("t1")));
    }
    records.iter().filter(|record| record.outcome != AuditOutcome::Begun).map(shown).collect()
}

type Act = fn(&Vfs) -> Result<()>;

/// Every public call of `Vfs` and `Batch`: its name, an example, and its record.
const CALLS: &[(&str, Act, &str)] = &[
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
    ("list", |vfs| vfs.list("/", &ListPage::all()).map(drop), "list / ok"),
    ("walk", |vfs| vfs.walk("/", &WalkQuery::default()).map(drop), "walk / ok"),
    ("glob", |vfs| vfs.glob("**/*.md", "/", 10).map(drop), "glob / ok"),
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
    ("edit", |vfs| vfs.edit("/rw/b", "two", "2", Occurrences::One).map(drop), "edit /rw/b ok"),
    (
        "edit_with",
        |vfs| vfs.edit_with("/rw/c", "two", "2", Occurrences::One, None).map(drop),
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
            let tag = vfs.as_seen("/rw/c");
            vfs.rename_if("/rw/c", "/rw/c2", Overwrite::Refuse, tag).map(drop)
        },
        "move /rw/c,/rw/c2 ok",
    ),
    ("as_of", |vfs| vfs.as_of(RevisionNumber(0)).map(drop), "as_of  ok"),
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
const LOOKING_BACK: &[(&str, Act, &str)] = &[
    ("log", |vfs| vfs.log(&LogQuery::default()).map(drop), "log  failed:invalid"),
    (
        "diff",
        |vfs| vfs.diff("/rw", RevisionNumber(0), RevisionNumber(0), DiffOptions::default()).map(drop),
        "diff /rw failed:unsupported",
    ),
    ("blame", |vfs| vfs.blame("/rw/a").map(drop), "blame /rw/a failed:unsupported"),
    ("undo", |vfs| vfs.undo(UndoTarget::Last(1), UndoOptions::default()).map(drop), "undo  failed:invalid"),
    (
        "restore",
        |vfs| vfs.restore("/rw", RevisionNumber(0), &RestoreOptions::default()).map(drop),
        "restore /rw failed:unsupported",
    ),
    ("fork", |vfs| vfs.fork("/rw", "draft".parse().unwrap(), "a").map(drop), "fork /rw failed:unsupported"),
];

impl Vfs {
    /// A file's version tag, read without a call.
    fn as_seen(&self, at: &str) -> crate::store::VersionTag {
        let path = path(at);
        let route = self.router().route(&path).unwrap();
        let mount = route.workspace.mount();
        mount.store().stat(&mount.node_path(route.relative_path)).unwrap().tag
    }
}

#[test]
fn every_call_makes_one_record() {
    for along in [true, false] {
        let (vfs, notes) = audited(along);
        for (name, act, expected) in CALLS {
            act(&vfs).unwrap_or_else(|error| panic!("{name}: {error}"));
            assert_eq!(ended(&notes), [*expected], "{name}");
        }
        for (name, act, expected) in LOOKING_BACK {
            assert!(act(&vfs).is_err(), "{name}");
            assert_eq!(ended(&notes), [*expected], "{name}");
        }
    }
}

#[test]
fn no_public_call_is_left_out_of_that_test() {
    let sources = [
        include_str!("../mod.rs"),
        include_str!("../read.rs"),
        include_str!("../list.rs"),
        include_str!("../as_of.rs"),
        include_str!("../search.rs"),
        include_str!("../write.rs"),
        include_str!("../copy.rs"),
        include_str!("../open_file.rs"),
        include_str!("../batch.rs"),
        include_str!("../fork.rs"),
        include_str!("../compound.rs"),
        include_str!("../history/log.rs"),
        include_str!("../history/compare.rs"),
        include_str!("../history/restore.rs"),
        include_str!("../history/undo.rs"),
    ];
    // These answer without calling a Store.
    let harmless = [
        "builder",
        "identity",
        "has_read_files",
        "workspaces",
        "with_workspaces",
        "router",
        "operation",
        "with_approval",
        "with_monitor",
        "watch",
        "compound",
        "set_file_count",
    ];
    let mut found = BTreeSet::new();
    for source in sources {
        for door in source.split("\nimpl Vfs {").skip(1) {
            let (door, _) = door.split_once("\n}\n").unwrap();
            let names = door.split("    pub fn ").skip(1).map(|rest| rest.split(['(', '<']).next().unwrap());
            found.extend(names.filter(|name| !harmless.contains(name)));
        }
    }
    let tested: BTreeSet<_> = CALLS.iter().chain(LOOKING_BACK).map(|(name, ..)| *name).collect();
    assert_eq!(found, tested);
}

#[test]
fn what_is_refused_or_fails_is_written_down_as_well() {
    let (vfs, notes) = audited(true);
    let options = WriteOptions::new();
    let cases: [(Act, &str); 11] = [
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
        (|vfs| vfs.glob("[", "/rw", 1).map(drop), "glob /rw failed:invalid"),
    ];
    for (act, expected) in cases {
        act(&vfs).unwrap_err();
        assert_eq!(ended(&notes), [expected]);
    }
    // A refused step is recorded at once; the steps added before it are recorded with the batch.
    let mut batch = vfs.batch();
    batch.write("/rw/x", "1", &options).unwrap();
    batch.write("/ro/x", "1", &options).unwrap_err();
    assert_eq!(ended(&notes), ["batch /ro/x denied:denied"]);
    batch.apply().unwrap();
    assert_eq!(ended(&notes), ["batch /rw ok 1"]);
}

#[test]
fn a_record_tells_the_tool_the_scope_the_operation_and_the_version() {
    let (vfs, notes) = audited(true);
    let tool = vfs.operation("write_file");
    let written = tool.write("/wo/x", "1").unwrap();
    tool.exists("/rw").unwrap();
    vfs.exists("/").unwrap();
    let [write, exists, plain] = <[AuditRecord; 3]>::try_from(notes.take()).unwrap();
    assert_eq!((&*write.call, write.scope, write.outcome), ("write_file", Some(WriteOnly), AuditOutcome::Ok));
    assert_eq!((write.operation, write.revision), (Some(written.operation), written.revision));
    assert_eq!(
        (&*exists.call, exists.scope, exists.operation),
        ("write_file", Some(ReadWrite), write.operation)
    );
    assert_eq!((&*plain.call, plain.scope, plain.operation), ("exists", None, None));
}

#[test]
fn what_can_not_be_written_down_is_not_done() {
    for along in [true, false] {
        let (vfs, notes) = audited(along);
        notes.set_full(true);
        assert!(matches!(vfs.read("/rw/a"), Err(Error::AuditUnavailable(_))));
        assert!(matches!(vfs.reader("/rw/a"), Err(Error::AuditUnavailable(_))));
        assert!(matches!(vfs.open("/rw/a", OpenOptions::read()), Err(Error::AuditUnavailable(_))));
        assert_eq!(kind(vfs.write("/rw/new", "x")), ErrorKind::Unavailable);
        assert_eq!(kind(vfs.write("/ro/new", "x")), ErrorKind::Unavailable);
        assert_eq!(kind(vfs.rename("/rw/a", "/far/a", Overwrite::Refuse)), ErrorKind::Unavailable);
        notes.set_full(false);
        assert_eq!(names(&vfs, "/rw"), "a b c d dir link");
        assert_eq!(names(&vfs, "/far"), "");
    }
}

#[test]
fn a_store_that_writes_nothing_down_is_spoken_for_before_and_after() {
    let (vfs, notes) = audited(false);
    vfs.write("/rw/new", "x").unwrap();
    vfs.write("/rw/link", "y").unwrap();
    vfs.remove_file("/rw/none", RemoveOptions::default()).unwrap_err();
    let told: Vec<_> = notes.take().iter().map(shown).collect();
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
    assert_eq!(told, expected);
}

#[test]
fn a_move_between_stores_is_announced_and_then_done() {
    let (vfs, notes) = audited(true);
    vfs.rename("/rw/a", "/far/a", Overwrite::Refuse).unwrap();
    let records = notes.take();
    let told: Vec<_> = records.iter().map(shown).collect();
    assert_eq!(told, ["move /rw/a,/far/a begun 8", "move /rw/a,/far/a ok 8"]);
    assert_eq!(records[0].operation, records[1].operation);
}

#[test]
fn an_open_file_is_one_record_for_what_is_read_and_one_for_each_change() {
    let (vfs, notes) = audited(true);
    let file = vfs.open("/rw/made", OpenOptions::write().create()).unwrap();
    assert_eq!(ended(&notes), ["open /rw/made ok"]);
    file.write_at(0, b"12345").unwrap();
    file.sync().unwrap();
    file.sync().unwrap();
    assert_eq!(ended(&notes), ["open /rw/made ok 5"]);
    file.close().unwrap();
    assert_eq!(ended(&notes), [""; 0]);

    let file = vfs.open("/rw/made", OpenOptions::read_write()).unwrap();
    assert_eq!(notes.take().iter().map(shown).collect::<Vec<_>>(), ["open /rw/made begun"]);
    file.write_at(5, b"6").unwrap();
    file.read_at(0, &mut [0; 6]).unwrap();
    file.close().unwrap();
    assert_eq!(ended(&notes), ["open /rw/made ok 6", "open /rw/made ok 6"]);

    vfs.open("/rw/made", OpenOptions::write()).unwrap().close().unwrap();
    assert_eq!(ended(&notes), ["open /rw/made ok 0"]);
}

#[test]
fn another_log_is_not_taken_for_this_one() {
    let store = Arc::new(ModelStore::recording(Arc::new(MemoryAuditLog::new())));
    let notes = Arc::new(MemoryAuditLog::new());
    assert_ne!(store.info().audit_log, Some(notes.id()));
    let builder = Vfs::builder(Identity::agent("tester")).audit(notes.clone());
    let vfs = builder.workspace(workspace("/", ReadWrite, &store)).build().unwrap();
    vfs.write("/a", "1").unwrap();
    assert_eq!(notes.take().len(), 2);
}

/// Reads, writes, looks for a missing file, and returns `ends`.
fn many(vfs: &Vfs, ends: Result<()>) -> Result<()> {
    vfs.stat("/rw/a")?;
    vfs.read("/rw/a")?;
    assert!(vfs.stat("/rw/none").is_err());
    let mut batch = vfs.batch();
    batch.write("/rw/in/1", "12345", &WriteOptions::new())?;
    batch.apply()?;
    vfs.operation("another").write("/rw/in/2", "1")?;
    std::io::copy(&mut vfs.reader("/rw/b")?, &mut std::io::sink()).unwrap();
    vfs.set_file_count(2);
    ends
}

#[test]
fn an_act_of_many_calls_is_one_record_and_one_for_each_change() {
    let kind = |error: &Error| Some(error.kind());
    let (vfs, notes) = audited(true);
    vfs.compound("import", "/rw/in", kind, |vfs| many(vfs, Ok(()))).unwrap();
    let records = notes.take();
    let told: Vec<_> = records.iter().map(shown).collect();
    let expected =
        ["import /rw/in begun", "import /rw/in begun 5", "import /rw/in/2 begun 1", "import /rw/in ok 22"];
    assert_eq!(told, expected);
    assert_eq!((records[3].file_count, records[3].scope), (Some(2), Some(ReadWrite)));
    assert!(records.iter().all(|record| record.operation == records[0].operation));

    vfs.compound("import", "/rw/in", kind, |vfs| many(vfs, Err(Error::Invalid("no".into())))).unwrap_err();
    assert_eq!(ended(&notes), ["import /rw/in failed:invalid 22"]);
    let wrong = vfs.compound("import", "/../x", kind, |_| -> Result<()> { unreachable!("there is no path") });
    assert_eq!(
        (kind(&wrong.unwrap_err()), ended(&notes)),
        (Some(ErrorKind::Invalid), vec!["import  failed:invalid".into()])
    );

    // For a Store that doesn't record its own changes, one record announces all of them.
    let (vfs, notes) = audited(false);
    vfs.compound("import", "/rw/in", kind, |vfs| many(vfs, Ok(()))).unwrap();
    let told: Vec<_> = notes.take().iter().map(shown).collect();
    let outlives = vfs.workspaces().next().unwrap().mount().store().info().is_persistent();
    let mut expected = vec!["import /rw/in begun"; 1 + usize::from(outlives)];
    expected.push("import /rw/in ok 22");
    assert_eq!(told, expected);
}

#[test]
fn what_is_denied_within_an_act_is_told_once() {
    let kind = |error: &Error| Some(error.kind());
    let (vfs, notes) = audited(true);
    vfs.compound("cat", "/wo/a", kind, |vfs| vfs.read("/wo/a")).unwrap_err();
    assert_eq!(ended(&notes), ["cat /wo/a denied:denied"]);
    let all = |vfs: &Vfs| {
        vfs.read("/wo").unwrap_err();
        vfs.read("/wo/a").unwrap_err();
        vfs.read("/wo").unwrap_err();
        Ok(())
    };
    vfs.compound("export", "/wo", kind, all).unwrap();
    let denied = ["export /wo/a denied:denied", "export /wo denied:denied", "export /wo denied:denied"];
    assert_eq!(ended(&notes), [&denied[..], &["export /wo ok"]].concat());
}

#[test]
fn an_act_that_can_not_be_written_down_is_not_begun() {
    let (vfs, notes) = audited(true);
    notes.set_full(true);
    let kind = |error: &Error| Some(error.kind());
    let begun = vfs.compound("export", "/rw", kind, |_| -> Result<()> { unreachable!("nothing is done") });
    assert!(matches!(begun, Err(Error::AuditUnavailable(_))));
}

#[test]
fn a_record_tells_the_stead() {
    let notes = Arc::new(MemoryAuditLog::new());
    let store = Arc::new(ModelStore::recording(Arc::clone(&notes)));
    let builder = Vfs::builder(Identity::agent("tester")).stead("tester/t").audit(notes.clone());
    let vfs = builder.workspace(workspace("/", ReadWrite, &store)).build().unwrap();
    vfs.write("/a", "1").unwrap();
    vfs.read("/a").unwrap();
    vfs.compound("cat", "/a", |_: &Error| None, |vfs| vfs.read("/a")).unwrap();
    let records = notes.take();
    assert_eq!(records.len(), 4);
    assert!(records.iter().all(|record| record.stead.as_deref() == Some("tester/t")));
}

#[test]
fn a_record_tells_where_a_symlink_led() {
    for along in [true, false] {
        let (vfs, notes) = audited(along);
        vfs.symlink("/rw/far", "/far").unwrap();
        vfs.symlink("/rw/closed", "/ro").unwrap();
        notes.take();
        vfs.write("/rw/far/x", "1").unwrap();
        vfs.read("/rw/far/x").unwrap();
        vfs.list("/rw/far", &ListPage::all()).unwrap();
        vfs.copy("/rw/far/x", "/rw/far/y", Overwrite::Refuse).unwrap();
        vfs.write("/rw/closed/x", "1").unwrap_err();
        assert_eq!(
            ended(&notes),
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
fn a_call_of_a_surface_has_one_record_however_often_it_comes_to_the_door() {
    use crate::vfs::CallEnd;
    let ends = |error: &Error| CallEnd::Outcome(AuditOutcome::from_error_kind(error.kind()));
    for along in [true, false] {
        let (vfs, notes) = audited(along);
        let make = |act: fn(&Vfs) -> Result<()>| drop(vfs.single_record("tool", Some("/rw/a"), ends, act));
        make(|_| Ok(()));
        make(|_| Err(Error::Invalid("no".into())));
        make(|vfs| vfs.read("/rw/none").map(drop).or_else(|_| vfs.read("/rw/b").map(drop)));
        make(|vfs| vfs.stat("/rw/a").and_then(|_| vfs.read("/wo/x")).map(drop));
        make(|vfs| vfs.stat("/rw/a").and_then(|_| vfs.write("/rw/c", "1")).map(drop));
        make(|vfs| vfs.compound("other", "/rw", |_| None, |vfs| vfs.read("/rw/a").map(drop)));
        let expected = [
            "tool /rw/a ok",
            "tool /rw/a failed:invalid",
            "tool /rw/b ok 8",
            "tool /wo/x denied:denied",
            "tool /rw/c ok 1",
            "other /rw ok 8",
        ];
        assert_eq!(ended(&notes), expected, "along: {along}");
        let again = |_: &Error| CallEnd::Pending;
        drop(vfs.single_record("tool", None, again, |vfs| vfs.read("/rw/none").map(drop)));
        assert_eq!(ended(&notes), [""; 0]);
    }
}

#[test]
fn closing_a_file_that_was_opened_only_for_writing_fails_if_it_cannot_be_recorded() {
    let (vfs, notes) = audited(false);
    let open = || vfs.open("/rw/a", OpenOptions::write()).unwrap();
    let file = open();
    notes.set_full(true);
    assert!(matches!(file.close(), Err(Error::AuditUnavailable(_))));
    notes.set_full(false);
    assert_eq!(ended(&notes), [""; 0]);
    open().close().unwrap();
    assert_eq!(ended(&notes), ["open /rw/a ok 0"]);
}
