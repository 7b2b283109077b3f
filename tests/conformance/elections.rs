//! Elections: leaders, and the values that they proclaim.

use std::cell::RefCell;
use std::pin::Pin;
use std::time::Duration;

use futures::{FutureExt, Stream, StreamExt};
use quorumlock::{Leadership, MAX_VALUE, Quorum, Released};
use tokio::time::Instant;

use crate::common::{PATIENCE, eventually, inspected, is_taken, released};
use crate::world::{Memory, World};

const SECOND: Duration = Duration::from_secs(1);
const MS: Duration = Duration::from_millis(1);

type Leaders = Pin<Box<dyn Stream<Item = Leadership> + Send>>;

fn observed(client: &Quorum, name: &str) -> Leaders {
    client.election(name).observe().unwrap().boxed()
}

/// The next leader or value that the observer sees.
async fn next(leaders: &mut Leaders) -> Leadership {
    tokio::time::timeout(PATIENCE, leaders.next()).await.expect("somebody leads").expect("it goes on")
}

/// All that the observer sees until this value, in order.
async fn until(leaders: &mut Leaders, token: u64, value: &str) -> Vec<Leadership> {
    let mut seen = vec![next(leaders).await];
    while seen.last().is_none_or(|last| (last.token, &*last.value) != (token, value)) {
        seen.push(next(leaders).await);
    }
    seen
}

async fn observer_sees_the_leaders_token_and_each_value(world: impl World) {
    let (client, other) = (world.client().await, world.client().await);
    let mut leaders = observed(&other, "a");
    let leader = client.election("a").campaign(PATIENCE).await.unwrap();
    let seen = next(&mut leaders).await;
    assert_eq!((seen.token, &*seen.value), (leader.token(), ""));
    for value in ["10.0.0.7:8080", "two\nlines, 2 5 \u{1f512}", ""] {
        // A value that no quorum confirms in time is sent again with the next renewal.
        world.confirmed(leader.proclaim(value)).await;
        let later = next(&mut leaders).await;
        assert_eq!((later.leader, later.token, &*later.value), (seen.leader.clone(), seen.token, value));
    }
    assert_eq!(inspected(&other, "a").await.holder(), Some(&*seen.leader));
    assert_eq!(released(leader.resign()).await, Released::Released);
}

async fn leaders_and_values_are_seen_in_their_order(world: impl World) {
    let (one, two, looks) = (world.client().await, world.client().await, world.client().await);
    let mut leaders = observed(&looks, "a");
    let (mut last, seen) = ((0, String::new()), RefCell::new(Vec::<Leadership>::new()));
    let of_this_term = |token| seen.borrow().last().is_some_and(|seen| seen.token == token);
    let campaigns = async {
        for number in 0..6 {
            let client = if number % 2 == 0 { &one } else { &two };
            let leader = client.election("a").campaign(PATIENCE).await.unwrap();
            for value in 0..4 {
                world.confirmed(leader.proclaim(format!("{number}.{value}"))).await;
            }
            eventually("the term is seen", async || of_this_term(leader.token())).await;
            last = (leader.token(), format!("{number}.3"));
            if number == 5 {
                return leader;
            }
            released(leader.resign()).await;
        }
        unreachable!("the last one leads on")
    };
    let looks = async {
        loop {
            let leader = next(&mut leaders).await;
            seen.borrow_mut().push(leader);
        }
    };
    let leader = tokio::select! {
        leader = campaigns => leader,
        () = looks => unreachable!("it never ends"),
    };
    let mut seen = seen.into_inner();
    if seen.last().is_none_or(|seen| (seen.token, &seen.value) != (last.0, &last.1)) {
        seen.extend(until(&mut leaders, last.0, &last.1).await);
    }
    let order: Vec<_> = seen.iter().map(|seen| (seen.token, seen.value.clone())).collect();
    assert!(order.is_sorted() && order.len() >= 6, "{order:?}");
    drop(leader);
}

