//! The language of scenes: a world without faults of its own, and events at given times. Times are
//! milliseconds from the moment at which all connections are up. Each run delays each event by
//! another random time.

use std::ops::Range;
use std::time::Duration;

use crate::cue::{Cue, Cues, HeldBack, Moment, Seen, ms};
use crate::dice::Dice;
use crate::judge::history::{Answer, Memory, Micros, Verb};
use crate::plan::Plan;
use crate::scenes::part::Part;

/// When the script begins. At this time, all connections are up.
const BEGIN: u64 = 500;

pub const NEVER: u64 = u64::MAX;

pub struct Script {
    pub plan: Plan,
    pub dice: Dice,
    pub processes: usize,
    /// The greatest delay of a cue.
    pub jitter: u64,
    pub cues: Vec<(Micros, Cue)>,
    pub waiting: Cues,
    pub held_back: Vec<HeldBack>,
}

impl Script {
    pub fn new(dice: Dice) -> Self {
        let plan = Plan::still(3, Duration::from_secs(3), Duration::from_secs(5));
        let (cues, waiting, held_back) = (Vec::new(), Cues::default(), Vec::new());
        Self { plan, dice, processes: 2, jitter: 20, cues, waiting, held_back }
    }

    /// Sets the size of the world: nodes, processes, ttl and max_ttl.
    pub fn world(&mut self, nodes: usize, processes: usize, ttl: u64, max_ttl: u64) {
        self.plan = Plan::still(nodes, Duration::from_millis(ttl), Duration::from_millis(max_ttl));
        self.processes = processes;
    }

    /// Five nodes and two lists, which share only n2. The first process has one list, all others
    /// the other list.
    pub fn two_lists(&mut self, ttl: u64, max_ttl: u64) {
        self.world(5, 2, ttl, max_ttl);
        self.plan.lists = vec![vec![0, 1, 2], vec![2, 3, 4], vec![2, 3, 4]];
    }

    /// Sets how long a node may take to answer.
    pub fn node_timeout(&mut self, timeout: u64) {
        self.plan.node_timeout = Duration::from_millis(timeout);
    }

    /// A time between `at` and `at + spread`.
    pub fn about(&mut self, at: u64, spread: u64) -> u64 {
        at + self.dice.between(0, spread + 1)
    }

    pub fn at(&mut self, at: u64, cue: Cue) {
        let jitter = self.dice.between(0, ms(self.jitter) + 1);
        self.cues.push((ms(BEGIN + at) + jitter, cue));
    }

    pub fn asks(&mut self, at: u64, process: usize, part: Part) {
        self.at(at, Cue::Asks(process, part));
    }

    /// Holds back messages sent within a time, in both directions, until `until` or for ever.
    pub fn hold_back(&mut self, process: usize, nodes: &[usize], sent: Range<u64>, until: u64) {
        self.hold_one_way(process, nodes, 0, sent.clone(), until);
        self.hold_one_way(process, nodes, 1, sent, until);
    }

    /// As `hold_back`, in one direction: 0 is to the node, 1 is from the node.
    pub fn hold_one_way(&mut self, process: usize, nodes: &[usize], way: usize, sent: Range<u64>, until: u64) {
        for &node in nodes {
            let sent = real(sent.start)..real(sent.end);
            let until = (until != NEVER).then(|| real(until));
            self.held_back.push(HeldBack { process, node, way, sent, until, verb: None });
        }
    }

    /// Holds back requests of this verb, as if they had been sent on an earlier connection. Later
    /// messages do not wait behind them.
    pub fn strays(&mut self, process: usize, node: usize, verb: Verb, sent: Range<u64>, until: u64) {
        let (sent, until) = (real(sent.start)..real(sent.end), (until != NEVER).then(|| real(until)));
        self.held_back.push(HeldBack { process, node, way: 0, sent, until, verb: Some(verb) });
    }

    /// Carries out the cue when the node has given this answer to an operation of this verb and
    /// process.
    pub fn once_done(&mut self, verb: Verb, process: usize, node: usize, answer: Answer, then: Cue) {
        self.once(Seen::Done, verb, process, Some(node), answer, 0, then);
    }

    /// As `once_done`, for the first such operation after `at`.
    pub fn once_done_after(&mut self, at: u64, verb: Verb, process: usize, node: usize, answer: Answer, then: Cue) {
        let (process, node, answer) = (Some(process), Some(node), Some(answer));
        let moment = Moment { seen: Seen::Done, process, node, verb, answer, nth: 0 };
        self.at(at, Cue::Awaits(moment, Box::new(then)));
    }

    /// Carries out the cue when answer number `nth` (counted from 0) of this kind has reached the
    /// process, from any node. The process has not read this answer yet.
    pub fn once_answered(&mut self, verb: Verb, process: usize, answer: Answer, nth: u32, then: Cue) {
        self.once(Seen::Answered, verb, process, None, answer, nth, then);
    }

    #[allow(clippy::too_many_arguments, reason = "the parts of a moment")]
    fn once(
        &mut self,
        seen: Seen,
        verb: Verb,
        process: usize,
        node: Option<usize>,
        answer: Answer,
        nth: u32,
        then: Cue,
    ) {
        let moment = Moment { seen, process: Some(process), node, verb, answer: Some(answer), nth };
        self.waiting.when(moment, vec![then]);
    }

    /// The end of the scene: all cues were carried out, all messages that were only delayed have
    /// arrived, and two more ttls have passed.
    pub fn ends(&self) -> Duration {
        let last = self.cues.iter().map(|(at, _)| *at).max().unwrap_or(ms(BEGIN));
        let late = self.held_back.iter().filter_map(|held| held.until).max().unwrap_or(0);
        Duration::from_micros(last.max(late)) + 2 * self.plan.ttl
    }
}

fn real(at: u64) -> Micros {
    if at == NEVER { Micros::MAX } else { ms(BEGIN + at) }
}

/// The node restarts at once, and is empty.
pub fn forgets(node: usize) -> Cue {
    Cue::Crash { node, memory: Memory::Empty, down: Duration::from_millis(1) }
}

pub fn pause(process: usize, last: u64) -> Cue {
    Cue::Pause { process, last: Duration::from_millis(last) }
}

/// Suspends the process's machine: when it continues, answers may come before timers.
pub fn suspend(process: usize, last: u64) -> Cue {
    Cue::Suspend { process, last: Duration::from_millis(last) }
}

pub const fn millis(count: u64) -> Duration {
    Duration::from_millis(count)
}
