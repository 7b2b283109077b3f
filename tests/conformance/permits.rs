//! What nodes know of semaphores: how many permits there are, and which names are no locks.

use std::pin::pin;
use std::time::Duration;

use crate::common::{PATIENCE, eventually};
use crate::semaphores::{numbers, one, waits};
use crate::world::World;

const SECOND: Duration = Duration::from_secs(1);

async fn the_number_of_permits_may_grow_and_whoever_names_a_smaller_one_is_refused(world: impl World) {
    let (client, other) = (world.client().await, world.client().await);
    let (few, many) = (client.semaphore("it", 2), other.semaphore("it", 3));
    let two = few.acquire(2, PATIENCE).await.unwrap();
    assert!(few.try_acquire(1).await.unwrap().is_none());
    let third = many.acquire(1, PATIENCE).await.unwrap();
    assert_eq!(numbers(&third), [2]);
    world.freed("it").await;
    let late = world.client().await.semaphore("it", 2);
    for error in [late.try_acquire(1).await.unwrap_err(), few.acquire(1, 60 * SECOND).await.unwrap_err()] {
        let said = error.to_string();
        assert!(error.is_config() && said.contains("\"it\" has 3 permits for other clients and 2 here"), "{said}");
        assert!(error.nodes().len() == 3, "{error}");
    }
    assert!(two.is_held() && third.is_held(), "nothing was lost");
    drop((two, third));
    assert!(many.acquire(3, PATIENCE).await.is_ok());
    assert!(few.acquire(1, SECOND).await.unwrap_err().is_config(), "it is remembered");
}

async fn whoever_waits_with_a_smaller_number_is_told_when_it_grows(world: impl World) {
    let (client, other) = (world.client().await, world.client().await);
    let (few, many) = (client.semaphore("it", 2), other.semaphore("it", 3));
    let _held = few.acquire(2, PATIENCE).await.unwrap();
    let (mut first, mut second) = (pin!(few.acquire(1, 60 * SECOND)), pin!(few.acquire(1, 60 * SECOND)));
    tokio::select! {
        _ = &mut first => panic!("none is free"),
        () = eventually("it waits", async || waits(&other, "it/0").await && waits(&other, "it/1").await) => {}
    }
    // It waits at the gate, and the third permit is free.
    let mut third = pin!(many.acquire(1, 60 * SECOND));
    let refused = tokio::select! {
        _ = &mut first => panic!("none is free"),
        _ = &mut third => panic!("others are before it"),
        refused = &mut second => refused,
        () = tokio::time::sleep(PATIENCE) => panic!("it is told when it asks again"),
    };
    assert!(refused.unwrap_err().is_config());
}

async fn a_name_is_used_as_a_lock_or_as_a_semaphore(world: impl World) {
    let (client, other) = (world.client().await, world.client().await);
    let lock = client.lock("it").acquire(PATIENCE).await.unwrap();
    let semaphore = other.semaphore("it", 3);
    for error in [semaphore.try_acquire(1).await.unwrap_err(), semaphore.acquire(1, 60 * SECOND).await.unwrap_err()] {
        assert!(error.is_config() && error.to_string().contains("\"it\" is held as a lock"), "{error}");
    }
    // Also where the lock is held by this client itself, which then asks no node for the name.
    let error = client.semaphore("it", 3).try_acquire(1).await.unwrap_err();
    assert!(error.is_config() && error.to_string().contains("\"it\" is held as a lock"), "{error}");
    assert!(lock.is_held());
    lock.release().await.unwrap();
    let guard = one(&semaphore).await;
    world.freed("it").await;
    let says = "\"it\" is used as a semaphore of 3 permits";
    let set = client.lock_all(["a", "it", "z"]);
    let session = client.session().grant(PATIENCE).await.unwrap();
    for error in [
        client.lock("it").try_acquire().await.unwrap_err(),
        client.lock("it").acquire(60 * SECOND).await.unwrap_err(),
        client.rw_lock("it").read(60 * SECOND).await.unwrap_err(),
        client.rw_lock("it").try_write().await.unwrap_err(),
        set.acquire(60 * SECOND).await.unwrap_err(),
        session.lock(["b", "it"], 60 * SECOND).await.unwrap_err(),
    ] {
        assert!(error.is_config() && error.to_string().contains(says), "{error}");
    }
    assert!(guard.is_held());
    for name in ["a", "b", "z"] {
        eventually("it is free", async || client.lock(name).try_acquire().await.unwrap().is_some()).await;
    }
    // A permit is a name as any other: whoever locks it takes it out of service.
    let number = (numbers(&guard)[0] + 1) % 3;
    let out = client.lock(format!("it/{number}")).acquire(PATIENCE).await.unwrap();
    let last = one(&semaphore).await;
    assert!(semaphore.try_acquire(1).await.unwrap().is_none() && out.is_held() && last.is_held());
    let seen = other.inspect("it").await.unwrap();
    assert!(seen.nodes.iter().all(|(_, said)| said.as_ref().unwrap().permits == Some(3)));
}

/// In memory only: minutes pass.
mod remembered {
    use super::*;
    use crate::world::Memory;

    #[tokio::test(start_paused = true)]
    async fn how_many_permits_there_are_is_known_for_as_long_as_any_is_held() {
        let world = Memory::start(3).await;
        let (client, other) = (world.client().await, world.client().await);
        for many in [1, 2] {
            let guard = client.semaphore("it", 3).acquire(many, PATIENCE).await.unwrap();
            tokio::time::sleep(600 * SECOND).await;
            assert!(other.semaphore("it", 2).try_acquire(1).await.unwrap_err().is_config());
            assert!(other.lock("it").try_acquire().await.unwrap_err().is_config());
            guard.release().await.unwrap();
        }
        tokio::time::sleep(150 * SECOND).await;
        let guard = other.semaphore("it", 2).try_acquire(1).await.unwrap().expect("all are free");
        guard.release().await.unwrap();
        tokio::time::sleep(150 * SECOND).await;
        assert!(other.lock("it").try_acquire().await.unwrap().is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn a_node_that_forgot_is_told_by_renewals_how_many_permits_there_are() {
        let mut world = Memory::start(3).await;
        let (client, other) = (world.client().await, world.client().await);
        let _guard = one(&client.semaphore("it", 3)).await;
        world.restart(0, Duration::ZERO).await;
        eventually("it is told", async || world.look(0, "it").await.permits == Some(3)).await;
        assert!(other.semaphore("it", 2).try_acquire(1).await.unwrap_err().is_config());
    }

    #[tokio::test(start_paused = true)]
    async fn one_node_that_was_told_another_number_keeps_nobody_out() {
        let world = Memory::start(3).await;
        let wrong = world.connect(crate::common::builder().max_ttl(Duration::ZERO), &[2]).await;
        wrong.semaphore("it", 900).acquire(1, PATIENCE).await.unwrap().release().await.unwrap();
        assert_eq!(world.look(2, "it").await.permits, Some(900));
        let client = world.client().await;
        let semaphore = client.semaphore("it", 2);
        let both = [one(&semaphore).await, one(&semaphore).await];
        assert!(semaphore.try_acquire(1).await.unwrap().is_none());
        assert!(both.iter().all(|guard| guard.is_held()));
    }
}

both! {
    3 nodes:
        the_number_of_permits_may_grow_and_whoever_names_a_smaller_one_is_refused,
        whoever_waits_with_a_smaller_number_is_told_when_it_grows,
        a_name_is_used_as_a_lock_or_as_a_semaphore;
}
