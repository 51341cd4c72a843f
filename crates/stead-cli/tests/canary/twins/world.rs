//! Two worlds that differ in one thing: whether names in a WRITE_ONLY Workspace are taken.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::{Value, json};
use stead::store::Parents;
use stead::vfs::{RemoveOptions, Vfs};
use stead::{Config, Stead};

/// `/main` and `/disk` (READ_WRITE), a WRITE_ONLY Workspace in each of them on the same Store, and one on a Store of
/// its own. All of them share one version counter.
const CONFIG: &str = r#"
[database]
durability = "fast"
[stores.main]
kind = "virtual"
[stores.disk]
kind = "physical"
path = "disk"

[agents.owner]
workspaces = [
  { prefix = "/main", store = "main", scope = "rw", protect = [] },
  { prefix = "/disk", store = "disk", scope = "rw", protect = [] },
]

[agents.coder]
history = true
quota = { bytes = "100MiB" }
workspaces = [
  { prefix = "/main", store = "main", path = "/home", scope = "rw", quota = { bytes = "10MiB" } },
  { prefix = "/main/wo", store = "main", path = "/home/wo", scope = "wo" },
  { prefix = "/disk", store = "disk", path = "/home", scope = "rw", quota = { bytes = "10MiB" } },
  { prefix = "/disk/wo", store = "disk", path = "/home/wo", scope = "wo" },
]
"#;

/// The READ_WRITE Workspaces, one on each kind of Store.
pub(crate) const STORES: [&str; 2] = ["/main", "/disk"];

/// What is at the names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum There {
    Nothing,
    File,
    EmptyDirectory,
    FullDirectory,
    /// A symlink to a file beside it.
    Symlink,
    /// A symlink to a name that doesn't exist.
    Dangling,
    /// A directory that contains something protected, so it can't be deleted.
    Protected,
    /// A file that the agent wrote itself.
    Own,
    /// A file that the agent wrote itself, and that another agent has deleted.
    OwnGone,
}

impl There {
    pub(crate) fn is_directory(self) -> bool {
        matches!(self, There::EmptyDirectory | There::FullDirectory | There::Protected)
    }
}

/// The pairs of worlds that have to look the same.
pub(crate) const TWINS: [(There, There); 7] = [
    (There::Nothing, There::File),
    (There::Nothing, There::FullDirectory),
    (There::OwnGone, There::Own),
    (There::Nothing, There::EmptyDirectory),
    (There::Nothing, There::Symlink),
    (There::Nothing, There::Dangling),
    (There::Nothing, There::Protected),
];

/// One of two twin worlds.
pub(crate) struct Twin {
    directory: tempfile::TempDir,
    /// A directory of the host that no Workspace shows.
    pub(crate) elsewhere: tempfile::TempDir,
    /// The answers that the agent got in this world.
    pub(crate) transcript: Transcript,
}

impl Twin {
    /// A world in which these names are taken, in the WRITE_ONLY Workspace on each Store.
    pub(crate) fn new(there: There, names: &[String]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir(directory.path().join("disk")).unwrap();
        fs::write(directory.path().join("stead.toml"), CONFIG).unwrap();
        let twin =
            Twin { directory, elsewhere: tempfile::tempdir().unwrap(), transcript: Transcript::default() };
        let owner = twin.stead("owner");
        for store in STORES {
            // The same changes are made in both worlds, but in one of them out of the agent's reach.
            for place in ["home/wo", "out"] {
                owner.vfs().mkdir(format!("{store}/{place}"), Parents::Create).unwrap();
                owner.vfs().write(format!("{store}/{place}/other"), "theirs\n").unwrap();
            }
            for name in names {
                let place = if there == There::Nothing { "out" } else { "home/wo" };
                make(owner.vfs(), there, &format!("{store}/{place}/{name}"));
            }
        }
        drop(owner);
        let coder = twin.stead("coder");
        for store in STORES {
            coder.vfs().write(format!("{store}/first"), "1\n").unwrap();
        }
        if matches!(there, There::Own | There::OwnGone) {
            for (store, name) in STORES.iter().flat_map(|store| names.iter().map(move |name| (store, name))) {
                coder.vfs().write(format!("{store}/wo/{name}"), "mine\n").unwrap();
            }
            let owner = twin.stead("owner");
            for (store, name) in STORES.iter().flat_map(|store| names.iter().map(move |name| (store, name))) {
                owner.vfs().write(format!("{store}/out/{name}"), "mine\n").unwrap();
                let place = if there == There::OwnGone { "home/wo" } else { "out" };
                owner.vfs().remove_file(format!("{store}/{place}/{name}"), RemoveOptions::default()).unwrap();
            }
        }
        twin
    }

    pub(crate) fn stead(&self, agent: &str) -> Stead {
        let config = Config::parse(CONFIG, &self.path("stead.toml")).unwrap();
        Stead::open(&config, agent).unwrap()
    }

    pub(crate) fn path(&self, below: &str) -> PathBuf {
        self.directory.path().join(below)
    }

    pub(crate) fn command(&self, args: &[&str]) -> Command {
        crate::world::command(self.directory.path(), args)
    }

