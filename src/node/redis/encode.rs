//! Encodes operations as the keys and arguments of their scripts.

use std::time::Duration;

use super::script::Script;
use super::transport::{Argument, Arguments};
use crate::node::operation::{Claim, Hello, Kind, Note, OldAtOnce, Operation, Release, Renew, Revoke, Waiter};

/// One EVALSHA (or EVAL) that carries out operations of one script, in order.
pub(super) struct Call<'a> {
    /// The script's text or digest.
    text: &'a str,
    /// The key of the node's record.
    record: &'a str,
    keys: usize,
    /// The keys of the operations, without the record's key, and then their arguments.
    parts: Vec<Part>,
    /// The texts of all parts, one after the other.
    texts: String,
}

/// A key or an argument.
#[derive(Clone, Copy)]
enum Part {
    Word(&'static str),
    /// A text of this many bytes: the next bytes of `texts`.
    Text(usize),
    Integer(i64),
}

/// How much room to reserve for each operation: for its parts, and for the bytes of their texts.
const PARTS: usize = 16;
const BYTES: usize = 256;

impl<'a> Call<'a> {
    pub(super) fn new<'b>(
        text: &'a str,
        script: Script,
        record: &'a str,
        operations: impl Iterator<Item = &'b Operation> + Clone,
    ) -> Self {
        let many = operations.size_hint().0;
        let (parts, texts) = (Vec::with_capacity(many * PARTS), String::with_capacity(many * BYTES));
        let mut call = Self { text, record, keys: 1, parts, texts };
        for operation in operations.clone() {
            call.add_keys(script, operation);
        }
        call.keys += call.parts.len();
        operations.for_each(|operation| arguments(operation, &mut |argument| call.add(argument)));
        call
    }

    fn add_keys(&mut self, script: Script, operation: &Operation) {
        if script == Script::Hello {
            return self.add_key(self.record, ":seen");
        }
        for name in operation.keyed() {
            script.keys().iter().for_each(|behind| self.add_key(name.key(), behind));
        }
    }

    fn add_key(&mut self, key: &str, behind: &str) {
        self.texts.push_str(key);
        self.texts.push_str(behind);
        self.parts.push(Part::Text(key.len() + behind.len()));
    }

    fn add(&mut self, argument: Argument<'_>) {
        self.parts.push(match argument {
            Argument::Word(word) => Part::Word(word),
            Argument::Integer(number) => Part::Integer(number),
            Argument::Text(text) => {
                self.texts.push_str(text);
                Part::Text(text.len())
            }
        });
    }
}

impl Arguments for Call<'_> {
    fn count(&self) -> usize {
        3 + self.parts.len()
    }

    fn bytes(&self) -> usize {
        self.text.len() + self.record.len() + self.texts.len()
    }

    fn each(&self, take: &mut dyn FnMut(Argument<'_>)) {
        take(Argument::Text(self.text));
        take(integer(self.keys));
        take(Argument::Text(self.record));
        let mut rest = &*self.texts;
        for part in &self.parts {
            take(match *part {
                Part::Word(word) => Argument::Word(word),
                Part::Integer(number) => Argument::Integer(number),
                Part::Text(length) => {
                    let (text, behind) = rest.split_at(length);
                    rest = behind;
                    Argument::Text(text)
                }
            });
        }
    }
}

