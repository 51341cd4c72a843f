//! Symlinks: followed by the `Vfs`, and authorized at their target.

use super::scopes::write_calls;
use super::*;
use crate::workspace::ApprovalPolicy;

#[test]
fn symlinks_are_followed_within_and_across_workspaces_and_authorized_at_their_target() {
    let (ro, rw) = (store_with(&[("/a", "ro a"), ("/d/x", "ro x")]), store_with(&[("/b", "rw b")]));
    store_link(&rw, "/near", "b");
    store_link(&rw, "/far", "../ro/a");
    store_link(&rw, "/abs", "/ro/d");
    store_link(&ro, "/out", "/rw/b");
    store_link(&rw, "/chain", "near");
    let vfs = vfs_with([workspace("/ro", ReadOnly, &ro), workspace("/rw", ReadWrite, &rw)]);
    assert_eq!(text(&vfs, "/rw/near"), "rw b");
    assert_eq!(text(&vfs, "/rw/chain"), "rw b");
    assert_eq!(text(&vfs, "/rw/far"), "ro a");
    assert_eq!(text(&vfs, "/rw/abs/x"), "ro x");
    assert_eq!(vfs.read("/rw/abs/x").unwrap().path, path("/ro/d/x"));
    // The symlink is in READ_WRITE, but its target is in READ_ONLY.
    assert_eq!(kind(vfs.write("/rw/far", "no")), ErrorKind::Denied);
    assert_eq!(kind(vfs.write("/rw/abs/y", "no")), ErrorKind::Denied);
    assert_eq!(kind(vfs.edit("/rw/abs/x", "ro", "no", Occurrences::One)), ErrorKind::Denied);
    // The other way round, the call is refused first: to find the target of a symlink in READ_ONLY, its Store would
    // have to be called for a write.
    assert_eq!(text(&vfs, "/ro/out"), "rw b");
    assert_eq!(kind(vfs.write("/ro/out", "no")), ErrorKind::Denied);
    assert_eq!(text(&vfs, "/rw/b"), "rw b");
    // A removal removes the symlink, not its target.
    vfs.remove_file("/rw/near", RemoveOptions::default()).unwrap();
    assert_eq!(text(&vfs, "/rw/b"), "rw b");
    assert_eq!(kind(vfs.read("/rw/chain")), ErrorKind::NotFound);
}

#[test]
fn a_symlink_does_not_bypass_a_nested_workspace() {
    let (outer, inner) = (store_with(&[("/n/hidden", "outer")]), store_with(&[("/f", "inner")]));
    store_link(&outer, "/shortcut", "n");
    let vfs = vfs_with([workspace("/o", ReadWrite, &outer), workspace("/o/n", ReadOnly, &inner)]);
    assert_eq!(kind(vfs.read("/o/shortcut/hidden")), ErrorKind::NotFound);
    assert_eq!(text(&vfs, "/o/shortcut/f"), "inner");
    assert_eq!(kind(vfs.write("/o/shortcut/f", "x")), ErrorKind::Denied);
    assert_eq!(kind(vfs.rename("/o/shortcut/f", "/o/g", Overwrite::Refuse)), ErrorKind::Denied);
}

#[test]
fn a_symlink_that_leads_outside_the_workspaces_says_so() {
    let store = store_with(&[]);
    for (path, target) in
        [("/up", "../../etc"), ("/abs", "/etc/passwd"), ("/none", "../other/x"), ("/ctl", "a\u{7}b")]
    {
        store_link(&store, path, target);
    }
    let vfs = vfs_with([workspace("/w", ReadWrite, &store)]);
    for path in ["/w/up", "/w/abs", "/w/none", "/w/ctl", "/w/up/deeper"] {
        let error = vfs.read(path).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Denied, "{path}");
        assert!(error.to_string().contains("leads outside your Workspaces"), "{error}");
        assert!(!error.to_string().contains("etc"), "{error}");
        assert_eq!(kind(vfs.write(path, "x")), ErrorKind::Denied, "{path}");
    }
}

