//! Cues: the actions of a scene's script, or of a directed fault, on the world, and the moments for
//! which a cue may wait.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use crate::faults::Action;
use crate::judge::history::{Answer, Memory, Micros, Op, Verb, What};
use crate::scenes::part::{self, Part};
use crate::world::{Core, Event, World, micros};

/// One action on the world. All actions except `Awaits` begin at once.
#[derive(Clone, Debug)]
pub enum Cue {
    /// A client of this process plays this part.
    Asks(usize, Part),
    /// A new process starts.
    Starts,
    /// A server crashes. When a run begins, each node's name leads to the server of the same
    /// number.
    Crash {
        node: usize,
        memory: Memory,
        down: Duration,
    },
    /// A replica of this server takes over.
    Promote {
        node: usize,
        memory: Memory,
    },
    /// FLUSHALL on a running server.
    Flush(usize),
    /// All keys of a server are deleted by hand. INFO shows no trace of this.
    Wipe(usize),
    /// A server saves its present state as an old copy on disk.
    Save(usize),
    /// The running server loads its old copy.
    Load(usize),
    /// The node's name now leads this process to another server.
    Splits {
        node: usize,
        process: usize,
        server: usize,
    },
    /// The server `to` gets the data of the server `from`, as if `to` had been a replica of `from`.
    Copies {
        from: usize,
        to: usize,
    },
    /// The operator runs `init` by a client of this process.
    Inits(usize),
    StepClock {
        node: usize,
        by_ms: i64,
    },
    /// The node's clock is stepped, if every process will notice the step.
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
    /// The process's machine is suspended, so its timers stand still too.
    Suspend {
        process: usize,
        last: Duration,
    },
    Kill(usize),
    Shutdown(usize),
    /// The process revokes the lock on this name.
    Revokes {
        process: usize,
        name: u8,
    },
    /// The connection is replaced. Requests that were sent on the old connection may still arrive.
    Replace {
        process: usize,
        node: usize,
    },
    /// The cue in the box is carried out at this moment.
    Awaits(Moment, Box<Cue>),
}

/// Holds back messages in one direction between a process and a node. A message that leaves within
/// `sent` arrives at `until` at the earliest, or never if `until` is `None`. Later messages on the
/// same connection wait behind this message.
#[derive(Clone, Debug)]
pub struct HeldBack {
    pub process: usize,
    pub node: usize,
    /// 0: to the node; 1: from the node.
    pub way: usize,
    pub sent: Range<Micros>,
    pub until: Option<Micros>,
    /// If set, only requests of this verb are held back. Such requests count as sent on an earlier
    /// connection, so later messages do not wait behind them.
    pub verb: Option<Verb>,
}

/// A moment in the history: the event number `nth`, counted from 0, of all events that match the
/// other fields.
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
    /// A node has carried out the operation.
    Done,
    /// The reply has reached its process, which has not read the reply yet.
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

/// Cues that wait for their moments, and the messages that are held back.
#[derive(Debug, Default)]
pub struct Cues {
    waiting: Vec<(Moment, Vec<Cue>)>,
    held_back: Vec<HeldBack>,
    /// How many events of the history have been compared with the moments.
    looked: usize,
    /// Replies that have reached their processes, and that no process has read yet.
    answered: Vec<(Op, Answer)>,
}

impl Cues {
    pub fn when(&mut self, moment: Moment, then: Vec<Cue>) {
        self.waiting.push((moment, then));
    }

    pub fn answered(&mut self, told: Vec<(Op, Answer)>) {
        self.answered.extend(told);
    }

    /// The cues that are due after the event `what`.
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

    /// From now on, no message of this process is held back.
    pub fn hold_back_of_no_more(&mut self, process: usize) {
        self.cues.held_back.retain(|held| held.process != process);
    }

    /// From now on, no message is held back.
    pub fn hold_back_no_more(&mut self) {
        self.cues.held_back.clear();
    }

    /// Whether the script holds back messages at any time.
    pub fn holds_back(&self) -> bool {
        !self.cues.held_back.is_empty()
    }

    /// `None` if a message that leaves now is not held back. Otherwise the time until which the
    /// message is held back; `Some(None)` means for ever.
    pub fn held_back(&self, now: Micros, process: usize, node: usize, way: usize) -> Option<Option<Micros>> {
        let of = |held: &&HeldBack| (held.process, held.node, held.way) == (process, node, way);
        let whole = |held: &&HeldBack| of(held) && held.verb.is_none();
        self.cues.held_back.iter().rfind(|held| whole(held) && held.sent.contains(&now)).map(|held| held.until)
    }

    /// As `held_back`, for a request with operations of these verbs. The request is held back as if
    /// it had been sent on an earlier connection.
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
            // When `Delivered` is recorded, the process has already run. `answered` has the same
            // replies before the process runs.
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
    /// Carries out the cues that are due after the latest events. No task that learned of these
    /// events has run yet.
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

    /// Schedules a cue.
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

    /// Replaces the data of a running server. INFO shows no trace of this.
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

/// Milliseconds as `Micros`.
pub fn ms(count: u64) -> Micros {
    micros(Duration::from_millis(count))
}
