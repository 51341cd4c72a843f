//! Access Scopes: what an agent may do in a Workspace.
//!
//! ```
//! use stead_core::{Access, AccessScope};
//!
//! assert!(AccessScope::ReadOnly.allows(Access::Read) && !AccessScope::ReadOnly.allows(Access::Write));
//! assert!(AccessScope::WriteOnly.allows(Access::Write) && !AccessScope::WriteOnly.allows(Access::Read));
//! assert_eq!("rw".parse(), Ok(AccessScope::ReadWrite));
//! ```

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// What a Workspace allows. It never changes once the Workspace is mounted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "&'static str")]
pub enum AccessScope {
    /// Reading, no changes.
    ReadOnly,
    /// Reading and changing.
    ReadWrite,
    /// Changing without reading: no reply reveals what exists.
    WriteOnly,
}

/// What an operation needs from the scope of the Workspace it acts on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Access {
    /// Read, list, stat, exists, search; the source of a copy.
    Read,
    /// Write, edit, append, mkdir, delete, move within; the destination of a copy or a move.
    Write,
    /// Read and write at once: the source of a move to another Workspace.
    MoveOut,
    /// Log, diff, reading as of the past, snapshots, and the base of a fork.
    History,
    /// Restore, undo, and the target of a merge.
    Restore,
}

impl AccessScope {
    /// All three scopes.
    pub const ALL: [AccessScope; 3] = [AccessScope::ReadOnly, AccessScope::ReadWrite, AccessScope::WriteOnly];

    /// Whether this scope allows the access. Every access decision uses this table.
    pub fn allows(self, access: Access) -> bool {
        use AccessScope::*;
        match access {
            Access::Read | Access::History => matches!(self, ReadOnly | ReadWrite),
            Access::Write => matches!(self, ReadWrite | WriteOnly),
            Access::MoveOut | Access::Restore => matches!(self, ReadWrite),
        }
    }

    /// The name in configuration and in messages: `READ_ONLY`.
    pub fn name(self) -> &'static str {
        match self {
            AccessScope::ReadOnly => "READ_ONLY",
            AccessScope::ReadWrite => "READ_WRITE",
            AccessScope::WriteOnly => "WRITE_ONLY",
        }
    }

    /// The two-letter name: `RO`.
    pub fn short_name(self) -> &'static str {
        match self {
            AccessScope::ReadOnly => "RO",
            AccessScope::ReadWrite => "RW",
            AccessScope::WriteOnly => "WO",
        }
    }
}

impl Access {
    /// Whether the access changes something.
    pub fn is_change(self) -> bool {
        matches!(self, Access::Write | Access::MoveOut | Access::Restore)
    }

    /// The access as a gerund, for messages: "… is not allowed there".
    pub fn gerund(self) -> &'static str {
        match self {
            Access::Read => "reading",
            Access::Write => "writing",
            Access::MoveOut => "moving files out",
            Access::History => "reading its history",
            Access::Restore => "restoring",
        }
    }

    /// The access as an infinitive, for messages: "you may … in".
    pub fn verb(self) -> &'static str {
        match self {
            Access::Read => "read",
            Access::Write => "write",
            Access::MoveOut => "move files out",
            Access::History => "read history",
            Access::Restore => "restore",
        }
    }
}

impl fmt::Display for AccessScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The text isn't one of the three scopes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` isn't a valid Access Scope; use READ_ONLY (ro), READ_WRITE (rw) or WRITE_ONLY (wo)")]
pub struct UnknownScope(String);

impl FromStr for AccessScope {
    type Err = UnknownScope;
    fn from_str(text: &str) -> Result<Self, UnknownScope> {
        match text {
            "READ_ONLY" | "ro" => Ok(AccessScope::ReadOnly),
            "READ_WRITE" | "rw" => Ok(AccessScope::ReadWrite),
            "WRITE_ONLY" | "wo" => Ok(AccessScope::WriteOnly),
            other => Err(UnknownScope(other.to_owned())),
        }
    }
}

impl TryFrom<String> for AccessScope {
    type Error = UnknownScope;
    fn try_from(text: String) -> Result<Self, UnknownScope> {
        text.parse()
    }
}

impl From<AccessScope> for &'static str {
    fn from(scope: AccessScope) -> &'static str {
        scope.name()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_of_scopes_and_accesses() {
        use AccessScope::*;
        let table = [
            (Access::Read, [true, true, false]),
            (Access::Write, [false, true, true]),
            (Access::MoveOut, [false, true, false]),
            (Access::History, [true, true, false]),
            (Access::Restore, [false, true, false]),
        ];
        for (access, allowed) in table {
            assert_eq!(
                [ReadOnly, ReadWrite, WriteOnly].map(|scope| scope.allows(access)),
                allowed,
                "{access:?}"
            );
        }
    }

    #[test]
    fn a_scope_has_a_long_and_a_short_name() {
        for scope in AccessScope::ALL {
            assert_eq!(scope.name().parse(), Ok(scope));
            assert_eq!(scope.short_name().to_lowercase().parse(), Ok(scope));
        }
        assert!("RO".parse::<AccessScope>().unwrap_err().to_string().contains("READ_WRITE (rw)"));
        let scopes: [AccessScope; 3] = serde_json::from_str(r#"["ro", "READ_WRITE", "wo"]"#).unwrap();
        assert_eq!(serde_json::to_string(&scopes).unwrap(), r#"["READ_ONLY","READ_WRITE","WRITE_ONLY"]"#);
        assert_eq!(scopes.map(|scope| scope.to_string()), ["READ_ONLY", "READ_WRITE", "WRITE_ONLY"]);
    }

    #[test]
    fn every_access_has_words() {
        let words = [Access::Read, Access::Write, Access::MoveOut, Access::History, Access::Restore]
            .map(|access| (access.gerund(), access.verb()));
        assert_eq!(
            words,
            [
                ("reading", "read"),
                ("writing", "write"),
                ("moving files out", "move files out"),
                ("reading its history", "read history"),
                ("restoring", "restore"),
            ]
        );
    }
}
