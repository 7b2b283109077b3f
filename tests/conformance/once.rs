//! `once`: the first caller in each period gets a permit, and the other callers get none.

use std::sync::Mutex;
use std::time::Duration;

use futures::future::join_all;
use quorumlock::node::Verb;
use quorumlock::{LostReason, MAX_PERIOD, Once, OncePermit, Quorum, QuorumBuilder, Released};
use tokio::time::Instant;

use crate::common::{PATIENCE, eventually, is_taken, released};
use crate::world::{Memory, World};

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3_600);

/// A client whose locks are held to the end, even if the machine stalls.
async fn client(world: &impl World) -> Quorum {
    world.client_with(|builder: QuorumBuilder| builder.ttl(3 * world.ttl())).await
}

/// A client for scenarios that wait for the end of a ttl.
async fn brief_client(world: &impl World) -> Quorum {
    world.client_with(|builder: QuorumBuilder| builder.ttl(world.ttl())).await
}

async fn is_done(world: &impl World, once: &Once) -> bool {
    world.answer(async || once.claim().await).await.unwrap().is_none()
}

/// The permit of the first caller in the period.
async fn first(world: &impl World, once: &Once) -> OncePermit {
    world.answer(async || once.claim().await).await.unwrap().expect("nobody has had it")
}

async fn the_first_in_each_period_gets_a_permit_and_all_others_none(world: impl World) {
    let (one, two) = (brief_client(&world).await, brief_client(&world).await);
    let (period, mut last) = (world.ttl() + SECOND, 0);
    for _ in 0..2 {
        let began = Instant::now();
        let [mine, theirs] = [&one, &two].map(|client| client.once("a", period));
        let permit = first(&world, &mine).await;
        // If the machine stalls, the period may end before all is checked.
        let is_over = |time: Duration| world.stalls() && began.elapsed() >= time;
        assert!(permit.token() > last);
        last = permit.token();
        let done = is_done(&world, &mine).await && is_done(&world, &theirs).await;
        assert!(done || is_over(period), "while it is done");
        let release = world.confirmed(permit.done()).await;
        let is_ended = release.is_none_or(|release| release == Released::Released);
        assert!(is_ended || is_over(world.ttl() / 2), "{release:?}");
        let done = is_done(&world, &mine).await && is_done(&world, &theirs).await;
        assert!(done || is_over(period), "when it is done");
        eventually("the period ends", async || world.holders("a").await == 0).await;
        // Nodes count whole milliseconds.
        assert!(began.elapsed() + 2 * MS >= period, "{:?}", began.elapsed());
    }
}

async fn a_permit_that_is_dropped_is_used(world: impl World) {
    let (one, two) = (client(&world).await, client(&world).await);
    drop(first(&world, &one.once("a", HOUR)).await);
    assert!(is_done(&world, &two.once("a", HOUR)).await);
    one.shutdown(PATIENCE).await;
    assert!(is_done(&world, &two.once("a", HOUR)).await, "also when its client has gone");
}

async fn period_may_be_claimed_again_after_an_undo(world: impl World) {
    let (one, two) = (client(&world).await, client(&world).await);
    let permit = first(&world, &one.once("a", HOUR)).await;
    let token = permit.token();
    assert_eq!(released(permit.undo()).await, Released::Released);
    world.freed("a").await;
    let again = first(&world, &two.once("a", HOUR)).await;
    assert!(again.token() > token);
}

async fn work_that_fails_is_given_back_and_work_that_is_done_is_not(world: impl World) {
    let client = client(&world).await;
    let once = client.once("a", HOUR);
    let fails = async || once.try_run(|_| async { Err::<(), _>(quorumlock_error().await) }).await;
    assert!(world.answer(fails).await.unwrap_err().is_config());
    world.freed("a").await;
    let works = async || once.try_run(|lease| async move { Ok::<_, quorumlock::Error>(lease.is_held()) }).await;
    assert_eq!(world.answer(works).await.unwrap(), Some(true));
    assert!(world.answer(async || once.run(|_| async {}).await).await.unwrap().is_none());
    let other = client.once("b", HOUR);
    assert_eq!(world.answer(async || other.run(|_| async { 7 }).await).await.unwrap(), Some(7));
    assert!(is_done(&world, &other).await);
}

