//! The reply of a tool: text for the model, facts for a program, or a failure.
//!
//! A model gets one block of text, whose last line has notes in brackets about what to do next, and then any images. A
//! program gets the text unchanged and the facts beside it.

use std::borrow::Cow;
use std::fmt;

use base64::Engine;
use base64::prelude::BASE64_STANDARD as BASE64;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::clock::Timestamp;
use crate::error::{Error, ErrorKind};
use crate::path::VfsPath;
use crate::store::ShortTag;
use crate::text_encoding::TextEncoding;

/// The result of a call. A failure is a reply too.
#[derive(Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub struct Reply {
    /// The text, unchanged, and images. Bulk text is only here; the folder tools have it among the facts, too.
    pub blocks: Vec<Block>,
    /// Whether the text is a file's content, so notes must go on a line of their own.
    pub is_content: bool,
    /// What the model can use next. The facts have the same for programs.
    pub notes: Vec<Note>,
    /// The few facts that a program needs; the tool's output schema describes them.
    pub facts: Map<String, Value>,
    /// Why the call failed, if it did.
    pub failure: Option<Failure>,
}

/// The format of tool results.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ResultFormat {
    /// Text only, for models: many hosts drop the text of a result that has structured content, or send both to the
    /// model.
    #[default]
    Text,
    /// The facts as structured content beside the text, for programs.
    Structured,
}

impl ResultFormat {
    /// Structured if either of the two is.
    pub fn or(self, other: ResultFormat) -> ResultFormat {
        if self == ResultFormat::Text { other } else { self }
    }

    /// Whether this is text only.
    pub fn is_text(&self) -> bool {
        *self == ResultFormat::Text
    }

    /// Structured if the caller sets a switch, as for a command.
    pub fn structured_if(structured: bool) -> ResultFormat {
        if structured { ResultFormat::Structured } else { ResultFormat::Text }
    }
}

/// One part of a reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Block {
    /// Text.
    Text(String),
    /// An image.
    Image {
        /// The image's bytes.
        bytes: Vec<u8>,
        /// The media type.
        mime: Cow<'static, str>,
    },
}

impl Block {
    /// The text, if this is a text block.
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Block::Text(text) => Some(text),
            Block::Image { .. } => None,
        }
    }

    /// The block as MCP represents it in JSON.
    pub fn to_json(&self) -> Value {
        match self {
            Block::Text(text) => json!({ "type": "text", "text": text }),
            Block::Image { bytes, mime } => {
                json!({ "type": "image", "data": BASE64.encode(bytes), "mimeType": mime })
            }
        }
    }
}

/// One item in the last line that a model reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Note {
    /// There is more. The text is what to pass to get it, such as `offset 801`.
    More(String),
    /// The file doesn't end with a newline; the one before this note isn't part of it.
    NoNewline,
    /// The file's encoding, if it isn't UTF-8.
    Encoding(TextEncoding),
    /// The file's version tag, which `if_match` takes.
    Tag(ShortTag),
    /// When a key of the State expires.
    Expires(Timestamp),
    /// How many files the change replaced or removed whose content is too large to be kept.
    NotKept(u64),
    /// How a file's content is encoded in the reply, and the file's size in bytes.
    Content {
        /// `utf-8` or `base64`.
        encoding: &'static str,
        /// The size.
        size: u64,
    },
}

impl Note {
    /// The note about a file's encoding; `None` for UTF-8.
    pub(super) fn of_encoding(encoding: TextEncoding) -> Option<Note> {
        (encoding != TextEncoding::Utf8).then_some(Note::Encoding(encoding))
    }
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Note::More(hint) => write!(f, "more: {hint}"),
            Note::NoNewline => f.write_str("no newline at end"),
            Note::Encoding(encoding) => write!(f, "encoding {encoding}"),
            Note::Tag(tag) => write!(f, "version_tag {tag}"),
            Note::Expires(time) => write!(f, "expires {time}"),
            Note::NotKept(1) => f.write_str("can't be undone: the old content is too large to be kept"),
            Note::NotKept(count) => {
                write!(f, "can't be undone whole: {count} files were too large to be kept")
            }
            Note::Content { encoding, size } => write!(f, "encoding {encoding}, size {size}"),
        }
    }
}

/// The notes in brackets, as a model reads them.
pub(super) fn bracketed<'a>(notes: impl Iterator<Item = &'a Note>) -> String {
    format!("[{}]", notes.map(Note::to_string).collect::<Vec<_>>().join("; "))
}

/// The URI of a file, such as `stead:///notes/plan.md`. All bytes but unreserved characters and `/` are
/// percent-encoded.
pub fn file_uri(path: &str) -> String {
    let mut uri = String::from("stead://");
    for byte in path.bytes() {
        match byte {
            b'/' | b'-' | b'.' | b'_' | b'~' => uri.push(char::from(byte)),
            byte if byte.is_ascii_alphanumeric() => uri.push(char::from(byte)),
            byte => uri.push_str(&format!("%{byte:02X}")),
        }
    }
    uri
}

