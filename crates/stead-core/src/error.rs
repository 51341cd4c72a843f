//! The errors of the Vfs: sentences that tell the reader, often a model, what to do next.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::edit::{EditError, EditMismatch, MismatchReason};
use crate::glob::GlobError;
use crate::monitor::StopReason;
use crate::name::escape_text;
use crate::path::{PathError, VfsPath};
use crate::router::WorkspaceNames;
use crate::scope::{Access, AccessScope};
use crate::search::{PatternError, UnknownFileType};
use crate::store::{QuotaResource, StoreError, VersionTag};
use crate::vfs::RedirectKind;
use crate::workspace::Barrier;

/// The result of a call to the Vfs.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The few kinds of failure that every surface tells apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorKind {
    /// Nothing exists at the path.
    NotFound,
    /// Something exists at the path already.
    AlreadyExists,
    /// The caller isn't allowed to do it.
    Denied,
    /// The file changed in between; the caller has to read it again.
    Conflict,
    /// The call itself isn't valid.
    Invalid,
    /// The call can't be done here.
    Unsupported,
    /// The call may succeed later.
    Unavailable,
    /// A size limit was exceeded.
    TooLarge,
    /// A quota, or the disk, is full.
    Quota,
    /// The item existed, but is no longer retained.
    Expired,
    /// Stored data is damaged.
    Corrupt,
}

impl ErrorKind {
    /// The stable code, such as `not_found`.
    pub fn code(self) -> &'static str {
        match self {
            ErrorKind::NotFound => "not_found",
            ErrorKind::AlreadyExists => "already_exists",
            ErrorKind::Denied => "denied",
            ErrorKind::Conflict => "conflict",
            ErrorKind::Invalid => "invalid",
            ErrorKind::Unsupported => "unsupported",
            ErrorKind::Unavailable => "unavailable",
            ErrorKind::TooLarge => "too_large",
            ErrorKind::Quota => "quota",
            ErrorKind::Expired => "expired",
            ErrorKind::Corrupt => "corrupt",
        }
    }
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.code())
    }
}

