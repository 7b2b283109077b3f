//! Decodes the replies of scripts.

mod record;

use std::iter::Peekable;
use std::time::Duration;
use std::vec;

use super::advice::{advice, code};
use super::transport::Value;
use crate::node::inspection::{Description, Inspection};
use crate::node::operation::{Kind, Operation, Verb};
use crate::node::reply::{Fault, FaultKind, Outcome, Queued, Reply};
use crate::rules::ballot;

/// The reply to one call of a script.
#[derive(Debug)]
pub(super) struct Returned<'a> {
    pub(super) time: Duration,
    /// The id of the node's record; `None` if the node has no record.
    pub(super) id: Option<&'a str>,
    /// Why the node could not publish a message; `None` if it could publish all of them. Without
    /// these messages, waiters ask again after a pause.
    pub(super) unheard: Option<String>,
    pub(super) replies: Replies<'a>,
}

/// The replies to the operations of a call, in order.
#[derive(Debug)]
pub(super) struct Replies<'a> {
    /// The replies that the script sent, each with the number of its operation in the call (from
    /// 1).
    others: Peekable<vec::IntoIter<(usize, &'a [Value])>>,
    /// How many replies `next` has returned so far.
    read: usize,
}

impl Replies<'_> {
    /// The next reply. `operation` must be the next operation of the call.
    pub(super) fn next(&mut self, operation: &Operation) -> Reply {
        self.read += 1;
        let Some((_, items)) = self.others.next_if(|(number, _)| *number == self.read) else {
            return as_asked(operation);
        };
        match items.first().and_then(Value::text) {
            Some("error") => Err(rejected(items.get(1).and_then(Value::text).unwrap_or_default())),
            Some(word) => outcome(word, items, operation).ok_or_else(garbled),
            None => Err(garbled()),
        }
    }
}

/// Splits the reply to a call of this many operations; `None` if no script of this library replies
/// like this.
pub(super) fn returned(value: &Value, operations: usize) -> Option<Returned<'_>> {
    let (done, unheard, others) = match value {
        Value::Array(items) => {
            let [done, unheard, others @ ..] = &items[..] else { return None };
            (done.text()?, unheard.text()?, others)
        }
        value => (value.text()?, "", &[][..]),
    };
    let (numbers, id) = done.rsplit_once(' ').filter(|(_, id)| is_id(id))?;
    let mut numbers = numbers.split(' ').map(digits);
    let (seconds, micros, count) = (numbers.next()??, numbers.next()??, numbers.next()??);
    let time = Duration::from_secs(seconds).checked_add(Duration::from_micros(micros))?;
    let others = others.iter().map(numbered).collect::<Option<Vec<_>>>()?;
    let fits = others.iter().all(|(number, _)| (1..=operations).contains(number));
    let ordered = others.is_sorted_by(|(one, _), (next, _)| one < next);
    if count != operations as u64 || numbers.next().is_some() || !fits || !ordered {
        return None;
    }
    let unheard = Some(unheard.to_owned()).filter(|why| !why.is_empty());
    let (id, replies) = (Some(id).filter(|id| *id != "-"), Replies { others: others.into_iter().peekable(), read: 0 });
    Some(Returned { time, id, unheard, replies })
}

/// Whether the text may be the id of a record, or the `-` that stands for no record.
fn is_id(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic())
}

/// Parses a number that consists of digits only, without a sign.
fn digits(text: &str) -> Option<u64> {
    text.parse().ok().filter(|_| text.bytes().all(|byte| byte.is_ascii_digit()))
}

fn numbered(value: &Value) -> Option<(usize, &[Value])> {
    let Value::Array(items) = value else { return None };
    let [number, items @ ..] = &items[..] else { return None };
    Some((usize::try_from(unsigned(number)?).ok()?, items))
}

/// The outcome of an operation for which the script sent no reply: the operation fully succeeded.
fn as_asked(operation: &Operation) -> Reply {
    match operation {
        Operation::Claim(claim) => Ok(Outcome::Granted { fence: claim.ballot }),
        Operation::Renew(_) => Ok(Outcome::Extended),
        Operation::Release(release) | Operation::Withdraw(release) if release.names.len() == 1 => {
            Ok(Outcome::Released { held: 1 })
        }
        _ => Err(garbled()),
    }
}

