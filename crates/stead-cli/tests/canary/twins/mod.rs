//! Whatever an agent does in a WRITE_ONLY Workspace, it can't find out whether a name there is taken.
//!
//! Two worlds are the same but for that. The same calls are made in both, and after each of them the agent looks at all
//! that it may see: the versions that its other changes make, the log, what an undo would do, listings, tags. All of it
//! has to be the same, but for times and random ids.

mod commands;
mod mounts;
mod tools;
mod world;

use world::There;

/// What is done at a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Needs {
    /// It is answered in the same way whatever is there.
    Nothing,
    /// A file is put there. Where a directory has the name, or a file is on the way, that has to fail, and the failure tells
    /// that something is there.
    Room,
    /// The file has to be the agent's own, which the answer tells by the rules.
    OwnFile,
}

/// Where something is done: at the name that may be taken, or below it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum At {
    Name,
    Below,
}

impl Needs {
    /// Whether the answer may not depend on what is there.
    fn is_silent(self, there: There, at: At) -> bool {
        use There::{EmptyDirectory, File, FullDirectory, Own, OwnGone, Protected, Symlink};
        match (self, at) {
            (Needs::Nothing, _) => true,
            (Needs::OwnFile, _) => !matches!(there, Own | OwnGone),
            (Needs::Room, At::Name) => !matches!(there, EmptyDirectory | FullDirectory | Protected),
            (Needs::Room, At::Below) => !matches!(there, File | Own | Symlink),
        }
    }
}
