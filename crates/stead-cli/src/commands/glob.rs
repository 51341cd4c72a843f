use stead::vfs::GlobQuery;

use crate::command_error::{CommandResult, Exit};
use crate::session::{AsOfArg, IgnoreArg, Session};
use crate::{human, json};

/// Find paths by a pattern: `**/*.md`
///
/// What .gitignore, .ignore and .git/info/exclude name is left out, and so is .git, unless PATH or the beginning of the
/// pattern names it.
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
    ignore: IgnoreArg,
    #[command(flatten)]
    at: AsOfArg,
}

pub(super) fn run(args: Args, session: &mut Session) -> CommandResult {
    let stead = session.stead()?;
    let (limit, ignore_files) = (args.limit, args.ignore.ignore_files());
    let query = GlobQuery { limit, ignore_files, ..GlobQuery::new(args.pattern) };
    let result = session.compound("glob", &stead, (&args.at, &args.path), |_, stead| {
        Ok(stead.vfs().glob(&query, &args.path)?)
    })?;
    if session.wants_json() {
        session.print_json(&json::walk(
            None,
            &result.entries,
            result.truncated,
            &result.unreadable,
            result.left_out,
        ))?;
    } else {
        session.use_pager();
        for entry in &result.entries {
            session.print_line(&entry.path)?;
        }
        if result.truncated {
            session.say(format_args!("There are more than {}; raise --limit to see them.", args.limit));
        }
        session.say_left_out(result.left_out);
        session.warn_unreadable(&result.unreadable);
    }
    Ok(if result.entries.is_empty() { Exit::NEGATIVE } else { Exit::OK })
}
