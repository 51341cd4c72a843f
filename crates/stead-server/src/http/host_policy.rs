//! Which requests are meant for this server, by their `Host` header and by the `Origin` header of browsers.
//!
//! Without these checks a web page could make a browser talk to a server on the same machine (DNS rebinding).

use std::net::IpAddr;

use http::HeaderMap;
use http::header::{HOST, ORIGIN};
use http::uri::{Authority, Uri};

/// The URL at which a server is reached from outside, for example through a proxy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublicUrl {
    scheme: String,
    authority: String,
}

impl std::str::FromStr for PublicUrl {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong =
            || format!("`{}` isn't a valid public URL; write https://stead.example.com", text.escape_debug());
        let uri: Uri = text.parse().map_err(|_| wrong())?;
        let (Some(scheme @ ("http" | "https")), Some(authority)) = (uri.scheme_str(), uri.authority()) else {
            return Err(wrong());
        };
        if authority.as_str().contains('@') || !matches!(uri.path(), "" | "/") || uri.query().is_some() {
            return Err(wrong());
        }
        Ok(PublicUrl { scheme: scheme.into(), authority: authority.as_str().to_ascii_lowercase() })
    }
}

impl std::fmt::Display for PublicUrl {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}://{}", self.scheme, self.authority)
    }
}

/// The host names that a request may use to address this server: the public URL's, and local ones.
#[derive(Debug, Clone)]
pub(super) struct HostPolicy {
    public_url: Option<PublicUrl>,
}

/// Why a request is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HostRejection {
    UnknownHost,
    /// The request names several hosts, so a proxy in front of this server may have checked a different one.
    SeveralHosts,
    ForeignOrigin,
}

impl HostPolicy {
    pub(super) fn new(public_url: Option<PublicUrl>) -> Self {
        HostPolicy { public_url }
    }

    /// Checks a request that came in at the local address `at`. Returns the base URL that the client used.
    pub(super) fn check(&self, headers: &HeaderMap, uri: &Uri, at: IpAddr) -> Result<String, HostRejection> {
        let mut hosts = headers.get_all(HOST).iter();
        let (host, None) = (hosts.next(), hosts.next()) else { return Err(HostRejection::SeveralHosts) };
        let host = host.and_then(|host| host.to_str().ok()).ok_or(HostRejection::UnknownHost)?;
        let authority: Authority = host.parse().map_err(|_| HostRejection::UnknownHost)?;
        if uri.authority().is_some_and(|named| *named != authority) {
            return Err(HostRejection::SeveralHosts);
        }
        if authority.as_str().contains('@') || !has_valid_port(&authority) {
            return Err(HostRejection::UnknownHost);
        }
        let public = self.public_url.as_ref();
        let is_public =
            public.is_some_and(|public| public.authority.eq_ignore_ascii_case(authority.as_str()));
        if !is_public && !is_local_host(authority.host(), at) {
            return Err(HostRejection::UnknownHost);
        }
        let called = match public {
            Some(public) if is_public => public.to_string(),
            _ => format!("http://{authority}"),
        };
        for origin in headers.get_all(ORIGIN) {
            // Only browsers send `Origin`. The only pages that may call this server are its own.
            if !origin.to_str().is_ok_and(|origin| origin.eq_ignore_ascii_case(&called)) {
                return Err(HostRejection::ForeignOrigin);
            }
        }
        Ok(called)
    }
}

/// Whether `host` is `localhost`, a loopback address or the local address `at`. Doesn't ask a name server.
fn is_local_host(host: &str, at: IpAddr) -> bool {
    // Only an IPv6 address may be in brackets.
    let address = match host.strip_prefix('[').and_then(|host| host.strip_suffix(']')) {
        Some(host) => host.parse().map(IpAddr::V6),
        None => host.parse().map(IpAddr::V4),
    };
    match address {
        Ok(address) => address.is_loopback() || address == at.to_canonical(),
        Err(_) => host.eq_ignore_ascii_case("localhost"),
    }
}

