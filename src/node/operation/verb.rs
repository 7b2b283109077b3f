//! The verbs of the protocol.

/// The verbs of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verb {
    /// Take the names.
    Claim,
    /// Hold the names for another ttl.
    Renew,
    /// Give the names up: the owner has ended.
    Release,
    /// Look, and write nothing.
    Inspect,
    /// Raise the node's floor to the highest ballot that other nodes know of: it may have
    /// forgotten.
    Teach,
    /// Tell the node's record.
    Record,
    /// Let all holds with tokens up to a number end: they are not renewed any more. Frees nothing.
    Revoke,
    /// Write the servers of a client's list into the node's roster, if they fit.
    Enrol,
    /// Let no client count the node's votes any more.
    Retire,
    /// Take its retirement back.
    Reset,
    /// Tell a page of the names that the node knows. No script does that.
    Scan,
    /// Take back what asks of an owner were granted: the owner goes on.
    Withdraw,
}

impl Verb {
    /// All verbs.
    pub const ALL: [Self; 12] = [
        Self::Claim,
        Self::Renew,
        Self::Release,
        Self::Inspect,
        Self::Teach,
        Self::Record,
        Self::Revoke,
        Self::Enrol,
        Self::Retire,
        Self::Reset,
        Self::Scan,
        Self::Withdraw,
    ];

    /// Whether it can share the next call with what else is due: no caller waits for its answer.
    #[must_use]
    pub const fn can_gather(self) -> bool {
        matches!(self, Self::Renew | Self::Teach | Self::Record | Self::Enrol)
    }

    /// The verb's name in the script and in metrics.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Claim => "claim",
            Self::Renew => "renew",
            Self::Release => "release",
            Self::Withdraw => "withdraw",
            Self::Inspect => "inspect",
            Self::Teach => "teach",
            Self::Record => "record",
            Self::Revoke => "revoke",
            Self::Enrol => "enrol",
            Self::Retire => "retire",
            Self::Reset => "reset",
            Self::Scan => "scan",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verbs_are_words_of_the_script_and_of_metrics() {
        let words = [
            "claim", "renew", "release", "inspect", "teach", "record", "revoke", "enrol", "retire", "reset", "scan",
            "withdraw",
        ];
        assert_eq!(Verb::ALL.map(Verb::as_str), words);
    }
}
