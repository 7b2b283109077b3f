//! Explains failures of TLS, and says what to do about them. The cause is found in the debug text
//! of the error.
//!
//! The command line uses the same texts for its own connections.

use super::wording::{plain, words};

/// A failure, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Trouble {
    pub(super) what: String,
    pub(super) mend: String,
}

/// Reasons to reject the server's certificate. Each has its name in rustls, a text, and advice.
const DISTRUST: &[(&str, &str, &str)] = &[
    ("Expired", "its certificate has expired", "renew it on the server"),
    (
        "NotValidYet",
        "its certificate is not valid yet",
        "is this machine's clock right? If it is, make a new certificate",
    ),
    (
        "Other(OtherError(UnsupportedCertVersion))",
        "its certificate is of an X.509 version below 3, which names no host",
        "make one of version 3: with a subjectAltName (openssl x509 -req needs -extfile for that)",
    ),
    (
        "Other(OtherError(CaUsedAsEndEntity))",
        "its certificate is that of an authority (CA:TRUE), as self-signed ones are by default",
        "make one with basicConstraints=CA:FALSE, signed by an authority or by itself, and name the signer's \
         certificate (ca_file; --tls-ca)",
    ),
    (
        "InvalidPurpose",
        "its certificate is not for servers: its extendedKeyUsage lacks serverAuth",
        "make one with extendedKeyUsage=serverAuth, or without that extension",
    ),
    ("Revoked", "its certificate was revoked", "install another on the server"),
];

/// Alerts by which a server rejects this client's certificate. Each has its name in rustls, a text,
/// and advice.
const ALERTS: &[(&str, &str, &str)] = &[
    (
        "CertificateRequired",
        "the server accepts only clients with a certificate",
        "give a certificate and its key (client_certificate; in the command --tls-cert and --tls-key)",
    ),
    (
        "UnknownCA",
        "the server does not accept this client's certificate: it does not know the authority that signed it",
        "name a certificate of the server's authority, or add yours to the server's tls-ca-cert-file",
    ),
    (
        "UnsupportedCertificate",
        "the server does not accept this client's certificate: it is not for clients, as its extendedKeyUsage lacks \
         clientAuth",
        "make one with extendedKeyUsage=clientAuth, or without that extension",
    ),
    (
        "CertificateExpired",
        "the server does not accept this client's certificate: it has expired, or is not valid yet",
        "renew it; if it is valid here, correct the server's clock",
    ),
    (
        "CertificateRevoked",
        "the server does not accept this client's certificate: it was revoked",
        "give another certificate (client_certificate; --tls-cert and --tls-key)",
    ),
    (
        "BadCertificate",
        "the server does not accept this client's certificate (bad certificate)",
        "the server's log says why; make another certificate",
    ),
    (
        "CertificateUnknown",
        "the server does not accept this client's certificate (certificate unknown)",
        "the server's log says why; make another certificate",
    ),
    (
        "DecryptError",
        "the server does not accept this client's certificate (decrypt error)",
        "put the authority that signed this client's certificate into the server's tls-ca-cert-file: the file has an \
         authority of the same name with another key",
    ),
];

/// An alert that may mean a missing client certificate: TLS before 1.3 has no alert of its own for
/// this cause.
const NAMELESS: &[(&str, &str, &str)] = &[(
    "HandshakeFailure",
    "the server and this client have no cipher in common, or the server asks for a client certificate",
    "give a client certificate and its key (client_certificate; --tls-cert and --tls-key) if the server asks for one; else \
     remove tls-ciphers and tls-ciphersuites from the server's configuration",
)];

/// Alerts about versions of TLS and about ciphers.
const VERSIONS: &[(&str, &str, &str)] = &[
    (
        "ProtocolVersion",
        "the server speaks no version of TLS that is safe; 1.2 or 1.3 is needed",
        "set tls-protocols \"TLSv1.2 TLSv1.3\" on the server",
    ),
    (
        "HandshakeFailure",
        "the server and this client have no cipher in common",
        "remove tls-ciphers and tls-ciphersuites from the server's configuration, or name modern ones there",
    ),
];

/// The text for a failure of the connection or its TLS handshake, from the debug text of the I/O
/// error. `identified` says that a missing client certificate cannot be the cause.
pub(super) fn handshake(debug: &str, identified: bool) -> String {
    Trouble::of(debug, identified).map_or_else(|| plain(debug), |trouble| trouble.told())
}

impl Trouble {
    /// The failure with this debug text; `None` if the failure is not about TLS.
    pub(super) fn of(debug: &str, identified: bool) -> Option<Self> {
        let alert = |all: &[(&str, &str, &str)]| {
            let of = |name: &str| debug.contains(&format!("AlertReceived({name})"));
            all.iter().find(|(name, ..)| of(name)).map(Self::known)
        };
        let nameless = || if identified { None } else { alert(NAMELESS) };
        alert(ALERTS)
            .or_else(nameless)
            .or_else(|| alert(VERSIONS))
            .or_else(|| distrust(debug))
            .or_else(|| foreign(debug))
    }

    fn known((_, what, mend): &(&str, &str, &str)) -> Self {
        Self::new(*what, *mend)
    }

    fn new(what: impl Into<String>, mend: impl Into<String>) -> Self {
        Self { what: what.into(), mend: mend.into() }
    }

    pub(super) fn told(&self) -> String {
        format!("TLS failed: {}; {}", self.what, self.mend)
    }
}

/// The reason why the client rejects the server's certificate, if it does.
fn distrust(debug: &str) -> Option<Trouble> {
    let (_, why) = debug.split_once("InvalidCertificate(")?;
    if why.starts_with("NotValidForName") {
        return Some(other_name(why));
    }
    let known = DISTRUST.iter().find(|(name, ..)| why.starts_with(name)).map(Trouble::known);
    Some(known.unwrap_or_else(|| {
        let what = format!("its certificate is not trusted here ({})", words(why));
        Trouble::new(what, "name its authority (ca_file; --tls-ca)")
    }))
}

