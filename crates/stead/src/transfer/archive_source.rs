//! Imports a tar archive, entry by entry. Its paths are checked like an agent's: none leads outside the import's
//! directory.

use std::cell::Cell;
use std::io::{self, Read};

use stead_core::name::escape_name;
use stead_core::{Name, Timestamp, VfsPath};
use tar::{Archive, Entry, EntryType};

use super::ARCHIVE_FACTS_DIRECTORY;
use super::host_directory::MODE_BITS;
use super::import::{ImportedAttr, Importer, SourceContent};
use crate::error::{Error, Result};

/// The content of an entry. It can be read once, and has to be as long as the archive's header says.
struct EntryContent<'a, R: Read> {
    entry: Entry<'a, R>,
    remaining: u64,
    /// Set if the archive ends before the content does.
    truncated: &'a Cell<bool>,
}

/// A stream that records whether its end was reached.
struct EofTracker<'a, R> {
    stream: R,
    reached_end: &'a Cell<bool>,
}

impl<R: Read> Read for EofTracker<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.stream.read(buffer)?;
        self.reached_end.set(self.reached_end.get() || (count == 0 && !buffer.is_empty()));
        Ok(count)
    }
}

impl<R: Read> Read for EntryContent<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.entry.read(buffer)?;
        if count == 0 && !buffer.is_empty() && self.remaining > 0 {
            self.truncated.set(true);
            return Err(io::Error::new(
                io::ErrorKind::UnexpectedEof,
                "the archive ends in the middle of this file",
            ));
        }
        self.remaining = self.remaining.saturating_sub(count as u64);
        Ok(count)
    }
}

impl<R: Read> SourceContent for EntryContent<'_, R> {
    fn try_rewind(&mut self) -> io::Result<bool> {
        Ok(false)
    }
}

/// Passes every entry of an archive to the importer.
pub(super) fn import_archive(
    stream: impl Read,
    name: &str,
    to: &VfsPath,
    importer: &mut Importer<'_, '_>,
) -> Result<()> {
    let (reached_end, truncated) = (Cell::new(false), Cell::new(false));
    let read_error = |cause: io::Error| match cause.kind() {
        // The archive ended too early; the host reported no error.
        io::ErrorKind::Other | io::ErrorKind::UnexpectedEof if reached_end.get() => truncated_error(name),
        // Errors of the host have a kind. `Other` comes from the tar reader, about the archive itself.
        io::ErrorKind::Other => Error::Invalid(format!("`{name}` is damaged: {cause}")),
        _ => Error::host(format!("`{name}` can't be read to its end"), cause),
    };
    let mut archive = Archive::new(EofTracker { stream, reached_end: &reached_end });
    // Directories get their attributes last: an archive lists a directory before its entries, and adding those would
    // change its time again.
    let mut directories = Vec::new();
    for entry in archive.entries().map_err(read_error)? {
        let mut entry = entry.map_err(read_error)?;
        let display_path = escape_name(&entry.path_bytes()).to_string();
        if describes_archive(&entry.path_bytes()) {
            importer.tally.skip(display_path, "it describes the archive");
            continue;
        }
        let path = match destination_path(to, &entry.path_bytes()) {
            Ok(path) => path,
            Err(reason) => {
                importer.tally.refuse(display_path, reason);
                continue;
            }
        };
        let attr = attributes_of(&mut entry).map_err(read_error)?;
        match entry.header().entry_type() {
            EntryType::Directory => {
                let was_entered = importer.ensure_directory(&path)?;
                if was_entered && path != *to {
                    directories.push((path, attr));
                }
            }
            EntryType::Regular | EntryType::Continuous | EntryType::GNUSparse => {
                let mut content = EntryContent { entry, remaining: attr.size, truncated: &truncated };
                let result = importer.import_file(&path, attr, &mut content);
                result.map_err(|error| if truncated.get() { truncated_error(name) } else { error })?;
            }
            EntryType::Symlink => match entry.link_name_bytes() {
                Some(target) => importer.import_symlink(&path, &target)?,
                None => importer.tally.refuse(display_path, "it is a symlink without a target"),
            },
            EntryType::Link => match entry.link_name_bytes().map(|target| destination_path(to, &target)) {
                Some(Ok(target)) => importer.import_hard_link(&path, &target)?,
                Some(Err(reason)) => importer.tally.refuse(display_path, reason),
                None => importer.tally.refuse(display_path, "it is a hard link without a target"),
            },
            EntryType::Char | EntryType::Block | EntryType::Fifo => {
                importer.tally.skip(display_path, "it isn't a file, directory or symlink");
            }
            // Headers that describe other entries, such as pax's global ones.
            _ => {}
        }
    }
    // Innermost first. The order isn't essential, since setting attributes of a directory doesn't change its parent's
    // time.
    for (path, attr) in directories.into_iter().rev() {
        importer.finish_directory(&path, attr)?;
    }
    Ok(())
}

