//! Addresses at which another program answers, or a server with a fault.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::Duration;

use quorumlock::{NodeState, Quorum};

use crate::common::fake::{Fake, bulk, well};
use crate::common::logs::Logs;
use crate::common::{PATIENCE, eventually};
use crate::{SECOND, builder, refused};

#[tokio::test]
async fn a_server_that_is_loading_is_told_as_such() {
    let fake = Fake::start(|words| match &*words[0] {
        "HELLO" | "INFO" => well(words),
        _ => b"-LOADING Redis is loading the dataset in memory\r\n".to_vec(),
    })
    .await;
    assert!(refused(builder(&[fake.url()]), "will answer when that is done").await.is_unavailable());
}

/// Waits until the error of a try contains `says`. If the machine stalls, the server may not answer
/// in time.
async fn is_refused(quorum: &Quorum, says: &str) {
    eventually(says, async || {
        let error = quorum.lock("a").try_acquire().await.unwrap_err();
        assert!(error.is_unavailable(), "{error}");
        error.to_string().contains(says)
    })
    .await;
}

#[tokio::test]
async fn a_server_that_starts_to_load_does_not_vote() {
    let fake = Fake::scripted("-LOADING Redis is loading the dataset in memory\r\n").await;
    let quorum = builder(&[fake.url()]).connect().await.unwrap();
    is_refused(&quorum, "LOADING").await;
}

#[tokio::test]
async fn a_server_that_has_become_readonly_is_out() {
    let operation =
        "*3\r\n$10\r\n1 0 1 fake\r\n$0\r\n\r\n*3\r\n:1\r\n$5\r\nerror\r\n$26\r\nREADONLY You can't write a\r\n";
    let fake = Fake::scripted(operation).await;
    let quorum = builder(&[fake.url()]).connect().await.unwrap();
    is_refused(&quorum, "configure its master").await;
    let fake = Fake::scripted("-READONLY You can't write against a read only replica.\r\n").await;
    let quorum = builder(&[fake.url()]).connect().await.unwrap();
    assert!(quorum.lock("a").try_acquire().await.unwrap_err().is_unavailable());
    eventually("its connection has ended", async || !quorum.nodes()[0].state.is_admitted()).await;
}

#[tokio::test]
async fn a_reply_that_is_not_ours_is_no_vote() {
    for answer in [
        "+OK\r\n",
        "_\r\n",
        ":1\r\n",
        "*0\r\n",
        "%0\r\n",
        "*3\r\n$10\r\n1 0 1 fake\r\n$0\r\n\r\n*2\r\n:1\r\n$6\r\nhealed\r\n",
        "*3\r\n$10\r\n1 0 1 fake\r\n$0\r\n\r\n*2\r\n:1\r\n$4\r\nheld\r\n",
        "*3\r\n$10\r\n1 0 1 fake\r\n$0\r\n\r\n*1\r\n$7\r\ngranted\r\n",
        "*3\r\n$10\r\n1 0 1 fake\r\n$0\r\n\r\n*2\r\n:2\r\n$7\r\ngranted\r\n",
        "$10\r\n1 0 2 fake\r\n",
        "$10\r\n1 0 r fake\r\n",
        "$10\r\nx 0 1 fake\r\n",
        "*3\r\n$1\r\nx\r\n$0\r\n\r\n*3\r\n:1\r\n$7\r\ngranted\r\n:1\r\n",
    ] {
        let fake = Fake::scripted(answer).await;
        let quorum = builder(&[fake.url()]).connect().await.unwrap();
        is_refused(&quorum, "not from our scripts").await;
    }
}

