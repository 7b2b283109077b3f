//! Decides which replies of a node count as votes.

use super::reply::{Fault, FaultKind, Outcome, Reply};
use crate::rules::doubt::Trust;

/// Returns the reply, or a fault in place of a vote that must not count.
///
/// A grant does not count if the client doubts the node: the node may have lost another owner's
/// hold before it granted this claim. The node's membership state can also void a grant. In both
/// cases, the node holds the name for this owner now, so the client must withdraw the claim.
///
/// `Extended` does not count shortly after a doubt began, because another client's round may still
/// count a forgotten grant (docs/protocol.md, Doubted nodes). `Extended` also does not count if the
/// node's name leads clients to two servers.
///
/// # Errors
/// The fault of the reply, or `Doubted`.
pub fn trusted(reply: Reply, trust: Trust) -> Reply {
    match reply {
        Ok(Outcome::Granted { .. }) if !trust.grants => {
            Err(Fault::new(FaultKind::Doubted, "the node has no vote, so its grant does not count"))
        }
        Ok(Outcome::Extended) if !trust.extensions => {
            Err(Fault::new(FaultKind::Doubted, "the node is in doubt, so its renewal does not count yet"))
        }
        other => other,
    }
}

/// Returns what a reply counts as, if it shows another record id than this client knows. The node
/// may have forgotten its grants, so `Extended` and `Healed` become `Forgot`.
///
/// # Errors
/// The fault of the reply. `Doubted` for a grant: the node has granted the claim, so the client
/// must withdraw it.
pub fn of_another_record(reply: Reply) -> Reply {
    match reply {
        Ok(Outcome::Granted { .. }) => {
            Err(Fault::new(FaultKind::Doubted, "the node has another record, so it may have forgotten its grants"))
        }
        Ok(Outcome::Extended | Outcome::Healed) => Ok(Outcome::Forgot),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(outcome: Outcome, grants: bool, extensions: bool) -> Option<FaultKind> {
        trusted(Ok(outcome), Trust { grants, extensions }).err().map(|fault| fault.kind())
    }

    #[test]
    fn grants_and_extensions_are_doubted_apart_and_nothing_else_is() {
        let doubted = Some(FaultKind::Doubted);
        assert_eq!(kind(Outcome::Granted { fence: 1 }, false, true), doubted);
        assert_eq!(kind(Outcome::Extended, false, true), None);
        assert_eq!(kind(Outcome::Extended, true, false), doubted);
        assert_eq!(kind(Outcome::Granted { fence: 1 }, true, false), None);
        assert_eq!(kind(Outcome::Healed, false, false), None);
        assert_eq!(kind(Outcome::Released { held: 1 }, false, false), None);
    }

    #[test]
    fn renewal_by_another_record_is_forgotten_and_grant_doubted() {
        for outcome in [Outcome::Extended, Outcome::Healed] {
            assert_eq!(of_another_record(Ok(outcome)).ok(), Some(Outcome::Forgot));
        }
        let granted = of_another_record(Ok(Outcome::Granted { fence: 1 }));
        assert!(granted.is_err_and(|fault| fault.kind() == FaultKind::Doubted && !fault.nothing_ran()));
        let released = Outcome::Released { held: 1 };
        assert_eq!(of_another_record(Ok(released.clone())).ok(), Some(released));
    }

    #[test]
    fn doubted_grant_may_have_been_carried_out() {
        let reply = trusted(Ok(Outcome::Granted { fence: 1 }), Trust { grants: false, extensions: true });
        assert!(reply.is_err_and(|fault| !fault.nothing_ran()));
    }
}
