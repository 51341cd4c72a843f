//! Entries after a change of records.

use super::*;

/// A directory with an organization whose records are in files.
struct Records {
    host: tempfile::TempDir,
}

const TEAMS: &str = r#"[{ "id": "hr" }, { "id": "it" }]"#;
const AGENTS: &str = r#"[
    { "id": "ann", "teamId": "hr" }, { "id": "bob", "teamId": "it" }, { "id": "eve" },
    { "id": "zoe" }
]"#;

impl Records {
    fn new() -> Self {
        let records = Records { host: tempfile::tempdir().unwrap() };
        records.write(
            "stead.toml",
            "[stores.s]\nkind = \"memory\"\n[[organization]]\nstore = \"s\"\npath = \".\"\n\
             [[agents.plain.workspaces]]\nprefix = \"/notes\"\nscope = \"rw\"\nstore = \"s\"\npath = \"/notes\"\n",
        );
        records.write("org.json", r#"{ "id": "acme" }"#);
        records.write("teams.json", TEAMS);
        records.write("agents.json", AGENTS);
        records
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.host.path().join(name), text).unwrap();
    }

    fn read(&self) -> Config {
        Config::read(&self.host.path().join("stead.toml")).unwrap()
    }

    /// The configuration with these agents.
    fn with_agents(&self, agents: &str) -> Config {
        self.write("agents.json", agents);
        self.read()
    }
}

fn opened(steads: &LiveSteads<CountingEntry>) -> u64 {
    steads.opened.load(Ordering::SeqCst)
}

fn has_team(entry: &CountingEntry, team: &str) -> bool {
    entry.prefixes().contains(&format!("/workspaces/{team}/private"))
}

fn renew(steads: &LiveSteads<CountingEntry>, agent: &str) {
    steads.renew(&Identity::agent(agent));
}

