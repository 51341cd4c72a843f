#![allow(clippy::unwrap_used)]

mod renewal;

use std::sync::Barrier;

use super::*;
use crate::config::WorkspaceConfig;

/// An entry that counts, and that keeps the stead which it was last given.
struct CountingEntry {
    stead: Mutex<Stead>,
    refreshed: AtomicU64,
    is_needed: AtomicBool,
}

impl CountingEntry {
    fn new(stead: &Stead) -> Self {
        let (refreshed, is_needed) = (AtomicU64::new(0), AtomicBool::new(false));
        CountingEntry { stead: Mutex::new(stead.clone()), refreshed, is_needed }
    }

    fn refreshed(&self) -> u64 {
        self.refreshed.load(Ordering::SeqCst)
    }

    fn forks(&self) -> Vec<String> {
        self.stead.lock().forks().unwrap().map(|fork| fork.name.to_string()).collect()
    }

    fn prefixes(&self) -> Vec<String> {
        self.stead.lock().vfs().workspaces().map(|workspace| workspace.prefix().to_string()).collect()
    }
}

impl LiveEntry for CountingEntry {
    fn replace(&self, stead: &Stead) {
        *self.stead.lock() = stead.clone();
    }

    fn refresh(&self, stead: &Stead) -> bool {
        self.refreshed.fetch_add(1, Ordering::SeqCst);
        self.replace(stead);
        true
    }

    fn is_needed(&self, _: Duration) -> bool {
        self.is_needed.load(Ordering::SeqCst)
    }
}

fn config(host: &tempfile::TempDir, agents: &[&str], prefix: &str) -> Config {
    let mut text = "[stores.notes]\nkind = \"virtual\"\n".to_owned();
    for agent in agents {
        text += &format!(
            "[[agents.{agent}.workspaces]]\nprefix = \"{prefix}\"\nscope = \"rw\"\nstore = \"notes\"\n"
        );
    }
    Config::parse(&text, &host.path().join("stead.toml")).unwrap()
}

fn get(steads: &LiveSteads<CountingEntry>, agent: &str) -> Arc<CountingEntry> {
    steads.get(&Identity::agent(agent), CountingEntry::new).unwrap()
}

/// Waits until the subscription has reported the commits so far, and refreshes then.
fn refresh_after_commit(steads: &LiveSteads<CountingEntry>) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !steads.updates.lock().has_commits.load(Ordering::SeqCst) {
        assert!(Instant::now() < deadline, "no commit is reported");
        std::thread::sleep(Duration::from_millis(1));
    }
    steads.refresh();
}

#[test]
fn an_identity_that_hangs_while_it_is_opened_stops_no_other_identity() {
    let host = tempfile::tempdir().unwrap();
    let steads = LiveSteads::of(&config(&host, &["ann", "bob"], "/notes"));
    let [opening_began, opening_continues] = [(); 2].map(|()| Barrier::new(2));
    std::thread::scope(|scope| {
        let hanging = scope.spawn(|| {
            let make = |stead: &Stead| {
                opening_began.wait();
                opening_continues.wait();
                CountingEntry::new(stead)
            };
            steads.get(&Identity::agent("ann"), make).unwrap()
        });
        opening_began.wait();
        // A second caller for the same identity waits for the first.
        let second = scope.spawn(|| get(&steads, "ann"));
        get(&steads, "bob");
        get(&steads, "bob");
        steads.refresh();
        steads.evict_idle();
        assert!(!second.is_finished());
        opening_continues.wait();
        let (first, second) = (hanging.join().unwrap(), second.join().unwrap());
        assert!(Arc::ptr_eq(&first, &second), "an identity has one entry");
    });
}

#[test]
fn after_a_fork_only_its_owner_is_opened_again() {
    let host = tempfile::tempdir().unwrap();
    let config = config(&host, &["ann", "bob"], "/notes");
    let other_stead = Stead::open(&config, "ann").unwrap();
    other_stead.vfs().write("/notes/a", "1").unwrap();
    let steads = LiveSteads::of(&config);
    let [ann, bob] = ["ann", "bob"].map(|agent| get(&steads, agent));
    steads.refresh();
    let before = (ann.refreshed(), bob.refreshed(), steads.opened.load(Ordering::SeqCst));
    let other_stead = other_stead.fork("/notes", "draft").unwrap();
    refresh_after_commit(&steads);
    assert_eq!((ann.forks(), bob.forks()), (vec!["draft".to_owned()], Vec::new()));
    other_stead.vfs().write("/notes/a", "2").unwrap();
    refresh_after_commit(&steads);
    other_stead.discard("draft").unwrap();
    refresh_after_commit(&steads);
    assert_eq!(ann.forks(), Vec::<String>::new());
    let after = (ann.refreshed(), bob.refreshed(), steads.opened.load(Ordering::SeqCst));
    assert_eq!(after, (before.0 + 2, before.1, before.2 + 2), "a write opens nothing");
}

