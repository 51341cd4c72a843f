//! Listing directories page by page, and walking everything below them.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use crate::clock::Timestamp;
use crate::error::{Error, Result};
use crate::glob::{Anchor, PathGlobs};
use crate::name::Name;
use crate::path::VfsPath;
use crate::scope::{Access, AccessScope};
use crate::search::{IgnoreFiles, LeftOut, UnreadablePaths, WalkOptions};
use crate::store::{Attr, Entry, Listing, NodeKind, Page, StoreError, StorePath, StoreResult, VersionTag};
use crate::vfs::call::Call;
use crate::vfs::resolve::ResolvedPath;
use crate::vfs::{IntoPath, Vfs};
use crate::workspace::{Barrier, Workspace};

/// Which part of a directory is wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListPage {
    /// The cursor that the page before returned; `None` for the first page.
    pub cursor: Option<String>,
    /// The maximum number of entries.
    pub limit: usize,
}

impl Default for ListPage {
    fn default() -> Self {
        ListPage { cursor: None, limit: 1_000 }
    }
}

impl ListPage {
    /// All entries on one page.
    pub fn all() -> Self {
        ListPage { cursor: None, limit: usize::MAX }
    }
}

/// A directory, or a page of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DirectoryListing {
    /// The directory's path, with symlinks resolved.
    pub path: VfsPath,
    /// The entries, sorted by name.
    pub entries: Vec<DirEntry>,
    /// How many entries the directory has.
    pub total: u64,
    /// What to pass for the next page; `None` after the last one.
    pub cursor: Option<String>,
}

impl DirectoryListing {
    /// Drops all but the first `count` entries of this page; the next page begins after them.
    pub(crate) fn truncate(&mut self, count: usize) {
        if count < self.entries.len() {
            self.entries.truncate(count);
            self.cursor = self.entries.last().map(|entry| encode_cursor(&entry.name));
        }
    }
}

/// One name in a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DirEntry {
    /// The name.
    pub name: Name,
    /// What kind of node has the name.
    pub kind: NodeKind,
    /// A file's size in bytes.
    pub size: u64,
    /// Permission bits.
    pub mode: u32,
    /// When the node was last modified, if known.
    pub modified: Option<Timestamp>,
    /// The version tag; `None` for a Workspace and for a directory that exists only because a Workspace lies below it.
    pub tag: Option<VersionTag>,
    /// The Access Scope, if the entry is a Workspace of its own.
    pub workspace: Option<AccessScope>,
}

impl DirEntry {
    fn from_attr(name: Name, attr: &Attr) -> Self {
        DirEntry {
            name,
            kind: attr.kind,
            size: attr.size,
            mode: attr.mode,
            modified: Some(attr.modified),
            tag: Some(attr.tag),
            workspace: None,
        }
    }

    fn synthetic(name: Name, workspace: Option<AccessScope>) -> Self {
        DirEntry {
            name,
            kind: NodeKind::Directory,
            size: 0,
            mode: 0o755,
            modified: None,
            tag: None,
            workspace,
        }
    }
}

/// What a walk looks for.
#[derive(Debug, Clone)]
pub struct WalkQuery {
    /// How many levels deep; 1 for the directory's own entries.
    pub depth: usize,
    /// Only paths that match this glob. It is relative to the directory that is walked, or to `/` if it begins with
    /// `/`.
    pub pattern: Option<String>,
    /// Only files with one of these extensions, given without the dot.
    pub extensions: Vec<String>,
    /// Only nodes of this kind.
    pub kind: Option<NodeKind>,
    /// The maximum number of entries.
    pub limit: usize,
    /// Whether ignore files are respected. The directory that is walked is always shown.
    pub ignore_files: IgnoreFiles,
    /// How long the walk may take.
    pub time_limit: Duration,
}

impl Default for WalkQuery {
    /// Everything, ignored or not.
    fn default() -> Self {
        WalkQuery {
            depth: usize::MAX,
            pattern: None,
            extensions: Vec::new(),
            kind: None,
            limit: usize::MAX,
            ignore_files: IgnoreFiles::Disregarded,
            time_limit: Duration::from_secs(60),
        }
    }
}

/// A node below a directory that was walked.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PathEntry {
    /// Its logical path. Characters that could mislead a reader are escaped.
    pub path: String,
    /// What kind of node it is.
    pub kind: NodeKind,
    /// A file's size in bytes.
    pub size: u64,
    /// Permission bits.
    pub mode: u32,
    /// When it was last modified, if known.
    pub modified: Option<Timestamp>,
    /// Its version tag, if it has one.
    pub tag: Option<VersionTag>,
}

