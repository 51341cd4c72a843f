//! What a tool answers: words for the model, facts for the program, or why not.

use base64::Engine;
use base64::prelude::BASE64_STANDARD as BASE64;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::error::{Error, ErrorKind};

/// What came of a call. A failure is an answer, too.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Reply {
    /// What the model reads. Bulk text stands here, once.
    pub blocks: Vec<Block>,
    /// The few facts that a program needs; what they are, the tool's output schema says.
    pub facts: Map<String, Value>,
    /// Why it did not happen, if it did not.
    pub failure: Option<Failure>,
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
    /// A sound.
    Audio {
        /// Its bytes.
        bytes: Vec<u8>,
        /// What kind of sound.
        mime: &'static str,
    },
    /// Any other file.
    File {
        /// Its logical path.
        path: String,
        /// Its bytes.
        bytes: Vec<u8>,
        /// What kind of file, where that is known.
        mime: Option<&'static str>,
    },
}

impl Block {
    /// The block as MCP has it, in JSON.
    pub fn to_json(&self) -> Value {
        match self {
            Block::Text(text) => json!({ "type": "text", "text": text }),
            Block::Image { bytes, mime } => {
                json!({ "type": "image", "data": BASE64.encode(bytes), "mimeType": mime })
            }
            Block::Audio { bytes, mime } => {
                json!({ "type": "audio", "data": BASE64.encode(bytes), "mimeType": mime })
            }
            Block::File { path, bytes, mime } => {
                let mut resource = json!({ "uri": file_uri(path), "blob": BASE64.encode(bytes) });
                if let Some(mime) = mime {
                    resource["mimeType"] = (*mime).into();
                }
                json!({ "type": "resource", "resource": resource })
            }
        }
    }
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
    pub(super) asks: bool,
    /// Whether it never came to the door, so that nothing is on record yet.
    #[serde(skip)]
    pub(super) unheard: bool,
}

impl Failure {
    /// A failure of some kind.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Failure { kind, message: message.into(), asks: false, unheard: false }
    }

    /// The call itself is wrong.
    pub fn invalid(message: impl Into<String>) -> Self {
        Failure { unheard: true, ..Failure::new(ErrorKind::Invalid, message) }
    }
}

impl Failure {
    /// The same, once it is on record.
    pub(super) fn heard(self) -> Self {
        Failure { unheard: false, ..self }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let asks = matches!(error, Error::Ask { .. });
        Failure { kind: error.kind(), message: error.to_string(), asks, unheard: false }
    }
}

impl Reply {
    /// An answer in words.
    pub fn text(text: impl Into<String>) -> Self {
        Reply { blocks: vec![Block::Text(text.into())], ..Reply::default() }
    }

    /// The same answer, with a fact.
    pub fn fact(mut self, name: &'static str, value: impl Into<Value>) -> Self {
        self.facts.insert(name.to_owned(), value.into());
        self
    }

    /// The same answer, with a fact if there is one.
    pub fn maybe(self, name: &'static str, value: Option<impl Into<Value>>) -> Self {
        match value {
            Some(value) => self.fact(name, value),
            None => self,
        }
    }

    /// Whether it did not happen.
    pub fn is_failure(&self) -> bool {
        self.failure.is_some()
    }

    /// All the words.
    pub fn words(&self) -> String {
        let texts = self.blocks.iter().filter_map(|block| match block {
            Block::Text(text) => Some(text.as_str()),
            _ => None,
        });
        texts.collect::<Vec<_>>().join("\n")
    }

    /// The answer as MCP has it, in JSON.
    pub fn to_json(&self) -> Value {
        let content: Vec<_> = self.blocks.iter().map(Block::to_json).collect();
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
