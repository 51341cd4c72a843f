//! Whatever an agent does in a WRITE_ONLY Workspace, it can't find out whether a name there is taken.
//!
//! Two steads differ only in that. The test makes the same calls in both. After each call the agent looks at everything
//! that it may see: the versions that its other changes make, the log, the dry run of an undo, listings, tags. All of
//! it has to be the same, except for times and random ids.

mod commands;
mod compared_stead;
mod mounts;
mod tools;

use compared_stead::Occupant;

/// What a call needs to be at its path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Needs {
    /// Nothing: the answer is the same whatever is there.
    Nothing,
    /// Room for a file. If a directory has the name, or a file is on the way, the call has to fail, and the failure
    /// reveals that something is there.
    Room,
    /// A file of the agent's own. The answer may reveal whether it is one.
    OwnFile,
}

/// Where a call acts: at the name that may be taken, or below it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum At {
    Name,
    Below,
}

impl Needs {
    /// Whether the answer must not depend on what is there.
    fn hides_occupant(self, occupant: Occupant, at: At) -> bool {
        use Occupant::{
            EmptyDirectory, File, FullDirectory, Own, OwnDeleted, Protected, Symlink, WithHidden,
        };
        match (self, at) {
            (Needs::Nothing, _) => true,
            (Needs::OwnFile, _) => !matches!(occupant, Own | OwnDeleted),
            (Needs::Room, At::Name) => {
                !matches!(occupant, EmptyDirectory | FullDirectory | Protected | WithHidden)
            }
            (Needs::Room, At::Below) => !matches!(occupant, File | Own | Symlink),
        }
    }
}
