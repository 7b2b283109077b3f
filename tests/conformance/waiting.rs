//! Waiting for a lock: the order in one process, the bounds, and the errors of callers that do not
//! get the lock.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use futures::future::join_all;
use quorumlock::ErrorKind;

use crate::common::{PATIENCE, answered, released};
use crate::world::World;

const SECOND: Duration = Duration::from_secs(1);

async fn a_hundred_tasks_on_one_name_finish_with_never_two_inside(world: impl World) {
    let client = world.client().await;
    let inside = Arc::new(AtomicU32::new(0));
    let task = |_| {
        let (lock, inside) = (client.lock("hundred"), inside.clone());
        tokio::spawn(async move {
            let guard = lock.acquire(600 * SECOND).await.unwrap();
            assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "two inside");
            tokio::task::yield_now().await;
            inside.fetch_sub(1, Ordering::SeqCst);
            released(guard.release()).await;
        })
    };
    join_all((0..100).map(task)).await.into_iter().for_each(|done| done.unwrap());
    client.quiet().await;
    assert_eq!(client.in_use(), (0, 0, 0));
}

async fn callers_of_one_process_are_served_in_the_order_they_came(world: impl World) {
    let client = world.client().await;
    let guard = client.lock("order").acquire(PATIENCE).await.unwrap();
    let served = RefCell::new(Vec::new());
    let caller = async |number| {
        let guard = client.lock("order").acquire(PATIENCE).await.unwrap();
        served.borrow_mut().push(number);
        released(guard.release()).await;
    };
    // `join!` polls the callers in this order, so they queue in this order.
    let first = async {
        tokio::task::yield_now().await;
        drop(guard);
    };
    tokio::join!(join_all((0..20).map(caller)), first);
    assert_eq!(served.into_inner(), (0..20).collect::<Vec<_>>());
}

async fn caller_is_told_that_its_own_process_holds_the_lock(world: impl World) {
    let client = world.client().await;
    let lock = client.lock("ours");
    let _guard = lock.acquire(PATIENCE).await.unwrap();
    let error = world.answer(async || lock.acquire(Duration::from_millis(50)).await).await.unwrap_err();
    assert!(error.is_timeout() && error.to_string().contains("this process itself holds it"), "{error}");
    let lock = world.client().await.lock("ours");
    let error = world.answer(async || lock.acquire(Duration::from_millis(50)).await).await.unwrap_err();
    assert!(error.is_timeout() && !error.to_string().contains("itself"), "{error}");
}

async fn more_callers_than_allowed_are_refused_at_once(world: impl World) {
    let client = world.client_with(|builder| builder.max_callers(3)).await;
    let lock = client.lock("full");
    let _guard = lock.acquire(PATIENCE).await.unwrap();
    let waiter = || lock.acquire(Duration::from_millis(200));
    let refused = async {
        let error = lock.acquire(60 * SECOND).await.unwrap_err();
        assert!(error.is_contended() && error.to_string().contains("max_callers"), "{error}");
    };
    let (one, two, ()) = tokio::join!(waiter(), waiter(), refused);
    assert!(one.unwrap_err().is_timeout() && two.unwrap_err().is_timeout());
    assert!(lock.acquire(Duration::ZERO).await.unwrap_err().is_timeout(), "their places are free again");
}

async fn held_by_others_is_a_timeout_or_none(world: impl World) {
    let (holder, other) = (world.client().await, world.client().await);
    let guard = holder.lock("held").acquire(PATIENCE).await.unwrap();
    // Ask from the holder's own process, and from another process.
    for client in [&holder, &other] {
        let lock = client.lock("held");
        assert!(answered(|| lock.try_acquire()).await.is_none());
        assert!(world.answer(async || lock.acquire(Duration::ZERO).await).await.unwrap_err().is_timeout());
        let error = world.answer(async || lock.acquire(Duration::from_millis(50)).await).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Timeout, "{error}");
    }
    released(guard.release()).await;
    world.freed("held").await;
    let lock = other.lock("held");
    assert!(answered(|| lock.try_acquire()).await.is_some());
}

async fn lock_gets_the_whole_ttl_whatever_its_timeout(world: impl World) {
    let client = world.client_with(|builder| builder.ttl(600 * SECOND)).await;
    let guard = client.lock("whole").acquire(PATIENCE).await.unwrap();
    assert!(guard.remaining() > 500 * SECOND);
    world.held_everywhere("whole").await;
    assert!(world.look(0, "whole").await.remaining.is_some_and(|left| left > 500 * SECOND));
}

async fn a_majority_out_of_reach_is_never_told_as_somebody_holds_it(mut world: impl World) {
    let client = world.client().await;
    for node in 0..2 {
        world.take(node, "unclear").await;
    }
    (2..5).for_each(|node| world.kill(node));
    let lock = client.lock("unclear");
    let error = lock.try_acquire().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert_eq!(error.nodes().len(), 5);
    // The call fails as soon as the failure is certain. Three dead nodes make it certain, possibly
    // before the other nodes have answered.
    let said = &error.nodes()[0].said;
    assert!(said.contains("held by foreigner") || said == "no answer yet", "{error}");
    let error = lock.acquire(Duration::from_millis(300)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
}

async fn waiters_behind_an_unavailable_caller_are_unavailable_too(mut world: impl World) {
    let client = world.client().await;
    (0..3).for_each(|node| world.kill(node));
    let lock = client.lock("unclear");
    for result in join_all((0..3).map(|_| lock.acquire(3 * SECOND))).await {
        let error = result.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    }
}

async fn contention_is_a_timeout_though_a_minority_is_down(mut world: impl World) {
    let client = world.client().await;
    for node in 0..3 {
        world.take(node, "clear").await;
    }
    (3..5).for_each(|node| world.kill(node));
    let lock = client.lock("clear");
    assert!(answered(|| lock.try_acquire()).await.is_none());
    let error = world.answer(async || lock.acquire(Duration::from_millis(300)).await).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout, "{error}");
}

async fn a_waiter_goes_on_when_a_majority_comes_back(mut world: impl World) {
    let client = world.client().await;
    (0..3).for_each(|node| world.kill(node));
    let back = async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        for node in 0..3 {
            world.restart(node, Duration::ZERO).await;
        }
    };
    let lock = client.lock("back");
    let (guard, ()) = tokio::join!(lock.acquire(600 * SECOND), back);
    assert!(guard.unwrap().is_held());
}

both! {
    5 nodes: a_hundred_tasks_on_one_name_finish_with_never_two_inside,
        a_majority_out_of_reach_is_never_told_as_somebody_holds_it,
        waiters_behind_an_unavailable_caller_are_unavailable_too,
        contention_is_a_timeout_though_a_minority_is_down, a_waiter_goes_on_when_a_majority_comes_back;
    3 nodes: callers_of_one_process_are_served_in_the_order_they_came, more_callers_than_allowed_are_refused_at_once,
        caller_is_told_that_its_own_process_holds_the_lock, held_by_others_is_a_timeout_or_none, lock_gets_the_whole_ttl_whatever_its_timeout;
}
