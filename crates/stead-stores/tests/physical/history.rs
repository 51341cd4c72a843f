//! The history of a directory, and what it retains.

use std::collections::HashMap;
use std::os::unix::fs::MetadataExt;

use stead_core::store::{
    DraftBase, History, Maintenance, NodeChange, NodeId, NodeState, PutOptions, QuotaLimits, QuotaRoot,
    Replace, Revision, RevisionQuery, StoreError, Usage,
};
use stead_core::{Clock, SystemClock};

use super::*;

/// What a revision did to each name: the state before and after.
pub(crate) type RevisionText = Vec<(Option<String>, Option<String>)>;

/// The revisions with a hash of their contents, newest first.
pub(crate) fn revision_texts(store: &dyn Store) -> Vec<RevisionText> {
    let page = store.require_history().unwrap().revisions(&RevisionQuery::all()).unwrap();
    let state_text = |state: &Option<NodeState>| {
        let state = state.as_ref()?;
        let content = state
            .content
            .as_ref()
            .map(|content_ref| blake3::hash(&content_bytes(store, content_ref)).to_hex());
        let name = String::from_utf8_lossy(&state.name);
        Some(format!("{name} {:?} {:o} {:?}", state.kind, state.mode, content.map(|hash| hash.to_string())))
    };
    let changes = |revision: &Revision| {
        let mut changes: Vec<_> = revision
            .changes
            .iter()
            .map(|change| (state_text(&change.before), state_text(&change.after)))
            .collect();
        changes.sort();
        changes
    };
    page.revisions.iter().map(changes).collect()
}

/// The same revisions, without the contents.
pub(crate) fn without_content(texts: &[RevisionText]) -> Vec<RevisionText> {
    let without_hash =
        |state_text: &Option<String>| Some(state_text.as_ref()?.rsplit_once(' ')?.0.to_owned());
    let revision = |revision: &RevisionText| {
        revision.iter().map(|(before, after)| (without_hash(before), without_hash(after))).collect()
    };
    texts.iter().map(revision).collect()
}

fn content_bytes(store: &dyn Store, content_ref: &stead_core::store::ContentRef) -> Vec<u8> {
    let mut bytes = vec![0; usize::try_from(content_ref.size()).unwrap()];
    let count =
        store.require_history().unwrap().open_content(content_ref).unwrap().read_at(0, &mut bytes).unwrap();
    assert_eq!(count, bytes.len());
    bytes
}

/// A node's parent, its name, and its kind, mode and content.
type KnownNode = (NodeId, Vec<u8>, (NodeKind, u32, Vec<u8>));

/// The tree before the last revision, computed from that revision.
pub(crate) fn tree_before_last_revision(store: &dyn Store) -> Tree {
    let mut nodes: HashMap<NodeId, KnownNode> = HashMap::new();
    let mut entries = Vec::new();
    store
        .walk(&NodePath::root(), &WalkOptions::default(), &mut |entry| {
            entries.push(entry);
            ControlFlow::Continue(())
        })
        .unwrap();
    let current_tree = tree(store);
    for entry in &entries {
        let (parent, name) = entry.path.parent_and_name().unwrap();
        let parent = store.stat(&NodePath::from_root(StorePath::from_checked(parent))).unwrap().node;
        nodes.insert(entry.attr.node, (parent, name.to_vec(), current_tree[&entry.path.to_string()].clone()));
    }
    let last = store
        .require_history()
        .unwrap()
        .revisions(&RevisionQuery { limit: 1, ..RevisionQuery::all() })
        .unwrap()
        .revisions
        .remove(0);
    for change in &last.changes {
        match &change.before {
            None => drop(nodes.remove(&change.node)),
            Some(before) => {
                let content = match before.kind {
                    NodeKind::Directory => Vec::new(),
                    _ => content_bytes(store, before.content.as_ref().expect("the content is retained")),
                };
                let kind_mode_content = (before.kind, before.mode, content);
                nodes.insert(change.node, (before.parent, before.name.clone(), kind_mode_content));
            }
        }
    }
    let path = |node: NodeId| {
        let (mut names, mut current) = (Vec::new(), node);
        while let Some((parent, name, _)) = nodes.get(&current) {
            names.push(String::from_utf8(name.clone()).unwrap());
            current = *parent;
        }
        names.reverse();
        names.join("/")
    };
    nodes.keys().map(|&node| (path(node), nodes[&node].2.clone())).collect()
}

