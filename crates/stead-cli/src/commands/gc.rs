use std::time::Duration;

use stead::{Clock, GcOptions, GcReport, Pruned, Retention, Stores, SystemClock};

use crate::command_error::{CommandResult, Exit};
use crate::progress::Progress;
use crate::session::Session;
use crate::{human, json};

/// Delete history that is older than `[history]` in stead.toml says, and free its space
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Delete versions older than this, instead of the age in `[history]`: 30d, 12h
    #[arg(long, value_name = "AGE", value_parser = super::parse_duration)]
    older_than: Option<Duration>,
    /// How long unused content is kept before it is freed; must be longer than any program reads one file
    #[arg(long, value_name = "DURATION", default_value = "24h", value_parser = super::parse_duration)]
    grace: Duration,
    /// Also shrink the database file; other processes wait meanwhile
    #[arg(long)]
    vacuum: bool,
}

pub(super) fn run(args: Args, session: &mut Session) -> CommandResult {
    let config = session.config()?;
    let stores = Stores::of(&config);
    let retention = Retention { age: args.older_than.unwrap_or(config.history.age), ..config.history };
    let options = GcOptions { grace: args.grace, vacuum: args.vacuum };
    let progress = Progress::new(session);
    let mut show = |step: &str, done: u64| progress.show(|| format!("{step}: {done}"));
    let GcReport { expired_keys, forgotten, collected, pruned } =
        stores.gc(retention, options, SystemClock.now(), &mut show)?;
    drop(progress);
    let mut pruned_stores = Vec::new();
    for (name, pruned) in pruned {
        match pruned {
            Ok(pruned) => pruned_stores.push((name, pruned)),
            Err(error) => {
                session.warn(format_args!("The kept content of `{name}` could not be cleaned up: {error}"))
            }
        }
    }
    if session.wants_json() {
        session.print_json(&json::collected(expired_keys, &forgotten, &collected, &pruned_stores))?;
        return Ok(Exit::OK);
    }
    let states = human::count(forgotten.states + forgotten.contents, "file version", "file versions");
    session.print_line(format_args!("Deleted {states}; freed {}.", human::size(collected.bytes)))?;
    if expired_keys > 0 {
        let keys = human::count(expired_keys, "expired key", "expired keys");
        session.print_line(format_args!("Removed {keys} of the State."))?;
    }
    for (name, Pruned { freed, kept }) in
        pruned_stores.iter().filter(|(_, pruned)| *pruned != Pruned::default())
    {
        let (freed, kept) = (human::size(*freed), human::size(*kept));
        session.print_line(format_args!("Kept content of `{name}`: freed {freed}, {kept} left."))?;
    }
    if collected.condemned > 0 {
        let waiting = human::size(collected.condemned);
        session.print_line(format_args!(
            "{waiting} more can be freed by a `stead gc` after the time of --grace."
        ))?;
    }
    Ok(Exit::OK)
}
