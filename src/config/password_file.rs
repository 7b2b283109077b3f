//! A file with a password, which is read at each connection.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use tokio::sync::Semaphore;

use super::password::PasswordFile as Named;
use crate::error::{Error, Result};
use crate::node::redis::{Credentials, CredentialsProvider, FetchingCredentials};

/// Reads the password from the first line of a file, at each connection. So a new password needs no
/// restart of the client. Replace the file in one step (`mv`), just before or just after the
/// servers change their password. If a node refuses an outdated password, the client reads the file
/// again and connects again.
///
/// The file has 4 KiB at most. [`Config::password_file`](crate::Config::password_file) and the
/// command's `--password-file` use this type.
///
/// # Examples
/// ```no_run
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> quorumlock::Result<()> {
/// use quorumlock::{PasswordFile, Quorum};
///
/// let nodes = ["rediss://locks@eu:6380", "rediss://locks@us:6380", "rediss://locks@asia:6380"];
/// let password = PasswordFile::new("/run/secrets/locks")?;
/// let quorum = Quorum::builder().nodes(nodes).credentials(password).connect().await?;
/// # drop(quorum);
/// # Ok(())
/// # }
/// ```
pub struct PasswordFile {
    file: Arc<Named>,
    /// Allows one read at a time: if the file system hangs, it blocks only one thread.
    reading: Arc<Semaphore>,
}

impl PasswordFile {
    /// Reads the file once, to check it.
    ///
    /// # Errors
    /// `Config` for a file that cannot be read, is not regular (a pipe can be read only once), or
    /// has no password in its first line.
    pub fn new(path: impl AsRef<Path>) -> Result<Self> {
        let named = Named::new("password file", path.as_ref(), Path::new(""));
        named.read().map_err(Error::config)?;
        match named.is_regular() {
            true => Ok(Self::of(named)),
            false => Err(Error::config(
                "the password file is not a regular file, so it cannot be read again at each connection",
            )),
        }
    }

    /// A password file that the caller of this function has checked.
    pub(super) fn of(named: Named) -> Self {
        Self { file: Arc::new(named), reading: Arc::new(Semaphore::new(1)) }
    }
}

impl CredentialsProvider for PasswordFile {
    fn fetch<'a>(&'a self, _: &'a str) -> FetchingCredentials<'a> {
        Box::pin(async move {
            let turn = self.reading.clone().acquire_owned().await?;
            let file = self.file.clone();
            let line = tokio::task::spawn_blocking(move || {
                let line = file.line();
                drop(turn);
                line
            });
            Ok(Credentials::password(line.await??))
        })
    }
}

impl fmt::Debug for PasswordFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PasswordFile").finish_non_exhaustive()
    }
}
