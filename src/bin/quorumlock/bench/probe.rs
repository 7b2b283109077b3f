//! One connection to a server of our own, over which its counters are read.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::time::Duration;

use crate::direct::wire::request;

/// How long a server may take to answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// A connection that lasts: making a new one for each question would cost the server more than the
/// answer does.
pub(super) struct Probe(BufReader<TcpStream>);

impl Probe {
    pub(super) fn connect(port: u16) -> io::Result<Self> {
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        Ok(Self(BufReader::new(stream)))
    }

    /// A section of INFO.
    pub(super) fn info(&mut self, section: &str) -> io::Result<String> {
        self.text(&["INFO", section])
    }

    /// Sends a command whose reply is a text.
    pub(super) fn text(&mut self, command: &[&str]) -> io::Result<String> {
        self.0.get_mut().write_all(&request(command))?;
        let mut line = String::new();
        self.0.read_line(&mut line)?;
        let length = line.strip_prefix('$').and_then(|length| length.trim().parse::<usize>().ok());
        let mut bytes = vec![0; length.ok_or_else(|| io::Error::other(line.trim().to_owned()))? + b"\r\n".len()];
        self.0.read_exact(&mut bytes)?;
        bytes.truncate(bytes.len() - b"\r\n".len());
        String::from_utf8(bytes).map_err(io::Error::other)
    }
}

/// The value of a line `name:value` of INFO.
pub(crate) fn field<'a>(info: &'a str, name: &str) -> Option<&'a str> {
    info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_is_found_by_its_whole_name() {
        let info = "# Memory\r\nused_memory:100\r\nused_memory_human:1K\r\n";
        assert_eq!([field(info, "used_memory"), field(info, "used")], [Some("100"), None]);
    }
}
