//! All observations of the nodes: those of the library, and those over the doctor's own
//! connections.

use std::time::Duration;

use quorumlock::{Inspected, List, NodeState, NodeStatus};

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
    /// The list of nodes in this command's settings.
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
    /// The sign that the node forgot locks while it ran; `None` if there is no sign.
    pub(super) forgot: Option<&'static str>,
    /// This node's master, if the master is in the list.
    pub(super) master: Option<&'a str>,
    /// How many nodes of the list are replicas of this node.
    pub(super) replicas: usize,
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
            master: self.master_of(index).map(|master| &*self.nodes[master].node),
            replicas: (0..self.nodes.len()).filter(|&other| self.master_of(other) == Some(index)).count(),
        })
    }

    /// A node's master, if the master is in the list. A replica shows its master's replication id.
    fn master_of(&self, node: usize) -> Option<usize> {
        let id = self.field(node, "master_replid").filter(|_| self.field(node, "role") == Some("slave"))?;
        let is_master = |&other: &usize| {
            self.field(other, "role") == Some("master") && self.field(other, "master_replid") == Some(id)
        };
        (0..self.nodes.len()).find(is_master)
    }

    fn field(&self, node: usize, name: &str) -> Option<&str> {
        self.checks[node].as_ref().ok()?.field(name)
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

    /// Whether the user lacks rights to commands or keys on the node. This may cause other faults.
    pub(super) fn is_limited(&self) -> bool {
        self.lacks().is_some_and(|lacks| !lacks.commands.is_empty() || lacks.keys.is_some())
    }

    pub(super) fn lacks_channels(&self) -> bool {
        self.lacks().is_some_and(|lacks| lacks.channels.is_some())
    }

    /// Whether the finding about the node's state, or about the rights, reports this refusal.
    pub(super) fn explains(&self, refusal: &str) -> bool {
        // Compare only the error's code, or for `ERR` the text before the arguments. The rest may
        // differ in the other finding.
        let error = match refusal.split_once(' ') {
            Some((code, _)) if code != "ERR" => code,
            _ => refusal.split(", with args").next().unwrap_or(refusal),
        };
        match &self.status.state {
            NodeState::Down { why } if why.contains(error) => true,
            _ => refusal.starts_with("NOPERM") && self.lacks().is_some_and(|lacks| !lacks.no_right()),
        }
    }

    /// The error with which the node refuses every write; `None` if it accepts writes.
    pub(super) fn refuses_writes(&self) -> Option<&'a str> {
        self.lacks()?.writes.as_deref()
    }

    fn lacks(&self) -> Option<&'a Lacks> {
        self.told()?.lacks.as_ref().ok()
    }
}
