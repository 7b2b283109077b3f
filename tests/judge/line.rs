//! Places in nodes' lines: whoever took one gives it up there. A message that was late may take it
//! again; then it ends by itself.

use std::collections::BTreeMap;

use super::history::{Answer, Micros, Op, Owner, Verb};
use super::processes::Processes;
use super::rule::{Rule, Verdict};

/// A place in a node's line.
#[derive(Clone, Copy, Debug, Default)]
struct Stand {
    process: u16,
    /// When the last message was sent that took it.
    taken: Option<Micros>,
    /// When the last one was sent that gives it up: a release, or what was granted the name.
    left: Micros,
}

#[derive(Debug, Default)]
pub struct Line {
    /// By owner, name and node.
    stands: BTreeMap<(Owner, u8, u8), Stand>,
}

impl Line {
    pub fn submitted(&mut self, op: Op) {
        if op.verb == Verb::Release {
            self.stand(op).left = op.sent;
        }
    }

    /// Who waits takes a place; who is granted the name has left it.
    pub fn did(&mut self, op: Op, answer: Answer) {
        // Another process took the name away, and nobody's place.
        if op.verb == Verb::Revoke {
            return;
        }
        let stand = self.stand(op);
        match answer {
            Answer::Refused if op.waits => stand.taken = stand.taken.max(Some(op.sent)),
            Answer::Granted => stand.left = op.sent.max(stand.left),
            _ => {}
        }
    }

    /// Its places are gone. Who gave one up has done so: a message from before, sent again to the
    /// process that answers now, may take it once more.
    pub fn forgot(&mut self, node: u8) {
        self.stands.iter_mut().filter(|((.., at), _)| *at == node).for_each(|(_, stand)| stand.taken = None);
    }

    /// At the end.
    pub fn never_left(&self, processes: &Processes, verdict: &mut Verdict) {
        for ((owner, _, node), stand) in &self.stands {
            if !processes.is_dead(stand.process) && stand.taken.is_some_and(|taken| taken > stand.left) {
                let why = format!("owner number {owner} never left the line of n{node}");
                verdict.broken(Rule::LeftBehind, why);
            }
        }
    }

    fn stand(&mut self, op: Op) -> &mut Stand {
        let new = Stand { process: op.process, ..Stand::default() };
        self.stands.entry((op.owner, op.name, op.node)).or_insert(new)
    }
}
