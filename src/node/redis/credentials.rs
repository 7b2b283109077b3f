//! Users and passwords, which a provider can return for each new connection.

use std::borrow::Cow;
use std::fmt;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;

use super::dial::{Reached, Route, unless_plain};
use super::endpoint::Endpoint;
use crate::node::reply::{Fault, FaultKind};

/// A login for a node. [`Debug`](fmt::Debug) does not show the password.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    user: Option<String>,
    password: String,
}

impl Credentials {
    /// A password for the user in the node's address, or else for the server's default user.
    pub fn password(password: impl Into<String>) -> Self {
        Self { user: None, password: password.into() }
    }

    /// A user and its password. This user replaces the user in the node's address.
    pub fn user(user: impl Into<String>, password: impl Into<String>) -> Self {
        Self { user: Some(user.into()), password: password.into() }
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials").field("user", &self.user).finish_non_exhaustive()
    }
}

/// A future that returns credentials. Its error is shown as the reason why the node is down, so the
/// error must not contain a password.
pub type FetchingCredentials<'a> =
    Pin<Box<dyn Future<Output = Result<Credentials, Box<dyn std::error::Error + Send + Sync>>> + Send + 'a>>;

/// Returns the login for each node, for tokens that expire or passwords that change.
///
/// The client calls [`fetch`](Self::fetch) before each connection to a node whose address has no
/// password. Calls for several nodes may overlap. If a call fails, the node is down, and the client
/// tries again after 25 ms to 2 s. A new login does not affect open connections, because servers
/// check a login only once. [`PasswordFile`](crate::PasswordFile) is a provider.
///
/// # Examples
/// ```
/// use quorumlock::{Credentials, CredentialsProvider, FetchingCredentials};
///
/// struct Vault;
///
/// impl CredentialsProvider for Vault {
///     fn fetch<'a>(&'a self, node: &'a str) -> FetchingCredentials<'a> {
///         Box::pin(async move { Ok(Credentials::user("locks", format!("a token for {node}"))) })
///     }
/// }
///
/// let builder = quorumlock::Quorum::builder().node("rediss://eu:6380").credentials(Vault);
/// # drop(builder);
/// ```
pub trait CredentialsProvider: Send + Sync + 'static {
    /// Returns the credentials for a node. `node` is the node's address without user and password.
    /// Must not block the thread. The time limit is
    /// [`node_timeout`](crate::QuorumBuilder::node_timeout).
    ///
    /// # Cancel safety
    /// The client drops the future at the time limit, and when the quorum is closed.
    fn fetch<'a>(&'a self, node: &'a str) -> FetchingCredentials<'a>;
}

/// A server's address, the route to it, and the provider of its credentials.
pub(crate) struct Site {
    pub(super) endpoint: Endpoint,
    credentials: Option<Arc<dyn CredentialsProvider>>,
    route: Route,
}

impl Site {
    pub(crate) fn new(endpoint: Endpoint, credentials: Option<Arc<dyn CredentialsProvider>>) -> Self {
        Self { endpoint, credentials, route: Route::default() }
    }

    /// A site with another resolver of host names.
    #[cfg(test)]
    pub(super) fn by(endpoint: Endpoint, resolver: super::dial::Resolver) -> Self {
        Self { endpoint, credentials: None, route: Route::by(resolver) }
    }

    /// Opens a connection with `open`. The arguments of `open` are the endpoint with its present
    /// credentials, and the IP address to connect to (`None` for a Unix socket). `step` is the time
    /// limit of each step before `open`.
    ///
    /// # Cancel safety
    /// As cancel safe as `open`.
    pub(super) async fn opened<'a, T, F: Future<Output = Result<T, Fault>> + Send>(
        &'a self,
        step: Duration,
        open: impl FnOnce(Cow<'a, Endpoint>, Option<Reached>) -> F + Send,
    ) -> Result<T, Fault> {
        let endpoint = self.entered(step).await?;
        let reached = self.route.find(&endpoint.address, step).await?;
        let Some(address) = reached.as_ref().map(|reached| reached.address) else { return open(endpoint, None).await };
        let encrypted = endpoint.speaks_tls();
        let opening = open(endpoint, reached);
        let opened = if encrypted { unless_plain(address, step, opening).await } else { opening.await };
        self.route.used(address, opened.is_ok());
        opened
    }

    /// The endpoint with the present credentials. Cancel safe.
    async fn entered(&self, limit: Duration) -> Result<Cow<'_, Endpoint>, Fault> {
        let asked = self.credentials.as_ref().filter(|_| self.endpoint.password.is_none());
        let Some(provider) = asked else { return Ok(Cow::Borrowed(&self.endpoint)) };
        let node = self.endpoint.to_string();
        // Call `fetch` inside the future, so that a panic in `fetch` itself is caught too.
        let fetched = AssertUnwindSafe(async { provider.fetch(&node).await }).catch_unwind();
        let fetched = tokio::select! {
            biased;
            fetched = fetched => fetched,
            () = tokio::time::sleep(limit) => return Err(lacking("did not come within node_timeout")),
        };
        match fetched {
            Ok(Ok(Credentials { user, password })) => Ok(Cow::Owned(self.endpoint.entered_by(user, password))),
            Ok(Err(error)) => Err(lacking(&format!("could not be fetched: {error}"))),
            Err(_) => Err(lacking("could not be fetched: the provider panicked")),
        }
    }
}

impl From<Endpoint> for Site {
    fn from(endpoint: Endpoint) -> Self {
        Self::new(endpoint, None)
    }
}

impl fmt::Debug for Site {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Site").field(&self.endpoint).finish()
    }
}

fn lacking(why: &str) -> Fault {
    Fault::new(FaultKind::Down, format!("the credentials for this node {why}"))
}
