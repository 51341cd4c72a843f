//! The parts of a message that are needed to answer one that the MCP library rejects.

use std::borrow::Cow;

use rmcp::model::{ErrorCode, RequestId};
use serde::Deserialize;

/// The fields that every message has.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct MessageHead<'a> {
    #[serde(default)]
    pub(crate) id: Option<RequestId>,
    #[serde(borrow, default)]
    method: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    jsonrpc: Option<Cow<'a, str>>,
}

/// What is wrong with a message.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct MessageError {
    pub(crate) code: i32,
    pub(crate) message: &'static str,
}

const INVALID_JSON: MessageError =
    MessageError { code: ErrorCode::PARSE_ERROR.0, message: "this isn't valid JSON" };
const INVALID_MESSAGE: MessageError =
    MessageError { code: ErrorCode::INVALID_REQUEST.0, message: "this isn't a valid JSON-RPC message" };
const INVALID_VERSION: MessageError = MessageError {
    code: ErrorCode::INVALID_REQUEST.0,
    message: "this isn't a valid JSON-RPC message: its `jsonrpc` has to be \"2.0\"",
};
const BATCH_UNSUPPORTED: MessageError = MessageError {
    code: ErrorCode::INVALID_REQUEST.0,
    message: "batches are not supported; send one message at a time",
};

impl<'a> MessageHead<'a> {
    pub(crate) fn parse(text: &'a [u8]) -> Result<Self, MessageError> {
        // The parser skips values without checking that they are UTF-8.
        if std::str::from_utf8(text).is_err() {
            return Err(INVALID_JSON);
        }
        let parsed = serde_json::from_slice(text)
            .map_err(|error| if error.is_data() { INVALID_MESSAGE } else { INVALID_JSON });
        match text.trim_ascii_start().first() {
            Some(b'{') => parsed,
            // Serde would read a list as the fields of an object, in their order.
            Some(b'[') => {
                Err(parsed.err().filter(|error| *error == INVALID_JSON).unwrap_or(BATCH_UNSUPPORTED))
            }
            _ => Err(parsed.err().unwrap_or(INVALID_MESSAGE)),
        }
    }

    /// Whether this is the request that begins a session.
    pub(crate) fn is_initialize(&self) -> bool {
        self.method.as_deref() == Some("initialize")
    }

    /// What is wrong with a message that has this head and that the library rejected.
    pub(crate) fn error(&self) -> MessageError {
        match (&self.id, &self.method) {
            (_, Some(_)) if self.jsonrpc.as_deref() != Some("2.0") => INVALID_VERSION,
            (Some(_), Some(_)) => MessageError {
                code: ErrorCode::INVALID_PARAMS.0,
                message: "the parameters don't fit the method of this request",
            },
            _ => INVALID_MESSAGE,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_invalid_message_has_its_own_error() {
        let error_of = |text: &str| {
            MessageHead::parse(text.as_bytes()).map(|head| head.error()).unwrap_or_else(|error| error)
        };
        for text in ["", "x", "{\"id\":", "[1,"] {
            assert_eq!(error_of(text), INVALID_JSON, "{text}");
        }
        assert_eq!(error_of(" [{}]"), BATCH_UNSUPPORTED);
        assert_eq!(error_of("[]"), BATCH_UNSUPPORTED);
        for text in ["42", "\"x\"", "null", "{}", "{\"id\":{}}", "{\"id\":1}"] {
            assert_eq!(error_of(text), INVALID_MESSAGE, "{text}");
        }
        assert_eq!(error_of("{\"id\":1,\"method\":\"x\"}"), INVALID_VERSION);
        let with_version = "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"x\"}";
        assert_eq!(error_of(with_version).code, ErrorCode::INVALID_PARAMS.0);
    }
}