#[test]
fn a_refresh_that_began_before_other_records_came_takes_nothing_back_that_they_gave() {
    let records = Records::new();
    let steads = LiveSteads::of(&records.read());
    let eve = get(&steads, "acme/eve");
    let before = steads.stores();
    steads.replace(&records.with_agents(&AGENTS.replace(r#""eve""#, r#""eve", "teamId": "it""#))).unwrap();
    renew(&steads, "acme/eve");
    assert!(has_team(&eve, "it"));
    let identity = Identity::agent("acme/eve");
    assert!(!steads.refresh_entry(&identity, &eve, &before).unwrap());
    assert!(has_team(&eve, "it"));
    assert!(steads.refresh_entry(&identity, &eve, &steads.stores()).unwrap());
    assert_eq!((has_team(&eve, "it"), eve.refreshed()), (true, 1));
}

#[test]
fn a_reload_that_was_read_before_other_records_came_takes_nothing_back_that_they_gave() {
    let records = Records::new();
    let steads = LiveSteads::of(&records.read());
    let eve = get(&steads, "acme/eve");
    let read_before = records.with_agents(&AGENTS.replace(r#""zoe""#, r#""zoe", "teamId": "hr""#));
    // Longer than what was written just before, maybe in the same tick of the file system's clock.
    records.with_agents(&(AGENTS.replace(r#""eve""#, r#""eve", "teamId": "it""#) + "\n"));
    renew(&steads, "acme/eve");
    assert!(has_team(&eve, "it"));
    steads.replace(&read_before).unwrap();
    let config = steads.config();
    let (member, eve_index) = config.member("acme/eve").unwrap();
    assert!(member.organization.team_of(eve_index).is_some(), "the newer records are in use");
    renew(&steads, "acme/eve");
    assert!(has_team(&eve, "it"));
}

#[test]
fn f69_other_records_open_nothing_and_each_entry_is_opened_again_at_its_next_use() {
    let records = Records::new();
    let steads = LiveSteads::of(&records.read());
    let [ann, eve, zoe, plain] =
        ["acme/ann", "acme/eve", "acme/zoe", "plain"].map(|agent| get(&steads, agent));
    let before = opened(&steads);

    steads.replace(&records.with_agents(&AGENTS.replace(r#""eve""#, r#""eve", "teamId": "it""#))).unwrap();
    assert_eq!(opened(&steads), before, "other records alone open nothing");
    assert!(!has_team(&eve, "it"));
    renew(&steads, "acme/eve");
    assert!(has_team(&eve, "it"));
    assert_eq!(opened(&steads), before + 1);

    // The change leaves these as they were, so their steads stay open.
    for agent in ["acme/ann", "acme/zoe", "plain", "acme/eve"] {
        renew(&steads, agent);
    }
    assert_eq!(opened(&steads), before + 1);
    assert!(has_team(&ann, "hr") && !has_team(&zoe, "it"));
    assert_eq!(plain.prefixes(), ["/notes"]);

    // An entry that nobody uses is renewed as well.
    steads.replace(&records.with_agents(&AGENTS.replace(r#""hr""#, r#""it""#))).unwrap();
    steads.renew_outdated(Instant::now());
    assert_eq!(opened(&steads), before + 1, "there is no time left");
    steads.renew_outdated(Instant::now() + Duration::from_secs(60));
    assert!(has_team(&ann, "it") && !has_team(&ann, "hr") && !has_team(&eve, "it"));
    assert!(Arc::ptr_eq(&get(&steads, "acme/ann"), &ann), "it is still the same entry");
}

#[test]
fn an_entry_that_stays_open_uses_the_newest_records() {
    let records = Records::new();
    let steads = LiveSteads::of(&records.read());
    let ann = get(&steads, "acme/ann");
    let folders = Arc::clone(ann.stead.lock().folders().unwrap());
    // The Stores keep the configuration that they were opened with, once. Later ones are kept by nothing.
    steads.replace(&records.with_agents(&AGENTS.replace("zoe", "zac"))).unwrap();
    renew(&steads, "acme/ann");
    let old = Arc::downgrade(&folders.membership().organization);
    // An agent whose name comes first moves all others.
    steads.replace(&records.with_agents(&AGENTS.replace("zoe", "aaa"))).unwrap();
    renew(&steads, "acme/ann");
    let Membership { organization, agent, .. } = folders.membership();
    assert_eq!(organization.agent(agent).id, "ann");
    assert!(Arc::ptr_eq(&folders, ann.stead.lock().folders().unwrap()), "it was not opened again");
    // The configuration that was replaced is gone, with its records.
    assert!(old.upgrade().is_none());
}

#[test]
fn an_agent_without_a_record_has_nothing_until_it_has_one_again() {
    let records = Records::new();
    let steads = LiveSteads::of(&records.read());
    let bob = get(&steads, "acme/bob");
    steads.replace(&records.with_agents(&AGENTS.replace("bob", "rob"))).unwrap();
    renew(&steads, "acme/bob");
    assert_eq!(bob.prefixes(), Vec::<String>::new());
    assert!(!steads.has_access("acme/bob"));
    steads.replace(&records.with_agents(AGENTS)).unwrap();
    renew(&steads, "acme/bob");
    assert!(has_team(&bob, "it"));
}

#[test]
fn a_change_of_more_than_records_also_renews_entries_that_are_outdated() {
    let records = Records::new();
    let steads = LiveSteads::of(&records.read());
    let [ann, eve] = ["acme/ann", "acme/eve"].map(|agent| get(&steads, agent));
    let moved = AGENTS.replace(r#""ann", "teamId": "hr""#, r#""ann", "teamId": "it""#);
    steads.replace(&records.with_agents(&moved)).unwrap();
    // The entry of ann is outdated, and the next configuration has the same records.
    let text = std::fs::read_to_string(records.host.path().join("stead.toml")).unwrap();
    records.write("stead.toml", &text.replace("\"rw\"", "\"ro\""));
    steads.replace(&records.read()).unwrap();
    assert!(has_team(&ann, "it") && !has_team(&ann, "hr"));
    let before = opened(&steads);
    for agent in ["acme/ann", "acme/eve"] {
        renew(&steads, agent);
    }
    assert_eq!(opened(&steads), before, "all entries are up to date");
    assert!(!has_team(&eve, "it"));
}

#[test]
fn many_callers_of_one_identity_open_its_stead_once() {
    let records = Records::new();
    let steads = LiveSteads::of(&records.read());
    let eve = get(&steads, "acme/eve");
    let before = opened(&steads);
    steads.replace(&records.with_agents(&AGENTS.replace(r#""eve""#, r#""eve", "teamId": "it""#))).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                renew(&steads, "acme/eve");
                assert!(has_team(&eve, "it"));
            });
        }
    });
    assert_eq!(opened(&steads), before + 1);
}

#[test]
fn f69_what_changed_records_give_is_there_at_the_next_use_without_a_reload() {
    let records = Records::new();
    let steads = LiveSteads::of(&records.read());
    let eve = get(&steads, "acme/eve");
    assert!(!has_team(&eve, "it"));
    // Nobody calls `replace`: the owner has not noticed the change yet.
    records.write("agents.json", &AGENTS.replace(r#""eve""#, r#""eve", "teamId": "it""#));
    std::thread::sleep(Duration::from_millis(30));
    renew(&steads, "acme/eve");
    assert!(has_team(&eve, "it"));
    // A change of more than records is left to the owner, and so are records that come with it.
    let text = std::fs::read_to_string(records.host.path().join("stead.toml")).unwrap();
    records.write("stead.toml", &text.replace("\"rw\"", "\"ro\""));
    records.write("agents.json", AGENTS);
    std::thread::sleep(Duration::from_millis(30));
    renew(&steads, "acme/eve");
    assert!(steads.config().agents["plain"].workspaces[0].scope.allows(stead_core::Access::Write));
    steads.replace(&records.read()).unwrap();
    renew(&steads, "acme/eve");
    assert!(!has_team(&eve, "it"));
}

#[test]
fn f69_other_records_take_effect_while_a_slow_host_keeps_a_reload_waiting() {
    let records = Records::new();
    let steads = LiveSteads::of(&records.read());
    let eve = get(&steads, "acme/eve");
    let config = records.with_agents(&AGENTS.replace(r#""eve""#, r#""eve", "teamId": "it""#));
    // The owner's reload hangs, so it withdraws what the new configuration takes away: nothing.
    steads.withdraw(&config);
    std::thread::sleep(Duration::from_millis(30));
    renew(&steads, "acme/eve");
    assert!(has_team(&eve, "it"));
}

#[test]
fn f141_the_tools_of_an_agent_are_cached_until_its_organization_team_or_own_record_changes() {
    let records = Records::new();
    let organization = |tools: &str| format!(r#"{{ "id": "acme", "toolWhitelist": [{tools}] }}"#);
    records.write("org.json", &organization(r#""read_file", "write_file""#));
    let steads = LiveSteads::of(&records.read());
    let [ann, bob] = ["acme/ann", "acme/bob"].map(|agent| get(&steads, agent));
    let tools =
        |entry: &CountingEntry| entry.stead.lock().tools().iter().map(|tool| tool.name).collect::<Vec<_>>();
    assert_eq!(tools(&ann), ["read_file", "write_file"]);
    let all: &[&str] = &["list_folders", "read_file", "write_file"];
    let changes = [
        ("org.json", organization(r#""list_folders", "read_file", "write_file""#), all, all),
        (
            "teams.json",
            TEAMS.replace(r#""hr""#, r#""hr", "toolWhitelist": ["list_folders", "write_file"]"#),
            &["list_folders", "write_file"],
            all,
        ),
        (
            "agents.json",
            AGENTS.replace(r#""ann""#, r#""ann", "toolWhitelist": ["write_file"]"#),
            &["write_file"],
            all,
        ),
        ("agents.json", AGENTS.to_owned(), &["list_folders", "write_file"], all),
    ];
    for (file, text, of_ann, of_bob) in changes {
        records.write(file, &text);
        steads.replace(&records.read()).unwrap();
        let check = || {
            for (agent, entry, expected) in [("acme/ann", &ann, of_ann), ("acme/bob", &bob, of_bob)] {
                renew(&steads, agent);
                assert_eq!(tools(entry), expected, "{text}");
            }
            opened(&steads)
        };
        let after_change = check();
        assert_eq!(
            (check(), check()),
            (after_change, after_change),
            "without a change nothing is opened again"
        );
    }
}
