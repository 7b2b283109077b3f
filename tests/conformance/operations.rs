//! The operations of docs/protocol.md, one node at a time, rule by rule.

use std::sync::Arc;
use std::time::Duration;

use quorumlock::node::operation::{Hello, Intent};
use quorumlock::node::{Inspection, Kind, MemoryNode, Name, Node, Note, Operation, Outcome, Queued, Verb, Waiter};
use quorumlock::rules::list::{List, Record};

use crate::common::asked::Asked;
use crate::common::clockwork::Clockwork;
use crate::common::node::{Recorder, ask, heard};

/// One node, for operations on the name `a` by default. The clock of a real server stands still
/// until the test moves it.
pub struct Bench {
    node: Arc<dyn Node>,
    clock: Option<Clockwork>,
}

const TTL: Duration = Duration::from_secs(600);

fn names(names: &[&str]) -> Arc<[Name]> {
    names.iter().map(|name| Name::new("p:", name).unwrap()).collect()
}

fn operation(verb: Verb, owner: &str, ballot: u64) -> Asked {
    Asked { verb, owner: owner.into(), ttl: TTL, ballot, count: 1, ..Asked::inspect(names(&["a"])) }
}

const fn granted(fence: u64) -> Outcome {
    Outcome::Granted { fence }
}

const SECOND: Duration = Duration::from_secs(1);

/// A list that hellos put in force for 75 s, and renew if less than 65 s are left.
fn list(name: &str) -> Arc<List> {
    Arc::new(List::new(name, ["a:1", "b:1", "c:1"], 60 * SECOND))
}

/// A hello of a client of the list `default`.
fn hello(intent: Intent) -> Hello {
    let (new, process, list) = ("0123456789abcdef".into(), "".into(), list("default"));
    Hello { intent, new, process, list, old: None, knew: None, sync: None, seen: Vec::new() }
}

impl Bench {
    async fn pass(&self, time: Duration) {
        match &self.clock {
            Some(clock) => clock.pass(time),
            None => tokio::time::sleep(time).await,
        }
    }

    async fn ask(&self, operation: &(impl Clone + Into<Operation>)) -> Outcome {
        ask(&*self.node, operation).await.unwrap()
    }

    /// Sends a hello, and returns the record after it.
    async fn hello(&self, hello: Hello) -> Record {
        match self.ask(&hello).await {
            Outcome::Hello(Some(record)) => record,
            other => panic!("a hello was answered with {other:?}"),
        }
    }

    /// The node learns that it may have forgotten, and is then synced to this ballot.
    async fn forgets_and_is_synced(&self, ballot: u64) -> Record {
        let forgot = self.hello(Hello { process: "another".into(), ..hello(Intent::Keep) }).await;
        assert!(!forgot.synced);
        self.hello(Hello { sync: Some(ballot), knew: Some(forgot.id), ..hello(Intent::Put) }).await
    }

    async fn claim(&self, owner: &str, ballot: u64) -> Outcome {
        self.ask(&operation(Verb::Claim, owner, ballot)).await
    }

    async fn renew(&self, owner: &str, ballot: u64) -> Outcome {
        self.ask(&operation(Verb::Renew, owner, ballot)).await
    }

    async fn release(&self, owner: &str, ballot: u64) -> Outcome {
        self.ask(&Asked { token: ballot, ..operation(Verb::Release, owner, ballot) }).await
    }

    async fn withdraw(&self, owner: &str, ballot: u64) -> Outcome {
        self.ask(&operation(Verb::Withdraw, owner, ballot)).await
    }

    async fn look(&self, name: &str) -> Inspection {
        match self.ask(&Operation::Inspect(names(&[name]))).await {
            Outcome::Inspected(mut entries) => entries.remove(0),
            other => panic!("a question was answered with {other}"),
        }
    }

    /// Claims for a tenth of a second, and waits until this hold has ended.
    async fn expired_claim(&self, owner: &str, ballot: u64) {
        let claim = Asked { ttl: Duration::from_millis(100), ..operation(Verb::Claim, owner, ballot) };
        assert_eq!(self.ask(&claim).await, granted(ballot));
        self.pass(claim.ttl).await;
        assert_eq!(self.look("a").await.holder, None);
    }
}

async fn a_free_name_is_granted_and_told_with_holder_count_and_fence(node: Bench) {
    assert_eq!(node.look("a").await, Inspection::free(0));
    assert_eq!(node.claim("me", 5).await, granted(5));
    let told = node.look("a").await;
    assert_eq!((told.holder.as_deref(), told.count, told.fence), (Some("me"), 1, 5));
    assert!(told.remaining.is_some_and(|left| left <= TTL && left > TTL / 2));
}

async fn held_name_is_refused_with_its_holder_time_and_fence(node: Bench) {
    node.claim("other", 5).await;
    match node.claim("me", 9).await {
        Outcome::Held { holder, kind: Kind::Lock, remaining: Some(left), fence: 5, queued: None } => {
            assert!(holder == "other" && left <= TTL && left > TTL / 2, "{holder} {left:?}");
        }
        outcome => panic!("{outcome:?}"),
    }
    assert_eq!(node.look("a").await.fence, 5, "a refusal writes nothing");
}

