//! The refusal of a request that needs a session and has none.

use http::HeaderMap;
use rmcp::model::{ErrorCode, ProtocolVersion};
use serde_json::{Value, json};

/// A JSON-RPC error for a request that no endpoint gets.
#[derive(Debug)]
pub(crate) struct RequestRefusal {
    pub(crate) code: i32,
    pub(crate) message: String,
    pub(crate) data: Option<Value>,
}

/// The refusal of a request without a session, for an agent whose sessions are threads.
///
/// For a client of a protocol version without sessions, it is the error by which the protocol says that another version is
/// needed: a client that also has an older version goes on with that, in a session.
pub(crate) fn session_needed(agent: &str, headers: &HeaderMap) -> RequestRefusal {
    let agent = agent.escape_debug();
    let token = format!("use a token that has a thread: `stead token create --agent {agent} --thread NAME`");
    let version = headers.get("mcp-protocol-version").and_then(|version| version.to_str().ok());
    let latest_with_sessions = ProtocolVersion::LATEST_WITH_INITIALIZE;
    // Versions are dates, so their texts are in the order of the versions.
    let requested = version.filter(|version| *version > latest_with_sessions.as_str());
    let Some(requested) = requested else {
        return RequestRefusal {
            code: ErrorCode::INVALID_REQUEST.0,
            message: format!(
                "the agent `{agent}` works in threads, and each session is a new one: send `initialize` first, or {token}"
            ),
            data: None,
        };
    };
    let supported = ProtocolVersion::known_up_to(&latest_with_sessions);
    RequestRefusal {
        code: ErrorCode::UNSUPPORTED_PROTOCOL_VERSION.0,
        message: format!(
            "the agent `{agent}` works in threads, and each session is a new one, but this version of MCP has no sessions: \
             {token}, or use MCP {latest_with_sessions} or earlier"
        ),
        data: Some(json!({ "requested": requested, "supported": supported })),
    }
}
