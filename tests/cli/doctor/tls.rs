//! Certificates that expire or are not trusted, and the doctor's advice.

use std::process::Command;

use serde_json::Value;

use super::clinic::{doctor, faults, finding, patient, report};
use crate::at_once;
use crate::common::certificates::Certificates;

#[tokio::test]
async fn certificates_that_expire_soon_or_are_not_trusted_are_told() {
    let made = Certificates::new();
    for (days, id) in [(60, "tls"), (5, "tls-expiry")] {
        made.sign("server", "ca", "localhost", days);
        let (_server, port) = made.server("server", "no").await;
        let trusting =
            |mut command: Command| report(command.env("SSL_CERT_FILE", made.path("ca.pem")).env_remove("SSL_CERT_DIR"));
        let (_, object) = trusting(patient(&[format!("rediss://localhost:{port}")]));
        let level = if id == "tls" { "fine" } else { "warning" };
        assert_eq!(finding(&object, id)["level"], level, "{object:#}");
        let left = object["nodes"][0]["certificates_accepted_for_days"].as_u64().unwrap();
        assert_eq!(left, u64::try_from(days).unwrap() - 1, "{object:#}");
        let (code, object) = trusting(patient(&[format!("rediss://127.0.0.1:{port}")]));
        assert_eq!((code, &finding(&object, "tls")["level"]), (2, &"warning".into()), "{object:#}");
    }
}

/// The doctor over one node, with these options.
fn examined(url: &str, options: &[String]) -> (i32, Value) {
    let is_brief = options.iter().any(|option| option == "--node-timeout");
    let patience = if is_brief { &[][..] } else { &["--node-timeout", "20s"] };
    report(doctor(&[url.to_owned()]).args(options).args(patience))
}

#[tokio::test]
async fn each_tls_failure_has_its_own_advice() {
    let made = Certificates::new();
    made.sign("server", "ca", "localhost", 9);
    made.sign("expired", "ca", "localhost", -1);
    let ((server, asks), (_other, late)) = (made.server("server", "yes").await, made.server("expired", "no").await);
    let option = |name: &str, file: &str| [format!("--tls-{name}"), made.file(file)];
    let pair = |name: &str| [option("cert", &format!("{name}.pem")), option("key", &format!("{name}.key"))].concat();
    let (ca, other) = (option("ca", "ca.pem"), option("ca", "other.pem"));
    // TLS 1.2 has no alert for a missing client certificate.
    let (_old, old) = made.server_with("server", "yes", &["--tls-protocols", "TLSv1.2"]).await;
    let (asks, late) = (format!("rediss://localhost:{asks}"), format!("rediss://localhost:{late}"));
    let old = format!("rediss://localhost:{old}");
    let (plain, to_tls) = (format!("rediss://localhost:{}", server.port()), asks.replace("rediss", "redis"));
    let cases = [
        (&asks, ca.to_vec(), "tls", "Give a certificate and its key (client_certificate;"),
        (
            &old,
            ca.to_vec(),
            "tls",
            "Give a client certificate and its key (client_certificate; --tls-cert and --tls-key) if the server asks for one; else remove",
        ),
        (&asks, [&ca[..], &pair("stranger")].concat(), "tls", "Name a certificate of the server's authority, or add"),
        (&late, ca.to_vec(), "tls", "Renew it on the server."),
        (&asks, other.to_vec(), "tls", "Name its authority (ca_file; --tls-ca)."),
        (&plain, [&ca[..], &["--node-timeout".to_owned(), "2s".to_owned()]].concat(), "tls", "If not, write redis://."),
        (&to_tls, Vec::new(), "unreachable", "Write rediss:// if this port expects TLS"),
    ];
    at_once(cases, |(url, options, id, mend)| {
        let (code, object) = examined(url, &options);
        let told = finding(&object, id)["mend"].as_str().unwrap();
        assert!(code == 2 && told.contains(mend), "{mend}: {object:#}");
    });
}

#[tokio::test]
async fn client_certificate_and_authority_expiry_are_reported() {
    let made = Certificates::new();
    made.sign("server", "ca", "localhost", 90);
    made.sign("late", "ca", "client", -1);
    made.sign("long", "ca", "client", 90);
    let ((_asks, asks), (_not, not)) = (made.server("server", "yes").await, made.server("server", "no").await);
    let (asks, not) = (format!("rediss://localhost:{asks}"), format!("rediss://localhost:{not}"));
    let options = |client: &str| {
        let names = [("ca", "ca.pem".to_owned()), ("cert", format!("{client}.pem")), ("key", format!("{client}.key"))];
        names.iter().flat_map(|(name, file)| [format!("--tls-{name}"), made.file(file)]).collect::<Vec<_>>()
    };
    for (url, client, level, what) in [
        (&asks, "client", "warning", "This client's certificate expires in 8 days."),
        (&asks, "late", "warning", "This client's certificate has expired."),
        (&not, "late", "warning", "This client's certificate has expired."),
    ] {
        let (_, object) = examined(url, &options(client));
        let found = finding(&object, "client-certificate");
        assert_eq!((&found["level"], &found["what"]), (&level.into(), &what.into()), "{object:#}");
        assert!(!faults(&object).contains(&"tls"), "{object:#}");
    }
    let (_, object) = examined(&asks, &options("long"));
    assert_eq!(finding(&object, "authority")["what"], "The last authority in tls_ca expires in 8 days.", "{object:#}");
    assert!(!faults(&object).contains(&"client-certificate"), "{object:#}");
    // The doctor does not warn any more if its advice was followed.
    made.sign_itself("new", 90);
    let both = ["ca.pem", "new.pem"].map(|name| std::fs::read_to_string(made.path(name)).unwrap()).concat();
    std::fs::write(made.path("ca.pem"), both).unwrap();
    let (_, object) = examined(&asks, &options("long"));
    let hint = finding(&object, "authority");
    assert!(hint["level"] == "hint" && hint["mend"].as_str().unwrap().contains("Remove this authority"), "{object:#}");
}
