//! Elections: leaders and observers.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use quorumlock::blocking::{Leader, Leaders, Quorum};
use quorumlock::{Error, Leadership, LostReason, MAX_VALUE, Released};

use crate::common::PATIENCE;
use crate::world::{MS, SECOND, World, eventually, freed};

/// Starts a thread that iterates over the leaders until the end. The thread returns the error that
/// ended the iteration, if any.
fn observer(leaders: Leaders) -> (Receiver<Leadership>, JoinHandle<Option<Error>>) {
    let (seen, news) = channel();
    let thread = thread::spawn(move || {
        for leader in leaders {
            match leader {
                Ok(leader) => seen.send(leader).unwrap(),
                Err(error) => return Some(error),
            }
        }
        None
    });
    (news, thread)
}

/// Waits until the observer sees this leader with this value. Returns all leaders that the observer
/// has seen, in order.
fn until(news: &Receiver<Leadership>, leader: &Leader, value: &str) -> Vec<(u64, String)> {
    let mut seen = Vec::new();
    while seen.last().is_none_or(|last: &(u64, String)| (last.0, &*last.1) != (leader.token(), value)) {
        let leader = news.recv_timeout(PATIENCE).expect("it is seen");
        seen.push((leader.token, leader.value));
    }
    seen
}

fn an_iterator_sees_two_leaders_in_the_order_of_their_tokens(world: &World) {
    let (one, two, looks) = (world.client(), world.client(), world.client());
    let (news, thread) = observer(looks.election("a").observe().unwrap());
    let first = one.election("a").campaign(PATIENCE).unwrap();
    first.proclaim("one").unwrap();
    let mut seen = until(&news, &first, "one");
    let (second, resigned) = thread::scope(|scope| {
        let campaign = scope.spawn(|| two.election("a").campaign(PATIENCE).unwrap());
        let resigned = first.resign().unwrap();
        (campaign.join().unwrap(), resigned)
    });
    assert_eq!(resigned, Released::Released);
    second.proclaim("two").unwrap();
    seen.extend(until(&news, &second, "two"));
    let tokens: Vec<_> = seen.iter().map(|(token, _)| *token).collect();
    assert!(tokens.is_sorted() && tokens.first() < tokens.last(), "{seen:?}");
    looks.shutdown(PATIENCE).unwrap();
    assert!(thread.join().unwrap().is_none(), "it ends with the shutdown");
}

fn threads_lead_one_after_the_other(world: &World) {
    let (one, two) = (world.client().election("a"), world.client().election("a"));
    let (leading, terms) = (AtomicU32::new(0), AtomicU32::new(0));
    thread::scope(|scope| {
        for election in [&one, &two] {
            let (leading, terms) = (&leading, &terms);
            scope.spawn(move || {
                for _ in 0..5 {
                    let term = |leader: &quorumlock::blocking::LeaderLease| {
                        assert_eq!(leading.fetch_add(1, Ordering::SeqCst), 0, "two lead");
                        leader.proclaim("it")?;
                        leading.fetch_sub(1, Ordering::SeqCst);
                        terms.fetch_add(1, Ordering::SeqCst);
                        Ok::<_, Error>(())
                    };
                    election.try_run(PATIENCE, term).unwrap();
                }
            });
        }
    });
    assert_eq!(terms.into_inner(), 10);
}

fn dropped_leader_resigns_and_proclaims_no_more(world: &World) {
    let (client, other) = (world.client(), world.client());
    let leader = client.election("a").campaign(PATIENCE).unwrap();
    assert!(other.election("a").campaign(20 * MS).unwrap_err().is_timeout());
    let (lease, view) = (leader.lease(), leader.lease());
    thread::spawn(move || view.proclaim("from another thread")).join().unwrap().unwrap();
    let mut leaders = other.election("a").observe().unwrap();
    eventually_says(&mut leaders, "from another thread");
    drop(leader);
    freed(&other, "a");
    assert_eq!(lease.lost(Duration::MAX).unwrap(), None, "it was given up");
    assert!(lease.proclaim("late").unwrap_err().is_lost());
}

fn eventually_says(leaders: &mut Leaders, value: &str) {
    while leaders.next_within(PATIENCE).unwrap().expect("it is seen").value != value {}
}

fn run_of_a_revoked_leader_fails_as_lost(world: &World) {
    let client = world.client();
    let options = client.options().ttl(12 * SECOND).wait(20 * MS);
    let election = client.election_with("a", &options).unwrap();
    let lost = election.run(PATIENCE, |leader| {
        assert!(election.campaign_default().unwrap_err().is_timeout());
        assert_eq!(leader.lost(20 * MS).unwrap(), None);
        client.revoke("a").unwrap();
        assert!(leader.lost(PATIENCE).unwrap().is_some());
    });
    assert!(lost.unwrap_err().is_lost());
    freed(&client, "a");
    assert!(election.campaign_default().unwrap().is_held());
}

fn observer_reports_only_new_leaders_and_new_values(world: &World) {
    let client = world.client();
    let election = client.election("a");
    let mut leaders = election.observe().unwrap();
    assert_eq!(leaders.next_within(50 * MS).unwrap(), None);
    let leader = election.campaign(PATIENCE).unwrap();
    let seen = leaders.next_within(PATIENCE).unwrap().unwrap();
    assert_eq!((seen.token, &*seen.value), (leader.token(), ""));
    assert_eq!(leaders.next_within(50 * MS).unwrap(), None, "it was seen");
    leader.proclaim("it").unwrap();
    assert_eq!(leaders.next().unwrap().unwrap().value, "it");
}

both!(
    an_iterator_sees_two_leaders_in_the_order_of_their_tokens,
    threads_lead_one_after_the_other,
    dropped_leader_resigns_and_proclaims_no_more,
    run_of_a_revoked_leader_fails_as_lost,
    observer_reports_only_new_leaders_and_new_values,
);

#[test]
fn an_iterator_that_has_ended_says_why() {
    let quorum = Quorum::in_memory(3).unwrap();
    let mut leaders = quorum.election("a").observe().unwrap();
    quorum.shutdown(PATIENCE).unwrap();
    assert!(leaders.next().is_none() && leaders.next().is_none());
    assert!(leaders.next_within(SECOND).unwrap_err().is_closed());
    let quorum = Quorum::in_memory(3).unwrap();
    let mut leaders = quorum.election("a").observe().unwrap();
    quorum.shutdown(PATIENCE).unwrap();
    assert!(leaders.next_within(SECOND).unwrap_err().is_closed());
    assert!(leaders.next().is_none());
    assert!(quorum.election("a").observe().unwrap_err().is_closed());
    assert!(quorum.election("a").campaign(SECOND).unwrap_err().is_closed());
}

#[test]
fn input_that_makes_no_sense_is_refused() {
    let quorum = Quorum::in_memory(3).unwrap();
    assert!(quorum.election("").campaign(SECOND).unwrap_err().is_config());
    assert!(quorum.election("").observe().unwrap_err().is_config());
    assert!(quorum.election_with("", &quorum.options()).unwrap_err().is_config());
    let leader = quorum.election("a").campaign(PATIENCE).unwrap();
    assert!(leader.proclaim("a\0b").unwrap_err().is_config());
    assert!(leader.proclaim("x".repeat(MAX_VALUE + 1)).unwrap_err().is_config());
    leader.proclaim("x".repeat(MAX_VALUE)).unwrap();
    quorum.shutdown(PATIENCE).unwrap();
    assert_eq!(leader.lost(SECOND).unwrap(), Some(LostReason::Closed));
    eventually("it leads no more", || leader.proclaim("").unwrap_err().is_lost());
}