fn node_changes(store: &dyn Store) -> Vec<NodeChange> {
    store
        .require_history()
        .unwrap()
        .revisions(&RevisionQuery::all())
        .unwrap()
        .revisions
        .into_iter()
        .flat_map(|revision| revision.changes)
        .collect()
}

fn text(store: &dyn Store, state: &Option<NodeState>) -> Option<String> {
    let content_ref = state.as_ref()?.content.as_ref()?;
    Some(String::from_utf8(content_bytes(store, content_ref)).unwrap())
}

fn displaced_count(bench: &Bench) -> usize {
    let physical = bench.temp.path().join("state/physical");
    let store_state = std::fs::read_dir(physical).unwrap().next().unwrap().unwrap().path();
    std::fs::read_dir(store_state.join("displaced")).unwrap().count()
}

#[test]
fn damaged_displaced_content_is_not_returned() {
    use std::os::unix::fs::FileExt;
    let bench = Bench::retaining(|_| ());
    write(&bench.store, "a", "one");
    write(&bench.store, "a", "two");
    let content_of = |state: &Option<NodeState>| state.as_ref().unwrap().content.clone().unwrap();
    let change = node_changes(&bench.store).remove(0);
    assert_ne!(
        content_of(&change.before),
        content_of(&change.after),
        "the content was compared, so its hash has to be known now"
    );
    let physical = bench.temp.path().join("state/physical");
    let store_state = std::fs::read_dir(physical).unwrap().next().unwrap().unwrap().path();
    let displaced_file =
        std::fs::read_dir(store_state.join("displaced")).unwrap().next().unwrap().unwrap().path();
    let modified = std::fs::metadata(&displaced_file).unwrap().modified().unwrap();
    let file = std::fs::File::options().write(true).open(&displaced_file).unwrap();
    file.write_all_at(b"O", 0).unwrap();
    file.set_modified(modified).unwrap();

    let displaced = content_of(&node_changes(&bench.store).remove(0).before);
    let read = bench.store.open_content(&displaced).unwrap().read_at(0, &mut [0; 3]);
    assert!(matches!(read, Err(StoreError::Corrupt(_))), "{read:?}");
    let restore =
        Step::Write { at: at("a"), content: Content::Stored(displaced), options: PutOptions::default() };
    assert!(matches!(apply(&bench.store, restore), Err(StoreError::Corrupt(_))));
    assert_eq!(super::read(&bench.store, "a"), "two");
}

#[test]
fn content_that_another_program_replaced_is_unknown_and_its_own_content_is_retained() {
    let bench = Bench::retaining(|_| ());
    write(&bench.store, "a", "ours");
    std::fs::write(bench.host_path("a"), "theirs").unwrap();
    write(&bench.store, "a", "ours again");
    let changes = node_changes(&bench.store);
    assert_eq!(text(&bench.store, &changes[0].before).as_deref(), Some("theirs"));
    assert_eq!(text(&bench.store, &changes[0].after).as_deref(), Some("ours again"));
    let after = changes[1].after.as_ref().unwrap();
    assert_eq!(
        (after.content.as_ref(), after.size),
        (None, 4),
        "our content is gone, and the history has to say so"
    );
    // The same if Stead made no change afterwards, and if the file was removed or moved.
    std::fs::write(bench.host_path("a"), "theirs once more").unwrap();
    assert_eq!(node_changes(&bench.store)[0].after.as_ref().unwrap().content, None);
    std::fs::rename(bench.host_path("a"), bench.host_path("moved")).unwrap();
    let page = bench.store.revisions(&RevisionQuery::all()).unwrap();
    let change = &page.revisions[0].changes[0];
    assert_eq!(change.after.as_ref().unwrap().content, None);
    assert!(!page.current.contains_key(&change.node));
    assert_eq!(text(&bench.store, &change.before).as_deref(), Some("theirs"));
    assert_eq!(bench.store.verify(&mut |_| ()).unwrap().problems, [""; 0]);
}

