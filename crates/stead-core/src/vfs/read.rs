//! Reading files and their attributes.

use std::io;

use crate::clock::Timestamp;
use crate::error::{Error, Result, Visibility};
use crate::lines::{Continuation, LineRange, read_lines};
use crate::path::VfsPath;
use crate::scope::{Access, AccessScope};
use crate::store::{Attr, NodeKind, OpenContent, OpenPurpose, StoreError, StoreResult, VersionTag};
use crate::text_encoding::{EncodingGuess, HEAD_SIZE, TextEncoding};
use crate::vfs::call::{Call, OpenAudit, OpenRecording};
use crate::vfs::managed::FileUse;
use crate::vfs::resolve::ResolvedPath;
use crate::vfs::{IntoPath, Vfs};

/// The attributes of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stat {
    /// The path, with symlinks resolved.
    pub path: VfsPath,
    /// What kind of node it is.
    pub kind: NodeKind,
    /// A file's size in bytes.
    pub size: u64,
    /// Permission bits.
    pub mode: u32,
    /// When it was created, if known.
    pub created: Option<Timestamp>,
    /// When it was last modified, if known.
    pub modified: Option<Timestamp>,
    /// The version tag; `None` for a directory that exists only because a Workspace lies at it or below it.
    pub tag: Option<VersionTag>,
    /// A file's media type, guessed from its name.
    pub mime: Option<&'static str>,
    /// The Access Scope of the Workspace that it is in.
    pub scope: Option<AccessScope>,
}

/// A file's bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct BytesRead {
    /// The path, with symlinks resolved.
    pub path: VfsPath,
    /// The bytes.
    pub bytes: Vec<u8>,
    /// The file's size in bytes.
    pub size: u64,
    /// The version tag of the state that was read.
    pub tag: VersionTag,
}

/// A range of bytes in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ByteRange {
    /// The offset of the first byte.
    pub offset: u64,
    /// The maximum number of bytes.
    pub length: u64,
}

/// Some lines of a text file.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TextRead {
    /// The path, with symlinks resolved.
    pub path: VfsPath,
    /// The lines, with their endings. A UTF-16 byte order mark is left out.
    pub text: String,
    /// The encoding that the file has them in.
    pub encoding: TextEncoding,
    /// The first line's number, from 1.
    pub first: u64,
    /// The number of lines.
    pub count: u64,
    /// Whether there is more after them, and where it begins.
    pub continuation: Continuation,
    /// The file's size in bytes.
    pub size: u64,
    /// The version tag of the state that was read.
    pub tag: VersionTag,
}

/// The text in a range of bytes of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TextRangeRead {
    /// The path, with symlinks resolved.
    pub path: VfsPath,
    /// The text. A UTF-16 byte order mark is left out.
    pub text: String,
    /// The encoding that the file has it in.
    pub encoding: TextEncoding,
    /// The offset of the first byte after the text.
    pub end: u64,
    /// The file's size in bytes.
    pub size: u64,
    /// The version tag of the state that was read.
    pub tag: VersionTag,
}

impl TextRead {
    /// A sentence for the reader on how to get the rest; `None` if there is no more.
    pub fn more(&self) -> Option<String> {
        match self.continuation {
            Continuation::End { .. } => None,
            Continuation::More { next } => Some(format!("There is more; continue with offset {next}.")),
            Continuation::Cut { at } => Some(format!(
                "Line {} is too long for one call and is cut; it continues at byte {at}.",
                self.first + self.count - 1
            )),
        }
    }
}

impl Vfs {
    /// The attributes of what a path leads to. Follows symlinks.
    pub fn stat(&self, path: impl IntoPath) -> Result<Stat> {
        self.call("stat", [path.into_path()], |call, [path]| {
            call.file_use.set(FileUse::Find);
            call.stat(path)
        })
    }

