//! TLS options: trusted authorities, client certificates, and server names.

use std::time::Duration;

use quorumlock::{QuorumBuilder, Tls};

use crate::common::certificates::Certificates;
use crate::common::{PATIENCE, builder, refused, released};

/// If `scripts/prove` asks for it, the program's provider is aws-lc.
fn quorum(url: &str, tls: Tls) -> QuorumBuilder {
    #[cfg(feature = "tls-aws-lc")]
    if std::env::var("QUORUMLOCK_TEST_PROVIDER").is_ok_and(|name| name == "aws-lc") {
        // An error means that another test of this process has installed it.
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let installed = rustls::crypto::CryptoProvider::get_default().expect("a provider is installed");
        assert!(format!("{installed:?}").contains("AwsLc"), "{installed:?}");
    }
    builder().node(url).tls(tls).max_ttl(Duration::ZERO)
}

async fn votes(url: &str, tls: Tls) {
    let quorum = quorum(url, tls).connect().await.unwrap();
    released(quorum.lock("encrypted").acquire(PATIENCE).await.unwrap().release()).await;
}

async fn unavailable(url: &str, tls: Tls, says: &str) {
    assert!(refused(quorum(url, tls), says).await.is_unavailable());
}

#[tokio::test]
async fn server_is_trusted_only_if_the_given_authority_signed_it() {
    let made = Certificates::new();
    made.sign("server", "ca", "localhost", 9);
    let (_server, port) = made.server("server", "no").await;
    let url = format!("rediss://localhost:{port}");
    votes(&url, Tls::new().ca_file(made.path("ca.pem"))).await;
    votes(&url, Tls::new().ca_pem(std::fs::read(made.path("ca.pem")).unwrap()).and_system()).await;
    votes(&format!("{url}?ca={}", made.file("ca.pem")), Tls::new().ca_file(made.path("other.pem"))).await;
    unavailable(&url, Tls::new().ca_file(made.path("other.pem")), "its certificate is not trusted here").await;
    unavailable(&url, Tls::new(), "its certificate is not trusted here").await;
}

#[tokio::test]
async fn a_certificate_that_has_expired_is_told_as_such() {
    let made = Certificates::new();
    made.sign("server", "ca", "localhost", -1);
    let (_server, port) = made.server("server", "no").await;
    let url = format!("rediss://localhost:{port}");
    unavailable(&url, Tls::new().ca_file(made.path("ca.pem")), "its certificate has expired").await;
}

#[tokio::test]
async fn certificate_must_name_the_given_host_or_the_address() {
    let made = Certificates::new();
    made.sign("server", "ca", "redis.eu.internal", 9);
    let (_server, port) = made.server("server", "no").await;
    let trusted = || Tls::new().ca_file(made.path("ca.pem"));
    for host in ["localhost", "127.0.0.1"] {
        let url = format!("rediss://{host}:{port}");
        unavailable(&url, trusted(), "its certificate is not for the host name in the address").await;
        unavailable(&url, trusted().server_name("redis.us.internal"), "not for the host name").await;
        votes(&url, trusted().server_name("redis.eu.internal")).await;
        votes(&format!("{url}?server_name=redis.eu.internal"), trusted().server_name("redis.us.internal")).await;
    }
}

#[tokio::test]
async fn server_that_wants_certificates_takes_only_known_clients() {
    let made = Certificates::new();
    made.sign("server", "ca", "localhost", 9);
    let (_server, port) = made.server("server", "yes").await;
    let url = format!("rediss://localhost:{port}");
    let trusted = || Tls::new().ca_file(made.path("ca.pem"));
    votes(&url, trusted().client_certificate(made.path("client.pem"), made.path("client.key"))).await;
    let read = |name| std::fs::read(made.path(name)).unwrap();
    votes(&url, trusted().client_certificate_pem(read("client.pem"), read("client.key"))).await;
    votes(&format!("{url}?cert={}&key={}", made.file("client.pem"), made.file("client.key")), trusted()).await;
    unavailable(&url, trusted(), "accepts only clients with a certificate").await;
    let stranger = trusted().client_certificate(made.path("stranger.pem"), made.path("stranger.key"));
    unavailable(&url, stranger, "does not know the authority that signed it; name a certificate of the server's").await;
    made.sign_as("no-client", "ca", "client", 9, "basicConstraints=CA:FALSE\nextendedKeyUsage=serverAuth\n");
    let pair =
        |name: &str| trusted().client_certificate(made.path(&format!("{name}.pem")), made.path(&format!("{name}.key")));
    unavailable(&url, pair("no-client"), "lacks clientAuth; make one with extendedKeyUsage=clientAuth").await;
    made.sign("late", "ca", "client", -1);
    unavailable(&url, pair("late"), "it has expired, or is not valid yet; renew it").await;
}

