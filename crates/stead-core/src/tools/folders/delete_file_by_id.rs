//! `delete_file_by_id`: deletes a file of a folder.

use serde::Serialize;

use super::{FILE_NAME, FOLDER_ID, FolderFile, OUT_PATH, OUT_SUCCESS, OUT_WARNING, authorize, json_reply};
use crate::error::{Error, ErrorKind};
use crate::scope::Access;
use crate::store::StoreError;
use crate::tools::schema::{Field, FieldType};
use crate::tools::{Arguments, Capability, Failure, Hints, Note, OfferedWhen, Reply, Tool, ToolContext};
use crate::vfs::RemoveOptions;

/// How often a file that changes all the time is tried.
const MAX_ATTEMPTS: usize = 16;

pub(in crate::tools) static TOOL: Tool = Tool {
    name: "delete_file_by_id",
    title: "Delete a file of a folder",
    description: "Deletes a file in a folder that list_folders found. A missing file is no error.",
    required_access: &[Access::Write],
    offered: OfferedWhen::InOrganization,
    capabilities: &[Capability::BuiltIn],
    hints: Hints::DESTRUCTIVE.idempotent(),
    input: &[FOLDER_ID, FILE_NAME],
    output: &[
        OUT_SUCCESS,
        Field::required("existed", FieldType::Flag, "Whether this call deleted the file."),
        Field::required("freedBytes", FieldType::integer_from(0), "The size of the deleted file."),
        OUT_PATH,
        OUT_WARNING,
    ],
    max_characters: None,
    run,
};

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct DeletedFile {
    success: bool,
    existed: bool,
    freed_bytes: u64,
    path: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    warning: Option<String>,
}

fn run(context: &ToolContext<'_>, arguments: &mut Arguments) -> Result<Reply, Failure> {
    let folder = context.folder(arguments, "folderId")?;
    let file = folder.file(arguments.text("filename"))?;
    authorize(context.vfs, &[(&file.path, Access::Write), (&file.path, Access::Read)])?;
    let deleted = delete(&file)?;
    let warning = match deleted {
        Some((_, 0)) => None,
        Some((_, not_kept)) => Some(Note::NotKept(not_kept).to_string()),
        None => {
            // The call succeeds, so its record has to say so.
            context.vfs.audited(TOOL.name, Some(&file.path), || Ok(()))?;
            let (name, folder) = (super::short_text(&file.name), folder.name());
            Some(format!("File '{name}' does not exist in folder '{folder}', so nothing was deleted"))
        }
    };
    Ok(json_reply(&DeletedFile {
        success: true,
        existed: deleted.is_some(),
        freed_bytes: deleted.map_or(0, |(size, _)| size),
        path: file.path.to_string(),
        warning,
    }))
}

/// Deletes the file. Returns its size, and how many files were too large to be kept; `None` if it doesn't exist.
fn delete(file: &FolderFile<'_>) -> Result<Option<(u64, u64)>, Failure> {
    let mut attempts = 1..=MAX_ATTEMPTS;
    loop {
        let Some(stat) = file.stat_target()? else { return Ok(None) };
        // Only the version whose size is known is deleted, so two calls can't both have deleted the same one.
        let options = RemoveOptions { if_match: stat.tag.map(Into::into), ..RemoveOptions::default() };
        attempts.next();
        match file.folder.vfs.remove_file(&file.path, options) {
            Ok(removed) => return Ok(Some((stat.size, removed.not_kept))),
            Err(Error::Store { cause: StoreError::NotFound | StoreError::NotADirectory, .. }) => {
                return Ok(None);
            }
            Err(error) if error.kind() == ErrorKind::Conflict && !attempts.is_empty() => {}
            Err(error) => return Err(error.into()),
        }
    }
}
