//! One suite of scenarios over memory nodes and over real servers: what docs/protocol.md says must
//! be true of both.
//!
//! Each scenario is a function over a [`world::World`] and becomes two tests, `memory::` (on a
//! paused clock) and `redis::` (in real time). Scenarios that need what only one of them can do say
//! so and are in one only.
#![allow(unreachable_pub, missing_debug_implementations, reason = "these are tests")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::disallowed_methods, reason = "these are tests")]

#[path = "../common/mod.rs"]
mod common;
mod world;

/// Makes two tests of each scenario, over so many nodes.
macro_rules! both {
    ($($nodes:literal nodes: $($scenario:ident),+;)+) => {
        mod memory {
            use crate::world::{Memory, World};
            $($(
                #[tokio::test(start_paused = true)]
                async fn $scenario() {
                    super::$scenario(Memory::start($nodes).await).await;
                }
            )+)+
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
mod shared;
mod two_holders;
mod waiting;
mod watching;
