//! The commands that the library sends, read from what it writes, and what a server answers to
//! them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use quorumlock::node::redis::transport::{self, Argument, Arguments, Value};
use quorumlock::node::{
    Fault, FaultKind, HandedOver, Hint, Inspection, Name, Note, Operation, Outcome, Queued, Seat, Stance, Verb,
};
use quorumlock::rules::roster::Roster;

use crate::asked::Asked;
use crate::calls::Reply;
use crate::faults::Action;
use crate::judge::history::{self, Answer, Micros, Op, What};
use crate::link::Connection;
use crate::recorder::{Submitted, answer, letter};
use crate::world::{Core, Event};

/// A command on its way.
#[derive(Debug)]
pub enum Command {
    /// The handshake.
    Hello,
    Info,
    /// SCRIPT LOAD, by the script's digest.
    Load(u64),
    Script(Box<Script>),
    /// CLIENT SETNAME.
    Name,
    Subscribe(Vec<String>),
    Unsubscribe(Vec<String>),
    Unknown(&'static str),
}

/// EVALSHA or EVAL.
#[derive(Debug, Default)]
pub struct Script {
    digest: u64,
    /// The whole script came with it.
    whole: bool,
    channel: Arc<str>,
    operations: Vec<(Operation, Op)>,
}

impl Command {
    /// Reads what process and connection send at `now`.
    pub fn read(core: &mut Core, now: Micros, connection: usize, command: &'static str, said: &dyn Arguments) -> Self {
        match command {
            "INFO" => Self::Info,
            "EVALSHA" | "EVAL" => Self::Script(Box::new(script(core, now, connection, command == "EVAL", said))),
            "SCRIPT" | "CLIENT" => by_two_words(core, said).unwrap_or(Self::Unknown(command)),
            _ => Self::Unknown(command),
        }
    }
}

fn by_two_words(core: &mut Core, said: &dyn Arguments) -> Option<Command> {
    let (mut load, mut command) = (false, None);
    said.each(&mut |argument| match text(argument) {
        "LOAD" => load = true,
        "SETNAME" => command = Some(Command::Name),
        script if load => command = Some(Command::Load(core.names.digest(script))),
        _ => {}
    });
    command
}

fn script(core: &mut Core, now: Micros, connection: usize, whole: bool, said: &dyn Arguments) -> Script {
    let (process, node) = (core.connections[connection].process, core.connections[connection].node);
    let mut names = std::mem::take(&mut core.names);
    let mut submitted = std::mem::take(&mut core.link(process, node).submitted);
    let mut reader = Reader::new(whole, &mut names, &submitted);
    said.each(&mut |argument| reader.take(argument));
    let Reader { script, operations, .. } = reader;
    let known = |operation: Operation| {
        let op = submitted.sent(&operation).unwrap_or_else(|| core.op(now, process, node, &operation));
        (operation, op)
    };
    let operations = operations.into_iter().map(known).collect();
    core.names = names;
    core.link(process, node).submitted = submitted;
    Script { operations, ..script }
}

/// What was met before, so that it need not be made again.
#[derive(Debug, Default)]
pub struct Names {
    names: Vec<Arc<[Name]>>,
    channel: Arc<str>,
    /// The digests of scripts, by their lengths and their last lines, which tell them apart.
    digests: BTreeMap<(usize, String), u64>,
}

impl Names {
    /// What wake-up channels begin with, by the key of the node's record.
    fn channel(&mut self, record: &str) -> Arc<str> {
        let prefix = record.strip_suffix("node").expect("the record's key");
        if self.channel.strip_suffix("wake:") != Some(prefix) {
            self.channel = format!("{prefix}wake:").into();
        }
        self.channel.clone()
    }

    /// The digest of a script, as far as it is told apart here.
    fn digest(&mut self, script: &str) -> u64 {
        let last = script.trim_end().rfind('\n').map_or(script, |line| &script[line..]);
        let key = (script.len(), last.to_owned());
        *self.digests.entry(key).or_insert_with(|| abridged(&transport::digest(script)))
    }

    fn by_key(&mut self, key: &str) -> Arc<[Name]> {
        if let Some(known) = self.names.iter().find(|known| **known[0].key() == *key) {
            return known.clone();
        }
        let (prefix, rest) = key.split_once('{').expect("a lock's key has braces");
        let text = rest.strip_suffix('}').expect("a lock's key ends with its brace");
        let name: Arc<[Name]> = [Name::new(prefix, text).expect("a name the library accepted")].into();
        self.names.push(name.clone());
        name
    }
}

/// Reads the arguments of a script call one by one: see the script's header.
struct Reader<'a> {
    script: Script,
    operations: Vec<Operation>,
    names: &'a mut Names,
    submitted: &'a Submitted,
    /// Which argument comes next.
    at: usize,
    keys: usize,
    found: Vec<Arc<[Name]>>,
}

