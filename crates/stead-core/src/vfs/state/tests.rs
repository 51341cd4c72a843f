//! What a State promises, tested over the model Store.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::audit::AuditOutcome;
use crate::clock::{FixedClock, Timestamp};
use crate::error::{Error, ErrorKind};
use crate::identity::Identity;
use crate::scope::Access;
use crate::store::{NodePath, Page, QuotaLimits, Store, VersionTag};
use crate::testkit::{MemoryAuditLog, ModelStore};
use crate::vfs::{ListPage, LogQuery, OpenOptions, WalkQuery};

struct Fixture {
    vfs: Vfs,
    state: State,
    store: Arc<ModelStore>,
    clock: Arc<FixedClock>,
    log: Arc<MemoryAuditLog>,
}

/// A READ_ONLY Workspace at `/`, and a State.
fn fixture() -> Fixture {
    let clock = Arc::new(FixedClock::at(Timestamp::from_secs(1_790_000_000)));
    let (store, log) = (Arc::new(ModelStore::new()), Arc::new(MemoryAuditLog::default()));
    let files =
        Workspace::new(VfsPath::root(), AccessScope::ReadOnly, Mount::new(Arc::new(ModelStore::new())));
    let builder = Vfs::builder(Identity::agent("coder")).stead("coder").workspace(files);
    let vfs = builder.state(store.clone()).clock(clock.clone()).audit(log.clone()).build().unwrap();
    Fixture { state: vfs.state().unwrap(), vfs, store, clock, log }
}

fn set(state: &State, key: &str, value: &str) -> VersionTag {
    state.set(key, value, &SetOptions::new()).unwrap().version_tag
}

fn value(state: &State, key: &str) -> Option<String> {
    state.get(key).unwrap().map(|found| found.value)
}

fn keys(state: &State, prefix: &str) -> Vec<String> {
    state.list(prefix, None, usize::MAX).unwrap().entries.into_iter().map(|entry| entry.key).collect()
}

/// The names in a namespace's directory, whatever has expired.
fn names(fixture: &Fixture, namespace: &str) -> Vec<String> {
    let at = NodePath::from_root(crate::store::StorePath::from_checked(namespace));
    fixture.store.list(&at, &Page::ALL).unwrap().entries.iter().map(|entry| entry.name.to_string()).collect()
}

#[test]
fn s17_a_value_is_set_read_replaced_and_deleted() {
    let Fixture { state, clock, .. } = fixture();
    assert_eq!(state.get("a").unwrap(), None);
    let first = state.set("a", " {\"n\": 1}\n", &SetOptions::new()).unwrap();
    assert!(first.created);
    let found = state.get("a").unwrap().unwrap();
    assert_eq!((&*found.value, found.version_tag), (" {\"n\": 1}\n", first.version_tag));
    assert_eq!((found.modified, found.expires_at), (clock_now(&clock), None));
    let second = state.set("a", "2", &SetOptions::new()).unwrap();
    assert!(!second.created && second.version_tag != first.version_tag);
    state.delete("a", None).unwrap();
    assert_eq!(state.get("a").unwrap(), None);
    assert!(matches!(state.delete("a", None), Err(Error::NoStateKey { .. })));
}

fn clock_now(clock: &FixedClock) -> Timestamp {
    crate::clock::Clock::now(clock)
}

#[test]
fn s17_namespaces_have_nothing_to_do_with_each_other() {
    let Fixture { state, .. } = fixture();
    let jobs = state.in_namespace("jobs").unwrap();
    set(&state, "a", "1");
    set(&jobs, "a", "2");
    assert_eq!((value(&state, "a"), value(&jobs, "a")), (Some("1".into()), Some("2".into())));
    jobs.delete("a", None).unwrap();
    assert_eq!((keys(&state, ""), keys(&jobs, "")), (vec!["a".to_owned()], vec![]));
    assert!(state.in_namespace("a/b").is_err());
}

