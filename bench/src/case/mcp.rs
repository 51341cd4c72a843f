//! Stead's MCP server compared with others, over stdio, started as a host would start them: every check and the audit
//! are on.

mod client;
mod files;
mod race;
mod requirements;
mod server;

use std::cell::RefCell;
use std::path::{Path, PathBuf};

use self::client::{Call, Client};
use self::requirements::{Bound, Requirement, better_peer};
use self::server::{Programs, SERVERS, Server};
use crate::Result;
use crate::case::Effort;
use crate::contender::new_directory;
use crate::content::RARE;
use crate::measure::{Sample, Summary, in_turns};
use crate::table::{Table, Unit, count, digits, with_unit};

/// How many reads one round times one by one. The test with many requests at a time makes twice as many.
const READS: usize = 400;
/// How many listings one round times.
const LISTINGS: usize = 10;
/// How many requests are in flight at a time.
const WIDTH: usize = 16;

const START: Requirement = Requirement::both("under 5 ms", Bound::AtMost(0.005));
const READ: Requirement = Requirement::both("at most 0.8 of the better peer's", Bound::OfBetterPeer(0.8));
const LIST: Requirement = Requirement {
    text: "Virtual at most the better peer's, Physical twice",
    in_database: Bound::OfBetterPeer(1.0),
    on_disk: Bound::OfBetterPeer(2.0),
};
const FIND: Requirement = Requirement::both("at most a tenth of the better peer's", Bound::OfBetterPeer(0.1));
const SEARCH: Requirement = Requirement::both("at most a fortieth of the peer's", Bound::OfBetterPeer(0.025));
const RATE: Requirement = Requirement::both("at least twice the better peer's", Bound::OfBetterPeer(0.5));
const MEMORY: Requirement = Requirement::both("at most 32 MiB", Bound::AtMost((32 << 20) as f64));
const ESCAPES: Requirement = Requirement::both("none", Bound::AtMost(0.0));

/// A server that runs during all measurements, and the directory that it serves.
struct RunningServer {
    server: Server,
    data: PathBuf,
    client: RefCell<Client>,
}

/// Returns one table: a row per measurement, a column per server, the requirement, and whether it is met.
pub fn run(data: &Path, effort: Effort) -> Result<Vec<Table>> {
    let programs = Programs::find()?;
    files::create_files(data)?;
    let mut rows = Rows::new();
    rows.add(
        "start until `initialize` is answered",
        &measure_starts(&programs, data, effort)?,
        Unit::Time,
        Some(START),
    );

    let start = |server| -> Result<RunningServer> {
        let (client, _) = Client::start(programs.command(server, data))?;
        Ok(RunningServer { server, data: data.to_owned(), client: RefCell::new(client) })
    };
    let servers = SERVERS.into_iter().map(start).collect::<Result<Vec<_>>>()?;
    let [p50, p95] = measure_reads(&servers, effort)?;
    rows.add("read 4 KiB, p50", &p50, Unit::Time, Some(READ));
    rows.add("read 4 KiB, p95", &p95, Unit::Time, None);
    rows.add(
        format!("list {} entries, p50", count(files::LISTED_FILES)),
        &measure_lists(&servers, effort)?,
        Unit::Time,
        Some(LIST),
    );
    let suffix = format!("over {} files", count(files::TREE_FILES));
    rows.add(format!("name search {suffix}"), &measure_finds(&servers, effort)?, Unit::Time, Some(FIND));
    rows.add(
        format!("content search {suffix}"),
        &measure_searches(&servers, effort)?,
        Unit::Time,
        Some(SEARCH),
    );
    rows.add(
        format!("reads with {WIDTH} in flight"),
        &measure_rates(&servers, effort)?,
        Unit::Rate,
        Some(RATE),
    );
    let peaks = servers
        .iter()
        .map(|running| running.client.borrow().peak_memory().map(Some))
        .collect::<Result<Vec<_>>>()?;
    rows.add("peak memory over all this", &peaks, Unit::Memory, Some(MEMORY));
    for running in servers {
        check_audit(running)?;
    }

    let call_count = if effort == Effort::Full { 10_000 } else { 1_000 };
    let row = format!("of {} calls, escaped in a symlink-swap race", count(call_count));
    rows.add(row, &count_escapes(&programs, data, call_count)?, Unit::Count, Some(ESCAPES));
    Ok(vec![rows.0])
}

