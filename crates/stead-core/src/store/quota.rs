//! How much may lie below a place, counted and checked in the change itself.

use std::fmt;

use crate::store::{Attr, NodeKind, StoreError, StorePath};

/// A place that something is counted below, and how much may lie there.
///
/// A Store counts everything below a root, whoever puts it there, from the first change that names the root on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuotaRoot {
    /// The place, from the Store's root.
    pub root: StorePath,
    /// Other places of the Store that count together with it. None of them lies in another.
    pub other_roots: Vec<StorePath>,
    /// What is allowed below it.
    pub limits: QuotaLimits,
    /// What counts along, but lies in other Stores.
    pub usage_elsewhere: Usage,
}

/// What is allowed; whatever is `None` has no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct QuotaLimits {
    /// The bytes of all files together.
    pub bytes: Option<u64>,
    /// Files and symlinks.
    pub files: Option<u64>,
    /// The bytes of any one file that is written or comes from elsewhere. What the Store has kept may come back: it was
    /// there before.
    pub file_bytes: Option<u64>,
}

/// How much there is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Usage {
    /// The bytes of all files together.
    pub bytes: u64,
    /// Files and symlinks.
    pub files: u64,
}

impl Usage {
    /// Counts one entry: everything but a directory is a file, and a regular file's bytes count.
    pub fn count(&mut self, attr: &Attr) {
        if attr.kind != NodeKind::Directory {
            self.files += 1;
        }
        if attr.kind == NodeKind::File {
            self.bytes += attr.size;
        }
    }
}

/// What there is too much of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QuotaResource {
    /// Bytes of all files together.
    Bytes,
    /// Files and symlinks.
    Files,
    /// Bytes of one file.
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
    /// What is left of this without that.
    pub fn minus(self, other: Usage) -> Usage {
        Usage { bytes: self.bytes.saturating_sub(other.bytes), files: self.files.saturating_sub(other.files) }
    }

    /// This and that together.
    pub fn plus(self, other: Usage) -> Usage {
        Usage { bytes: self.bytes.saturating_add(other.bytes), files: self.files.saturating_add(other.files) }
    }
}

impl QuotaLimits {
    /// Whether nothing is limited.
    pub fn is_unlimited(&self) -> bool {
        *self == QuotaLimits::default()
    }

    /// Judges one file's size.
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
    /// A place that counts alone.
    pub fn new(root: StorePath, limits: QuotaLimits) -> Self {
        QuotaRoot { root, other_roots: Vec::new(), limits, usage_elsewhere: Usage::default() }
    }

    /// All places that count together.
    pub fn roots(&self) -> impl Iterator<Item = &StorePath> {
        std::iter::once(&self.root).chain(&self.other_roots)
    }

    /// Judges what lies below the root before and after a change. What is over the limit already may shrink.
    pub fn check(&self, before: Usage, after: Usage) -> Result<(), StoreError> {
        let (before, after) = (before.plus(self.usage_elsewhere), after.plus(self.usage_elsewhere));
        let judge = |on, allowed: Option<u64>, used: u64, wanted: u64| match allowed {
            Some(allowed) if wanted > allowed && wanted > used => {
                Err(StoreError::OverQuota { on, used, wanted, allowed })
            }
            _ => Ok(()),
        };
        judge(QuotaResource::Bytes, self.limits.bytes, before.bytes, after.bytes)?;
        judge(QuotaResource::Files, self.limits.files, before.files, after.files)
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
        let over = root(10, 2).check(usage(4, 1), usage(11, 2)).unwrap_err();
        assert_eq!(
            over.to_string(),
            "it would take 11 bytes, and 10 are allowed; 4 are in use. Remove something, or ask for more"
        );
        assert!(root(10, 2).check(usage(0, 2), usage(0, 3)).is_err());
    }

    #[test]
    fn what_is_over_already_may_shrink_but_not_grow() {
        assert!(root(10, 2).check(usage(50, 9), usage(40, 9)).is_ok());
        assert!(root(10, 2).check(usage(50, 9), usage(51, 9)).is_err());
    }

    #[test]
    fn what_lies_elsewhere_counts() {
        let root = QuotaRoot { usage_elsewhere: usage(8, 0), ..root(10, 2) };
        assert!(root.check(usage(0, 0), usage(2, 1)).is_ok());
        assert!(root.check(usage(0, 0), usage(3, 1)).is_err());
    }
}