/// Why a call failed. Nothing has changed, except with [`Error::PartiallyApplied`]. Errors hold logical paths only,
/// never paths of the host.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The text isn't a valid path.
    #[error(transparent)]
    Path(#[from] PathError),
    /// The path is in no Workspace. The error doesn't say whether anything exists there.
    #[error("`{path}` is in none of your Workspaces: you have {workspaces}")]
    OutsideWorkspaces {
        /// The path.
        path: VfsPath,
        /// The caller's Workspaces.
        workspaces: WorkspaceNames,
    },
    /// The Workspace's scope doesn't allow the access.
    #[error(
        "`{path}` is in the Workspace `{workspace}`, which is {scope}: {} is not allowed there{}",
        access.gerund(),
        allowed_elsewhere(*access, allowed)
    )]
    ScopeDenied {
        /// The path.
        path: VfsPath,
        /// The Workspace it is in.
        workspace: VfsPath,
        /// That Workspace's scope.
        scope: AccessScope,
        /// The access that was asked for.
        access: Access,
        /// The Workspaces whose scope allows the access.
        allowed: WorkspaceNames,
    },
    /// The rights of an organization's agent don't allow the access.
    #[error(
        "You don't have permission to {} folder '{}'. {note}",
        if access.is_change() { "write to" } else { "read" },
        escape_text(folder)
    )]
    FolderDenied {
        /// The folder's name.
        folder: Arc<str>,
        /// The access that was asked for.
        access: Access,
        /// Who is asking, and where it may do this.
        note: Arc<str>,
    },
    /// The caller had access to the Workspace of this path, and has lost some or all of it meanwhile.
    #[error(
        "{} `{path}` any more: your rights have changed",
        if *is_readable { "you can read, but not change" } else { "you have no access to" }
    )]
    AccessWithdrawn {
        /// The path.
        path: VfsPath,
        /// Whether the caller may still read there.
        is_readable: bool,
    },
    /// With this entry, git would treat its directory as a repository and follow its configuration and hooks.
    #[error(
        "`{path}` is protected in the Workspace `{workspace}`: with this name, git would treat the directory as a \
         repository and obey its configuration and hooks; choose another name, or ask the person who runs Stead to \
         make the change"
    )]
    GitRepository {
        /// The path.
        path: VfsPath,
        /// The Workspace it is in.
        workspace: VfsPath,
    },
    /// A `protect` glob covers the path.
    #[error(
        "`{path}` is protected in the Workspace `{workspace}` and read-only for agents; ask the person who runs Stead \
         to change it"
    )]
    Protected {
        /// The path.
        path: VfsPath,
        /// The Workspace it is in.
        workspace: VfsPath,
    },
    /// A `hide` glob covers the path. The error doesn't say whether anything exists there.
    #[error(
        "`{path}` can't be created or changed: names like this one are hidden from agents in the Workspace \
         `{workspace}`; choose another name, or ask the person who runs Stead"
    )]
    HiddenName {
        /// The path.
        path: VfsPath,
        /// The Workspace it is in.
        workspace: VfsPath,
    },
    /// The Workspace is a barrier: it can't be shown as of the past, or isn't part of a fork.
    #[error("{}", barrier_message(path, workspace, barrier))]
    BehindBarrier {
        /// The path.
        path: VfsPath,
        /// The Workspace it is in.
        workspace: VfsPath,
        /// Why the Workspace is a barrier.
        barrier: Barrier,
    },
    /// An edit or a move in a WRITE_ONLY Workspace of anything but a file that the caller wrote itself. The error
    /// doesn't say whether anything exists there.
    #[error(
        "`{path}` is in the Workspace `{workspace}`, which is WRITE_ONLY: you can only edit or move files there whose \
         whole content you wrote yourself, by the path that the write answered with"
    )]
    NotOwnFile {
        /// The path, as the caller wrote it.
        path: VfsPath,
        /// The Workspace it is in.
        workspace: VfsPath,
    },
    /// The Workspace requires a person's approval, and nobody was asked.
    #[error(
        "`{path}` is in the Workspace `{workspace}`, which needs a person's approval, and nobody was asked"
    )]
    ApprovalRequired {
        /// The path.
        path: VfsPath,
        /// The Workspace it is in.
        workspace: VfsPath,
    },
    /// The tool isn't offered; the text says why.
    #[error("{0}")]
    ToolNotOffered(String),
    /// The target of a symlink or of another redirect is in no Workspace.
    #[error(
        "`{path}` is or goes through a {kind} that leads outside your Workspaces, so it can't be followed"
    )]
    RedirectOutside {
        /// The path as it was written.
        path: VfsPath,
        /// What leads outside.
        kind: RedirectKind,
    },
    /// Following symlinks and other redirects took too many steps; they may form a cycle.
    #[error("`{path}` goes through too many symlinks; they may form a loop")]
    TooManySymlinks {
        /// The path as it was written.
        path: VfsPath,
    },
    /// A change at a path that is or goes through a symlink, where symlinks aren't followed.
    #[error("`{path}` is or goes through a symlink, which isn't followed here; choose another name")]
    SymlinkRefused {
        /// The path as it was written.
        path: VfsPath,
    },
    /// A recursive operation would include another Workspace.
    #[error("`{path}` contains the Workspace `{nested}`, which can't be moved, copied or removed with it")]
    ContainsWorkspace {
        /// The path.
        path: VfsPath,
        /// The Workspace below it.
        nested: VfsPath,
    },
    /// The directory leads to something that isn't part of the fork.
    #[error(
        "`{path}` can't be moved, copied or removed as a whole, because the fork leaves a part of it out; do it with what is in \
         it instead"
    )]
    ContainsExcluded {
        /// The path.
        path: VfsPath,
    },
    /// The root directory of a Workspace can't be moved, replaced or removed.
    #[error("`{path}` is a Workspace; it can't be moved, replaced or removed, only its content can")]
    IsWorkspace {
        /// The path.
        path: VfsPath,
    },
    /// The permission bits of this Workspace's root directory can't be changed, because others use it too.
    #[error(
        "`{path}` is a folder that others use too, so its permission bits can't be changed; change those of what is in it"
    )]
    FixedRootMode {
        /// The path.
        path: VfsPath,
    },
    /// The directory exists only because Workspaces lie below it.
    #[error("`{path}` contains only Workspaces, no files; use a path in one of them")]
    SyntheticDirectory {
        /// The path.
        path: VfsPath,
    },
    /// A rename leads into another Workspace; only a copy can do that.
    #[error("`{from}` and `{to}` are in different Workspaces; copy it, then remove the original")]
    AcrossWorkspaces {
        /// The path to be renamed.
        from: VfsPath,
        /// The new path.
        to: VfsPath,
    },
    /// A whole-file write by a caller that read or wrote an older version.
    #[error("`{path}` has changed since you last read or wrote it; read it again, then write")]
    LostUpdate {
        /// The path.
        path: VfsPath,
    },
    /// The edit isn't valid.
    #[error(transparent)]
    Edit(#[from] EditError),
    /// The search pattern isn't valid.
    #[error(transparent)]
    Pattern(#[from] PatternError),
    /// The glob isn't valid.
    #[error(transparent)]
    Glob(#[from] GlobError),
    /// No file type has this name.
    #[error(transparent)]
    FileType(#[from] UnknownFileType),
    /// The requested line is past the end of the file.
    #[error("`{path}` has {lines} {}; line {offset} is past its end", if *lines == 1 { "line" } else { "lines" })]
    LineOutOfRange {
        /// The path.
        path: VfsPath,
        /// The number of lines in the file.
        lines: u64,
        /// The requested line.
        offset: u64,
    },
    /// The file isn't text.
    #[error("`{path}` is binary; read it as bytes")]
    Binary {
        /// The path.
        path: VfsPath,
    },
    /// A person reviewed or approved something that has changed since it was shown.
    #[error("`{path}` has changed since it was shown for a decision; try again to see it as it is now")]
    ReviewOutdated {
        /// The path; the Workspace, if the fork has changed.
        path: VfsPath,
    },
    /// A key of the State doesn't have the version tag that it should.
    #[error("{}", state_conflict_message(path, *current, *change))]
    StateConflict {
        /// The key, as `state:NAMESPACE/KEY`.
        path: VfsPath,
        /// The version tag that the key has; `None` if the key doesn't exist.
        current: Option<VersionTag>,
        /// What was to be done.
        change: StateChange,
    },
    /// A key of the State exists that should not.
    #[error(
        "`{path}` already exists, with the version_tag {}; to replace it, pass that as `if_match`",
        current.short()
    )]
    StateKeyExists {
        /// The key, as `state:NAMESPACE/KEY`.
        path: VfsPath,
        /// Its version tag.
        current: VersionTag,
    },
    /// A key of the State doesn't exist, or has expired.
    #[error("`{path}` does not exist; list the keys to see what does")]
    NoStateKey {
        /// The key, as `state:NAMESPACE/KEY`.
        path: VfsPath,
    },
    /// A value for the State is too long.
    #[error("the value has {size} bytes; at most {limit} are allowed")]
    StateValueTooLarge {
        /// Its bytes.
        size: u64,
        /// The most bytes.
        limit: u64,
    },
    /// The history has no such item; the text names what was looked for.
    #[error("there is no {0} in the history")]
    NotInHistory(String),
    /// An argument isn't valid; the text says why.
    #[error("{0}")]
    Invalid(String),
    /// A file that was moved between Stores didn't arrive with the content it had; the source is untouched.
    #[error(
        "the copy at `{path}` differs from the source; the copy was removed, and the source is unchanged"
    )]
    CopyMismatch {
        /// The destination.
        path: VfsPath,
    },
    /// The call can't be recorded in the audit log, so it wasn't made.
    #[error("nothing was done, because the audit record can't be written: {0}; try again")]
    AuditUnavailable(#[source] StoreError),
    /// The thread that the call was made in is gone, with its files.
    #[error("the thread has ended, and its files are gone; open the thread again to start with an empty one")]
    ThreadEnded,
    /// The lease of the call's thread can't be renewed, so the call wasn't made.
    #[error("nothing was done, because the lease of the thread can't be renewed: {0}; try again")]
    LeaseUnavailable(#[source] StoreError),
    /// The call was asked to stop, and stopped before anything had changed.
    #[error("{0}")]
    Stopped(StopReason),
    /// An undo or a restore across several Stores was applied in some of them before one failed.
    #[error(
        "completed in `{done}`, but failed in `{left}`: {cause}. Repeat the same call to finish the rest"
    )]
    PartiallyApplied {
        /// A Workspace on the Stores where it was applied.
        done: VfsPath,
        /// A Workspace on the Store that failed.
        left: VfsPath,
        /// Why that Store failed.
        #[source]
        cause: Box<Error>,
    },
    /// An error that a Store returned for a path.
    #[error("{}", store_error_message(path, *visibility, cause))]
    Store {
        /// The path, as the caller knows it.
        path: VfsPath,
        /// Whether the caller may read what is there.
        visibility: Visibility,
        /// The Store's error.
        #[source]
        cause: StoreError,
    },
}

