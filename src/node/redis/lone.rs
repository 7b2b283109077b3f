//! The one command that a caller may have sent by itself, and who looks after its answer.

use std::task::Waker;

use super::flight::Flight;

/// What callers and the batcher know of it.
#[derive(Debug, Default)]
pub(super) struct Lone {
    state: State,
    /// Wakes the batcher.
    batcher: Option<Waker>,
    /// Whether the batcher takes over what callers send.
    confirmed: bool,
    /// Whether callers may send nothing any more.
    shut: bool,
    /// Whether the batcher looks after it when an answer has had its time.
    watched: bool,
}

#[derive(Debug, Default)]
enum State {
    /// There is none, or the batcher has taken it over.
    #[default]
    None,
    /// Somebody sends it or looks at it; and whether its answer may have come meanwhile, or the
    /// batcher has asked for it.
    Busy(bool),
    /// It waits for its answer.
    Waits(Flight),
    /// The generation has ended.
    Over,
}

impl Lone {
    /// A caller begins to send, if it may. Returns what wakes the batcher.
    pub(super) fn begin(&mut self) -> Option<Waker> {
        let may = self.confirmed && !self.shut && matches!(self.state, State::None);
        let batcher = self.batcher.clone().filter(|_| may)?;
        self.state = State::Busy(false);
        Some(batcher)
    }

    /// It waits from now on. Returns whether its answer may have come already, or the batcher is to
    /// look after it; and the flight, where the generation has ended.
    pub(super) fn wait(&mut self, flight: Flight) -> (bool, Option<Flight>) {
        match self.state {
            State::Over => (false, Some(flight)),
            State::Busy(woken) => {
                self.state = State::Waits(flight);
                (woken || !self.watched, None)
            }
            // Nobody else can have begun: it is on its way.
            State::None | State::Waits(_) => (true, Some(flight)),
        }
    }

    /// Its answer may be there: returns it, if nobody is at it.
    pub(super) fn woken(&mut self) -> Option<Flight> {
        match &mut self.state {
            State::Waits(_) => self.take(State::Busy(false)),
            State::Busy(woken) => {
                *woken = true;
                None
            }
            State::None | State::Over => None,
        }
    }

    /// It is over. Returns whether the batcher has asked for it meanwhile.
    pub(super) fn landed(&mut self) -> bool {
        let State::Busy(woken) = self.state else { return false };
        self.state = State::None;
        woken
    }

    /// The batcher, which this wakes, looks after it from now on.
    pub(super) fn taken_over(&mut self, batcher: &Waker) -> Option<Flight> {
        self.wakes(batcher);
        self.confirmed = true;
        match &mut self.state {
            State::Waits(_) => self.take(State::None),
            State::Busy(woken) => {
                *woken = true;
                None
            }
            State::None | State::Over => None,
        }
    }

    /// This wakes the batcher from now on.
    pub(super) fn wakes(&mut self, batcher: &Waker) {
        if !self.batcher.as_ref().is_some_and(|known| known.will_wake(batcher)) {
            self.batcher = Some(batcher.clone());
        }
    }

    /// The batcher looks after it when an answer has had its time.
    pub(super) const fn watch(&mut self) {
        self.watched = true;
    }

    /// The batcher does not any more: the next caller wakes it. Returns what waits, which it takes
    /// over.
    pub(super) fn unwatch(&mut self) -> Option<Flight> {
        self.watched = false;
        if matches!(self.state, State::Waits(_)) { self.take(State::None) } else { None }
    }

    pub(super) fn batcher(&self) -> Option<Waker> {
        self.batcher.clone()
    }

    /// Callers send nothing any more.
    pub(super) const fn shut(&mut self) {
        self.shut = true;
    }

    /// The generation has ended. Returns what waits.
    pub(super) fn end(&mut self) -> Option<Flight> {
        self.shut = true;
        self.batcher = None;
        self.take(State::Over)
    }

    fn take(&mut self, next: State) -> Option<Flight> {
        match std::mem::replace(&mut self.state, next) {
            State::Waits(flight) => Some(flight),
            _ => None,
        }
    }
}
