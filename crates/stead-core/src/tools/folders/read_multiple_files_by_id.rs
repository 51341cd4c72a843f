//! `read_multiple_files_by_id`: reads several files of folders in one call.

use serde::Serialize;

use super::folder_page::json_size;
use super::read_content::{ContentPage, PageRange, Position};
use super::{FILE_NAME, FOLDER_ID, OUT_CODE, OUT_ERROR, all_folders, json_reply, take_operations};
use crate::scope::Access;
use crate::tools::page::{PAGE_BYTES, PAGE_LINES};
use crate::tools::schema::{Field, FieldType};
use crate::tools::{Arguments, Capability, Failure, Hints, OfferedWhen, Reply, Tool, ToolContext};
use crate::vfs::Vfs;

/// About how many bytes a result takes besides the name, and the content or the error.
const RESULT_BYTES: usize = 140;
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
    results: Vec<ReadResult>,
}

#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct ReadResult {
    filename: String,
    success: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    content: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    encoding: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    size: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_offset: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_byte_offset: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<&'static str>,
}

fn run(context: &ToolContext<'_>, arguments: &mut Arguments) -> Result<Reply, Failure> {
    let operations = take_operations(arguments)?;
    context.request_approvals(&operations, Access::Read)?;
    let path = context.folder_call().path().unwrap_or_else(all_folders);
    let kind = |failure: &Failure| Some(failure.kind);
    let results = context.vfs.compound(TOOL.name, &path, kind, |vfs| -> Result<_, Failure> {
        let frame_bytes: usize = operations.iter().map(result_size).sum();
        let mut bytes_left = PAGE_BYTES.saturating_sub(frame_bytes);
        let mut results = Vec::new();
        for operation in &operations {
            let result = read_operation(context, vfs, operation, bytes_left);
            let result = result.unwrap_or_else(|failure| ReadResult {
                error: Some(shortened(&failure, bytes_left)),
                code: Some(failure.kind.code()),
                ..ReadResult::default()
            });
            let used =
                result.content.as_ref().map_or(0, json_size) + result.error.as_ref().map_or(0, json_size);
            bytes_left = bytes_left.saturating_sub(used);
            results.push(ReadResult { filename: operation.text("filename").to_owned(), ..result });
        }
        vfs.set_file_count(results.iter().filter(|result| result.success).count() as u64);
        Ok(results)
    })?;
    Ok(json_reply(&ReadResults { results }))
}

fn read_operation(
    context: &ToolContext<'_>,
    vfs: &Vfs,
    operation: &Arguments,
    max_bytes: usize,
) -> Result<ReadResult, Failure> {
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
    Ok(ReadResult {
        success: true,
        content: Some(content),
        encoding: Some(encoding),
        size: Some(size),
        next_offset,
        next_byte_offset,
        ..ReadResult::default()
    })
}

/// How much of the reply a result takes at least.
pub(super) fn result_size(operation: &Arguments) -> usize {
    json_size(&operation.text("filename")) + RESULT_BYTES
}

/// The sentence of a failure, or only its code if the reply has no room for it.
pub(super) fn shortened(failure: &Failure, bytes_left: usize) -> String {
    match json_size(&failure.message) <= bytes_left {
        true => failure.message.clone(),
        false => failure.kind.code().to_owned(),
    }
}
