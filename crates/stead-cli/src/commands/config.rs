use serde_json::{Value, json};
use stead::Config;
use stead::config::{ConfigError, Problem, StoreConfig};

use crate::failure::{Ended, Exit};
use crate::human;
use crate::session::Session;

/// Look after the configuration
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Args {
    /// Say everything that is wrong with the configuration, with line numbers
    Check,
}

pub(super) fn run(args: Args, session: &mut Session) -> Ended {
    match args {
        Args::Check => check(session),
    }
}

fn check(session: &mut Session) -> Ended {
    let file = session.config_file()?;
    let shown = file.display();
    let config = match Config::load(&file) {
        Ok(config) => config,
        Err(ConfigError::Wrong(wrong)) => {
            if session.wants_json() {
                let problems: Vec<_> = wrong.problems.iter().map(place).collect();
                session.json(
                    &json!({ "file": shown.to_string(), "ok": false, "problems": problems, "notes": [] }),
                )?;
            } else {
                session.line(&wrong)?;
            }
            return Ok(Exit::USAGE);
        }
        Err(other) => return Err(other.into()),
    };
    let missing = missing_directories(&config);
    if session.wants_json() {
        let notes: Vec<_> = config.notes().iter().map(place).collect();
        session.json(&json!({
            "file": shown.to_string(), "ok": missing.is_empty(), "problems": missing, "notes": notes,
        }))?;
    } else {
        for note in config.notes() {
            session.line(format_args!("{shown}:{}:{}: note: {}", note.line, note.column, note.message))?;
        }
        for problem in &missing {
            session.line(format_args!("{shown}: {}", problem["message"].as_str().unwrap_or_default()))?;
        }
        if missing.is_empty() {
            let stores = human::count(config.stores.len() as u64, "Store", "Stores");
            let agents = human::count(config.agents.len() as u64, "agent", "agents");
            session.line(format_args!("{shown} is fine: {stores}, {agents}."))?;
        }
    }
    Ok(if missing.is_empty() { Exit::OK } else { Exit::USAGE })
}

fn place(problem: &Problem) -> Value {
    json!({ "line": problem.line, "column": problem.column, "message": problem.message })
}

/// What the file alone can't tell: directories that are not there.
fn missing_directories(config: &Config) -> Vec<Value> {
    let missing = config.stores.iter().filter_map(|(name, store)| match store {
        StoreConfig::Physical { path } if !path.is_dir() => {
            let message = format!("the directory of the Store `{name}`, `{}`, is not there", path.display());
            Some(json!({ "message": message }))
        }
        _ => None,
    });
    missing.collect()
}
