use serde_json::{Value, json};
use stead::doctor::{self, HostFinding, Readiness};

use crate::command_error::{CommandResult, Exit};
use crate::session::{Colour, Session};

/// Show what this host offers and what is missing
#[derive(Debug, clap::Args)]
pub(crate) struct Args {}

pub(super) fn run(_: Args, session: &mut Session) -> CommandResult {
    let findings = doctor::check_host();
    if session.wants_json() {
        let findings: Vec<_> = findings.iter().map(as_json).collect();
        session.print_json(&json!({ "findings": findings }))?;
        return Ok(Exit::OK);
    }
    for finding in &findings {
        let colour = match finding.state {
            Readiness::Ready => Colour::Green,
            Readiness::Limited => Colour::Yellow,
            Readiness::Missing => Colour::Red,
        };
        let state = session.paint(colour, format_args!("{:7}", finding.state.as_str()));
        session.print_line(format_args!("{state}  {:15}  for {}", finding.name, finding.needed_for))?;
        session.print_line(format_args!("         {}", finding.detail))?;
    }
    Ok(Exit::OK)
}

fn as_json(finding: &HostFinding) -> Value {
    json!({
        "name": finding.name,
        "needed_for": finding.needed_for,
        "state": finding.state.as_str(),
        "detail": finding.detail,
    })
}