    /// The attributes of a path. Doesn't follow a symlink in its last component.
    pub fn stat_link(&self, path: impl IntoPath) -> Result<Stat> {
        self.call("stat", [path.into_path()], |call, [path]| {
            let stat_own = |resolved: &ResolvedPath<'_>| match resolved.store().stat(&resolved.node_path) {
                Err(StoreError::NotFound) if call.is_synthetic_directory(resolved) => Ok(None),
                answer => answer.map(Some),
            };
            let (attr, path) = call.resolve_any_and_call(path, stat_own, |_| None)?;
            Ok(call.stat_result(path, attr))
        })
    }

    /// Whether a path leads to something. Follows symlinks.
    pub fn exists(&self, path: impl IntoPath) -> Result<bool> {
        self.call("exists", [path.into_path()], |call, [path]| Ok(call.kind(path)?.is_some()))
    }

    /// Whether a path leads to a file. Follows symlinks.
    pub fn is_file(&self, path: impl IntoPath) -> Result<bool> {
        self.call("is_file", [path.into_path()], |call, [path]| Ok(call.kind(path)? == Some(NodeKind::File)))
    }

    /// Whether a path leads to a directory. Follows symlinks.
    pub fn is_directory(&self, path: impl IntoPath) -> Result<bool> {
        let directory = Some(NodeKind::Directory);
        self.call("is_directory", [path.into_path()], |call, [path]| Ok(call.kind(path)? == directory))
    }

    /// Reads a whole file, up to `Limits::max_read_size` bytes.
    pub fn read(&self, path: impl IntoPath) -> Result<BytesRead> {
        self.call("read", [path.into_path()], |call, [path]| {
            let limit = self.shared.limits.max_read_size;
            call.file_use.set(FileUse::Find);
            let (content, resolved) = call.resolve_and_call(path, Access::Read, |resolved| {
                resolved.store().read(&resolved.node_path, limit)
            })?;
            call.set_bytes(content.bytes.len() as u64);
            self.shared.read_set.record(&resolved.path, content.attr.tag);
            call.touch(&resolved);
            let (bytes, size) = (content.bytes, content.attr.size);
            Ok(BytesRead { path: resolved.path, bytes, size, tag: content.attr.tag })
        })
    }

    /// Reads many whole files. Each is a call of its own and has its own result.
    pub fn read_many<P: IntoPath>(&self, paths: impl IntoIterator<Item = P>) -> Vec<Result<BytesRead>> {
        paths.into_iter().map(|path| self.read(path)).collect()
    }

    /// Reads a range of bytes of a file.
    pub fn read_range(&self, path: impl IntoPath, range: ByteRange) -> Result<BytesRead> {
        self.call("read_range", [path.into_path()], |call, [path]| {
            let limit = self.shared.limits.max_read_size;
            call.file_use.set(FileUse::Find);
            let ((bytes, attr), resolved) = call.resolve_and_call(path, Access::Read, |resolved| {
                let content = resolved.store().open(&resolved.node_path, OpenPurpose::Read)?;
                let attr = content.attr();
                let length = range.length.min(attr.size.saturating_sub(range.offset));
                if length > limit {
                    return Err(StoreError::TooLarge { size: length, limit });
                }
                let mut bytes = vec![0; usize::try_from(length).expect("the limit fits into memory")];
                let count = content.read_at(range.offset, &mut bytes)?;
                bytes.truncate(count);
                Ok((bytes, attr))
            })?;
            call.set_bytes(bytes.len() as u64);
            self.shared.read_set.record(&resolved.path, attr.tag);
            call.touch(&resolved);
            Ok(BytesRead { path: resolved.path, bytes, size: attr.size, tag: attr.tag })
        })
    }

    /// Reads some lines of a text file, in constant memory however large the file is.
    pub fn read_lines(&self, path: impl IntoPath, range: LineRange) -> Result<TextRead> {
        self.call("read_lines", [path.into_path()], |call, [path]| call.read_lines(path, range))
    }

    /// Reads the text in a range of bytes of a file, without a character that the end of the range would cut.
    pub fn read_text_range(&self, path: impl IntoPath, range: ByteRange) -> Result<TextRangeRead> {
        self.call("read_range", [path.into_path()], |call, [path]| call.read_text_range(path, range))
    }

    /// The target of a symlink, as it was written.
    pub fn read_link(&self, path: impl IntoPath) -> Result<String> {
        self.call("read_link", [path.into_path()], |call, [path]| {
            let (target, _) = call.resolve_and_call(path, Access::Read, |resolved| {
                resolved.store().read_link(&resolved.node_path)
            })?;
            call.set_bytes(target.len() as u64);
            Ok(String::from_utf8_lossy(&target).into_owned())
        })
    }

    /// Whether the host lets Stead read a file that the caller may read. Doesn't count as reading it.
    pub fn is_readable_on_host(&self, path: impl IntoPath) -> Result<bool> {
        self.call("stat", [path.into_path()], |call, [path]| {
            let opened = call.resolve_and_call(path, Access::Read, |resolved| {
                resolved.store().open(&resolved.node_path, OpenPurpose::Read)
            });
            match opened {
                Ok(_) => Ok(true),
                Err(Error::Store { cause: StoreError::HostDenied, .. }) => Ok(false),
                Err(error) => Err(error),
            }
        })
    }

    /// Opens a file to read it piece by piece.
    pub fn reader(&self, path: impl IntoPath) -> Result<FileReader> {
        let opened = self.subcall("read", [path.into_path()], |call, [path]| {
            call.file_use.set(FileUse::Find);
            let (content, resolved) = call.resolve_and_call(path, Access::Read, |resolved| {
                resolved.store().open(&resolved.node_path, OpenPurpose::Read)
            })?;
            let audit = call.open_audit(OpenRecording::Recorded)?;
            self.shared.read_set.record(&resolved.path, content.attr().tag);
            call.touch(&resolved);
            Ok(FileReader { content, position: 0, path: resolved.path, audit })
        });
        opened.map(|(reader, _)| reader)
    }
}