/// Passes the arguments of an operation to `take`, in the order that the head of its script lists.
fn arguments(operation: &Operation, take: &mut dyn FnMut(Argument<'_>)) {
    let names = operation.keyed().count();
    match operation {
        Operation::Claim(claim) => {
            let Claim { kind, ttl, ballot, next, .. } = *claim;
            let (from, token) = claim.follows.as_ref().map_or(("", 0), |lock| (&*lock.owner, lock.token));
            let mode = if claim.gate.is_some() { "permit" } else { mode(&claim.owner) };
            [integer(names), Argument::Text(&claim.list), Argument::Text(&claim.owner), Argument::Word(mode)]
                .into_iter()
                .chain([integer(kind.code()), millis(ttl), integer(ballot), Argument::Text(from), integer(token)])
                .chain(place(claim.place()))
                .chain([integer(next)])
                .for_each(take);
        }
        Operation::Renew(Renew { owner, kind, ttl, token, ballot, count, note, .. }) => {
            [integer(names), Argument::Text(owner), Argument::Word(mode(owner)), integer(kind.code())]
                .into_iter()
                .chain([millis(*ttl), integer(*token), integer(*ballot), integer(*count)])
                .chain(match note {
                    Some(Note { number, age, says }) => [integer(*number), millis(*age), Argument::Text(says)],
                    None => [Argument::Integer(-1), Argument::Integer(0), Argument::Word("")],
                })
                .for_each(take);
        }
        Operation::Release(release) | Operation::Withdraw(release) => {
            let Release { ref owner, token, ballot, next, place, .. } = *release;
            let verb = Argument::Word(operation.verb().as_str());
            let place = place.map(place_again).unwrap_or_default();
            [integer(names), Argument::Text(owner), Argument::Word(mode(owner)), verb]
                .into_iter()
                .chain([integer(token), integer(ballot), integer(next), Argument::Text(&place)])
                .for_each(take);
        }
        Operation::Revoke(Revoke { ballot, .. }) => [integer(names), integer(*ballot)].into_iter().for_each(take),
        Operation::Inspect(_) => take(integer(names)),
        Operation::Hello(hello) => greeting(hello, take),
        Operation::Scan(_) => {}
    }
}

/// Passes the arguments of a hello to `take`. A hello has no names.
fn greeting(hello: &Hello, take: &mut dyn FnMut(Argument<'_>)) {
    let Hello { intent, new, process, list, old, knew, sync, seen } = hello;
    let seen = seen.iter().map(|(name, id)| format!("{name} {id}")).collect::<Vec<_>>().join(" ");
    [integer(0_u64), Argument::Word(intent.as_str()), Argument::Text(new), Argument::Text(process)]
        .into_iter()
        .chain([Argument::Text(list.hash()), Argument::Text(list.says()), millis(list.lasts()), millis(list.fresh())])
        .chain([Argument::Word(old.map_or("", OldAtOnce::as_str)), millis(list.old())])
        .chain([Argument::Text(knew.as_deref().unwrap_or_default()), sync.map_or(Argument::Integer(-1), integer)])
        .chain([millis(list.spare()), Argument::Text(&seen)])
        .for_each(take);
}

fn mode(owner: &str) -> &'static str {
    if Operation::is_shared(owner) { "reader" } else { "lock" }
}

/// The arrival, the time for a hand-over, and the time to the next ask; zeros if the claim does not
/// wait.
fn place(waiter: Option<Waiter>) -> [Argument<'static>; 3] {
    let Some(Waiter { arrival, lasts, again }) = waiter else { return [const { Argument::Integer(0) }; 3] };
    [integer(arrival), millis(lasts), integer(next_ask(again))]
}

/// The place in the queue that a withdrawal takes again. It is a single argument, because few
/// withdrawals have a place.
fn place_again((kind, waiter): (Kind, Waiter)) -> String {
    let Waiter { arrival, lasts, again } = waiter;
    format!("{arrival} {} {} {}", whole(lasts), next_ask(again), kind.code())
}

/// The time to the next ask. A time below 1 ms is rounded up: zero would mean that the claim does
/// not wait.
fn next_ask(again: Duration) -> u64 {
    whole(again).max(1)
}

fn millis(duration: Duration) -> Argument<'static> {
    integer(whole(duration))
}

/// Whole milliseconds, at most 278 years: Redis would refuse a far longer time.
fn whole(duration: Duration) -> u64 {
    const MOST: u64 = 1 << 43;
    duration.as_secs().saturating_mul(1_000).saturating_add(u64::from(duration.subsec_millis())).min(MOST)
}