async fn a_holder_that_claims_again_needs_a_ballot_from_its_own_on(node: Bench) {
    node.claim("me", 5).await;
    let short = Asked { ttl: Duration::from_secs(60), ..operation(Verb::Claim, "me", 8) };
    assert_eq!(node.ask(&short).await, granted(8));
    assert!(node.look("a").await.remaining.is_some_and(|left| left <= short.ttl), "the ttl is the last claim's");
    assert_eq!(node.claim("me", 5).await, Outcome::Stale { fence: 8 }, "a late one");
    node.withdraw("other", 10).await;
    for (ballot, outcome) in [(8, granted(8)), (9, Outcome::Stale { fence: 10 }), (11, granted(11))] {
        assert_eq!(node.claim("me", ballot).await, outcome);
    }
    assert_eq!((node.look("a").await.fence, node.look("a").await.ballot), (11, 11));
}

async fn overtaken_note_and_note_of_another_owner_change_nothing(node: Bench) {
    let renews = |owner: &str, number, says: &str| {
        let note = Some(Note { number, age: TTL, says: says.into() });
        Asked { note, kind: Kind::Noted, ..operation(Verb::Renew, owner, 5) }
    };
    let says = async || node.look("a").await.description.map(|told| told.says.to_string());
    node.claim("me", 5).await;
    for (number, text, stored) in [(1, "one", "one"), (3, "three", "three"), (2, "two", "three"), (3, "3", "3")] {
        assert_eq!(node.ask(&renews("me", number, text)).await, Outcome::Extended);
        assert_eq!(says().await.as_deref(), Some(stored));
    }
    node.ask(&Asked { note: None, ..renews("me", 0, "") }).await;
    let told = node.look("a").await.description.unwrap();
    assert!((told.token, told.number) == (5, 3) && told.since >= TTL && told.since < 2 * TTL, "{told:?}");
    assert_eq!(node.ask(&renews("other", 9, "x")).await, Outcome::Lost { holder: "me".to_owned() });
    assert_eq!((says().await.as_deref(), node.look("a").await.fence), (Some("3"), 5));
    node.release("me", 5).await;
    assert_eq!(says().await, None);
    node.claim("other", 9).await;
    assert_eq!(says().await, None, "it was another's");
    node.release("other", 9).await;
    let third = Asked { ballot: 12, ..renews("third", 0, "") };
    assert_eq!(node.ask(&third).await, Outcome::Healed);
    assert_eq!(says().await.as_deref(), Some(""), "it is the holder now");
}

async fn a_page_tells_names_and_none_of_their_other_keys(node: Bench) {
    // The names here have an empty key prefix.
    let named = |asked: Asked| Asked { names: [Name::new("", "{a}:queue").unwrap()].into(), ..asked };
    let scan = Asked { names: [].into(), count: 1_000, ..operation(Verb::Scan, "0", 0) };
    let page = async || match node.ask(&scan).await {
        Outcome::Scanned { next, names } => {
            (next, names.iter().map(|name| name.text().to_string()).collect::<Vec<_>>())
        }
        other => panic!("{other:?}"),
    };
    assert_eq!(page().await, ("0".to_owned(), Vec::new()));
    node.ask(&named(operation(Verb::Claim, "me", 5))).await;
    node.ask(&named(waits("c/2", 6, Duration::ZERO))).await;
    assert_eq!(page().await, ("0".to_owned(), vec!["{a}:queue".to_owned()]));
}

async fn a_renewal_sets_the_hold_count(node: Bench) {
    node.claim("me", 5).await;
    for count in [3, 3, 2] {
        assert_eq!(node.ask(&Asked { count, ..operation(Verb::Renew, "me", 5) }).await, Outcome::Extended);
        assert_eq!((node.look("a").await.count, node.look("a").await.fence), (count, 5));
    }
    assert_eq!(
        node.ask(&Asked { count: 4, ..operation(Verb::Renew, "other", 9) }).await,
        Outcome::Lost { holder: "me".to_owned() }
    );
    assert_eq!(node.look("a").await.count, 2);
}

async fn renewal_is_revoked_by_its_token_and_raises_the_ballot(node: Bench) {
    let renews = |token, ballot| Asked { token, ..operation(Verb::Renew, "me", ballot) };
    node.claim("me", 5).await;
    assert_eq!(node.ask(&renews(5, 9)).await, Outcome::Extended);
    let seen = node.look("a").await;
    assert_eq!((seen.ballot, seen.fence, seen.over), (9, 9, 0));
    node.ask(&operation(Verb::Revoke, "-", 7)).await;
    assert_eq!(node.ask(&renews(5, 9)).await, Outcome::Lost { holder: String::new() }, "5 is revoked");
    node.ask(&Asked { token: 5, ..operation(Verb::Release, "me", 9) }).await;
    let seen = node.look("a").await;
    assert_eq!((seen.holder, seen.fence, seen.over), (None, 9, 7), "locks above its token are not over");
    assert_eq!(node.ask(&renews(5, 10)).await, Outcome::Lost { holder: String::new() }, "it comes late");
    assert_eq!(node.ask(&renews(8, 9)).await, Outcome::Healed);
}