impl Error {
    /// The kind of failure.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Error::Path(_)
            | Error::TooManySymlinks { .. }
            | Error::Edit(_)
            | Error::Pattern(_)
            | Error::Glob(_)
            | Error::FileType(_)
            | Error::LineOutOfRange { .. }
            | Error::Invalid(_) => ErrorKind::Invalid,
            Error::OutsideWorkspaces { .. }
            | Error::ScopeDenied { .. }
            | Error::FolderDenied { .. }
            | Error::AccessWithdrawn { .. }
            | Error::Protected { .. }
            | Error::HiddenName { .. }
            | Error::BehindBarrier { .. }
            | Error::NotOwnFile { .. }
            | Error::GitRepository { .. }
            | Error::ApprovalRequired { .. }
            | Error::ToolNotOffered(_)
            | Error::RedirectOutside { .. }
            | Error::SymlinkRefused { .. }
            | Error::ContainsWorkspace { .. }
            | Error::ContainsExcluded { .. }
            | Error::IsWorkspace { .. }
            | Error::FixedRootMode { .. }
            | Error::SyntheticDirectory { .. } => ErrorKind::Denied,
            Error::LostUpdate { .. } | Error::StateConflict { .. } | Error::ReviewOutdated { .. } => {
                ErrorKind::Conflict
            }
            Error::StateKeyExists { .. } => ErrorKind::AlreadyExists,
            Error::StateValueTooLarge { .. } => ErrorKind::TooLarge,
            Error::NotInHistory(_) | Error::NoStateKey { .. } => ErrorKind::NotFound,
            Error::Binary { .. } | Error::AcrossWorkspaces { .. } => ErrorKind::Unsupported,
            Error::CopyMismatch { .. } => ErrorKind::Corrupt,
            // A full disk is `Quota`, whether it holds files or the audit log.
            Error::AuditUnavailable(StoreError::NoSpace) => ErrorKind::Quota,
            Error::LeaseUnavailable(StoreError::NoSpace) => ErrorKind::Quota,
            Error::AuditUnavailable(_) | Error::LeaseUnavailable(_) | Error::Stopped(_) => {
                ErrorKind::Unavailable
            }
            Error::ThreadEnded => ErrorKind::Expired,
            Error::PartiallyApplied { cause, .. } => cause.kind(),
            Error::Store { visibility: Visibility::Hidden, cause, .. } if cause_reveals_existence(cause) => {
                ErrorKind::Denied
            }
            Error::Store { cause, .. } => cause.kind(),
        }
    }

    /// Whether the full error would reveal to a caller without read access what exists at the path.
    pub(crate) fn reveals_existence(&self) -> bool {
        match self {
            Error::Store { visibility: Visibility::Hidden, cause, .. } => {
                cause_reveals_existence(cause)
                    || matches!(
                        cause,
                        StoreError::AlreadyExists
                            | StoreError::Conflict
                            | StoreError::Protected { .. }
                            | StoreError::ContainsHidden
                            | StoreError::NameTaken { .. }
                    )
            }
            _ => false,
        }
    }

    /// The path, if the error says that nothing exists there, and the caller may know that.
    pub(crate) fn missing_path(&self) -> Option<&VfsPath> {
        match self {
            Error::Store { path, visibility: Visibility::Visible, cause: StoreError::NotFound } => Some(path),
            _ => None,
        }
    }

    /// The Store's error, if this is [`Error::Store`].
    pub fn store_error(&self) -> Option<&StoreError> {
        match self {
            Error::Store { cause, .. } => Some(cause),
            _ => None,
        }
    }
}

