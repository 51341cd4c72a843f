//! What a writer is told about the quotas of a folder.

use crate::error::{Error, ErrorKind};
use crate::path::VfsPath;
use crate::store::{QuotaLimits, Usage};
use crate::tools::{Failure, Note};
use crate::vfs::Vfs;

/// A warning, if 90 % of a quota that the path counts against are used.
pub(super) fn quota_warning(vfs: &Vfs, path: &VfsPath) -> Option<String> {
    let quotas = vfs.quota_usage(path).unwrap_or_default();
    let (limits, usage) = quotas.into_iter().find(|(limits, usage)| is_nearly_used(limits, usage))?;
    let used = describe_usage(&limits, &usage)?;
    Some(format!("nearly full: {used} are used; delete something, or ask for a higher quota"))
}

/// What a caller has to know about a change that was made: that it can't be undone, or that a quota is nearly used.
pub(super) fn change_warning(vfs: &Vfs, path: &VfsPath, not_kept: u64) -> Option<String> {
    let lost = (not_kept > 0).then(|| Note::NotKept(not_kept).to_string());
    let warnings: Vec<_> = lost.into_iter().chain(quota_warning(vfs, path)).collect();
    (!warnings.is_empty()).then(|| warnings.join("; "))
}

/// The failure of a write. If a quota is full, it says how much of it is used.
pub(super) fn write_failure(vfs: &Vfs, path: &VfsPath, error: Error) -> Failure {
    let failure = Failure::from(error);
    if failure.kind != ErrorKind::Quota {
        return failure;
    }
    let quotas = vfs.quota_usage(path).unwrap_or_default();
    // Where the usage isn't disclosed, nothing seems to be used.
    let mut disclosed = quotas.into_iter().filter(|(_, usage)| *usage != Usage::default());
    match disclosed.find_map(|(limits, usage)| describe_usage(&limits, &usage)) {
        Some(used) => Failure { message: format!("{}. Used: {used}", failure.message), ..failure },
        None => failure,
    }
}

fn is_nearly_used(limits: &QuotaLimits, usage: &Usage) -> bool {
    let is_nearly = |limit: Option<u64>, used: u64| {
        limit.is_some_and(|limit| u128::from(used) * 10 >= u128::from(limit) * 9 && used > 0)
    };
    is_nearly(limits.bytes, usage.bytes) || is_nearly(limits.files, usage.files)
}

fn describe_usage(limits: &QuotaLimits, usage: &Usage) -> Option<String> {
    let bytes = limits.bytes.map(|limit| format!("{} of {limit} bytes", usage.bytes));
    let files = limits.files.map(|limit| format!("{} of {limit} files", usage.files));
    let parts: Vec<_> = bytes.into_iter().chain(files).collect();
    (!parts.is_empty()).then(|| parts.join(" and "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn f113_the_warning_begins_at_90_percent_of_the_bytes_or_the_files() {
        let limits = QuotaLimits { bytes: Some(100), files: Some(10), file_bytes: None };
        let is_nearly_used = |bytes, files| is_nearly_used(&limits, &Usage { bytes, files });
        assert!(!is_nearly_used(89, 8) && is_nearly_used(90, 1) && is_nearly_used(1, 9));
        let usage = Usage { bytes: 90, files: 2 };
        assert_eq!(describe_usage(&limits, &usage).unwrap(), "90 of 100 bytes and 2 of 10 files");
        assert_eq!(describe_usage(&QuotaLimits::default(), &usage), None);
    }
}
