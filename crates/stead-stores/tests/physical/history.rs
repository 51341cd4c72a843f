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
pub(crate) type ToldDeed = Vec<(Option<String>, Option<String>)>;

/// The revisions with a hash of their contents, newest first.
pub(crate) fn told(store: &dyn Store) -> Vec<ToldDeed> {
    let found = store.require_history().unwrap().revisions(&RevisionQuery::all()).unwrap();
    let said = |state: &Option<NodeState>| {
        let state = state.as_ref()?;
        let content = state.content.as_ref().map(|past| blake3::hash(&past_bytes(store, past)).to_hex());
        let name = String::from_utf8_lossy(&state.name);
        Some(format!("{name} {:?} {:o} {:?}", state.kind, state.mode, content.map(|hash| hash.to_string())))
    };
    let lines = |deed: &Revision| {
        let mut lines: Vec<_> =
            deed.changes.iter().map(|line| (said(&line.before), said(&line.after))).collect();
        lines.sort();
        lines
    };
    found.revisions.iter().map(lines).collect()
}

/// The same revisions, without the contents.
pub(crate) fn without_content(told: &[ToldDeed]) -> Vec<ToldDeed> {
    let name = |said: &Option<String>| Some(said.as_ref()?.rsplit_once(' ')?.0.to_owned());
    let deed = |deed: &ToldDeed| deed.iter().map(|(before, after)| (name(before), name(after))).collect();
    told.iter().map(deed).collect()
}

fn past_bytes(store: &dyn Store, past: &stead_core::store::ContentRef) -> Vec<u8> {
    let mut bytes = vec![0; usize::try_from(past.size()).unwrap()];
    let count = store.require_history().unwrap().open_content(past).unwrap().read_at(0, &mut bytes).unwrap();
    assert_eq!(count, bytes.len());
    bytes
}

/// A node's parent, its name, and its kind, mode and content.
type Known = (NodeId, Vec<u8>, (NodeKind, u32, Vec<u8>));

/// The tree before the last revision, computed from that revision.
pub(crate) fn led_back(store: &dyn Store) -> Tree {
    let mut nodes: HashMap<NodeId, Known> = HashMap::new();
    let mut found = Vec::new();
    store
        .walk(&NodePath::root(), &WalkOptions::default(), &mut |entry| {
            found.push(entry);
            ControlFlow::Continue(())
        })
        .unwrap();
    let now = tree(store);
    for entry in &found {
        let (parent, name) = entry.path.parent_and_name().unwrap();
        let parent = store.stat(&NodePath::from_root(StorePath::from_checked(parent))).unwrap().node;
        nodes.insert(entry.attr.node, (parent, name.to_vec(), now[&entry.path.to_string()].clone()));
    }
    let last = store
        .require_history()
        .unwrap()
        .revisions(&RevisionQuery { limit: 1, ..RevisionQuery::all() })
        .unwrap()
        .revisions
        .remove(0);
    for line in &last.changes {
        match &line.before {
            None => drop(nodes.remove(&line.node)),
            Some(before) => {
                let content = match before.kind {
                    NodeKind::Directory => Vec::new(),
                    _ => past_bytes(store, before.content.as_ref().expect("it is kept")),
                };
                let is = (before.kind, before.mode, content);
                nodes.insert(line.node, (before.parent, before.name.clone(), is));
            }
        }
    }
    let path = |node: NodeId| {
        let (mut names, mut at) = (Vec::new(), node);
        while let Some((parent, name, _)) = nodes.get(&at) {
            names.push(String::from_utf8(name.clone()).unwrap());
            at = *parent;
        }
        names.reverse();
        names.join("/")
    };
    nodes.keys().map(|&node| (path(node), nodes[&node].2.clone())).collect()
}

fn lines(store: &dyn Store) -> Vec<NodeChange> {
    store
        .require_history()
        .unwrap()
        .revisions(&RevisionQuery::all())
        .unwrap()
        .revisions
        .into_iter()
        .flat_map(|deed| deed.changes)
        .collect()
}

fn text(store: &dyn Store, state: &Option<NodeState>) -> Option<String> {
    let past = state.as_ref()?.content.as_ref()?;
    Some(String::from_utf8(past_bytes(store, past)).unwrap())
}

