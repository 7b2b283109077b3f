//! Messages that a server pushes on a client's wake-up channel.

use quorumlock::node::Hint;
use quorumlock::rules::ballot::LIMIT;

/// Such a message is either no hint or a hint for this client. A message is never a vote by itself.
pub(crate) fn any(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let Some(hint) = Hint::parse("host/1/uuid", &text) else { return };
    assert!(matches!(hint.address(), Some(("host/1/uuid", _))), "{text:?}: {hint:?}");
    if let Some(granted) = &hint.granted {
        assert!(!granted.counts && granted.ballot < LIMIT, "{text:?}: {hint:?}");
    }
}
