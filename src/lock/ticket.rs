//! Tickets: a lock that one process has acquired, and another process goes on with.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::mutex::QuorumLock;
use super::quorum::Quorum;
use crate::config::{LockOptions, Rules};
use crate::error::{Error, Result};
use crate::lease::{HandedOn, LockGuard, Released};
use crate::node::{Name, Predecessor};
use crate::protocol::{ReleaseSet, give_up};
use crate::rules::ballot::LIMIT;
use crate::words::listed;

/// The first word of a ticket's text.
const FORM: &str = "quorumlock-ticket-1";

/// The last millisecond of the year 9999. On some systems, [`SystemTime`] ends in the year 30828.
const LATEST: u64 = 253_402_300_799_999;

/// A held lock that no process renews, until some process [resumes](Quorum::resume) it.
/// [`LockGuard::into_ticket`] makes a ticket: for example, a web request acquires the lock and
/// starts a job, and the job's process resumes the lock and releases it.
///
/// **Until [`until`](Self::until), the nodes keep everybody else out**, unless the ticket is used
/// or the lock is revoked. After that, the lock expires like any other lock.
///
/// Keep a ticket secret from clients that must not use the lock: `Debug` hides it. (A program with
/// access to the nodes could end the lock even without the ticket.) `Display` writes the ticket as
/// a text, and `FromStr` reads this text, even if spaces or newlines surround it. With the feature
/// `serde`, a ticket is serialized as this text. Resume it with the same list of nodes and the same
/// [`key_prefix`](crate::QuorumBuilder::key_prefix).
///
/// Dropping a ticket releases nothing. If you cannot pass it on, call
/// [`release`](Quorum::release).
#[derive(Clone, PartialEq, Eq, Hash)]
#[must_use = "until the ticket is resumed or released, or expires, nobody gets the lock"]
pub struct Ticket {
    name: Name,
    lock: Predecessor,
    /// The highest ballot of the owner's asks and pushes.
    highest: u64,
    /// In milliseconds since the Unix epoch.
    until: u64,
    /// The hash of the list of the client that had the lock; empty if its nodes check no list.
    list: Arc<str>,
}

impl Ticket {
    /// The lock's name. If the quorum has a [`key_format`](crate::QuorumBuilder::key_format), this
    /// is the formatted name. To acquire the lock anew, use the name that you gave to
    /// [`lock`](Quorum::lock) at first, because `lock` formats it.
    #[must_use]
    pub fn name(&self) -> &str {
        self.name.text()
    }

    /// The token of the lock. The resumed lock has a higher token.
    #[must_use]
    pub const fn token(&self) -> u64 {
        self.lock.token
    }

    /// Until when the lock can be resumed, by the clock of the machine that made the ticket. Other
    /// clocks may differ: [`resume`](Quorum::resume) tells whether it is too late.
    #[must_use]
    pub fn until(&self) -> SystemTime {
        UNIX_EPOCH + Duration::from_millis(self.until)
    }
}

impl LockGuard {
    /// Stops the renewals without a release, and returns a ticket, with which another process can
    /// go on with the lock. The call first renews the lock, so that the ticket is good for a whole
    /// ttl (less the drift). So choose a [`ttl`](crate::LockOptions::ttl) that is longer than the
    /// longest wait until somebody resumes the lock.
    ///
    /// End the work under the lock before this call: the lock's leases then end as by a release.
    ///
    /// # Errors
    /// Returns the guard, so that the lock stays held. The error is `Config` if the lock has
    /// several names, or other guards ([`reenter`](Self::reenter)). It is `Unavailable` if no
    /// quorum confirmed the renewal in time, or if the lock has reached its `max_hold`. It is `Lost`
    /// if the lock is lost. Outside of a Tokio runtime, it is `Config`.
    ///
    /// # Cancel safety
    /// Safe: the lock is released in the background.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> quorumlock::Result<()> {
    /// # let quorum = quorumlock::Quorum::in_memory(3)?;
    /// use std::time::Duration;
    ///
    /// let guard = quorum.lock("orders/42").acquire(Duration::from_secs(5)).await?;
    /// let token = guard.token();
    /// let ticket = guard.into_ticket().await.map_err(|(error, _guard)| error)?;
    /// let text = ticket.to_string(); // Send this to another process.
    ///
    /// let guard = quorum.resume(&text.parse()?).await?;
    /// assert!(guard.token() > token);
    /// guard.release().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn into_ticket(self) -> Result<Ticket, (Error, Self)> {
        let HandedOn { name, lock, highest, until, list } = self.hand_on().await?;
        let until = u64::try_from(until.as_millis()).unwrap_or(LATEST).min(LATEST);
        Ok(Ticket { name, lock, highest, until, list })
    }
}

