//! What failed connections are told as, whichever transport they are of: I/O errors come as the text
//! of their debug form, from which people's words are made.

/// What is told of a connection whose task or transport panicked.
pub(super) const PANICKED: &str = "its connection panicked, which is a bug; please report it";
/// What is told where replies make no sense.
pub(super) const STRANGER: &str =
    "what answers at this address does not speak the Redis protocol; is it a Redis or Valkey server?";

/// What is told where the server takes only clients that it knows.
const UNKNOWN_CLIENT: &str = "TLS failed: the server takes only clients with a certificate; name one with its key (client_certificate; --tls-cert and --tls-key)";

/// What failed before or while TLS was agreed on. rustls tells it as an I/O error.
pub(super) fn handshake(debug: &str) -> String {
    if debug.contains("CertificateRequired") {
        return UNKNOWN_CLIENT.to_owned();
    }
    if let Some(why) = refused_client(debug) {
        return why;
    }
    let foreign = ["InvalidMessage", "handshake eof", "ConnectionReset"].iter().any(|sign| debug.contains(sign));
    let message = plain(debug);
    distrust(debug).unwrap_or_else(|| match foreign {
        true => format!("TLS failed: {message}; does this port speak TLS?"),
        false if debug.contains("AlertReceived") => format!("TLS failed: {message}"),
        false => message,
    })
}

/// Why the server does not accept this client's certificate, if that is what happened.
fn refused_client(debug: &str) -> Option<String> {
    let alerts = [
        "UnknownCA",
        "BadCertificate",
        "CertificateExpired",
        "CertificateUnknown",
        "DecryptError",
        "CertificateRevoked",
    ];
    let alert = alerts.iter().find(|alert| debug.contains(&format!("AlertReceived({alert})")))?;
    Some(format!("TLS failed: the server does not accept this client's certificate ({})", spaced(alert)))
}

/// Why a certificate is not accepted, if that is what happened.
fn distrust(debug: &str) -> Option<String> {
    let (_, why) = debug.split_once("InvalidCertificate(")?;
    if why.starts_with("NotValidForName") {
        let hint = "name one of them (server_name; --tls-server-name), or correct the address";
        return Some(format!("TLS failed: its certificate is for other host names than that of the address; {hint}"));
    }
    if why.starts_with("Expired") {
        return Some("TLS failed: its certificate has expired; renew it on the server".to_owned());
    }
    if why.starts_with("NotValidYet") {
        return Some("TLS failed: its certificate is not valid yet; is this machine's clock right?".to_owned());
    }
    let hint = "name its authority (ca_file; --tls-ca)";
    Some(format!("TLS failed: its certificate is not trusted here ({}); {hint}", words(why)))
}

/// The message of an I/O error, which fred tells in its debug form.
pub(super) fn plain(debug: &str) -> String {
    let forms = [("Os {", "message: "), ("Error {", "message: "), ("Custom {", "error: ")];
    let form = forms.into_iter().find(|(form, _)| debug.starts_with(form));
    let message = form.and_then(|(_, field)| debug.split_once(field));
    let Some((_, message)) = message else { return kind(debug).unwrap_or_else(|| debug.to_owned()) };
    let message = message.trim_end_matches([' ', '}']);
    match message.strip_prefix('"').and_then(|text| text.strip_suffix('"')) {
        Some(text) => text.replace("\\\"", "\"").replace("\\\\", "\\"),
        None => words(message),
    }
}

/// `Kind(NotFound)`: an I/O error that is no more than its kind.
fn kind(debug: &str) -> Option<String> {
    Some(words(debug.strip_prefix("Kind(")?.strip_suffix(')')?))
}

/// `InvalidMessage(InvalidContentType)` as "invalid message: invalid content type". Fields are left
/// out.
pub(super) fn words(debug: &str) -> String {
    let names = debug.split(" {").next().unwrap_or_default().split(['(', ')', '}', ' ']);
    names.filter(|name| !["", "Other", "OtherError"].contains(name)).map(spaced).collect::<Vec<_>>().join(": ")
}

/// `NotFound` as "not found".
fn spaced(name: &str) -> String {
    let spaced = name.chars().flat_map(|letter| {
        let space = letter.is_uppercase().then_some(' ');
        space.into_iter().chain(letter.to_lowercase())
    });
    spaced.collect::<String>().trim_start().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_io_error_is_told_by_its_message() {
        for (debug, message) in [
            ("Os { code: 111, kind: ConnectionRefused, message: \"Connection refused\" }", "Connection refused"),
            ("Custom { kind: Uncategorized, error: \"failed to look up: unknown\" }", "failed to look up: unknown"),
            ("Custom { kind: InvalidData, error: AlertReceived(NoSuchThing) }", "alert received: no such thing"),
            ("Error { kind: InvalidInput, message: \"a \\\"b\\\"\" }", "a \"b\""),
            ("Kind(NotFound)", "not found"),
            ("other", "other"),
        ] {
            assert_eq!(plain(debug), message);
        }
    }

    #[test]
    fn every_form_in_which_std_shows_an_io_error_is_understood() {
        use std::io::{Error, ErrorKind};
        let refused = Error::from_raw_os_error(if cfg!(unix) { 2 } else { 10_061 });
        let shown = |error: Error| plain(&format!("{error:?}"));
        assert!(!shown(refused).contains(['{', '"']));
        assert_eq!(shown(Error::other("what it is")), "what it is");
        assert_eq!(shown(Error::from(ErrorKind::UnexpectedEof)), "unexpected eof");
        assert_eq!(
            shown(Error::new(ErrorKind::InvalidData, rustls::Error::HandshakeNotComplete)),
            "handshake not complete"
        );
    }

    #[test]
    fn a_certificate_that_is_not_trusted_is_told_as_one() {
        let told = |why: &str| distrust(&format!("Custom {{ kind: InvalidData, error: InvalidCertificate({why}) }}"));
        assert!(told("UnknownIssuer").unwrap().contains("not trusted here (unknown issuer)"));
        assert!(told("Other(OtherError(CaUsedAsEndEntity))").unwrap().contains("(ca used as end entity)"));
        let name = told("NotValidForNameContext { expected: DnsName(\"eu\"), presented: [\"us\"] }").unwrap();
        assert!(name.contains("other host names") && !name.contains('{'), "{name}");
        assert!(told("ExpiredContext { time: UnixTime(2), not_after: UnixTime(1) }").unwrap().contains("has expired"));
        assert!(told("NotValidYetContext { time: UnixTime(1) }").unwrap().contains("is not valid yet"));
        assert_eq!(distrust("Custom { kind: InvalidData, error: InvalidMessage(InvalidContentType) }"), None);
    }

    #[test]
    fn a_port_that_refuses_is_not_asked_about_tls() {
        let refused = "Os { code: 111, kind: ConnectionRefused, message: \"Connection refused\" }";
        assert_eq!(handshake(refused), "Connection refused");
        assert!(handshake("Custom { kind: UnexpectedEof, error: \"tls handshake eof\" }").ends_with("speak TLS?"));
    }
}