#[test]
fn a_file_that_is_too_large_is_not_retained_and_its_revision_says_so() {
    let bench = Bench::retaining(|options| options.displaced_retention.as_mut().unwrap().file_bytes = 10);
    write(&bench.store, "large", "more than ten bytes");
    write(&bench.store, "large", "small");
    write(&bench.store, "large", "more than ten bytes again");
    let changes = node_changes(&bench.store);
    assert_eq!(text(&bench.store, &changes[0].before).as_deref(), Some("small"));
    assert_eq!(changes[1].before.as_ref().unwrap().content, None);
    assert_eq!(changes[1].before.as_ref().unwrap().size, 19);
    apply(&bench.store, append_step("large", b", and more")).unwrap();
    assert!(
        text(&bench.store, &node_changes(&bench.store)[0].before).is_some(),
        "an append must not displace content"
    );
    write(&bench.store, "tree/small", "small");
    write(&bench.store, "tree/in/large", "more than ten bytes");
    apply(&bench.store, remove_step("tree", Subtree::Directory)).unwrap();
    let last_revision =
        bench.store.revisions(&RevisionQuery { limit: 1, ..RevisionQuery::all() }).unwrap().revisions;
    assert_eq!(last_revision[0].changes.len(), 4);
    let state_before = |name: &str| {
        let has_name = |change: &&NodeChange| change.before.as_ref().unwrap().name == name.as_bytes();
        last_revision[0].changes.iter().find(has_name).unwrap().before.clone()
    };
    assert_eq!(text(&bench.store, &state_before("small")).as_deref(), Some("small"));
    let large = state_before("large").unwrap();
    assert_eq!((&large.content, large.size), (&None, 19));
    assert_eq!(
        large.parent,
        last_revision[0]
            .changes
            .iter()
            .find(|change| change.before.as_ref().unwrap().name == b"in")
            .unwrap()
            .node
    );
    assert_eq!(bench.store.verify(&mut |_| ()).unwrap().problems, [""; 0]);
}

#[test]
fn displaced_content_over_the_limits_is_removed_and_its_revisions_stay() {
    let bench =
        Bench::retaining(|options| options.displaced_retention.as_mut().unwrap().bytes = 8 * 4_096 * 8);
    let now = SystemClock.now();
    let write_at_time = |seconds_ago: i64, content: &str| {
        let mut change = change(vec![write_step("a", content)]);
        change.operation.at = Timestamp(now.0 - seconds_ago * 1_000_000_000);
        bench.store.apply(change).unwrap();
    };
    let day = 24 * 3_600;
    write_at_time(40 * day, "one");
    write_at_time(20 * day, "two");
    write_at_time(day, "three");
    write_at_time(0, "four");
    assert_eq!(displaced_count(&bench), 3);
    let pruned = bench.store.prune(now).unwrap();
    assert_eq!(pruned.kept, 2 * 4_096);
    assert!(pruned.freed >= 4_096, "{pruned:?}");
    assert_eq!(displaced_count(&bench), 2);
    let contents_before = || {
        node_changes(&bench.store).iter().map(|change| text(&bench.store, &change.before)).collect::<Vec<_>>()
    };
    assert_eq!(contents_before(), [Some("three".into()), Some("two".into()), None, None]);
    assert!(node_changes(&bench.store)[2].before.is_some(), "the history has to show that the file existed");
    // Beyond the limit the oldest are removed, without an explicit `prune`.
    for round in 0..96 {
        write_at_time(0, &format!("{round:010}"));
    }
    assert!((64..72).contains(&displaced_count(&bench)), "{}", displaced_count(&bench));
    assert_eq!(contents_before().iter().flatten().count(), displaced_count(&bench));
    assert_eq!(bench.store.verify(&mut |_| ()).unwrap().problems, [""; 0]);
    bench.store.prune(Timestamp(now.0 + 30 * day * 1_000_000_000)).unwrap();
    assert_eq!(displaced_count(&bench), 0);
    assert_eq!(node_changes(&bench.store).len(), 100);
}

