//! A connection to a server, with replies of limited size.

use std::io::{self, BufRead, BufReader, Read, Write};

use crate::words::harmless;

/// The most bytes of one reply with all its parts. INFO is shorter. `ask_at_length` is for longer
/// replies.
const LONGEST: usize = 1 << 20;
/// The most elements of an array in a reply. The commands that use this connection get fewer
/// elements.
const MOST: usize = 64;

pub(crate) trait Stream: Read + Write {}

impl<T: Read + Write> Stream for T {}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Reply {
    Text(String),
    Integer(i64),
    Refused(String),
    Array(Vec<Self>),
    Nothing,
}

impl Reply {
    /// The reply's text, or why there is none.
    pub(crate) fn text(self) -> Result<String, String> {
        match self {
            Self::Text(text) => Ok(text),
            Self::Refused(why) => Err(why),
            _ => Err("the reply is no text".to_owned()),
        }
    }
}

pub(crate) struct Connection(BufReader<Box<dyn Stream>>);

impl Connection {
    pub(crate) fn new(stream: impl Stream + 'static) -> Self {
        Self(BufReader::new(Box::new(stream)))
    }

    /// Sends a command, and reads its reply.
    pub(crate) fn ask(&mut self, command: &[&str]) -> io::Result<Reply> {
        self.send(request(command))?;
        self.reply()
    }

    /// Sends a command whose reply is one text of at most `most` bytes, and reads this text.
    pub(crate) fn ask_at_length(&mut self, command: &[&str], most: usize) -> io::Result<Reply> {
        self.send(request(command))?;
        let line = self.line(&mut { most })?;
        match line.strip_prefix('$').and_then(|length| length.parse().ok()) {
            Some(length) if length > most => {
                Err(io::Error::other(format!("its reply is longer than {} MiB", most >> 20)))
            }
            Some(length) => self.text(length, &mut { most }).map(Reply::Text),
            None => line.strip_prefix('-').map(|why| Reply::Refused(harmless(why))).ok_or_else(stranger),
        }
    }

    /// Sends several short commands at once, and reads their replies. This saves round trips.
    pub(crate) fn ask_all(&mut self, commands: &[Vec<&str>]) -> io::Result<Vec<Reply>> {
        self.send(commands.iter().flat_map(|command| request(command)).collect())?;
        commands.iter().map(|_| self.reply()).collect()
    }

    fn send(&mut self, bytes: Vec<u8>) -> io::Result<()> {
        self.0.get_mut().write_all(&bytes)?;
        self.0.get_mut().flush()
    }

    fn reply(&mut self) -> io::Result<Reply> {
        let mut left = LONGEST;
        self.part(0, &mut left)
    }

    /// Reads a part of a reply. `left` is the number of bytes that the reply may still have.
    fn part(&mut self, depth: u8, left: &mut usize) -> io::Result<Reply> {
        let line = self.line(left)?;
        let (kind, rest) = line.split_at_checked(1).ok_or_else(stranger)?;
        match kind {
            "+" => Ok(Reply::Text(rest.to_owned())),
            "-" => Ok(Reply::Refused(harmless(rest))),
            ":" => rest.parse().map(Reply::Integer).map_err(|_| stranger()),
            "$" | "*" if rest == "-1" => Ok(Reply::Nothing),
            "$" => self.text(bounded(rest, *left)?, left).map(Reply::Text),
            "*" if depth < 2 => (0..bounded(rest, MOST)?)
                .map(|_| self.part(depth + 1, left))
                .collect::<Result<_, _>>()
                .map(Reply::Array),
            _ => Err(stranger()),
        }
    }

    fn line(&mut self, left: &mut usize) -> io::Result<String> {
        let mut line = Vec::new();
        (&mut self.0).take(*left as u64).read_until(b'\n', &mut line)?;
        *left -= line.len();
        if !line.ends_with(b"\n") {
            return Err(if *left == 0 { stranger() } else { closed() });
        }
        Ok(String::from_utf8_lossy(&line).trim_end().to_owned())
    }

    fn text(&mut self, length: usize, left: &mut usize) -> io::Result<String> {
        *left -= length;
        let mut bytes = vec![0; length + b"\r\n".len()];
        self.0.read_exact(&mut bytes)?;
        bytes.truncate(length);
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }
}

/// A command in the Redis protocol.
fn request(command: &[&str]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", command.len()).into_bytes();
    for word in command {
        bytes.extend_from_slice(format!("${}\r\n{word}\r\n", word.len()).as_bytes());
    }
    bytes
}

fn bounded(text: &str, most: usize) -> io::Result<usize> {
    text.parse().ok().filter(|count| *count <= most).ok_or_else(stranger)
}

fn closed() -> io::Error {
    io::Error::new(io::ErrorKind::UnexpectedEof, "the server closed the connection")
}

fn stranger() -> io::Error {
    io::Error::other("the server does not speak the Redis protocol")
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A stream from which these bytes are read, whatever is written to the stream.
    pub(crate) struct Says(pub(crate) io::Cursor<Vec<u8>>);

    impl Read for Says {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            self.0.read(buffer)
        }
    }

    impl Write for Says {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn read(said: &str) -> Option<Reply> {
        Connection::new(Says(io::Cursor::new(said.into()))).ask(&["PING"]).ok()
    }

    #[test]
    fn a_command_tells_how_many_words_it_has_and_how_long_they_are() {
        assert_eq!(request(&["SET", "key", ""]), b"*3\r\n$3\r\nSET\r\n$3\r\nkey\r\n$0\r\n\r\n");
    }

    #[test]
    fn replies_are_read() {
        assert_eq!(read("+PONG\r\n"), Some(Reply::Text("PONG".into())));
        assert_eq!(read("-ERR no\r\n"), Some(Reply::Refused("ERR no".into())));
        assert_eq!(read("-ERR \x1b]0;x\x07\r\n"), Some(Reply::Refused(r"ERR \u{1b}]0;x\u{7}".into())));
        assert_eq!(read("$2\r\nab\r\n"), Some(Reply::Text("ab".into())));
        let numbers = Reply::Array(vec![Reply::Integer(1), Reply::Nothing]);
        assert_eq!(read("*2\r\n:1\r\n$-1\r\n"), Some(numbers));
    }

    #[test]
    fn a_reply_is_bounded_with_all_its_parts() {
        let part = format!("${}\r\n{}\r\n", LONGEST / 3, "x".repeat(LONGEST / 3));
        for (parts, fits) in [(1, true), (2, true), (3, false), (64, false)] {
            assert_eq!(read(&format!("*{parts}\r\n{}", part.repeat(parts))).is_some(), fits, "{parts}");
        }
        let line = format!("+{}\r\n", "x".repeat(LONGEST));
        assert_eq!(read(&line), None);
        let mut connection = Connection::new(Says(io::Cursor::new(part.repeat(4).into())));
        assert_eq!(connection.ask_all(&vec![vec!["PING"]; 4]).unwrap().len(), 4, "each reply may have as many bytes");
    }

    #[test]
    fn reply_that_is_cut_off_foreign_or_endless_is_an_error() {
        for said in
            ["", "$5\r\nab", "HTTP/1.1 400\r\n", "$2000000\r\n", "*65\r\n", "*1\r\n*1\r\n*1\r\n:1\r\n", "\r\n", "+PON"]
        {
            assert_eq!(read(said), None, "{said:?}");
        }
    }
}
