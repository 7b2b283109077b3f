//! The transport over fred: each fred client makes one connection, and never reconnects.

mod slots;
mod values;

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use fred::clients::Client;
use fred::error::{Error as FredError, ErrorKind as FredKind};
use fred::interfaces::{ClientLike, EventInterface, PubsubInterface};
#[cfg(feature = "__tls")]
use fred::types::config::TlsConnector;
use fred::types::config::{Config, ConnectionConfig, PerformanceConfig, Server, ServerConfig};
use fred::types::{ConnectHandle, Message, RespVersion};
use futures::FutureExt;
use futures::future::join;
use tokio::sync::broadcast::{self, error::RecvError};
use tokio::task::JoinError;
use tokio_util::sync::ReusableBoxFuture;

use super::advice::advice;
use super::credential_charset::fits;
use super::credentials::Site;
use super::decode::refusal;
use super::endpoint::{Address, Endpoint};
use super::transport::{Answer, Arguments, Connection, Dialer, Dialing, Event, Value, started};
use super::trouble::handshake;
#[cfg(feature = "__tls")]
use super::wording::words;
use super::wording::{PANICKED, STRANGER, TO_TLS, plain};
use crate::node::reply::{Fault, FaultKind};
use slots::Slots;
use values::{received, sent};

/// How many messages may be unread. If there are more, some are lost, and all waiters ask again.
const MESSAGES: usize = 1_024;

/// The command that probes a server.
const PROBE: &str = "INFO";
/// Part of the message with which Tokio panics if it cannot start a thread.
const NO_THREAD: &str = "spawn worker thread";
const THREADLESS: &str = "fred cannot start the thread that it needs to connect; raise the limit of processes (ulimit -u, \
                          pids.max), or use the transport redis-rs";

#[derive(Debug)]
pub(crate) struct Fred(Site);

impl Fred {
    pub(crate) fn new(site: Site) -> Self {
        Self(site)
    }
}

impl Dialer for Fred {
    fn address(&self) -> String {
        self.0.endpoint.to_string()
    }

    fn database(&self) -> u8 {
        self.0.endpoint.database
    }

    fn dial(&self, timeout: Duration) -> Dialing<'_> {
        let open = self.0.opened(timeout, async move |endpoint, reached| {
            FredConnection::open(&endpoint, reached.map(|reached| reached.address.ip()), timeout).await
        });
        async move { Ok(Box::new(open.await?) as Box<dyn Connection>) }.boxed()
    }
}

/// An open connection. Dropping this value ends the connection.
struct FredConnection {
    client: Client,
    task: ConnectHandle,
    slots: Arc<Slots>,
    /// The future of the next message. Also returns the receiver, which gets the later messages.
    message: ReusableBoxFuture<'static, (Result<Message, RecvError>, broadcast::Receiver<Message>)>,
}

impl FredConnection {
    /// Connects to `address`, which is one of the host's addresses, and authenticates.
    async fn open(endpoint: &Endpoint, address: Option<IpAddr>, timeout: Duration) -> Result<Self, Fault> {
        let limits = Limits::of(endpoint, timeout);
        let mut config = config(endpoint, address)?;
        if endpoint.speaks_tls() {
            encrypt(&mut config, endpoint, timeout).await?;
        }
        let client = Client::new(config, Some(performance()), Some(connection(&limits)), None);
        let message = ReusableBoxFuture::new(message(client.message_rx()));
        let task = client.connect();
        let slots = Arc::new(Slots::new(client.clone()));
        let mut this = Self { client, task, slots, message };
        this.connected(&limits).await.map_err(|(error, reached)| unreached(endpoint, reached, &error))?;
        Ok(this)
    }

    /// Waits until fred has connected. If fred fails, returns the error, and whether fred had
    /// reached the server. The error does not show the latter, so the time decides: if fred runs
    /// for longer than the limit `reach`, fred has reached the server.
    async fn connected(&mut self, limits: &Limits) -> Result<(), (FredError, bool)> {
        let connected = self.client.wait_for_connect();
        let reaching = tokio::time::sleep(limits.reach + limits.step / 2);
        tokio::pin!(connected, reaching);
        let mut reached = false;
        loop {
            tokio::select! {
                biased;
                result = &mut connected => return result.map_err(|error| (error, reached)),
                ended = &mut self.task => return Err((ended_early(ended), reached)),
                () = &mut reaching, if !reached => reached = true,
            }
        }
    }

    /// Sends a PING after a SUBSCRIBE or UNSUBSCRIBE, because fred's own call returns before the
    /// command is written. fred expects no reply to a SUBSCRIBE. So if the server refuses the
    /// SUBSCRIBE, fred assigns the error to the PING, and all later replies to the wrong commands.
    /// A server that cannot save its files refuses the PING with MISCONF, but not the SUBSCRIBE. So
    /// MISCONF counts as success.
    fn with_ping(&self, command: impl Future<Output = Result<(), FredError>> + Send + 'static) -> Answer<()> {
        let ping = self.slots.call("PING", vec![]);
        let done = async move {
            let (done, heard) = join(command, ping).await;
            let heard = match heard.and_then(received) {
                Err(error) if error.details().starts_with("MISCONF") => Ok(()),
                heard => heard.map(drop),
            };
            done.and(heard).map_err(fault)
        };
        started(done.boxed())
    }

