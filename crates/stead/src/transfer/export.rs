//! Exports from a stead: reads the tree through the door, page by page, and passes the entries to a sink.

use std::fmt;
use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use stead_core::store::NodeKind;
use stead_core::vfs::{DirEntry, FileReader, IntoPath, ListPage};
use stead_core::{ErrorKind, Timestamp, Vfs, VfsPath};

use super::archive_sink::ArchiveSink;
use super::directory_sink::DirectorySink;
use super::{CompareBy, CountingReader, TransferObserver, TransferTally, TransferTotals, buffer_size};
use crate::error::{Error, Result, escaped_path};

/// How many entries of a directory are in memory at once.
const PAGE_SIZE: usize = 1_000;

/// Where an export goes.
pub enum ExportDestination<'a> {
    /// A host directory.
    Directory(PathBuf),
    /// A tar archive in a host file.
    Archive(PathBuf),
    /// A tar archive, written to a stream.
    Stream(Box<dyn Write + 'a>),
}

impl fmt::Debug for ExportDestination<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ExportDestination::Directory(path) => f.debug_tuple("Directory").field(path).finish(),
            ExportDestination::Archive(path) => f.debug_tuple("Archive").field(path).finish(),
            ExportDestination::Stream(_) => f.write_str("Stream"),
        }
    }
}

impl ExportDestination<'_> {
    /// An archive if the name ends in `.tar`, otherwise a directory.
    pub fn at(path: impl Into<PathBuf>) -> Self {
        let path = path.into();
        if path.extension().is_some_and(|extension| extension == "tar") {
            ExportDestination::Archive(path)
        } else {
            ExportDestination::Directory(path)
        }
    }
}

/// What to do if the destination exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnExisting {
    /// Fail if the directory isn't empty, or if the archive exists.
    #[default]
    Refuse,
    /// Replace files of the same name, unless they are the same already; keep the rest.
    Replace,
}

/// The attributes that an entry is exported with.
#[derive(Debug, Clone, Copy)]
pub(super) struct ExportedAttr {
    pub(super) size: u64,
    pub(super) mode: u32,
    pub(super) modified: Option<Timestamp>,
}

/// The result of exporting an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WriteOutcome {
    /// It was written.
    Written,
    /// It was at the destination already, and the same.
    Unchanged,
    /// Something else is in its place and was kept; the text says what.
    Blocked(&'static str),
}

/// The destination of an export, one directory at a time. Names are single components.
pub(super) trait Sink {
    /// The path of an entry in the current directory, for messages.
    fn display_path(&self, name: &str) -> String;
    /// Creates a directory if needed, and makes it the current one.
    fn enter(&mut self, name: &str, attr: ExportedAttr) -> io::Result<WriteOutcome>;
    /// Ends the current directory, sets its attributes and returns to its parent.
    fn leave(&mut self, attr: ExportedAttr) -> io::Result<()>;
    /// Whether the file is at the destination already, and the same. `open` opens the content to compare with.
    fn is_up_to_date(
        &mut self,
        name: &str,
        attr: ExportedAttr,
        compare: CompareBy,
        open: &mut dyn FnMut() -> Result<FileReader>,
    ) -> Result<bool>;
    /// Writes a file into the current directory.
    fn write_file(
        &mut self,
        name: &str,
        attr: ExportedAttr,
        content: &mut dyn Read,
    ) -> io::Result<WriteOutcome>;
    /// Writes a symlink into the current directory.
    fn write_symlink(&mut self, name: &str, target: &str, attr: ExportedAttr) -> io::Result<WriteOutcome>;
    /// Ends the export.
    fn finish(&mut self) -> io::Result<()>;
}

/// Exports a directory of the stead to a destination.
///
/// No host symlink is followed on the way. Symlinks are exported as they are, so their targets may mean something else
/// on the host. To repeat an interrupted export, use [`OnExisting::Replace`]. One audit record covers the whole export.
pub fn export(
    vfs: &Vfs,
    from: impl IntoPath,
    destination: ExportDestination<'_>,
    existing: OnExisting,
    compare: CompareBy,
    observer: &mut dyn TransferObserver,
) -> Result<TransferTotals> {
    let from = from.into_path()?;
    vfs.compound(
        "export",
        &from,
        |error: &Error| Some(error.kind()),
        |vfs| {
            let totals = run(vfs, &from, destination, existing, compare, observer)?;
            vfs.set_file_count(totals.files);
            Ok(totals)
        },
    )
}

