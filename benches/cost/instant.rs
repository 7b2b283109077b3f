//! Servers that answer at once and grant whatever is asked: behind them everything of the client is
//! real, its batcher included, and nothing takes time.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use futures::FutureExt;
use futures::future::ready;
use quorumlock::host::Host;
use quorumlock::node::Verb;
use quorumlock::node::redis::transport::{
    Answer, Argument, Arguments, Connection, Dialer, Dialing, Event, Value, digest,
};

/// The way to one of them, and its connections.
#[derive(Clone, Debug)]
pub struct Instant {
    number: usize,
    host: Arc<dyn Host>,
    /// How many script calls all of them have carried out.
    calls: Arc<AtomicU64>,
}

impl Instant {
    pub fn new(number: usize, host: Arc<dyn Host>, calls: Arc<AtomicU64>) -> Self {
        Self { number, host, calls }
    }

    fn info(&self) -> String {
        let run = self.number;
        format!("run_id:{run:040}\r\nuptime_in_seconds:1000000\r\nrole:master\r\nredis_version:7.0.15\r\n")
    }

    /// What a script call returns.
    fn carried_out(&self, arguments: &dyn Arguments) -> Value {
        self.calls.fetch_add(1, Ordering::Relaxed);
        let time = self.host.wall();
        let (operations, verb) = read(arguments);
        match verb {
            Verb::Record => full(time, &["record".into(), "0".into(), "0".into(), "".into()]),
            Verb::Enrol => full(time, &["listed".into(), 0.into(), 0.into(), 0.into(), 0.into(), (-1).into()]),
            _ => brief(time, operations),
        }
    }
}

impl Dialer for Instant {
    fn address(&self) -> String {
        format!("instant:{}", self.number)
    }

    fn dial(&self, _: Duration) -> Dialing<'_> {
        let connection: Box<dyn Connection> = Box::new(self.clone());
        ready(Ok(connection)).boxed()
    }
}

impl Connection for Instant {
    fn send(&self, command: &'static str, arguments: &dyn Arguments) -> Answer<Value> {
        let value = match command {
            "INFO" => self.info().into(),
            "SCRIPT" => loaded(arguments),
            "EVALSHA" => self.carried_out(arguments),
            _ => "OK".into(),
        };
        ready(Ok(value)).boxed()
    }

    fn subscribe(&self, _: &[String]) -> Answer<()> {
        ready(Ok(())).boxed()
    }

    fn unsubscribe(&self, _: &[String]) -> Answer<()> {
        ready(Ok(())).boxed()
    }

    /// Nothing ever happens to it.
    fn poll_event(&mut self, _: &mut Context<'_>) -> Poll<Event> {
        Poll::Pending
    }
}

/// SCRIPT LOAD returns the digest.
fn loaded(arguments: &dyn Arguments) -> Value {
    let mut last = String::new();
    arguments.each(&mut |argument| {
        if let Argument::Text(script) = argument {
            script.clone_into(&mut last);
        }
    });
    digest(&last).into()
}

/// How many operations a call has, each of which is about one name, and the verb of the first.
fn read(arguments: &dyn Arguments) -> (usize, Verb) {
    let (mut names, mut code) = (0, 0);
    arguments.each(&mut |argument| match argument {
        // The number of keys. One is that of the record.
        Argument::Integer(keys) => names = usize::try_from(keys).unwrap() - 1,
        Argument::Packed(packed) => code = usize::from(packed[0] % 32),
        _ => {}
    });
    (names, Verb::ALL[code - 1])
}

/// Time, and what was done.
fn full(time: Duration, parts: &[Value]) -> Value {
    let micros = i64::try_from(time.as_micros()).unwrap();
    Value::Array(vec![micros.into(), "".into(), Value::Array(parts.to_vec())])
}

/// All of them went as asked.
fn brief(time: Duration, operations: usize) -> Value {
    let count = if operations == 1 { "k".to_owned() } else { operations.to_string() };
    format!("{} {} {count}", time.as_secs(), time.subsec_micros()).into()
}
