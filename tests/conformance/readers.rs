//! Reader-writer locks: many readers, or one writer.

use std::pin::pin;
use std::time::{Duration, Instant};

use futures::FutureExt;
use futures::future::join_all;
use quorumlock::{LockOptions, LostReason, Quorum, QuorumRwLock};

use crate::common::{PATIENCE, answered, eventually, later, released};
use crate::semaphores::later_hellos;
use crate::world::World;

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);

/// Whether at least `waiting` owners wait for `a` on a quorum of nodes.
pub async fn wait_for(quorum: &Quorum, waiting: u32) -> bool {
    let seen = quorum.inspect("a").await.unwrap();
    let waits = |node: &quorumlock::Inspection| node.waiting >= waiting;
    seen.nodes.iter().filter(|(_, said)| said.as_ref().is_ok_and(waits)).count() >= 2
}

async fn readers_hold_it_together_and_a_writer_alone(world: impl World) {
    let (client, other) = (world.client().await, world.client().await);
    let (prices, same) = (client.rw_lock("a"), other.rw_lock("a"));
    let readers = [
        prices.read(PATIENCE).await.unwrap(),
        prices.read(PATIENCE).await.unwrap(),
        same.read(PATIENCE).await.unwrap(),
    ];
    for lock in [&prices, &same] {
        assert!(answered(|| lock.try_write()).await.is_none());
        assert!(world.answer(async || lock.write(50 * MS).await).await.unwrap_err().is_timeout());
    }
    let lock = other.lock("a");
    assert!(answered(|| lock.try_acquire()).await.is_none(), "a lock on the name is its writer");
    for reader in readers {
        assert!(reader.is_held());
        released(reader.release()).await;
    }
    let writer = same.write(PATIENCE).await.unwrap();
    assert!(answered(|| prices.try_read()).await.is_none() && answered(|| prices.try_write()).await.is_none());
    assert!(world.answer(async || same.read(50 * MS).await).await.unwrap_err().is_timeout());
    released(writer.release()).await;
    world.freed("a").await;
    assert!(answered(|| prices.try_read()).await.is_some());
}

async fn readers_that_come_after_a_writer_that_waits_enter_after_it(world: impl World) {
    let clients = join_all((0..3).map(|_| world.client())).await;
    let [one, two, three] = [0, 1, 2].map(|at| clients[at].rw_lock("a"));
    let reader = one.read(PATIENCE).await.unwrap();
    let mut writer = pin!(two.write(600 * SECOND));
    tokio::select! {
        _ = &mut writer => panic!("it is read"),
        () = eventually("the writer waits", async || wait_for(&clients[0], 1).await) => {}
    }
    assert!(answered(|| three.try_read()).await.is_none(), "a writer waits");
    later().await;
    let mut late = pin!(three.read(600 * SECOND));
    tokio::select! {
        _ = &mut writer => panic!("it is read"),
        _ = &mut late => panic!("a writer waits"),
        () = eventually("the reader waits", async || wait_for(&clients[0], 2).await) => {}
    }
    released(reader.release()).await;
    let writer = tokio::select! {
        biased;
        _ = &mut late => panic!("it is the writer's turn"),
        writer = &mut writer => writer.unwrap(),
    };
    assert!((&mut late).now_or_never().is_none());
    released(writer.release()).await;
    assert!(late.await.is_ok());
}

/// A writer that gives up leaves the queue, and keeps no reader out.
async fn reader_enters_beside_readers_when_a_writer_gives_up(world: impl World) {
    let (client, other) = (world.client().await, world.client().await);
    let (prices, same) = (client.rw_lock("a"), other.rw_lock("a"));
    let reader = prices.read(PATIENCE).await.unwrap();
    let mut late = pin!(same.read(600 * SECOND));
    {
        let mut writer = pin!(prices.write(600 * SECOND));
        tokio::select! {
            _ = &mut writer => panic!("it is read"),
            () = eventually("the writer waits", async || wait_for(&other, 1).await) => {}
        }
        later().await;
        tokio::select! {
            _ = &mut writer => panic!("it is read"),
            _ = &mut late => panic!("a writer waits"),
            () = eventually("the reader waits", async || wait_for(&other, 2).await) => {}
        }
    }
    assert!(late.await.is_ok());
    assert!(reader.is_held());
}

