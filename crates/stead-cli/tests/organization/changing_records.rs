//! Many agents on one server while the records change every second: every answer is one that the records allowed.
//!
//! What the records take away may be honoured for [`TAKEN_WITHIN`] more, what they give may be refused for
//! `Plan::given_within`. Within these times both answers are right, and at all other times exactly one is.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Barrier, Mutex};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::office::{Client, Office, Server, file};

/// For how long after a change of the records a call may still use a right that they no longer give.
const TAKEN_WITHIN: Duration = Duration::from_millis(20);
/// How often the records are replaced.
const CHANGE_INTERVAL: Duration = Duration::from_secs(1);
/// How many agents there are, how long the run takes, and how long an agent waits between two calls.
struct Plan {
    agents: usize,
    teams: usize,
    duration: Duration,
    pause: Duration,
    /// How soon a right can be used that the records give. The server opens the steads of all agents again whose folders
    /// have changed.
    given_within: Duration,
    /// How much the server's memory may grow in the second half of the run. Many agents discover more folders than fill the ids
    /// that a server remembers: 100,000 of them, with up to a million names of files.
    max_growth: u64,
}

impl Plan {
    fn chosen() -> Plan {
        let seconds = Duration::from_secs;
        match std::env::var_os("STEAD_TEST_LONG").is_some() {
            false => Plan {
                agents: 40,
                teams: 8,
                duration: seconds(10),
                pause: Duration::from_millis(10),
                given_within: seconds(2),
                max_growth: 32 << 20,
            },
            true => Plan {
                agents: 500,
                teams: 20,
                duration: seconds(60),
                pause: seconds(1),
                given_within: seconds(10),
                max_growth: 96 << 20,
            },
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Owner {
    Agent(usize),
    Team(usize),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Folder {
    owner: Owner,
    is_shared: bool,
}

impl Folder {
    /// `team-3/shared`
    fn name(self) -> String {
        let half = if self.is_shared { "shared" } else { "private" };
        match self.owner {
            Owner::Agent(agent) => format!("agent-{agent}/{half}"),
            Owner::Team(team) => format!("team-{team}/{half}"),
        }
    }

    fn path(self, file: &str) -> String {
        format!("/workspaces/{}/{file}", self.name())
    }

    /// The folder at a path such as `/workspaces/team-3/shared/`.
    fn at(path: &str) -> Folder {
        let mut parts = path.strip_prefix("/workspaces/").unwrap().split('/');
        let (owner, half) = (parts.next().unwrap(), parts.next().unwrap());
        let (kind, number) = owner.split_once('-').unwrap();
        let number = number.parse().unwrap();
        let owner = if kind == "team" { Owner::Team(number) } else { Owner::Agent(number) };
        Folder { owner, is_shared: half == "shared" }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Right {
    Read,
    Write,
}

/// What the records say.
#[derive(Debug, Clone)]
struct Records {
    team_of: Vec<Option<usize>>,
    leadership: Vec<bool>,
}

impl Records {
    /// The table of F73 to F85, written down a second time.
    fn allow(&self, agent: usize, folder: Folder, right: Right) -> bool {
        let team = self.team_of[agent];
        match folder.owner {
            Owner::Agent(owner) if owner == agent => true,
            Owner::Agent(owner) => {
                let is_mate = team.is_some() && team == self.team_of[owner];
                let leads = team.is_some_and(|team| self.leadership[team]);
                folder.is_shared && right == Right::Read && (is_mate || leads)
            }
            Owner::Team(owner) => team == Some(owner) || folder.is_shared && right == Right::Read,
        }
    }

    /// The folders of a scope of `list_folders`.
    fn scope(&self, agent: usize, scope: &str) -> Vec<Folder> {
        let of = |owner, is_shared| Folder { owner, is_shared };
        let own = Owner::Agent(agent);
        let team = self.team_of[agent].map(Owner::Team);
        match scope {
            "my_private" => vec![of(own, false)],
            "my_shared" => vec![of(own, true)],
            "team_private" => team.map(|team| of(team, false)).into_iter().collect(),
            "team_shared" => team.map(|team| of(team, true)).into_iter().collect(),
            _ => {
                let teams = (0..self.leadership.len()).map(Owner::Team);
                let agents = (0..self.team_of.len()).map(Owner::Agent).filter(|owner| *owner != own);
                let folders = teams.chain(agents).map(|owner| of(owner, true));
                folders.filter(|folder| self.allow(agent, *folder, Right::Read)).collect()
            }
        }
    }

    fn agents_json(&self) -> String {
        let agent = |(number, team): (usize, &Option<usize>)| {
            let mut agent = json!({ "id": format!("agent-{number}"), "name": format!("Agent {number}") });
            if let Some(team) = team {
                agent["teamId"] = format!("team-{team}").into();
            }
            agent
        };
        Value::from(self.team_of.iter().enumerate().map(agent).collect::<Vec<_>>()).to_string()
    }

    fn teams_json(&self) -> String {
        let team = |(number, leadership): (usize, &bool)| json!({ "id": format!("team-{number}"), "leadership": leadership });
        Value::from(self.leadership.iter().enumerate().map(team).collect::<Vec<_>>()).to_string()
    }
}

/// Records, and since when they are in the files.
struct Generation {
    records: Records,
    /// Before the file was replaced.
    begun: Instant,
    /// After it.
    done: Instant,
}

/// All records so far, the oldest first.
struct History {
    generations: Mutex<Vec<Generation>>,
    given_within: Duration,
    /// How long after a right was given it was still refused at most, in milliseconds.
    longest_wait: AtomicU64,
}

impl History {
    /// Whether an answer to a call between these times may be one that the records give which `says` selects.
    /// `lasts` is how long replaced records may still be in use.
    fn permits(
        &self,
        (start, end): (Instant, Instant),
        lasts: Duration,
        says: impl Fn(&Records) -> bool,
    ) -> bool {
        let generations = self.generations.lock().unwrap();
        generations.iter().enumerate().any(|(index, generation)| {
            let is_over = generations.get(index + 1).is_some_and(|next| next.done + lasts < start);
            generation.begun <= end && !is_over && says(&generation.records)
        })
    }

    /// Checks whether a call was rightly allowed or refused.
    fn check(&self, call: (Instant, Instant), agent: usize, folder: Folder, right: Right, was_allowed: bool) {
        let lasts = if was_allowed { TAKEN_WITHIN } else { self.given_within };
        if !was_allowed {
            self.note_wait(call, |records| !records.allow(agent, folder, right));
        }
        let is_right =
            self.permits(call, lasts, |records| records.allow(agent, folder, right) == was_allowed);
        assert!(
            is_right,
            "agent-{agent} was {} to {right:?} {}: {}",
            if was_allowed { "allowed" } else { "refused" },
            folder.name(),
            self.explain(call, |records| records.allow(agent, folder, right))
        );
    }

    /// Notes how long before a call the last records were replaced that refuse it.
    fn note_wait(&self, (start, end): (Instant, Instant), refuse: impl Fn(&Records) -> bool) {
        let generations = self.generations.lock().unwrap();
        let is_before_end = |(_, generation): &(usize, &Generation)| generation.begun <= end;
        let mut before_end = generations.iter().enumerate().filter(is_before_end).rev();
        let last = before_end.find(|(_, generation)| refuse(&generation.records));
        let replaced = last.and_then(|(index, _)| generations.get(index + 1)).map(|next| next.done);
        let wait = replaced.map_or(Duration::ZERO, |replaced| start.saturating_duration_since(replaced));
        self.longest_wait.fetch_max(wait.as_millis() as u64, Ordering::Relaxed);
    }

    /// What the last records say about it, and when each of them came, relative to the start of the call.
    fn explain(&self, (start, end): (Instant, Instant), says: impl Fn(&Records) -> bool) -> String {
        let generations = self.generations.lock().unwrap();
        let relative = |time: Instant| match time.checked_duration_since(start) {
            Some(after) => format!("+{after:.0?}"),
            None => format!("-{:.0?}", start - time),
        };
        let recent = generations.iter().rev().take(6);
        let lines = recent
            .map(|generation| format!("{} at {}", says(&generation.records), relative(generation.done)));
        format!("{}; the call ended at {}", lines.collect::<Vec<_>>().join(", "), relative(end))
    }
}

/// One agent, its connection, and what it knows.
struct Member<'a> {
    number: usize,
    client: Client,
    history: &'a History,
    /// The ids of the last listing.
    ids: BTreeMap<Folder, String>,
    /// What it has written to its own file of a folder.
    written: BTreeMap<Folder, String>,
    random: Random,
    /// How long the calls took.
    latencies: Vec<Duration>,
}

/// What came out of a call: the text, or a refusal.
type Answer = Option<String>;

impl Member<'_> {
    /// Makes a call that may be refused, and returns when it was under way.
    fn call(&mut self, tool: &str, arguments: Value) -> ((Instant, Instant), Answer) {
        let start = Instant::now();
        let answer = self.client.call(tool, arguments);
        let call = (start, Instant::now());
        self.latencies.push(call.1 - call.0);
        let answer = match answer {
            Ok(text) => Some(text),
            Err(refusal) if refusal.ends_with("[denied]") => None,
            Err(other) => panic!("agent-{}, {tool}: {other}", self.number),
        };
        (call, answer)
    }

    fn own_file(&self) -> String {
        format!("of-agent-{}.md", self.number)
    }

    /// Lists a scope, page by page. Every listed folder is one that the agent may read, and none is missing.
    fn list(&mut self, scope: &str) {
        let (mut found, mut cursor, mut whole) = (Vec::new(), None::<String>, None::<(Instant, Instant)>);
        loop {
            let mut arguments = json!({ "scope": scope });
            if let Some(cursor) = &cursor {
                arguments["cursor"] = cursor.as_str().into();
            }
            let start = Instant::now();
            let answer = self.client.call("list_folders", arguments);
            let call = (start, Instant::now());
            self.latencies.push(call.1 - call.0);
            let listing: Value = match answer {
                Ok(text) => serde_json::from_str(&text).unwrap(),
                // The last folder of the page before isn't one of the agent's any more.
                Err(error) if cursor.is_some() && error.contains("`cursor` isn't the nextCursor") => return,
                Err(error) => panic!("agent-{}, list_folders {scope}: {error}", self.number),
            };
            for folder in listing["folders"].as_array().unwrap() {
                let id = folder["folderId"].as_str().unwrap().to_owned();
                let folder = Folder::at(folder["path"].as_str().unwrap());
                let is_in_scope = |records: &Records| records.scope(self.number, scope).contains(&folder);
                assert!(
                    self.history.permits(call, self.history.given_within, is_in_scope),
                    "agent-{} lists {} in {scope}: {}",
                    self.number,
                    folder.name(),
                    self.history.explain(call, is_in_scope)
                );
                self.history.check(call, self.number, folder, Right::Read, true);
                self.ids.insert(folder, id);
                found.push(folder);
            }
            whole = Some((whole.map_or(call.0, |(start, _)| start), call.1));
            cursor = listing["nextCursor"].as_str().map(str::to_owned);
            if cursor.is_none() {
                break;
            }
        }
        let (call, number) = (whole.unwrap(), self.number);
        let expected = self.history.generations.lock().unwrap().last().unwrap().records.scope(number, scope);
        for folder in expected.into_iter().filter(|folder| !found.contains(folder)) {
            let is_missing = |records: &Records| !records.scope(number, scope).contains(&folder);
            assert!(
                self.history.permits(call, self.history.given_within, is_missing),
                "agent-{number} doesn't find {} in {scope}: {}",
                folder.name(),
                self.history.explain(call, |records| !is_missing(records))
            );
        }
    }

    /// A folder that the agent tries to use: its own, its team's, or any.
    fn target(&mut self, plan: &Plan) -> Folder {
        let team = self.history.generations.lock().unwrap().last().unwrap().records.team_of[self.number];
        let owner = match self.random.below(8) {
            0 => Owner::Agent(self.number),
            1..=3 if team.is_some() => Owner::Team(team.unwrap()),
            1..=5 => Owner::Team(self.random.below(plan.teams as u64) as usize),
            _ => Owner::Agent(self.random.below(plan.agents as u64) as usize),
        };
        Folder { owner, is_shared: self.random.below(3) > 0 }
    }

    fn read(&mut self, folder: Folder) {
        let own = self.written.get(&folder).cloned();
        let (name, expected) = match own {
            Some(text) if self.random.below(2) == 0 => (self.own_file(), text),
            _ => ("seed.md".to_owned(), seed(folder)),
        };
        let id = self.ids.get(&folder).cloned().filter(|_| self.random.below(2) == 0);
        let (call, answer) = match id {
            Some(id) => self.call("read_file_by_id", file(&id, &name)),
            None => self.call("read_file", json!({ "path": folder.path(&name) })),
        };
        self.history.check(call, self.number, folder, Right::Read, answer.is_some());
        if let Some(text) = answer {
            assert!(text.starts_with(&expected), "{} has {text:?}, not {expected:?}", folder.path(&name));
        }
    }

    fn write(&mut self, folder: Folder) {
        let text = format!("{} by agent-{}\n", self.latencies.len(), self.number);
        let name = self.own_file();
        let id = self.ids.get(&folder).cloned().filter(|_| self.random.below(2) == 0);
        let (call, answer) = match id {
            Some(id) => {
                let mut arguments = file(&id, &name);
                arguments["content"] = text.as_str().into();
                self.call("write_file_by_id", arguments)
            }
            None => self.call("write_file", json!({ "path": folder.path(&name), "content": text })),
        };
        self.history.check(call, self.number, folder, Right::Write, answer.is_some());
        if answer.is_some() {
            self.written.insert(folder, text);
        }
    }

    fn random_call(&mut self, plan: &Plan) {
        let folder = self.target(plan);
        match self.random.below(12) {
            0 => self.list("org_shared"),
            1 => {
                let scopes = ["my_private", "my_shared", "team_private", "team_shared"];
                let scope = scopes[self.random.below(4) as usize];
                self.list(scope);
            }
            2..=5 => self.write(folder),
            _ => self.read(folder),
        }
    }
}

fn seed(folder: Folder) -> String {
    format!("The seed of {}.", folder.name())
}

/// The next records: an agent in ten is in another team or in none, or another team leads in the place of one. The number of leading
/// teams stays: what leaders have takes most of the memory.
fn next(records: &Records, random: &mut Random) -> Records {
    let mut next = records.clone();
    if random.below(4) == 0 {
        let teams = next.leadership.len() as u64;
        let mut team_that = |leads: bool| loop {
            let team = random.below(teams) as usize;
            if records.leadership[team] == leads {
                break team;
            }
        };
        let (former, new) = (team_that(true), team_that(false));
        (next.leadership[former], next.leadership[new]) = (false, true);
        return next;
    }
    for team in &mut next.team_of {
        if random.below(10) == 0 {
            let chosen = random.below(records.leadership.len() as u64 + 1) as usize;
            *team = (chosen < records.leadership.len()).then_some(chosen);
        }
    }
    next
}

fn office(records: &Records) -> Office {
    let office = Office::empty();
    let config =
        "[stores.shared]\nkind = \"virtual\"\n\n[[organization]]\npath = \"acme\"\nstore = \"shared\"\n";
    std::fs::create_dir(office.path("acme")).unwrap();
    let tools = ["list_folders", "read_file_by_id", "write_file_by_id", "read_file", "write_file"];
    office.replace("stead.toml", config);
    office.replace("acme/org.json", &json!({ "id": "acme", "toolWhitelist": tools }).to_string());
    office.replace("acme/teams.json", &records.teams_json());
    office.replace("acme/agents.json", &records.agents_json());
    office
}

/// Connects all agents, and writes a file to every folder.
fn members<'a>(server: &Server<'_>, plan: &Plan, history: &'a History) -> Vec<Member<'a>> {
    let names = (0..plan.agents).map(|number| format!("acme/agent-{number}"));
    let clients = server.connect_all(names);
    let connect = |(number, client): (usize, Client)| {
        let mut member = Member {
            number,
            client,
            history,
            ids: BTreeMap::new(),
            written: BTreeMap::new(),
            random: Random(number as u64 + 1),
            latencies: Vec::new(),
        };
        let own = Some(Owner::Agent(number));
        let team = (number < plan.teams).then_some(Owner::Team(number));
        for owner in own.into_iter().chain(team) {
            for is_shared in [false, true] {
                let folder = Folder { owner, is_shared };
                let arguments = json!({ "path": folder.path("seed.md"), "content": seed(folder) });
                assert!(member.call("write_file", arguments).1.is_some());
            }
        }
        member.latencies.clear();
        member
    };
    clients.into_iter().enumerate().map(connect).collect()
}

#[test]
fn f69_f70_many_agents_get_only_answers_that_changing_records_allow() {
    let plan = Plan::chosen();
    let records = Records {
        team_of: (0..plan.agents).map(|agent| Some(agent % plan.teams)).collect(),
        leadership: (0..plan.teams).map(|team| team % 7 == 0).collect(),
    };
    let office = office(&records);
    let now = Instant::now();
    let history = History {
        generations: Mutex::new(vec![Generation { records, begun: now, done: now }]),
        given_within: plan.given_within,
        longest_wait: AtomicU64::new(0),
    };
    let server = office.serve();
    let members = members(&server, &plan, &history);
    let (calls, start_line) = (AtomicU64::new(0), Barrier::new(plan.agents + 1));
    let run = |mut member: Member<'_>| {
        start_line.wait();
        let end = Instant::now() + plan.duration;
        while Instant::now() < end {
            member.random_call(&plan);
            calls.fetch_add(1, Ordering::Relaxed);
            std::thread::sleep(plan.pause.mul_f64(member.random.below(200) as f64 / 100.0));
        }
        member.latencies
    };
    let (memory_halfway, changes, mut latencies) = std::thread::scope(|scope| {
        let run = &run;
        let threads: Vec<_> = members.into_iter().map(|member| scope.spawn(move || run(member))).collect();
        start_line.wait();
        let (end, mut random) = (Instant::now() + plan.duration, Random(4711));
        let (mut memory, mut changes) = (Vec::new(), 0);
        while Instant::now() + CHANGE_INTERVAL < end {
            std::thread::sleep(CHANGE_INTERVAL);
            memory.push(server.memory());
            let mut generations = history.generations.lock().unwrap();
            let records = next(&generations.last().unwrap().records, &mut random);
            // The call that sees the new records first must find them here, so the lock is held meanwhile.
            let begun = Instant::now();
            match records.leadership == generations.last().unwrap().records.leadership {
                true => office.replace("acme/agents.json", &records.agents_json()),
                false => office.replace("acme/teams.json", &records.teams_json()),
            }
            generations.push(Generation { records, begun, done: Instant::now() });
            changes += 1;
        }
        let latencies: Vec<_> = threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect();
        (memory[memory.len() / 2], changes, latencies)
    });
    let memory = server.memory();
    latencies.sort();
    println!(
        "{} agents, {changes} changes, {} calls; a call took {:.1?} (half), {:.1?} (99 of 100), {:.1?} (at most); \
         {} MiB half way, {} MiB at the end; a new right was refused for {} ms at most",
        plan.agents,
        calls.load(Ordering::Relaxed),
        latencies[latencies.len() / 2],
        latencies[latencies.len() * 99 / 100],
        latencies[latencies.len() - 1],
        memory_halfway >> 20,
        memory >> 20,
        history.longest_wait.load(Ordering::Relaxed),
    );
    assert!(calls.into_inner() > 500 && changes > 3);
    assert!(memory < memory_halfway + plan.max_growth, "memory went from {memory_halfway} to {memory} bytes");
}

/// Pseudo-random numbers that are the same in every run.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}