/// The result of a walk.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct WalkResult {
    /// The nodes that were found, sorted by path.
    pub entries: Vec<PathEntry>,
    /// What could not be read and is therefore missing from `entries`; sorted by path.
    pub unreadable: Vec<Unreadable>,
    /// What is missing from `entries` because it is ignored.
    pub left_out: LeftOut,
}

/// Something that a walk or a search could not read.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Unreadable {
    /// Its logical path. Characters that could mislead a reader are escaped.
    pub path: String,
    /// Why it could not be read.
    pub reason: String,
}

/// One Workspace's part of what lies below a path.
pub(super) struct WalkRegion<'a> {
    pub(super) root: ResolvedPath<'a>,
    /// The path from the requested path to `root`; empty for the requested path itself.
    pub(super) base: String,
    /// The paths below `root` that other Workspaces cover, relative to it.
    pub(super) skip: Vec<StorePath>,
    /// Whether `root` is a directory. A search may also start at a file.
    pub(super) is_directory: bool,
}

impl WalkRegion<'_> {
    /// The logical path of a node that was found in this region, escaped.
    pub(super) fn logical_path(&self, found: &StorePath) -> String {
        match (found.is_empty(), self.root.path.is_root()) {
            (true, _) => self.root.path.to_string(),
            (false, true) => format!("/{found}"),
            (false, false) => format!("{}/{found}", self.root.path),
        }
    }

    /// Moves what the Store could not read from `paths` to `unreadable`.
    pub(super) fn collect_unreadable(&self, paths: &UnreadablePaths, unreadable: &mut Vec<Unreadable>) {
        let to_unreadable = |(path, cause): (StorePath, StoreError)| Unreadable {
            path: self.logical_path(&path),
            reason: cause.to_string(),
        };
        unreadable.extend(paths.take().into_iter().map(to_unreadable));
    }

    /// Handles a Store's failure to read this region. For a nested Workspace it is only noted, so that the other
    /// regions are still searched.
    pub(super) fn note_or_fail(&self, cause: StoreError, unreadable: &mut Vec<Unreadable>) -> Result<()> {
        if self.base.is_empty() {
            return Err(self.root.store_error(cause));
        }
        unreadable.push(Unreadable { path: self.root.path.to_string(), reason: cause.to_string() });
        Ok(())
    }
}

/// A key that sorts paths component by component: no name contains a NUL, and NUL sorts before every other byte.
pub(super) fn sort_key(path: &str) -> Vec<u8> {
    path.bytes().map(|byte| if byte == b'/' { 0 } else { byte }).collect()
}

impl Vfs {
    /// The entries of a directory, nested Workspaces included.
    pub fn list(&self, path: impl IntoPath, page: &ListPage) -> Result<DirectoryListing> {
        self.call("list", [path.into_path()], |call, [path]| call.list(path, page))
    }

    /// Everything below a directory, sorted by path, nested Workspaces that may be read included.
    pub fn walk(&self, path: impl IntoPath, query: &WalkQuery) -> Result<WalkResult> {
        self.call("walk", [path.into_path()], |call, [path]| call.walk(path, query))
    }
}

impl<'v> Call<'v> {
    /// Whether a path is a directory even if its Store has nothing there: the root of a Workspace, or an ancestor of a
    /// nested Workspace.
    pub(super) fn is_synthetic_directory(&self, resolved: &ResolvedPath<'_>) -> bool {
        resolved.is_workspace() || self.shared().router.leads_to_workspace(&resolved.path)
    }

    /// Whether the directory that contains a path is only synthetic: it is listed, but its Store has nothing there yet.
    pub(super) fn is_in_synthetic_directory(&self, resolved: &ResolvedPath<'_>) -> bool {
        let (workspace, parent) = (resolved.workspace, resolved.path.parent());
        let Some(parent) = parent.filter(|_| !resolved.is_workspace()) else { return false };
        let relative_path = parent.strip_prefix(workspace.prefix()).unwrap_or_default();
        let is_listed = relative_path.is_empty() || self.shared().router.leads_to_workspace(&parent);
        let stat = || resolved.store().stat(&workspace.mount().node_path(relative_path));
        is_listed && matches!(stat(), Err(StoreError::NotFound))
    }

