//! `once`: the first caller in each period gets a permit, and the other callers get none.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use quorumlock::blocking::Quorum;
use quorumlock::{Error, LostReason, Released};

use crate::common::PATIENCE;
use crate::world::{HOUR, MS, SECOND, World, eventually};

fn once_body_runs_in_one_of_many_threads(world: &World) {
    let (one, two) = (world.client().once("a", HOUR), world.client().once("a", HOUR));
    let done = AtomicU32::new(0);
    thread::scope(|scope| {
        for once in [&one, &one, &two, &two] {
            let done = &done;
            scope.spawn(move || {
                let ran = once.run(|lease| {
                    assert!(lease.is_held() && lease.token() > 0);
                    done.fetch_add(1, Ordering::SeqCst);
                });
                // If the callers split the votes, or nodes answer too late, no caller can tell who
                // has the period.
                assert!(ran.is_ok() || ran.unwrap_err().is_unavailable());
            });
        }
    });
    let late = || done.fetch_add(1, Ordering::SeqCst);
    eventually("one has it", || two.run(|_| late()).is_ok_and(|ran| ran.is_none()));
    assert_eq!(done.into_inner(), 1);
}

fn once_permit_is_used_if_done_or_dropped_and_not_if_undone(world: &World) {
    let (client, other) = (world.client(), world.client());
    let permit = client.once("done", HOUR).claim().unwrap().unwrap();
    assert_eq!(permit.done().unwrap(), Released::Released);
    drop(client.once("dropped", HOUR).claim().unwrap().unwrap());
    for name in ["done", "dropped"] {
        assert!(other.once(name, HOUR).claim().unwrap().is_none(), "{name}");
    }
    let once = client.once("undone", HOUR).describe("a report");
    let permit = once.claim().unwrap().unwrap();
    let token = permit.token();
    let says =
        || other.inspect("undone").is_ok_and(|seen| seen.description().is_some_and(|told| &*told.says == "a report"));
    eventually("nodes have the note", says);
    assert_eq!(permit.undo().unwrap(), Released::Released);
    let again = other.once("undone", HOUR).claim().unwrap().unwrap();
    assert!(again.token() > token);
}

fn failed_once_body_undoes_the_permit_and_a_panic_uses_it(world: &World) {
    let (once, other) = (world.client().once("a", HOUR), world.client().once("a", HOUR));
    type Failed = Box<dyn std::error::Error>;
    let failed = once.try_run(|_| "x".parse::<u32>().map_err(Failed::from));
    assert!(failed.unwrap_err().to_string().contains("invalid digit"));
    // Nodes may confirm too late that the permit is undone. In this case, the undoing goes on in
    // the background.
    eventually("it is given back", || other.try_run(|_| Ok::<_, Error>(7)).is_ok_and(|ran| ran == Some(7)));
    assert_eq!(once.try_run(|_| Ok::<_, Error>(7)).unwrap(), None);
    let (once, other) = (world.client().once("b", HOUR), world.client().once("b", HOUR));
    assert!(catch_unwind(AssertUnwindSafe(|| once.run(|_| panic!("on purpose")))).is_err());
    assert_eq!(other.run(|_| ()).unwrap(), None);
}

fn revoked_once_permit_is_lost_and_stays_used(world: &World) {
    let client = world.client();
    let once = client.once_with("a", HOUR, &client.options().ttl(12 * SECOND)).unwrap();
    let lost = once.run(|lease| {
        assert_eq!(lease.lost(20 * MS).unwrap(), None);
        client.revoke("a").unwrap();
        assert!(lease.lost(PATIENCE).unwrap().is_some());
    });
    assert!(lost.unwrap_err().is_lost());
    assert!(once.run(|_| ()).unwrap().is_none(), "it was used");
}

both!(
    once_body_runs_in_one_of_many_threads,
    once_permit_is_used_if_done_or_dropped_and_not_if_undone,
    failed_once_body_undoes_the_permit_and_a_panic_uses_it,
    revoked_once_permit_is_lost_and_stays_used,
);

#[test]
fn input_that_makes_no_sense_is_refused() {
    let quorum = Quorum::in_memory(3).unwrap();
    for (name, period) in [("", HOUR), ("a", SECOND), ("a", Duration::ZERO), ("a", 9_000 * HOUR)] {
        assert!(quorum.once(name, period).claim().unwrap_err().is_config(), "{name} {period:?}");
        assert!(quorum.once(name, period).run(|_| ()).unwrap_err().is_config());
    }
    assert!(quorum.once_with("", HOUR, &quorum.options()).unwrap_err().is_config());
    assert!(quorum.once("a", HOUR).describe("a\nb").claim().unwrap_err().is_config());
    let permit = quorum.once("a", HOUR).claim().unwrap().unwrap();
    quorum.shutdown(PATIENCE).unwrap();
    assert_eq!(permit.lost(SECOND).unwrap(), Some(LostReason::Closed));
    assert!(quorum.once("b", HOUR).claim().unwrap_err().is_closed());
}
