//! The script, and its replies to outcomes.

use std::iter::Peekable;
use std::sync::LazyLock;
use std::time::Duration;
use std::vec;

use super::advice::{advice, code};
use super::transport::Value;
use crate::node::inspection::{Description, Inspection};
use crate::node::operation::{Operation, Seat, Verb};
use crate::node::reply::{Fault, FaultKind, Outcome, Queued, Reply};
use crate::rules::ballot;
use crate::rules::roster::Roster;

/// The script as servers get it: without the comments and the indentation, which are 42 % of it. Each
/// connection sends it twice. The header of the file lists operations, arguments and replies.
pub(crate) static SOURCE: LazyLock<String> =
    LazyLock::new(|| without_comments(include_str!("../../../scripts/lua/hashlock.lua")));

/// The lines that are no comment, without their indentation. No string of the script spans lines.
fn without_comments(script: &str) -> String {
    let code = script.lines().map(str::trim_start).filter(|line| !line.is_empty() && !line.starts_with("--"));
    code.flat_map(|line| [line, "\n"]).collect()
}

/// What one call of the script returned.
#[derive(Debug)]
pub(super) struct Returned<'a> {
    /// The node's TIME.
    pub(super) time: Duration,
    /// Why wake-ups could not be published, if so: who waits was not notified, and asks by itself.
    pub(super) unheard: Option<String>,
    /// One for each operation.
    pub(super) replies: Replies<'a>,
}

/// The replies to the operations of a call, in their order.
#[derive(Debug)]
pub(super) enum Replies<'a> {
    /// All of them.
    Whole(std::slice::Iter<'a, Value>),
    /// Those that did not go as asked, by their numbers, and how many replies were read.
    Brief(Peekable<vec::IntoIter<(usize, &'a str)>>, usize),
}

impl Replies<'_> {
    /// The next, which is to `operation`, of the server of `run`.
    pub(super) fn next(&mut self, operation: &Operation, run: &str) -> Reply {
        match self {
            Self::Whole(items) => items.next().map_or_else(|| Err(garbled()), |item| reply(item, operation, run)),
            Self::Brief(others, read) => {
                *read += 1;
                match others.next_if(|(number, _)| number == read) {
                    Some((_, line)) => refused(line, operation).ok_or_else(garbled),
                    None => as_asked(operation),
                }
            }
        }
    }
}

/// What the script returned for so many operations, or `None` if that is not what `value` holds.
pub(super) fn returned(value: &Value, operations: usize) -> Option<Returned<'_>> {
    if let Some(text) = value.text() {
        return brief(text, operations);
    }
    let Value::Array(items) = value else { return None };
    let [time, unheard, items @ ..] = &items[..] else { return None };
    let time = Duration::from_micros(unsigned(time)?);
    let unheard = Some(text(unheard)?).filter(|why| !why.is_empty());
    (items.len() == operations).then(|| Returned { time, unheard, replies: Replies::Whole(items.iter()) })
}

/// TIME, how many operations there are, or `k` for one, and a line for each that did not go as
/// asked: its number, and what came instead.
fn brief(text: &str, operations: usize) -> Option<Returned<'_>> {
    let (seconds, rest) = leading(text)?;
    let (micros, rest) = leading(rest)?;
    let mut lines = rest.split('\n');
    let count = lines.next()?;
    if operations != if count == "k" { 1 } else { count.parse().ok()? } {
        return None;
    }
    let time = Duration::from_secs(seconds).checked_add(Duration::from_micros(micros))?;
    let others = lines.map(numbered).collect::<Option<Vec<_>>>()?;
    let fits = others.iter().all(|(number, _)| (1..=operations).contains(number));
    let ordered = others.is_sorted_by(|(one, _), (next, _)| one < next);
    let replies = Replies::Brief(others.into_iter().peekable(), 0);
    (fits && ordered).then_some(Returned { time, unheard: None, replies })
}

