//! Addresses of nodes.

use quorumlock::node::redis::Endpoint;

/// If a text is an address, parsing its shown form gives the same address again. (Paths of Unix
/// sockets are left out: they are shown unchanged.)
pub(crate) fn any(bytes: &[u8]) {
    let Ok(endpoint) = Endpoint::parse(&String::from_utf8_lossy(bytes)) else { return };
    let shown = endpoint.to_string();
    if shown.starts_with("redis+unix:///") {
        return;
    }
    let again = Endpoint::parse(&shown).unwrap_or_else(|error| panic!("{shown}: {error}"));
    assert_eq!(again.to_string(), shown);
}

/// A password is never shown, even if the rest of the address is wrong. `before` has no @.
pub(crate) fn secret(before: &str, behind: &str) {
    const SECRET: &str = "kh7Gw2Xq9";
    for scheme in ["redis", "rediss", "redis+unix", "http", ""] {
        let text = format!("{scheme}://{before}:{SECRET}{behind}");
        match Endpoint::parse(&text) {
            // Without an @, the text after the colon is no password, but a part of the host or the
            // path.
            Ok(_) if !text.contains('@') => {}
            Ok(endpoint) => assert!(!format!("{endpoint} {endpoint:?}").contains(SECRET), "{text}: {endpoint}"),
            Err(error) => assert!(!format!("{error} {error:?}").contains(SECRET), "{text}: {error}"),
        }
    }
}
