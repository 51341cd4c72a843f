//! Two steads that differ in one thing: whether names in a WRITE_ONLY Workspace are taken.

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
  { prefix = "/main", store = "main", scope = "rw", protect = [], hide = [] },
  { prefix = "/disk", store = "disk", scope = "rw", protect = [], hide = [] },
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
pub(crate) enum Occupant {
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
    /// A directory that contains something hidden, so it can't be deleted.
    WithHidden,
    /// A file that the agent wrote itself.
    Own,
    /// A file that the agent wrote itself, and that another agent has deleted.
    OwnDeleted,
}

impl Occupant {
    pub(crate) fn is_directory(self) -> bool {
        matches!(
            self,
            Occupant::EmptyDirectory | Occupant::FullDirectory | Occupant::Protected | Occupant::WithHidden
        )
    }
}

/// The pairs of steads that have to look the same.
pub(crate) const COMPARED_PAIRS: [(Occupant, Occupant); 8] = [
    (Occupant::Nothing, Occupant::File),
    (Occupant::Nothing, Occupant::FullDirectory),
    (Occupant::OwnDeleted, Occupant::Own),
    (Occupant::Nothing, Occupant::EmptyDirectory),
    (Occupant::Nothing, Occupant::Symlink),
    (Occupant::Nothing, Occupant::Dangling),
    (Occupant::Nothing, Occupant::Protected),
    (Occupant::Nothing, Occupant::WithHidden),
];

/// One of the two steads of a pair.
pub(crate) struct ComparedStead {
    directory: tempfile::TempDir,
    /// A directory of the host that no Workspace shows.
    pub(crate) outside: tempfile::TempDir,
    /// The answers that the agent got in this stead.
    pub(crate) transcript: Transcript,
}

impl ComparedStead {
    /// A stead in which these names are taken, in the WRITE_ONLY Workspace on each Store.
    pub(crate) fn new(occupant: Occupant, names: &[String]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir(directory.path().join("disk")).unwrap();
        fs::write(directory.path().join("stead.toml"), CONFIG).unwrap();
        let compared = ComparedStead {
            directory,
            outside: tempfile::tempdir().unwrap(),
            transcript: Transcript::default(),
        };
        let owner = compared.stead("owner");
        for store in STORES {
            // The same changes are made in both steads, but in one of them out of the agent's reach.
            for parent in ["home/wo", "out"] {
                owner.vfs().mkdir(format!("{store}/{parent}"), Parents::Create).unwrap();
                owner.vfs().write(format!("{store}/{parent}/other"), "theirs\n").unwrap();
            }
            for name in names {
                let parent = if occupant == Occupant::Nothing { "out" } else { "home/wo" };
                create_occupant(owner.vfs(), occupant, &format!("{store}/{parent}/{name}"));
            }
        }
        drop(owner);
        let coder = compared.stead("coder");
        for store in STORES {
            coder.vfs().write(format!("{store}/first"), "1\n").unwrap();
        }
        if matches!(occupant, Occupant::Own | Occupant::OwnDeleted) {
            for (store, name) in STORES.iter().flat_map(|store| names.iter().map(move |name| (store, name))) {
                coder.vfs().write(format!("{store}/wo/{name}"), "mine\n").unwrap();
            }
            let owner = compared.stead("owner");
            for (store, name) in STORES.iter().flat_map(|store| names.iter().map(move |name| (store, name))) {
                owner.vfs().write(format!("{store}/out/{name}"), "mine\n").unwrap();
                let parent = if occupant == Occupant::OwnDeleted { "home/wo" } else { "out" };
                owner
                    .vfs()
                    .remove_file(format!("{store}/{parent}/{name}"), RemoveOptions::default())
                    .unwrap();
            }
        }
        compared
    }

    pub(crate) fn stead(&self, agent: &str) -> Stead {
        let config = Config::parse(CONFIG, &self.path("stead.toml")).unwrap();
        Stead::open(&config, agent).unwrap()
    }

    pub(crate) fn path(&self, relative: &str) -> PathBuf {
        self.directory.path().join(relative)
    }

    pub(crate) fn command(&self, args: &[&str]) -> Command {
        crate::fixture::command(self.directory.path(), args)
    }

    /// Records what the log and the audit show of the agent.
    pub(crate) fn look_at_records(&mut self, pair: (Occupant, Occupant)) {
        let json_lines = |compared: &Self, args: &[&str]| -> Vec<Value> {
            let stdout = compared.command(args).output().unwrap().stdout;
            String::from_utf8(stdout)
                .unwrap()
                .lines()
                .map(|line| serde_json::from_str(line).unwrap())
                .collect()
        };
        for args in [&["audit", "verify"][..], &["verify"]] {
            let verified = self.command(args).output().unwrap();
            assert!(verified.status.success(), "{args:?} {verified:?}");
        }
        for mut entry in json_lines(self, &["log", "--limit", "10000", "--json"]) {
            // Ids that were created at the same time have no order.
            entry["undoes"] = json!(entry["undoes"].as_array().unwrap().len());
            self.transcript.note("log", &entry.to_string());
        }
        // The audit is for the operator, and names the paths that symlinks led to.
        if !matches!(pair.1, Occupant::Symlink | Occupant::Dangling) {
            let facts = |record: Value| {
                let names = ["call", "paths", "scope", "outcome", "dry_run", "bytes", "files", "version"];
                format!("{:?}", names.map(|name| record.get(name).cloned()))
            };
            let records = json_lines(self, &["audit", "--limit", "10000", "--agent", "coder", "--json"]);
            // The log drops the record of a begun call if the record of its end comes within a second.
            let depends_on_time =
                |record: &Value| record["outcome"] == "begun" && record.get("version").is_none();
            let records = records.into_iter().filter(|record| !depends_on_time(record));
            // Records that began at the same time have no order.
            let mut records: Vec<String> = records.map(facts).collect();
            records.sort();
            records.iter().for_each(|record| self.transcript.note("audit", record));
        }
    }

