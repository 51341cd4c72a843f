//! Compare-and-set on keys of a State, beside SQLite's own `UPDATE … WHERE version = ?`.

use std::path::Path;
use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rusqlite::{Connection, OptionalExtension, params};
use stead::vfs::State;
use stead::vfs::state::SetOptions;
use stead::{Config, Stead, VfsError};

use crate::Result;
use crate::case::Effort;
use crate::contender::Durability;
use crate::measure::{Sample, concurrent, in_turns};
use crate::table::{Table, Unit};

const COLUMNS: [&str; 3] = ["State", "State, with audit", "SQLite"];
const PAIRS: [(&str, &str); 2] = [("State", "SQLite"), ("State, with audit", "SQLite")];

/// Returns one table per durability.
pub fn run(data: &Path, effort: Effort) -> Result<Vec<Table>> {
    let full = "increments by compare-and-set, surviving a power cut";
    let fast = "increments by compare-and-set, surviving the process";
    Ok(vec![
        table(full, &data.join("full"), Durability::Full, 256, effort)?,
        table(fast, &data.join("fast"), Durability::Fast, 2_048, effort)?,
    ])
}

fn table(title: &str, data: &Path, durability: Durability, count: usize, effort: Effort) -> Result<Table> {
    let contenders = [
        Counters::state(&data.join("state"), durability, false)?,
        Counters::state(&data.join("audited"), durability, true)?,
        Counters::sqlite(&data.join("sqlite"), durability)?,
    ];
    let mut table = Table::new(title, &COLUMNS, &PAIRS);
    for (writers, keys, name) in [
        (1, 1, "1 writer"),
        (8, 8, "8 writers, a key each"),
        (8, 1, "8 writers, one key"),
        (64, 1, "64 writers, one key"),
    ] {
        let summaries = in_turns(&contenders, effort.rounds(), |counters, round| {
            let keys: Vec<_> = (0..keys).map(|key| format!("{writers}-{keys}-{round}-{key}")).collect();
            Ok(Some(increment_concurrently(counters, &keys, writers, count)?))
        })?;
        table.row(name, &summaries, Unit::Rate);
        table.row_of_worst(format!("{name}, longest wait"), &summaries);
    }
    Ok(table)
}

/// Something that keeps counters and increments them by compare-and-set.
enum Counters {
    State(Box<State>),
    Sqlite(std::path::PathBuf, Durability),
}

/// What one thread uses.
enum Handle<'a> {
    State(&'a State),
    Sqlite(Connection),
}

impl Counters {
    fn state(directory: &Path, durability: Durability, audit: bool) -> Result<Self> {
        std::fs::create_dir_all(directory)?;
        let durability = match durability {
            Durability::Full => "full",
            Durability::Fast => "fast",
        };
        let text = format!(
            "[database]\ndurability = \"{durability}\"\n[audit]\nenabled = {audit}\n[stores.files]\nkind = \"virtual\"\n\
             [agents.a]\nstate = {{ enabled = true }}\n\
             workspaces = [{{ prefix = \"/\", scope = \"rw\", store = \"files\" }}]\n"
        );
        let config = Config::parse(&text, &directory.join("stead.toml"))?;
        let state = Stead::open(&config, "a")?.state().ok_or("the stead has no State")?;
        Ok(Counters::State(Box::new(state)))
    }

    fn sqlite(directory: &Path, durability: Durability) -> Result<Self> {
        std::fs::create_dir_all(directory)?;
        let counters = Counters::Sqlite(directory.join("counters.db"), durability);
        if let Handle::Sqlite(connection) = counters.for_thread()? {
            connection.execute_batch(
                "CREATE TABLE counter(key TEXT PRIMARY KEY, value TEXT NOT NULL, version INTEGER NOT NULL) WITHOUT ROWID",
            )?;
        }
        Ok(counters)
    }

