//! `rename_folder_by_id`: renames a subfolder.

use serde::Serialize;

use super::delete_folder_by_id::SUBFOLDER_ID;
use super::file_name::check_name;
use super::{OUT_FOLDER_ID, OUT_FOLDER_NAME, OUT_PATH, OUT_SUCCESS, OpenFolder, authorize, json_reply};
use crate::error::{Error, Visibility};
use crate::organization::IssuedFolder;
use crate::scope::Access;
use crate::store::{NodeKind, StoreError};
use crate::tools::schema::{Field, FieldType};
use crate::tools::{Arguments, Capability, Failure, Hints, OfferedWhen, Reply, Tool, ToolContext};
use crate::vfs::Overwrite;

pub(in crate::tools) static TOOL: Tool = Tool {
    name: "rename_folder_by_id",
    title: "Rename a subfolder",
    description: "Renames a subfolder that create_folder made, and returns a new id for it. The folders of list_folders \
                  can't be renamed.",
    required_access: &[Access::Write],
    offered: OfferedWhen::InOrganization,
    capabilities: &[Capability::BuiltIn],
    hints: Hints::DESTRUCTIVE.idempotent(),
    input: &[SUBFOLDER_ID, Field::required("newName", FieldType::Text, "The new name, without `/`.")],
    output: &[OUT_SUCCESS, OUT_FOLDER_ID, OUT_FOLDER_NAME, OUT_PATH],
    max_characters: None,
    run,
};

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct RenamedFolder {
    success: bool,
    folder_id: String,
    folder_name: String,
    path: String,
}

fn run(context: &ToolContext<'_>, arguments: &mut Arguments) -> Result<Reply, Failure> {
    let folder = context.folder(arguments, "folderId")?;
    folder.require_subfolder("renamed")?;
    let new_name = arguments.text("newName");
    check_name(new_name)?;
    if new_name.contains('/') {
        return Err(Failure::invalid("`newName` is one name without `/`: the folder stays where it is"));
    }
    let subfolder = match folder.issued.subfolder.rsplit_once('/') {
        Some((parent, _)) => format!("{parent}/{new_name}"),
        None => new_name.to_owned(),
    };
    let issued = IssuedFolder { subfolder: subfolder.into(), ..folder.issued.clone() };
    let renamed = OpenFolder::new(context.vfs, context.folder_call(), folder.folder, issued);
    let renamed =
        renamed.ok_or_else(|| Failure::invalid("`newName` is too long for the path of the folder"))?;
    let accesses =
        [(&folder.path, Access::Write), (&folder.path, Access::Read), (&renamed.path, Access::Write)];
    authorize(context.vfs, &accesses)?;
    let stat = context.vfs.stat_link(&folder.path).map_err(|error| folder.subfolder_failure(error))?;
    if stat.kind != NodeKind::Directory {
        let cause = StoreError::NotADirectory;
        let error = Error::Store { path: folder.path.clone(), visibility: Visibility::Visible, cause };
        return Err(folder.subfolder_failure(error));
    }
    let moved = context.vfs.rename(&folder.path, &renamed.path, Overwrite::Refuse);
    moved.map_err(|error| folder.subfolder_failure(error))?;
    Ok(json_reply(&RenamedFolder {
        success: true,
        folder_id: renamed.issue_id(&mut std::iter::empty()),
        folder_name: renamed.name(),
        path: format!("{}/", renamed.path),
    }))
}
