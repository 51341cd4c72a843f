//! Copies and moves, within a Store and across.

use super::*;
use crate::path::PathError;

fn two() -> (Vfs, Arc<ModelStore>, Arc<ModelStore>) {
    let (a, b) = (store_with(&[("/f", "file"), ("/d/x", "in x"), ("/d/e/y", "in y")]), store_with(&[]));
    store_link(&a, "/d/l", "x");
    (door([workspace("/a", ReadWrite, &a), workspace("/b", ReadWrite, &b)]), a, b)
}

#[test]
fn files_and_directories_are_copied_within_and_across_stores() {
    for target in ["/a", "/b"] {
        let (vfs, ..) = two();
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
        let (vfs, ..) = two();
        vfs.rename("/a/f", format!("{target}/g"), Overwrite::Refuse).unwrap();
        assert!(!vfs.exists("/a/f").unwrap());
        vfs.rename("/a/d", format!("{target}/moved"), Overwrite::Refuse).unwrap();
        assert!(!vfs.exists("/a/d").unwrap());
        assert_eq!(text(&vfs, &format!("{target}/moved/e/y")), "in y");
        assert_eq!(text(&vfs, &format!("{target}/moved/l")), "in x");
    }
}

#[test]
fn a_script_stays_executable_when_something_is_put_over_it() {
    for from in ["/a/f", "/b/f"] {
        let (vfs, ..) = two();
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
    type Faulted = fn(u64) -> Fault;
    let faults: [Faulted; 3] = [Fault::Before, Fault::After, Fault::From];
    let files = [("/d/x", "in x"), ("/d/e/y", "in y")];
    for (which, fault) in faults.iter().enumerate() {
        for faulty_end in ["/a", "/b"] {
            for call in 1.. {
                let (a, b) = (store_with(&files), store_with(&[]));
                let mount = |prefix: &str, store: &Arc<ModelStore>| {
                    let fault = if prefix == faulty_end { fault(call) } else { Fault::Never };
                    let store = Arc::new(FaultyStore::new(store.clone(), fault));
                    (Workspace::new(path(prefix), ReadWrite, Mount::new(store.clone())), store)
                };
                let ((at_a, line_a), (at_b, line_b)) = (mount("/a", &a), mount("/b", &b));
                let moved = door([at_a, at_b]).rename("/a/d", "/b/d", Overwrite::Refuse);
                let (from, to) = (door([workspace("/", ReadOnly, &a)]), door([workspace("/", ReadOnly, &b)]));
                let whole = |vfs: &Vfs| {
                    files.iter().all(|(at, is)| vfs.read(*at).is_ok_and(|read| read.bytes == is.as_bytes()))
                };
                let case = format!("fault {which} at call {call} of {faulty_end}");
                match &moved {
                    Ok(_) => assert!(whole(&to) && !from.exists("/d").unwrap(), "{case}"),
                    // Whatever else was left behind: at least one end has everything.
                    Err(_) => assert!(whole(&from) || whole(&to), "{case}"),
                }
                let calls = if faulty_end == "/a" { line_a.calls() } else { line_b.calls() };
                if moved.is_ok() && calls < call {
                    break;
                }
                assert!(call < 200, "it never succeeds");
            }
        }
    }
}

#[test]
fn a_source_that_changes_while_it_is_moved_is_a_conflict() {
    let (vfs, a, b) = two();
    // The destination's Store changes the source while it receives the copy.
    let meddler = door([workspace("/", ReadWrite, &a)]);
    let meddling = Arc::new(InterferingStore {
        store: b.clone(),
        interfere: Box::new(move || drop(meddler.write("/d/new", "x"))),
    });
    let both = door(vfs.workspaces().take(1).cloned().chain([Workspace::new(
        path("/b"),
        ReadWrite,
        Mount::new(meddling),
    )]));
    assert_eq!(kind(both.rename("/a/d", "/b/d", Overwrite::Refuse)), ErrorKind::Conflict);
    assert_eq!(text(&vfs, "/a/d/new"), "x");
    assert_eq!(text(&vfs, "/a/d/e/y"), "in y");
    assert!(!vfs.exists("/b/d").unwrap());
}

#[test]
fn a_directory_goes_into_itself_neither_copied_nor_moved() {
    let (vfs, ..) = two();
    assert_eq!(kind(vfs.rename("/a/d", "/a/d/e/z", Overwrite::Refuse)), ErrorKind::Invalid);
    assert_eq!(kind(vfs.copy("/a/d", "/a/d/z", Overwrite::Refuse)), ErrorKind::Invalid);
    assert_eq!(text(&vfs, "/a/d/e/y"), "in y");
    assert!(!vfs.exists("/a/d/z").unwrap());
}

#[test]
fn a_workspace_stays_where_it_is() {
    let (vfs, ..) = two();
    assert!(matches!(vfs.rename("/a", "/b/a", Overwrite::Refuse), Err(Error::IsWorkspace { .. })));
    assert!(matches!(vfs.copy("/a/f", "/b", Overwrite::Replace), Err(Error::IsWorkspace { .. })));
    vfs.copy("/a", "/b/all", Overwrite::Refuse).unwrap();
    assert_eq!(text(&vfs, "/b/all/d/e/y"), "in y");
}

#[test]
fn links_on_the_way_are_judged_at_both_ends() {
    let (vfs, a, _) = two();
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
    let (vfs, _) = open_door();
    let below = vec!["n".repeat(255); 15].join("/");
    let file = format!("/d/{below}/{}", "f".repeat(240));
    vfs.write(&*file, "x").unwrap();
    let longer = format!("/{}", "d".repeat(100));
    for refused in
        [vfs.rename("/d", &*longer, Overwrite::Refuse), vfs.copy("/d", &*longer, Overwrite::Refuse)]
    {
        assert!(matches!(refused, Err(Error::Path(PathError::TooLong { .. }))), "{refused:?}");
    }
    assert_eq!(text(&vfs, &file), "x");
    vfs.rename("/d", "/e", Overwrite::Refuse).unwrap();
}
