//! Clock steps that a new client cannot know of, because they happened before it first connected
//! (docs/guarantees.md, "What is not promised", 3). If a node's clock was set forward, the node may
//! have ended older holds too soon. So a client that revokes a name may not learn of such a hold.

use std::collections::BTreeMap;

use super::history::Micros;

#[derive(Debug, Default)]
pub struct Newcomers {
    /// By process: a lock that was granted before a step ends at most this long after the step.
    max_ttl: Vec<Micros>,
    /// Nodes whose clocks were set forward, and when.
    steps: Vec<(u8, Micros)>,
    /// When a process first connected to a node.
    met: BTreeMap<(u16, u8), Micros>,
}

impl Newcomers {
    pub fn new(max_ttl: Vec<Micros>) -> Self {
        Self { max_ttl, ..Self::default() }
    }

    pub fn stepped(&mut self, now: Micros, node: u8, by_ms: i64) {
        if by_ms > 0 {
            self.steps.push((node, now));
        }
    }

    pub fn connected(&mut self, now: Micros, process: u16, node: u8) {
        self.met.entry((process, node)).or_insert(now);
    }

    /// The last step that this process cannot know of, and that may still matter to a revocation
    /// that began at `began`. The process connected after this step, and the step was less than
    /// `max_ttl` before `began`.
    pub fn unknown_step(&self, process: u16, began: Micros) -> Option<Micros> {
        let longest = self.max_ttl.get(usize::from(process)).copied()?;
        let unknown = |&&(node, at): &&(u8, Micros)| {
            let met = self.met.get(&(process, node));
            met.is_some_and(|met| (at..=began).contains(met)) && began < at + longest
        };
        self.steps.iter().filter(unknown).map(|&(_, at)| at).max()
    }
}