async fn a_script_delivered_twice_changes_nothing(node: Bench) {
    assert_eq!((node.claim("me", 5).await, node.claim("me", 5).await), (granted(5), granted(5)));
    assert_eq!(node.release("me", 5).await, Outcome::Released { held: 1 });
    assert_eq!(node.release("me", 5).await, Outcome::Released { held: 0 });
}

async fn revoked_ballots_of_a_free_name_are_not_granted_or_renewed(node: Bench) {
    let free = Outcome::Revoked { holder: None, ballot: 0, left: Duration::ZERO };
    for ballot in [9, 6] {
        assert_eq!(node.ask(&operation(Verb::Revoke, "-", ballot)).await, free, "a lower one changes nothing");
        assert_eq!(node.renew("me", 9).await, Outcome::Lost { holder: String::new() });
        assert_eq!(node.claim("me", 9).await, Outcome::Stale { fence: 9 });
    }
    assert_eq!(node.renew("me", 10).await, Outcome::Healed);
}

async fn revocation_names_the_holder_and_frees_nothing(node: Bench) {
    node.claim("other", 5).await;
    for ballot in [6, 7] {
        match node.ask(&operation(Verb::Revoke, "-", ballot)).await {
            Outcome::Revoked { holder: Some(holder), ballot: 5, left } => {
                assert!(holder == "other" && left <= TTL && left > TTL / 2, "{holder} {left:?}");
            }
            outcome => panic!("{outcome:?}"),
        }
    }
    assert_eq!(node.renew("other", 5).await, Outcome::Lost { holder: String::new() });
    assert!(node.look("a").await.is_revoked());
    assert!(matches!(node.claim("me", 9).await, Outcome::Held { .. }));
}

async fn revoked_holder_is_granted_only_by_a_higher_ballot(node: Bench) {
    node.claim("me", 5).await;
    node.ask(&operation(Verb::Revoke, "-", 6)).await;
    for ballot in [5, 6] {
        assert_eq!(node.claim("me", ballot).await, Outcome::Stale { fence: 6 });
    }
    assert_eq!(node.claim("me", 7).await, granted(7));
    assert_eq!(node.renew("me", 7).await, Outcome::Extended);
}

async fn a_renewal_that_comes_after_its_release_revives_nothing(node: Bench) {
    node.claim("me", 5).await;
    node.release("me", 5).await;
    assert_eq!(node.renew("me", 5).await, Outcome::Lost { holder: String::new() });
    // The result is the same for an owner that did not hold the name when it released the name.
    node.release("third", 7).await;
    assert_eq!(node.renew("third", 7).await, Outcome::Lost { holder: String::new() });
    assert_eq!(node.look("a").await.holder, None);
}

async fn synced_node_grants_only_above_its_floor(node: Bench) {
    node.claim("me", 5).await;
    let record = node.hello(hello(Intent::Look)).await;
    assert_eq!((record.high, record.floor), (250_005, 0));
    let record = node.forgets_and_is_synced(900_000).await;
    assert_eq!((record.high, record.floor, record.synced), (900_000, 900_000, true));
    let again = Hello { sync: Some(950_000), knew: Some(record.id), ..hello(Intent::Keep) };
    let record = node.hello(again).await;
    assert_eq!((record.high, record.floor), (900_000, 900_000), "it is synced");
    assert_eq!(node.claim("me", 8).await, Outcome::Stale { fence: 900_000 }, "it was granted in doubt");
    assert_eq!(node.renew("me", 5).await, Outcome::Extended, "what is held may be held on to");
    let other = Asked { names: names(&["free"]), ..operation(Verb::Claim, "other", 900_000) };
    assert_eq!(node.ask(&other).await, Outcome::Stale { fence: 900_000 });
    assert_eq!(node.ask(&Asked { ballot: 900_001, ..other }).await, granted(900_001));
    assert_eq!(node.claim("me", 900_001).await, granted(900_001));
}

async fn floor_of_a_sync_stays_below_a_fence_of_a_broken_clock(node: Bench) {
    let last = (1 << 53) - 1;
    let floor = node.forgets_and_is_synced(last).await.floor;
    assert!(floor < last);
    assert_eq!(node.claim("me", floor).await, Outcome::Stale { fence: floor });
    assert_eq!(node.claim("me", floor + 1).await, granted(floor + 1));
}

async fn a_fence_more_than_a_day_ahead_is_no_other_names_business(node: Bench) {
    let far = (1 << 53) - 2;
    assert_eq!(node.claim("me", far).await, granted(far));
    let record = node.hello(hello(Intent::Look)).await;
    assert_eq!((record.high, record.floor), (0, 0));
    node.release("me", far).await;
    assert_eq!(node.claim("me", 5).await, Outcome::Stale { fence: far });
}

async fn a_ballot_not_above_the_fence_is_stale_and_writes_nothing(node: Bench) {
    node.release("other", 7).await;
    for ballot in [6, 7] {
        assert_eq!(node.claim("me", ballot).await, Outcome::Stale { fence: 7 });
        assert_eq!(node.look("a").await, Inspection::free(7).with_ballots(0, 7));
    }
    assert_eq!(node.claim("me", 8).await, granted(8));
}

async fn the_fence_outlives_the_hold(node: Bench) {
    node.expired_claim("other", 5).await;
    assert_eq!(node.claim("me", 5).await, Outcome::Stale { fence: 5 });
    assert_eq!(node.claim("me", 6).await, granted(6));
}

