//! Copies and moves, within a Store and across.

use super::*;
use crate::path::PathError;

fn vfs_with_two_stores() -> (Vfs, Arc<ModelStore>, Arc<ModelStore>) {
    let (a, b) = (store_with(&[("/f", "file"), ("/d/x", "in x"), ("/d/e/y", "in y")]), store_with(&[]));
    store_link(&a, "/d/l", "x");
    (vfs_with([workspace("/a", ReadWrite, &a), workspace("/b", ReadWrite, &b)]), a, b)
}

#[test]
fn files_and_directories_are_copied_within_and_across_stores() {
    for target in ["/a", "/b"] {
        let (vfs, ..) = vfs_with_two_stores();
        vfs.set_attributes("/a/d/x", Some(0o755), None).unwrap();
        vfs.copy("/a/f", format!("{target}/deep/er/f"), Overwrite::Refuse).unwrap();
        assert_eq!(text(&vfs, &format!("{target}/deep/er/f")), "file");
        vfs.copy("/a/d", format!("{target}/copy"), Overwrite::Refuse).unwrap();
        assert_eq!(text(&vfs, &format!("{target}/copy/e/y")), "in y");
        assert_eq!(vfs.read_link(format!("{target}/copy/l")).unwrap(), "x");
        assert_eq!(vfs.stat(format!("{target}/copy/x")).unwrap().mode, 0o755);
        assert_eq!(
            kind(vfs.copy("/a/d", format!("{target}/copy"), Overwrite::Replace)),
            ErrorKind::AlreadyExists
        );
        assert_eq!(
            kind(vfs.copy("/a/f", format!("{target}/copy/x"), Overwrite::Refuse)),
            ErrorKind::AlreadyExists
        );
        vfs.copy("/a/f", format!("{target}/copy/x"), Overwrite::Replace).unwrap();
        assert_eq!(text(&vfs, &format!("{target}/copy/x")), "file");
        assert_eq!(vfs.stat(format!("{target}/copy/x")).unwrap().mode, 0o755);
        assert_eq!(text(&vfs, "/a/d/x"), "in x");
    }
}

#[test]
fn files_and_directories_are_moved_within_and_across_stores() {
    for target in ["/a", "/b"] {
        let (vfs, ..) = vfs_with_two_stores();
        vfs.rename("/a/f", format!("{target}/g"), Overwrite::Refuse).unwrap();
        assert!(!vfs.exists("/a/f").unwrap());
        vfs.rename("/a/d", format!("{target}/moved"), Overwrite::Refuse).unwrap();
        assert!(!vfs.exists("/a/d").unwrap());
        assert_eq!(text(&vfs, &format!("{target}/moved/e/y")), "in y");
        assert_eq!(text(&vfs, &format!("{target}/moved/l")), "in x");
    }
}

#[test]
fn a_script_stays_executable_when_it_is_replaced() {
    for from in ["/a/f", "/b/f"] {
        let (vfs, ..) = vfs_with_two_stores();
        vfs.copy("/a/f", "/b/f", Overwrite::Refuse).unwrap();
        vfs.set_attributes("/a/d/x", Some(0o755), None).unwrap();
        vfs.copy(from, "/a/d/x", Overwrite::Replace).unwrap();
        assert_eq!(vfs.stat("/a/d/x").unwrap().mode, 0o755);
        let moved = vfs.rename(from, "/a/d/x", Overwrite::Replace).unwrap();
        let stat = vfs.stat("/a/d/x").unwrap();
        assert_eq!((stat.mode, stat.tag), (0o755, moved.tag));
        assert!(!vfs.exists(from).unwrap());
    }
}

