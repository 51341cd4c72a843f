use std::time::Duration;

use stead::TagRef;
use stead::vfs::state::{SetOptions, parse_expires_in};

use super::NamespaceArg;
use crate::command_error::{CommandError, CommandResult, Exit};
use crate::commands::content::ContentArg;
use crate::json;
use crate::session::Session;

/// Set a key to a JSON value, from an argument or from standard input
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The key
    key: String,
    #[command(flatten)]
    value: ContentArg,
    #[command(flatten)]
    namespace: NamespaceArg,
    /// Only if the key doesn't exist yet
    #[arg(long)]
    create_only: bool,
    /// Only if the key still has this version tag (see `stead state list`)
    #[arg(long, value_name = "TAG", conflicts_with = "create_only")]
    if_match: Option<TagRef>,
    /// The key is gone after this time: 90s, 30m, 2h, 7d, or a number of seconds
    #[arg(long, value_name = "DURATION", value_parser = parse_expires_in)]
    expires_in: Option<Duration>,
}

pub(super) fn run(args: Args, session: &mut Session) -> CommandResult {
    let stead = session.stead()?;
    let value = String::from_utf8(args.value.read_all()?)
        .map_err(|_| CommandError::invalid("the value isn't valid JSON: it isn't UTF-8"))?;
    let mut options = SetOptions::new();
    if args.create_only {
        options = options.create_only();
    }
    if let Some(tag) = args.if_match {
        options = options.if_match(tag);
    }
    if let Some(time) = args.expires_in {
        options = options.expires_in(time);
    }
    let written = stead.single_record("state_set", None, CommandError::kind, |stead| {
        Ok::<_, CommandError>(args.namespace.state_of(stead)?.set(&args.key, &value, &options)?)
    })?;
    if session.wants_json() {
        session.print_json(&json::state_written(args.namespace.name(), &args.key, &written))?;
    }
    let verb = if written.created { "Created" } else { "Set" };
    session.say(format_args!("{verb} {}", super::shown_key(&args.namespace, &args.key)));
    Ok(Exit::OK)
}
