//! Reads files, directories and symlinks.

use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

use stead_core::Name;
use stead_core::store::{
    Attr, Draft, Entry, FileContent, Listing, NodeId, NodeKind, NodePath, OpenContent, Page, StoreError,
    StorePath, StoreResult,
};

use super::PhysicalStore;
use super::draft::{OverlayDraft, read_full};
use super::host::OpenMode;
use super::host::{self, Errno, HostStat, errno_to_store_error, io_to_store_error};
use super::mask::join;
use super::owner_access;
use super::root::Dir;
use super::slot::{LocatedPath, LookupPurpose, open_file_in};
use super::staging_area::StagingArea;
use super::tree;

/// How often a file that is written to meanwhile is read again.
const MAX_REREADS: usize = 4;

impl PhysicalStore {
    pub(super) fn stat_at(&self, at: &NodePath) -> StoreResult<Attr> {
        let located = self.locate(at, LookupPurpose::Find)?;
        let stat = self.stat_located(&located)?;
        Ok(self.attr_and_remember(&located, &stat))
    }

    /// Returns the attributes, and remembers the path of the node.
    fn attr_and_remember(&self, located: &LocatedPath, stat: &HostStat) -> Attr {
        if located.is_root() {
            return Attr { node: NodeId::ROOT, ..stat.attr() };
        }
        self.node_path_table.remember(stat.ino, &located.full_path);
        stat.attr()
    }

    pub(super) fn read_file(&self, at: &NodePath, limit: u64) -> StoreResult<FileContent> {
        let located = self.locate(at, LookupPurpose::Find)?;
        let (file, stat) = self.open_file(&located)?;
        self.read_open(&located, &file, stat, limit)
    }

    /// Reads several files. Those that follow each other in one directory are read from it while it is open.
    pub(super) fn read_files(&self, at: &[NodePath], limit: u64) -> Vec<StoreResult<FileContent>> {
        let mut directory: Option<(StorePath, Dir)> = None;
        at.iter().map(|at| self.read_file_beside(at, limit, &mut directory)).collect()
    }

    /// Reads a file. `open` is the directory of the file before it.
    fn read_file_beside(
        &self,
        at: &NodePath,
        limit: u64,
        open: &mut Option<(StorePath, Dir)>,
    ) -> StoreResult<FileContent> {
        let Some((directory, name)) = at.path.parent_and_name().filter(|_| at.base == NodeId::ROOT) else {
            return self.read_file(at, limit);
        };
        let located = self.locate(at, LookupPurpose::Find)?;
        let dir = match &*open {
            Some((path, dir)) if path.as_bytes() == directory => dir.clone(),
            _ => {
                let (dir, _) = self.open_parent(&located)?;
                *open = Some((StorePath::from_checked(directory), dir.clone()));
                dir
            }
        };
        let (file, stat) = open_file_in(&dir, name, &located)?;
        self.read_open(&located, &file, stat, limit)
    }

    fn read_open(
        &self,
        located: &LocatedPath,
        file: &File,
        mut stat: HostStat,
        limit: u64,
    ) -> StoreResult<FileContent> {
        for _ in 0..MAX_REREADS {
            let bytes = read_all(file, &stat, limit)?;
            let current = host::stat(file).map_err(errno_to_store_error)?;
            if current == stat {
                return Ok(FileContent { attr: self.attr_and_remember(located, &stat), bytes });
            }
            stat = current;
        }
        // Another program keeps writing. The tag is from before the last read, so a change that uses it as its
        // precondition is refused.
        let bytes = read_all(file, &stat, limit)?;
        Ok(FileContent { attr: self.attr_and_remember(located, &stat), bytes })
    }

    pub(super) fn open_file_content(&self, at: &NodePath) -> StoreResult<OpenHostFile> {
        let located = self.locate(at, LookupPurpose::Find)?;
        let (file, stat) = self.open_file(&located)?;
        Ok(self.open_host_file(self.attr_and_remember(&located, &stat), file))
    }

    /// Like `open_file_content`, but opens the file even if its mode forbids reading and this user owns it.
    pub(super) fn open_for_writing(&self, at: &NodePath) -> StoreResult<OpenHostFile> {
        match self.open_file_content(at) {
            Err(StoreError::HostDenied) => {}
            opened => return opened,
        }
        let located = self.locate(at, LookupPurpose::Find)?;
        let (dir, name) = self.open_parent(&located)?;
        let (fd, _) = owner_access::open(&dir, name, OpenMode::Read).map_err(errno_to_store_error)?;
        let stat = host::stat(&fd).map_err(errno_to_store_error)?;
        located.check_node(&stat)?;
        if dir.hides(&stat) || stat.kind != NodeKind::File {
            return Err(StoreError::HostDenied);
        }
        Ok(self.open_host_file(self.attr_and_remember(&located, &stat), fd.into()))
    }

    fn open_host_file(&self, attr: Attr, file: File) -> OpenHostFile {
        OpenHostFile { attr, file, root: self.root.dir.clone(), staging: self.staging_if_open().cloned() }
    }

    pub(super) fn link_target(&self, at: &NodePath) -> StoreResult<Vec<u8>> {
        let not_a_link = || StoreError::Invalid("it isn't a symlink".to_owned());
        let located = self.locate(at, LookupPurpose::Find)?;
        if located.is_root() {
            return Err(not_a_link());
        }
        let (dir, name) = self.open_parent(&located)?;
        let stat = dir.stat_at(name).map_err(errno_to_store_error)?;
        located.check_node(&stat)?;
        match host::read_link(dir.as_fd(), name) {
            Err(Errno::INVAL) => Err(not_a_link()),
            result => result.map_err(errno_to_store_error),
        }
    }

