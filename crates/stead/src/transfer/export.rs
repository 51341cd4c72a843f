//! Taking things out of a stead: the tree is read through the door, page by page, and handed to a destination.

use std::fmt;
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

use stead_core::store::Kind;
use stead_core::vfs::{DirEntry, FileReader, IntoPath, ListPage};
use stead_core::{ErrorKind, Timestamp, Vfs, VfsPath};

use super::into_archive::IntoArchive;
use super::into_directory::IntoDirectory;
use super::{Compare, Counted, Tally, Totals, Watch, piece};
use crate::error::{Error, Result, shown};

/// How many entries of a directory are held at once.
const PAGE: usize = 1_000;

/// Where an export goes.
pub enum Destination<'a> {
    /// A directory of the host.
    Directory(PathBuf),
    /// A tar archive in a file of the host.
    Archive(PathBuf),
    /// A tar archive, written to a stream.
    Stream(Box<dyn Write + 'a>),
}

impl fmt::Debug for Destination<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Destination::Directory(path) => f.debug_tuple("Directory").field(path).finish(),
            Destination::Archive(path) => f.debug_tuple("Archive").field(path).finish(),
            Destination::Stream(_) => f.write_str("Stream"),
        }
    }
}

impl Destination<'_> {
    /// An archive where the name ends in `.tar`, a directory otherwise.
    pub fn at(path: impl Into<PathBuf>) -> Self {
        let path = path.into();
        if path.extension().is_some_and(|extension| extension == "tar") {
            Destination::Archive(path)
        } else {
            Destination::Directory(path)
        }
    }
}

/// What happens to what is at the destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Existing {
    /// It stays; the export fails.
    #[default]
    Refuse,
    /// Files of the same name are replaced, unless they are as they should be; the rest stays.
    Replace,
}

/// How an entry leaves.
#[derive(Debug, Clone, Copy)]
pub(super) struct Leaving {
    pub(super) size: u64,
    pub(super) mode: u32,
    pub(super) modified: Option<Timestamp>,
}

/// What came of handing an entry over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Handed {
    /// It is there now.
    Over,
    /// It was there, as it should be.
    Already,
    /// Something else is there, and stays.
    InTheWay(&'static str),
}

/// What takes an export in. Names are single components.
pub(super) trait Sink {
    /// How a message calls an entry.
    fn shown(&self, name: &str) -> String;
    /// Makes a directory and goes into it.
    fn enter(&mut self, name: &str, leaving: Leaving) -> io::Result<Handed>;
    /// Goes back out of a directory, which is complete.
    fn leave(&mut self, leaving: Leaving) -> io::Result<()>;
    /// Whether a file is there as it should be; `open` opens what it should hold.
    fn has(
        &mut self,
        name: &str,
        leaving: Leaving,
        compare: Compare,
        open: &mut dyn FnMut() -> Result<FileReader>,
    ) -> Result<bool>;
    /// Takes a file.
    fn file(&mut self, name: &str, leaving: Leaving, content: &mut dyn Read) -> io::Result<Handed>;
    /// Takes a symlink.
    fn symlink(&mut self, name: &str, target: &str, leaving: Leaving) -> io::Result<Handed>;
    /// Ends it all.
    fn finish(&mut self) -> io::Result<()>;
}

/// Writes what a directory of the stead holds to a destination.
///
/// No symlink of the host is followed on the way. Symlinks leave as they are: what they lead to may be something else
/// on the host. An export that was interrupted is repeated with [`Existing::Replace`]. One record tells how it went.
pub fn export(
    vfs: &Vfs,
    from: impl IntoPath,
    destination: Destination<'_>,
    existing: Existing,
    compare: Compare,
    watch: &mut dyn Watch,
) -> Result<Totals> {
    let from = from.into_path()?;
    vfs.as_one(
        "export",
        &from,
        |error: &Error| Some(error.kind()),
        |vfs| {
            let totals = run(vfs, &from, destination, existing, compare, watch)?;
            vfs.tell_files(totals.files);
            Ok(totals)
        },
    )
}

fn run(
    vfs: &Vfs,
    from: &VfsPath,
    destination: Destination<'_>,
    existing: Existing,
    compare: Compare,
    watch: &mut dyn Watch,
) -> Result<Totals> {
    let top = vfs.stat(from)?;
    if top.kind != Kind::Directory {
        return Err(Error::Invalid(format!("`{}` is a {}; export a directory", top.path, top.kind)));
    }
    // A tree that an agent made must not become the stead of the place where it arrives.
    let withheld: &[&str] = match (&destination, existing) {
        (Destination::Directory(_), Existing::Replace) => &[".stead", "stead.toml"],
        (Destination::Directory(_), Existing::Refuse) => &[".stead"],
        (Destination::Archive(_) | Destination::Stream(_), _) => &[],
    };
    let tally = Tally::new(vfs, watch);
    let mut exporter = Exporter { vfs, compare, tally, withheld };
    match destination {
        Destination::Directory(path) => {
            exporter.run(&top.path, &mut IntoDirectory::open(&path, existing)?)?;
        }
        Destination::Archive(path) => exporter.run_to_file(&top.path, &path, existing)?,
        Destination::Stream(stream) => {
            exporter.run(&top.path, &mut IntoArchive::new(BufWriter::new(stream)))?;
        }
    }
    Ok(exporter.tally.totals)
}

struct Exporter<'v, 'w> {
    vfs: &'v Vfs,
    compare: Compare,
    tally: Tally<'w>,
    /// Names that do not go to this destination.
    withheld: &'static [&'static str],
}

