//! What agents may not change, whatever the scope.

use super::*;

fn repository() -> (Vfs, Arc<ModelStore>) {
    let store = store_with(&[]);
    let unprotected =
        Workspace::new(path("/"), ReadWrite, Mount::new(store.clone())).with_protect::<&str>([]).unwrap();
    let unprotected = vfs_with([unprotected]);
    for file in ["/r/.git/hooks/pre-commit", "/r/.git/config", "/r/.git/HEAD", "/evil/hooks/post-merge"] {
        unprotected.write(file, "x").unwrap();
    }
    (vfs_with([workspace("/", ReadWrite, &store)]), store)
}

#[test]
fn hooks_and_config_are_read_only_even_where_the_scope_is_read_write() {
    let (vfs, _) = repository();
    let hook = "/r/.git/hooks/pre-commit";
    assert_eq!(text(&vfs, hook), "x");
    let error = vfs.write(hook, "evil").unwrap_err();
    assert!(matches!(error, Error::Protected { .. }) && error.to_string().contains("read-only for agents"));
    assert!(matches!(vfs.write("/r/.git/hooks/new", "evil"), Err(Error::Protected { .. })));
    assert!(matches!(vfs.write("/.git/config", "evil"), Err(Error::Protected { .. })));
    assert!(matches!(vfs.append("/r/.git/config", "evil"), Err(Error::Protected { .. })));
    assert!(matches!(vfs.edit(hook, "x", "y", Occurrences::One), Err(Error::Protected { .. })));
    assert!(matches!(vfs.remove_file(hook, RemoveOptions::default()), Err(Error::Protected { .. })));
    assert!(matches!(vfs.rename("/r/.git/HEAD", hook, Overwrite::Replace), Err(Error::Protected { .. })));
    assert!(matches!(vfs.open(hook, OpenOptions::write()), Err(Error::Protected { .. })));
    vfs.write("/r/.git/HEAD", "y").unwrap();
}

#[test]
fn a_directory_with_protected_files_is_not_removed_moved_or_created() {
    let (vfs, _) = repository();
    let recursive = RemoveOptions { recursive: true, ..RemoveOptions::default() };
    for result in [
        vfs.remove_directory("/r/.git", recursive).map(drop),
        vfs.remove_directory("/r", recursive).map(drop),
        vfs.rename("/r/.git", "/moved", Overwrite::Refuse).map(drop),
        vfs.rename("/evil", "/.git", Overwrite::Refuse).map(drop),
        vfs.copy("/evil", "/new/.git", Overwrite::Refuse).map(drop),
    ] {
        let error = result.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
        assert!(error.to_string().contains("protected"), "{error}");
    }
    vfs.rename("/evil", "/good", Overwrite::Refuse).unwrap();
}

#[test]
fn nothing_else_can_replace_a_directory_above_a_protected_name() {
    let (vfs, _) = repository();
    vfs.write("/f", "gitdir: /evil").unwrap();
    vfs.symlink("/l", "evil").unwrap();
    assert!(matches!(vfs.symlink("/.git", "evil"), Err(Error::Protected { .. })));
    assert!(matches!(vfs.symlink("/sub/.git/hooks", "/evil/hooks"), Err(Error::Protected { .. })));
    assert!(matches!(vfs.write("/.git", "gitdir: /evil"), Err(Error::Protected { .. })));
    assert!(matches!(vfs.rename("/l", "/.git", Overwrite::Refuse), Err(Error::Protected { .. })));
    assert!(matches!(vfs.copy("/f", "/.git", Overwrite::Refuse), Err(Error::Protected { .. })));
    vfs.mkdir("/sub/.git/hooks", Parents::Create).unwrap();
}

#[test]
fn a_copied_tree_cannot_bring_a_replacement_for_a_protected_directory() {
    let (vfs, store) = repository();
    let unprotected =
        Workspace::new(path("/"), ReadWrite, Mount::new(store.clone())).with_protect::<&str>([]).unwrap();
    let unprotected = vfs_with([unprotected]);
    unprotected.symlink("/tree/x/hooks", "/evil/hooks").unwrap();
    unprotected.write("/file/.git", "gitdir: /evil").unwrap();
    let other = store_with(&[]);
    let combined = vfs_with(vfs.workspaces().cloned().chain([workspace("/other", ReadWrite, &other)]));
    for (from, to) in
        [("/tree/x", "/tree/.git"), ("/tree/x", "/other/.git"), ("/file", "/copy"), ("/file", "/other/f")]
    {
        assert_eq!(kind(combined.copy(from, to, Overwrite::Refuse)), ErrorKind::Denied, "copy {from} {to}");
        assert_eq!(kind(combined.rename(from, to, Overwrite::Refuse)), ErrorKind::Denied, "move {from} {to}");
    }
    // A directory that contains such a file may be removed.
    let recursive = RemoveOptions { recursive: true, ..RemoveOptions::default() };
    combined.remove_directory("/file", recursive).unwrap();
}

