//! What a server pushes over the channel for wake-ups.

use quorumlock::node::Hint;
use quorumlock::rules::ballot::LIMIT;

/// It is no hint, or one for this client, and never a vote by itself.
pub(crate) fn any(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let Some(hint) = Hint::parse("host/1/uuid", &text) else { return };
    assert!(matches!(hint.address(), Some(("host/1/uuid", _))), "{text:?}: {hint:?}");
    if let Some(granted) = &hint.granted {
        assert!(!granted.counts && granted.ballot < LIMIT, "{text:?}: {hint:?}");
    }
}
