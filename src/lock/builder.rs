//! Builds a quorum from settings, and connects it.

use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;

use super::inner::Inner;
use super::quorum::Quorum;
use crate::config::{LockOptions, MAX_NODES, NodeAddress, Rules, Settings};
use crate::error::{Error, Result, no_runtime};
use crate::host::{self, Host, System, TokioTime};
use crate::lease::Leases;
use crate::metrics::Meters;
use crate::node::hint::channel;
use crate::node::operation::{Intent, record_key};
use crate::node::redis::transport::Dialer;
use crate::node::redis::{self, CredentialsProvider, Endpoint, RedisNode, Registry, Site, Tls, Transport};
use crate::node::{MemoryNode, Node};
use crate::protocol::{MAX_PENDING, Membership, OrphanedGrants, PendingReleases, Voters, Wakeups};
use crate::rules::Size;
use crate::rules::list::{List, PROTOCOL};

/// Settings of a quorum. [`connect`](Self::connect) makes the quorum from them.
#[derive(Clone, Default)]
#[must_use = "a builder does nothing until it connects"]
pub struct QuorumBuilder {
    settings: Settings,
}

impl QuorumBuilder {
    /// The quorum's name in metrics and traces: the value of the label `quorum`. It has 1 to 64 of
    /// the characters `a-z A-Z 0-9 _ . -`. Default: `default`.
    ///
    /// Give each quorum of a process a name of its own. Quorums with the same name share their
    /// metrics: a gauge such as `quorumlock_node_up` shows the value that was set last, by any of
    /// these quorums.
    pub fn name(mut self, name: impl Into<Arc<str>>) -> Self {
        self.settings.quorum = name.into();
        self
    }

    /// Adds one node: a master that is independent of the other nodes. The address is one of
    ///
    /// * `redis://[user[:password]@]host[:port][/database]`, plain text,
    /// * `rediss://...[?ca=file&cert=file&key=file&server_name=name]`, the same over TLS, which needs
    ///   the feature `tls` or `tls-aws-lc`. The query sets [`Tls`] options of this node: authorities,
    ///   the client's certificate with its key, and the name in the server's certificate. These
    ///   options override those of [`tls`](Self::tls).
    /// * `redis+unix://[user[:password]@]/path/to/socket[?db=database]`, on Unix.
    ///
    /// The default port is 6379, and the default database 0. User and password are percent-encoded,
    /// and never shown. If you set [`credentials`](Self::credentials), you can omit both.
    ///
    /// The node's name in the [list](Self::list_name) is its address without scheme, user and
    /// options (`eu.example:6379`). The option `?name=eu` of any address, or
    /// [`node_named`](Self::node_named), sets another name.
    ///
    /// Nodes are trusted. A node that sends replies without end can fill this process's memory.
    /// With fred, a reply with hundreds of nested arrays can end the process by a stack overflow:
    /// fred's parser, redis-protocol 6, limits neither the size nor the depth of replies. redis-rs
    /// refuses replies with more than a hundred levels.
    pub fn node(mut self, address: impl Into<String>) -> Self {
        self.settings.nodes.push(NodeAddress::unnamed(address.into()));
        self
    }

    /// Adds several nodes.
    pub fn nodes<A: Into<String>>(self, addresses: impl IntoIterator<Item = A>) -> Self {
        addresses.into_iter().fold(self, Self::node)
    }

    /// Adds one node with this name: 1 to 64 printable ASCII characters and no space.
    ///
    /// All clients must give a node the same name. A node needs an explicit name if clients use
    /// different addresses for it, or if a server at another address will replace its server.
    pub fn node_named(mut self, name: impl Into<Arc<str>>, address: impl Into<String>) -> Self {
        self.settings.nodes.push(NodeAddress { name: Some(name.into()), address: address.into() });
        self
    }

    /// The name of this client's list of nodes: 1 to 64 printable ASCII characters and no space.
    /// Default: `default`. The list consists of this name, the nodes' names and
    /// [`max_ttl`](Self::max_ttl).
    ///
    /// Clients that may want the same locks must have the same list. A node keeps one list in
    /// force, and votes only for clients of this list. The list stays in force while its clients
    /// are connected, and for `max_ttl` and 15 s more. In this time, clients with another list *of
    /// the same name* acquire nothing: otherwise two clients could hold one lock, each by its own
    /// quorum.
    ///
    /// Clients whose lists have different names do not stop each other. Each client acquires locks
    /// if its list is in force on a quorum of its nodes. Use different names only if the clients
    /// never want the same locks.
    pub fn list_name(mut self, name: impl Into<String>) -> Self {
        self.settings.list = name.into();
        self
    }

