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
    pub(crate) fn read(place: &AuditDirectory) -> StoreResult<Self> {
        // In this order: an instance that ends in between is found in one of the two.
        let at_least = place.running_instances()?.into_iter().map(|uuid| (uuid, 0));
        let mut at_least: HashMap<Uuid, i64> = at_least.collect();
        let marks = place.running_chain_ends()?;
        let exact = marks.iter().filter(|(_, marks)| marks.same_boot);
        at_least.extend(exact.map(|(uuid, marks)| (*uuid, marks.confirmed.seq)));
        let running = place.running_heads()?;
        let (mut ended, mut findings, mut archives) = (Vec::new(), Vec::new(), Vec::new());
        for line in place.lines()? {
            match line {
                HeadsLine::Head(head) => ended.push(head),
                HeadsLine::Finding(found) => {
                    findings.push(format!("{} (found at {})", found.finding, found.at));
                }
                HeadsLine::Archive(archive) => archives.push(archive),
            }
        }
        let key = place.existing_key()?.map(|key| key.public());
        let without_key = marks.iter().filter(|(_, marks)| Some(marks.key) != key).map(|(uuid, _)| *uuid);
        let without_key = without_key.collect();
        Ok(ExternalState {
            key,
            ended_heads: ended,
            running_heads: running,
            least_positions: at_least,
            instances_without_key: without_key,
            findings,
            archives,
        })
    }

    /// Whether an instance is running, or has a head of its end.
    pub(crate) fn knows_instance(&self, uuid: &Uuid) -> bool {
        self.least_positions.contains_key(uuid) || self.ended_heads.iter().any(|head| head.instance == *uuid)
    }
}
