//! The options that select audit records.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use stead::vfs::IntoPath;
use stead::{AuditAccess, AuditQuery, Config, FactName, OperationId, OperationIdPrefix, Timestamp, VfsPath};

use crate::command_error::CommandError;
use crate::commands::parse_time;
use crate::session::Session;

/// Which records are meant; all conditions hold together.
#[derive(Debug, clap::Args)]
pub(super) struct AuditFilter {
    /// Only records with this path or one below it; state:NAMESPACE/KEY for a key of a State
    #[arg(long, value_name = "PATH")]
    path: Option<String>,
    /// Only records of this tool or call
    #[arg(long, value_name = "NAME", visible_alias = "tool")]
    call: Option<String>,
    /// Only records of this operation; the beginning of its id is enough
    #[arg(long, value_name = "ID")]
    operation: Option<OperationIdPrefix>,
    /// Only records with this outcome
    #[arg(long, value_parser = ["ok", "denied", "failed", "begun"])]
    outcome: Option<String>,
    /// Only records with this fact; may be given several times
    #[arg(long, value_name = "NAME=VALUE", value_parser = parse_fact)]
    fact: Vec<(FactName, String)>,
    /// Only records since this time: 2h, yesterday, 10:30, 2026-11-15, 2026-11-15 08:30
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    since: Option<Timestamp>,
    /// Only records before this time
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    until: Option<Timestamp>,
}

/// The full name of the agent that `--agent` names. Records of an agent that isn't configured any more are found by its name.
fn named_agent(session: &Session) -> Option<String> {
    let name = session.named_agent()?;
    let config = session.config_file().ok().and_then(|file| Config::load_usable(&file).ok());
    let full_name = config.and_then(|config| session.agent(&config).ok());
    Some(full_name.unwrap_or_else(|| name.to_owned()))
}

fn parse_fact(text: &str) -> Result<(FactName, String), String> {
    let (name, value) = text.split_once('=').ok_or("a fact is given as NAME=VALUE")?;
    let name = name.parse().map_err(|error: stead::InvalidFact| error.to_string())?;
    Ok((name, value.to_owned()))
}

/// A path as records have it: of a file, or of a key of a State.
fn recorded_path(text: &str) -> Result<VfsPath, CommandError> {
    match VfsPath::parse_state(text) {
        Some(path) => Ok(path),
        None => Ok(text.into_path().map_err(stead::Error::from)?),
    }
}

impl AuditFilter {
    pub(super) fn query(
        self,
        access: Option<&AuditAccess>,
        session: &Session,
    ) -> Result<AuditQuery, CommandError> {
        let path = self.path.as_deref().map(recorded_path).transpose()?;
        let mut query = AuditQuery {
            agent: named_agent(session),
            thread: session.named_thread().map(str::to_owned),
            path,
            call: self.call,
            operation: None,
            outcome: self.outcome,
            facts: self.fact,
            since: self.since,
            until: self.until,
        };
        query.operation = match (self.operation, access) {
            (Some(prefix), Some(access)) => Some(find_operation(&prefix, access, &query)?),
            // Without records there is no operation either.
            (None, _) | (_, None) => None,
        };
        Ok(query)
    }
}

/// The one operation among the records of a query whose id begins with `prefix`.
fn find_operation(
    prefix: &OperationIdPrefix,
    access: &AuditAccess,
    query: &AuditQuery,
) -> Result<OperationId, CommandError> {
    if let Some(id) = prefix.as_whole_id() {
        return Ok(id);
    }
    let mut found = BTreeMap::new();
    // An operation's id holds the time when it was made; a day is for clocks that were set back.
    let earliest = Timestamp(prefix.earliest_time().0.saturating_sub(86_400 * 1_000_000_000));
    let query = AuditQuery { since: query.since.max(Some(earliest)), ..query.clone() };
    let visited = access.each(&query, &mut |entry| {
        if let Some(id) = entry.operation.filter(|id| prefix.matches(*id)) {
            found
                .entry(id)
                .or_insert_with(|| format!("{id} ({} by {} at {})", entry.call, entry.agent, entry.at));
        }
        ControlFlow::Continue(())
    });
    visited.map_err(stead::Error::from)?;
    match found.len() {
        0 => Err(CommandError::Message(
            stead::ErrorKind::NotFound,
            format!("there is no operation {prefix} in the records that match"),
        )),
        1 => Ok(*found.keys().next().expect("one was found")),
        _ => {
            let candidates = found.into_values().collect();
            Err(stead::Error::AmbiguousOperation { prefix: prefix.clone(), candidates }.into())
        }
    }
}
