//! Exports to a tar archive in the pax format, which allows names of any length and times to the nanosecond.

use std::io::{self, Read, Write};

use stead_core::Timestamp;
use stead_core::vfs::FileReader;
use tar::{Builder, EntryType, Header};

use super::CompareBy;
use super::export::{ExportedAttr, Sink, WriteOutcome};
use super::host_directory::MODE_BITS;
use crate::error::Result;

pub(super) struct ArchiveSink<W: Write> {
    builder: Builder<W>,
    /// The path of the directory that is being exported, with a `/` at its end; empty at the top.
    path: String,
}

impl<W: Write> ArchiveSink<W> {
    pub(super) fn new(stream: W) -> Self {
        ArchiveSink { builder: Builder::new(stream), path: String::new() }
    }

    fn append(
        &mut self,
        kind: EntryType,
        name: &str,
        target: Option<&str>,
        attr: ExportedAttr,
        content: &mut dyn Read,
    ) -> io::Result<()> {
        let path = format!("{}{name}", self.path);
        let modified = attr.modified.unwrap_or_default();
        let mut header = Header::new_ustar();
        header.set_entry_type(kind);
        header.set_mode(attr.mode & MODE_BITS);
        header.set_mtime(u64::try_from(modified.as_secs()).unwrap_or(0));
        header.set_size(if kind == EntryType::Regular { attr.size } else { 0 });
        let mut extensions = Vec::new();
        if modified.subsec_nanos() != 0 || modified < Timestamp::default() {
            extensions.push(("mtime", format_pax_time(modified)));
        }
        if header.set_path(&path).is_err() {
            extensions.push(("path", path));
        }
        if let Some(target) = target
            && header.set_link_name_literal(target).is_err()
        {
            extensions.push(("linkpath", target.to_owned()));
        }
        header.set_cksum();
        if !extensions.is_empty() {
            let bytes = extensions.iter().map(|(key, value)| (*key, value.as_bytes()));
            self.builder.append_pax_extensions(bytes)?;
        }
        self.builder.append(&header, content)
    }
}

/// Formats a time as pax does: seconds since 1970, with a fraction.
fn format_pax_time(time: Timestamp) -> String {
    let nanos = time.0.unsigned_abs();
    let sign = if time.0 < 0 { "-" } else { "" };
    format!("{sign}{}.{:09}", nanos / 1_000_000_000, nanos % 1_000_000_000)
}

impl<W: Write> Sink for ArchiveSink<W> {
    fn display_path(&self, name: &str) -> String {
        if name.is_empty() { "the archive".into() } else { format!("{}{name}", self.path) }
    }

    fn enter(&mut self, name: &str, attr: ExportedAttr) -> io::Result<WriteOutcome> {
        let name = format!("{name}/");
        self.append(EntryType::Directory, &name, None, attr, &mut io::empty())?;
        self.path.push_str(&name);
        Ok(WriteOutcome::Written)
    }

    fn leave(&mut self, _: ExportedAttr) -> io::Result<()> {
        let inner = self.path.trim_end_matches('/');
        self.path.truncate(inner.rfind('/').map_or(0, |slash| slash + 1));
        Ok(())
    }

    fn is_up_to_date(
        &mut self,
        _: &str,
        _: ExportedAttr,
        _: CompareBy,
        _: &mut dyn FnMut() -> Result<FileReader>,
    ) -> Result<bool> {
        Ok(false)
    }

    fn write_file(
        &mut self,
        name: &str,
        attr: ExportedAttr,
        content: &mut dyn Read,
    ) -> io::Result<WriteOutcome> {
        // The size is in the header, so exactly that many bytes have to follow.
        let mut exact = ExactSizeReader { source: content, remaining: attr.size };
        self.append(EntryType::Regular, name, None, attr, &mut exact)?;
        Ok(WriteOutcome::Written)
    }

    fn write_symlink(&mut self, name: &str, target: &str, attr: ExportedAttr) -> io::Result<WriteOutcome> {
        self.append(EntryType::Symlink, name, Some(target), attr, &mut io::empty())?;
        Ok(WriteOutcome::Written)
    }

    fn finish(&mut self) -> io::Result<()> {
        self.builder.finish()?;
        self.builder.get_mut().flush()
    }
}

/// Reads exactly `remaining` bytes, and fails if the stream ends earlier.
struct ExactSizeReader<'a> {
    source: &'a mut dyn Read,
    remaining: u64,
}

impl Read for ExactSizeReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = usize::try_from(self.remaining).unwrap_or(usize::MAX).min(buffer.len());
        let count = self.source.read(&mut buffer[..length])?;
        if count == 0 && length > 0 {
            return Err(io::Error::new(
                io::ErrorKind::UnexpectedEof,
                "the file became shorter while it was being read",
            ));
        }
        self.remaining -= count as u64;
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_written_with_its_fraction() {
        assert_eq!(format_pax_time(Timestamp(12_000_000_001)), "12.000000001");
        assert_eq!(format_pax_time(Timestamp(-1_500_000_000)), "-1.500000000");
    }
}
