//! The blocking types, over nodes in memory and over real servers. Each file tests one type.
#![allow(unreachable_pub, missing_debug_implementations, reason = "these are tests")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::disallowed_methods, reason = "these are tests")]

#[path = "../common/mod.rs"]
mod common;
mod world;

/// Makes two tests of each scenario, over three nodes: in memory, and on real servers.
macro_rules! both {
    ($($scenario:ident),+ $(,)?) => {
        mod memory {
            $(
                #[test]
                fn $scenario() {
                    super::$scenario(&crate::world::World::memory());
                }
            )+
        }
        mod redis {
            $(
                #[test]
                fn $scenario() {
                    super::$scenario(&crate::world::World::redis());
                }
            )+
        }
    };
}

mod elections;
mod ending;
mod locks;
mod once;
mod quorums;
mod readers;
mod runtimes;
mod semaphores;
mod sessions;
mod testing;