fn kept(bench: &Bench) -> usize {
    let physical = bench.temp.path().join("state/physical");
    let shop = std::fs::read_dir(physical).unwrap().next().unwrap().unwrap().path();
    std::fs::read_dir(shop.join("displaced")).unwrap().count()
}

#[test]
fn damaged_content_that_was_kept_is_not_given_out() {
    use std::os::unix::fs::FileExt;
    let bench = Bench::keeping(|_| ());
    write(&bench.store, "a", "one");
    write(&bench.store, "a", "two");
    let past = |state: &Option<NodeState>| state.as_ref().unwrap().content.clone().unwrap();
    let told = lines(&bench.store).remove(0);
    assert_ne!(past(&told.before), past(&told.after), "compared, so its hash is known from now on");
    let physical = bench.temp.path().join("state/physical");
    let shop = std::fs::read_dir(physical).unwrap().next().unwrap().unwrap().path();
    let stash = std::fs::read_dir(shop.join("displaced")).unwrap().next().unwrap().unwrap().path();
    let modified = std::fs::metadata(&stash).unwrap().modified().unwrap();
    let file = std::fs::File::options().write(true).open(&stash).unwrap();
    file.write_all_at(b"O", 0).unwrap();
    file.set_modified(modified).unwrap();

    let past = past(&lines(&bench.store).remove(0).before);
    let read = bench.store.open_content(&past).unwrap().read_at(0, &mut [0; 3]);
    assert!(matches!(read, Err(StoreError::Corrupt(_))), "{read:?}");
    let back = Step::Write { at: at("a"), content: Content::Stored(past), options: PutOptions::default() };
    assert!(matches!(apply(&bench.store, back), Err(StoreError::Corrupt(_))));
    assert_eq!(super::read(&bench.store, "a"), "two");
}

#[test]
fn what_another_program_changed_in_between_is_unknown_and_its_content_is_kept() {
    let bench = Bench::keeping(|_| ());
    write(&bench.store, "a", "ours");
    std::fs::write(bench.host("a"), "theirs").unwrap();
    write(&bench.store, "a", "ours again");
    let told = lines(&bench.store);
    assert_eq!(text(&bench.store, &told[0].before).as_deref(), Some("theirs"));
    assert_eq!(text(&bench.store, &told[0].after).as_deref(), Some("ours again"));
    let after = told[1].after.as_ref().unwrap();
    assert_eq!(
        (after.content.as_ref(), after.size),
        (None, 4),
        "what we wrote is gone, and known to have been"
    );
    // The same if Stead made no change afterwards, and if the file was removed or moved.
    std::fs::write(bench.host("a"), "theirs once more").unwrap();
    assert_eq!(lines(&bench.store)[0].after.as_ref().unwrap().content, None);
    std::fs::rename(bench.host("a"), bench.host("moved")).unwrap();
    let found = bench.store.revisions(&RevisionQuery::all()).unwrap();
    let line = &found.revisions[0].changes[0];
    assert_eq!(line.after.as_ref().unwrap().content, None);
    assert!(!found.current.contains_key(&line.node));
    assert_eq!(text(&bench.store, &line.before).as_deref(), Some("theirs"));
    assert_eq!(bench.store.verify(&mut |_| ()).unwrap().problems, [""; 0]);
}