fn outcome(word: &str, items: &[Value], operation: &Operation) -> Option<Outcome> {
    match (operation.verb(), word) {
        (Verb::Claim, "held") => Some(Outcome::Held {
            holder: text(items.get(1)?)?,
            kind: Kind::of(unsigned(items.get(5)?)?),
            remaining: remaining(items.get(2)?)?,
            fence: fence(items.get(3)?)?,
            queued: Queued::of(number(items.get(4)?)?),
        }),
        (Verb::Claim, "stale") => Some(Outcome::Stale { fence: fence(items.get(1)?)? }),
        (Verb::Claim, "misused") => Some(Outcome::Misused { name: misused(items.get(1)?, operation)? }),
        (Verb::Renew, "healed") => Some(Outcome::Healed),
        (Verb::Claim | Verb::Renew, "lost") => Some(Outcome::Lost { holder: text(items.get(1)?)? }),
        (Verb::Release | Verb::Withdraw, "released") => Some(Outcome::Released { held: number(items.get(1)?)? }),
        (Verb::Revoke, "revoked") => Some(Outcome::Revoked {
            holder: Some(text(items.get(1)?)?).filter(|holder| !holder.is_empty()),
            ballot: fence(items.get(2)?)?,
            left: remaining(items.get(3)?)??,
        }),
        (Verb::Inspect, "inspected") => Some(Outcome::Inspected(inspections(items.get(1..)?, operation)?)),
        (Verb::Hello, "hello") => Some(Outcome::Hello(if items.len() > 1 { Some(record::read(items)?) } else { None })),
        (Verb::Hello, _) => None,
        (_, "forgot") => Some(Outcome::Forgot),
        (Verb::Claim, "nolist") => Some(Outcome::NoList),
        (Verb::Claim, "other") => {
            Some(Outcome::OtherList { says: text(items.get(1)?)?, left: remaining(items.get(2)?)?? })
        }
        _ => None,
    }
}

/// The index of the misused name, from its number in the reply.
fn misused(number: &Value, operation: &Operation) -> Option<usize> {
    let name = usize::try_from(unsigned(number)?).ok()?.checked_sub(1)?;
    (name < operation.keyed().count()).then_some(name)
}

fn inspections(items: &[Value], operation: &Operation) -> Option<Vec<Inspection>> {
    let entries = items.chunks(9).map(inspection).collect::<Option<Vec<_>>>()?;
    (entries.len() == operation.names().len()).then_some(entries)
}

fn inspection(items: &[Value]) -> Option<Inspection> {
    let [holder, count, left, mark, waiting, says, kind, ballot, over] = items else { return None };
    let fence = fence(mark)?;
    let holder = text(holder)?;
    let entry = if holder.is_empty() {
        Inspection::free(fence)
    } else {
        Inspection::held(holder, number(count)?, remaining(left)?, fence).with_kind(Kind::of(unsigned(kind)?))
    };
    let entry = entry.with_line(number(waiting)?);
    let entry = entry.with_ballots(self::fence(ballot)?, self::fence(over)?);
    match says.text()? {
        "" => Some(entry),
        says => Some(entry.with_description(description(says)?)),
    }
}

/// Parses a holder's note: `MS_HELD TOKEN NUMBER TEXT`.
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

/// Parses a fence. Like all ballots, it must be below 2^53.
fn fence(value: &Value) -> Option<u64> {
    unsigned(value).filter(|&fence| fence < ballot::LIMIT)
}

/// Parses a remaining time in ms. The inner `None` means that there is no end: the number is
/// negative, as with PTTL.
fn remaining(value: &Value) -> Option<Option<Duration>> {
    value.integer().map(|left| u64::try_from(left).ok().map(Duration::from_millis))
}

pub(crate) fn garbled() -> Fault {
    Fault::new(FaultKind::Garbled, "the reply is not from our scripts; does something else answer at this address?")
}

fn rejected(said: &str) -> Fault {
    Fault::new(refusal(said), advice(said))
}

