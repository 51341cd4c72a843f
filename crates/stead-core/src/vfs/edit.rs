//! Replacing text inside files.

use crate::edit::{Edit, EditError, EditReport, Excerpt, Occurrences};
use crate::error::{Result, Visibility};
use crate::path::VfsPath;
use crate::scope::Access;
use crate::store::{Precondition, Step, StoreError, TagRef};
use crate::vfs::call::Call;
use crate::vfs::managed::FileUse;
use crate::vfs::own_files::PriorContent;
use crate::vfs::resolve::ResolvedCallError;
use crate::vfs::write::{WriteResult, precondition_error};
use crate::vfs::{IntoPath, Vfs, VfsShared};

/// What an edit did.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct EditResult {
    /// The result of the change to the file.
    pub written: WriteResult,
    /// How many replacements it made.
    pub replaced: usize,
    /// The changed lines; `None` where the caller may not read.
    pub excerpt: Option<Excerpt>,
}

/// A text to replace, and its replacement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Replacement<'a> {
    /// The text as it is in the file.
    pub old: &'a str,
    /// The new text.
    pub new: &'a str,
    /// How many occurrences are replaced.
    pub occurrences: Occurrences,
}

impl Vfs {
    /// Replaces a text inside a file.
    pub fn edit(
        &self,
        path: impl IntoPath,
        old: &str,
        new: &str,
        occurrences: Occurrences,
    ) -> Result<EditResult> {
        self.edit_with(path, old, new, occurrences, None)
    }

    /// Replaces a text inside a file. With `if_match`, only if the file has that version tag.
    pub fn edit_with(
        &self,
        path: impl IntoPath,
        old: &str,
        new: &str,
        occurrences: Occurrences,
        if_match: Option<TagRef>,
    ) -> Result<EditResult> {
        self.edit_all(path, &[Replacement { old, new, occurrences }], if_match)
    }

    /// Replaces several texts inside a file, one after another, in one change: all of them or none. With `if_match`, only
    /// if the file has that version tag.
    pub fn edit_all(
        &self,
        path: impl IntoPath,
        replacements: &[Replacement<'_>],
        if_match: Option<TagRef>,
    ) -> Result<EditResult> {
        self.call("edit", [path.into_path()], |call, [path]| {
            let edit = combined_edit(replacements)?;
            call.file_use.set(FileUse::Find);
            call.edit(path, &edit, if_match)
        })
    }
}

impl Call<'_> {
    fn edit(&self, path: &VfsPath, edit: &Edit, if_match: Option<TagRef>) -> Result<EditResult> {
        let (edited, _) =
            self.resolve_and_call(path, Access::Write, |resolved| -> Result<_, ResolvedCallError> {
                let mut expect = if_match.map_or(Precondition::Any, Precondition::from);
                self.check_own_precondition(resolved, expect)?;
                if resolved.visibility() == Visibility::Hidden {
                    expect = Precondition::Tag(self.check_own_file(resolved)?);
                    self.note_prior_content(resolved, PriorContent::Replaced);
                }
                let VfsShared { limits, quota, .. } = self.shared();
                let may_show_content = self.may_show_content(resolved);
                let report = EditReport::default();
                let edit = if may_show_content { edit.clone().with_report(&report) } else { edit.clone() };
                let edit = edit
                    .with_max_size(limits.max_file_size)
                    .with_quota(*quota)
                    .with_quota(resolved.workspace.quota());
                // If nothing is there, or it isn't a file, the Store refuses the edit.
                let size = resolved.store().stat(&resolved.node_path).map_or(0, |attr| attr.size);
                let _memory = self.reserve(edit.memory_needed(size))?;
                let step = Step::Edit {
                    at: resolved.node_path.clone(),
                    edit,
                    expect,
                    displaced: resolved.displaced_content(),
                };
                let applied = self.apply_step(resolved, step).map_err(|cause| match cause {
                    StoreError::EditMismatch(mismatch) if !may_show_content => {
                        StoreError::EditMismatch(Box::new(mismatch.without_content()))
                    }
                    cause => cause,
                });
                let (outcome, written) =
                    applied.map_err(|cause| precondition_error(resolved, expect, cause))?;
                self.advance_read_set(resolved, &outcome);
                Ok(EditResult { written, replaced: outcome.replaced, excerpt: report.take() })
            })?;
        Ok(edited)
    }
}

/// One edit that makes all replacements. Without any, nothing would change.
fn combined_edit(replacements: &[Replacement<'_>]) -> Result<Edit, EditError> {
    let (first, more) = replacements.split_first().ok_or(EditError::Unchanged)?;
    let edit = Edit::new(first.old, first.new, first.occurrences)?;
    more.iter().try_fold(edit, |edit, next| edit.and(next.old, next.new, next.occurrences))
}
