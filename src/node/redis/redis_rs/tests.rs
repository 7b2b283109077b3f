//! Tests of one redis-rs connection to a scripted server.
#![allow(clippy::disallowed_methods, reason = "these are tests")]

use std::future::poll_fn;

use futures::future::{join, join_all};
use redis::{ErrorKind, RedisError};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::yield_now;

use super::*;

/// The time limit for replies that must come.
const PATIENCE: Duration = Duration::from_secs(30);
const HELLO: &[u8] = b"%1\r\n$5\r\nproto\r\n:3\r\n";

fn endpoint(port: u16) -> Endpoint {
    Endpoint::parse(&format!("redis://127.0.0.1:{port}")).unwrap()
}

async fn listener() -> (TcpListener, Endpoint) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    (listener, endpoint(port))
}

/// A connection after its HELLO, and the server's end of this connection.
async fn connected() -> (Box<dyn Connection>, TcpStream) {
    let (listener, endpoint) = listener().await;
    let dialer = RedisRs::new(endpoint.into());
    let greeted = async {
        let (mut server, _) = listener.accept().await.unwrap();
        assert!(heard(&mut server, "HELLO\r\n$1\r\n3\r\n").await.starts_with("*2\r\n"));
        server.write_all(HELLO).await.unwrap();
        server
    };
    let (connection, server) = join(dialer.dial(PATIENCE), greeted).await;
    (connection.unwrap(), server)
}

/// Reads the client's commands until the text ends with `last`. Returns this text.
async fn heard(server: &mut TcpStream, last: &str) -> String {
    let mut all = Vec::new();
    while !String::from_utf8_lossy(&all).ends_with(last) {
        assert!(server.read_buf(&mut all).await.unwrap() > 0, "{:?}", String::from_utf8_lossy(&all));
    }
    String::from_utf8(all).unwrap()
}

fn kind<T>(answer: Result<T, Fault>) -> FaultKind {
    answer.err().unwrap().kind()
}

#[tokio::test]
async fn commands_are_sent_in_order_even_if_replies_are_dropped() {
    let (connection, mut server) = connected().await;
    let arguments = [Argument::Text("a"), Argument::Integer(-7), Argument::Text("\0\r\n")];
    drop(connection.send("FIRST", &arguments));
    drop(connection.send("SECOND", &[Argument::Word("b")]));
    let said = heard(&mut server, "*2\r\n$6\r\nSECOND\r\n$1\r\nb\r\n").await;
    assert!(said.starts_with("*4\r\n$5\r\nFIRST\r\n$1\r\na\r\n$2\r\n-7\r\n$3\r\n\0\r\n\r\n"), "{said:?}");
    // The third command must not get a reply to one of the first two.
    let third = connection.send("THIRD", &[]);
    heard(&mut server, "THIRD\r\n").await;
    server.write_all(b"+1\r\n+2\r\n+3\r\n").await.unwrap();
    assert_eq!(third.await.unwrap(), "3".into());
}

#[tokio::test]
async fn replies_of_every_kind_are_understood() {
    let (connection, mut server) = connected().await;
    for (sent, value) in [
        ("+OK\r\n", "OK".into()),
        (":-3\r\n", (-3).into()),
        ("$-1\r\n", Value::Null),
        ("_\r\n", Value::Null),
        ("=6\r\ntxt:ab\r\n", "ab".into()),
        ("%1\r\n+a\r\n+b\r\n", Value::Null),
        ("*3\r\n+a\r\n$0\r\n\r\n*1\r\n:1\r\n", Value::Array(vec!["a".into(), "".into(), Value::Array(vec![1.into()])])),
        ("*1\r\n-ERR inside\r\n", Value::Array(vec![Value::Null])),
    ] {
        let answer = connection.send("ASK", &[]);
        server.write_all(sent.as_bytes()).await.unwrap();
        assert_eq!(answer.await.unwrap(), value, "{sent:?}");
    }
}

