//! The error number that a program gets for each error of the door.

use fuser::Errno;
use stead_core::path::PathError;
use stead_core::{Access, AccessScope, Error, StoreError, Visibility};

/// The error number of an error of the door.
pub(crate) fn errno(error: &Error) -> Errno {
    match error {
        Error::Path(
            PathError::ComponentTooLong { .. } | PathError::TooLong { .. } | PathError::TooDeep { .. },
        ) => Errno::ENAMETOOLONG,
        Error::Path(PathError::NotUtf8(_)) => Errno::EILSEQ,
        Error::ScopeDenied { scope: AccessScope::ReadOnly, access: Access::Write, .. }
        // Of the scopes, only READ_ONLY refuses a write.
        | Error::FolderDenied { access: Access::Write, .. } => Errno::EROFS,
        Error::Protected { .. }
        | Error::GitRepository { .. }
        | Error::FixedRootMode { .. }
        | Error::ToolNotOffered(_) => Errno::EPERM,
        Error::OutsideWorkspaces { .. }
        | Error::ScopeDenied { .. }
        | Error::FolderDenied { .. }
        | Error::AccessWithdrawn { .. }
        | Error::ApprovalRequired { .. }
        | Error::BehindBarrier { .. }
        | Error::NotOwnFile { .. }
        | Error::HiddenName { .. }
        | Error::RedirectOutside { .. }
        | Error::SymlinkRefused { .. }
        | Error::SyntheticDirectory { .. } => Errno::EACCES,
        Error::TooManySymlinks { .. } => Errno::ELOOP,
        Error::ContainsWorkspace { .. } | Error::ContainsExcluded { .. } | Error::IsWorkspace { .. } => {
            Errno::EBUSY
        }
        Error::AcrossWorkspaces { .. } => Errno::EXDEV,
        // No path leads to the State, so these errors don't come from a mount's calls.
        Error::LostUpdate { .. } | Error::StateConflict { .. } | Error::ReviewOutdated { .. } => Errno::ESTALE,
        Error::StateKeyExists { .. } => Errno::EEXIST,
        Error::StateValueTooLarge { .. } => Errno::EFBIG,
        Error::NotInHistory(_) | Error::NoStateKey { .. } => Errno::ENOENT,
        Error::Binary { .. } => Errno::EOPNOTSUPP,
        Error::AuditUnavailable(StoreError::NoSpace) => Errno::ENOSPC,
        Error::AuditUnavailable(_) | Error::CopyMismatch { .. } => Errno::EIO,
        Error::Stopped(_) => Errno::EINTR,
        Error::Path(_)
        | Error::Edit(_)
        | Error::Pattern(_)
        | Error::Glob(_)
        | Error::FileType(_)
        | Error::LineOutOfRange { .. }
        | Error::Invalid(_) => Errno::EINVAL,
        Error::LeaseUnavailable(cause) => store_errno(cause),
        // Not ESTALE, on which the kernel would try again: every further call fails, too.
        Error::ThreadEnded => Errno::EIO,
        Error::PartiallyApplied { cause, .. } => errno(cause),
        // In a WRITE_ONLY Workspace, the error must not reveal what is there.
        Error::Store {
            visibility: Visibility::Hidden,
            cause:
                StoreError::NotADirectory
                | StoreError::IsADirectory
                | StoreError::NotEmpty
                | StoreError::Special(_),
            ..
        } => Errno::EACCES,
        Error::Store { cause, .. } => store_errno(cause),
    }
}

/// The error number of a Store's error.
pub(crate) fn store_errno(cause: &StoreError) -> Errno {
    match cause {
        StoreError::NotFound => Errno::ENOENT,
        StoreError::AlreadyExists => Errno::EEXIST,
        StoreError::NotADirectory => Errno::ENOTDIR,
        StoreError::IsADirectory => Errno::EISDIR,
        StoreError::NotEmpty => Errno::ENOTEMPTY,
        // Something else is there now. On ESTALE, the kernel looks the name up again and retries.
        StoreError::Conflict | StoreError::Link(_) | StoreError::Expired(_) => Errno::ESTALE,
        StoreError::Special(_) => Errno::ENXIO,
        StoreError::Protected { .. } | StoreError::NameTaken { .. } => Errno::EPERM,
        StoreError::TooLarge { .. } => Errno::EFBIG,
        StoreError::OverQuota { .. } | StoreError::OverQuotaUndisclosed { .. } => Errno::EDQUOT,
        StoreError::NoSpace => Errno::ENOSPC,
        StoreError::HostDenied | StoreError::ContainsHidden => Errno::EACCES,
        StoreError::Unsupported(_) => Errno::EOPNOTSUPP,
        StoreError::IntoItself
        | StoreError::InvalidName(_)
        | StoreError::Invalid(_)
        | StoreError::EditMismatch(_) => Errno::EINVAL,
        StoreError::Stopped(_) => Errno::EINTR,
        StoreError::Unavailable { .. } | StoreError::LeaseExpired | StoreError::Corrupt(_) => Errno::EIO,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_has_one_number_for_a_file_and_for_its_audit_record() {
        let path = stead_core::VfsPath::root();
        let visibility = stead_core::Visibility::Visible;
        let store_error = Error::Store { path, visibility, cause: StoreError::NoSpace };
        for error in [store_error, Error::AuditUnavailable(StoreError::NoSpace)] {
            assert_eq!((errno(&error), error.kind().code()), (Errno::ENOSPC, "quota"));
        }
    }
}
