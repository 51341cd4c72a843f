//! What a process that was killed has left behind: its records are put into the database, and its chain is signed.

use std::sync::Arc;

use stead_core::{Clock, StoreError, StoreResult, SystemClock};

use super::super::database::Shared;
use super::super::queue::Weight;
use super::body::without_the_begun;
use super::chain::Chain;
use super::head::Key;
use super::place::{Place, Running};
use super::spool::{left_in, unwritable};

/// Puts in order what instances that run no longer have left.
pub(super) fn recover(shared: &Arc<Shared>, place: &Place, key: &Key) -> StoreResult<()> {
    for running in place.abandoned()? {
        match recover_one(shared, place, key, running) {
            // It stays where it is, for when there is room. Others have to work on a full disk meanwhile.
            Err(StoreError::NoSpace) => return Ok(()),
            recovered => recovered?,
        }
    }
    Ok(())
}

fn recover_one(shared: &Arc<Shared>, place: &Place, key: &Key, running: Running) -> StoreResult<()> {
    let left = left_in(&running.directory).map_err(|error| unwritable(&error))?;
    let (uuid, key) = (running.uuid, key.clone());
    let head = shared.write_reserved(Weight::Seal, move |writing| {
        let mut chain = Chain::load(writing.conn, uuid)?;
        // A drained file is emptied after its records are in: what is in already is not put in again.
        let before = chain.spooled;
        let left = left.into_iter().filter(|(number, _)| *number >= before).collect();
        for (number, facts) in without_the_begun(left) {
            writing.appending.append(writing.conn, &mut chain, &facts)?;
            chain.spooled = number + 1;
        }
        let Some(row) = chain.row else { return Ok(None) };
        chain.save(writing.conn)?;
        let head = key.sign(&chain, SystemClock.now());
        head.insert(writing.conn, row)?;
        Ok(Some(head))
    })?;
    place.end(running, head.as_ref())
}