impl Call<'_> {
    fn stat(&self, path: &VfsPath) -> Result<Stat> {
        let (found, path) = self.resolve_existing(path)?;
        Ok(self.stat_result(path, found.map(|(attr, _)| attr)))
    }

    fn kind(&self, path: &VfsPath) -> Result<Option<NodeKind>> {
        match self.stat(path) {
            Ok(stat) => Ok(Some(stat.kind)),
            Err(Error::Store { cause: StoreError::NotFound | StoreError::NotADirectory, .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn stat_result(&self, path: VfsPath, attr: Option<Attr>) -> Stat {
        let scope = self.shared().router.route(&path).map(|route| route.workspace.scope());
        match attr {
            Some(attr) => Stat {
                kind: attr.kind,
                size: attr.size,
                mode: attr.mode,
                created: attr.created,
                modified: Some(attr.modified),
                tag: Some(attr.tag),
                mime: (attr.kind == NodeKind::File).then(|| media_type(&path)).flatten(),
                scope,
                path,
            },
            None => Stat {
                kind: NodeKind::Directory,
                size: 0,
                mode: 0o755,
                created: None,
                modified: None,
                tag: None,
                mime: None,
                scope,
                path,
            },
        }
    }

    fn read_lines(&self, path: &VfsPath, range: LineRange) -> Result<TextRead> {
        let first = range.offset.max(1);
        self.file_use.set(FileUse::Find);
        let ((lines, attr), resolved) =
            self.resolve_and_call(path, Access::Read, |resolved| -> StoreResult<_> {
                let content = resolved.store().open(&resolved.node_path, OpenPurpose::Read)?;
                Ok((read_lines(&*content, LineRange { offset: first, ..range })?, content.attr()))
            })?;
        if let Continuation::End { lines: total } = lines.continuation
            && lines.count == 0
            && first > total.max(1)
        {
            return Err(Error::LineOutOfRange { path: resolved.path, lines: total, offset: first });
        }
        let decoded = lines.encoding.decode(lines.bytes).filter(|(text, _)| !text.contains('\0'));
        let Some((text, encoding)) = decoded else { return Err(Error::Binary { path: resolved.path }) };
        self.set_bytes(text.len() as u64);
        self.shared().read_set.record(&resolved.path, attr.tag);
        self.touch(&resolved);
        Ok(TextRead {
            path: resolved.path,
            text,
            encoding,
            first,
            count: lines.count,
            continuation: lines.continuation,
            size: attr.size,
            tag: attr.tag,
        })
    }

    fn read_text_range(&self, path: &VfsPath, range: ByteRange) -> Result<TextRangeRead> {
        let limit = self.shared().limits.max_read_size;
        self.file_use.set(FileUse::Find);
        let ((guess, start, mut bytes, attr), resolved) =
            self.resolve_and_call(path, Access::Read, |resolved| -> StoreResult<_> {
                let content = resolved.store().open(&resolved.node_path, OpenPurpose::Read)?;
                let mut head = vec![0; HEAD_SIZE];
                let head_length = content.read_at(0, &mut head)?;
                let guess = EncodingGuess::from_head(&head[..head_length]);
                let (attr, unit_size) = (content.attr(), guess.encoding.unit_size() as u64);
                let start = range.offset / unit_size * unit_size;
                let length = range.length.max(unit_size).min(attr.size.saturating_sub(start));
                if length > limit {
                    return Err(StoreError::TooLarge { size: length, limit });
                }
                let mut bytes = vec![0; usize::try_from(length).expect("the limit fits into memory")];
                let count = content.read_at(start, &mut bytes)?;
                bytes.truncate(count);
                Ok((guess, start, bytes, attr))
            })?;
        if start + (bytes.len() as u64) < attr.size {
            let complete_length = guess.encoding.len_without_partial_char(&bytes);
            bytes.truncate(if complete_length > 0 { complete_length } else { bytes.len() });
        }
        let end = start + bytes.len() as u64;
        let is_misplaced = guess.encoding == TextEncoding::Utf8 && starts_inside_utf_8_character(&bytes);
        let decoded = if is_misplaced { None } else { guess.decode(bytes) };
        let Some((text, encoding)) = decoded else { return Err(Error::Binary { path: resolved.path }) };
        self.set_bytes(text.len() as u64);
        self.shared().read_set.record(&resolved.path, attr.tag);
        self.touch(&resolved);
        Ok(TextRangeRead { path: resolved.path, text, encoding, end, size: attr.size, tag: attr.tag })
    }
}

/// Whether the bytes are UTF-8, but for the end of a character at their start.
fn starts_inside_utf_8_character(bytes: &[u8]) -> bool {
    let is_continuation = |byte: &&u8| **byte & 0xc0 == 0x80;
    let rest_length = bytes.iter().take(3).take_while(is_continuation).count();
    rest_length > 0 && std::str::from_utf8(&bytes[rest_length..]).is_ok()
}

/// The media type that a file's name suggests.
pub fn media_type(path: &VfsPath) -> Option<&'static str> {
    mime_guess::from_path(path.as_str()).first_raw()
}

/// A file that is read piece by piece: its content as it was when it was opened.
pub struct FileReader {
    content: Box<dyn OpenContent>,
    position: u64,
    path: VfsPath,
    audit: OpenAudit,
}

impl std::fmt::Debug for FileReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FileReader").field("path", &self.path).field("position", &self.position).finish()
    }
}

