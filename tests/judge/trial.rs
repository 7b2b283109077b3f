//! Tests of the judge: histories in which it must find a violation, and histories in which it must
//! find none. A judge that cannot fail would let every bug pass.

use super::history::{Answer, Event, Memory, Micros, Op, Told, Verb, What};
use super::{Clocks, Configured, Rule, Watched, judge};

/// A process with one lease, on the only name.
#[derive(Clone, Copy)]
struct Holder(u16);

impl Holder {
    fn acquired(self, token: u64, at: Micros) -> Event {
        let (process, lease) = (self.0, u32::from(self.0));
        event(
            at,
            What::Acquired { process, ask: lease, name: 0, lease, token, until: at + 100, shared: false, owner: None },
        )
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

    fn let_go(self, at: Micros) -> Event {
        event(at, What::LetGo { process: self.0, name: 0, lease: self.0.into() })
    }

    fn wrote(self, at: Micros, taken: bool) -> Event {
        let (process, lease) = (self.0, u32::from(self.0));
        event(at, What::Wrote { process, name: 0, lease, token: lease.into(), taken, checked: true })
    }
}

const fn event(at: Micros, what: What) -> Event {
    Event { at, what }
}

/// Fails unless the judge finds the violations that it must find, and no others.
pub fn judge_the_judge() {
    of_holders();
    of_forgotten_tokens();
    of_nodes();
    of_sessions();
    of_newcomers();
    of_lists();
    of_promises();
    of_readers();
    of_periods();
    of_withdrawn_grants();
    of_observers();
    of_pushes();
    of_free_names();
}

fn finds(watched: Option<Watched>, events: &[Event], rule: Option<Rule>, why: &str) {
    let started = (0..2).map(|process| event(0, What::Started { process }));
    let history: Vec<_> = started.chain(events.iter().copied()).collect();
    let found: Vec<_> = judge(&history, watched).violations.iter().map(|violation| violation.rule).collect();
    assert_eq!(found, rule.into_iter().collect::<Vec<_>>(), "{why}");
}

/// Two processes with these lists, over one node.
fn watched(camps: [u8; 2]) -> Watched {
    let rate = 1_000_000;
    let clients = camps.map(|list| Configured { nodes: 1, of: 1, rate, max_ttl: 300, list, team: 0 }).to_vec();
    Watched { clients, clocks: None, strict: false }
}

/// Leases as processes report them.
fn of_holders() {
    let (a, b) = (Holder(0), Holder(1));
    let finds = |events: &[Event], rule: Option<Rule>, why: &str| finds(None, events, rule, why);
    let first = [a.acquired(1, 1), a.held(50)];
    let and = |more: &[Event]| [&first, more].concat();
    finds(&and(&[a.released(50), b.acquired(2, 60)]), None, "one after the other");
    let revoked = event(60, What::Revoked { process: 1, name: 0, began: 55, by: 70 });
    finds(&and(&[revoked, a.held(65), a.released(69)]), None, "revoked, and let go in time");
    finds(&and(&[revoked, a.held(75)]), Some(Rule::RevokedGoesOn), "revoked, and held on");
    let later = event(40, What::Revoked { process: 1, name: 0, began: 0, by: 60 });
    finds(&and(&[later, a.held(70)]), None, "it came after that had begun");
    let taken = and(&[a.released(50), asked(Op { ballot: 5, ..op(Verb::Revoke, 1, 55) }), revoked]);
    let below = [b.acquired(2, 80), b.held(90)];
    finds(&[&taken[..], &below].concat(), Some(Rule::RevokedGoesOn), "a token below the revocation's ballot");
    let forgot = event(75, What::NodeDown { node: 0, memory: Memory::Empty });
    finds(&[&taken[..], &[forgot], &below].concat(), None, "the same where a node forgot in between");
    finds(&and(&[b.acquired(2, 60), a.held(70)]), Some(Rule::TwoBelievers), "held on");
    finds(&and(&[b.acquired(2, 60), a.lost(151, true)]), Some(Rule::TwoBelievers), "held to its deadline");
    finds(&and(&[a.lost(150, true), b.acquired(2, 160)]), None, "after the deadline");
    finds(&and(&[b.acquired(2, 60), a.lost(61, false)]), None, "told lost, and not known to have been held by then");
    let lost = and(&[a.lost(55, false)]);
    let goes_on = |more: [Event; 2]| [&lost[..], &more].concat();
    finds(&goes_on([a.let_go(59), b.acquired(2, 60)]), None, "it had let go");
    finds(&goes_on([b.acquired(2, 60), a.let_go(61)]), Some(Rule::TwoBelievers), "it works on under what it lost");
    finds(&goes_on([b.acquired(2, 151), a.let_go(200)]), None, "the same past its deadline");
    finds(&and(&[a.released(50), b.acquired(1, 60)]), Some(Rule::TokenOrder), "the same token again");
    finds(&and(&[a.released(50), a.held(60)]), Some(Rule::NotFinal), "held after its release");
    finds(&and(&[a.lost(50, false), a.held(60)]), Some(Rule::NotFinal), "held after its loss");
    finds(&and(&[a.wrote(51, false), a.held(52)]), Some(Rule::HolderRefused), "a holder's write is taken");
    finds(&and(&[a.wrote(51, false), a.lost(52, false)]), None, "it had lost it");
    let later = [a.released(50), b.acquired(2, 60), b.wrote(61, true)];
    finds(&[&first[..], &later, &[a.wrote(62, true)]].concat(), Some(Rule::StaleWrite), "an older holder's write");
    finds(&[&first[..], &later, &[a.wrote(62, false)]].concat(), None, "an older holder's write, refused");
    let asked = event(2, What::Asked { process: 0, ask: 7, name: 0, by: 10, must: true });
    let failed = |at| event(at, What::Failed { process: 0, ask: 7, name: 0, unavailable: false, kept_out: false });
    finds(&[asked, failed(9)], Some(Rule::Starved), "it had to get it");
    finds(
        &[event(2, What::Asked { process: 0, ask: 7, name: 0, by: 10, must: false }), failed(11)],
        Some(Rule::NoAnswer),
        "late",
    );
}

/// Worlds in which nodes that forgot need not be synced. A later token must still be above a
/// forgotten token that was not too far ahead of the clocks.
fn of_forgotten_tokens() {
    let (a, b) = (Holder(0), Holder(1));
    let granted = |holder: Holder, token, at| {
        let claim = Op { ballot: token, ..op(Verb::Claim, holder.0.into(), at) };
        let release = asked(Op { ballot: token, ..op(Verb::Release, holder.0.into(), at + 49) });
        let [done, heard] = did(at, claim, Answer::Granted);
        ([asked(claim), done, heard, holder.acquired(token, at)], release)
    };
    let forgot = |at| event(at, What::NodeDown { node: 0, memory: Memory::Empty });
    let (later, last) = granted(b, 500, 70);
    let ends = |quarantine: Option<Micros>, events: &[Event], rule: Option<Rule>, why: &str| {
        let clocks = quarantine.map(|quarantine| Clocks { zero: 400, quarantine, ahead: 10 });
        finds(Some(Watched { clocks, ..watched([0, 0]) }), &[events, &[b.released(119), last]].concat(), rule, why);
    };
    let before = |first, wrote: bool| {
        let (begin, end) = granted(a, first, 1);
        let wrote = wrote.then(|| a.wrote(2, true));
        [&begin[..], wrote.as_slice(), &[a.released(50), end, forgot(60)], &later].concat()
    };
    let finds = |quarantine, first, events: &[Event], rule, why| {
        ends(quarantine, &[&before(first, true), events].concat(), rule, why);
    };
    let (refused, gone) = ([b.wrote(80, false), b.held(90)], [b.released(80)]);
    finds(Some(10), 900, &refused, None, "clocks had not come to that token");
    finds(Some(10), 900, &[b.wrote(80, true), a.wrote(90, true)], None, "the same for who wrote with it");
    finds(Some(10), 900, &gone, None, "the same");
    finds(None, 900, &gone, Some(Rule::TokenOrder), "nodes are synced");
    finds(Some(11), 900, &gone, Some(Rule::TokenOrder), "it has no vote yet");
    finds(Some(10), 470, &gone, None, "clocks had come to that token, and to the next");
    finds(Some(10), 470, &refused, Some(Rule::HolderRefused), "its token is the highest");
    let unwritten = [&before(900, false)[..], &refused].concat();
    ends(Some(10), &unwritten, Some(Rule::HolderRefused), "nobody wrote with that token");
    // The waiter asked before the node forgot, but with another ballot than its later token.
    let waits = Op { ballot: 100, ..op(Verb::Claim, 0, 1) };
    let [done, heard] = did(2, waits, Answer::Refused);
    let (begin, end) = granted(a, 900, 29);
    let waited = [&[asked(waits), done, heard, forgot(5)], &begin[..], &[a.released(50), end], &later, &gone].concat();
    ends(Some(10), &waited, Some(Rule::TokenOrder), "no node has forgotten it");
}

/// An operation of an owner on the only node. Each owner has one ballot.
const fn op(verb: Verb, owner: u32, sent: Micros) -> Op {
    let (process, ballot) = (owner as u16, owner as u64 + 1);
    let (node, server, name, also, token, waits, shared) = (0, 0, 0, 0, 0, false, false);
    Op { process, node, server, name, also, verb, owner, waits, shared, ballot, token, ttl: 100, hand: 0, sent }
}

fn asked(op: Op) -> Event {
    event(op.sent, What::Submitted(op))
}

/// The node carried out the operation, and its answer arrived at the same moment.
fn did(at: Micros, op: Op, answer: Answer) -> [Event; 2] {
    [event(at, What::Did(op, answer)), event(at, What::Delivered(op, answer))]
}

/// Operations that the node carries out.
fn of_nodes() {
    let finds = |parts: &[&[Event]], rule: Option<Rule>, why: &str| {
        finds(Some(watched([0; 2])), &parts.concat(), rule, why);
    };
    let (claim, release) = (op(Verb::Claim, 0, 10), op(Verb::Release, 0, 1_000));
    let until =
        |until| What::Acquired { process: 0, ask: 0, name: 0, lease: 0, token: 1, until, shared: false, owner: None };
    // The deadline is the time of the claim, plus 100 ms, less a drift of 1 ms and 2 ms.
    let held = [&[asked(claim)][..], &did(20, claim, Answer::Granted), &[event(20, until(97_010))]].concat();
    let given_up =
        [&[Holder(0).released(1_000), asked(release)][..], &did(1_010, release, Answer::Released(true))].concat();
    finds(&[&held, &given_up], None, "held, and given back");
    finds(&[&held, &[Holder(0).released(1_000)]], Some(Rule::NeverReleased), "kept");
    let long = [&[asked(claim)][..], &did(20, claim, Answer::Granted), &[event(20, until(99_000))]].concat();
    finds(&[&long, &given_up], Some(Rule::BelievedTooLong), "longer than ttl less drift");
    let refused = [&[asked(claim)][..], &did(20, claim, Answer::Refused), &[event(20, until(97_010))]].concat();
    finds(&[&refused, &[Holder(0).released(1_000)]], Some(Rule::BelievedTooLong), "granted by no quorum");
    let told = [Holder(0).lost(98_000, true), asked(op(Verb::Release, 0, 98_000))];
    finds(&[&held, &told], Some(Rule::ToldLate), "a millisecond past its deadline");
    finds(&[&held, &given_up, &[asked(op(Verb::Renew, 0, 2_000))]], Some(Rule::NotFinal), "renewed after its release");

    let (told, lets_go) = (Holder(0).lost(500, false), Holder(0).let_go(1_000));
    let early = Some(Rule::LetInEarly);
    finds(&[&held, &[asked(release), Holder(0).released(1_001)]], early, "released while it is held");
    finds(&[&held, &[told, asked(release)]], early, "released when its loss was told");
    finds(&[&held, &[told, lets_go, asked(release)]], None, "released when its holder had let go");
    finds(&[&held, &[told, asked(op(Verb::Release, 0, 97_010))]], None, "released at its deadline");
    let closes = event(999, What::ShutDown { process: 0 });
    finds(&[&held, &[closes, asked(release), lets_go]], None, "released at a shutdown");
    finds(&[&held, &[told, lets_go]], Some(Rule::NeverReleased), "kept though its holder had let go");

    let first = [asked(claim), asked(release)];
    let late = [&did(1_010, release, Answer::Released(false))[..], &did(1_020, claim, Answer::Granted)].concat();
    finds(&[&first, &late], Some(Rule::LateClaim), "a claim overtaken by its release");
    let pushed = Op { waits: true, ballot: 5, hand: 100, ..claim };
    let (higher, own) = (Op { waits: true, ballot: 9, ..claim }, Op { ballot: 9, ..release });
    let answer = Op { ballot: 5, sent: 1_010, ..release };
    let ended = [&[asked(higher)][..], &did(20, higher, Answer::Refused), &[asked(own)]].concat();
    let answered = [event(1_005, What::HandedOver(pushed)), event(1_010, What::Pushed(pushed)), asked(answer)];
    let answered = [&answered[..], &did(1_020, answer, Answer::Released(true))].concat();
    let (own, comes_late) = (did(1_040, own, Answer::Released(true)), |at| did(at, higher, Answer::Granted));
    finds(&[&ended, &answered, &comes_late(1_030), &own], None, "a claim above the push whose release came first");
    let own = did(1_040, Op { ballot: 9, ..release }, Answer::Released(false));
    finds(&[&ended, &answered, &own, &comes_late(1_050)], Some(Rule::LateClaim), "and the owner's own release");
    let low = Op { ballot: 5, ..release };
    let handed = [event(900, What::HandedOver(pushed)), event(905, What::Pushed(pushed)), asked(low)];
    let ended = [&[asked(higher)][..], &did(20, higher, Answer::Refused), &handed].concat();
    let own = did(1_010, low, Answer::Released(true));
    finds(&[&ended, &own, &comes_late(1_030)], Some(Rule::LateClaim), "its own release with the pushed ballot");
    let short = Op { ttl: 3, ..op(Verb::Renew, 0, 15) };
    let healed = [&[asked(claim), asked(short), asked(release)][..], &did(20, short, Answer::Healed)].concat();
    let gone = |at| did(at, release, Answer::Released(false));
    finds(&[&healed, &gone(2_100)], None, "a hold may be shorter by a millisecond, because TIME is cut");
    finds(&[&healed, &gone(1_900)], Some(Rule::KeptOnNode), "it is not shorter than that");
    let (withdraw, again) = (op(Verb::Withdraw, 0, 1_000), Op { ballot: 2, ..op(Verb::Claim, 0, 1_005) });
    let goes_on = [asked(claim), asked(withdraw), asked(again)];
    let back = op(Verb::Release, 0, 1_100);
    let undone = |withdraw| {
        let granted = did(1_010, again, Answer::Granted);
        [&granted[..], &did(1_020, withdraw, Answer::Released(true)), &[asked(back)]].concat()
    };
    finds(&[&goes_on, &undone(withdraw)], Some(Rule::NewerUndone), "an older withdrawal");
    finds(&[&goes_on, &undone(Op { ballot: 2, ..withdraw })], None, "one of that ballot");
    let given_back = did(1_010, withdraw, Answer::Released(false));
    finds(&[&goes_on[..2], &did(20, claim, Answer::Granted), &given_back], None, "withdrawn, and never released");
    finds(
        &[&goes_on[..2], &given_back, &did(1_020, claim, Answer::Granted)],
        Some(Rule::LateClaim),
        "overtaken by that",
    );
    let won = |token| {
        let by =
            What::Acquired { process: 0, ask: 0, name: 0, lease: 0, token, until: 60_000, shared: false, owner: None };
        [&did(900, claim, Answer::Granted)[..], &[asked(withdraw), event(1_001, by), Holder(0).released(1_002)]]
            .concat()
    };
    finds(&[&goes_on[..1], &won(1)], Some(Rule::BelievedTooLong), "a vote up to what was withdrawn");
    let renew = Op { sent: 900, ..op(Verb::Renew, 0, 900) };
    let over = Op { token: 1, ..release };
    let renewed = [&did(1_010, over, Answer::Released(false))[..], &did(1_020, renew, Answer::Healed)].concat();
    finds(&[&[asked(claim), asked(renew), asked(over)], &renewed], Some(Rule::LateClaim), "a renewal of what is over");
    let revoke = op(Verb::Revoke, 0, 500);
    let revoked = [&did(510, revoke, Answer::Other)[..], &did(520, claim, Answer::Granted)].concat();
    let released = [&[asked(release)][..], &did(1_010, release, Answer::Released(true))].concat();
    let asked_for = [asked(claim), asked(revoke)];
    finds(&[&asked_for, &revoked, &released], Some(Rule::RevokedGoesOn), "granted up to what was revoked");
    let other = op(Verb::Release, 1, 1_000);
    let stolen = [&did(1_010, claim, Answer::Granted)[..], &did(1_020, other, Answer::Released(true))].concat();
    finds(&[&first, &[asked(other)], &stolen], Some(Rule::StolenOnNode), "another's release");
    let lifted = Op { ballot: 2, sent: 100, ..claim };
    let two = [&did(20, claim, Answer::Granted)[..], &did(110, lifted, Answer::Granted)].concat();
    let after = op(Verb::Claim, 1, 1_020);
    let twice = [&did(1_010, release, Answer::Released(true))[..], &did(1_030, after, Answer::Granted)].concat();
    let back = op(Verb::Release, 1, 1_040);
    let given_back = [&[asked(back)][..], &did(1_050, back, Answer::Released(true))].concat();
    let asked_all = [asked(claim), asked(lifted), asked(release), asked(after)];
    finds(&[&asked_all, &two, &twice, &given_back], Some(Rule::GrantedTwice), "a ballot that another was lifted to");
    let other_list = event(11, What::GrantedToOther(claim));
    finds(&[&first, &[other_list], &released], Some(Rule::GrantedToOther), "a claim of another list");
    let stale = |times: u64| {
        let asks = |at| [&[asked(Op { sent: at, ..claim })][..], &did(at, claim, Answer::Stale)].concat();
        [(0..times).flat_map(|time| asks(10 + time)).collect::<Vec<_>>(), vec![asked(release)]].concat()
    };
    finds(&[&stale(3)], None, "stale, and asked again while that was on its way");
    finds(&[&stale(4)], Some(Rule::AskedInVain), "stale again and again");
    let waits = Op { waits: true, ..claim };
    finds(&[&[asked(waits)], &did(20, waits, Answer::Refused)], Some(Rule::LeftBehind), "a place that nobody left");
    finds(&[&[asked(waits)], &did(20, waits, Answer::Refused), &[asked(release)]], None, "a place given up");
    let revoke = Op { process: 1, ..op(Verb::Revoke, 0, 15) };
    let dies = [&[event(30, What::Killed { process: 0 })][..], &did(40, waits, Answer::Refused)].concat();
    let took = [asked(waits), asked(revoke), did(20, revoke, Answer::Refused)[0]];
    finds(&[&took, &dies], None, "a place of who died, and from whom another took the name");
    let dies = [&did(30, claim, Answer::Granted)[..], &[event(40, What::Killed { process: 0 })]].concat();
    finds(&[&[asked(claim), asked(Op { sent: 35, ..revoke })], &dies], None, "the same, of who held it");
}

/// Two names that one owner was granted together: each is given up by itself.
fn of_sessions() {
    let claim = Op { also: 0b10, ..op(Verb::Claim, 0, 10) };
    let (token, until, owner) = (1, 97_010, Some(0));
    let lease = |name: u8| {
        let (process, ask, shared) = (0, 0, false);
        event(20, What::Acquired { process, ask, name, lease: name.into(), token, until, shared, owner })
    };
    let held = [&[asked(claim)][..], &did(20, claim, Answer::Granted), &[lease(0), lease(1)]].concat();
    let released = |name: u8, at| event(at, What::Released { process: 0, name, lease: name.into() });
    let release = |name, at| Op { name, ..op(Verb::Release, 0, at) };
    let gives = |name: u8, at| [released(name, at), asked(release(name, at))];
    let renew = |name, also, at| Op { name, also, ..op(Verb::Renew, 0, at) };
    let freed = event(2_500, What::Freed { process: 0, name: 0, lease: 0 });
    let finds = |parts: &[&[Event]], rule, why: &str| {
        finds(Some(watched([0; 2])), &[&held[..], &parts.concat(), &gives(1, 30_000)].concat(), rule, why);
    };
    finds(&[&gives(0, 1_000), &[asked(renew(1, 0, 2_000))]], None, "the rest is renewed");
    finds(&[&gives(0, 1_000), &[asked(renew(0, 0b10, 2_000))]], Some(Rule::NotFinal), "so is what was given up");
    finds(&[&[released(0, 1_000)], &[asked(release(0, 4_500))]], Some(Rule::NeverReleased), "some milliseconds late");
    let done = did(2_000, release(0, 1_000), Answer::Released(true));
    finds(&[&gives(0, 1_000), &done, &[freed]], None, "a quorum has freed it");
    finds(&[&gives(0, 1_000), &[freed]], Some(Rule::NotFreed), "no quorum has freed it");
    let back = Op { token: 1, ..release(0, 1_000) };
    let (given, answered) = ([released(0, 1_000), asked(back)], did(2_000, back, Answer::Released(true)));
    let told_at =
        |at, told| event(at, What::ReleaseTold { process: 0, name: 0, lease: 0, told, round: 3_000, more: false });
    let told = |told| told_at(2_500, told);
    let (released_, expired, unknown) = (told(Told::Released), told(Told::Expired), told(Told::Unconfirmed));
    let amiss = Some(Rule::ToldAmiss);
    finds(&[&given, &answered, &[released_]], None, "a quorum held it, and its holder is told so");
    finds(&[&given, &[released_]], amiss, "told that it was held, and no node has said so");
    finds(&[&given, &answered, &[expired]], amiss, "told that it had ended, and a quorum held it");
    finds(&[&given, &answered, &[unknown]], amiss, "told that nobody knows, and a quorum had answered");
    let [_, fault] = did(2_000, back, Answer::Fault);
    finds(&[&given, &[unknown]], amiss, "told that nobody knows, and an answer could still tell");
    finds(&[&given, &[fault, unknown]], None, "the only node gives no answer");
    let (limit, late) = (told_at(4_010, Told::Unconfirmed), told_at(20_000, Told::Unconfirmed));
    finds(&[&given, &[limit]], None, "nobody has answered in time");
    finds(&[&given, &[late]], amiss, "told long after that");
    let paused = event(1_500, What::Paused { process: 0, suspended: false });
    finds(&[&given, &[paused, event(10_000, What::Resumed { process: 0 }), late]], None, "its process stood still");
    let stays = event(30, What::First { process: 0, lease: 0, name: 0, period: 9_000_000 });
    finds(&[&[stays, released(0, 1_000), released_]], None, "it stays with the nodes for its period");
    finds(&[&[stays, released(0, 1_000), unknown]], amiss, "the same, and its holder is told that nobody knows");
    let denied = event(999, What::Sample { process: 0, name: 0, lease: 0, held: false, until: 999 });
    finds(&[&[denied], &given, &[expired]], None, "it had ended before it was given up");
    finds(&[&[denied], &given, &answered, &[released_]], amiss, "the same, and its holder is told otherwise");
    let first = did(1_500, back, Answer::Forgot);
    finds(&[&given, &first, &[expired]], None, "a node that forgot it did not hold it");
    let together = event(2_500, What::Together { process: 0, lease: 0, other: 1 });
    let renewed = |renew: Op| [&[asked(renew)][..], &did(2_000, renew, Answer::Extended)].concat();
    let apart = Some(Rule::RenewedApart);
    finds(&[&renewed(renew(0, 0b10, 1_500)), &[together], &gives(0, 8_000)], None, "both are renewed");
    finds(&[&renewed(renew(1, 0, 1_500)), &[together], &gives(0, 8_000)], apart, "only one is renewed");
    let shares = event(2_500, What::Shares { process: 0, ask: 0, name: 0, lease: 0 });
    finds(&[&[shares], &gives(0, 8_000)], None, "another caller has it");
    finds(&[&gives(0, 1_000), &[shares]], Some(Rule::HeldAmiss), "another caller is told that it has it");
    let amiss = event(2_500, What::HeldAmiss { process: 0, name: 0 });
    finds(&[&[amiss], &gives(0, 8_000)], Some(Rule::HeldAmiss), "it does not hold what it locked");
}

/// Revocations by a process that cannot know that a clock was set forward.
fn of_newcomers() {
    let (claim, release) = (op(Verb::Claim, 0, 10), op(Verb::Release, 0, 1_000));
    let until = 97_010;
    let by = What::Acquired { process: 0, ask: 0, name: 0, lease: 0, token: 1, until, shared: false, owner: None };
    let held = [&[asked(claim)][..], &did(20, claim, Answer::Granted), &[event(20, by)]].concat();
    let given_up =
        [&[Holder(0).released(1_000), asked(release)][..], &did(1_010, release, Answer::Released(true))].concat();
    let stepped = |at, by_ms| event(at, What::ClockStepped { node: 0, by_ms });
    let met = |at| event(at, What::Connected { process: 1, node: 0 });
    let revoked = |began| event(began + 1, What::Revoked { process: 1, name: 0, began, by: began + 100 });
    let goes_on = Some(Rule::RevokedGoesOn);
    let finds = |happened: &[Event], rule, why: &str| {
        let parts = [&held, happened, &[Holder(0).held(900)], &given_up].concat();
        finds(Some(watched([0; 2])), &parts, rule, why);
    };
    finds(&[stepped(30, 500), met(40), revoked(50)], None, "it connected after the step");
    finds(&[met(25), stepped(30, 500), revoked(50)], goes_on, "it was there when the clock was stepped");
    finds(&[met(25), stepped(30, 500), met(40), revoked(50)], goes_on, "it only connected again after the step");
    finds(&[stepped(30, 500), met(40), revoked(330)], goes_on, "the step is longer ago than anything is held");
    finds(&[stepped(30, -500), met(40), revoked(50)], goes_on, "the clock was set back: that ends nothing early");
    finds(&[met(40), revoked(50)], goes_on, "no clock was stepped");
}

/// Clients that another list may keep out.
fn of_lists() {
    let must = |process: u16| event(2, What::Asked { process, ask: process.into(), name: 0, by: 10, must: true });
    let failed = |kept_out| event(9, What::Failed { process: 0, ask: 0, name: 0, unavailable: true, kept_out });
    let sent = op(Verb::Claim, 1, 3);
    let by =
        What::Acquired { process: 1, ask: 1, name: 0, lease: 1, token: 2, until: 97_003, shared: false, owner: None };
    let won = [&[must(0), must(1), asked(sent)][..], &did(4, sent, Answer::Granted), &[event(5, by)]].concat();
    let given_back = [Holder(1).released(6), asked(op(Verb::Release, 1, 6))];
    let finds = |lists, parts: &[&[Event]], rule, why| finds(Some(watched(lists)), &parts.concat(), rule, why);
    finds([0, 1], &[&won, &given_back, &[failed(true)]], None, "clients of another list have it");
    finds([0, 1], &[&won, &given_back, &[failed(false)]], Some(Rule::Starved), "nothing tells it that they do");
    finds([0, 0], &[&won, &given_back, &[failed(true)]], Some(Rule::Starved), "clients of its own list have it");
    finds([0, 1], &[&[must(0), failed(true)]], Some(Rule::Starved), "nobody has it");
}

/// Cases in which nothing is promised: clients of two lists, and a name that leads to two servers.
fn of_promises() {
    let (a, b) = (Holder(0), Holder(1));
    // This history has no requests to nodes, so each process may hold for any time.
    let both = [a.acquired(1, 50_000_000), b.acquired(2, 50_000_010), a.held(50_000_020), b.held(50_000_020)];
    let gone = [a.released(50_000_030), b.released(50_000_030)];
    let finds = |lists, before: &[Event], rule: Option<Rule>, why: &str| {
        let clients = watched(lists).clients;
        let started = (0..2).map(|process| event(0, What::Started { process }));
        let history: Vec<_> = started.chain([before, &both, &gone].concat()).collect();
        let found = super::judge_beliefs(&history, clients);
        assert_eq!(found, rule.into_iter().collect::<Vec<_>>(), "{why}");
    };
    let cut = |process, at, there| event(at, What::Cut { process, node: 0, there, back: false });
    let two = Some(Rule::TwoBelievers);
    finds([0, 1], &[], two, "both have heard of the node that they share");
    finds([0, 1], &[cut(0, 49_000_000, true)], None, "one could not reach it");
    finds([0, 0], &[cut(0, 49_000_000, true)], two, "they have one list");
    let split = |at, split| event(at, What::Split { node: 0, server: 1, split });
    finds([0, 0], &[split(49_000_000, true)], None, "a name leads to two servers");
    finds([0, 0], &[split(20_000_000, true)], None, "nothing else tells of that");
    finds([0, 0], &[split(20_000_000, true), split(30_000_000, false)], two, "it did long ago");
}

/// Writers that become readers.
fn of_readers() {
    let (a, b, c) = (Holder(0), 1, Holder(2));
    let reader = |at| {
        let (process, ask, lease, token, until) = (0, 9, 9, 3, at + 100);
        event(at, What::Acquired { process, ask, name: 0, lease, token, until, shared: true, owner: None })
    };
    let follows = event(71, What::Follows { process: 0, lease: 9, writer: 0 });
    let finds = |parts: &[&[Event]], rule, why: &str| {
        finds(None, &[&[event(0, What::Started { process: 2 })][..], &parts.concat()].concat(), rule, why);
    };
    let wrote = [a.acquired(1, 1), a.held(50), a.released(50)];
    let between = [Holder(b).acquired(2, 60), Holder(b).released(61)];
    finds(&[&wrote, &[reader(70), follows]], None, "nobody wrote in between");
    finds(&[&wrote, &between, &[reader(70)]], None, "another wrote, and it only reads after that");
    finds(&[&wrote, &between, &[reader(70), follows]], Some(Rule::TwoBelievers), "another wrote in between");
    let late = [c.acquired(4, 90), c.released(91)];
    finds(&[&wrote, &[reader(70), follows], &late], None, "another wrote when it may have read no more");
}

/// Jobs that run once a period.
fn of_periods() {
    let finds = |watched, parts: &[&[Event]], rule, why: &str| finds(watched, &parts.concat(), rule, why);
    let first = |lease: u16, at| {
        let (process, period) = (lease, 1_000_000);
        [
            Holder(lease).acquired(u64::from(lease) + 1, at),
            event(at, What::First { process, lease: lease.into(), name: 0, period }),
        ]
    };
    let done = |lease: u16, at| [Holder(lease).released(at)];
    let undone = [event(30, What::Undone { process: 0, lease: 0 }), asked(op(Verb::Release, 0, 30))];
    let claimed = |owner, at: Micros| {
        let claim = op(Verb::Claim, owner, at - 10);
        [&[asked(claim)][..], &did(at, claim, Answer::Granted)].concat()
    };
    let nodes = || Some(watched([0; 2]));
    let (a, b) = ([&claimed(0, 20)[..], &first(0, 20), &done(0, 25)].concat(), |at| {
        [&claimed(1, at)[..], &first(1, at), &done(1, at)].concat()
    });
    finds(nodes(), &[&a, &b(400_000)], Some(Rule::TwiceAPeriod), "the same period");
    finds(nodes(), &[&a, &b(1_100_000)], None, "the next one");
    finds(nodes(), &[&a, &undone, &b(400_000)], None, "it was undone");
    let forgot = [event(40, What::NodeDown { node: 0, memory: Memory::Empty })];
    finds(nodes(), &[&a, &forgot, &b(400_000)], None, "a node forgot it");
    let stepped = [event(40, What::ClockStepped { node: 0, by_ms: 5_000 })];
    finds(nodes(), &[&a, &stepped, &b(400_000)], None, "it is over by the node's clock");
    let (long, long_ago) =
        (What::First { process: 0, lease: 0, name: 0, period: 9_000_000 }, Holder(0).acquired(1, 20));
    let later = [
        Holder(1).acquired(2, 900_000),
        event(900_000, What::First { process: 1, lease: 1, name: 0, period: 9_000_000 }),
    ];
    finds(
        None,
        &[&[long_ago, event(20, long)], &done(0, 25), &later, &done(1, 900_000)],
        Some(Rule::TwiceAPeriod),
        "where nobody watches nodes",
    );
    let skipped = |began| [event(began + 50, What::Skipped { process: 1, name: 0, began, period: 1_000_000 })];
    finds(nodes(), &[&skipped(40)], Some(Rule::SkippedPeriod), "nobody was the first");
    finds(nodes(), &[&a, &skipped(40)], None, "somebody was");
    finds(nodes(), &[&a, &skipped(1_500_000)], Some(Rule::SkippedPeriod), "somebody was, in another period");
    let denied = [event(50, What::Denied { process: 1, name: 0 })];
    finds(nodes(), &[&denied], Some(Rule::DeniedAmiss), "nobody had it");
    finds(nodes(), &[&a, &denied], None, "somebody had it");
    let back = [event(40, What::ClockStepped { node: 0, by_ms: -5_000 })];
    finds(nodes(), &[&a, &back, &skipped(1_500_000)], None, "the node's clock was set back");
}

/// Three nodes, and a job that runs once a period. The first owner's first ask reached only n0, and
/// its second ask reached only n1 and n2. Then n2 forgot the job, and n0 and n2 let another do it.
fn of_withdrawn_grants() {
    let nodes = || {
        let world = watched([0; 2]);
        let clients = world.clients.iter().map(|client| Configured { nodes: 3, of: 7, ..*client }).collect();
        Some(Watched { clients, ..world })
    };
    let on = |node: u8, op: Op| Op { node, server: node, ..op };
    let granted = |nodes: &[u8], at, claim| {
        let claims = nodes.iter().map(|&node| asked(on(node, claim)));
        let grants = nodes.iter().flat_map(|&node| did(at, on(node, claim), Answer::Granted));
        claims.chain(grants).collect::<Vec<_>>()
    };
    let first = |lease: u16, token, at| {
        let what = What::First { process: lease, lease: lease.into(), name: 0, period: 1_000_000 };
        [Holder(lease).acquired(token, at), event(at, what), Holder(lease).released(at + 5)]
    };
    let (asks, asks_again) = (op(Verb::Claim, 0, 5), Op { ballot: 2, ..op(Verb::Claim, 0, 15) });
    let withdraw = op(Verb::Withdraw, 0, 12);
    let withdrawn = [&[asked(withdraw)][..], &did(13, withdraw, Answer::Released(true))].concat();
    let won = [&granted(&[1, 2], 20, asks_again)[..], &first(0, 2, 20)].concat();
    let forgot = [event(40, What::NodeDown { node: 2, memory: Memory::Empty })];
    let other = Op { ballot: 3, ..op(Verb::Claim, 1, 400_000) };
    let again = [&granted(&[0, 2], 400_010, other)[..], &first(1, 3, 400_010)].concat();
    let finds = |parts: &[&[Event]], rule, why: &str| finds(nodes(), &parts.concat(), rule, why);
    let asked_first = granted(&[0], 10, asks);
    let twice = Some(Rule::TwiceAPeriod);
    finds(&[&asked_first, &withdrawn, &won, &forgot, &again], None, "only one node still knows of the job");
    finds(&[&asked_first, &won, &forgot, &again], twice, "n0 was never asked to give its vote back");
    finds(&[&asked_first, &withdrawn, &won, &again], twice, "no node forgot the job");
    let own = on(1, Op { ballot: 2, sent: 30, ..withdraw });
    let own = [&[asked(own)][..], &did(31, own, Answer::Released(true))].concat();
    let on_both = [&granted(&[0, 1], 400_010, other)[..], &first(1, 3, 400_010)].concat();
    finds(&[&won, &own, &on_both], twice, "the winner withdrew its own token");
}

/// How long a waiter may rely on a push.
fn of_pushes() {
    let plain = op(Verb::Claim, 0, 10);
    let waits = Op { waits: true, sent: 30_000, ..plain };
    let handed = Op { ballot: 9, hand: 100, ..waits };
    let [queued, told] = did(40_000, waits, Answer::Refused);
    let told = event(60_000, told.what);
    let pushed = event(60_000, What::Pushed(handed));
    let won = |until| {
        let by = What::Acquired { process: 0, ask: 0, name: 0, lease: 0, token: 9, until, shared: false, owner: None };
        [event(60_000, by), Holder(0).released(61_000), asked(op(Verb::Release, 0, 61_000))]
    };
    let begins = [&[asked(plain)][..], &did(20, plain, Answer::Refused), &[asked(waits), queued]].concat();
    let finds = |heard: &[Event], until, rule, why: &str| {
        let handed = [event(50_000, What::HandedOver(handed))];
        let known = [&begins[..], &handed, heard, &won(until)].concat();
        finds(Some(watched([0; 2])), &known, rule, why);
    };
    // The deadline is the time of the claim that waits, plus 100 ms, less a drift of 1 ms and 2 ms.
    finds(&[told, pushed], 127_000, None, "heard of in order");
    finds(&[pushed, told], 127_000, None, "the push was heard of first: a claim that did not wait registered nothing");
    finds(
        &[pushed, event(60_000, did(20, plain, Answer::Refused)[1].what), told],
        127_000,
        None,
        "and so late is another",
    );
    finds(&[pushed, told], 129_000, Some(Rule::BelievedTooLong), "longer than that");
}

/// Names that are free although somebody waits for them.
fn of_free_names() {
    let waits = Op { waits: true, ..op(Verb::Claim, 0, 10) };
    let refused = [&[asked(waits)][..], &did(20, waits, Answer::Refused)].concat();
    let silent = |asks| What::Idle { node: 0, name: 0, owner: 0, asks, since: 30, by: 90 };
    let idle = |at| event(at, silent(0));
    let leaves = [asked(op(Verb::Release, 0, 200))];
    let finds = |happened: &[Event], rule, why: &str| {
        finds(Some(watched([0; 2])), &[&refused[..], happened, &leaves].concat(), rule, why);
    };
    let free = Some(Rule::FreeThoughWaitedFor);
    finds(&[idle(80)], None, "somebody has it in time");
    finds(&[idle(100)], free, "nobody does");
    let cut = |there| event(40, What::Cut { process: 0, node: 0, there, back: false });
    finds(&[cut(true), idle(100)], None, "the waiter cannot reach the node");
    finds(&[cut(true), cut(false), idle(100)], None, "it could not a moment ago");
    finds(&[event(40, What::NodeUp { node: 0 }), idle(100)], None, "the node is doubted");
    finds(&[event(40, What::Killed { process: 1 }), idle(100)], free, "another process died");
    let again = Op { sent: 40, ..waits };
    let had = [&[asked(again)][..], &did(50, again, Answer::Granted)].concat();
    finds(&[&had[..], &[idle(100)]].concat(), None, "it has it from a quorum");
    let other = Op { waits: true, ..op(Verb::Claim, 1, 40) };
    let other_is = |answer| [&[asked(other)][..], &did(50, other, answer), &[event(100, silent(1))]].concat();
    let other_leaves = asked(op(Verb::Release, 1, 150));
    let finds_other = |answer, rule, why: &str| finds(&[&other_is(answer)[..], &[other_leaves]].concat(), rule, why);
    finds_other(Answer::Refused, free, "another waiter is silent");
    finds_other(Answer::Granted, None, "that other one has it from a quorum, so it asks no more");
    // The deadline of the other waiter is 97_040. Waiters have 60 us to ask.
    let later = |at| {
        let leaves = [0, 1].map(|owner| asked(op(Verb::Release, owner, at + 1)));
        [&refused[..], &[asked(other)], &did(50, other, Answer::Granted), &[event(at, silent(1))], &leaves].concat()
    };
    let finds_later = |at, rule, why: &str| self::finds(Some(watched([0; 2])), &later(at), rule, why);
    finds_later(97_090, None, "its votes ended a moment ago, so it asks soon");
    finds_later(97_110, free, "its votes ended longer ago, so it must have asked");
    let unheard = [asked(other), event(50, What::Did(other, Answer::Granted)), event(100, silent(1)), other_leaves];
    finds(&unheard, free, "and does not know of that: it must ask");
}

/// Leaders as observers see them.
fn of_observers() {
    let claim = op(Verb::Claim, 0, 10);
    let by = What::Acquired {
        process: 0,
        ask: 0,
        name: 0,
        lease: 0,
        token: 5,
        until: 90_000,
        shared: false,
        owner: Some(0),
    };
    let (before, resigns) = (op(Verb::Claim, 1, 1), op(Verb::Release, 1, 3));
    let led = [did(2, before, Answer::Granted), did(4, resigns, Answer::Released(true))].concat();
    let leads =
        [&[asked(before), asked(resigns)], &led[..], &[asked(claim)], &did(20, claim, Answer::Granted)].concat();
    let proclaims = |value| event(25, What::Proclaims { process: 0, lease: 0, value });
    let said = [event(20, by), proclaims(1), proclaims(2)];
    let resigned = [&[Holder(0).released(1_000), asked(op(Verb::Release, 0, 1_000))][..]].concat();
    let saw = |token, value| {
        let owner = u32::from(token < 5);
        event(40, What::Saw { process: 1, observer: 0, name: 0, owner, token, value })
    };
    let finds = |seen: &[Event], rule, why: &str| {
        finds(Some(watched([0; 2])), &[&leads[..], &said, seen, &resigned].concat(), rule, why);
    };
    let newer = Some(Rule::SeenOutOfOrder);
    finds(&[saw(5, None), saw(5, Some(1)), saw(5, Some(2))], None, "one after the other");
    finds(&[saw(5, Some(2))], None, "the last one");
    finds(&[saw(5, Some(2)), saw(5, Some(1))], newer, "an older value");
    finds(&[saw(5, Some(2)), saw(5, None)], newer, "the value from before any");
    finds(&[saw(5, None), saw(4, None)], newer, "an older leader");
    finds(&[saw(5, Some(1)), saw(5, Some(1))], newer, "the same again");
    let amiss = Some(Rule::SeenAmiss);
    finds(&[saw(5, Some(3))], amiss, "what nobody proclaimed");
    finds(&[saw(6, Some(1))], amiss, "what another proclaimed");
    let other = event(40, What::Saw { process: 1, observer: 0, name: 0, owner: 7, token: 6, value: None });
    finds(&[other], amiss, "whom no node has had");
    finds(&[saw(6, None)], amiss, "a token of another");
    finds(&[event(40, What::Unseen { process: 1, observer: 0 })], Some(Rule::Unseen), "the last was never seen");
}