    /// Runs a command as the agent's host would, and records its whole answer.
    pub(crate) fn run(&mut self, args: &[&str]) {
        let Output { status, stdout, stderr } = self.command(args).output().unwrap();
        let answer =
            format!("{status} {} {}", String::from_utf8(stdout).unwrap(), String::from_utf8(stderr).unwrap());
        let directory = self.directory.path().to_owned();
        self.transcript.note(&args.join(" "), &mask_directory(&answer, &directory));
    }
}

/// Creates what `occupant` describes at a path.
fn create_occupant(owner: &Vfs, occupant: Occupant, path: &str) {
    let child = |name: &str| format!("{path}/{name}");
    match occupant {
        Occupant::File | Occupant::Nothing => drop(owner.write(path, "theirs\n").unwrap()),
        Occupant::EmptyDirectory => drop(owner.mkdir(path, Parents::Create).unwrap()),
        Occupant::FullDirectory => drop(owner.write(child("held"), "theirs\n").unwrap()),
        Occupant::Symlink => drop(owner.symlink(path, "other").unwrap()),
        Occupant::Dangling => {
            let (_, name) = path.rsplit_once('/').unwrap();
            owner.symlink(path, &format!("nowhere-{name}")).unwrap();
        }
        Occupant::Protected => drop(owner.write(child(".git/hooks/held"), "theirs\n").unwrap()),
        Occupant::WithHidden => drop(owner.write(child(".env"), "theirs\n").unwrap()),
        Occupant::Own | Occupant::OwnDeleted => {}
    }
}

fn mask_directory(answer: &str, directory: &Path) -> String {
    answer.replace(directory.to_str().unwrap(), "PLACE")
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
    pub(crate) fn note(&mut self, question: &str, answer: &str) {
        let line = format!("{question}: {answer}");
        let line = self.normalize(&line);
        self.lines.push(line);
    }

    /// The text without times, random ids and the tags of host files.
    fn normalize(&mut self, text: &str) -> String {
        // A Virtual Store numbers its states, so its tags have to be equal. The tags of a host's files may differ.
        let is_virtual = !text.contains("/disk");
        let mut normalized = String::new();
        let mut rest = text;
        while !rest.is_empty() {
            let is_part = |character: char| character.is_ascii_alphanumeric() || "-:.".contains(character);
            let end = rest.find(|character| !is_part(character)).unwrap_or(rest.len());
            let (word, tail) = rest.split_at(end);
            let trimmed = word.trim_end_matches([':', '.']);
            self.push_word(&mut normalized, trimmed, is_virtual);
            normalized.push_str(&word[trimmed.len()..]);
            let next = tail.chars().next().map_or(0, char::len_utf8);
            normalized.push_str(&tail[..next]);
            rest = &tail[next..];
        }
        normalized
    }

    fn push_word(&mut self, normalized: &mut String, word: &str, is_virtual: bool) {
        let shape: String = word
            .chars()
            .map(|character| {
                if character.is_ascii_digit() {
                    'd'
                } else if character.is_ascii_hexdigit() {
                    'h'
                } else {
                    character
                }
            })
            .collect();
        let is_hex = shape.chars().all(|character| "dh".contains(character));
        let is_id = word.len() == 36 && shape.chars().all(|character| "dh-".contains(character));
        let count = self.ids.len();
        if is_id {
            let number = *self.ids.entry(word.to_owned()).or_insert(count);
            write!(normalized, "ID{number}").unwrap();
        } else if shape.starts_with("dddd-dd-dd") || shape.starts_with("dd:dd") {
            normalized.push_str("TIME");
        } else if is_hex && [12, 32].contains(&word.len()) && !is_virtual {
            normalized.push_str("TAG");
        } else {
            normalized.push_str(word);
        }
    }

    /// Fails if the two agents didn't get the same answers.
    #[track_caller]
    pub(crate) fn check_same(&self, second: &Transcript, pair: (Occupant, Occupant)) {
        let differing: Vec<String> = self
            .lines
            .iter()
            .zip(&second.lines)
            .filter(|(first, second)| first != second)
            .map(|(first, second)| difference(first, second))
            .collect();
        let shown = differing.iter().take(12).map(String::as_str).collect::<Vec<_>>().join("\n");
        assert!(differing.is_empty(), "{pair:?}: {} answers differ:\n{shown}", differing.len());
        assert_eq!(self.lines.len(), second.lines.len(), "{pair:?}");
    }
}

/// The part of two answers where they begin to differ.
fn difference(first: &str, second: &str) -> String {
    let common_length =
        first.bytes().zip(second.bytes()).take_while(|(first, second)| first == second).count();
    let question = first.split(": ").next().unwrap_or_default();
    let start = first[..common_length].char_indices().rev().nth(200).map_or(0, |(start, _)| start);
    let shown = |text: &str| text[start.min(text.len())..].chars().take(500).collect::<String>();
    format!("{question}\n-   …{}\n+   …{}", shown(first), shown(second))
}
