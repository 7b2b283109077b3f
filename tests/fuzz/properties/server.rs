//! A server that answers at random. Many answers are well formed, so that the client accepts them.

use std::fmt;
use std::future::ready;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use futures::FutureExt;
use quorumlock::List;
use quorumlock::node::redis::transport::{Answer, Argument, Arguments, Connection, Dialer, Dialing, Event, Value};
use quorumlock::node::{Fault, FaultKind, Verb};

/// Words of servers' replies, and words that are wrong in a reply.
const WORDS: [&str; 45] = [
    "",
    "k",
    "0",
    "1",
    "-1",
    "7",
    "9007199254740991",
    "9007199254740992",
    "18446744073709551615",
    "me",
    "host/1/u/1.0",
    "error",
    "granted",
    "held",
    "stale",
    "misused",
    "extended",
    "healed",
    "lost",
    "scanned",
    "released",
    "revoked",
    "inspected",
    "hello",
    "forgot",
    "nolist",
    "other",
    "init",
    "first",
    "default 60000 4 0:6379 1:6379 2:6379",
    "team 0 9 x",
    "0 0000000000000000",
    "1 record-1",
    "1 0 k",
    "1 0 1 record-1",
    "1 0 1 record-0\n1 500 7 0 other",
    "1 0 1 -\n2 500 7 0 other",
    "500 7 0 other",
    "OOM no memory",
    "READONLY replica",
    "NOSCRIPT no script",
    "NOPERM no permission",
    "quorumlock:{a}",
    "12 1 3 hello",
    "record-0",
];
/// Messages that servers push.
const PUSHED: [&str; 8] = [
    "1 0",
    "1 1",
    "2 18446744073709551615",
    "quorumlock:{a}",
    "1 0 host/1/u/1.0 7 1000000 500 quorumlock:{a}",
    "1 0 host/1/u/1.0 9007199254740992 1000000 500 quorumlock:{a}",
    "1 0 x 7 18446744073709551615 18446744073709551615 quorumlock:{a}",
    "garbage",
];

/// The number of nodes in the clients' list.
pub(super) const NODES: usize = 3;
const MAX_TTL: Duration = Duration::from_secs(60);

pub(crate) struct Server {
    number: usize,
    bytes: Mutex<Vec<u8>>,
    granted: AtomicBool,
}

/// Makes servers that share the random bytes.
pub(crate) fn deal(bytes: &[u8], many: usize) -> Vec<Arc<Server>> {
    let hand = |number| bytes.iter().copied().skip(number).step_by(many).rev().collect();
    let server = |number| Server { number, bytes: Mutex::new(hand(number)), granted: AtomicBool::new(false) };
    (0..many).map(|number| Arc::new(server(number))).collect()
}

impl Server {
    /// Whether the client may take a reply of this server for a grant.
    pub(crate) fn may_have_granted(&self) -> bool {
        self.granted.load(Relaxed)
    }

    fn byte(&self) -> u8 {
        self.bytes.lock().unwrap().pop().unwrap_or(0)
    }

    fn raw(&self) -> Vec<u8> {
        (0..self.byte() % 24).map(|_| self.byte()).collect()
    }

    fn text(&self) -> Value {
        let choice = usize::from(self.byte());
        let text = WORDS.get(choice % 64).map_or_else(|| self.raw(), |word| word.as_bytes().to_vec());
        self.tell(&text)
    }

    /// Returns the text as a reply. Records whether the text can count as a grant.
    fn tell(&self, text: &[u8]) -> Value {
        let text = String::from_utf8_lossy(text).into_owned();
        let grants = text == "granted" || text.starts_with(|first: char| first.is_ascii_digit());
        self.granted.fetch_or(grants, Relaxed);
        text.into()
    }

    fn any(&self, depth: u8) -> Value {
        match self.byte() % 4 {
            0 => Value::Null,
            1 => Value::Integer(i64::from(self.byte()) - 64),
            2 if depth > 0 => Value::Array((0..self.byte() % 10).map(|_| self.any(depth - 1)).collect()),
            _ => self.text(),
        }
    }

    /// The reply of a server without any holds, which grants everything. `None` for verbs whose
    /// success has no reply of its own.
    fn right(&self, number: i64, verb: Verb) -> Option<Value> {
        let free = || {
            let none = || [0.into(), "".into()];
            let held = ["".into(), 0.into(), (-1).into(), "0".into()];
            held.into_iter().chain(none()).chain(none()).chain([0.into(), "0".into(), "0".into()]).collect()
        };
        let items = match verb {
            Verb::Claim | Verb::Renew | Verb::Release | Verb::Withdraw | Verb::Scan => return None,
            Verb::Inspect => [vec!["inspected".into()], free()].concat(),
            Verb::Hello => self.hello(),
            Verb::Revoke => vec!["revoked".into(), "".into(), 0.into(), 0.into()],
        };
        Some(Value::Array([number.into()].into_iter().chain(items).collect()))
    }

    /// A reply to a hello: the record is old, and the clients' list is in force.
    fn hello(&self) -> Vec<Value> {
        let list = List::new("default", (0..NODES).map(|node| format!("{node}:6379")), MAX_TTL);
        let (id, process) = (self.id(), self.number.to_string());
        let record = [id.into(), process.into(), 100_000.into(), "0".into(), "0".into(), 1.into(), "".into()];
        let (hash, says) = (list.hash().to_string(), list.says().to_string());
        let in_force = [hash.into(), 70_000.into(), 100_000.into(), says.into()];
        ["hello".into()].into_iter().chain(record).chain(in_force).collect()
    }

