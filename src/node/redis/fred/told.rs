//! Tests how fred is configured for an address, and to which faults its errors are converted.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use fred::types::Resp3Frame;

use super::*;

const STEP: Duration = Duration::from_millis(300);

fn endpoint(text: &str) -> Endpoint {
    Endpoint::parse(text).unwrap()
}

#[test]
fn an_address_says_how_fred_connects() {
    let at = IpAddr::from([10, 0, 0, 1]);
    let plain = config(&endpoint("redis://eu"), Some(at)).unwrap();
    assert_eq!(plain.server, ServerConfig::new_centralized("10.0.0.1", 6379));
    assert_eq!((plain.username, plain.password, plain.database), (None, None, None));
    assert!(plain.fail_fast && plain.version == RespVersion::RESP3);
    let secret = config(&endpoint("rediss://user:word@us:6380/2"), Some(at)).unwrap();
    assert_eq!((secret.username.as_deref(), secret.password.as_deref()), (Some("user"), Some("word")));
    assert_eq!(secret.database, Some(2));
}

#[cfg(feature = "__tls")]
#[tokio::test]
async fn an_address_of_tls_makes_fred_encrypt() {
    let us = endpoint("rediss://us:6380");
    let mut config = config(&us, Some(IpAddr::from([10, 0, 0, 1]))).unwrap();
    assert!(config.tls.is_none());
    encrypt(&mut config, &us, Duration::from_secs(60)).await.unwrap();
    let ServerConfig::Centralized { server } = config.server else { panic!("it is one server") };
    assert_eq!((&*server.host, server.port, server.tls_server_name.as_deref()), ("10.0.0.1", 6380, Some("us")));
    assert!(config.tls.is_some());
}

/// With each of these texts, fred would send a wrong login, or even another command.
#[test]
fn credentials_that_fred_would_alter_are_refused_and_not_shown() {
    for word in ["se%20cret", "se%0Acret", "se%22cret", "se%27cret", "se%00cret"] {
        for url in [format!("redis://:{word}@eu"), format!("redis://{word}:secret@eu")] {
            let said = config(&endpoint(&url), None).unwrap_err().to_string();
            assert!(said.contains("the transport redis-rs") && !said.contains("cret\""), "{said}");
            assert!(!said.contains("se cret") && !said.contains("secret"), "{said}");
        }
    }
}

#[test]
fn connection_step_has_as_much_time_as_a_command() {
    for (address, reach, greet) in
        [("redis://eu", 1, 3), ("redis://eu/1", 1, 4), ("rediss://eu", 3, 3), ("rediss://eu/2", 3, 4)]
    {
        let limits = Limits::of(&endpoint(address), STEP);
        assert_eq!((limits.reach, limits.greet), (STEP * reach, STEP * greet), "{address}");
        let connection = connection(&limits);
        assert_eq!(connection.connection_timeout, limits.reach);
        assert_eq!(connection.internal_command_timeout, limits.greet);
    }
    assert_eq!(performance().default_command_timeout, Duration::ZERO, "each command would need a timer");
}

#[test]
fn fred_sends_nothing_twice_and_has_room_for_all_that_may_wait() {
    let connection = connection(&Limits::of(&endpoint("redis://eu"), STEP));
    assert_eq!((connection.max_command_attempts, connection.max_command_buffer_len), (1, 8_192));
    assert!(!connection.reconnect_on_auth_error && !connection.auto_client_setname);
    assert_eq!(performance().broadcast_channel_capacity, 1_024);
}

#[test]
fn unreached_node_is_explained_by_its_address() {
    let (plain, tls, socket) = ("redis://eu", "rediss://eu", "redis+unix:///run/redis.sock");
    let reset = "Os { code: 104, kind: ConnectionReset, message: \"Connection reset by peer\" }";
    for (address, reached, kind, details, told) in [
        (plain, true, FredKind::Timeout, "", "connected, but no answer to HELLO, CLIENT ID or INFO in time"),
        (tls, true, FredKind::Timeout, "", "connected, but no answer to HELLO, CLIENT ID or INFO in time"),
        (
            tls,
            false,
            FredKind::Timeout,
            "",
            "no TLS connection in time; does this port speak TLS? If so, the server hangs",
        ),
        (plain, false, FredKind::Timeout, "", "no TCP connection within node_timeout"),
        (
            tls,
            false,
            FredKind::IO,
            reset,
            "TLS failed: Connection reset by peer; does this port speak TLS? If not, write redis://",
        ),
        (plain, false, FredKind::IO, reset, "Connection reset by peer; if this port expects TLS, write rediss://"),
        (socket, false, FredKind::IO, reset, "Connection reset by peer"),
        (plain, false, FredKind::IO, "Kind(NotFound)", "not found"),
        #[cfg(feature = "__tls")]
        (tls, false, FredKind::Tls, "BadCertificate(Expired)", "TLS failed: bad certificate: expired"),
        (tls, false, FredKind::Protocol, "", STRANGER),
        (socket, false, FredKind::Parse, "", STRANGER),
        (plain, false, FredKind::Unknown, "whatever", "whatever"),
    ] {
        let fault = unreached(&endpoint(address), reached, &FredError::new(kind, details));
        assert_eq!((fault.kind(), &*fault.to_string()), (FaultKind::Down, told), "{address}");
    }
    let stranger = unreached(&endpoint(plain), true, &FredError::new(FredKind::Parse, ""));
    assert!(stranger.to_string().ends_with("If it expects TLS, write rediss://"), "{stranger}");
}

