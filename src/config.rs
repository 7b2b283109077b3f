//! What can be set, checked once: builder in, immutable rules out. Its modules read files and the
//! environment.

mod addresses;
mod environment;
mod file;
mod password;
#[cfg(feature = "serde")]
mod times;

use std::sync::Arc;
use std::time::Duration;

use crate::error::{Error, Result};
use crate::node::Name;
use crate::node::redis::Endpoint;
use crate::rules::roster::{LONGEST, PROTOCOL};
use crate::rules::validity::MAX_ROUND;
use crate::rules::{Backoff, Drift, Validity};
use crate::words::exact;

pub use file::{Config, NodeConfig};

/// The shortest ttl, 100 ms: of a shorter one, drift and round trips leave too little.
pub const MIN_TTL: Duration = Duration::from_millis(100);
/// The least constant part of the drift: Redlock's, "2 milliseconds for small TTLs" in
/// <https://redis.io/docs/latest/develop/use/patterns/distributed-locks/>.
const LEAST_DRIFT: Duration = Duration::from_millis(2);
/// The longest ttl, 24 h, where the restart guard does not set a shorter one: nodes enrol nobody
/// with longer locks.
pub const MAX_TTL: Duration = LONGEST;
/// The most nodes of a quorum.
pub const MAX_NODES: usize = 64;

const SECOND: Duration = Duration::from_secs(1);
/// Where the name stands in a key format.
const NAME: &str = "{name}";

/// How one lock behaves. Checked when the quorum connects or the lock is made.
///
/// ```
/// use quorumlock::LockOptions;
/// use std::time::Duration;
///
/// let ttl = Duration::from_secs(10);
/// let options = LockOptions::default().ttl(ttl).max_hold(60 * ttl);
/// ```
#[derive(Clone, Debug, Default)]
pub struct LockOptions {
    ttl: Option<Duration>,
    manual: bool,
    max_hold: Option<Duration>,
    drift: Drift,
    min_validity: Duration,
    round_timeout: Option<Duration>,
    backoff: Backoff,
    barging: bool,
    wait: Option<Duration>,
    max_rounds: Option<u32>,
}

