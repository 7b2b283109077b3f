//! Tickets: `run --ticket` hands a lock on to another process, and `run --resume` goes on with it.

use quorumlock::{Error, ErrorKind, LockGuard, Quorum, Released};

use crate::failure::Failure;
use crate::ticket_file::TicketFile;

/// What has become of a ticket whose command cannot be run.
pub(super) const USED_UP: &str = "the lock is released, and its ticket is used up: acquire the lock anew";

/// Makes a ticket of the lock, and writes it to the file. If this fails, releases the lock.
pub(super) async fn hand_on(guard: LockGuard, file: &TicketFile, quorum: &Quorum, name: &str) -> Result<(), Failure> {
    let ticket = match guard.into_ticket().await {
        Ok(ticket) => ticket,
        Err((error, guard)) => {
            let advice = advice(&guard.release().await);
            return Err(Failure::advised(error, &format!("no ticket was written; {advice}")));
        }
    };
    if let Err(error) = file.write(&ticket) {
        let advice = advice(&quorum.release(&ticket).await);
        let path = file.path().display();
        return Err(Failure::internal(format!("the ticket of {name} was not written to {path}: {error}; {advice}")));
    }
    tracing::info!(name, token = ticket.token(), "ticket written to {}", file.path().display());
    Ok(())
}

/// What has become of a lock that was not handed on, and what to do.
fn advice(released: &Result<Released, Error>) -> String {
    let state = match released {
        Ok(Released::Released) => "the lock is released",
        Ok(Released::AlreadyExpired) => "the lock has ended",
        Err(_) => "the lock ends by its ttl, because no quorum confirmed its release",
    };
    format!("{state}. The command has done its work: for the rest of the work, acquire the lock anew")
}

/// The failure if the lock of a ticket was not resumed.
pub(super) fn not_resumed(error: Error) -> Failure {
    let advice = match error.kind() {
        ErrorKind::Lost => "the command was not run; to run it, acquire the lock anew: quorumlock run NAME -- CMD",
        ErrorKind::Contended | ErrorKind::Unavailable => {
            "the command was not run; run `quorumlock run --resume` again at once: others may get the lock first"
        }
        _ => return error.into(),
    };
    Failure::advised(error, advice)
}
