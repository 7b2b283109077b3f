//! What a scene's script, or a directed fault, does to the world at one moment; and the moments
//! that it may wait for.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use crate::faults::Action;
use crate::judge::history::{Answer, Memory, Micros, Op, Verb, What};
use crate::scenes::part::{self, Part};
use crate::world::{Core, Event, World, micros};

/// Something that is done to the world at once.
#[derive(Clone, Debug)]
pub enum Cue {
    /// A client of this process asks for the name.
    Asks(usize, Part),
    /// Another process starts.
    Starts,
    /// A server does: as long as nothing else is said, a name leads to the server of its number.
    Crash {
        node: usize,
        memory: Memory,
        down: Duration,
    },
    /// A replica of it takes over.
    Promote {
        node: usize,
        memory: Memory,
    },
    /// FLUSHALL, while it runs.
    Flush(usize),
    /// All its keys are deleted by hand, which leaves no trace.
    Wipe(usize),
    /// What an old copy on disk holds from now on.
    Save(usize),
    /// The running process loads that.
    Load(usize),
    /// A name leads one process to another server from now on.
    Splits {
        node: usize,
        process: usize,
        server: usize,
    },
    /// One server was the replica of the other until now.
    Copies {
        from: usize,
        to: usize,
    },
    /// By a client of this process the operator says that its servers are new.
    Inits(usize),
    StepClock {
        node: usize,
        by_ms: i64,
    },
    /// By some time, if everybody will see that.
    StepSeenClock(usize),
    Cut {
        process: usize,
        node: usize,
        ways: [bool; 2],
        last: Duration,
    },
    StepWall {
        process: usize,
        by_ms: i64,
    },
    Pause {
        process: usize,
        last: Duration,
    },
    /// Its machine stands still, and its timers with it.
    Suspend {
        process: usize,
        last: Duration,
    },
    Kill(usize),
    Shutdown(usize),
    /// The process takes the name away from whoever holds it.
    Revokes {
        process: usize,
        name: u8,
    },
    /// The connection is replaced; what was sent on the old one may still arrive.
    Replace {
        process: usize,
        node: usize,
    },
    /// From now on it waits for a moment, and does the other then.
    Awaits(Moment, Box<Cue>),
}

/// Messages of one direction between a process and a node that are held back: those that leave
/// within `sent` arrive at `until` at the earliest, or never. What follows them on their connection
/// waits behind them.
#[derive(Clone, Debug)]
pub struct HeldBack {
    pub process: usize,
    pub node: usize,
    /// To the node, or back.
    pub way: usize,
    pub sent: Range<Micros>,
    pub until: Option<Micros>,
    /// Only these requests, and as if each had been sent on an earlier connection: nothing waits
    /// behind them.
    pub verb: Option<Verb>,
}

/// A moment in the history: the `nth` event of its kind, counted from 0.
#[derive(Clone, Copy, Debug)]
pub struct Moment {
    pub seen: Seen,
    pub process: Option<usize>,
    pub node: Option<usize>,
    pub verb: Verb,
    pub answer: Option<Answer>,
    pub nth: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    /// A node has carried it out.
    Done,
    /// The answer has reached its process, which has not run since.
    Answered,
}

impl Moment {
    fn is(&self, what: What) -> bool {
        let (seen, op, answer) = match what {
            What::Did(op, answer) => (Seen::Done, op, answer),
            What::Delivered(op, answer) => (Seen::Answered, op, answer),
            _ => return false,
        };
        let of = |op: &Op| {
            self.process.is_none_or(|process| process == op.process as usize)
                && self.node.is_none_or(|node| node == op.node as usize)
        };
        self.seen == seen && self.verb == op.verb && of(&op) && self.answer.is_none_or(|wanted| wanted == answer)
    }
}

/// What waits for its moment, and which messages are held back.
#[derive(Debug, Default)]
pub struct Cues {
    waiting: Vec<(Moment, Vec<Cue>)>,
    held_back: Vec<HeldBack>,
    /// How much of the history was looked at.
    looked: usize,
    /// Answers that have reached their process, which has not run since.
    answered: Vec<(Op, Answer)>,
}

impl Cues {
    pub fn when(&mut self, moment: Moment, then: Vec<Cue>) {
        self.waiting.push((moment, then));
    }

    pub fn answered(&mut self, told: Vec<(Op, Answer)>) {
        self.answered.extend(told);
    }

    /// What is to be done after `what` has happened.
    fn after(&mut self, what: What) -> Vec<Cue> {
        let mut due = Vec::new();
        self.waiting.retain_mut(|(moment, then)| match moment.is(what) {
            true if moment.nth == 0 => {
                due.append(then);
                false
            }
            true => {
                moment.nth -= 1;
                true
            }
            false => true,
        });
        due
    }
}

impl Core {
    pub fn hold_back(&mut self, held_back: HeldBack) {
        self.cues.held_back.push(held_back);
    }

    /// From now on nothing is of this process.
    pub fn hold_back_of_no_more(&mut self, process: usize) {
        self.cues.held_back.retain(|held| held.process != process);
    }

    /// From now on nothing is.
    pub fn hold_back_no_more(&mut self) {
        self.cues.held_back.clear();
    }

