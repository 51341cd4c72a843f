//! Undo and restore respect what the agent may see and change, and report what they left out.

use std::sync::Arc;

use stead_core::store::Parents;
use stead_core::vfs::{
    LostUpdates, Overwrite, RemoveOptions, RestoreOptions, RevertResult, UndoOptions, UndoTarget,
};
use stead_core::{AccessScope, Identity, Mount, Occurrences, Store, Vfs, VfsPath, Workspace};

use crate::{door, text};

crate::on_every_store! {
    a_restore_names_nothing_that_a_nested_workspace_withholds
    a_restore_leaves_out_what_the_agent_may_not_change_and_says_so
    a_file_that_was_moved_out_of_sight_comes_back_as_one_that_was_removed_does
    whatever_becomes_of_a_file_out_of_sight_the_answer_is_the_same
    an_undo_names_no_path_of_the_store
}

type Subject = Arc<dyn Store>;

/// The agent's directory in the Store, which the agent must not learn of.
const INSIDE: &str = "tenants/acme-internal/home";

fn path(text: &str) -> VfsPath {
    VfsPath::parse(text).unwrap()
}

fn workspace(store: &Subject, prefix: &str, scope: AccessScope, inside: &str) -> Workspace {
    Workspace::new(path(prefix), scope, Mount::at(Arc::clone(store), &path(&format!("/{inside}"))))
}

/// An agent with `/home`, and in it a WRITE_ONLY and a READ_ONLY Workspace on the same Store.
fn agent(store: &Subject) -> Vfs {
    let builder = Vfs::builder(Identity::agent("a")).lost_updates(LostUpdates::Allow);
    let builder = builder
        .workspace(workspace(store, "/home", AccessScope::ReadWrite, INSIDE))
        .workspace(workspace(store, "/home/wo", AccessScope::WriteOnly, &format!("{INSIDE}/wo")))
        .workspace(workspace(store, "/home/ro", AccessScope::ReadOnly, &format!("{INSIDE}/ro")));
    builder.build().unwrap()
}

/// A `Vfs` for the whole Store. Creates the agent's directories.
fn owner(store: &Subject) -> Vfs {
    let owner = door(store, "owner");
    for directory in ["wo", "ro", ".git"] {
        owner.mkdir(&*format!("/w/{INSIDE}/{directory}"), Parents::Create).unwrap();
    }
    owner
}

fn left_out(undone: &RevertResult) -> Vec<&str> {
    undone.left_out.iter().map(|one| one.path.as_str()).collect()
}

/// Checks that an answer contains none of the canaries.
#[track_caller]
fn says_nothing_of(undone: &RevertResult, canaries: &[&str]) {
    let said = format!("{:?} {:?} {:?}", undone.changes, undone.conflicts, undone.left_out);
    for canary in canaries {
        assert!(!said.contains(canary), "{canary}: {said}");
    }
}

fn a_restore_names_nothing_that_a_nested_workspace_withholds(store: &Subject) {
    let (a, owner) = (agent(store), owner(store));
    a.write("/home/f", "one").unwrap();
    owner.write(&*format!("/w/{INSIDE}/wo/hidname"), "secret").unwrap();
    let version = crate::newest(store);
    a.write("/home/f", "two").unwrap();
    owner.write(&*format!("/w/{INSIDE}/wo/hidname"), "another secret").unwrap();
    owner.write(&*format!("/w/{INSIDE}/wo/hidname-2"), "secret").unwrap();
    for dry_run in [true, false] {
        let restored =
            a.restore("/home", version, &RestoreOptions { dry_run, ..RestoreOptions::default() }).unwrap();
        assert_eq!(restored.done, !dry_run);
        assert_eq!(restored.changes.len(), 1, "{restored:?}");
        // The agent knows the Workspaces, but must not learn what happened in them.
        assert_eq!(left_out(&restored), ["/home/ro", "/home/wo"]);
        says_nothing_of(&restored, &["hidname", "acme-internal", "tenants"]);
    }
    assert_eq!(text(&a, "/home/f"), "one");
    assert_eq!(text(&owner, &format!("/w/{INSIDE}/wo/hidname")), "another secret");
}

