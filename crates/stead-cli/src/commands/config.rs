use stead::Config;
use stead::config::{ConfigError, HostReport};

use crate::command_error::{CommandResult, Exit};
use crate::session::Session;
use crate::{human, json};

/// Check or describe the configuration file
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Args {
    /// List all errors in the configuration, with line numbers
    Check,
    /// Print the JSON Schema of stead.toml, for editors
    Schema,
}

pub(super) fn run(args: Args, session: &mut Session) -> CommandResult {
    match args {
        Args::Check => check(session),
        Args::Schema => {
            let schema = format!("{:#}", stead::config::json_schema());
            session.print_line(schema)?;
            Ok(Exit::OK)
        }
    }
}

fn check(session: &mut Session) -> CommandResult {
    let file = session.config_file()?;
    let shown_path = human::host_path(&file);
    let (problems, notes, counts) = match Config::load(&file) {
        Ok(config) => {
            let HostReport { problems, warnings: notes } = config.check_host();
            let mut notes = [config.warnings(), &notes].concat();
            notes.sort();
            (problems, notes, (config.stores.len() as u64, config.agents.len() as u64))
        }
        Err(ConfigError::Invalid(invalid)) => (invalid.problems, Vec::new(), (0, 0)),
        Err(other) => return Err(other.into()),
    };
    let is_valid = problems.is_empty();
    if session.wants_json() {
        session.print_json(&json::config_report(&shown_path, &problems, &notes))?;
    } else {
        for note in &notes {
            session.print_line(format_args!(
                "{shown_path}:{}:{}: note: {}",
                note.line, note.column, note.message
            ))?;
        }
        for problem in &problems {
            session.print_line(format_args!("{shown_path}:{problem}"))?;
        }
        if is_valid {
            let stores = human::count(counts.0, "Store", "Stores");
            let agents = human::count(counts.1, "agent", "agents");
            session.print_line(format_args!("{shown_path} is fine: {stores}, {agents}."))?;
        }
    }
    Ok(if is_valid { Exit::OK } else { Exit::USAGE })
}
