//! Exports to a host directory.
//!
//! A file is written under a temporary name and then renamed into place, so that a reader sees the old file or the new
//! one, and nothing is ever written through an existing symlink.

use std::ffi::{CStr, CString};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use stead_core::name::escape_name;
use stead_core::vfs::FileReader;

use super::export::{ExportedAttr, OnExisting, Sink, WriteOutcome};
use super::host_directory::{HostDir, HostKind, MODE_BITS, set_file_attr};
use super::{CompareBy, content_hash};
use crate::error::{Error, Result, escaped_path};

/// The temporary name of an incomplete file. One is enough: an export writes one file after the other.
const PARTIAL_NAME: &CStr = c".stead-export-partial";

pub(super) struct DirectorySink {
    /// The path as the caller wrote it.
    name: PathBuf,
    /// The open directories, from the top to the one that is being exported, with their names.
    open_directories: Vec<(String, HostDir)>,
}

impl DirectorySink {
    pub(super) fn open(path: &Path, existing: OnExisting) -> Result<Self> {
        let write_error = |cause| Error::host(format!("`{}` can't be written", escaped_path(path)), cause);
        match std::fs::create_dir(path) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(write_error(error)),
            _ => {}
        }
        let top = HostDir::open(path).map_err(write_error)?;
        if existing == OnExisting::Refuse && !top.is_empty().map_err(write_error)? {
            return Err(Error::AlreadyExists(format!(
                "`{}` isn't empty; name a new directory, or use --force to write into this one",
                escaped_path(path)
            )));
        }
        Ok(DirectorySink { name: path.to_owned(), open_directories: vec![(String::new(), top)] })
    }

    fn current(&self) -> &HostDir {
        &self.open_directories.last().expect("the top directory is never left").1
    }

    /// Has `write` create a file or symlink under the temporary name, and renames it into place. If that fails, removes
    /// it.
    fn write_and_rename(
        &self,
        name: &CStr,
        write: impl FnOnce(&HostDir) -> io::Result<()>,
    ) -> io::Result<WriteOutcome> {
        let directory = self.current();
        if name == PARTIAL_NAME {
            return Ok(WriteOutcome::Blocked("this name is reserved for unfinished exports"));
        }
        if directory.stat(name)?.is_some_and(|found| found.kind == HostKind::Directory) {
            return Ok(WriteOutcome::Blocked("a directory with this name exists there"));
        }
        if directory.stat(PARTIAL_NAME)?.is_some() {
            // An interrupted export left it behind.
            directory.remove(PARTIAL_NAME)?;
        }
        let result = write(directory).and_then(|()| directory.rename(PARTIAL_NAME, name));
        if let Err(error) = result {
            // The first error is the one to report.
            let _ = directory.remove(PARTIAL_NAME);
            return Err(error);
        }
        Ok(WriteOutcome::Written)
    }
}

impl Sink for DirectorySink {
    fn display_path(&self, name: &str) -> String {
        let inner = self.open_directories.iter().skip(1).map(|(name, _)| name.as_str()).chain([name]);
        let path =
            inner.filter(|name| !name.is_empty()).fold(self.name.clone(), |path, name| path.join(name));
        escape_name(path.as_os_str().as_encoded_bytes()).to_string()
    }

    fn enter(&mut self, name: &str, _: ExportedAttr) -> io::Result<WriteOutcome> {
        let host_name = c_name(name)?;
        let outcome = match self.current().stat(&host_name)? {
            None => WriteOutcome::Written,
            Some(found) if found.kind == HostKind::Directory => WriteOutcome::Unchanged,
            Some(_) => {
                return Ok(WriteOutcome::Blocked(
                    "something with this name exists there that isn't a directory",
                ));
            }
        };
        let inner = self.current().open_or_create(&host_name)?;
        let mode = inner.attr()?.mode;
        if mode & 0o700 != 0o700 {
            // An earlier export may have set a mode that doesn't allow writing.
            inner.set_attr(mode | 0o700, None)?;
        }
        self.open_directories.push((name.to_owned(), inner));
        Ok(outcome)
    }

    fn leave(&mut self, attr: ExportedAttr) -> io::Result<()> {
        let (_, inner) = self.open_directories.pop().expect("only a directory that was entered is left");
        inner.set_attr(attr.mode, attr.modified)
    }

    fn is_up_to_date(
        &mut self,
        name: &str,
        attr: ExportedAttr,
        compare: CompareBy,
        open: &mut dyn FnMut() -> Result<FileReader>,
    ) -> Result<bool> {
        let read_error = |cause| Error::host(format!("`{}` can't be read", self.display_path(name)), cause);
        let host_name = c_name(name).map_err(read_error)?;
        let existing = self.current().stat(&host_name).map_err(read_error)?;
        let Some(existing) =
            existing.filter(|existing| existing.kind == HostKind::File && existing.size == attr.size)
        else {
            return Ok(false);
        };
        let same_attributes =
            (existing.mode, Some(existing.modified)) == (attr.mode & MODE_BITS, attr.modified);
        if compare == CompareBy::Attributes {
            return Ok(same_attributes);
        }
        let (mut file, _) = self.current().open_file(&host_name).map_err(read_error)?;
        let same_content =
            content_hash(&mut file).map_err(read_error)? == content_hash(&mut open()?).map_err(read_error)?;
        if same_content && !same_attributes {
            set_file_attr(&file, attr.mode, attr.modified).map_err(read_error)?;
        }
        Ok(same_content)
    }

    fn write_file(
        &mut self,
        name: &str,
        attr: ExportedAttr,
        content: &mut dyn Read,
    ) -> io::Result<WriteOutcome> {
        self.write_and_rename(&c_name(name)?, |directory| {
            let mut file = directory.create(PARTIAL_NAME)?;
            io::copy(content, &mut file)?;
            set_file_attr(&file, attr.mode, attr.modified)
        })
    }

    fn write_symlink(&mut self, name: &str, target: &str, attr: ExportedAttr) -> io::Result<WriteOutcome> {
        let host_name = c_name(name)?;
        let existing = self.current().stat(&host_name)?;
        if existing.is_some_and(|existing| existing.kind == HostKind::Symlink)
            && self.current().read_link(&host_name)? == target.as_bytes()
        {
            return Ok(WriteOutcome::Unchanged);
        }
        self.write_and_rename(&host_name, |directory| {
            directory.symlink(PARTIAL_NAME, target.as_bytes())?;
            attr.modified.map_or(Ok(()), |modified| directory.set_link_time(PARTIAL_NAME, modified))
        })
    }

    fn finish(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn c_name(name: &str) -> io::Result<CString> {
    CString::new(name).map_err(|_| io::ErrorKind::InvalidInput.into())
}