    fn poll_message(&mut self, context: &mut Context<'_>) -> Poll<Event> {
        let (said, messages) = ready!(self.message.poll(context));
        self.message.set(message(messages));
        match said {
            Ok(message) => Poll::Ready(Event::Message(message.value.into_string().unwrap_or_default())),
            Err(RecvError::Lagged(_)) => Poll::Ready(Event::Missed),
            // fred's task ends too, and returns the reason.
            Err(RecvError::Closed) => {
                self.message.set(std::future::pending());
                Poll::Pending
            }
        }
    }
}

async fn message(
    mut messages: broadcast::Receiver<Message>,
) -> (Result<Message, RecvError>, broadcast::Receiver<Message>) {
    (messages.recv().await, messages)
}

impl Connection for FredConnection {
    fn send(&self, command: &'static str, arguments: &dyn Arguments) -> Answer<Value> {
        if command == PROBE {
            keep_a_thread();
        }
        let reply = self.slots.call(command, sent(arguments));
        started(reply.map(|reply| reply.and_then(received).map_err(fault)).boxed())
    }

    fn subscribe(&self, channels: &[String]) -> Answer<()> {
        let (client, channels) = (self.client.clone(), channels.to_vec());
        self.with_ping(async move { client.subscribe(channels).await })
    }

    fn unsubscribe(&self, channels: &[String]) -> Answer<()> {
        let (client, channels) = (self.client.clone(), channels.to_vec());
        self.with_ping(async move { client.unsubscribe(channels).await })
    }

    fn poll_event(&mut self, context: &mut Context<'_>) -> Poll<Event> {
        match self.task.poll_unpin(context) {
            Poll::Ready(Ok(Ok(()))) => Poll::Ready(Event::Ended("the connection ended".to_owned())),
            Poll::Ready(Ok(Err(error))) => Poll::Ready(Event::Ended(said(&error))),
            Poll::Ready(Err(_)) => Poll::Ready(Event::Ended(PANICKED.to_owned())),
            Poll::Pending => self.poll_message(context),
        }
    }
}

/// Runs an empty task on Tokio's pool of blocking threads at each probe, so that one thread never
/// ends. (Idle threads end after 10 s.) fred needs such a thread to connect, even to an IP address.
/// At the machine's limit of threads, no thread can be started, and fred would panic.
fn keep_a_thread() {
    let work = || drop(tokio::task::spawn_blocking(|| {}));
    if std::panic::catch_unwind(work).is_err() {
        tracing::debug!("Tokio cannot start a thread, and the next connection may need one");
    }
}

impl fmt::Debug for FredConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FredConnection").finish_non_exhaustive()
    }
}

