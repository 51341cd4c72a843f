//! `read_multiple_files_by_id`: reads several files of folders in one call.

use serde::Serialize;

use super::folder_page::json_size;
use super::operations::{OperationResult, run_operations};
use super::read_content::{ContentPage, PageRange, Position};
use super::{FILE_NAME, FOLDER_ID, OUT_CODE, OUT_ERROR, json_reply};
use crate::scope::Access;
use crate::tools::page::PAGE_LINES;
use crate::tools::schema::{Field, FieldType};
use crate::tools::{Arguments, Capability, Failure, Hints, OfferedWhen, Reply, Tool, ToolContext};
use crate::vfs::Vfs;

/// Every file has at least this many bytes of the reply.
const MIN_CONTENT_BYTES: usize = 16;

pub(in crate::tools) static TOOL: Tool = Tool {
    name: "read_multiple_files_by_id",
    title: "Read several files of folders",
    description: "Reads several files of folders that list_folders found. Each has its own result; all share 20,000 \
                  characters, and a cut file says how to continue with read_file_by_id.",
    required_access: &[Access::Read],
    offered: OfferedWhen::InOrganization,
    capabilities: &[Capability::BuiltIn],
    hints: Hints::READ_ONLY,
    input: &[Field::required(
        "operations",
        FieldType::ObjectList(&[FOLDER_ID, FILE_NAME]),
        "The files, at most 100.",
    )],
    output: &[Field::required(
        "results",
        FieldType::ObjectList(&[
            Field::required("filename", FieldType::Text, "The name as requested."),
            Field::required("success", FieldType::Flag, "Whether it was read."),
            Field::optional("content", FieldType::Text, "The content, or its beginning."),
            Field::optional("encoding", FieldType::OneOf(&["utf-8", "base64"]), "How content is encoded."),
            Field::optional("size", FieldType::integer_from(0), "The file's size in bytes."),
            Field::optional("nextOffset", FieldType::integer_from(1), "The offset to continue with."),
            Field::optional("nextByteOffset", FieldType::integer_from(0), "The byteOffset to continue with."),
            OUT_ERROR,
            OUT_CODE,
        ]),
        "The result for each file, in the order of operations.",
    )],
    max_characters: None,
    run,
};

#[derive(Debug, Serialize)]
struct ReadResults {
    results: Vec<OperationResult<ReadContent>>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct ReadContent {
    content: String,
    encoding: &'static str,
    size: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_offset: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_byte_offset: Option<u64>,
}

fn run(context: &ToolContext<'_>, arguments: &mut Arguments) -> Result<Reply, Failure> {
    let results =
        run_operations(context, (TOOL.name, Access::Read), arguments, |vfs, operation, bytes_left| {
            let read = read_operation(context, vfs, operation, *bytes_left)?;
            *bytes_left = bytes_left.saturating_sub(json_size(&read.content));
            Ok(read)
        })?;
    Ok(json_reply(&ReadResults { results }))
}

fn read_operation(
    context: &ToolContext<'_>,
    vfs: &Vfs,
    operation: &Arguments,
    max_bytes: usize,
) -> Result<ReadContent, Failure> {
    let folder = context.folder_call().open(vfs, operation.text("folderId"))?;
    let file = folder.file(operation.text("filename"))?;
    let bytes = file.read()?;
    let max_bytes = max_bytes.max(MIN_CONTENT_BYTES);
    let mut range = PageRange { from: Position::Line(1), lines: PAGE_LINES as u64, bytes: max_bytes };
    let mut page = file.page(&bytes, range)?;
    // Escaping makes content longer.
    while json_size(&page.content) > max_bytes && range.bytes > MIN_CONTENT_BYTES {
        range.bytes = (range.bytes * max_bytes / json_size(&page.content)).max(MIN_CONTENT_BYTES);
        page = file.page(&bytes, range)?;
    }
    let ContentPage { content, encoding, size, next } = page;
    let (next_offset, next_byte_offset) = match next {
        Some(Position::Line(line)) => (Some(line), None),
        Some(Position::Byte(byte)) => (None, Some(byte)),
        None => (None, None),
    };
    Ok(ReadContent { content, encoding, size, next_offset, next_byte_offset })
}
