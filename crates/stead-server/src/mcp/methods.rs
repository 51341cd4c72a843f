//! Tells an unknown method from a known one with invalid parameters: the MCP library reports both as the same.

use rmcp::model::{ErrorCode, ErrorData, ProtocolVersion};

/// Known in every protocol version.
const COMMON_METHODS: [&str; 4] = ["tools/call", "prompts/get", "resources/read", "tools/list"];
/// Known up to 2025-11-25: sessions, and what lives in them.
const SESSION_METHODS: [&str; 3] = ["initialize", "resources/subscribe", "resources/unsubscribe"];
/// Known from 2026-07-28 on.
const SESSIONLESS_METHODS: [&str; 1] = ["subscriptions/listen"];

/// The error for a request that the MCP library has no type for.
pub(super) fn rejected_method_error(method: &str, version: Option<&ProtocolVersion>) -> ErrorData {
    let has_sessions = version.is_none_or(|version| *version < ProtocolVersion::V_2026_07_28);
    let version_methods: &[&str] = if has_sessions { &SESSION_METHODS } else { &SESSIONLESS_METHODS };
    let method: String = method.chars().take(64).collect();
    if COMMON_METHODS.contains(&&*method) || version_methods.contains(&&*method) {
        return ErrorData::invalid_params(format!("the parameters don't fit `{method}`"), None);
    }
    ErrorData::new(ErrorCode::METHOD_NOT_FOUND, method, None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_method_is_known_only_in_the_protocol_versions_that_have_it() {
        let code = |method, version| rejected_method_error(method, version).code;
        let (old, new) = (ProtocolVersion::V_2025_11_25, ProtocolVersion::V_2026_07_28);
        for version in [None, Some(&old)] {
            assert_eq!(code("initialize", version), ErrorCode::INVALID_PARAMS);
            assert_eq!(code("resources/subscribe", version), ErrorCode::INVALID_PARAMS);
            assert_eq!(code("subscriptions/listen", version), ErrorCode::METHOD_NOT_FOUND);
        }
        assert_eq!(code("initialize", Some(&new)), ErrorCode::METHOD_NOT_FOUND);
        assert_eq!(code("resources/subscribe", Some(&new)), ErrorCode::METHOD_NOT_FOUND);
        assert_eq!(code("subscriptions/listen", Some(&new)), ErrorCode::INVALID_PARAMS);
        for version in [None, Some(&old), Some(&new)] {
            assert_eq!(code("tools/call", version), ErrorCode::INVALID_PARAMS);
            assert_eq!(code("tools/fly", version), ErrorCode::METHOD_NOT_FOUND);
        }
    }
}