#[test]
fn a_thousand_idle_identities_cost_nothing() {
    let host = tempfile::tempdir().unwrap();
    let steads = LiveSteads::of(&config(&host, &["ann"], "/notes"));
    let identities = (0..1_000).map(|thread| Identity::agent("ann").with_thread(thread.to_string()));
    let live: Vec<_> =
        identities.map(|identity| steads.get(&identity, CountingEntry::new).unwrap()).collect();
    // The database is made at the first change.
    live[0].stead.lock().vfs().write("/notes/a", "1").unwrap();
    steads.refresh();
    // The records of the audit are committed a little later, and signed a second later.
    std::thread::sleep(Duration::from_millis(2_500));
    steads.refresh();
    let cost = || (steads.opened.load(Ordering::SeqCst), steads.updates.lock().reads);
    let before = cost();
    for _ in 0..100 {
        steads.refresh();
        steads.evict_idle();
    }
    assert_eq!(cost(), before, "nothing was opened and nothing was read");
    let other_stead = Stead::open(&steads.config(), "ann").unwrap();
    other_stead.fork("/notes", "draft").unwrap();
    refresh_after_commit(&steads);
    assert!(live.iter().all(|entry| entry.forks() == ["draft"]));
    assert_eq!(steads.updates.lock().reads, before.1 + 1, "one read for all of them");
}

#[test]
fn a_fork_that_is_made_while_a_stead_is_opened_is_not_missed() {
    let host = tempfile::tempdir().unwrap();
    let config = config(&host, &["ann", "bob"], "/notes");
    let other_stead = Stead::open(&config, "ann").unwrap();
    other_stead.vfs().write("/notes/a", "1").unwrap();
    let steads = LiveSteads::of(&config);
    get(&steads, "bob");
    steads.refresh();
    let open_count = AtomicU64::new(0);
    let ann = steads.get(&Identity::agent("ann"), |stead| {
        if open_count.fetch_add(1, Ordering::SeqCst) == 0 {
            // After the forks of this stead were read, and before the registry has its entry.
            other_stead.fork("/notes", "draft").unwrap();
            refresh_after_commit(&steads);
        }
        CountingEntry::new(stead)
    });
    assert_eq!(ann.unwrap().forks(), ["draft"]);
    assert_eq!(open_count.load(Ordering::SeqCst), 2);
}

#[test]
fn a_configuration_is_replaced_as_a_whole_or_not_at_all() {
    let host = tempfile::tempdir().unwrap();
    let steads = LiveSteads::of(&config(&host, &["ann", "bob"], "/notes"));
    let [ann, bob] = ["ann", "bob"].map(|agent| get(&steads, agent));
    // The second of the two can't be opened: its Workspace names a Store that there is none of.
    let mut invalid = config(&host, &["ann", "bob"], "/wrong");
    invalid.agents.get_mut("bob").unwrap().workspaces[0].store = "nowhere".into();
    assert!(steads.replace(&invalid).is_err());
    assert_eq!((ann.prefixes(), bob.prefixes()), (vec!["/notes".to_owned()], vec!["/notes".to_owned()]));
    assert!(steads.config().agents["ann"].workspaces[0].prefix.as_str() == "/notes");
    steads.replace(&config(&host, &["ann"], "/other")).unwrap();
    assert_eq!((ann.prefixes(), bob.prefixes()), (vec!["/other".to_owned()], Vec::new()));
    assert!(Arc::ptr_eq(&ann, &get(&steads, "ann")));
    assert!(steads.get(&Identity::agent("bob"), CountingEntry::new).is_err());
}

#[test]
fn a_stead_that_is_opened_while_the_configuration_is_replaced_has_the_new_one() {
    let host = tempfile::tempdir().unwrap();
    let steads = LiveSteads::of(&config(&host, &["ann"], "/notes"));
    let open_count = AtomicU64::new(0);
    let ann = steads.get(&Identity::agent("ann"), |stead| {
        if open_count.fetch_add(1, Ordering::SeqCst) == 0 {
            steads.replace(&config(&host, &["ann"], "/other")).unwrap();
        }
        CountingEntry::new(stead)
    });
    assert_eq!(ann.unwrap().prefixes(), ["/other"]);
}

