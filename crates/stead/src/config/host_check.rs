//! Checks what the text of the file can't show: whether what it names exists on the host.
//!
//! The checks change nothing: they open no Store and create no files.

use std::collections::{BTreeMap, HashMap};
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use stead_core::VfsPath;
use stead_stores::Database;

use super::{AgentConfig, Config, ConfigDiagnostic, ConfigProblems, StoreConfig};

/// The first bytes of every SQLite database.
const SQLITE_MAGIC: &[u8; 16] = b"SQLite format 3\0";

/// How long the directories of Stores may take to answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(1);

/// A check to make on the host, and the position in the file that it is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct HostCheck {
    pub(super) line: usize,
    pub(super) column: usize,
    pub(super) kind: HostCheckKind,
}

/// What to check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum HostCheckKind {
    /// That the directory of a Physical Store can be read.
    Directory { store: String },
    /// That a Workspace's path exists in its Store.
    Mount { store: String, path: VfsPath },
    /// That a Workspace's files can't be reached through another Workspace that allows more.
    Overlap { agent: String, prefix: VfsPath },
    /// That the database file can be read, or created.
    Database,
}

/// The result of the checks, by line.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct HostReport {
    /// What doesn't work.
    pub problems: Vec<ConfigDiagnostic>,
    /// What works but may not be intended.
    pub warnings: Vec<ConfigDiagnostic>,
}

impl HostCheck {
    fn diagnostic(&self, message: String) -> ConfigDiagnostic {
        ConfigDiagnostic { file: None, line: self.line, column: self.column, message }
    }
}

impl HostReport {
    /// Checks all Stores at the same time, each in a thread of its own. A Store that doesn't answer in time is not a
    /// problem of the configuration, so it gets a warning. Its thread remains until it answers.
    fn add_checks_of_stores(
        &mut self,
        by_store: BTreeMap<String, Vec<HostCheck>>,
        timeout: Duration,
        message_of: impl Fn(&HostCheck) -> Option<String> + Send + Sync + 'static,
    ) {
        let (message_of, deadline) = (Arc::new(message_of), Instant::now() + timeout);
        let start = |(store, checks): (String, Vec<HostCheck>)| {
            let (sender, results) = mpsc::channel();
            let (message_of, first) = (Arc::clone(&message_of), checks.first().cloned());
            std::thread::spawn(move || {
                let messages: Vec<_> = checks.iter().map(|check| message_of(check)).collect();
                // The receiver is gone if this took too long.
                let _ = sender.send(checks.into_iter().zip(messages).collect::<Vec<_>>());
            });
            (store, first, results)
        };
        let started: Vec<_> = by_store.into_iter().map(start).collect();
        for (store, first, results) in started {
            let Ok(checked) = results.recv_timeout(deadline.saturating_duration_since(Instant::now())) else {
                let name = store.escape_debug();
                let message =
                    format!("the directory of the Store `{name}` doesn't answer, so it isn't checked");
                self.warnings.extend(first.map(|check| check.diagnostic(message)));
                continue;
            };
            for (check, message) in checked {
                let diagnostics = match check.kind {
                    HostCheckKind::Directory { .. } => &mut self.problems,
                    _ => &mut self.warnings,
                };
                diagnostics.extend(message.map(|message| check.diagnostic(message)));
            }
        }
    }
}

impl Config {
    /// Checks whether the directories and the database in the configuration exist and can be used. Creates nothing.
    pub fn check_host(&self) -> HostReport {
        let mut report = HostReport::default();
        let mut by_store: BTreeMap<String, Vec<HostCheck>> = BTreeMap::new();
        for check in &self.host_checks {
            match &check.kind {
                HostCheckKind::Directory { store } | HostCheckKind::Mount { store, .. } => {
                    by_store.entry(store.clone()).or_default().push(check.clone());
                }
                // `Config::load` reports these.
                HostCheckKind::Overlap { .. } => {}
                HostCheckKind::Database => {
                    report.problems.extend(self.database_problem().map(|message| check.diagnostic(message)))
                }
            }
        }
        let config = self.clone();
        report.add_checks_of_stores(by_store, ANSWER_TIMEOUT, move |check| match &check.kind {
            HostCheckKind::Directory { store } => config.directory_problem(store),
            HostCheckKind::Mount { store, path } => config.mount_warning(store, path),
            HostCheckKind::Overlap { .. } | HostCheckKind::Database => None,
        });
        report.problems.sort();
        report.warnings.sort();
        report
    }