impl Quorum {
    /// Goes on with the lock of a ticket, in any process with the same list of nodes. The lock gets
    /// a new, higher token, and this quorum's ttl. It has no note, and `max_hold` begins anew. The
    /// call takes three round timeouts at most: first it waits for nodes that are connecting, for one
    /// round timeout at most.
    ///
    /// **A ticket can be resumed once.** If the process that has resumed it crashes, the lock ends
    /// by itself, and a second `resume` fails with `Lost`. Then acquire the lock anew.
    ///
    /// Of several processes that resume one ticket, at most one gets the lock. If they do so at the
    /// same moment, it may be that none gets it, and that the lock is released.
    ///
    /// # Errors
    /// `Lost` if the lock has expired, or was released, revoked or resumed. `Contended` if nodes
    /// named other owners, but the lock may still be held for the ticket. `Unavailable` if too few
    /// nodes answered or voted. `Config` if the ticket is of another list of nodes or of another
    /// key prefix, or if its token is more than a day ahead of this machine's clock. `Closed` after
    /// a shutdown.
    ///
    /// A lock that has expired may be resumed all the same, if renewals were under way for longer
    /// than its ttl. Another owner may have held it in between, but holds it no more.
    ///
    /// After `Contended` or `Unavailable`, some nodes may have freed the lock. You may try again,
    /// but others may get the lock first, and the next error may be `Lost`.
    ///
    /// # Cancel safety
    /// Safe, but the lock may be released in the background.
    pub async fn resume(&self, ticket: &Ticket) -> Result<LockGuard> {
        self.resumed(ticket, self.0.rules.clone()).await
    }

    /// As [`resume`](Self::resume), with options for the lock.
    ///
    /// # Errors
    /// As [`resume`](Self::resume), and as [`lock_with`](Self::lock_with).
    ///
    /// # Cancel safety
    /// As [`resume`](Self::resume).
    pub async fn resume_with(&self, ticket: &Ticket, options: &LockOptions) -> Result<LockGuard> {
        self.resumed(ticket, self.0.rules_of(options)?).await
    }

    /// Releases the lock of a ticket, and waits until a quorum has confirmed the release. If the
    /// lock was resumed, or has expired, this changes nothing, and returns `AlreadyExpired`.
    ///
    /// # Errors
    /// `Unavailable` if too few nodes answered in time; the release goes on in the background.
    /// `Config` as for [`resume`](Self::resume); `Closed` after a shutdown.
    ///
    /// # Cancel safety
    /// Safe: the first poll sends the release, which goes on in the background.
    pub async fn release(&self, ticket: &Ticket) -> Result<Released> {
        self.0.usable()?;
        self.checked(ticket)?;
        let until = self.0.host.now() + self.0.rules.round_timeout;
        let freeing = self.give_up(ticket);
        self.0.leases.confirmed(&freeing, until, || listed(std::slice::from_ref(&ticket.name))).await
    }

    async fn resumed(&self, ticket: &Ticket, rules: Arc<Rules>) -> Result<LockGuard> {
        self.checked(ticket)?;
        let voters = &self.0.leases.voters;
        voters.seen(ticket.highest);
        // If a quorum does not grant the claim, the other nodes free the lock. Claims to nodes that
        // are connecting fail at once. So wait for these nodes.
        voters.settled(self.0.host.now() + rules.round_timeout, &self.0.shut).await;
        let lock = QuorumLock::new(self.0.clone(), Ok([ticket.name.clone()].into()), rules);
        let guard = lock.follow(&ticket.lock).await?;
        // The old owner may still hold the name on nodes that did not grant the claim.
        drop(self.give_up(ticket));
        Ok(guard)
    }

    fn give_up(&self, ticket: &Ticket) -> ReleaseSet {
        // The lock's ttl may have been any ttl up to `max_ttl`.
        let lease = self.0.rules.validity.ttl();
        let times = (self.0.settings.max_ttl.max(lease), lease);
        give_up(&self.0.leases.voters, &ticket.name, &ticket.lock, ticket.highest, times)
    }

    fn checked(&self, ticket: &Ticket) -> Result<()> {
        let voters = &self.0.leases.voters;
        let why = if ticket.list != voters.claimed {
            "the ticket is of another list of nodes; resume it with the nodes with which it was made"
        } else if self.0.settings.formatted(ticket.name.text())?.key() != ticket.name.key() {
            "the ticket is of another key prefix; resume it with the key prefix with which it was made"
        } else if voters.is_far(ticket.highest) {
            "the ticket's token is more than a day ahead of this machine's clock; correct the clock, or use another ticket"
        } else {
            return Ok(());
        };
        Err(Error::config(why))
    }
}

impl fmt::Display for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, lock: Predecessor { owner, token }, highest, until, list } = self;
        let list = if list.is_empty() { "-" } else { list };
        write!(f, "{FORM} {token} {highest} {until} {list} {owner} {} {}", name.key().len(), name.key())
    }
}

impl FromStr for Ticket {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        parsed(text.trim_start()).ok_or_else(|| {
            Error::config(format!("this is no ticket, or only a part of one: a ticket begins with {FORM}"))
        })
    }
}

