//! A directory opened by the library alone: where its ledger is if the caller names no state directory.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used)]
#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "the test needs a process with its own environment"
)]

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use stead_core::store::{History, RevisionQuery};
use stead_core::{AccessScope, Identity, Mount, Store, Vfs, VfsPath, Workspace};
use stead_stores::{PhysicalOptions, PhysicalStore, state_folder_of};

const ROOT: &str = "STEAD_ALONE_ROOT";

fn vfs_for(store: &Arc<PhysicalStore>) -> Vfs {
    let mount = Mount::new(Arc::clone(store) as Arc<dyn Store>);
    let workspace = Workspace::new(VfsPath::root(), AccessScope::ReadWrite, mount);
    Vfs::builder(Identity::agent("alone")).workspace(workspace).build().unwrap()
}

#[test]
#[ignore = "a child process: the test in this file starts it with its own state directory"]
fn the_process_that_names_no_state_directory() {
    let root = std::env::var(ROOT).expect("the test in this file starts this process");
    let open = || Arc::new(PhysicalStore::open(&root, PhysicalOptions::default()).unwrap());
    let store = open();
    vfs_for(&store).write("/a", "one").unwrap();
    vfs_for(&store).write("/a", "two").unwrap();
    drop(store);
    // The next Store goes on with the same ledger, whatever path it was opened with.
    let reopened = PhysicalStore::open(Path::new(&root).join("."), PhysicalOptions::default()).unwrap();
    assert_eq!(reopened.revisions(&RevisionQuery::all()).unwrap().revisions.len(), 2);
    println!("state: {}", state_folder_of(&[Path::new(&root)]).unwrap().display());
}

#[test]
fn the_ledger_is_in_the_users_state_folder_and_only_the_user_can_read_it() {
    let temp = tempfile::tempdir().unwrap();
    let temp_path = std::fs::canonicalize(temp.path()).unwrap();
    // Even if the state directory is in the directory itself, nothing in it can be reached.
    let (root, state_home) = (temp_path.join("root"), temp_path.join("root/state"));
    std::fs::create_dir(&root).unwrap();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--ignored", "--exact", "the_process_that_names_no_state_directory", "--nocapture"]);
    let output = command.env(ROOT, &root).env("XDG_STATE_HOME", &state_home).output().unwrap();
    let stdout = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{stdout}{}", String::from_utf8_lossy(&output.stderr));
    let folder = Path::new(stdout.lines().find_map(|line| line.strip_prefix("state: ")).unwrap());
    assert!(folder.starts_with(state_home.join("stead")), "{}", folder.display());
    let ledger = folder.join(".stead/stead.db");
    assert_eq!(std::fs::metadata(&ledger).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(std::fs::metadata(folder).unwrap().permissions().mode() & 0o777, 0o700);

    let options = PhysicalOptions::new(folder.join(".stead"));
    let store = Arc::new(PhysicalStore::open(&root, options).unwrap());
    assert_eq!(
        store.revisions(&RevisionQuery::all()).unwrap().revisions.len(),
        2,
        "the same ledger, opened by its path"
    );
    let ledger_in_root = ledger.strip_prefix(&root).unwrap();
    assert!(vfs_for(&store).read(format!("/{}", ledger_in_root.display())).is_err());
}