/// The number that a text begins with, and what is behind the space after it.
fn leading(text: &str) -> Option<(u64, &str)> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let more = |number: u64, digit: u8| number.checked_mul(10)?.checked_add(u64::from(digit - b'0'));
    let number = text.bytes().take(digits).try_fold(0, more)?;
    Some((number, text[digits..].strip_prefix(' ').filter(|_| digits > 0)?))
}

/// The number of an operation, and the rest of its line.
fn numbered(line: &str) -> Option<(usize, &str)> {
    let (number, line) = line.split_once(' ')?;
    Some((number.parse().ok()?, line))
}

/// An operation that went as asked.
fn as_asked(operation: &Operation) -> Reply {
    match operation {
        Operation::Claim(claim) => Ok(Outcome::Granted { fence: claim.ballot }),
        Operation::Renew(_) => Ok(Outcome::Extended),
        Operation::Release(_) => Ok(Outcome::Released { held: 1 }),
        _ => Err(garbled()),
    }
}

/// A claim that was refused because the name is held, from a line about it.
fn refused(line: &str, operation: &Operation) -> Option<Outcome> {
    let mut parts = line.splitn(4, ' ');
    let left = Duration::from_millis(parts.next()?.parse().ok()?);
    let fence = parts.next()?.parse().ok().filter(|&fence| fence < ballot::LIMIT)?;
    let queued = Queued::of(parts.next()?.parse().ok()?);
    let holder = parts.next()?.to_owned();
    matches!(operation, Operation::Claim(_)).then_some(Outcome::Held { holder, remaining: Some(left), fence, queued })
}

fn reply(value: &Value, operation: &Operation, run: &str) -> Reply {
    if let Some(text) = value.text() {
        return if text == "k" { as_asked(operation) } else { refused(text, operation).ok_or_else(garbled) };
    }
    let Value::Array(items) = value else { return Err(garbled()) };
    match items.first().and_then(Value::text) {
        Some("error") => Err(rejected(items.get(1).and_then(Value::text).unwrap_or_default())),
        Some(word) => outcome(word, items, operation, run).ok_or_else(garbled),
        None => Err(garbled()),
    }
}

fn outcome(word: &str, items: &[Value], operation: &Operation, run: &str) -> Option<Outcome> {
    match (operation.verb(), word) {
        (Verb::Claim, "granted") => Some(Outcome::Granted { fence: fence(items.get(1)?)? }),
        (Verb::Claim, "reserved") => Some(Outcome::Reserved {
            turn: text(items.get(1)?)?,
            left: remaining(items.get(2)?)??,
            fence: fence(items.get(3)?)?,
            queued: Queued::of(number(items.get(4)?)?),
        }),
        (Verb::Claim, "held") => Some(Outcome::Held {
            holder: text(items.get(1)?)?,
            remaining: remaining(items.get(2)?)?,
            fence: fence(items.get(3)?)?,
            queued: Queued::of(number(items.get(4)?)?),
        }),
        (Verb::Claim, "stale") => Some(Outcome::Stale { fence: fence(items.get(1)?)? }),
        (Verb::Claim, "misused") => {
            Some(Outcome::Misused { name: misused(items.get(1)?, operation)?, permits: number(items.get(2)?)? })
        }
        (Verb::Renew, "extended") => Some(Outcome::Extended),
        (Verb::Renew, "healed") => Some(Outcome::Healed),
        (Verb::Claim | Verb::Renew, "lost") => Some(Outcome::Lost { holder: text(items.get(1)?)? }),
        (Verb::Release, "released") => Some(Outcome::Released { held: number(items.get(1)?)? }),
        (Verb::Revoke, "revoked") => Some(Outcome::Revoked {
            held: number(items.get(1)?)?,
            left: remaining(items.get(2)?)??,
            other: Some(text(items.get(3)?)?).filter(|other| !other.is_empty()),
        }),
        (Verb::Inspect, "inspected") => Some(Outcome::Inspected(inspections(items.get(1..)?, operation)?)),
        (Verb::Teach, "taught") => Some(Outcome::Taught),
        (Verb::Enrol, "listed") => roster(items).map(Outcome::Listed),
        (Verb::Enrol, "unlisted") => roster(items).map(Outcome::Unlisted),
        (Verb::Retire, "retired") => roster(items).map(Outcome::Retired),
        (Verb::Reset, "reset") => roster(items).map(Outcome::Reset),
        (Verb::Record, "record") => Some(Outcome::Record {
            high: fence(items.get(1)?)?,
            floor: fence(items.get(2)?)?,
            taught: items.get(3)?.text()? == run,
        }),
        _ => None,
    }
}

