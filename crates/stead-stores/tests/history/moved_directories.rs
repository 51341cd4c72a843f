//! Diff and restore of a part of a Store that a directory was moved out of: what was in the directory has left that
//! part too, without a change of its own.

use std::sync::Arc;

use stead_core::store::RevisionId;
use stead_core::vfs::{DiffOptions, LostUpdates, Overwrite, PointInTime, RemoveOptions, RestoreOptions};
use stead_core::{AccessScope, Identity, Mount, Store, Vfs, VfsPath, Workspace};

use crate::{newest, text, vfs_for};

crate::on_every_store! {
    a_file_is_created_again_where_its_directory_was_moved_away
    a_directory_returns_with_the_files_it_had
    a_directory_returns_with_a_file_that_was_removed_after_the_move
    a_directory_returns_without_a_directory_that_was_made_in_it
    a_file_is_removed_from_a_path_that_its_directory_was_moved_to
    a_directory_that_was_moved_and_removed_returns_with_its_files
    a_directory_that_left_the_workspace_is_restored_with_everything_in_it
    a_diff_shows_what_left_with_a_directory_and_nothing_of_what_happens_to_it_there
}

type Subject = Arc<dyn Store>;

fn restore(vfs: &Vfs, prefix: &str, revision: RevisionId, paths: &[&str]) {
    let paths = paths.iter().map(|path| VfsPath::parse(path).unwrap()).collect();
    let restored =
        vfs.restore(prefix, revision, &RestoreOptions { paths, ..RestoreOptions::default() }).unwrap();
    assert!(restored.done, "{restored:?}");
}

/// What differs at and below a path since a revision.
fn diff(vfs: &Vfs, prefix: &str, revision: RevisionId) -> Vec<String> {
    let differences = vfs.diff(prefix, revision, PointInTime::Now, DiffOptions::default()).unwrap();
    let line = differences.iter().map(|found| format!("{} {}", found.difference.as_str(), found.path));
    line.collect()
}

/// A directory `dd` that was moved from `/w/x` to `/w/y`, where its file was changed and another one added. Returns the
/// revision before.
fn move_and_change(a: &Vfs, store: &Subject) -> RevisionId {
    a.write("/w/x/dd/k", "k1").unwrap();
    a.write("/w/x/dd/sub/same", "same").unwrap();
    a.write("/w/y/z", "z").unwrap();
    let revision = newest(store);
    a.rename("/w/x/dd", "/w/y/dd", Overwrite::Refuse).unwrap();
    a.write("/w/y/dd/k", "changed").unwrap();
    a.write("/w/y/dd/new", "new").unwrap();
    revision
}

fn a_file_is_created_again_where_its_directory_was_moved_away(store: &Subject) {
    let a = vfs_for(store, "a");
    let revision = move_and_change(&a, store);
    assert_eq!(diff(&a, "/w/x/dd/k", revision), ["removed /w/x/dd/k"]);
    restore(&a, "/w", revision, &["/w/x/dd/k"]);
    assert_eq!(text(&a, "/w/x/dd/k"), "k1");
    assert!(!a.exists("/w/x/dd/sub").unwrap() && !a.exists("/w/x/dd/new").unwrap());
    assert_eq!(text(&a, "/w/y/dd/k"), "changed", "what is outside the path stays");
    assert_eq!(text(&a, "/w/y/dd/new"), "new");
    restore(&a, "/w", revision, &["/w/x/dd/sub"]);
    assert_eq!((text(&a, "/w/x/dd/sub/same"), text(&a, "/w/y/dd/sub/same")), ("same".into(), "same".into()));
}

fn a_directory_returns_with_the_files_it_had(store: &Subject) {
    let a = vfs_for(store, "a");
    let revision = move_and_change(&a, store);
    let removed = ["/w/x/dd", "/w/x/dd/k", "/w/x/dd/sub", "/w/x/dd/sub/same"];
    assert_eq!(diff(&a, "/w/x", revision), removed.map(|path| format!("removed {path}")));
    restore(&a, "/w/x", revision, &[]);
    assert_eq!((text(&a, "/w/x/dd/k"), text(&a, "/w/x/dd/sub/same")), ("k1".into(), "same".into()));
    assert!(!a.exists("/w/x/dd/new").unwrap() && !a.exists("/w/y/dd").unwrap());
    assert!(diff(&a, "/w", revision).is_empty());
}

fn a_directory_returns_with_a_file_that_was_removed_after_the_move(store: &Subject) {
    let a = vfs_for(store, "a");
    a.write("/w/p/q/a", "A").unwrap();
    let revision = newest(store);
    a.rename("/w/p/q", "/w/r", Overwrite::Refuse).unwrap();
    a.remove_file("/w/r/a", RemoveOptions::default()).unwrap();
    assert_eq!(diff(&a, "/w/p", revision), ["removed /w/p/q", "removed /w/p/q/a"]);
    restore(&a, "/w/p", revision, &[]);
    assert_eq!(text(&a, "/w/p/q/a"), "A");
}

