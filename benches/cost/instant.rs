//! Servers that answer at once and grant whatever is asked: behind them everything of the client is
//! real, its batcher included, and nothing takes time.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use futures::FutureExt;
use futures::future::ready;
use quorumlock::host::Host;
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
        let done = format!("{} {} {operations}", time.as_secs(), time.subsec_micros()).into();
        match verb {
            Some("record") => full(done, &["record".into(), "0".into(), "0".into(), "".into()]),
            Some("enrol") => full(done, &["listed".into(), 0.into(), 0.into(), 0.into(), 0.into(), (-1).into()]),
            _ => done,
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

/// How many operations a call has, each of which is about one name or the node, and the word that
/// names what they do or how.
fn read(arguments: &dyn Arguments) -> (usize, Option<&'static str>) {
    let (mut at, mut keys, mut word) = (0, 0, None);
    arguments.each(&mut |argument| {
        match argument {
            Argument::Integer(number) if at == 1 => keys = usize::try_from(number).unwrap(),
            Argument::Word(text) => word = word.or(Some(text)),
            _ => {}
        }
        at += 1;
    });
    // As many keys a name and arguments an operation as claims, renewals and releases have.
    let operations = [(4, 11), (5, 11), (5, 7)].into_iter().find_map(|(names, size)| {
        let fits = (keys - 1) % names == 0 && (keys - 1) / names * size == at - 2 - keys;
        fits.then_some((keys - 1) / names)
    });
    (operations.filter(|many| *many > 0).unwrap_or(1), word)
}

/// What was done, and one thing more to say of it.
fn full(done: Value, parts: &[Value]) -> Value {
    let parts = [1.into()].into_iter().chain(parts.iter().cloned()).collect();
    Value::Array(vec![done, "".into(), Value::Array(parts)])
}
