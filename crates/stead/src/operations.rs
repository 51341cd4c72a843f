//! Operations by the beginning of their ids.

use stead_core::{Operation, OperationId, OperationIdPrefix};

use crate::error::{Error, Result};
use crate::stead::Stead;
use crate::time_text;

impl Stead {
    /// The one operation whose id begins with `prefix`. Operations that this stead's log doesn't show don't count.
    ///
    /// A whole id is returned without looking for it.
    pub fn find_operation(&self, prefix: &OperationIdPrefix) -> Result<OperationId> {
        if let Some(id) = prefix.as_whole_id() {
            return Ok(id);
        }
        let found = self.vfs().find_operations(prefix)?;
        match &found[..] {
            [operation] => Ok(operation.id),
            [] => Err(stead_core::Error::NotInHistory(format!("operation {prefix}")).into()),
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