/// The failure if the server's certificate is not for the host's name. `why` is the debug text of
/// rustls, which usually lists the names in the certificate.
fn other_name(why: &str) -> Trouble {
    let presented = why.split_once("presented: [").and_then(|(_, rest)| rest.split_once(']')).map(|(names, _)| names);
    match presented.map(names) {
        Some(names) if names.is_empty() => Trouble::new(
            "its certificate names no host: it has no subjectAltName, and a common name does not count",
            "make one with a subjectAltName, as DNS:redis.internal or IP:10.0.0.1",
        ),
        names => {
            let listed = names.map_or_else(String::new, |names| format!(" (it is for {})", names.join(", ")));
            let what = format!("its certificate is not for the host name in the address{listed}");
            Trouble::new(what, "name one of them (server_name; --tls-server-name), or correct the address")
        }
    }
}

/// The names in a text such as `"DnsName(\"eu\")", "IpAddress(10.0.0.1)"`.
fn names(presented: &str) -> Vec<String> {
    let name = |part: &str| {
        let (_, name) = part.split_once('(')?;
        Some(name.trim_end_matches(['"', ')', '\\']).trim_start_matches(['\\', '"']).to_owned())
    };
    presented.split("\", \"").filter_map(name).collect()
}

/// Other failures of TLS, such as a port that does not speak TLS.
fn foreign(debug: &str) -> Option<Trouble> {
    let foreign = ["InvalidMessage", "handshake eof", "ConnectionReset"].iter().any(|sign| debug.contains(sign));
    if foreign {
        return Some(Trouble::new(plain(debug), "does this port speak TLS? If not, write redis://"));
    }
    if debug.contains("PeerIncompatible") {
        return VERSIONS.first().map(Trouble::known);
    }
    debug.contains("AlertReceived").then(|| Trouble::new(plain(debug), "the server's log says why"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(error: &str) -> String {
        handshake(&format!("Custom {{ kind: InvalidData, error: {error} }}"), true)
    }

    #[test]
    fn a_certificate_that_is_not_trusted_is_told_as_one() {
        for (why, says) in [
            ("UnknownIssuer", "not trusted here (unknown issuer); name its authority"),
            ("Other(OtherError(CaUsedAsEndEntity))", "that of an authority (CA:TRUE)"),
            ("Other(OtherError(UnsupportedCertVersion))", "X.509 version below 3"),
            ("InvalidPurposeContext { required: ServerAuth, presented: [ClientAuth] }", "lacks serverAuth"),
            ("ExpiredContext { time: UnixTime(2), not_after: UnixTime(1) }", "has expired; renew it on the server"),
            ("NotValidYetContext { time: UnixTime(1) }", "is not valid yet"),
        ] {
            let told = told(&format!("InvalidCertificate({why})"));
            assert!(told.starts_with("TLS failed: its certificate") && told.contains(says), "{told}");
        }
    }

    #[cfg(feature = "__tls")]
    #[test]
    fn the_names_are_listed_that_a_certificate_has() {
        let error = rustls::Error::InvalidCertificate(rustls::CertificateError::NotValidForNameContext {
            expected: rustls::pki_types::ServerName::try_from("eu").unwrap(),
            presented: vec!["DnsName(\"*.us\")".to_owned(), "IpAddress(2001::db8)".to_owned()],
        });
        let other = told(&format!("{error:?}"));
        assert!(other.contains("not for the host name in the address (it is for *.us, 2001::db8); name"), "{other}");
        let none = told("InvalidCertificate(NotValidForNameContext { expected: DnsName(\"eu\"), presented: [] })");
        assert!(none.contains("no subjectAltName") && none.contains("make one with"), "{none}");
        assert!(told("InvalidCertificate(NotValidForName)").contains("in the address; name one"));
    }

    #[test]
    fn tls_alert_is_explained_with_a_remedy() {
        let refused = "the server does not accept this client's certificate";
        for (alert, what, mend) in [
            ("CertificateRequired", "only clients with a certificate", "--tls-cert"),
            ("UnknownCA", refused, "tls-ca-cert-file"),
            ("UnsupportedCertificate", refused, "clientAuth"),
            ("CertificateExpired", refused, "renew it"),
            ("BadCertificate", refused, "log"),
            ("ProtocolVersion", "1.2 or 1.3 is needed", "tls-protocols"),
            ("HandshakeFailure", "no cipher in common", "tls-ciphers"),
            ("NoSuchThing", "alert received: no such thing", "log"),
        ] {
            let told = told(&format!("AlertReceived({alert})"));
            assert!(told.starts_with("TLS failed: ") && told.contains(what) && told.contains(mend), "{told}");
        }
    }

    #[test]
    fn failed_handshake_without_a_certificate_suggests_one() {
        let told = |identified| handshake("AlertReceived(HandshakeFailure)", identified);
        assert!(
            told(false).contains("no cipher in common, or the server asks for a client certificate; give a client")
        );
        assert!(told(false).contains("--tls-cert") && told(false).contains("tls-ciphers"));
        assert!(!told(true).contains("certificate"), "{}", told(true));
    }

    #[test]
    fn a_port_that_refuses_is_not_asked_about_tls() {
        let refused = "Os { code: 111, kind: ConnectionRefused, message: \"Connection refused\" }";
        assert_eq!(handshake(refused, true), "Connection refused");
        assert!(told("\"tls handshake eof\"").contains("speak TLS?"));
        assert!(told("InvalidMessage(InvalidContentType)").contains("speak TLS? If not, write redis://"));
    }
}