async fn readers_that_wait_enter_together(world: impl World) {
    let clients = join_all((0..4).map(|_| world.client())).await;
    let locks: Vec<_> = clients.iter().map(|client| client.rw_lock("a")).collect();
    let writer = locks[0].write(PATIENCE).await.unwrap();
    let mut readers = pin!(join_all(locks.iter().flat_map(|lock| [lock.read(600 * SECOND), lock.read(600 * SECOND)])));
    tokio::select! {
        _ = &mut readers => panic!("it is written"),
        () = eventually("all wait", async || wait_for(&clients[0], 8).await) => {}
    }
    released(writer.release()).await;
    // All readers hold the name at the same time: none has released it before the last one has it.
    let readers: Vec<_> = readers.await.into_iter().map(Result::unwrap).collect();
    assert!(readers.iter().all(|reader| reader.is_held()));
}

async fn a_writer_is_not_starved_by_readers(world: impl World) {
    let clients = join_all((0..3).map(|_| world.client())).await;
    let busy = clients.iter().flat_map(|client| {
        (0..3u32).map(move |number| async move {
            let lock = client.rw_lock("a");
            tokio::time::sleep(7 * MS * number).await;
            loop {
                let guard = lock.read(PATIENCE).await.unwrap();
                tokio::time::sleep(20 * MS).await;
                released(guard.release()).await;
            }
        })
    });
    let mut busy = pin!(join_all(busy).map(|_: Vec<()>| ()));
    let lock = world.client().await.rw_lock("a");
    for _ in 0..5 {
        tokio::select! {
            () = &mut busy => unreachable!("they never end"),
            acquired = lock.write(PATIENCE) => drop(acquired.expect("it is its turn some time")),
        }
    }
}

async fn tokens_of_readers_lie_between_those_of_writers(world: impl World) {
    let (client, other) = (world.client().await, world.client().await);
    let (prices, same) = (client.rw_lock("a"), other.rw_lock("a"));
    let (mut written, mut read) = (0, 0);
    for round in 0..5 {
        let (lock, another) = if round % 2 == 0 { (&prices, &same) } else { (&same, &prices) };
        let writer = lock.write(PATIENCE).await.unwrap();
        assert!(writer.token() > written && writer.token() > read);
        written = writer.token();
        released(writer.release()).await;
        let readers = [lock.read(PATIENCE).await.unwrap(), another.read(PATIENCE).await.unwrap()];
        assert!(readers.iter().all(|reader| reader.token() > written));
        read = readers.iter().map(|reader| reader.token()).max().unwrap();
        for reader in readers {
            released(reader.release()).await;
        }
    }
}

/// A reader's renewals extend only its own hold, and not the hold of a silent reader.
async fn each_reader_has_an_expiry_of_its_own(world: impl World) {
    let renews = |client: Quorum, renews| {
        // The first renewal comes before the other reader's hold ends.
        let ttl = world.ttl() * if renews { 4 } else { 2 };
        let options = client.options().ttl(ttl).auto_renew(renews);
        client.rw_lock_with("a", &options).unwrap()
    };
    let (stays, ends) = (renews(world.client().await, true), renews(world.client().await, false));
    let writer = world.client().await.rw_lock("a");
    let (stays, ends) = (stays.read(PATIENCE).await.unwrap(), ends.read(PATIENCE).await.unwrap());
    assert_eq!(ends.lost().await, LostReason::Expired);
    eventually("nodes have one reader", async || {
        let mut readers = Vec::new();
        for node in world.all() {
            readers.push(world.look(node, "a").await.count);
        }
        readers.iter().all(|&readers| readers == 1)
    })
    .await;
    assert!(stays.is_held() && answered(|| writer.try_write()).await.is_none());
    released(stays.release()).await;
    assert!(writer.write(PATIENCE).await.is_ok());
}