#[test]
fn content_that_no_event_has_any_more_is_removed_though_no_newer_event_exists() {
    let bench = Bench::retaining(|_| ());
    for content in ["one", "two", "three"] {
        apply(&bench.store, write_step("a", content)).unwrap();
    }
    bench.store.sync().unwrap();
    // As a process leaves it that dies while it forgets a directory: after the events, and before their content.
    let database = rusqlite::Connection::open(bench.temp.path().join("stead.db")).unwrap();
    assert_eq!(database.execute("DELETE FROM ledger_event WHERE path = CAST('a' AS BLOB)", []).unwrap(), 3);
    assert_eq!(displaced_count(&bench), 2);
    bench.store.prune(Timestamp::from_secs(1)).unwrap();
    assert_eq!(displaced_count(&bench), 0);
    // What a change displaces from now on stays.
    apply(&bench.store, write_step("a", "four")).unwrap();
    bench.store.prune(Timestamp::from_secs(1)).unwrap();
    assert_eq!(displaced_count(&bench), 1);
}

#[test]
fn pruned_content_is_not_counted_as_retained_if_the_clock_went_back() {
    let bench = Bench::retaining(|_| ());
    let now = SystemClock.now();
    // The third change has an older time than the second.
    for (days_ago, content) in [(3, "one"), (2, "two"), (20, "three"), (1, "four")] {
        let mut change = change(vec![write_step("a", content)]);
        change.operation.at = Timestamp(now.0 - days_ago * 24 * 3_600 * 1_000_000_000);
        bench.store.apply(change).unwrap();
    }
    assert_eq!(displaced_count(&bench), 3);
    let pruned = bench.store.prune(now).unwrap();
    assert_eq!(displaced_count(&bench), 2);
    assert_eq!((pruned.kept, pruned.freed), (2 * 4_096, 4_096));
}

#[test]
fn displaced_scratch_content_is_not_retained() {
    let bench = Bench::retaining(|_| ());
    let scratch = |content: &str| {
        let put = PutOptions { displaced: DisplacedContent::Discard, ..PutOptions::default() };
        Step::Write { at: at("a"), content: Content::Bytes(content.into()), options: put }
    };
    apply(&bench.store, scratch("one")).unwrap();
    apply(&bench.store, scratch("two")).unwrap();
    assert_eq!(displaced_count(&bench), 0);
    assert_eq!(node_changes(&bench.store).len(), 2);
}

