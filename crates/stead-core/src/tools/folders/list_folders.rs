//! `list_folders`: discovers the folders of a scope, their ids and their files.

use super::file_name::media_type;
use super::folder_page::{FolderListing, FolderPage, ListedFile, ListedFolder, PLACEHOLDER_ID};
use super::{OUT_FOLDER_ID, OUT_FOLDER_NAME, OUT_PATH, OpenFolder, all_folders, json_reply};
use crate::clock::Timestamp;
use crate::error::{Error, ErrorKind};
use crate::organization::{Folder, FolderScope, IssuedFolder, Visibility};
use crate::path::VfsPath;
use crate::scope::Access;
use crate::tools::page::{MAX_REPLY_CHARACTERS, ReplyBounds};
use crate::tools::schema::{Field, FieldType};
use crate::tools::{Arguments, Capability, Failure, Hints, OfferedWhen, Reply, Tool, ToolContext};
use crate::vfs::PathEntry;

/// A larger limit makes a longer page.
const FILES_OF_PAGE: u64 = 200;

pub(in crate::tools) static TOOL: Tool = Tool {
    name: "list_folders",
    title: "Discover folders",
    description: "Discovers folders and their files, with the ids that the *_by_id tools take. Scopes: my_private, \
                  my_shared, team_private, team_shared (your team's), org_shared (all teams' and your colleagues'). An id \
                  is valid for 30 minutes. Continue a long list with nextCursor.",
    required_access: &[Access::Read],
    offered: OfferedWhen::InOrganization,
    capabilities: &[Capability::BuiltIn],
    hints: Hints::READ_ONLY,
    input: &[
        Field::required("scope", FieldType::FolderScope, "Whose folders."),
        Field::optional(
            "filter",
            FieldType::Object(&[
                Field::optional("filePattern", FieldType::Text, "A glob, such as *.md."),
                Field::optional("modifiedAfter", FieldType::Text, "A time, such as 2026-11-15T08:30:00Z."),
                Field::optional("minSize", FieldType::integer_from(0), "In bytes."),
                Field::optional("maxSize", FieldType::integer_from(0), "In bytes."),
            ]),
            "Only these files.",
        ),
        Field::optional("limit", FieldType::Integer { min: 1, max: 5_000 }, "At most this many files."),
        Field::optional("cursor", FieldType::Text, "The nextCursor of the page before."),
    ],
    output: &[
        Field::required(
            "folders",
            FieldType::ObjectList(&[
                OUT_FOLDER_ID,
                OUT_FOLDER_NAME,
                Field::required("folderType", FieldType::FolderScope, "The scope that was asked for."),
                Field::required("ownerType", FieldType::OneOf(&["agent", "team"]), "Whose folder it is."),
                Field::required("visibility", FieldType::OneOf(&["private", "shared"]), "Which one."),
                OUT_PATH,
                Field::required(
                    "fileCount",
                    FieldType::integer_from(0),
                    "How many files it has that the filter selects, on all pages.",
                ),
                Field::optional(
                    "unreadable",
                    FieldType::integer_from(1),
                    "How many names in it could not be read.",
                ),
                Field::required(
                    "files",
                    FieldType::ObjectList(&[
                        Field::required("filename", FieldType::Text, "The name, relative to the folder."),
                        Field::required("size", FieldType::integer_from(0), "The size in bytes."),
                        Field::optional("modified", FieldType::Text, "When it was last changed, if known."),
                        Field::optional("mimeType", FieldType::Text, "The media type, if known."),
                    ]),
                    "Its files on this page.",
                ),
            ]),
            "The folders on this page.",
        ),
        Field::required("totalFolders", FieldType::integer_from(0), "How many folders the scope has."),
        Field::optional("nextCursor", FieldType::Text, "The cursor of the next page; absent on the last."),
    ],
    max_characters: Some(MAX_REPLY_CHARACTERS),
    run,
};

