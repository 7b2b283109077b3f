//! The content of an object: a line with the token, and then the data.

use bytes::{Bytes, BytesMut};

/// The first line must end within this number of bytes. The longest line has 73 bytes, with two
/// numbers of 20 digits.
pub(super) const MAX_LINE: usize = 80;

/// The default stands for a missing object: token 0, and no data.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Envelope {
    /// The highest token so far.
    pub(super) token: u64,
    /// The number of writes so far, including this one. This number makes the content and the ETag
    /// of each write unique.
    pub(super) writes: u64,
    /// The data; `None` if the object has only the fence.
    pub(super) body: Option<Bytes>,
}

impl Envelope {
    pub(super) fn sealed(&self) -> Bytes {
        let removed = if self.body.is_none() { " removed" } else { "" };
        let line = format!("quorumlock fence {} write {}{removed}\n", self.token, self.writes);
        let mut object = BytesMut::from(line.as_bytes());
        object.extend_from_slice(self.body.as_deref().unwrap_or_default());
        object.freeze()
    }

    /// Reads an object; `None` if it does not begin with a line as `sealed` writes it.
    pub(super) fn open(object: &Bytes) -> Option<Self> {
        let end = object.iter().take(MAX_LINE).position(|&byte| byte == b'\n')?;
        let line = std::str::from_utf8(&object[..end]).ok()?;
        let (token, rest) = line.strip_prefix("quorumlock fence ")?.split_once(" write ")?;
        let (writes, is_there) = rest.strip_suffix(" removed").map_or((rest, true), |writes| (writes, false));
        let body = is_there.then(|| object.slice(end + 1..));
        Some(Self { token: token.parse().ok()?, writes: writes.parse().ok()?, body })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn envelope_opens_as_it_was_sealed(token: u64, writes: u64, body: Option<Vec<u8>>) {
            let envelope = Envelope { token, writes, body: body.map(Bytes::from) };
            prop_assert_eq!(Envelope::open(&envelope.sealed()), Some(envelope));
        }

        #[test]
        fn anything_else_has_no_fence(object: Vec<u8>) {
            prop_assert_eq!(Envelope::open(&Bytes::from(object)), None);
        }
    }

    #[test]
    fn a_line_that_is_not_quite_one_is_none() {
        let long = format!("quorumlock fence {} write 1\nx", "0".repeat(100));
        for object in ["", "quorumlock fence 7 write 1", "quorumlock fence -7 write 1\n", "quorumlock fence 7\n", &long]
        {
            assert_eq!(Envelope::open(&Bytes::copy_from_slice(object.as_bytes())), None, "{object}");
        }
    }
}
