//! Settings: checked once, then immutable. The submodules read files and the environment.

mod addresses;
mod checks;
mod environment;
mod file;
mod options;
mod password;
mod password_file;
#[cfg(feature = "serde")]
mod quoted;
mod settings;

use std::time::Duration;

pub use checks::MIN_TTL;
pub(crate) use checks::Rules;
pub use file::{Config, NodeConfig};
pub use options::LockOptions;
pub use password_file::PasswordFile;
pub(crate) use settings::{NodeAddress, Settings};

/// The longest `max_ttl`, 24 h, and the longest ttl if `max_ttl` is zero. The limit exists because
/// a restarted node votes only after `max_ttl`. Locks can be held for longer than their ttl,
/// because they are renewed.
pub const MAX_TTL: Duration = Duration::from_secs(24 * 3_600);
/// The largest number of nodes in a quorum.
pub const MAX_NODES: usize = 64;

const SECOND: Duration = Duration::from_secs(1);