#[test]
fn files_that_redirect_git_are_protected_too() {
    let (vfs, _) = repository();
    for name in [
        "commondir",
        "config.worktree",
        "modules/sub/hooks/post-checkout",
        "modules/a/b/config",
        "worktrees/w/commondir",
    ] {
        assert!(matches!(vfs.write(format!("/r/.git/{name}"), ""), Err(Error::Protected { .. })), "{name}");
    }
}

#[test]
fn a_mount_inside_a_repository_is_protected_as_well() {
    let (_, store) = repository();
    let inside = Workspace::new(path("/n"), ReadWrite, Mount::at(store, &path("/r/.git")));
    let vfs = vfs_with([inside]);
    assert!(matches!(vfs.write("/n/hooks/pre-commit", ""), Err(Error::Protected { .. })));
    assert!(matches!(vfs.write("/n/config", ""), Err(Error::Protected { .. })));
    assert!(matches!(vfs.symlink("/n/hooks", "x"), Err(Error::Protected { .. })));
    vfs.write("/n/HEAD", "").unwrap();
}

#[test]
fn protection_holds_for_copies_from_another_store() {
    let (vfs, _) = repository();
    let target = store_with(&[]);
    let combined = vfs_with(vfs.workspaces().cloned().chain([workspace("/other", ReadWrite, &target)]));
    assert_eq!(kind(combined.copy("/evil", "/other/.git", Overwrite::Refuse)), ErrorKind::Denied);
    assert_eq!(kind(combined.rename("/r", "/other/r", Overwrite::Refuse)), ErrorKind::Denied);
    assert!(!combined.exists("/other/r").unwrap() && combined.exists("/r/.git/HEAD").unwrap());
}

#[test]
fn names_that_differ_in_case_are_protected_too() {
    let (vfs, _) = repository();
    for name in ["/r/.GIT/config", "/r/.git/CONFIG", "/new/.Git/hooks/x", "/new/.git/Hooks/x"] {
        assert!(matches!(vfs.write(name, "evil"), Err(Error::Protected { .. })), "{name}");
    }
    assert!(matches!(vfs.symlink("/new/.GIT", "/evil"), Err(Error::Protected { .. })));
    assert!(matches!(vfs.write("/.git/worktrees/w/modules/m/config", "x"), Err(Error::Protected { .. })));
}

/// Makes one part of a repository, as an agent would.
fn make_part(vfs: &Vfs, directory: &str, name: &str) -> Result<()> {
    let path = format!("{directory}/{name}");
    match name {
        "objects" | "refs" => vfs.mkdir(path.as_str(), Parents::Create).map(drop),
        _ => vfs.write(path.as_str(), "x").map(drop),
    }
}

#[test]
fn a_directory_cannot_be_turned_into_a_git_repository() {
    let vfs = vfs_with([workspace("/", ReadWrite, &store_with(&[]))]);
    let parts = ["HEAD", "objects", "refs", "config"];
    for (number, last) in parts.iter().enumerate() {
        let directory = format!("/x{number}");
        for part in parts.iter().filter(|part| *part != last) {
            make_part(&vfs, &directory, part).unwrap();
        }
        let error = make_part(&vfs, &directory, last).unwrap_err();
        assert!(matches!(error, Error::GitRepository { .. }), "{error}");
        assert_eq!(error.kind(), ErrorKind::Denied);
        assert!(!vfs.exists(format!("{directory}/{last}").as_str()).unwrap());
    }
    // Nor by moving or copying something to such a name.
    vfs.write("/y", "x").unwrap();
    vfs.mkdir("/z", Parents::Create).unwrap();
    for (from, to) in [("/y", "/x0/HEAD"), ("/z", "/x1/objects"), ("/y", "/x3/config"), ("/z", "/x3/hooks")] {
        assert!(matches!(vfs.rename(from, to, Overwrite::Refuse), Err(Error::GitRepository { .. })), "{to}");
        assert!(matches!(vfs.copy(from, to, Overwrite::Refuse), Err(Error::GitRepository { .. })), "{to}");
    }
    for link in ["/x0/HEAD", "/x1/objects", "/x2/refs", "/x3/config", "/x3/hooks", "/x3/commondir"] {
        assert!(matches!(vfs.symlink(link, "/z"), Err(Error::GitRepository { .. })), "{link}");
    }
    assert!(matches!(vfs.write("/x3/hooks/pre-commit", "x"), Err(Error::GitRepository { .. })));
    vfs.symlink("/way", "/x3").unwrap();
    assert!(matches!(vfs.write("/way/config", "x"), Err(Error::GitRepository { .. })), "through a symlink");
    vfs.write("/c/commondir", "../x3").unwrap();
    assert!(matches!(vfs.write("/c/HEAD", "x"), Err(Error::GitRepository { .. })));
}

