//! What a step may do with what is at its paths: the rules of every Store, as functions of values.

use crate::store::{IfMissing, NodeKind, Parents, Replace, StepOutcome, StoreError, StoreResult, Subtree};

/// The two ends of a rename, as a Store finds them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RenameEnds {
    /// The kind of the node to rename.
    pub from: NodeKind,
    /// The kind of the node at the new path, if one is there. It isn't the node to rename.
    pub to: Option<NodeKind>,
    /// Whether the new path is inside the directory to rename.
    pub to_is_inside: bool,
    /// Whether the node to rename is inside the directory at the new path.
    pub from_is_inside: bool,
}

impl RenameEnds {
    /// Checks that the rename may be made. `is_empty` is asked about the directory at the new path.
    pub fn check<E: From<StoreError>>(
        self,
        replace: Replace,
        is_empty: impl FnOnce() -> Result<bool, E>,
    ) -> Result<(), E> {
        use NodeKind::Directory;
        let error = match (replace, self.from, self.to) {
            _ if self.to_is_inside => StoreError::IntoItself,
            (Replace::Exchange, _, Some(_)) if self.from_is_inside => StoreError::IntoItself,
            (Replace::Exchange, _, None) => StoreError::NotFound,
            (Replace::Refuse, _, Some(_)) => StoreError::AlreadyExists,
            (Replace::Overwrite, Directory, Some(Directory)) if !is_empty()? => StoreError::NotEmpty,
            (Replace::Overwrite, Directory, Some(Directory)) => return Ok(()),
            (Replace::Overwrite, Directory, Some(_)) => StoreError::NotADirectory,
            (Replace::Overwrite, _, Some(Directory)) => StoreError::IsADirectory,
            (Replace::Overwrite | Replace::Exchange, _, Some(_))
            | (Replace::Refuse | Replace::Overwrite, _, None) => return Ok(()),
        };
        Err(error.into())
    }
}

impl Replace {
    /// Checks that a node may be copied to a path where `to` is, or nothing.
    pub fn check_copy(self, from: NodeKind, to: Option<NodeKind>) -> StoreResult<()> {
        match (self, to) {
            (Replace::Exchange, _) => {
                Err(StoreError::Invalid("a copy can't exchange two paths; rename can".to_owned()))
            }
            (Replace::Refuse | Replace::Overwrite, None) => Ok(()),
            (Replace::Refuse, Some(_)) => Err(StoreError::AlreadyExists),
            (Replace::Overwrite, Some(_)) if from == NodeKind::Directory => Err(StoreError::AlreadyExists),
            (Replace::Overwrite, Some(NodeKind::Directory)) => Err(StoreError::IsADirectory),
            (Replace::Overwrite, Some(special @ NodeKind::Special(_))) => Err(StoreError::Special(special)),
            (Replace::Overwrite, Some(NodeKind::File | NodeKind::Symlink)) => Ok(()),
        }
    }

    /// The error of a copy to its own path.
    pub fn copy_to_itself_error(self) -> StoreError {
        match self {
            Replace::Refuse => StoreError::AlreadyExists,
            _ => StoreError::Invalid("it can't be copied to its own path".to_owned()),
        }
    }
}

impl Subtree {
    /// Checks that a removal may remove a node of this kind.
    pub fn check(self, kind: NodeKind) -> StoreResult<()> {
        match (self, kind == NodeKind::Directory) {
            (Subtree::File, true) => Err(StoreError::IsADirectory),
            (Subtree::EmptyDirectory | Subtree::Directory, false) => Err(StoreError::NotADirectory),
            (Subtree::File | Subtree::Any, false)
            | (Subtree::EmptyDirectory | Subtree::Directory | Subtree::Any, true) => Ok(()),
        }
    }
}

impl IfMissing {
    /// The outcome of a removal where nothing is.
    pub fn outcome(self) -> StoreResult<StepOutcome> {
        match self {
            IfMissing::Fail => Err(StoreError::NotFound),
            IfMissing::Ignore => Ok(StepOutcome::default()),
        }
    }
}

impl Parents {
    /// Checks that a directory may be made where a node of this kind is: an existing directory may stay. With
    /// [`Parents::Create`], a symlink has to be followed before.
    pub fn check_mkdir(self, existing: NodeKind) -> StoreResult<()> {
        match (self, existing) {
            (Parents::Create, NodeKind::Directory) => Ok(()),
            _ => Err(StoreError::AlreadyExists),
        }
    }
}

