//! Operations by the beginning of their ids.

use stead_core::{Operation, OperationId, OperationIdPrefix};

use crate::error::{Error, Result};
use crate::stead::Stead;
use crate::time_text;

/// Whose operations are looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OperationsOf {
    /// Those of this stead's agent.
    Agent,
    /// Those of every agent, as far as this stead's log shows them.
    Everyone,
}

impl Stead {
    /// The one operation whose id begins with `prefix`. Operations that this stead's log doesn't show don't count.
    ///
    /// A whole id is returned without looking for it.
    pub fn find_operation(&self, prefix: &OperationIdPrefix, of: OperationsOf) -> Result<OperationId> {
        if let Some(id) = prefix.as_whole_id() {
            return Ok(id);
        }
        let agent = match of {
            OperationsOf::Agent => Some(self.vfs().identity().agent.clone()),
            OperationsOf::Everyone => None,
        };
        let found = self.vfs().find_operations(prefix, agent)?;
        match &found[..] {
            [operation] => Ok(operation.id),
            [] => {
                let owner = if of == OperationsOf::Agent { " of yours" } else { "" };
                Err(stead_core::Error::NotInHistory(format!("operation {prefix}{owner}")).into())
            }
            _ => {
                let candidates = found.iter().map(describe).collect();
                Err(Error::AmbiguousOperation { prefix: prefix.clone(), candidates })
            }
        }
    }
}

/// An operation in a list of several: `019a… (write by ann at 2026-11-15 08:30)`.
fn describe(operation: &Operation) -> String {
    let Operation { id, identity, tool, at } = operation;
    format!("{id} ({tool} by {} at {})", identity.agent, time_text::format_minute(*at))
}
