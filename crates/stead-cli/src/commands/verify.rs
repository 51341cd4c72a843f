use stead::Stores;
use stead::name::escape_name;

use crate::command_error::{CommandResult, Exit};
use crate::progress::Progress;
use crate::session::Session;
use crate::{human, json};

/// Check all stored data, and list the problems
#[derive(Debug, clap::Args)]
pub(crate) struct Args {}

pub(super) fn run(_: Args, session: &mut Session) -> CommandResult {
    let config = session.config_without_records()?;
    let progress = Progress::new(session);
    let verified = Stores::of(&config).verify(&mut |store, done| {
        progress.show(|| format!("{store}: {}", human::count(done, "piece", "pieces")))
    });
    drop(progress);
    let mut exit = Exit::OK;
    for (store, report) in verified? {
        let store = escape_name(store.as_bytes()).to_string();
        if !report.problems.is_empty() {
            exit = Exit::INTERNAL;
        }
        if session.wants_json() {
            session.print_json(&json::verified(&json::Verified {
                store: &store,
                entries: report.entries,
                contents: report.contents,
                unreferenced: report.unreferenced,
                problems: &report.problems,
            }))?;
            continue;
        }
        let entries = human::count(report.entries, "entry", "entries");
        let contents = human::count(report.contents, "piece of content", "pieces of content");
        let verdict = match report.problems.len() as u64 {
            0 => "nothing is wrong".to_owned(),
            problems => human::count(problems, "problem", "problems"),
        };
        session.print_line(format_args!("{store}: {entries}, {contents}: {verdict}"))?;
        for problem in &report.problems {
            session.print_line(format_args!("  {problem}"))?;
        }
    }
    Ok(exit)
}