#[test]
fn a_file_that_is_too_large_is_not_kept_and_its_deed_says_so() {
    let bench = Bench::keeping(|options| options.displaced_retention.as_mut().unwrap().file_bytes = 10);
    write(&bench.store, "large", "more than ten bytes");
    write(&bench.store, "large", "small");
    write(&bench.store, "large", "more than ten bytes again");
    let told = lines(&bench.store);
    assert_eq!(text(&bench.store, &told[0].before).as_deref(), Some("small"));
    assert_eq!(told[1].before.as_ref().unwrap().content, None);
    assert_eq!(told[1].before.as_ref().unwrap().size, 19);
    apply(&bench.store, append_step("large", b", and more")).unwrap();
    assert!(text(&bench.store, &lines(&bench.store)[0].before).is_some(), "an append displaces nothing");
    write(&bench.store, "tree/small", "small");
    write(&bench.store, "tree/in/large", "more than ten bytes");
    apply(&bench.store, remove_step("tree", Subtree::Directory)).unwrap();
    let found = bench.store.revisions(&RevisionQuery { limit: 1, ..RevisionQuery::all() }).unwrap().revisions;
    assert_eq!(found[0].changes.len(), 4);
    let line = |name: &str| {
        let is = |line: &&NodeChange| line.before.as_ref().unwrap().name == name.as_bytes();
        found[0].changes.iter().find(is).unwrap().before.clone()
    };
    assert_eq!(text(&bench.store, &line("small")).as_deref(), Some("small"));
    let large = line("large").unwrap();
    assert_eq!((large.content, large.size), (None, 19));
    assert_eq!(
        large.parent,
        found[0].changes.iter().find(|l| l.before.as_ref().unwrap().name == b"in").unwrap().node
    );
    assert_eq!(bench.store.verify(&mut |_| ()).unwrap().problems, [""; 0]);
}

#[test]
fn what_is_too_old_or_too_much_is_let_go_and_stays_told() {
    let bench = Bench::keeping(|options| options.displaced_retention.as_mut().unwrap().bytes = 8 * 4_096 * 8);
    let now = SystemClock.now();
    let at_time = |seconds_ago: i64, content: &str| {
        let mut change = change(vec![write_step("a", content)]);
        change.operation.at = Timestamp(now.0 - seconds_ago * 1_000_000_000);
        bench.store.apply(change).unwrap();
    };
    let day = 24 * 3_600;
    at_time(40 * day, "one");
    at_time(20 * day, "two");
    at_time(day, "three");
    at_time(0, "four");
    assert_eq!(kept(&bench), 3);
    let pruned = bench.store.prune(now).unwrap();
    assert_eq!(pruned.kept, 2 * 4_096);
    assert!(pruned.freed >= 4_096, "{pruned:?}");
    assert_eq!(kept(&bench), 2);
    let befores =
        || lines(&bench.store).iter().map(|line| text(&bench.store, &line.before)).collect::<Vec<_>>();
    assert_eq!(befores(), [Some("three".into()), Some("two".into()), None, None]);
    assert!(lines(&bench.store)[2].before.is_some(), "that it was there stays known");
    // Beyond the limit the oldest are removed, without an explicit `prune`.
    for round in 0..96 {
        at_time(0, &format!("{round:010}"));
    }
    assert!((64..72).contains(&kept(&bench)), "{}", kept(&bench));
    assert_eq!(befores().iter().flatten().count(), kept(&bench));
    assert_eq!(bench.store.verify(&mut |_| ()).unwrap().problems, [""; 0]);
    bench.store.prune(Timestamp(now.0 + 30 * day * 1_000_000_000)).unwrap();
    assert_eq!(kept(&bench), 0);
    assert_eq!(lines(&bench.store).len(), 100);
}

#[test]
fn what_was_let_go_is_not_counted_as_kept_if_the_clock_went_back() {
    let bench = Bench::keeping(|_| ());
    let now = SystemClock.now();
    // The third change has an older time than the second.
    for (days_ago, content) in [(3, "one"), (2, "two"), (20, "three"), (1, "four")] {
        let mut change = change(vec![write_step("a", content)]);
        change.operation.at = Timestamp(now.0 - days_ago * 24 * 3_600 * 1_000_000_000);
        bench.store.apply(change).unwrap();
    }
    assert_eq!(kept(&bench), 3);
    let pruned = bench.store.prune(now).unwrap();
    assert_eq!(kept(&bench), 2);
    assert_eq!((pruned.kept, pruned.freed), (2 * 4_096, 4_096));
}

#[test]
fn scratch_is_not_kept() {
    let bench = Bench::keeping(|_| ());
    let scratch = |content: &str| {
        let put = PutOptions { displaced: DisplacedContent::Discard, ..PutOptions::default() };
        Step::Write { at: at("a"), content: Content::Bytes(content.into()), options: put }
    };
    apply(&bench.store, scratch("one")).unwrap();
    apply(&bench.store, scratch("two")).unwrap();
    assert_eq!(kept(&bench), 0);
    assert_eq!(lines(&bench.store).len(), 2);
}