/// Whether the caller may read what it changes. In a WRITE_ONLY Workspace it may not, so no message advises it to read
/// something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Visibility {
    /// The caller may read.
    Visible,
    /// The caller may not read.
    Hidden,
}

impl Visibility {
    /// The visibility under this scope.
    pub fn of(scope: AccessScope) -> Self {
        if scope.allows(Access::Read) { Visibility::Visible } else { Visibility::Hidden }
    }
}

/// What a call does with a key of the State.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StateChange {
    /// It sets the key.
    Set,
    /// It deletes the key.
    Delete,
}

/// The message for a key of the State that doesn't have the version tag that it should.
fn state_conflict_message(path: &VfsPath, current: Option<VersionTag>, change: StateChange) -> String {
    match (current, change) {
        (Some(tag), _) => format!(
            "`{path}` has changed: its version_tag is {} now; read it again, then repeat the change with that tag",
            tag.short()
        ),
        (None, StateChange::Set) => format!("`{path}` does not exist; to create it, leave out `if_match`"),
        (None, StateChange::Delete) => format!("`{path}` does not exist, so there is nothing to delete"),
    }
}

/// The message for a path in a Workspace that is a barrier.
fn barrier_message(path: &VfsPath, workspace: &VfsPath, barrier: &Barrier) -> String {
    match barrier {
        Barrier::NotInPast(reason) => {
            format!(
                "`{path}` is in the Workspace `{workspace}`, whose earlier versions can't be read: {reason}"
            )
        }
        Barrier::NotMadeYet => {
            format!("`{path}` is in the fork `{workspace}`, which had not been made at that time")
        }
        Barrier::ExcludedFromFork => format!(
            "`{path}` is not part of the fork: `{workspace}` was a nested Workspace when the fork was made, so the \
             fork doesn't contain it"
        ),
        Barrier::ThreadFiles => format!(
            "`{path}` isn't part of the Workspace around it: the directory `{workspace}` is reserved for the files of \
             threads; choose another path"
        ),
    }
}

