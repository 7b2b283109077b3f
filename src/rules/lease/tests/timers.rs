//! Random events: the timers of a lease are set, fire, and are set again.

use proptest::prelude::*;

use super::*;

/// A lease with its timers and at most one renewal under way.
struct Table {
    tenure: LeaseState,
    renew: Option<Tick>,
    expire: Tick,
    under_way: Option<Tick>,
}

impl Table {
    fn begin() -> Self {
        let tenure = tenure(None);
        let renew = tenure.first_renewal(&won(), pace(5)).map(Due::at);
        Self { tenure, renew, expire: tenure.expires(), under_way: None }
    }

    fn answered(&mut self, renewal: Renewal, doubted: NodeSet, random: fn() -> u64, now: Tick) {
        let (votes, Some(t0)) = (extended(2), self.under_way.take()) else { return };
        let heard = Heard { t0, renewal, votes: &votes, doubted };
        let (_, due) = self.tenure.renewed(heard, Pace { from: now, random, ..pace(5) }, now);
        self.renew = due.map(Due::at).or(self.renew);
    }

    fn doubted(&mut self, nodes: NodeSet, now: Tick) {
        self.renew = self.tenure.doubted(nodes, true, now).map(Due::at).or(self.renew);
    }

    /// Fires the timers as the monitor does: answers count before the deadline is checked.
    fn fire(&mut self, now: Tick) {
        if self.under_way.is_some_and(|t0| now >= self.tenure.waits(t0, ms(200))) {
            self.answered(Renewal::Unclear, NodeSet::default(), || u64::MAX, now);
        }
        if self.expire <= now
            && let Expiry::Later(at) = self.tenure.deadline_reached(now)
        {
            assert!(at > now, "the timer would fire for ever");
            self.expire = at;
        }
        if self.renew.is_some_and(|at| at <= now) {
            self.renew = None;
            if self.tenure.may_renew(now) {
                self.under_way = Some(now);
            }
        }
    }
}

proptest! {
    #[test]
    fn held_lease_has_a_renewal_due_and_ends_by_its_deadline(
        steps in proptest::collection::vec((0..6_u8, 0..120_u64), 1..80)
    ) {
        let (mut table, mut now, mut lost) = (Table::begin(), at(10), false);
        for (step, after) in steps {
            now = now + ms(after);
            let node = NodeSet::of(usize::from(step) % 3);
            match step {
                0 | 1 => table.answered(Renewal::Extended, NodeSet::default(), || 0, now),
                2 => table.answered(Renewal::Extended, node, || u64::MAX, now),
                3 => table.answered(Renewal::Unclear, node, || 0, now),
                4 => table.doubted(node, now),
                _ => {}
            }
            table.fire(now);
            let held = table.tenure.is_held(now);
            prop_assert!(!(lost && held), "a lost lease stays lost");
            lost = !held;
            prop_assert!(table.tenure.phase() == Phase::Held || lost);
            if table.tenure.phase() == Phase::Held {
                prop_assert!(now < table.expire && table.expire <= table.tenure.expires());
                prop_assert!(table.under_way.is_some() || table.renew.is_some(), "at {now:?}");
            }
        }
    }
}