/// Which of the operation's names.
fn misused(number: &Value, operation: &Operation) -> Option<usize> {
    let name = usize::try_from(unsigned(number)?).ok()?.checked_sub(1)?;
    (name < operation.names().len()).then_some(name)
}

fn roster(items: &[Value]) -> Option<Roster> {
    let [_, nodes, protocol, max_ttl, lasts, retired, servers @ ..] = items else { return None };
    let (nodes, protocol) = (number(nodes)?, number(protocol)?);
    let max_ttl = Duration::from_millis(unsigned(max_ttl)?);
    let (lasts, retired) = (Duration::from_millis(unsigned(lasts)?), remaining(retired)?);
    let mut servers = servers.iter().map(text).collect::<Option<Vec<_>>>()?;
    servers.sort_unstable();
    Some(Roster { nodes, protocol, max_ttl, lasts, retired, servers })
}

/// Ends the owner of a hold that was revoked, as the script stores it. Owners end with a digit.
const REVOKED: char = '!';

fn inspections(items: &[Value], operation: &Operation) -> Option<Vec<Inspection>> {
    let entries = items.chunks(8).map(inspection).collect::<Option<Vec<_>>>()?;
    (entries.len() == operation.names().len()).then_some(entries)
}

fn inspection(items: &[Value]) -> Option<Inspection> {
    let [holder, count, left, mark, waiting, turn, turn_left, says] = items else { return None };
    let fence = fence(mark)?;
    let holder = text(holder)?;
    let (holder, revoked) = holder.strip_suffix(REVOKED).map_or((holder.as_str(), false), |holder| (holder, true));
    let turn = text(turn).filter(|turn| !turn.is_empty());
    let turn = if let Some(turn) = turn { Some((turn, remaining(turn_left)??)) } else { None };
    let count = number(count)?;
    let entry = if holder.is_empty() {
        Inspection::free(fence)
    } else {
        Inspection::held(holder.to_owned(), Seat::holds(count), remaining(left)?, fence).with_revoked(revoked)
    };
    let entry = entry.with_permits(Seat::of(count).map(Seat::permits)).with_line(number(waiting)?, turn);
    match says.text()? {
        "" => Some(entry),
        says => Some(entry.with_description(description(says)?)),
    }
}

/// What a holder says of itself.
fn description(told: &str) -> Option<Description> {
    let mut parts = told.splitn(4, ' ');
    let since = Duration::from_millis(parts.next()?.parse().ok()?);
    let token = parts.next()?.parse().ok().filter(|&token| token < ballot::LIMIT)?;
    let number = parts.next()?.parse().ok()?;
    Some(Description { says: parts.next()?.into(), since, token, number })
}

fn text(value: &Value) -> Option<String> {
    value.text().map(str::to_owned)
}

fn number(value: &Value) -> Option<u32> {
    unsigned(value).and_then(|number| u32::try_from(number).ok())
}

fn unsigned(value: &Value) -> Option<u64> {
    value.integer().and_then(|number| u64::try_from(number).ok())
}

/// A fence from 2^53 on is nobody's: believing it would leave no ballot above it.
fn fence(value: &Value) -> Option<u64> {
    unsigned(value).filter(|&fence| fence < ballot::LIMIT)
}

