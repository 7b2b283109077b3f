//! Refuses requests of web pages, which could reach the agent's TCP port through a local browser.

use std::net::IpAddr;

use hyper::header::{HOST, HeaderMap, HeaderValue, ORIGIN};

use super::errors::Refusal;

/// By this header, browsers say where a request comes from: `none` if no page made the request.
const FETCH_SITE: &str = "sec-fetch-site";

/// Refuses requests of web pages, so that web pages cannot take locks. If the domain of a page
/// resolves to this host (DNS rebinding), its requests may have no `Origin`, but have another
/// `Host`.
pub(super) fn check(headers: &HeaderMap, port: u16) -> Result<(), Refusal> {
    let mut hosts = headers.get_all(HOST).iter().map(HeaderValue::to_str);
    let (Some(Ok(host)), None) = (hosts.next(), hosts.next()) else { return Err(Refusal::of_another_host(port)) };
    if !is_loopback(host, port) {
        return Err(Refusal::of_another_host(port));
    }
    let is_of_page = headers.get(FETCH_SITE).is_some_and(|site| site != "none");
    if is_of_page || headers.contains_key(ORIGIN) {
        return Err(Refusal::of_a_web_page());
    }
    Ok(())
}

/// Whether a `Host` is this port on loopback.
fn is_loopback(host: &str, port: u16) -> bool {
    let (name, given) = match host.rsplit_once(':') {
        Some((name, digits)) if !digits.ends_with(']') => (name, digits.parse().ok()),
        _ => (host, Some(80)),
    };
    let address = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
    let is_local = address.parse().is_ok_and(|address: IpAddr| address.is_loopback());
    given == Some(port) && (is_local || name.eq_ignore_ascii_case("localhost"))
}

#[cfg(test)]
mod tests {
    use hyper::header::HeaderName;
    use serde_json::json;

    use super::*;

    #[test]
    fn request_with_foreign_host_or_any_origin_is_refused() {
        for host in ["127.0.0.1:7000", "localhost:7000", "LocalHost:7000", "[::1]:7000", "127.1.2.3:7000"] {
            assert!(is_loopback(host, 7000), "{host}");
        }
        assert!(is_loopback("[::1]", 80) && is_loopback("localhost", 80));
        for host in [
            "evil.example:7000",
            "localhost.evil.example:7000",
            "127.0.0.1:7001",
            "127.0.0.1",
            "[::1]",
            "10.0.0.1:7000",
            "x@127.0.0.1:7000",
            "agent",
            "",
        ] {
            assert!(!is_loopback(host, 7000), "{host}");
        }
        let checked = |headers: &[(&'static str, &'static str)]| {
            let headers =
                headers.iter().map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)));
            check(&HeaderMap::from_iter(headers), 7000).map_err(|refusal| refusal.body["error"].clone())
        };
        let host = ("host", "localhost:7000");
        assert_eq!(checked(&[host]), Ok(()));
        assert_eq!(checked(&[host, (FETCH_SITE, "none")]), Ok(()));
        assert_eq!(checked(&[host, (FETCH_SITE, "same-origin")]), Err(json!("origin")));
        assert_eq!(checked(&[host, ("origin", "null")]), Err(json!("origin")));
        assert_eq!(checked(&[("host", "evil.example:7000")]), Err(json!("host")));
        assert_eq!(checked(&[]), Err(json!("host")));
    }
}