/// An error that does not come from nodes.
async fn quorumlock_error() -> quorumlock::Error {
    Quorum::in_memory(1).unwrap().lock("").acquire(SECOND).await.unwrap_err()
}

/// Renewals do not change the period: nodes hold the name until an hour after the claim.
async fn the_period_is_counted_from_the_claim_whatever_renewals_say(world: impl World) {
    // The permit must not be lost if the machine stalls.
    let ttl = 3 * world.ttl();
    let client = world.client_with(|builder: QuorumBuilder| builder.ttl(ttl)).await;
    let began = Instant::now();
    let permit = first(&world, &client.once("a", HOUR)).await;
    // The period has begun before this moment.
    let claimed = began.elapsed();
    tokio::time::sleep(ttl * 5 / 4).await;
    assert!(permit.is_held(), "it is renewed");
    world.held_everywhere("a").await;
    let is_kept = async || {
        for node in world.all() {
            let before = began.elapsed();
            let left = world.look(node, "a").await.remaining.unwrap();
            let is_long = left + began.elapsed() + world.ttl() / 2 >= HOUR;
            // If each renewal began the period anew, the period would end a whole ttl later.
            if !is_long || left + before > claimed + HOUR + world.ttl() / 2 {
                return false;
            }
        }
        true
    };
    // A claim or a renewal may come late to a node. The next renewal corrects that.
    eventually("each node keeps it until the period ends", async || is_kept().await).await;
    released(permit.done()).await;
    assert!(is_kept().await, "when it is done");
}

/// A hold that was renewed right before the end of the period ends with the period.
async fn the_period_ends_in_time_where_the_work_ends_right_before_it(world: impl World) {
    let client = brief_client(&world).await;
    let (period, began) = (world.ttl() * 2, Instant::now());
    let permit = client.once("a", period).claim().await.unwrap().unwrap();
    tokio::time::sleep(period - world.ttl() / 4).await;
    permit.done().await.unwrap();
    eventually("the renewals' hold is shortened", async || {
        let mut left = Vec::new();
        for node in world.all() {
            left.push(world.look(node, "a").await.remaining.unwrap_or_default());
        }
        left.iter().all(|left| *left + began.elapsed() <= period + 2 * MS)
    })
    .await;
}

async fn work_beyond_the_period_keeps_others_out_until_it_is_done(world: impl World) {
    let (one, two) = (brief_client(&world).await, brief_client(&world).await);
    let permit = one.once("a", world.ttl()).claim().await.unwrap().unwrap();
    tokio::time::sleep(world.ttl() * 5 / 4).await;
    assert!(is_done(&world, &two.once("a", world.ttl())).await);
    assert_eq!(permit.done().await.unwrap(), Released::Released);
    world.freed("a").await;
    assert!(!is_done(&world, &two.once("a", world.ttl())).await);
}

async fn a_permit_that_is_lost_is_used_unless_it_is_undone(world: impl World) {
    let (one, two) = (brief_client(&world).await, brief_client(&world).await);
    let [kept, undone] = [first(&world, &one.once("a", HOUR)).await, first(&world, &one.once("b", HOUR)).await];
    (0..2).for_each(|node| world.hang(node));
    for permit in [&kept, &undone] {
        assert_eq!(permit.lost().await, LostReason::Expired);
    }
    (0..2).for_each(|node| world.resume(node));
    drop(kept);
    let _ = undone.undo().await;
    world.freed("b").await;
    eventually("nodes answer again", async || two.once("b", HOUR).claim().await.is_ok_and(|permit| permit.is_some()))
        .await;
    assert!(is_done(&world, &two.once("a", HOUR)).await);
}

fn unless_split(claim: quorumlock::Result<Option<OncePermit>>) -> Option<OncePermit> {
    match claim {
        Err(error) if error.is_unavailable() => None,
        claim => claim.unwrap(),
    }
}

