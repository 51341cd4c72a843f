//! The folders that one call names: each id is looked up once, and the call's audit record says what came out.

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::OpenFolder;
use crate::audit_facts::{AuditFacts, FactName};
use crate::error::ErrorKind;
use crate::name::escape_name;
use crate::organization::{
    AgentIndex, Folder, FolderLookup, FolderScope, Folders, IssuedFolder, Membership, Organization,
};
use crate::path::VfsPath;
use crate::tools::{Arguments, Failure};
use crate::vfs::Vfs;

/// The parameters that name a file in a folder: the id, and the file.
const FILE_PARAMETERS: [(&str, &str); 3] =
    [("folderId", "filename"), ("sourceFolderId", "sourceFilename"), ("destFolderId", "destFilename")];
/// The parameters that name a folder to make.
const FOLDER_NAME_PARAMETERS: [&str; 2] = ["folderName", "newName"];
/// The longest text of one fact, in characters. A call may name a hundred files.
const MAX_FACT: usize = 500;

/// What a call of a folder tool names.
pub(in crate::tools) struct FolderCall<'a> {
    folders: &'a Folders,
    membership: Membership,
    lookups: HashMap<String, FolderLookup>,
    /// The ids, in the order of the arguments.
    ids: Vec<String>,
    files: Vec<String>,
    scope: Option<FolderScope>,
}

impl<'a> FolderCall<'a> {
    /// Looks up what the arguments name.
    pub(in crate::tools) fn new(folders: &'a Folders, arguments: &Arguments) -> Self {
        let scope = arguments.optional_text("scope").and_then(|scope| scope.parse().ok());
        let (membership, lookups) = (folders.membership(), HashMap::new());
        let (ids, files) = (Vec::new(), Vec::new());
        let mut call = FolderCall { folders, membership, lookups, ids, files, scope };
        let text = |name: &str| arguments.optional_text(name);
        for (id, file) in FILE_PARAMETERS {
            call.add(text(id), text(file));
        }
        FOLDER_NAME_PARAMETERS.into_iter().for_each(|name| call.add(None, text(name)));
        for operation in arguments.objects("operations") {
            let text = |name: &str| operation.get(name).and_then(Value::as_str);
            call.add(text("folderId"), text("filename"));
        }
        call
    }

    fn add(&mut self, id: Option<&str>, file: Option<&str>) {
        if let Some(id) = id {
            let (ids, holder) = (self.folders.ids(), self.folders.holder());
            self.lookups.entry(id.to_owned()).or_insert_with(|| ids.resolve(holder, id));
            self.ids.push(id.to_owned());
        }
        self.files.extend(file.map(|file| escape_name(file.as_bytes()).to_string()));
    }