impl LockOptions {
    /// For how long a node holds the lock unless it is renewed. Default 30 s; from 100 ms to the
    /// quorum's [`max_ttl`](crate::QuorumBuilder::max_ttl), and to 24 h where that is zero. Nodes
    /// count whole milliseconds. Locks may be held for longer: they are
    /// [renewed](Self::auto_renew).
    #[must_use]
    pub const fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = Some(ttl);
        self
    }

    /// Whether the lock is renewed for as long as its guard lives. Default on.
    #[must_use]
    pub const fn auto_renew(mut self, on: bool) -> Self {
        self.manual = !on;
        self
    }

    /// How long after it was acquired a lock is no longer renewed. Default: never.
    #[must_use]
    pub const fn max_hold(mut self, longest: Duration) -> Self {
        self.max_hold = Some(longest);
        self
    }

    /// The share of the ttl by which clocks may run apart. Default 0.01; from 0 to 0.2. One lock's
    /// may be above 0.01 only up to the quorum's own
    /// ([`QuorumBuilder::options`](crate::QuorumBuilder::options)).
    #[must_use]
    pub const fn drift_factor(mut self, factor: f64) -> Self {
        self.drift.factor = factor;
        self
    }

    /// What is added to the drift whatever the ttl. Default 2 ms, and no less: nodes count whole
    /// milliseconds, so that a hold may end one early, and Redlock leaves another for short ttls.
    #[must_use]
    pub const fn drift_constant(mut self, constant: Duration) -> Self {
        self.drift.constant = constant;
        self
    }

    /// How much validity a fresh lock must have left; a round that leaves less has failed. Default
    /// zero.
    ///
    /// A lock that others hand over begins with up to some 3 s of its validity. Where that may
    /// leave too little, the caller is given a turn instead, which takes a round trip more.
    #[must_use]
    pub const fn min_validity(mut self, least: Duration) -> Self {
        self.min_validity = least;
        self
    }

    /// How long a round waits for a quorum at most. Default 2 s, or a third of the validity where
    /// that is shorter; at most 5 s, since no vote counts for longer.
    #[must_use]
    pub const fn round_timeout(mut self, timeout: Duration) -> Self {
        self.round_timeout = Some(timeout);
        self
    }

    /// Bounds of the pause between two rounds. Default 5 ms to 250 ms; pauses are drawn at random
    /// and scale with the measured round trip.
    #[must_use]
    pub const fn backoff(mut self, min: Duration, max: Duration) -> Self {
        self.backoff = Backoff { min, max };
        self
    }

    /// Whether callers in all processes are served first come first served. Default on.
    ///
    /// Off, callers ask again after random pauses and overtake those who wait, as other clients do:
    /// more sections a second where nodes are near, and no bound on how long an unlucky caller
    /// waits.
    #[must_use]
    pub const fn fair(mut self, on: bool) -> Self {
        self.barging = !on;
        self
    }

    /// How long [`acquire_default`](crate::QuorumLock::acquire_default) waits. Default 10 s; zero
    /// makes one try, and `Duration::MAX` waits for ever.
    #[must_use]
    pub const fn wait(mut self, timeout: Duration) -> Self {
        self.wait = Some(timeout);
        self
    }

    /// After how many rounds of votes that were not won an acquisition gives up, if its time does
    /// not end before. Default: no bound; at least 1.
    ///
    /// A round asks each node once; where a node knows of a later claim, it is asked again in the
    /// same round. Between two rounds a caller waits in the nodes' queues, until it is worth asking
    /// again or the lock is handed over to it: for a third of the ttl at most. Behind other callers
    /// of this process it waits for its turn for as long as so many rounds may take, which is
    /// `most` times the [`round_timeout`](Self::round_timeout). Whoever is given up then fails as
    /// if the time had ended, with `Timeout`, and the error names `max_rounds`; with `Unavailable`
    /// where the nodes are the reason.
    ///
    /// With 1, a caller waits for its turn in this process, and for nobody else.
    #[must_use]
    pub const fn max_rounds(mut self, most: u32) -> Self {
        self.max_rounds = Some(most);
        self
    }

    /// The share by which clocks may run apart before a node's counts as stepped: never less than
    /// clocks do.
    pub(crate) const fn clock_rate(&self) -> f64 {
        self.drift.factor.max(0.01)
    }

    /// The same for a lock of a quorum whose own options are `shared`: by those its nodes' clocks
    /// are judged.
    pub(crate) fn checked_for(&self, shared: &Self, max_ttl: Duration) -> Result<Rules> {
        let (factor, rate) = (self.drift.factor, shared.clock_rate());
        let rules = self.checked(max_ttl)?;
        require(factor <= rate, || {
            format!(
                "drift_factor is {factor}, above the quorum's {rate}, by which its nodes' clocks are judged; set {factor} in \
                 QuorumBuilder::options, or use at most {rate} here"
            )
        })?;
        Ok(rules)
    }

    /// Checks all options together. `max_ttl` zero means no bound but [`MAX_TTL`].
    pub(crate) fn checked(&self, max_ttl: Duration) -> Result<Rules> {
        let ttl = self.ttl.unwrap_or(30 * SECOND);
        let longest = if max_ttl.is_zero() { MAX_TTL } else { max_ttl };
        require(ttl >= MIN_TTL, || format!("ttl is {}; use at least {}", exact(ttl), exact(MIN_TTL)))?;
        require(ttl <= MAX_TTL, || too_long("ttl", ttl))?;
        require(ttl <= longest, || {
            format!(
                "ttl is {}, above max_ttl; use at most {}, or raise max_ttl (restarted nodes then wait that long)",
                exact(ttl),
                exact(longest)
            )
        })?;
        let factor = self.drift.factor;
        require((0.0..=0.2).contains(&factor), || format!("drift_factor is {factor}; use 0 to 0.2, by default 0.01"))?;
        let constant = self.drift.constant;
        require(constant >= LEAST_DRIFT, || {
            let (constant, least) = (exact(constant), exact(LEAST_DRIFT));
            format!("drift_constant is {constant}; use at least {least}: nodes count whole milliseconds")
        })?;
        let drift = self.drift.of(ttl);
        require(drift < ttl / 2, || {
            let (drift, ttl) = (exact(drift), exact(ttl));
            format!("drift is {drift}, half of ttl or more; lower drift_constant or raise ttl ({ttl})")
        })?;
        let validity = Validity::new(ttl, self.drift);
        let length = validity.length();
        let least = self.min_validity;
        require(least < length, || {
            let (least, length) = (exact(least), exact(length));
            format!("min_validity is {least}; use less than {length}, which is ttl minus drift")
        })?;
        let round = self.round_timeout.unwrap_or((length / 3).min(2 * SECOND));
        require(!round.is_zero() && round <= length - least, || {
            format!(
                "round_timeout is {}; use more than zero and at most {}, which is ttl minus drift and min_validity",
                exact(round),
                exact(length - least)
            )
        })?;
        require(round <= MAX_ROUND, || {
            format!("round_timeout is {}; use at most {}: no vote counts for longer", exact(round), exact(MAX_ROUND))
        })?;
        let Backoff { min, max } = self.backoff;
        require(!min.is_zero() && min <= max, || {
            let (min, max) = (exact(min), exact(max));
            format!("backoff is {min} to {max}; use a least pause above zero and not above the greatest")
        })?;
        require(self.max_hold.is_none_or(|longest| longest >= ttl), || {
            format!(
                "max_hold is {}; use at least ttl ({}), or turn auto_renew off",
                exact(self.max_hold.unwrap_or_default()),
                exact(ttl)
            )
        })?;
        require(self.max_rounds != Some(0), || "max_rounds is 0; use at least 1".to_owned())?;
        Ok(Rules {
            validity,
            drift: self.drift,
            min_validity: least,
            round_timeout: round,
            auto_renew: !self.manual,
            max_hold: self.max_hold,
            backoff: self.backoff,
            fair: !self.barging,
            wait: self.wait.unwrap_or(10 * SECOND),
            max_rounds: self.max_rounds,
        })
    }
}

