//! The HTTP responses that don't come from MCP: refusals, plain text and OAuth metadata.

use std::convert::Infallible;

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{Response, StatusCode};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full};
use serde_json::{Value, json};

use super::authenticate::AuthError;
use super::host_policy::HostRejection;
use crate::mcp::{MessageError, RequestRefusal};

pub(super) type HttpResponse = Response<BoxBody<Bytes, Infallible>>;

/// What a refused caller can do to get access.
const TOKEN_HINT: &str =
    "create a token with `stead token create --agent NAME`, and send it as `Authorization: Bearer …`";

/// JSON-RPC's code of a request that isn't valid.
const INVALID_REQUEST: i32 = -32600;

fn response(status: StatusCode, content_type: &'static str, body: impl Into<Bytes>) -> HttpResponse {
    let mut reply = Response::new(Full::new(body.into()).boxed());
    *reply.status_mut() = status;
    reply.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    reply.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    reply
}

pub(super) fn text(body: impl Into<Bytes>) -> HttpResponse {
    response(StatusCode::OK, "text/plain; version=0.0.4; charset=utf-8", body)
}

pub(super) fn json_document(value: &Value) -> HttpResponse {
    response(StatusCode::OK, "application/json", value.to_string())
}

/// A refusal: an OAuth error code, and a sentence that says what to do.
pub(super) fn refusal(status: StatusCode, code: &str, sentence: &str) -> HttpResponse {
    let body = json!({ "error": code, "error_description": sentence });
    response(status, "application/json", body.to_string())
}

/// A JSON-RPC error for a body that isn't a valid message.
pub(super) fn invalid_message(error: &MessageError, id: Option<Value>) -> HttpResponse {
    let MessageError { code, message } = error;
    let body = json!({ "jsonrpc": "2.0", "id": id, "error": { "code": code, "message": message } });
    response(StatusCode::BAD_REQUEST, "application/json", body.to_string())
}

/// A JSON-RPC error for a request that an endpoint can't get.
pub(super) fn request_refused(refusal: &RequestRefusal, id: Option<Value>) -> HttpResponse {
    let RequestRefusal { code, message, data } = refusal;
    let mut error = json!({ "code": code, "message": message });
    if let Some(data) = data {
        error["data"] = data.clone();
    }
    let body = json!({ "jsonrpc": "2.0", "id": id, "error": error });
    response(StatusCode::BAD_REQUEST, "application/json", body.to_string())
}

/// The event that answers a request whose caller has lost access meanwhile.
pub(super) fn access_lost_event(id: &Value) -> Bytes {
    let message = "you have lost access; the request may have been carried out before";
    let error = json!({ "code": INVALID_REQUEST, "message": message });
    Bytes::from(format!("data: {}\n\n", json!({ "jsonrpc": "2.0", "id": id, "error": error })))
}

pub(super) fn unknown_session() -> HttpResponse {
    let sentence = "there is no such session; send `initialize` again";
    refusal(StatusCode::NOT_FOUND, "not_found", sentence)
}

pub(super) fn too_many_sessions() -> HttpResponse {
    service_unavailable("you have too many open sessions; end some with DELETE, or wait until some end")
}

/// The response if the stead of a caller can't be opened.
pub(super) fn endpoint_unavailable(error: &stead::Error) -> HttpResponse {
    match error {
        // Sending it again wouldn't help.
        stead::Error::ThreadNeeded { .. } => refusal(StatusCode::FORBIDDEN, "forbidden", &error.to_string()),
        _ => service_unavailable(&error.to_string()),
    }
}

pub(super) fn service_unavailable(sentence: &str) -> HttpResponse {
    let mut reply = refusal(StatusCode::SERVICE_UNAVAILABLE, "unavailable", sentence);
    reply.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("5"));
    reply
}

pub(super) fn host_rejected(rejection: HostRejection) -> HttpResponse {
    let sentence = match rejection {
        HostRejection::SeveralHosts => {
            return refusal(
                StatusCode::BAD_REQUEST,
                "invalid",
                "a request needs exactly one Host header, equal to the host in its URL",
            );
        }
        HostRejection::UnknownHost => {
            "the Host header doesn't name this server; if the server has another name, set it with \
             `stead serve --public-url`"
        }
        HostRejection::ForeignOrigin => {
            "this request comes from a web page of another origin; if the page is yours, set its URL with \
             `stead serve --public-url`"
        }
    };
    refusal(StatusCode::FORBIDDEN, "forbidden", sentence)
}

/// The response to a caller that wasn't authenticated. `base_url` is the base URL that it used.
pub(super) fn auth_rejected(error: &AuthError, base_url: &str) -> HttpResponse {
    let metadata = format!("resource_metadata=\"{base_url}/.well-known/oauth-protected-resource/mcp\"");
    let challenge = |status, code: &str, sentence: &str, challenge: String| {
        let mut reply = refusal(status, code, sentence);
        // Can't fail: the parts are checked already, a URL and an agent's name without quotes.
        if let Ok(value) = HeaderValue::from_str(&challenge) {
            reply.headers_mut().insert(WWW_AUTHENTICATE, value);
        }
        reply
    };
    match error {
        AuthError::MissingToken => challenge(
            StatusCode::UNAUTHORIZED,
            "unauthorized",
            &format!("this server requires a token: {TOKEN_HINT}"),
            format!("Bearer {metadata}"),
        ),
        AuthError::InvalidToken => challenge(
            StatusCode::UNAUTHORIZED,
            "invalid_token",
            &format!("the token isn't valid: it is unknown, revoked or expired; {TOKEN_HINT}"),
            format!("Bearer error=\"invalid_token\", {metadata}"),
        ),
        AuthError::UnknownAgent(agent) => {
            let name: String =
                agent.chars().filter(|c| c.is_ascii_graphic() && !"\"\\".contains(*c)).collect();
            challenge(
                StatusCode::FORBIDDEN,
                "insufficient_scope",
                &format!("the agent `{}` is not configured here", agent.escape_debug()),
                format!("Bearer error=\"insufficient_scope\", scope=\"agent:{name}\", {metadata}"),
            )
        }
        AuthError::NotLocal => refusal(
            StatusCode::FORBIDDEN,
            "forbidden",
            &format!(
                "this server has no tokens yet, so it serves only clients on its own machine: {TOKEN_HINT}"
            ),
        ),
        AuthError::AmbiguousAgent(agents) => refusal(
            StatusCode::FORBIDDEN,
            "forbidden",
            &format!(
                "several agents are configured: {}; start the server with `stead serve --agent NAME`, or {TOKEN_HINT}",
                agents
                    .iter()
                    .map(|agent| format!("`{}`", agent.escape_debug()))
                    .collect::<Vec<_>>()
                    .join(", ")
            ),
        ),
        AuthError::NoAgent => refusal(
            StatusCode::FORBIDDEN,
            "forbidden",
            "no agent is configured here; add one to `stead.toml`",
        ),
        AuthError::Unavailable => service_unavailable("the tokens can't be read right now; try again"),
    }
}

/// The protected resource metadata that clients read to get a token (RFC 9728).
pub(super) fn metadata(base_url: &str) -> HttpResponse {
    json_document(&json!({
        "resource": format!("{base_url}/mcp"),
        "resource_name": "Stead",
        "bearer_methods_supported": ["header"],
    }))
}