#[test]
fn what_a_configuration_takes_away_is_gone_before_the_rest_of_it_is_in_use() {
    let host = tempfile::tempdir().unwrap();
    let steads = LiveSteads::of(&config(&host, &["ann", "bob", "eve"], "/notes"));
    let [ann, bob, eve] = ["ann", "bob", "eve"].map(|agent| get(&steads, agent));
    let mut new = config(&host, &["ann", "eve", "new"], "/notes");
    new.agents.get_mut("eve").unwrap().workspaces[0].scope = stead_core::AccessScope::ReadOnly;
    // The host doesn't answer while the forks are read again.
    let updates = steads.updates.lock();
    let opened = steads.opened.load(Ordering::SeqCst);
    steads.withdraw(&new);
    assert_eq!(steads.opened.load(Ordering::SeqCst), opened, "nothing is opened");
    assert_eq!(ann.prefixes(), ["/notes"], "nothing was taken away from this agent");
    assert!(Arc::ptr_eq(&ann, &get(&steads, "ann")));
    assert_eq!((bob.prefixes(), eve.prefixes()), (Vec::new(), Vec::new()));
    for agent in ["bob", "eve"] {
        assert!(steads.get(&Identity::agent(agent), CountingEntry::new).is_err(), "{agent}");
        let other_thread = Identity::agent(agent).with_thread("2");
        assert!(steads.get(&other_thread, CountingEntry::new).is_err(), "{agent}");
    }
    drop(updates);
    // An older configuration that was still waiting for the host gives nothing back.
    assert!(steads.replace(&config(&host, &["ann", "bob"], "/notes")).is_err());
    assert_eq!(bob.prefixes(), Vec::<String>::new());
    steads.replace(&new).unwrap();
    assert_eq!((eve.prefixes(), bob.prefixes()), (vec!["/notes".to_owned()], Vec::new()));
    get(&steads, "new");
}

#[test]
fn a_refresh_gives_nothing_back_that_was_taken_away() {
    let host = tempfile::tempdir().unwrap();
    let old = config(&host, &["ann", "bob"], "/notes");
    let steads = LiveSteads::of(&old);
    let bob = get(&steads, "bob");
    let other_stead = Stead::open(&old, "bob").unwrap();
    other_stead.vfs().write("/notes/a", "1").unwrap();
    steads.refresh();
    other_stead.fork("/notes", "draft").unwrap();
    steads.withdraw(&config(&host, &["ann"], "/notes"));
    refresh_after_commit(&steads);
    assert_eq!(bob.prefixes(), Vec::<String>::new());
}

#[test]
fn an_invalid_configuration_takes_nothing_away_in_the_end() {
    let host = tempfile::tempdir().unwrap();
    let steads = LiveSteads::of(&config(&host, &["ann", "bob"], "/notes"));
    let bob = get(&steads, "bob");
    let [invalid, newer] = ["/notes", "/newer"].map(|prefix| config(&host, &["ann"], prefix));
    steads.withdraw(&config(&host, &[], "/notes"));
    steads.withdraw(&invalid);
    steads.reinstate(&newer).unwrap();
    assert_eq!(bob.prefixes(), Vec::<String>::new(), "another configuration is still waiting");
    steads.reinstate(&invalid).unwrap();
    assert_eq!(bob.prefixes(), ["/notes"]);
    assert!(Arc::ptr_eq(&bob, &get(&steads, "bob")));
    steads.withdraw(&Config::parse("", &host.path().join("stead.toml")).unwrap());
    assert_eq!(bob.prefixes(), ["/notes"], "an empty file may be in the middle of being written");
}

