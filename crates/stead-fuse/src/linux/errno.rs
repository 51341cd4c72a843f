//! What a program is told when the door says no.

use fuser::Errno;
use stead_core::path::PathError;
use stead_core::{Access, AccessScope, Error, StoreError, Visibility};

/// The number for an error.
pub(crate) fn errno(error: &Error) -> Errno {
    match error {
        Error::Path(
            PathError::ComponentTooLong { .. } | PathError::TooLong { .. } | PathError::TooDeep { .. },
        ) => Errno::ENAMETOOLONG,
        Error::Path(PathError::NotText(_)) => Errno::EILSEQ,
        Error::Scope { scope: AccessScope::ReadOnly, access: Access::Write, .. } => Errno::EROFS,
        Error::Protected { .. } | Error::Repository { .. } | Error::NotOffered(_) => Errno::EPERM,
        Error::Outside { .. }
        | Error::Scope { .. }
        | Error::Ask { .. }
        | Error::Withheld { .. }
        | Error::NotYourOwn { .. }
        | Error::LeadsOutside { .. }
        | Error::OnlyLeadsThere { .. } => Errno::EACCES,
        Error::TooManyLinks { .. } => Errno::ELOOP,
        Error::HoldsWorkspace { .. } | Error::IsWorkspace { .. } => Errno::EBUSY,
        Error::OtherWorkspace { .. } => Errno::EXDEV,
        Error::ReadAgain { .. } => Errno::ESTALE,
        Error::NoHistory(_) => Errno::ENOENT,
        Error::Binary { .. } => Errno::EOPNOTSUPP,
        Error::Unrecorded(StoreError::NoSpace) => Errno::ENOSPC,
        Error::Unrecorded(_) | Error::Garbled { .. } => Errno::EIO,
        Error::Stopped(_) => Errno::EINTR,
        Error::Path(_)
        | Error::Edit(_)
        | Error::Pattern(_)
        | Error::Glob(_)
        | Error::PastTheEnd { .. }
        | Error::Invalid(_) => Errno::EINVAL,
        Error::Partly { cause, .. } => errno(cause),
        // Where nothing may be looked at, what is in the way is not told.
        Error::Store {
            sight: Visibility::Blind,
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

/// The number for what a Store says.
pub(crate) fn store_errno(cause: &StoreError) -> Errno {
    match cause {
        StoreError::NotFound => Errno::ENOENT,
        StoreError::AlreadyExists => Errno::EEXIST,
        StoreError::NotADirectory => Errno::ENOTDIR,
        StoreError::IsADirectory => Errno::EISDIR,
        StoreError::NotEmpty => Errno::ENOTEMPTY,
        // Another is there by now: the host looks again, and asks again.
        StoreError::Conflict | StoreError::Link(_) | StoreError::Expired(_) => Errno::ESTALE,
        StoreError::Special(_) => Errno::ENXIO,
        StoreError::Spared { .. } | StoreError::NotFree { .. } => Errno::EPERM,
        StoreError::TooLarge { .. } => Errno::EFBIG,
        StoreError::OverQuota { .. } | StoreError::AtLimit { .. } => Errno::EDQUOT,
        StoreError::NoSpace => Errno::ENOSPC,
        StoreError::HostDenied => Errno::EACCES,
        StoreError::Unsupported(_) => Errno::EOPNOTSUPP,
        StoreError::IntoItself
        | StoreError::Name(_)
        | StoreError::Invalid(_)
        | StoreError::NoMatch
        | StoreError::Ambiguous(_) => Errno::EINVAL,
        StoreError::Stopped(_) => Errno::EINTR,
        StoreError::Unavailable { .. } | StoreError::Corrupt(_) => Errno::EIO,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_has_one_number_whether_the_file_or_its_record_finds_no_room() {
        let path = stead_core::VfsPath::root();
        let sight = stead_core::Visibility::Sees;
        let written = Error::Store { path, sight, cause: StoreError::NoSpace };
        for error in [written, Error::Unrecorded(StoreError::NoSpace)] {
            assert_eq!((errno(&error), error.kind().code()), (Errno::ENOSPC, "quota"));
        }
    }
}
