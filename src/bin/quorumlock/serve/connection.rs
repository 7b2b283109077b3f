//! One connection: its requests, its locks, and its end.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::io::join;
use tokio::time::{sleep, sleep_until, timeout};

use super::agent::{Agent, Client};
use super::busy::Requests;
use super::errors::Refusal;
use super::http;
use super::stream::{Reader, Socket};

/// A connection without locks is closed if it was idle for this time.
const IDLE: Duration = Duration::from_secs(600);
/// The longest head of a request.
const HEAD: usize = 64 * 1024;
/// How long a client that is not let in has for its request.
const REFUSAL: Duration = Duration::from_secs(1);

/// Serves a connection until it is closed. Then its locks are released.
pub(super) async fn serve(agent: Arc<Agent>, socket: Socket) {
    let peer = socket.peer();
    tracing::debug!(uid = peer.uid, pid = peer.pid, "a client has connected");
    // Dropped at last, whatever happens: this releases the locks.
    let client = match agent.enter(peer, socket.is_tcp()) {
        Ok(client) => client,
        Err(refusal) => return refuse(&agent, socket, &refusal).await,
    };
    let (reading, writing) = socket.split();
    let requests = Arc::new(Requests::new());
    let reader = Reader::new(reading.clone(), requests.clone());
    tokio::select! {
        biased;
        // The client has gone: withdraw its request.
        () = reading.closed() => return,
        () = answer_requests(&client, &requests, TokioIo::new(join(reader, writing))) => {}
    }
    // The agent has closed the connection. The client may not have noticed, and may still work.
    // On another connection, it may hear of later deadlines meanwhile.
    while let Some(told) = agent.told(client.id) {
        tokio::select! {
            () = reading.closed() => return,
            () = sleep_until(told.into()) => {}
        }
    }
}

async fn answer_requests<S>(client: &Client, requests: &Arc<Requests>, stream: S)
where
    S: hyper::rt::Read + hyper::rt::Write + Unpin,
{
    let service = service_fn(|request| http::answer(client, requests, request));
    let mut connection = pin!(http1::Builder::new().max_buf_size(HEAD).serve_connection(stream, service));
    let agent = &client.agent;
    let mut look = IDLE;
    loop {
        tokio::select! {
            biased;
            ended = connection.as_mut() => {
                if let Err(error) = ended {
                    tracing::debug!(uid = client.peer.uid, pid = client.peer.pid, %error, "a connection failed");
                }
                return;
            }
            // Requests that wait are answered, and then hyper closes the connection.
            () = agent.stopped.cancelled() => {
                connection.as_mut().graceful_shutdown();
                let _ = connection.await;
                return;
            }
            () = sleep(look) => {
                let left = IDLE.saturating_sub(requests.idle());
                let has_locks = agent.table().locks_of(client.id) > 0;
                if left.is_zero() && !has_locks {
                    return;
                }
                look = if has_locks { IDLE } else { left };
            }
        }
    }
}

/// Tells a client that there are too many, unless too many are being told so.
async fn refuse(agent: &Agent, socket: Socket, refusal: &Refusal) {
    let Ok(_one) = agent.refusals.try_acquire() else { return };
    let (reading, writing) = socket.split();
    let reader = Reader::new(reading.clone(), Arc::new(Requests::new()));
    let service = service_fn(async |_| Ok::<_, std::convert::Infallible>(http::refused(refusal)));
    let connection =
        http1::Builder::new().keep_alive(false).serve_connection(TokioIo::new(join(reader, writing)), service);
    let _ = timeout(REFUSAL, connection).await;
}