    fn id(&self) -> String {
        format!("record-{}", self.number)
    }

    fn scripted(&self, call: &dyn Arguments) -> Value {
        let verb = verb(call);
        let reply = |number| match (self.byte() % 3, self.any(2)) {
            (0, _) => self.right(number, verb),
            (1, Value::Array(items)) => Some(Value::Array([number.into()].into_iter().chain(items).collect())),
            (_, other) => Some(other),
        };
        match self.byte() % 8 {
            0..5 => {
                let operations = if self.byte() % 8 < 7 { 1 } else { self.byte() % 4 };
                let done = Value::from(format!("1 {} {operations} {}", self.byte(), self.id()));
                let others: Vec<_> = (1..=i64::from(operations)).filter_map(reply).collect();
                // A missing reply means success: so it may be a grant.
                self.granted.fetch_or(verb == Verb::Claim && others.len() < usize::from(operations), Relaxed);
                match others.is_empty() {
                    true => done,
                    false => Value::Array([done, "".into()].into_iter().chain(others).collect()),
                }
            }
            5 => self.text(),
            _ => self.any(3),
        }
    }

    fn pushed(&self, choice: u8) -> String {
        let text = PUSHED[usize::from(choice) % PUSHED.len()];
        self.granted.fetch_or(text.contains("host/1/u/1.0"), Relaxed);
        text.to_owned()
    }

    fn info(&self) -> Value {
        match self.byte() % 8 {
            7 => self.any(1),
            6 => format!("run_id:{}\r\nuptime_in_seconds:{}\r\nrole:slave\r\n", self.number, self.byte()).into(),
            _ => format!("run_id:{}\r\nuptime_in_seconds:100000\r\nrole:master\r\n", self.number).into(),
        }
    }

    fn answer(&self, command: &str, call: &dyn Arguments) -> Result<Value, Fault> {
        const KINDS: [FaultKind; 4] = [FaultKind::Timeout, FaultKind::Closed, FaultKind::Rejected, FaultKind::Garbled];
        if self.byte() % 16 == 15 {
            let kind = KINDS[usize::from(self.byte()) % KINDS.len()];
            return Err(Fault::new(kind, String::from_utf8_lossy(&self.raw()).into_owned()));
        }
        Ok(match command {
            "INFO" => self.info(),
            "EVALSHA" | "EVAL" => self.scripted(call),
            _ => "OK".into(),
        })
    }
}

/// Finds the verb of a call's operations by the numbers of keys and arguments, or by a word in the
/// call. (Each operation has one name.)
fn verb(call: &dyn Arguments) -> Verb {
    let (mut at, mut keys, mut verb) = (0_usize, 0_usize, None);
    call.each(&mut |argument| {
        match argument {
            Argument::Integer(number) if at == 1 => keys = usize::try_from(number).unwrap_or_default(),
            Argument::Word(word) => verb = verb.or(Verb::ALL.into_iter().find(|verb| verb.as_str() == word)),
            _ => {}
        }
        at += 1;
    });
    let forms = [
        (Verb::Claim, 4, 12),
        (Verb::Renew, 5, 11),
        (Verb::Release, 5, 7),
        (Verb::Revoke, 2, 2),
        (Verb::Inspect, 5, 1),
        (Verb::Hello, 1, 14),
    ];
    let named = (keys.saturating_sub(1), at.saturating_sub(2 + keys));
    let by_form = forms.into_iter().find(|(_, keys, arguments)| named.0 * arguments == named.1 * keys);
    verb.or(by_form.map(|(verb, ..)| verb)).unwrap_or(Verb::Hello)
}

/// A dialer that connects to a [`Server`].
#[derive(Debug)]
pub(crate) struct Way(pub(crate) Arc<Server>);

impl Dialer for Way {
    fn address(&self) -> String {
        format!("redis://{}", self.0.number)
    }

    fn dial(&self, _: Duration) -> Dialing<'_> {
        async {
            tokio::time::sleep(Duration::from_millis(1)).await;
            match self.0.byte() % 16 {
                15 => Err(Fault::new(FaultKind::Down, "refused")),
                _ => Ok(Box::new(Line(self.0.clone())) as Box<dyn Connection>),
            }
        }
        .boxed()
    }
}

#[derive(Debug)]
struct Line(Arc<Server>);

impl Connection for Line {
    fn send(&self, command: &'static str, arguments: &dyn Arguments) -> Answer<Value> {
        let answer = self.0.answer(command, arguments);
        let late = Duration::from_millis(u64::from(self.0.byte() % 8));
        tokio::time::sleep(late).map(|()| answer).boxed()
    }

    fn subscribe(&self, _: &[String]) -> Answer<()> {
        ready(Ok(())).boxed()
    }

    fn unsubscribe(&self, _: &[String]) -> Answer<()> {
        ready(Ok(())).boxed()
    }

    fn poll_event(&mut self, _: &mut Context<'_>) -> Poll<Event> {
        match self.0.byte() % 32 {
            31 => Poll::Ready(Event::Ended("gone".to_owned())),
            30 => Poll::Ready(Event::Missed),
            choice @ 20..30 => Poll::Ready(Event::Message(self.0.pushed(choice))),
            _ => Poll::Pending,
        }
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").field("number", &self.number).finish_non_exhaustive()
    }
}