#[test]
fn symlink_cycles_end_with_an_error() {
    let store = store_with(&[]);
    store_link(&store, "/a", "b");
    store_link(&store, "/b", "a");
    store_link(&store, "/self", "self/x");
    let vfs = vfs_with([workspace("/", ReadWrite, &store)]);
    for path in ["/a", "/self", "/a/x/y"] {
        assert!(matches!(vfs.read(path), Err(Error::TooManySymlinks { .. })), "{path}");
        assert!(matches!(vfs.write(path, "x"), Err(Error::TooManySymlinks { .. })), "{path}");
        assert!(matches!(vfs.grep(&GrepQuery::new("x"), path), Err(Error::TooManySymlinks { .. })), "{path}");
    }
}

#[test]
fn a_dangling_symlink_is_written_through() {
    let (vfs, _) = read_write_vfs();
    vfs.symlink("/l", "made/here").unwrap();
    vfs.write("/l", "x").unwrap();
    assert_eq!(text(&vfs, "/made/here"), "x");
    assert_eq!(vfs.read_link("/l").unwrap(), "made/here");
    assert_eq!(vfs.stat_link("/l").unwrap().kind, NodeKind::Symlink);
    assert_eq!(vfs.stat("/l").unwrap().kind, NodeKind::File);
}

#[test]
fn a_directory_is_made_through_a_link_only_together_with_its_parents() {
    let (vfs, _) = read_write_vfs();
    vfs.mkdir("/d", Parents::Required).unwrap();
    vfs.symlink("/to-d", "d").unwrap();
    vfs.symlink("/dangling", "new/deep").unwrap();
    assert_eq!(vfs.mkdir("/to-d", Parents::Create).unwrap().created, Some(false));
    assert_eq!(vfs.mkdir("/dangling", Parents::Create).unwrap().path, path("/new/deep"));
    assert_eq!(kind(vfs.mkdir("/to-d", Parents::Required)), ErrorKind::AlreadyExists);
}

/// A WRITE_ONLY Workspace `/wo` with symlinks into `/rw/secret` and `/asks/secret`, which no answer may name, and a
/// symlink `/free/way` to it.
fn hidden_symlinks() -> Vfs {
    let (inbox, target) = (store_with(&[]), store_with(&[("/secret/file", "x")]));
    let unprotected =
        Workspace::new(path("/"), ReadWrite, Mount::new(target.clone())).with_protect::<&str>([]).unwrap();
    let unprotected = vfs_with([unprotected]);
    for name in ["HEAD", "objects/ab/x", "refs/heads/main"] {
        unprotected.write(format!("/secret/{name}").as_str(), "x").unwrap();
    }
    for (link, link_target) in [
        ("/directory", "/rw/secret"),
        ("/config", "/rw/secret/config"),
        ("/git", "/rw/secret/.git"),
        ("/file", "/rw/secret/file"),
        ("/asks", "/asks/secret"),
        ("/above", "/rw"),
    ] {
        store_link(&inbox, link, link_target);
    }
    let free = store_with(&[("/a", "a")]);
    store_link(&free, "/way", "/wo");
    let asks = workspace("/asks", ReadWrite, &store_with(&[])).with_approval_policy(ApprovalPolicy::Changes);
    vfs_with([
        workspace("/wo", WriteOnly, &inbox),
        workspace("/rw", ReadWrite, &target),
        asks,
        workspace("/free", ReadWrite, &free),
    ])
}

#[test]
fn no_refusal_discloses_the_target_of_a_hidden_symlink() {
    let vfs = hidden_symlinks();
    let links = ["config", "git", "file", "asks", "asks/x", "above"];
    let names_below = ["config", ".git", "hooks/x", "commondir", "file", ".git/config"];
    let names_below = names_below.iter().map(|name| format!("directory/{name}"));
    for name in links.iter().map(|&link| link.to_owned()).chain(names_below) {
        for prefix in ["/wo", "/free/way"] {
            let path = format!("{prefix}/{name}");
            for (call, write) in write_calls() {
                let Err(error) = write(&vfs, &path) else { continue };
                let message = error.to_string();
                assert!(
                    !message.contains("secret") && !message.contains("`/rw/"),
                    "{call} {path}: {message}"
                );
                for workspace in ["`/rw`", "`/asks`"] {
                    let named = message.contains(&format!("the Workspace {workspace}"));
                    assert!(!named, "{call} {path}: {message}");
                }
                assert!(!format!("{error:?}").contains("GitRepository"), "{call} {path}: {message}");
            }
        }
    }
}

