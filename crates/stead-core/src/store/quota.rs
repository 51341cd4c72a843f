//! Quotas: how much the directories of a Store may hold, counted and checked within the change itself.

use std::fmt;

use crate::store::{Attr, NodeKind, StoreError, StorePath};

/// A directory whose content is counted, and the limits for it.
///
/// A Store counts everything below a root, regardless of who put it there, from the first change that names the root.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct QuotaRoot {
    /// The directory, from the Store's root.
    pub root: StorePath,
    /// Other directories of the Store whose content counts together with it. None of them lies inside another.
    pub other_roots: Vec<StorePath>,
    /// The limits for all of them together.
    pub limits: QuotaLimits,
    /// What counts towards the same limits in other Stores.
    pub usage_elsewhere: Usage,
}

/// Limits; `None` means unlimited.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct QuotaLimits {
    /// The total bytes of all files.
    pub bytes: Option<u64>,
    /// The number of files and symlinks.
    pub files: Option<u64>,
    /// The bytes of any single file that is written or brought in from outside. Content that the Store holds already
    /// may come back even if it is larger.
    pub file_bytes: Option<u64>,
}

/// How much is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Usage {
    /// The total bytes of all files.
    pub bytes: u64,
    /// The number of files and symlinks.
    pub files: u64,
}

impl Usage {
    /// Adds one node: anything but a directory counts as a file, and only a regular file's bytes count.
    pub fn count(&mut self, attr: &Attr) {
        if attr.kind != NodeKind::Directory {
            self.files += 1;
        }
        if attr.kind == NodeKind::File {
            self.bytes += attr.size;
        }
    }
}

/// The resource that a quota limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QuotaResource {
    /// The total bytes of all files.
    Bytes,
    /// The number of files and symlinks.
    Files,
    /// The bytes of one file.
    FileBytes,
}

impl fmt::Display for QuotaResource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            QuotaResource::Bytes => "bytes",
            QuotaResource::Files => "files",
            QuotaResource::FileBytes => "bytes in one file",
        })
    }
}

impl Usage {
    /// This usage less `other`, never below zero.
    pub fn minus(self, other: Usage) -> Usage {
        Usage { bytes: self.bytes.saturating_sub(other.bytes), files: self.files.saturating_sub(other.files) }
    }

    /// The sum of this usage and `other`.
    pub fn plus(self, other: Usage) -> Usage {
        Usage { bytes: self.bytes.saturating_add(other.bytes), files: self.files.saturating_add(other.files) }
    }
}

impl QuotaLimits {
    /// Whether there is no limit at all.
    pub fn is_unlimited(&self) -> bool {
        *self == QuotaLimits::default()
    }

    /// Checks a single file's size against the limit for one file.
    pub fn check_file_size(&self, size: u64) -> Result<(), StoreError> {
        match self.file_bytes {
            Some(allowed) if size > allowed => {
                Err(StoreError::OverQuota { on: QuotaResource::FileBytes, used: 0, wanted: size, allowed })
            }
            _ => Ok(()),
        }
    }
}

impl QuotaRoot {
    /// A quota for one directory that counts alone.
    pub fn new(root: StorePath, limits: QuotaLimits) -> Self {
        QuotaRoot { root, other_roots: Vec::new(), limits, usage_elsewhere: Usage::default() }
    }

    /// All directories that count together.
    pub fn roots(&self) -> impl Iterator<Item = &StorePath> {
        std::iter::once(&self.root).chain(&self.other_roots)
    }

    /// Checks the usage below the roots after a change against the limits. A change that doesn't increase the usage
    /// passes, even above the limit.
    pub fn check(&self, before: Usage, after: Usage) -> Result<(), StoreError> {
        let (before, after) = (before.plus(self.usage_elsewhere), after.plus(self.usage_elsewhere));
        let check_limit = |on, allowed: Option<u64>, used: u64, wanted: u64| match allowed {
            Some(allowed) if wanted > allowed && wanted > used => {
                Err(StoreError::OverQuota { on, used, wanted, allowed })
            }
            _ => Ok(()),
        };
        check_limit(QuotaResource::Bytes, self.limits.bytes, before.bytes, after.bytes)?;
        check_limit(QuotaResource::Files, self.limits.files, before.files, after.files)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn root(bytes: u64, files: u64) -> QuotaRoot {
        let limits = QuotaLimits { bytes: Some(bytes), files: Some(files), file_bytes: None };
        QuotaRoot::new(StorePath::empty(), limits)
    }

    fn usage(bytes: u64, files: u64) -> Usage {
        Usage { bytes, files }
    }

    #[test]
    fn a_limit_may_be_reached_and_not_passed() {
        assert!(root(10, 2).check(usage(0, 0), usage(10, 2)).is_ok());
        let error = root(10, 2).check(usage(4, 1), usage(11, 2)).unwrap_err();
        assert_eq!(
            error.to_string(),
            "this would use 11 bytes, but only 10 are allowed; 4 are in use. Delete something, or ask for a higher \
             quota"
        );
        assert!(root(10, 2).check(usage(0, 2), usage(0, 3)).is_err());
    }

    #[test]
    fn usage_over_the_limit_may_shrink_but_not_grow() {
        assert!(root(10, 2).check(usage(50, 9), usage(40, 9)).is_ok());
        assert!(root(10, 2).check(usage(50, 9), usage(51, 9)).is_err());
    }

    #[test]
    fn usage_elsewhere_counts() {
        let root = QuotaRoot { usage_elsewhere: usage(8, 0), ..root(10, 2) };
        assert!(root.check(usage(0, 0), usage(2, 1)).is_ok());
        assert!(root.check(usage(0, 0), usage(3, 1)).is_err());
    }
}
