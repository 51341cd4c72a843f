//! The optional ports of a Store: what `sync`, `as_of`, `fork` and `destroy` promise where they are offered.

use super::subject::*;
use crate::glob::PathGlobs;
use crate::store::{
    CaptureScope, CaptureScopes, Fork, ForkName, QuotaLimits, RevisionId, RevisionNumber, Store, StoreError,
    StorePath, SyncPolicy,
};
use crate::testkit::{ModelStore, snapshot_of};
use crate::workspace::ApprovalPolicy;
use crate::{Clock, Identity, Operation, OperationId, SystemClock, VfsPath};

fn operation() -> Operation {
    let now = SystemClock.now();
    let identity = std::sync::Arc::new(Identity::agent("suite"));
    Operation { id: OperationId::fresh(now), identity, tool: "suite".into(), at: now }
}

fn fork_of_everything(name: &str) -> Fork {
    Fork {
        owner: "suite".into(),
        name: name.parse::<ForkName>().expect("the suite's names are valid"),
        created_by: "suite".into(),
        base_prefix: VfsPath::root(),
        path: VfsPath::root(),
        protect: Vec::new(),
        hide: Vec::new(),
        scratch: Vec::new(),
        quota: QuotaLimits::default(),
        approval_policy: ApprovalPolicy::default(),
        excluded: Vec::new(),
        created: SystemClock.now(),
        pinned_at: None,
        lease: None,
        place: VfsPath::root(),
        scope: crate::scope::AccessScope::ReadWrite,
        parts: Vec::new(),
        made_by: None,
    }
}

/// Whether the Store can show its past only as of snapshots, because it has to capture it for them.
fn shows_snapshots_only(t: &Subject) -> bool {
    let scope = CaptureScope::new(StorePath::empty(), StorePath::empty(), PathGlobs::none());
    let scopes: CaptureScopes = [scope].into_iter().collect();
    let captured = t.history().capture(&scopes, &operation(), &mut |_| Ok(()));
    captured.expect("the suite's files can be captured").is_some()
}

pub fn an_id_stays_the_same(t: &Subject) {
    let (id, database) = (t.store.id(), t.store.info().database);
    t.write("file", "one");
    assert_eq!(
        (t.store.id(), t.store.info().database),
        (id, database),
        "not even the first change changes it"
    );
    let number = RevisionNumber(7);
    assert_eq!(t.store.revision(number), RevisionId { store: id, number });
    assert!(t.store.shares_revisions_with(&*t.store));
    let other = ModelStore::new();
    assert_ne!(other.id(), id);
    assert!(
        !t.store.shares_revisions_with(&other) && !(&other as &dyn Store).shares_revisions_with(&*t.store)
    );
}

pub fn a_past_view_and_a_fork_are_stores_of_their_own(t: &Subject) {
    t.write("file", "one");
    if let Some(forks) = t.store.forks() {
        let fork = forks.fork(t.store.clone(), &fork_of_everything("own")).expect("the Store can be forked");
        assert_ne!(fork.id(), t.store.id());
        assert!(fork.shares_revisions_with(&*t.store), "a fork commits to the database of its base");
    }
    let Some(history) = t.store.history() else { return };
    let Ok(past) = history.as_of(history.latest_revision().expect("there is a revision")) else {
        assert!(shows_snapshots_only(t));
        return;
    };
    assert_ne!(past.id(), t.store.id(), "the past can't be taken for the present");
    assert!(past.shares_revisions_with(&*t.store));
}

pub fn a_sync_covers_deferred_changes_and_changes_nothing(t: &Subject) {
    t.store.sync().expect("a Store without changes can be synced");
    for number in 0..3 {
        let mut deferred = change(vec![write("file", format!("{number}")), mkdir(&format!("dir{number}"))]);
        deferred.sync = SyncPolicy::Deferred;
        t.store.apply(deferred).expect("a deferred change is made");
        let before = t.snapshot();
        t.store.sync().expect("deferred changes can be synced");
        assert_eq!(t.snapshot(), before);
    }
    t.store.sync().expect("there may be nothing left to sync");
    assert_eq!(t.read("file"), b"2");
}

pub fn a_past_revision_is_shown_as_it_was(t: &Subject) {
    if t.store.history().is_none() {
        return;
    }
    t.write("dir/file", "one");
    t.link("link", "dir");
    let (revision, before) = (t.history().latest_revision().expect("there is a revision"), t.snapshot());
    t.write("dir/file", "two");
    t.remove("link");
    t.write("new", "new");
    let past_store = match t.history().as_of(revision) {
        Err(StoreError::Unsupported(_)) => {
            assert!(shows_snapshots_only(t), "a Store that captures nothing shows every revision");
            return;
        }
        past_store => past_store.expect("the revision was made just now"),
    };
    assert_eq!(snapshot_of(&*past_store), before);
    t.write("dir/file", "three");
    assert_eq!(snapshot_of(&*past_store), before, "later changes must not show in an earlier revision");
    let present_store = t.history().as_of(RevisionNumber::NOW).expect("the present can be shown");
    assert_eq!(snapshot_of(&*present_store), t.snapshot());
}

