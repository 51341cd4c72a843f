//! Content that is read or written piece by piece: open files, drafts and sealed drafts.

use std::any::Any;
use std::fmt;

use crate::store::{Attr, NodePath, StoreResult};

/// A file opened for reading. It shows the content as of the opening, whatever happens to the name since.
pub trait OpenContent: Send + Sync {
    /// The attributes as of the opening.
    fn attr(&self) -> Attr;

    /// Reads at an offset and returns the number of bytes read, which is smaller than the buffer only at the end of the
    /// file.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> StoreResult<usize>;

    /// Whether the file has been removed. Asked only if the Store no longer finds the node. A Store that loses track of
    /// a node when another program moves it answers `false` for a file that still has a name in the Store.
    fn is_removed(&self) -> bool {
        true
    }

    /// The same file as it is now, for a Store that is refused to open it again, for example because the mode has
    /// changed: what an open file allows was decided when it was opened. `None` if the Store can always open it again.
    fn reopen(&self) -> StoreResult<Option<Box<dyn OpenContent>>> {
        Ok(None)
    }

    /// A draft of the file as it is now, for the same reason; `None` if an open file can't or needn't provide one.
    fn draft(&self) -> StoreResult<Option<Box<dyn Draft>>> {
        Ok(None)
    }
}

/// What a draft starts from.
#[derive(Debug, Clone, Copy)]
pub enum DraftBase<'a> {
    /// Nothing: the content is written from the start.
    Empty,
    /// The current content of a file, to be changed in places.
    ///
    /// Writing the draft back to its own node changes only the written parts, and doesn't rewrite a large file.
    File(&'a NodePath),
}

/// Content being written. Nobody sees it until a change puts it in place.
pub trait Draft: Send + Sync {
    /// The current size in bytes.
    fn size(&self) -> u64;

    /// Reads at an offset, including what was written to the draft.
    fn read_at(&mut self, offset: u64, buffer: &mut [u8]) -> StoreResult<usize>;

    /// Writes at an offset. A gap between the old end and the offset reads as zeros.
    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> StoreResult<()>;

    /// Truncates the draft, or extends it with zeros.
    fn set_size(&mut self, size: u64) -> StoreResult<()>;

    /// What was written so far, for use in a change. Nothing may be written until the change has been applied or
    /// refused.
    ///
    /// The draft stays. If the change is refused, the draft still holds all that was written, and can be written to and
    /// sealed again. Once the change has been applied, the draft must not be used any more.
    fn seal(&mut self) -> StoreResult<SealedContent>;
}

/// A complete draft, to be used in a change on the Store that made it.
pub struct SealedContent {
    size: u64,
    inner: Box<dyn Any + Send>,
}

impl SealedContent {
    /// Wraps what the Store needs to know about the draft. Dropping `inner` unused must free its storage.
    pub fn new(size: u64, inner: impl Any + Send) -> Self {
        SealedContent { size, inner: Box::new(inner) }
    }

    /// The content's size in bytes.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// What the Store passed to `new`, if it has this type.
    pub fn into_inner<T: Any>(self) -> Option<T> {
        self.inner.downcast().ok().map(|inner| *inner)
    }

    /// A view of what the Store passed to `new`, if it has this type.
    pub fn as_inner<T: Any>(&self) -> Option<&T> {
        self.inner.downcast_ref()
    }
}

impl fmt::Debug for SealedContent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SealedContent({} bytes)", self.size)
    }
}