async fn claim_of_several_names_is_all_or_none_by_the_first_refusal(node: Bench) {
    node.claim("other", 5).await;
    node.ask(&Asked { names: names(&["stale"]), ..operation(Verb::Release, "other", 50) }).await;
    let claim = |list: &[&str]| Asked { names: names(list), ..operation(Verb::Claim, "me", 9) };
    assert!(matches!(node.ask(&claim(&["free", "a", "stale"])).await, Outcome::Held { .. }));
    assert_eq!(node.ask(&claim(&["free", "stale", "a"])).await, Outcome::Stale { fence: 50 });
    assert_eq!(node.look("free").await, Inspection::free(0), "nothing was written");
    assert_eq!(node.ask(&claim(&["free", "free too"])).await, granted(9));
    let release = claim(&["free", "free too", "a"]).with_verb(Verb::Release);
    assert_eq!(node.ask(&release).await, Outcome::Released { held: 2 });
}

async fn renewal_extends_the_holders_lock_and_nothing_else(node: Bench) {
    node.claim("me", 5).await;
    let longer = Asked { ttl: TTL * 2, ..operation(Verb::Renew, "me", 5) };
    assert_eq!(node.ask(&longer).await, Outcome::Extended);
    assert!(node.look("a").await.remaining.is_some_and(|left| left > TTL));
    assert_eq!(node.renew("other", 9).await, Outcome::Lost { holder: "me".to_owned() });
    assert_eq!(node.look("a").await.fence, 5);
}

async fn a_renewal_past_the_ttl_heals_and_does_not_extend(node: Bench) {
    node.expired_claim("me", 5).await;
    assert_eq!(node.renew("me", 5).await, Outcome::Healed);
    assert_eq!(node.renew("me", 5).await, Outcome::Extended);
    assert_eq!(node.look("a").await.holder.as_deref(), Some("me"));
}

async fn a_healed_node_learns_the_fence(node: Bench) {
    assert_eq!(node.renew("me", 7).await, Outcome::Healed);
    assert_eq!(node.look("a").await.fence, 7);
}

async fn renewal_of_names_held_by_others_in_part_writes_nothing(node: Bench) {
    node.claim("other", 5).await;
    let renewal = Asked { names: names(&["free", "a"]), ..operation(Verb::Renew, "me", 9) };
    assert_eq!(node.ask(&renewal).await, Outcome::Lost { holder: "other".to_owned() });
    assert_eq!(node.look("free").await, Inspection::free(0));
}

async fn release_by_another_owner_frees_nothing(node: Bench) {
    node.claim("me", 5).await;
    assert_eq!(node.release("other", 4).await, Outcome::Released { held: 0 });
    assert_eq!(node.look("a").await.holder.as_deref(), Some("me"));
    assert_eq!(node.release("me", 5).await, Outcome::Released { held: 1 });
    assert_eq!(node.look("a").await, Inspection::free(5).with_ballots(0, 5));
}

async fn a_release_raises_the_fence_whether_it_was_held_or_not(node: Bench) {
    assert_eq!(node.release("me", 7).await, Outcome::Released { held: 0 });
    assert_eq!(node.claim("me", 7).await, Outcome::Stale { fence: 7 }, "the late claim of a released round");
    node.claim("other", 8).await;
    node.release("me", 9).await;
    let told = node.look("a").await;
    assert_eq!((told.holder.as_deref(), told.fence), (Some("other"), 9));
}

async fn a_late_withdrawal_of_an_earlier_ask_undoes_no_later_one(node: Bench) {
    node.claim("me", 5).await;
    assert_eq!(node.withdraw("me", 5).await, Outcome::Released { held: 1 });
    node.claim("me", 6).await;
    assert_eq!(node.withdraw("me", 5).await, Outcome::Released { held: 0 });
    // 8 is the token that other nodes granted.
    assert_eq!(node.renew("me", 8).await, Outcome::Extended);
    assert_eq!(node.withdraw("me", 7).await, Outcome::Released { held: 0 });
    assert_eq!(node.look("a").await.holder.as_deref(), Some("me"));
    assert_eq!(node.withdraw("me", 8).await, Outcome::Released { held: 1 });
    assert_eq!(node.renew("me", 8).await, Outcome::Healed, "its owner goes on");
}

/// A claim that waits with this arrival. A hand-over to its owner lasts for `lasts`.
fn waits(owner: &str, arrival: u64, lasts: Duration) -> Asked {
    let waiter = Some(Waiter { arrival, lasts, again: TTL });
    Asked { waiter, ..operation(Verb::Claim, owner, 1) }
}

/// A release that hands over with the ballot `next`.
fn hands_over(owner: &str, ballot: u64, next: u64) -> Asked {
    Asked { next, ..operation(Verb::Release, owner, ballot) }
}

impl Bench {
    /// Sends a claim that must wait. Returns its place in the queue.
    async fn joins(&self, claim: &Asked) -> u32 {
        match self.ask(claim).await {
            Outcome::Held { queued: Some(Queued { rank, .. }), .. } => rank,
            other => panic!("{other:?}"),
        }
    }
}

