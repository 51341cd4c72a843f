//! What the numbers were measured on, and when.

use std::fs;
use std::path::Path;

use stead_core::{Clock, SystemClock};

use crate::Result;
use crate::case::Effort;

/// A line of Markdown.
pub fn describe(data: &Path, effort: Effort) -> Result<String> {
    let cores = std::thread::available_parallelism()?;
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_else(|_| "unknown".to_owned());
    let mounts = fs::read_to_string("/proc/mounts").unwrap_or_default();
    let file_system = file_system(&mounts, &fs::canonicalize(data)?).unwrap_or("unknown");
    let now = SystemClock.now().to_string();
    let (date, time) = (&now[..10], &now[11..16]);
    let effort = match effort {
        Effort::Full => "",
        Effort::Quick => ", quick: few rounds",
    };
    let (system, kernel) = (std::env::consts::OS, kernel.trim());
    Ok(format!("*{cores} cores, {system} {kernel}, {file_system}, {date} {time} UTC{effort}*"))
}

/// The kind of the file system that holds a path.
fn file_system<'a>(mounts: &'a str, path: &Path) -> Option<&'a str> {
    let fields = |line: &'a str| {
        let mut fields = line.split(' ').skip(1);
        Some((fields.next()?, fields.next()?))
    };
    let containing =
        mounts.lines().filter_map(fields).filter(|(mount_point, _)| path.starts_with(mount_point));
    containing.max_by_key(|(mount_point, _)| mount_point.len()).map(|(_, fs_type)| fs_type)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_mount_point_wins() {
        let mounts = "/dev/a / ext4 rw 0 0\ntmpfs /tmp tmpfs rw 0 0\ntmpfs /tm xfs rw 0 0\n";
        assert_eq!(file_system(mounts, Path::new("/tmp/x")), Some("tmpfs"));
        assert_eq!(file_system(mounts, Path::new("/home")), Some("ext4"));
    }
}
