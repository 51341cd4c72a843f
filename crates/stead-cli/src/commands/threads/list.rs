use stead::{Stores, ThreadRecord};

use super::check_agent;
use crate::command_error::{CommandResult, Exit};
use crate::session::{Colour, Session};
use crate::{human, json};

/// List the threads of all agents, or of the one that --agent names
#[derive(Debug, clap::Args)]
pub(crate) struct Args {}

pub(super) fn run(_args: Args, session: &mut Session) -> CommandResult {
    let config = session.config()?;
    let stores = Stores::of(&config);
    let full_name = |agent: &str| config.full_agent_name(agent).unwrap_or_else(|_| agent.to_owned());
    let agent = session.named_agent().map(full_name);
    if let Some(agent) = &agent {
        check_agent(&config, &stores, agent)?;
    }
    let mut threads = stores.threads().list(agent.as_deref())?;
    if let Some(thread) = session.named_thread() {
        threads.retain(|record| record.key.thread == thread);
    }
    if session.wants_json() {
        for record in &threads {
            session.print_json(&json::thread(record))?;
        }
        return Ok(Exit::OK);
    }
    if threads.is_empty() {
        session.say("There are no threads.");
        return Ok(Exit::OK);
    }
    let rows: Vec<_> = threads.iter().map(row).collect();
    let widths: Vec<usize> = (0..HEADER.len())
        .map(|column| {
            rows.iter().chain([&HEADER.map(str::to_owned)]).map(|row| row[column].chars().count()).max()
        })
        .map(Option::unwrap_or_default)
        .collect();
    let line = |row: &[String; 6]| {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}"));
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    let header = session.paint(Colour::Dim, line(&HEADER.map(str::to_owned)));
    session.print_line(header)?;
    for row in &rows {
        session.print_line(line(row))?;
    }
    Ok(Exit::OK)
}

const HEADER: [&str; 6] = ["AGENT", "THREAD", "CREATED", "UNUSED FOR", "PROCESSES", "STATE"];

fn row(record: &ThreadRecord) -> [String; 6] {
    [
        human::escape_text(&record.key.agent),
        human::escape_text(&record.key.thread),
        human::time(Some(record.created)),
        human::time_span(record.idle_for),
        record.leases.to_string(),
        state_text(record),
    ]
}

/// What becomes of a thread: `in use`, `ends in 12m`.
pub(super) fn state_text(record: &ThreadRecord) -> String {
    if record.is_ending {
        return "being removed".to_owned();
    }
    if record.leases > 0 {
        return "in use".to_owned();
    }
    match record.idle_timeout {
        None => "idle".to_owned(),
        Some(timeout) => match timeout.saturating_sub(record.idle_for) {
            left if left.is_zero() => "idle, ends now".to_owned(),
            left => format!("idle, ends in {}", human::time_span(left)),
        },
    }
}
