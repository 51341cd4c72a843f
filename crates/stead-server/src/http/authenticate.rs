//! Finds the identity of an HTTP caller: from its token or, while no token exists, from its being on the same machine.

use std::net::IpAddr;
use std::sync::Arc;

use http::HeaderMap;
use http::header::{AUTHORIZATION, FORWARDED, VIA};
use stead::{Clock, Config, Identity, SystemClock, Token, Tokens};

/// An authenticated caller.
#[derive(Debug, Clone)]
pub(super) struct Caller {
    pub(super) identity: Identity,
    /// The token that it sent; `None` for a local caller while no tokens exist.
    pub(super) token: Option<Arc<Token>>,
}

/// Why a caller was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum AuthError {
    /// The request has no token.
    MissingToken,
    /// The token is malformed, unknown, revoked or expired.
    InvalidToken,
    /// The token is valid, but its agent isn't configured.
    UnknownAgent(String),
    /// No token was ever created, and the caller is on another machine.
    NotLocal,
    /// No token was ever created, and several agents are configured.
    AmbiguousAgent(Vec<String>),
    /// No token was ever created, and no agent is configured.
    NoAgent,
    /// The tokens can't be read right now.
    Unavailable,
}

/// Finds out who calls. `local_agent` is the agent that callers on this machine are, while no tokens exist.
pub(super) fn authenticate(
    headers: &HeaderMap,
    client_address: IpAddr,
    tokens: &Tokens,
    config: &Config,
    local_agent: Option<&str>,
) -> Result<Caller, AuthError> {
    let check_agent = |identity: Identity, token| match config.has_agent(&identity.agent) {
        true => Ok(Caller { identity, token }),
        false => Err(AuthError::UnknownAgent(identity.agent)),
    };
    if tokens.was_any_created().map_err(|_| AuthError::Unavailable)? {
        let secret = bearer_token(headers)?;
        let token = tokens.check(secret, SystemClock.now()).map_err(|_| AuthError::Unavailable)?;
        let token = token.ok_or(AuthError::InvalidToken)?;
        return check_agent(token.identity.clone(), Some(token));
    }
    if headers.contains_key(AUTHORIZATION) {
        return Err(AuthError::InvalidToken);
    }
    if !is_local(headers, client_address) {
        return Err(AuthError::NotLocal);
    }
    const MAX_NAMED: usize = 50;
    let agents: Vec<_> = config.agent_names().take(MAX_NAMED).collect();
    match (local_agent, agents.as_slice()) {
        (Some(agent), _) => check_agent(config.identity(agent), None),
        (None, []) => Err(AuthError::NoAgent),
        (None, [only]) => check_agent(config.identity(only.as_ref()), None),
        (None, several) => Err(AuthError::AmbiguousAgent(several.iter().map(ToString::to_string).collect())),
    }
}

/// The bearer token of a request. It is read from the `Authorization` header only, and there must be exactly one.
fn bearer_token(headers: &HeaderMap) -> Result<&str, AuthError> {
    let mut values = headers.get_all(AUTHORIZATION).iter();
    let (Some(first), None) = (values.next(), values.next()) else {
        return Err(if headers.contains_key(AUTHORIZATION) {
            AuthError::InvalidToken
        } else {
            AuthError::MissingToken
        });
    };
    let text = first.to_str().map_err(|_| AuthError::InvalidToken)?;
    let (scheme, secret) = text.split_once(' ').ok_or(AuthError::InvalidToken)?;
    if scheme.eq_ignore_ascii_case("bearer") { Ok(secret.trim()) } else { Err(AuthError::InvalidToken) }
}

