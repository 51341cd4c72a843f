//! Our MCP server beside others, over stdio, as a host would start them: every check and the audit are on.

mod client;
mod files;
mod must;
mod race;
mod server;

use std::cell::RefCell;
use std::path::{Path, PathBuf};

use self::client::{Call, Client};
use self::must::{Bound, Must, better};
use self::server::{Programs, SERVERS, Server};
use crate::Result;
use crate::case::Effort;
use crate::contender::fresh;
use crate::content::RARE;
use crate::measure::{Sample, Summary, in_turns};
use crate::table::{Table, Unit, count, digits, shown};

/// How many reads one round times one by one, or makes at a time.
const READS: usize = 400;
/// How many listings one round times.
const LISTINGS: usize = 10;
/// How many requests are under way at a time.
const WIDTH: usize = 16;

const START: Must = Must::both("under 5 ms", Bound::AtMost(0.005));
const READ: Must = Must::both("at most 0.8 of the better peer's", Bound::OfBetterPeer(0.8));
const LIST: Must = Must {
    words: "Virtual at most the better peer's, Physical twice",
    in_database: Bound::OfBetterPeer(1.0),
    on_disk: Bound::OfBetterPeer(2.0),
};
const FIND: Must = Must::both("at most a tenth of the better peer's", Bound::OfBetterPeer(0.1));
const SEARCH: Must = Must::both("at most a fortieth of the peer's", Bound::OfBetterPeer(0.025));
const RATE: Must = Must::both("at least twice the better peer's", Bound::OfBetterPeer(0.5));
const MEMORY: Must = Must::both("at most 32 MiB", Bound::AtMost((32 << 20) as f64));
const ESCAPES: Must = Must::both("none", Bound::AtMost(0.0));

/// A server that runs through all the load, and what it serves.
struct Seat {
    server: Server,
    data: PathBuf,
    client: RefCell<Client>,
}

/// One table: a row per load, a column per server, what we want, and whether it is so.
pub fn run(data: &Path, effort: Effort) -> Result<Vec<Table>> {
    let programs = Programs::find()?;
    files::make(data)?;
    let mut rows = Rows::new();
    rows.add(
        "start until `initialize` is answered",
        &starts(&programs, data, effort)?,
        Unit::Time,
        Some(START),
    );

    let seat = |server| -> Result<Seat> {
        let (client, _) = Client::start(programs.command(server, data))?;
        Ok(Seat { server, data: data.to_owned(), client: RefCell::new(client) })
    };
    let seats = SERVERS.into_iter().map(seat).collect::<Result<Vec<_>>>()?;
    let [half, most] = reads(&seats, effort)?;
    rows.add("read 4 KiB, p50", &half, Unit::Time, Some(READ));
    rows.add("read 4 KiB, p95", &most, Unit::Time, None);
    rows.add(
        format!("list {} entries, p50", count(files::MANY)),
        &lists(&seats, effort)?,
        Unit::Time,
        Some(LIST),
    );
    let among = format!("over {} files", count(files::TREE));
    rows.add(format!("name search {among}"), &finds(&seats, effort)?, Unit::Time, Some(FIND));
    rows.add(format!("content search {among}"), &searches(&seats, effort)?, Unit::Time, Some(SEARCH));
    rows.add(format!("reads with {WIDTH} in flight"), &rates(&seats, effort)?, Unit::Rate, Some(RATE));
    let peaks =
        seats.iter().map(|seat| seat.client.borrow().peak_memory().map(Some)).collect::<Result<Vec<_>>>()?;
    rows.add("peak memory over all this", &peaks, Unit::Memory, Some(MEMORY));
    for seat in seats {
        on_record(seat)?;
    }

    let wanted = if effort == Effort::Full { 10_000 } else { 1_000 };
    let row = format!("of {} calls, escaped in a symlink-swap race", count(wanted));
    rows.add(row, &escapes(&programs, data, wanted)?, Unit::Count, Some(ESCAPES));
    Ok(vec![rows.0])
}

/// The table as it grows.
struct Rows(Table);

impl Rows {
    fn new() -> Self {
        let mut columns = SERVERS.map(Server::label).to_vec();
        columns.extend(["Virtual : better peer", "Physical : better peer", "ours must be", ""]);
        Rows(Table::new("MCP over stdio", &columns, &[]))
    }

    /// Adds what the servers reached, in their order.
    fn add(&mut self, name: impl Into<String>, numbers: &[Option<f64>], unit: Unit, must: Option<Must>) {
        let absent = || "–".to_owned();
        let (ours, peers) = numbers.split_at(2);
        let peer = better(peers);
        let mut cells: Vec<_> = numbers.iter().map(|n| n.map_or_else(absent, |n| shown(n, unit))).collect();
        for number in ours {
            let ratio = number.zip(peer).filter(|(ours, _)| *ours > 0.0);
            cells.push(ratio.map_or_else(absent, |(ours, peer)| format!("{}×", digits(peer / ours))));
        }
        cells.push(must.map_or_else(String::new, |must| must.words.to_owned()));
        cells.push(must.map_or_else(String::new, |must| must.verdict(ours[0], ours[1], peer)));
        self.0.texts(name, cells);
    }
}

fn medians(summaries: Vec<Option<Summary>>) -> Vec<Option<f64>> {
    summaries.into_iter().map(|summary| summary.map(|summary| summary.median)).collect()
}