fn a_restore_leaves_out_what_the_agent_may_not_change_and_says_so(store: &Subject) {
    let (a, owner) = (agent(store), owner(store));
    a.write("/home/f", "one").unwrap();
    let version = crate::newest(store);
    a.write("/home/f", "two").unwrap();
    owner.write(&*format!("/w/{INSIDE}/ro/f"), "the owner's").unwrap();
    let whole = Workspace::new(path("/w"), AccessScope::ReadWrite, Mount::from(store));
    let unprotected =
        Vfs::builder(Identity::agent("owner")).workspace(whole.with_protect::<&str>([]).unwrap());
    unprotected.build().unwrap().write(&*format!("/w/{INSIDE}/.git/config"), "[core]").unwrap();
    let restored = a.restore("/home", version, &RestoreOptions::default()).unwrap();
    assert!(restored.done && restored.conflicts.is_empty(), "{restored:?}");
    assert_eq!(text(&a, "/home/f"), "one");
    assert_eq!(left_out(&restored), ["/home/ro", "/home/wo", "/home/.git/config"]);
    assert!(restored.left_out[2].why.contains("protected"), "{restored:?}");
    assert!(restored.left_out[0].why.contains("READ_ONLY"), "{restored:?}");
    assert_eq!(text(&a, "/home/ro/f"), "the owner's");
    says_nothing_of(&restored, &["acme-internal"]);
}

fn a_file_that_was_moved_out_of_sight_comes_back_as_one_that_was_removed_does(store: &Subject) {
    let (a, owner) = (agent(store), owner(store));
    a.write("/home/mine", "1").unwrap();
    owner.write("/w/elsewhere/theirs", "2").unwrap();
    let version = crate::newest(store);
    owner.rename(&*format!("/w/{INSIDE}/mine"), "/w/elsewhere/hidden", Overwrite::Refuse).unwrap();
    owner.rename("/w/elsewhere/theirs", &*format!("/w/{INSIDE}/arrived"), Overwrite::Refuse).unwrap();
    // Something else has taken the name. The agent must not learn that either.
    owner.write("/w/elsewhere/theirs", "3").unwrap();
    let restored = a.restore("/home", version, &RestoreOptions::default()).unwrap();
    assert!(restored.done && restored.conflicts.is_empty(), "{restored:?}");
    assert_eq!(left_out(&restored), ["/home/ro", "/home/wo", "/home/arrived"]);
    says_nothing_of(&restored, &["acme-internal", "elsewhere", "hidden", "theirs"]);
    assert_eq!((text(&a, "/home/mine"), text(&owner, "/w/elsewhere/hidden")), ("1".into(), "1".into()));
}

/// An answer that depended on it would reveal the content of a file that the agent may not read.
fn whatever_becomes_of_a_file_out_of_sight_the_answer_is_the_same(store: &Subject) {
    let (a, owner) = (agent(store), owner(store));
    let mut answers = std::collections::BTreeSet::new();
    for place in [format!("/w/{INSIDE}/wo/hidden"), "/w/elsewhere".to_owned()] {
        for act in ["nothing", "other line", "same line", "as it was", "removed"] {
            let made = a.write("/home/f", "one\ntwo\nthree\n").unwrap().operation;
            let version = crate::newest(store);
            let edited = a.edit("/home/f", "two", "2", Occurrences::One).unwrap().written.operation;
            owner.rename(&*format!("/w/{INSIDE}/f"), &*place, Overwrite::Replace).unwrap();
            match act {
                "other line" => drop(owner.edit(&*place, "one", "1", Occurrences::One).unwrap()),
                "same line" => drop(owner.edit(&*place, "2", "zwei", Occurrences::One).unwrap()),
                "as it was" => drop(owner.edit(&*place, "2", "two", Occurrences::One).unwrap()),
                "removed" => drop(owner.remove_file(&*place, RemoveOptions::default()).unwrap()),
                _ => {}
            }
            let dry = UndoOptions { dry_run: true, ..UndoOptions::default() };
            let answer = |undone: RevertResult| {
                let RevertResult { undone, incomplete, changes, conflicts, left_out, done, .. } = undone;
                let incomplete: Vec<_> = incomplete.iter().map(|one| one.is_partial).collect();
                format!("{} {incomplete:?} {changes:?} {conflicts:?} {left_out:?} {done}", undone.len())
            };
            let restored =
                a.restore("/home", version, &RestoreOptions { dry_run: true, ..RestoreOptions::default() });
            answers.insert([
                answer(a.undo(UndoTarget::Operation(edited), dry).unwrap()),
                answer(a.undo(UndoTarget::Operation(made), dry).unwrap()),
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
    owner.rename(&*format!("/w/{INSIDE}/wo/f"), "/w/elsewhere", Overwrite::Refuse).unwrap();
    let undone = a.undo(UndoTarget::Last(1), UndoOptions::default()).unwrap();
    assert!(!undone.done && undone.conflicts.len() == 1, "{undone:?}");
    assert_eq!(undone.conflicts[0].path.as_str(), "/home");
    assert!(undone.conflicts[0].why.contains("may restore"), "{undone:?}");
    says_nothing_of(&undone, &["acme-internal", "elsewhere"]);
    assert_eq!(text(&a, "/home/f"), "one");
}
