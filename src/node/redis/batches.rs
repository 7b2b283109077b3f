//! Groups the operations that are queued for a node into calls. Each call runs one script.

use std::collections::HashMap;
use std::sync::Arc;

use super::script::Script;
use crate::node::operation::{Operation, Renew};

/// The most operations in one call. More of them would block the node for too long.
pub(super) const BATCH: usize = 128;
/// The most names in a call of several operations. A single operation may have more.
const NAMES: usize = 256;
/// The most bytes of notes in a call of several operations. A single operation may have more.
const NOTES: usize = 256 << 10;

/// The jobs of one call.
#[derive(Debug)]
pub(super) struct Batch<T> {
    pub(super) script: Script,
    pub(super) jobs: Vec<T>,
    names: usize,
    /// The size of all notes in bytes.
    notes: usize,
}

impl<T> Batch<T> {
    fn takes(&self, script: Script, names: usize, notes: usize) -> bool {
        let fits = self.names + names <= NAMES && self.notes + notes <= NOTES;
        self.script == script && self.jobs.len() < BATCH && fits
    }
}

/// How many bytes of notes a node stores for an operation: one note for each name.
fn noted(operation: &Operation) -> usize {
    match operation {
        Operation::Renew(Renew { names, note: Some(note), .. }) => note.says.len() * names.len(),
        _ => 0,
    }
}

/// Groups jobs into calls of one script each. A job is put into the first call of its script that
/// has room. But a job is never put before a call that has one of the job's names, so operations on
/// one name keep their order. A job without names is put behind all earlier jobs, and all later
/// jobs are put behind this job.
pub(super) fn batches<T>(jobs: impl IntoIterator<Item = T>, of: impl Fn(&T) -> &Arc<Operation>) -> Vec<Batch<T>> {
    let (mut batches, mut last, mut behind) = (Vec::<Batch<T>>::new(), HashMap::new(), 0);
    // For each script, the first call that may have room.
    let mut open = [0; Script::ALL.len()];
    for job in jobs {
        let operation = of(&job).clone();
        let script = Script::of(operation.verb());
        let (names, notes) = (operation.keyed().count(), noted(&operation));
        let keys = || operation.keyed().map(|name| name.key().clone());
        let named = keys().filter_map(|key| last.get(&key).copied()).max().unwrap_or(0);
        let from = if names == 0 { batches.len().saturating_sub(1) } else { named.max(behind) };
        let open = &mut open[script as usize];
        while batches.get(*open).is_some_and(|batch| !batch.takes(script, 0, 0)) {
            *open += 1;
        }
        let fitting = |&at: &usize| batches[at].takes(script, names, notes);
        let at = (from.max(*open)..batches.len()).find(fitting).unwrap_or_else(|| {
            batches.push(Batch { script, jobs: Vec::new(), names: 0, notes: 0 });
            batches.len() - 1
        });
        if names == 0 {
            behind = at;
        }
        batches[at].jobs.push(job);
        batches[at].names += names;
        batches[at].notes += notes;
        last.extend(keys().map(|key| (key, at)));
    }
    batches
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::operation::{Claim, Hello, Intent, Name, Release};

    fn names(names: &[&str]) -> Arc<[Name]> {
        names.iter().map(|name| Name::new("p:", name).unwrap()).collect()
    }

    fn of(verb: char, names: &[&str]) -> Arc<Operation> {
        let claim = Claim { names: self::names(names), ..Claim::sample("a", "c/1", 7) };
        Arc::new(match verb {
            'c' => claim.into(),
            'r' => Release::of(&claim).into(),
            'i' => Operation::Inspect(claim.names),
            _ => Hello::sample(Intent::Look).into(),
        })
    }

    fn batched(jobs: &[(char, &[&str])]) -> Vec<Vec<usize>> {
        let jobs: Vec<_> = jobs.iter().map(|(verb, names)| of(*verb, names)).enumerate().collect();
        let numbers = |batch: Batch<(usize, _)>| batch.jobs.into_iter().map(|(number, _)| number).collect();
        batches(jobs, |(_, operation)| operation).into_iter().map(numbers).collect()
    }

    #[test]
    fn operations_of_one_script_share_a_call_in_order_per_name() {
        let mixed: [(char, &[&str]); 6] =
            [('c', &["a"]), ('r', &["b"]), ('c', &["c"]), ('r', &["d"]), ('c', &["a"]), ('r', &["e"])];
        assert_eq!(batched(&mixed), [vec![0, 2, 4], vec![1, 3, 5]]);
        let one: [(char, &[&str]); 4] = [('c', &["a"]), ('r', &["a"]), ('c', &["a"]), ('r', &["a"])];
        assert_eq!(batched(&one), [vec![0], vec![1], vec![2], vec![3]]);
        let between: [(char, &[&str]); 6] =
            [('r', &["a"]), ('c', &["a", "b"]), ('r', &["b"]), ('c', &["c"]), ('r', &["d"]), ('c', &["b"])];
        assert_eq!(batched(&between), [vec![0, 4], vec![1, 3], vec![2], vec![5]]);
        let node: [(char, &[&str]); 4] = [('h', &[]), ('c', &["a"]), ('h', &[]), ('c', &["b"])];
        assert_eq!(batched(&node), [vec![0], vec![1], vec![2], vec![3]]);
    }

    #[test]
    fn call_is_bounded_unless_it_has_one_operation() {
        let sizes = |jobs: Vec<(usize, char)>| {
            let texts: Vec<_> = (0..1_000).map(|number| number.to_string()).collect();
            let mut rest = texts.iter().map(String::as_str).cycle();
            let jobs: Vec<_> =
                jobs.into_iter().map(|(many, verb)| (verb, rest.by_ref().take(many).collect::<Vec<_>>())).collect();
            let jobs: Vec<_> = jobs.iter().map(|(verb, names)| (*verb, &names[..])).collect();
            batched(&jobs).iter().map(Vec::len).collect::<Vec<_>>()
        };
        assert_eq!(sizes(vec![(1, 'i'); BATCH + 1]), [BATCH, 1]);
        assert_eq!(sizes(vec![(100, 'i'), (100, 'i'), (56, 'i'), (1, 'i')]), [3, 1]);
        assert_eq!(sizes(vec![(100, 'i'), (157, 'i'), (3, 'i')]), [2, 1], "a later job that fits is sent first");
        assert_eq!(sizes(vec![(900, 'i'), (1, 'i')]), [1, 1]);
    }
}
