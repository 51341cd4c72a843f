use serde_json::json;
use stead::search::GrepQuery;
use stead::store::{RevisionId, RevisionNumber};
use stead::transfer::{CompareBy, ExportDestination, OnExisting};
use stead::vfs::{GlobQuery, ListPage, PointInTime, WalkQuery};
use stead::{AccessScope, ErrorKind};

use crate::common::{Home, NAME, SECRET, answer, assert_reveals_nothing};

/// The revision that `/home` had before `open.txt` was written again.
fn revision_before_last(home: &Home) -> RevisionId {
    let newest = home.stead.vfs().revision_at("/home", PointInTime::Now).unwrap();
    RevisionId { number: RevisionNumber(newest.number.0 - 1), ..newest }
}

#[test]
fn an_earlier_version_of_a_write_only_file_can_be_read_by_no_path() {
    let home = Home::new(AccessScope::ReadOnly);
    let version = revision_before_last(&home).number.to_string();
    for path in ["/home/wo", "/home/self/wo", "/home/self/self/wo", "/home/wo/../wo"] {
        let path = format!("{path}/{NAME}");
        let answer_text = answer(&home.stead, "read_version", json!({ "path": path, "version": version }));
        assert!(!answer_text.contains(SECRET), "{answer_text}");
        assert!(
            answer_text.contains("WRITE_ONLY"),
            "the current scope has to apply to earlier versions: {answer_text}"
        );
    }
    let read =
        answer(&home.stead, "read_version", json!({ "path": "/home/self/open.txt", "version": version }));
    assert!(read.contains("open 1"), "{read}");
}

#[test]
fn reads_of_an_earlier_version_stop_at_a_nested_workspace() {
    let home = Home::new(AccessScope::ReadWrite);
    let earlier = home.stead.as_of(revision_before_last(&home)).unwrap();
    let vfs = earlier.vfs();
    assert_eq!(vfs.read("/home/open.txt").unwrap().bytes, b"open 1\n");
    assert_reveals_nothing(&format!("{:?}", vfs.walk("/", &WalkQuery::default()).unwrap()));
    assert_reveals_nothing(&format!("{:?}", vfs.grep(&GrepQuery::new("canary"), "/").unwrap()));
    assert_reveals_nothing(&format!("{:?}", vfs.glob(&GlobQuery::new("**"), "/home").unwrap()));
    let listed = vfs.list("/home", &ListPage::all()).unwrap();
    let entry = listed.entries.iter().find(|entry| entry.name.to_string() == "wo").unwrap();
    assert_eq!(entry.workspace, Some(AccessScope::WriteOnly), "the current scope has to be shown");
    for refused in [
        vfs.list("/home/wo", &ListPage::all()).map(drop),
        vfs.stat(format!("/home/wo/{NAME}")).map(drop),
        vfs.write("/home/wo/new", "x").map(drop),
        vfs.mkdir("/home/wo/new", stead::store::Parents::Create).map(drop),
    ] {
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::Denied);
    }
    let mut archive = Vec::new();
    let destination = ExportDestination::Stream(Box::new(&mut archive));
    earlier
        .export(
            "/home",
            destination,
            OnExisting::Refuse,
            CompareBy::default(),
            &mut stead::transfer::NoObserver,
        )
        .unwrap();
    assert_reveals_nothing(&String::from_utf8_lossy(&archive));
}

#[test]
fn a_workspace_without_a_history_is_a_barrier_too() {
    use std::sync::Arc;
    let directory = tempfile::tempdir().unwrap();
    std::fs::create_dir(directory.path().join("root")).unwrap();
    let options = stead::PhysicalOptions::new(directory.path().join("state"));
    let disk = Arc::new(stead::PhysicalStore::open(directory.path().join("root"), options).unwrap());
    let store = Arc::new(stead::MemoryStore::new());
    let owner = crate::common::owner(&store);
    // A file in the outer Workspace's Store that the nested Workspace hides.
    let revision = owner.vfs().write(format!("/disk/{NAME}"), SECRET).unwrap().revision.unwrap();
    let stead = stead::Stead::builder("coder")
        .workspace("/", AccessScope::ReadWrite, &store)
        .workspace("/disk", AccessScope::ReadWrite, &disk)
        .build()
        .unwrap();
    let earlier = stead.as_of(revision).unwrap();
    assert_reveals_nothing(&format!("{:?}", earlier.vfs().walk("/", &WalkQuery::default()).unwrap()));
    assert_reveals_nothing(&format!("{:?}", earlier.vfs().grep(&GrepQuery::new("canary"), "/").unwrap()));
    let refused = earlier.vfs().read(format!("/disk/{NAME}")).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Denied);
    assert!(refused.to_string().contains("earlier versions can't be read"), "{refused}");
}