/// Checks that a symlink may have this target.
pub fn check_symlink_target(target: &[u8]) -> StoreResult<()> {
    if target.is_empty() || target.contains(&0) {
        return Err(StoreError::Invalid(
            "a symlink's target can't be empty or contain a NUL byte".to_owned(),
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::NodeKind::{Directory, File, Special, Symlink};
    use super::Replace::{Exchange, Overwrite, Refuse};
    use super::*;
    use crate::store::SpecialKind;

    const FIFO: NodeKind = Special(SpecialKind::Fifo);

    fn outcome(result: StoreResult<()>) -> String {
        result.map_or_else(|error| format!("{error:?}"), |()| "ok".to_owned())
    }

    #[test]
    fn what_a_rename_may_replace() {
        for (from, to, expected) in [
            (File, None, ["ok", "ok", "NotFound"]),
            (Directory, None, ["ok", "ok", "NotFound"]),
            (File, Some(File), ["AlreadyExists", "ok", "ok"]),
            (Symlink, Some(File), ["AlreadyExists", "ok", "ok"]),
            (File, Some(Symlink), ["AlreadyExists", "ok", "ok"]),
            (File, Some(FIFO), ["AlreadyExists", "ok", "ok"]),
            (FIFO, Some(File), ["AlreadyExists", "ok", "ok"]),
            (File, Some(Directory), ["AlreadyExists", "IsADirectory", "ok"]),
            (Symlink, Some(Directory), ["AlreadyExists", "IsADirectory", "ok"]),
            (Directory, Some(File), ["AlreadyExists", "NotADirectory", "ok"]),
            (Directory, Some(Symlink), ["AlreadyExists", "NotADirectory", "ok"]),
            (Directory, Some(Directory), ["AlreadyExists", "NotEmpty", "ok"]),
        ] {
            let ends = RenameEnds { from, to, to_is_inside: false, from_is_inside: false };
            let results =
                [Refuse, Overwrite, Exchange].map(|replace| outcome(ends.check(replace, || Ok(false))));
            assert_eq!(results, expected, "{ends:?}");
        }
        let directories =
            RenameEnds { from: Directory, to: Some(Directory), to_is_inside: false, from_is_inside: false };
        assert_eq!(outcome(directories.check(Overwrite, || Ok(true))), "ok");
    }

    #[test]
    fn a_directory_is_never_renamed_into_itself() {
        let into = RenameEnds { from: Directory, to: None, to_is_inside: true, from_is_inside: false };
        let out_of =
            RenameEnds { from: File, to: Some(Directory), to_is_inside: false, from_is_inside: true };
        let check = |ends: RenameEnds| {
            [Refuse, Overwrite, Exchange].map(|replace| outcome(ends.check(replace, || Ok(false))))
        };
        assert_eq!(check(into), ["IntoItself"; 3]);
        assert_eq!(check(RenameEnds { to: Some(File), ..into }), ["IntoItself"; 3]);
        assert_eq!(check(out_of), ["AlreadyExists", "IsADirectory", "IntoItself"]);
    }

    #[test]
    fn what_a_copy_may_replace() {
        for (from, to, expected) in [
            (File, None, ["ok", "ok"]),
            (Directory, None, ["ok", "ok"]),
            (File, Some(File), ["AlreadyExists", "ok"]),
            (File, Some(Symlink), ["AlreadyExists", "ok"]),
            (Symlink, Some(File), ["AlreadyExists", "ok"]),
            (File, Some(Directory), ["AlreadyExists", "IsADirectory"]),
            (File, Some(FIFO), ["AlreadyExists", "Special(Special(Fifo))"]),
            (Directory, Some(Directory), ["AlreadyExists", "AlreadyExists"]),
            (Directory, Some(File), ["AlreadyExists", "AlreadyExists"]),
        ] {
            let results = [Refuse, Overwrite].map(|replace| outcome(replace.check_copy(from, to)));
            assert_eq!(results, expected, "{from:?} {to:?}");
            assert!(matches!(Exchange.check_copy(from, to), Err(StoreError::Invalid(_))));
        }
    }

    #[test]
    fn what_a_removal_and_a_mkdir_may_find() {
        use Subtree::{Any, EmptyDirectory};
        let removals = |kind| {
            [Subtree::File, EmptyDirectory, Subtree::Directory, Any]
                .map(|subtree| outcome(subtree.check(kind)))
        };
        assert_eq!(removals(Directory), ["IsADirectory", "ok", "ok", "ok"]);
        for kind in [File, Symlink, FIFO] {
            assert_eq!(removals(kind), ["ok", "NotADirectory", "NotADirectory", "ok"]);
            assert_eq!(outcome(Parents::Create.check_mkdir(kind)), "AlreadyExists");
        }
        assert_eq!(outcome(Parents::Create.check_mkdir(Directory)), "ok");
        assert_eq!(outcome(Parents::Required.check_mkdir(Directory)), "AlreadyExists");
    }
}