#[test]
fn verify_finds_what_is_missing_and_what_is_not_what_it_was() {
    let bench = Bench::keeping(|_| ());
    for content in ["one", "two", "three"] {
        write(&bench.store, "a", content);
    }
    let told = lines(&bench.store);
    let hashes: Vec<_> = told.iter().map(|line| line.before.as_ref()?.content.as_ref()?.id()).collect();
    assert!(hashes[0].is_some() && hashes[1].is_some() && hashes[0] != hashes[1]);
    let verified = bench.store.verify(&mut |_| ()).unwrap();
    assert_eq!((verified.problems, verified.contents), (Vec::new(), 2));
    let physical = bench.temp.path().join("state/physical");
    let past = std::fs::read_dir(physical).unwrap().next().unwrap().unwrap().path().join("displaced");
    let mut names: Vec<_> = std::fs::read_dir(&past).unwrap().map(|entry| entry.unwrap().path()).collect();
    names.sort();
    std::fs::write(&names[0], "ONE").unwrap();
    std::fs::remove_file(&names[1]).unwrap();
    let problems = bench.store.verify(&mut |_| ()).unwrap().problems;
    assert_eq!(problems.len(), 2, "{problems:?}");
    assert!(problems.iter().all(|problem| !problem.contains('/')), "no host path: {problems:?}");
    assert_eq!(lines(&bench.store)[0].before.as_ref().unwrap().content, None);
}

#[test]
fn another_store_on_the_same_directory_sees_the_same_deeds() {
    let bench = Bench::keeping(|_| ());
    let other = open(bench.temp.path(), |options| with_ledger(bench.temp.path(), options));
    write(&bench.store, "a", "one");
    write(&other, "a", "two");
    write(&bench.store, "b", "three");
    apply(&other, remove_step("b", Subtree::File)).unwrap();
    assert_eq!(told(&bench.store), told(&other));
    assert_eq!(told(&other).len(), 4);
    assert_eq!(text(&bench.store, &lines(&bench.store)[0].before).as_deref(), Some("three"));
    // Usage for quotas is shared too.
    let quota = |bytes| {
        QuotaRoot::new(StorePath::empty(), QuotaLimits { bytes: Some(bytes), ..QuotaLimits::default() })
    };
    let under = |store: &PhysicalStore, content: &str| {
        store.apply(Change { quotas: vec![quota(11)], ..change(vec![write_step("c", content)]) })
    };
    under(&bench.store, "1234567").unwrap();
    assert!(under(&other, "12345678").is_ok(), "an overwrite counts the difference");
    assert!(matches!(under(&bench.store, "123456789"), Err(StoreError::OverQuota { used: 11, .. })));
    under(&other, "12").unwrap();
    assert_eq!(other.usage(&StorePath::empty()).unwrap(), Usage { bytes: 5, files: 2 });
}

#[test]
fn a_ledger_is_begun_by_the_first_change_and_not_before() {
    let temp = TempDir::new().unwrap();
    std::fs::create_dir(temp.path().join("root")).unwrap();
    std::fs::write(temp.path().join("root/there"), "before Stead came").unwrap();
    let path = temp.path().join("stead.db");
    let store = open(temp.path(), |options| {
        let path = path.clone();
        let opened = std::sync::OnceLock::new();
        options.ledger = stead_stores::LedgerSource::new(Database::id_at(&path), move |need| {
            if need == stead_stores::LedgerOpenMode::IfExists && opened.get().is_none() && !path.exists() {
                return Ok(None);
            }
            let open = || Database::open(&path, DatabaseOptions::default()).unwrap();
            Ok(Some(opened.get_or_init(open).clone()))
        });
    });
    assert_eq!(read(&store, "there"), "before Stead came");
    assert!(store.history().is_some());
    assert_eq!(store.latest_revision().unwrap().0, 0);
    assert!(lines(&store).is_empty());
    assert_eq!(store.usage(&StorePath::empty()).unwrap().files, 1);
    store.verify(&mut |_| ()).unwrap();
    assert!(!temp.path().join("stead.db").exists(), "looking makes nothing");
    write(&store, "there", "after");
    assert_eq!(text(&store, &lines(&store)[0].before).as_deref(), Some("before Stead came"));
    assert!(temp.path().join("stead.db").exists());
}