/// The table while rows are added to it.
struct Rows(Table);

impl Rows {
    fn new() -> Self {
        let mut columns = SERVERS.map(Server::label).to_vec();
        columns.extend(["Virtual : better peer", "Physical : better peer", "ours must be", ""]);
        Rows(Table::new("MCP over stdio", &columns, &[]))
    }

    /// Adds a row with the numbers of the servers, in the order of [`SERVERS`].
    fn add(
        &mut self,
        name: impl Into<String>,
        numbers: &[Option<f64>],
        unit: Unit,
        requirement: Option<Requirement>,
    ) {
        let absent = || "–".to_owned();
        let (ours, peers) = numbers.split_at(2);
        let peer = better_peer(peers);
        let mut cells: Vec<_> =
            numbers.iter().map(|n| n.map_or_else(absent, |n| with_unit(n, unit))).collect();
        for number in ours {
            let ratio = number.zip(peer).filter(|(ours, _)| *ours > 0.0);
            cells.push(ratio.map_or_else(absent, |(ours, peer)| format!("{}×", digits(peer / ours))));
        }
        cells.push(requirement.map_or_else(String::new, |requirement| requirement.text.to_owned()));
        cells.push(
            requirement.map_or_else(String::new, |requirement| requirement.verdict(ours[0], ours[1], peer)),
        );
        self.0.texts(name, cells);
    }
}

fn medians(summaries: Vec<Option<Summary>>) -> Vec<Option<f64>> {
    summaries.into_iter().map(|summary| summary.map(|summary| summary.median)).collect()
}

/// The time from starting the process until `initialize` is answered.
fn measure_starts(programs: &Programs, data: &Path, effort: Effort) -> Result<Vec<Option<f64>>> {
    let summaries = in_turns(&SERVERS, effort.rounds(), |server, _| {
        let (_client, duration) = Client::start(programs.command(*server, data))?;
        Ok(Some(Sample { each: duration.as_secs_f64(), worst: duration.as_secs_f64() }))
    })?;
    Ok(medians(summaries))
}

/// The 50th and the 95th percentile of the time for a read: of each, the median of the rounds.
fn measure_reads(servers: &[RunningServer], effort: Effort) -> Result<[Vec<Option<f64>>; 2]> {
    let mut p95 = vec![Vec::new(); servers.len()];
    let p50 = in_turns(servers, effort.rounds(), |running, round| {
        let mut times = Vec::with_capacity(READS);
        for _ in 0..READS {
            let number = fastrand::usize(..files::TREE_FILES);
            let call = running.server.read(&running.data, &files::path(number));
            let (text, duration) = running.client.borrow_mut().call(&call)?;
            // Stead's server adds a line with the version tag after the content.
            if !text.as_bytes().starts_with(&files::content(number)) {
                return Err(wrong_answer_error(running, &call, &text));
            }
            times.push(duration.as_secs_f64());
        }
        times.sort_by(f64::total_cmp);
        if round > 0 {
            let column = SERVERS
                .iter()
                .position(|server| *server == running.server)
                .expect("`SERVERS` contains every server");
            p95[column].push(times[READS * 95 / 100]);
        }
        Ok(Some(Sample { each: times[READS / 2], worst: times[READS - 1] }))
    })?;
    let p95 = p95.into_iter().map(|mut rounds| {
        rounds.sort_by(f64::total_cmp);
        rounds.get(rounds.len() / 2).copied()
    });
    Ok([medians(p50), p95.collect()])
}

fn measure_lists(servers: &[RunningServer], effort: Effort) -> Result<Vec<Option<f64>>> {
    measure_calls(
        servers,
        effort,
        LISTINGS,
        |running| Some(running.server.list(&running.data, "many")),
        files::LISTED_FILES,
    )
}