/// Whether an entry isn't one of the archived files, but says something about them.
fn describes_archive(path: &[u8]) -> bool {
    let mut components = path.split(|&byte| byte == b'/').filter(|name| !matches!(*name, b"" | b"."));
    components.next() == Some(ARCHIVE_FACTS_DIRECTORY.as_bytes())
}

/// The error for an archive that ends too early, for example because a copy was interrupted.
fn truncated_error(name: &str) -> Error {
    Error::Invalid(format!(
        "`{name}` is incomplete: it ends in the middle of a file; the files before it may have been imported; \
         get the whole archive and import it again"
    ))
}

/// The logical path of an entry below `to`, or why the entry can't have one.
fn destination_path(to: &VfsPath, bytes: &[u8]) -> Result<VfsPath, String> {
    if bytes.starts_with(b"/") {
        return Err("its path is absolute".into());
    }
    let mut path = to.clone();
    for component in bytes.split(|&byte| byte == b'/') {
        match component {
            b"" | b"." => {}
            b".." => return Err("its path contains `..`".into()),
            name => {
                let name = Name::new(name).ok_or("this name can't be part of a path")?;
                let component = name.as_path_component().ok_or("this name can't be part of a path")?;
                path = path.join(component).map_err(|error| error.to_string())?;
            }
        }
    }
    Ok(path)
}

fn attributes_of(entry: &mut Entry<'_, impl Read>) -> io::Result<ImportedAttr> {
    let size = entry.size();
    let mode = entry.header().mode()? & MODE_BITS;
    let mut modified = Timestamp::from_secs(i64::try_from(entry.header().mtime()?).unwrap_or(0));
    if let Some(extensions) = entry.pax_extensions()? {
        let precise = extensions.flatten().find(|extension| extension.key_bytes() == b"mtime");
        if let Some(precise) = precise.and_then(|extension| parse_pax_time(extension.value().ok()?)) {
            modified = precise;
        }
    }
    Ok(ImportedAttr { size, mode, modified })
}

/// Parses a time in pax's format: seconds since 1970, with a fraction.
fn parse_pax_time(text: &str) -> Option<Timestamp> {
    let (seconds_text, fraction) = text.split_once('.').unwrap_or((text, ""));
    let seconds: i64 = seconds_text.parse().ok()?;
    let digits: String = fraction.chars().chain("000000000".chars()).take(9).collect();
    let nanos: i64 = digits.parse().ok()?;
    let nanos = if text.starts_with('-') { -nanos } else { nanos };
    Some(Timestamp(Timestamp::from_secs(seconds).0.saturating_add(nanos)))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_time_is_read_with_its_fraction() {
        assert_eq!(parse_pax_time("12"), Some(Timestamp::from_secs(12)));
        assert_eq!(parse_pax_time("12.5"), Some(Timestamp(12_500_000_000)));
        assert_eq!(parse_pax_time("12.0000000019"), Some(Timestamp(12_000_000_001)));
        assert_eq!(parse_pax_time("-1.5"), Some(Timestamp(-1_500_000_000)));
        assert_eq!(parse_pax_time("now"), None);
        assert_eq!(parse_pax_time("1.x"), None);
    }

    #[test]
    fn no_path_of_an_archive_leads_outside_the_destination() {
        let to = VfsPath::parse("/notes").unwrap();
        let destination = |path: &str| destination_path(&to, path.as_bytes()).map(|path| path.to_string());
        assert_eq!(destination("./a//b/"), Ok("/notes/a/b".into()));
        assert_eq!(destination("./"), Ok("/notes".into()));
        assert_eq!(destination("...x/..y"), Ok("/notes/...x/..y".into()));
        for hostile in ["/etc/passwd", "../x", "a/../../x", "a/..", "a\nb", "a\\b"] {
            assert!(destination(hostile).is_err(), "{hostile}");
        }
    }
}
