//! One connection: its requests, its locks, and its end.

use std::error::Error;
use std::future::poll_fn;
use std::io;
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use futures::FutureExt;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request};
use hyper_util::rt::TokioIo;
use tokio::io::join;
use tokio::time::{sleep, timeout};

use super::agent::{Agent, Client};
use super::busy::Requests;
use super::errors::Refusal;
use super::http;
use super::stream::{Reader, Socket, Writer, has_gone};

/// A connection without locks is closed if it was idle for this time.
const IDLE: Duration = Duration::from_secs(600);
/// The longest head of a request.
const HEAD: usize = 64 * 1024;
/// How long a client that is not let in has for its request, and for the answer.
const REFUSAL: Duration = Duration::from_secs(3);

/// Serves a connection until it is closed. If the client has closed it, its locks are released.
pub(super) async fn serve(agent: Arc<Agent>, socket: Socket) {
    let (peer, port) = match socket.sides() {
        Ok(sides) => sides,
        Err(error) => return tracing::warn!(%error, "a connection was refused: its client is unknown"),
    };
    tracing::debug!(uid = peer.uid, pid = peer.pid, "a client has connected");
    // Dropped at last, whatever happens: this releases the locks.
    let client = match agent.enter(peer, port) {
        Ok(client) => client,
        Err(refusal) => return refuse(&agent.outside(peer, port), socket, &refusal).await,
    };
    let (reading, writing) = socket.split();
    let requests = Arc::new(Requests::new());
    let (reader, writer) = (Reader::new(reading.clone(), requests.clone()), Writer::new(writing, &client));
    let stream = TokioIo::new(join(reader, writer));
    // A panic must not release the locks.
    let answering = AssertUnwindSafe(answer_requests(&client, &requests, stream)).catch_unwind();
    tokio::select! {
        biased;
        // The client has gone: withdraw its request.
        () = reading.closed() => return,
        closing = answering => {
            if reading.is_over() || matches!(closing, Ok(Closing::ByClient)) {
                return;
            }
        }
    }
    // The agent closes the connection. The client may still work with its locks, and may close its
    // side without letting go of them.
    agent.cut(client.id);
    let emptied = agent.table().emptied(client.id);
    tokio::select! {
        () = reading.closed() => {}
        () = emptied.cancelled() => {}
    }
}

/// Who has closed a connection.
enum Closing {
    ByAgent,
    ByClient,
}

async fn answer_requests<S>(client: &Client, requests: &Arc<Requests>, stream: S) -> Closing
where
    S: hyper::rt::Read + hyper::rt::Write + Unpin,
{
    let service = service_fn(|request| http::answer(client, requests, request));
    let mut connection = pin!(http1::Builder::new().max_buf_size(HEAD).serve_connection(stream, service));
    let agent = &client.agent;
    let mut look = IDLE;
    loop {
        let stopped = async {
            agent.stopped.cancelled().await;
            // Requests begin and end only in a poll of `connection`, which comes just before this one.
            poll_fn(|_| if matches!(requests.idle_after(), Some(1..)) { Poll::Ready(()) } else { Poll::Pending }).await;
        };
        tokio::select! {
            biased;
            ended = connection.as_mut() => return closing(client, ended),
            // Requests that wait have been answered. A new connection is for one request: its client may
            // want to release a lock.
            () = stopped => {
                // After an answer 410, the client lets go of its locks by a close. So the agent must not
                // close first: the client's library might then do so by itself.
                if !client.end_is_told() {
                    agent.cut(client.id);
                    connection.as_mut().graceful_shutdown();
                }
                return closing(client, connection.await);
            }
            () = sleep(look) => {
                let left = IDLE.saturating_sub(requests.idle());
                let has_locks = agent.table().locks_of(client.id) > 0;
                if left.is_zero() && !has_locks {
                    return Closing::ByAgent;
                }
                look = if has_locks { IDLE } else { left };
            }
        }
    }
}

/// Who has closed a connection that hyper has ended. (The closes that reads have found are in
/// `Reading`.)
fn closing(client: &Client, ended: hyper::Result<()>) -> Closing {
    let Err(error) = ended else { return Closing::ByAgent };
    tracing::debug!(uid = client.peer.uid, pid = client.peer.pid, %error, "a connection failed");
    let error = error.source().and_then(|source| source.downcast_ref::<io::Error>());
    if error.is_some_and(has_gone) { Closing::ByClient } else { Closing::ByAgent }
}

/// Tells a client that there are too many, unless too many are being told so. A release is carried
/// out all the same: it makes room, and the client may have no other way to say that a job failed.
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
