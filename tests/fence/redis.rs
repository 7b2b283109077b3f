//! Fenced commands of a real Redis.

use quorumlock::Quorum;
use quorumlock::fence::redis::{Call, Error};
use redis::aio::MultiplexedConnection;
use redis::{AsyncCommands, AsyncConnectionConfig, Client};

use super::common::server::Server;
use super::paused_and_next;
use super::writers::{Wrote, all_write, never_goes_back, tokens};

const FENCE: &str = "{orders/42}:fence";
const ORDER: &str = "{orders/42}";

async fn connected(server: &Server) -> MultiplexedConnection {
    // By default, an answer must come within half a second.
    let patient = AsyncConnectionConfig::new().set_connection_timeout(None).set_response_timeout(None);
    let client = Client::open(server.url()).unwrap();
    client.get_multiplexed_async_connection_with_config(&patient).await.unwrap()
}

async fn set(connection: &mut MultiplexedConnection, token: u64, state: &str) -> Result<(), Error> {
    Call::new(FENCE, token, "SET").key(ORDER).arg(state).query_async(connection).await
}

async fn read(connection: &mut MultiplexedConnection, token: u64) -> Result<Option<String>, Error> {
    Call::new(FENCE, token, "GET").key(ORDER).query_async(connection).await
}

async fn stored(connection: &mut MultiplexedConnection) -> (Option<u64>, Option<String>) {
    connection.mget(&[FENCE, ORDER]).await.unwrap()
}

#[track_caller]
fn is_stale<T>(result: Result<T, Error>, token: u64, seen: u64) {
    let Err(Error::Stale(stale)) = result else { panic!("a stale token passed") };
    assert_eq!((stale.token(), stale.seen()), (token, seen));
}

#[tokio::test]
async fn the_paused_holder_is_refused_after_the_next_one_wrote() {
    let server = Server::start().await;
    let mut connection = connected(&server).await;
    let quorum = Quorum::in_memory(3).unwrap();
    let (early, late) = paused_and_next(&quorum).await;
    set(&mut connection, early.token(), "packed").await.unwrap();
    set(&mut connection, late.token(), "shipped").await.unwrap();
    is_stale(set(&mut connection, early.token(), "cancelled").await, early.token(), late.token());
    is_stale(read(&mut connection, early.token()).await, early.token(), late.token());
    assert_eq!(stored(&mut connection).await, (Some(late.token()), Some("shipped".into())));
}

#[tokio::test]
async fn a_read_keeps_earlier_holders_from_writing_behind_it() {
    let server = Server::start().await;
    let mut connection = connected(&server).await;
    assert_eq!(read(&mut connection, 8).await.unwrap(), None);
    is_stale(set(&mut connection, 7, "cancelled").await, 7, 8);
    set(&mut connection, 8, "packed").await.unwrap();
    assert_eq!(read(&mut connection, 8).await.unwrap().as_deref(), Some("packed"));
    assert_eq!(read(&mut connection, 9).await.unwrap().as_deref(), Some("packed"));
    is_stale(set(&mut connection, 8, "cancelled").await, 8, 9);
}

/// Lua's numbers are exact only up to 2^53. If tokens have different lengths, their texts are not
/// in the order of the numbers.
#[tokio::test]
async fn tokens_are_compared_exactly() {
    let server = Server::start().await;
    let mut connection = connected(&server).await;
    let tokens =
        [9, 10, 99, 100, 1 << 53, (1 << 53) + 1, i64::MAX.unsigned_abs() - 1, i64::MAX.unsigned_abs(), u64::MAX];
    for pair in tokens.windows(2) {
        let () = connection.del(FENCE).await.unwrap();
        set(&mut connection, pair[1], "shipped").await.unwrap();
        is_stale(set(&mut connection, pair[0], "cancelled").await, pair[0], pair[1]);
        set(&mut connection, pair[1], "delivered").await.unwrap();
    }
}

#[tokio::test]
async fn fenced_command_runs_and_returns_its_reply() {
    let server = Server::start().await;
    let mut connection = connected(&server).await;
    let call = |command| Call::new("fence", 7, command);
    let count: i64 = call("HINCRBY").key("counts").arg("orders").arg("5").query_async(&mut connection).await.unwrap();
    assert_eq!(count, 5);
    let bytes: &[u8] = &[0, 255, b'\r', b'\n'];
    let () = call("SET").key("bytes").arg(bytes).query_async(&mut connection).await.unwrap();
    let both: Vec<Vec<u8>> = call("MGET").key("bytes").key("bytes").query_async(&mut connection).await.unwrap();
    assert_eq!(both, [bytes, bytes]);
}

#[tokio::test]
async fn a_command_that_fails_is_an_error_and_the_fence_is_raised() {
    let server = Server::start().await;
    let mut connection = connected(&server).await;
    let () = connection.rpush("list", "member").await.unwrap();
    let call = Call::new(FENCE, 7, "INCR").key("list");
    let error = call.query_async::<i64>(&mut connection).await.unwrap_err();
    assert!(matches!(&error, Error::Redis(said) if said.to_string().contains("WRONGTYPE")), "{error}");
    is_stale(set(&mut connection, 6, "cancelled").await, 6, 7);
}

#[tokio::test]
async fn a_key_with_something_else_is_no_fence() {
    let server = Server::start().await;
    let mut connection = connected(&server).await;
    for other in ["", "shipped", "-1", "7.5"] {
        let () = connection.set(FENCE, other).await.unwrap();
        let error = set(&mut connection, 7, "shipped").await.unwrap_err();
        assert!(error.to_string().contains("something else than a fencing token"), "{error}");
        assert_eq!(connection.get::<_, String>(FENCE).await.unwrap(), other);
    }
    assert_eq!(connection.get::<_, Option<String>>(ORDER).await.unwrap(), None);
}

/// The test sends the words of the call by itself, as any client could.
#[tokio::test]
async fn a_client_needs_no_more_than_eval() {
    let server = Server::start().await;
    let said = |token| {
        let call = Call::new(FENCE, token, "SET").key(ORDER).arg("shipped");
        let words = call.arguments().into_iter().map(|word| String::from_utf8(word).unwrap());
        let words: Vec<_> = ["EVAL".to_owned()].into_iter().chain(words).collect();
        server.command(&words.iter().map(String::as_str).collect::<Vec<_>>())
    };
    assert_eq!(said(8), "8 OK");
    assert_eq!(said(7).split(' ').next(), Some("8"));
}

#[tokio::test]
async fn redis_writes_of_many_tokens_end_in_order_at_the_highest() {
    let server = Server::start().await;
    let tokens = tokens();
    let highest = all_write(&tokens, async |token| {
        let mut connection = connected(&server).await;
        let call = Call::new("fence", token, "RPUSH").key("history").arg(token.to_string());
        match call.query_async::<i64>(&mut connection).await {
            Ok(_) => Wrote::Done,
            Err(Error::Stale(stale)) => Wrote::Stale { seen: stale.seen() },
            Err(error) => panic!("{error}"),
        }
    })
    .await;
    let history: Vec<u64> = connected(&server).await.lrange("history", 0, -1).await.unwrap();
    never_goes_back(&history);
    assert_eq!(history.last(), Some(&highest));
}