impl<'a> Reader<'a> {
    fn new(whole: bool, names: &'a mut Names, submitted: &'a Submitted) -> Self {
        let script = Script { whole, ..Script::default() };
        let (operations, found) = (Vec::new(), Vec::new());
        Self { script, operations, names, submitted, at: 0, keys: 0, found }
    }

    fn take(&mut self, argument: Argument<'_>) {
        match self.at {
            0 => self.script.digest = self.digest(text(argument)),
            1 => self.keys = number(argument) as usize,
            2 => self.script.channel = self.names.channel(text(argument)),
            at if at < 2 + self.keys => {
                let name = self.names.by_key(text(argument));
                self.found.push(name);
            }
            at => {
                assert_eq!(at, 2 + self.keys, "the operations are the last argument");
                let Argument::Packed(packed) = argument else { panic!("the operations are packed") };
                self.unpack(packed);
            }
        }
        self.at += 1;
    }

    fn digest(&mut self, said: &str) -> u64 {
        if self.script.whole { self.names.digest(said) } else { abridged(said) }
    }

    fn unpack(&mut self, mut packed: &[u8]) {
        let from = &mut packed;
        let mut used = 0;
        while !from.is_empty() {
            let verb = verb(u8::from_le_bytes(bytes(from)));
            let ttl = millis(number_of(from));
            let ballot = number_of(from) as u64;
            let said = word(from);
            let (owner, says) = match said.split_once('\n').filter(|_| verb == Verb::Renew) {
                Some((owner, says)) => (owner, Some(says)),
                None => (said, None),
            };
            let owner = self.submitted.owner(owner);
            let count = u32::from_le_bytes(bytes(from));
            let of = &self.found[used..][..usize::from(u16::from_le_bytes(bytes(from)))];
            used += of.len();
            let names = if let [one] = of { one.clone() } else { of.iter().map(|one| one[0].clone()).collect() };
            let (wait, grace) = (number_of(from), millis(number_of(from)));
            let (ticket, last) = (number_of(from), number_of(from));
            let (next, handover) = match verb {
                Verb::Release => (last as u64, Duration::ZERO),
                Verb::Claim => (0, millis(last)),
                _ => (0, Duration::ZERO),
            };
            let stance = stance(wait as i64, ticket as u64);
            let note = says.map(|says| Note { number: last as u32, age: grace, says: says.into() });
            let asked = Asked { verb, names, owner, ttl, ballot, count, stance, grace, handover, next, note };
            self.operations.push(asked.into());
        }
        assert_eq!(used, self.found.len(), "all was read");
    }
}

fn bytes<const N: usize>(from: &mut &[u8]) -> [u8; N] {
    let (bytes, rest) = from.split_first_chunk().expect("so many bytes");
    *from = rest;
    *bytes
}

fn word<'a>(from: &mut &'a [u8]) -> &'a str {
    let end = from.iter().position(|byte| *byte == 0).expect("a text ends");
    let word = std::str::from_utf8(&from[..end]).expect("a text");
    *from = &from[end + 1..];
    word
}

fn number_of(from: &mut &[u8]) -> f64 {
    f64::from_le_bytes(bytes(from))
}

fn millis(count: f64) -> Duration {
    Duration::from_millis(count as u64)
}

fn stance(wait: i64, ticket: u64) -> Stance {
    match wait {
        -1 => Stance::Barge,
        0 => Stance::Once,
        wait => Stance::Wait { ticket, patience: Duration::from_millis(wait as u64) },
    }
}

fn verb(code: u8) -> Verb {
    Verb::ALL[usize::from(code % 32) - 1]
}

fn text(argument: Argument<'_>) -> &str {
    match argument {
        Argument::Word(text) => text,
        Argument::Text(text) => text,
        Argument::Integer(_) | Argument::Packed(_) => "",
    }
}

fn number(argument: Argument<'_>) -> i64 {
    match argument {
        Argument::Integer(number) => number,
        other => text(other).parse().expect("a number"),
    }
}

fn abridged(digest: &str) -> u64 {
    digest.get(..16).and_then(|digest| u64::from_str_radix(digest, 16).ok()).unwrap_or(0)
}

