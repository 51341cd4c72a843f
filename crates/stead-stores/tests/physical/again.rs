//! A directory that was replaced by a copy continues the history of the directory that had its path.

use stead_core::store::{ContentRef, History, Maintenance, NodeState, RevisionQuery};
use stead_core::vfs::{UndoOptions, UndoTarget};
use stead_core::{AccessScope, Mount, Vfs, VfsPath, Workspace};

use super::*;

fn keeping(temp: &Path, root: &str, hold: &[&str]) -> Arc<PhysicalStore> {
    let mut options =
        PhysicalOptions { durability: Durability::Fast, ..PhysicalOptions::new(temp.join(".stead")) };
    with_ledger(temp, &mut options);
    options.pinned = hold.iter().map(|path| temp.join(path)).collect();
    Arc::new(PhysicalStore::open(temp.join(root), options).unwrap())
}

fn door(store: &Arc<PhysicalStore>) -> Vfs {
    let mount = Mount::new(Arc::clone(store) as Arc<dyn Store>);
    let workspace = Workspace::new(VfsPath::root(), AccessScope::ReadWrite, mount);
    Vfs::builder(Identity::agent("tester")).workspace(workspace).build().unwrap()
}

fn log(store: &PhysicalStore) -> Vec<String> {
    let deeds = store.revisions(&RevisionQuery::all()).unwrap().revisions;
    let lines = deeds.iter().flat_map(|deed| &deed.changes);
    lines.filter_map(|line| Some(line.after.as_ref().or(line.before.as_ref())?.path.to_string())).collect()
}

/// Replaces a directory with a copy of itself.
fn made_anew(temp: &Path, path: &str) {
    let copied = |from: &Path, to: &Path| {
        std::fs::create_dir(to).unwrap();
        for entry in std::fs::read_dir(from).unwrap() {
            let entry = entry.unwrap();
            let name = to.join(entry.file_name());
            std::fs::copy(entry.path(), &name).unwrap();
            let modified = entry.metadata().unwrap().modified().unwrap();
            std::fs::File::options().write(true).open(name).unwrap().set_modified(modified).unwrap();
        }
    };
    copied(&temp.join(path), &temp.join("copy"));
    // The old one still exists, so that the copy can't get any of its inodes.
    std::fs::rename(temp.join(path), temp.join("aside")).unwrap();
    std::fs::rename(temp.join("copy"), temp.join(path)).unwrap();
}

#[test]
fn a_directory_made_anew_keeps_its_history_and_nothing_of_others_is_taken_back() {
    let temp = TempDir::new().unwrap();
    std::fs::create_dir(temp.path().join("site")).unwrap();
    let store = keeping(temp.path(), "site", &[]);
    door(&store).write("/a", "one").unwrap();
    door(&store).write("/a", "two").unwrap();
    drop(store);
    made_anew(temp.path(), "site");

    let store = keeping(temp.path(), "site", &["site"]);
    assert_eq!(log(&store), ["a", "a"]);
    // Content that was displaced before is still there.
    let deeds = store.revisions(&RevisionQuery::all()).unwrap().revisions;
    let Some(NodeState { content: Some(past), .. }) = &deeds[0].changes[0].before else {
        panic!("{deeds:?}")
    };
    assert_eq!(content(&*store, past), b"one");
    assert_eq!(store.verify(&mut |_| ()).unwrap().problems, [""; 0]);
    // Another program made the copy, so undo doesn't touch it.
    let refused = door(&store).undo(UndoTarget::Last(1), UndoOptions::default()).unwrap();
    assert!(!refused.done && !refused.conflicts.is_empty(), "{refused:?}");
    assert_eq!(read(&*store, "a"), "two");
    // The Store goes on with the same history.
    door(&store).write("/a", "three").unwrap();
    door(&store).write("/b", "new").unwrap();
    assert_eq!(log(&store), ["b", "a", "a", "a"]);
    door(&store).undo(UndoTarget::Last(2), UndoOptions::default()).unwrap();
    assert_eq!(read(&*store, "a"), "two");
    assert!(store.stat(&at("b")).is_err());
    assert_eq!(
        store.prune(Timestamp::from_secs(1)).unwrap().kept / 4_096,
        4,
        "what all of them have displaced"
    );
    assert_eq!(store.prune(Timestamp(i64::MAX)).unwrap().kept, 0);
    assert_eq!(store.verify(&mut |_| ()).unwrap().problems, [""; 0]);
}

fn content(store: &dyn Store, past: &ContentRef) -> Vec<u8> {
    let mut bytes = vec![0; usize::try_from(past.size()).unwrap()];
    store.require_history().unwrap().open_content(past).unwrap().read_at(0, &mut bytes).unwrap();
    bytes
}

#[test]
fn a_project_that_is_copied_with_its_state_has_its_history() {
    let temp = TempDir::new().unwrap();
    let (from, to) = (temp.path().join("from"), temp.path().join("to"));
    std::fs::create_dir_all(from.join("site")).unwrap();
    let store = keeping(&from, "site", &[]);
    door(&store).write("/a", "one").unwrap();
    drop(store);
    std::fs::rename(&from, &to).unwrap();
    made_anew(&to, "site");
    let store = keeping(&to, "site", &[]);
    assert_eq!(log(&store), ["a"]);
}

#[test]
fn a_directory_that_was_moved_keeps_its_history_and_the_one_in_its_place_begins_one() {
    let temp = TempDir::new().unwrap();
    std::fs::create_dir(temp.path().join("site")).unwrap();
    let store = keeping(temp.path(), "site", &[]);
    door(&store).write("/a", "one").unwrap();
    drop(store);
    std::fs::rename(temp.path().join("site"), temp.path().join("moved")).unwrap();
    std::fs::create_dir(temp.path().join("site")).unwrap();
    let (new, moved) =
        (keeping(temp.path(), "site", &["site", "moved"]), keeping(temp.path(), "moved", &["site", "moved"]));
    assert_eq!((log(&new), log(&moved)), (vec![], vec!["a".to_owned()]));
    door(&new).write("/b", "two").unwrap();
    assert_eq!((log(&new), log(&moved)), (vec!["b".to_owned()], vec!["a".to_owned()]));
    // Two Stores on one directory have one history.
    let second = keeping(temp.path(), "moved", &[]);
    door(&second).write("/c", "three").unwrap();
    assert_eq!(log(&moved), ["c", "a"]);
}
