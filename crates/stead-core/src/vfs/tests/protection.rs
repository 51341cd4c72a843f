//! What agents may not change, whatever the scope.

use super::*;

fn repository() -> (Vfs, Arc<ModelStore>) {
    let store = store_with(&[]);
    let free =
        Workspace::new(path("/"), ReadWrite, Mount::new(store.clone())).with_protect::<&str>([]).unwrap();
    let free = door([free]);
    for file in ["/r/.git/hooks/pre-commit", "/r/.git/config", "/r/.git/HEAD", "/evil/hooks/post-merge"] {
        free.write(file, "x").unwrap();
    }
    (door([workspace("/", ReadWrite, &store)]), store)
}

#[test]
fn hooks_and_config_are_read_only_even_where_the_scope_is_read_write() {
    let (vfs, _) = repository();
    let hook = "/r/.git/hooks/pre-commit";
    assert_eq!(text(&vfs, hook), "x");
    let refused = vfs.write(hook, "evil").unwrap_err();
    assert!(
        matches!(refused, Error::Protected { .. }) && refused.to_string().contains("read-only for agents")
    );
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
fn a_whole_directory_cannot_carry_it_away_or_bring_it_in() {
    let (vfs, _) = repository();
    let recursive = RemoveOptions { recursive: true, ..RemoveOptions::default() };
    for refused in [
        vfs.remove_directory("/r/.git", recursive).map(drop),
        vfs.remove_directory("/r", recursive).map(drop),
        vfs.rename("/r/.git", "/moved", Overwrite::Refuse).map(drop),
        vfs.rename("/evil", "/.git", Overwrite::Refuse).map(drop),
        vfs.copy("/evil", "/new/.git", Overwrite::Refuse).map(drop),
    ] {
        let error = refused.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
        assert!(error.to_string().contains("protected"), "{error}");
    }
    vfs.rename("/evil", "/good", Overwrite::Refuse).unwrap();
}

#[test]
fn nothing_else_can_take_the_place_of_a_directory_that_leads_there() {
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
fn a_tree_cannot_bring_a_stand_in_along() {
    let (vfs, store) = repository();
    let free =
        Workspace::new(path("/"), ReadWrite, Mount::new(store.clone())).with_protect::<&str>([]).unwrap();
    let free = door([free]);
    free.symlink("/tree/x/hooks", "/evil/hooks").unwrap();
    free.write("/file/.git", "gitdir: /evil").unwrap();
    let other = store_with(&[]);
    let both = door(vfs.workspaces().cloned().chain([workspace("/other", ReadWrite, &other)]));
    for (from, to) in
        [("/tree/x", "/tree/.git"), ("/tree/x", "/other/.git"), ("/file", "/copy"), ("/file", "/other/f")]
    {
        assert_eq!(kind(both.copy(from, to, Overwrite::Refuse)), ErrorKind::Denied, "copy {from} {to}");
        assert_eq!(kind(both.rename(from, to, Overwrite::Refuse)), ErrorKind::Denied, "move {from} {to}");
    }
    // What is there may go.
    let recursive = RemoveOptions { recursive: true, ..RemoveOptions::default() };
    both.remove_directory("/file", recursive).unwrap();
}

#[test]
fn what_makes_git_look_elsewhere_is_protected_too() {
    let (vfs, _) = repository();
    for at in [
        "commondir",
        "config.worktree",
        "modules/sub/hooks/post-checkout",
        "modules/a/b/config",
        "worktrees/w/commondir",
    ] {
        assert!(matches!(vfs.write(format!("/r/.git/{at}"), ""), Err(Error::Protected { .. })), "{at}");
    }
}

#[test]
fn a_mount_inside_a_repository_is_protected_as_well() {
    let (_, store) = repository();
    let inside = Workspace::new(path("/n"), ReadWrite, Mount::at(store, &path("/r/.git")));
    let vfs = door([inside]);
    assert!(matches!(vfs.write("/n/hooks/pre-commit", ""), Err(Error::Protected { .. })));
    assert!(matches!(vfs.write("/n/config", ""), Err(Error::Protected { .. })));
    assert!(matches!(vfs.symlink("/n/hooks", "x"), Err(Error::Protected { .. })));
    vfs.write("/n/HEAD", "").unwrap();
}

#[test]
fn it_holds_for_copies_from_another_store() {
    let (vfs, _) = repository();
    let target = store_with(&[]);
    let both = door(vfs.workspaces().cloned().chain([workspace("/other", ReadWrite, &target)]));
    assert_eq!(kind(both.copy("/evil", "/other/.git", Overwrite::Refuse)), ErrorKind::Denied);
    assert_eq!(kind(both.rename("/r", "/other/r", Overwrite::Refuse)), ErrorKind::Denied);
    assert!(!both.exists("/other/r").unwrap() && both.exists("/r/.git/HEAD").unwrap());
}
