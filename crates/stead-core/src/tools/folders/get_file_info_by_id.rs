//! `get_file_info_by_id`: the attributes of a file of a folder, and what the caller may do with it.

use serde::Serialize;
use serde_json::Value;

use super::file_name::media_type;
use super::{FILE_NAME, FOLDER_ID, OUT_PATH, json_reply};
use crate::path::VfsPath;
use crate::scope::Access;
use crate::tools::schema::{Field, FieldType};
use crate::tools::{Arguments, Capability, Failure, Hints, OfferedWhen, Reply, Tool, ToolContext};
use crate::vfs::Vfs;

pub(in crate::tools) static TOOL: Tool = Tool {
    name: "get_file_info_by_id",
    title: "Show a file's attributes",
    description: "Shows size, times, type and your permissions of a file in a folder that list_folders found, without \
                  reading it.",
    required_access: &[Access::Read],
    offered: OfferedWhen::InOrganization,
    capabilities: &[Capability::BuiltIn],
    hints: Hints::READ_ONLY,
    input: &[FOLDER_ID, FILE_NAME],
    output: &[
        Field::required("filename", FieldType::Text, "The name, relative to the folder."),
        Field::required("size", FieldType::integer_from(0), "The size in bytes."),
        Field::optional("modified", FieldType::Text, "When it was last changed, if known."),
        Field::optional("created", FieldType::Text, "When it was created, if known."),
        Field::required("mimeType", FieldType::Text, "The media type that the name suggests."),
        Field::required(
            "permissions",
            FieldType::Object(&[
                Field::required("read", FieldType::Flag, "Whether the caller may read it."),
                Field::required("write", FieldType::Flag, "Whether the caller may change it."),
                Field::required("delete", FieldType::Flag, "Whether the caller may delete it."),
            ]),
            "What the caller may do.",
        ),
        OUT_PATH,
    ],
    max_characters: None,
    run,
};

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct FileInfo<'a> {
    filename: &'a str,
    size: u64,
    modified: Option<String>,
    created: Option<String>,
    mime_type: &'static str,
    permissions: Permissions,
    path: String,
}

#[derive(Debug, Serialize)]
struct Permissions {
    read: bool,
    write: bool,
    delete: bool,
}

fn run(context: &ToolContext<'_>, arguments: &mut Arguments) -> Result<Reply, Failure> {
    let folder = context.folder(arguments, "folderId")?;
    let file = folder.file(arguments.text("filename"))?;
    let stat = file.stat_file()?;
    let may_change = may(context.vfs, &file.path, Access::Write);
    let mut reply = json_reply(&FileInfo {
        filename: &file.name,
        size: stat.size,
        modified: stat.modified.map(|time| time.to_string()),
        created: stat.created.map(|time| time.to_string()),
        mime_type: media_type(&file.name).unwrap_or("application/octet-stream"),
        permissions: Permissions {
            read: may(context.vfs, &file.path, Access::Read)
                && context.vfs.is_readable_on_host(&file.path)?,
            write: may_change,
            delete: may_change,
        },
        path: stat.path.to_string(),
    });
    // The schema of a fact has one type, so an unknown time is absent there.
    reply.facts.retain(|_, value| *value != Value::Null);
    Ok(reply)
}

/// Whether the caller may use a path so now: the Workspace there allows it, and the records still give the right.
fn may(vfs: &Vfs, path: &VfsPath, access: Access) -> bool {
    vfs.router().route(path).is_some_and(|route| {
        let is_protected = route.workspace.protect().matches_path_or_ancestor(route.relative_path);
        vfs.allows(route.workspace, access) && !(access.is_change() && is_protected)
    })
}