#[tokio::test]
async fn invalid_tls_options_are_refused_before_any_connection() {
    let made = Certificates::new();
    let url = "rediss://127.0.0.1:1";
    made.sign_as("version-1", "ca", "client", 9, "");
    let pair = |cert: &str, key: &str| Tls::new().client_certificate(made.path(cert), made.path(key));
    for (url, tls, says) in [
        ("redis://127.0.0.1:1", Tls::new().ca_file(made.path("ca.pem")), "write rediss://"),
        (url, Tls::new().ca_file("/nowhere/ca.pem"), "/nowhere/ca.pem: No such file"),
        (url, Tls::new().ca_file(made.path("ca.key")), "ca.key: it has no certificate"),
        (url, pair("client.pem", "stranger.key"), "the private key does not belong to the client certificate"),
        (url, pair("client.pem", "client.pem"), "client.pem: it has no private key"),
        (url, pair("version-1.pem", "version-1.key"), "of an X.509 version below 3; make one of version 3"),
        (url, Tls::new().server_name("not a name"), "no certificate can be for a host with this name"),
        ("rediss://127.0.0.1:1?cert=client.pem", Tls::new(), "without its private key; name both"),
    ] {
        let error = quorum(url, tls).open().unwrap_err();
        assert!(error.is_config() && error.to_string().contains(says), "{says}: {error}");
        assert!(!error.to_string().contains("BEGIN RSA") && !error.to_string().contains("MII"), "{error}");
    }
}

/// The certificate that openssl makes by default.
#[tokio::test]
async fn faulty_server_certificate_is_reported_with_a_remedy() {
    let made = Certificates::new();
    made.sign_itself("itself", 9);
    for (name, extensions, authority, says) in [
        ("version-1", "", "ca", "X.509 version below 3, which names no host; make one of version 3"),
        ("nameless", "basicConstraints=CA:FALSE\n", "ca", "it has no subjectAltName, and a common name does not count"),
        ("other", "subjectAltName=DNS:eu,IP:10.0.0.1\n", "ca", "(it is for eu, 10.0.0.1); name one of them"),
        ("no-server", "subjectAltName=DNS:localhost\nextendedKeyUsage=clientAuth\n", "ca", "lacks serverAuth"),
        (
            "itself",
            "",
            "itself",
            "(CA:TRUE), as self-signed ones are by default; make one with basicConstraints=CA:FALSE",
        ),
    ] {
        if name != "itself" {
            made.sign_as(name, "ca", "localhost", 9, extensions);
        }
        let (_server, port) = made.server(name, "no").await;
        let tls = Tls::new().ca_file(made.path(&format!("{authority}.pem")));
        unavailable(&format!("rediss://localhost:{port}"), tls, says).await;
    }
}

#[tokio::test]
async fn a_server_that_speaks_old_versions_alone_is_told_as_such() {
    let made = Certificates::new();
    made.sign("server", "ca", "localhost", 9);
    let (_server, port) = made.server_with("server", "no", &["--tls-protocols", "TLSv1.1"]).await;
    let tls = Tls::new().ca_file(made.path("ca.pem"));
    unavailable(&format!("rediss://localhost:{port}"), tls, "1.2 or 1.3 is needed; set tls-protocols").await;
}