/// The kind of an error that Redis returned: `Busy` if its cause may end by itself, else
/// `Rejected`.
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
        returned.replies.next(&operation)
    }

    fn reply(items: Vec<Value>) -> Value {
        let items = [Value::Integer(1)].into_iter().chain(items).collect();
        Value::Array(vec!["1 2 1 id".into(), "".into(), Value::Array(items)])
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
        let items =
            vec!["held".into(), "someone".into(), Value::Integer(-1), "5".into(), Value::Integer(0), Value::Integer(2)];
        let (holder, kind) = ("someone".into(), Kind::Once);
        let expected = Outcome::Held { holder, kind, remaining: None, fence: 5, queued: None };
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

    #[test]
    fn operations_that_went_as_asked_are_told_by_nothing_more() {
        for (verb, expected) in [
            (Verb::Claim, Some(Outcome::Granted { fence: 7 })),
            (Verb::Renew, Some(Outcome::Extended)),
            (Verb::Release, Some(Outcome::Released { held: 1 })),
            (Verb::Withdraw, Some(Outcome::Released { held: 1 })),
            (Verb::Inspect, None),
            (Verb::Hello, None),
        ] {
            for value in ["1 2 1 id".into(), Value::Array(vec!["1 2 1 id".into(), "".into()])] {
                let mut told = returned(&value, 1).unwrap();
                assert_eq!((told.time, told.id), (Duration::from_micros(1_000_002), Some("id")));
                assert_eq!(told.replies.next(&operation(verb)).ok(), expected, "{verb:?}");
            }
        }
    }

    #[test]
    fn replies_are_those_to_the_operations_of_their_numbers() {
        let stale = |number| Value::Array(vec![Value::Integer(number), "stale".into(), Value::Integer(number)]);
        let call = |others: &[i64]| {
            let others = others.iter().map(|&number| stale(number));
            Value::Array(["1 2 3 -".into(), "".into()].into_iter().chain(others).collect())
        };
        let value = call(&[1, 3]);
        let mut told = returned(&value, 3).unwrap();
        assert_eq!(told.id, None);
        let fences = [1, 7, 3].map(|expected| match told.replies.next(&operation(Verb::Claim)).unwrap() {
            Outcome::Stale { fence } | Outcome::Granted { fence } => (fence, expected),
            other => panic!("{other:?}"),
        });
        assert!(fences.iter().all(|(fence, expected)| fence == expected), "{fences:?}");
        for others in [&[0][..], &[4], &[2, 1], &[1, 1], &[-1]] {
            assert!(returned(&call(others), 3).is_none(), "{others:?}");
        }
    }

    #[test]
    fn a_text_of_another_form_is_no_reply() {
        for text in [
            "",
            "1",
            "1 0",
            "1 0 1",
            "1 0  id",
            "1 0 2 id",
            "1 0 x id",
            "1 0 +1 id",
            "x 0 1 id",
            "1 -1 1 id",
            "1 0 1 ",
            "1 0 1 1 id",
            "1 0 1 id\n",
            "18446744073709551615 18446744073709551615 1 id",
        ] {
            assert!(returned(&text.into(), 1).is_none(), "{text:?}");
            assert!(returned(&Value::Array(vec![text.into(), "".into()]), 1).is_none(), "{text:?}");
        }
    }

    #[test]
    fn out_of_memory_error_is_busy_and_names_the_remedy() {
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
    fn missing_record_is_forgot_and_another_list_is_reported() {
        for verb in [Verb::Claim, Verb::Renew, Verb::Release, Verb::Withdraw, Verb::Revoke, Verb::Inspect] {
            assert_eq!(decode(verb, vec!["forgot".into()]).unwrap(), Outcome::Forgot, "{verb:?}");
        }
        assert_eq!(decode(Verb::Hello, vec!["hello".into()]).unwrap(), Outcome::Hello(None));
        assert_eq!(decode(Verb::Hello, vec!["forgot".into()]).unwrap_err().kind(), FaultKind::Garbled);
        assert_eq!(decode(Verb::Claim, vec!["nolist".into()]).unwrap(), Outcome::NoList);
        let (says, left) = ("default 60000 4 a:1".to_owned(), Duration::from_millis(7));
        let other = decode(Verb::Claim, vec!["other".into(), says.clone().into(), Value::Integer(7)]);
        assert_eq!(other.unwrap(), Outcome::OtherList { says, left });
    }

    #[test]
    fn holder_note_is_decoded_whole_or_the_reply_is_garbled() {
        let inspected = |says: &str| {
            let told = ["inspected", "me", "1", "5", "7", "0", says, "1", "6", "0"];
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
    fn stale_fence_and_refused_channel_are_decoded() {
        let stale = decode(Verb::Claim, vec!["stale".into(), "5".into()]);
        assert_eq!(stale.unwrap(), Outcome::Stale { fence: 5 });
        for (unheard, expected) in [("", None), ("NOPERM", Some("NOPERM"))] {
            let value = Value::Array(vec!["1 0 0 -".into(), unheard.into()]);
            assert_eq!(returned(&value, 0).unwrap().unheard.as_deref(), expected);
        }
    }
}
