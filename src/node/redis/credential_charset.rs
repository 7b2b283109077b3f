//! Which users and passwords fred can send.
//!
//! The command line uses the same rule.

const MISFIT: &str = if cfg!(feature = "redis-rs") {
    "fred cannot send a user or password with spaces, quotes or control characters; use another, or the transport \
     redis-rs"
} else {
    "fred cannot send a user or password with spaces, quotes or control characters; use another, or the transport \
     redis-rs, which needs a build with the feature redis-rs"
};

/// Checks whether fred can log in with this user or password. fred writes HELLO as one line without
/// escapes. So a space in a password would end the password, and a line break would end the
/// command.
pub(super) fn fits(text: &str) -> Result<(), &'static str> {
    let breaks = |byte: u8| byte == b' ' || byte == b'"' || byte == b'\'' || byte.is_ascii_control();
    if text.bytes().any(breaks) { Err(MISFIT) } else { Ok(()) }
}
