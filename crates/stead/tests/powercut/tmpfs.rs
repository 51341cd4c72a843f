//! File systems in memory, each with its own inode numbers: a rebuilt disk has the numbers of the recorded one.

use std::fs::{self, File};
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
use stead::{PhysicalOptions, PhysicalStore};

use crate::disk::{Disk, Entry, Image, Inode, Kind, TOP};

/// A file system in memory. Dropping it unmounts it.
#[derive(Debug)]
pub(crate) struct Tmpfs {
    directory: tempfile::TempDir,
}

impl Tmpfs {
    /// Whether one can be mounted: only root may.
    pub(crate) fn is_possible() -> bool {
        let possible = rustix::process::geteuid().is_root();
        if !possible {
            eprintln!("left out: only root can mount a tmpfs");
        }
        possible
    }

    pub(crate) fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        mount("stead-powercut", directory.path(), "tmpfs", MountFlags::empty(), None)
            .expect("a tmpfs can be mounted by root");
        Tmpfs { directory }
    }

    pub(crate) fn path(&self) -> &Path {
        self.directory.path()
    }

    /// Rebuilds what a power cut has left.
    pub(crate) fn with(image: &Image) -> Self {
        let tmpfs = Tmpfs::new();
        let staged_path = |inode: Inode| tmpfs.path().join(format!(".inode-{inode}"));
        let mut by_inode: Vec<Option<&Entry>> = Vec::new();
        for entry in image.entries.values() {
            let index = usize::try_from(entry.inode).unwrap();
            by_inode.resize(by_inode.len().max(index + 1), None);
            by_inode[index] = Some(entry);
        }
        // A tmpfs counts its inodes, so numbers that nothing has any more have to be used up.
        for (inode, entry) in (0..).zip(&by_inode).skip(TOP as usize + 1) {
            let path = staged_path(inode);
            match entry.map(|entry| (&entry.kind, &entry.content)) {
                Some((Kind::Directory, _)) => fs::create_dir(&path).unwrap(),
                Some((Kind::Symlink(target), _)) => {
                    symlink(std::str::from_utf8(target).unwrap(), &path).unwrap();
                }
                Some((Kind::File, content)) => fs::write(&path, content).unwrap(),
                None => {
                    File::create(&path).unwrap();
                    fs::remove_file(&path).unwrap();
                }
            }
        }
        for (path, Entry { inode, kind, modified: (seconds, nanos), .. }) in &image.entries {
            let target = tmpfs.path().join(path);
            match staged_path(*inode).symlink_metadata() {
                Ok(_) => fs::rename(staged_path(*inode), &target).unwrap(),
                Err(_) => {
                    let first = image.entries.iter().find(|(_, entry)| entry.inode == *inode).unwrap().0;
                    fs::hard_link(tmpfs.path().join(first), &target).unwrap();
                }
            }
            assert_eq!(target.symlink_metadata().unwrap().ino(), *inode, "{path}");
            if *kind == Kind::File {
                let modified = SystemTime::UNIX_EPOCH + Duration::new(*seconds, *nanos);
                File::open(&target).unwrap().set_modified(modified).unwrap();
            }
        }
        tmpfs
    }

    /// Everything that is here now, as a disk on which all of it is synced.
    pub(crate) fn disk(&self) -> Disk {
        let mut disk = Disk::new(self.path().to_str().unwrap());
        for path in entries_below(self.path()) {
            let metadata = path.symlink_metadata().unwrap();
            let (kind, content) = kind_and_content(&path);
            let modified = (metadata.mtime().cast_unsigned(), metadata.mtime_nsec() as u32);
            let name = path.strip_prefix(self.path()).unwrap().to_str().unwrap();
            disk.add_synced(name, Entry { inode: metadata.ino(), kind, content, modified });
        }
        // Numbers of removed files are not used again.
        let probe = self.path().join("probe");
        disk.set_next_inode(File::create(&probe).unwrap().metadata().unwrap().ino() + 1);
        fs::remove_file(&probe).unwrap();
        disk
    }
}

impl Drop for Tmpfs {
    fn drop(&mut self) {
        // Lazily: a program that is just ending may still have it open.
        let _ = unmount(self.directory.path(), UnmountFlags::DETACH);
    }
}

/// The kind and content of what is at a path.
pub(crate) fn kind_and_content(path: &Path) -> (Kind, Vec<u8>) {
    let metadata = path.symlink_metadata().unwrap();
    if metadata.is_dir() {
        (Kind::Directory, Vec::new())
    } else if metadata.is_symlink() {
        (Kind::Symlink(fs::read_link(path).unwrap().into_os_string().into_encoded_bytes()), Vec::new())
    } else {
        (Kind::File, fs::read(path).unwrap())
    }
}

/// Everything below a directory, each entry after its parent.
pub(crate) fn entries_below(directory: &Path) -> Vec<PathBuf> {
    let mut entries = Vec::new();
    let mut directories = vec![directory.to_owned()];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.symlink_metadata().unwrap().is_dir() {
                directories.push(path.clone());
            }
            entries.push(path);
        }
    }
    entries
}

/// A Physical Store also identifies its directory by the device number, which differs here. So the directory's staging
/// area gets the name that it would have on this device.
pub(crate) fn rename_staging_area(root: &Path) {
    let staging_area = |state: &str| {
        let entries = fs::read_dir(root.join(state).join("physical")).ok()?;
        entries.map(|entry| entry.unwrap().path()).next()
    };
    if let Some(old) = staging_area(".stead") {
        PhysicalStore::open(root.join("project"), PhysicalOptions::new(root.join("probe"))).unwrap();
        let new = staging_area("probe").unwrap();
        fs::rename(&old, old.with_file_name(new.file_name().unwrap())).unwrap();
        fs::remove_dir_all(root.join("probe")).unwrap();
    }
}
