//! Semaphores on nodes: permits are names, and a gate is no lock.

use std::pin::pin;
use std::time::Duration;

use crate::common::{PATIENCE, eventually, is_taken, released};
use crate::semaphores::{numbers, one};
use crate::world::World;

const SECOND: Duration = Duration::from_secs(1);

async fn held_permits_never_exceed_the_largest_number_in_use(world: impl World) {
    let (client, other) = (world.client().await, world.client().await);
    let (few, many) = (client.semaphore("it", 2), other.semaphore("it", 3));
    let two = few.acquire(2, PATIENCE).await.unwrap();
    assert!(world.answer(async || few.try_acquire(1).await).await.unwrap().is_none());
    let third = many.acquire(1, PATIENCE).await.unwrap();
    assert_eq!(numbers(&third), [2]);
    assert!(world.answer(async || many.try_acquire(1).await).await.unwrap().is_none());
    drop(two);
    assert_eq!(numbers(&few.acquire(2, PATIENCE).await.unwrap()), [0, 1]);
}

async fn a_name_is_held_as_a_lock_or_as_a_gate(world: impl World) {
    let (client, other) = (world.client().await, world.client().await);
    let lock = client.lock("it").acquire(PATIENCE).await.unwrap();
    let semaphore = other.semaphore("it", 2);
    let tried = world.answer(async || semaphore.try_acquire(1).await).await;
    for error in [tried.unwrap_err(), semaphore.acquire(1, 60 * SECOND).await.unwrap_err()] {
        assert!(error.is_config() && error.to_string().contains("\"it\" is held as a lock"), "{error}");
    }
    // The error is the same if this client holds the lock itself. In this case, the client asks no
    // node for the name.
    let error = client.semaphore("it", 2).try_acquire(1).await.unwrap_err();
    assert!(error.is_config() && error.to_string().contains("\"it\" is held as a lock"), "{error}");
    assert!(lock.is_held());
    released(lock.release()).await;
    // A node that still holds the name as a lock would refuse the semaphore.
    world.freed("it").await;
    let both = semaphore.acquire(2, PATIENCE).await.unwrap();
    // The gate is free, so the name can be locked.
    released(client.lock("it").acquire(PATIENCE).await.unwrap().release()).await;
    world.freed("it").await;
    let mut waits = pin!(semaphore.acquire(1, 4 * PATIENCE));
    tokio::select! {
        _ = &mut waits => panic!("none is free"),
        () = eventually("it has the gate", async || client.inspect("it").await.unwrap().is_gate()) => {}
    }
    let set = client.lock_all(["a", "it", "z"]);
    let (lock, rw_lock) = (client.lock("it"), client.rw_lock("it"));
    let all_are_refused = async {
        is_misused(async || world.answer(async || lock.try_acquire().await).await.map(drop)).await;
        is_misused(async || lock.acquire(PATIENCE).await.map(drop)).await;
        is_misused(async || rw_lock.read(PATIENCE).await.map(drop)).await;
        is_misused(async || world.answer(async || rw_lock.try_write().await).await.map(drop)).await;
        is_misused(async || set.acquire(PATIENCE).await.map(drop)).await;
        is_misused(async || client.session().grant(PATIENCE).await?.lock(["b", "it"], PATIENCE).await).await;
    };
    // The waiter must go on meanwhile, so that it gets the gate again if it loses the gate.
    tokio::select! {
        _ = &mut waits => panic!("none is free"),
        () = all_are_refused => {}
    }
    for name in ["a", "b", "z"] {
        eventually("it is free", async || !is_taken(&client.lock(name)).await).await;
    }
    released(both.release()).await;
    released(waits.await.unwrap().release()).await;
    // A permit is a name like any other: locking it takes the permit out of service.
    let out = client.lock("it/1").acquire(PATIENCE).await.unwrap();
    let last = one(&semaphore).await;
    let tried = world.answer(async || semaphore.try_acquire(1).await).await.unwrap();
    assert!(tried.is_none() && out.is_held() && last.is_held());
}

/// Waits until a call is refused, since `it` is a gate. If the machine stalls, the gate may be free
/// for a moment: its holder must renew it every few seconds.
async fn is_misused(call: impl AsyncFn() -> quorumlock::Result<()>) {
    eventually("it is refused", async || {
        let refused = call().await.err();
        let said = refused.as_ref().map(ToString::to_string);
        assert!(refused.is_none_or(|error| error.is_config()), "{said:?}");
        said.is_some_and(|said| said.contains("\"it\" is used as a semaphore"))
    })
    .await;
}

async fn a_gate_that_is_handed_over_is_a_gate(world: impl World) {
    let (client, other) = (world.client().await, world.client().await);
    let semaphore = client.semaphore("it", 1);
    let held = one(&semaphore).await;
    let mut waits = pin!(semaphore.acquire(1, 4 * PATIENCE));
    let is_gate = async || other.inspect("it").await.unwrap().is_gate();
    tokio::select! {
        _ = &mut waits => panic!("none is free"),
        () = eventually("it has the gate", is_gate) => {}
    }
    let another = other.semaphore("it", 1);
    let mut behind = pin!(another.acquire(1, 4 * PATIENCE));
    tokio::select! {
        _ = &mut waits => panic!("none is free"),
        _ = &mut behind => panic!("none is free"),
        () = eventually("it waits at the gate", async || crate::semaphores::waits(&client, "it").await) => {}
    }
    released(held.release()).await;
    let first = tokio::select! {
        first = &mut waits => first.unwrap(),
        _ = &mut behind => panic!("the other was before"),
    };
    tokio::select! {
        _ = &mut behind => panic!("none is free"),
        () = eventually("it has the gate", is_gate) => {}
    }
    released(first.release()).await;
    assert!(behind.await.unwrap().is_held());
}

both! {
    3 nodes:
        held_permits_never_exceed_the_largest_number_in_use,
        a_name_is_held_as_a_lock_or_as_a_gate,
        a_gate_that_is_handed_over_is_a_gate;
}
