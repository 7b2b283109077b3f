//! Decodes the commands that the library sends, and makes the replies of the simulated server.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use quorumlock::node::operation::{Hello, Intent, OldAtOnce, Predecessor};
use quorumlock::node::redis::transport::{self, Argument, Arguments, Value};
use quorumlock::node::{
    Fault, FaultKind, HandedOver, Hint, Inspection, Kind, Name, Note, Operation, Outcome, Queued, Scan, Verb, Waiter,
};
use quorumlock::rules::list::{List, Record};

use crate::asked::Asked;
use crate::calls::Reply;
use crate::faults::Action;
use crate::judge::history::{self, Answer, Micros, Op, What};
use crate::link::Connection;
use crate::recorder::{Submitted, answer, letter};
use crate::world::{Core, Event};

/// A command on its way to a server.
#[derive(Debug)]
pub enum Command {
    /// The handshake of a new connection.
    Hello,
    /// INFO; true for INFO with all sections.
    Info(bool),
    /// SCRIPT LOAD, with the script's digest.
    Load(u64),
    Script(Box<Script>),
    Scan(Scan),
    /// CLIENT SETNAME.
    Name,
    Subscribe(Vec<String>),
    Unsubscribe(Vec<String>),
    Unknown(&'static str),
}

/// A script call: EVALSHA or EVAL.
#[derive(Debug, Default)]
pub struct Script {
    digest: u64,
    /// Whether the call contains the whole script (EVAL).
    whole: bool,
    channel: Arc<str>,
    operations: Vec<(Operation, Op)>,
}

impl Script {
    /// The verbs of the call's operations.
    pub fn verbs(&self) -> Vec<history::Verb> {
        self.operations.iter().map(|(_, op)| op.verb).collect()
    }
}

impl Command {
    /// Decodes a command that a connection sends at `now`.
    pub fn read(core: &mut Core, now: Micros, connection: usize, command: &'static str, said: &dyn Arguments) -> Self {
        match command {
            "INFO" => Self::Info(is_whole(said)),
            "EVALSHA" | "EVAL" => Self::Script(Box::new(script(core, now, connection, command == "EVAL", said))),
            "SCAN" => Self::Scan(page(said)),
            "SCRIPT" | "CLIENT" => by_two_words(core, said).unwrap_or(Self::Unknown(command)),
            _ => Self::Unknown(command),
        }
    }
}

/// Whether INFO must return all sections, including those that a plain INFO leaves out.
fn is_whole(said: &dyn Arguments) -> bool {
    let mut whole = false;
    said.each(&mut |argument| whole |= matches!(text(argument), "all" | "everything" | "commandstats"));
    whole
}

/// The page that SCAN must return.
fn page(said: &dyn Arguments) -> Scan {
    let mut words = Vec::new();
    said.each(&mut |argument| words.push(text(argument).to_owned()));
    Scan { from: words[0].as_str().into(), keys: 1_000 }
}

fn by_two_words(core: &mut Core, said: &dyn Arguments) -> Option<Command> {
    let (mut load, mut command) = (false, None);
    said.each(&mut |argument| match text(argument) {
        "LOAD" => load = true,
        "SETNAME" => command = Some(Command::Name),
        script if load => command = Some(Command::Load(core.names.met(script))),
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
    let (script, operations) = reader.read();
    let known = |operation: Operation| {
        let op = submitted.sent(&operation).unwrap_or_else(|| core.op(now, process, node, &operation));
        (operation, op)
    };
    let operations = operations.into_iter().map(known).collect();
    core.names = names;
    core.link(process, node).submitted = submitted;
    Script { operations, ..script }
}

/// A cache of decoded names and scripts.
#[derive(Debug, Default)]
pub struct Names {
    names: Vec<Arc<[Name]>>,
    channel: Arc<str>,
    /// The digests of scripts, by length: no two scripts have the same length.
    digests: BTreeMap<usize, u64>,
    /// The names of scripts, by their digests.
    scripts: BTreeMap<u64, &'static str>,
}

/// For each script, a text that no other script contains.
const MARKS: [(&str, &str); 6] = [
    ("hello", "'hello'"),
    ("claim", "refusal("),
    ("renew", "'healed'"),
    ("release", "'released'"),
    ("revoke", "'revoked'"),
    ("inspect", "'inspected'"),
];

impl Names {
    /// The prefix of wake-up channels, from the key of the node's record.
    fn channel(&mut self, record: &str) -> Arc<str> {
        let prefix = record.strip_suffix("node").expect("the record's key");
        if self.channel.strip_suffix("wake:") != Some(prefix) {
            self.channel = format!("{prefix}wake:").into();
        }
        self.channel.clone()
    }

    /// The digest of a script. Remembers the script's name.
    fn met(&mut self, script: &str) -> u64 {
        let digest = *self.digests.entry(script.len()).or_insert_with(|| abridged(&transport::digest(script)));
        self.scripts.entry(digest).or_insert_with(|| named(script));
        digest
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

/// The name of the script's file.
fn named(script: &str) -> &'static str {
    let of = |(_, mark): &&(&str, &str)| script.contains(mark);
    MARKS.iter().find(of).map(|(name, _)| *name).expect("a script that is known here")
}

/// Reads the arguments of a script call one by one. The comment at the head of each file in
/// scripts/lua lists the script's arguments.
struct Reader<'a> {
    script: Script,
    names: &'a mut Names,
    submitted: &'a Submitted,
    /// The index of the next argument.
    at: usize,
    keys: usize,
    found: VecDeque<String>,
    arguments: VecDeque<String>,
}

impl<'a> Reader<'a> {
    fn new(whole: bool, names: &'a mut Names, submitted: &'a Submitted) -> Self {
        let script = Script { whole, ..Script::default() };
        Self { script, names, submitted, at: 0, keys: 0, found: VecDeque::new(), arguments: VecDeque::new() }
    }

    fn take(&mut self, argument: Argument<'_>) {
        match self.at {
            0 => self.script.digest = self.digest(text(argument)),
            1 => self.keys = usize::try_from(number(argument)).expect("how many keys"),
            2 => self.script.channel = self.names.channel(text(argument)),
            at if at < 2 + self.keys => self.found.push_back(text(argument).to_owned()),
            _ => self.arguments.push_back(match argument {
                Argument::Integer(number) => number.to_string(),
                argument => text(argument).to_owned(),
            }),
        }
        self.at += 1;
    }

    fn digest(&mut self, said: &str) -> u64 {
        if self.script.whole { self.names.met(said) } else { abridged(said) }
    }

    fn read(mut self) -> (Script, Vec<Operation>) {
        let script = *self.names.scripts.get(&self.script.digest).expect("a script that was loaded");
        let mut operations = Vec::new();
        while !self.arguments.is_empty() {
            let many = self.number() as usize;
            operations.push(self.operation(script, many).into());
        }
        assert!(self.found.is_empty(), "all was read");
        (self.script, operations)
    }

    fn operation(&mut self, script: &str, many: usize) -> Asked {
        match script {
            "claim" => {
                let list = self.word().into();
                let (owner, mode, kind) = (self.owner(), self.word(), self.kind());
                let (ttl, ballot, from, token) = (self.millis(), self.number(), self.owner(), self.number());
                let follows = (!from.is_empty()).then_some(Predecessor { owner: from, token });
                let asked = Asked { list, kind, ttl, ballot, follows, ..self.asked(Verb::Claim, owner) };
                let (waiter, next) = (self.waiter(), self.number());
                let with_gate = usize::from(mode == "permit");
                let names = self.names(many - with_gate, 4);
                let gate = self.names(with_gate, 4).first().cloned();
                Asked { waiter, next, names, gate, ..asked }
            }
            "renew" => {
                let (owner, _, kind) = (self.owner(), self.word(), self.kind());
                let (ttl, token, ballot, count) = (self.millis(), self.number(), self.number(), self.number() as u32);
                let token = if token == ballot { 0 } else { token };
                let asked = Asked { kind, ttl, token, ballot, count, ..self.asked(Verb::Renew, owner) };
                let (noted, age, says) = (self.word(), self.millis(), self.word().into());
                let note = (noted != "-1").then(|| Note { number: noted.parse().expect("a number"), age, says });
                Asked { names: self.names(many, 5), note, ..asked }
            }
            "release" => {
                let (owner, _, word) = (self.owner(), self.word(), self.word());
                let verb = if word == "withdraw" { Verb::Withdraw } else { Verb::Release };
                let (token, ballot, next, place) = (self.number(), self.number(), self.number(), self.word());
                let asked = Asked { token, ballot, next, names: self.names(many, 5), ..self.asked(verb, owner) };
                let numbers: Vec<u64> = place.split_whitespace().map(|one| one.parse().expect("a number")).collect();
                let [arrival, lasts, again, kind] = numbers[..] else { return asked };
                let [lasts, again] = [lasts, again].map(Duration::from_millis);
                Asked { waiter: Some(Waiter { arrival, lasts, again }), kind: Kind::of(kind), ..asked }
            }
            "revoke" => {
                let (ballot, names) = (self.number(), self.names(many, 2));
                Asked { ballot, names, ..self.asked(Verb::Revoke, "-".into()) }
            }
            "inspect" => Asked::inspect(self.names(many, 5)),
            "hello" => {
                self.found.pop_front();
                Asked { hello: Some(self.hello()), ..self.asked(Verb::Hello, "-".into()) }
            }
            other => panic!("no script is called {other}"),
        }
    }

    /// Reads the arguments of hello.lua, and skips times that follow from the list.
    fn hello(&mut self) -> Hello {
        let (intent, new, process) = (self.word(), self.word().into(), self.word().into());
        let all = [Intent::Look, Intent::Keep, Intent::Make, Intent::Put];
        let intent = all.into_iter().find(|one| one.as_str() == intent).expect("an intent");
        let (hash, says) = (self.word(), self.word());
        let list = Arc::new(List::parse(&says).expect("the text of a list"));
        assert_eq!(**list.hash(), *hash, "of the list that is told");
        let (_lasts, _fresh, old, _age) = (self.word(), self.word(), self.word(), self.word());
        let old = [OldAtOnce::Init, OldAtOnce::FirstUse].into_iter().find(|one| one.as_str() == old);
        let knew = Some(self.word()).filter(|knew| !knew.is_empty()).map(Into::into);
        let (sync, _spare, seen) = (self.word().parse().ok(), self.word(), self.word());
        let seen: Vec<_> = seen.split_whitespace().collect();
        let seen = seen.chunks(2).map(|pair| (pair[0].into(), pair[1].into())).collect();
        Hello { intent, new, process, list, old, knew, sync, seen }
    }

    fn asked(&self, verb: Verb, owner: Arc<str>) -> Asked {
        Asked { verb, owner, ..Asked::inspect([].into()) }
    }

    /// The next `many` names of the call. In the call's KEYS, each name has `keys` keys in a row.
    fn names(&mut self, many: usize, keys: usize) -> Arc<[Name]> {
        let found: Vec<_> = self.found.drain(..many * keys).step_by(keys).map(|key| self.names.by_key(&key)).collect();
        if let [one] = &found[..] { one.clone() } else { found.iter().map(|one| one[0].clone()).collect() }
    }

    fn word(&mut self) -> String {
        self.arguments.pop_front().expect("one more argument")
    }

    fn number(&mut self) -> u64 {
        self.word().parse().expect("a number")
    }

    fn millis(&mut self) -> Duration {
        Duration::from_millis(self.number())
    }

    fn owner(&mut self) -> Arc<str> {
        let owner = self.word();
        self.submitted.owner(&owner)
    }

    fn kind(&mut self) -> Kind {
        Kind::of(self.number())
    }

    fn waiter(&mut self) -> Option<Waiter> {
        let (arrival, lasts, again) = (self.number(), self.millis(), self.millis());
        (!again.is_zero()).then_some(Waiter { arrival, lasts, again })
    }
}

fn text(argument: Argument<'_>) -> &str {
    match argument {
        Argument::Word(text) => text,
        Argument::Text(text) => text,
        Argument::Integer(_) => "",
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
    /// Carries out a command on its server. Returns the reply, and the results of its operations.
    pub fn carry_out(&mut self, now: Micros, number: usize, command: Command) -> (Reply, Vec<(Op, Answer)>) {
        let server = &mut self.servers[self.connections[number].server];
        let reply = match command {
            Command::Script(script) => return self.run_script(now, number, &script),
            Command::Hello => Ok(Value::Null),
            Command::Info(whole) => Ok(server.info(now, whole).into()),
            Command::Scan(scan) => match server.apply(&scan.into(), now, "", |_| true) {
                Outcome::Scanned { next, names } => {
                    let keys = names.iter().map(|name| name.key().to_string().into()).collect();
                    Ok(Value::Array(vec![next.into(), Value::Array(keys)]))
                }
                other => unreachable!("a page, and not {other}"),
            },
            Command::Name => Ok("OK".into()),
            Command::Load(digest) => {
                server.scripts.insert(digest);
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
        let at = self.connections[number].server;
        let server = &mut self.servers[at];
        if script.whole {
            server.scripts.insert(script.digest);
        } else if !server.scripts.contains(&script.digest) {
            return (Err(refused("NOSCRIPT No matching script. Please use EVAL.")), Vec::new());
        }
        let (time, count) = (server.time(now), script.operations.len());
        // The second part of the reply says why messages were not published. In the simulation,
        // every user may publish, so this part is empty.
        let mut replies = vec![Value::Null, "".into()];
        let (mut hints, mut told) = (Vec::new(), Vec::new());
        for (number, (operation, op)) in (1..).zip(&script.operations) {
            let op = Op { server: at as u8, ..*op };
            let outcome = self.run_operation(now, (operation, op), &script.channel, &mut hints);
            if !is_as_asked(operation, &outcome) {
                let parts = written(&outcome);
                replies.push(Value::Array([Value::Integer(number)].into_iter().chain(parts).collect()));
            }
            told.push((op, answer(op, &Ok(outcome))));
        }
        let id = self.servers[at].record(now).map_or_else(|| "-".into(), |record| record.id);
        replies[0] = format!("{} {} {count} {id}", time.as_secs(), time.subsec_micros()).into();
        self.send_hints(now, at, &script.channel, hints);
        for name in self.servers[at].news() {
            for listener in self.listeners(at, &format!("{}:news", name.key())) {
                self.publish(now, listener, name.key(), None);
            }
        }
        let reply = if replies.len() == 2 { replies.swap_remove(0) } else { Value::Array(replies) };
        (Ok(reply), told)
    }

    fn run_operation(
        &mut self,
        now: Micros,
        (operation, op): (&Operation, Op),
        channel: &Arc<str>,
        hints: &mut Vec<(Hint, Option<Op>)>,
    ) -> Outcome {
        let at = usize::from(op.server);
        let server = &mut self.servers[at];
        // The server knows at once that a process died, but not that a client left a connection.
        let alive = |number: usize| !self.processes[self.connections[number].process].dead;
        let outcome = server.apply(operation, now, channel, alive);
        let kept = server.keeps_place(operation, &outcome, now);
        self.history.record(now, What::Did(op, answer(op, &Ok(outcome.clone()))));
        if kept {
            self.history.record(now, What::PlaceKept(op));
        }
        if let (Operation::Claim(claim), Outcome::Granted { .. }) = (operation, &outcome)
            && !self.servers[at].has_in_force(&claim.list, now)
        {
            self.history.record(now, What::GrantedToOther(op));
        }
        self.waited(now, at, channel, (operation, &outcome));
        for hint in self.servers[at].hints() {
            let to = hint.granted.as_ref().map(|granted| self.handed_over(op, granted));
            if let Some(to) = to {
                self.history.record(now, What::HandedOver(to));
            }
            hints.push((hint, to));
        }
        outcome
    }

    /// The claim that corresponds to a hand-over, for the history.
    fn handed_over(&mut self, release: Op, granted: &HandedOver) -> Op {
        let process = release.process;
        let owner = self.history.owner(process, &granted.owner);
        let (ballot, hand) = (granted.ballot, granted.lasts.as_millis() as u32);
        let (name, also) = (letter(&granted.name), 0);
        let shared = Operation::is_shared(&granted.owner);
        Op { name, also, verb: history::Verb::Claim, owner, waits: false, shared, ballot, hand, ..release }
    }

    /// Publishes the hints of the last operations.
    fn send_hints(&mut self, now: Micros, server: usize, channel: &str, hints: Vec<(Hint, Option<Op>)>) {
        for (hint, to) in hints {
            let Some((client, number)) = hint.address() else { continue };
            for listener in self.listeners(server, &format!("{channel}{client}")) {
                let process = self.connections[listener].process;
                if hint.granted.is_some() && std::mem::take(&mut self.head_dies) {
                    self.schedule(now, Event::Act(Action::Fell(process)));
                }
                let to = to.map(|op| Op { process: process as u16, ..op });
                self.publish(now, listener, &published(&hint, number), to);
            }
        }
    }

    /// The connections of live processes that have subscribed to a channel.
    fn listeners(&self, server: usize, channel: &str) -> Vec<usize> {
        let all = self.servers[server].subscribers.get(channel).into_iter().flatten().copied();
        let alive = |&number: &usize| {
            let Connection { process, open, .. } = self.connections[number];
            open && !self.processes[process].dead
        };
        all.filter(alive).collect()
    }
}

/// The text that the script publishes for a hint.
fn published(hint: &Hint, number: u64) -> String {
    let Some(HandedOver { owner, ballot, lasts, name, record, stamp, .. }) = &hint.granted else {
        return format!("{number} {}", hint.after.as_millis());
    };
    let (time, lasts) = (stamp.time.as_micros(), lasts.as_millis());
    format!("{number} {owner} {ballot} {time} {lasts} {record} {}", name.key())
}

fn refused(said: impl Into<String>) -> Fault {
    Fault::new(FaultKind::Rejected, said)
}

/// Whether the script returns nothing for this outcome, because the operation succeeded in full.
fn is_as_asked(operation: &Operation, outcome: &Outcome) -> bool {
    match (operation, outcome) {
        (Operation::Claim(claim), Outcome::Granted { fence }) => claim.ballot == *fence,
        (Operation::Release(_) | Operation::Withdraw(_), Outcome::Released { held }) => {
            operation.names().len() == 1 && *held == 1
        }
        (_, outcome) => matches!(outcome, Outcome::Extended),
    }
}

/// The values that the script returns for an outcome that is not `is_as_asked`.
fn written(outcome: &Outcome) -> Vec<Value> {
    let fence = |fence: &u64| Value::from(fence.to_string());
    let rank = |queued: &Option<Queued>| Value::Integer(queued.map_or(0, |queued| i64::from(queued.rank)));
    match outcome {
        Outcome::Extended | Outcome::Healed => vec![outcome.as_str().into()],
        Outcome::Scanned { .. } => unreachable!("no script scans"),
        Outcome::Granted { fence: mark } => vec!["granted".into(), fence(mark)],
        Outcome::Held { holder, kind, remaining, fence: mark, queued } => {
            let remaining = remaining.map_or(Value::Integer(-1), left);
            let kind = i64::from(kind.code()).into();
            vec!["held".into(), holder.clone().into(), remaining, fence(mark), rank(queued), kind]
        }
        Outcome::Stale { fence: mark } => vec!["stale".into(), fence(mark)],
        Outcome::Misused { name } => vec!["misused".into(), Value::Integer(*name as i64 + 1)],
        Outcome::Lost { holder } => vec!["lost".into(), holder.clone().into()],
        Outcome::Revoked { holder, ballot, left: longest } => {
            vec!["revoked".into(), holder.clone().unwrap_or_default().into(), fence(ballot), left(*longest)]
        }
        Outcome::Released { held } => vec!["released".into(), i64::from(*held).into()],
        Outcome::Forgot => vec!["forgot".into()],
        Outcome::NoList => vec!["nolist".into()],
        Outcome::OtherList { says, left: longest } => vec!["other".into(), says.clone().into(), left(*longest)],
        Outcome::Hello(None) => vec!["hello".into()],
        Outcome::Hello(Some(record)) => recorded(record),
        Outcome::Inspected(entries) => {
            std::iter::once("inspected".into()).chain(entries.iter().flat_map(inspected)).collect()
        }
    }
}

fn recorded(record: &Record) -> Vec<Value> {
    let Record { id, process, age, high, floor, synced, word, in_force, seen } = record;
    let word = word.map_or("", OldAtOnce::as_str);
    let number = |number: u64| Value::from(number.to_string());
    let millis = |time: Duration| number(time.as_millis() as u64);
    let list: Vec<Value> = match in_force {
        Some(list) => {
            vec![list.hash.to_string().into(), left(list.left), millis(list.age), list.says.to_string().into()]
        }
        None => vec!["".into(), number(0), number(0), "".into()],
    };
    let told = ["hello".into(), id.to_string().into(), process.to_string().into(), millis(*age), number(*high)];
    let more = [number(*floor), number((*synced).into()), word.into()];
    let seen = seen.iter().map(|seen| format!("{} {} {}", seen.node, seen.id, seen.age.as_millis()).into());
    told.into_iter().chain(more).chain(list).chain(seen).collect()
}

fn inspected(entry: &Inspection) -> [Value; 9] {
    let holder = entry.holder.clone();
    let free = if holder.is_none() { -2 } else { -1 };
    let told = entry.description.as_ref();
    let described = told.map(|told| format!("{} {} {} {}", told.since.as_millis(), told.token, told.number, told.says));
    [
        holder.unwrap_or_default().into(),
        entry.count.to_string().into(),
        entry.remaining.map_or(Value::Integer(free), left),
        entry.fence.to_string().into(),
        i64::from(entry.waiting).into(),
        described.unwrap_or_default().into(),
        i64::from(entry.kind.code()).into(),
        entry.ballot.to_string().into(),
        entry.over.to_string().into(),
    ]
}

/// A remaining time in milliseconds, rounded up: the server's clock is cut to whole milliseconds.
fn left(left: Duration) -> Value {
    Value::Integer((left + Duration::from_nanos(999_999)).as_millis() as i64)
}