#[test]
fn a_move_across_stores_that_fails_anywhere_loses_nothing() {
    type FaultAt = fn(u64) -> Fault;
    let faults: [FaultAt; 3] = [Fault::Before, Fault::After, Fault::From];
    let files = [("/d/x", "in x"), ("/d/e/y", "in y")];
    for (fault_index, fault) in faults.iter().enumerate() {
        for faulty_side in ["/a", "/b"] {
            for call in 1.. {
                let (a, b) = (store_with(&files), store_with(&[]));
                let mount = |prefix: &str, store: &Arc<ModelStore>| {
                    let fault = if prefix == faulty_side { fault(call) } else { Fault::Never };
                    let store = Arc::new(FaultyStore::new(store.clone(), fault));
                    (Workspace::new(path(prefix), ReadWrite, Mount::new(store.clone())), store)
                };
                let ((workspace_a, store_a), (workspace_b, store_b)) = (mount("/a", &a), mount("/b", &b));
                let moved = vfs_with([workspace_a, workspace_b]).rename("/a/d", "/b/d", Overwrite::Refuse);
                let (from, to) =
                    (vfs_with([workspace("/", ReadOnly, &a)]), vfs_with([workspace("/", ReadOnly, &b)]));
                let has_all = |vfs: &Vfs| {
                    files.iter().all(|(path, content)| {
                        vfs.read(*path).is_ok_and(|read| read.bytes == content.as_bytes())
                    })
                };
                let case = format!("fault {fault_index} at call {call} of {faulty_side}");
                match &moved {
                    Ok(_) => assert!(has_all(&to) && !from.exists("/d").unwrap(), "{case}"),
                    // Whatever else was left behind: at least one end has everything.
                    Err(_) => assert!(has_all(&from) || has_all(&to), "{case}"),
                }
                let calls = if faulty_side == "/a" { store_a.calls() } else { store_b.calls() };
                if moved.is_ok() && calls < call {
                    break;
                }
                assert!(call < 200, "the call does not succeed after 200 faults");
            }
        }
    }
}

#[test]
fn a_source_that_changes_while_it_is_moved_is_a_conflict() {
    let (vfs, a, b) = vfs_with_two_stores();
    // The destination's Store changes the source while it receives the copy.
    let other_vfs = vfs_with([workspace("/", ReadWrite, &a)]);
    let interfering = Arc::new(InterferingStore {
        store: b.clone(),
        interfere: Box::new(move || drop(other_vfs.write("/d/new", "x"))),
    });
    let combined = vfs_with(vfs.workspaces().take(1).cloned().chain([Workspace::new(
        path("/b"),
        ReadWrite,
        Mount::new(interfering),
    )]));
    assert_eq!(kind(combined.rename("/a/d", "/b/d", Overwrite::Refuse)), ErrorKind::Conflict);
    assert_eq!(text(&vfs, "/a/d/new"), "x");
    assert_eq!(text(&vfs, "/a/d/e/y"), "in y");
    assert!(!vfs.exists("/b/d").unwrap());
}

#[test]
fn a_directory_is_neither_copied_nor_moved_into_itself() {
    let (vfs, ..) = vfs_with_two_stores();
    assert_eq!(kind(vfs.rename("/a/d", "/a/d/e/z", Overwrite::Refuse)), ErrorKind::Invalid);
    assert_eq!(kind(vfs.copy("/a/d", "/a/d/z", Overwrite::Refuse)), ErrorKind::Invalid);
    assert_eq!(text(&vfs, "/a/d/e/y"), "in y");
    assert!(!vfs.exists("/a/d/z").unwrap());
}

#[test]
fn a_file_is_not_moved_to_itself_by_any_of_its_paths() {
    let store = store_with(&[("/f", "file"), ("/d/x", "in x")]);
    let vfs = vfs_with([workspace("/a", ReadWrite, &store), workspace("/b", ReadWrite, &store)]);
    store_link(&store, "/l", "d");
    for (from, to) in [("/a/f", "/a/f"), ("/a/f", "/b/f"), ("/a/d", "/b/d"), ("/a/l/x", "/b/d/x")] {
        for overwrite in [Overwrite::Refuse, Overwrite::Replace] {
            let error = vfs.rename(from, to, overwrite).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
            assert!(error.to_string().ends_with("are the same file, so nothing was moved"), "{error}");
        }
    }
    assert_eq!(kind(vfs.rename("/a/none", "/b/none", Overwrite::Refuse)), ErrorKind::NotFound);
    assert_eq!((text(&vfs, "/a/f"), text(&vfs, "/b/d/x")), ("file".to_owned(), "in x".to_owned()));
}