    pub(super) fn list(&self, path: &VfsPath, page: &ListPage) -> Result<DirectoryListing> {
        let after = page.cursor.as_deref().map(decode_cursor).transpose()?;
        let limit = page.limit.max(1);
        let empty = Listing { entries: Vec::new(), total: 0, more: false };
        let ((listing, synthetic), path) = self.resolve_any_and_call(
            path,
            |resolved| {
                let store_page = Page { after: after.clone(), limit, hide: resolved.hidden_names() };
                let listing = match resolved.store().list(&resolved.node_path, &store_page) {
                    Err(StoreError::NotFound) if self.is_synthetic_directory(resolved) => empty.clone(),
                    answer => answer?,
                };
                let synthetic = self.synthetic_entries(&resolved.path, Some(resolved))?;
                Ok((listing, synthetic))
            },
            |path| {
                let synthetic =
                    self.synthetic_entries(path, None).expect("without a resolved path no Store is called");
                (empty.clone(), synthetic)
            },
        )?;
        Ok(merge_page(path, listing, synthetic, after.as_ref(), limit))
    }

    /// The names in a directory that are nested Workspaces, or lead to one.
    fn synthetic_entries(
        &self,
        path: &VfsPath,
        resolved: Option<&ResolvedPath<'_>>,
    ) -> StoreResult<SyntheticEntries> {
        let absent = self.shared().router.absent_names(path);
        let mut names = self.shared().router.child_names(path);
        names.extend(&absent);
        let node_paths: Vec<_> = match resolved {
            Some(resolved) => names.iter().map(|name| resolved.node_path.join(name.as_bytes())).collect(),
            None => Vec::new(),
        };
        // Whether the Store's listing has the name.
        let mut exists: Vec<bool> = match resolved {
            Some(resolved) if !node_paths.is_empty() => {
                let hidden = resolved.hidden_names();
                let is_listed =
                    |name: &str| !hidden.as_ref().is_some_and(|hidden| hidden.hides_entry(name.as_bytes()));
                let attrs = resolved.store().stat_many(&node_paths);
                names.iter().zip(attrs).map(|(name, attr)| attr.is_ok() && is_listed(name)).collect()
            }
            _ => vec![false; names.len()],
        };
        exists.resize(names.len(), false);
        let mut synthetic = SyntheticEntries::default();
        for (name, exists) in names.into_iter().zip(exists) {
            if absent.contains(name) {
                synthetic.hidden += u64::from(exists);
                synthetic.absent.insert(Name::new(name.as_bytes()).expect("a component of a path is a name"));
                continue;
            }
            let child = path.join(name).expect("a part of a prefix");
            let workspace =
                self.shared().router.route(&child).filter(|route| *route.workspace.prefix() == child);
            let name = Name::new(name.as_bytes()).expect("a component of a path is a name");
            match workspace {
                // What is shown below a barrier is reached through it.
                Some(route) if route.workspace.is_absent() => {
                    synthetic.hidden += u64::from(exists);
                    synthetic.entries.insert(name.clone(), DirEntry::synthetic(name, None));
                }
                Some(route) => {
                    let barrier = route.workspace.barrier();
                    let scope =
                        Some(route.workspace.scope()).filter(|_| !barrier.is_some_and(Barrier::hides_scope));
                    synthetic.hidden += u64::from(exists);
                    synthetic.entries.insert(name.clone(), DirEntry::synthetic(name, scope));
                }
                // If the Store has a directory on the way to a nested Workspace, the listing shows that one.
                None if exists => {}
                None => {
                    synthetic.entries.insert(name.clone(), DirEntry::synthetic(name, None));
                }
            }
        }
        Ok(synthetic)
    }

