//! Reads a page of the names on a node with the command SCAN.

use super::decode::garbled;
use super::transport::{Answer, Argument, Arguments, Value};
use crate::node::operation::{Name, Operation, Scan};
use crate::node::reply::{Outcome, Reply};

/// The pattern for the keys of all names: the prefix of the record's key, then the name in braces.
fn pattern(record: &str) -> String {
    let mut pattern = String::new();
    for letter in record.strip_suffix("node").unwrap_or(record).chars() {
        if "*?[]^-\\".contains(letter) {
            pattern.push('\\');
        }
        pattern.push(letter);
    }
    pattern + "{*}"
}

/// Sends SCAN; `None` if the operation is no scan.
pub(super) fn ask(
    send: impl FnOnce(&'static str, &dyn Arguments) -> Answer<Value>,
    operation: &Operation,
    record: &str,
) -> Option<Answer<Value>> {
    let Operation::Scan(Scan { from, keys }) = operation else { return None };
    let pattern = pattern(record);
    let (pattern, count) = (Argument::Text(&pattern), Argument::Integer((*keys).into()));
    Some(send("SCAN", &[Argument::Text(from), Argument::Word("MATCH"), pattern, Argument::Word("COUNT"), count]))
}

/// Decodes a page of keys. Keeps only keys that consist of a prefix and `{name}`.
pub(super) fn read(value: &Value) -> Reply {
    let Value::Array(parts) = value else { return Err(garbled()) };
    let [next, Value::Array(keys)] = &parts[..] else { return Err(garbled()) };
    let next = next.text().ok_or_else(garbled)?.to_owned();
    let names = keys.iter().filter_map(|key| Name::of_key(key.text()?)).collect();
    Ok(Outcome::Scanned { next, names })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_is_matched_by_its_letters_alone() {
        assert_eq!(pattern("quorumlock:node"), "quorumlock:{*}");
        assert_eq!(pattern("a*b[c]node:node"), "a\\*b\\[c\\]node:{*}");
        assert_eq!(pattern("node"), "{*}");
    }

    #[test]
    fn keys_that_are_no_names_are_left_out_of_a_page() {
        let keys = ["p:{a}", "p:{a}:queue", "p:b", "p:{{x}:queue}"].map(Value::from).to_vec();
        let Ok(Outcome::Scanned { next, names }) = read(&Value::Array(vec!["17".into(), Value::Array(keys)])) else {
            panic!("a page is read");
        };
        let texts: Vec<_> = names.iter().map(|name| &**name.text()).collect();
        assert_eq!((&*next, &texts[..]), ("17", &["a", "{x}:queue"][..]));
        for other in [Value::Null, Value::Array(Vec::new()), Value::Array(vec![1.into(), Value::Null])] {
            assert!(read(&other).is_err(), "{other:?}");
        }
    }
}
