//! A directory that was replaced by a copy continues the history of the directory that had its path.

use stead_core::store::{ContentRef, History, Maintenance, RevisionQuery};
use stead_core::vfs::{UndoOptions, UndoTarget};
use stead_core::{AccessScope, Mount, Vfs, VfsPath, Workspace};

use super::*;

fn open_store(temp: &Path, root: &str, pinned: &[&str]) -> Arc<PhysicalStore> {
    let mut options =
        PhysicalOptions { durability: Durability::Fast, ..PhysicalOptions::new(temp.join(".stead")) };
    with_ledger(temp, &mut options);
    options.pinned = pinned.iter().map(|path| temp.join(path)).collect();
    Arc::new(PhysicalStore::open(temp.join(root), options).unwrap())
}

fn vfs_for(store: &Arc<PhysicalStore>) -> Vfs {
    let mount = Mount::new(Arc::clone(store) as Arc<dyn Store>);
    let workspace = Workspace::new(VfsPath::root(), AccessScope::ReadWrite, mount);
    Vfs::builder(Identity::agent("tester")).workspace(workspace).build().unwrap()
}

fn changed_paths(store: &PhysicalStore) -> Vec<String> {
    let revisions = store.revisions(&RevisionQuery::all()).unwrap().revisions;
    let changes = revisions.iter().flat_map(|revision| &revision.changes);
    changes
        .filter_map(|change| Some(change.after.as_ref().or(change.before.as_ref())?.path.to_string()))
        .collect()
}

/// Replaces a directory with a copy of itself.
fn replace_with_copy(temp: &Path, path: &str) {
    let copy = |from: &Path, to: &Path| {
        std::fs::create_dir(to).unwrap();
        for entry in std::fs::read_dir(from).unwrap() {
            let entry = entry.unwrap();
            let target = to.join(entry.file_name());
            std::fs::copy(entry.path(), &target).unwrap();
            let modified = entry.metadata().unwrap().modified().unwrap();
            std::fs::File::options().write(true).open(target).unwrap().set_modified(modified).unwrap();
        }
    };
    copy(&temp.join(path), &temp.join("copy"));
    // The old one still exists, so that the copy can't get any of its inodes.
    std::fs::rename(temp.join(path), temp.join("aside")).unwrap();
    std::fs::rename(temp.join("copy"), temp.join(path)).unwrap();
}

#[test]
fn a_directory_replaced_with_a_copy_keeps_its_history_and_undo_leaves_the_copy_alone() {
    let temp = TempDir::new().unwrap();
    std::fs::create_dir(temp.path().join("site")).unwrap();
    let store = open_store(temp.path(), "site", &[]);
    vfs_for(&store).write("/a", "one").unwrap();
    vfs_for(&store).write("/a", "two").unwrap();
    drop(store);
    replace_with_copy(temp.path(), "site");

    let store = open_store(temp.path(), "site", &["site"]);
    assert_eq!(changed_paths(&store), ["a", "a"]);
    // Content that was displaced before is still there.
    let revisions = store.revisions(&RevisionQuery::all()).unwrap().revisions;
    let before = revisions[0].changes[0].before.as_ref();
    let Some(displaced) = before.and_then(|before| before.content.as_ref()) else { panic!("{revisions:?}") };
    assert_eq!(content(&*store, displaced), b"one");
    assert_eq!(store.verify(&mut |_| ()).unwrap().problems, [""; 0]);
    // Another program made the copy, so undo doesn't touch it.
    let refused = vfs_for(&store).undo(UndoTarget::Last(1), UndoOptions::default()).unwrap();
    assert!(!refused.done && !refused.conflicts.is_empty(), "{refused:?}");
    assert_eq!(read(&*store, "a"), "two");
    // The Store goes on with the same history.
    vfs_for(&store).write("/a", "three").unwrap();
    vfs_for(&store).write("/b", "new").unwrap();
    assert_eq!(changed_paths(&store), ["b", "a", "a", "a"]);
    vfs_for(&store).undo(UndoTarget::Last(2), UndoOptions::default()).unwrap();
    assert_eq!(read(&*store, "a"), "two");
    assert!(store.stat(&at("b")).is_err());
    assert_eq!(
        store.prune(Timestamp::from_secs(1)).unwrap().kept / 4_096,
        4,
        "the content that all directories displaced"
    );
    assert_eq!(store.prune(Timestamp(i64::MAX)).unwrap().kept, 0);
    assert_eq!(store.verify(&mut |_| ()).unwrap().problems, [""; 0]);
}

fn content(store: &dyn Store, content_ref: &ContentRef) -> Vec<u8> {
    let mut bytes = vec![0; usize::try_from(content_ref.size()).unwrap()];
    store.require_history().unwrap().open_content(content_ref).unwrap().read_at(0, &mut bytes).unwrap();
    bytes
}

#[test]
fn a_project_that_is_copied_with_its_state_keeps_its_history() {
    let temp = TempDir::new().unwrap();
    let (from, to) = (temp.path().join("from"), temp.path().join("to"));
    std::fs::create_dir_all(from.join("site")).unwrap();
    let store = open_store(&from, "site", &[]);
    vfs_for(&store).write("/a", "one").unwrap();
    drop(store);
    std::fs::rename(&from, &to).unwrap();
    replace_with_copy(&to, "site");
    let store = open_store(&to, "site", &[]);
    assert_eq!(changed_paths(&store), ["a"]);
}

#[test]
fn a_directory_that_was_moved_keeps_its_history_and_a_new_one_at_its_path_starts_empty() {
    let temp = TempDir::new().unwrap();
    std::fs::create_dir(temp.path().join("site")).unwrap();
    let store = open_store(temp.path(), "site", &[]);
    vfs_for(&store).write("/a", "one").unwrap();
    drop(store);
    std::fs::rename(temp.path().join("site"), temp.path().join("moved")).unwrap();
    std::fs::create_dir(temp.path().join("site")).unwrap();
    let (new, moved) = (
        open_store(temp.path(), "site", &["site", "moved"]),
        open_store(temp.path(), "moved", &["site", "moved"]),
    );
    assert_eq!((changed_paths(&new), changed_paths(&moved)), (vec![], vec!["a".to_owned()]));
    vfs_for(&new).write("/b", "two").unwrap();
    assert_eq!((changed_paths(&new), changed_paths(&moved)), (vec!["b".to_owned()], vec!["a".to_owned()]));
    // Two Stores on one directory have one history.
    let second = open_store(temp.path(), "moved", &[]);
    vfs_for(&second).write("/c", "three").unwrap();
    assert_eq!(changed_paths(&moved), ["c", "a"]);
}
