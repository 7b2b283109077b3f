//! The commands that callers may have sent by themselves, and who looks after their answers.

use std::task::Waker;

use super::flight::{Flight, Flights};

/// How many are on their way at most. One is alone mostly; a second one comes behind an answer that
/// was not waited for, since others had decided.
const MOST: usize = 2;

/// What callers and the batcher know of them.
#[derive(Debug, Default)]
pub(super) struct Lone {
    /// They wait for their answers, in order.
    waits: Flights,
    state: State,
    /// Wakes the batcher.
    batcher: Option<Waker>,
    /// Whether the batcher takes over what callers send.
    confirmed: bool,
    /// Whether callers may send nothing any more.
    shut: bool,
    /// Whether the batcher looks after them when an answer has had its time.
    watched: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Idle,
    /// Somebody sends one or looks at all of them; and whether an answer may have come meanwhile, or
    /// the batcher has asked for them.
    Busy(bool),
    /// The generation has ended.
    Over,
}

impl Lone {
    /// A caller begins to send, if it may where so many commands are on their way: nothing but what
    /// callers sent. Returns what wakes the batcher.
    pub(super) fn begin(&mut self, under_way: usize) -> Option<Waker> {
        let few = under_way < MOST && under_way == self.waits.len();
        let may = few && self.confirmed && !self.shut && self.state == State::Idle;
        let batcher = self.batcher.clone().filter(|_| may)?;
        self.state = State::Busy(false);
        Some(batcher)
    }

    /// One more waits from now on. Returns whether its answer may have come already, or the batcher
    /// is to look after it; and the flight, where the generation has ended.
    pub(super) fn wait(&mut self, flight: Flight) -> (bool, Option<Flight>) {
        if self.state == State::Over {
            return (false, Some(flight));
        }
        self.waits.push(flight);
        (self.idle() || !self.watched, None)
    }

    /// Nobody sends anything. Returns whether the batcher is to look.
    pub(super) fn idle(&mut self) -> bool {
        let State::Busy(woken) = self.state else { return false };
        self.state = State::Idle;
        woken
    }

    /// An answer may be there: returns all that wait, if nobody is at them.
    pub(super) fn woken(&mut self) -> Option<Flights> {
        if self.noted() || self.waits.len() == 0 {
            return None;
        }
        self.state = State::Busy(false);
        Some(std::mem::take(&mut self.waits))
    }

    /// These wait on. Returns whether the batcher is to look after them; and the flights, where the
    /// generation has ended.
    pub(super) fn looked(&mut self, flights: Flights) -> (bool, Option<Flights>) {
        if self.state == State::Over {
            return (false, Some(flights));
        }
        let unwatched = flights.len() > 0 && !self.watched;
        self.waits = flights;
        (self.idle() || unwatched, None)
    }

    /// The batcher, which this wakes, looks after them from now on.
    pub(super) fn taken_over(&mut self, batcher: &Waker) -> Flights {
        self.wakes(batcher);
        self.confirmed = true;
        self.taken()
    }

    /// This wakes the batcher from now on.
    pub(super) fn wakes(&mut self, batcher: &Waker) {
        if !self.batcher.as_ref().is_some_and(|known| known.will_wake(batcher)) {
            self.batcher = Some(batcher.clone());
        }
    }

    /// The batcher looks after them when an answer has had its time.
    pub(super) const fn watch(&mut self) {
        self.watched = true;
    }

    /// The batcher does not any more: the next caller wakes it. Returns what waits, which it takes
    /// over.
    pub(super) fn unwatch(&mut self) -> Flights {
        self.watched = false;
        self.taken()
    }

    pub(super) fn batcher(&self) -> Option<Waker> {
        self.batcher.clone()
    }

    /// The same, as long as callers may send.
    pub(super) fn batcher_of_callers(&self) -> Option<Waker> {
        self.batcher.clone().filter(|_| !self.shut)
    }

    /// Callers send nothing any more.
    pub(super) const fn shut(&mut self) {
        self.shut = true;
    }

    /// The generation has ended. Returns what waits.
    pub(super) fn end(&mut self) -> Flights {
        (self.shut, self.batcher, self.state) = (true, None, State::Over);
        std::mem::take(&mut self.waits)
    }

    fn taken(&mut self) -> Flights {
        if self.noted() { Flights::default() } else { std::mem::take(&mut self.waits) }
    }

    /// Whether somebody is at them, who takes note that others have asked.
    fn noted(&mut self) -> bool {
        if let State::Busy(woken) = &mut self.state {
            *woken = true;
        }
        self.state != State::Idle
    }
}
