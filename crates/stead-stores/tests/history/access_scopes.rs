//! Undo and restore respect what the agent may see and change, and report what they left out.

use std::sync::Arc;

use stead_core::store::Parents;
use stead_core::vfs::{
    DiffOptions, LogQuery, LostUpdates, Overwrite, RemoveOptions, RestoreOptions, RevertResult, UndoOptions,
    UndoTarget,
};
use stead_core::{AccessScope, Identity, Mount, Occurrences, Store, Vfs, VfsPath, Workspace};

use crate::{text, vfs_for};

crate::on_every_store! {
    a_restore_names_nothing_that_a_nested_workspace_withholds
    a_restore_leaves_out_what_the_agent_may_not_change_and_says_so
    a_file_that_was_moved_where_the_agent_can_not_see_it_is_restored_like_a_removed_one
    the_answer_does_not_depend_on_what_happens_to_a_file_that_the_agent_can_not_see
    an_undo_names_no_path_of_the_store
    s25_the_log_shows_that_a_file_was_moved_out_and_where_to_only_if_the_caller_sees_the_place
}

type Subject = Arc<dyn Store>;

/// The agent's directory in the Store, which the agent must not learn of.
const MOUNT_PATH: &str = "tenants/acme-internal/home";

fn path(text: &str) -> VfsPath {
    VfsPath::parse(text).unwrap()
}

fn workspace(store: &Subject, prefix: &str, scope: AccessScope, mount_path: &str) -> Workspace {
    Workspace::new(path(prefix), scope, Mount::at(Arc::clone(store), &path(&format!("/{mount_path}"))))
}

/// An agent with `/home`, and in it a WRITE_ONLY and a READ_ONLY Workspace on the same Store.
fn agent(store: &Subject) -> Vfs {
    let builder = Vfs::builder(Identity::agent("a")).lost_updates(LostUpdates::Allow);
    let builder = builder
        .workspace(workspace(store, "/home", AccessScope::ReadWrite, MOUNT_PATH))
        .workspace(workspace(store, "/home/wo", AccessScope::WriteOnly, &format!("{MOUNT_PATH}/wo")))
        .workspace(workspace(store, "/home/ro", AccessScope::ReadOnly, &format!("{MOUNT_PATH}/ro")));
    builder.build().unwrap()
}

/// A `Vfs` for the whole Store. Creates the agent's directories.
fn owner(store: &Subject) -> Vfs {
    let owner = vfs_for(store, "owner");
    for directory in ["wo", "ro", ".git"] {
        owner.mkdir(&*format!("/w/{MOUNT_PATH}/{directory}"), Parents::Create).unwrap();
    }
    owner
}

fn left_out_paths(undone: &RevertResult) -> Vec<&str> {
    undone.left_out.iter().map(|path| path.path.as_str()).collect()
}

/// Checks that an answer contains none of the canaries.
#[track_caller]
fn assert_reveals_none_of(undone: &RevertResult, canaries: &[&str]) {
    let answer = format!("{:?} {:?} {:?}", undone.changes, undone.conflicts, undone.left_out);
    for canary in canaries {
        assert!(!answer.contains(canary), "{canary}: {answer}");
    }
}

fn a_restore_names_nothing_that_a_nested_workspace_withholds(store: &Subject) {
    let (a, owner) = (agent(store), owner(store));
    a.write("/home/f", "one").unwrap();
    owner.write(&*format!("/w/{MOUNT_PATH}/wo/hidname"), "secret").unwrap();
    let revision = crate::newest(store);
    a.write("/home/f", "two").unwrap();
    owner.write(&*format!("/w/{MOUNT_PATH}/wo/hidname"), "another secret").unwrap();
    owner.write(&*format!("/w/{MOUNT_PATH}/wo/hidname-2"), "secret").unwrap();
    for dry_run in [true, false] {
        let restored =
            a.restore("/home", revision, &RestoreOptions { dry_run, ..RestoreOptions::default() }).unwrap();
        assert_eq!(restored.done, !dry_run);
        assert_eq!(restored.changes.len(), 1, "{restored:?}");
        // The agent knows the Workspaces, but must not learn what happened in them.
        assert_eq!(left_out_paths(&restored), ["/home/ro", "/home/wo"]);
        assert_reveals_none_of(&restored, &["hidname", "acme-internal", "tenants"]);
    }
    assert_eq!(text(&a, "/home/f"), "one");
    assert_eq!(text(&owner, &format!("/w/{MOUNT_PATH}/wo/hidname")), "another secret");
}