#[test]
fn s17_compare_and_set_gives_the_present_version_tag() {
    let Fixture { state, .. } = fixture();
    let first = set(&state, "a", "1");
    let second = state.set("a", "2", &SetOptions::new().if_match(first)).unwrap().version_tag;
    for options in [SetOptions::new().if_match(first), SetOptions::new().if_match(first.short())] {
        match state.set("a", "3", &options) {
            Err(error @ Error::StateConflict { current: Some(current), .. }) => {
                assert_eq!((current, error.kind()), (second, ErrorKind::Conflict));
            }
            other => panic!("{other:?}"),
        }
    }
    match state.set("a", "3", &SetOptions::new().create_only()) {
        Err(error @ Error::StateKeyExists { current, .. }) => {
            assert_eq!((current, error.kind()), (second, ErrorKind::AlreadyExists));
        }
        other => panic!("{other:?}"),
    }
    assert!(matches!(
        state.delete("a", Some(first.into())),
        Err(Error::StateConflict { current: Some(_), .. })
    ));
    state.delete("a", Some(second.short().into())).unwrap();
    let gone = state.set("a", "3", &SetOptions::new().if_match(second));
    assert!(matches!(gone, Err(Error::StateConflict { current: None, .. })), "{gone:?}");
    let message = gone.unwrap_err().to_string();
    assert_eq!(message, "`state:default/a` does not exist; to create it, leave out `if_match`");
    let gone = state.delete("a", Some(second.into()));
    assert!(matches!(gone, Err(Error::StateConflict { current: None, .. })), "{gone:?}");
    let message = gone.unwrap_err().to_string();
    assert_eq!(message, "`state:default/a` does not exist, so there is nothing to delete");
    state.set("a", "3", &SetOptions::new().create_only()).unwrap();
}

#[test]
fn s17_an_expired_key_is_absent_everywhere() {
    let Fixture { state, clock, .. } = fixture();
    let minute = SetOptions::new().expires_in(Duration::from_secs(60));
    let tag = state.set("a", "1", &minute).unwrap().version_tag;
    set(&state, "b", "1");
    clock.advance(Duration::from_nanos(59_999_999_999));
    let found = state.get("a").unwrap().unwrap();
    assert_eq!(found.expires_at.unwrap().0, clock_now(&clock).0 + 1);
    let entry = &state.list("a", None, 1).unwrap().entries[0];
    assert_eq!((entry.size, entry.expires_at), (1, found.expires_at));
    clock.advance(Duration::from_nanos(1));
    assert_eq!((state.get("a").unwrap(), keys(&state, "")), (None, vec!["b".to_owned()]));
    assert!(matches!(
        state.set("a", "2", &SetOptions::new().if_match(tag)),
        Err(Error::StateConflict { current: None, .. })
    ));
    assert!(matches!(state.delete("a", None), Err(Error::NoStateKey { .. })));
    assert!(state.set("a", "2", &SetOptions::new().create_only()).unwrap().created);
    assert_eq!(state.get("a").unwrap().unwrap().expires_at, None, "a new value has no expiry of an old one");
    for time in [Duration::ZERO, Duration::MAX] {
        let refused = state.set("a", "2", &SetOptions::new().expires_in(time)).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Invalid);
    }
}

#[test]
fn s17_the_next_set_in_the_namespace_removes_what_has_expired_as_the_system() {
    let fixture = fixture();
    let Fixture { state, clock, log, .. } = &fixture;
    state.set("old", "1", &SetOptions::new().expires_in(Duration::from_secs(1))).unwrap();
    let other = state.in_namespace("other").unwrap();
    other.set("old", "1", &SetOptions::new().expires_in(Duration::from_secs(1))).unwrap();
    clock.advance(Duration::from_secs(2));
    set(state, "new", "1");
    assert_eq!(
        (names(&fixture, "default"), names(&fixture, "other")),
        (vec!["new".into()], vec!["old".into()])
    );
    let record = log
        .take()
        .into_iter()
        .find(|record| record.call == "state_expire" && record.outcome == AuditOutcome::Ok);
    let record = record.unwrap();
    assert_eq!((&*record.identity.agent, &*record.paths[0].to_string()), ("system", "state:default/old"));
    assert_eq!(state.remove_expired().unwrap(), 1);
    assert_eq!(names(&fixture, "other"), [""; 0]);
    assert_eq!(state.remove_expired().unwrap(), 0);
}

