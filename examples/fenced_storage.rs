//! Storage that refuses the late write of a holder that was paused. A lock alone cannot prevent
//! such a write: a process may stand still after its last check of the lock, lose the lock, and
//! then write.
//!
//! ```sh
//! quorumlock sandbox -- cargo run --example fenced_storage
//! ```

use std::collections::HashMap;
use std::fmt;
use std::time::Duration;

use quorumlock::{Quorum, Result};

/// Storage that keeps with each row the highest token of its writes. In SQL, such a write is one
/// statement, which changes no row if the token is too low:
///
/// ```sql
/// UPDATE orders SET state = $1, token = $2 WHERE id = $3 AND token <= $2
/// ```
#[derive(Default)]
struct Storage {
    rows: HashMap<String, (u64, String)>,
}

/// The error for a write whose token is below the token of an earlier write.
#[derive(Debug)]
struct Outdated {
    token: u64,
    seen: u64,
}

impl Storage {
    /// Writes a row, with the token of the row's lock. The check and the write must be one atomic
    /// step: otherwise another holder could write between them.
    fn write(&mut self, row: &str, state: &str, token: u64) -> Result<(), Outdated> {
        let seen = self.rows.get(row).map_or(0, |(seen, _)| *seen);
        // An equal token belongs to the same holder, which may write again.
        if token < seen {
            return Err(Outdated { token, seen });
        }
        self.rows.insert(row.to_owned(), (token, state.to_owned()));
        Ok(())
    }

    fn state(&self, row: &str) -> &str {
        self.rows.get(row).map_or("unknown", |(_, state)| state)
    }
}

impl fmt::Display for Outdated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "refused: token {} is below {}, which was seen before", self.token, self.seen)
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let quorum = connected().await?;
    let mut storage = Storage::default();

    // One holder gets the lock, writes, and stands still, as in a long garbage collection or on a
    // virtual machine that is moved. Meanwhile nothing renews its lock, so the lock ends after the
    // ttl.
    let paused = quorum.options().ttl(Duration::from_secs(1)).auto_renew(false);
    let early = quorum.lock_with("orders/42", &paused)?.acquire_default().await?;
    storage.write("orders/42", "packed", early.token()).map_err(|outdated| outdated.to_string())?;

    // The next holder waits until the lock has ended, gets it with a greater token, and writes.
    let late = quorum.lock("orders/42").acquire_default().await?;
    assert!(late.token() > early.token());
    storage.write("orders/42", "shipped", late.token()).map_err(|outdated| outdated.to_string())?;

    // The first holder does not notice that its lock has ended. The storage refuses its token.
    let Err(outdated) = storage.write("orders/42", "cancelled", early.token()) else {
        return Err("the storage took an outdated write".into());
    };
    println!("the late write was {outdated}");
    println!("the order is {}", storage.state("orders/42"));

    late.release().await?;
    quorum.shutdown(Duration::from_secs(1)).await;
    Ok(())
}

/// Connects to the nodes in QUORUMLOCK_NODES. Without this variable, makes nodes in memory, so that
/// this example runs without servers. A real program only calls `Quorum::from_env()`: locks in
/// memory exclude only callers of this process.
async fn connected() -> Result<Quorum> {
    if std::env::var_os("QUORUMLOCK_NODES").is_some() {
        return Quorum::from_env().await;
    }
    eprintln!("QUORUMLOCK_NODES is not set: three nodes in memory");
    Quorum::in_memory(3)
}
