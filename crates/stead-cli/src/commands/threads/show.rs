use stead::{Stores, ThreadDetails};

use super::ThreadArg;
use super::list::state_text;
use crate::command_error::{CommandResult, Exit};
use crate::session::Session;
use crate::{human, json};

/// Show when a thread was made and used, and what it has
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    thread: ThreadArg,
}

pub(super) fn run(args: Args, session: &mut Session) -> CommandResult {
    let config = session.config()?;
    let key = args.thread.key(&config, session)?;
    let details = Stores::of(&config).threads().show(&key)?;
    if session.wants_json() {
        session.print_json(&json::thread_details(&details))?;
        return Ok(Exit::OK);
    }
    let record = &details.record;
    let mut lines = vec![
        ("agent", human::escape_text(&record.key.agent)),
        ("thread", human::escape_text(&record.key.thread)),
        ("state", state_text(record)),
        ("created", human::time(Some(record.created))),
        (
            "last used",
            format!("{} ({} ago)", human::time(Some(record.last_used)), human::time_span(record.idle_for)),
        ),
        ("ends when unused for", record.idle_timeout.map_or_else(|| "-".to_owned(), human::time_span)),
        ("used by", human::count(record.leases, "process", "processes")),
    ];
    lines.extend(contents(&details));
    for (name, value) in lines {
        session.print_line(format_args!("{name:21} {value}"))?;
    }
    Ok(Exit::OK)
}

/// What a thread has, and what goes with it when it is destroyed.
pub(super) fn contents(details: &ThreadDetails) -> Vec<(&'static str, String)> {
    let mut lines: Vec<_> = details
        .workspaces
        .iter()
        .map(|workspace| {
            let usage = match &workspace.usage {
                Some(usage) => {
                    format!("{}, {}", human::count(usage.files, "file", "files"), human::size(usage.bytes))
                }
                None => "its files can't be seen from here".to_owned(),
            };
            ("Workspace", format!("{}  {usage}", workspace.prefix))
        })
        .collect();
    lines.push(("forks", details.forks.to_string()));
    lines.push(("snapshots", details.snapshots.to_string()));
    if let Some(state) = &details.state {
        let keys = human::count(state.files, "key", "keys");
        lines.push(("State", format!("{keys}, {}", human::size(state.bytes))));
    }
    lines
}
