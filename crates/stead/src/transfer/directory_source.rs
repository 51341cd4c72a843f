//! Imports a host directory, recursively.

use std::ffi::CStr;
use std::fs::File;
use std::io::{self, Seek};
use std::path::Path;

use stead_core::{Name, VfsPath};

use super::host_directory::{HostAttr, HostDir, HostKind};
use super::import::{ImportedAttr, Importer, SourceContent};
use crate::config::STATE_DIRECTORY_NAME;
use crate::error::{Error, Result, io_error_text};

impl SourceContent for File {
    fn try_rewind(&mut self) -> io::Result<bool> {
        self.rewind().map(|()| true)
    }
}

impl From<HostAttr> for ImportedAttr {
    fn from(attr: HostAttr) -> Self {
        ImportedAttr { size: attr.size, mode: attr.mode, modified: attr.modified }
    }
}

/// Passes every entry of a host directory to the importer.
pub(super) fn import_directory(
    path: &Path,
    name: &str,
    to: &VfsPath,
    importer: &mut Importer<'_, '_>,
) -> Result<()> {
    let read_error = |cause| Error::host(format!("`{name}` can't be read"), cause);
    let directory = HostDir::open(path).map_err(read_error)?;
    let names = directory.names().map_err(read_error)?;
    import_entries(&directory, &names, to, importer)
}

fn import_entries(
    directory: &HostDir,
    names: &[Box<CStr>],
    to: &VfsPath,
    importer: &mut Importer<'_, '_>,
) -> Result<()> {
    for host_name in names {
        let name = Name::new(host_name.to_bytes()).expect("a name from the host is a valid name");
        let display_path = format!("{}/{name}", if to.is_root() { "" } else { to.as_str() });
        let Some(component) = name.as_path_component() else {
            importer.tally.refuse(display_path, "this name can't be part of a path");
            continue;
        };
        let path = match to.join(component) {
            Ok(path) => path,
            Err(error) => {
                importer.tally.refuse(display_path, error);
                continue;
            }
        };
        match import_entry(directory, host_name, &path, importer) {
            // One unreadable entry doesn't stop the others.
            Err(EntryError::Unreadable(cause)) => importer
                .tally
                .refuse(display_path, format!("it can't be read: {}", io_error_text(cause.kind()))),
            Err(EntryError::Fatal(error)) => return Err(error),
            Ok(()) => {}
        }
    }
    Ok(())
}

/// Why an entry was not imported.
enum EntryError {
    /// The host can't read it.
    Unreadable(io::Error),
    /// The transfer as a whole can't go on.
    Fatal(Error),
}

impl From<io::Error> for EntryError {
    fn from(cause: io::Error) -> Self {
        EntryError::Unreadable(cause)
    }
}

impl From<Error> for EntryError {
    fn from(error: Error) -> Self {
        EntryError::Fatal(error)
    }
}

fn import_entry(
    directory: &HostDir,
    name: &CStr,
    path: &VfsPath,
    importer: &mut Importer<'_, '_>,
) -> Result<(), EntryError> {
    let Some(attr) = directory.stat(name)? else { return Ok(()) };
    match attr.kind {
        HostKind::Directory if name.to_bytes() == STATE_DIRECTORY_NAME.as_bytes() => {
            importer.tally.skip(path, "it is Stead's own state directory");
        }
        HostKind::Directory => {
            let child = directory.enter(name)?;
            let names = child.names()?;
            if importer.ensure_directory(path)? {
                import_entries(&child, &names, path, importer)?;
                importer.finish_directory(path, attr.into())?;
            }
        }
        HostKind::File => {
            let (mut file, attr) = directory.open_file(name)?;
            importer.import_file(path, attr.into(), &mut file)?;
        }
        HostKind::Symlink => importer.import_symlink(path, &directory.read_link(name)?)?,
        HostKind::Special => importer.tally.skip(path, "it isn't a file, directory or symlink"),
    }
    Ok(())
}
