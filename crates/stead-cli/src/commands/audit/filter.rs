//! The options that select audit records.

use stead::vfs::IntoPath;
use stead::{AuditQuery, FactName, OperationId, Timestamp};

use crate::command_error::CommandError;
use crate::commands::parse_time;
use crate::session::Session;

/// Which records are meant; all conditions hold together.
#[derive(Debug, clap::Args)]
pub(super) struct AuditFilter {
    /// Only records with this path or one below it
    #[arg(long, value_name = "PATH")]
    path: Option<String>,
    /// Only records of this tool or call
    #[arg(long, value_name = "NAME", visible_alias = "tool")]
    call: Option<String>,
    /// Only records of this operation
    #[arg(long, value_name = "ID")]
    operation: Option<OperationId>,
    /// Only records with this outcome
    #[arg(long, value_parser = ["ok", "denied", "failed", "begun"])]
    outcome: Option<String>,
    /// Only records with this fact; may be given several times
    #[arg(long, value_name = "NAME=VALUE", value_parser = parse_fact)]
    fact: Vec<(FactName, String)>,
    /// Only records since this time: 2026-11-15, 2026-11-15T08:30:00Z, or 2h, 30m, 7d ago
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    since: Option<Timestamp>,
    /// Only records before this time
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    until: Option<Timestamp>,
}

fn parse_fact(text: &str) -> Result<(FactName, String), String> {
    let (name, value) = text.split_once('=').ok_or("a fact is given as NAME=VALUE")?;
    let name = name.parse().map_err(|error: stead::InvalidFact| error.to_string())?;
    Ok((name, value.to_owned()))
}

impl AuditFilter {
    pub(super) fn query(self, session: &Session) -> Result<AuditQuery, CommandError> {
        let path = self.path.as_deref().map(IntoPath::into_path).transpose().map_err(stead::Error::from)?;
        Ok(AuditQuery {
            agent: session.named_agent().map(str::to_owned),
            thread: session.named_thread().map(str::to_owned),
            path,
            call: self.call,
            operation: self.operation,
            outcome: self.outcome,
            facts: self.fact,
            since: self.since,
            until: self.until,
        })
    }
}
