//! The operations of docs/protocol.md, one node at a time, rule by rule.

use std::sync::Arc;
use std::time::Duration;

use quorumlock::node::{Inspection, Kind, MemoryNode, Name, Node, Note, Operation, Outcome, Queued, Verb, Waiter};
use quorumlock::rules::roster::{self, Enrolment, Roster};

use crate::common::asked::Asked;
use crate::common::clockwork::Clockwork;
use crate::common::node::{Recorder, ask, heard};

/// One node, and operations under one name unless told otherwise. A real one has a clock that stands
/// still until time is made to pass.
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

impl Bench {
    async fn pass(&self, time: Duration) {
        match &self.clock {
            Some(clock) => clock.pass(time),
            None => tokio::time::sleep(time).await,
        }
    }

    /// Of a roster all but times.
    async fn ask(&self, operation: &(impl Clone + Into<Operation>)) -> Outcome {
        let bare = |roster| Roster { lasts: Duration::ZERO, retired: None, ..roster };
        match ask(&*self.node, operation).await.unwrap() {
            Outcome::Listed(roster) => Outcome::Listed(bare(roster)),
            Outcome::Unlisted(roster) => Outcome::Unlisted(bare(roster)),
            outcome => outcome,
        }
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

    /// Claims for a tenth of a second, and waits until that has ended.
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

async fn a_held_name_is_refused_with_its_holder_its_time_and_its_fence(node: Bench) {
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

async fn a_note_is_the_holders_and_one_that_was_overtaken_changes_nothing(node: Bench) {
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
    // The key prefix of this node is empty.
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

async fn renewal_is_over_by_its_token_and_raises_the_hold_to_its_ballot(node: Bench) {
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

async fn what_was_revoked_is_neither_granted_nor_renewed_wherever_it_was_held(node: Bench) {
    let free = Outcome::Revoked { holder: None, ballot: 0, left: Duration::ZERO };
    for ballot in [9, 6] {
        assert_eq!(node.ask(&operation(Verb::Revoke, "-", ballot)).await, free, "a lower one changes nothing");
        assert_eq!(node.renew("me", 9).await, Outcome::Lost { holder: String::new() });
        assert_eq!(node.claim("me", 9).await, Outcome::Stale { fence: 9 });
    }
    assert_eq!(node.renew("me", 10).await, Outcome::Healed);
}

async fn a_revocation_tells_who_holds_it_and_frees_nothing(node: Bench) {
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

async fn a_holder_that_was_revoked_has_it_again_by_a_higher_ballot_alone(node: Bench) {
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
    // Nor where the name was not held when it was released.
    node.release("third", 7).await;
    assert_eq!(node.renew("third", 7).await, Outcome::Lost { holder: String::new() });
    assert_eq!(node.look("a").await.holder, None);
}

async fn a_node_that_was_taught_grants_nothing_up_to_what_others_know(node: Bench) {
    node.claim("me", 5).await;
    assert_eq!(node.ask(&Operation::Record).await, Outcome::Record { high: 250_005, floor: 0, taught: false });
    assert_eq!(node.ask(&Operation::teach(900_000, 1)).await, Outcome::Taught);
    assert_eq!(node.ask(&Operation::Record).await, Outcome::Record { high: 900_000, floor: 900_000, taught: true });
    assert_eq!(node.ask(&Operation::teach(800_000, 1)).await, Outcome::Taught);
    assert_eq!(node.ask(&Operation::Record).await, Outcome::Record { high: 900_000, floor: 900_000, taught: true });
    assert_eq!(node.claim("me", 8).await, Outcome::Stale { fence: 900_000 }, "it was granted in doubt");
    assert_eq!(node.renew("me", 5).await, Outcome::Extended, "what is held may be held on to");
    let other = Asked { names: names(&["free"]), ..operation(Verb::Claim, "other", 900_000) };
    assert_eq!(node.ask(&other).await, Outcome::Stale { fence: 900_000 });
    assert_eq!(node.ask(&Asked { ballot: 900_001, ..other }).await, granted(900_001));
    assert_eq!(node.claim("me", 900_001).await, granted(900_001));
}

async fn a_node_is_not_taught_what_only_a_broken_clock_can_have_dealt(node: Bench) {
    let last = (1 << 53) - 1;
    assert_eq!(node.ask(&Operation::teach(last, 1)).await, Outcome::Taught);
    let Outcome::Record { floor, .. } = node.ask(&Operation::Record).await else { panic!("the record") };
    assert!(floor < last);
    assert_eq!(node.claim("me", floor).await, Outcome::Stale { fence: floor });
    assert_eq!(node.claim("me", floor + 1).await, granted(floor + 1));
}

async fn a_fence_more_than_a_day_ahead_is_no_other_names_business(node: Bench) {
    let far = (1 << 53) - 2;
    assert_eq!(node.claim("me", far).await, granted(far));
    assert_eq!(node.ask(&Operation::Record).await, Outcome::Record { high: 0, floor: 0, taught: false });
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

async fn several_names_are_granted_all_or_none_and_the_first_that_refuses_decides(node: Bench) {
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

async fn a_renewal_extends_what_is_held_and_nothing_else(node: Bench) {
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

async fn a_renewal_of_several_names_that_others_hold_in_part_writes_nothing(node: Bench) {
    node.claim("other", 5).await;
    let renewal = Asked { names: names(&["free", "a"]), ..operation(Verb::Renew, "me", 9) };
    assert_eq!(node.ask(&renewal).await, Outcome::Lost { holder: "other".to_owned() });
    assert_eq!(node.look("free").await, Inspection::free(0));
}

async fn only_the_owner_releases(node: Bench) {
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
    // The token that other nodes granted.
    assert_eq!(node.renew("me", 8).await, Outcome::Extended);
    assert_eq!(node.withdraw("me", 7).await, Outcome::Released { held: 0 });
    assert_eq!(node.look("a").await.holder.as_deref(), Some("me"));
    assert_eq!(node.withdraw("me", 8).await, Outcome::Released { held: 1 });
    assert_eq!(node.renew("me", 8).await, Outcome::Healed, "its owner goes on");
}

/// A claim that waits, by the ticket, and is handed the name for so long.
fn waits(owner: &str, ticket: u64, lasts: Duration) -> Asked {
    let waiter = Some(Waiter { ticket, lasts, again: TTL });
    Asked { waiter, ..operation(Verb::Claim, owner, 1) }
}

/// A release that hands over with the ballot `next`.
fn hands_over(owner: &str, ballot: u64, next: u64) -> Asked {
    Asked { next, ..operation(Verb::Release, owner, ballot) }
}

impl Bench {
    /// Its place in the queue.
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
    assert!(matches!(node.ask(&Operation::Record).await, Outcome::Record { high: 9_250_000, .. }), "at once");
    node.ask(&hands_over("c/2", next, next + 1)).await;
    assert_eq!(node.look("a").await, Inspection::free(next), "nobody waits");
}

async fn a_release_that_freed_nothing_hands_nothing_over(node: Bench) {
    node.claim("me", 5).await;
    node.joins(&waits("c/1", 7, TTL)).await;
    assert_eq!(node.ask(&hands_over("other", 6, 9)).await, Outcome::Released { held: 0 });
    assert_eq!(node.look("a").await.holder.as_deref(), Some("me"));
    // Over by itself: nobody knows who counts it still.
    node.ask(&hands_over("me", 6, 0)).await;
    node.joins_after_expiry().await;
    assert_eq!(node.ask(&hands_over("other", 8, 9)).await, Outcome::Released { held: 0 });
    assert_eq!(node.look("a").await.holder, None);
}

impl Bench {
    /// A hold ends by itself while `c/1` waits for it.
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
    for (owner, ballot, next, ticket) in [("c/9", 8, 9, None), ("c/8", 18, 19, Some(8))] {
        let waiter = ticket.map(|ticket| Waiter { ticket, lasts: TTL, again: TTL });
        let claim = Asked { ballot, next, waiter, ..operation(Verb::Claim, owner, 1) };
        let refused = node.ask(&claim).await;
        assert!(matches!(&refused, Outcome::Held { holder, .. } if holder == "c/1"), "{refused:?}");
        let told = node.look("a").await;
        assert_eq!((told.ballot, told.waiting), (next, u32::from(ticket.is_some())));
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

/// The fence is below it still: it may have been granted for a name that is forgotten.
async fn a_ballot_up_to_what_the_node_was_taught_hands_nothing_over(node: Bench) {
    node.claim("me", 5).await;
    node.joins(&waits("c/1", 7, TTL)).await;
    node.ask(&Operation::teach(9, 1)).await;
    node.ask(&hands_over("me", 5, 8)).await;
    assert_eq!(node.look("a").await.holder, None);
}

async fn waiter_that_has_not_asked_again_is_handed_nothing(node: Bench) {
    let brief = Duration::from_millis(100);
    node.claim("me", 5).await;
    let silent = Some(Waiter { ticket: 6, lasts: TTL, again: brief });
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
    for (ticket, owner) in [(1, "c/s1"), (2, "c/s2"), (3, "c/3"), (4, "c/s4")] {
        node.joins(&waits(owner, ticket, TTL)).await;
    }
    node.ask(&hands_over("me", 5, 8)).await;
    assert_eq!((node.look("a").await.count, node.look("a").await.waiting), (2, 2));
    node.ask(&hands_over("c/3", 6, 9)).await;
    assert_eq!((node.look("a").await.count, node.look("a").await.waiting), (3, 0), "no writer is before it");
}

async fn reader_that_asks_below_what_it_was_handed_is_told_that(node: Bench) {
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
    for (owner, ticket) in [("deaf/3", 8), ("c/4", 9)] {
        node.joins(&gate(waits(owner, ticket, TTL))).await;
    }
    // Nobody is handed the gate.
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

/// What a client of three nodes asks for, for 45 s at least. `<` is before those that a server
/// replaces.
fn enrolment(servers: &str) -> Enrolment {
    let (max_ttl, lasts) = (Duration::from_secs(30), Duration::from_secs(45));
    let servers = servers.split_whitespace().map(roster::Server::parse).collect();
    Enrolment { nodes: 3, protocol: 2, max_ttl, lasts, servers }
}

/// Longer than an entry is written for that must last for a tenth of a second.
const WRITTEN: Duration = Duration::from_secs(6);

fn roster(servers: &str, seconds: u64) -> Roster {
    let (nodes, protocol) = if servers.is_empty() { (0, 0) } else { (3, 2) };
    let servers = servers.split_whitespace().map(str::to_owned).collect();
    Roster { nodes, protocol, max_ttl: Duration::from_secs(seconds), servers, ..Roster::default() }
}

impl Bench {
    async fn enrol(&self, servers: &str) -> Outcome {
        self.ask(&Operation::Enrol(enrolment(servers))).await
    }
}

async fn a_roster_takes_no_more_servers_than_its_clients_lists_have(node: Bench) {
    assert_eq!(node.enrol("b a").await, Outcome::Listed(roster("", 0)));
    assert_eq!(node.enrol("a c").await, Outcome::Listed(roster("a b", 30)));
    assert_eq!(node.enrol("c d").await, Outcome::Unlisted(roster("a b c", 30)));
    assert_eq!(node.enrol("c").await, Outcome::Listed(roster("a b c", 30)), "it wrote nothing");
    for (nodes, protocol) in [(5, 2), (3, 3)] {
        let other = Enrolment { nodes, protocol, ..enrolment("a") };
        assert_eq!(node.ask(&Operation::Enrol(other)).await, Outcome::Unlisted(roster("a b c", 30)));
    }
}

async fn only_its_own_successor_has_the_room_of_a_server_that_has_gone(node: Bench) {
    node.enrol("a b c").await;
    assert_eq!(node.enrol("d<c e").await, Outcome::Unlisted(roster("a b c", 30)));
    assert_eq!(node.enrol("a d<c<x").await, Outcome::Listed(roster("a b c", 30)));
    assert_eq!(node.enrol("b").await, Outcome::Listed(roster("a b d", 30)));
    assert_eq!(node.enrol("e<y").await, Outcome::Unlisted(roster("a b d", 30)), "y had no room there");
}

async fn a_roster_is_looked_at_without_a_change(node: Bench) {
    let look = |servers| Operation::Enrol(Enrolment { lasts: Duration::ZERO, ..enrolment(servers) });
    assert_eq!(node.ask(&look("a b c")).await, Outcome::Listed(roster("", 0)));
    node.enrol("a b").await;
    assert_eq!(node.ask(&look("c d")).await, Outcome::Unlisted(roster("a b", 30)));
    assert_eq!(node.ask(&look("c")).await, Outcome::Listed(roster("a b", 30)));
    assert_eq!(node.ask(&look("")).await, Outcome::Listed(roster("a b", 30)));
}

async fn an_entry_ends_by_itself_and_no_shorter_one_ends_it(node: Bench) {
    let brief = |servers, seconds| {
        let (lasts, max_ttl) = (Duration::from_millis(100), Duration::from_secs(seconds));
        Operation::Enrol(Enrolment { lasts, max_ttl, ..enrolment(servers) })
    };
    node.enrol("a").await;
    assert_eq!(node.ask(&brief("a b", 40)).await, Outcome::Listed(roster("a", 30)));
    assert_eq!(node.ask(&brief("b c", 20)).await, Outcome::Listed(roster("a b", 40)));
    node.pass(WRITTEN).await;
    assert_eq!(node.enrol("").await, Outcome::Listed(roster("a", 30)), "b and c end, and who told of 40 s");
    // Nothing of what is left tells of longer locks than its own.
    assert_eq!(node.ask(&brief("c", 1)).await, Outcome::Listed(roster("a", 30)));
    node.pass(WRITTEN).await;
    assert_eq!(node.enrol("").await, Outcome::Listed(roster("a", 30)), "c ends");
}

/// Votes may rest on the entry of the one before.
async fn a_successor_has_its_room_for_as_long_as_the_one_before_had_it(node: Bench) {
    let lasts = Duration::from_millis(100);
    node.enrol("a c").await;
    let brief = Operation::Enrol(Enrolment { lasts, max_ttl: Duration::ZERO, ..enrolment("b d<c") });
    assert_eq!(node.ask(&brief).await, Outcome::Listed(roster("a c", 30)));
    node.pass(WRITTEN).await;
    assert_eq!(node.enrol("").await, Outcome::Listed(roster("a d", 30)), "b ends");
}

/// An entry that must last for a second is written for six.
async fn what_is_there_for_as_long_as_it_must_last_is_not_written_again(node: Bench) {
    let second = Duration::from_secs(1);
    let brief = || Operation::Enrol(Enrolment { lasts: second, max_ttl: second, ..enrolment("a") });
    assert_eq!(node.ask(&brief()).await, Outcome::Listed(roster("", 0)));
    node.pass(2 * second).await;
    assert_eq!(node.ask(&brief()).await, Outcome::Listed(roster("a", 1)));
    node.pass(second * 42 / 10).await;
    assert_eq!(node.enrol("").await, Outcome::Listed(roster("", 0)), "the second wrote nothing");
    node.ask(&brief()).await;
    node.pass(second * 52 / 10).await;
    assert_eq!(node.ask(&brief()).await, Outcome::Listed(roster("a", 1)));
    node.pass(second * 12 / 10).await;
    assert_eq!(node.enrol("").await, Outcome::Listed(roster("a", 1)), "less than a second was left");
}

/// Tells its roster, and for how long it lasts and the node has been retired.
async fn told(node: &Bench, operation: &Operation) -> Roster {
    match ask(&*node.node, operation).await.unwrap() {
        Outcome::Listed(roster) | Outcome::Retired(roster) | Outcome::Reset(roster) => roster,
        other => panic!("{other:?}"),
    }
}

async fn who_was_retired_says_so_until_that_is_taken_back_and_keeps_its_roster(node: Bench) {
    let second = Duration::from_secs(1);
    let enrol = Operation::Enrol(enrolment("a b"));
    assert_eq!(told(&node, &enrol).await, roster("", 0));
    let lasts = told(&node, &enrol).await.lasts;
    assert!(lasts > 48 * second && lasts <= 50 * second, "{lasts:?}");
    assert!(told(&node, &Operation::Retire).await.retired.is_some_and(|age| age < second));
    node.pass(2 * second).await;
    for again in [Operation::Retire, enrol, Operation::Enrol(Enrolment { lasts: Duration::ZERO, ..enrolment("") })] {
        let told = told(&node, &again).await;
        assert!(told.retired.is_some_and(|age| age >= 2 * second) && told.servers == ["a", "b"], "{told:?}");
    }
    assert_eq!(node.enrol("c").await, Outcome::Listed(roster("a b", 30)));
    assert_eq!(node.enrol("d").await, Outcome::Unlisted(roster("a b c", 30)), "others find out there still");
    node.claim("me", 5).await;
    assert_eq!(node.renew("me", 5).await, Outcome::Extended);
    assert_eq!(node.release("me", 5).await, Outcome::Released { held: 1 });
    assert!(told(&node, &Operation::Reset).await.retired.is_some());
    for roster in [told(&node, &Operation::Reset).await, told(&node, &Operation::Enrol(enrolment("a"))).await] {
        assert_eq!((roster.retired, &roster.servers[..]), (None, &["a", "b", "c"].map(str::to_owned)[..]));
    }
}

async fn who_is_taught_by_hand_is_not_one_who_knows(node: Bench) {
    let record = async || match node.ask(&Operation::Record).await {
        Outcome::Record { floor, taught, .. } => (floor, taught),
        other => panic!("{other:?}"),
    };
    assert_eq!(node.ask(&Operation::teach_by_hand(500, 0)).await, Outcome::Taught);
    assert_eq!(record().await, (500, false), "its own list's clients teach it still");
    assert_eq!(node.ask(&Operation::teach(700, 0)).await, Outcome::Taught);
    assert_eq!(node.ask(&Operation::teach_by_hand(800, 0)).await, Outcome::Taught);
    assert_eq!(record().await, (800, true));
}

async fn who_tells_of_locks_above_a_day_is_enrolled_nowhere(node: Bench) {
    let told = |hours: u64, seconds: u64| {
        let max_ttl = Duration::from_secs(hours * 3_600 + seconds);
        Operation::Enrol(Enrolment { max_ttl, lasts: max_ttl + roster::LASTS, ..enrolment("a") })
    };
    assert_eq!(node.ask(&told(24, 1)).await, Outcome::Unlisted(roster("", 0)));
    assert_eq!(node.ask(&told(24 * 365, 0)).await, Outcome::Unlisted(roster("", 0)));
    assert_eq!(node.ask(&told(24, 0)).await, Outcome::Listed(roster("", 0)));
    assert_eq!(node.enrol("").await, Outcome::Listed(roster("a", 24 * 3_600)));
}

async fn what_must_go_is_written_whatever_is_there(node: Bench) {
    node.enrol("a b c").await;
    assert_eq!(node.enrol("a<b").await, Outcome::Listed(roster("a b c", 30)));
    assert_eq!(node.enrol("").await, Outcome::Listed(roster("a c", 30)));
    let longer = Enrolment { max_ttl: Duration::from_secs(40), ..enrolment("a c") };
    node.ask(&Operation::Enrol(longer)).await;
    assert_eq!(node.enrol("").await, Outcome::Listed(roster("a c", 40)));
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
    a_held_name_is_refused_with_its_holder_its_time_and_its_fence;
    a_holder_that_claims_again_needs_a_ballot_from_its_own_on;
    a_note_is_the_holders_and_one_that_was_overtaken_changes_nothing;
    a_page_tells_names_and_none_of_their_other_keys;
    a_renewal_sets_the_hold_count;
    renewal_is_over_by_its_token_and_raises_the_hold_to_its_ballot;
    what_was_revoked_is_neither_granted_nor_renewed_wherever_it_was_held;
    a_revocation_tells_who_holds_it_and_frees_nothing;
    a_holder_that_was_revoked_has_it_again_by_a_higher_ballot_alone;
    a_renewal_that_comes_after_its_release_revives_nothing;
    a_node_that_was_taught_grants_nothing_up_to_what_others_know;
    a_node_is_not_taught_what_only_a_broken_clock_can_have_dealt;
    a_fence_more_than_a_day_ahead_is_no_other_names_business;
    a_script_delivered_twice_changes_nothing;
    a_ballot_not_above_the_fence_is_stale_and_writes_nothing;
    the_fence_outlives_the_hold;
    several_names_are_granted_all_or_none_and_the_first_that_refuses_decides;
    a_renewal_extends_what_is_held_and_nothing_else;
    a_renewal_past_the_ttl_heals_and_does_not_extend;
    a_healed_node_learns_the_fence;
    a_renewal_of_several_names_that_others_hold_in_part_writes_nothing;
    only_the_owner_releases;
    a_release_raises_the_fence_whether_it_was_held_or_not;
    a_late_withdrawal_of_an_earlier_ask_undoes_no_later_one;
    a_release_hands_over_to_the_first_waiter;
    a_release_that_freed_nothing_hands_nothing_over;
    claim_of_a_free_name_hands_it_to_the_first_waiter;
    claim_that_barges_hands_nothing_over;
    a_ballot_up_to_the_bar_hands_nothing_over;
    a_ballot_up_to_what_the_node_was_taught_hands_nothing_over;
    waiter_that_has_not_asked_again_is_handed_nothing;
    withdrawal_leaves_the_place;
    waiters_that_nobody_hears_for_are_skipped_in_one_call;
    readers_at_the_head_are_handed_the_name_together;
    reader_that_asks_below_what_it_was_handed_is_told_that;
    release_of_a_reader_ends_no_other;
    claim_of_permits_looks_at_the_gate;
    a_hold_that_was_taken_away_hands_over_like_any_other;
    claim_of_several_names_joins_no_queue;
    a_question_writes_nothing;
    a_roster_takes_no_more_servers_than_its_clients_lists_have;
    only_its_own_successor_has_the_room_of_a_server_that_has_gone;
    a_roster_is_looked_at_without_a_change;
    an_entry_ends_by_itself_and_no_shorter_one_ends_it;
    a_successor_has_its_room_for_as_long_as_the_one_before_had_it;
    what_is_there_for_as_long_as_it_must_last_is_not_written_again;
    what_must_go_is_written_whatever_is_there;
    who_tells_of_locks_above_a_day_is_enrolled_nowhere;
    who_is_taught_by_hand_is_not_one_who_knows;
    who_was_retired_says_so_until_that_is_taken_back_and_keeps_its_roster;
}