#[test]
fn a_small_and_a_large_write_through_a_hidden_symlink_are_refused_alike() {
    let vfs = hidden_symlinks();
    for path in ["/wo/git", "/wo/config", "/wo/directory/.git", "/wo/directory/config"] {
        let message = vfs.write(path, "x").unwrap_err().to_string();
        assert_eq!(vfs.write(path, vec![b'x'; 1 << 20]).unwrap_err().to_string(), message);
        let streamed = vfs.write_from(path, &mut &b"x"[..], &WriteOptions::new());
        assert_eq!(streamed.unwrap_err().to_string(), message);
    }
}

#[test]
fn a_hidden_symlink_behind_a_visible_one_is_answered_like_a_file() {
    let vfs = hidden_symlinks();
    let written_path = |name: &str, size: usize| {
        vfs.write(format!("/free/way/{name}"), vec![b'x'; size]).unwrap().path.to_string()
    };
    for size in [1, 1 << 20] {
        assert_eq!(written_path("plain", size), "/wo/plain");
        assert_eq!(written_path("file", size), "/wo/file");
        assert_eq!(written_path("directory/new", size), "/wo/directory/new");
    }
    let edit_message = |name: &str| {
        let error = vfs.edit(format!("/free/way/{name}"), "x", "y", Occurrences::One).unwrap_err();
        error.to_string().replace(&format!("/{name}`"), "")
    };
    assert_eq!(edit_message("file"), edit_message("plain"));
    let mut batch = vfs.batch();
    batch.write("/free/way/directory/batched", "x", &WriteOptions::new()).unwrap();
    assert_eq!(batch.apply().unwrap()[0].path, path("/wo/directory/batched"));
}

#[test]
fn where_symlinks_are_refused_nothing_is_behind_one_and_nothing_is_changed_through_one() {
    let store = store_with(&[("/b", "target"), ("/d/x", "below")]);
    store_link(&store, "/file", "b");
    store_link(&store, "/directory", "d");
    let following = vfs_with([workspace("/", ReadWrite, &store)]);
    let vfs = following.with_symlinks(SymlinkRule::Refuse);
    for behind in ["/file", "/directory/x", "/directory"] {
        assert_eq!(kind(vfs.read(behind)), ErrorKind::NotFound, "{behind}");
        assert_eq!(kind(vfs.stat(behind)), ErrorKind::NotFound, "{behind}");
        assert_eq!(kind(vfs.walk(behind, &WalkQuery::default())), ErrorKind::NotFound, "{behind}");
    }
    let refused = vfs.write("/directory/y", "no").unwrap_err();
    assert!(matches!(refused, Error::SymlinkRefused { .. }), "{refused}");
    assert_eq!(refused.kind(), ErrorKind::Denied);
    for result in [
        vfs.write("/file", "no"),
        vfs.write("/file", vec![b'x'; 100 << 10]),
        vfs.append("/file", "no"),
        vfs.mkdir("/directory/z", Parents::Create),
    ] {
        assert_eq!(kind(result), ErrorKind::Denied);
    }
    let remove = RemoveOptions { force: true, ..RemoveOptions::default() };
    assert_eq!(kind(vfs.remove_file("/directory/x", remove)), ErrorKind::Denied);
    assert_eq!(kind(vfs.copy("/b", "/directory/y", Overwrite::Refuse)), ErrorKind::Denied);
    assert_eq!(kind(vfs.rename("/directory/x", "/y", Overwrite::Refuse)), ErrorKind::Denied);
    assert_eq!(text(&following, "/file"), "target");
    assert_eq!(text(&following, "/d/x"), "below");
}