pub fn a_past_revision_cannot_be_changed(t: &Subject) {
    if t.store.history().is_none() {
        return;
    }
    t.write("file", "one");
    let Ok(past_store) = t.history().as_of(t.history().latest_revision().expect("there is a revision"))
    else {
        assert!(shows_snapshots_only(t));
        return;
    };
    let before = t.snapshot();
    for step in [write("file", "two"), write("new", "new"), remove("file", crate::store::Subtree::Any)] {
        assert_refused!(past_store.apply(change(vec![step])), StoreError::Unsupported(_));
    }
    assert_refused!(past_store.draft(crate::store::DraftBase::Empty), StoreError::Unsupported(_));
    assert_eq!(t.snapshot(), before);
}

pub fn an_unknown_revision_is_not_shown(t: &Subject) {
    if t.store.history().is_none() {
        return;
    }
    t.write("file", "one");
    let latest = t.history().latest_revision().expect("there is a revision");
    for unknown in [RevisionNumber(latest.0 + 1_000_000), RevisionNumber(-7)] {
        assert_refused!(t.history().as_of(unknown), StoreError::NotFound | StoreError::Unsupported(_));
    }
}

pub fn a_fork_starts_as_its_base_and_changes_independently(t: &Subject) {
    let Some(forks) = t.store.forks() else { return };
    t.write("dir/file", "one");
    t.link("link", "dir");
    let before = t.snapshot();
    let fork = forks.fork(t.store.clone(), &fork_of_everything("alone")).expect("the Store can be forked");
    assert_eq!(snapshot_of(&*fork), before);
    let (base, forked) = (t.stat("dir/file"), fork.stat(&at("dir/file")).expect("the fork has the file"));
    assert_eq!(base.tag, forked.tag, "the tags are the same");
    assert!(base.node == forked.node || forks.shows_later_changes(), "the nodes are the same");
    fork.apply(change(vec![write("dir/file", "fork"), write("only", "fork")]))
        .expect("a fork can be changed");
    assert_eq!(t.snapshot(), before, "a fork never changes its base");
    let changed = snapshot_of(&*fork);
    t.write("dir/file", "base");
    t.write("only", "base");
    assert_eq!(
        snapshot_of(&*fork),
        changed,
        "a fork never sees changes of its base where it has changed something"
    );
    t.remove("link");
    assert!(fork.stat(&at("link")).is_ok() || forks.shows_later_changes());
}

pub fn a_fork_name_is_unique(t: &Subject) {
    let Some(forks) = t.store.forks() else { return };
    t.write("file", "one");
    let fork = forks.fork(t.store.clone(), &fork_of_everything("taken")).expect("the Store can be forked");
    assert_refused!(forks.fork(t.store.clone(), &fork_of_everything("taken")), StoreError::AlreadyExists);
    fork.require_maintenance().and_then(|fork| fork.destroy()).expect("a fork can be destroyed");
    assert_eq!(t.read("file"), b"one", "destroying a fork must not change its base");
    forks.fork(t.store.clone(), &fork_of_everything("taken")).expect("the name is free again");
}

pub fn a_fork_outlives_every_attempt_to_destroy_its_base(t: &Subject) {
    let Some(forks) = t.store.forks() else { return };
    t.write("file", "one");
    let before = t.snapshot();
    let fork = forks.fork(t.store.clone(), &fork_of_everything("needy")).expect("the Store can be forked");
    // A fork of many layers may have copied what it needs. Every other fork holds its base.
    if t.store.require_maintenance().and_then(|store| store.destroy()).is_err() {
        assert_eq!(t.snapshot(), before);
    }
    assert_eq!(snapshot_of(&*fork), before);
}

pub fn a_destroyed_store_has_no_history(t: &Subject) {
    if t.store.history().is_none() {
        return;
    }
    t.write("dir/file", "one");
    t.write("dir/file", "two");
    t.store.require_maintenance().and_then(|store| store.destroy()).expect("the Store can be destroyed");
    // Files that are the host's own stay. Others are gone with the Store.
    assert!(!t.exists("dir/file") || t.read("dir/file") == b"two");
    let remaining = t.history().revisions(&crate::store::RevisionQuery::all());
    assert!(
        remaining.is_err() || remaining.is_ok_and(|remaining| remaining.revisions.is_empty()),
        "a destroyed Store has no history"
    );
}
