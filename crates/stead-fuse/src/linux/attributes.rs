//! Attributes and times in the kernel's form.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fuser::{FileAttr, FileType, INodeNo, TimeOrNow};
use stead_core::Timestamp;
use stead_core::store::{Attr, NodeKind, SpecialKind};

/// The number of bytes that a program should read or write at once.
const PREFERRED_IO_SIZE: u32 = 128 << 10;

/// The attributes of the node with this inode number.
pub(crate) fn file_attr(ino: u64, attr: &Attr, links: u32, (uid, gid): (u32, u32)) -> FileAttr {
    let modified = system_time(attr.modified);
    FileAttr {
        ino: INodeNo(ino),
        size: attr.size,
        blocks: attr.size.div_ceil(512),
        atime: modified,
        mtime: modified,
        ctime: system_time(attr.changed),
        crtime: attr.created.map_or(UNIX_EPOCH, system_time),
        kind: file_type(attr.kind),
        perm: u16::try_from(attr.mode & 0o7777).expect("twelve bits fit"),
        nlink: links,
        uid,
        gid,
        rdev: 0,
        blksize: PREFERRED_IO_SIZE,
        flags: 0,
    }
}

/// The link count of everything that has a name, also of a directory. Two would tell programs that walk a tree that the
/// directory has no subdirectories; one tells them that subdirectories are not counted.
pub(crate) const LINK_COUNT: u32 = 1;

pub(crate) fn file_type(kind: NodeKind) -> FileType {
    match kind {
        NodeKind::File => FileType::RegularFile,
        NodeKind::Directory => FileType::Directory,
        NodeKind::Symlink => FileType::Symlink,
        NodeKind::Special(SpecialKind::Fifo) => FileType::NamedPipe,
        NodeKind::Special(SpecialKind::Socket) => FileType::Socket,
        NodeKind::Special(SpecialKind::Device) => FileType::CharDevice,
    }
}

pub(crate) fn system_time(time: Timestamp) -> SystemTime {
    let nanos = Duration::from_nanos(time.0.unsigned_abs());
    let converted = if time.0 < 0 { UNIX_EPOCH.checked_sub(nanos) } else { UNIX_EPOCH.checked_add(nanos) };
    converted.unwrap_or(UNIX_EPOCH)
}

pub(crate) fn timestamp(time: TimeOrNow) -> Timestamp {
    match time {
        TimeOrNow::SpecificTime(time) => kernel_timestamp(time),
        TimeOrNow::Now => SystemTime::now().into(),
    }
}

/// Corrects a time before 1970. The kernel counts nanoseconds forward from whole seconds, also before 1970, but fuser
/// 0.18 counts them backward there.
fn kernel_timestamp(time: SystemTime) -> Timestamp {
    match time.duration_since(UNIX_EPOCH) {
        Ok(_) => time.into(),
        Err(before) => {
            let before = before.duration();
            let seconds = i64::try_from(before.as_secs()).map_or(i64::MIN, |seconds| -seconds);
            Timestamp(Timestamp::from_secs(seconds).0.saturating_add(i64::from(before.subsec_nanos())))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_before_and_after_1970_survive() {
        for nanos in [0, 1, -1, 1_700_000_000_123_456_789, -5_000_000_000] {
            assert_eq!(Timestamp::from(system_time(Timestamp(nanos))), Timestamp(nanos));
        }
    }

    #[test]
    fn a_time_before_1970_is_the_one_that_the_kernel_means() {
        // Two seconds before 1970, and 0.8 seconds forward from there.
        let kernel_time = UNIX_EPOCH - Duration::new(2, 800_000_000);
        assert_eq!(timestamp(TimeOrNow::SpecificTime(kernel_time)), Timestamp(-1_200_000_000));
        assert_eq!(
            timestamp(TimeOrNow::SpecificTime(UNIX_EPOCH - Duration::new(2, 0))),
            Timestamp::from_secs(-2)
        );
    }
}
