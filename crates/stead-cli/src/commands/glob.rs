use serde_json::json;

use crate::command_error::{CommandResult, Exit};
use crate::session::{AsOfArg, Session};
use crate::{human, json};

/// Find paths by a pattern: `**/*.md`
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The pattern, relative to PATH; `*` matches within a name, `**` across directories
    pattern: String,
    /// The directory to search
    #[arg(default_value = "/")]
    path: String,
    /// Show at most this many paths
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = human::parse_positive)]
    limit: usize,
    #[command(flatten)]
    at: AsOfArg,
}

pub(super) fn run(args: Args, session: &mut Session) -> CommandResult {
    let stead = session.stead()?;
    let result = session.compound("glob", &stead, (&args.at, &args.path), |_, stead| {
        Ok(stead.vfs().glob(&args.pattern, &args.path, args.limit)?)
    })?;
    if session.wants_json() {
        let entries: Vec<_> = result.entries.iter().map(json::path_entry).collect();
        let unreadable = json::unreadable(&result.unreadable);
        session.print_json(
            &json!({ "entries": entries, "truncated": result.truncated, "unread": unreadable }),
        )?;
    } else {
        for entry in &result.entries {
            session.print_line(&entry.path)?;
        }
        if result.truncated {
            session.say(format_args!("There are more than {}; raise --limit to see them.", args.limit));
        }
        session.warn_unreadable(&result.unreadable);
    }
    Ok(if result.entries.is_empty() { Exit::NEGATIVE } else { Exit::OK })
}