fn run(
    vfs: &Vfs,
    from: &VfsPath,
    destination: ExportDestination<'_>,
    existing: OnExisting,
    compare: CompareBy,
    observer: &mut dyn TransferObserver,
) -> Result<TransferTotals> {
    let top = vfs.stat(from)?;
    if top.kind != NodeKind::Directory {
        return Err(Error::Invalid(format!("`{}` is a {}; export a directory", top.path, top.kind)));
    }
    // An exported tree must not become Stead's state or configuration at its destination, since an agent wrote it.
    let excluded_names: &[&str] = match (&destination, existing) {
        (ExportDestination::Directory(_), OnExisting::Replace) => &[".stead", "stead.toml"],
        (ExportDestination::Directory(_), OnExisting::Refuse) => &[".stead"],
        (ExportDestination::Archive(_) | ExportDestination::Stream(_), _) => &[],
    };
    let tally = TransferTally::new(vfs, observer);
    let mut exporter = Exporter { vfs, compare, tally, excluded_names };
    match destination {
        ExportDestination::Directory(path) => {
            exporter.run(&top.path, &mut DirectorySink::open(&path, existing)?)?;
        }
        ExportDestination::Archive(path) => exporter.run_to_file(&top.path, &path, existing)?,
        ExportDestination::Stream(stream) => {
            exporter.run(&top.path, &mut ArchiveSink::new(BufWriter::new(stream)))?;
        }
    }
    let hidden = vfs.count_hidden(&top.path)?;
    exporter.tally.count(|totals| totals.hidden = hidden);
    Ok(exporter.tally.totals)
}

/// Creates the file that an archive is written to, and locks it. A file that an export left which was killed is used
/// again; one that another export writes to is `WouldBlock`.
fn create_partial(path: &Path) -> io::Result<File> {
    loop {
        let no_follow = rustix::fs::OFlags::NOFOLLOW.bits().cast_signed();
        let mut options = OpenOptions::new();
        let file = options.write(true).create(true).truncate(false).custom_flags(no_follow).open(path)?;
        file.try_lock()?;
        let metadata = file.metadata()?;
        if !metadata.is_file() {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        // Another export may have finished between the two calls: then this file is its archive.
        let is_same_file =
            |current: Metadata| (current.dev(), current.ino()) == (metadata.dev(), metadata.ino());
        if path.symlink_metadata().is_ok_and(is_same_file) {
            file.set_len(0)?;
            return Ok(file);
        }
    }
}

/// Writes an archive to `PATH.partial`, and renames it into place when it is complete.
pub(crate) fn write_archive_file<T>(
    path: &Path,
    existing: OnExisting,
    write: impl FnOnce(&File) -> Result<T>,
) -> Result<T> {
    let name = escaped_path(path);
    let archive_error = |cause| Error::host(format!("`{name}` can't be written"), cause);
    if existing == OnExisting::Refuse && path.symlink_metadata().is_ok() {
        return Err(Error::AlreadyExists(format!("`{name}` exists already; use --force to replace it")));
    }
    let mut partial = path.as_os_str().to_owned();
    partial.push(".partial");
    let partial = PathBuf::from(partial);
    let file = create_partial(&partial)
        .map_err(|cause| Error::host(format!("`{}` can't be written", escaped_path(&partial)), cause))?;
    let result = write(&file).and_then(|written| {
        std::fs::rename(&partial, path).map_err(archive_error)?;
        Ok(written)
    });
    if result.is_err() {
        // The first error is the one to report.
        let _ = std::fs::remove_file(&partial);
    }
    result
}

struct Exporter<'v, 'w> {
    vfs: &'v Vfs,
    compare: CompareBy,
    tally: TransferTally<'w>,
    /// Names that are not exported to this destination.
    excluded_names: &'static [&'static str],
}

impl Exporter<'_, '_> {
    fn run_to_file(&mut self, from: &VfsPath, path: &Path, existing: OnExisting) -> Result<()> {
        write_archive_file(path, existing, |file| {
            self.run(from, &mut ArchiveSink::new(BufWriter::with_capacity(256 << 10, file)))
        })
    }

    fn run(&mut self, from: &VfsPath, sink: &mut dyn Sink) -> Result<()> {
        self.export_directory(from, sink)?;
        sink.finish().map_err(write_error(sink.display_path("")))
    }