    pub(super) fn walk(&self, path: &VfsPath, query: &WalkQuery) -> Result<WalkResult> {
        let pattern = query.pattern.as_deref().unwrap_or_default();
        let filter =
            query.pattern.as_ref().map(|pattern| PathGlobs::new([pattern], Anchor::Start)).transpose()?;
        // A pattern that begins with `/` is relative to the root, any other to the directory that is walked.
        let filter_with_base = |base: &str| {
            let base = if pattern.starts_with('/') {
                format!("{}/{base}", &path.as_str()[1..])
            } else {
                base.to_owned()
            };
            filter.clone().map(|globs| globs.with_base(base.trim_matches('/')))
        };
        let (mut found, mut unreadable, mut left_out) = (BTreeMap::new(), Vec::new(), LeftOut::default());
        let deadline = Instant::now() + query.time_limit;
        let regions = self.regions(path)?;
        for region in &regions {
            self.add_synthetic_ancestors(path, region, query, filter_with_base("").as_ref(), &mut found);
            let depth = query.depth.saturating_sub(if region.base.is_empty() {
                0
            } else {
                region.base.split('/').count()
            });
            if depth == 0 {
                continue;
            }
            let include = filter_with_base(&region.base);
            let named = include.as_ref().map_or_else(String::new, PathGlobs::literal_prefix);
            let walk = WalkOptions {
                depth,
                skip: region.skip.clone(),
                hide: region.root.hidden_names(),
                include,
                ignore: self.ignore_rules(region, query.ignore_files, named, &mut unreadable),
                deadline: Some(deadline),
                unreadable: UnreadablePaths::default(),
                report_hidden: false,
            };
            let mut remaining = query.limit;
            let visited = region.root.store().walk(&region.root.node_path, &walk, &mut |entry| {
                if query.selects(entry.path.as_bytes(), entry.attr.kind) {
                    let path = region.logical_path(&entry.path);
                    found.insert(sort_key(&path), PathEntry::from_attr(path, &entry.attr));
                    remaining = remaining.saturating_sub(1);
                }
                let is_done = remaining == 0 || self.check_not_stopped().is_err();
                if is_done { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            });
            self.report_progress(found.len() as u64, None)?;
            region.collect_unreadable(&walk.unreadable, &mut unreadable);
            if let Some(ignore) = &walk.ignore {
                region.collect_unreadable(ignore.unreadable(), &mut unreadable);
                left_out = left_out.or(ignore.left_out());
            }
            match visited {
                Ok(()) => {}
                Err(StoreError::NotFound) if self.is_synthetic_directory(&region.root) => {}
                // The time limit is for all regions together.
                Err(cause @ StoreError::Unavailable { .. }) if Instant::now() >= deadline => {
                    return Err(region.root.store_error(cause));
                }
                Err(cause) => region.note_or_fail(cause, &mut unreadable)?,
            }
        }
        unreadable.sort();
        Ok(WalkResult { entries: found.into_values().take(query.limit).collect(), unreadable, left_out })
    }

    /// Adds the directories from the requested path down to a nested Workspace, including the Workspace itself.
    fn add_synthetic_ancestors(
        &self,
        requested: &VfsPath,
        region: &WalkRegion<'_>,
        query: &WalkQuery,
        filter: Option<&PathGlobs>,
        found: &mut BTreeMap<Vec<u8>, PathEntry>,
    ) {
        let mut relative_path = String::new();
        for (index, name) in region.base.split('/').filter(|name| !name.is_empty()).enumerate() {
            if !relative_path.is_empty() {
                relative_path.push('/');
            }
            relative_path.push_str(name);
            let path = requested.join(&relative_path).expect("a part of a prefix");
            let matches = filter.is_none_or(|globs| globs.matches(&relative_path))
                && query.selects(relative_path.as_bytes(), NodeKind::Directory);
            if index < query.depth && matches {
                found.entry(sort_key(path.as_str())).or_insert_with(|| PathEntry::synthetic(&path));
            }
        }
    }

    /// The readable regions below a path, one for each Workspace that has a part of it.
    pub(super) fn regions(&self, path: &VfsPath) -> Result<Vec<WalkRegion<'v>>> {
        let router = &self.shared().router;
        let mut regions = Vec::new();
        let (found, path) = self.resolve_existing(path)?;
        if let Some((attr, root)) = found {
            let skip =
                router.nested(&path).filter_map(|nested| store_path_below(nested.prefix(), &path)).collect();
            let is_directory = attr.kind == NodeKind::Directory;
            regions.push(WalkRegion { root, base: String::new(), skip, is_directory });
        }
        // A walk or search from above leaves out Workspaces that need approval, like those that may not be read.
        let is_searchable = |nested: &&Workspace| {
            let may_read = self.shared().allows(nested, Access::Read) && nested.barrier().is_none();
            may_read && !self.vfs.approval.must_skip(nested)
        };
        for nested in router.nested(&path).filter(is_searchable) {
            let prefix = nested.prefix();
            let root = self.workspace_root(nested);
            let skip = router
                .nested(prefix)
                .filter_map(|deeper| store_path_below(deeper.prefix(), prefix))
                .collect();
            let base = prefix.strip_prefix(&path).expect("nested below it").to_owned();
            regions.push(WalkRegion { root, base, skip, is_directory: true });
        }
        Ok(regions)
    }
}

