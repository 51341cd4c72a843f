//! `create_folder`: makes a subfolder of a folder that the caller may write to.

use serde::Serialize;

use super::file_name::{check_name, too_deep};
use super::{OUT_FOLDER_ID, OUT_FOLDER_NAME, OUT_PATH, OUT_SUCCESS, OpenFolder, json_reply};
use crate::error::ErrorKind;
use crate::organization::{FolderScope, IssuedFolder};
use crate::scope::Access;
use crate::store::Parents;
use crate::tools::schema::{Field, FieldType};
use crate::tools::{Arguments, Capability, Failure, Hints, OfferedWhen, Reply, Tool, ToolContext};

pub(in crate::tools) static TOOL: Tool = Tool {
    name: "create_folder",
    title: "Create a subfolder",
    description: "Creates a subfolder of your or your team's folder and returns an id for it, as list_folders does.",
    required_access: &[Access::Write],
    offered: OfferedWhen::InOrganization,
    capabilities: &[Capability::BuiltIn],
    hints: Hints::ADDITIVE.idempotent(),
    input: &[
        Field::required("scope", FieldType::FolderScope, "Where; org_shared is read-only."),
        Field::required("folderName", FieldType::Text, "Such as reports."),
    ],
    output: &[
        OUT_SUCCESS,
        Field::required("created", FieldType::Flag, "Whether the folder is new."),
        OUT_FOLDER_ID,
        OUT_FOLDER_NAME,
        OUT_PATH,
    ],
    max_characters: None,
    run,
};

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct CreatedFolder {
    success: bool,
    created: bool,
    folder_id: String,
    folder_name: String,
    path: String,
}

fn run(context: &ToolContext<'_>, arguments: &mut Arguments) -> Result<Reply, Failure> {
    let (scope, name) = (arguments.folder_scope("scope"), arguments.text("folderName"));
    check_name(name)?;
    let folder = folder_of_scope(context, scope, name)?;
    context.vfs.authorize(Some(&folder.path), Access::Write)?;
    // A folder is of use only if a file in it isn't too deep.
    let depth_of_file = folder.depth_of(&format!("{name}/file"));
    if depth_of_file > folder.max_depth() {
        return Err(too_deep(&format!("{name}/…"), depth_of_file, folder.max_depth()));
    }
    let made = context.vfs.mkdir(&folder.path, Parents::Create)?;
    Ok(json_reply(&CreatedFolder {
        success: true,
        created: made.created.unwrap_or(false),
        folder_id: folder.issue_id(&mut std::iter::empty()),
        folder_name: folder.name(),
        path: format!("{}/", folder.path),
    }))
}

/// The subfolder of this name in the folder of a scope that has one.
fn folder_of_scope<'c>(
    context: &'c ToolContext<'_>,
    scope: FolderScope,
    name: &str,
) -> Result<OpenFolder<'c>, Failure> {
    let call = context.folder_call();
    let (organization, agent) = (call.organization(), call.agent());
    let denied = || {
        let note = organization.denial_note(agent);
        Failure::new(
            ErrorKind::Denied,
            format!("You can't create a folder in scope '{}'. {note}", scope.as_str()),
        )
    };
    if !organization.writable_scopes(agent).contains(&scope) {
        return Err(denied());
    }
    let folder = organization.discover(agent, scope).into_iter().next().ok_or_else(denied)?;
    let path = organization.folder_path(folder).join(name);
    path.map_err(|error| Failure::invalid(error.to_string()))?;
    let issued = IssuedFolder {
        owner_id: organization.owner_id(folder).into(),
        visibility: folder.visibility,
        scope,
        subfolder: name.into(),
    };
    OpenFolder::new(context.vfs, call, folder, issued).ok_or_else(denied)
}