#[test]
fn a_parent_directory_that_a_change_creates_cannot_complete_a_git_repository() {
    let vfs = vfs_with([workspace("/", ReadWrite, &store_with(&[]))]);
    vfs.write("/x/HEAD", "ref: refs/heads/main").unwrap();
    vfs.mkdir("/x/objects", Parents::Create).unwrap();
    vfs.write("/x/config", "[core]").unwrap();
    vfs.write("/y", "x").unwrap();
    let attempts = [
        vfs.write("/x/refs/x", "x").map(drop),
        vfs.append("/x/refs/x", "x").map(drop),
        vfs.mkdir("/x/refs/heads", Parents::Create).map(drop),
        vfs.symlink("/x/refs/x", "/y").map(drop),
        vfs.copy("/y", "/x/refs/x", Overwrite::Refuse).map(drop),
        vfs.rename("/y", "/x/refs/deep/x", Overwrite::Refuse).map(drop),
        vfs.write("/x/REFS/x", "x").map(drop),
    ];
    for (number, attempt) in attempts.into_iter().enumerate() {
        assert!(matches!(attempt, Err(Error::GitRepository { .. })), "{number}: {attempt:?}");
    }
    assert!(!vfs.exists("/x/refs").unwrap());
    let mut batch = vfs.batch();
    for name in ["HEAD", "objects/x", "config"] {
        batch.write(format!("/z/{name}").as_str(), "x", &WriteOptions::new()).unwrap();
    }
    let last = batch.write("/z/refs/x", "x", &WriteOptions::new());
    assert!(matches!(last, Err(Error::GitRepository { .. })), "in one batch: {last:?}");
}

#[test]
fn a_git_repository_is_not_copied_from_an_unprotected_workspace() {
    let store = store_with(&[]);
    let unprotected = Workspace::new(path("/free"), ReadWrite, Mount::at(store.clone(), &path("/free")));
    let protected = Workspace::new(path("/kept"), ReadWrite, Mount::at(store, &path("/kept")));
    let vfs = vfs_with([unprotected.with_protect::<&str>([]).unwrap(), protected]);
    for file in ["HEAD", "config", "objects/ab/x", "refs/heads/main"] {
        vfs.write(format!("/free/deep/r/{file}").as_str(), "x").unwrap();
    }
    for result in [
        vfs.copy("/free/deep", "/kept/deep", Overwrite::Refuse),
        vfs.rename("/free/deep", "/kept/deep", Overwrite::Refuse),
    ] {
        assert_eq!(result.unwrap_err().kind(), ErrorKind::Denied);
    }
    vfs.remove_file("/free/deep/r/config", RemoveOptions::default()).unwrap();
    vfs.copy("/free/deep", "/kept/deep", Overwrite::Refuse).unwrap();
}

#[test]
fn paths_below_a_protected_name_are_protected() {
    let store = store_with(&[]);
    let locked = Workspace::new(path("/"), ReadWrite, Mount::new(store)).with_protect(["locked"]).unwrap();
    let vfs = vfs_with([locked]);
    for name in ["/locked", "/q/locked/x", "/q/locked/deep/x"] {
        assert!(matches!(vfs.write(name, "x"), Err(Error::Protected { .. })), "{name}");
    }
    vfs.write("/unlocked/x", "x").unwrap();
}

#[test]
fn a_bare_repository_is_writable_except_for_its_config_and_hooks() {
    let store = store_with(&[]);
    let unprotected =
        Workspace::new(path("/"), ReadWrite, Mount::new(store.clone())).with_protect::<&str>([]).unwrap();
    let unprotected = vfs_with([unprotected]);
    for file in ["HEAD", "config", "objects/ab/x", "refs/heads/main", "hooks/update"] {
        unprotected.write(format!("/r.git/{file}").as_str(), "x").unwrap();
    }
    let vfs = vfs_with([workspace("/", ReadWrite, &store)]);
    for allowed in ["HEAD", "refs/heads/new", "objects/cd/y", "description", "packed-refs"] {
        vfs.write(format!("/r.git/{allowed}").as_str(), "y").unwrap();
    }
    for protected in ["config", "config.worktree", "commondir", "hooks/update", "hooks/new"] {
        let path = format!("/r.git/{protected}");
        assert!(matches!(vfs.write(path.as_str(), "y"), Err(Error::GitRepository { .. })), "{protected}");
    }
    let removed = vfs.remove_file("/r.git/config", RemoveOptions::default());
    assert!(matches!(removed, Err(Error::GitRepository { .. })));
    // Taken apart and put together again, the repository would obey another configuration.
    vfs.remove_file("/r.git/HEAD", RemoveOptions::default()).unwrap();
    vfs.write("/r.git/config", "y").unwrap();
    assert!(matches!(vfs.write("/r.git/HEAD", "y"), Err(Error::GitRepository { .. })));
}

#[test]
fn of_repository_parts_created_concurrently_one_is_refused() {
    for round in 0..50 {
        let vfs = vfs_with([workspace("/", ReadWrite, &store_with(&[]))]);
        vfs.mkdir("/x/objects", Parents::Create).unwrap();
        vfs.mkdir("/x/refs", Parents::Create).unwrap();
        let succeeded: Vec<_> = std::thread::scope(|scope| {
            let threads = ["HEAD", "config"].map(|name| {
                let vfs = &vfs;
                scope.spawn(move || make_part(vfs, "/x", name).is_ok())
            });
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert_eq!(succeeded.iter().filter(|succeeded| **succeeded).count(), 1, "{round}");
    }
}