    /// The agent's folders.
    pub(super) fn folders(&self) -> &'a Folders {
        self.folders
    }

    /// The organization.
    pub(super) fn organization(&self) -> &Organization {
        &self.membership.organization
    }

    /// The agent that makes the call.
    pub(super) fn agent(&self) -> AgentIndex {
        self.membership.agent
    }

    /// The folders that the ids stand for, and the folder of a scope that has only one.
    fn found(&self) -> impl Iterator<Item = Folder> {
        let organization = self.organization();
        let by_id = self.ids.iter().filter_map(|id| match &self.lookups[id] {
            FolderLookup::Found(issued) => organization.folder(&issued.owner_id, issued.visibility),
            FolderLookup::Expired | FolderLookup::Unknown => None,
        });
        let in_scope = self.scope.filter(|scope| *scope != FolderScope::OrgShared);
        let in_scope = in_scope.map(|scope| organization.discover(self.agent(), scope));
        by_id.chain(in_scope.into_iter().flatten())
    }

    /// The path that the call is about: a folder, or the directory of all folders if it names several.
    pub(in crate::tools) fn path(&self) -> Option<VfsPath> {
        let mut paths = self.found().map(|folder| self.organization().folder_path(folder));
        let first = paths.next()?;
        match paths.all(|path| path == first) {
            true => Some(first),
            false => Some(super::all_folders()),
        }
    }

    /// The facts of the call's audit record, added to these.
    pub(in crate::tools) fn audit_facts(&self, facts: &AuditFacts) -> AuditFacts {
        let (organization, found): (_, Vec<_>) = (self.organization(), self.found().collect());
        let of_folders = |text: fn(Folder) -> &'static str| found.iter().map(move |folder| text(*folder));
        let lookups = self.ids.iter().map(|id| match &self.lookups[id] {
            FolderLookup::Found(_) => "hit",
            FolderLookup::Expired => "expired",
            FolderLookup::Unknown => "unknown",
        });
        let issued_scope = |id: &String| match &self.lookups[id] {
            FolderLookup::Found(issued) => Some(issued.scope),
            FolderLookup::Expired | FolderLookup::Unknown => None,
        };
        let scopes = self.scope.into_iter().chain(self.ids.iter().filter_map(issued_scope));
        let named = [
            ("folder.id", distinct(lookups)),
            ("folder.owner", distinct(found.iter().map(|folder| organization.owner_id(*folder)))),
            ("folder.owner_type", distinct(of_folders(|folder| folder.owner.kind()))),
            ("folder.visibility", distinct(of_folders(|folder| folder.visibility.as_str()))),
            ("folder.scope", distinct(scopes.map(FolderScope::as_str))),
            ("folder.file", distinct(self.files.iter().map(String::as_str))),
        ];
        let named = named.into_iter().filter(|(_, text)| !text.is_empty());
        named.fold(facts.clone(), |facts, (name, text)| facts.with_if_room(name, text))
    }

    /// The folder that an id stands for, as the current records have it.
    pub(super) fn open<'c>(&'c self, vfs: &'c Vfs, id: &str) -> Result<OpenFolder<'c>, Failure> {
        let shown = || super::short_text(id);
        match &self.lookups[id] {
            FolderLookup::Found(issued) => self.open_issued(vfs, id, issued),
            FolderLookup::Expired => Err(Failure::new(
                ErrorKind::Expired,
                format!(
                    "Folder ID '{}' has expired. Use list_folders() to discover current folders.",
                    shown()
                ),
            )),
            FolderLookup::Unknown => Err(Failure::new(
                ErrorKind::NotFound,
                format!(
                    "Folder ID '{}' not found. It may have expired or been deleted. Use list_folders() to discover \
                     current folders.",
                    shown()
                ),
            )),
        }
    }

    fn open_issued<'c>(
        &'c self,
        vfs: &'c Vfs,
        id: &str,
        issued: &IssuedFolder,
    ) -> Result<OpenFolder<'c>, Failure> {
        let folder = self.organization().folder(&issued.owner_id, issued.visibility);
        let opened = folder.and_then(|folder| OpenFolder::new(vfs, self, folder, issued.clone()));
        // Nothing of the folder is named: the caller may not be able to discover it any more.
        let opened = opened.ok_or_else(|| {
            Failure::new(
                ErrorKind::Denied,
                "You no longer have access to this folder. Use list_folders() to discover current folders.",
            )
        });
        opened.map(|opened| opened.with_id(id))
    }
}

/// The different texts, joined and cut.
fn distinct<'t>(texts: impl Iterator<Item = &'t str>) -> String {
    let mut distinct: Vec<&str> = Vec::new();
    for text in texts {
        if !distinct.contains(&text) {
            distinct.push(text);
        }
    }
    distinct.join(", ").chars().take(MAX_FACT).collect()
}

/// The fact for the audit if a call claims to be made by another agent than its caller.
pub(in crate::tools) fn claimed_agent_fact(
    folders: &Folders,
    arguments: &Map<String, Value>,
) -> Option<(FactName, String)> {
    let operations = arguments.get("operations").and_then(Value::as_array).into_iter().flatten();
    let objects = [arguments].into_iter().chain(operations.filter_map(Value::as_object));
    let claimed = objects.filter_map(|object| object.get("agentId"));
    let claimed = claimed.map(|id| id.as_str().map_or_else(|| id.to_string(), str::to_owned));
    let other = claimed.into_iter().find(|id| **id != *folders.holder().agent)?;
    Some((FactName::new("security.claimed_agent").expect("a valid name"), super::short_text(&other)))
}
