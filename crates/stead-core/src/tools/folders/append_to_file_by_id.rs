//! `append_to_file_by_id`: appends to a file of a folder.

use super::quota::{quota_warning, write_failure};
use super::write_file_by_id::{OUT_BYTES_WRITTEN, OUT_CREATED, WrittenFile};
use super::{FILE_NAME, FOLDER_ID, OUT_PATH, OUT_SUCCESS, OUT_WARNING, authorize, json_reply};
use crate::scope::Access;
use crate::tools::files::CONTENT;
use crate::tools::{Arguments, Capability, Failure, Hints, OfferedWhen, Reply, Tool, ToolContext};
use crate::vfs::WriteOptions;

pub(in crate::tools) static TOOL: Tool = Tool {
    name: "append_to_file_by_id",
    title: "Append to a file of a folder",
    description: "Appends text to a file in a folder that list_folders found, exactly as given; a missing file is created.",
    required_access: &[Access::Write],
    offered: OfferedWhen::InOrganization,
    capabilities: &[Capability::BuiltIn],
    hints: Hints::ADDITIVE,
    input: &[FOLDER_ID, FILE_NAME, CONTENT],
    output: &[OUT_SUCCESS, OUT_CREATED, OUT_BYTES_WRITTEN, OUT_PATH, OUT_WARNING],
    max_characters: None,
    run,
};

fn run(context: &ToolContext<'_>, arguments: &mut Arguments) -> Result<Reply, Failure> {
    let folder = context.folder(arguments, "folderId")?;
    let (file, text) = (folder.file(arguments.text("filename"))?, arguments.text("content"));
    authorize(context.vfs, &[(&file.path, Access::Write), (&file.path, Access::Read)])?;
    let size = file.stat_target()?.map_or(0, |stat| stat.size);
    file.check_size(size.saturating_add(text.len() as u64))?;
    file.check_depth()?;
    let appended = context.vfs.append_text(&file.path, text, &WriteOptions::new());
    let appended = appended.map_err(|error| write_failure(context.vfs, &file.path, error))?;
    Ok(json_reply(&WrittenFile {
        success: true,
        created: appended.written.created.unwrap_or(false),
        bytes_written: appended.bytes,
        path: appended.written.path.to_string(),
        warning: quota_warning(context.vfs, &file.path),
    }))
}