#[test]
fn fred_error_of_a_command_becomes_its_fault() {
    for (kind, details, fault_kind, told) in [
        (FredKind::Timeout, "x", FaultKind::Timeout, "no answer in time"),
        (FredKind::IO, "x", FaultKind::Closed, "the connection ended before the answer"),
        (FredKind::Canceled, "x", FaultKind::Closed, "the connection ended before the answer"),
        (FredKind::Parse, "x", FaultKind::Garbled, STRANGER),
        (FredKind::Protocol, "x", FaultKind::Garbled, STRANGER),
        (FredKind::Backpressure, "x", FaultKind::Overloaded, "x"),
        (
            FredKind::Unknown,
            "Failed to send command to router.",
            FaultKind::Closed,
            "the connection ended before the answer",
        ),
        (FredKind::Unknown, "channel closed", FaultKind::Closed, "the connection ended before the answer"),
        (FredKind::Unknown, "ERR x", FaultKind::Rejected, "ERR x"),
    ] {
        let told_of = fault(FredError::new(kind, details));
        assert_eq!((told_of.kind(), &*told_of.to_string()), (fault_kind, told));
    }
    assert_eq!(fault(FredError::new(FredKind::Unknown, "LOADING x")).kind(), FaultKind::Busy);
}

#[test]
fn why_fred_gave_up_before_it_told_of_a_connection_is_told() {
    let refused = FredError::new(FredKind::Auth, "WRONGPASS");
    assert_eq!(ended_early(Ok(Err(refused))).details(), "WRONGPASS");
    assert_eq!(ended_early(Ok(Ok(()))).details(), "the connection ended");
}

#[test]
fn fred_replies_are_decoded_in_every_form() {
    let blob = |data: &'static [u8]| Resp3Frame::BlobString { data: bytes::Bytes::from_static(data), attributes: None };
    let array = Resp3Frame::Array {
        data: vec![
            Resp3Frame::Number { data: 7, attributes: None },
            Resp3Frame::SimpleString { data: "text".into(), attributes: None },
            blob(&[0xff, 0]),
            Resp3Frame::Null,
            Resp3Frame::Array { data: vec![blob(b"")], attributes: None },
        ],
        attributes: None,
    };
    let bytes = Value::Text(bytes::Bytes::from_static(&[0xff, 0]));
    let inner = Value::Array(vec!["".into()]);
    assert_eq!(received(array).unwrap(), Value::Array(vec![7.into(), "text".into(), bytes, Value::Null, inner]));
}

#[test]
fn server_error_keeps_its_text_in_every_frame() {
    let simple = Resp3Frame::SimpleError { data: "NOSCRIPT x".into(), attributes: None };
    let blob = Resp3Frame::BlobError { data: "LOADING y".into(), attributes: None };
    let nested = Resp3Frame::Array { data: vec![Resp3Frame::Null, simple.clone()], attributes: None };
    for (frame, kind, told) in [
        (simple, FaultKind::Rejected, "NOSCRIPT x"),
        (blob, FaultKind::Busy, "LOADING y"),
        (nested, FaultKind::Rejected, "NOSCRIPT x"),
    ] {
        let fault = fault(received(frame).unwrap_err());
        assert!(fault.kind() == kind && fault.to_string().starts_with(told), "{fault:?}");
    }
}

#[test]
fn certificate_alert_is_not_blamed_on_a_plain_port() {
    let told = handshake("Custom { kind: InvalidData, error: AlertReceived(CertificateRequired) }", false);
    assert_eq!(
        told,
        "TLS failed: the server accepts only clients with a certificate; give a certificate and its key (client_certificate; in the command --tls-cert and --tls-key)"
    );
}

/// At the machine's limit of threads, fred can connect only if there is an idle thread.
#[test]
fn probe_keeps_a_thread_for_the_next_connection() {
    let started = Arc::new(AtomicU32::new(0));
    let counted = started.clone();
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let counts = move || {
        counted.fetch_add(1, Relaxed);
    };
    let runtime = builder.enable_time().on_thread_start(counts).build().unwrap();
    runtime.block_on(async {
        let client = Client::new(config(&endpoint("redis://eu"), None).unwrap(), None, None, None);
        let message = ReusableBoxFuture::new(message(client.message_rx()));
        #[allow(clippy::disallowed_methods, reason = "fred's `ConnectHandle` is the handle of a Tokio task")]
        let task = tokio::spawn(std::future::pending());
        let slots = Arc::new(Slots::new(client.clone()));
        let connection = FredConnection { client, task, slots, message };
        drop(connection.send("EVALSHA", &[]));
        let before = started.load(Relaxed);
        drop(connection.send("INFO", &[]));
        while started.load(Relaxed) == before {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        assert_eq!((before, started.load(Relaxed)), (0, 1));
    });
}