/// If observers only polled the nodes, they would see a change more than two seconds late, or would
/// exceed this test's bound on polls.
async fn changes_are_pushed_and_nodes_are_asked_for_them_alone(world: impl World) {
    let (client, other) = (world.client().await, world.client().await);
    let mut leaders = observed(&other, "a");
    let leader = client.election("a").campaign(PATIENCE).await.unwrap();
    next(&mut leaders).await;
    let seen = async {
        for number in 0..20 {
            let value = number.to_string();
            world.confirmed(leader.proclaim(&value)).await;
            until(&mut leaders, leader.token(), &value).await;
        }
    };
    let began = Instant::now();
    tokio::time::timeout(PATIENCE, seen).await.expect("they are pushed");
    // The hints of the last value may still be on their way.
    tokio::time::timeout(SECOND, leaders.next()).await.unwrap_err();
    let looks = || world.all().iter().map(|&node| world.looks(node)).max().unwrap();
    let before = looks();
    let by_itself = |since: Instant| 1 + since.elapsed().as_secs() / 2;
    // If machines stall, the nodes' hints may come one by one, and each hint causes a look.
    let each = if world.stalls() { world.size() as u64 } else { 2 };
    let most = each * 22 + 8 + by_itself(began);
    assert!(before <= most, "{each} looks for each of 22 changes, and some by itself: {before} > {most}");
    let began = Instant::now();
    tokio::time::timeout(4 * SECOND, leaders.next()).await.unwrap_err();
    assert!(looks() <= before + by_itself(began), "nothing happened, and {} looks", looks() - before);
}

async fn an_observer_leaves_nothing_in_its_client(world: impl World) {
    let client = world.client().await;
    let leader = client.election("a").campaign(PATIENCE).await.unwrap();
    for _ in 0..3 {
        let mut leaders = observed(&client, "a");
        next(&mut leaders).await;
        assert!(client.in_use().2 > 0);
    }
    released(leader.resign()).await;
    client.quiet().await;
    assert_eq!(client.in_use(), (0, 0, 0));
}

/// Here, hints come twice, late, or not at all.
#[tokio::test(start_paused = true)]
async fn leaders_are_seen_in_their_order_whatever_becomes_of_hints() {
    let world = Memory::start(3).await;
    world.faults[0].double_hints(true);
    world.faults[1].lose_hints(true);
    world.faults[2].delay(Duration::ZERO, 70 * MS);
    leaders_and_values_are_seen_in_their_order(world).await;
}

#[tokio::test(start_paused = true)]
async fn a_change_of_which_no_hint_comes_is_seen_all_the_same() {
    let world = Memory::start(3).await;
    world.faults.iter().for_each(|faults| faults.lose_hints(true));
    let client = world.client().await;
    let mut leaders = observed(&client, "a");
    let leader = client.election("a").campaign(PATIENCE).await.unwrap();
    until(&mut leaders, leader.token(), "").await;
    for value in ["one", "two"] {
        leader.proclaim(value).await.unwrap();
        let seen = until(&mut leaders, leader.token(), value);
        tokio::time::timeout(5 * SECOND + 10 * MS, seen).await.expect("it looks by itself");
    }
}

async fn late_observer_begins_with_the_present_leader(world: impl World) {
    let client = world.client().await;
    let first = client.election("a").campaign(PATIENCE).await.unwrap();
    world.confirmed(first.proclaim("first")).await;
    released(first.resign()).await;
    let second = client.election("a").campaign(PATIENCE).await.unwrap();
    world.answer(async || second.proclaim("second").await).await.unwrap();
    let seen = next(&mut observed(&world.client().await, "a")).await;
    assert_eq!((seen.token, &*seen.value), (second.token(), "second"));
}

async fn an_election_is_the_lock_of_its_name(world: impl World) {
    let (client, other) = (world.client().await, world.client().await);
    let leader = client.election("a").campaign(PATIENCE).await.unwrap();
    assert!(is_taken(&other.lock("a")).await);
    let late = async |client: &Quorum| {
        let campaigns = world.answer(async || client.election("a").campaign(100 * MS).await).await;
        campaigns.unwrap_err().is_timeout()
    };
    assert!(late(&other).await);
    world.confirmed(leader.proclaim("here")).await;
    let refused = async || other.lock("a").acquire(Duration::ZERO).await.unwrap_err();
    eventually("it is told", async || refused().await.holder_says() == Some("here")).await;
    let token = leader.token();
    drop(leader);
    let guard = other.lock("a").acquire(PATIENCE).await.unwrap();
    assert!(guard.token() > token);
    assert!(late(&client).await);
}

