use stead::name::escape_text;

use super::NamespaceArg;
use crate::command_error::{CommandError, CommandResult, Exit};
use crate::json;
use crate::session::{AsOfArg, Session};

/// List keys with the size, the version tag and the times of each
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Only keys that begin with this
    #[arg(default_value = "", hide_default_value = true)]
    prefix: String,
    #[command(flatten)]
    namespace: NamespaceArg,
    /// The most keys to list
    #[arg(long, value_name = "COUNT", default_value_t = 1_000, value_parser = clap::value_parser!(u64).range(1..))]
    limit: u64,
    /// Continue after this key, which the previous page ended with
    #[arg(long, value_name = "KEY")]
    cursor: Option<String>,
    #[command(flatten)]
    at: AsOfArg,
}

pub(super) fn run(args: Args, session: &mut Session) -> CommandResult {
    let stead = session.stead()?;
    let limit = usize::try_from(args.limit).unwrap_or(usize::MAX);
    let page = stead.single_record("state_list", None, CommandError::kind, |stead| {
        let stead = args.at.apply_to(stead.clone(), "/")?;
        let state = args.namespace.state_of(&stead)?;
        Ok::<_, CommandError>(state.list(&args.prefix, args.cursor.as_deref(), limit)?)
    })?;
    if session.wants_json() {
        session.print_json(&json::state_page(args.namespace.name(), &page))?;
        return Ok(Exit::OK);
    }
    for entry in &page.entries {
        let expires = entry.expires_at.map(|time| format!("\texpires {time}")).unwrap_or_default();
        let (key, tag) = (escape_text(&entry.key), entry.version_tag.short());
        session.print_line(format_args!("{key}\t{}\t{tag}\t{}{expires}", entry.size, entry.modified))?;
    }
    if let Some(cursor) = &page.cursor {
        session.say(format_args!("There are more keys: --cursor '{}' continues.", escape_text(cursor)));
    }
    Ok(Exit::OK)
}