/// One lock's options, checked, with what follows from them.
#[derive(Clone, Debug)]
pub(crate) struct Rules {
    pub(crate) validity: Validity,
    pub(crate) drift: Drift,
    pub(crate) min_validity: Duration,
    pub(crate) round_timeout: Duration,
    pub(crate) auto_renew: bool,
    pub(crate) max_hold: Option<Duration>,
    pub(crate) backoff: Backoff,
    pub(crate) fair: bool,
    /// How long those wait who do not say.
    pub(crate) wait: Duration,
    pub(crate) max_rounds: Option<u32>,
}

impl Rules {
    /// Whether an acquisition gives up after so many rounds.
    pub(crate) fn spent(&self, rounds: u32) -> bool {
        self.max_rounds.is_some_and(|most| rounds >= most)
    }

    /// For how long a caller waits for its turn in this process, where that is bounded.
    pub(crate) fn longest_turn(&self) -> Option<Duration> {
        self.max_rounds.map(|most| self.round_timeout.saturating_mul(most))
    }
}

/// What a quorum needs to know. See [`QuorumBuilder`](crate::QuorumBuilder) for what each means.
/// Not `Debug`: addresses may hold passwords.
#[derive(Clone)]
pub(crate) struct Settings {
    pub(crate) addresses: Vec<String>,
    pub(crate) options: LockOptions,
    pub(crate) prefix: String,
    pub(crate) key_format: Option<String>,
    pub(crate) client_name: String,
    pub(crate) max_ttl: Duration,
    pub(crate) node_timeout: Duration,
    pub(crate) connect_timeout: Duration,
    pub(crate) max_waiters: usize,
    pub(crate) onlooker: bool,
    /// Which protocol it says it speaks: another than this build's in tests only.
    pub(crate) protocol: u32,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            addresses: Vec::new(),
            options: LockOptions::default(),
            prefix: "quorumlock:".to_owned(),
            key_format: None,
            client_name: "quorumlock".to_owned(),
            max_ttl: 60 * SECOND,
            node_timeout: 2 * SECOND,
            connect_timeout: 10 * SECOND,
            max_waiters: 65_536,
            onlooker: false,
            protocol: PROTOCOL,
        }
    }
}

