use stead::{Config, ErrorKind, MigrationReport, ServerLock, Stores};

use super::OrganizationArg;
use crate::command_error::{CommandError, CommandResult, Exit};
use crate::progress::Progress;
use crate::session::Session;
use crate::{human, json};

/// Move the files of an older layout, agents/ID and teams/ID, to workspaces/ID
///
/// Each directory is moved as a whole, and its content is compared by hash before and after. What can't be moved stays where
/// it is and is reported; then the exit code is 1. Running it again changes nothing. It is refused while a server or a mount
/// uses the same database; also stop those of other configurations that use the same directory.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    organization: OrganizationArg,
    /// Only show what would be moved
    #[arg(long, short = 'n')]
    dry_run: bool,
    /// Migrate even while a server or a mount is running; what it writes meanwhile may be left behind
    #[arg(long)]
    force: bool,
}

pub(super) fn run(args: Args, session: &mut Session) -> CommandResult {
    let config = session.config()?;
    let id = args.organization.find(&config, session)?.organization.id().to_owned();
    let _lock = match args.dry_run || args.force {
        true => None,
        false => ServerLock::exclude_servers(&config).map_err(|_| {
            CommandError::Message(
                ErrorKind::Conflict,
                "a server or a mount is using these files; stop it and try again, or use --force".to_owned(),
            )
        })?,
    };
    let progress = Progress::new(session);
    let mut show = |directory: &stead::VfsPath| progress.show(|| directory.to_string());
    let report = Stores::of(&config).migrate_organization(&id, args.dry_run, &mut show)?;
    drop(progress);
    if !args.dry_run && !report.moved.is_empty() {
        notify_servers(&config);
    }
    let exit = if report.clashes.is_empty() { Exit::OK } else { Exit::NEGATIVE };
    if session.wants_json() {
        session.print_json(&json::migration(&report, args.dry_run))?;
        return Ok(exit);
    }
    print(&report, args.dry_run, session)?;
    Ok(exit)
}

fn print(report: &MigrationReport, dry_run: bool, session: &mut Session) -> Result<(), CommandError> {
    for moved in &report.moved {
        let (verb, files) =
            (if dry_run { "Would move" } else { "Moved" }, human::count(moved.files, "file", "files"));
        let size = human::size(moved.bytes);
        session.print_line(format_args!("{verb} {} to {}: {files}, {size}", moved.from, moved.to))?;
    }
    for directory in &report.removed {
        let verb = if dry_run { "Would remove" } else { "Removed" };
        session.print_line(format_args!("{verb} {directory}, which is empty then"))?;
    }
    for clash in &report.clashes {
        session.print_line(format_args!("Not moved: {}: {}", clash.directory, clash.reason))?;
    }
    if report.moved.is_empty() && report.clashes.is_empty() {
        session.print_line("There is nothing to migrate.")?;
    }
    Ok(())
}

/// Makes running servers open their steads again, so that they use the new directories: they follow the times of these files.
fn notify_servers(config: &Config) {
    for file in config.record_files().chain([config.file()]) {
        let now = std::time::SystemTime::now();
        let _ = std::fs::File::options().append(true).open(file).and_then(|file| file.set_modified(now));
    }
}
