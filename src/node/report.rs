//! Reports on nodes, for errors.

use std::sync::Arc;

use super::reply::{Fault, FaultKind, Outcome, Reply};
use super::status::{NodeState, NodeStatus, UNLISTED};
use crate::error::{NodeCause, NodeReport};

impl NodeReport {
    /// Reports a node's reply; `None` means that no reply has come yet.
    pub(crate) fn of_reply(node: &Arc<str>, reply: Option<&Reply>) -> Self {
        match reply {
            Some(Ok(outcome)) => Self::new(node, outcome.cause(), outcome.to_string()),
            Some(Err(fault)) => Self::of_fault(node, fault),
            None => Self::new(node, NodeCause::Silent, "no answer yet"),
        }
    }

    pub(crate) fn of_fault(node: &Arc<str>, fault: &Fault) -> Self {
        Self::new(node, fault.kind().cause(), fault.to_string())
    }

    pub(crate) fn of_status(status: &NodeStatus) -> Self {
        let said = match (&status.state, &status.run) {
            (NodeState::Connecting, Some(_)) => UNLISTED.to_owned(),
            (state, _) => state.to_string(),
        };
        Self::new(&status.node, status.state.cause(), said)
    }
}

impl Outcome {
    const fn cause(&self) -> NodeCause {
        match self {
            Self::Held { .. } => NodeCause::Held,
            Self::Stale { .. } | Self::Healed | Self::Lost { .. } => NodeCause::Outdated,
            Self::Forgot | Self::NoList => NodeCause::Quarantined,
            Self::OtherList { .. } => NodeCause::OtherList,
            Self::Misused { .. } => NodeCause::Rejected,
            Self::Granted { .. }
            | Self::Extended
            | Self::Released { .. }
            | Self::Revoked { .. }
            | Self::Inspected(_)
            | Self::Hello(_)
            | Self::Scanned { .. } => NodeCause::Agreed,
        }
    }
}

impl FaultKind {
    const fn cause(self) -> NodeCause {
        match self {
            Self::Down => NodeCause::Down,
            Self::Quarantined | Self::Doubted => NodeCause::Quarantined,
            Self::Unfit => NodeCause::Unfit,
            Self::Timeout | Self::Closed => NodeCause::Silent,
            Self::Overloaded | Self::Busy => NodeCause::Busy,
            Self::Rejected | Self::Garbled => NodeCause::Rejected,
        }
    }
}

impl NodeState {
    const fn cause(&self) -> NodeCause {
        match self {
            Self::Up => NodeCause::Agreed,
            Self::Quarantined { .. } => NodeCause::Quarantined,
            Self::Connecting | Self::Unclear => NodeCause::Silent,
            Self::Down { .. } => NodeCause::Down,
            Self::OtherList { .. } => NodeCause::OtherList,
            Self::Twins { .. } => NodeCause::Twins,
            Self::Replica | Self::Cluster | Self::Duplicate { .. } => NodeCause::Unfit,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::node::Kind;
    use crate::rules::doubt::Doubt;

    #[test]
    fn report_of_a_reply_has_its_cause_and_text() {
        let node: Arc<str> = "redis://a:6379".into();
        let of = |reply: Option<Reply>| {
            let NodeReport { cause, said, .. } = NodeReport::of_reply(&node, reply.as_ref());
            (cause, said)
        };
        let held = Outcome::Held { holder: "x".to_owned(), kind: Kind::Lock, remaining: None, fence: 1, queued: None };
        assert!(matches!(of(Some(Ok(held))), (NodeCause::Held, said) if said.starts_with("held by x")));
        assert_eq!(of(Some(Ok(Outcome::Granted { fence: 1 }))).0, NodeCause::Agreed);
        assert_eq!(of(Some(Ok(Outcome::Stale { fence: 1 }))).0, NodeCause::Outdated);
        assert_eq!(of(Some(Ok(Outcome::Forgot))).0, NodeCause::Quarantined);
        assert_eq!(of(None), (NodeCause::Silent, "no answer yet".to_owned()));
        for (kind, cause) in [
            (FaultKind::Down, NodeCause::Down),
            (FaultKind::Doubted, NodeCause::Quarantined),
            (FaultKind::Unfit, NodeCause::Unfit),
            (FaultKind::Closed, NodeCause::Silent),
            (FaultKind::Busy, NodeCause::Busy),
            (FaultKind::Rejected, NodeCause::Rejected),
        ] {
            assert_eq!(of(Some(Err(Fault::new(kind, "why")))), (cause, "why".to_owned()));
        }
    }

    #[test]
    fn report_of_a_state_has_its_cause() {
        let of = |state| NodeReport::of_status(&NodeStatus::new("redis://a:6379".into(), state)).cause;
        let quarantined = NodeState::Quarantined { left: Duration::from_secs(1), doubt: Doubt::Restarted };
        assert_eq!(of(NodeState::Up), NodeCause::Agreed);
        assert_eq!(of(quarantined), NodeCause::Quarantined);
        assert_eq!(of(NodeState::OtherList { why: "why".into() }), NodeCause::OtherList);
        assert_eq!(of(NodeState::Twins { why: "why".into() }), NodeCause::Twins);
        assert_eq!(of(NodeState::Replica), NodeCause::Unfit);
        assert_eq!(of(NodeState::Unclear), NodeCause::Silent);
    }
}