    /// Fails if this configuration must not replace one that works: if it is empty (the file may be in the middle of
    /// being written), if it names something that doesn't exist, if a Workspace gives access to what another one
    /// withholds, or if two Stores contradict each other.
    pub fn check_usable(&self) -> Result<(), ConfigProblems> {
        let mut problems = self.check_host().problems;
        problems.extend(self.contradictions());
        if self.is_empty() {
            let message = "the file is empty: it has no Store and no agent".to_owned();
            problems.push(ConfigDiagnostic { file: None, line: 1, column: 1, message });
        }
        match problems.is_empty() {
            true => Ok(()),
            false => {
                let (file, warnings) = (self.file().to_owned(), self.warnings().to_vec());
                Err(ConfigProblems { file, problems, warnings })
            }
        }
    }

    /// What two parts of the file say differently about the same files, by line.
    pub(crate) fn contradictions(&self) -> Vec<ConfigDiagnostic> {
        let mut problems = self.bypassed_workspaces();
        problems.extend(self.contradicting_stores());
        problems.extend(self.contradicting_management());
        problems.extend(self.workspaces_over_threads());
        problems.sort();
        problems
    }

    /// The Workspaces whose files can be reached through another one that allows more.
    fn bypassed_workspaces(&self) -> Vec<ConfigDiagnostic> {
        let mut positions: Option<HashMap<_, _>> = None;
        let mut problems = Vec::new();
        for (name, agent) in &self.agents {
            for (inner, message) in agent.bypass_messages(&self.stores) {
                let positions = positions.get_or_insert_with(|| self.workspace_positions().collect());
                let (line, column) = positions.get(&(name, &inner)).copied().unwrap_or((1, 1));
                problems.push(ConfigDiagnostic { file: None, line, column, message });
            }
        }
        problems
    }

    /// The Workspaces whose directories are those of threads.
    fn workspaces_over_threads(&self) -> Vec<ConfigDiagnostic> {
        let problem = |(name, agent): (&String, &AgentConfig)| {
            let (prefix, message) = self.thread_barriers(&agent.workspaces).err()?;
            let position = self.workspace_positions().find(|(key, _)| *key == (name, &prefix));
            let (line, column) = position.map_or((1, 1), |(_, position)| position);
            Some(ConfigDiagnostic { file: None, line, column, message })
        };
        if self.physical_thread_workspaces().next().is_none() {
            return Vec::new();
        }
        self.agents.iter().filter_map(problem).collect()
    }

    /// The line and column of each Workspace, by agent and prefix.
    pub(super) fn workspace_positions(&self) -> impl Iterator<Item = ((&String, &VfsPath), (usize, usize))> {
        self.host_checks.iter().filter_map(|check| match &check.kind {
            HostCheckKind::Overlap { agent, prefix } => Some(((agent, prefix), (check.line, check.column))),
            _ => None,
        })
    }

    fn store_directory(&self, store: &str) -> Option<&Path> {
        match self.stores.get(store) {
            Some(StoreConfig::Physical { path, .. }) => Some(path),
            _ => None,
        }
    }

    fn directory_problem(&self, store: &str) -> Option<String> {
        let name = store.escape_debug();
        match fs::read_dir(self.store_directory(store)?).err()?.kind() {
            io::ErrorKind::NotFound => Some(format!(
                "the directory of the Store `{name}` doesn't exist; create it, or correct `path`"
            )),
            io::ErrorKind::NotADirectory => Some(format!("`path` of the Store `{name}` isn't a directory")),
            kind => Some(format!("the directory of the Store `{name}` can't be read: {kind}")),
        }
    }

