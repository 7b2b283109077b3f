//! Servers that answer at once and grant everything. The client is real, including its batcher, and
//! waits for nothing.

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

/// A dialer for one of these servers, and a connection to it.
#[derive(Clone, Debug)]
pub struct Instant {
    number: usize,
    host: Arc<dyn Host>,
    /// How many script calls all servers have carried out.
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

    fn carried_out(&self, arguments: &dyn Arguments) -> Value {
        self.calls.fetch_add(1, Ordering::Relaxed);
        let time = self.host.wall();
        let (keys, values, word) = read(arguments);
        let id = format!("{:016x}", self.number);
        let done = |operations| format!("{} {} {operations} {id}", time.as_secs(), time.subsec_micros()).into();
        if word.is_some_and(|word| ["look", "keep", "make", "put"].contains(&word)) {
            return Value::Array(vec![done(1), "".into(), self.record(id, &texts(arguments))]);
        }
        done(operations(keys, values))
    }

    /// The reply to a `hello`: an old record, with the list of this `hello` in force.
    fn record(&self, id: String, hello: &[String]) -> Value {
        let [_, _, _, _, _, hash, says, ..] = hello else { panic!("a hello, and not {hello:?}") };
        let (age, none) = (Value::Integer(1_000_000_000), Value::Integer(0));
        let process = format!("{:040}", self.number).into();
        let said = [1.into(), "hello".into(), id.into(), process, age.clone(), none.clone(), none, 1.into(), "".into()];
        let list = [hash.clone().into(), Value::Integer(60_000), age, says.clone().into()];
        Value::Array(said.into_iter().chain(list).collect())
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

    fn poll_event(&mut self, _: &mut Context<'_>) -> Poll<Event> {
        Poll::Pending
    }
}

/// The reply to SCRIPT LOAD: the script's digest.
fn loaded(arguments: &dyn Arguments) -> Value {
    let mut last = String::new();
    arguments.each(&mut |argument| {
        if let Argument::Text(script) = argument {
            script.clone_into(&mut last);
        }
    });
    digest(&last).into()
}

/// Counts the keys and the values of a call, and finds its first `Word`.
fn read(arguments: &dyn Arguments) -> (usize, usize, Option<&'static str>) {
    let (mut at, mut keys, mut word) = (0, 0, None);
    arguments.each(&mut |argument| {
        match argument {
            Argument::Integer(number) if at == 1 => keys = usize::try_from(number).unwrap(),
            Argument::Word(text) => word = word.or(Some(text)),
            _ => {}
        }
        at += 1;
    });
    (keys, at - 2 - keys, word)
}

/// The number of operations in a claim, a renewal or a release, each of one name: the first key is
/// the node's, the others are the names'.
fn operations(keys: usize, values: usize) -> usize {
    // The keys of a name, and the values of an operation: as in scripts/lua.
    [(4, 13), (5, 11), (5, 8)]
        .into_iter()
        .filter(|(of_name, _)| keys > 1 && (keys - 1).is_multiple_of(*of_name))
        .map(|(of_name, size)| ((keys - 1) / of_name, size))
        .find_map(|(many, size)| (many * size == values).then_some(many))
        .expect("each operation has the keys and values that its script in scripts/lua takes")
}

/// The texts among the arguments. A hello has: the script's digest, two keys, the new id, the
/// process, the list's hash, and the list's text.
fn texts(arguments: &dyn Arguments) -> Vec<String> {
    let mut texts = Vec::new();
    arguments.each(&mut |argument| {
        if let Argument::Text(text) = argument {
            texts.push(text.to_owned());
        }
    });
    texts
}
