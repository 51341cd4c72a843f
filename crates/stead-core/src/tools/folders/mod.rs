//! The folder tools of organizations: they discover folders and name files by a folder's id.
//!
//! A folder is a Workspace that the organization's records gave the agent, so a folder tool is a thin translation: from
//! an id to a logical path, and from there to calls of the Vfs, which alone decides about access. The agent whose
//! folders they are comes from the connection, never from a parameter.

pub(super) mod append_to_file_by_id;
pub(super) mod copy_file_by_id;
pub(super) mod create_folder;
pub(super) mod delete_file_by_id;
pub(super) mod delete_folder_by_id;
mod file_name;
mod folder_call;
mod folder_page;
pub(super) mod get_file_info_by_id;
pub(super) mod list_folders;
pub(super) mod move_file_by_id;
mod open_folder;
mod operations;
mod quota;
mod read_content;
pub(super) mod read_file_by_id;
pub(super) mod read_multiple_files_by_id;
pub(super) mod rename_folder_by_id;
mod transfer;
pub(super) mod write_file_by_id;
pub(super) mod write_multiple_files_by_id;

pub(super) use folder_call::{FolderCall, claimed_agent_fact};
use open_folder::{FolderFile, OpenFolder, authorize};

use serde::Serialize;
use serde_json::Value;

use crate::name::escape_name;
use crate::organization::WORKSPACES_DIRECTORY;
use crate::path::VfsPath;
use crate::scope::Access;
use crate::tools::schema::{Field, FieldType};
use crate::tools::{Arguments, Failure, Reply, ToolContext};

const FOLDER_ID: Field = Field::required("folderId", FieldType::Text, "A folder's id from list_folders.");
const FILE_NAME: Field = Field::required("filename", FieldType::Text, "Such as reports/weekly.md.");
/// The most operations of one call.
const MAX_OPERATIONS: usize = 100;

const OUT_SUCCESS: Field = Field::required("success", FieldType::Flag, "Whether it was done.");
const OUT_PATH: Field = Field::required("path", FieldType::Path, "The logical path.");
const OUT_WARNING: Field =
    Field::optional("warning", FieldType::Text, "What the caller should know about it.");
const OUT_FOLDER_ID: Field = Field::required("folderId", FieldType::Text, "An id for the folder.");
const OUT_FOLDER_NAME: Field = Field::required("folderName", FieldType::Text, "The folder's name.");
const OUT_ERROR: Field = Field::optional("error", FieldType::Text, "Why it failed.");
const OUT_CODE: Field = Field::optional("code", FieldType::Text, "The error's code.");

impl<'a> ToolContext<'a> {
    fn folder_call(&self) -> &'a FolderCall<'a> {
        self.folders.expect("folder tools are offered only with folders")
    }

    /// The folder whose id is in this parameter.
    fn folder(&self, arguments: &Arguments, parameter: &str) -> Result<OpenFolder<'_>, Failure> {
        self.folder_call().open(self.vfs, arguments.text(parameter))
    }

    /// Asks a person about the files of all operations at once, before any is read or written. Everything else that is
    /// wrong with an operation shows in its own result.
    fn request_approvals(&self, operations: &[Arguments], access: Access) -> Result<(), Failure> {
        if !self.vfs.will_ask_approval() {
            return Ok(());
        }
        let path = |operation: &Arguments| {
            let folder = self.folder(operation, "folderId").ok()?;
            folder.file(operation.text("filename")).ok().map(|file| file.path)
        };
        let paths: Vec<VfsPath> = operations.iter().filter_map(path).collect();
        Ok(self.vfs.request_approval(&paths, access)?)
    }
}

/// A reply that is an object: as compact JSON for a model, and as facts for a program.
fn json_reply(object: &impl Serialize) -> Reply {
    let text = serde_json::to_string(object).expect("replies have only texts as keys");
    let facts = match serde_json::to_value(object).expect("replies have only texts as keys") {
        Value::Object(facts) => facts,
        other => unreachable!("{other} isn't an object"),
    };
    Reply { facts, ..Reply::text(text) }
}

/// The directory of all folders.
fn all_folders() -> VfsPath {
    VfsPath::root().join(WORKSPACES_DIRECTORY).expect("a valid name")
}

/// A text that a caller may have made up, escaped and shortened.
fn short_text(text: &str) -> String {
    escape_name(text.as_bytes()).to_string().chars().take(200).collect()
}

/// The operations of a call that makes several.
fn take_operations(arguments: &mut Arguments) -> Result<Vec<Arguments>, Failure> {
    let operations = arguments.take_objects("operations");
    if !(1..=MAX_OPERATIONS).contains(&operations.len()) {
        return Err(Failure::invalid(format!(
            "`operations` has {} elements; pass 1 to {MAX_OPERATIONS}",
            operations.len()
        )));
    }
    Ok(operations)
}