impl Core {
    /// What a server does when a command reaches it, and what the reply tells of operations.
    pub fn carry_out(&mut self, now: Micros, number: usize, command: Command) -> (Reply, Vec<(Op, Answer)>) {
        let node = self.connections[number].node;
        let server = &mut self.servers[node];
        let reply = match command {
            Command::Script(script) => return self.run_script(now, number, &script),
            Command::Hello => Ok(Value::Null),
            Command::Info => {
                self.connections[number].met = Some(server.epoch);
                Ok(server.info(now).into())
            }
            Command::Name => Ok("OK".into()),
            Command::Load(digest) => {
                let Connection { process, met, .. } = self.connections[number];
                server.load(digest, process, met);
                Ok(format!("{digest:016x}{:024x}", 0).into())
            }
            Command::Subscribe(channels) => {
                for channel in channels {
                    server.subscribers.entry(channel).or_default().insert(number);
                }
                Ok(Value::Null)
            }
            Command::Unsubscribe(channels) => {
                for channel in channels {
                    server.subscribers.entry(channel).or_default().remove(&number);
                }
                Ok(Value::Null)
            }
            Command::Unknown(what) => Err(refused(format!("ERR unknown command '{what}'"))),
        };
        (reply, Vec::new())
    }

    fn run_script(&mut self, now: Micros, number: usize, script: &Script) -> (Reply, Vec<(Op, Answer)>) {
        let Connection { process, node, .. } = self.connections[number];
        let server = &mut self.servers[node];
        if script.whole {
            server.scripts.insert(script.digest);
        } else if !server.knows(script.digest, process) {
            return (Err(refused("NOSCRIPT No matching script. Please use EVAL.")), Vec::new());
        }
        let (mut replies, mut told) = (Vec::with_capacity(2 + script.operations.len()), Vec::new());
        replies.push(Value::Integer(server.time(now).as_micros() as i64));
        // Everybody has the right to publish.
        replies.push("".into());
        let mut hints = Vec::new();
        for (operation, op) in &script.operations {
            let outcome = self.run_operation(now, node, (operation, *op), &script.channel, &mut hints);
            replies.push(written(&outcome, || self.servers[node].run_id()));
            told.push((*op, answer(*op, &Ok(outcome))));
        }
        self.send_hints(now, node, &script.channel, hints);
        for name in self.servers[node].news() {
            for listener in self.listeners(node, &format!("{}:news", name.key())) {
                self.publish(now, listener, name.key(), None);
            }
        }
        (Ok(Value::Array(replies)), told)
    }

    fn run_operation(
        &mut self,
        now: Micros,
        node: usize,
        (operation, op): (&Operation, Op),
        channel: &str,
        hints: &mut Vec<(Hint, Option<Op>)>,
    ) -> Outcome {
        let server = &mut self.servers[node];
        // That a process has died is seen at once; that a connection was given up is not.
        let alive = |number: usize| !self.processes[self.connections[number].process].dead;
        let outcome = server.apply(operation, now, channel, alive);
        let kept = server.keeps_place(operation, &outcome, now);
        self.history.record(now, What::Did(op, answer(op, &Ok(outcome.clone()))));
        if kept {
            self.history.record(now, What::PlaceKept(op));
        }
        for hint in self.servers[node].hints() {
            let to = hint.granted.as_ref().map(|granted| self.handed_over(op, granted));
            if let Some(to) = to {
                self.history.record(now, What::HandedOver(to));
            }
            hints.push((hint, to));
        }
        outcome
    }

    /// What a node granted with a release, as if it had been claimed.
    fn handed_over(&mut self, release: Op, granted: &HandedOver) -> Op {
        let process = release.process;
        let owner = self.history.owner(process, &granted.owner);
        let acquisition = self.history.owner(process, Operation::acquisition(&granted.owner));
        let (ballot, hand) = (granted.ballot, granted.lasts.as_millis() as u32);
        let (name, also) = (letter(&granted.name), 0);
        Op { name, also, verb: history::Verb::Claim, owner, acquisition, waits: false, ballot, hand, ..release }
    }

    /// Publishes the hints that the last operations gave rise to.
    fn send_hints(&mut self, now: Micros, node: usize, channel: &str, hints: Vec<(Hint, Option<Op>)>) {
        for (hint, to) in hints {
            let Some((client, number)) = hint.address() else { continue };
            for listener in self.listeners(node, &format!("{channel}{client}")) {
                let process = self.connections[listener].process;
                if hint.after.is_zero() && std::mem::take(&mut self.head_dies) {
                    self.schedule(now, Event::Act(Action::Fell(process)));
                }
                let to = to.map(|op| Op { process: process as u16, ..op });
                self.publish(now, listener, &published(&hint, number), to);
            }
        }
    }

