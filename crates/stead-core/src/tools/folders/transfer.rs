//! What copying and moving a file between folders have in common.

use serde::Serialize;

use super::quota::{change_warning, write_failure};
use super::{OUT_PATH, OUT_SUCCESS, OUT_WARNING, authorize, json_reply};
use crate::error::Error;
use crate::scope::Access;
use crate::store::StoreError;
use crate::tools::schema::{Field, FieldType};
use crate::tools::{Arguments, Failure, Reply, ToolContext};
use crate::vfs::Overwrite;

pub(super) const TRANSFER_INPUT: [Field; 5] = [
    Field::required("sourceFolderId", FieldType::Text, "A folder's id from list_folders."),
    Field::required("sourceFilename", FieldType::Text, "The file's name there."),
    Field::required("destFolderId", FieldType::Text, "Another folder's id, or the same."),
    Field::required("destFilename", FieldType::Text, "The new name."),
    Field::optional("overwrite", FieldType::Flag, "Replace a file at the destination."),
];
pub(super) const TRANSFER_OUTPUT: [Field; 6] = [
    OUT_SUCCESS,
    Field::required("sourcePath", FieldType::Path, "The logical path that it came from."),
    OUT_PATH,
    Field::required("size", FieldType::integer_from(0), "The file's size in bytes."),
    Field::required("overwritten", FieldType::Flag, "Whether a file was replaced."),
    OUT_WARNING,
];

/// What is done to the source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TransferKind {
    Copy,
    Move,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct TransferredFile {
    success: bool,
    source_path: String,
    path: String,
    size: u64,
    overwritten: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    warning: Option<String>,
}

/// Copies or moves a file. The rights of both sides are checked before anything is looked up.
pub(super) fn transfer(
    context: &ToolContext<'_>,
    arguments: &Arguments,
    kind: TransferKind,
) -> Result<Reply, Failure> {
    let (source_folder, dest_folder) =
        (context.folder(arguments, "sourceFolderId")?, context.folder(arguments, "destFolderId")?);
    let source = source_folder.file(arguments.text("sourceFilename"))?;
    let dest = dest_folder.file(arguments.text("destFilename"))?;
    let mut accesses =
        vec![(&source.path, Access::Read), (&dest.path, Access::Write), (&dest.path, Access::Read)];
    if kind == TransferKind::Move {
        // Out of a folder, that is another access than within it, and the caller needs both.
        accesses.extend([(&source.path, Access::Write), (&source.path, Access::MoveOut)]);
    }
    authorize(context.vfs, &accesses)?;
    let stat = source.stat_file()?;
    let existing = dest.stat_target()?;
    if kind == TransferKind::Copy {
        dest.check_size(stat.size)?;
    }
    dest.check_depth()?;
    let overwrite = if arguments.flag("overwrite") { Overwrite::Replace } else { Overwrite::Refuse };
    let vfs = context.vfs;
    let transferred = match (kind, stat.tag) {
        (TransferKind::Copy, _) => vfs.copy(&source.path, &dest.path, overwrite),
        // Only what was found to be a file is moved.
        (TransferKind::Move, Some(tag)) => vfs.rename_if(&source.path, &dest.path, overwrite, tag),
        (TransferKind::Move, None) => vfs.rename(&source.path, &dest.path, overwrite),
    };
    let transferred = transferred.map_err(|error| match error {
        Error::Store { ref path, cause: StoreError::NotFound, .. } if *path == source.path => {
            source.read_failure(error)
        }
        error => write_failure(vfs, &dest.path, error),
    })?;
    Ok(json_reply(&TransferredFile {
        success: true,
        source_path: transferred.from.to_string(),
        path: transferred.to.to_string(),
        size: stat.size,
        overwritten: existing.is_some(),
        warning: change_warning(vfs, &dest.path, transferred.not_kept),
    }))
}