/// The end of a refusal: the Workspaces where the access would be allowed.
fn allowed_elsewhere(access: Access, allowed: &WorkspaceNames) -> String {
    if allowed.is_empty() {
        return format!("; you have no Workspace to {} in", access.verb());
    }
    format!("; you may {} in {allowed}", access.verb())
}

/// A Store's error as a sentence about a path, with what to do next if the caller can do something.
fn store_error_message(path: &VfsPath, visibility: Visibility, cause: &StoreError) -> String {
    match visibility {
        Visibility::Visible => visible_message(path, cause),
        Visibility::Hidden => hidden_message(path, cause),
    }
}

/// Whether a Store's error reveals what exists, so that a caller without read access gets a less exact message.
fn cause_reveals_existence(cause: &StoreError) -> bool {
    matches!(
        cause,
        StoreError::NotFound
            | StoreError::NotADirectory
            | StoreError::IsADirectory
            | StoreError::NotEmpty
            | StoreError::Special(_)
            | StoreError::Link(_)
            | StoreError::HostDenied
    )
}

/// The message for a caller without read access: it neither advises to read nor reveals what exists.
fn hidden_message(path: &VfsPath, cause: &StoreError) -> String {
    match cause {
        cause if cause_reveals_existence(cause) => format!("`{path}` can't be changed; choose another name"),
        StoreError::Conflict => {
            format!("`{path}` doesn't have the expected version, so nothing was changed")
        }
        StoreError::EditMismatch(mismatch) => {
            format!("{}{}", mismatch.prefix(), hidden_mismatch(path, mismatch))
        }
        StoreError::TooLarge { limit, .. }
        | StoreError::OverQuota { on: QuotaResource::FileBytes, allowed: limit, .. } => {
            format!("`{path}` would be too large; at most {limit} bytes are allowed")
        }
        StoreError::OverQuota { on, allowed, .. } => {
            format!(
                "`{path}` was not written: {}",
                StoreError::OverQuotaUndisclosed { on: *on, allowed: *allowed }
            )
        }
        other => visible_message(path, other),
    }
}

fn hidden_mismatch(path: &VfsPath, mismatch: &EditMismatch) -> String {
    match mismatch.reason {
        MismatchReason::NotFound(_) => format!("`{path}` doesn't contain the text to replace"),
        MismatchReason::Ambiguous { .. } => format!(
            "`{path}` contains the text to replace more than once; give more of the text around it, or replace all"
        ),
        MismatchReason::Unencodable { .. } => {
            format!("the new text can't be written in the encoding of `{path}`; write the whole file instead")
        }
        MismatchReason::Binary | MismatchReason::IncompleteEnd { .. } => {
            format!("`{path}` can't be edited as a text; write the whole file instead")
        }
    }
}