#[test]
fn a_workspace_whose_path_does_not_exist_yet_is_an_empty_directory() {
    for other_store in [false, true] {
        let (store, other) = (store_with(&[]), store_with(&[]));
        let mount = Mount::at(store.clone(), &path("/not/yet"));
        let target = if other_store { &other } else { &store };
        let vfs =
            vfs_with([Workspace::new(path("/new"), ReadWrite, mount), workspace("/all", ReadWrite, target)]);
        assert_eq!(vfs.list("/new", &ListPage::all()).unwrap().total, 0);
        vfs.copy("/new", "/all/deep/copy", Overwrite::Refuse).unwrap();
        assert_eq!(vfs.list("/all/deep/copy", &ListPage::all()).unwrap().total, 0);
        let again = vfs.copy("/new", "/all/deep/copy", Overwrite::Replace);
        assert_eq!(kind(again), ErrorKind::AlreadyExists);
        assert_eq!(kind(vfs.mkdir("/new/a/b", Parents::Required)), ErrorKind::NotFound);
        vfs.mkdir("/new/a", Parents::Required).unwrap();
        assert_eq!(kind(vfs.mkdir("/new/a", Parents::Required)), ErrorKind::AlreadyExists);
        assert_eq!(vfs.list("/new", &ListPage::all()).unwrap().total, 1);
    }
}

#[test]
fn a_workspace_is_not_moved_or_replaced() {
    let (vfs, ..) = vfs_with_two_stores();
    assert!(matches!(vfs.rename("/a", "/b/a", Overwrite::Refuse), Err(Error::IsWorkspace { .. })));
    assert!(matches!(vfs.copy("/a/f", "/b", Overwrite::Replace), Err(Error::IsWorkspace { .. })));
    vfs.copy("/a", "/b/all", Overwrite::Refuse).unwrap();
    assert_eq!(text(&vfs, "/b/all/d/e/y"), "in y");
}

#[test]
fn symlinks_are_authorized_at_both_ends() {
    let (vfs, a, _) = vfs_with_two_stores();
    store_link(&a, "/to-b", "/b");
    store_link(&a, "/outside", "/c");
    vfs.copy("/a/f", "/a/to-b/f", Overwrite::Refuse).unwrap();
    assert_eq!(text(&vfs, "/b/f"), "file");
    vfs.rename("/a/to-b/f", "/a/back", Overwrite::Refuse).unwrap();
    assert_eq!(text(&vfs, "/a/back"), "file");
    assert_eq!(kind(vfs.copy("/a/f", "/a/outside/f", Overwrite::Refuse)), ErrorKind::Denied);
    assert_eq!(kind(vfs.copy("/a/outside/f", "/b/f", Overwrite::Refuse)), ErrorKind::Denied);
}

#[test]
fn a_directory_is_not_moved_to_a_name_so_long_that_a_path_in_it_could_not_be_used() {
    let (vfs, _) = read_write_vfs();
    let long_path = vec!["n".repeat(255); 15].join("/");
    let file = format!("/d/{long_path}/{}", "f".repeat(240));
    vfs.write(&*file, "x").unwrap();
    let longer = format!("/{}", "d".repeat(100));
    for result in [vfs.rename("/d", &*longer, Overwrite::Refuse), vfs.copy("/d", &*longer, Overwrite::Refuse)]
    {
        assert!(matches!(result, Err(Error::Path(PathError::TooLong { .. }))), "{result:?}");
    }
    assert_eq!(text(&vfs, &file), "x");
    vfs.rename("/d", "/e", Overwrite::Refuse).unwrap();
}
