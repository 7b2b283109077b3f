//! The operations of one script call as one argument, in the form that the script's `struct.unpack`
//! reads: unlike MessagePack or JSON it becomes no table in Lua, and numbers do not become texts
//! and back, which were more than a third of what a pair costs a node.

use std::borrow::Cow;
use std::time::Duration;

use crate::node::operation::{Claim, Note, Operation, Release, Renew, Revoke, Seat, Stance, Teach, Verb};
use crate::rules::roster::Enrolment;

/// How many operations go into one call at most, so that a node is never blocked for long.
pub(super) const BATCH: usize = 128;
/// And how many names, unless one operation has more.
const NAMES: usize = 256;
/// And how many bytes of notes, unless one operation has more.
const NOTES: usize = 256 << 10;
/// About how many bytes an operation takes.
const BYTES: usize = 160;

/// How many of these go into one call: [`BATCH`] at most.
pub(super) fn fitting<'a>(operations: impl Iterator<Item = &'a Operation>) -> usize {
    let (mut names, mut notes) = (0, 0);
    let fits = |operation: &&Operation| {
        names += operation.names().len();
        notes += noted(operation);
        names <= NAMES && notes <= NOTES
    };
    operations.take(BATCH).take_while(fits).count().max(1)
}

/// How many bytes of notes a node stores for it, which has one for each name.
fn noted(operation: &Operation) -> usize {
    match operation {
        Operation::Renew(Renew { names, note: Some(Note { says, .. }), .. }) => says.len() * names.len(),
        _ => 0,
    }
}

/// The fields of all operations, in the order of the script's header.
pub(super) fn operations<'a>(operations: impl ExactSizeIterator<Item = &'a Operation>) -> Vec<u8> {
    let mut packed = Vec::with_capacity(operations.len() * BYTES);
    let mut named = Named::none();
    for operation in operations {
        let again = operation.names().iter().fold(false, |again, name| named.may_be_again(name.key()) | again);
        pack(&mut packed, operation, again);
    }
    packed
}

/// Which names a call has had so far, by bits of their hashes: some may seem to be named again that
/// are not, which costs the node a command, and none that is named again is missed.
struct Named([u64; 64]);

impl Named {
    const fn none() -> Self {
        Self([0; 64])
    }

    fn may_be_again(&mut self, key: &str) -> bool {
        let hash = hash(key.as_bytes());
        let (word, bit) = (&mut self.0[hash >> 6], 1 << (hash & 63));
        let again = *word & bit != 0;
        *word |= bit;
        again
    }
}

/// Twelve bits of a multiplicative hash, eight bytes at a time: what it is used for needs no more.
fn hash(key: &[u8]) -> usize {
    let step = |hash: u64, word: u64| (hash.rotate_left(5) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let (words, rest) = key.as_chunks::<8>();
    let hash = words.iter().fold(0, |hash, word| step(hash, u64::from_le_bytes(*word)));
    let hash = rest.iter().fold(hash, |hash, byte| step(hash, u64::from(*byte)));
    usize::try_from(hash >> 52).unwrap_or_default()
}

/// What the script reads of an operation. What its verb has no use for is zero.
struct Fields<'a> {
    ttl: Duration,
    ballot: u64,
    owner: Cow<'a, str>,
    count: u32,
    stance: Stance,
    grace: Duration,
    next: f64,
}

/// Of a verb that is nobody's.
const NOTHING: Fields<'static> = Fields {
    ttl: Duration::ZERO,
    ballot: 0,
    owner: Cow::Borrowed("-"),
    count: 0,
    stance: Stance::Once,
    grace: Duration::ZERO,
    next: 0.0,
};

impl<'a> Fields<'a> {
    fn of(operation: &'a Operation) -> Self {
        match operation {
            Operation::Claim(claim) => Self::of_claim(claim),
            Operation::Renew(renewal) => Self::of_renewal(renewal),
            Operation::Release(release) => Self::of_release(release),
            Operation::Teach(Teach { high, lesson, by_hand }) => {
                let grace = Duration::from_millis(u64::from(*by_hand));
                Self { ballot: *high, count: *lesson, grace, ..NOTHING }
            }
            Operation::Revoke(Revoke { owner, ballot, .. }) => Self { ballot: *ballot, ..Self::by(owner) },
            Operation::Enrol(enrolment) => Self::of_enrolment(enrolment),
            Operation::Inspect(_) | Operation::Record | Operation::Retire | Operation::Reset | Operation::Scan(_) => {
                NOTHING
            }
        }
    }

    fn by(owner: &'a str) -> Self {
        Self { owner: Cow::Borrowed(owner), ..NOTHING }
    }

