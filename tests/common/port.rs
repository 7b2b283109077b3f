//! Ports that no other test takes.

use std::net::{TcpListener, UdpSocket};
use std::sync::atomic::{AtomicU16, Ordering};

/// Where they begin, and how many there are: below the range from which Linux takes a port where
/// none is asked for, so that nobody else is given one of these by chance.
const FIRST: u16 = 10_000;
const COUNT: u16 = 22_000;

/// A port for a server, also while the server is down: for as long as this lives, no other test of
/// this machine gets it. The same port of UDP, which nobody uses, says that it is taken.
pub struct Port {
    number: u16,
    _taken: UdpSocket,
}

impl Port {
    pub fn take() -> Self {
        // Processes begin in different places.
        static NEXT: AtomicU16 = AtomicU16::new(0);
        let own = std::process::id().wrapping_mul(97);
        for _ in 0..COUNT {
            let next = u32::from(NEXT.fetch_add(1, Ordering::Relaxed)).wrapping_add(own) % u32::from(COUNT);
            let number = FIRST + u16::try_from(next).unwrap();
            let Ok(taken) = UdpSocket::bind(("127.0.0.1", number)) else { continue };
            if TcpListener::bind(("127.0.0.1", number)).is_ok() {
                return Self { number, _taken: taken };
            }
        }
        panic!("no port from {FIRST} on is free");
    }

    pub const fn number(&self) -> u16 {
        self.number
    }
}
