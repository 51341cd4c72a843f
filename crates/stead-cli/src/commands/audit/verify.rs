use std::path::PathBuf;

use stead::{ArchiveLookup, AuditVerified, verify_archive};

use super::open_access;
use crate::command_error::{CommandError, CommandResult, Exit};
use crate::progress::Progress;
use crate::session::Session;
use crate::{human, json};

/// Check that no record was changed, removed or moved
///
/// Every record is checked against the one before it, and every chain against its signed heads. Archives are looked for
/// where `archive` wrote them. An archive can also be checked by itself.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Check these archives instead of the database
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,
    /// A directory that archives were moved to
    #[arg(long, value_name = "DIR", conflicts_with = "files")]
    archives: Vec<PathBuf>,
    /// Don't look for archives, because they are stored and checked elsewhere
    #[arg(long, conflicts_with_all = ["files", "archives"])]
    without_archives: bool,
}

pub(super) fn run(args: Args, session: &mut Session) -> CommandResult {
    if args.files.is_empty() {
        let archives =
            if args.without_archives { ArchiveLookup::Skip } else { ArchiveLookup::In(args.archives) };
        return verify_database(&archives, session);
    }
    let own_key = open_access(session).ok().flatten().and_then(|access| access.key().ok().flatten());
    let mut exit = Exit::OK;
    for file in args.files {
        let shown_path = file.display().to_string();
        let (verified, keys) = verify_archive(&file)
            .map_err(|error| CommandError::host(format!("`{shown_path}` can't be read"), error))?;
        exit = exit.max(report(&shown_path, &verified, &keys, session)?);
        for key in keys.iter().filter(|key| own_key.as_ref() != Some(*key)) {
            session.say(format_args!(
                "{shown_path} is signed with the key {key}; compare it with the key that `stead audit verify` prints where \
                 the records were made"
            ));
        }
    }
    Ok(exit)
}

fn verify_database(archives: &ArchiveLookup, session: &mut Session) -> CommandResult {
    let Some(access) = open_access(session)? else {
        session.say("There are no audit records yet.");
        return Ok(Exit::OK);
    };
    let progress = Progress::new(session);
    let show = &mut |done| progress.show(|| format!("audit: {}", human::count(done, "record", "records")));
    let verified = access.verify(archives, show);
    drop(progress);
    let keys: Vec<_> = access.key().map_err(stead::Error::from)?.into_iter().collect();
    let exit = report("audit", &verified.map_err(stead::Error::from)?, &keys, session)?;
    for key in keys {
        session.say(format_args!("The key of the audit is {key}"));
    }
    Ok(exit)
}

/// Prints the result of a check. The exit code is `INTERNAL` if there are problems.
fn report(subject: &str, verified: &AuditVerified, keys: &[String], session: &mut Session) -> CommandResult {
    let exit = if verified.problems.is_empty() { Exit::OK } else { Exit::INTERNAL };
    if session.wants_json() {
        session.print_json(&json::audit_verified(subject, verified, keys))?;
        return Ok(exit);
    }
    let verdict = match verified.problems.len() as u64 {
        0 => "nothing is wrong".to_owned(),
        problems => human::count(problems, "problem", "problems"),
    };
    session.print_line(format_args!(
        "{subject}: {} in {}, {}: {verdict}",
        human::count(verified.records, "record", "records"),
        human::count(verified.instances, "chain", "chains"),
        human::count(verified.heads, "signature", "signatures"),
    ))?;
    for problem in &verified.problems {
        session.print_line(format_args!("  {problem}"))?;
    }
    let counts = [(verified.unsigned, "not signed yet"), (verified.archived, "in archives")];
    for (count, state) in counts.into_iter().filter(|(count, _)| *count > 0) {
        let verb = if count == 1 { "is" } else { "are" };
        session.print_line(format_args!("  {} {verb} {state}", human::count(count, "record", "records")))?;
    }
    if verified.foreign > 0 {
        let chains = human::count(verified.foreign, "chain", "chains");
        session.print_line(format_args!(
            "  the signatures of {chains} can't be checked, because the key isn't here"
        ))?;
    }
    Ok(exit)
}
