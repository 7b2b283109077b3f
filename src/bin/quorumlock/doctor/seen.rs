//! All observations: from the library, and from the doctor's own connections.

use std::time::Duration;

use quorumlock::{Inspected, List, NodeStatus};

use super::domains::Domains;
use super::node_check::NodeCheck;
use crate::raw_connection::certificate_expiry::CertificateExpiry;
use crate::raw_connection::login::Failed;
use crate::raw_connection::rights::Lacks;
use crate::raw_connection::target::Target;
use crate::status::verdict::Verdict;

/// The settings that findings depend on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Times {
    pub(super) ttl: Duration,
    pub(super) max_ttl: Duration,
    pub(super) node_timeout: Duration,
    pub(super) timeout: Duration,
}

pub(super) struct Seen {
    pub(super) nodes: Vec<NodeStatus>,
    pub(super) inspected: Inspected,
    /// The list of a client with these settings.
    pub(super) list: List,
    pub(super) checks: Vec<Result<NodeCheck, Failed>>,
    pub(super) targets: Vec<Target>,
    pub(super) certificates: Vec<CertificateExpiry>,
    pub(super) domains: Domains,
    pub(super) times: Times,
}

/// The observations of one node.
#[derive(Clone, Copy)]
pub(super) struct Node<'a> {
    pub(super) index: usize,
    pub(super) status: &'a NodeStatus,
    pub(super) check: &'a Result<NodeCheck, Failed>,
    pub(super) target: &'a Target,
    pub(super) certificates: CertificateExpiry,
    pub(super) times: Times,
    /// What shows that the node forgot locks while it ran; `None` if nothing shows that.
    pub(super) forgot: Option<&'static str>,
}

impl Seen {
    pub(super) fn verdict(&self) -> Verdict<'_> {
        let lacks = |check: &Result<NodeCheck, Failed>| match check {
            Ok(check) => check.lacks.clone().map(Some),
            Err(failed) => Err(failed.why.clone()),
        };
        let lacks = self.checks.iter().map(lacks).collect();
        Verdict::new(&self.nodes, &self.inspected, &self.list).with_rights(lacks)
    }

    pub(super) fn each(&self) -> impl Iterator<Item = Node<'_>> {
        let verdict = self.verdict();
        let all = self.nodes.iter().zip(&self.checks).zip(self.targets.iter().zip(&self.certificates)).enumerate();
        all.map(move |(index, ((status, check), (target, certificates)))| Node {
            index,
            status,
            check,
            target,
            certificates: *certificates,
            times: self.times,
            forgot: verdict.forgot(index),
        })
    }
}

impl<'a> Node<'a> {
    pub(super) fn label(&self) -> &'a str {
        &self.status.node
    }

    /// The results of the node's examination, if there are any.
    pub(super) fn told(&self) -> Option<&'a NodeCheck> {
        self.check.as_ref().ok()
    }

    /// Whether the user lacks commands or keys on the node. Missing rights explain other failures.
    pub(super) fn is_limited(&self) -> bool {
        self.lacks().is_some_and(|lacks| !lacks.commands.is_empty() || lacks.keys.is_some())
    }

    pub(super) fn lacks_channels(&self) -> bool {
        self.lacks().is_some_and(|lacks| lacks.channels.is_some())
    }

    /// Why the node refuses every write, if it does.
    pub(super) fn refuses_writes(&self) -> Option<&'a str> {
        self.lacks()?.writes.as_deref()
    }

    fn lacks(&self) -> Option<&'a Lacks> {
        self.told()?.lacks.as_ref().ok()
    }
}