fn integer(number: impl TryInto<i64>) -> Argument<'static> {
    Argument::Integer(number.try_into().unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::node::operation::{Intent, Name, Predecessor, Verb};

    fn names(names: &[&str]) -> Arc<[Name]> {
        names.iter().map(|name| Name::new("p:", name).unwrap()).collect()
    }

    /// The number of keys, the keys and the arguments, as one line.
    fn said(operation: &Operation) -> String {
        let script = Script::of(operation.verb());
        let call = Call::new("digest", script, "p:node", std::iter::once(operation));
        let (mut said, mut count, mut bytes) = (Vec::new(), 0, 0);
        call.each(&mut |argument| {
            count += 1;
            bytes += argument.bytes();
            said.push(match argument {
                Argument::Word(text) => text.to_owned(),
                Argument::Text(text) => text.to_owned(),
                Argument::Integer(number) => number.to_string(),
            });
        });
        assert_eq!((call.count(), call.bytes()), (count, bytes));
        assert_eq!(said[..1], ["digest"]);
        said[1..].join(" ")
    }

    #[test]
    fn operation_is_encoded_as_its_script_reads_it() {
        let (ttl, age) = (Duration::from_secs(30), Duration::from_millis(250));
        let (lasts, again) = (Duration::from_secs(3), Duration::from_micros(10_000_500));
        let waiter = Some(Waiter { arrival: 99, lasts, again });
        let owner: Arc<str> = "c/1/x/1".into();
        let (kind, ballot, follows) = (Kind::Once, 1_234_567, None);
        let (names_of_a, list, gate, next) = (names(&["a"]), "f00d".into(), None, 1_234_568);
        let claim = Claim { names: names_of_a, list, owner, kind, ttl, ballot, follows, gate, waiter, next };
        let release = Release { token: 1_000_000, next: 7_654_321, ..Release::of(&claim) };
        let withdraw = claim.clone().with_verb(Verb::Withdraw);
        let place = waiter.map(|waiter| (Kind::Once, waiter));
        let waits_on = Operation::Withdraw(Release { place, ..Release::of(&claim) });
        let kind = Kind::Lock;
        let list = "".into();
        let follows = Some(Predecessor { owner: "c/1/x/0".into(), token: 5 });
        let reader = Claim { list, owner: "c/1/x/s1".into(), waiter: None, next: 0, kind, follows, ..claim.clone() };
        let permit = Claim { gate: names(&["b"]).first().cloned(), kind, ..claim.clone() };
        let gate = Claim { kind: Kind::Gate, ..claim.clone() };
        let a = "p:node p:{a} p:{a}:readers p:{a}:waiting p:{a}:queue";
        let b = "p:{b} p:{b}:readers p:{b}:waiting p:{b}:queue";
        for (operation, expected) in [
            (claim.clone().into(), format!("5 {a} 1 f00d c/1/x/1 lock 2 30000 1234567  0 99 3000 10000 1234568")),
            (reader.clone().into(), format!("5 {a} 1  c/1/x/s1 reader 0 30000 1234567 c/1/x/0 5 0 0 0 0")),
            (gate.into(), format!("5 {a} 1 f00d c/1/x/1 lock 3 30000 1234567  0 99 3000 10000 1234568")),
            (permit.into(), format!("9 {a} {b} 2 f00d c/1/x/1 permit 0 30000 1234567  0 99 3000 10000 1234568")),
            (Renew::of(&claim, 2).into(), format!("6 {a} p:{{a}}:note 1 c/1/x/1 lock 2 30000 1234567 1234567 2 -1 0 ")),
            (
                Renew { token: 7, note: Some(Note { number: 3, age, says: "hi".into() }), ..Renew::of(&claim, 2) }
                    .into(),
                format!("6 {a} p:{{a}}:note 1 c/1/x/1 lock 2 30000 7 1234567 2 3 250 hi"),
            ),
            (release.into(), format!("6 {a} p:{{a}}:note 1 c/1/x/1 lock release 1000000 1234567 7654321 ")),
            (withdraw, format!("6 {a} p:{{a}}:note 1 c/1/x/1 lock withdraw 0 1234567 0 ")),
            (waits_on, format!("6 {a} p:{{a}}:note 1 c/1/x/1 lock withdraw 0 1234567 0 99 3000 10000 2")),
            (Revoke { names: claim.names.clone(), ballot: 7 }.into(), "3 p:node p:{a} p:{a}:readers 1 7".to_owned()),
            (Operation::Inspect(claim.names), format!("6 {a} p:{{a}}:note 1")),
        ] {
            assert_eq!(said(&operation), expected, "{operation:?}");
        }
    }

    #[test]
    fn hello_is_written_with_the_times_of_its_list() {
        let plain = Hello::sample(Intent::Look);
        let list = plain.list.clone();
        let millis = [list.lasts(), list.fresh(), list.old(), list.spare()].map(|time| time.as_millis());
        let ([lasts, fresh, old, spare], hash, says) = (millis, list.hash(), list.says());
        let full = Hello {
            intent: Intent::Put,
            old: Some(OldAtOnce::FirstUse),
            knew: Some("held".into()),
            sync: Some(7),
            seen: vec![("a:1".into(), "01".into()), ("b:2".into(), "02".into())],
            ..plain.clone()
        };
        let listed = format!("new process {hash} {says} {lasts} {fresh}");
        let expected = format!("2 p:node p:node:seen 0 look {listed}  {old}  -1 {spare} ");
        assert_eq!(said(&plain.into()), expected);
        let expected = format!("2 p:node p:node:seen 0 put {listed} first {old} held 7 {spare} a:1 01 b:2 02");
        assert_eq!(said(&full.into()), expected);
    }
}