#[test]
fn s17_many_expired_keys_go_in_several_sweeps() {
    let fixture = fixture();
    let Fixture { state, clock, .. } = &fixture;
    for n in 0..600 {
        let options = SetOptions::new().expires_in(Duration::from_secs(if n % 3 == 0 { 1 } else { 1_000 }));
        state.set(&format!("{n:03}"), "1", &options).unwrap();
    }
    clock.advance(Duration::from_secs(2));
    for _ in 0..3 {
        set(state, "x", "1");
    }
    assert_eq!(names(&fixture, "default").len(), 401);
    assert_eq!(keys(state, "").len(), 401);
    clock.advance(Duration::from_secs(1_000));
    assert_eq!(state.remove_expired().unwrap(), 400);
}

#[test]
fn s18_no_path_leads_to_the_state() {
    let Fixture { vfs, state, .. } = fixture();
    set(&state, "secret/key", "\"CANARY\"");
    let listing = vfs.list("/", &ListPage::all()).unwrap();
    assert!(listing.entries.is_empty());
    assert!(vfs.walk("/", &WalkQuery::default()).unwrap().entries.is_empty());
    assert_eq!(vfs.workspaces().count(), 1);
    let logged = vfs.log(&LogQuery::default()).unwrap_or_default();
    let mut paths = vec![VfsPath::of_state_key("default", "secret/key"), VfsPath::state_root()];
    paths.extend(logged.iter().flat_map(|entry| &entry.changes).map(|change| change.path.clone()));
    for path in &paths {
        assert!(path.is_state());
        assert_eq!(vfs.read(path).unwrap_err().kind(), ErrorKind::Denied, "{path}");
        assert_eq!(vfs.stat(path).unwrap_err().kind(), ErrorKind::Denied, "{path}");
        assert_eq!(vfs.list(path, &ListPage::all()).unwrap_err().kind(), ErrorKind::Denied, "{path}");
        assert_eq!(vfs.write(path, "x").unwrap_err().kind(), ErrorKind::Denied, "{path}");
        assert_eq!(
            vfs.authorize(Some(path), Access::Restore).unwrap_err().kind(),
            ErrorKind::Denied,
            "{path}"
        );
        let query = LogQuery { path: Some(path.clone()), ..LogQuery::default() };
        assert_eq!(vfs.log(&query).unwrap_err().kind(), ErrorKind::Denied, "{path}");
        assert!(vfs.router().route(path).is_none());
    }
    for text in
        ["state:", "state:default/secret.1key", "/state:default/secret/key", "default", "/../state:default"]
    {
        assert!(vfs.read(text).is_err(), "{text}");
        assert!(VfsPath::parse(text).is_ok_and(|path| !path.is_state()) || text.contains(".."), "{text}");
    }
}

#[test]
fn s18_the_state_is_read_write_whatever_the_workspaces_are() {
    let Fixture { vfs, state, .. } = fixture();
    assert_eq!(vfs.write("/a", "x").unwrap_err().kind(), ErrorKind::Denied);
    set(&state, "a", "1");
}

#[test]
fn s18_every_call_has_one_record_with_its_key_and_without_its_value() {
    let Fixture { state, log, .. } = fixture();
    set(&state, "a/b", "\"CANARY\"");
    let _ = state.set("a/b", "2", &SetOptions::new().create_only());
    state.get("a/b").unwrap();
    state.get("none").unwrap();
    state.list("a", None, 10).unwrap();
    state.delete("a/b", None).unwrap();
    let _ = state.get("");
    let records = log.take();
    let finished = records.iter().filter(|record| record.outcome != AuditOutcome::Begun);
    let texts: Vec<_> = finished
        .map(|record| {
            let paths: Vec<_> = record.paths.iter().map(ToString::to_string).collect();
            format!("{} {} {:?} {:?}", record.call, paths.join(" "), record.outcome, record.bytes)
        })
        .collect();
    assert_eq!(
        texts,
        [
            "state_set state:default/a/b Ok Some(8)",
            "state_set state:default/a/b Failed(AlreadyExists) Some(1)",
            "state_get state:default/a/b Ok Some(8)",
            "state_get state:default/none Ok Some(0)",
            "state_list state:default Ok None",
            "state_delete state:default/a/b Ok None",
            "state_get  Failed(Invalid) None",
        ]
    );
    assert!(!format!("{records:?}").contains("CANARY"));
}