/// PTTL: -1 means that the hold never ends. Of a retirement, that there is none.
fn remaining(value: &Value) -> Option<Option<Duration>> {
    value.integer().map(|left| u64::try_from(left).ok().map(Duration::from_millis))
}

pub(crate) fn garbled() -> Fault {
    Fault::new(FaultKind::Garbled, "the reply is not one of this script's; does something else answer at this address?")
}

fn rejected(said: &str) -> Fault {
    Fault::new(refusal(said), advice(said))
}

/// Whether what Redis said means not now, or no.
pub(super) fn refusal(said: &str) -> FaultKind {
    match code(said) {
        "BUSY" | "LOADING" | "MISCONF" | "NOREPLICAS" | "OOM" => FaultKind::Busy,
        _ => FaultKind::Rejected,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::Claim;

    fn operation(verb: Verb) -> Operation {
        Claim::sample("a", "me", 7).with_verb(verb)
    }

    fn decode(verb: Verb, items: Vec<Value>) -> Reply {
        let operation = operation(verb);
        let value = reply(items);
        let mut returned = returned(&value, 1).expect("one reply for one operation");
        returned.replies.next(&operation, "run")
    }

    fn reply(items: Vec<Value>) -> Value {
        Value::Array(vec![Value::Integer(1_000_000), "".into(), Value::Array(items)])
    }

    #[test]
    fn an_answer_to_another_question_is_garbled() {
        for (verb, word) in [(Verb::Claim, "extended"), (Verb::Renew, "granted"), (Verb::Release, "OK")] {
            let fault = decode(verb, vec![word.into()]).unwrap_err();
            assert_eq!(fault.kind(), FaultKind::Garbled, "{word} to {verb:?}");
        }
    }

    #[test]
    fn a_fence_no_ballot_can_exceed_is_garbled() {
        let fault = decode(Verb::Claim, vec!["stale".into(), "9007199254740992".into()]).unwrap_err();
        assert_eq!(fault.kind(), FaultKind::Garbled);
    }

    #[test]
    fn a_hold_without_an_end_is_told_as_one() {
        let items = vec!["held".into(), "someone".into(), Value::Integer(-1), "5".into(), Value::Integer(0)];
        let expected = Outcome::Held { holder: "someone".into(), remaining: None, fence: 5, queued: None };
        assert_eq!(decode(Verb::Claim, items).unwrap(), expected);
    }

    #[test]
    fn too_few_replies_are_no_replies() {
        for value in
            [Value::Array(vec![Value::Integer(1)]), Value::Array(vec![Value::Integer(1), "".into()]), Value::Null]
        {
            assert!(returned(&value, 1).is_none());
        }
    }

    /// In a call of which all is frequent, and among other replies.
    fn briefly(verb: Verb, line: &str) -> [Reply; 2] {
        let operation = operation(verb);
        let whole = if line == "k" { "1 2 k".to_owned() } else { format!("1 2 k\n1 {line}") };
        let among_others = Value::Array(vec![Value::Integer(1_000_002), "".into(), line.to_owned().into()]);
        [whole.into(), among_others].map(|value| {
            let mut told = returned(&value, 1).unwrap();
            assert_eq!(told.time, Duration::from_micros(1_000_002));
            told.replies.next(&operation, "run")
        })
    }

    #[test]
    fn what_went_as_asked_is_told_by_nothing_more_where_that_can_be() {
        for (verb, expected) in [
            (Verb::Claim, Some(Outcome::Granted { fence: 7 })),
            (Verb::Renew, Some(Outcome::Extended)),
            (Verb::Release, Some(Outcome::Released { held: 1 })),
            (Verb::Inspect, None),
            (Verb::Revoke, None),
        ] {
            let told = briefly(verb, "k").map(Result::ok);
            assert_eq!(told, [expected.clone(), expected], "{verb:?}");
        }
    }

    #[test]
    fn a_line_tells_who_holds_what_was_claimed_and_nothing_else() {
        let (holder, remaining) = ("a host/1/uuid/2.0".to_owned(), Some(Duration::from_millis(5)));
        let held = Outcome::Held { holder, remaining, fence: 9, queued: Queued::of(2) };
        let expected = Some(held);
        assert_eq!(briefly(Verb::Claim, "5 9 2 a host/1/uuid/2.0").map(Result::ok), [expected.clone(), expected]);
        for (verb, line) in [
            (Verb::Renew, "5 9 2 a"),
            (Verb::Claim, "5 9 2"),
            (Verb::Claim, "5 9007199254740992 2 a"),
            (Verb::Claim, "-5 9 2 a"),
        ] {
            assert!(briefly(verb, line).iter().all(Result::is_err), "{line} to {verb:?}");
        }
    }

    #[test]
    fn a_text_of_another_form_is_no_reply() {
        for text in [
            "",
            "k",
            "1 0",
            "1 0 ",
            "1 0 2",
            "1 0 x",
            "1 0 kk",
            "x 0 k",
            "1 -1 k",
            "1 0 1\n",
            "1 0 1\n2 5 9 2 a",
            "1 0 1\n1 5 9 2 a\n1 5 9 2 a",
            "18446744073709551615 18446744073709551615 k",
        ] {
            assert!(returned(&text.into(), 1).is_none(), "{text:?}");
        }
    }

    #[test]
    fn a_rejection_says_what_to_do() {
        let fault = decode(Verb::Claim, vec!["error".into(), "OOM command not allowed".into()]).unwrap_err();
        assert_eq!((fault.kind(), fault.to_string().contains("maxmemory")), (FaultKind::Busy, true));
    }

    #[test]
    fn a_node_that_cannot_now_is_told_from_one_that_never_will() {
        for (said, kind) in [("BUSY Redis is busy", FaultKind::Busy), ("NOPERM", FaultKind::Rejected)] {
            assert_eq!(decode(Verb::Release, vec!["error".into(), said.into()]).unwrap_err().kind(), kind);
        }
    }

    #[test]
    fn a_node_that_was_taught_in_another_run_is_not() {
        for (told, expected) in [("run", true), ("runs", false), ("", false)] {
            let record = decode(Verb::Record, vec!["record".into(), "7".into(), "5".into(), told.into()]);
            assert_eq!(record.unwrap(), Outcome::Record { high: 7, floor: 5, taught: expected }, "{told}");
        }
    }

    #[test]
    fn what_a_holder_says_is_told_whole_or_the_reply_is_garbled() {
        let inspected = |says: &str| {
            let told = ["inspected", "me", "1", "5", "7", "0", "", "0", says];
            decode(Verb::Inspect, told.map(|part| part.to_owned().into()).to_vec())
        };
        let description = |says: &str| match inspected(says).unwrap() {
            Outcome::Inspected(entries) => entries[0].description.clone(),
            other => panic!("{other:?}"),
        };
        assert_eq!(description(""), None);
        let since = Duration::from_millis(12);
        for says in ["", "two words", " \n "] {
            let told = Description { says: says.into(), since, token: 7, number: 2 };
            assert_eq!(description(&format!("12 7 2 {says}")), Some(told));
        }
        for says in ["12", "12 7 2", "-1 7 2 x", "12 9007199254740992 2 x", "12 7 -2 x"] {
            assert_eq!(inspected(says).unwrap_err().kind(), FaultKind::Garbled, "{says}");
        }
    }

    #[test]
    fn a_stale_ballot_is_told_to_claims_and_a_silent_channel_to_whoever_asks() {
        let stale = decode(Verb::Claim, vec!["stale".into(), "5".into()]);
        assert_eq!(stale.unwrap(), Outcome::Stale { fence: 5 });
        for (unheard, expected) in [("", None), ("NOPERM", Some("NOPERM"))] {
            let value = Value::Array(vec![Value::Integer(1), unheard.into()]);
            assert_eq!(returned(&value, 0).unwrap().unheard.as_deref(), expected);
        }
    }
}