fn a_restore_leaves_out_what_the_agent_may_not_change_and_says_so(store: &Subject) {
    let (a, owner) = (agent(store), owner(store));
    a.write("/home/f", "one").unwrap();
    let revision = crate::newest(store);
    a.write("/home/f", "two").unwrap();
    owner.write(&*format!("/w/{MOUNT_PATH}/ro/f"), "the owner's").unwrap();
    let workspace = Workspace::new(path("/w"), AccessScope::ReadWrite, Mount::from(store));
    let unprotected =
        Vfs::builder(Identity::agent("owner")).workspace(workspace.with_protect::<&str>([]).unwrap());
    unprotected.build().unwrap().write(&*format!("/w/{MOUNT_PATH}/.git/config"), "[core]").unwrap();
    let restored = a.restore("/home", revision, &RestoreOptions::default()).unwrap();
    assert!(restored.done && restored.conflicts.is_empty(), "{restored:?}");
    assert_eq!(text(&a, "/home/f"), "one");
    assert_eq!(left_out_paths(&restored), ["/home/ro", "/home/wo", "/home/.git/config"]);
    assert!(restored.left_out[2].why.contains("protected"), "{restored:?}");
    assert!(restored.left_out[0].why.contains("READ_ONLY"), "{restored:?}");
    assert_eq!(text(&a, "/home/ro/f"), "the owner's");
    assert_reveals_none_of(&restored, &["acme-internal"]);
}

fn a_file_that_was_moved_where_the_agent_can_not_see_it_is_restored_like_a_removed_one(store: &Subject) {
    let (a, owner) = (agent(store), owner(store));
    a.write("/home/mine", "1").unwrap();
    owner.write("/w/elsewhere/theirs", "2").unwrap();
    let revision = crate::newest(store);
    owner.rename(&*format!("/w/{MOUNT_PATH}/mine"), "/w/elsewhere/vanished", Overwrite::Refuse).unwrap();
    owner.rename("/w/elsewhere/theirs", &*format!("/w/{MOUNT_PATH}/arrived"), Overwrite::Refuse).unwrap();
    // Something else has taken the name. The agent must not learn that either.
    owner.write("/w/elsewhere/theirs", "3").unwrap();
    let restored = a.restore("/home", revision, &RestoreOptions::default()).unwrap();
    assert!(restored.done && restored.conflicts.is_empty(), "{restored:?}");
    assert_eq!(left_out_paths(&restored), ["/home/ro", "/home/wo", "/home/arrived"]);
    assert_reveals_none_of(&restored, &["acme-internal", "elsewhere", "vanished", "theirs"]);
    assert_eq!((text(&a, "/home/mine"), text(&owner, "/w/elsewhere/vanished")), ("1".into(), "1".into()));
}

/// An answer that depended on it would reveal the content of a file that the agent may not read.
fn the_answer_does_not_depend_on_what_happens_to_a_file_that_the_agent_can_not_see(store: &Subject) {
    let (a, owner) = (agent(store), owner(store));
    let mut answers = std::collections::BTreeSet::new();
    for hidden_path in [format!("/w/{MOUNT_PATH}/wo/hidden"), "/w/elsewhere".to_owned()] {
        for change in ["nothing", "other line", "same line", "as it was", "removed"] {
            let created = a.write("/home/f", "one\ntwo\nthree\n").unwrap().operation;
            let revision = crate::newest(store);
            let edited = a.edit("/home/f", "two", "2", Occurrences::One).unwrap().written.operation;
            owner.rename(&*format!("/w/{MOUNT_PATH}/f"), &*hidden_path, Overwrite::Replace).unwrap();
            match change {
                "other line" => drop(owner.edit(&*hidden_path, "one", "1", Occurrences::One).unwrap()),
                "same line" => drop(owner.edit(&*hidden_path, "2", "zwei", Occurrences::One).unwrap()),
                "as it was" => drop(owner.edit(&*hidden_path, "2", "two", Occurrences::One).unwrap()),
                "removed" => drop(owner.remove_file(&*hidden_path, RemoveOptions::default()).unwrap()),
                _ => {}
            }
            let dry_run = UndoOptions { dry_run: true, ..UndoOptions::default() };
            let answer = |undone: RevertResult| {
                let RevertResult { undone, incomplete, changes, conflicts, left_out, done, .. } = undone;
                let incomplete: Vec<_> = incomplete.iter().map(|operation| operation.is_partial).collect();
                format!("{} {incomplete:?} {changes:?} {conflicts:?} {left_out:?} {done}", undone.len())
            };
            let restored =
                a.restore("/home", revision, &RestoreOptions { dry_run: true, ..RestoreOptions::default() });
            answers.insert([
                answer(a.undo(UndoTarget::Operation(edited), dry_run).unwrap()),
                answer(a.undo(UndoTarget::Operation(created), dry_run).unwrap()),
                answer(restored.unwrap()),
            ]);
        }
    }
    assert_eq!(answers.len(), 1, "{answers:#?}");
}

