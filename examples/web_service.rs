//! A web service that acquires a lock for each request. So only one request at a time ships an
//! order, even if the requests reach different servers.
//!
//! ```sh
//! quorumlock sandbox -- sh    # a shell with five servers; in that shell:
//! cargo run --example web_service -- 127.0.0.1:8080 &
//! curl -X POST http://127.0.0.1:8080/orders/42/ship
//! ```
//!
//! The status is 200 if the order is shipped, 409 if another request is shipping it, and 503 if the
//! client should try later. (It is 404 for any other request, and 400 if the order's name cannot be
//! a lock's name.) If a client disconnects, hyper drops the request's future. This drops the guard,
//! which releases the lock in the background.
//!
//! The service uses only hyper. With axum, make the quorum the router's state and `ship` a handler.
#![allow(clippy::disallowed_methods, reason = "that rule is for the library, which tests run on a virtual clock")]

use std::convert::Infallible;
use std::time::Duration;

use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use quorumlock::{LockGuard, Quorum, Result};
use tokio::net::{TcpListener, TcpStream};

/// How long a request waits if another request is shipping the same order. This time is short,
/// because the client waits for its response meanwhile.
const WAIT: Duration = Duration::from_millis(250);

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:8080".to_owned());
    // Make one quorum for the whole service. It has one connection to each node.
    let quorum = connected().await?;
    let listener = TcpListener::bind(&address).await?;
    tokio::select! {
        // List Ctrl-C first: `select!` then installs its handler before any work begins.
        biased;
        interrupted = tokio::signal::ctrl_c() => interrupted?,
        never = serve(&listener, &quorum) => never?,
    }
    // Releases all locks, so that other servers can get them. From now on, no request can acquire a
    // lock.
    quorum.shutdown(Duration::from_secs(5)).await;
    Ok(())
}

async fn serve(listener: &TcpListener, quorum: &Quorum) -> std::io::Result<()> {
    println!("listening on http://{}", listener.local_addr()?);
    loop {
        let (stream, _) = listener.accept().await?;
        // Clones of the quorum are cheap, and share its connections.
        tokio::spawn(connection(stream, quorum.clone()));
    }
}

async fn connection(stream: TcpStream, quorum: Quorum) {
    let service = service_fn(|request| answer(request, &quorum));
    if let Err(error) = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await {
        eprintln!("a connection failed: {error}");
    }
}

async fn answer(request: Request<Incoming>, quorum: &Quorum) -> Result<Response<String>, Infallible> {
    let order = request.uri().path().strip_prefix("/orders/").and_then(|rest| rest.strip_suffix("/ship"));
    let (status, text) = match (request.method(), order) {
        (&Method::POST, Some(order)) => said(ship(quorum, order).await),
        _ => (StatusCode::NOT_FOUND, "POST /orders/ID/ship\n".to_owned()),
    };
    let mut response = Response::new(text);
    *response.status_mut() = status;
    Ok(response)
}

/// Ships one order under its lock.
async fn ship(quorum: &Quorum, order: &str) -> Result<u64> {
    let guard = quorum.lock(format!("orders/{order}")).acquire(WAIT).await?;
    let token = guard.token();
    write(&guard).await?;
    // Waits until a quorum has confirmed the release. To respond sooner, drop the guard instead.
    guard.release().await?;
    Ok(token)
}

/// A placeholder for a write to a database. The database must refuse a token below an earlier
/// token: `UPDATE orders SET state = 'shipped', token = $1 WHERE id = $2 AND token <= $1`.
async fn write(guard: &LockGuard) -> Result<()> {
    guard.ensure(Duration::from_secs(1))?;
    tokio::time::sleep(Duration::from_millis(20)).await;
    Ok(())
}

/// Makes the response. If another request has the lock, the client should not try again at once
/// (409). If nobody can tell who has it, the client should try later (503).
fn said(shipped: Result<u64>) -> (StatusCode, String) {
    match shipped {
        Ok(token) => (StatusCode::OK, format!("shipped, with token {token}\n")),
        Err(error) if error.is_timeout() => (StatusCode::CONFLICT, "another request is shipping it\n".to_owned()),
        Err(error) if error.is_config() => (StatusCode::BAD_REQUEST, format!("{error}\n")),
        Err(error) => {
            // Show this error only to operators: it has the addresses of the nodes.
            eprintln!("cannot ship: {error}");
            (StatusCode::SERVICE_UNAVAILABLE, "try again later\n".to_owned())
        }
    }
}

/// Connects to the nodes in QUORUMLOCK_NODES. Without this variable, makes nodes in memory, so that
/// this example runs without servers. A real program only calls `Quorum::from_env()`: locks in
/// memory exclude only callers of this process.
async fn connected() -> Result<Quorum> {
    if std::env::var_os("QUORUMLOCK_NODES").is_some() {
        return Quorum::from_env().await;
    }
    eprintln!("QUORUMLOCK_NODES is not set: three nodes in memory");
    Quorum::in_memory(3)
}