async fn a_release_hands_over_to_the_first_waiter(node: Bench) {
    node.claim("me", 5).await;
    assert_eq!(node.joins(&waits("c/2", 9, TTL)).await, 1);
    assert_eq!(node.joins(&waits("c/1", 7, TTL / 2)).await, 1, "it came before");
    assert_eq!(node.joins(&waits("c/2", 9, TTL)).await, 2);
    assert_eq!(node.ask(&hands_over("me", 5, 8)).await, Outcome::Released { held: 1 });
    let told = node.look("a").await;
    assert_eq!((told.holder.as_deref(), told.count, told.fence, told.waiting), (Some("c/1"), 1, 8, 1));
    assert!(told.remaining.is_some_and(|left| left <= TTL / 2 && left > TTL / 4), "{told:?}");
    assert_eq!(node.claim("c/1", 8).await, granted(8), "it holds it, by this ballot");
    let next = 9_000_000;
    assert_eq!(node.ask(&hands_over("c/1", 8, next)).await, Outcome::Released { held: 1 });
    assert_eq!(node.look("a").await.holder.as_deref(), Some("c/2"));
    assert_eq!(node.hello(hello(Intent::Look)).await.high, 9_250_000, "at once");
    node.ask(&hands_over("c/2", next, next + 1)).await;
    assert_eq!(node.look("a").await, Inspection::free(next), "nobody waits");
}

async fn a_release_that_freed_nothing_hands_nothing_over(node: Bench) {
    node.claim("me", 5).await;
    node.joins(&waits("c/1", 7, TTL)).await;
    assert_eq!(node.ask(&hands_over("other", 6, 9)).await, Outcome::Released { held: 0 });
    assert_eq!(node.look("a").await.holder.as_deref(), Some("me"));
    // A hold expires by itself. Its former owner may still count the grant.
    node.ask(&hands_over("me", 6, 0)).await;
    node.joins_after_expiry().await;
    assert_eq!(node.ask(&hands_over("other", 8, 9)).await, Outcome::Released { held: 0 });
    assert_eq!(node.look("a").await.holder, None);
}

impl Bench {
    /// A hold expires while `c/1` waits for the name.
    async fn joins_after_expiry(&self) {
        let claim = Asked { ttl: Duration::from_millis(100), ..operation(Verb::Claim, "brief", 7) };
        assert_eq!(self.ask(&claim).await, granted(7));
        self.joins(&waits("c/1", 7, TTL)).await;
        self.pass(claim.ttl).await;
        assert_eq!(self.look("a").await.holder, None);
    }
}

async fn claim_of_a_free_name_hands_it_to_the_first_waiter(node: Bench) {
    node.joins_after_expiry().await;
    for (owner, ballot, next, arrival) in [("c/9", 8, 9, None), ("c/8", 18, 19, Some(8))] {
        let waiter = arrival.map(|arrival| Waiter { arrival, lasts: TTL, again: TTL });
        let claim = Asked { ballot, next, waiter, ..operation(Verb::Claim, owner, 1) };
        let refused = node.ask(&claim).await;
        assert!(matches!(&refused, Outcome::Held { holder, .. } if holder == "c/1"), "{refused:?}");
        let told = node.look("a").await;
        assert_eq!((told.ballot, told.waiting), (next, u32::from(arrival.is_some())));
        node.ask(&hands_over("c/1", next, 0)).await;
        node.ask(&Asked { owner: "c/8".into(), ..hands_over("c/8", next, 0) }).await;
        let brief = Asked { ttl: Duration::from_millis(100), ..operation(Verb::Claim, "brief", next + 1) };
        assert_eq!(node.ask(&brief).await, granted(next + 1));
        node.joins(&waits("c/1", 7, TTL)).await;
        node.pass(brief.ttl).await;
    }
    let older = Asked { ballot: 30, next: 31, ..waits("c/0", 6, TTL) };
    assert_eq!(node.ask(&older).await, granted(30), "it came before");
}

async fn claim_that_barges_hands_nothing_over(node: Bench) {
    node.joins_after_expiry().await;
    assert_eq!(node.claim("c/9", 8).await, granted(8));
}

async fn a_ballot_up_to_the_bar_hands_nothing_over(node: Bench) {
    for (round, above) in [(0, 0), (1, 5), (2, 6)] {
        let (held, owner) = (10 * round + 5, format!("c/{round}"));
        assert_eq!(node.claim("me", held).await, granted(held));
        node.joins(&waits(&owner, 7, TTL)).await;
        let next = if above == 0 { 0 } else { 10 * round + above };
        node.ask(&hands_over("me", held + 1, next)).await;
        assert_eq!((node.look("a").await.holder, node.look("a").await.waiting), (None, 1), "{next}");
        node.release(&owner, 1).await;
    }
}

/// The ballot is above the fence, but not above the floor: another owner may have got the ballot
/// before the node forgot.
async fn ballot_up_to_the_floor_of_a_synced_node_hands_nothing_over(node: Bench) {
    node.claim("me", 5).await;
    node.joins(&waits("c/1", 7, TTL)).await;
    node.forgets_and_is_synced(9).await;
    node.ask(&hands_over("me", 5, 8)).await;
    assert_eq!(node.look("a").await.holder, None);
}