fn run(context: &ToolContext<'_>, arguments: &mut Arguments) -> Result<Reply, Failure> {
    let scope = arguments.folder_scope("scope");
    let filter = FileFilter::new(&arguments.object("filter"))?;
    check_membership(context)?;
    let folders = discovered(context, scope);
    let start = match arguments.optional_text("cursor") {
        Some(cursor) => Start::parse(cursor, &folders)?,
        None => Start::default(),
    };
    if context.vfs.will_ask_approval() {
        let paths: Vec<VfsPath> = folders[start.folder..].iter().map(|folder| folder.path.clone()).collect();
        context.vfs.request_approval(&paths, Access::Read)?;
    }
    let limit = arguments.number("limit");
    let bounds = ReplyBounds::for_limit(limit, FILES_OF_PAGE);
    let mut page = FolderPage::new(bounds.bytes, limit.map_or(usize::MAX, |limit| limit as usize));
    let (mut is_last, mut withdrawn) = (true, 0);
    for (index, folder) in folders.iter().enumerate().skip(start.folder) {
        let found = match folder.walk(filter.pattern.clone()) {
            // The right to read it was taken away since it was discovered.
            Err(Error::AccessWithdrawn { .. }) => {
                withdrawn += 1;
                continue;
            }
            found => found?,
        };
        let mut files: Vec<_> = found.entries.iter().filter(|entry| filter.selects(entry)).collect();
        let file_count = files.len();
        if index == start.folder && !start.after.is_empty() {
            files.retain(|entry| folder.file_name(entry).split('/').gt(start.after.split('/')));
            if files.is_empty() {
                continue;
            }
        }
        let listed = ListedFolder {
            folder_id: PLACEHOLDER_ID.to_owned(),
            folder_name: folder.name(),
            folder_type: scope.as_str(),
            owner_type: folder.folder.owner.kind(),
            visibility: folder.folder.visibility.as_str(),
            path: format!("{}/", folder.path),
            file_count,
            unreadable: Some(found.unreadable.len()).filter(|count| *count > 0),
            files: Vec::new(),
        };
        let files = files.into_iter().map(|entry| listed_file(folder.file_name(entry), entry)).collect();
        if !page.add(listed, files) {
            is_last = false;
            break;
        }
    }
    let (mut listed, position) = page.into_parts();
    for listed in &mut listed {
        let folder = folders.iter().find(|folder| format!("{}/", folder.path) == listed.path);
        let mut names = listed.files.iter().map(|file| file.filename.as_str());
        listed.folder_id = folder.map_or_else(String::new, |folder| folder.issue_id(&mut names));
    }
    if folders.len() > 1 {
        // The record names all folders, not the one that was listed last.
        context.vfs.audited(TOOL.name, Some(&all_folders()), || Ok(()))?;
    }
    let next_cursor = (!is_last).then_some(position);
    Ok(json_reply(&FolderListing { folders: listed, total_folders: folders.len() - withdrawn, next_cursor }))
}

/// Refuses a caller that the current records don't have any more. It would find nothing, and an empty list would look as
/// if there were no folders.
fn check_membership(context: &ToolContext<'_>) -> Result<(), Failure> {
    let call = context.folder_call();
    let own = Folder::of_agent(call.agent(), Visibility::Private);
    let path = call.organization().folder_path(own);
    let route = context.vfs.router().route(&path);
    match route.is_some_and(|route| !context.vfs.allows(route.workspace, Access::Read)) {
        true => {
            Err(Failure::new(ErrorKind::Denied, "You have no folders any more: your rights have changed."))
        }
        false => Ok(()),
    }
}

/// The folders of a scope that are Workspaces of the caller.
fn discovered<'c>(context: &'c ToolContext<'_>, scope: FolderScope) -> Vec<OpenFolder<'c>> {
    let call = context.folder_call();
    let organization = call.organization();
    let open = |folder| {
        let issued = IssuedFolder {
            owner_id: organization.owner_id(folder).into(),
            visibility: folder.visibility,
            scope,
            subfolder: "".into(),
        };
        OpenFolder::new(context.vfs, call, folder, issued)
    };
    organization.discover(call.agent(), scope).into_iter().filter_map(open).collect()
}

fn listed_file(name: &str, entry: &PathEntry) -> ListedFile {
    ListedFile {
        filename: name.to_owned(),
        size: entry.size,
        modified: entry.modified.map(|time| time.to_string()),
        mime_type: media_type(name),
    }
}

/// Where a page begins.
#[derive(Debug, Default, PartialEq, Eq)]
struct Start {
    /// The index of the first folder.
    folder: usize,
    /// The file of it after which the page begins; empty for its first one.
    after: String,
}

impl Start {
    /// The position after a cursor, which is the path of the last folder or file of the page before.
    fn parse(cursor: &str, folders: &[OpenFolder<'_>]) -> Result<Start, Failure> {
        let below =
            |folder: &OpenFolder<'_>| cursor.strip_prefix(&format!("{}/", folder.path)).map(str::to_owned);
        let found = folders.iter().enumerate().find_map(|(index, folder)| Some((index, below(folder)?)));
        match found {
            Some((index, after)) if after.is_empty() => Ok(Start { folder: index + 1, after }),
            Some((folder, after)) => Ok(Start { folder, after }),
            None => Err(Failure::invalid(
                "`cursor` isn't the nextCursor of an earlier page of this scope; leave it out to start over",
            )),
        }
    }
}

/// Which files are listed.
#[derive(Debug)]
struct FileFilter {
    pattern: Option<String>,
    modified_after: Option<Timestamp>,
    min_size: u64,
    max_size: u64,
}

impl FileFilter {
    fn new(filter: &Arguments) -> Result<FileFilter, Failure> {
        let modified_after = filter.optional_text("modifiedAfter").map(str::parse::<Timestamp>).transpose();
        Ok(FileFilter {
            pattern: filter.optional_text("filePattern").map(anchored),
            modified_after: modified_after.map_err(|error| Failure::invalid(error.to_string()))?,
            min_size: filter.number("minSize").unwrap_or(0),
            max_size: filter.number("maxSize").unwrap_or(u64::MAX),
        })
    }

    fn selects(&self, entry: &PathEntry) -> bool {
        let is_newer = |after: Timestamp| entry.modified.is_some_and(|modified| modified > after);
        (self.min_size..=self.max_size).contains(&entry.size) && self.modified_after.is_none_or(is_newer)
    }
}

/// The pattern relative to the folder. One without a `/` is for the names of files at every depth.
fn anchored(pattern: &str) -> String {
    match pattern.trim_start_matches('/') {
        relative if pattern.contains('/') => relative.to_owned(),
        name => format!("**/{name}"),
    }
}