fn visible_message(path: &VfsPath, cause: &StoreError) -> String {
    match cause {
        StoreError::NotFound => format!("`{path}` does not exist; list its directory to see what does"),
        StoreError::AlreadyExists => {
            format!("`{path}` already exists; choose another name, or overwrite it if this call can")
        }
        StoreError::NotADirectory => format!("`{path}`, or one of its parents, is not a directory"),
        StoreError::IsADirectory => format!("`{path}` is a directory; list it instead, or name a file in it"),
        StoreError::NotEmpty => format!("`{path}` is not empty; remove it recursively, or empty it first"),
        StoreError::Conflict => {
            format!("`{path}` has changed since it was read; read it again, then repeat the change")
        }
        StoreError::EditMismatch(mismatch) => format!("{}`{path}` {mismatch}", mismatch.prefix()),
        StoreError::Special(kind) => {
            format!("`{path}` is or contains a {kind}, which can't be read, written or copied")
        }
        StoreError::IntoItself => format!("`{path}` can't be moved or copied into itself"),
        StoreError::Protected { path: inner } if inner == "." => format!(
            "`{path}` can't be moved, copied or removed as a whole: it is protected and read-only for agents"
        ),
        StoreError::Protected { path: inner } => {
            format!(
                "`{path}` can't be moved, copied or removed as a whole: `{inner}` is protected and read-only for agents"
            )
        }
        StoreError::ContainsHidden => format!(
            "`{path}` can't be moved or removed as a whole: it contains names that are hidden from agents, here or where it \
             would go; move or remove the rest of it"
        ),
        StoreError::NameTaken { .. } => format!(
            "`{path}` is protected: with this name, git would treat the directory as a repository and obey its \
             configuration and hooks; choose another name, or ask the person who runs Stead to make the change"
        ),
        StoreError::TooLarge { size, limit } => {
            format!("`{path}` is or would be too large, with {size} bytes; at most {limit} are allowed")
        }
        StoreError::InvalidName(reason) => format!("the name of `{path}` isn't allowed here: {reason}"),
        StoreError::HostDenied => {
            format!("the host doesn't allow Stead to access `{path}`; its owner has to allow it")
        }
        StoreError::NoSpace => format!(
            "no space is left on the disk of `{path}` or of Stead's own state, so nothing was done; delete something, \
             or ask for more space: `stead gc` frees what is no longer needed"
        ),
        StoreError::OverQuota { .. } | StoreError::OverQuotaUndisclosed { .. } => {
            format!("`{path}` was not written: {cause}")
        }
        StoreError::Corrupt(detail) => {
            format!(
                "the stored data of `{path}` is damaged: {detail}; `stead verify` lists all damage, and `stead \
                 restore-backup` restores a backup"
            )
        }
        StoreError::Link(_) => format!("`{path}` is a symlink"),
        StoreError::Stopped(reason) => reason.to_string(),
        StoreError::Invalid(detail) => format!("`{path}`: {detail}"),
        StoreError::Unsupported(detail) => format!("`{path}`: {detail}"),
        StoreError::LeaseExpired => format!("`{path}` was not changed: {cause}"),
        StoreError::Expired(detail) => format!("`{path}`: {detail}"),
        StoreError::Unavailable { what: detail, .. } => {
            format!("`{path}` can't be reached right now: {detail}; try again")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_says_where_it_would_be_allowed() {
        let path = |text: &str| VfsPath::parse(text).unwrap();
        let error = Error::ScopeDenied {
            path: path("/docs/a.md"),
            workspace: path("/docs"),
            scope: AccessScope::ReadOnly,
            access: Access::Write,
            allowed: [&path("/notes")].into_iter().collect(),
        };
        assert_eq!(
            error.to_string(),
            "`/docs/a.md` is in the Workspace `/docs`, which is READ_ONLY: writing is not allowed there; \
             you may write in `/notes`"
        );
        assert_eq!(error.kind().code(), "denied");
        let none = Error::OutsideWorkspaces { path: path("/x"), workspaces: WorkspaceNames::default() };
        assert_eq!(none.to_string(), "`/x` is in none of your Workspaces: you have none");
    }
}
