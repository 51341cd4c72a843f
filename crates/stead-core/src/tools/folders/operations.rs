//! Calls that make several operations, each with its own result.

use serde::Serialize;

use super::folder_page::json_size;
use super::{all_folders, take_operations};
use crate::scope::Access;
use crate::tools::page::PAGE_BYTES;
use crate::tools::{Arguments, Failure, ToolContext};
use crate::vfs::Vfs;

/// About how many bytes a result takes besides the name, and the content or the error.
const RESULT_BYTES: usize = 140;

/// What came out of one operation.
#[derive(Debug, Serialize)]
pub(super) struct OperationResult<T> {
    /// The name as requested.
    filename: String,
    success: bool,
    #[serde(flatten)]
    done: Option<T>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<&'static str>,
}

/// Runs the operations of a call of this tool one after the other, with one audit record. A failure is the result of its
/// operation, and the others go on; the record says `denied` or `failed`, and how many were made. `act` gets the bytes that are left of the reply, and takes off those that it uses.
pub(super) fn run_operations<T>(
    context: &ToolContext<'_>,
    (tool, access): (&'static str, Access),
    arguments: &mut Arguments,
    mut act: impl FnMut(&Vfs, &mut Arguments, &mut usize) -> Result<T, Failure>,
) -> Result<Vec<OperationResult<T>>, Failure> {
    let operations = take_operations(arguments)?;
    context.request_approvals(&operations, access)?;
    let path = context.folder_call().path().unwrap_or_else(all_folders);
    let kind = |failure: &Failure| Some(failure.kind);
    context.vfs.compound(tool, &path, kind, |vfs| -> Result<_, Failure> {
        let frame_bytes: usize = operations.iter().map(result_size).sum();
        let mut bytes_left = PAGE_BYTES.saturating_sub(frame_bytes);
        let mut results = Vec::new();
        for mut operation in operations {
            let (done, failure) = match act(vfs, &mut operation, &mut bytes_left) {
                Ok(done) => (Some(done), None),
                Err(failure) => (None, Some(failure)),
            };
            if let Some(failure) = &failure {
                vfs.note_partial_failure(failure.kind);
            }
            let error = failure.as_ref().map(|failure| shortened(failure, bytes_left));
            bytes_left = bytes_left.saturating_sub(error.as_ref().map_or(0, json_size));
            results.push(OperationResult {
                filename: operation.text("filename").to_owned(),
                success: done.is_some(),
                done,
                error,
                code: failure.map(|failure| failure.kind.code()),
            });
        }
        vfs.set_file_count(results.iter().filter(|result| result.success).count() as u64);
        Ok(results)
    })
}

/// How much of the reply a result takes at least.
fn result_size(operation: &Arguments) -> usize {
    json_size(&operation.text("filename")) + RESULT_BYTES
}

/// The sentence of a failure, or only its code if the reply has no room for it.
fn shortened(failure: &Failure, bytes_left: usize) -> String {
    match json_size(&failure.message) <= bytes_left {
        true => failure.message.clone(),
        false => failure.kind.code().to_owned(),
    }
}
