//! The source of an import, and how to tell a directory from an archive.

use std::fmt;
use std::fs::File;
use std::io::{self, BufReader, Cursor, Read};
use std::path::{Path, PathBuf};

use crate::error::{Error, Result, escaped_path};

/// Where an import reads from.
pub enum ImportSource<'a> {
    /// A host directory.
    Directory {
        /// The directory.
        path: PathBuf,
        /// Its name in messages.
        name: String,
    },
    /// A tar archive.
    Archive {
        /// Its bytes.
        stream: Box<dyn Read + 'a>,
        /// Its name in messages.
        name: String,
    },
}

impl fmt::Debug for ImportSource<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ImportSource::Directory { name, .. } => f.debug_tuple("Directory").field(name).finish(),
            ImportSource::Archive { name, .. } => f.debug_tuple("Archive").field(name).finish(),
        }
    }
}

impl<'a> ImportSource<'a> {
    /// Opens a host directory or a tar archive, whichever the path is.
    pub fn open(path: &Path) -> Result<ImportSource<'static>> {
        let name = escaped_path(path).to_string();
        let read_error = |cause| Error::host(format!("`{name}` can't be read"), cause);
        let metadata = std::fs::metadata(path).map_err(read_error)?;
        if metadata.is_dir() {
            return Ok(ImportSource::Directory { path: path.to_owned(), name });
        }
        if !metadata.is_file() {
            return Err(Error::Invalid(format!("`{name}` is neither a directory nor an archive")));
        }
        let file = File::open(path).map_err(read_error)?;
        ImportSource::stream(BufReader::with_capacity(256 << 10, file), name)
    }

    /// A tar archive from a stream. Fails if the stream doesn't begin like one.
    pub fn stream(mut stream: impl Read + 'a, name: impl Into<String>) -> Result<ImportSource<'a>> {
        let name = name.into();
        let read_error = |cause| Error::host(format!("`{name}` can't be read"), cause);
        let mut block = Vec::new();
        (&mut stream).take(512).read_to_end(&mut block).map_err(read_error)?;
        check_tar_header(&block, &name)?;
        let stream: Box<dyn Read + 'a> = Box::new(Cursor::new(block).chain(stream));
        Ok(ImportSource::Archive { stream, name })
    }
}

/// Checks the first block of an archive.
fn check_tar_header(block: &[u8], name: &str) -> Result<()> {
    let compressed_formats = [
        (&[0x1f, 0x8b][..], "gzip -dc"),
        (&[0x28, 0xb5, 0x2f, 0xfd], "zstd -dc"),
        (b"BZh", "bzip2 -dc"),
        (&[0xfd, b'7', b'z', b'X', b'Z'], "xz -dc"),
    ];
    if let Some((_, command)) = compressed_formats.iter().find(|(magic, _)| block.starts_with(magic)) {
        return Err(Error::Invalid(format!(
            "`{name}` is compressed; decompress it first: {command} FILE | stead import - PREFIX"
        )));
    }
    let is_empty_archive = block.len() == 512 && block.iter().all(|&byte| byte == 0);
    let is_header = block.len() == 512 && has_valid_checksum(block).unwrap_or(false);
    if is_empty_archive || is_header {
        Ok(())
    } else {
        Err(Error::Invalid(format!("`{name}` isn't a tar archive")))
    }
}

/// Whether the header's checksum is right. Old archives have no other mark.
fn has_valid_checksum(block: &[u8]) -> io::Result<bool> {
    let header = tar::Header::from_byte_slice(block);
    let sum = block.iter().enumerate().map(|(index, &byte)| {
        // The sum is computed with spaces in place of the checksum itself.
        u32::from(if (148..156).contains(&index) { b' ' } else { byte })
    });
    Ok(header.cksum()? == sum.sum::<u32>())
}
