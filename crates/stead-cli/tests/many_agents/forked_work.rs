//! Five agents change one project at once, each in a fork, while a reviewer merges. Every line that was acknowledged is in the
//! project in the end.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::Random;
use crate::connection::{Connection, Era};
use crate::server::Server;

const AGENTS: usize = 5;
/// The lines that each file begins with. Agents add theirs after one of them.
const FIRST_LINES: u64 = 12;
/// How many edits an agent makes before it brings the others' work into its fork.
const EDITS_UNTIL_UPDATE: u64 = 8;
/// How long the agents go on at most, on a machine on which too little has happened in the planned time.
const LONGEST: Duration = Duration::from_secs(60);
/// How often the last work may still be in conflict after all agents have stopped.
const MAX_LAST_ROUNDS: usize = 20;

/// How long the agents work, and on how many files.
fn plan() -> (Duration, u64) {
    match std::env::var_os("STEAD_TEST_LONG").is_some() {
        true => (Duration::from_secs(300), 150),
        false => (Duration::from_secs(12), 5),
    }
}

fn anchor(line: u64) -> String {
    format!("anchor {line}.")
}

fn config(store: &str) -> String {
    let mut config = format!(
        "[stores.code]\n{store}\n[agents.reviewer]\nforks = true\n[[agents.reviewer.workspaces]]\nprefix = \"/code\"\n\
         scope = \"rw\"\nstore = \"code\"\n"
    );
    for number in 0..AGENTS {
        config += &format!(
            "[agents.a{number}]\nforks = true\n[[agents.a{number}.workspaces]]\nprefix = \"/code\"\nscope = \"ro\"\n\
             store = \"code\"\n"
        );
    }
    config
}

/// An agent in its fork.
struct Coder {
    number: usize,
    connection: Connection,
    random: Random,
    files: u64,
    /// The lines that it was told are written.
    acknowledged: Vec<String>,
    conflicts: u64,
}

impl Coder {
    fn add_line(&mut self) {
        let line = format!("line {} of agent {}.", self.acknowledged.len(), self.number);
        let (file, anchor) = (self.random.below(self.files), anchor(self.random.below(FIRST_LINES)));
        let path = format!("/forks/mine/{file}.txt");
        let (old, new) = (format!("{anchor}\n"), format!("{anchor}\n{line}\n"));
        let edit = json!({ "path": path, "old_string": old, "new_string": new });
        self.connection.call("edit_file", edit);
        self.acknowledged.push(line);
    }

    /// Brings the project's changes into the fork, and resolves conflicts: the lines of both sides stay.
    fn update(&mut self) {
        let updated = self.connection.try_call("update_fork", json!({ "fork": "mine" }));
        let conflicts = updated["structuredContent"]["conflicts"].as_array();
        let conflicts = conflicts.unwrap_or_else(|| panic!("{updated}"));
        for conflict in conflicts {
            // A merge of the reviewer can write markers too, if this agent has changed the file while it was made.
            let kind = conflict["kind"].as_str().unwrap();
            assert!(["content", "unresolved"].contains(&kind), "{updated}");
            let path = conflict["path"].as_str().unwrap();
            let marked = read(&mut self.connection, path);
            assert!(marked.contains("<<<<<<< target"), "{path} has no markers: {marked}");
            let resolved = resolve(&marked);
            self.connection.call("write_file", json!({ "path": path, "content": resolved }));
            self.conflicts += 1;
        }
    }
}

/// A whole file.
fn read(connection: &mut Connection, path: &str) -> String {
    let result = connection.call("read_file", json!({ "path": path, "limit": 10_000 }));
    assert_ne!(result["structuredContent"]["truncated"], true, "{path} is too long for this test");
    result["content"][0]["text"].as_str().unwrap().to_owned()
}

/// Both sides of each conflict, without the markers and the base, each line once.
fn resolve(marked: &str) -> String {
    let (mut text, mut is_base) = (String::new(), false);
    let mut in_conflict: Option<BTreeSet<&str>> = None;
    for line in marked.lines() {
        match line.split(' ').next() {
            Some("<<<<<<<") => in_conflict = Some(BTreeSet::new()),
            Some("|||||||") => is_base = true,
            Some("=======") => is_base = false,
            Some(">>>>>>>") => in_conflict = None,
            _ if is_base => {}
            _ if in_conflict.as_mut().is_some_and(|seen| !seen.insert(line)) => {}
            _ => text += &format!("{line}\n"),
        }
    }
    text
}