    fn mount_warning(&self, store: &str, path: &VfsPath) -> Option<String> {
        let root = self.store_directory(store).filter(|root| root.is_dir())?;
        let name = store.escape_debug();
        match fs::metadata(root.join(&path.as_str()[1..])) {
            Ok(metadata) if metadata.is_dir() => None,
            Ok(_) => {
                Some(format!("`{path}` in the Store `{name}` isn't a directory, so a Workspace can't use it"))
            }
            Err(_) => Some(format!(
                "`{path}` doesn't exist in the Store `{name}`; the Workspace is empty until something is written to it"
            )),
        }
    }

    fn database_problem(&self) -> Option<String> {
        let path = &self.database.path;
        let mut start = Vec::new();
        let length = Database::FILE_START_LENGTH as u64;
        match File::open(path).and_then(|file| file.take(length).read_to_end(&mut start)) {
            // A database is created at its first use; an empty file is fine, too.
            Ok(length) if length < SQLITE_MAGIC.len() => None,
            Ok(_) if start.starts_with(SQLITE_MAGIC) => {
                Database::check_file_start(&start).err().map(|error| error.to_string())
            }
            Ok(_) => Some("the file isn't an SQLite database; name another file".into()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
                let lacks_directory =
                    parent.is_some_and(|parent| !parent.is_dir() && parent != self.state_directory());
                lacks_directory
                    .then(|| "the database's directory doesn't exist; create it, or name another file".into())
            }
            Err(error) => Some(format!("the database can't be read: {}", error.kind())),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_directory_that_does_not_answer_is_noted_and_the_others_are_checked() {
        let check = |store: &str, line| {
            let kind = HostCheckKind::Directory { store: store.to_owned() };
            (store.to_owned(), vec![HostCheck { line, column: 1, kind }])
        };
        let (release, released) = mpsc::channel::<()>();
        let released = std::sync::Mutex::new(released);
        let message_of = move |check: &HostCheck| {
            if check.line == 1 {
                released.lock().unwrap().recv().unwrap_err();
            }
            Some("missing".to_owned())
        };
        let mut report = HostReport::default();
        let by_store = BTreeMap::from([check("hangs", 1), check("missing", 2)]);
        report.add_checks_of_stores(by_store, Duration::from_secs(2), message_of);
        drop(release);
        assert_eq!(report.problems.iter().map(|problem| problem.line).collect::<Vec<_>>(), [2]);
        assert_eq!(report.warnings.len(), 1);
        let text = &report.warnings[0].message;
        assert_eq!(text, "the directory of the Store `hangs` doesn't answer, so it isn't checked");
    }
    #[test]
    fn a_database_of_another_format_or_another_program_is_a_problem() {
        let host = tempfile::tempdir().unwrap();
        let text = "[database]\nurl = \"sqlite:db\"\n[stores.notes]\nkind = \"virtual\"\n";
        let config = Config::parse(text, &host.path().join("stead.toml")).unwrap();
        let path = host.path().join("db");
        drop(Database::open(&path, stead_stores::DatabaseOptions::default()).unwrap());
        let valid = fs::read(&path).unwrap();
        let problems = || -> Vec<_> {
            config.check_host().problems.into_iter().map(|problem| (problem.line, problem.message)).collect()
        };
        assert_eq!(problems(), []);
        for (position, expected) in [(60, "update Stead to open it"), (68, "name another file")] {
            let mut changed = valid.clone();
            changed[position] = 1;
            fs::write(&path, changed).unwrap();
            let problems = problems();
            assert!(problems.len() == 1 && problems[0].0 == 2, "{problems:?}");
            assert!(problems[0].1.ends_with(expected), "{problems:?}");
        }
    }
}