    /// The options of all locks that get no options of their own.
    pub fn options(mut self, options: LockOptions) -> Self {
        self.settings.options = options;
        self
    }

    /// Shorthand for the default options' [`ttl`](LockOptions::ttl). Default 30 s.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.settings.options = self.settings.options.ttl(ttl);
        self
    }

    /// Shorthand for the default options' [`wait`](LockOptions::wait). Default 10 s.
    pub fn wait(mut self, timeout: Duration) -> Self {
        self.settings.options = self.settings.options.wait(timeout);
        self
    }

    /// The prefix of all keys on the nodes. Default `quorumlock:`. Clients with different prefixes
    /// do not see each other's locks.
    pub fn key_prefix(mut self, prefix: impl Into<String>) -> Self {
        self.settings.prefix = prefix.into();
        self
    }

    /// How a lock's name becomes its key: a text that contains `{name}` once, as in
    /// `"acme/{name}"`. Default: `{name}` alone.
    ///
    /// Use formats if several tenants of a program use the same names: give each tenant a quorum
    /// with its own format. Different names never get the same key. A Redis user can be limited to
    /// the keys of one tenant (`~quorumlock:{acme/*`). Clients with different formats share the
    /// nodes' records and lists. Clients with different [key prefixes](Self::key_prefix) have
    /// separate records and lists. The text around `{name}` may have 512 bytes, and no `{`, `}` or
    /// NUL.
    ///
    /// Most calls, such as [`Lease::name`](crate::Lease::name), return the formatted name,
    /// `acme/orders`. By this name, a client without a format can use the same lock. But
    /// [`Session::held`](crate::Session::held), [`Conflict`](crate::Conflict) and
    /// [`Quorum::held_names`] return names without the format, so that you can pass these names to
    /// other calls. `held_names` lists only names of this format.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> quorumlock::Result<()> {
    /// use quorumlock::Quorum;
    ///
    /// let tenant = "acme";
    /// let quorum = Quorum::builder().key_format(format!("{tenant}/{{name}}")).in_memory(3)?;
    /// let guard = quorum.lock("orders").acquire_default().await?;
    /// assert_eq!(guard.name(), "acme/orders");
    /// # Ok(())
    /// # }
    /// ```
    pub fn key_format(mut self, format: impl Into<String>) -> Self {
        self.settings.key_format = Some(format.into());
        self
    }

    /// The first part of the connections' names in the servers' `CLIENT LIST`. Default
    /// `quorumlock`. The whole name is `NAME:VERSION:LIST:HASH:HOST/PID/UUID`: this part, the
    /// library's version, the name and the hash of the list of nodes, and the client's id. The
    /// owner ids of the client's locks begin with the client's id.
    pub fn client_name(mut self, name: impl Into<String>) -> Self {
        self.settings.client_name = name.into();
        self
    }

    /// The longest ttl of any lock. Default 60 s; at most 24 h. Options with a longer ttl are
    /// refused.
    ///
    /// `max_ttl` is also the time of the *restart guard*. A node that restarted or lost data may
    /// have forgotten locks, and a node whose clock was stepped may have ended locks early. Such a
    /// node votes on claims only after `max_ttl`. So does a new server, with two exceptions:
    /// [`Quorum::init`] was called, or the server has run for longer than 1.25 `max_ttl` and, since
    /// its start, was not flushed, evicted nothing and was never a replica. Zero switches the guard
    /// off, for tests and demos: without the guard, a restarted node can grant a lock twice.
    ///
    /// `max_ttl` is part of the [list](Self::list_name), so all clients must have the same value.
    ///
    /// The restart guard does not notice [every loss](crate::Doubt#what-cannot-be-seen).
    pub fn max_ttl(mut self, longest: Duration) -> Self {
        self.settings.max_ttl = longest;
        self
    }

    /// Makes an onlooker: a client that never acquires locks. [`inspect`](Quorum::inspect),
    /// [`members`](Quorum::members), [`revoke`](Quorum::revoke) and
    /// [`force_release`](Quorum::force_release) work. An onlooker writes no records to nodes and
    /// puts no list in force, so it may connect to the nodes of any clients. [`Quorum::init`] needs
    /// an onlooker.
    pub const fn onlooker(mut self) -> Self {
        self.settings.onlooker = true;
        self
    }

    /// The client library that connects to Redis nodes. Default: [`Transport::Fred`].
    pub const fn transport(mut self, transport: Transport) -> Self {
        self.settings.transport = transport;
        self
    }

    /// The TLS options of nodes whose addresses begin with `rediss://`. TLS needs the feature `tls`
    /// or `tls-aws-lc`. Default: the system's authorities are trusted, and the client has no
    /// certificate. Certificate files are read when the quorum is opened, before anything is sent,
    /// and again at each connection.
    pub fn tls(mut self, tls: Tls) -> Self {
        self.settings.tls = tls;
        self
    }

    /// The provider of user and password, for nodes whose addresses have no password: a
    /// [`PasswordFile`](crate::PasswordFile) or a [type of your own](CredentialsProvider). The
    /// client calls the provider for each new connection.
    pub fn credentials(mut self, provider: impl CredentialsProvider) -> Self {
        self.settings.credentials = Some(Arc::new(provider));
        self
    }

    /// The time that one node may take for a reply, and for each step of connecting. Default 2 s,
    /// which suits round trips of up to a second. After three timeouts in a row, the client
    /// connects to the node anew.
    pub fn node_timeout(mut self, timeout: Duration) -> Self {
        self.settings.node_timeout = timeout;
        self
    }

    /// How long [`connect`](Self::connect) waits for a quorum. Default 15 s. Connecting to a node
    /// takes about five round trips, one or two more with TLS, and one more to select a database.
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.settings.connect_timeout = timeout;
        self
    }

    /// How many callers of this process may hold one name or wait for it at one time. Default
    /// 65,536. Further callers get `Contended`.
    pub fn max_callers(mut self, most: usize) -> Self {
        self.settings.max_callers = most;
        self
    }

    /// Connects, and returns when a quorum of nodes is connected and checked. The other nodes join
    /// later, as soon as they can be reached.
    ///
    /// Install a recorder of metrics before this call, which describes the metrics to the recorder.
    ///
    /// The quorum lives on the runtime of this call. When that runtime has ended, every call fails
    /// with `Config`: connect once per runtime.
    ///
    /// If a process forks, connect after the fork, in each child. A child inherits the sockets and
    /// the identity of its parent's quorum, but no task of the quorum runs in the child. So the
    /// child could release a lock of the parent, or look like the lock's holder.
    ///
    /// # Errors
    /// `Config` if a setting is invalid, if two addresses lead to the same server, or outside of a
    /// Tokio runtime. `Unavailable` if no quorum was connected and checked within
    /// [`connect_timeout`](Self::connect_timeout), with a report on each node. The reason may be
    /// that clients of another [list](Self::list_name) of the same name use these nodes.
    ///
    /// # Cancel safety
    /// Safe: all connections are closed.
    pub async fn connect(self) -> Result<Quorum> {
        let patience = self.settings.connect_timeout;
        let quorum = self.open()?;
        quorum.ready(patience).await?;
        Ok(quorum)
    }

    /// Starts to connect and returns at once. Use this for services that must start even if nodes
    /// are down, and for tools that look at single nodes.
    ///
    /// # Errors
    /// `Config` if a setting is invalid, or outside of a Tokio runtime.
    pub fn open(self) -> Result<Quorum> {
        let rules = self.settings.checked()?;
        let dialer = |endpoint: Endpoint| {
            let (name, site) = (endpoint.name(), Site::new(endpoint, self.settings.credentials.clone()));
            (name, self.settings.transport.dialer(site))
        };
        let dialers = self.settings.endpoints()?.into_iter().map(dialer).collect();
        let host: Arc<dyn Host> = Arc::new(System::new(runtime()?));
        self.dial(rules, host, dialers, |_, node| Arc::new(node))
    }

    /// A quorum over Redis nodes, with the caller's own connections and host, for simulations. The
    /// nodes' names come from the dialers' addresses. `wrap` gets each node with its number, and
    /// returns the node that the quorum uses. Starts to connect and returns at once.
    ///
    /// # Errors
    /// `Config` if a setting is invalid, or for no node or more than 64.
    #[cfg(feature = "unstable")]
    pub fn over_dialers(
        self,
        host: Arc<dyn Host>,
        dialers: Vec<Arc<dyn Dialer>>,
        wrap: impl Fn(usize, RedisNode) -> Arc<dyn Node>,
    ) -> Result<Quorum> {
        let rules = self.settings.checked()?;
        accept(dialers.len())?;
        let named = |dialer: Arc<dyn Dialer>| (Endpoint::name_of(&dialer.address()), dialer);
        self.dial(rules, host, dialers.into_iter().map(named).collect(), wrap)
    }

    fn dial(
        self,
        rules: Rules,
        host: Arc<dyn Host>,
        dialers: Vec<(Arc<str>, Arc<dyn Dialer>)>,
        wrap: impl Fn(usize, RedisNode) -> Arc<dyn Node>,
    ) -> Result<Quorum> {
        if self.settings.max_ttl.is_zero() {
            tracing::warn!(
                "max_ttl is zero: the restart guard is off, and a node that restarts may grant a lock twice"
            );
        }
        let registry = Arc::new(Registry::new(dialers.len()));
        let membership = membership(&self.settings, &rules, dialers.iter().map(|(name, _)| name.clone()).collect());
        let meters = meters(&self.settings, dialers.len());
        let client = client(&*host);
        let client_name = connection_name(&self.settings, membership.list.hash(), &client);
        let wakeups = Wakeups::new(client, host.clone(), meters.hints());
        let settings = redis::Settings {
            quorum: meters.quorum().clone(),
            timeout: self.settings.node_timeout,
            max_ttl: self.settings.max_ttl,
            list: membership.list.clone(),
            greets: Intent::Look,
            drift: self.settings.options.clock_rate(),
            record: record_key(&self.settings.prefix).into(),
            client_name,
            channel: channel(&self.settings.prefix).into(),
            listener: wakeups.clone(),
        };
        let node = |(index, (name, dialer))| {
            wrap(index, RedisNode::new(index, name, dialer, settings.clone(), host.clone(), registry.clone()))
        };
        let nodes = dialers.into_iter().enumerate().map(node).collect();
        let leases = leases(nodes, host.clone(), wakeups, membership, meters);
        Ok(Quorum(Arc::new(Inner::new(leases, host, rules, self.settings, Some(registry)))))
    }

    /// A quorum of `nodes` nodes in this process's memory. The builder's addresses are ignored. The
    /// quorum uses Tokio's clock, which tests can pause.
    ///
    /// # Errors
    /// `Config` for an invalid setting, for no node or more than 64, or outside of a Tokio runtime.
    pub fn in_memory(self, nodes: usize) -> Result<Quorum> {
        let host: Arc<dyn Host> = Arc::new(TokioTime::new(runtime()?));
        let node = |index| -> Arc<dyn Node> { Arc::new(MemoryNode::new(&format!("memory://{index}"), host.clone())) };
        self.with_nodes(host.clone(), (0..nodes.min(MAX_NODES + 1)).map(node).collect())
    }

    /// A quorum over the caller's own nodes and host: for simulations and other kinds of nodes.
    ///
    /// # Errors
    /// `Config` if a setting is invalid, or for no node or more than 64.
    #[cfg(feature = "unstable")]
    pub fn over(self, host: Arc<dyn Host>, nodes: Vec<Arc<dyn Node>>) -> Result<Quorum> {
        self.with_nodes(host, nodes)
    }

    fn with_nodes(self, host: Arc<dyn Host>, nodes: Vec<Arc<dyn Node>>) -> Result<Quorum> {
        let rules = self.settings.checked()?;
        accept(nodes.len())?;
        let meters = meters(&self.settings, nodes.len());
        let wakeups = Wakeups::new(client(&*host), host.clone(), meters.hints());
        let membership = membership(&self.settings, &rules, nodes.iter().map(|node| node.label().clone()).collect());
        let leases = leases(nodes, host.clone(), wakeups, membership, meters);
        Ok(Quorum(Arc::new(Inner::new(leases, host, rules, self.settings, None))))
    }
}