#[test]
fn s18_the_quota_of_the_stead_counts_the_state() {
    let files = Arc::new(ModelStore::new());
    let workspace = Workspace::new(VfsPath::root(), AccessScope::ReadWrite, Mount::new(files));
    let limits = QuotaLimits { bytes: Some(100), ..QuotaLimits::default() };
    let builder = Vfs::builder(Identity::agent("coder")).workspace(workspace).quota(limits);
    let vfs = builder.state(Arc::new(ModelStore::new())).build().unwrap();
    let state = vfs.state().unwrap();
    vfs.write("/a", vec![b'x'; 60]).unwrap();
    let forty = format!("\"{}\"", "x".repeat(38));
    set(&state, "a", &forty);
    let refused = state.set("b", "1", &SetOptions::new()).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Quota);
    assert!(refused.to_string().starts_with("`state:default/b` was not written: "), "{refused}");
    assert_eq!(vfs.write("/b", "x").unwrap_err().kind(), ErrorKind::Quota);
    state.delete("a", None).unwrap();
    vfs.write("/b", "x").unwrap();
}

#[test]
fn s17_s18_an_expired_key_of_any_namespace_counts_for_no_quota() {
    let clock = Arc::new(FixedClock::at(Timestamp(1_000_000_000_000)));
    let stead = |limits| {
        let workspace =
            Workspace::new(VfsPath::root(), AccessScope::ReadWrite, Mount::new(Arc::new(ModelStore::new())));
        let builder = Vfs::builder(Identity::agent("coder")).workspace(workspace).quota(limits);
        builder.clock(clock.clone()).state(Arc::new(ModelStore::new())).build().unwrap()
    };
    let second = SetOptions::new().expires_in(Duration::from_secs(1));
    let bytes = QuotaLimits { bytes: Some(100), ..QuotaLimits::default() };
    let files = QuotaLimits { files: Some(2), ..QuotaLimits::default() };
    for (limits, content) in [(bytes, "x".repeat(60)), (files, "x".to_owned())] {
        type Act = fn(&Vfs, &str) -> crate::error::Result<()>;
        let acts: [Act; 4] = [
            |vfs, content| vfs.write("/b", content.as_bytes().to_vec()).map(drop),
            |vfs, content| {
                vfs.state().unwrap().set("b", &format!("\"{content}\""), &SetOptions::new()).map(drop)
            },
            |vfs, _| vfs.copy("/a", "/copy", Default::default()).map(drop),
            |vfs, content| {
                let file = vfs.open(
                    "/c",
                    OpenOptions { read: true, write: true, create: true, ..Default::default() },
                )?;
                file.write_at(0, content.as_bytes())?;
                file.close().map(drop)
            },
        ];
        for act in acts {
            let vfs = stead(limits);
            vfs.write("/a", "1").unwrap();
            let jobs = vfs.state().unwrap().in_namespace("jobs").unwrap();
            jobs.set("lock", &format!("\"{}\"", "y".repeat(60)), &second).unwrap();
            clock.advance(Duration::from_millis(500));
            assert!(limits.files.is_none() || act(&vfs, &content).is_err(), "it hasn't expired yet");
            clock.advance(Duration::from_millis(600));
            act(&vfs, &content).unwrap();
        }
    }
}

/// What a key is, in the model.
#[derive(Debug, Clone)]
struct ModelKey {
    value: String,
    tag: VersionTag,
    expires_at: Option<Timestamp>,
}

#[derive(Debug, Clone)]
enum Act {
    Set { key: String, value: u8, expires: Option<u8>, condition: Condition },
    Delete { key: String, matches: Option<bool> },
    Get { key: String },
    List { prefix: String, limit: usize },
    Advance(u8),
    RemoveExpired,
}

#[derive(Debug, Clone, Copy)]
enum Condition {
    None,
    CreateOnly,
    Match,
    Mismatch,
}

fn key_strategy() -> impl Strategy<Value = String> {
    prop_oneof![
        "[ab./]{1,3}",
        Just("a".repeat(240)),
        Just("a".repeat(241)),
        Just(format!("{}/é", "a".repeat(300))),
        Just("é".repeat(256)),
        Just(format!("{}b", "é".repeat(119))),
    ]
}

