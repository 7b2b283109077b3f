//! The promises, and what is said of those that were broken.

/// A promise that was broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Rule {
    /// Two processes that both run believe to hold one name.
    TwoBelievers,
    /// More permits of a semaphore are held together than anybody knows of.
    TooMany,
    /// Two were the first of one period, which was not undone.
    TwiceAPeriod,
    /// It was told that somebody had the period, and nobody could have had it.
    SkippedPeriod,
    /// A try was told that somebody has the name, and nobody has ever had it, or waited for it.
    DeniedAmiss,
    /// An observer saw an older leader, or an older value, after a newer one.
    SeenOutOfOrder,
    /// An observer saw a leader that no quorum has had, or a value that it had not proclaimed.
    SeenAmiss,
    /// After all faults had ended and all was quiet, an observer did not see the last leader's
    /// value.
    Unseen,
    /// Who believed later has no higher token.
    TokenOrder,
    /// A storage that checks tokens took an older holder's write.
    StaleWrite,
    /// A storage that checks tokens refused the write of who held the name, and held it still after
    /// that.
    HolderRefused,
    /// A lease says that it is held past what its quorum allows: t0 + ttl - drift of its last
    /// round.
    BelievedTooLong,
    /// After a revocation it was held for longer than the revocation said, or a node granted a
    /// token that was revoked there.
    RevokedGoesOn,
    /// The holder was not told by the deadline.
    ToldLate,
    /// After it was lost or released, it was held or renewed again.
    NotFinal,
    /// What a node had granted was never released, or not as soon as its holder gave it up.
    NeverReleased,
    /// What its holder had still, or was told to have lost and had not let go of, was released
    /// before its deadline.
    LetInEarly,
    /// Its holder was told that it is free, and no quorum of nodes had freed it.
    NotFreed,
    /// A release returned a result that does not follow from the nodes' answers.
    ToldAmiss,
    /// A session does not hold what it locked, or holds what it did not.
    HeldAmiss,
    /// Of one session some names were renewed, and others were not.
    RenewedApart,
    /// A claim was granted after its own release or withdrawal, or a renewal after its release.
    LateClaim,
    /// A node carried out a release, and holds the name for its owner still.
    KeptOnNode,
    /// A withdrawal freed what was granted with a higher ballot.
    NewerUndone,
    /// A node took the name from one owner for another.
    StolenOnNode,
    /// A node granted one ballot to two owners.
    GrantedTwice,
    /// A node granted a claim of another list than the one in force there.
    GrantedToOther,
    /// A caller got no answer in time.
    NoAnswer,
    /// After all faults had ended, a caller did not get the lock.
    Starved,
    /// A caller asked again and again with a ballot that a node had called stale.
    AskedInVain,
    /// A name stayed free on a node for longer than it takes waiters there to ask again.
    FreeThoughWaitedFor,
    /// A key, a task, a queue's entry or a timer is left at the end.
    LeftBehind,
}

impl Rule {
    pub const fn name(self) -> &'static str {
        match self {
            Self::TwoBelievers => "two_believers",
            Self::TooMany => "too_many",
            Self::TwiceAPeriod => "twice_a_period",
            Self::SkippedPeriod => "skipped_period",
            Self::DeniedAmiss => "denied_amiss",
            Self::SeenOutOfOrder => "seen_out_of_order",
            Self::SeenAmiss => "seen_amiss",
            Self::Unseen => "unseen",
            Self::TokenOrder => "token_order",
            Self::StaleWrite => "stale_write",
            Self::HolderRefused => "holder_refused",
            Self::BelievedTooLong => "believed_too_long",
            Self::RevokedGoesOn => "revoked_goes_on",
            Self::ToldLate => "told_late",
            Self::NotFinal => "not_final",
            Self::NeverReleased => "never_released",
            Self::LetInEarly => "let_in_early",
            Self::NotFreed => "not_freed",
            Self::ToldAmiss => "told_amiss",
            Self::HeldAmiss => "held_amiss",
            Self::RenewedApart => "renewed_apart",
            Self::LateClaim => "late_claim",
            Self::KeptOnNode => "kept_on_node",
            Self::NewerUndone => "newer_undone",
            Self::StolenOnNode => "stolen_on_node",
            Self::GrantedTwice => "granted_twice",
            Self::GrantedToOther => "granted_to_other",
            Self::NoAnswer => "no_answer",
            Self::Starved => "starved",
            Self::AskedInVain => "asked_in_vain",
            Self::FreeThoughWaitedFor => "free_though_waited_for",
            Self::LeftBehind => "left_behind",
        }
    }
}

#[derive(Clone, Debug)]
pub struct Violation {
    pub rule: Rule,
    /// The event at which it showed, by its place in the history.
    pub event: usize,
    pub why: String,
}

/// What is broken so far.
#[derive(Debug, Default)]
pub struct Verdict {
    /// The event that is looked at.
    pub at: usize,
    violations: Vec<Violation>,
}

/// One broken promise breaks others; the first few tell enough.
const TOLD: usize = 20;

impl Verdict {
    pub fn broken(&mut self, rule: Rule, why: impl Into<String>) {
        self.broken_at(self.at, rule, why);
    }

    pub fn broken_at(&mut self, event: usize, rule: Rule, why: impl Into<String>) {
        self.violations.push(Violation { rule, event, why: why.into() });
    }

    /// The first of them, in the history's order.
    pub fn told(mut self) -> Vec<Violation> {
        self.violations.sort_by_key(|violation| violation.event);
        self.violations.truncate(TOLD);
        self.violations
    }
}
