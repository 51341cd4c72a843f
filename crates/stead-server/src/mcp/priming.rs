//! Removes the priming event: the event without data that streams begin with since protocol version 2025-11-25.
//!
//! The event has an id, so that a client whose connection breaks before the first message can ask for what it missed.
//! Clients of older versions read every event as a message; some close the connection at an event without data.

use std::convert::Infallible;

use bytes::Bytes;
use http::{HeaderMap, Response};
use http_body_util::BodyExt;
use http_body_util::combinators::BoxBody;

/// The first protocol version that has the priming event.
const FIRST_VERSION: &str = "2025-11-25";
const VERSION_HEADER: &str = "mcp-protocol-version";

/// What replaces the event: a comment, as in a stream that is kept alive.
const KEEP_ALIVE_COMMENT: &[u8] = b":\n\n";

/// Whether the client that sent these headers would read the priming event as a message. Versions are dates.
pub(crate) fn is_unsupported_by(headers: &HeaderMap) -> bool {
    let version = headers.get(VERSION_HEADER).and_then(|value| value.to_str().ok());
    version.is_none_or(|version| version < FIRST_VERSION)
}

/// Replaces the priming event of a response. Each event comes as one frame.
pub(crate) fn remove_priming(
    response: Response<BoxBody<Bytes, Infallible>>,
) -> Response<BoxBody<Bytes, Infallible>> {
    let replace_priming =
        |data: Bytes| if is_priming_event(&data) { Bytes::from_static(KEEP_ALIVE_COMMENT) } else { data };
    response.map(|body| body.map_frame(move |frame| frame.map_data(replace_priming)).boxed())
}

/// Whether this is an event with empty data.
fn is_priming_event(event: &[u8]) -> bool {
    event.split(|byte| *byte == b'\n').any(|line| line == b"data:" || line == b"data: ")
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn only_an_event_without_data_is_a_priming_event() {
        assert!(is_priming_event(b"data: \nid: 0\nretry: 3000\n\n"));
        assert!(is_priming_event(b"id: 0\ndata:\n\n"));
        assert!(!is_priming_event(b"data: {\"text\":\"data: \"}\nid: 1/0\n\n"));
        assert!(!is_priming_event(b":\n\n"));
        assert!(!is_priming_event(b"{\"jsonrpc\":\"2.0\"}"));
    }

    #[test]
    fn a_client_that_names_no_protocol_version_is_an_old_one() {
        let headers = |version: &'static str| {
            HeaderMap::from_iter([(VERSION_HEADER.parse().unwrap(), HeaderValue::from_static(version))])
        };
        assert!(is_unsupported_by(&HeaderMap::new()));
        assert!(is_unsupported_by(&headers("2025-06-18")));
        assert!(!is_unsupported_by(&headers("2025-11-25")));
        assert!(!is_unsupported_by(&headers("2026-07-28")));
    }
}