#[tokio::test]
async fn server_refusal_is_reported_in_its_own_words() {
    let (connection, mut server) = connected().await;
    for (said, kind) in [
        ("NOSCRIPT No matching script. Please use EVAL.", FaultKind::Rejected),
        ("READONLY You can't write against a read only replica.", FaultKind::Rejected),
        ("ERR whatever", FaultKind::Rejected),
        ("ODD", FaultKind::Rejected),
        ("OOM command not allowed", FaultKind::Busy),
        ("LOADING Redis is loading", FaultKind::Busy),
    ] {
        let answer = connection.send("ASK", &[]);
        server.write_all(format!("-{said}\r\n").as_bytes()).await.unwrap();
        let fault = answer.await.unwrap_err();
        let told = fault.to_string();
        assert!(fault.kind() == kind && told.starts_with(said.trim_end_matches('.')), "{said}: {told}");
    }
    let subscribed = connection.subscribe(&["channel".to_owned()]);
    server.write_all(b"-NOPERM this user has no permissions to access one of the channels\r\n").await.unwrap();
    let fault = subscribed.await.unwrap_err();
    assert!(
        fault.kind() == FaultKind::Rejected && fault.to_string().contains("the channels: &quorumlock:*"),
        "{fault}"
    );
}

#[tokio::test]
async fn a_reply_that_nobody_waits_for_is_not_taken_for_the_next() {
    let (connection, mut server) = connected().await;
    drop(connection.send("LATE", &[]));
    let next = connection.send("NEXT", &[]);
    server.write_all(b"+late\r\n+next\r\n").await.unwrap();
    assert_eq!(next.await.unwrap(), "next".into());
}

#[tokio::test]
async fn messages_come_as_events_and_an_end_is_told_with_its_reason() {
    let (mut connection, mut server) = connected().await;
    let subscribed = connection.subscribe(&["channel".to_owned()]);
    server.write_all(b">3\r\n$9\r\nsubscribe\r\n$7\r\nchannel\r\n:1\r\n").await.unwrap();
    subscribed.await.unwrap();
    let asked = connection.send("ASK", &[]);
    server.write_all(b">3\r\n$7\r\nmessage\r\n$7\r\nchannel\r\n$2\r\nhi\r\n+OK\r\n").await.unwrap();
    asked.await.unwrap();
    let next = async |connection: &mut Box<dyn Connection>| poll_fn(|context| connection.poll_event(context)).await;
    assert_eq!(next(&mut connection).await, Event::Message("hi".to_owned()));
    let unanswered = connection.send("ASK", &[]);
    heard(&mut server, "ASK\r\n").await;
    drop(server);
    assert!(matches!(next(&mut connection).await, Event::Ended(why) if why == "the connection ended"));
    assert_eq!(kind(unanswered.await), FaultKind::Closed);
    assert_eq!(kind(connection.send("ASK", &[]).await), FaultKind::Closed);
}

#[tokio::test]
async fn foreign_protocol_ends_the_connection_with_that_reason() {
    let (mut connection, mut server) = connected().await;
    let asked = connection.send("ASK", &[]);
    server.write_all(b"HTTP/1.1 400 Bad Request\r\n").await.unwrap();
    assert_eq!(kind(asked.await), FaultKind::Garbled);
    let event = poll_fn(|context| connection.poll_event(context)).await;
    assert!(matches!(event, Event::Ended(why) if why.contains("does not speak the Redis protocol")));
}

#[tokio::test]
async fn caller_gets_its_reply_after_a_later_caller_has_gone() {
    let (connection, mut server) = connected().await;
    let first = connection.send("FIRST", &[]);
    let mut second = Box::pin(tokio::task::unconstrained(connection.send("SECOND", &[])));
    let waiting = tokio::spawn(first);
    yield_now().await;
    // The task that waits for the second reply is the last one that registered with the socket.
    assert!(second.as_mut().now_or_never().is_none());
    drop(second);
    server.write_all(b"+1\r\n+2\r\n").await.unwrap();
    assert_eq!(waiting.await.unwrap().unwrap(), "1".into());
}

