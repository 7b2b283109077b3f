//! A claim's places in the lines of all its names in this process.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::task::coop::unconstrained;

use super::queue::{Head, Place, Queue};
use crate::error::Result;
use crate::node::Name;

/// Dropping them leaves the lines.
#[derive(Debug)]
pub(super) struct Places {
    first: Place,
    others: Vec<Place>,
}

/// Turns that are waited for, with the numbers of their places.
type Waits = Vec<(usize, Pin<Box<dyn Future<Output = bool> + Send>>)>;

impl Places {
    /// Joins the lines of all names, of which there is one at least.
    pub(super) fn join(queue: &Arc<Queue>, names: &[Name]) -> Result<Self> {
        let first = queue.join(names[0].text())?;
        let others = names[1..].iter().map(|name| queue.join(name.text())).collect::<Result<_>>()?;
        Ok(Self { first, others })
    }

    /// Those of a reader: nobody of this process waits for it, nor it for others. Nodes have the
    /// order.
    pub(super) fn of_reader(queue: &Arc<Queue>, names: &[Name]) -> Result<Self> {
        Ok(Self { first: queue.join_aside(names[0].text())?, others: Vec::new() })
    }

    /// Those of a writer that becomes a reader: it has waited.
    pub(super) fn of_writer(queue: &Arc<Queue>) -> Self {
        Self { first: queue.aside(), others: Vec::new() }
    }

    /// One whose name a caller in this process holds.
    pub(super) fn held(&self) -> Option<&Place> {
        self.all().find(|place| place.is_held())
    }

    /// One that has no turn, and cannot have it now, if any.
    pub(super) fn blocked(&self) -> &Place {
        self.all().find(|place| !place.is_first() && !place.is_free()).unwrap_or(&self.first)
    }

    /// Takes all turns if all are free, or none, and tells those behind. Whether it did.
    pub(super) fn try_turns(&mut self) -> bool {
        let all = self.take_turns();
        if all {
            self.tell(&Head::Trying);
        }
        all
    }

    fn take_turns(&mut self) -> bool {
        if self.others.is_empty() && self.first.try_turn() {
            return true;
        }
        let queue = self.first.queue().clone();
        // One name too: a set that tries may give it back in a moment.
        let _alone = queue.alone();
        let all = self.all_mut().all(Place::try_turn);
        if !all {
            self.all_mut().for_each(Place::give_back);
        }
        all
    }

    /// Waits for the turns of all, and tells nobody that they have come. It stands in all lines at once: those who wait in several have
    /// the same order in each, and none waits for another that waits for it.
    ///
    /// # Cancel safety
    /// Safe; the places are kept until they are dropped, and so are turns that have come, but the
    /// next wait gives these back and begins anew at the lines' ends.
    pub(super) async fn turns(&mut self) {
        self.all_mut().for_each(Place::give_back);
        if self.others.is_empty() {
            return self.first.turn().await;
        }
        let mut waits: Waits = self.all().enumerate().map(|(at, place)| (at, Box::pin(place.waits()) as _)).collect();
        while !waits.is_empty() {
            let mut told = pin!(self.blocked().told());
            let mut passed_on = false;
            let change = poll_fn(|context| {
                let got = self.poll_turns(&mut waits, context);
                if told.as_mut().poll(context).is_ready() || got {
                    return Poll::Ready(());
                }
                // Once: to be told wakes whoever is behind, which may be of the same task.
                if !std::mem::replace(&mut passed_on, true) {
                    self.pass_on();
                }
                Poll::Pending
            });
            unconstrained(change).await;
        }
    }

    /// Whether any turn has come.
    fn poll_turns(&mut self, waits: &mut Waits, context: &mut Context<'_>) -> bool {
        let (queue, before) = (self.first.queue().clone(), waits.len());
        let _alone = queue.alone();
        waits.retain_mut(|(at, wait)| match wait.as_mut().poll(context) {
            Poll::Ready(free) => {
                self.at(*at).begin(free);
                false
            }
            Poll::Pending => true,
        });
        waits.len() < before
    }

    /// Whoever is behind it for a name waits for whom it waits for.
    fn pass_on(&self) {
        let head = match self.blocked().head() {
            Head::Holding => Head::Contended(None),
            head => head,
        };
        self.all().filter(|place| place.is_first()).for_each(|place| place.tell(head.clone()));
    }

    /// Tells those behind how the claim fares.
    pub(super) fn tell(&self, head: &Head) {
        self.all().for_each(|place| place.tell(head.clone()));
    }

    /// It has the names: see [`Place::served`].
    pub(super) fn served(self, next: bool) -> Self {
        let others = self.others.into_iter().map(|place| place.served(next)).collect();
        Self { first: self.first.served(next), others }
    }

    /// Takes the places of those names out of it that `leave`. One stays.
    pub(super) fn split_off(&mut self, leave: impl Fn(&str) -> bool) -> Option<Self> {
        let mut left: Vec<_> = self.others.extract_if(.., |place| leave(place.name())).collect();
        if leave(self.first.name())
            && let Some(next) = self.others.pop()
        {
            left.push(std::mem::replace(&mut self.first, next));
        }
        Some(Self { first: left.pop()?, others: left })
    }

    fn at(&mut self, number: usize) -> &mut Place {
        match number.checked_sub(1).and_then(|other| self.others.get_mut(other)) {
            Some(other) => other,
            None => &mut self.first,
        }
    }

    fn all(&self) -> impl Iterator<Item = &Place> {
        std::iter::once(&self.first).chain(&self.others)
    }

