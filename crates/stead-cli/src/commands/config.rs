use serde_json::{Value, json};
use stead::Config;
use stead::config::{ConfigDiagnostic, ConfigError, HostReport};

use crate::command_error::{CommandResult, Exit};
use crate::human;
use crate::session::Session;

/// Check the configuration
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Args {
    /// List all errors in the configuration, with line numbers
    Check,
}

pub(super) fn run(args: Args, session: &mut Session) -> CommandResult {
    match args {
        Args::Check => check(session),
    }
}

fn check(session: &mut Session) -> CommandResult {
    let file = session.config_file()?;
    let shown = human::host_path(&file);
    let (problems, notes, sizes) = match Config::load(&file) {
        Ok(config) => {
            let HostReport { problems, warnings: notes } = config.check_host();
            let mut notes = [config.warnings(), &notes].concat();
            notes.sort();
            (problems, notes, (config.stores.len() as u64, config.agents.len() as u64))
        }
        Err(ConfigError::Invalid(wrong)) => (wrong.problems, Vec::new(), (0, 0)),
        Err(other) => return Err(other.into()),
    };
    let fine = problems.is_empty();
    if session.wants_json() {
        let places = |found: &[ConfigDiagnostic]| found.iter().map(problem_json).collect::<Vec<_>>();
        session.print_json(&json!({
            "file": shown, "ok": fine, "problems": places(&problems), "notes": places(&notes),
        }))?;
    } else {
        for note in &notes {
            session
                .print_line(format_args!("{shown}:{}:{}: note: {}", note.line, note.column, note.message))?;
        }
        for problem in &problems {
            session.print_line(format_args!("{shown}:{problem}"))?;
        }
        if fine {
            let stores = human::count(sizes.0, "Store", "Stores");
            let agents = human::count(sizes.1, "agent", "agents");
            session.print_line(format_args!("{shown} is fine: {stores}, {agents}."))?;
        }
    }
    Ok(if fine { Exit::OK } else { Exit::USAGE })
}

fn problem_json(problem: &ConfigDiagnostic) -> Value {
    json!({ "line": problem.line, "column": problem.column, "message": problem.message })
}
