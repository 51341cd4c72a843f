use super::{WorkspaceArg, table};
use crate::command_error::{CommandResult, Exit};
use crate::session::{AsOfArg, Session};
use crate::{human, json};

/// Show what is known about a managed file
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The file
    path: String,
    #[command(flatten)]
    workspace: WorkspaceArg,
    #[command(flatten)]
    at: AsOfArg,
}

pub(super) fn run(args: Args, session: &mut Session) -> CommandResult {
    let files = args.workspace.files_at(&args.at, session.stead()?, "info", Some(&args.path))?;
    let listed = files.info(args.path.as_str())?;
    if session.wants_json() {
        session.print_json(&json::managed_file(&listed))?;
        return Ok(Exit::OK);
    }
    let file = &listed.file;
    let or_dash = |text: Option<&str>| text.map_or_else(|| "-".to_owned(), human::escape_text);
    let time = |time| format!("{} ({})", human::time(Some(time)), table::age(time));
    let tags = file.tags.to_string();
    let lines = [
        ("path", human::escape_text(listed.path.as_str())),
        ("category", file.category.to_string()),
        ("original name", or_dash(file.original_name.as_deref())),
        ("size", human::size(file.size)),
        ("tool", or_dash(file.source_tool.as_deref())),
        ("tags", or_dash(Some(&*tags).filter(|tags| !tags.is_empty()))),
        ("created", time(file.created_at)),
        ("written", time(file.modified_at)),
        ("accessed", file.accessed_at.map_or_else(|| "never".to_owned(), time)),
        ("session", or_dash(file.session_key.as_deref())),
    ];
    for (name, value) in lines {
        session.print_line(format_args!("{name:14} {value}"))?;
    }
    Ok(Exit::OK)
}
