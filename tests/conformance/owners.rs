//! Owners: the owner that holds a lock can acquire it again, anywhere in the process.

use std::pin::pin;
use std::time::Duration;

use futures::FutureExt;
use futures::future::join_all;
use quorumlock::{Owner, Released};

use crate::common::{PATIENCE, eventually, is_taken, released};
use crate::world::World;

const SECOND: Duration = Duration::from_secs(1);
const MS: Duration = Duration::from_millis(1);

async fn owner_reacquires_its_lock_and_frees_it_with_the_last_guard(world: impl World) {
    let (client, owner) = (world.client().await, Owner::new());
    let lock = || client.lock("it").owned_by(&owner);
    let outer = lock().acquire(PATIENCE).await.unwrap();
    let inner = lock().acquire(Duration::ZERO).await.unwrap();
    let last = lock().try_acquire().await.unwrap().expect("its owner holds it");
    assert_eq!((inner.token(), last.token()), (outer.token(), outer.token()));
    eventually("nodes know the count", async || world.look(0, "it").await.count == 3).await;
    assert_eq!(outer.release().await.unwrap(), Released::Released);
    drop(last);
    assert!(inner.is_held() && client.lock("it").try_acquire().await.unwrap().is_none());
    assert_eq!(released(inner.release()).await, Released::Released);
    world.freed("it").await;
    let anew = lock().acquire(PATIENCE).await.unwrap();
    eventually("it is held once", async || world.look(0, "it").await.count == 1).await;
    drop(anew);
}

async fn owners_exclude_each_other_and_callers_without_an_owner(world: impl World) {
    let (client, other) = (world.client().await, world.client().await);
    let (mine, yours) = (Owner::new(), Owner::new());
    let guard = client.lock("it").owned_by(&mine).acquire(PATIENCE).await.unwrap();
    assert!(client.lock("it").owned_by(&yours).try_acquire().await.unwrap().is_none());
    assert!(client.lock("it").try_acquire().await.unwrap().is_none());
    assert!(is_taken(&other.lock("it").owned_by(&mine)).await, "it is held by one client");
    assert!(!is_taken(&client.lock("other").owned_by(&yours)).await);
    drop(guard);
    assert!(client.lock("it").owned_by(&yours).acquire(PATIENCE).await.is_ok());
}

async fn an_owner_acquires_a_set_again_in_whatever_order(world: impl World) {
    let (client, owner) = (world.client().await, Owner::new());
    let first = client.lock_all(["a", "b"]).owned_by(&owner).acquire(PATIENCE).await.unwrap();
    let again = client.lock_all(["b", "a", "b"]).owned_by(&owner.clone()).try_acquire().await.unwrap().unwrap();
    assert_eq!(first.token(), again.token());
    assert!(client.lock("a").owned_by(&owner).try_acquire().await.unwrap().is_none(), "another lock");
}

async fn tasks_of_one_owner_that_acquire_at_once_get_one_hold(world: impl World) {
    let (client, owner) = (world.client().await, Owner::new());
    for round in 0..5 {
        let lock = client.lock(format!("it/{round}")).owned_by(&owner);
        let waits = (0..8).map(async |task| match task % 2 {
            0 => lock.acquire(PATIENCE).await.unwrap(),
            _ => {
                // If the machine stalls, a try waits too briefly for the first task.
                let tried = world.answer(async || lock.try_acquire().await).await.unwrap();
                assert!(tried.is_some() || world.stalls(), "its owner is about to hold it");
                match tried {
                    Some(guard) => guard,
                    None => lock.acquire(PATIENCE).await.unwrap(),
                }
            }
        });
        let guards = join_all(waits).await;
        assert!(guards.iter().all(|guard| guard.is_held() && guard.token() == guards[0].token()));
    }
}

async fn cancelled_caller_lets_the_next_of_its_owner_acquire(world: impl World) {
    let (client, other, owner) = (world.client().await, world.client().await, Owner::new());
    let guard = other.lock("it").acquire(PATIENCE).await.unwrap();
    let lock = client.lock("it").owned_by(&owner);
    let mut second = Box::pin(lock.acquire(2 * PATIENCE));
    {
        let mut first = Box::pin(lock.acquire(2 * PATIENCE));
        assert!((&mut first).now_or_never().is_none() && (&mut second).now_or_never().is_none());
        let error = lock.acquire(20 * MS).await.unwrap_err();
        assert!(
            error.is_timeout() && error.to_string().contains("\"it\": another caller of the same owner"),
            "{error}"
        );
        let waits = async || {
            let nodes = client.inspect("it").await.unwrap().nodes;
            nodes.iter().any(|(_, said)| said.as_ref().is_ok_and(|it| it.waiting > 0))
        };
        tokio::select! {
            _ = &mut first => panic!("another client holds it"),
            () = eventually("the first waits", waits) => {}
        }
    }
    let (won, _) = tokio::join!(second, released(guard.release()));
    assert!(won.unwrap().is_held());
}

async fn a_lock_that_its_owner_lost_is_acquired_anew(world: impl World) {
    // With this ttl, the second lock is not lost if the machine stalls.
    let (client, owner) = (world.client_with(|builder| builder.ttl(3 * world.ttl())).await, Owner::new());
    let lock = client.lock("it").owned_by(&owner);
    let (first, second) = (lock.acquire(PATIENCE).await.unwrap(), lock.acquire(PATIENCE).await.unwrap());
    world.answer(async || client.revoke("it").await).await.unwrap();
    for guard in [&first, &second] {
        tokio::time::timeout(PATIENCE, guard.lost()).await.expect("both are lost");
    }
    let anew = lock.acquire(PATIENCE).await.unwrap();
    assert!(anew.token() > first.token() && anew.is_held() && !second.is_held());
    assert_eq!(second.release().await.unwrap(), Released::AlreadyExpired);
    drop(first);
    assert!(anew.is_held());
}

async fn shutdown_ends_the_waits_of_an_owner(world: impl World) {
    let (client, other, owner) = (world.client().await, world.client().await, Owner::new());
    let _guard = other.lock("it").acquire(PATIENCE).await.unwrap();
    let lock = client.lock("it").owned_by(&owner);
    let (mut first, mut second) = (pin!(lock.acquire(600 * SECOND)), pin!(lock.acquire(600 * SECOND)));
    assert!((&mut first).now_or_never().is_none() && (&mut second).now_or_never().is_none());
    let (first, second, ()) = tokio::join!(first, second, client.shutdown(PATIENCE));
    assert!(second.unwrap_err().is_closed() && first.unwrap_err().is_closed());
    assert!(lock.try_acquire().await.unwrap_err().is_closed());
}

async fn a_bad_name_is_refused_with_an_owner_too(world: impl World) {
    let (client, owner) = (world.client().await, Owner::new());
    assert!(client.lock("").owned_by(&owner).acquire(SECOND).await.unwrap_err().is_config());
    assert!(client.lock_all(Vec::<String>::new()).owned_by(&owner).try_acquire().await.unwrap_err().is_config());
}

both! {
    3 nodes:
        owner_reacquires_its_lock_and_frees_it_with_the_last_guard,
        owners_exclude_each_other_and_callers_without_an_owner,
        an_owner_acquires_a_set_again_in_whatever_order,
        tasks_of_one_owner_that_acquire_at_once_get_one_hold,
        cancelled_caller_lets_the_next_of_its_owner_acquire,
        a_lock_that_its_owner_lost_is_acquired_anew,
        shutdown_ends_the_waits_of_an_owner,
        a_bad_name_is_refused_with_an_owner_too;
}
