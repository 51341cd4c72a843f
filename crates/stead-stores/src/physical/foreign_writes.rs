//! Notices that another program writes to a file while a change acts on it.
//!
//! Each action of a change sets the file's times, and so hides a write by another program that came just before it. The
//! attributes are therefore compared right before each action with those right after the one before. A write that falls
//! into the same instant as an action, between the two calls of the host, can't be noticed.

use std::os::fd::AsFd;

use stead_core::Timestamp;
use stead_core::store::{Attr, VersionTag};

use super::host::{self, HostResult, HostStat};

/// What is known of a file while a change acts on it.
#[derive(Debug)]
pub(super) struct ForeignWrites {
    /// The attributes after the last action of the change, or from before the first one.
    last: HostStat,
    are_noticed: bool,
}

impl ForeignWrites {
    /// Watches a file from `stat` on.
    pub(super) fn since(stat: &HostStat) -> Self {
        ForeignWrites { last: *stat, are_noticed: false }
    }

    /// Call it right before an action.
    pub(super) fn before_action(&mut self, file: impl AsFd) -> HostResult<()> {
        self.are_noticed |= !host::stat(file)?.has_same_content(&self.last);
        Ok(())
    }

    /// Call it right after an action that has written or changed the length.
    pub(super) fn after_write(&mut self, file: impl AsFd) -> HostResult<()> {
        self.last = host::stat(file)?;
        Ok(())
    }

    /// Call it right after an action that has set the mode.
    pub(super) fn after_mode(&mut self, file: impl AsFd) -> HostResult<()> {
        let modified = self.last.modified;
        self.after_time(file, modified)
    }

    /// Call it right after an action that has set this modification time.
    pub(super) fn after_time(&mut self, file: impl AsFd, modified: Timestamp) -> HostResult<()> {
        let size = self.last.size;
        self.last = host::stat(file)?;
        self.are_noticed |= (self.last.size, self.last.modified) != (size, modified);
        Ok(())
    }

    /// Notes that an action itself met another program's write.
    pub(super) fn notice(&mut self) {
        self.are_noticed = true;
    }

    /// The attributes after the last action.
    ///
    /// If another program has written, the file also holds what the caller has not seen. Then the tag matches nothing: a
    /// change that uses it as its precondition is refused, and a cache that compares it drops what it has.
    pub(super) fn attr(&self) -> Attr {
        let attr = self.last.attr();
        if self.are_noticed { Attr { tag: VersionTag(fastrand::u128(..)), ..attr } } else { attr }
    }

    /// The size after the last action.
    pub(super) fn size(&self) -> u64 {
        self.last.size
    }
}