fn act_strategy() -> impl Strategy<Value = Act> {
    let condition = prop_oneof![
        3 => Just(Condition::None),
        2 => Just(Condition::CreateOnly),
        2 => Just(Condition::Match),
        1 => Just(Condition::Mismatch),
    ];
    prop_oneof![
        4 => (key_strategy(), any::<u8>(), proptest::option::of(1..20u8), condition)
            .prop_map(|(key, value, expires, condition)| Act::Set { key, value, expires, condition }),
        2 => (key_strategy(), proptest::option::of(any::<bool>())).prop_map(|(key, matches)| Act::Delete { key, matches }),
        2 => key_strategy().prop_map(|key| Act::Get { key }),
        2 => (prop_oneof![Just(String::new()), key_strategy()], 1..4usize)
            .prop_map(|(prefix, limit)| Act::List { prefix, limit }),
        2 => (1..10u8).prop_map(Act::Advance),
        1 => Just(Act::RemoveExpired),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(debug_assertions) { 128 } else { 512 }))]
    #[test]
    fn s17_a_state_behaves_as_a_sorted_map(acts in proptest::collection::vec(act_strategy(), 1..60)) {
        let Fixture { state, clock, .. } = fixture();
        let mut model: BTreeMap<String, ModelKey> = BTreeMap::new();
        let no_tag = VersionTag(u128::MAX);
        for act in acts {
            let now = clock_now(&clock);
            model.retain(|_, key| key.expires_at.is_none_or(|at| at > now));
            match act {
                Act::Set { key, value, expires, condition } => {
                    let current = model.get(&key).map(|key| key.tag);
                    let mut options = SetOptions::new();
                    if let Some(seconds) = expires {
                        options = options.expires_in(Duration::from_secs(seconds.into()));
                    }
                    let (options, holds) = match condition {
                        Condition::None => (options, true),
                        Condition::CreateOnly => (options.create_only(), current.is_none()),
                        Condition::Match => (options.if_match(current.unwrap_or(no_tag)), current.is_some()),
                        Condition::Mismatch => (options.if_match(no_tag), false),
                    };
                    let value = value.to_string();
                    match state.set(&key, &value, &options) {
                        Ok(written) => {
                            prop_assert!(holds);
                            prop_assert_eq!(written.created, current.is_none());
                            let (tag, expires_at) = (written.version_tag, written.expires_at);
                            model.insert(key, ModelKey { value, tag, expires_at });
                        }
                        Err(Error::StateConflict { current: given, .. }) => {
                            prop_assert!(!holds);
                            prop_assert_eq!(given, current);
                        }
                        Err(Error::StateKeyExists { current: given, .. }) => {
                            prop_assert!(!holds);
                            prop_assert_eq!(Some(given), current);
                        }
                        Err(error) => panic!("{error}"),
                    }
                }
                Act::Delete { key, matches } => {
                    let current = model.get(&key).map(|key| key.tag);
                    let tag = matches.map(|matches| if matches { current.unwrap_or(no_tag) } else { no_tag });
                    let deleted = state.delete(&key, tag.map(Into::into));
                    let holds = current.is_some() && matches != Some(false);
                    prop_assert_eq!(deleted.is_ok(), holds, "{:?}", deleted);
                    if holds {
                        model.remove(&key);
                    }
                }
                Act::Get { key } => {
                    let found = state.get(&key).unwrap().map(|found| (found.value, found.version_tag, found.expires_at));
                    let expected = model.get(&key).cloned().map(|key| (key.value, key.tag, key.expires_at));
                    prop_assert_eq!(found, expected);
                }
                Act::List { prefix, limit } => {
                    let (mut cursor, mut found) = (None, Vec::new());
                    loop {
                        let page = state.list(&prefix, cursor.as_deref(), limit).unwrap();
                        prop_assert!(page.entries.len() <= limit);
                        found.extend(page.entries.into_iter().map(|entry| (entry.key, entry.version_tag, entry.size)));
                        cursor = page.cursor;
                        if cursor.is_none() {
                            break;
                        }
                    }
                    let expected = model.iter().filter(|(key, _)| key.starts_with(&prefix));
                    let expected: Vec<_> =
                        expected.map(|(key, known)| (key.clone(), known.tag, known.value.len() as u64)).collect();
                    prop_assert_eq!(found, expected);
                }
                Act::Advance(seconds) => clock.advance(Duration::from_secs(seconds.into())),
                Act::RemoveExpired => drop(state.remove_expired().unwrap()),
            }
        }
    }
}