async fn a_writer_becomes_a_reader_without_a_gap(world: impl World) {
    // A downgrade makes one round. With this timeout, it succeeds even if the machine stalls.
    let patient = LockOptions::default().round_timeout(5 * SECOND);
    let client = world.client_with(|builder| builder.options(patient).node_timeout(20 * SECOND)).await;
    let other = world.client().await;
    let (prices, same) = (client.rw_lock("a"), other.rw_lock("a"));
    let writer = prices.write(PATIENCE).await.unwrap();
    let token = writer.token();
    let mut reads = pin!(same.read(600 * SECOND));
    tokio::select! {
        _ = &mut reads => panic!("it is written"),
        () = eventually("the reader waits", async || wait_for(&client, 1).await) => {}
    }
    later().await;
    let mut writes = pin!(same.write(600 * SECOND));
    tokio::select! {
        _ = &mut reads => panic!("it is written"),
        _ = &mut writes => panic!("it is written"),
        () = eventually("the writer waits", async || wait_for(&client, 2).await) => {}
    }
    let reader = tokio::select! {
        biased;
        _ = &mut writes => panic!("it is read"),
        reader = writer.downgrade() => reader.unwrap(),
    };
    assert!(reader.token() > token && reader.is_held());
    // The waiting reader, which stands ahead of the other writer, enters together with the new
    // reader. The other writer enters after both readers.
    let beside = tokio::select! {
        biased;
        writer = &mut writes => panic!("it is read: {writer:?}"),
        beside = &mut reads => beside.unwrap(),
    };
    assert!(reader.is_held());
    released(reader.release()).await;
    assert!((&mut writes).now_or_never().is_none());
    released(beside.release()).await;
    assert!(writes.await.unwrap().token() > token);
}

async fn a_writer_whose_time_is_over_becomes_no_reader(world: impl World) {
    let client = world.client().await;
    let lock = client.rw_lock_with("a", &client.options().ttl(300 * MS).auto_renew(false)).unwrap();
    let writer = lock.write(PATIENCE).await.unwrap();
    writer.lost().await;
    assert!(writer.downgrade().await.unwrap_err().is_lost());
    let other = world.client().await.rw_lock("a");
    assert!(other.write(PATIENCE).await.is_ok());
}

async fn downgrade_of_a_revoked_writer_reports_the_revocation(world: impl World) {
    let client = world.client().await;
    let writer = client.rw_lock("a").write(PATIENCE).await.unwrap();
    let lease = writer.lease();
    client.revoke("a").await.unwrap();
    let error = writer.downgrade().await.unwrap_err();
    assert!(error.is_lost() && error.to_string().contains("revoked"), "{error}");
    assert_eq!(lease.lost().await, LostReason::Revoked);
}

async fn a_writer_whose_time_ends_on_the_way_becomes_no_reader(world: impl World) {
    let client = world.client().await;
    let lock = client.rw_lock_with("a", &client.options().ttl(3 * SECOND / 2).auto_renew(false)).unwrap();
    let writer = lock.write(PATIENCE).await.unwrap();
    let lease = writer.lease();
    while lease.remaining() > 150 * MS {
        tokio::time::sleep(MS).await;
    }
    (0..3).for_each(|node| world.hang(node));
    let back = async {
        lease.lost().await;
        // After this pause, all holds have ended on the nodes, so the first claim gets the name.
        tokio::time::sleep(50 * MS).await;
        (0..3).for_each(|node| world.resume(node));
    };
    let (reader, ()) = tokio::join!(writer.downgrade(), back);
    let error = reader.unwrap_err();
    assert!(error.is_lost() || error.is_unavailable(), "{error}");
}

async fn downgrade_of_a_writer_reports_no_loss(world: impl World) {
    let client = world.client().await;
    let lock = client.rw_lock_with("a", &client.options().ttl(3 * SECOND)).unwrap();
    let writer = lock.write(PATIENCE).await.unwrap();
    let lease = writer.lease();
    while lease.remaining() > 2_050 * MS {
        tokio::time::sleep(MS).await;
    }
    (0..4).for_each(|node| world.hang(node));
    let back = async {
        // Wait until a renewal is due.
        tokio::time::sleep(300 * MS).await;
        (0..2).for_each(|node| world.resume(node));
        tokio::time::sleep(100 * MS).await;
        assert!(lease.is_held() && lease.lost().now_or_never().is_none());
        (2..4).for_each(|node| world.resume(node));
    };
    let (reader, ()) = tokio::join!(writer.downgrade(), back);
    assert!(reader.unwrap().is_held());
    assert!(lease.lost().now_or_never().is_none(), "it was given up, and not lost");
}

async fn a_reader_is_refused_to_become_the_writer_and_told_why(world: impl World) {
    let lock = world.client().await.rw_lock("a");
    let reader = lock.read(PATIENCE).await.unwrap();
    let error = reader.upgrade().unwrap_err();
    assert!(error.is_config() && error.to_string().contains("wait for each other for ever"), "{error}");
    assert!(reader.is_held());
}