fn an_undo_names_no_path_of_the_store(store: &Subject) {
    let (a, owner) = (agent(store), owner(store));
    let both = a.operation("both");
    both.write("/home/f", "one").unwrap();
    both.write("/home/wo/f", "one").unwrap();
    owner.rename(&*format!("/w/{MOUNT_PATH}/wo/f"), "/w/elsewhere", Overwrite::Refuse).unwrap();
    let undone = a.undo(UndoTarget::Last(1), UndoOptions::default()).unwrap();
    assert!(!undone.done && undone.conflicts.len() == 1, "{undone:?}");
    assert_eq!(undone.conflicts[0].path.as_str(), "/", "no folder that has nothing to do with it");
    assert!(undone.conflicts[0].why.contains("you may change"), "{undone:?}");
    assert_reveals_none_of(&undone, &["acme-internal", "elsewhere"]);
    assert_eq!(text(&a, "/home/f"), "one");
}

fn s25_the_log_shows_that_a_file_was_moved_out_and_where_to_only_if_the_caller_sees_the_place(
    store: &Subject,
) {
    let vfs = |agent: &str, prefixes: &[&str]| {
        let builder = prefixes.iter().fold(Vfs::builder(Identity::agent(agent)), |builder, prefix| {
            builder.workspace(workspace(store, prefix, AccessScope::ReadWrite, &format!("home{prefix}")))
        });
        builder.build().unwrap()
    };
    let (mover, team_mate) = (vfs("mover", &["/a", "/secret"]), vfs("mate", &["/a"]));
    mover.write("/a/d/x", "public").unwrap();
    mover.rename("/a/d", "/secret/hidden", Overwrite::Refuse).unwrap();
    mover.write("/secret/hidden/x", "confidential").unwrap();
    mover.write("/a/y", "public").unwrap();
    mover.rename("/a/y", "/secret/z", Overwrite::Refuse).unwrap();
    let logged = |vfs: &Vfs, at: Option<&str>| -> Vec<String> {
        let diff = Some(DiffOptions::default());
        let entries = vfs.log(&LogQuery { path: at.map(path), diff, ..LogQuery::default() }).unwrap();
        assert!(vfs.identity().agent == "mover" || !format!("{entries:?}").contains("secret"));
        assert!(vfs.identity().agent == "mover" || !format!("{entries:?}").contains("confidential"));
        let entry = |entry: &stead_core::vfs::LogEntry| {
            let changes = entry.changes.iter().map(|change| match &change.from {
                Some(from) => format!("{} {from} -> {}", change.action.as_str(), change.path),
                None => format!("{} {}", change.action.as_str(), change.path),
            });
            assert_eq!(entry.changes.len(), entry.differences.len(), "{entry:?}");
            changes.collect::<Vec<_>>().join(", ")
        };
        entries.iter().map(entry).filter(|changes| !changes.starts_with("created /a,")).collect()
    };
    for at in [None, Some("/a")] {
        assert_eq!(logged(&team_mate, at)[..3], ["removed /a/y", "created /a/y", "removed /a/d"]);
    }
    assert_eq!(logged(&team_mate, Some("/a/y")), ["removed /a/y", "created /a/y"]);
    let moved = "moved /a/y -> /secret/z";
    assert_eq!(logged(&mover, Some("/a"))[..3], [moved, "created /a/y", "moved /a/d -> /secret/hidden"]);
    assert_eq!(logged(&mover, Some("/secret"))[..2], [moved, "written /secret/hidden/x"]);
    assert_eq!(logged(&mover, Some("/secret/z")), [moved]);
    assert_eq!(logged(&mover, Some("/a/y"))[0], moved);
}