impl FileReader {
    /// The file's size in bytes.
    pub fn size(&self) -> u64 {
        self.content.attr().size
    }

    /// The file's version tag.
    pub fn tag(&self) -> VersionTag {
        self.content.attr().tag
    }

    /// Its permission bits.
    pub fn mode(&self) -> u32 {
        self.content.attr().mode
    }

    /// When it was last modified.
    pub fn modified(&self) -> Timestamp {
        self.content.attr().modified
    }
}

impl io::Read for FileReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.content.read_at(self.position, buffer);
        self.audit.add_read(&count, StoreError::kind);
        let count = count.map_err(|cause| {
            let kind = match cause {
                StoreError::Unavailable { .. } => io::ErrorKind::WouldBlock,
                _ => io::ErrorKind::Other,
            };
            io::Error::new(
                kind,
                Error::Store { path: self.path.clone(), visibility: Visibility::Visible, cause },
            )
        })?;
        self.position += count as u64;
        Ok(count)
    }
}

impl io::Seek for FileReader {
    fn seek(&mut self, to: io::SeekFrom) -> io::Result<u64> {
        let position = match to {
            io::SeekFrom::Start(offset) => Some(offset),
            io::SeekFrom::End(offset) => self.size().checked_add_signed(offset),
            io::SeekFrom::Current(offset) => self.position.checked_add_signed(offset),
        };
        self.position = position.ok_or(io::ErrorKind::InvalidInput)?;
        Ok(self.position)
    }
}
