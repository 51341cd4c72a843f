//! `write_multiple_files_by_id`: writes several files of folders in one call.

use serde::Serialize;

use super::folder_page::json_size;
use super::read_multiple_files_by_id::{result_size, shortened};
use super::write_file_by_id::{WrittenFile, write_file};
use super::{
    FILE_NAME, FOLDER_ID, OUT_CODE, OUT_ERROR, OUT_SUCCESS, OUT_WARNING, all_folders, json_reply,
    take_operations,
};
use crate::scope::Access;
use crate::tools::files::{CONTENT, ENCODING_IN};
use crate::tools::page::PAGE_BYTES;
use crate::tools::schema::{Field, FieldType};
use crate::tools::{Arguments, Capability, Failure, Hints, OfferedWhen, Reply, Tool, ToolContext};

pub(in crate::tools) static TOOL: Tool = Tool {
    name: "write_multiple_files_by_id",
    title: "Write several files of folders",
    description: "Writes several files in folders that list_folders found, like write_file_by_id. Each has its own result: \
                  one may fail while the others are written.",
    required_access: &[Access::Write],
    offered: OfferedWhen::InOrganization,
    capabilities: &[Capability::BuiltIn],
    hints: Hints::DESTRUCTIVE.idempotent(),
    input: &[Field::required(
        "operations",
        FieldType::ObjectList(&[FOLDER_ID, FILE_NAME, CONTENT, ENCODING_IN]),
        "The files, at most 100.",
    )],
    output: &[
        Field::required(
            "results",
            FieldType::ObjectList(&[
                Field::required("filename", FieldType::Text, "The name as requested."),
                OUT_SUCCESS,
                Field::optional("created", FieldType::Flag, "Whether the file is new."),
                Field::optional("bytesWritten", FieldType::integer_from(0), "How many bytes were written."),
                OUT_ERROR,
                OUT_CODE,
            ]),
            "The result for each file, in the order of operations.",
        ),
        OUT_WARNING,
    ],
    max_characters: None,
    run,
};

#[derive(Debug, Serialize)]
struct WriteResults {
    results: Vec<WriteResult>,
    #[serde(skip_serializing_if = "Option::is_none")]
    warning: Option<String>,
}

#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct WriteResult {
    filename: String,
    success: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    created: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes_written: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<&'static str>,
}

fn run(context: &ToolContext<'_>, arguments: &mut Arguments) -> Result<Reply, Failure> {
    let operations = take_operations(arguments)?;
    context.request_approvals(&operations, Access::Write)?;
    let path = context.folder_call().path().unwrap_or_else(all_folders);
    let kind = |failure: &Failure| Some(failure.kind);
    let results = context.vfs.compound(TOOL.name, &path, kind, |vfs| -> Result<_, Failure> {
        let frame_bytes: usize = operations.iter().map(result_size).sum();
        let mut bytes_left = PAGE_BYTES.saturating_sub(frame_bytes);
        let (mut results, mut warning) = (Vec::new(), None);
        for mut operation in operations {
            let folder = context.folder_call().open(vfs, operation.text("folderId"));
            let written = folder.and_then(|folder| write_file(&folder, &mut operation));
            let result = match written {
                Ok(WrittenFile { created, bytes_written, warning: about_quota, .. }) => {
                    warning = about_quota.or(warning);
                    WriteResult {
                        success: true,
                        created: Some(created),
                        bytes_written: Some(bytes_written),
                        ..WriteResult::default()
                    }
                }
                Err(failure) => WriteResult {
                    error: Some(shortened(&failure, bytes_left)),
                    code: Some(failure.kind.code()),
                    ..WriteResult::default()
                },
            };
            bytes_left = bytes_left.saturating_sub(result.error.as_ref().map_or(0, json_size));
            results.push(WriteResult { filename: operation.text("filename").to_owned(), ..result });
        }
        vfs.set_file_count(results.iter().filter(|result| result.success).count() as u64);
        Ok(WriteResults { results, warning })
    })?;
    Ok(json_reply(&results))
}