#[test]
fn other_records_alone_take_no_access_away_from_those_they_leave_as_they_were() {
    let host = tempfile::tempdir().unwrap();
    let file = host.path().join("stead.toml");
    let write = |name: &str, text: &str| std::fs::write(host.path().join(name), text).unwrap();
    let read = |organization: &str, agents: &str| {
        write(
            "stead.toml",
            &format!("[stores.s]\nkind = \"memory\"\n[[organization]]\nstore = \"s\"\n{organization}"),
        );
        write("agents.json", agents);
        Config::read(&file).unwrap()
    };
    write("org.json", r#"{ "id": "acme" }"#);
    write("teams.json", r#"[{ "id": "hr" }]"#);
    let agents = r#"[{ "id": "ann", "teamId": "hr" }, { "id": "bob" }]"#;
    let old = read("path = \".\"", agents);
    // Newer records don't stop the configuration that is being put in use.
    let steads = LiveSteads::<CountingEntry>::of(&old);
    let newer = read("path = \".\"", &agents.replace("bob", "eve"));
    steads.withdraw(&newer);
    steads.replace(&old).unwrap();
    steads.withdraw(&read("path = \".\"\nmax_depth = 2", agents));
    assert!(steads.replace(&old).is_err());
    assert!(
        changed_organizations(&old, &read("path = \".\"", &agents.replace(", \"teamId\": \"hr\"", "")))
            .is_empty()
    );
    for other in ["path = \".\"\nmax_depth = 2", "path = \".\"\nstructured = true", "id = \"acme\""] {
        assert_eq!(changed_organizations(&old, &read(other, agents)).len(), 1, "{other}");
    }
    // In the configuration file, too, but not in a text that nobody follows.
    let inline = |agents: &str| read(&format!("id = \"acme\"\n{agents}"), "[]");
    let old = inline("agents = [{ id = \"ann\" }]");
    let new = inline("agents = [{ id = \"bob\" }]");
    assert!(changed_organizations(&old, &new).is_empty());
    let text = "[stores.s]\nkind = \"memory\"\n[[organization]]\nstore = \"s\"\nid = \"acme\"\nagents = [{ id = \"eve\" }]";
    assert_eq!(changed_organizations(&Config::parse(text, &file).unwrap(), &new).len(), 1);
}

#[test]
fn a_new_workspace_inside_another_one_takes_something_away() {
    let host = tempfile::tempdir().unwrap();
    let old = config(&host, &["ann"], "/notes");
    let with_added = |prefix: &str| {
        let mut new = old.clone();
        let workspaces = &mut new.agents.get_mut("ann").unwrap().workspaces;
        let prefix = stead_core::VfsPath::parse(prefix).unwrap();
        workspaces.push(WorkspaceConfig { prefix, ..workspaces[0].clone() });
        new
    };
    assert!(agents_that_lose_access(&old, &with_added("/more")).is_empty());
    assert_eq!(agents_that_lose_access(&old, &with_added("/notes/inner")).len(), 1);
}

#[test]
fn an_unused_entry_that_is_not_needed_is_evicted() {
    let host = tempfile::tempdir().unwrap();
    let steads = LiveSteads::of(&config(&host, &["ann"], "/notes"));
    let weak = Arc::downgrade(&get(&steads, "ann"));
    steads.evict_idle();
    assert!(weak.upgrade().is_some(), "it was used a moment ago");
    let steads = steads.with_idle_timeout(Duration::ZERO);
    let entry = get(&steads, "ann");
    steads.evict_idle();
    assert!(Arc::ptr_eq(&entry, &get(&steads, "ann")), "somebody holds it");
    entry.is_needed.store(true, Ordering::SeqCst);
    drop(entry);
    steads.evict_idle();
    let needed = weak.upgrade().unwrap();
    needed.is_needed.store(false, Ordering::SeqCst);
    drop(needed);
    steads.evict_idle();
    assert!(weak.upgrade().is_none());
    assert!(steads.state.lock().slots.is_empty());
    get(&steads, "ann");
}

#[test]
fn a_stead_that_cannot_be_opened_leaves_nothing_behind() {
    let host = tempfile::tempdir().unwrap();
    let steads = LiveSteads::of(&config(&host, &["ann"], "/notes"));
    assert!(steads.get(&Identity::agent("eve"), CountingEntry::new).is_err());
    assert!(steads.state.lock().slots.is_empty());
}

#[test]
fn the_owner_of_a_fork_loses_access_with_its_maker() {
    let host = tempfile::tempdir().unwrap();
    let before = config(&host, &["ann", "bob", "eve"], "/notes");
    let ann = Stead::open(&before, "ann").unwrap();
    ann.vfs().write("/notes/a", "1").unwrap();
    ann.fork_to("/notes", "draft", "bob").unwrap();
    let steads = LiveSteads::of(&before);
    let [bob, eve] = ["bob", "eve"].map(|agent| get(&steads, agent));
    assert_eq!(bob.prefixes(), ["/forks/draft", "/notes"]);
    let without_ann = config(&host, &["bob", "eve"], "/notes");
    steads.withdraw(&without_ann);
    assert!(bob.prefixes().is_empty() && !steads.has_access("bob"));
    assert!(steads.has_access("eve") && eve.prefixes() == ["/notes"]);
    // An identity whose stead is opened only now doesn't get around it.
    let thread = Identity::agent("bob").with_thread("t");
    assert!(steads.get(&thread, CountingEntry::new).is_err());
    steads.replace(&without_ann).unwrap();
    assert!(steads.has_access("bob"));
    assert_eq!((bob.prefixes(), bob.forks()), (vec!["/notes".to_owned()], Vec::new()));
}

#[test]
fn a_fork_that_was_made_again_is_not_shown_with_the_settings_of_the_old_one() {
    let host = tempfile::tempdir().unwrap();
    let config = config(&host, &["ann"], "/notes");
    let other_process = Stead::open(&config, "ann").unwrap();
    other_process.vfs().write("/notes/a", "1").unwrap();
    let other_process = other_process.fork("/notes", "draft").unwrap();
    let ann = get(&LiveSteads::of(&config), "ann");
    let other_process = other_process.discard("draft").unwrap();
    other_process.vfs().write("/notes/a", "2").unwrap();
    other_process.fork("/notes", "draft").unwrap();
    // Its stead has not been opened again since.
    let error = ann.stead.lock().vfs().read("/forks/draft/a").unwrap_err().to_string();
    assert!(error.contains("discarded"), "{error}");
}

fn thread_config(host: &tempfile::TempDir, keys: &str) -> Config {
    let text = format!(
        "[stores.notes]\nkind = \"virtual\"\n[agents.a]\nscope = \"thread\"\n{keys}\n\
         [[agents.a.workspaces]]\nprefix = \"/w\"\nscope = \"rw\"\nstore = \"notes\"\n"
    );
    Config::parse(&text, &host.path().join("stead.toml")).unwrap()
}

#[test]
fn s12_the_entry_of_a_destroyed_thread_says_so_once_and_then_the_thread_is_a_new_one() {
    let host = tempfile::tempdir().unwrap();
    let steads = LiveSteads::<CountingEntry>::of(&thread_config(&host, ""));
    let (identity, key) = (Identity::agent("a").with_thread("t"), ThreadKey::new("a", "t"));
    let get = || steads.get(&identity, CountingEntry::new).unwrap();
    let write = |entry: &CountingEntry| entry.stead.lock().vfs().write("/w/x", "1").map(drop);
    let entry = get();
    write(&entry).unwrap();
    steads.stores().threads().destroy(&key).unwrap().unwrap();
    // A refresh must not make the thread again, though its forks may have changed.
    steads.refresh();
    steads.replace(&thread_config(&host, "description = \"changed\"")).unwrap();
    assert!(steads.stores().threads().list(None).unwrap().is_empty());
    assert!(write(&entry).unwrap_err().to_string().starts_with("the thread has ended"));
    let new = get();
    assert!(!new.stead.lock().vfs().exists("/w/x").unwrap());
    write(&new).unwrap();
    assert!(write(&entry).is_err());
}

#[test]
fn evicting_an_idle_entry_releases_its_lease_and_a_sweep_ends_the_thread() {
    let host = tempfile::tempdir().unwrap();
    let steads = LiveSteads::<CountingEntry>::of(&thread_config(&host, "idle_timeout = \"1s\""));
    let steads = steads.with_idle_timeout(Duration::ZERO);
    let identity = Identity::agent("a").with_thread("t");
    let entry = steads.get(&identity, CountingEntry::new).unwrap();
    entry.stead.lock().vfs().write("/w/x", "1").unwrap();
    let leases = || steads.stores().threads().list(None).unwrap().first().map(|thread| thread.leases);
    steads.evict_idle();
    assert_eq!(leases(), Some(1), "the entry is in use");
    drop(entry);
    steads.evict_idle();
    assert_eq!(leases(), Some(0));
    let deadline = Instant::now() + Duration::from_secs(20);
    while leases().is_some() {
        assert!(Instant::now() < deadline);
        std::thread::sleep(Duration::from_millis(100));
        assert!(steads.sweep_threads().unwrap().is_empty());
    }
}

#[test]
fn an_entry_is_refreshed_by_the_forks_of_its_own_thread_alone() {
    let host = tempfile::tempdir().unwrap();
    let steads = LiveSteads::<CountingEntry>::of(&thread_config(&host, ""));
    let get =
        |thread: &str| steads.get(&Identity::agent("a").with_thread(thread), CountingEntry::new).unwrap();
    let (one, two) = (get("one"), get("two"));
    steads.refresh();
    one.stead.lock().vfs().write("/w/x", "1").unwrap();
    refresh_after_commit(&steads);
    let before = two.refreshed();
    let stead = one.stead.lock().clone();
    stead.fork("/w", "draft").unwrap();
    refresh_after_commit(&steads);
    assert_eq!(one.forks(), ["draft"]);
    assert_eq!((two.forks(), two.refreshed()), (Vec::new(), before));
}