async fn waiter_that_has_not_asked_again_is_handed_nothing(node: Bench) {
    let brief = Duration::from_millis(100);
    node.claim("me", 5).await;
    let silent = Some(Waiter { arrival: 6, lasts: TTL, again: brief });
    node.joins(&Asked { waiter: silent, ..waits("c/0", 6, TTL) }).await;
    node.joins(&waits("c/1", 7, TTL)).await;
    node.pass(brief * 2 + Duration::from_millis(5)).await;
    node.ask(&hands_over("me", 5, 8)).await;
    assert_eq!((node.look("a").await.holder.as_deref(), node.look("a").await.waiting), (Some("c/1"), 0));
}

async fn withdrawal_leaves_the_place(node: Bench) {
    node.claim("me", 5).await;
    node.joins(&waits("c/1", 7, TTL)).await;
    assert_eq!(node.withdraw("c/1", 4).await, Outcome::Released { held: 0 });
    assert_eq!(node.look("a").await.waiting, 1);
    node.ask(&hands_over("me", 5, 8)).await;
    assert_eq!(node.look("a").await.holder.as_deref(), Some("c/1"));
    assert_eq!(node.withdraw("c/1", 8).await, Outcome::Released { held: 1 });
    assert_eq!(node.look("a").await, Inspection::free(8));
}

/// c/1 withdraws, and takes its place again. The hand-over does not go to c/1 itself: if c/1 is
/// first, the name stays free for c/1. Otherwise the first waiter gets the name.
async fn withdrawal_takes_its_owners_place_again(node: Bench) {
    for (ballot, arrival, holder, waiting) in [(5, 8, Some("c/2"), 1), (25, 1, None, 2)] {
        assert_eq!(node.claim("c/1", ballot).await, granted(ballot));
        node.joins(&waits("c/2", 7, TTL)).await;
        let withdrawal = Asked { verb: Verb::Withdraw, ballot, next: ballot + 10, ..waits("c/1", arrival, TTL) };
        assert_eq!(node.ask(&withdrawal).await, Outcome::Released { held: 1 });
        let told = node.look("a").await;
        assert_eq!((told.holder.as_deref(), told.waiting), (holder, waiting));
        assert_eq!(node.ask(&withdrawal).await, Outcome::Released { held: 0 }, "it comes twice");
        assert_eq!(node.look("a").await.waiting, waiting);
        node.release("c/1", ballot + 11).await;
        node.release("c/2", ballot + 11).await;
    }
}

async fn waiters_that_nobody_hears_for_are_skipped_in_one_call(node: Bench) {
    node.claim("me", 5).await;
    for number in 1..=30 {
        node.joins(&waits(&format!("deaf/{number}"), number, TTL)).await;
    }
    node.joins(&waits("c/1", 70, TTL)).await;
    node.ask(&hands_over("me", 5, 8)).await;
    let told = node.look("a").await;
    assert_eq!((told.holder.as_deref(), told.fence, told.waiting), (Some("c/1"), 8, 0));
}

async fn readers_at_the_head_are_handed_the_name_together(node: Bench) {
    node.claim("me", 5).await;
    for (arrival, owner) in [(1, "c/s1"), (2, "c/s2"), (3, "c/3"), (4, "c/s4")] {
        node.joins(&waits(owner, arrival, TTL)).await;
    }
    node.ask(&hands_over("me", 5, 8)).await;
    assert_eq!((node.look("a").await.count, node.look("a").await.waiting), (2, 2));
    node.ask(&hands_over("c/3", 6, 9)).await;
    assert_eq!((node.look("a").await.count, node.look("a").await.waiting), (3, 0), "no writer is before it");
}

async fn reader_claim_below_its_handed_over_ballot_is_stale(node: Bench) {
    node.claim("me", 5).await;
    node.joins(&waits("c/s1", 1, TTL)).await;
    node.ask(&hands_over("me", 5, 9)).await;
    assert_eq!(node.claim("c/s1", 7).await, Outcome::Stale { fence: 9 });
    assert_eq!(node.claim("c/s1", 10).await, granted(10));
}

async fn release_of_a_reader_ends_no_other(node: Bench) {
    node.claim("c/s1", 5).await;
    node.claim("c/s2", 6).await;
    assert_eq!(node.release("c/s2", 6).await, Outcome::Released { held: 1 });
    assert_eq!(node.renew("c/s1", 5).await, Outcome::Extended);
}

async fn claim_of_permits_looks_at_the_gate(node: Bench) {
    let permit = |owner, ballot| {
        let gate = Some(names(&["a"])[0].clone());
        Asked { gate, names: names(&["a/0"]), ..operation(Verb::Claim, owner, ballot) }
    };
    let gate = |asked: Asked| Asked { kind: Kind::Gate, ..asked };
    let at_gate = async |ballot| match node.ask(&permit("c/1", ballot)).await {
        Outcome::Held { holder, kind: Kind::Gate, remaining: Some(left), .. } => (holder, left > Duration::ZERO),
        other => panic!("{other:?}"),
    };
    assert_eq!(node.ask(&permit("c/1", 5)).await, granted(5), "nobody is there");
    assert_eq!(node.look("a").await, Inspection::free(0), "a look writes nothing");
    assert_eq!(node.ask(&gate(operation(Verb::Claim, "c/2", 6))).await, granted(6));
    assert_eq!(at_gate(7).await, ("c/2".to_owned(), true));
    for (owner, arrival) in [("deaf/3", 8), ("c/4", 9)] {
        node.joins(&gate(waits(owner, arrival, TTL))).await;
    }
    // A release without a hand-over leaves the gate free.
    node.ask(&hands_over("c/2", 6, 0)).await;
    assert_eq!(at_gate(10).await, ("c/4".to_owned(), false), "it waits for it");
    node.release("c/4", 10).await;
    assert_eq!(node.ask(&permit("c/1", 11)).await, granted(11));
    node.claim("c/5", 12).await;
    assert_eq!(node.ask(&permit("c/1", 13)).await, Outcome::Misused { name: 1 });
    assert_eq!(node.ask(&gate(operation(Verb::Claim, "c/2", 14))).await, Outcome::Misused { name: 0 });
}

