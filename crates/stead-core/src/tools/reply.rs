//! What a tool answers: words for the model, facts for the program, or why not.
//!
//! A model reads one block of text, whose last line has in brackets what it can use next, and the pictures after it. A
//! program reads the text as it is and the facts beside it.

use std::fmt;

use base64::Engine;
use base64::prelude::BASE64_STANDARD as BASE64;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::error::{Error, ErrorKind};
use crate::store::ShortTag;

/// What came of a call. A failure is an answer, too.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Reply {
    /// The text, as it is, and pictures. Bulk text stands here, once.
    pub blocks: Vec<Block>,
    /// Whether the text is a file's own, so that nothing of Stead's may stand in its last line.
    pub is_content: bool,
    /// What a model can use next; a program has the same among the facts.
    pub notes: Vec<Note>,
    /// The few facts that a program needs; what they are, the tool's output schema says.
    pub facts: Map<String, Value>,
    /// Why it did not happen, if it did not.
    pub failure: Option<Failure>,
}

/// What the results of tools are made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ResultFormat {
    /// Text alone, for models: many hosts drop the text of a result that has structured content, or send both.
    #[default]
    Text,
    /// The facts as structured content beside the text, for programs.
    Structured,
}

impl ResultFormat {
    /// Structured where either asks for it.
    pub fn or(self, other: ResultFormat) -> ResultFormat {
        if self == ResultFormat::Text { other } else { self }
    }

    /// Whether these are text alone.
    pub fn is_text(&self) -> bool {
        *self == ResultFormat::Text
    }

    /// Structured where the caller says so, as a switch of a command does.
    pub fn structured_if(structured: bool) -> ResultFormat {
        if structured { ResultFormat::Structured } else { ResultFormat::Text }
    }
}

/// A part of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Block {
    /// Words.
    Text(String),
    /// A picture.
    Image {
        /// Its bytes.
        bytes: Vec<u8>,
        /// What kind of picture.
        mime: &'static str,
    },
}

impl Block {
    /// Its words, if it is text.
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Block::Text(text) => Some(text),
            Block::Image { .. } => None,
        }
    }

    /// The block as MCP has it, in JSON.
    pub fn to_json(&self) -> Value {
        match self {
            Block::Text(text) => json!({ "type": "text", "text": text }),
            Block::Image { bytes, mime } => {
                json!({ "type": "image", "data": BASE64.encode(bytes), "mimeType": mime })
            }
        }
    }
}

/// Something in the last line of what a model reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Note {
    /// There is more, and this is what to pass to get it: `offset 801`.
    More(String),
    /// The text does not end with a newline, though a newline is between it and this note.
    NoNewline,
    /// The state of the file, which `if_match` takes.
    Tag(ShortTag),
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Note::More(how) => write!(f, "more: {how}"),
            Note::NoNewline => f.write_str("no newline at end"),
            Note::Tag(tag) => write!(f, "version_tag {tag}"),
        }
    }
}

/// Notes as a model reads them, in brackets.
fn bracketed<'a>(notes: impl Iterator<Item = &'a Note>) -> String {
    format!("[{}]", notes.map(Note::to_string).collect::<Vec<_>>().join("; "))
}

/// The URI of a file: `stead:///notes/plan.md`. What a URI can't hold is percent-encoded.
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

/// Why a call did not happen: a stable kind, and a sentence.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
pub struct Failure {
    /// The kind.
    #[serde(rename = "code")]
    pub kind: ErrorKind,
    /// The sentence.
    pub message: String,
    /// Whether a person has to be asked, if that is why.
    #[serde(skip)]
    pub(super) needs_approval: bool,
    /// Whether it never came to the door, so that nothing is on record yet.
    #[serde(skip)]
    pub(super) unaudited: bool,
}

impl Failure {
    /// A failure of some kind.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Failure { kind, message: message.into(), needs_approval: false, unaudited: false }
    }

    /// The call itself is wrong.
    pub fn invalid(message: impl Into<String>) -> Self {
        Failure { unaudited: true, ..Failure::new(ErrorKind::Invalid, message) }
    }
}

impl Failure {
    /// The same, once it is on record.
    pub(super) fn mark_audited(self) -> Self {
        Failure { unaudited: false, ..self }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let asks = matches!(error, Error::ApprovalRequired { .. });
        Failure { kind: error.kind(), message: error.to_string(), needs_approval: asks, unaudited: false }
    }
}

impl Reply {
    /// An answer in words.
    pub fn text(text: impl Into<String>) -> Self {
        Reply { blocks: vec![Block::Text(text.into())], ..Reply::default() }
    }

    /// An answer that is the text of a file.
    pub fn content(text: impl Into<String>) -> Self {
        Reply { is_content: true, ..Reply::text(text) }
    }

    /// The same answer, with a fact.
    pub fn fact(mut self, name: &'static str, value: impl Into<Value>) -> Self {
        self.facts.insert(name.to_owned(), value.into());
        self
    }

    /// The same answer, with a fact if there is one.
    pub fn optional_fact(self, name: &'static str, value: Option<impl Into<Value>>) -> Self {
        match value {
            Some(value) => self.fact(name, value),
            None => self,
        }
    }

    /// Whether it did not happen.
    pub fn is_failure(&self) -> bool {
        self.failure.is_some()
    }

    /// The same answer, with something that a model can use next.
    pub fn note(mut self, note: Option<Note>) -> Self {
        self.notes.extend(note);
        self
    }

    /// All the words, as they are.
    pub fn joined_text(&self) -> String {
        self.blocks.iter().filter_map(Block::as_text).collect::<Vec<_>>().join("\n")
    }

    /// The answer for a model: one block of text, and pictures after it.
    ///
    /// The text ends with what the model can use next, in brackets; after a file's text they are in a line of their own. An
    /// error ends with its code.
    pub fn for_model(mut self) -> Vec<Block> {
        let (mut text, mut pictures) = (String::new(), Vec::new());
        for block in self.blocks {
            match block {
                // Most answers have one text, which may be large.
                Block::Text(only) if text.is_empty() => text = only,
                Block::Text(more) => {
                    new_line(&mut text);
                    text.push_str(&more);
                }
                picture => pictures.push(picture),
            }
        }
        if text.is_empty() {
            self.is_content = false;
            text.push_str("(empty file)");
            self.notes.retain(|note| *note != Note::NoNewline);
        }
        // Without another note there is no line after the text, so it ends as the file does.
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
        pictures.insert(0, Block::Text(text));
        pictures
    }

    /// The answer for a program, which reads the facts as well: the text as it is, and a block that says how to go on.
    pub fn for_program(mut self) -> Vec<Block> {
        self.notes.retain(|note| matches!(note, Note::More(_)));
        if !self.notes.is_empty() {
            self.blocks.push(Block::Text(bracketed(self.notes.iter())));
        }
        self.blocks
    }

    /// The answer for a program as MCP has it, in JSON.
    pub fn to_json(&self) -> Value {
        let content: Vec<_> = self.clone().for_program().iter().map(Block::to_json).collect();
        json!({ "content": content, "structuredContent": self.structured(), "isError": self.is_failure() })
    }

    /// The facts as they are handed out: those of the answer, or of the failure.
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