/// From nothing to the first answer.
fn starts(programs: &Programs, data: &Path, effort: Effort) -> Result<Vec<Option<f64>>> {
    let summaries = in_turns(&SERVERS, effort.rounds(), |server, _| {
        let (_client, took) = Client::start(programs.command(*server, data))?;
        Ok(Some(Sample { each: took.as_secs_f64(), worst: took.as_secs_f64() }))
    })?;
    Ok(medians(summaries))
}

/// What half and 95 of a hundred reads take at the most: the medians of the rounds.
fn reads(seats: &[Seat], effort: Effort) -> Result<[Vec<Option<f64>>; 2]> {
    let mut most = vec![Vec::new(); seats.len()];
    let half = in_turns(seats, effort.rounds(), |seat, round| {
        let mut times = Vec::with_capacity(READS);
        for _ in 0..READS {
            let number = fastrand::usize(..files::TREE);
            let call = seat.server.read(&seat.data, &files::path(number));
            let (text, took) = seat.client.borrow_mut().call(&call)?;
            // Ours says the version tag after the content, in a line of its own.
            if !text.as_bytes().starts_with(&files::content(number)) {
                return Err(wrong(seat, &call, &text));
            }
            times.push(took.as_secs_f64());
        }
        times.sort_by(f64::total_cmp);
        if round > 0 {
            let column = SERVERS.iter().position(|server| *server == seat.server).expect("it has a seat");
            most[column].push(times[READS * 95 / 100]);
        }
        Ok(Some(Sample { each: times[READS / 2], worst: times[READS - 1] }))
    })?;
    let most = most.into_iter().map(|mut rounds| {
        rounds.sort_by(f64::total_cmp);
        rounds.get(rounds.len() / 2).copied()
    });
    Ok([medians(half), most.collect()])
}

fn lists(seats: &[Seat], effort: Effort) -> Result<Vec<Option<f64>>> {
    timed(seats, effort, LISTINGS, |seat| Some(seat.server.list(&seat.data, "many")), files::MANY)
}

fn finds(seats: &[Seat], effort: Effort) -> Result<Vec<Option<f64>>> {
    let find = |seat: &Seat| Some(seat.server.find(&seat.data, "tree", files::PATTERN));
    timed(seats, effort, 1, find, files::TREE / 100)
}

fn searches(seats: &[Seat], effort: Effort) -> Result<Vec<Option<f64>>> {
    timed(seats, effort, 1, |seat| seat.server.search(&seat.data, "tree", RARE), files::rare())
}

/// Times a call that all make alike, the median of so many in each round. So many lines of the answer have to name a file.
fn timed(
    seats: &[Seat],
    effort: Effort,
    times: usize,
    call: impl Fn(&Seat) -> Option<Call>,
    expected: usize,
) -> Result<Vec<Option<f64>>> {
    let summaries = in_turns(seats, effort.rounds(), |seat, _| {
        let Some(call) = call(seat) else { return Ok(None) };
        let mut all = Vec::with_capacity(times);
        for _ in 0..times {
            let (text, took) = seat.client.borrow_mut().call(&call)?;
            if text.lines().filter(|line| line.contains(".txt")).count() != expected {
                return Err(wrong(seat, &call, &text));
            }
            all.push(took.as_secs_f64());
        }
        all.sort_by(f64::total_cmp);
        Ok(Some(Sample { each: all[times / 2], worst: all[times - 1] }))
    })?;
    Ok(medians(summaries))
}

/// Seconds for one read, many being under way.
fn rates(seats: &[Seat], effort: Effort) -> Result<Vec<Option<f64>>> {
    let summaries = in_turns(seats, effort.rounds(), |seat, _| {
        let paths = (0..2 * READS).map(|_| files::path(fastrand::usize(..files::TREE)));
        let calls: Vec<_> = paths.map(|path| seat.server.read(&seat.data, &path)).collect();
        let took = seat.client.borrow_mut().in_flight(WIDTH, &calls)?.as_secs_f64();
        Ok(Some(Sample { each: took / calls.len() as f64, worst: took }))
    })?;
    Ok(medians(summaries))
}

fn wrong(seat: &Seat, call: &Call, text: &str) -> Box<dyn std::error::Error + Send + Sync> {
    let text: String = text.chars().take(200).collect();
    format!("{} answers `{}` wrongly: {text}", seat.server.label(), call.tool).into()
}

/// Ends a server, and sees to it that one of ours has every call on record: without that it had less to do.
fn on_record(Seat { server, data, client }: Seat) -> Result {
    let client = client.into_inner();
    let calls = client.calls();
    drop(client);
    if !server.is_ours() {
        return Ok(());
    }
    let database = match server {
        Server::Virtual => data.join("virtual/stead.db"),
        _ => {
            let state =
                std::fs::read_dir(data.join("state/stead"))?.next().ok_or("it has kept nothing")??;
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

/// How many calls of each escaped. There are no symlinks of the host's in a database.
fn escapes(programs: &Programs, data: &Path, wanted: usize) -> Result<Vec<Option<f64>>> {
    let race = |server: Server| -> Result<Option<f64>> {
        if server == Server::Virtual {
            return Ok(None);
        }
        let data = fresh(data, &format!("race-{}", server.label()))?;
        Ok(Some(race::run(programs, server, &data, wanted)? as f64))
    };
    SERVERS.into_iter().map(race).collect()
}
