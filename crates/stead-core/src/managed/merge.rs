//! What a merge of a fork does to the rows of managed files: tags are merged as sets, and a new file keeps where it came from.

use crate::clock::Timestamp;
use crate::managed::{ManifestEdit, Tags};
use crate::store::{RevisionNumber, StorePath};

/// Where a file came from, as its row says.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct FileOrigin {
    /// The name that the file was first written with.
    pub original_name: Option<String>,
    /// The tool that wrote it last.
    pub source_tool: Option<String>,
    /// When it was first written, or found.
    pub created_at: Timestamp,
    /// The session in which it was created.
    pub session_key: Option<String>,
}

impl FileOrigin {
    /// The origin of a file of which only its name and its first time are known.
    pub fn new(original_name: Option<String>, created_at: Timestamp) -> Self {
        FileOrigin { original_name, source_tool: None, created_at, session_key: None }
    }
}

/// A row of one side of a fork.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowState {
    /// The path, relative to the managed directory.
    pub path: String,
    /// The tags.
    pub tags: Tags,
    /// Where the file came from.
    pub origin: FileOrigin,
}

/// A row that a fork or its target has changed since the fork took in the target's changes the last time.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ForkedRow {
    /// The row at that time; `None` if the file is newer.
    pub base: Option<RowState>,
    /// The row in the fork; `None` if the fork has none, or has it as it was.
    pub in_fork: Option<RowState>,
    /// The row in the target; `None` if the target has none.
    pub in_target: Option<RowState>,
}

/// What a fork and its target have changed of their rows, as of one revision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForkedRows {
    /// The rows.
    pub rows: Vec<ForkedRow>,
    /// The files that the fork has pinned, and the target doesn't have and never had pinned, by their paths relative to the managed
    /// directory.
    pub pinned_in_fork: Vec<String>,
    /// The same of the target's files, and of the fork.
    pub pinned_in_target: Vec<String>,
    /// The newest revision of the database that they include.
    pub as_of: RevisionNumber,
}

impl ForkedRow {
    /// What the target's row gets from the fork's.
    pub fn edit_of_target(&self, root: &StorePath) -> Option<ManifestEdit> {
        let in_fork = self.in_fork.as_ref()?;
        match (&self.base, &self.in_target) {
            // If the merge brings the file back, its row is a new one.
            (Some(_), None) if !in_fork.tags.is_empty() => Some(ManifestEdit::Adopt {
                root: root.clone(),
                path: in_fork.path.clone(),
                added: in_fork.tags.clone(),
                removed: Tags::default(),
                origin: None,
            }),
            (base, in_target) => adopt(root, base.as_ref(), in_fork, in_target.as_ref()),
        }
    }

    /// What the fork's row gets from the target's.
    pub fn edit_of_fork(&self, root: &StorePath) -> Option<ManifestEdit> {
        adopt(root, self.base.as_ref(), self.in_target.as_ref()?, self.in_fork.as_ref())
    }
}

/// What one side's row gets from the other side's (`theirs`); `None` if that is nothing.
fn adopt(
    root: &StorePath,
    base: Option<&RowState>,
    theirs: &RowState,
    ours: Option<&RowState>,
) -> Option<ManifestEdit> {
    let none = Tags::default();
    let before = base.map_or(&none, |base| &base.tags);
    let own = ours.or(base).map_or(&none, |ours| &ours.tags);
    let added = theirs.tags.without(before).without(own);
    let removed = before.without(&theirs.tags);
    let removed = removed.without(&removed.without(own));
    // The file is where the side that moved it has put it.
    let path = match (base, ours) {
        (Some(base), Some(ours)) if base.path == theirs.path => &ours.path,
        _ => &theirs.path,
    };
    let origin = (base.is_none() && ours.is_none()).then(|| theirs.origin.clone());
    if added.is_empty() && removed.is_empty() && origin.is_none() {
        return None;
    }
    Some(ManifestEdit::Adopt { root: root.clone(), path: path.clone(), added, removed, origin })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(path: &str, tags: &str) -> RowState {
        let origin = FileOrigin::new(Some(path.to_owned()), Timestamp(0));
        RowState { path: path.to_owned(), tags: Tags::from_stored(tags), origin }
    }

    fn edit(base: Option<RowState>, in_fork: Option<RowState>, in_target: Option<RowState>) -> String {
        match (ForkedRow { base, in_fork, in_target }).edit_of_target(&StorePath::empty()) {
            Some(ManifestEdit::Adopt { path, added, removed, origin, .. }) => {
                format!("{path} +{added} -{removed}{}", if origin.is_some() { " new" } else { "" })
            }
            other => format!("{other:?}"),
        }
    }

    #[test]
    fn each_side_keeps_the_tags_that_the_other_has_not_changed() {
        let (base, fork) = (state("a", "x,y"), state("a", "x,pin"));
        assert_eq!(edit(Some(base.clone()), Some(fork.clone()), Some(state("a", "x,y,z"))), "a +pin -y");
        assert_eq!(edit(Some(base.clone()), Some(fork.clone()), Some(state("a", "pin"))), "None");
        assert_eq!(edit(Some(base.clone()), Some(base), Some(fork)), "None");
    }

    #[test]
    fn a_row_follows_the_side_that_moved_its_file() {
        let (base, moved) = (state("a", ""), state("b", ""));
        assert_eq!(edit(Some(base.clone()), Some(state("a", "t")), Some(moved.clone())), "b +t -");
        assert_eq!(edit(Some(base.clone()), Some(state("b", "t")), Some(base)), "b +t -");
    }

    #[test]
    fn a_file_that_only_the_fork_has_keeps_its_origin() {
        assert_eq!(edit(None, Some(state("a", "t")), None), "a +t - new");
        assert_eq!(edit(None, Some(state("a", "t")), Some(state("a", "u"))), "a +t -");
        assert_eq!(edit(Some(state("a", "")), None, None), "None");
        assert_eq!(
            edit(Some(state("a", "x,y")), Some(state("a", "x,t")), None),
            "a +x,t -",
            "the row is new"
        );
    }
}
