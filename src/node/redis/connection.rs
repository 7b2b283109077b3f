//! One generation: one fred client, one connection, never reconnected.

use fred::clients::Client;
use fred::error::{Error as FredError, ErrorKind as FredKind};
use fred::interfaces::{ClientLike, EventInterface, PubsubInterface};
use fred::types::config::{Config, ConnectionConfig, PerformanceConfig, ServerConfig, TlsConfig, TlsConnector};
use fred::types::{ConnectHandle, CustomCommand, Message, RespVersion, Value};
use tokio::sync::broadcast;

use super::Settings;
use super::endpoint::{Endpoint, Transport};
use crate::node::reply::{Fault, FaultKind};
use crate::node::script::advice;

/// How many hints may wait to be read; past that, all who wait ask.
const HINTS: usize = 1_024;

/// An open connection. Dropping it ends it.
#[derive(Debug)]
pub(super) struct Connection {
    client: Client,
    task: ConnectHandle,
    messages: broadcast::Receiver<Message>,
}

/// What happens to a connection.
#[derive(Debug)]
pub(super) enum News {
    /// It ended, and why.
    Ended(String),
    /// Something was pushed over it.
    Pushed(Push),
}

/// What came over the wake-up channel.
#[derive(Debug)]
pub(super) enum Push {
    /// A hint, to be parsed.
    Message(String),
    /// Hints were lost.
    Missed,
}

impl Connection {
    /// Connects and authenticates, within the settings' timeout.
    pub(super) async fn open(endpoint: &Endpoint, settings: &Settings) -> Result<Self, Fault> {
        let config = config(endpoint)?;
        let client = Client::new(config, Some(performance(settings)), Some(connection(settings)), None);
        let messages = client.message_rx();
        let task = client.connect();
        let this = Self { client, task, messages };
        this.client.wait_for_connect().await.map_err(|error| unreached(endpoint, error))?;
        Ok(this)
    }

    /// Sends one command. fred queues it at the first poll and counts its timeout; dropping the future does not withdraw it.
    pub(super) async fn call(&self, command: &'static str, arguments: Vec<Value>) -> Result<Value, FredError> {
        self.client.custom(CustomCommand::new_static(command, None::<u16>, false), arguments).await
    }

    /// Listens to a channel. fred's SUBSCRIBE returns before it is written; the PING behind it is answered after it took effect.
    pub(super) async fn subscribe(&self, channel: String) -> Result<(), FredError> {
        self.client.subscribe(channel).await?;
        self.call("PING", vec![]).await.map(drop)
    }

    /// The client alone, for futures that must not borrow the connection.
    pub(super) fn client(&self) -> Client {
        self.client.clone()
    }

    /// What happens next: the connection ends, or something is pushed over it.
    ///
    /// # Cancel safety
    /// Safe.
    pub(super) async fn news(&mut self) -> News {
        tokio::select! {
            biased;
            ended = &mut self.task => News::Ended(match ended {
                Ok(Ok(())) => "the connection ended".to_owned(),
                Ok(Err(error)) => error.details().to_owned(),
                Err(_) => "the connection's task was ended".to_owned(),
            }),
            push = pushed(&mut self.messages) => News::Pushed(push),
        }
    }
}

async fn pushed(messages: &mut broadcast::Receiver<Message>) -> Push {
    match messages.recv().await {
        Ok(message) => Push::Message(message.value.into_string().unwrap_or_default()),
        Err(broadcast::error::RecvError::Lagged(_)) => Push::Missed,
        // The connection ends too; that is what is to be told.
        Err(broadcast::error::RecvError::Closed) => std::future::pending().await,
    }
}