async fn reader_is_renewed_and_found_by_an_inspection(world: impl World) {
    let (client, other) = (world.client_with(|builder| builder.ttl(300 * MS)).await, world.client().await);
    let reader = client.rw_lock("a").read(PATIENCE).await.unwrap();
    assert!(other.rw_lock("a").write(SECOND).await.unwrap_err().is_timeout());
    assert!(reader.is_held());
    let seen = other.inspect("a").await.unwrap();
    assert_eq!(seen.agreed(), Some(true));
    drop(reader);
    assert!(other.rw_lock("a").write(PATIENCE).await.is_ok());
}

async fn readers_that_were_revoked_let_go(world: impl World) {
    let (client, other) = (world.client_with(|builder| builder.ttl(world.ttl())).await, world.client().await);
    let lock: QuorumRwLock = client.rw_lock("a");
    let readers =
        [lock.read(PATIENCE).await.unwrap(), lock.read(PATIENCE).await.unwrap(), lock.read(PATIENCE).await.unwrap()];
    world.answer(async || other.revoke("a").await).await.unwrap();
    for reader in &readers {
        reader.lost().await;
        assert!(!reader.is_held());
    }
    drop(readers);
    assert!(other.rw_lock("a").write(PATIENCE).await.is_ok());
}

async fn bad_names_are_refused_for_readers_and_writers(world: impl World) {
    let client = world.client().await;
    assert!(client.rw_lock("").read(SECOND).await.unwrap_err().is_config());
    assert!(client.rw_lock("a\0").write(SECOND).await.unwrap_err().is_config());
    assert!(client.rw_lock_with("", &client.options()).unwrap_err().is_config());
}

async fn uncontended_reader_costs_each_node_a_claim_and_a_release(world: impl World) {
    let client = world.client().await;
    let asked = || world.all().iter().map(|&node| world.asked(node)).collect::<Vec<_>>();
    let _other = world.client().await.rw_lock("a").read(PATIENCE).await.unwrap();
    world.held_everywhere("a").await;
    let (before, began) = (asked(), Instant::now());
    let reader = client.rw_lock("a").read(PATIENCE).await.unwrap();
    released(reader.release()).await;
    let two_more: Vec<_> = before.iter().map(|before| before + 2).collect();
    eventually("each node was asked", async || asked().iter().zip(&two_more).all(|(now, then)| now >= then)).await;
    // Each of the two clients may send hellos.
    let most = |then: &u64| then + 2 * (world.hellos() + later_hellos(&world, began));
    assert!(asked().iter().zip(&two_more).all(|(now, then)| *now <= most(then)), "{before:?}, {:?}", asked());
}

async fn reader_lost_by_one_node_is_healed_by_the_next_renewal(world: impl World) {
    let client = world.client_with(|builder| builder.ttl(2 * world.ttl())).await;
    let reader = client.rw_lock("a").read(PATIENCE).await.unwrap();
    world.held_everywhere("a").await;
    world.delete(0, "a").await;
    eventually("it is read there again", async || world.look(0, "a").await.holder.is_some()).await;
    assert!(reader.is_held());
    world.held_everywhere("a").await;
}

both! {
    3 nodes:
        readers_hold_it_together_and_a_writer_alone,
        readers_that_come_after_a_writer_that_waits_enter_after_it,
        reader_enters_beside_readers_when_a_writer_gives_up,
        readers_that_wait_enter_together,
        a_writer_is_not_starved_by_readers,
        tokens_of_readers_lie_between_those_of_writers,
        each_reader_has_an_expiry_of_its_own,
        a_writer_becomes_a_reader_without_a_gap,
        a_reader_is_refused_to_become_the_writer_and_told_why,
        readers_that_were_revoked_let_go,
        bad_names_are_refused_for_readers_and_writers,
        uncontended_reader_costs_each_node_a_claim_and_a_release,
        reader_lost_by_one_node_is_healed_by_the_next_renewal;
    memory 3 nodes:
        a_writer_whose_time_is_over_becomes_no_reader,
        downgrade_of_a_revoked_writer_reports_the_revocation,
        a_writer_whose_time_ends_on_the_way_becomes_no_reader,
        reader_is_renewed_and_found_by_an_inspection;
    memory 4 nodes:
        downgrade_of_a_writer_reports_no_loss;
}