fn measure_finds(servers: &[RunningServer], effort: Effort) -> Result<Vec<Option<f64>>> {
    let find =
        |running: &RunningServer| Some(running.server.find(&running.data, "tree", files::NAME_PATTERN));
    measure_calls(servers, effort, 1, find, files::TREE_FILES / 100)
}

fn measure_searches(servers: &[RunningServer], effort: Effort) -> Result<Vec<Option<f64>>> {
    measure_calls(
        servers,
        effort,
        1,
        |running| running.server.search(&running.data, "tree", RARE),
        files::rare_file_count(),
    )
}

/// Times the same call on all servers: the median of `calls_per_round` calls in each round. The answer has to name
/// `expected` files, one per line.
fn measure_calls(
    servers: &[RunningServer],
    effort: Effort,
    calls_per_round: usize,
    call: impl Fn(&RunningServer) -> Option<Call>,
    expected: usize,
) -> Result<Vec<Option<f64>>> {
    let summaries = in_turns(servers, effort.rounds(), |running, _| {
        let Some(call) = call(running) else { return Ok(None) };
        let mut times = Vec::with_capacity(calls_per_round);
        for _ in 0..calls_per_round {
            let (text, duration) = running.client.borrow_mut().call(&call)?;
            if text.lines().filter(|line| line.contains(".txt")).count() != expected {
                return Err(wrong_answer_error(running, &call, &text));
            }
            times.push(duration.as_secs_f64());
        }
        times.sort_by(f64::total_cmp);
        Ok(Some(Sample { each: times[calls_per_round / 2], worst: times[calls_per_round - 1] }))
    })?;
    Ok(medians(summaries))
}

/// Seconds per read while [`WIDTH`] reads are in flight.
fn measure_rates(servers: &[RunningServer], effort: Effort) -> Result<Vec<Option<f64>>> {
    let summaries = in_turns(servers, effort.rounds(), |running, _| {
        let paths = (0..2 * READS).map(|_| files::path(fastrand::usize(..files::TREE_FILES)));
        let calls: Vec<_> = paths.map(|path| running.server.read(&running.data, &path)).collect();
        let duration = running.client.borrow_mut().call_concurrently(WIDTH, &calls)?.as_secs_f64();
        Ok(Some(Sample { each: duration / calls.len() as f64, worst: duration }))
    })?;
    Ok(medians(summaries))
}

fn wrong_answer_error(
    running: &RunningServer,
    call: &Call,
    text: &str,
) -> Box<dyn std::error::Error + Send + Sync> {
    let text: String = text.chars().take(200).collect();
    format!("{} answers `{}` wrongly: {text}", running.server.label(), call.tool).into()
}

/// Ends a server. If it is Stead's, checks that the audit has a record of every call: without the audit it would have
/// less work than it is measured for.
fn check_audit(RunningServer { server, data, client }: RunningServer) -> Result {
    let client = client.into_inner();
    let calls = client.calls();
    drop(client);
    if !server.is_ours() {
        return Ok(());
    }
    let database = match server {
        Server::Virtual => data.join("virtual/stead.db"),
        _ => {
            let state = std::fs::read_dir(data.join("state/stead"))?
                .next()
                .ok_or("the server has no state directory")??;
            state.path().join(".stead/stead.db")
        }
    };
    let database = rusqlite::Connection::open(database)?;
    let records: i64 = database.query_row("SELECT count(*) FROM audit", [], |row| row.get(0))?;
    if records < calls as i64 {
        return Err(format!("{}: {records} of {calls} calls are on record", server.label()).into());
    }
    Ok(())
}

/// How many calls of each server escaped. `None` for the Virtual Store: a database has no symlinks of the host.
fn count_escapes(programs: &Programs, data: &Path, call_count: usize) -> Result<Vec<Option<f64>>> {
    let race = |server: Server| -> Result<Option<f64>> {
        if server == Server::Virtual {
            return Ok(None);
        }
        let data = new_directory(data, &format!("race-{}", server.label()))?;
        Ok(Some(race::run(programs, server, &data, call_count)? as f64))
    };
    SERVERS.into_iter().map(race).collect()
}