pub(super) fn store_path_below(path: &VfsPath, prefix: &VfsPath) -> Option<StorePath> {
    path.strip_prefix(prefix).map(StorePath::from_checked)
}

impl WalkQuery {
    /// Whether a node has the wanted kind and extension.
    fn selects(&self, path: &[u8], kind: NodeKind) -> bool {
        if self.kind.is_some_and(|wanted| wanted != kind) {
            return false;
        }
        if self.extensions.is_empty() {
            return true;
        }
        let name = path.rsplit(|&byte| byte == b'/').next().unwrap_or(path);
        let extension =
            name.iter().rposition(|&byte| byte == b'.').filter(|&dot| dot > 0).map(|dot| &name[dot + 1..]);
        let is_allowed = |allowed: &String| extension == Some(allowed.trim_start_matches('.').as_bytes());
        kind != NodeKind::Directory && self.extensions.iter().any(is_allowed)
    }
}

impl PathEntry {
    fn from_attr(path: String, attr: &Attr) -> Self {
        PathEntry {
            path,
            kind: attr.kind,
            size: attr.size,
            mode: attr.mode,
            modified: Some(attr.modified),
            tag: Some(attr.tag),
        }
    }

    fn synthetic(path: &VfsPath) -> Self {
        PathEntry {
            path: path.to_string(),
            kind: NodeKind::Directory,
            size: 0,
            mode: 0o755,
            modified: None,
            tag: None,
        }
    }
}

/// Entries that a directory has because of the Workspaces below it.
#[derive(Debug, Default)]
struct SyntheticEntries {
    entries: BTreeMap<Name, DirEntry>,
    /// The names that aren't shown, whatever the Store has there.
    absent: BTreeSet<Name>,
    /// How many entries of the Store they hide.
    hidden: u64,
}

/// Merges the synthetic entries into a Store's page, sorted by name.
fn merge_page(
    path: VfsPath,
    listing: Listing,
    synthetic: SyntheticEntries,
    after: Option<&Name>,
    limit: usize,
) -> DirectoryListing {
    let total = listing.total - synthetic.hidden.min(listing.total) + synthetic.entries.len() as u64;
    let last = if listing.more { listing.entries.last().map(|entry| entry.name.clone()) } else { None };
    let in_page = |name: &Name| {
        after.is_none_or(|after| *name > *after) && last.as_ref().is_none_or(|last| *name <= *last)
    };
    let absent = synthetic.absent;
    let synthetic = synthetic.entries.into_values().filter(|entry| in_page(&entry.name));
    let mut synthetic = synthetic.collect::<Vec<_>>().into_iter().peekable();
    let mut entries = Vec::with_capacity(listing.entries.len() + synthetic.len());
    for Entry { name, attr } in listing.entries.into_iter().filter(|entry| !absent.contains(&entry.name)) {
        while let Some(entry) = synthetic.next_if(|entry| entry.name < name) {
            entries.push(entry);
        }
        let entry = synthetic.next_if(|entry| entry.name == name);
        entries.push(entry.unwrap_or_else(|| DirEntry::from_attr(name, &attr)));
    }
    entries.extend(synthetic);
    let more = listing.more || entries.len() > limit;
    entries.truncate(limit);
    let cursor = entries.last().filter(|_| more).map(|entry| encode_cursor(&entry.name));
    DirectoryListing { path, entries, total, cursor }
}

/// Encodes a page's last name as a cursor: in hexadecimal, since a name may be any bytes.
pub(super) fn encode_cursor(name: &Name) -> String {
    name.as_bytes().iter().map(|byte| format!("{byte:02x}")).collect()
}

fn decode_cursor(cursor: &str) -> Result<Name> {
    let broken =
        || Error::Invalid("`cursor` isn't from an earlier listing; leave it out to start over".into());
    if !cursor.len().is_multiple_of(2) {
        return Err(broken());
    }
    // `from_str_radix` would also accept a sign.
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let byte = |pair: &[u8]| Some(digit(pair[0])? << 4 | digit(pair[1])?);
    let bytes: Option<Vec<u8>> = cursor.as_bytes().chunks_exact(2).map(byte).collect();
    bytes.and_then(Name::new).ok_or_else(broken)
}