#[tokio::test]
async fn garbage_is_no_vote_and_no_panic() {
    for answer in ["HTTP/1.1 400 Bad Request\r\n\r\n", "\0\u{1}\u{2}\u{3}\r\n", "*99999999999\r\n", "$5\r\nabc"] {
        let fake = Fake::start(|_| answer.as_bytes().to_vec()).await;
        let short = builder(&[fake.url()]).node_timeout(Duration::from_millis(100));
        let error = refused(short, "").await;
        assert!(error.is_unavailable() && error.nodes().len() == 1, "{answer:?}: {error}");
        let fake = Fake::scripted(answer).await;
        let short = builder(&[fake.url()]).node_timeout(Duration::from_millis(100)).connect().await.unwrap();
        let error = short.lock("a").try_acquire().await.unwrap_err();
        assert!(error.is_unavailable(), "{answer:?}: {error}");
    }
}

#[tokio::test]
async fn server_of_another_protocol_is_reported_as_such() {
    for answer in
        ["HTTP/1.1 400 Bad Request\r\n\r\n", "SSH-2.0-OpenSSH_9.2\r\n", "ERROR\r\n", "\u{15}\u{3}\u{1}\0\u{2}\r\n"]
    {
        let fake = Fake::start(|_| answer.as_bytes().to_vec()).await;
        refused(builder(&[fake.url()]).node_timeout(SECOND / 2), "does not speak the Redis protocol").await;
    }
}

#[tokio::test]
async fn a_host_that_cannot_be_found_is_told_in_words() {
    let logs = Logs::capture();
    let error = refused(builder(&[format!("redis://{}", "x".repeat(300))]), "failed to lookup address").await;
    let mut shown = format!("{error} {error:?}");
    let mut source = std::error::Error::source(&error);
    while let Some(cause) = source {
        shown += &cause.to_string();
        source = cause.source();
    }
    shown.extend(logs.text().lines().filter(|line| line.contains(" quorumlock::")));
    assert!(!shown.contains("Custom {"), "{shown}");
}

#[tokio::test]
async fn a_server_without_hello_is_told_to_be_too_old() {
    let old = b"-ERR unknown command 'HELLO', with args beginning with: '3'\r\n";
    let fake = Fake::start(|words| if words[0] == "HELLO" { old.to_vec() } else { well(words) }).await;
    refused(builder(&[fake.url()]), "Redis 6 or later").await;
}

#[tokio::test]
async fn a_port_that_hangs_up_or_says_nothing_is_told_as_such() {
    let silent = Fake::start(|_| Vec::new()).await;
    let short = builder(&[silent.url()]).node_timeout(Duration::from_millis(100));
    refused(short, "no answer to HELLO").await;
    refused(builder(&["redis://127.0.0.1:1".to_owned()]), "Connection refused").await;
}

#[tokio::test]
async fn server_without_a_run_id_is_refused() {
    let fake = Fake::start(|words| if words[0] == "INFO" { bulk("hello") } else { well(words) }).await;
    refused(builder(&[fake.url()]), "is this a Redis or Valkey server?").await;
}

#[tokio::test]
async fn down_node_is_warned_of_once_and_closed_node_never() {
    let logs = Logs::capture();
    let dials = Arc::new(AtomicU32::new(0));
    let counted = dials.clone();
    let refusing = Fake::start(move |words| {
        counted.fetch_add(u32::from(words[0] == "HELLO"), Relaxed);
        b"-ERR not today\r\n".to_vec()
    })
    .await;
    let sound = Fake::scripted("").await;
    // The longest allowed timeout, so that the sound node stays up if the test stalls.
    let quorum = builder(&[refusing.url(), sound.url()]).node_timeout(Duration::from_secs(60)).open().unwrap();
    let state = |node: usize| quorum.nodes()[node].state.clone();
    eventually("one is up", async || state(1) == NodeState::Up).await;
    eventually("the other was dialed again and again", async || dials.load(Relaxed) > 3).await;
    quorum.shutdown(PATIENCE).await;
    eventually("both are closed", async || !state(1).is_admitted()).await;
    let text = logs.text();
    let warned: Vec<_> = text.lines().filter(|line| line.starts_with("WARN") && line.contains("down: ")).collect();
    assert!(warned.len() == 1 && warned[0].contains("not today"), "{warned:?}");
}