impl Settings {
    /// Checks everything but the addresses.
    pub(crate) fn checked(&self) -> Result<Rules> {
        require(!self.prefix.is_empty(), || {
            "key_prefix is empty; name one, such as \"quorumlock:\", so that no other program's keys are in the way"
                .to_owned()
        })?;
        require(self.prefix.len() <= 128 && !self.prefix.contains(['{', '}', '\0']), || {
            "key_prefix must have at most 128 bytes, and none of { } NUL".to_owned()
        })?;
        self.key_format.as_deref().map_or(Ok(()), checked_format)?;
        let printable = |name: &str| name.bytes().all(|byte| byte.is_ascii_graphic());
        require(printable(&self.client_name) && (1..=64).contains(&self.client_name.len()), || {
            "client_name must have 1 to 64 printable ASCII characters and no space, since CLIENT SETNAME takes no others".to_owned()
        })?;
        let millisecond = Duration::from_millis(1);
        require((millisecond..=60 * SECOND).contains(&self.node_timeout), || {
            format!("node_timeout is {}; use 1 ms to 60 s", exact(self.node_timeout))
        })?;
        require(!self.connect_timeout.is_zero(), || "connect_timeout is zero; use some seconds".to_owned())?;
        require(self.max_ttl <= MAX_TTL, || too_long("max_ttl", self.max_ttl))?;
        require(self.max_waiters > 0, || "max_waiters is zero; use at least 1".to_owned())?;
        self.options.checked(self.max_ttl)
    }

    /// The name `text` as it is on the nodes.
    pub(crate) fn name(&self, text: &str) -> Result<Name> {
        match &self.key_format {
            Some(format) if !text.is_empty() => Name::new(&self.prefix, &format.replacen(NAME, text, 1)),
            _ => Name::new(&self.prefix, text),
        }
    }

    /// A name that the key format is not for: it begins with one that it was for.
    pub(crate) fn plain_name(&self, text: &str) -> Result<Name> {
        Name::new(&self.prefix, text)
    }

    /// How callers call the name that nodes know by this text: what [`name`](Self::name) was given.
    /// `None` where it is of another format.
    pub(crate) fn told(&self, text: &Arc<str>) -> Option<Arc<str>> {
        let Some(format) = &self.key_format else { return Some(text.clone()) };
        let (before, after) = format.split_once(NAME)?;
        let text = text.strip_prefix(before)?.strip_suffix(after)?;
        (!text.is_empty()).then(|| text.into())
    }

    /// Reads the addresses.
    pub(crate) fn endpoints(&self) -> Result<Vec<Endpoint>> {
        let count = self.addresses.len();
        require(count > 0, || "no node is configured; name at least one, or better three or five".to_owned())?;
        require(count <= MAX_NODES, || format!("{count} nodes are configured; use at most {MAX_NODES}"))?;
        let read = |(index, address): (usize, &String)| {
            Endpoint::parse(address).map_err(|error| Error::config(format!("node {} of {count}: {error}", index + 1)))
        };
        let endpoints = self.addresses.iter().enumerate().map(read).collect::<Result<Vec<_>>>()?;
        for (index, endpoint) in endpoints.iter().enumerate() {
            let again = endpoints[..index].iter().any(|other| other.to_string() == endpoint.to_string());
            require(!again, || format!("the node {endpoint} is configured twice; name each server once"))?;
        }
        if count.is_multiple_of(2) {
            tracing::warn!(nodes = count, "an even number of nodes tolerates no more failures than one node fewer");
        }
        Ok(endpoints)
    }
}