    fn export_directory(&mut self, path: &VfsPath, sink: &mut dyn Sink) -> Result<()> {
        let mut page = ListPage { cursor: None, limit: PAGE_SIZE };
        loop {
            let listing = match self.vfs.list(path, &page) {
                // A Workspace that can't be read isn't part of what the agent can see.
                Err(error) if error.kind() == ErrorKind::Denied => {
                    self.tally.skip(path, error);
                    return Ok(());
                }
                listing => listing?,
            };
            for entry in &listing.entries {
                self.export_entry(path, entry, sink)?;
            }
            match listing.cursor {
                Some(cursor) => page.cursor = Some(cursor),
                None => return Ok(()),
            }
        }
    }

    fn export_entry(&mut self, parent: &VfsPath, entry: &DirEntry, sink: &mut dyn Sink) -> Result<()> {
        self.tally.check_not_stopped()?;
        let display_path = format!("{}/{}", if parent.is_root() { "" } else { parent.as_str() }, entry.name);
        let Some(name) = entry.name.as_path_component() else {
            self.tally.refuse(display_path, "this name can't be part of a path");
            return Ok(());
        };
        if self.excluded_names.contains(&name) {
            self.tally.refuse(display_path, "the name is reserved for Stead itself");
            return Ok(());
        }
        let path = match parent.join(name) {
            Ok(path) => path,
            Err(error) => {
                self.tally.refuse(display_path, error);
                return Ok(());
            }
        };
        let attr = ExportedAttr { size: entry.size, mode: entry.mode, modified: entry.modified };
        match entry.kind {
            NodeKind::Directory => self.export_subdirectory(&path, name, attr, sink),
            NodeKind::File => self.export_file(&path, name, attr, sink),
            NodeKind::Symlink => {
                let target = self.vfs.read_link(&path)?;
                let outcome =
                    sink.write_symlink(name, &target, attr).map_err(write_error(sink.display_path(name)))?;
                self.count_outcome(&path, outcome, |totals| totals.symlinks += 1);
                Ok(())
            }
            NodeKind::Special(_) => {
                self.tally.skip(&path, "it isn't a file, directory or symlink");
                Ok(())
            }
        }
    }

    fn export_subdirectory(
        &mut self,
        path: &VfsPath,
        name: &str,
        attr: ExportedAttr,
        sink: &mut dyn Sink,
    ) -> Result<()> {
        let display_path = sink.display_path(name);
        match sink.enter(name, attr).map_err(write_error(display_path.clone()))? {
            WriteOutcome::Blocked(reason) => {
                self.tally.refuse(path, blocked_reason(reason));
                return Ok(());
            }
            WriteOutcome::Written => self.tally.count(|totals| totals.directories += 1),
            WriteOutcome::Unchanged => {}
        }
        self.export_directory(path, sink)?;
        sink.leave(attr).map_err(write_error(display_path))
    }

    fn export_file(
        &mut self,
        path: &VfsPath,
        name: &str,
        attr: ExportedAttr,
        sink: &mut dyn Sink,
    ) -> Result<()> {
        let vfs = self.vfs;
        if sink.is_up_to_date(name, attr, self.compare, &mut || Ok(vfs.reader(path)?))? {
            self.tally.count(|totals| totals.unchanged += 1);
            return Ok(());
        }
        let reader = match vfs.reader(path) {
            // It was removed after it was listed, so it isn't part of the tree any more.
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            Err(error) if matches!(error.kind(), ErrorKind::Denied | ErrorKind::Unsupported) => {
                self.tally.refuse(path, error);
                return Ok(());
            }
            reader => reader?,
        };
        let attr =
            ExportedAttr { size: reader.size(), mode: reader.mode(), modified: Some(reader.modified()) };
        // Large reads: a Store takes little longer for one than for a small one.
        let mut reader = BufReader::with_capacity(buffer_size(attr.size), reader);
        let mut counted = CountingReader { source: &mut reader, tally: &mut self.tally };
        let outcome =
            sink.write_file(name, attr, &mut counted).map_err(write_error(sink.display_path(name)))?;
        self.count_outcome(path, outcome, |totals| totals.files += 1);
        Ok(())
    }

    fn count_outcome(
        &mut self,
        path: &VfsPath,
        outcome: WriteOutcome,
        count: impl FnOnce(&mut TransferTotals),
    ) {
        match outcome {
            WriteOutcome::Written => self.tally.count(count),
            WriteOutcome::Unchanged => self.tally.count(|totals| totals.unchanged += 1),
            WriteOutcome::Blocked(reason) => self.tally.refuse(path, blocked_reason(reason)),
        }
    }
}

fn blocked_reason(reason: &str) -> String {
    format!("{reason}; the destination stays as it is")
}

fn write_error(path: String) -> impl FnOnce(io::Error) -> Error {
    move |cause| Error::host(format!("`{path}` can't be written"), cause)
}
