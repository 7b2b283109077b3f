//! The promises that the judge checks, and the violations that it finds.

/// A promise that was broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Rule {
    /// Two running processes believed at the same time that they hold one name.
    TwoBelievers,
    /// More permits were held at a time than the semaphore has in the configuration of any holder.
    TooMany,
    /// Two clients got a permit for one period, and the first permit was not undone.
    TwiceAPeriod,
    /// A claim got no permit for a period, although no other client can have had one.
    SkippedPeriod,
    /// A try returned that another owner has the name, but no owner has ever had it, or waited for
    /// it.
    DeniedAmiss,
    /// An observer saw an older leader, or an older value, after a newer one.
    SeenOutOfOrder,
    /// An observer saw a leader for which no quorum has held the name, or a value that this leader
    /// had not proclaimed.
    SeenAmiss,
    /// After all faults had ended and all was quiet, an observer did not see the last leader's
    /// value.
    Unseen,
    /// A later holder does not have a higher token.
    TokenOrder,
    /// A storage that checks tokens took an older holder's write.
    StaleWrite,
    /// A storage that checks tokens refused a write, although the writer still held the name
    /// afterwards.
    HolderRefused,
    /// A lease reports that it is held after the deadline that its quorum allows: t0 + ttl - drift
    /// of its last round.
    BelievedTooLong,
    /// After a revocation, a lock was held for longer than the revocation reported, or a node
    /// granted a token that was revoked there.
    RevokedGoesOn,
    /// The deadline passed before the holder learned of the loss.
    ToldLate,
    /// After a lock was lost or released, it was held or renewed again.
    NotFinal,
    /// A node's grant was never released, or not soon after the holder gave the lock up.
    NeverReleased,
    /// A lock was released before its deadline, and before its holder had let go of it.
    LetInEarly,
    /// A release returned that a name is free, but no quorum of nodes had freed it.
    NotFreed,
    /// A release returned a result that does not follow from the nodes' answers.
    ToldAmiss,
    /// A session does not hold a name that it locked, or holds a name that it did not lock.
    HeldAmiss,
    /// Some names of a session were renewed, and others were not.
    RenewedApart,
    /// A claim was granted after its own release or withdrawal, or a renewal after its release.
    LateClaim,
    /// A node carried out a release, and still holds the name for the release's owner.
    KeptOnNode,
    /// A withdrawal ended a hold with a higher ballot.
    NewerUndone,
    /// A node ended a hold by a release or withdrawal of another owner.
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
    /// The number of the event at which the violation was found.
    pub event: usize,
    pub why: String,
}

#[derive(Debug, Default)]
pub struct Verdict {
    /// The number of the event that is being judged.
    pub at: usize,
    violations: Vec<Violation>,
}

/// How many violations are reported. One violation often causes others, so the first few are
/// enough.
const TOLD: usize = 20;

impl Verdict {
    pub fn broken(&mut self, rule: Rule, why: impl Into<String>) {
        self.broken_at(self.at, rule, why);
    }

    pub fn broken_at(&mut self, event: usize, rule: Rule, why: impl Into<String>) {
        self.violations.push(Violation { rule, event, why: why.into() });
    }

    /// The first violations, in the order of the history.
    pub fn told(mut self) -> Vec<Violation> {
        self.violations.sort_by_key(|violation| violation.event);
        self.violations.truncate(TOLD);
        self.violations
    }
}
