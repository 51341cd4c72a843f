use std::io::Write;

use crate::command_error::{CommandResult, Exit};
use crate::session::{Colour, Session};
use crate::{human, json};

/// Show who wrote which line of a text file
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The file
    #[arg(value_name = "PATH")]
    path: String,
}

pub(super) fn run(args: Args, session: &mut Session) -> CommandResult {
    let lines = session.vfs("blame")?.blame(&*args.path)?;
    session.use_pager();
    if session.wants_json() {
        for (index, line) in lines.iter().enumerate() {
            session.print_json(&json::blame_line(index + 1, line))?;
        }
        return Ok(Exit::OK);
    }
    let agents: Vec<String> = lines
        .iter()
        .map(|line| match &line.operation {
            Some(operation) => human::escape_text(&operation.identity.agent),
            None if line.by_another_program => "(other program)".to_owned(),
            None => "(before)".to_owned(),
        })
        .collect();
    let width = agents.iter().map(|agent| agent.chars().count()).max().unwrap_or(0).min(24);
    let digits = lines.len().to_string().len();
    for (index, (line, agent)) in lines.iter().zip(&agents).enumerate() {
        let version = line.revision.map_or("-".to_owned(), |revision| format!("v{}", revision.number));
        let time = human::time(line.operation.as_ref().map(|operation| operation.at));
        let text = String::from_utf8_lossy(&line.line);
        let text = text.trim_end_matches(['\n', '\r']);
        let text = if session.is_terminal() { human::escape_text(text) } else { text.to_owned() };
        let (version, time) =
            (session.paint(Colour::Yellow, format_args!("{version:>8}")), session.paint(Colour::Dim, time));
        let number = index + 1;
        session.write_output(|out| {
            writeln!(out, "{version}  {agent:width$}  {time}  {number:>digits$}  {text}")
        })?;
    }
    Ok(Exit::OK)
}
