//! The transport over redis-rs: each connection is multiplexed, and never reconnects.

mod driver;
mod errors;
mod pushes;
mod socket;

use std::fmt;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt;
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Cmd, ProtocolVersion, RedisConnectionInfo, RedisResult, Value as RedisValue};

use super::credentials::Site;
use super::dial::{Reached, within};
use super::endpoint::Endpoint;
use super::transport::{Answer, Argument, Arguments, Connection, Dialer, Dialing, Event, Value, started};
use crate::node::reply::{Fault, FaultKind};
use driver::Driver;
use errors::{fault, refused_by, unusable};
use pushes::Pushes;
use socket::{Log, Socket};

#[derive(Debug)]
pub(super) struct RedisRs(Site);

impl RedisRs {
    pub(super) fn new(site: Site) -> Self {
        Self(site)
    }
}

impl Dialer for RedisRs {
    fn address(&self) -> String {
        self.0.endpoint.to_string()
    }

    fn database(&self) -> u8 {
        self.0.endpoint.database
    }

    fn dial(&self, timeout: Duration) -> Dialing<'_> {
        let open = self
            .0
            .opened(timeout, async move |endpoint, reached| RedisRsConnection::open(&endpoint, reached, timeout).await);
        async move { Ok(Box::new(open.await?) as Box<dyn Connection>) }.boxed()
    }
}

/// An open connection. Dropping this value ends the connection.
struct RedisRsConnection {
    client: MultiplexedConnection,
    driver: Arc<Driver>,
    pushes: Arc<Pushes>,
    log: Arc<Log>,
}

impl RedisRsConnection {
    /// Connects and authenticates. HELLO and SELECT take one round trip together.
    async fn open(endpoint: &Endpoint, reached: Option<Reached>, step: Duration) -> Result<Self, Fault> {
        let (socket, log) = Socket::open(endpoint, reached, step).await?;
        let pushes = Arc::<Pushes>::default();
        let greeting = greeting(endpoint);
        let opened = MultiplexedConnection::new_with_config(&greeting, socket, config(&pushes));
        let late = || Fault::new(FaultKind::Down, "connected, but no answer to HELLO in time");
        let opened = within(step, opened).await.ok_or_else(late)?;
        let (client, work) = opened.map_err(|error| unusable(endpoint, &error, &log))?;
        let driver = Arc::new(Driver::new(work.boxed(), log.clone()));
        Ok(Self { client, driver, pushes, log })
    }

    /// Polls `reply` once, so that its command is sent. `read` converts the result of `reply`.
    fn ask<T: 'static, U: Send + 'static>(
        &self,
        reply: impl Future<Output = RedisResult<T>> + Send + 'static,
        read: fn(T) -> Result<U, Fault>,
    ) -> Answer<U> {
        let driver = self.driver.clone();
        let answer = async move { driver.driven(pin!(reply)).await.map_err(|error| fault(&error)).and_then(read) };
        started(answer.boxed())
    }
}

impl Connection for RedisRsConnection {
    fn send(&self, command: &'static str, arguments: &dyn Arguments) -> Answer<Value> {
        let (mut client, command) = (self.client.clone(), written(command, arguments));
        self.ask(async move { client.send_packed_command(&command).await }, received)
    }

    /// Unlike fred, redis-rs waits for the server's confirmation, and returns a refusal as an
    /// error.
    fn subscribe(&self, channels: &[String]) -> Answer<()> {
        let (mut client, channels) = (self.client.clone(), channels.to_vec());
        self.ask(async move { client.subscribe(channels).await }, Ok)
    }

    fn unsubscribe(&self, channels: &[String]) -> Answer<()> {
        let (mut client, channels) = (self.client.clone(), channels.to_vec());
        self.ask(async move { client.unsubscribe(channels).await }, Ok)
    }

    fn poll_event(&mut self, context: &mut Context<'_>) -> Poll<Event> {
        if let Some(event) = self.pushes.next() {
            return Poll::Ready(event);
        }
        let ended = self.driver.drive(context.waker());
        match self.pushes.poll(context) {
            Poll::Pending if ended => Poll::Ready(Event::Ended(self.log.why())),
            event => event,
        }
    }
}

impl fmt::Debug for RedisRsConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisRsConnection").finish_non_exhaustive()
    }
}

impl Drop for RedisRsConnection {
    /// Ends the connection. Otherwise commands without a reply would keep the connection open.
    fn drop(&mut self) {
        self.driver.end();
    }
}

fn greeting(endpoint: &Endpoint) -> RedisConnectionInfo {
    let info = RedisConnectionInfo::default()
        // RESP2 cannot push hints over a connection that carries commands.
        .set_protocol(ProtocolVersion::RESP3)
        .set_skip_set_lib_name()
        .set_db(endpoint.database.into());
    let info = match &endpoint.user {
        Some(user) => info.set_username(user),
        None => info,
    };
    match &endpoint.password {
        Some(password) => info.set_password(password),
        None => info,
    }
}

/// How many bytes may wait for the socket: more than all calls in flight have together. At this
/// limit, redis-rs would delay commands, and would not send those whose futures are dropped.
const UNWRITTEN: usize = 64 << 20;

/// Disables redis-rs' own timeouts, because their errors look like timeouts of the socket.
fn config(pushes: &Arc<Pushes>) -> AsyncConnectionConfig {
    let pushes = pushes.clone();
    AsyncConnectionConfig::new()
        .set_connection_timeout(None)
        .set_response_timeout(None)
        .set_pipeline_buffer_size(2 * super::QUEUE)
        .set_write_backpressure_boundary(UNWRITTEN)
        .set_push_sender(move |info| {
            pushes.push(info);
            Ok::<(), redis::aio::SendError>(())
        })
}

fn written(command: &'static str, arguments: &dyn Arguments) -> Cmd {
    let mut written = Cmd::with_capacity(1 + arguments.count(), 0);
    written.arg(command);
    arguments.each(&mut |argument| match argument {
        Argument::Word(word) => drop(written.arg(word)),
        Argument::Text(text) => drop(written.arg(text)),
        Argument::Integer(number) => drop(written.arg(number)),
    });
    written
}

/// Converts a reply. Returns a fault if the server replied with an error.
fn received(value: RedisValue) -> Result<Value, Fault> {
    match value {
        RedisValue::ServerError(error) => Err(refused_by(&error)),
        value => Ok(understood(value)),
    }
}

fn understood(value: RedisValue) -> Value {
    match value {
        RedisValue::Int(number) => Value::Integer(number),
        RedisValue::BulkString(bytes) => Value::Text(bytes.into()),
        RedisValue::SimpleString(text) | RedisValue::VerbatimString { text, .. } => Value::Text(text.into()),
        RedisValue::Okay => Value::Text(Bytes::from_static(b"OK")),
        RedisValue::Array(items) => Value::Array(items.into_iter().map(understood).collect()),
        _ => Value::Null,
    }
}

#[cfg(test)]
mod tests;