    fn of_claim(claim: &'a Claim) -> Self {
        let Claim { ttl, ballot, count, stance, grace, handover, .. } = *claim;
        Self { ttl, ballot, count, stance, grace, next: millis(handover), ..Self::by(&claim.owner) }
    }

    fn of_release(release: &'a Release) -> Self {
        let Release { ttl, ballot, stance, grace, next, .. } = *release;
        Self { ttl, ballot, stance, grace, next: number(next), ..Self::by(&release.owner) }
    }

    fn of_renewal(renewal: &'a Renew) -> Self {
        let Renew { ref owner, ttl, ballot, count, ref note, .. } = *renewal;
        let plain = Self { ttl, ballot, count, ..Self::by(owner) };
        let Some(Note { number: of, age, says }) = note else { return plain };
        let owner = Cow::Owned(format!("{owner}\n{says}"));
        Self { owner, grace: *age, next: f64::from(*of), ..plain }
    }

    fn of_enrolment(enrolment: &Enrolment) -> Self {
        let Enrolment { nodes, protocol, max_ttl, lasts, ref servers } = *enrolment;
        let servers: Vec<_> = servers.iter().map(ToString::to_string).collect();
        let owner = Cow::Owned(servers.join(" "));
        Self { ttl: max_ttl, ballot: u64::from(protocol), owner, count: nodes, grace: lasts, ..NOTHING }
    }
}

fn pack(packed: &mut Vec<u8>, operation: &Operation, again: bool) {
    let Fields { ttl, ballot, owner, count, stance, grace, next } = Fields::of(operation);
    let (wait, ticket) = match stance {
        Stance::Once => (0.0, 0),
        // A wait of less than a millisecond is one all the same.
        Stance::Wait { ticket, patience } => (millis(patience).max(1.0), ticket),
        Stance::Barge => (-1.0, 0),
    };
    let names = u16::try_from(operation.names().len()).unwrap_or(u16::MAX);
    packed.push(code(operation) + if again { AGAIN } else { 0 });
    packed.extend_from_slice([millis(ttl), number(ballot)].map(f64::to_le_bytes).as_flattened());
    packed.extend_from_slice(word(&owner).as_bytes());
    packed.push(0);
    packed.extend_from_slice(&count.to_le_bytes());
    packed.extend_from_slice(&names.to_le_bytes());
    let numbers = [wait, millis(grace), number(ticket), next];
    packed.extend_from_slice(numbers.map(f64::to_le_bytes).as_flattened());
}

/// What is before a zero byte, which ends it. No owner of ours has one within, so it is only looked
/// whether there is one, in eight bytes at a time.
fn word(text: &str) -> &str {
    const LOW: u64 = u64::MAX / 255;
    let has_zero = |word: u64| word.wrapping_sub(LOW) & !word & LOW << 7 != 0;
    let (words, rest) = text.as_bytes().as_chunks::<8>();
    let zero = words.iter().any(|word| has_zero(u64::from_le_bytes(*word))) || rest.contains(&0);
    if zero { text.split('\0').next().unwrap_or_default() } else { text }
}

/// Added where an operation before it in the call may be about one of its names.
const AGAIN: u8 = 32;
/// Added where it is not of the kinds that the script carries out fastest.
const LEFT_OUT: u8 = 64;

/// What the script calls the operation.
fn code(operation: &Operation) -> u8 {
    let slow = match operation {
        Operation::Release(release) => {
            matches!(release.stance, Stance::Wait { .. }) || Operation::may_have_note(&release.owner)
        }
        Operation::Claim(claim) => claim.count != 1,
        Operation::Renew(renewal) => renewal.note.is_some() || Seat::of(renewal.count).is_some(),
        _ => false,
    };
    let shared = operation.owner().is_some_and(|owner| Operation::is_shared(owner));
    let left_out = operation.names().len() != 1 || slow || shared;
    verb(operation.verb()) + if left_out { LEFT_OUT } else { 0 }
}

/// What the script calls a verb.
const fn verb(verb: Verb) -> u8 {
    match verb {
        Verb::Claim => 1,
        Verb::Renew => 2,
        Verb::Release => 3,
        Verb::Inspect => 4,
        Verb::Teach => 5,
        Verb::Record => 6,
        Verb::Revoke => 7,
        Verb::Enrol => 8,
        Verb::Retire => 9,
        Verb::Reset => 10,
        // No script scans.
        Verb::Scan => 0,
    }
}

