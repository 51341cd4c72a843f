//! `write_file_by_id`: writes a file of a folder.

use serde::Serialize;

use super::quota::{change_warning, write_failure};
use super::{FILE_NAME, FOLDER_ID, OUT_PATH, OUT_SUCCESS, OUT_WARNING, OpenFolder, authorize, json_reply};
use crate::scope::Access;
use crate::tools::files::{CONTENT, ENCODING_IN, decode_content};
use crate::tools::schema::{Field, FieldType};
use crate::tools::{Arguments, Capability, Failure, Hints, OfferedWhen, Reply, Tool, ToolContext};

pub(in crate::tools) static TOOL: Tool = Tool {
    name: "write_file_by_id",
    title: "Write a file of a folder",
    description: "Writes a whole file in a folder that list_folders found: creates it, with missing subfolders, or \
                  replaces it.",
    required_access: &[Access::Write],
    offered: OfferedWhen::InOrganization,
    capabilities: &[Capability::BuiltIn],
    hints: Hints::DESTRUCTIVE.idempotent(),
    input: &[FOLDER_ID, FILE_NAME, CONTENT, ENCODING_IN],
    output: &[OUT_SUCCESS, OUT_CREATED, OUT_BYTES_WRITTEN, OUT_PATH, OUT_WARNING],
    max_characters: None,
    run,
};

pub(super) const OUT_CREATED: Field = Field::required("created", FieldType::Flag, "Whether the file is new.");
pub(super) const OUT_BYTES_WRITTEN: Field =
    Field::required("bytesWritten", FieldType::integer_from(0), "How many bytes were written.");

/// What a write to a file did.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct WrittenFile {
    pub(super) success: bool,
    pub(super) created: bool,
    pub(super) bytes_written: u64,
    pub(super) path: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) warning: Option<String>,
}

fn run(context: &ToolContext<'_>, arguments: &mut Arguments) -> Result<Reply, Failure> {
    let folder = context.folder(arguments, "folderId")?;
    Ok(json_reply(&write_file(&folder, arguments)?))
}

/// Writes the file that the arguments describe.
pub(super) fn write_file(folder: &OpenFolder<'_>, arguments: &mut Arguments) -> Result<WrittenFile, Failure> {
    let content = decode_content(arguments)?;
    let file = folder.file(arguments.text("filename"))?;
    authorize(folder.vfs, &[(&file.path, Access::Write)])?;
    let bytes_written = content.len() as u64;
    file.check_size(bytes_written)?;
    file.check_depth()?;
    let written = folder.vfs.write(&file.path, content);
    let written = written.map_err(|error| write_failure(folder.vfs, &file.path, error))?;
    Ok(WrittenFile {
        success: true,
        created: written.created.unwrap_or(false),
        bytes_written,
        path: written.path.to_string(),
        warning: change_warning(folder.vfs, &file.path, written.not_kept),
    })
}
