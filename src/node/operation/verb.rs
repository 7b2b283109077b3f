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
    /// Take back the grants of an owner that continues.
    Withdraw,
    /// From now on, renew no lock whose token is at most the operation's ballot. This frees no
    /// hold: each hold expires by itself.
    Revoke,
    /// Return the state of the names, and write nothing.
    Inspect,
    /// Make, read and write the node's record.
    Hello,
    /// Read a page of the names that the node knows, by the command SCAN instead of a script.
    Scan,
}

impl Verb {
    /// All verbs.
    pub const ALL: [Self; 8] =
        [Self::Claim, Self::Renew, Self::Release, Self::Withdraw, Self::Revoke, Self::Inspect, Self::Hello, Self::Scan];

    /// The verb's name in the script and in metrics.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Claim => "claim",
            Self::Renew => "renew",
            Self::Release => "release",
            Self::Withdraw => "withdraw",
            Self::Revoke => "revoke",
            Self::Inspect => "inspect",
            Self::Hello => "hello",
            Self::Scan => "scan",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verbs_are_words_of_the_script_and_of_metrics() {
        let words = ["claim", "renew", "release", "withdraw", "revoke", "inspect", "hello", "scan"];
        assert_eq!(Verb::ALL.map(Verb::as_str), words);
    }
}