/// Whole milliseconds, at most what Redis takes as an expiry by a wide margin (285 years).
fn millis(duration: Duration) -> f64 {
    const MOST: u64 = 1 << 43;
    number(duration.as_secs().saturating_mul(1_000).saturating_add(u64::from(duration.subsec_millis())).min(MOST))
}

#[allow(clippy::cast_precision_loss, reason = "ballots, tickets and times are below 2^53")]
const fn number(number: u64) -> f64 {
    number as f64
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::node::operation::Name;
    use crate::rules::roster::Server;

    fn of(names: usize) -> Operation {
        Operation::Inspect((0..names).map(|name| Name::new("p:", &name.to_string()).unwrap()).collect())
    }

    #[test]
    fn a_call_has_so_many_names_at_most_or_one_operation() {
        let all = |names: &[usize]| fitting(names.iter().map(|names| of(*names)).collect::<Vec<_>>().iter());
        assert_eq!([all(&[1; BATCH]), all(&[1; BATCH + 1])], [BATCH, BATCH]);
        assert_eq!([all(&[100, 100, 56, 0, 1]), all(&[100, 157]), all(&[1_000, 0]), all(&[0])], [4, 1, 1, 1]);
    }

    fn note(names: usize, bytes: usize) -> Operation {
        let Operation::Inspect(names) = of(names) else { unreachable!() };
        let (owner, says) = ("c/1/x/1.00".into(), "x".repeat(bytes).into());
        let note = Some(Note { number: 1, age: Duration::ZERO, says });
        Operation::Renew(Renew { names, owner, ttl: Duration::ZERO, ballot: 1, count: 1, note })
    }

    #[test]
    fn a_call_has_so_many_bytes_of_notes_at_most_or_one_operation() {
        let all = |notes: &[(usize, usize)]| {
            fitting(notes.iter().map(|(names, bytes)| note(*names, *bytes)).collect::<Vec<_>>().iter())
        };
        assert_eq!([all(&[(1, 256); BATCH + 1]), all(&[(1, NOTES / 4); BATCH])], [BATCH, 4]);
        assert_eq!([all(&[(4, NOTES / 4), (1, 1)]), all(&[(1, NOTES + 1), (1, 0)])], [1, 1], "one for each name");
    }

    #[test]
    fn a_text_ends_at_the_first_zero_byte_wherever_that_is() {
        let text = "host/1/uuid/123.0";
        for end in 0..text.len() {
            let (before, behind) = text.split_at(end);
            assert_eq!([word(&format!("{before}\0{behind}")), word(&text[end..])], [before, behind]);
        }
        assert_eq!(word("\u{1}\u{80}\u{ff}abcdefg\0\0"), "\u{1}\u{80}\u{ff}abcdefg");
    }

    fn codes(names: &[&[&str]]) -> Vec<u8> {
        let name = |text: &&str| Name::new("p:", text).unwrap();
        let asked: Vec<_> = names.iter().map(|names| Operation::Inspect(names.iter().map(name).collect())).collect();
        let packed = operations(asked.iter());
        // All have the same owner, and so the same length.
        packed.chunks(packed.len() / names.len()).map(|operation| operation[0]).collect()
    }

    /// A second claim that rests on what was read before the first would be granted too.
    #[test]
    fn an_operation_whose_name_the_call_has_had_before_says_so() {
        assert_eq!(codes(&[&["a"], &["b"], &["a"], &["c"], &["a"]]), [4, 4, 4 + AGAIN, 4, 4 + AGAIN]);
        let several = 4 + LEFT_OUT;
        assert_eq!(codes(&[&["a", "b"], &["c", "b"], &["c"]]), [several, several + AGAIN, 4 + AGAIN]);
    }

    #[test]
    fn few_of_many_names_seem_to_be_named_again() {
        let mut named = Named::none();
        let keys: Vec<_> = (0..128).map(|number| format!("quorumlock:{{orders/{number}}}")).collect();
        assert!(keys.iter().filter(|key| named.may_be_again(key)).count() < 8);
        assert!(keys.iter().all(|key| named.may_be_again(key)), "none that was named is missed");
    }

    /// A byte for each digit pair; fields apart, in the order of the script's header.
    fn bytes(hex: &str) -> Vec<u8> {
        let digits: String = hex.split(' ').collect();
        let byte = |at: usize| u8::from_str_radix(&digits[at..at + 2], 16).unwrap();
        (0..digits.len()).step_by(2).map(byte).collect()
    }

    /// What was written when all verbs had the fields of one struct.
    #[test]
    fn each_verb_is_packed_as_the_script_reads_it() {
        let name = |text: &str| Name::new("p:", text).unwrap();
        let (two, ballot): (Arc<[_]>, _) = ([name("b"), name("c")].into(), 1_234_567);
        let (ttl, grace, handover) = (Duration::from_secs(30), Duration::from_millis(250), Duration::from_secs(3));
        let stance = Stance::Wait { ticket: 99, patience: Duration::from_micros(10_000_500) };
        let (names, owner) = ([name("a")].into(), "c/1/x/1.0".into());
        let claim = Claim { names, owner, ttl, ballot, count: 1, stance, grace, handover };
        let release = Release { next: 7_654_321, ..Release::of(&claim) };
        let servers = ["a<b", "c"].map(Server::parse).to_vec();
        let enrolment = Enrolment { nodes: 5, protocol: 3, max_ttl: 2 * ttl, lasts: 3 * ttl, servers };
        for (operation, expected) in [
            (
                Operation::Claim(claim.clone()),
                "01 00000000004cdd40 0000000087d63241 632f312f782f312e3000 01000000 0100 000000000088c340 0000000000406f40 0000000000c05840 000000000070a740",
            ),
            (
                Operation::Claim(Claim {
                    names: two.clone(),
                    count: 2,
                    stance: Stance::Barge,
                    handover: Duration::ZERO,
                    ..claim.clone()
                }),
                "41 00000000004cdd40 0000000087d63241 632f312f782f312e3000 02000000 0200 000000000000f0bf 0000000000406f40 0000000000000000 0000000000000000",
            ),
            (
                Operation::Renew(Renew::of(&claim, 2)),
                "02 00000000004cdd40 0000000087d63241 632f312f782f312e3000 02000000 0100 0000000000000000 0000000000000000 0000000000000000 0000000000000000",
            ),
            (
                Operation::Renew(Renew {
                    note: Some(Note { number: 3, age: grace, says: "hi".into() }),
                    ..Renew::of(&claim, 1)
                }),
                "42 00000000004cdd40 0000000087d63241 632f312f782f312e300a686900 01000000 0100 0000000000000000 0000000000406f40 0000000000000000 0000000000000840",
            ),
            (
                Operation::Release(release.clone()),
                "03 00000000004cdd40 0000000087d63241 632f312f782f312e3000 00000000 0100 0000000000000000 0000000000406f40 0000000000000000 00000040ec325d41",
            ),
            (
                Operation::Release(Release { stance, ..release.clone() }),
                "43 00000000004cdd40 0000000087d63241 632f312f782f312e3000 00000000 0100 000000000088c340 0000000000406f40 0000000000c05840 00000040ec325d41",
            ),
            (
                Operation::Release(Release { owner: "c/1/x/1.00".into(), ..release }),
                "43 00000000004cdd40 0000000087d63241 632f312f782f312e303000 00000000 0100 0000000000000000 0000000000406f40 0000000000000000 00000040ec325d41",
            ),
            (
                Operation::Inspect(two),
                "44 0000000000000000 0000000000000000 2d00 00000000 0200 0000000000000000 0000000000000000 0000000000000000 0000000000000000",
            ),
            (
                Operation::teach(7, 3),
                "45 0000000000000000 0000000000001c40 2d00 03000000 0000 0000000000000000 0000000000000000 0000000000000000 0000000000000000",
            ),
            (
                Operation::teach_by_hand(7, 3),
                "45 0000000000000000 0000000000001c40 2d00 03000000 0000 0000000000000000 000000000000f03f 0000000000000000 0000000000000000",
            ),
            (
                Operation::Record,
                "46 0000000000000000 0000000000000000 2d00 00000000 0000 0000000000000000 0000000000000000 0000000000000000 0000000000000000",
            ),
            (
                Operation::Revoke(Revoke { names: claim.names, owner: claim.owner, ballot: claim.ballot }),
                "07 0000000000000000 0000000087d63241 632f312f782f312e3000 00000000 0100 0000000000000000 0000000000000000 0000000000000000 0000000000000000",
            ),
            (
                Operation::Enrol(enrolment),
                "48 00000000004ced40 0000000000000840 613c62206300 05000000 0000 0000000000000000 0000000000f9f540 0000000000000000 0000000000000000",
            ),
            (
                Operation::Retire,
                "49 0000000000000000 0000000000000000 2d00 00000000 0000 0000000000000000 0000000000000000 0000000000000000 0000000000000000",
            ),
            (
                Operation::Reset,
                "4a 0000000000000000 0000000000000000 2d00 00000000 0000 0000000000000000 0000000000000000 0000000000000000 0000000000000000",
            ),
        ] {
            assert_eq!(operations([&operation].into_iter()), bytes(expected), "{operation:?}");
        }
    }
}
