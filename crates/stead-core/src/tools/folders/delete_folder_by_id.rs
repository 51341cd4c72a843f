//! `delete_folder_by_id`: deletes a subfolder.

use serde::Serialize;

use super::{OUT_PATH, OUT_SUCCESS, OpenFolder, json_reply};
use crate::error::{Error, ErrorKind};
use crate::scope::Access;
use crate::store::StoreError;
use crate::tools::schema::{Field, FieldType};
use crate::tools::{Arguments, Capability, Failure, Hints, OfferedWhen, Reply, Tool, ToolContext};
use crate::vfs::RemoveOptions;

pub(in crate::tools) static TOOL: Tool = Tool {
    name: "delete_folder_by_id",
    title: "Delete a subfolder",
    description: "Deletes a subfolder that create_folder made, if it is empty, or with recursive also its files. The \
                  folders of list_folders can't be deleted.",
    required_access: &[Access::Write],
    offered: OfferedWhen::InOrganization,
    capabilities: &[Capability::BuiltIn],
    hints: Hints::DESTRUCTIVE.idempotent(),
    input: &[SUBFOLDER_ID, Field::optional("recursive", FieldType::Flag, "Delete its files too.")],
    output: &[OUT_SUCCESS, OUT_PATH],
    max_characters: None,
    run,
};

pub(super) const SUBFOLDER_ID: Field =
    Field::required("folderId", FieldType::Text, "A subfolder's id from create_folder.");

#[derive(Debug, Serialize)]
struct DeletedFolder {
    success: bool,
    path: String,
}

fn run(context: &ToolContext<'_>, arguments: &mut Arguments) -> Result<Reply, Failure> {
    let folder = context.folder(arguments, "folderId")?;
    folder.require_subfolder("deleted")?;
    let options = RemoveOptions { recursive: arguments.flag("recursive"), ..RemoveOptions::default() };
    context.vfs.remove_directory(&folder.path, options).map_err(|error| folder.subfolder_failure(error))?;
    Ok(json_reply(&DeletedFolder { success: true, path: format!("{}/", folder.path) }))
}

impl OpenFolder<'_> {
    /// Refuses the folder of an agent or a team itself.
    pub(super) fn require_subfolder(&self, verb: &str) -> Result<(), Failure> {
        if !self.is_root() {
            return Ok(());
        }
        self.vfs.authorize(Some(&self.path), Access::Write)?;
        let message = format!("Folder '{}' can't be {verb}: only subfolders of it can", self.name());
        Err(Failure::new(ErrorKind::Denied, message))
    }

    /// The failure of a call at a subfolder.
    pub(super) fn subfolder_failure(&self, error: Error) -> Failure {
        match error {
            Error::Store { cause: StoreError::NotFound | StoreError::NotADirectory, .. } => Failure::new(
                ErrorKind::NotFound,
                format!("Folder '{}' no longer exists. Use create_folder() to make it again.", self.name()),
            ),
            error => error.into(),
        }
    }
}