fn a_directory_returns_without_a_directory_that_was_made_in_it(store: &Subject) {
    let a = vfs_for(store, "a");
    a.write("/w/d/f", "f").unwrap();
    let revision = newest(store);
    let before = stead_core::testkit::snapshot_of(&**store);
    a.rename("/w/d", "/w/e", Overwrite::Refuse).unwrap();
    a.write("/w/e/made/sub/f", "new").unwrap();
    restore(&a, "/w", revision, &[]);
    assert_eq!(stead_core::testkit::snapshot_of(&**store), before);
}

fn a_file_is_removed_from_a_path_that_its_directory_was_moved_to(store: &Subject) {
    let a = vfs_for(store, "a");
    a.write("/w/x/k", "k").unwrap();
    a.write("/w/x/sub/j", "j").unwrap();
    let revision = newest(store);
    a.rename("/w/x", "/w/y", Overwrite::Refuse).unwrap();
    assert_eq!(diff(&a, "/w/y/sub", revision), ["added /w/y/sub", "added /w/y/sub/j"]);
    restore(&a, "/w", revision, &["/w/y/sub"]);
    assert!(!a.exists("/w/y/sub").unwrap() && !a.exists("/w/x").unwrap());
    assert_eq!(text(&a, "/w/y/k"), "k", "what is outside the path stays");
    assert!(diff(&a, "/w/y/sub", revision).is_empty());
}

fn a_directory_that_was_moved_and_removed_returns_with_its_files(store: &Subject) {
    let a = vfs_for(store, "a");
    let revision = move_and_change(&a, store);
    let recursive = RemoveOptions { recursive: true, ..RemoveOptions::default() };
    a.remove_directory("/w/y/dd", recursive).unwrap();
    restore(&a, "/w/x", revision, &[]);
    assert_eq!((text(&a, "/w/x/dd/k"), text(&a, "/w/x/dd/sub/same")), ("k1".into(), "same".into()));
    assert!(diff(&a, "/w", revision).is_empty());
}

fn workspace(store: &Subject, prefix: &str, scope: AccessScope, mount_path: &str) -> Workspace {
    let path = |text| VfsPath::parse(text).unwrap();
    Workspace::new(path(prefix), scope, Mount::at(Arc::clone(store), &path(mount_path)))
}

fn agent(workspaces: [Workspace; 2]) -> Vfs {
    let [one, two] = workspaces;
    let builder = Vfs::builder(Identity::agent("a")).lost_updates(LostUpdates::Allow);
    builder.workspace(one).workspace(two).build().unwrap()
}

fn a_directory_that_left_the_workspace_is_restored_with_everything_in_it(store: &Subject) {
    let owner = vfs_for(store, "owner");
    owner.write("/w/a/dd/k", "k1").unwrap();
    owner.write("/w/a/dd/sub/j", "j1").unwrap();
    owner.write("/w/b/other", "other").unwrap();
    let revision = newest(store);
    let a = agent([
        workspace(store, "/n", AccessScope::ReadWrite, "/a"),
        workspace(store, "/b", AccessScope::ReadWrite, "/b"),
    ]);
    a.rename("/n/dd", "/b/dd", Overwrite::Refuse).unwrap();
    a.write("/b/dd/k", "changed").unwrap();
    restore(&a, "/n", revision, &[]);
    assert_eq!((text(&a, "/n/dd/k"), text(&a, "/n/dd/sub/j")), ("k1".into(), "j1".into()));
    assert_eq!((text(&a, "/b/dd/k"), text(&a, "/b/dd/sub/j")), ("changed".into(), "j1".into()));
}

fn a_diff_shows_what_left_with_a_directory_and_nothing_of_what_happens_to_it_there(store: &Subject) {
    let owner = vfs_for(store, "owner");
    owner.write("/w/old/kept", "kept").unwrap();
    owner.write("/w/sec/s", "s").unwrap();
    let revision = newest(store);
    let a = agent([
        workspace(store, "/n", AccessScope::ReadWrite, "/"),
        workspace(store, "/n/sec", AccessScope::WriteOnly, "/sec"),
    ]);
    a.write("/n/d/y", "mine").unwrap();
    a.write("/n/d/w", "mine2").unwrap();
    owner.rename("/w/d", "/w/sec/d", Overwrite::Refuse).unwrap();
    owner.rename("/w/old", "/w/sec/old", Overwrite::Refuse).unwrap();
    let expected = ["removed /n/old", "removed /n/old/kept"];
    assert_eq!(diff(&a, "/n", revision), expected);
    owner.write("/w/sec/d/y", "changed").unwrap();
    owner.remove_file("/w/sec/d/w", RemoveOptions::default()).unwrap();
    owner.write("/w/sec/old/kept", "changed").unwrap();
    assert_eq!(diff(&a, "/n", revision), expected);
    restore(&a, "/n", revision, &[]);
    assert_eq!(text(&a, "/n/old/kept"), "kept");
    assert_eq!(text(&owner, "/w/sec/old/kept"), "changed");
}
