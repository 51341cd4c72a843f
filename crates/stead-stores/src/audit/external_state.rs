//! What the files beside the database say about the audit, read without the database.

use std::collections::HashMap;

use stead_core::StoreResult;
use uuid::Uuid;

use crate::audit::directory::{AuditDirectory, HeadsLine, RememberedArchive};
use crate::audit::head::SignedHead;

/// What the files beside the database say.
pub(crate) struct ExternalState {
    pub(crate) key: Option<[u8; 32]>,
    pub(crate) ended_heads: Vec<SignedHead>,
    pub(crate) running_heads: Vec<SignedHead>,
    /// The running instances, and the position that the chain of each has reached at least.
    pub(crate) least_positions: HashMap<Uuid, i64>,
    /// The instances that run or were killed, and whose key isn't the one in the audit's directory.
    pub(crate) instances_without_key: Vec<Uuid>,
    pub(crate) findings: Vec<String>,
    pub(crate) archives: Vec<RememberedArchive>,
}

impl ExternalState {
    pub(crate) fn read(audit_directory: &AuditDirectory) -> StoreResult<Self> {
        // In this order: an instance that ends in between is found in one of the two.
        let least_positions = audit_directory.running_instances()?.into_iter().map(|uuid| (uuid, 0));
        let mut least_positions: HashMap<Uuid, i64> = least_positions.collect();
        let chain_ends = audit_directory.running_chain_ends()?;
        let of_this_boot = chain_ends.iter().filter(|(_, state)| state.same_boot);
        least_positions.extend(of_this_boot.map(|(uuid, state)| (*uuid, state.confirmed.seq)));
        let running_heads = audit_directory.running_heads()?;
        let (mut ended_heads, mut findings, mut archives) = (Vec::new(), Vec::new(), Vec::new());
        for line in audit_directory.lines()? {
            match line {
                HeadsLine::Head(head) => ended_heads.push(head),
                HeadsLine::Finding(finding) => {
                    findings.push(format!("{} (found at {})", finding.finding, finding.at));
                }
                HeadsLine::Archive(archive) => archives.push(archive),
            }
        }
        let key = audit_directory.existing_key()?.map(|key| key.public());
        let instances_without_key =
            chain_ends.iter().filter(|(_, state)| Some(state.key) != key).map(|(uuid, _)| *uuid);
        let instances_without_key = instances_without_key.collect();
        Ok(ExternalState {
            key,
            ended_heads,
            running_heads,
            least_positions,
            instances_without_key,
            findings,
            archives,
        })
    }

    /// Whether an instance is running, or has a head of its end.
    pub(crate) fn knows_instance(&self, uuid: &Uuid) -> bool {
        self.least_positions.contains_key(uuid) || self.ended_heads.iter().any(|head| head.instance == *uuid)
    }
}