/// Whether a request was made on this machine, and not through a proxy here for a client elsewhere.
pub(super) fn is_local(headers: &HeaderMap, client_address: IpAddr) -> bool {
    let proxy_headers =
        [FORWARDED.as_str(), VIA.as_str(), "x-forwarded-for", "x-forwarded-host", "x-real-ip"];
    client_address.to_canonical().is_loopback()
        && !proxy_headers.iter().any(|name| headers.contains_key(*name))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    const LOOPBACK: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

    fn config(host: &Path, agents: &[&str]) -> Config {
        let mut text = String::from("[stores.m]\nkind = \"memory\"\n");
        for agent in agents {
            text +=
                &format!("[[agents.{agent}.workspaces]]\nprefix = \"/m\"\nscope = \"rw\"\nstore = \"m\"\n");
        }
        Config::parse(&text, &host.join("stead.toml")).expect("a configuration")
    }

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        pairs
            .iter()
            .map(|(name, value)| (name.parse().expect("a name"), value.parse().expect("a value")))
            .collect()
    }

    #[test]
    fn without_agents_the_error_is_that_none_is_configured() {
        let host = tempfile::tempdir().expect("a directory");
        let config = config(host.path(), &[]);
        let result = authenticate(&HeaderMap::new(), LOOPBACK, &Tokens::of(&config), &config, None);
        assert_eq!(result.expect_err("no agent"), AuthError::NoAgent);
    }

    #[test]
    fn without_tokens_only_callers_on_this_machine_are_accepted() {
        let host = tempfile::tempdir().expect("a directory");
        let config = config(host.path(), &["a"]);
        let tokens = Tokens::of(&config);
        let check = |headers: &HeaderMap, client_address, local_agent| {
            authenticate(headers, client_address, &tokens, &config, local_agent)
        };
        let plain = HeaderMap::new();
        assert_eq!(check(&plain, LOOPBACK, None).expect("let in").identity.agent, "a");
        assert_eq!(
            check(&plain, IpAddr::from([10, 0, 0, 1]), None).expect_err("a stranger"),
            AuthError::NotLocal
        );
        let proxied = headers(&[("x-forwarded-for", "10.0.0.1")]);
        assert_eq!(check(&proxied, LOOPBACK, None).expect_err("a stranger"), AuthError::NotLocal);
        assert_eq!(
            check(&plain, LOOPBACK, Some("b")).expect_err("a stranger"),
            AuthError::UnknownAgent("b".into())
        );
    }

    #[test]
    fn with_several_agents_and_no_tokens_the_agent_has_to_be_named() {
        let host = tempfile::tempdir().expect("a directory");
        let config = config(host.path(), &["a", "b"]);
        let tokens = Tokens::of(&config);
        let plain = HeaderMap::new();
        let error = authenticate(&plain, LOOPBACK, &tokens, &config, None).expect_err("a stranger");
        assert_eq!(error, AuthError::AmbiguousAgent(vec!["a".into(), "b".into()]));
        assert_eq!(
            authenticate(&plain, LOOPBACK, &tokens, &config, Some("b")).expect("let in").identity.agent,
            "b"
        );
    }

    #[test]
    fn once_tokens_exist_every_caller_needs_one() {
        let host = tempfile::tempdir().expect("a directory");
        let config = config(host.path(), &["a", "b"]);
        let tokens = Tokens::of(&config);
        let create_token =
            |agent: &str| tokens.create(Identity::agent(agent), None, SystemClock.now()).expect("a token").1;
        let (good, unconfigured) = (create_token("b"), create_token("c"));
        let check = |headers: &HeaderMap| authenticate(headers, LOOPBACK, &tokens, &config, Some("a"));
        let check_authorization = |value: &str| check(&headers(&[("authorization", value)]));
        assert_eq!(check(&HeaderMap::new()).expect_err("a stranger"), AuthError::MissingToken);
        assert_eq!(check_authorization(&format!("Bearer {good}")).expect("let in").identity.agent, "b");
        assert_eq!(check_authorization(&format!("bearer  {good}")).expect("let in").identity.agent, "b");
        for wrong in ["Bearer", "Bearer stead_x", &format!("Basic {good}"), &good] {
            assert_eq!(
                check_authorization(wrong).expect_err("a stranger"),
                AuthError::InvalidToken,
                "{wrong}"
            );
        }
        assert_eq!(
            check_authorization(&format!("Bearer {unconfigured}")).expect_err("a stranger"),
            AuthError::UnknownAgent("c".into())
        );
    }
}
