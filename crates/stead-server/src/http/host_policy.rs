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
        let error =
            || format!("`{}` isn't a valid public URL; write https://stead.example.com", text.escape_debug());
        let uri: Uri = text.parse().map_err(|_| error())?;
        let (Some(scheme @ ("http" | "https")), Some(authority)) = (uri.scheme_str(), uri.authority()) else {
            return Err(error());
        };
        if authority.as_str().contains('@') || !matches!(uri.path(), "" | "/") || uri.query().is_some() {
            return Err(error());
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

    /// Checks a request that came in at `local_address`. Returns the base URL that the client used.
    pub(super) fn check(
        &self,
        headers: &HeaderMap,
        uri: &Uri,
        local_address: IpAddr,
    ) -> Result<String, HostRejection> {
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
        let public_url = self.public_url.as_ref();
        let is_public = public_url
            .is_some_and(|public_url| public_url.authority.eq_ignore_ascii_case(authority.as_str()));
        if !is_public && !is_local_host(authority.host(), local_address) {
            return Err(HostRejection::UnknownHost);
        }
        let base_url = match public_url {
            Some(public_url) if is_public => public_url.to_string(),
            _ => format!("http://{authority}"),
        };
        for origin in headers.get_all(ORIGIN) {
            // Only browsers send `Origin`. The only pages that may call this server are its own.
            if !origin.to_str().is_ok_and(|origin| origin.eq_ignore_ascii_case(&base_url)) {
                return Err(HostRejection::ForeignOrigin);
            }
        }
        Ok(base_url)
    }
}

/// Whether `host` is `localhost`, a loopback address or `local_address`. Doesn't ask a name server.
fn is_local_host(host: &str, local_address: IpAddr) -> bool {
    // Only an IPv6 address may be in brackets.
    let address = match host.strip_prefix('[').and_then(|host| host.strip_suffix(']')) {
        Some(host) => host.parse().map(IpAddr::V6),
        None => host.parse().map(IpAddr::V4),
    };
    match address {
        Ok(address) => address.is_loopback() || address == local_address.to_canonical(),
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

    fn check(host: Option<&str>, origin: Option<&str>) -> Result<String, HostRejection> {
        let public_url = "https://Stead.example.com/".parse().ok();
        let policy = HostPolicy::new(public_url);
        let mut headers = HeaderMap::new();
        for (name, value) in [(HOST, host), (ORIGIN, origin)] {
            if let Some(value) = value {
                headers.insert(name, value.parse().expect("a header"));
            }
        }
        policy.check(&headers, &Uri::from_static("/mcp"), IpAddr::from([192, 168, 1, 2]))
    }

    #[test]
    fn a_request_names_one_host() {
        let policy = HostPolicy::new(None);
        let check = |hosts: &[&str], uri: &str| {
            let mut headers = HeaderMap::new();
            for host in hosts {
                headers.append(HOST, host.parse().expect("a header"));
            }
            policy.check(&headers, &uri.parse().expect("a URI"), IpAddr::from([127, 0, 0, 1]))
        };
        assert!(check(&["127.0.0.1:1"], "http://127.0.0.1:1/mcp").is_ok());
        assert!(check(&["localhost"], "http://LOCALHOST/mcp").is_ok());
        assert_eq!(check(&["127.0.0.1"], "http://evil.example/mcp"), Err(HostRejection::SeveralHosts));
        assert_eq!(check(&["127.0.0.1", "evil.example"], "/mcp"), Err(HostRejection::SeveralHosts));
        assert_eq!(check(&["127.0.0.1", "127.0.0.1"], "/mcp"), Err(HostRejection::SeveralHosts));
    }

    #[test]
    fn a_server_accepts_its_own_host_names() {
        for host in [
            "localhost",
            "LOCALHOST:4747",
            "127.0.0.1:4747",
            "[::1]:4747",
            "192.168.1.2",
            "stead.example.com",
        ] {
            assert!(check(Some(host), None).is_ok(), "{host}");
        }
        assert_eq!(check(Some("stead.example.com"), None), Ok("https://stead.example.com".into()));
        assert_eq!(check(Some("localhost:1"), None), Ok("http://localhost:1".into()));
    }

    #[test]
    fn a_server_rejects_all_other_host_names() {
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
            assert_eq!(check(host, None), Err(HostRejection::UnknownHost), "{host:?}");
        }
    }

    #[test]
    fn a_request_from_a_page_of_another_origin_is_refused() {
        assert!(check(Some("localhost:1"), Some("http://localhost:1")).is_ok());
        assert!(check(Some("stead.example.com"), Some("https://stead.example.com")).is_ok());
        for origin in ["http://localhost:2", "https://localhost:1", "http://evil.example", "null", ""] {
            assert_eq!(
                check(Some("localhost:1"), Some(origin)),
                Err(HostRejection::ForeignOrigin),
                "{origin}"
            );
        }
    }

    #[test]
    fn a_public_url_has_only_a_scheme_and_a_host() {
        for wrong in ["stead.example.com", "ftp://a", "https://a/b", "https://u@a", "https://a?b"] {
            assert!(wrong.parse::<PublicUrl>().is_err(), "{wrong}");
        }
    }
}
