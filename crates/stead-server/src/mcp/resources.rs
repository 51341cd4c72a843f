//! Files and the Filesystem Map as MCP resources.

use rmcp::model::{
    CacheScope, ErrorData, ListResourceTemplatesResult, ListResourcesResult, ReadResourceResult, Resource,
    ResourceContents, ResourceTemplate,
};
use stead_core::store::NodeKind;
use stead_core::tools::Failure;
use stead_core::vfs::{ByteRange, ListPage, media_type};
use stead_core::{Access, ErrorKind, VfsPath};

use super::handler::CACHE_TTL_MS;
use super::{convert, uri};
use crate::live_stead::SteadView;

/// The largest file that can be read as a resource; `read_file` reads larger ones piece by piece.
const MAX_RESOURCE_BYTES: u64 = 4 << 20;
/// The most resources on one page.
const PAGE_SIZE: usize = 200;
/// Separates the Workspace from the Store's cursor in a cursor of a listing: no path contains it.
const CURSOR_SEPARATOR: char = '\0';

/// Lists the map, and then the files at the top of each Workspace that may be read without approval. Files further down
/// aren't listed, but can be read.
pub(super) fn list(view: &SteadView, cursor: Option<&str>) -> Result<ListResourcesResult, ErrorData> {
    let invalid_cursor =
        || ErrorData::invalid_params("`cursor` isn't from an earlier listing; leave it out", None);
    let (first_prefix, mut after) = match cursor {
        None => (None, None),
        Some(cursor) => {
            let (prefix, after) = cursor.split_once(CURSOR_SEPARATOR).ok_or_else(invalid_cursor)?;
            (Some(prefix), (!after.is_empty()).then(|| after.to_owned()))
        }
    };
    let vfs = view.toolbox.vfs().operation("resources/list");
    let has_read_tool = view.toolbox.offers_reading();
    let readable: Vec<&VfsPath> = vfs
        .workspaces()
        .filter(|workspace| {
            has_read_tool
                && workspace.scope().allows(Access::Read)
                && !workspace.approval_policy().requires_approval(Access::Read)
        })
        .map(|workspace| workspace.prefix())
        .collect();
    let start = match first_prefix {
        None => 0,
        Some(first_prefix) => {
            readable.iter().position(|prefix| prefix.as_str() == first_prefix).ok_or_else(invalid_cursor)?
        }
    };
    let mut resources = Vec::new();
    if cursor.is_none() {
        resources.push(map_resource());
    }
    for prefix in &readable[start..] {
        loop {
            let limit = PAGE_SIZE.saturating_sub(resources.len());
            if limit == 0 {
                let next = format!("{prefix}{CURSOR_SEPARATOR}{}", after.unwrap_or_default());
                return Ok(list_result(resources, Some(next)));
            }
            let page = ListPage { cursor: after.take(), limit };
            // A Workspace that can't be listed now doesn't hide the others.
            let Ok(directory) = vfs.list(*prefix, &page) else { break };
            for entry in directory.entries.iter().filter(|entry| entry.kind == NodeKind::File) {
                // A name that isn't valid UTF-8 has no logical path.
                if let Some(path) =
                    std::str::from_utf8(entry.name.as_bytes()).ok().and_then(|name| prefix.join(name).ok())
                {
                    resources.push(file_resource(&path, entry.size));
                }
            }
            match directory.cursor {
                Some(cursor) => after = Some(cursor),
                None => break,
            }
        }
    }
    Ok(list_result(resources, None))
}

fn list_result(resources: Vec<Resource>, next: Option<String>) -> ListResourcesResult {
    let mut result = ListResourcesResult::with_all_items(resources);
    result.next_cursor = next;
    result.with_ttl_ms(0).with_cache_scope(CacheScope::Private)
}

fn map_resource() -> Resource {
    Resource::new(uri::MAP, "filesystem_map")
        .with_title("Filesystem Map")
        .with_description("What you have access to, and with which tools.")
        .with_mime_type("text/markdown")
}

fn file_resource(path: &VfsPath, size: u64) -> Resource {
    let resource = Resource::new(uri::of_path(path.as_str()), path.as_str()).with_size(size);
    match media_type(path) {
        Some(mime) => resource.with_mime_type(mime),
        None => resource,
    }
}

/// The URI template of files.
pub(super) fn templates() -> ListResourceTemplatesResult {
    let template = ResourceTemplate::new(uri::TEMPLATE, "file")
        .with_title("A file")
        .with_description("A file of a Workspace that you may read, by its path without the first slash.");
    ListResourceTemplatesResult::with_all_items(vec![template])
        .with_ttl_ms(CACHE_TTL_MS)
        .with_cache_scope(CacheScope::Private)
}

/// Reads a resource.
pub(super) fn read(view: &SteadView, uri: &str) -> Result<ReadResourceResult, ErrorData> {
    let contents = if uri == uri::MAP {
        ResourceContents::text(view.map(), uri).with_mime_type("text/markdown")
    } else {
        read_file(view, uri).map_err(|failure| convert::resource_error(&failure, uri))?
    };
    Ok(ReadResourceResult::new(vec![contents]).with_ttl_ms(0).with_cache_scope(CacheScope::Private))
}

fn read_file(view: &SteadView, uri: &str) -> Result<ResourceContents, Failure> {
    let path = path_of(uri)?;
    if !view.toolbox.offers_reading() {
        let message = "reading is not enabled for your organization, team or role".to_owned();
        return Err(Failure::new(ErrorKind::Denied, message));
    }
    let vfs = view.toolbox.vfs().operation("resources/read");
    let content = vfs.read_range(path.as_str(), ByteRange { offset: 0, length: MAX_RESOURCE_BYTES })?;
    if content.size > MAX_RESOURCE_BYTES {
        return Err(Failure::new(
            ErrorKind::TooLarge,
            format!(
                "`{}` has {} bytes; a resource can have at most {MAX_RESOURCE_BYTES}: read it in parts with read_file",
                content.path, content.size
            ),
        ));
    }
    let mime = media_type(&content.path);
    Ok(match String::from_utf8(content.bytes) {
        Ok(text) => ResourceContents::text(text, uri).with_mime_type(mime.unwrap_or("text/plain")),
        Err(error) => convert::blob(&path, error.as_bytes(), mime),
    })
}

/// The path of the file that a URI names.
pub(super) fn path_of(uri: &str) -> Result<String, Failure> {
    uri::path_of(uri).ok_or_else(|| {
        let short: String = uri.chars().take(64).collect();
        Failure::new(
            ErrorKind::NotFound,
            format!(
                "there is no resource `{}`; the URI of a file is stead:// and its path, such as stead:///notes/plan.md",
                short.escape_debug()
            ),
        )
    })
}