    fn for_thread(&self) -> Result<Handle<'_>> {
        let (path, durability) = match self {
            Counters::State(state) => return Ok(Handle::State(state)),
            Counters::Sqlite(path, durability) => (path, durability),
        };
        let connection = Connection::open(path)?;
        connection.busy_timeout(Duration::from_secs(60))?;
        let synchronous = match durability {
            Durability::Full => "FULL",
            Durability::Fast => "NORMAL",
        };
        connection
            .execute_batch(&format!("PRAGMA journal_mode = WAL; PRAGMA synchronous = {synchronous}"))?;
        Ok(Handle::Sqlite(connection))
    }
}

impl Handle<'_> {
    /// Reads a counter and sets it to one more, until nobody was faster.
    fn increment(&self, key: &str) -> Result {
        while !self.try_increment(key)? {}
        Ok(())
    }

    fn try_increment(&self, key: &str) -> Result<bool> {
        match self {
            Handle::State(state) => {
                let found = state.get(key)?;
                let count = 1 + found.as_ref().map_or(Ok(0), |found| found.value.parse::<u64>())?;
                let options = match &found {
                    Some(found) => SetOptions::new().if_match(found.version_tag),
                    None => SetOptions::new().create_only(),
                };
                match state.set(key, &count.to_string(), &options) {
                    Ok(_) => Ok(true),
                    Err(VfsError::StateConflict { .. } | VfsError::StateKeyExists { .. }) => Ok(false),
                    Err(error) => Err(error.into()),
                }
            }
            Handle::Sqlite(connection) => {
                let found: Option<(String, i64)> = connection
                    .prepare_cached("SELECT value, version FROM counter WHERE key = ?1")?
                    .query_row([key], |row| Ok((row.get(0)?, row.get(1)?)))
                    .optional()?;
                let changed = match found {
                    Some((value, version)) => connection
                        .prepare_cached("UPDATE counter SET value = ?1, version = version + 1 WHERE key = ?2 AND version = ?3")?
                        .execute(params![(value.parse::<u64>()? + 1).to_string(), key, version])?,
                    None => connection
                        .prepare_cached("INSERT OR IGNORE INTO counter VALUES (?1, '1', 1)")?
                        .execute([key])?,
                };
                Ok(changed == 1)
            }
        }
    }

    fn count(&self, key: &str) -> Result<u64> {
        Ok(match self {
            Handle::State(state) => state.get(key)?.map_or(Ok(0), |found| found.value.parse())?,
            Handle::Sqlite(connection) => {
                let value: String =
                    connection
                        .query_row("SELECT value FROM counter WHERE key = ?1", [key], |row| row.get(0))?;
                value.parse()?
            }
        })
    }
}

/// Makes `count` increments, divided among `writers` threads, and checks that none is lost.
fn increment_concurrently(
    counters: &Counters,
    keys: &[String],
    writers: usize,
    count: usize,
) -> Result<Sample> {
    let handles = (0..writers).map(|_| counters.for_thread()).collect::<Result<Vec<_>>>()?;
    let (barrier, total) = (Barrier::new(writers + 1), AtomicU64::new(0));
    let sample = std::thread::scope(|scope| -> Result<Sample> {
        let threads = handles.into_iter().enumerate().map(|(writer, handle)| {
            let (barrier, total) = (&barrier, &total);
            scope.spawn(move || -> Result<Vec<Duration>> {
                let mut waits = Vec::with_capacity(count / writers);
                barrier.wait();
                for _ in 0..count / writers {
                    let start = Instant::now();
                    handle.increment(&keys[writer % keys.len()])?;
                    waits.push(start.elapsed());
                    total.fetch_add(1, Ordering::Relaxed);
                }
                Ok(waits)
            })
        });
        let threads = threads.collect::<Vec<_>>();
        barrier.wait();
        let start = Instant::now();
        let mut waits = Vec::with_capacity(count);
        for thread in threads {
            waits.extend(thread.join().expect("a writer does not panic")?);
        }
        Ok(concurrent(&waits, start.elapsed()))
    })?;
    let handle = counters.for_thread()?;
    let counted = keys.iter().map(|key| handle.count(key)).sum::<Result<u64>>()?;
    if counted != total.into_inner() {
        return Err("an increment was lost".into());
    }
    Ok(sample)
}