impl Quorum {
    /// Settings for a new quorum.
    pub fn builder() -> QuorumBuilder {
        QuorumBuilder::default()
    }

    /// A quorum of `nodes` nodes in this process's memory, for examples and tests. Its locks
    /// exclude only other callers in this process.
    ///
    /// # Errors
    /// `Config` for no node or more than 64, and outside of a Tokio runtime.
    pub fn in_memory(nodes: usize) -> Result<Self> {
        Self::builder().in_memory(nodes)
    }

    /// Another client of the same nodes in memory, as if it ran in another process.
    #[cfg(feature = "testing")]
    pub(crate) fn beside(&self) -> Result<Self> {
        self.0.in_memory()?;
        self.0.usable()?;
        let builder = QuorumBuilder { settings: self.0.settings.clone() };
        builder.with_nodes(self.0.host.clone(), self.0.leases.voters.nodes.clone())
    }

    #[cfg(feature = "testing")]
    pub(crate) fn ttl(&self) -> Duration {
        self.0.rules.validity.ttl()
    }
}

impl std::fmt::Debug for QuorumBuilder {
    /// Omits the addresses: they may contain passwords.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let nodes = self.settings.nodes.len();
        f.debug_struct("QuorumBuilder")
            .field("nodes", &nodes)
            .field("options", &self.settings.options)
            .finish_non_exhaustive()
    }
}