/// Why a call failed: a stable kind, and a sentence.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
pub struct Failure {
    /// The kind.
    #[serde(rename = "code")]
    pub kind: ErrorKind,
    /// The sentence.
    pub message: String,
    /// Whether the call failed because it needs a person's approval.
    #[serde(skip)]
    pub(super) needs_approval: bool,
    /// Whether the call failed before it reached the Vfs, so that no audit record exists yet.
    #[serde(skip)]
    pub(super) unaudited: bool,
    /// The path that doesn't exist, if the call failed because of that.
    #[serde(skip)]
    pub(super) missing_path: Option<VfsPath>,
}

impl Failure {
    /// A failure of this kind.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        let message = message.into();
        Failure { kind, message, needs_approval: false, unaudited: false, missing_path: None }
    }

    /// The call itself isn't valid. The failure isn't in the audit log yet.
    pub fn invalid(message: impl Into<String>) -> Self {
        Failure { unaudited: true, ..Failure::new(ErrorKind::Invalid, message) }
    }
}

impl Failure {
    /// The same failure, once it is in the audit log.
    pub(super) fn mark_audited(self) -> Self {
        Failure { unaudited: false, ..self }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let needs_approval = matches!(error, Error::ApprovalRequired { .. });
        let missing_path = error.missing_path().cloned();
        Failure { needs_approval, missing_path, ..Failure::new(error.kind(), error.to_string()) }
    }
}

impl Reply {
    /// A reply with this text.
    pub fn text(text: impl Into<String>) -> Self {
        Reply { blocks: vec![Block::Text(text.into())], ..Reply::default() }
    }

    /// A reply with a file's content.
    pub fn content(text: impl Into<String>) -> Self {
        Reply { is_content: true, ..Reply::text(text) }
    }

    /// The same reply, with a fact added.
    pub fn fact(mut self, name: impl Into<String>, value: impl Into<Value>) -> Self {
        self.facts.insert(name.into(), value.into());
        self
    }

    /// The same reply, with a fact added if there is a value.
    pub fn optional_fact(self, name: impl Into<String>, value: Option<impl Into<Value>>) -> Self {
        match value {
            Some(value) => self.fact(name, value),
            None => self,
        }
    }

    /// Whether the call failed.
    pub fn is_failure(&self) -> bool {
        self.failure.is_some()
    }

    /// The same reply, with a note added if there is one.
    pub fn note(mut self, note: Option<Note>) -> Self {
        self.notes.extend(note);
        self
    }

    /// The text of all blocks, joined by newlines.
    pub fn joined_text(&self) -> String {
        self.blocks.iter().filter_map(Block::as_text).collect::<Vec<_>>().join("\n")
    }

    /// The reply for a model: one block of text, then the images.
    ///
    /// The text ends with the notes in brackets; after a file's content they are on a line of their own. An error ends
    /// with its code.
    pub fn for_model(mut self) -> Vec<Block> {
        let (mut text, mut images) = (String::new(), Vec::new());
        for block in self.blocks {
            match block {
                // Most replies have one text, which may be large: it is moved, not copied.
                Block::Text(first_text) if text.is_empty() => text = first_text,
                Block::Text(next_text) => {
                    new_line(&mut text);
                    text.push_str(&next_text);
                }
                image => images.push(image),
            }
        }
        if text.is_empty() {
            self.is_content = false;
            text.push_str("(empty file)");
            self.notes.retain(|note| *note != Note::NoNewline);
        }
        // Without another note there is no line after the text, so the text ends exactly as the file does.
        if self.notes == [Note::NoNewline] {
            self.notes.clear();
        }
        if !self.notes.is_empty() {
            if self.is_content || text.contains('\n') {
                new_line(&mut text);
            } else {
                text.push(' ');
            }
            text.push_str(&bracketed(self.notes.iter()));
        }
        if let Some(failure) = &self.failure {
            text.truncate(text.trim_end().len());
            text.push_str(&format!(" [{}]", failure.kind.code()));
        }
        images.insert(0, Block::Text(text));
        images
    }

    /// The reply for a program, which also reads the facts: the unchanged text, and a block that says how to continue.
    pub fn for_program(mut self) -> Vec<Block> {
        self.notes.retain(|note| matches!(note, Note::More(_)));
        if !self.notes.is_empty() {
            self.blocks.push(Block::Text(bracketed(self.notes.iter())));
        }
        self.blocks
    }

    /// The reply for a program as MCP represents it in JSON.
    pub fn to_json(&self) -> Value {
        let content: Vec<_> = self.clone().for_program().iter().map(Block::to_json).collect();
        json!({ "content": content, "structuredContent": self.structured(), "isError": self.is_failure() })
    }

    /// The structured content: the facts of the reply, or the error of a failure.
    pub fn structured(&self) -> Map<String, Value> {
        match &self.failure {
            None => self.facts.clone(),
            Some(failure) => {
                let mut facts = Map::new();
                facts.insert(
                    "error".to_owned(),
                    json!({ "code": failure.kind.code(), "message": failure.message }),
                );
                facts
            }
        }
    }
}

impl From<Failure> for Reply {
    fn from(failure: Failure) -> Self {
        Reply { failure: Some(failure.clone()), ..Reply::text(failure.message) }
    }
}

impl From<Result<Reply, Failure>> for Reply {
    fn from(result: Result<Reply, Failure>) -> Self {
        result.unwrap_or_else(Reply::from)
    }
}

fn new_line(text: &mut String) {
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
}
