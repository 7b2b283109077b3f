//! The argument of `quorumlock relay`, such as `7001=redis-eu:6379@80ms`: the port on which a relay
//! listens, the server behind it, and the round trip.

use std::net::{Ipv4Addr, SocketAddr};
use std::str::FromStr;
use std::time::Duration;

use crate::duration;

/// One server behind a relay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Route {
    /// The address on which to listen. A bare port means loopback.
    pub(crate) listen: SocketAddr,
    /// The server's host and port. The host is looked up for each connection.
    pub(crate) server: String,
    /// The round trip to the server.
    pub(crate) round_trip: Duration,
}

impl FromStr for Route {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let shape = || "write [ADDRESS:]PORT=HOST:PORT@ROUND_TRIP, as in 7001=redis-eu:6379@80ms".to_owned();
        let (listen, rest) = text.split_once('=').ok_or_else(shape)?;
        let (server, round_trip) = rest.rsplit_once('@').ok_or_else(shape)?;
        let (host, behind) = server.rsplit_once(':').ok_or_else(shape)?;
        if host.is_empty() || behind.parse::<u16>().is_err() {
            return Err(shape());
        }
        let listen = listening(listen).ok_or_else(shape)?;
        Ok(Self { listen, server: server.to_owned(), round_trip: duration::parse(round_trip)? })
    }
}

fn listening(text: &str) -> Option<SocketAddr> {
    let port = |port: u16| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    text.parse().map(port).or_else(|_| text.parse()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_route_names_its_port_the_server_and_the_round_trip() {
        let route = |listen: &str| Route {
            listen: listen.parse().unwrap(),
            server: "redis-eu:6379".to_owned(),
            round_trip: Duration::from_millis(80),
        };
        assert_eq!("7001=redis-eu:6379@80ms".parse(), Ok(route("127.0.0.1:7001")));
        assert_eq!("0.0.0.0:7001=redis-eu:6379@80ms".parse(), Ok(route("0.0.0.0:7001")));
        assert_eq!("1=[::1]:2@0".parse::<Route>().map(|route| route.server), Ok("[::1]:2".to_owned()));
    }

    #[test]
    fn malformed_route_is_refused_with_the_expected_shape() {
        for text in ["", "7001", "7001=redis-eu:6379", "7001=redis-eu@80ms", "x=eu:1@1ms", "1=eu:99999@1ms", "1=:1@1ms"]
        {
            assert!(text.parse::<Route>().is_err_and(|why| why.contains("7001=redis-eu:6379@80ms")), "{text}");
        }
        assert!("1=eu:1@soon".parse::<Route>().is_err());
    }
}