fn accept(nodes: usize) -> Result<()> {
    if (1..=MAX_NODES).contains(&nodes) {
        return Ok(());
    }
    Err(Error::config(format!("a quorum has 1 to {MAX_NODES} nodes")))
}

fn runtime() -> Result<Handle> {
    Handle::try_current().map_err(|_| no_runtime())
}

fn membership(settings: &Settings, rules: &Rules, names: Vec<Arc<str>>) -> Membership {
    let list = Arc::new(List::new(&settings.list, &names, settings.max_ttl));
    let (round_timeout, onlooker) = (rules.round_timeout, settings.onlooker);
    Membership { list, names, round_timeout, onlooker }
}

/// The metrics of this quorum. Describes all metrics to the recorder, so call this before the nodes
/// register theirs.
fn meters(settings: &Settings, nodes: usize) -> Meters {
    let size = Size::of(u32::try_from(nodes).unwrap_or(u32::MAX));
    Meters::new(settings.quorum.clone().into(), size.quorum(), PROTOCOL)
}

fn leases(
    nodes: Vec<Arc<dyn Node>>,
    host: Arc<dyn Host>,
    wakeups: Arc<Wakeups>,
    membership: Membership,
    meters: Meters,
) -> Arc<Leases> {
    let (pending, again) = PendingReleases::channel(MAX_PENDING);
    let voters = Arc::new(Voters::new(nodes, host, wakeups, pending, membership, meters));
    OrphanedGrants::attach(&voters);
    Leases::start(voters, again)
}

