//! `elect --http`: says over HTTP who leads, and whether this process leads.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use quorumlock::Quorum;
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::timeout;

use crate::election_state::{ElectionState, UNKNOWN};
use crate::failure::Failure;
use crate::held_lock::View;

/// How many requests are served at a time. Further ones wait.
const REQUESTS: usize = 64;
/// How long a request may take, from its connection on.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long the head of a request may take.
const HEAD: Duration = Duration::from_secs(2);
/// How long a request waits for the nodes.
const NODES: Duration = Duration::from_secs(7);
/// For so long, requests get what the nodes reported last.
const FRESH: Duration = Duration::from_secs(1);
/// The pause after a connection could not be accepted, as when files are used up.
const PAUSE: Duration = Duration::from_secs(1);

/// The address at which a process says who leads.
pub(super) struct Endpoint {
    quorum: Quorum,
    name: String,
    /// The lock of this process, while its command runs or is about to.
    held: Mutex<Option<View>>,
    seen: tokio::sync::Mutex<Option<(Instant, ElectionState)>>,
}

impl Endpoint {
    /// Opens the port.
    pub(super) async fn bind(address: SocketAddr) -> Result<TcpListener, Failure> {
        let failed = |error| Failure::usage(format!("--http {address} cannot be opened: {error}"));
        TcpListener::bind(address).await.map_err(failed)
    }

    /// Answers requests until this process ends.
    pub(super) fn serve(listener: TcpListener, quorum: Quorum, name: &str) -> Arc<Self> {
        let endpoint = Arc::new(Self {
            quorum,
            name: name.to_owned(),
            held: Mutex::default(),
            seen: tokio::sync::Mutex::default(),
        });
        tokio::spawn(endpoint.clone().accept(listener));
        endpoint
    }

    /// This process has acquired the lock, or has released it.
    pub(super) fn set(&self, held: Option<View>) {
        // The former answer of the nodes is outdated. (If a request waits for a new answer, that
        // answer may be outdated too, for FRESH at most.)
        if let Ok(mut seen) = self.seen.try_lock() {
            *seen = None;
        }
        *self.held.lock().unwrap_or_else(PoisonError::into_inner) = held;
    }

    fn leads(&self) -> bool {
        let held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        held.as_ref().is_some_and(|view| !view.remaining().is_zero())
    }

    async fn accept(self: Arc<Self>, listener: TcpListener) {
        let free = Arc::new(Semaphore::new(REQUESTS));
        while let Ok(one) = free.clone().acquire_owned().await {
            let socket = match listener.accept().await {
                Ok((socket, _)) => socket,
                Err(error) => {
                    tracing::warn!(%error, "the port of --http accepts no connection");
                    tokio::time::sleep(PAUSE).await;
                    continue;
                }
            };
            let endpoint = self.clone();
            tokio::spawn(async move {
                let _one = one;
                let _ = timeout(PATIENCE, endpoint.answer(socket)).await;
            });
        }
    }

    /// Answers one request.
    async fn answer(self: &Arc<Self>, socket: TcpStream) {
        let service = service_fn(async |request: Request<Incoming>| {
            let (status, body) = self.answered(request.method(), request.uri().path()).await;
            let mut response = Response::new(Full::new(Bytes::from(format!("{body}\n"))));
            *response.status_mut() = status;
            response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
            Ok::<_, Infallible>(response)
        });
        let mut server = http1::Builder::new();
        server.keep_alive(false).timer(TokioTimer::new()).header_read_timeout(HEAD);
        let _ = server.serve_connection(TokioIo::new(socket), service).await;
    }

    async fn answered(self: &Arc<Self>, method: &Method, path: &str) -> (StatusCode, Value) {
        match (method, path) {
            (&Method::GET | &Method::HEAD, "/") => match self.leader().await {
                ElectionState::Unknown => {
                    (StatusCode::SERVICE_UNAVAILABLE, json!({ "error": "unavailable", "message": UNKNOWN }))
                }
                leader => (StatusCode::OK, json!({ "leader": leader.json(), "leads": self.leads() })),
            },
            (&Method::GET | &Method::HEAD, "/leads") => {
                let leads = self.leads();
                let status = if leads { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
                (status, json!({ "leads": leads }))
            }
            (&Method::GET | &Method::HEAD, _) => {
                (StatusCode::NOT_FOUND, json!({ "error": "no_such_path", "message": "there are / and /leads" }))
            }
            _ => (StatusCode::METHOD_NOT_ALLOWED, json!({ "error": "method", "message": "use GET" })),
        }
    }

    /// Who leads. The nodes are asked in a task of its own, so that the answer serves later requests
    /// even if this request is given up.
    async fn leader(self: &Arc<Self>) -> ElectionState {
        let endpoint = self.clone();
        let asked = tokio::spawn(async move { endpoint.asked().await });
        timeout(NODES, asked).await.ok().and_then(Result::ok).unwrap_or(ElectionState::Unknown)
    }

    /// Asks the nodes once in [`FRESH`] at most, however many requests come.
    async fn asked(&self) -> ElectionState {
        let mut seen = self.seen.lock().await;
        match &*seen {
            Some((at, leader)) if at.elapsed() < FRESH => leader.clone(),
            _ => {
                let leader =
                    self.quorum.inspect(&self.name).await.map_or(ElectionState::Unknown, |it| ElectionState::of(&it));
                *seen = Some((Instant::now(), leader.clone()));
                leader
            }
        }
    }
}
