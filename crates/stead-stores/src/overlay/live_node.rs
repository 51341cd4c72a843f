//! Node ids for files of a host directory, in a range of their own, which they keep when the fork takes them over.
//!
//! The id of a file is its inode number with a mark. If the base layer has a node of this number already, the host has given the
//! inode to another file since, or the file has two names: then it has a further *life*, a number beside the first one.

use stead_core::store::NodeId;

/// The mark. The ids that the database gives out itself never reach it.
const MARK: u64 = 1 << 62;
/// How many bits of an id hold the inode number.
const INODE_BITS: u32 = 54;
const INODE_MASK: u64 = (1 << INODE_BITS) - 1;
/// How many lives one inode number can have.
const LIVES: u64 = 128;

/// Whether a node id stands for a file of a host directory.
pub(super) fn is_live_node(node: i64) -> bool {
    node.cast_unsigned() & MARK != 0
}

/// The bits of an inode number that its node ids have, if a node id is one of an inode's.
pub(super) fn inode_bits_of(node: i64) -> Option<u64> {
    is_live_node(node).then_some(node.cast_unsigned() & INODE_MASK)
}

/// The bits of an inode number that its node ids have.
///
/// Some file systems use the upper bits of inode numbers. Then two files could get one id, with a probability of 1 in 2^54.
pub(super) fn low_bits(inode: NodeId) -> u64 {
    match inode.0 {
        small if small <= INODE_MASK => small,
        large => {
            let hash = blake3::hash(&large.to_le_bytes());
            u64::from_le_bytes(*hash.as_bytes().first_chunk().expect("a hash has 32 bytes")) & INODE_MASK
        }
    }
}

/// The first id of an inode for which `is_used` is false; `None` if all are used.
pub(super) fn unused_id<E>(
    inode: NodeId,
    mut is_used: impl FnMut(i64) -> Result<bool, E>,
) -> Result<Option<i64>, E> {
    let low_bits = low_bits(inode);
    for life in 0..LIVES {
        let id = (MARK | life << INODE_BITS | low_bits).cast_signed();
        if !is_used(id)? {
            return Ok(Some(id));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::collections::HashSet;
    use std::convert::Infallible;

    use super::*;

    #[test]
    fn an_inode_gets_a_further_id_each_time_its_last_one_is_used() {
        let mut used = HashSet::new();
        for inode in [0, 1, 12_345, INODE_MASK, u64::MAX, u64::MAX - 1] {
            for _ in 0..LIVES {
                let id =
                    unused_id(NodeId(inode), |id| Ok::<_, Infallible>(used.contains(&id))).unwrap().unwrap();
                assert!(id > 0 && is_live_node(id) && used.insert(id));
            }
            assert_eq!(unused_id(NodeId(inode), |id| Ok::<_, Infallible>(used.contains(&id))), Ok(None));
        }
        assert!(!is_live_node(1 << 61));
    }
}