#[test]
fn without_a_ledger_nothing_can_be_written_down_and_nothing_happens() {
    let bench = Bench::keeping(|options| {
        options.ledger =
            stead_stores::LedgerSource::new(Database::in_memory().id(), |_| Err(StoreError::NoSpace));
    });
    assert!(matches!(apply(&bench.store, write_step("a", "x")), Err(StoreError::NoSpace)));
    assert!(!bench.host("a").exists());
}

#[test]
fn destroying_forgets_the_deeds_and_leaves_the_files() {
    let bench = Bench::keeping(|_| ());
    write(&bench.store, "a", "one");
    write(&bench.store, "a", "two");
    assert_eq!(kept(&bench), 1);
    bench.store.destroy().unwrap();
    assert_eq!((kept(&bench), lines(&bench.store).len()), (0, 0));
    assert_eq!(read(&bench.store, "a"), "two");
    write(&bench.store, "a", "three");
    assert_eq!(text(&bench.store, &lines(&bench.store)[0].before).as_deref(), Some("two"));
}

#[test]
fn the_past_is_safe_from_what_is_written_into_its_other_names() {
    let bench = Bench::keeping(|_| ());
    write(&bench.store, "a", "shared");
    std::fs::hard_link(bench.host("a"), bench.host("b")).unwrap();
    write(&bench.store, "a", "ours");
    assert_eq!(text(&bench.store, &lines(&bench.store)[0].before).as_deref(), Some("shared"));
    apply(&bench.store, append_step("b", b" and changed")).unwrap();
    let told = lines(&bench.store);
    assert_eq!(told[1].before.as_ref().unwrap().content, None, "what can't be told is not told wrongly");
}

#[test]
fn a_large_file_is_put_back_without_being_read_into_memory() {
    let bench = Bench::keeping(|_| ());
    let large = "0123456789abcdef".repeat(1 << 18);
    write(&bench.store, "a", &large);
    let mut draft = bench.store.draft(DraftBase::File(&at("a"))).unwrap();
    draft.write_at(1_000_000, b"patched").unwrap();
    let content = Content::Sealed(draft.seal().unwrap());
    apply(&bench.store, Step::Write { at: at("a"), content, options: PutOptions::default() }).unwrap();
    let inode = std::fs::metadata(bench.host("a")).unwrap().ino();
    let before = lines(&bench.store)[0].before.clone().unwrap().content.unwrap();
    apply(
        &bench.store,
        Step::Write { at: at("a"), content: Content::Stored(before.clone()), options: PutOptions::default() },
    )
    .unwrap();
    assert!(read(&bench.store, "a") == large);
    assert_ne!(std::fs::metadata(bench.host("a")).unwrap().ino(), inode, "the past has a file of its own");
    write(&bench.store, "a", "x");
    assert!(past_bytes(&bench.store, &before) == large.as_bytes(), "and what was told of stays readable");
    let elsewhere = Bench::keeping(|_| ());
    let foreign =
        Step::Write { at: at("a"), content: Content::Stored(before), options: PutOptions::default() };
    assert!(apply(&elsewhere.store, foreign).is_err());
}

#[test]
fn a_crowd_is_counted_and_told_without_a_gap() {
    let bench = Bench::keeping(|_| ());
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
    assert_eq!(told(&bench.store).len(), 120);
    // Every content that was ever written can still be read.
    let unknown = lines(&bench.store)
        .iter()
        .flat_map(|line| [line.before.clone(), line.after.clone()])
        .flatten()
        .filter(|state| state.kind == NodeKind::File && state.content.is_none())
        .count();
    assert_eq!(unknown, 0);
    assert_eq!(read(&bench.store, "log").lines().count(), 30);
    assert_eq!(bench.store.verify(&mut |_| ()).unwrap().problems, [""; 0]);
}