impl Drop for Connection {
    /// fred keeps a connection whose handles are all gone; only the end of its task closes it.
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Sends one command on a client that a future owns.
pub(super) async fn call(client: Client, command: &'static str, arguments: Vec<Value>) -> Result<Value, FredError> {
    client.custom(CustomCommand::new_static(command, None::<u16>, false), arguments).await
}

fn config(endpoint: &Endpoint) -> Result<Config, Fault> {
    let (server, tls) = match &endpoint.transport {
        Transport::Tcp { host, port, tls } => (ServerConfig::new_centralized(host.as_str(), *port), *tls),
        Transport::Unix { path } => (ServerConfig::Unix { path: path.clone() }, false),
    };
    Ok(Config {
        fail_fast: true,
        server,
        // Wake-ups are pushed over the same connection, which RESP2 cannot do.
        version: RespVersion::RESP3,
        username: endpoint.user.clone(),
        password: endpoint.password.clone(),
        database: (endpoint.database > 0).then_some(endpoint.database),
        tls: if tls { Some(certificates()?) } else { None },
        ..Config::default()
    })
}

fn certificates() -> Result<TlsConfig, Fault> {
    let connector = TlsConnector::default_rustls();
    connector.map(TlsConfig::from).map_err(|error| {
        let message = format!("the system's certificates cannot be read: {}", error.details());
        Fault::new(FaultKind::Down, message).caused_by(error)
    })
}

fn performance(settings: &Settings) -> PerformanceConfig {
    PerformanceConfig {
        default_command_timeout: settings.timeout,
        broadcast_channel_capacity: HINTS,
        ..PerformanceConfig::default()
    }
}

/// One attempt a command: fred's default of three ran a script twice whose reply was lost.
fn connection(settings: &Settings) -> ConnectionConfig {
    let mut connection = ConnectionConfig {
        connection_timeout: settings.timeout,
        internal_command_timeout: settings.timeout,
        max_command_attempts: 1,
        max_command_buffer_len: 2 * super::QUEUE,
        reconnect_on_auth_error: false,
        auto_client_setname: false,
        ..ConnectionConfig::default()
    };
    connection.tcp.nodelay = Some(true);
    connection
}

fn unreached(endpoint: &Endpoint, error: FredError) -> Fault {
    let tls = matches!(endpoint.transport, Transport::Tcp { tls: true, .. });
    let message = match error.kind() {
        FredKind::Timeout if tls => "no answer while connecting; does this port speak TLS?".to_owned(),
        FredKind::Timeout => "no answer while connecting".to_owned(),
        FredKind::Auth => advice(error.details()),
        FredKind::Tls => format!("TLS failed: {}", error.details()),
        FredKind::IO if tls => distrust(error.details())
            .unwrap_or_else(|| format!("{}; does this port speak TLS?", plain(error.details()))),
        _ => advice(error.details()),
    };
    Fault::new(FaultKind::Down, plain(&message)).caused_by(error)
}

/// rustls tells a bad certificate as an I/O error, in its debug form.
fn distrust(message: &str) -> Option<String> {
    let (_, why) = message.split_once("InvalidCertificate(")?;
    let why = why.trim_end_matches([' ', '}', ')']);
    Some(format!("TLS failed: its certificate is not trusted here ({why}); SSL_CERT_FILE names others to trust"))
}

/// fred tells an I/O error by its debug form; what a reader wants of it is the message.
fn plain(message: &str) -> String {
    let quoted = message.strip_prefix("Os {").and_then(|rest| rest.split_once("message: \"")).map(|(_, rest)| rest);
    quoted.and_then(|rest| rest.split_once('"')).map_or_else(|| message.to_owned(), |(text, _)| text.to_owned())
}

/// What a failed command says of the node: nothing came, or an error did.
pub(super) fn fault(error: FredError) -> Fault {
    let kind = match error.kind() {
        FredKind::Timeout => FaultKind::Timeout,
        FredKind::IO | FredKind::Canceled => FaultKind::Closed,
        FredKind::Parse | FredKind::Protocol => FaultKind::Garbled,
        FredKind::Backpressure => FaultKind::Overloaded,
        _ => FaultKind::Rejected,
    };
    let message = match kind {
        FaultKind::Timeout => "no answer in time".to_owned(),
        FaultKind::Closed => "the connection ended before the answer".to_owned(),
        _ => advice(error.details()),
    };
    Fault::new(kind, message).caused_by(error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_io_error_is_told_by_its_message() {
        let debug = "Os { code: 111, kind: ConnectionRefused, message: \"Connection refused\" }";
        assert_eq!(plain(debug), "Connection refused");
        assert_eq!(plain("other"), "other");
    }

    #[test]
    fn a_certificate_that_is_not_trusted_is_told_as_one() {
        let told = distrust("Custom { kind: InvalidData, error: InvalidCertificate(UnknownIssuer) }").unwrap();
        assert!(told.contains("not trusted here (UnknownIssuer)"), "{told}");
        assert_eq!(distrust("Custom { kind: InvalidData, error: InvalidMessage(InvalidContentType) }"), None);
    }
}
