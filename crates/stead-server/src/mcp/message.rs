//! Parses one line of JSON as a message, and builds the errors for lines that can't be accepted.

use rmcp::model::{
    CallToolRequest, CallToolRequestParams, ClientJsonRpcMessage, ClientRequest, ErrorCode, ErrorData,
    GetMeta, JsonRpcMessage, RequestId,
};
use serde::Deserialize;

use super::MessageHead;
use crate::limits::MAX_MESSAGE_BYTES;

/// The message in a line, or the error to answer with.
pub(super) fn parse(text: &[u8]) -> Result<Option<ClientJsonRpcMessage>, MessageRefusal> {
    if let Some(call) = tool_call(text) {
        return Ok(Some(call));
    }
    serde_json::from_slice(text).map(Some).map_err(|_| {
        let (error, id) = match MessageHead::parse(text) {
            Ok(head) => (head.error(), head.id),
            Err(error) => (error, None),
        };
        MessageRefusal { error: ErrorData::new(ErrorCode(error.code), error.message, None), id }
    })
}

/// A call of a tool, which nearly every message is.
///
/// The MCP library tries one kind of request after the other, over a copy of the message, and copies what it finds: for
/// a large file that is several times its size. Whatever this function doesn't parse is left to the library.
fn tool_call(text: &[u8]) -> Option<ClientJsonRpcMessage> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct ToolCall<'a> {
        jsonrpc: &'a str,
        id: RequestId,
        method: &'a str,
        params: CallToolRequestParams,
    }
    let call: ToolCall<'_> = serde_json::from_slice(text).ok()?;
    if call.jsonrpc != "2.0" || call.method != "tools/call" {
        return None;
    }
    let mut params = call.params;
    let meta = params.meta.take();
    let mut request = ClientRequest::CallToolRequest(CallToolRequest::new(params));
    *request.get_meta_mut() = meta.unwrap_or_default();
    Some(JsonRpcMessage::request(request, call.id))
}

/// The error for a line that is longer than a message may be.
pub(super) fn too_long(id: Option<RequestId>) -> MessageRefusal {
    let message = format!(
        "a message can have at most {} MiB; write a larger file in parts with append_file",
        MAX_MESSAGE_BYTES >> 20
    );
    MessageRefusal { error: ErrorData::invalid_request(message, None), id }
}

/// The error for a request whose id belongs to another request that isn't answered yet: the client couldn't tell the
/// answers apart.
pub(super) fn duplicate_id(id: RequestId) -> MessageRefusal {
    let message = "another request with this id is still running; give each request its own id";
    MessageRefusal { error: ErrorData::invalid_request(message, None), id: Some(id) }
}

/// The error for a line, and the id of the request that it answers, if that is known.
pub(super) struct MessageRefusal {
    pub(super) error: ErrorData,
    pub(super) id: Option<RequestId>,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Both parsers read a call in the same way.
    #[test]
    fn a_tool_call_is_parsed_as_the_library_parses_it() {
        let text = br#"{"jsonrpc":"2.0","id":"x","method":"tools/call","params":{"name":"stat",
            "arguments":{"path":"/a"},"_meta":{"progressToken":5}}}"#;
        let ours = tool_call(text).expect("a call");
        let theirs: ClientJsonRpcMessage = serde_json::from_slice(text).expect("a message");
        let call_parts = |message: ClientJsonRpcMessage| match message {
            JsonRpcMessage::Request(request) => match &request.request {
                ClientRequest::CallToolRequest(call) => (
                    request.id.clone(),
                    call.params.name.clone(),
                    call.params.arguments.clone(),
                    request.request.get_meta().get_progress_token(),
                ),
                other => panic!("{other:?}"),
            },
            other => panic!("{other:?}"),
        };
        assert_eq!(call_parts(ours), call_parts(theirs));
    }

    #[test]
    fn messages_that_are_no_tool_call_are_left_to_the_library() {
        for text in [
            r#"{"jsonrpc":"2.0","id":1,"method":"prompts/get","params":{"name":"filesystem_map"}}"#,
            r#"{"jsonrpc":"1.0","id":1,"method":"tools/call","params":{"name":"stat"}}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"stat"},"result":{}}"#,
            r#"{"jsonrpc":"2.0","method":"tools/call","params":{"name":"stat"}}"#,
        ] {
            assert!(tool_call(text.as_bytes()).is_none(), "{text}");
        }
    }
}
