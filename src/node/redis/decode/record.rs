//! Decodes the record in the reply to a hello.

use std::sync::Arc;
use std::time::Duration;

use super::{fence, is_id, remaining, unsigned};
use crate::node::operation::OldAtOnce;
use crate::node::redis::transport::Value;
use crate::rules::list::{InForce, Record, Sighting};

pub(super) fn read(items: &[Value]) -> Option<Record> {
    let [_, id, process, age, high, floor, synced, word, list @ ..] = items else { return None };
    let [hash, left, begun, says, seen @ ..] = list else { return None };
    Some(Record {
        id: shared(id).filter(|id| is_id(id))?,
        process: shared(process)?,
        age: remaining(age)??,
        high: fence(high)?,
        floor: fence(floor)?,
        synced: unsigned(synced)? == 1,
        word: old_at_once(word)?,
        in_force: match shared(hash)? {
            none if none.is_empty() => None,
            hash => Some(InForce { hash, says: shared(says)?, left: remaining(left)??, age: remaining(begun)?? }),
        },
        seen: seen.iter().map(seen_as).collect::<Option<Vec<_>>>()?,
    })
}

/// Why the record counted as old at once. The inner `None` means that the record did not count as
/// old at once; the outer `None` means that the word is unknown.
fn old_at_once(word: &Value) -> Option<Option<OldAtOnce>> {
    match word.text()? {
        "" => Some(None),
        word => OldAtOnce::parse(word).map(Some),
    }
}

/// Parses `NODE ID AGE`: AGE ms ago, a client reported that NODE has the record with this ID.
fn seen_as(seen: &Value) -> Option<Sighting> {
    let mut words = seen.text()?.split(' ');
    let (node, id, age) = (words.next()?, words.next()?, words.next()?.parse().ok()?);
    Some(Sighting { node: node.into(), id: id.into(), age: Duration::from_millis(age) })
}

fn shared(value: &Value) -> Option<Arc<str>> {
    value.text().map(Into::into)
}

#[cfg(test)]
mod tests {
    use std::iter::once;

    use super::*;

    const FULL: [&str; 13] =
        ["id", "process", "12", "7", "5", "0", "first", "hash", "3", "4", "says", "a:1 01 0", "b:2 02 9"];

    fn read(parts: &[&str]) -> Option<Record> {
        let items: Vec<_> = once("hello").chain(parts.iter().copied()).map(|part| part.to_owned().into()).collect();
        super::read(&items)
    }

    #[test]
    fn record_is_read_with_the_list_in_force_and_ids_that_were_seen() {
        let plain = Record {
            id: "id".into(),
            process: "process".into(),
            age: Duration::from_millis(12),
            high: 7,
            floor: 5,
            synced: true,
            word: None,
            in_force: None,
            seen: Vec::new(),
        };
        let read_plain = read(&["id", "process", "12", "7", "5", "1", "", "", "0", "0", ""]);
        assert_eq!(read_plain, Some(plain.clone()));
        let (left, age) = (Duration::from_millis(3), Duration::from_millis(4));
        let in_force = Some(InForce { hash: "hash".into(), says: "says".into(), left, age });
        let sighting =
            |node: &str, id: &str, ms| Sighting { node: node.into(), id: id.into(), age: Duration::from_millis(ms) };
        let seen = vec![sighting("a:1", "01", 0), sighting("b:2", "02", 9)];
        let full = Record { synced: false, word: Some(OldAtOnce::FirstUse), in_force, seen, ..plain };
        assert_eq!(read(&FULL), Some(full));
    }

    #[test]
    fn record_that_is_not_whole_is_none() {
        let broken = [
            (0, ""),
            (2, "-1"),
            (3, "9007199254740992"),
            (5, "x"),
            (6, "other"),
            (8, "-1"),
            (11, "a:1"),
            (11, "a:1 01"),
            (11, "a:1 01 -1"),
        ];
        for (at, part) in broken {
            let mut parts = FULL;
            parts[at] = part;
            assert_eq!(read(&parts), None, "{at} {part}");
        }
        assert_eq!(read(&FULL[..10]), None);
    }
}