/// Merges an agent's fork. The error is the answer that tells the conflicts.
fn merge(reviewer: &mut Connection, number: usize, merges: &AtomicU64) -> Result<(), String> {
    let merged: Value = reviewer.try_call("merge_fork", json!({ "fork": format!("a{number}/mine") }));
    if merged["isError"] == true {
        let text = merged["content"][0]["text"].as_str().unwrap();
        assert!(text.contains("conflict /code/"), "{merged}");
        return Err(text.to_owned());
    }
    merges.fetch_add(1, Ordering::Relaxed);
    Ok(())
}

fn check(store: &str) {
    let (duration, files) = plan();
    let server = Server::launch_with(&config(store), |directory| {
        std::fs::create_dir(directory.join("code")).unwrap();
    });
    let mut tokens =
        server.tokens((0..AGENTS).map(|number| format!("a{number}")).chain(["reviewer".to_owned()]));
    let mut reviewer = Connection::open(server.address, &tokens.pop().unwrap(), Era::Sessions);
    let start: String = (0..FIRST_LINES).map(|line| format!("{}\n", anchor(line))).collect();
    for file in 0..files {
        reviewer.call("write_file", json!({ "path": format!("/code/{file}.txt"), "content": start }));
    }
    let coders: Vec<Coder> = tokens
        .iter()
        .enumerate()
        .map(|(number, token)| {
            let mut connection = Connection::open(server.address, token, Era::Sessions);
            connection.call("fork_workspace", json!({ "path": "/code", "name": "mine" }));
            let random = Random(number as u64 + 1);
            Coder { number, connection, random, files, acknowledged: Vec::new(), conflicts: 0 }
        })
        .collect();
    let (is_over, merges, refused) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
    let (line_count, conflict_count) = (AtomicU64::new(0), AtomicU64::new(0));
    let is_enough = || line_count.load(Ordering::Relaxed) > 100 && conflict_count.load(Ordering::Relaxed) > 0;
    let mut coders: Vec<Coder> = std::thread::scope(|scope| {
        let work = |mut coder: Coder| {
            let began = Instant::now();
            while began.elapsed() < duration || (began.elapsed() < LONGEST && !is_enough()) {
                for _ in 0..=coder.random.below(EDITS_UNTIL_UPDATE) {
                    coder.add_line();
                    line_count.fetch_add(1, Ordering::Relaxed);
                    std::thread::sleep(Duration::from_millis(20 + coder.random.below(60)));
                }
                let conflicts_before = coder.conflicts;
                coder.update();
                conflict_count.fetch_add(coder.conflicts - conflicts_before, Ordering::Relaxed);
            }
            coder
        };
        let working: Vec<_> = coders.into_iter().map(|coder| scope.spawn(move || work(coder))).collect();
        let (is_over, merges, refused, reviewer) = (&is_over, &merges, &refused, &mut reviewer);
        scope.spawn(move || {
            for number in (0..AGENTS).cycle() {
                if is_over.load(Ordering::Relaxed) {
                    return;
                }
                if merge(reviewer, number, merges).is_err() {
                    refused.fetch_add(1, Ordering::Relaxed);
                }
            }
        });
        let coders = working.into_iter().map(|work| work.join().unwrap()).collect();
        is_over.store(true, Ordering::Relaxed);
        coders
    });
    for coder in &mut coders {
        let mut rounds = 0..MAX_LAST_ROUNDS;
        while let Err(conflicts) = merge(&mut reviewer, coder.number, &merges) {
            assert!(rounds.next().is_some(), "agent {} stays in conflict: {conflicts}", coder.number);
            coder.update();
        }
    }
    let project: Vec<String> =
        (0..files).map(|file| read(&mut reviewer, &format!("/code/{file}.txt"))).collect();
    let lines: BTreeSet<&str> = project.iter().flat_map(|text| text.lines()).collect();
    let acknowledged: usize = coders.iter().map(|coder| coder.acknowledged.len()).sum();
    let resolved: u64 = coders.iter().map(|coder| coder.conflicts).sum();
    println!(
        "{acknowledged} lines of {AGENTS} agents, {} merges, {} refused for conflicts, {resolved} files resolved",
        merges.into_inner(),
        refused.into_inner()
    );
    for line in coders.iter().flat_map(|coder| &coder.acknowledged) {
        assert!(lines.contains(line.as_str()), "`{line}` is lost");
    }
    assert!(acknowledged > 100 && resolved > 0, "too little happened");
    assert!(!lines.iter().any(|line| line.starts_with("<<<<<<<") || line.starts_with(">>>>>>>")));
}

#[test]
fn g25_five_agents_in_forks_of_one_project_lose_no_acknowledged_line() {
    check("kind = \"virtual\"");
}

#[test]
fn g26_five_agents_in_forks_of_one_host_directory_lose_no_acknowledged_line() {
    check("kind = \"physical\"\npath = \"code\"");
}
