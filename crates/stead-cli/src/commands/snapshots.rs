use crate::command_error::{CommandResult, Exit};
use crate::session::{Colour, Session};
use crate::{human, json};

/// List snapshots, newest first, or remove one
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Only snapshots of this Workspace or of all Workspaces
    #[arg(value_name = "PREFIX")]
    prefix: Option<String>,
    /// Remove this snapshot; its version is then kept only as long as other versions
    #[arg(long, value_name = "SNAPSHOT")]
    forget: Option<String>,
}

pub(super) fn run(args: Args, session: &mut Session) -> CommandResult {
    let stead = session.stead()?;
    if let Some(name) = args.forget {
        let removed = stead.forget_snapshot(args.prefix.as_deref(), &name)?;
        if session.wants_json() {
            session.print_json(&json::snapshot(&removed))?;
        } else {
            session.print_line(format_args!("Removed snapshot #{}.", removed.id))?;
        }
        return Ok(Exit::OK);
    }
    let snapshots = stead.snapshots(args.prefix.as_deref())?;
    session.use_pager();
    if snapshots.is_empty() {
        session.say("There are no snapshots.");
    }
    for snapshot in &snapshots {
        if session.wants_json() {
            session.print_json(&json::snapshot(snapshot))?;
            continue;
        }
        let id = session.paint(Colour::Yellow, format_args!("#{}", snapshot.id));
        let prefix = snapshot.prefix.as_deref().unwrap_or("everything");
        let label = snapshot.label.as_deref().unwrap_or("-");
        session.print_line(format_args!(
            "{id}  {}  v{:<8}  {}  {}",
            human::time(Some(snapshot.at)),
            snapshot.revision.to_string(),
            human::escape_text(prefix),
            human::escape_text(label)
        ))?;
    }
    Ok(Exit::OK)
}