async fn a_hold_that_was_taken_away_hands_over_like_any_other(node: Bench) {
    node.claim("me", 5).await;
    node.joins(&waits("c/1", 7, TTL)).await;
    assert!(matches!(node.ask(&operation(Verb::Revoke, "-", 6)).await, Outcome::Revoked { holder: Some(_), .. }));
    assert_eq!(node.ask(&hands_over("me", 5, 8)).await, Outcome::Released { held: 1 });
    assert_eq!(node.look("a").await.holder.as_deref(), Some("c/1"));
}

async fn claim_of_several_names_joins_no_queue(node: Bench) {
    node.claim("me", 5).await;
    let several = Asked { names: names(&["a", "b"]), ..waits("c/1", 7, TTL) };
    assert!(matches!(node.ask(&several).await, Outcome::Held { queued: None, .. }));
    assert_eq!(node.look("a").await.waiting, 0);
}

async fn a_question_writes_nothing(node: Bench) {
    let told = node.look("nobody's").await;
    assert_eq!((told, node.look("nobody's").await), (Inspection::free(0), Inspection::free(0)));
}

/// The text of the list in force, and the time that is left.
fn in_force(record: &Record) -> Option<(&str, Duration)> {
    record.in_force.as_ref().map(|list| (&*list.says, list.left))
}

async fn first_list_is_put_in_force_and_no_other_replaces_it(node: Bench) {
    assert_eq!(in_force(&node.hello(hello(Intent::Keep)).await), None);
    assert_eq!(in_force(&node.hello(hello(Intent::Make)).await), None);
    let expected = list("default");
    for (intent, name) in [(Intent::Put, "default"), (Intent::Put, "other"), (Intent::Look, "other")] {
        let record = node.hello(Hello { list: list(name), ..hello(intent) }).await;
        assert_eq!(in_force(&record), Some((&**expected.says(), 75 * SECOND)), "{name}");
    }
}

async fn a_list_lapses_that_nobody_keeps_in_force(node: Bench) {
    node.hello(hello(Intent::Put)).await;
    let other = |intent| Hello { list: list("other"), ..hello(intent) };
    node.pass(74 * SECOND).await;
    let record = node.hello(other(Intent::Put)).await;
    assert_eq!(in_force(&record).map(|(_, left)| left), Some(SECOND));
    node.pass(SECOND).await;
    assert_eq!(in_force(&node.hello(other(Intent::Keep)).await), None);
    let record = node.hello(other(Intent::Put)).await;
    assert_eq!(in_force(&record), Some((&**list("other").says(), 75 * SECOND)));
    assert_eq!(record.in_force.map(|list| list.age), Some(Duration::ZERO));
}

async fn a_list_is_written_again_when_little_of_it_is_left(node: Bench) {
    node.hello(hello(Intent::Put)).await;
    for (passes, left) in [(5, 70), (1, 75), (4, 71), (2, 75)] {
        node.pass(passes * SECOND).await;
        let record = node.hello(hello(Intent::Keep)).await;
        assert_eq!(in_force(&record).map(|(_, left)| left), Some(left * SECOND));
    }
}

async fn claims_of_another_list_are_refused_and_all_else_is_done(node: Bench) {
    let of = |name: &str, ballot| Asked { list: list(name).hash().clone(), ..operation(Verb::Claim, "me", ballot) };
    assert_eq!(node.ask(&of("default", 5)).await, Outcome::NoList);
    node.hello(hello(Intent::Put)).await;
    let says = list("default").says().to_string();
    assert_eq!(node.ask(&of("other", 5)).await, Outcome::OtherList { says, left: 75 * SECOND });
    assert_eq!(node.look("a").await, Inspection::free(0), "nothing was written");
    assert_eq!(node.ask(&of("default", 5)).await, granted(5));
    node.pass(80 * SECOND).await;
    assert_eq!(node.renew("me", 5).await, Outcome::Extended, "under no list");
    assert_eq!(node.release("me", 5).await, Outcome::Released { held: 1 });
}

