//! `write_multiple_files_by_id`: writes several files of folders in one call.

use serde::Serialize;

use super::operations::{OperationResult, run_operations};
use super::write_file_by_id::{WrittenFile, write_file};
use super::{FILE_NAME, FOLDER_ID, OUT_CODE, OUT_ERROR, OUT_SUCCESS, OUT_WARNING, json_reply};
use crate::scope::Access;
use crate::tools::files::{CONTENT, ENCODING_IN};
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
    results: Vec<OperationResult<WrittenOperation>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    warning: Option<String>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct WrittenOperation {
    created: bool,
    bytes_written: u64,
}

fn run(context: &ToolContext<'_>, arguments: &mut Arguments) -> Result<Reply, Failure> {
    let mut last_warning = None;
    let results = run_operations(context, (TOOL.name, Access::Write), arguments, |vfs, operation, _| {
        let folder = context.folder_call().open(vfs, operation.text("folderId"))?;
        let WrittenFile { created, bytes_written, warning, .. } = write_file(&folder, operation)?;
        last_warning = warning.or(last_warning.take());
        Ok(WrittenOperation { created, bytes_written })
    })?;
    Ok(json_reply(&WriteResults { results, warning: last_warning }))
}
