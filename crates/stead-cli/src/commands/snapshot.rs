use stead::VfsPath;

use crate::command_error::{CommandResult, Exit};
use crate::interrupt::Interrupt;
use crate::progress::Progress;
use crate::session::Session;
use crate::{human, json};

/// Save the present version of a Workspace, or of all Workspaces, as a snapshot
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The Workspace [default: all Workspaces]
    #[arg(value_name = "PREFIX")]
    prefix: Option<String>,
    /// A name for the snapshot
    #[arg(long, value_name = "LABEL")]
    label: Option<String>,
}

pub(super) fn run(args: Args, session: &mut Session) -> CommandResult {
    let interrupt = Interrupt::listen()?;
    let stead = interrupt.attach_to(&session.stead()?);
    let progress = Progress::new(session);
    let snapshot = stead.snapshot_with_progress(args.prefix.as_deref(), args.label.as_deref(), &mut |done| {
        progress.show(|| format!("{} checked", human::count(done, "file", "files")));
    });
    let snapshot = snapshot.map_err(|error| interrupt.error_or(error, "no snapshot was made"))?;
    drop(progress);
    let left_out = stead.left_out_of_snapshot(args.prefix.as_deref())?;
    if session.wants_json() {
        session.print_json(&json::new_snapshot(&snapshot, &left_out))?;
    } else {
        let label = snapshot.label.as_ref().map_or(String::new(), |label| format!(" `{label}`"));
        session.print_line(format_args!(
            "Snapshot #{}{label} keeps version {}.",
            snapshot.id, snapshot.revision
        ))?;
        if !left_out.is_empty() {
            let left_out: Vec<&str> = left_out.iter().map(VfsPath::as_str).collect();
            session.say(format_args!("It doesn't include {}.", left_out.join(", ")));
        }
    }
    Ok(Exit::OK)
}