/// Two names never become the same: what stands around them is always the same.
fn checked_format(format: &str) -> Result<()> {
    require(format.matches(NAME).count() == 1, || {
        format!("key_format must have {NAME} in it, once, as in \"tenant/{NAME}\"")
    })?;
    let around = format.replacen(NAME, "", 1);
    require(around.len() <= 512 && !around.contains(['{', '}', '\0']), || {
        format!("key_format must have at most 512 bytes, and none of {{ }} NUL but in {NAME}")
    })
}

fn too_long(what: &str, time: Duration) -> String {
    format!(
        "{what} is {}; use at most {}: for so long is a node kept out that restarts. A lock that is held for longer is \
         renewed by itself",
        exact(time),
        exact(MAX_TTL)
    )
}

fn require(right: bool, otherwise: impl FnOnce() -> String) -> Result<()> {
    if right { Ok(()) } else { Err(Error::config(otherwise())) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);
    const GUARD: Duration = Duration::from_secs(60);

    fn said(options: LockOptions) -> String {
        options.checked(GUARD).map_or_else(|error| error.to_string(), |rules| format!("{rules:?}"))
    }

    #[test]
    fn what_makes_no_sense_is_refused_by_the_fields_name() {
        let options = LockOptions::default;
        for (options, field) in [
            (options().ttl(Duration::ZERO), "ttl is 0 s; use at least 100 ms"),
            (options().ttl(MS), "ttl is 1 ms"),
            (options().ttl(61 * SECOND), "ttl is 61 s, above max_ttl"),
            (options().drift_factor(f64::NAN), "drift_factor is NaN"),
            (options().drift_factor(-0.1), "drift_factor"),
            (options().ttl(100 * MS).drift_constant(50 * MS), "drift is 51 ms"),
            (options().drift_constant(Duration::ZERO), "drift_constant is 0 s; use at least 2 ms"),
            (options().drift_constant(2 * MS - Duration::from_nanos(1)), "drift_constant is 1.999999 ms"),
            (options().ttl(SECOND).min_validity(988 * MS), "min_validity is 988 ms; use less than 988 ms"),
            (options().round_timeout(Duration::ZERO), "round_timeout"),
            (options().ttl(SECOND).round_timeout(SECOND), "round_timeout is 1 s"),
            (options().round_timeout(6 * SECOND), "round_timeout is 6 s; use at most 5 s"),
            (options().backoff(10 * MS, MS), "backoff"),
            (options().backoff(Duration::ZERO, MS), "backoff"),
            (options().max_rounds(0), "max_rounds is 0; use at least 1"),
            (options().max_hold(SECOND), "max_hold is 1 s; use at least ttl (30 s)"),
        ] {
            assert!(said(options).contains(field), "{field}");
        }
    }

    #[test]
    fn without_the_restart_guard_a_ttl_may_be_long_but_not_endless() {
        assert!(LockOptions::default().ttl(3_600 * SECOND).checked(Duration::ZERO).is_ok());
        assert!(LockOptions::default().ttl(MAX_TTL).checked(Duration::ZERO).is_ok());
        for ttl in [MAX_TTL + MS, 365 * MAX_TTL, Duration::MAX] {
            let refused = LockOptions::default().ttl(ttl).checked(Duration::ZERO).unwrap_err();
            assert!(refused.is_config() && refused.to_string().contains("use at most 24 h"), "{refused}");
            assert!(
                refused.to_string().contains("is renewed by itself") && !refused.to_string().contains("raise max_ttl"),
                "{refused}"
            );
        }
    }

    #[test]
    fn the_shortest_ttl_has_rounds_that_fit() {
        let rules = LockOptions::default().ttl(MIN_TTL).checked(GUARD).unwrap();
        assert_eq!(rules.validity.length(), 97 * MS);
        assert!(rules.round_timeout * 3 <= rules.validity.length());
    }

    fn settings(addresses: &[&str]) -> Settings {
        Settings { addresses: addresses.iter().map(|&address| address.to_owned()).collect(), ..Settings::default() }
    }

    #[test]
    fn no_node_and_the_same_node_twice_are_refused() {
        assert!(settings(&[]).endpoints().unwrap_err().to_string().contains("no node"));
        let twice = settings(&["redis://eu", "redis://us", "redis://:pw@eu:6379"]).endpoints().unwrap_err();
        assert_eq!(twice.to_string(), "the node redis://eu:6379 is configured twice; name each server once");
        assert_eq!(settings(&["redis://eu", "redis://us"]).endpoints().unwrap().len(), 2);
    }

    #[test]
    fn quorum_settings_are_checked_by_name() {
        let check = |change: fn(&mut Settings)| {
            let mut settings = Settings::default();
            change(&mut settings);
            settings.checked().unwrap_err().to_string()
        };
        assert!(check(|settings| settings.prefix = "a{b".into()).contains("key_prefix"));
        assert!(check(|settings| settings.prefix = String::new()).contains("key_prefix is empty"));
        for (format, says) in [
            ("", "key_format must have {name} in it"),
            ("tenant", "as in \"tenant/{name}\""),
            ("{name}/{name}", "once"),
            ("{tenant}/{name}", "none of { } NUL"),
            ("{{name}}", "none of { } NUL"),
            ("a\0{name}", "none of { } NUL"),
        ] {
            let settings = Settings { key_format: Some(format.to_owned()), ..Settings::default() };
            let said = settings.checked().unwrap_err().to_string();
            assert!(said.contains(says), "{format}: {said}");
        }
        assert!(check(|settings| settings.key_format = Some(format!("{}{{name}}", "x".repeat(513)))).contains("512"));
        assert!(check(|settings| settings.client_name = "a b".into()).contains("client_name"));
        assert!(check(|settings| settings.node_timeout = Duration::ZERO).contains("node_timeout"));
        assert!(check(|settings| settings.connect_timeout = Duration::ZERO).contains("connect_timeout"));
        assert!(check(|settings| settings.max_ttl = Duration::MAX).contains("max_ttl"));
        assert!(check(|settings| settings.max_ttl = MAX_TTL + MS).contains("use at most 24 h"));
        assert!(check(|settings| settings.max_ttl = SECOND).contains("ttl is 30 s, above max_ttl"));
        assert!(check(|settings| settings.max_waiters = 0).contains("max_waiters"));
    }

    #[test]
    fn a_key_format_keeps_names_apart_and_they_stay_as_bad_as_they_are() {
        let settings = |format: &str| Settings { key_format: Some(format.to_owned()), ..Settings::default() };
        let tenant = settings("tenant/{name}/lock");
        tenant.checked().unwrap();
        for (name, key) in [("a", "quorumlock:{tenant/a/lock}"), ("{name}", "quorumlock:{tenant/{name}/lock}")] {
            assert_eq!(&**tenant.name(name).unwrap().key(), key);
        }
        assert!(tenant.name("").unwrap_err().to_string().contains("name is empty"));
        assert!(tenant.name("a\0").unwrap_err().to_string().contains("NUL"));
        assert!(tenant.name(&"x".repeat(1_020)).unwrap_err().to_string().contains("use at most 1024"));
        assert_eq!(settings("{name}").name("a").unwrap(), Settings::default().name("a").unwrap());
    }

    #[test]
    fn a_name_is_told_as_it_was_given_and_those_of_other_formats_are_not() {
        let tenant = Settings { key_format: Some("tenant/{name}/lock".to_owned()), ..Settings::default() };
        for name in ["a", "{name}", "/", "tenant/a/lock"] {
            for settings in [&tenant, &Settings::default()] {
                assert_eq!(settings.told(settings.name(name).unwrap().text()).as_deref(), Some(name));
            }
        }
        for other in ["tenant//lock", "tenant/lock", "tenant/a", "a/lock", "other/a/lock"] {
            assert_eq!(tenant.told(&other.into()), None, "{other}");
        }
    }
}