#[test]
fn verify_finds_missing_and_changed_displaced_content() {
    let bench = Bench::retaining(|_| ());
    for content in ["one", "two", "three"] {
        write(&bench.store, "a", content);
    }
    let changes = node_changes(&bench.store);
    let hashes: Vec<_> =
        changes.iter().map(|change| change.before.as_ref()?.content.as_ref()?.id()).collect();
    assert!(hashes[0].is_some() && hashes[1].is_some() && hashes[0] != hashes[1]);
    let verified = bench.store.verify(&mut |_| ()).unwrap();
    assert_eq!((verified.problems, verified.contents), (Vec::new(), 2));
    let physical = bench.temp.path().join("state/physical");
    let displaced_directory =
        std::fs::read_dir(physical).unwrap().next().unwrap().unwrap().path().join("displaced");
    let mut displaced_files: Vec<_> =
        std::fs::read_dir(&displaced_directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    displaced_files.sort();
    std::fs::write(&displaced_files[0], "ONE").unwrap();
    std::fs::remove_file(&displaced_files[1]).unwrap();
    let problems = bench.store.verify(&mut |_| ()).unwrap().problems;
    assert_eq!(problems.len(), 2, "{problems:?}");
    assert!(
        problems.iter().all(|problem| !problem.contains('/')),
        "a problem contains a host path: {problems:?}"
    );
    assert_eq!(node_changes(&bench.store)[0].before.as_ref().unwrap().content, None);
}

#[test]
fn another_store_on_the_same_directory_sees_the_same_revisions() {
    let bench = Bench::retaining(|_| ());
    let other = open(bench.temp.path(), |options| with_ledger(bench.temp.path(), options));
    write(&bench.store, "a", "one");
    write(&other, "a", "two");
    write(&bench.store, "b", "three");
    apply(&other, remove_step("b", Subtree::File)).unwrap();
    assert_eq!(revision_texts(&bench.store), revision_texts(&other));
    assert_eq!(revision_texts(&other).len(), 4);
    assert_eq!(text(&bench.store, &node_changes(&bench.store)[0].before).as_deref(), Some("three"));
    // Usage for quotas is shared too.
    let quota = |bytes| {
        QuotaRoot::new(StorePath::empty(), QuotaLimits { bytes: Some(bytes), ..QuotaLimits::default() })
    };
    let write_with_quota = |store: &PhysicalStore, content: &str| {
        store.apply(Change { quotas: vec![quota(11)], ..change(vec![write_step("c", content)]) })
    };
    write_with_quota(&bench.store, "1234567").unwrap();
    assert!(write_with_quota(&other, "12345678").is_ok(), "an overwrite has to count only the difference");
    assert!(matches!(
        write_with_quota(&bench.store, "123456789"),
        Err(StoreError::OverQuota { used: 11, .. })
    ));
    write_with_quota(&other, "12").unwrap();
    assert_eq!(other.usage(&StorePath::empty()).unwrap(), Usage { bytes: 5, files: 2 });
}

#[test]
fn the_ledger_is_created_by_the_first_change_and_not_before() {
    let temp = TempDir::new().unwrap();
    std::fs::create_dir(temp.path().join("root")).unwrap();
    std::fs::write(temp.path().join("root/there"), "before Stead came").unwrap();
    let path = temp.path().join("stead.db");
    let store = open(temp.path(), |options| {
        let path = path.clone();
        let opened = std::sync::OnceLock::new();
        options.ledger = stead_stores::LedgerSource::new(Database::id_at(&path), move |mode| {
            if mode == stead_stores::LedgerOpenMode::IfExists && opened.get().is_none() && !path.exists() {
                return Ok(None);
            }
            let open = || Database::open(&path, DatabaseOptions::default()).unwrap();
            Ok(Some(opened.get_or_init(open).clone()))
        });
    });
    assert_eq!(read(&store, "there"), "before Stead came");
    assert!(store.history().is_some());
    assert_eq!(store.latest_revision().unwrap().0, 0);
    assert!(node_changes(&store).is_empty());
    assert_eq!(store.usage(&StorePath::empty()).unwrap().files, 1);
    store.verify(&mut |_| ()).unwrap();
    assert!(!temp.path().join("stead.db").exists(), "a read must not create the database");
    write(&store, "there", "after");
    assert_eq!(text(&store, &node_changes(&store)[0].before).as_deref(), Some("before Stead came"));
    assert!(temp.path().join("stead.db").exists());
}

#[test]
fn without_a_ledger_every_change_is_refused() {
    let bench = Bench::retaining(|options| {
        options.ledger =
            stead_stores::LedgerSource::new(Database::in_memory().id(), |_| Err(StoreError::NoSpace));
    });
    assert!(matches!(apply(&bench.store, write_step("a", "x")), Err(StoreError::NoSpace)));
    assert!(!bench.host_path("a").exists());
}

#[test]
fn destroying_a_store_forgets_its_revisions_and_leaves_the_files() {
    let bench = Bench::retaining(|_| ());
    write(&bench.store, "a", "one");
    write(&bench.store, "a", "two");
    assert_eq!(displaced_count(&bench), 1);
    bench.store.destroy().unwrap();
    assert_eq!((displaced_count(&bench), node_changes(&bench.store).len()), (0, 0));
    assert_eq!(read(&bench.store, "a"), "two");
    write(&bench.store, "a", "three");
    assert_eq!(text(&bench.store, &node_changes(&bench.store)[0].before).as_deref(), Some("two"));
}

#[test]
fn a_write_through_another_hard_link_does_not_change_the_history() {
    let bench = Bench::retaining(|_| ());
    write(&bench.store, "a", "shared");
    std::fs::hard_link(bench.host_path("a"), bench.host_path("b")).unwrap();
    write(&bench.store, "a", "ours");
    assert_eq!(text(&bench.store, &node_changes(&bench.store)[0].before).as_deref(), Some("shared"));
    apply(&bench.store, append_step("b", b" and changed")).unwrap();
    let changes = node_changes(&bench.store);
    assert_eq!(
        changes[1].before.as_ref().unwrap().content,
        None,
        "unknown content must not be reported as other content"
    );
}

#[test]
fn a_large_file_is_restored_without_being_read_into_memory() {
    let bench = Bench::retaining(|_| ());
    let large = "0123456789abcdef".repeat(1 << 18);
    write(&bench.store, "a", &large);
    let mut draft = bench.store.draft(DraftBase::File(&at("a"))).unwrap();
    draft.write_at(1_000_000, b"patched").unwrap();
    let content = Content::Sealed(draft.seal().unwrap());
    apply(&bench.store, Step::Write { at: at("a"), content, options: PutOptions::default() }).unwrap();
    let inode = std::fs::metadata(bench.host_path("a")).unwrap().ino();
    let before = node_changes(&bench.store)[0].before.clone().unwrap().content.clone().unwrap();
    apply(
        &bench.store,
        Step::Write { at: at("a"), content: Content::Stored(before.clone()), options: PutOptions::default() },
    )
    .unwrap();
    assert!(read(&bench.store, "a") == large);
    assert_ne!(
        std::fs::metadata(bench.host_path("a")).unwrap().ino(),
        inode,
        "a restore has to make a new file"
    );
    write(&bench.store, "a", "x");
    assert!(
        content_bytes(&bench.store, &before) == large.as_bytes(),
        "the retained content has to stay readable"
    );
    let other_bench = Bench::retaining(|_| ());
    let foreign_content =
        Step::Write { at: at("a"), content: Content::Stored(before), options: PutOptions::default() };
    assert!(apply(&other_bench.store, foreign_content).is_err());
}

#[test]
fn every_change_of_many_threads_is_in_the_history() {
    let bench = Bench::retaining(|_| ());
    let stores = [&bench.store, &open(bench.temp.path(), |options| with_ledger(bench.temp.path(), options))];
    std::thread::scope(|scope| {
        for writer in 0..6 {
            scope.spawn(move || {
                for round in 0..20 {
                    let store = stores[writer % 2];
                    match round % 4 {
                        0 => drop(write(store, "shared", &format!("{writer} {round}"))),
                        1 => drop(apply(store, append_step("log", b"line\n")).unwrap()),
                        2 => drop(write(store, &format!("own/{writer}"), "x")),
                        _ => drop(
                            apply(store, rename_step(&format!("own/{writer}"), "shared", Replace::Overwrite))
                                .unwrap(),
                        ),
                    }
                }
            });
        }
    });
    assert_eq!(revision_texts(&bench.store).len(), 120);
    // Every content that was ever written can still be read.
    let without_content_count = node_changes(&bench.store)
        .iter()
        .flat_map(|change| [change.before.clone(), change.after.clone()])
        .flatten()
        .filter(|state| state.kind == NodeKind::File && state.content.is_none())
        .count();
    assert_eq!(without_content_count, 0);
    assert_eq!(read(&bench.store, "log").lines().count(), 30);
    assert_eq!(bench.store.verify(&mut |_| ()).unwrap().problems, [""; 0]);
}
