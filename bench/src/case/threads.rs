//! What threads cost as their number grows: making one, having it open and idle, using it again, and removing it.

use std::path::Path;

use rusqlite::{Connection, params};
use stead::{Config, Identity, Stead, Stores, ThreadKey};

use crate::Result;
use crate::case::Effort;
use crate::measure::{CpuTimeScope, Sample, Summary, cpu_timed, timed};
use crate::table::{Table, Unit, count, digits};

/// How many steads of threads are open at the same time.
const SIZES: [usize; 3] = [100, 1_000, 10_000];
/// Threads that are opened before anything is measured: the first ones open the database and the audit.
const WARM_UP: usize = 20;
/// How many calls or removals are measured at each size.
const CALLS: usize = 100;

/// A table for each kind of Store.
pub fn run(data: &Path, _: Effort) -> Result<Vec<Table>> {
    ["virtual", "memory", "physical"].into_iter().map(|kind| growth(data, kind)).collect()
}

fn growth(data: &Path, kind: &str) -> Result<Table> {
    let directory = data.join(kind);
    std::fs::create_dir_all(directory.join("files"))?;
    let path = if kind == "physical" { "path = \"files\"" } else { "" };
    let text = format!(
        "[database]\ndurability = \"fast\"\n[stores.s]\nkind = \"{kind}\"\n{path}\n[agents.a]\nscope = \"thread\"\n\
         [[agents.a.workspaces]]\nprefix = \"/w\"\nscope = \"rw\"\nstore = \"s\"\n"
    );
    let config = Config::parse(&text, &directory.join("stead.toml"))?;
    let stores = Stores::of(&config);
    stores.open_audit()?;
    let open = |name: &str| Stead::open_in(&stores, &Identity::agent("a").with_thread(name));
    let mut plain = PlainRows::open(&directory.join("plain.db"))?;
    let mut steads = Vec::new();
    for number in 0..WARM_UP {
        steads.push(open(&format!("warm-up-{number}"))?);
    }
    let os_threads = os_threads()?;

    let columns: Vec<_> = SIZES.iter().map(|size| format!("{} threads", count(*size))).collect();
    let labels: Vec<_> = columns.iter().map(String::as_str).collect();
    let mut table = Table::new(format!("threads on a {kind} Store"), &labels, &[]);
    let [mut make, mut rows, mut again, mut write, mut remove] = std::array::from_fn(|_| Vec::new());
    let (mut beyond, mut memory, mut os) = (Vec::new(), Vec::new(), Vec::new());
    for size in SIZES {
        eprintln!("  {kind}, {} threads", count(size));
        let (from, resident_before) = (steads.len() - WARM_UP, resident()?);
        steads.reserve(size - from);
        let made = cpu_timed(CpuTimeScope::AllThreads, size - from, || {
            for number in from..size {
                steads.push(open(&format!("thread-{number}"))?);
            }
            Ok(())
        })?;
        let each = resident()?.saturating_sub(resident_before) / (size - from) as u64;
        let written = cpu_timed(CpuTimeScope::AllThreads, size - from, || {
            (from..size).try_for_each(|number| plain.insert(number))
        })?;
        make.push(made);
        rows.push(written);
        beyond.push(Sample { each: (made.each - written.each).max(0.0), worst: 0.0 });
        memory.push(format!("{} KiB", digits(each as f64 / 1_024.0)));
        os.push((os_threads_now(os_threads)?).to_string());
        again.push(timed(CALLS, || {
            (0..CALLS).try_for_each(|number| Ok(drop(open(&format!("thread-{number}"))?)))
        })?);
        let passing = |number: usize| format!("passing-{size}-{number}");
        let mut used = Vec::new();
        write.push(timed(CALLS, || {
            for number in 0..CALLS {
                let stead = open(&passing(number))?;
                stead.vfs().write("/w/x", "x")?;
                used.push(stead);
            }
            Ok(())
        })?);
        drop(used);
        remove.push(timed(CALLS, || {
            for number in 0..CALLS {
                stores
                    .threads()
                    .destroy(&ThreadKey::new("a", passing(number)))?
                    .ok_or("the thread is missing")?;
            }
            Ok(())
        })?);
    }
    let summaries = |samples: &[Sample]| -> Vec<Option<Summary>> {
        samples.iter().map(|sample| Some(Summary { median: sample.each, worst: sample.worst })).collect()
    };
    table.row("make one: CPU", &summaries(&make), Unit::Time);
    table.row("the same rows in plain SQLite: CPU", &summaries(&rows), Unit::Time);
    table.row("make one: CPU beyond these rows", &summaries(&beyond), Unit::Time);
    table.texts("memory of an open, idle one", memory);
    table.texts("OS threads more than with 20", os);
    table.row("open one that this process uses", &summaries(&again), Unit::Time);
    table.row("make one and write its first file", &summaries(&write), Unit::Time);
    table.row("destroy one with one file", &summaries(&remove), Unit::Time);
    Ok(table)
}

/// The rows that making a thread writes, in a plain SQLite database: the thread, its lease, two counters and the audit record.
struct PlainRows(Connection);

impl PlainRows {
    fn open(file: &Path) -> Result<Self> {
        let connection = Connection::open(file)?;
        connection.execute_batch(
            "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL;
             CREATE TABLE thread(id INTEGER PRIMARY KEY, agent TEXT, name TEXT, created INTEGER, last_used INTEGER, idle_timeout INTEGER, epoch INTEGER, ending INTEGER);
             CREATE UNIQUE INDEX thread_name ON thread(agent, name);
             CREATE INDEX thread_idle ON thread(last_used + idle_timeout);
             CREATE TABLE lease(thread INTEGER, holder INTEGER, epoch INTEGER, PRIMARY KEY(thread, holder)) WITHOUT ROWID;
             CREATE INDEX lease_holder ON lease(holder);
             CREATE TABLE counter(name TEXT PRIMARY KEY, value INTEGER) WITHOUT ROWID;
             INSERT INTO counter VALUES ('node', 0), ('record', 0);
             CREATE TABLE record(seq INTEGER PRIMARY KEY, hash BLOB, body TEXT);",
        )?;
        Ok(PlainRows(connection))
    }

    fn insert(&mut self, number: usize) -> Result {
        let transaction = self.0.transaction()?;
        let number = i64::try_from(number)?;
        transaction
            .prepare_cached(
                "INSERT INTO thread VALUES (?1, 'a', 'thread-' || ?1, ?1, ?1, 1800000000000, 1, NULL)",
            )?
            .execute([number])?;
        transaction.prepare_cached("INSERT INTO lease VALUES (?1, 1, 1)")?.execute([number])?;
        transaction.prepare_cached("UPDATE counter SET value = value + 1")?.execute([])?;
        let body = format!(
            "{{\"call\":\"thread.create\",\"thread\":\"thread-{number}\",\"more\":\"{}\"}}",
            "x".repeat(200)
        );
        transaction
            .prepare_cached("INSERT INTO record VALUES (?1, zeroblob(32), ?2)")?
            .execute(params![number, body])?;
        transaction.commit()?;
        Ok(())
    }
}

/// The memory of this process in bytes.
fn resident() -> Result<u64> {
    let text = std::fs::read_to_string("/proc/self/statm")?;
    let pages: u64 = text.split(' ').nth(1).ok_or("the kernel reports no memory")?.parse()?;
    Ok(pages * rustix::param::page_size() as u64)
}

fn os_threads() -> Result<usize> {
    Ok(std::fs::read_dir("/proc/self/task")?.count())
}

fn os_threads_now(before: usize) -> Result<usize> {
    Ok(os_threads()?.saturating_sub(before))
}