fn parsed(text: &str) -> Option<Ticket> {
    let mut words = text.splitn(8, ' ');
    words.next().filter(|&form| form == FORM)?;
    let mut number = || words.next()?.parse().ok().filter(|&number: &u64| 0 < number && number <= LIMIT);
    let (token, highest, until) = (number()?, number()?, number()?);
    let mut word = || words.next().filter(|word| !word.is_empty());
    let (list, owner, length) = (word()?, word()?, word()?.parse().ok()?);
    let (key, behind) = words.next()?.split_at_checked(length)?;
    let is_good = token <= highest && highest < LIMIT && until <= LATEST && behind.trim().is_empty();
    let lock = Predecessor { owner: owner.into(), token };
    let list = if list == "-" { "" } else { list }.into();
    is_good.then(|| Some(Ticket { name: Name::of_key(key)?, lock, highest, until, list }))?
}

impl fmt::Debug for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ticket").field("name", &self.name()).finish_non_exhaustive()
    }
}

#[cfg(feature = "serde")]
impl serde::Serialize for Ticket {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(feature = "serde")]
impl<'de> serde::Deserialize<'de> for Ticket {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        let text = <std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(all(test, feature = "testing"))]
mod tests {
    use super::*;
    use crate::error::ErrorKind;

    const SECOND: Duration = Duration::from_secs(1);

    async fn held(quorum: &Quorum) -> Result<LockGuard> {
        quorum.lock("a b").acquire(SECOND).await
    }

    #[tokio::test]
    async fn ticket_is_resumed_once_and_the_token_grows() {
        let quorum = Quorum::in_memory(3).unwrap();
        let guard = held(&quorum).await.unwrap();
        let (token, lease) = (guard.token(), guard.lease());
        let ticket = guard.into_ticket().await.unwrap();
        assert!(!lease.is_held() && ticket.name() == "a b" && ticket.token() == token);
        assert!(quorum.lock("a b").try_acquire().await.unwrap().is_none(), "nodes still hold it");
        let resumed = quorum.resume(&ticket.to_string().parse().unwrap()).await.unwrap();
        assert!(resumed.token() > token);
        let again = quorum.resume(&ticket).await.unwrap_err();
        assert_eq!(again.kind(), ErrorKind::Lost, "{again}");
        assert_eq!(quorum.release(&ticket).await.unwrap(), Released::AlreadyExpired);
        assert!(resumed.is_held());
        assert_eq!(resumed.release().await.unwrap(), Released::Released);
    }

    #[tokio::test]
    async fn ticket_is_released_without_a_resume() {
        let quorum = Quorum::in_memory(3).unwrap();
        let ticket = held(&quorum).await.unwrap().into_ticket().await.unwrap();
        let refused = quorum.lock("a b").acquire(Duration::ZERO).await.unwrap_err();
        assert!(refused.to_string().contains("or has made a ticket of it"), "{refused}");
        assert_eq!(quorum.release(&ticket).await.unwrap(), Released::Released);
        assert!(quorum.lock("a b").try_acquire().await.unwrap().is_some());
    }

    #[tokio::test]
    async fn lock_that_cannot_become_a_ticket_stays_held() {
        let quorum = Quorum::in_memory(3).unwrap();
        let set = quorum.lock_all(["a", "b"]).acquire(SECOND).await.unwrap();
        let (error, set) = set.into_ticket().await.unwrap_err();
        assert!(error.kind() == ErrorKind::Config && set.is_held(), "{error}");
        let guard = held(&quorum).await.unwrap();
        let other = guard.reenter().unwrap();
        let (error, guard) = guard.into_ticket().await.unwrap_err();
        assert!(error.kind() == ErrorKind::Config && guard.is_held(), "{error}");
        drop(other);
        let _ticket = guard.into_ticket().await.unwrap();
        let lost = quorum.lock("c").acquire(SECOND).await.unwrap();
        lost.revoked();
        let (error, _lost) = lost.into_ticket().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Lost, "{error}");
    }

    #[test]
    fn ticket_is_a_text_that_debug_hides() {
        let text = "quorumlock-ticket-1 7 9 1700000000000 f00d host/1/uuid/3 8 p:{a b\n}";
        let ticket: Ticket = format!("\n{text} \n").parse().unwrap();
        assert_eq!((ticket.to_string().as_str(), ticket.name()), (text, "a b\n"));
        assert_eq!(format!("{ticket:?}"), r#"Ticket { name: "a b\n", .. }"#);
        for wrong in [
            "",
            "quorumlock-ticket-1",
            "quorumlock-ticket-2 7 9 1 f o 5 p:{a}",
            "quorumlock-ticket-1 0 9 1 f o 5 p:{a}",
            "quorumlock-ticket-1 9 7 1 f o 5 p:{a}",
            "quorumlock-ticket-1 7 9007199254740993 1 f o 5 p:{a}",
            "quorumlock-ticket-1 7 9 1 f  5 p:{a}",
            "quorumlock-ticket-1 7 9 1 f o 6 p:{a}",
            "quorumlock-ticket-1 7 9 1 f o 5 p:{a}b",
            "quorumlock-ticket-1 7 9 1 f o 3 p:a",
        ] {
            assert!(wrong.parse::<Ticket>().is_err(), "{wrong}");
        }
        #[cfg(feature = "serde")]
        {
            let json = serde_json::to_string(&ticket).unwrap();
            assert_eq!(serde_json::from_str::<Ticket>(&json).unwrap(), ticket);
        }
    }
}
