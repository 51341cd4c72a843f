use stead::NodeKind;
use stead::vfs::Stat;

use crate::command_error::{CommandError, CommandResult};
use crate::session::{AsOfArg, Session};
use crate::{human, json};

/// Show the attributes of paths
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The paths
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<String>,
    /// Show a symlink itself, not its target
    #[arg(short = 'P', long)]
    no_follow: bool,
    #[command(flatten)]
    at: AsOfArg,
}

pub(super) fn run(args: Args, session: &mut Session) -> CommandResult {
    let stead = session.stead()?;
    session.for_each(&args.paths, |session, path| {
        let stat = session.compound("stat", &stead, (&args.at, path), |_, stead| {
            let vfs = stead.vfs();
            Ok(if args.no_follow { vfs.stat_link(path)? } else { vfs.stat(path)? })
        })?;
        if session.wants_json() { session.print_json(&json::stat(&stat)) } else { print_stat(&stat, session) }
    })
}

fn print_stat(stat: &Stat, session: &mut Session) -> Result<(), CommandError> {
    let size = match stat.kind {
        NodeKind::File => Some(format!("{} ({} bytes)", human::size(stat.size), stat.size)),
        _ => None,
    };
    let rows = [
        ("path", Some(stat.path.to_string())),
        ("kind", Some(stat.kind.to_string())),
        ("size", size),
        ("mode", Some(human::mode(stat.kind, stat.mode))),
        ("created", stat.created.map(|time| time.to_string())),
        ("modified", stat.modified.map(|time| time.to_string())),
        ("type", stat.mime.map(str::to_owned)),
        ("scope", stat.scope.map(|scope| scope.to_string())),
        ("tag", stat.tag.map(|tag| tag.to_string())),
    ];
    for (name, value) in rows {
        if let Some(value) = value {
            session.print_line(format_args!("{name:9} {value}"))?;
        }
    }
    Ok(())
}