async fn a_candidate_is_elected_when_the_leader_resigns(world: impl World) {
    let (client, other) = (world.client().await, world.client().await);
    let mut leaders = observed(&other, "a");
    let first = client.election("a").campaign(PATIENCE).await.unwrap();
    world.confirmed(first.proclaim("first")).await;
    let election = other.election("a");
    let waiting = tokio::spawn(async move { election.campaign(PATIENCE).await.unwrap() });
    until(&mut leaders, first.token(), "first").await;
    released(first.resign()).await;
    let second = waiting.await.unwrap();
    until(&mut leaders, second.token(), "").await;
    world.confirmed(second.proclaim("second")).await;
    until(&mut leaders, second.token(), "second").await;
}

async fn a_leader_without_a_quorum_proclaims_nothing_and_is_told_so(world: impl World) {
    // The ttl is long, so that the leader keeps its office until its call has ended.
    let client = world.client_with(|builder| builder.ttl(3 * world.ttl())).await;
    let leader = client.election("a").campaign(PATIENCE).await.unwrap();
    world.confirmed(leader.proclaim("before")).await;
    (0..2).for_each(|node| world.hang(node));
    assert!(leader.proclaim("after").await.unwrap_err().is_unavailable());
    leader.lost().await;
    assert!(leader.proclaim("late").await.unwrap_err().is_lost());
    (0..2).for_each(|node| world.resume(node));
}

async fn values_of_64_kib_are_proclaimed_and_longer_ones_refused(world: impl World) {
    let client = world.client().await;
    let leader = client.election("a").campaign(PATIENCE).await.unwrap();
    let longest = "é".repeat(MAX_VALUE / 2);
    world.confirmed(leader.proclaim(&longest)).await;
    until(&mut observed(&client, "a"), leader.token(), &longest).await;
    let other = world.client().await;
    let refused = async || other.lock("a").acquire(Duration::ZERO).await.unwrap_err();
    eventually("its beginning is told", async || refused().await.holder_says().map(str::len) == Some(256)).await;
    for (value, told) in [(longest + "x", "65537 bytes; use at most 65536"), ("a\0b".to_owned(), "NUL")] {
        let error = leader.proclaim(&value).await.unwrap_err();
        assert!(error.is_config() && error.to_string().contains(told), "{error}");
    }
    assert!(leader.is_held());
}

async fn bad_election_is_refused_and_shutdown_ends_observers(world: impl World) {
    let client = world.client().await;
    assert!(client.election("").observe().err().unwrap().is_config());
    assert!(client.election("").campaign(SECOND).await.unwrap_err().is_config());
    assert!(client.election_with("a", &client.options().ttl(Duration::ZERO)).unwrap_err().is_config());
    let mut leaders = observed(&client, "a");
    let (seen, ()) = tokio::join!(leaders.next(), client.shutdown(PATIENCE));
    assert_eq!(seen, None);
    assert!(client.election("a").observe().err().unwrap().is_closed());
}

#[test]
fn observer_outside_of_a_runtime_ends() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let mut leaders = runtime.block_on(async { observed(&Quorum::in_memory(3).unwrap(), "a") });
    assert_eq!(leaders.next().now_or_never(), Some(None));
}

both! {
    3 nodes:
        observer_sees_the_leaders_token_and_each_value,
        leaders_and_values_are_seen_in_their_order,
        changes_are_pushed_and_nodes_are_asked_for_them_alone,
        an_observer_leaves_nothing_in_its_client,
        late_observer_begins_with_the_present_leader,
        an_election_is_the_lock_of_its_name,
        a_candidate_is_elected_when_the_leader_resigns,
        a_leader_without_a_quorum_proclaims_nothing_and_is_told_so,
        values_of_64_kib_are_proclaimed_and_longer_ones_refused,
        bad_election_is_refused_and_shutdown_ends_observers;
}
