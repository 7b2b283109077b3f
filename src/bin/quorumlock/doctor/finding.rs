//! A finding: one fact, why it matters, and what to do.

use serde_json::{Value, json};

/// How much a finding matters. The worst level comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Level {
    /// Two clients may hold one lock, or nobody can acquire locks. Neither ends without a repair.
    Unsafe,
    /// Locks are safe. But fewer faults than usual can stop them, or no quorum votes for some time.
    Warning,
    /// A fact that is worth knowing. A hint does not change the exit code.
    Hint,
    /// The check could not be done. This does not change the exit code.
    Unknown,
    Fine,
}

impl Level {
    pub(super) const ALL: [Self; 5] = [Self::Unsafe, Self::Warning, Self::Hint, Self::Unknown, Self::Fine];

    pub(super) const fn word(self) -> &'static str {
        match self {
            Self::Unsafe => "unsafe",
            Self::Warning => "warning",
            Self::Hint => "hint",
            Self::Unknown => "cannot tell",
            Self::Fine => "fine",
        }
    }

    const fn code(self) -> u8 {
        match self {
            Self::Unsafe => 2,
            Self::Warning => 1,
            _ => 0,
        }
    }
}

/// One finding. `id` never changes, because scripts compare it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Finding {
    pub(super) level: Level,
    pub(super) id: &'static str,
    /// The nodes that the finding is about; empty if the finding is about all nodes together.
    pub(super) nodes: Vec<String>,
    pub(super) what: String,
    pub(super) why: &'static str,
    /// Empty if there is nothing to do.
    pub(super) mend: String,
}

impl Finding {
    pub(super) fn new(level: Level, id: &'static str, what: impl Into<String>) -> Self {
        Self { level, id, nodes: Vec::new(), what: what.into(), why: "", mend: String::new() }
    }

    pub(super) fn fine(id: &'static str, what: impl Into<String>) -> Self {
        Self::new(Level::Fine, id, what)
    }

    pub(super) fn why(self, why: &'static str) -> Self {
        Self { why, ..self }
    }

    pub(super) fn mend(self, mend: impl Into<String>) -> Self {
        Self { mend: mend.into(), ..self }
    }

    pub(super) fn of(self, node: &str) -> Self {
        Self { nodes: vec![node.to_owned()], ..self }
    }

    pub(super) fn json(&self) -> Value {
        let Self { level, id, nodes, what, why, mend } = self;
        json!({ "id": id, "level": level.word(), "nodes": nodes, "what": what, "why": why, "mend": mend })
    }

    fn is_like(&self, other: &Self) -> bool {
        (self.level, self.id, &self.what, &self.mend) == (other.level, other.id, &other.what, &other.mend)
    }
}

/// Sorts findings, the worst first, and merges equal findings of several nodes into one.
pub(super) fn sorted(found: Vec<Finding>) -> Vec<Finding> {
    let mut findings: Vec<Finding> = Vec::new();
    for finding in found {
        match findings.iter_mut().find(|known| known.is_like(&finding)) {
            Some(known) => known.nodes.extend(finding.nodes),
            None => findings.push(finding),
        }
    }
    findings.sort_by_key(|finding| finding.level);
    findings
}

/// The exit code: 2 if anything is unsafe, else 1 if there are warnings, else 0.
pub(super) fn code(findings: &[Finding]) -> u8 {
    findings.iter().map(|finding| finding.level.code()).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn findings_are_sorted_worst_first_and_merged_across_nodes() {
        let low = |node: &str| Finding::new(Level::Warning, "memory", "low").of(node);
        let found =
            vec![Finding::fine("role", "a master"), low("a"), Finding::new(Level::Unsafe, "eviction", "lru"), low("b")];
        let sorted = sorted(found);
        assert_eq!(sorted.iter().map(|finding| finding.id).collect::<Vec<_>>(), ["eviction", "memory", "role"]);
        assert_eq!(sorted[1].nodes, ["a", "b"]);
    }

    #[test]
    fn exit_code_follows_the_worst_finding_and_ignores_unknown() {
        let codes = Level::ALL.map(|level| code(&[Finding::fine("a", ""), Finding::new(level, "b", "")]));
        assert_eq!(codes, [2, 1, 0, 0, 0]);
        assert_eq!(code(&[]), 0);
    }
}