/// Whether the host is followed by a valid port or by nothing.
fn has_valid_port(authority: &Authority) -> bool {
    match authority.as_str().strip_prefix(authority.host()) {
        Some("" | ":") => true,
        Some(port) => port.strip_prefix(':').is_some_and(|port| port.parse::<u16>().is_ok()),
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judge(host: Option<&str>, origin: Option<&str>) -> Result<String, HostRejection> {
        let public = "https://Stead.example.com/".parse().ok();
        let doors = HostPolicy::new(public);
        let mut headers = HeaderMap::new();
        for (name, value) in [(HOST, host), (ORIGIN, origin)] {
            if let Some(value) = value {
                headers.insert(name, value.parse().expect("a header"));
            }
        }
        doors.check(&headers, &Uri::from_static("/mcp"), IpAddr::from([192, 168, 1, 2]))
    }

    #[test]
    fn a_request_names_one_host() {
        let doors = HostPolicy::new(None);
        let judge = |hosts: &[&str], uri: &str| {
            let mut headers = HeaderMap::new();
            for host in hosts {
                headers.append(HOST, host.parse().expect("a header"));
            }
            doors.check(&headers, &uri.parse().expect("a URI"), IpAddr::from([127, 0, 0, 1]))
        };
        assert!(judge(&["127.0.0.1:1"], "http://127.0.0.1:1/mcp").is_ok());
        assert!(judge(&["localhost"], "http://LOCALHOST/mcp").is_ok());
        assert_eq!(judge(&["127.0.0.1"], "http://evil.example/mcp"), Err(HostRejection::SeveralHosts));
        assert_eq!(judge(&["127.0.0.1", "evil.example"], "/mcp"), Err(HostRejection::SeveralHosts));
        assert_eq!(judge(&["127.0.0.1", "127.0.0.1"], "/mcp"), Err(HostRejection::SeveralHosts));
    }

    #[test]
    fn a_server_answers_to_its_own_names() {
        for host in [
            "localhost",
            "LOCALHOST:4747",
            "127.0.0.1:4747",
            "[::1]:4747",
            "192.168.1.2",
            "stead.example.com",
        ] {
            assert!(judge(Some(host), None).is_ok(), "{host}");
        }
        assert_eq!(judge(Some("stead.example.com"), None), Ok("https://stead.example.com".into()));
        assert_eq!(judge(Some("localhost:1"), None), Ok("http://localhost:1".into()));
    }

    #[test]
    fn and_to_no_other() {
        for host in [
            Some("evil.example"),
            Some("localhost.evil.example"),
            Some("127.0.0.1.nip.io"),
            Some("0.0.0.0:4747"),
            Some("localhost@evil.example"),
            Some("stead.example.com:81"),
            Some("127.0.0.1:99999"),
            Some("[127.0.0.1]:4747"),
            Some("[localhost]"),
            Some("[[::1]]"),
            Some("::1"),
            Some("127.1"),
            Some("localhost."),
            Some(":4747"),
            Some("[]"),
            Some(""),
            None,
        ] {
            assert_eq!(judge(host, None), Err(HostRejection::UnknownHost), "{host:?}");
        }
    }

    #[test]
    fn a_page_of_somebody_else_is_turned_away() {
        assert!(judge(Some("localhost:1"), Some("http://localhost:1")).is_ok());
        assert!(judge(Some("stead.example.com"), Some("https://stead.example.com")).is_ok());
        for origin in ["http://localhost:2", "https://localhost:1", "http://evil.example", "null", ""] {
            assert_eq!(
                judge(Some("localhost:1"), Some(origin)),
                Err(HostRejection::ForeignOrigin),
                "{origin}"
            );
        }
    }

    #[test]
    fn a_public_url_is_a_scheme_and_a_name() {
        for wrong in ["stead.example.com", "ftp://a", "https://a/b", "https://u@a", "https://a?b"] {
            assert!(wrong.parse::<PublicUrl>().is_err(), "{wrong}");
        }
    }
}