async fn simultaneous_claims_have_one_winner_at_most(world: impl World) {
    let mut clients = Vec::new();
    for _ in 0..5 {
        clients.push(client(&world).await);
    }
    let winner = Mutex::new(Vec::new());
    eventually("one of them wins", async || {
        let claims = clients.iter().map(|client| client.once("a", HOUR)).collect::<Vec<_>>();
        let won = join_all(claims.iter().map(Once::claim)).await.into_iter().filter_map(unless_split);
        let won: Vec<_> = won.collect();
        assert!(won.len() <= 1, "{won:?}");
        let wins = !won.is_empty();
        winner.lock().unwrap().extend(won);
        wins
    })
    .await;
    drop(winner);
    assert!(is_done(&world, &clients[0].once("a", HOUR)).await);
}

/// Of three nodes, one has a grant of an owner that died, and another hangs.
async fn period_without_a_known_holder_is_not_reported_as_done(world: impl World) {
    let client = client(&world).await;
    world.take(0, "a").await;
    world.hang(1);
    let error = client.once("a", HOUR).claim().await.unwrap_err();
    assert!(error.is_unavailable(), "{error}");
    world.resume(1);
    eventually("the next one wins", async || client.once("a", HOUR).claim().await.is_ok_and(|permit| permit.is_some()))
        .await;
}

/// Two of three nodes have grants of different owners, and both owners are gone. The third node has
/// no grant.
async fn split_votes_of_dead_owners_are_not_reported_as_done(world: impl World) {
    let (client, other) = (client(&world).await, client(&world).await);
    world.take(0, "a").await;
    // Two of three nodes are free.
    released(first(&world, &other.once("a", HOUR)).await.done()).await;
    world.delete(2, "a").await;
    eventually("the votes are split", async || {
        let error = client.once("a", HOUR).claim().await.unwrap_err();
        assert!(error.is_unavailable(), "{error}");
        // If the machine stalls, a quorum may be out of reach.
        error.to_string().contains("no quorum of nodes names one")
    })
    .await;
    // The failed claim releases its own grant.
    eventually("one node is free", async || world.look(2, "a").await.holder.is_none()).await;
    world.delete(0, "a").await;
    assert!(!is_done(&world, &client.once("a", HOUR)).await);
}

/// A caller is refused while a node hangs. The caller's claim was sent to this node too. At first
/// the client repeats the release often, and after a ttl only once or twice a minute.
#[tokio::test(start_paused = true)]
async fn release_of_a_refused_claim_is_rarely_sent_to_a_hung_node() {
    let world = Memory::start(3).await;
    let client = brief_client(&world).await;
    first(&world, &client.once("a", HOUR)).await.done().await.unwrap();
    world.hang(2);
    assert!(is_done(&world, &client.once("a", HOUR)).await);
    let asked = |verb| world.faults[2].asked(verb);
    let released = || asked(Verb::Release) + asked(Verb::Withdraw);
    tokio::time::sleep(2 * SECOND).await;
    let soon = released();
    assert!(soon > 1, "{soon}");
    tokio::time::sleep(30 * 60 * SECOND).await;
    let rarely = released() - soon;
    assert!((25..=70).contains(&rarely), "{rarely} in half an hour");
    world.resume(2);
    client.quiet().await;
}

async fn a_claim_is_one_call_a_node_and_its_end_none(world: impl World) {
    let client = client(&world).await;
    // Claim another name first, so that operations for connecting are not counted.
    released(first(&world, &client.once("first", HOUR)).await.done()).await;
    world.held_everywhere("first").await;
    let asked = || world.all().into_iter().map(|node| world.asked(node)).collect::<Vec<_>>();
    for number in 0.. {
        let (name, began, before) = (format!("a/{number}"), Instant::now(), asked());
        released(first(&world, &client.once(&name, HOUR)).await.done()).await;
        world.held_everywhere(&name).await;
        let now = asked();
        // If the machine stalled, there may be more rounds, renewals and hellos.
        if began.elapsed() < 2 * SECOND {
            let once = |(now, before): (&u64, &u64)| (1..=1 + world.hellos()).contains(&(now - before));
            assert!(now.iter().zip(&before).all(once), "{before:?}, {now:?}");
            return;
        }
        assert!(number < 20, "the machine is too slow");
    }
}

