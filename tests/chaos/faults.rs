//! The faults of a node: how each begins and ends.

use std::time::Duration;

use rand::Rng;
use rand::rngs::SmallRng;

use crate::cluster::Node;
use crate::common::proxy::Way;
use crate::{MAX_TTL, NAMES, TTL};

/// One kind of fault of one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Fault {
    KillAndRestartEmpty,
    KillAndRestartWithAof,
    Stop,
    ClientPause,
    ClientKill,
    ScriptFlush,
    FlushAll,
    MaxMemory,
    WrongType,
    ReplicaOf,
    OutputBuffer,
    Delay,
    Blackhole,
    RequestsHeld,
    RepliesHeld,
    Drip,
    Reset,
    HalfOpen,
    Refuse,
}

impl Fault {
    pub const ALL: [Self; 19] = [
        Self::KillAndRestartEmpty,
        Self::KillAndRestartWithAof,
        Self::Stop,
        Self::ClientPause,
        Self::ClientKill,
        Self::ScriptFlush,
        Self::FlushAll,
        Self::MaxMemory,
        Self::WrongType,
        Self::ReplicaOf,
        Self::OutputBuffer,
        Self::Delay,
        Self::Blackhole,
        Self::RequestsHeld,
        Self::RepliesHeld,
        Self::Drip,
        Self::Reset,
        Self::HalfOpen,
        Self::Refuse,
    ];

    pub const fn name(self) -> &'static str {
        match self {
            Self::KillAndRestartEmpty => "kill_restart_empty",
            Self::KillAndRestartWithAof => "kill_restart_aof",
            Self::Stop => "stop",
            Self::ClientPause => "client_pause",
            Self::ClientKill => "client_kill",
            Self::ScriptFlush => "script_flush",
            Self::FlushAll => "flushall",
            Self::MaxMemory => "maxmemory",
            Self::WrongType => "wrong_type",
            Self::ReplicaOf => "replicaof",
            Self::OutputBuffer => "output_buffer",
            Self::Delay => "delay",
            Self::Blackhole => "blackhole",
            Self::RequestsHeld => "requests_held",
            Self::RepliesHeld => "replies_held",
            Self::Drip => "drip",
            Self::Reset => "reset",
            Self::HalfOpen => "half_open",
            Self::Refuse => "refuse",
        }
    }

    /// Whether the fault is a single event, which is over at once.
    pub const fn is_over_at_once(self) -> bool {
        matches!(
            self,
            Self::ClientKill | Self::ScriptFlush | Self::FlushAll | Self::OutputBuffer | Self::Reset | Self::HalfOpen
        )
    }

    /// Whether the fault ends by itself. To make it last longer, begin it again.
    pub const fn ends_by_itself(self) -> bool {
        self.is_over_at_once() || matches!(self, Self::ClientPause)
    }

    /// How long a node does not vote on claims after this fault: the quarantine, and the time until
    /// the node has a record and is synced.
    pub const fn quarantine(self) -> Duration {
        match self {
            Self::KillAndRestartEmpty | Self::KillAndRestartWithAof | Self::FlushAll | Self::ReplicaOf => {
                Duration::from_millis(1_200).saturating_add(MAX_TTL)
            }
            _ => Duration::ZERO,
        }
    }

    /// How long the fault lasts. If clients cannot see that a node forgot, the fault must last
    /// until all earlier holds have expired.
    pub fn length(self, random: &mut SmallRng) -> Duration {
        let forgets = matches!(self, Self::WrongType | Self::ReplicaOf);
        let least = if forgets || matches!(self, Self::Stop | Self::ClientPause) { TTL + TTL / 4 } else { TTL / 10 };
        let most = if self.is_over_at_once() { 0.25 } else { 1.0 };
        least + TTL.mul_f64(random.gen_range(0.0..most))
    }

    pub async fn begin(self, node: &Node, spare: u16) {
        match self {
            Self::KillAndRestartEmpty | Self::KillAndRestartWithAof => node.server.lock().await.kill(),
            Self::Stop => node.server.lock().await.stop(),
            Self::ClientPause => drop(node.command(&["CLIENT", "PAUSE", &TTL.as_millis().to_string(), "ALL"]).await),
            Self::ClientKill => drop(node.command(&["CLIENT", "KILL", "TYPE", "normal"]).await),
            Self::ScriptFlush => drop(node.command(&["SCRIPT", "FLUSH"]).await),
            Self::FlushAll => drop(node.command(&["FLUSHALL"]).await),
            Self::MaxMemory => drop(node.command(&["CONFIG", "SET", "maxmemory", "1"]).await),
            Self::WrongType => {
                for name in NAMES {
                    node.command(&["SET", &format!("quorumlock:{{{name}}}"), "in the way"]).await;
                }
            }
            Self::ReplicaOf => drop(node.command(&["REPLICAOF", "127.0.0.1", &spare.to_string()]).await),
            Self::OutputBuffer => {
                node.command(&["CONFIG", "SET", "client-output-buffer-limit", "normal 1mb 0 0"]).await;
                node.proxy.inject(b"*3\r\n$4\r\nEVAL\r\n$35\r\nreturn string.rep('x', 8*1024*1024) \r\n$1\r\n0\r\n");
            }
            Self::Delay => node.proxy.both(Way::Delay(Duration::from_millis(40))),
            Self::Blackhole => node.proxy.both(Way::Held),
            Self::RequestsHeld => node.proxy.requests(Way::Held),
            Self::RepliesHeld => node.proxy.replies(Way::Held),
            Self::Drip => node.proxy.replies(Way::Drip(Duration::from_millis(2))),
            Self::Reset => node.proxy.reset(),
            Self::HalfOpen => node.proxy.half_open(),
            Self::Refuse => {
                node.proxy.refuse(true);
                node.proxy.reset();
            }
        }
    }

    pub async fn end(self, node: &Node) {
        match self {
            Self::KillAndRestartEmpty => {
                let mut server = node.server.lock().await;
                server.wipe();
                server.restart().await;
            }
            Self::KillAndRestartWithAof => node.server.lock().await.restart().await,
            Self::Stop => node.server.lock().await.resume(),
            Self::MaxMemory => drop(node.command(&["CONFIG", "SET", "maxmemory", "0"]).await),
            Self::WrongType => {
                for name in NAMES {
                    node.command(&["DEL", &format!("quorumlock:{{{name}}}")]).await;
                }
            }
            Self::ReplicaOf => drop(node.command(&["REPLICAOF", "NO", "ONE"]).await),
            Self::OutputBuffer => {
                drop(node.command(&["CONFIG", "SET", "client-output-buffer-limit", "normal 0 0 0"]).await);
            }
            Self::Delay | Self::Blackhole | Self::RequestsHeld | Self::RepliesHeld | Self::Drip => {
                node.proxy.both(Way::Open);
            }
            Self::Refuse => node.proxy.refuse(false),
            Self::ClientPause
            | Self::ClientKill
            | Self::ScriptFlush
            | Self::FlushAll
            | Self::Reset
            | Self::HalfOpen => {}
        }
    }
}