impl Exporter<'_, '_> {
    /// Writes an archive beside its place, and puts it there when it is complete.
    fn run_to_file(&mut self, from: &VfsPath, path: &Path, existing: Existing) -> Result<()> {
        let name = shown(path);
        let failed = |cause| Error::host(format!("`{name}` can't be written"), cause);
        if existing == Existing::Refuse && path.symlink_metadata().is_ok() {
            return Err(Error::InTheWay(format!("`{name}` exists already; say --force to replace it")));
        }
        let mut partial = path.as_os_str().to_owned();
        partial.push(".partial");
        let partial = PathBuf::from(partial);
        let file = File::create_new(&partial)
            .map_err(|cause| Error::host(format!("`{}` can't be written", shown(&partial)), cause))?;
        let written = self.run(from, &mut IntoArchive::new(BufWriter::with_capacity(256 << 10, file)));
        let done = written.and_then(|()| std::fs::rename(&partial, path).map_err(failed));
        if done.is_err() {
            // The first failure is the one to tell.
            let _ = std::fs::remove_file(&partial);
        }
        done
    }

    fn run(&mut self, from: &VfsPath, sink: &mut dyn Sink) -> Result<()> {
        self.directory(from, sink)?;
        sink.finish().map_err(writing(sink.shown("")))
    }

    fn directory(&mut self, path: &VfsPath, sink: &mut dyn Sink) -> Result<()> {
        let mut page = ListPage { cursor: None, limit: PAGE };
        loop {
            let listed = match self.vfs.list(path, &page) {
                // A Workspace that can't be read is not part of what the agent could see.
                Err(error) if error.kind() == ErrorKind::Denied => {
                    self.tally.skip(path, error);
                    return Ok(());
                }
                listed => listed?,
            };
            for entry in &listed.entries {
                self.entry(path, entry, sink)?;
            }
            match listed.cursor {
                Some(cursor) => page.cursor = Some(cursor),
                None => return Ok(()),
            }
        }
    }

    fn entry(&mut self, parent: &VfsPath, entry: &DirEntry, sink: &mut dyn Sink) -> Result<()> {
        self.tally.go_on()?;
        let shown = format!("{}/{}", if parent.is_root() { "" } else { parent.as_str() }, entry.name);
        let Some(name) = entry.name.as_plain() else {
            self.tally.refuse(shown, "no path can hold this name");
            return Ok(());
        };
        if self.withheld.contains(&name) {
            self.tally.refuse(shown, "the name is reserved for Stead itself");
            return Ok(());
        }
        let path = match parent.join(name) {
            Ok(path) => path,
            Err(error) => {
                self.tally.refuse(shown, error);
                return Ok(());
            }
        };
        let leaving = Leaving { size: entry.size, mode: entry.mode, modified: entry.modified };
        match entry.kind {
            Kind::Directory => self.subdirectory(&path, name, leaving, sink),
            Kind::File => self.file(&path, name, leaving, sink),
            Kind::Symlink => {
                let target = self.vfs.read_link(&path)?;
                let handed = sink.symlink(name, &target, leaving).map_err(writing(sink.shown(name)))?;
                self.handed(&path, handed, |totals| totals.symlinks += 1);
                Ok(())
            }
            Kind::Special(_) => {
                self.tally.skip(&path, "it is no file, directory or symlink");
                Ok(())
            }
        }
    }

    fn subdirectory(
        &mut self,
        path: &VfsPath,
        name: &str,
        leaving: Leaving,
        sink: &mut dyn Sink,
    ) -> Result<()> {
        let shown = sink.shown(name);
        match sink.enter(name, leaving).map_err(writing(shown.clone()))? {
            Handed::InTheWay(what) => {
                self.tally.refuse(path, in_the_way(what));
                return Ok(());
            }
            Handed::Over => self.tally.count(|totals| totals.directories += 1),
            Handed::Already => {}
        }
        self.directory(path, sink)?;
        sink.leave(leaving).map_err(writing(shown))
    }

    fn file(&mut self, path: &VfsPath, name: &str, leaving: Leaving, sink: &mut dyn Sink) -> Result<()> {
        let vfs = self.vfs;
        if sink.has(name, leaving, self.compare, &mut || Ok(vfs.reader(path)?))? {
            self.tally.count(|totals| totals.unchanged += 1);
            return Ok(());
        }
        let reader = match vfs.reader(path) {
            // It was there a moment ago; now the tree is one without it.
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            Err(error) if matches!(error.kind(), ErrorKind::Denied | ErrorKind::Unsupported) => {
                self.tally.refuse(path, error);
                return Ok(());
            }
            reader => reader?,
        };
        let leaving = Leaving { size: reader.size(), mode: reader.mode(), modified: Some(reader.modified()) };
        // Large pieces: a Store answers one of them as quickly as a small one.
        let mut reader = BufReader::with_capacity(piece(leaving.size), reader);
        let mut counted = Counted { from: &mut reader, tally: &mut self.tally };
        let handed = sink.file(name, leaving, &mut counted).map_err(writing(sink.shown(name)))?;
        self.handed(path, handed, |totals| totals.files += 1);
        Ok(())
    }

    fn handed(&mut self, path: &VfsPath, handed: Handed, count: impl FnOnce(&mut Totals)) {
        match handed {
            Handed::Over => self.tally.count(count),
            Handed::Already => self.tally.count(|totals| totals.unchanged += 1),
            Handed::InTheWay(what) => self.tally.refuse(path, in_the_way(what)),
        }
    }
}

fn in_the_way(what: &str) -> String {
    format!("{what} is at the destination, and stays there")
}

fn writing(shown: String) -> impl FnOnce(io::Error) -> Error {
    move |cause| Error::host(format!("`{shown}` can't be written"), cause)
}
