//! One connection: its requests, its locks, and its end.

use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request};
use hyper_util::rt::TokioIo;
use tokio::io::join;
use tokio::time::timeout;

use super::agent::{Agent, Client};
use super::busy::Requests;
use super::errors::Refusal;
use super::http;
use super::stream::{Reader, Reading, Socket, Writing};

/// A connection without locks is closed if it was idle for this time.
const IDLE: Duration = Duration::from_secs(600);
/// The longest head of a request.
const HEAD: usize = 64 * 1024;
/// How long a refused connection may last: the client sends one request, and reads the answer.
const REFUSAL: Duration = Duration::from_secs(3);

/// Serves a connection until it is closed. If the client closes it, the client's locks are
/// released.
pub(super) async fn serve(agent: Arc<Agent>, socket: Socket) {
    let (peer, port) = match socket.sides() {
        Ok(sides) => sides,
        Err(error) => return tracing::warn!(%error, "a connection was refused: its client is unknown"),
    };
    tracing::debug!(uid = peer.uid, pid = peer.pid, "a client has connected");
    // The end of this function drops `client`, which releases the locks.
    let client = match agent.enter(peer, port) {
        Ok(client) => client,
        Err(refusal) => return refuse(&agent.outside(peer, port), socket, &refusal).await,
    };
    let (reading, writing) = socket.split();
    // A panic must not release the locks.
    let answering = AssertUnwindSafe(answer_requests(&client, reading.clone(), writing)).catch_unwind();
    tokio::select! {
        biased;
        // The client has gone: withdraw its request.
        () = reading.closed() => return,
        _ = answering => {}
    }
    if reading.is_over() {
        return;
    }
    // Now the agent closes the connection. The client may go on with its locks, so a close of its
    // side must not release them.
    agent.cut(client.id);
    if agent.table().locks_of(client.id) > 0 {
        reading.closed().await;
    }
}

/// Answers requests until the connection ends, or has been idle for too long without a lock.
async fn answer_requests(client: &Client, reading: Arc<Reading>, writing: Writing) {
    let requests = Arc::new(Requests::new());
    let stream = TokioIo::new(join(Reader::new(reading, requests.clone()), writing));
    let service = service_fn(|request| http::answer(client, &requests, request));
    let mut connection = pin!(http1::Builder::new().max_buf_size(HEAD).serve_connection(stream, service));
    let mut look = IDLE;
    loop {
        match timeout(look, connection.as_mut()).await {
            Ok(Ok(())) => return,
            Ok(Err(error)) => {
                return tracing::debug!(uid = client.peer.uid, pid = client.peer.pid, %error, "a connection failed");
            }
            Err(_) if client.agent.table().locks_of(client.id) > 0 => look = IDLE,
            Err(_) => look = IDLE.saturating_sub(requests.idle()),
        }
        if look.is_zero() {
            return;
        }
    }
}

/// Refuses a connection with an answer, or without one if too many are being refused. Still carries
/// out a `DELETE`: it makes room, and the client may have no other way to report a failed job.
async fn refuse(client: &Client, socket: Socket, refusal: &Refusal) {
    let Ok(_one) = client.agent.refusals.try_acquire() else { return };
    let (reading, writing) = socket.split();
    let requests = Arc::new(Requests::new());
    let reader = Reader::new(reading, requests.clone());
    let requests = &requests;
    let service = service_fn(|request: Request<Incoming>| async move {
        match *request.method() {
            Method::DELETE => http::answer(client, requests, request).await,
            _ => Ok(http::refused(refusal)),
        }
    });
    let connection =
        http1::Builder::new().keep_alive(false).serve_connection(TokioIo::new(join(reader, writing)), service);
    let _ = timeout(REFUSAL, connection).await;
}
