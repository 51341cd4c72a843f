//! The one door.

/// Placeholder while the port settles.
#[derive(Debug)]
pub struct Vfs;
