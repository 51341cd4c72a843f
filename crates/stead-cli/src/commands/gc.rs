use std::time::Duration;

use serde_json::json;
use stead::{Clock, GcOptions, Retention, Stores, SystemClock};

use crate::failure::{Ended, Exit};
use crate::human;
use crate::progress::Progress;
use crate::session::Session;

/// Forget what is older than it has to be, and give its space back
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Forget versions older than this instead of what [history] says: 30d, 12h
    #[arg(long, value_name = "AGE", value_parser = super::length)]
    older_than: Option<Duration>,
    /// How long content that nothing refers to waits before it goes; longer than any program reads one file
    #[arg(long, value_name = "TIME", default_value = "24h", value_parser = super::length)]
    grace: Duration,
    /// Make the file smaller, too; others wait meanwhile
    #[arg(long)]
    vacuum: bool,
}

pub(super) fn run(args: Args, session: &mut Session) -> Ended {
    let config = session.config()?;
    let mut stores = Stores::of(&config);
    let retention = Retention { age: args.older_than.unwrap_or(config.history.age), ..config.history };
    let options = GcOptions { grace: args.grace, vacuum: args.vacuum };
    let progress = Progress::new(session);
    let mut show = |what: &str, done: u64| progress.show(|| format!("{what}: {done}"));
    let (forgotten, collected) = stores.gc(retention, options, SystemClock.now(), &mut show)?;
    drop(progress);
    if session.wants_json() {
        session.json(&json!({
            "forgotten": { "states": forgotten.states, "lines": forgotten.lines, "contents": forgotten.contents },
            "freed": { "contents": collected.contents, "bytes": collected.bytes },
            "waiting": { "bytes": collected.condemned },
        }))?;
        return Ok(Exit::OK);
    }
    let states = human::count(forgotten.states + forgotten.contents, "state", "states");
    session.line(format_args!("Forgot {states} of files; freed {}.", human::size(collected.bytes)))?;
    if collected.condemned > 0 {
        let waiting = human::size(collected.condemned);
        session
            .line(format_args!("{waiting} more can go when nothing has used it for the time of --grace."))?;
    }
    Ok(Exit::OK)
}
