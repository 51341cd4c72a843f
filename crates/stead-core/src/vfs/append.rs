//! Appending to files.

use crate::edit::{EditMismatch, MismatchReason};
use crate::error::{Result, Visibility};
use crate::scope::Access;
use crate::store::{Content, OpenPurpose, PutOptions, Step, StoreError};
use crate::text_encoding::{EncodingGuess, HEAD_SIZE, TextEncoding};
use crate::vfs::call::Call;
use crate::vfs::managed::FileUse;
use crate::vfs::own_files::PriorContent;
use crate::vfs::resolve::{ResolvedCallError, ResolvedPath};
use crate::vfs::write::{WriteOptions, WriteResult, precondition_error};
use crate::vfs::{IntoPath, Vfs};

/// What an append of text did.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct AppendedText {
    /// The result of the change to the file.
    pub written: WriteResult,
    /// The encoding in which the text was appended.
    pub encoding: TextEncoding,
    /// How many bytes were appended.
    pub bytes: u64,
}

impl Vfs {
    /// Appends to a file. Creates it if it is missing.
    pub fn append(&self, path: impl IntoPath, content: impl Into<Vec<u8>>) -> Result<WriteResult> {
        self.append_with(path, content, &WriteOptions::new())
    }

    /// Appends to a file, with options.
    pub fn append_with(
        &self,
        path: impl IntoPath,
        content: impl Into<Vec<u8>>,
        options: &WriteOptions,
    ) -> Result<WriteResult> {
        self.call("append", [path.into_path()], |call, [path]| {
            let bytes = content.into();
            call.set_bytes(bytes.len() as u64);
            call.file_use.set(FileUse::add_to(options));
            let (written, _) =
                call.resolve_and_call(path, Access::Write, |resolved| -> Result<_, ResolvedCallError> {
                    resolved.check_not_protected_ancestor()?;
                    call.append_at(resolved, bytes.clone(), options)
                })?;
            Ok(written)
        })
    }

    /// Appends text to a file, in the encoding that the file has. Where the caller may not read, and for a new file, that
    /// is UTF-8.
    pub fn append_text(
        &self,
        path: impl IntoPath,
        text: &str,
        options: &WriteOptions,
    ) -> Result<AppendedText> {
        self.call("append", [path.into_path()], |call, [path]| {
            call.file_use.set(FileUse::add_to(options));
            let (appended, _) =
                call.resolve_and_call(path, Access::Write, |resolved| -> Result<_, ResolvedCallError> {
                    resolved.check_not_protected_ancestor()?;
                    let (encoding, size) = call.encoding_at(resolved);
                    let mismatch = |reason| {
                        StoreError::EditMismatch(Box::new(EditMismatch { number: 1, of: 1, reason }))
                    };
                    if !size.is_multiple_of(encoding.unit_size() as u64) {
                        return Err(mismatch(MismatchReason::IncompleteEnd { encoding }).into());
                    }
                    let bytes = encoding
                        .encode(text)
                        .map_err(|character| mismatch(MismatchReason::Unencodable { character, encoding }))?;
                    call.set_bytes(bytes.len() as u64);
                    let bytes = bytes.into_owned();
                    let length = bytes.len() as u64;
                    let written = call.append_at(resolved, bytes, options)?;
                    Ok(AppendedText { written, encoding, bytes: length })
                })?;
            Ok(appended)
        })
    }
}

impl Call<'_> {
    fn append_at(
        &self,
        resolved: &ResolvedPath<'_>,
        bytes: Vec<u8>,
        options: &WriteOptions,
    ) -> Result<WriteResult, ResolvedCallError> {
        self.check_size(bytes.len() as u64)?;
        let limit = self.shared().limits.max_file_size;
        let put_options =
            PutOptions { max_size: (limit < u64::MAX).then_some(limit), ..options.put_options(resolved) };
        let step = Step::Append {
            at: resolved.node_path.clone(),
            content: Content::Bytes(bytes),
            options: put_options,
        };
        self.check_own_precondition(resolved, options.expect)?;
        self.note_prior_content(resolved, PriorContent::MayRemain);
        let applied = self.apply_step(resolved, step);
        let (outcome, written) =
            applied.map_err(|cause| precondition_error(resolved, options.expect, cause))?;
        self.advance_read_set(resolved, &outcome);
        Ok(written)
    }

    /// The encoding and the size of the file at a path; UTF-8 and 0 if there is none, or the caller may not read it.
    fn encoding_at(&self, resolved: &ResolvedPath<'_>) -> (TextEncoding, u64) {
        if !self.may_show_content(resolved) {
            return (TextEncoding::Utf8, 0);
        }
        // Why a file can't be opened shows when it is appended to.
        let read = resolved.store().open(&resolved.node_path, OpenPurpose::Read).and_then(|content| {
            let mut head = vec![0; HEAD_SIZE];
            let length = content.read_at(0, &mut head)?;
            Ok((EncodingGuess::from_head(&head[..length]).encoding, content.attr().size))
        });
        read.unwrap_or((TextEncoding::Utf8, 0))
    }

    /// Whether an answer about a change may show something of the file's content: not if the caller may not read there, or
    /// would need an approval for it that it doesn't have.
    pub(super) fn may_show_content(&self, resolved: &ResolvedPath<'_>) -> bool {
        resolved.visibility() == Visibility::Visible && !self.vfs.approval.must_skip(resolved.workspace)
    }
}