async fn a_record_that_another_process_has_is_young_and_has_a_new_id(node: Bench) {
    let before = node.hello(hello(Intent::Look)).await;
    let another = |intent| Hello { process: "another".into(), ..hello(intent) };
    assert_eq!(node.hello(another(Intent::Look)).await.id, before.id, "a look writes nothing");
    node.pass(SECOND).await;
    let record = node.hello(another(Intent::Keep)).await;
    assert_eq!((&*record.id, &*record.process, record.age), ("0123456789abcdef", "another", Duration::ZERO));
    assert!(!record.synced && record.word.is_none());
    node.pass(SECOND).await;
    let again = node.hello(Hello { new: "ffffffffffffffff".into(), ..another(Intent::Keep) }).await;
    assert_eq!((again.id, again.age), (record.id, SECOND), "it is the same process now");
}

async fn ids_are_kept_for_a_while_and_only_from_the_list_in_force(node: Bench) {
    node.hello(hello(Intent::Put)).await;
    let sees = |name: &str, id: &str| {
        let seen = vec![("a:1".into(), id.into())];
        Hello { list: list(name), seen, ..hello(Intent::Keep) }
    };
    let ids = |record: Record| record.seen.into_iter().map(|seen| seen.id.to_string()).collect::<Vec<_>>();
    assert_eq!(ids(node.hello(sees("default", "one")).await), ["one"]);
    assert_eq!(ids(node.hello(sees("other", "two")).await), ["one"]);
    node.pass(10 * SECOND).await;
    let mut both = ids(node.hello(sees("default", "three")).await);
    both.sort_unstable();
    assert_eq!(both, ["one", "three"]);
    node.pass(6 * SECOND).await;
    assert_eq!(ids(node.hello(hello(Intent::Look)).await), ["three"]);
}

macro_rules! both {
    ($($scenario:ident;)*) => {
        mod memory {
            use super::*;
            $(
                #[tokio::test(start_paused = true)]
                async fn $scenario() {
                    let host = Arc::new(quorumlock::host::TokioTime::new(tokio::runtime::Handle::current()));
                    let (node, hears) = (MemoryNode::new("memory://0", host), Recorder::of("c"));
                    node.listen(0, hears.clone());
                    super::$scenario(Bench { node: Arc::new(node), clock: None }).await;
                    drop(hears);
                }
            )*
        }
        mod redis {
            use super::*;
            $(
                #[tokio::test]
                async fn $scenario() {
                    let clock = Clockwork::still().await;
                    let node = Arc::new(heard(&clock.server.url(), Recorder::of("c")).await);
                    super::$scenario(Bench { node, clock: Some(clock) }).await;
                }
            )*
        }
    };
}

both! {
    a_free_name_is_granted_and_told_with_holder_count_and_fence;
    held_name_is_refused_with_its_holder_time_and_fence;
    a_holder_that_claims_again_needs_a_ballot_from_its_own_on;
    overtaken_note_and_note_of_another_owner_change_nothing;
    a_page_tells_names_and_none_of_their_other_keys;
    a_renewal_sets_the_hold_count;
    renewal_is_revoked_by_its_token_and_raises_the_ballot;
    revoked_ballots_of_a_free_name_are_not_granted_or_renewed;
    revocation_names_the_holder_and_frees_nothing;
    revoked_holder_is_granted_only_by_a_higher_ballot;
    a_renewal_that_comes_after_its_release_revives_nothing;
    synced_node_grants_only_above_its_floor;
    floor_of_a_sync_stays_below_a_fence_of_a_broken_clock;
    a_fence_more_than_a_day_ahead_is_no_other_names_business;
    a_script_delivered_twice_changes_nothing;
    a_ballot_not_above_the_fence_is_stale_and_writes_nothing;
    the_fence_outlives_the_hold;
    claim_of_several_names_is_all_or_none_by_the_first_refusal;
    renewal_extends_the_holders_lock_and_nothing_else;
    a_renewal_past_the_ttl_heals_and_does_not_extend;
    a_healed_node_learns_the_fence;
    renewal_of_names_held_by_others_in_part_writes_nothing;
    release_by_another_owner_frees_nothing;
    a_release_raises_the_fence_whether_it_was_held_or_not;
    a_late_withdrawal_of_an_earlier_ask_undoes_no_later_one;
    a_release_hands_over_to_the_first_waiter;
    a_release_that_freed_nothing_hands_nothing_over;
    claim_of_a_free_name_hands_it_to_the_first_waiter;
    claim_that_barges_hands_nothing_over;
    a_ballot_up_to_the_bar_hands_nothing_over;
    ballot_up_to_the_floor_of_a_synced_node_hands_nothing_over;
    waiter_that_has_not_asked_again_is_handed_nothing;
    withdrawal_leaves_the_place;
    withdrawal_takes_its_owners_place_again;
    waiters_that_nobody_hears_for_are_skipped_in_one_call;
    readers_at_the_head_are_handed_the_name_together;
    reader_claim_below_its_handed_over_ballot_is_stale;
    release_of_a_reader_ends_no_other;
    claim_of_permits_looks_at_the_gate;
    a_hold_that_was_taken_away_hands_over_like_any_other;
    claim_of_several_names_joins_no_queue;
    a_question_writes_nothing;
    first_list_is_put_in_force_and_no_other_replaces_it;
    a_list_lapses_that_nobody_keeps_in_force;
    a_list_is_written_again_when_little_of_it_is_left;
    claims_of_another_list_are_refused_and_all_else_is_done;
    a_record_that_another_process_has_is_young_and_has_a_new_id;
    ids_are_kept_for_a_while_and_only_from_the_list_in_force;
}
