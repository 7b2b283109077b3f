//! Which replies of a node count, by what is known of its memory and its clock.

use super::reply::{Fault, FaultKind, Outcome, Reply};
use crate::rules::doubt::Trust;

/// The reply, or a fault where it does not count.
///
/// A grant of a node that is quarantined by now may rest on a hold that ended early; the node may
/// have carried it out, so it must be cleaned up. `Extended` of a node that was doubted a moment
/// ago would count a name which another round counts as well.
///
/// # Errors
/// The fault that the reply was, or `Doubted`.
pub fn trusted(reply: Reply, trust: Trust) -> Reply {
    match reply {
        Ok(Outcome::Granted { .. }) if !trust.grants => {
            Err(Fault::new(FaultKind::Doubted, "it is quarantined, so its grant does not count"))
        }
        Ok(Outcome::Extended) if !trust.extensions => Err(Fault::new(
            FaultKind::Doubted,
            "it has just restarted or its clock was stepped, so its renewal does not count yet",
        )),
        other => other,
    }
}

/// The reply of a server that is not enrolled, or was too long ago, because of `why`; or a fault
/// where it does not count.
///
/// # Errors
/// The fault that the reply was, or `Doubted`.
pub fn unlisted(reply: Reply, why: &str) -> Reply {
    match reply {
        Ok(Outcome::Granted { .. } | Outcome::Extended) => {
            Err(Fault::new(FaultKind::Doubted, format!("its vote does not count: {why}")))
        }
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
    fn what_is_doubted_may_have_been_carried_out() {
        let reply = trusted(Ok(Outcome::Granted { fence: 1 }), Trust { grants: false, extensions: true });
        assert!(reply.is_err_and(|fault| !fault.nothing_ran()));
    }
}
