use serde_json::json;
use stead::search::GrepQuery;
use stead::store::{RevisionId, RevisionNumber};
use stead::transfer::{CompareBy, ExportDestination, OnExisting};
use stead::vfs::{ListPage, PointInTime, WalkQuery};
use stead::{AccessScope, ErrorKind};

use crate::common::{Home, NAME, SECRET, answer, tells_nothing};

/// The revision that `/home` had before `open.txt` was written again.
fn before(home: &Home) -> RevisionId {
    let newest = home.stead.vfs().revision_at("/home", PointInTime::Now).unwrap();
    RevisionId { number: RevisionNumber(newest.number.0 - 1), ..newest }
}

#[test]
fn an_earlier_version_of_a_write_only_file_is_read_by_no_path() {
    let home = Home::new(AccessScope::ReadOnly);
    let version = before(&home).number.to_string();
    for path in ["/home/wo", "/home/self/wo", "/home/self/self/wo", "/home/wo/../wo"] {
        let path = format!("{path}/{NAME}");
        let told = answer(&home.stead, "read_version", json!({ "path": path, "version": version }));
        assert!(!told.contains(SECRET), "{told}");
        assert!(told.contains("WRITE_ONLY"), "it is judged as in the present: {told}");
    }
    let read =
        answer(&home.stead, "read_version", json!({ "path": "/home/self/open.txt", "version": version }));
    assert!(read.contains("open 1"), "{read}");
}

#[test]
fn whatever_looks_through_a_prefix_in_the_past_stops_at_a_nested_workspace() {
    let home = Home::new(AccessScope::ReadWrite);
    let past = home.stead.as_of(before(&home)).unwrap();
    let vfs = past.vfs();
    assert_eq!(vfs.read("/home/open.txt").unwrap().bytes, b"open 1\n");
    tells_nothing(&format!("{:?}", vfs.walk("/", &WalkQuery::default()).unwrap()));
    tells_nothing(&format!("{:?}", vfs.grep(&GrepQuery::new("canary"), "/").unwrap()));
    tells_nothing(&format!("{:?}", vfs.glob("**", "/home", 100).unwrap()));
    let listed = vfs.list("/home", &ListPage::all()).unwrap();
    let entry = listed.entries.iter().find(|entry| entry.name.to_string() == "wo").unwrap();
    assert_eq!(entry.workspace, Some(AccessScope::WriteOnly), "it is shown as in the present");
    for refused in [
        vfs.list("/home/wo", &ListPage::all()).map(drop),
        vfs.stat(format!("/home/wo/{NAME}")).map(drop),
        vfs.write("/home/wo/new", "x").map(drop),
        vfs.mkdir("/home/wo/new", stead::store::Parents::Create).map(drop),
    ] {
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::Denied);
    }
    let mut archive = Vec::new();
    let to = ExportDestination::Stream(Box::new(&mut archive));
    past.export("/home", to, OnExisting::Refuse, CompareBy::default(), &mut stead::transfer::NoObserver)
        .unwrap();
    tells_nothing(&String::from_utf8_lossy(&archive));
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
    let version = owner.vfs().write(format!("/disk/{NAME}"), SECRET).unwrap().revision.unwrap();
    let stead = stead::Stead::builder("coder")
        .workspace("/", AccessScope::ReadWrite, &store)
        .workspace("/disk", AccessScope::ReadWrite, &disk)
        .build()
        .unwrap();
    let past = stead.as_of(version).unwrap();
    tells_nothing(&format!("{:?}", past.vfs().walk("/", &WalkQuery::default()).unwrap()));
    tells_nothing(&format!("{:?}", past.vfs().grep(&GrepQuery::new("canary"), "/").unwrap()));
    let refused = past.vfs().read(format!("/disk/{NAME}")).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Denied);
    assert!(refused.to_string().contains("earlier versions can't be read"), "{refused}");
}