    /// Whether anything is, or was.
    pub fn holds_back(&self) -> bool {
        !self.cues.held_back.is_empty()
    }

    /// Whether a message that leaves now is held back: until when, or for ever.
    pub fn held_back(&self, now: Micros, process: usize, node: usize, way: usize) -> Option<Option<Micros>> {
        let of = |held: &&HeldBack| (held.process, held.node, held.way) == (process, node, way);
        let whole = |held: &&HeldBack| of(held) && held.verb.is_none();
        self.cues.held_back.iter().rfind(|held| whole(held) && held.sent.contains(&now)).map(|held| held.until)
    }

    /// Whether a request that leaves now, with operations of these verbs, strays: until when, or for
    /// ever.
    pub fn strays(&self, now: Micros, process: usize, node: usize, verbs: &[Verb]) -> Option<Option<Micros>> {
        let of = |held: &&HeldBack| (held.process, held.node) == (process, node);
        let strays = |held: &&HeldBack| of(held) && held.verb.is_some_and(|verb| verbs.contains(&verb));
        self.cues.held_back.iter().rfind(|held| strays(held) && held.sent.contains(&now)).map(|held| held.until)
    }

    fn due(&mut self, now: Micros) -> Vec<Cue> {
        let mut due = Vec::new();
        while let Some(event) = self.history.events.get(self.cues.looked) {
            let what = event.what;
            self.cues.looked += 1;
            // By the time the library has an answer, its process has run.
            if !matches!(what, What::Delivered(..)) {
                due.append(&mut self.cues.after(what));
                due.append(&mut self.directed(now, what));
            }
        }
        for (op, answer) in std::mem::take(&mut self.cues.answered) {
            due.append(&mut self.cues.after(What::Delivered(op, answer)));
            due.append(&mut self.directed(now, What::Delivered(op, answer)));
        }
        due
    }
}

impl World {
    /// Does what was to be done after what has just happened, before anybody runs who was told of
    /// it.
    pub fn cued(self: &Arc<Self>) {
        let now = self.now();
        let due = self.core.lock().unwrap().due(now);
        due.into_iter().for_each(|cue| self.cue(cue));
    }

    pub fn cue(self: &Arc<Self>, cue: Cue) {
        match cue {
            Cue::Asks(process, part) => part::begin(self, process, part),
            Cue::Starts => {
                crate::process::start(self, 0, 0, 0);
            }
            Cue::Crash { node, memory, down } => self.act(Action::Crash { node, memory, down }),
            Cue::Promote { node, memory } => self.act(Action::Promote { node, memory, down: Duration::ZERO }),
            Cue::Flush(node) => self.flush(node),
            Cue::Wipe(node) => self.change_memory(node, Memory::Empty),
            Cue::Save(node) => self.core.lock().unwrap().servers[node].save(),
            Cue::Load(node) => self.change_memory(node, Memory::Old),
            Cue::Splits { node, process, server } => self.split(node, &[process], server),
            Cue::Copies { from, to } => self.copy(from, to),
            Cue::Inits(process) => part::init(self, process),
            Cue::StepClock { node, by_ms } => self.step_node(node, by_ms),
            Cue::StepSeenClock(node) => {
                self.step_clock(node);
            }
            Cue::Cut { process, node, ways, last } => self.cut_for(process, node, ways, last),
            Cue::StepWall { process, by_ms } => self.step_process(process, by_ms),
            Cue::Pause { process, last } => drop(self.pause(process, last, false)),
            Cue::Suspend { process, last } => drop(self.pause(process, last, true)),
            Cue::Kill(process) => self.kill(process),
            Cue::Shutdown(process) => part::shut_down(self, process),
            Cue::Revokes { process, name } => drop(self.revoke(process, name)),
            Cue::Replace { process, node } => self.replace(process, node),
            Cue::Awaits(moment, then) => self.core.lock().unwrap().cues.when(moment, vec![*then]),
        }
    }

    /// Does it later.
    pub fn cue_at(&self, at: Micros, cue: Cue) {
        self.core.lock().unwrap().schedule(at, Event::Act(Action::Cue(cue)));
    }

    fn step_node(&self, node: usize, by_ms: i64) {
        let now = self.now();
        let mut core = self.core.lock().unwrap();
        core.servers[node].step_clock(now, by_ms);
        core.history.record(now, What::ClockStepped { node: node as u8, by_ms });
    }

    fn step_process(&self, process: usize, by_ms: i64) {
        let now = self.now();
        let mut core = self.core.lock().unwrap();
        core.processes[process].wall += by_ms * 1_000;
        core.history.record(now, What::WallStepped { process: process as u16, by_ms });
    }

    /// What a server stores becomes another under its running process, which leaves no trace.
    fn change_memory(&self, node: usize, memory: Memory) {
        let now = self.now();
        let mut core = self.core.lock().unwrap();
        match memory {
            Memory::Kept => {}
            Memory::Empty => core.servers[node].wipe(),
            Memory::Old => core.servers[node].load(),
        }
        core.history.record(now, What::Forgot { node: node as u8, memory });
    }

    fn replace(&self, process: usize, node: usize) {
        self.core.lock().unwrap().replace(process, node);
    }
}

/// Whole milliseconds.
pub fn ms(count: u64) -> Micros {
    micros(Duration::from_millis(count))
}
