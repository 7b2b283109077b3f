//! Runs the tasks of all processes on one thread. Does not poll the tasks of a paused process, and
//! drops the tasks of a killed process.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};

use quorumlock::host::Task;

use crate::dice::Dice;

/// Tasks that were woken. A wake-up that comes while the driver sleeps is from a timer.
#[derive(Debug, Default)]
struct Wakes {
    ready: Mutex<VecDeque<usize>>,
    timers: Mutex<Vec<usize>>,
    awake: AtomicBool,
    driver: Mutex<Option<Waker>>,
}

#[derive(Debug)]
struct TaskWaker {
    task: usize,
    queued: AtomicBool,
    wakes: Arc<Wakes>,
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if self.queued.swap(true, Ordering::Relaxed) {
            return;
        }
        if self.wakes.awake.load(Ordering::Relaxed) {
            self.wakes.ready.lock().unwrap().push_back(self.task);
        } else {
            self.wakes.timers.lock().unwrap().push(self.task);
            if let Some(driver) = self.wakes.driver.lock().unwrap().take() {
                driver.wake();
            }
        }
    }
}

struct Slot {
    process: usize,
    task: Task,
    waker: Arc<TaskWaker>,
}

/// The scheduling state of a process.
#[derive(Debug, Default)]
struct Gate {
    paused: bool,
    dead: bool,
    /// Tasks that were woken while the process was paused, and whether a timer woke them.
    parked: Vec<(usize, bool)>,
    tasks: usize,
}

#[derive(Default)]
struct State {
    slots: Vec<Option<Slot>>,
    gates: Vec<Gate>,
}

pub struct Exec {
    state: Mutex<State>,
    wakes: Arc<Wakes>,
    dice: Mutex<Dice>,
}

impl Exec {
    pub fn new(dice: Dice) -> Self {
        let wakes = Arc::new(Wakes::default());
        wakes.awake.store(true, Ordering::Relaxed);
        Self { state: Mutex::default(), wakes, dice: Mutex::new(dice) }
    }

    pub fn add_process(&self) {
        self.state.lock().unwrap().gates.push(Gate::default());
    }

    pub fn spawn(&self, process: usize, task: Task) {
        let mut state = self.state.lock().unwrap();
        if state.gates[process].dead {
            drop(state);
            return drop(task);
        }
        state.gates[process].tasks += 1;
        let number = state.slots.len();
        let waker = Arc::new(TaskWaker { task: number, queued: AtomicBool::new(true), wakes: self.wakes.clone() });
        state.slots.push(Some(Slot { process, task, waker }));
        drop(state);
        self.wakes.ready.lock().unwrap().push_back(number);
    }

    /// Polls ready tasks, mostly in the order of their wake-ups, until no task is ready.
    pub fn run_ready(&self) {
        while let Some(task) = self.next_ready() {
            self.poll(task, false);
        }
    }

    /// Polls the tasks that timers woke while the driver slept.
    pub fn run_timers(&self) {
        loop {
            let timers = std::mem::take(&mut *self.wakes.timers.lock().unwrap());
            if timers.is_empty() {
                return;
            }
            for task in timers {
                self.poll(task, true);
                self.run_ready();
            }
        }
    }

    fn next_ready(&self) -> Option<usize> {
        let mut ready = self.wakes.ready.lock().unwrap();
        if ready.len() > 1 && self.dice.lock().unwrap().chance(0.2) {
            let index = self.dice.lock().unwrap().index(ready.len());
            return ready.swap_remove_front(index);
        }
        ready.pop_front()
    }

    fn poll(&self, number: usize, by_timer: bool) {
        let mut state = self.state.lock().unwrap();
        let Some(slot) = state.slots[number].take() else { return };
        let gate = &mut state.gates[slot.process];
        if gate.paused {
            gate.parked.push((number, by_timer));
            state.slots[number] = Some(slot);
            return;
        }
        drop(state);
        let Slot { process, mut task, waker } = slot;
        waker.queued.store(false, Ordering::Relaxed);
        let std_waker = Waker::from(waker.clone());
        let polled = task.as_mut().poll(&mut Context::from_waker(&std_waker));
        match polled {
            Poll::Pending => self.state.lock().unwrap().slots[number] = Some(Slot { process, task, waker }),
            Poll::Ready(()) => {
                drop(task);
                self.state.lock().unwrap().gates[process].tasks -= 1;
            }
        }
    }

    pub fn pause(&self, process: usize) {
        self.state.lock().unwrap().gates[process].paused = true;
    }

    /// Ends a pause. Returns two lists of tasks that were woken during the pause: tasks to make
    /// ready now, and tasks to wake later. If timers stood still too, the second list has the tasks
    /// that a timer woke; otherwise it is empty.
    pub fn resume(&self, process: usize, timers_stood_still: bool) -> (Vec<usize>, Vec<usize>) {
        let mut state = self.state.lock().unwrap();
        let gate = &mut state.gates[process];
        gate.paused = false;
        let (later, now): (Vec<_>, Vec<_>) =
            std::mem::take(&mut gate.parked).into_iter().partition(|&(_, by_timer)| by_timer && timers_stood_still);
        let later_slots = later.iter().filter_map(|&(task, _)| state.slots[task].as_ref());
        later_slots.for_each(|slot| slot.waker.queued.store(false, Ordering::Relaxed));
        drop(state);
        let tasks = |parked: Vec<(usize, bool)>| parked.into_iter().map(|(task, _)| task).collect();
        (tasks(now), tasks(later))
    }

    /// Puts tasks into the queue. None of them may be in the queue already.
    pub fn make_ready(&self, tasks: Vec<usize>) {
        self.wakes.ready.lock().unwrap().extend(tasks);
    }

    /// Wakes a task whose timer was late, because its machine was suspended.
    pub fn wake_late(&self, task: usize) {
        let waker = self.state.lock().unwrap().slots[task].as_ref().map(|slot| slot.waker.clone());
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Drops all tasks of a process, as SIGKILL does. No task of the process runs any more.
    pub fn kill(&self, process: usize) {
        let mut state = self.state.lock().unwrap();
        state.gates[process].dead = true;
        state.gates[process].tasks = 0;
        let of_process = |slot: &mut Option<Slot>| slot.take_if(|slot| slot.process == process);
        let doomed: Vec<_> = state.slots.iter_mut().filter_map(of_process).collect();
        drop(state);
        drop(doomed);
    }

    /// How many tasks of a process have not ended.
    pub fn tasks(&self, process: usize) -> usize {
        self.state.lock().unwrap().gates[process].tasks
    }

    /// Ends when `sleep` ends, or when a timer has woken a task.
    pub async fn sleep(&self, mut sleep: Pin<&mut tokio::time::Sleep>) {
        self.wakes.awake.store(false, Ordering::Relaxed);
        std::future::poll_fn(|context| {
            if sleep.as_mut().poll(context).is_ready() || !self.wakes.timers.lock().unwrap().is_empty() {
                return Poll::Ready(());
            }
            *self.wakes.driver.lock().unwrap() = Some(context.waker().clone());
            Poll::Pending
        })
        .await;
        self.wakes.awake.store(true, Ordering::Relaxed);
    }
}