/// The client's id: `host/pid/uuid`. Nobody can guess the random `uuid`.
fn client(host: &dyn Host) -> String {
    let random = (u128::from(host.random()) << 64) | u128::from(host.random());
    let uuid = uuid::Builder::from_random_bytes(random.to_be_bytes()).into_uuid();
    format!("{}/{}/{uuid}", host::machine(), std::process::id())
}

/// The name of a client's connections. `CLIENT SETNAME` accepts printable characters only.
fn connection_name(settings: &Settings, hash: &str, client: &str) -> Arc<str> {
    // `quorumlock clients` splits this text at colons from both ends. So only the list's name, in
    // the middle, may have colons.
    let (name, list, version) = (settings.client_name.replace(':', "?"), &settings.list, env!("CARGO_PKG_VERSION"));
    let printable = |letter: char| if letter.is_ascii_graphic() { letter } else { '?' };
    format!("{name}:{version}:{list}:{hash}:{client}").chars().map(printable).collect::<String>().into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::Task;
    use crate::rules::Tick;

    /// A host whose random numbers are all the same.
    #[derive(Debug)]
    struct Loaded(u64);

    impl Host for Loaded {
        fn now(&self) -> Tick {
            Tick::default()
        }

        fn wall(&self) -> Duration {
            Duration::ZERO
        }

        fn random(&self) -> u64 {
            self.0
        }

        fn spawn(&self, _: Task) {}
    }

    #[test]
    fn client_name_is_random_after_host_and_process() {
        let random = |number| client(&Loaded(number)).rsplit_once('/').map(|(_, uuid)| uuid.to_owned()).unwrap();
        let (zeros, ones) = (random(0), random(u64::MAX));
        let same: Vec<_> = zeros.chars().zip(ones.chars()).filter(|(zero, one)| zero == one).collect();
        // Only the dashes and the version of a random UUID are fixed.
        assert_eq!(same, [('-', '-'), ('-', '-'), ('4', '4'), ('-', '-'), ('-', '-')], "{zeros} {ones}");
    }
}