    pub(super) fn list_page(&self, at: &NodePath, page: &Page) -> StoreResult<Listing> {
        let located = self.locate(at, LookupPurpose::Find)?;
        let dir = self.open_directory(&located)?;
        let mut names = Vec::new();
        host::entries(&dir, |name, _| {
            if !self.mask.hides_entry(&located.full_path, name) && !page.hides(name) {
                names.push(Box::<[u8]>::from(name));
            }
        })
        .map_err(errno_to_store_error)?;
        if dir.may_contain_hard_links() {
            names.retain(|name| !dir.hides_entry(name));
        }
        names.sort_unstable();
        let total = names.len() as u64;
        let first =
            page.after.as_ref().map_or(0, |after| names.partition_point(|name| **name <= *after.as_bytes()));
        let mut entries = Vec::with_capacity(page.limit.min(names.len() - first));
        let mut path = join(&located.full_path, b"");
        if !path.is_empty() {
            path.push(b'/');
        }
        let prefix_length = path.len();
        let mut remaining = names.drain(first..);
        for name in remaining.by_ref() {
            if entries.len() == page.limit {
                return Ok(Listing { entries, total, more: true });
            }
            let stat = match dir.stat_at(&name) {
                // The directory may be listed, but its entries may not be reached.
                Err(Errno::ACCESS) => return Err(StoreError::HostDenied),
                // An entry that vanished meanwhile is left out.
                Err(_) => continue,
                Ok(stat) => stat,
            };
            path.truncate(prefix_length);
            path.extend_from_slice(&name);
            self.node_path_table.remember(stat.ino, &path);
            let name = Name::new(name).expect("the host returns valid names");
            entries.push(Entry { name, attr: stat.attr() });
        }
        Ok(Listing { entries, total, more: false })
    }
}

/// Reads a file: as many bytes as its size says. `TooLarge` if that is more than `limit`.
pub(super) fn read_all(file: &File, stat: &HostStat, limit: u64) -> StoreResult<Vec<u8>> {
    if stat.size > limit {
        return Err(StoreError::TooLarge { size: stat.size, limit });
    }
    let too_large = |_| StoreError::TooLarge { size: stat.size, limit };
    let size = usize::try_from(stat.size).map_err(too_large)?;
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(size).map_err(|_| StoreError::TooLarge { size: stat.size, limit })?;
    bytes.resize(size, 0);
    let filled = read_full(file, 0, &mut bytes)?;
    bytes.truncate(filled);
    Ok(bytes)
}

/// An open file. The host keeps its content for as long as it is open, even if the name is removed.
#[derive(Debug)]
pub(super) struct OpenHostFile {
    attr: Attr,
    file: File,
    root: Dir,
    /// Where drafts are made. `None` if the Store can only be read.
    staging: Option<Arc<StagingArea>>,
}

impl OpenHostFile {
    /// Whether the file still has a name below the root, wherever another program has moved it. `None` if that can't be
    /// found out, or the file is elsewhere: a removed file may be kept in the staging area.
    fn is_named_below_root(&self) -> Option<bool> {
        let path = |fd: BorrowedFd<'_>| std::fs::read_link(format!("/proc/self/fd/{}", fd.as_raw_fd())).ok();
        let (root, path) = (path(self.root.as_fd())?, path(self.file.as_fd())?);
        let opened =
            self.root.open(path.strip_prefix(root).ok()?.as_os_str().as_bytes(), OpenMode::Handle).ok()?;
        Some(host::stat(&opened).ok()?.ino == host::stat(&self.file).ok()?.ino)
    }
}

impl OpenContent for OpenHostFile {
    fn attr(&self) -> Attr {
        self.attr
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> StoreResult<usize> {
        // An append goes to the same file. A reader that opened the file before doesn't see it.
        let remaining = usize::try_from(self.attr.size.saturating_sub(offset)).unwrap_or(usize::MAX);
        let length = remaining.min(buffer.len());
        read_full(&self.file, offset, &mut buffer[..length])
    }

    fn is_removed(&self) -> bool {
        self.is_named_below_root() != Some(true)
    }

    fn reopen(&self) -> StoreResult<Option<Box<dyn OpenContent>>> {
        let file = self.file.try_clone().map_err(io_to_store_error)?;
        let attr = host::stat(&file).map_err(errno_to_store_error)?.attr();
        Ok(Some(Box::new(OpenHostFile {
            attr,
            file,
            root: self.root.clone(),
            staging: self.staging.clone(),
        })))
    }

    fn draft(&self) -> StoreResult<Option<Box<dyn Draft>>> {
        let Some(staging) = &self.staging else { return Ok(None) };
        let file = self.file.try_clone().map_err(io_to_store_error)?;
        let stat = host::stat(&file).map_err(errno_to_store_error)?;
        Ok(Some(Box::new(OverlayDraft::new(staging, file, stat))))
    }
}

/// Whether an open directory has no entries.
pub(super) fn is_empty(dir: &super::root::Dir) -> StoreResult<bool> {
    Ok(tree::names(dir).map_err(errno_to_store_error)?.is_empty())
}
