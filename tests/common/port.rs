//! Ports that no other test uses.

use std::net::{TcpListener, UdpSocket};
use std::sync::atomic::{AtomicU16, Ordering};

/// The first port, and the number of ports. All are below the range from which Linux chooses if a
/// program asks for any port. So no program gets one of these ports by chance.
const FIRST: u16 = 10_000;
const COUNT: u16 = 22_000;

/// A port for a server. While this value lives, no other test of this machine gets the port, even
/// if the server is down. A socket at the same UDP port marks the port as taken.
pub struct Port {
    number: u16,
    _taken: UdpSocket,
}

impl Port {
    pub fn take() -> Self {
        // Each process begins at another port.
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
