//! One page of a listing of folders: as many folders and files as fit into a reply.

use serde::Serialize;

/// A listing of folders, or a page of it.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct FolderListing {
    pub(super) folders: Vec<ListedFolder>,
    pub(super) total_folders: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) next_cursor: Option<String>,
}

/// A folder, and its files on this page.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ListedFolder {
    pub(super) folder_id: String,
    pub(super) folder_name: String,
    pub(super) folder_type: &'static str,
    pub(super) owner_type: &'static str,
    pub(super) visibility: &'static str,
    /// Ends with `/`.
    pub(super) path: String,
    /// How many files it has on all pages.
    pub(super) file_count: usize,
    /// How many names in it could not be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) unreadable: Option<usize>,
    pub(super) files: Vec<ListedFile>,
}

/// A file of a folder.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ListedFile {
    pub(super) filename: String,
    pub(super) size: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) modified: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) mime_type: Option<&'static str>,
}

/// The bytes of a listing besides its folders and its cursor.
const FRAME_BYTES: usize = 100;
/// An id as long as every id. Ids are issued when it is known what is on the page.
pub(super) const PLACEHOLDER_ID: &str = "00000000-0000-4000-8000-000000000000";

/// A page while it is filled.
#[derive(Debug)]
pub(super) struct FolderPage {
    folders: Vec<ListedFolder>,
    bytes_left: usize,
    files_left: usize,
    /// The path of the last folder or file on the page.
    position: String,
}

impl FolderPage {
    pub(super) fn new(max_bytes: usize, max_files: usize) -> Self {
        let bytes_left = max_bytes.saturating_sub(FRAME_BYTES);
        FolderPage { folders: Vec::new(), bytes_left, files_left: max_files, position: String::new() }
    }

    /// Adds a folder with as many of these files as fit. Returns whether all of it is on the page.
    pub(super) fn add(&mut self, folder: ListedFolder, files: Vec<ListedFile>) -> bool {
        let size = json_size(&folder);
        let position_of = |file: &ListedFile| format!("{}{}", folder.path, file.filename);
        // A file also needs room for the cursor that continues after it.
        let file_size = |file: &ListedFile| (json_size(file), json_size(&position_of(file)));
        let first_size = files.first().map_or(json_size(&folder.path), |file| {
            let (file_size, cursor_size) = file_size(file);
            file_size + cursor_size
        });
        let has_room = self.bytes_left >= size + first_size && (self.files_left > 0 || files.is_empty());
        // The first file is always added: an empty page wouldn't help the caller.
        if !has_room && !self.folders.is_empty() {
            return false;
        }
        self.bytes_left = self.bytes_left.saturating_sub(size);
        let mut count = 0;
        for file in &files {
            let (file_size, cursor_size) = file_size(file);
            let has_room = self.files_left > 0 && self.bytes_left >= file_size + cursor_size;
            if !has_room && count > 0 {
                break;
            }
            self.bytes_left = self.bytes_left.saturating_sub(file_size);
            self.files_left = self.files_left.saturating_sub(1);
            count += 1;
        }
        self.position = match count {
            0 => folder.path.clone(),
            count => position_of(&files[count - 1]),
        };
        let is_whole = count == files.len();
        let files = files.into_iter().take(count).collect();
        self.folders.push(ListedFolder { files, ..folder });
        is_whole
    }

    /// The folders on the page, and the path of the last folder or file.
    pub(super) fn into_parts(self) -> (Vec<ListedFolder>, String) {
        (self.folders, self.position)
    }
}

/// The size of a value as JSON, with a separator.
pub(super) fn json_size(value: &impl Serialize) -> usize {
    serde_json::to_string(value).map_or(0, |json| json.len() + 1)
}
