//! The judge on trial: histories that it must condemn, and some that it must not. A judge that cannot find anything finds nothing.

use super::history::{Event, Micros, What};
use super::{Rule, judge};

/// A lease of a process of its own, on the one name.
#[derive(Clone, Copy)]
struct Holder(u16);

impl Holder {
    fn acquired(self, token: u64, at: Micros) -> Event {
        let (process, lease) = (self.0, u32::from(self.0));
        event(at, What::Acquired { process, ask: lease, name: 0, lease, token, until: at + 100 })
    }

    fn held(self, at: Micros) -> Event {
        event(at, What::Sample { process: self.0, name: 0, lease: self.0.into(), held: true, until: at + 100 })
    }

    fn released(self, at: Micros) -> Event {
        event(at, What::Released { process: self.0, name: 0, lease: self.0.into() })
    }

    fn lost(self, at: Micros, expired: bool) -> Event {
        event(at, What::LostTold { process: self.0, name: 0, lease: self.0.into(), expired })
    }

    fn wrote(self, at: Micros, taken: bool) -> Event {
        let (process, lease) = (self.0, u32::from(self.0));
        event(at, What::Wrote { process, name: 0, lease, token: lease.into(), taken, checked: true })
    }
}

const fn event(at: Micros, what: What) -> Event {
    Event { at, what }
}

/// Fails unless the judge finds what it must, and nothing else.
pub fn judge_the_judge() {
    let (a, b) = (Holder(0), Holder(1));
    let finds = |events: &[Event], rule: Option<Rule>, why: &str| {
        let started = (0..2).map(|process| event(0, What::Started { process }));
        let history: Vec<_> = started.chain(events.iter().copied()).collect();
        let found: Vec<_> = judge(&history, None).violations.iter().map(|violation| violation.rule).collect();
        assert_eq!(found, rule.into_iter().collect::<Vec<_>>(), "{why}");
    };
    let first = [a.acquired(1, 1), a.held(50)];
    let and = |more: &[Event]| [&first, more].concat();
    finds(&and(&[a.released(50), b.acquired(2, 60)]), None, "one after the other");
    finds(&and(&[b.acquired(2, 60), a.held(70)]), Some(Rule::TwoBelievers), "held on");
    finds(&and(&[b.acquired(2, 60), a.lost(151, true)]), Some(Rule::TwoBelievers), "held to its deadline");
    finds(&and(&[a.lost(150, true), b.acquired(2, 160)]), None, "after the deadline");
    finds(&and(&[b.acquired(2, 60), a.lost(61, false)]), None, "told lost, and not known to have been held by then");
    finds(&and(&[a.released(50), b.acquired(1, 60)]), Some(Rule::TokenOrder), "the same token again");
    finds(&and(&[a.released(50), a.held(60)]), Some(Rule::NotFinal), "held after its release");
    finds(&and(&[a.lost(50, false), a.held(60)]), Some(Rule::NotFinal), "held after its loss");
    finds(&and(&[a.wrote(51, false), a.held(52)]), Some(Rule::HolderRefused), "a holder's write is taken");
    finds(&and(&[a.wrote(51, false), a.lost(52, false)]), None, "it had lost it");
    let later = [a.released(50), b.acquired(2, 60), b.wrote(61, true)];
    finds(&[&first[..], &later, &[a.wrote(62, true)]].concat(), Some(Rule::StaleWrite), "an older holder's write");
    finds(&[&first[..], &later, &[a.wrote(62, false)]].concat(), None, "an older holder's write, refused");
    let asked = event(2, What::Asked { process: 0, ask: 7, name: 0, by: 10, must: true });
    let failed = |at| event(at, What::Failed { process: 0, ask: 7, name: 0, unavailable: false });
    finds(&[asked, failed(9)], Some(Rule::Starved), "it had to get it");
    finds(
        &[event(2, What::Asked { process: 0, ask: 7, name: 0, by: 10, must: false }), failed(11)],
        Some(Rule::NoAnswer),
        "late",
    );
}