    /// Records what the log and the audit show of the agent.
    pub(crate) fn look_at_records(&mut self, twins: (There, There)) {
        let lines = |twin: &Self, args: &[&str]| -> Vec<Value> {
            let told = twin.command(args).output().unwrap().stdout;
            String::from_utf8(told).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
        };
        for args in [&["audit", "verify"][..], &["verify"]] {
            let verified = self.command(args).output().unwrap();
            assert!(verified.status.success(), "{args:?} {verified:?}");
        }
        for mut entry in lines(self, &["log", "--limit", "10000", "--json"]) {
            // Ids that were created at the same time have no order.
            entry["undoes"] = json!(entry["undoes"].as_array().unwrap().len());
            self.transcript.note("log", &entry.to_string());
        }
        // The audit is for the operator, and names the paths that symlinks led to.
        if !matches!(twins.1, There::Symlink | There::Dangling) {
            let facts = |record: Value| {
                let names = ["call", "paths", "scope", "outcome", "dry_run", "bytes", "files", "version"];
                format!("{:?}", names.map(|name| record.get(name).cloned()))
            };
            let records = lines(self, &["audit", "--limit", "10000", "--agent", "coder", "--json"]);
            // Records that began at the same time have no order.
            let mut records: Vec<String> = records.into_iter().map(facts).collect();
            records.sort();
            records.iter().for_each(|record| self.transcript.note("audit", record));
        }
    }

    /// Runs a command as the agent's host would, and records its whole answer.
    pub(crate) fn run(&mut self, args: &[&str]) {
        let Output { status, stdout, stderr } = self.command(args).output().unwrap();
        let answer =
            format!("{status} {} {}", String::from_utf8(stdout).unwrap(), String::from_utf8(stderr).unwrap());
        let place = self.directory.path().to_owned();
        self.transcript.note(&args.join(" "), &without(&answer, &place));
    }
}

/// Creates what `there` describes at a path.
fn make(owner: &Vfs, there: There, at: &str) {
    let beside = |name: &str| format!("{at}/{name}");
    match there {
        There::File | There::Nothing => drop(owner.write(at, "theirs\n").unwrap()),
        There::EmptyDirectory => drop(owner.mkdir(at, Parents::Create).unwrap()),
        There::FullDirectory => drop(owner.write(beside("held"), "theirs\n").unwrap()),
        There::Symlink => drop(owner.symlink(at, "other").unwrap()),
        There::Dangling => {
            let (_, name) = at.rsplit_once('/').unwrap();
            owner.symlink(at, &format!("nowhere-{name}")).unwrap();
        }
        There::Protected => drop(owner.write(beside(".git/hooks/held"), "theirs\n").unwrap()),
        There::Own | There::OwnGone => {}
    }
}

fn without(answer: &str, place: &Path) -> String {
    answer.replace(place.to_str().unwrap(), "PLACE")
}

/// All answers that an agent got, without what differs from run to run.
#[derive(Default)]
pub(crate) struct Transcript {
    lines: Vec<String>,
    ids: HashMap<String, usize>,
}

impl Transcript {
    /// How many answers there are.
    pub(crate) fn len(&self) -> usize {
        self.lines.len()
    }

    /// Records an answer.
    pub(crate) fn note(&mut self, asked: &str, answer: &str) {
        let line = format!("{asked}: {answer}");
        let line = self.plain(&line);
        self.lines.push(line);
    }

    /// The text without times, random ids and the tags of host files.
    fn plain(&mut self, text: &str) -> String {
        // A Virtual Store numbers its states, so its tags have to be equal. The tags of a host's files may differ.
        let is_virtual = !text.contains("/disk");
        let mut plain = String::new();
        let mut rest = text;
        while !rest.is_empty() {
            let is_part = |one: char| one.is_ascii_alphanumeric() || "-:.".contains(one);
            let end = rest.find(|one| !is_part(one)).unwrap_or(rest.len());
            let (word, more) = rest.split_at(end);
            let trimmed = word.trim_end_matches([':', '.']);
            self.put(&mut plain, trimmed, is_virtual);
            plain.push_str(&word[trimmed.len()..]);
            let next = more.chars().next().map_or(0, char::len_utf8);
            plain.push_str(&more[..next]);
            rest = &more[next..];
        }
        plain
    }

    fn put(&mut self, plain: &mut String, word: &str, is_virtual: bool) {
        let shape: String = word
            .chars()
            .map(|one| {
                if one.is_ascii_digit() {
                    'd'
                } else if one.is_ascii_hexdigit() {
                    'h'
                } else {
                    one
                }
            })
            .collect();
        let is_hex = shape.chars().all(|one| "dh".contains(one));
        let is_id = word.len() == 36 && shape.chars().all(|one| "dh-".contains(one));
        let count = self.ids.len();
        if is_id {
            let number = *self.ids.entry(word.to_owned()).or_insert(count);
            write!(plain, "ID{number}").unwrap();
        } else if shape.starts_with("dddd-dd-dd") || shape.starts_with("dd:dd") {
            plain.push_str("TIME");
        } else if is_hex && [12, 32].contains(&word.len()) && !is_virtual {
            plain.push_str("TAG");
        } else {
            plain.push_str(word);
        }
    }

    /// Fails if the two agents didn't get the same answers.
    #[track_caller]
    pub(crate) fn check_same(&self, other: &Transcript, twins: (There, There)) {
        let differing: Vec<String> = self
            .lines
            .iter()
            .zip(&other.lines)
            .filter(|(one, other)| one != other)
            .map(|(one, other)| difference(one, other))
            .collect();
        let few = differing.iter().take(12).map(String::as_str).collect::<Vec<_>>().join("\n");
        assert!(differing.is_empty(), "{twins:?}: {} answers differ:\n{few}", differing.len());
        assert_eq!(self.lines.len(), other.lines.len(), "{twins:?}");
    }
}

/// The part of two answers where they begin to differ.
fn difference(one: &str, other: &str) -> String {
    let same = one.bytes().zip(other.bytes()).take_while(|(one, other)| one == other).count();
    let asked = one.split(": ").next().unwrap_or_default();
    let from = one[..same].char_indices().rev().nth(200).map_or(0, |(start, _)| start);
    let shown = |text: &str| text[from.min(text.len())..].chars().take(500).collect::<String>();
    format!("{asked}\n-   …{}\n+   …{}", shown(one), shown(other))
}
