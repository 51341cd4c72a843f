use stead::Config;
use stead::config::{ConfigDiagnostic, ConfigError, HostReport};

use crate::command_error::{CommandError, CommandResult, Exit};
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
    let findings = Findings::gather(session)?;
    findings.print(session)?;
    if let Some(config) = findings.config().filter(|_| findings.is_valid() && !session.wants_json()) {
        let stores = human::count(config.stores.len() as u64, "Store", "Stores");
        let agents = human::count(config.agent_names().count() as u64, "agent", "agents");
        session.print_line(format_args!("{} is fine: {stores}, {agents}.", findings.file))?;
    }
    Ok(findings.exit())
}

/// What a check of the configuration found.
pub(super) struct Findings {
    /// The configuration file, as it is shown.
    file: String,
    /// The configuration, if it can be read.
    config: Option<Config>,
    problems: Vec<ConfigDiagnostic>,
    notes: Vec<ConfigDiagnostic>,
}

impl Findings {
    pub(super) fn gather(session: &Session) -> Result<Self, CommandError> {
        let path = session.config_file()?;
        let file = human::host_path(&path);
        match Config::load(&path) {
            Ok(config) => {
                let HostReport { problems, warnings } = config.check_host();
                let mut notes = [config.warnings(), &warnings].concat();
                notes.sort();
                Ok(Findings { file, config: Some(config), problems, notes })
            }
            Err(ConfigError::Invalid(invalid)) => {
                Ok(Findings { file, config: None, problems: invalid.problems, notes: invalid.warnings })
            }
            Err(other) => Err(other.into()),
        }
    }

    pub(super) fn config(&self) -> Option<&Config> {
        self.config.as_ref()
    }

    pub(super) fn is_valid(&self) -> bool {
        self.problems.is_empty()
    }

    pub(super) fn exit(&self) -> Exit {
        if self.is_valid() { Exit::OK } else { Exit::USAGE }
    }

    /// Prints a line for each note and each problem: `stead.toml:3:1: note: …`. With `--json`, one document.
    pub(super) fn print(&self, session: &mut Session) -> Result<(), CommandError> {
        if session.wants_json() {
            return session.print_json(&json::config_report(&self.file, &self.problems, &self.notes));
        }
        let file = |finding: &ConfigDiagnostic| match &finding.file {
            Some(file) => human::host_path(file),
            None => self.file.clone(),
        };
        for note in &self.notes {
            let ConfigDiagnostic { line, column, message, .. } = note;
            session.print_line(format_args!("{}:{line}:{column}: note: {message}", file(note)))?;
        }
        for problem in &self.problems {
            session.print_line(format_args!("{}:{problem}", file(problem)))?;
        }
        Ok(())
    }
}