#[tokio::test]
async fn dropping_a_connection_closes_it_and_answers_all_that_waits() {
    let (connection, mut server) = connected().await;
    let answers = join_all([connection.send("ASK", &[]), connection.send("ASK", &[])]);
    let answers = tokio::spawn(answers);
    yield_now().await;
    drop(connection);
    assert!(answers.await.unwrap().into_iter().all(|answer| kind(answer) == FaultKind::Closed));
    let mut rest = Vec::new();
    server.read_to_end(&mut rest).await.unwrap();
}

/// On the single thread of this test, a reader that never stops blocks all other tasks.
#[tokio::test]
async fn endless_messages_starve_no_task_and_fill_no_memory() {
    let (mut connection, server) = connected().await;
    let flood = b">3\r\n$7\r\nmessage\r\n$7\r\nchannel\r\n$2\r\nhi\r\n".repeat(1_000);
    let flooding = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let server = server.into_std().unwrap();
        runtime.block_on(async move {
            let mut server = TcpStream::from_std(server).unwrap();
            while server.write_all(&flood).await.is_ok() {}
        });
    });
    let mut missed = 0;
    while missed < 10 {
        let event = poll_fn(|context| connection.poll_event(context)).await;
        assert!(matches!(event, Event::Missed | Event::Message(_)), "{event:?}");
        missed += u32::from(event == Event::Missed);
        // Let other tasks run between reads.
        yield_now().await;
    }
    drop(connection);
    flooding.join().unwrap();
}

#[tokio::test]
async fn a_server_that_cannot_be_used_is_told_with_its_reason() {
    for (answer, told) in [
        ("-WRONGPASS invalid username-password pair or user is disabled.\r\n", "check user and password"),
        ("-NOAUTH HELLO must be called with the client already authenticated\r\n", "the server needs a password"),
        ("-ERR unknown command `HELLO`, with args beginning with: `3`\r\n", "Redis 6 or later"),
        ("-ERR unknown command 'HELLO', with args beginning with: '3'\r\n", "Redis 6 or later"),
        ("HTTP/1.1 400 Bad Request\r\n", "If it expects TLS, write rediss://"),
        ("", "if this port expects TLS, write rediss://"),
    ] {
        let (listener, endpoint) = listener().await;
        let dialer = RedisRs::new(endpoint.into());
        let refusing = async {
            let (mut server, _) = listener.accept().await.unwrap();
            heard(&mut server, "3\r\n").await;
            server.write_all(answer.as_bytes()).await.unwrap();
        };
        let (fault, ()) = join(dialer.dial(PATIENCE), refusing).await;
        let fault = fault.err().unwrap();
        assert!(fault.kind() == FaultKind::Down && fault.to_string().contains(told), "{answer:?}: {fault}");
    }
}

#[test]
fn redis_rs_gets_login_and_database_and_sends_no_library_name() {
    let secret = Endpoint::parse("redis://user:word@us/2").unwrap();
    let info = greeting(&secret);
    assert_eq!((info.username(), info.password(), info.db()), (Some("user"), Some("word"), 2));
    assert!(info.skip_set_lib_name() && info.protocol() == ProtocolVersion::RESP3);
    let plain = greeting(&endpoint(1));
    assert_eq!((plain.username(), plain.password(), plain.db()), (None, None, 0));
}

#[test]
fn text_of_redis_rs_is_left_out_of_server_errors() {
    let words = "Redis server refused to switch database";
    let code = redis::ServerErrorKind::ResponseError.into();
    let refused = RedisError::from((code, words, "DB index is out of range".to_owned()));
    let told = unusable(&endpoint(1), &refused, &Log::default()).to_string();
    assert_eq!(told, "ERR DB index is out of range");
    let other = RedisError::from((ErrorKind::Client, "whatever"));
    assert!(fault(&other).to_string().contains("whatever"));
}

#[tokio::test]
async fn endless_or_deeply_nested_reply_is_garbled() {
    for endless in ["*1\r\n".repeat(10_000), "*9999999999999\r\n".repeat(200), "%1\r\n".repeat(10_000)] {
        let (connection, mut server) = connected().await;
        let asked = connection.send("ASK", &[]);
        server.write_all(endless.as_bytes()).await.unwrap();
        assert_eq!(kind(asked.await), FaultKind::Garbled);
    }
}
