//! Which users and passwords fred can send.
//!
//! The command line uses the same rule.

const MISFIT: &str = if cfg!(feature = "redis-rs") {
    "over fred neither user nor password may have spaces, quotes or control characters; use others, or the transport redis-rs"
} else {
    "over fred neither user nor password may have spaces, quotes or control characters; use others, or build it with the feature \
     redis-rs and take that transport"
};

/// Whether fred can log in with this text. fred writes HELLO as one line without escapes: spaces
/// end words, and line breaks end commands.
pub(super) fn fits(text: &str) -> Result<(), &'static str> {
    let breaks = |byte: u8| byte == b' ' || byte == b'"' || byte == b'\'' || byte.is_ascii_control();
    if text.bytes().any(breaks) { Err(MISFIT) } else { Ok(()) }
}