    fn all_mut(&mut self) -> impl Iterator<Item = &mut Place> {
        std::iter::once(&mut self.first).chain(&mut self.others)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
    use std::thread;

    use futures::FutureExt;

    use super::*;

    #[derive(Debug, Default)]
    struct Wakes(AtomicUsize);

    impl std::task::Wake for Wakes {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn names(texts: &[&str]) -> Vec<Name> {
        texts.iter().map(|text| Name::new("", text).unwrap()).collect()
    }

    fn join(queue: &Arc<Queue>, texts: &[&str]) -> Places {
        Places::join(queue, &names(texts)).unwrap()
    }

    #[test]
    fn all_turns_are_taken_or_none() {
        let queue = Queue::new(8);
        let (mut one, mut both) = (join(&queue, &["b"]), join(&queue, &["a", "b"]));
        assert!(one.try_turns() && !both.try_turns());
        assert!(join(&queue, &["a"]).try_turns(), "it was given back");
        drop(one);
        assert!(both.try_turns());
        drop(both);
        assert_eq!(queue.len(), 0);
    }

    #[test]
    fn a_set_that_takes_nothing_keeps_nobody_from_one_of_its_names() {
        let queue = Queue::new(8);
        let (mut b, mut both) = (join(&queue, &["b"]), join(&queue, &["a", "b"]));
        assert!(b.try_turns());
        let ended = AtomicBool::new(false);
        let refused = thread::scope(|scope| {
            scope.spawn(|| {
                while !ended.load(Ordering::Relaxed) && !both.try_turns() {
                    std::hint::spin_loop();
                }
            });
            let refused = (0..20_000).filter(|_| !join(&queue, &["a"]).try_turns()).count();
            ended.store(true, Ordering::Relaxed);
            refused
        });
        assert_eq!(refused, 0);
    }

    #[test]
    fn whoever_waits_in_several_lines_stands_in_all_of_them_from_the_beginning() {
        let queue = Queue::new(8);
        let (mut a, mut b) = (join(&queue, &["a"]), join(&queue, &["b"]));
        assert!(a.try_turns() && b.try_turns());
        let (mut both, mut late) = (join(&queue, &["a", "b"]), join(&queue, &["b"]));
        let mut both = Box::pin(both.turns());
        assert!((&mut both).now_or_never().is_none());
        let mut late = Box::pin(late.turns());
        assert!((&mut late).now_or_never().is_none());
        drop(b);
        assert!((&mut late).now_or_never().is_none(), "the set is before it");
        assert!((&mut both).now_or_never().is_none());
        drop(a);
        assert!(both.now_or_never().is_some());
    }

    #[test]
    fn places_that_are_taken_out_are_given_up_by_themselves() {
        let queue = Queue::new(8);
        for leave in [&["a"][..], &["b"], &["a", "c"], &["b", "c"]] {
            let mut all = join(&queue, &["a", "b", "c"]).served(true);
            drop(all.split_off(|name| leave.contains(&name)));
            for name in ["a", "b", "c"] {
                assert_eq!(join(&queue, &[name]).held().is_some(), !leave.contains(&name), "{name} of {leave:?}");
            }
            assert_eq!(queue.len(), 3 - leave.len());
        }
        assert_eq!(queue.len(), 0);
    }

    #[test]
    fn who_stops_waiting_gives_back_what_it_has() {
        let queue = Queue::new(8);
        let mut b = join(&queue, &["b"]);
        assert!(b.try_turns());
        let mut both = join(&queue, &["a", "b"]);
        assert!(both.turns().now_or_never().is_none());
        drop(both);
        assert!(join(&queue, &["a"]).try_turns());
        drop(b);
        assert!(join(&queue, &["b"]).try_turns());
    }

    #[test]
    fn a_wait_that_was_dropped_begins_anew() {
        let queue = Queue::new(8);
        let mut b = join(&queue, &["b"]);
        assert!(b.try_turns());
        let mut both = join(&queue, &["a", "b"]);
        assert!(both.turns().now_or_never().is_none());
        drop(b);
        assert!(both.turns().now_or_never().is_some());
    }

    #[test]
    fn two_sets_that_one_task_waits_for_do_not_wake_each_other_for_ever() {
        let queue = Queue::new(8);
        let mut b = join(&queue, &["b"]);
        assert!(b.try_turns());
        let (mut one, mut other) = (join(&queue, &["a", "b"]), join(&queue, &["a", "c"]));
        let wakes = Arc::new(Wakes::default());
        let waker = wakes.clone().into();
        let mut context = Context::from_waker(&waker);
        let (mut one, mut other) = (pin!(one.turns()), pin!(other.turns()));
        for _ in 0..3 {
            assert!(one.as_mut().poll(&mut context).is_pending() && other.as_mut().poll(&mut context).is_pending());
        }
        let before = wakes.0.load(Ordering::Relaxed);
        assert!(one.as_mut().poll(&mut context).is_pending() && other.as_mut().poll(&mut context).is_pending());
        assert_eq!(wakes.0.load(Ordering::Relaxed), before);
    }

    #[test]
    fn those_behind_a_set_are_told_what_it_waits_for() {
        let queue = Queue::new(8);
        let mut b = join(&queue, &["b"]);
        assert!(b.try_turns());
        b.tell(&Head::Unavailable(Vec::new()));
        let (mut both, single) = (join(&queue, &["a", "b"]), join(&queue, &["a"]));
        let mut waits = Box::pin(both.turns());
        assert!((&mut waits).now_or_never().is_none());
        assert!(matches!(single.blocked().head(), Head::Unavailable(_)));
        b.tell(&Head::Holding);
        assert!((&mut waits).now_or_never().is_none());
        assert!(matches!(single.blocked().head(), Head::Contended(None)));
    }
}
