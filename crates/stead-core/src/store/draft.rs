//! Content that is read or written piece by piece.

use std::any::Any;
use std::fmt;

use crate::store::{Attr, NodePath, StoreResult};

/// A file that was opened for reading: its content as it was then, whatever happens to the name.
pub trait OpenContent: Send + Sync {
    /// The attributes when it was opened.
    fn attr(&self) -> Attr;

    /// Reads at an offset, and returns how many bytes it got: fewer than asked for only at the end.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> StoreResult<usize>;

    /// Whether it has been removed, where the Store does not find its node any more. A Store that does not find what
    /// others have moved says so here.
    fn is_removed(&self) -> bool {
        true
    }

    /// The same file as it is now, for a Store that is denied to open it again: what whoever has it open may do was decided
    /// when it was opened. `None` where no Store is ever denied that.
    fn reopen(&self) -> StoreResult<Option<Box<dyn OpenContent>>> {
        Ok(None)
    }

    /// A draft of the file as it is now, for the same reason.
    fn draft(&self) -> StoreResult<Option<Box<dyn Draft>>> {
        Ok(None)
    }
}

/// What a draft starts from.
#[derive(Debug, Clone, Copy)]
pub enum DraftBase<'a> {
    /// Nothing: content that is written from the start.
    Empty,
    /// What is there now, to be written into here and there.
    ///
    /// Putting it back at its own node changes what was written and keeps the rest, and does not rewrite a large file.
    File(&'a NodePath),
}

/// Content in the making. Nobody sees it before a change puts it somewhere.
pub trait Draft: Send + Sync {
    /// How long it is.
    fn size(&self) -> u64;

    /// Reads at an offset, what was written included.
    fn read_at(&mut self, offset: u64, buffer: &mut [u8]) -> StoreResult<usize>;

    /// Writes at an offset. A gap before it reads as zeros.
    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> StoreResult<()>;

    /// Cuts it, or lengthens it with zeros.
    fn set_size(&mut self, size: u64) -> StoreResult<()>;

    /// What was written so far, for a change. Nothing may be written while the change is being made.
    ///
    /// The draft stays. Where the change is refused, the draft holds all that was written, as before, and can be written to
    /// and sealed again. Where the change is made, the draft is of no more use.
    fn seal(&mut self) -> StoreResult<SealedContent>;
}

/// A complete draft, for the Store that made it.
pub struct SealedContent {
    size: u64,
    inner: Box<dyn Any + Send>,
}

impl SealedContent {
    /// Wraps what a Store knows of its draft. Dropping it unused has to free what it took.
    pub fn new(size: u64, inner: impl Any + Send) -> Self {
        SealedContent { size, inner: Box::new(inner) }
    }

    /// How many bytes it has.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// What the Store put in, if it is of that type.
    pub fn into_inner<T: Any>(self) -> Option<T> {
        self.inner.downcast().ok().map(|inner| *inner)
    }

    /// A view of what the Store put in, if it is of that type.
    pub fn as_inner<T: Any>(&self) -> Option<&T> {
        self.inner.downcast_ref()
    }
}

impl fmt::Debug for SealedContent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Sealed({} bytes)", self.size)
    }
}