impl Drop for FredConnection {
    /// Closes the connection. Otherwise fred would keep it open until fred's task ends.
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn config(endpoint: &Endpoint, address: Option<IpAddr>) -> Result<Config, Fault> {
    endpoint.login().try_for_each(fits).map_err(|why| Fault::new(FaultKind::Down, why))?;
    let server = match &endpoint.address {
        Address::Tcp { host, port, .. } => {
            let host = address.map_or_else(|| host.clone(), |address| address.to_string());
            ServerConfig::Centralized { server: Server::new(host, *port) }
        }
        #[cfg(unix)]
        Address::Unix { path } => ServerConfig::Unix { path: path.clone() },
        #[cfg(not(unix))]
        Address::Unix { .. } => return Err(Fault::new(FaultKind::Down, "there are no Unix sockets here")),
    };
    Ok(Config {
        fail_fast: true,
        server,
        // RESP2 cannot push hints over a connection that carries commands.
        version: RespVersion::RESP3,
        username: endpoint.user.clone(),
        password: endpoint.password.clone(),
        database: (endpoint.database > 0).then_some(endpoint.database),
        ..Config::default()
    })
}

/// Makes fred speak TLS, as the address demands.
#[cfg(feature = "__tls")]
async fn encrypt(config: &mut Config, endpoint: &Endpoint, limit: Duration) -> Result<(), Fault> {
    let down = |why| Fault::new(FaultKind::Down, why);
    if let (ServerConfig::Centralized { server }, Address::Tcp { host, .. }) = (&mut config.server, &endpoint.address) {
        server.tls_server_name = Some(endpoint.tls.given_name().unwrap_or(host).into());
    }
    config.tls = Some(TlsConnector::from(endpoint.tls.at_connect(limit).await.map_err(down)?).into());
    Ok(())
}

/// Without TLS, the connection fails. Otherwise the login would be sent in plain text.
#[cfg(not(feature = "__tls"))]
async fn encrypt(_: &mut Config, _: &Endpoint, _: Duration) -> Result<(), Fault> {
    Err(Fault::new(FaultKind::Down, super::NO_TLS))
}

/// Disables fred's command timeouts. They would need a timer for each command, and fred may send a
/// command after it has timed out.
fn performance() -> PerformanceConfig {
    PerformanceConfig {
        default_command_timeout: Duration::ZERO,
        broadcast_channel_capacity: MESSAGES,
        ..PerformanceConfig::default()
    }
}

/// The time limits that fred gets: `step` for each round trip.
struct Limits {
    step: Duration,
    /// The limit for the TCP connection and, with TLS, for the two round trips of the handshake.
    reach: Duration,
    /// The limit for HELLO, CLIENT ID, INFO, and (if the address has a database) SELECT.
    greet: Duration,
}

impl Limits {
    fn of(endpoint: &Endpoint, step: Duration) -> Self {
        let tls = endpoint.speaks_tls();
        let reach = step.saturating_mul(if tls { 3 } else { 1 });
        let greet = step.saturating_mul(if endpoint.database > 0 { 4 } else { 3 });
        Self { step, reach, greet }
    }
}

/// Makes fred send each command only once. With fred's default of three attempts, a script may run
/// twice.
fn connection(limits: &Limits) -> ConnectionConfig {
    let mut connection = ConnectionConfig {
        connection_timeout: limits.reach,
        internal_command_timeout: limits.greet,
        max_command_attempts: 1,
        max_command_buffer_len: 2 * super::QUEUE,
        reconnect_on_auth_error: false,
        auto_client_setname: false,
        ..ConnectionConfig::default()
    };
    connection.tcp.nodelay = Some(true);
    connection
}

/// The error if fred's task ends before fred has connected.
fn ended_early(ended: Result<Result<(), FredError>, JoinError>) -> FredError {
    match ended {
        Ok(Err(error)) => error,
        Ok(Ok(())) => FredError::new(FredKind::IO, "the connection ended"),
        Err(panicked) => FredError::new(FredKind::Unknown, of_panic(panicked)),
    }
}

fn of_panic(error: JoinError) -> &'static str {
    let told = error.try_into_panic().ok().and_then(|panic| panic.downcast::<String>().ok());
    if told.is_some_and(|told| told.contains(NO_THREAD)) { THREADLESS } else { PANICKED }
}

fn unreached(endpoint: &Endpoint, reached: bool, error: &FredError) -> Fault {
    let tls = endpoint.speaks_tls();
    let message = match error.kind() {
        FredKind::Timeout if reached => "connected, but no answer to HELLO, CLIENT ID or INFO in time".to_owned(),
        FredKind::Timeout if tls => {
            "no TLS connection in time; does this port speak TLS? If so, the server hangs".to_owned()
        }
        FredKind::Timeout => "no TCP connection within node_timeout".to_owned(),
        FredKind::IO if tls => handshake(error.details(), endpoint.tls.is_identified()),
        FredKind::IO if error.details().contains("ConnectionReset") && endpoint.speaks_plain_tcp() => {
            format!("{}{TO_TLS}", said(error))
        }
        FredKind::Protocol | FredKind::Parse if endpoint.speaks_plain_tcp() => {
            format!("{STRANGER} If it expects TLS, write rediss://")
        }
        _ => said(error),
    };
    Fault::new(FaultKind::Down, message).caused_by(plainly(error))
}

/// fred's error in plain words.
fn said(error: &FredError) -> String {
    match error.kind() {
        FredKind::IO => plain(error.details()),
        FredKind::Protocol | FredKind::Parse => STRANGER.to_owned(),
        #[cfg(feature = "__tls")]
        FredKind::Tls => format!("TLS failed: {}", words(error.details())),
        _ => advice(error.details()),
    }
    .trim_end_matches('.')
    .to_owned()
}

/// The same error in plain words, because programs may print the source of an error.
fn plainly(error: &FredError) -> FredError {
    FredError::new(error.kind().clone(), said(error))
}

/// The fault of a failed command.
fn fault(error: FredError) -> Fault {
    let kind = match error.kind() {
        FredKind::Timeout => FaultKind::Timeout,
        FredKind::IO | FredKind::Canceled => FaultKind::Closed,
        FredKind::Parse | FredKind::Protocol => FaultKind::Garbled,
        FredKind::Backpressure => FaultKind::Overloaded,
        // This error means that fred's task has ended. It shows nothing about the server.
        FredKind::Unknown if ["Failed to send command to router.", "channel closed"].contains(&error.details()) => {
            FaultKind::Closed
        }
        _ => refusal(error.details()),
    };
    let message = match kind {
        FaultKind::Timeout => "no answer in time".to_owned(),
        FaultKind::Closed => "the connection ended before the answer".to_owned(),
        _ => said(&error),
    };
    Fault::new(kind, message).caused_by(plainly(&error))
}

#[cfg(test)]
mod told;
