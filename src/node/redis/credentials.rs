//! Users and passwords that are asked for at each connection, since they may have changed.

use std::borrow::Cow;
use std::fmt;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;

use super::endpoint::Endpoint;
use super::reach::{Reached, Route, unless_plain};
use crate::node::reply::{Fault, FaultKind};

/// With what a client logs in to a node. [`Debug`](fmt::Debug) does not show the password.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    user: Option<String>,
    password: String,
}

impl Credentials {
    /// A password, of the user that the node's address names, else of the server's default user.
    pub fn password(password: impl Into<String>) -> Self {
        Self { user: None, password: password.into() }
    }

    /// A user and its password. The user goes before one that the address names.
    pub fn user(user: impl Into<String>, password: impl Into<String>) -> Self {
        Self { user: Some(user.into()), password: password.into() }
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials").field("user", &self.user).finish_non_exhaustive()
    }
}

/// Credentials on their way. An error is told as why the node is down: it must not hold a password.
pub type FetchingCredentials<'a> =
    Pin<Box<dyn Future<Output = Result<Credentials, Box<dyn std::error::Error + Send + Sync>>> + Send + 'a>>;

/// Tells with what to log in to a node: for tokens that expire and passwords that are rotated.
///
/// It is asked before each connection to a node whose address has no password, also when a
/// connection has ended, and by several nodes at the same time. A node that it fails for is down,
/// with the reason, and is tried again after a pause of 50 ms to 2 s, like one that does not
/// answer. [`PasswordFile`](crate::PasswordFile) is one. Connections that are open stay so: servers
/// do not ask again.
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
    /// The credentials for the node at this address, which is without user and password. They must
    /// be there within [`node_timeout`](crate::QuorumBuilder::node_timeout). It must not block the
    /// thread.
    ///
    /// # Cancel safety
    /// It is dropped when that time is over, and when the quorum is closed.
    fn fetch<'a>(&'a self, node: &'a str) -> FetchingCredentials<'a>;
}

/// A server, the route to it, and the provider of its credentials.
pub(crate) struct Site {
    pub(super) endpoint: Endpoint,
    credentials: Option<Arc<dyn CredentialsProvider>>,
    route: Route,
}

impl Site {
    pub(crate) fn new(endpoint: Endpoint, credentials: Option<Arc<dyn CredentialsProvider>>) -> Self {
        Self { endpoint, credentials, route: Route::default() }
    }

    /// The same, where the addresses of its host are found in another way.
    #[cfg(test)]
    pub(super) fn by(endpoint: Endpoint, resolver: super::reach::Resolver) -> Self {
        Self { endpoint, credentials: None, route: Route::by(resolver) }
    }

    /// What `open` makes of the server with what to log in to it now, at the address that is to be
    /// used now. A socket has none.
    ///
    /// # Cancel safety
    /// That of `open`.
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

    /// The server with what to log in to it now.
    ///
    /// # Cancel safety
    /// Safe.
    async fn entered(&self, limit: Duration) -> Result<Cow<'_, Endpoint>, Fault> {
        let asked = self.credentials.as_ref().filter(|_| self.endpoint.password.is_none());
        let Some(provider) = asked else { return Ok(Cow::Borrowed(&self.endpoint)) };
        let node = self.endpoint.to_string();
        // Within, so that a panic before its future is there is caught too.
        let fetched = AssertUnwindSafe(async { provider.fetch(&node).await }).catch_unwind();
        let fetched = tokio::select! {
            biased;
            fetched = fetched => fetched,
            () = tokio::time::sleep(limit) => return Err(lacking("were not there within node_timeout")),
        };
        match fetched {
            Ok(Ok(Credentials { user, password })) => Ok(Cow::Owned(self.endpoint.entered_by(user, password))),
            Ok(Err(error)) => Err(lacking(&format!("could not be had: {error}"))),
            Err(_) => Err(lacking("could not be had: their provider panicked")),
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