    /// The connections that listen to a channel, of processes that live.
    fn listeners(&self, node: usize, channel: &str) -> Vec<usize> {
        let all = self.servers[node].subscribers.get(channel).into_iter().flatten().copied();
        let alive = |&number: &usize| {
            let Connection { process, open, .. } = self.connections[number];
            open && !self.processes[process].dead
        };
        all.filter(alive).collect()
    }
}

/// What the script publishes.
fn published(hint: &Hint, number: u64) -> String {
    let after = hint.after.as_millis();
    let Some(HandedOver { owner, ballot, lasts, name, stamp, .. }) = &hint.granted else {
        return format!("{number} {after}");
    };
    let (time, lasts) = (stamp.time.as_micros(), lasts.as_millis());
    format!("{number} {after} {owner} {ballot} {time} {lasts} {}", name.key())
}

fn refused(said: impl Into<String>) -> Fault {
    Fault::new(FaultKind::Rejected, said)
}

/// What the script returns for an outcome.
fn written(outcome: &Outcome, run: impl Fn() -> String) -> Value {
    let fence = |fence: &u64| Value::from(fence.to_string());
    let rank = |queued: &Option<Queued>| Value::Integer(queued.map_or(0, |queued| i64::from(queued.rank)));
    let parts = match outcome {
        Outcome::Extended | Outcome::Healed | Outcome::Taught => vec![outcome.as_str().into()],
        Outcome::Scanned { .. } => unreachable!("no script scans"),
        Outcome::Granted { fence: mark } => vec!["granted".into(), fence(mark)],
        Outcome::Held { holder, remaining, fence: mark, queued } => {
            let remaining = remaining.map_or(Value::Integer(-1), left);
            vec!["held".into(), holder.clone().into(), remaining, fence(mark), rank(queued)]
        }
        Outcome::Stale { fence: mark } => vec!["stale".into(), fence(mark)],
        Outcome::Reserved { turn, left: turn_left, fence: mark, queued } => {
            vec!["reserved".into(), turn.clone().into(), left(*turn_left), fence(mark), rank(queued)]
        }
        Outcome::Misused { name, permits } => {
            vec!["misused".into(), Value::Integer(*name as i64 + 1), i64::from(*permits).into()]
        }
        Outcome::Lost { holder } => vec!["lost".into(), holder.clone().into()],
        Outcome::Revoked { held, left: longest, other } => {
            vec!["revoked".into(), i64::from(*held).into(), left(*longest), other.clone().unwrap_or_default().into()]
        }
        Outcome::Released { held } => vec!["released".into(), i64::from(*held).into()],
        Outcome::Record { high, floor, taught } => {
            let run = if *taught { run() } else { String::new() };
            vec!["record".into(), fence(high), fence(floor), run.into()]
        }
        Outcome::Listed(roster) | Outcome::Unlisted(roster) | Outcome::Retired(roster) | Outcome::Reset(roster) => {
            let Roster { nodes, protocol, max_ttl, lasts, retired, servers } = roster.clone();
            let millis = |time: Duration| time.as_millis() as i64;
            let (most, retired) = (millis(max_ttl), retired.map_or(-1, millis));
            let told = [i64::from(nodes), i64::from(protocol), most, millis(lasts), retired].map(Value::from);
            let servers = servers.into_iter().map(Value::from);
            std::iter::once(outcome.as_str().into()).chain(told).chain(servers).collect()
        }
        Outcome::Inspected(entries) => {
            std::iter::once("inspected".into()).chain(entries.iter().flat_map(inspected)).collect()
        }
    };
    Value::Array(parts)
}

fn inspected(entry: &Inspection) -> [Value; 8] {
    let (turn, turn_left) = entry.turn.clone().unwrap_or_default();
    let holder = entry.holder.clone();
    let free = if holder.is_none() { -2 } else { -1 };
    let told = entry.description.as_ref();
    let described = told.map(|told| format!("{} {} {} {}", told.since.as_millis(), told.token, told.number, told.says));
    [
        (holder.unwrap_or_default() + if entry.revoked { "!" } else { "" }).into(),
        entry.permits.map_or(entry.count, |permits| Seat::Gate(permits).count()).to_string().into(),
        entry.remaining.map_or(Value::Integer(free), left),
        entry.fence.to_string().into(),
        i64::from(entry.waiting).into(),
        turn.into(),
        left(turn_left),
        described.unwrap_or_default().into(),
    ]
}

/// What is left, in the milliseconds of a clock that is cut to them.
fn left(left: Duration) -> Value {
    Value::Integer((left + Duration::from_nanos(999_999)).as_millis() as i64)
}