async fn a_bad_period_or_name_is_refused_and_no_node_is_asked(world: impl World) {
    let client = client(&world).await;
    for (name, period, told) in [
        ("a", SECOND, "the period is 1 s, shorter than the ttl ("),
        ("a", Duration::ZERO, "shorter than the ttl"),
        ("a", MAX_PERIOD + SECOND, "use at most 366 days"),
        ("", HOUR, "empty"),
    ] {
        let error = client.once(name, period).claim().await.unwrap_err();
        assert!(error.is_config() && error.to_string().contains(told), "{error}");
        let error = client.once(name, period).try_run(|_| async { Ok::<_, quorumlock::Error>(()) }).await.unwrap_err();
        assert!(error.is_config(), "{error}");
    }
    assert_eq!(world.holders("a").await, 0);
    assert!(!is_done(&world, &client.once("a", MAX_PERIOD)).await);
}

async fn forced_release_lets_the_next_claim_the_period(world: impl World) {
    let client = client(&world).await;
    released(first(&world, &client.once("a", HOUR).describe("invoices")).await.done()).await;
    eventually("it says what was done", async || {
        client.inspect("a").await.unwrap().description().is_some_and(|told| &*told.says == "invoices")
    })
    .await;
    world.answer(async || client.force_release("a").await).await.unwrap();
    assert!(!is_done(&world, &client.once("a", HOUR)).await);
}

/// The name is held as a lock. So nobody has done the work, and the client must not report it as
/// done.
async fn name_held_as_a_lock_is_not_reported_as_done(world: impl World) {
    let (one, two) = (client(&world).await, client(&world).await);
    let held = one.lock("a").describe("a deploy").acquire(PATIENCE).await.unwrap();
    let read = one.rw_lock("b").read(PATIENCE).await.unwrap();
    for (client, name) in [(&one, "a"), (&two, "a"), (&one, "b"), (&two, "b")] {
        let once = client.once(name, HOUR);
        let error = world.answer(async || once.claim().await).await.unwrap_err();
        let told = format!("{name:?} is held as a lock");
        assert!(error.is_config() && error.to_string().contains(&told), "{error}");
    }
    released(held.release()).await;
    released(read.release()).await;
    world.freed("a").await;
    let permit = first(&world, &two.once("a", HOUR).describe("invoices")).await;
    assert!(is_done(&world, &one.once("a", HOUR)).await, "with a note too");
    drop(permit);
    // The name cannot be locked before the period ends.
    assert!(is_taken(&one.lock("a")).await);
}

async fn claim_without_a_quorum_is_unavailable_and_withdrawn(world: impl World) {
    let client = client(&world).await;
    (0..2).for_each(|node| world.hang(node));
    assert!(client.once("a", HOUR).claim().await.unwrap_err().is_unavailable());
    (0..2).for_each(|node| world.resume(node));
    // The client withdraws its claims, so the period has not begun.
    eventually("the next one wins", async || client.once("a", HOUR).claim().await.is_ok_and(|permit| permit.is_some()))
        .await;
}

both! {
    3 nodes:
        the_first_in_each_period_gets_a_permit_and_all_others_none,
        a_permit_that_is_dropped_is_used,
        period_may_be_claimed_again_after_an_undo,
        work_that_fails_is_given_back_and_work_that_is_done_is_not,
        the_period_is_counted_from_the_claim_whatever_renewals_say,
        a_permit_that_is_lost_is_used_unless_it_is_undone,
        simultaneous_claims_have_one_winner_at_most,
        period_without_a_known_holder_is_not_reported_as_done,
        split_votes_of_dead_owners_are_not_reported_as_done,
        a_claim_is_one_call_a_node_and_its_end_none,
        a_bad_period_or_name_is_refused_and_no_node_is_asked,
        forced_release_lets_the_next_claim_the_period,
        name_held_as_a_lock_is_not_reported_as_done,
        claim_without_a_quorum_is_unavailable_and_withdrawn;
    memory 3 nodes:
        the_period_ends_in_time_where_the_work_ends_right_before_it,
        work_beyond_the_period_keeps_others_out_until_it_is_done;
}
