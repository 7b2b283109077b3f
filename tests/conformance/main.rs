//! One suite of scenarios over memory nodes and over real servers: docs/protocol.md must be true of
//! both.
//!
//! Each scenario is a function over a [`world::World`] and becomes two tests, `memory::` (on a
//! paused clock) and `redis::` (in real time). A scenario about time alone runs over memory nodes
//! only: real servers would add seconds and a race.
#![allow(unreachable_pub, missing_debug_implementations, reason = "these are tests")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::disallowed_methods, reason = "these are tests")]

#[path = "../common/mod.rs"]
mod common;
#[path = "../fault/mod.rs"]
mod fault;
mod world;

/// Makes two tests of each scenario, over this many nodes. Scenarios after `memory` become one
/// test.
macro_rules! both {
    (
        $($nodes:literal nodes: $($scenario:ident),+;)+
        $(memory $more:literal nodes: $($timed:ident),+;)*
    ) => {
        mod memory {
            use crate::world::{Memory, World};
            $($(
                #[tokio::test(start_paused = true)]
                async fn $scenario() {
                    super::$scenario(Memory::start($nodes).await).await;
                }
            )+)+
            $($(
                #[tokio::test(start_paused = true)]
                async fn $timed() {
                    super::$timed(Memory::start($more).await).await;
                }
            )+)*
        }
        mod redis {
            use crate::world::{Redis, World};
            $($(
                #[tokio::test]
                async fn $scenario() {
                    super::$scenario(Redis::start($nodes).await).await;
                }
            )+)+
        }
    };
}

mod clocks;
mod closing;
mod elections;
mod forced;
mod holding;
mod losing;
mod news;
mod notes;
mod once;
mod operations;
mod options;
mod owners;
mod permits;
mod providers;
mod readers;
mod renewing;
mod restarts;
mod rounds;
mod runtimes;
mod scoped;
mod semaphores;
mod servers;
mod sessions;
mod sets;
mod sets_that_wait;
mod shared;
mod tickets;
mod two_holders;
mod waiting;
