//! Children of this process, and descendants that become its children when their parents end.

use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use rustix::io::Errno;
use rustix::process::{Pid, WaitId, WaitIdOptions, WaitOptions, wait, waitid};

/// From now on a descendant whose parent ends becomes our child, so that no descendant can escape.
#[cfg(target_os = "linux")]
pub(super) fn adopt() {
    let _ = rustix::process::set_child_subreaper(Some(rustix::process::getpid()));
}

#[cfg(not(target_os = "linux"))]
pub(super) fn adopt() {}

/// Reaps all children that have ended.
pub(super) fn reap() {
    while let Ok(Some(_)) = wait(WaitOptions::NOHANG) {}
}

/// Reaps all children that have ended, and calls `reaped` with each. Returns how `child` ended, if
/// it has.
pub(super) fn reap_with(child: Pid, mut reaped: impl FnMut(Pid)) -> io::Result<Option<ExitStatus>> {
    let mut ended = None;
    loop {
        match wait(WaitOptions::NOHANG) {
            Ok(Some((pid, status))) => {
                reaped(pid);
                if pid == child {
                    ended = Some(ExitStatus::from_raw(status.as_raw()));
                }
            }
            Err(Errno::CHILD) if ended.is_none() => return Err(Errno::CHILD.into()),
            Ok(None) | Err(_) => return Ok(ended),
        }
    }
}

/// Whether there is no child at all, not even an ended child that was not reaped. The kernel counts
/// all children at one moment. So if all orphans are adopted, no descendant is left.
pub(super) fn are_gone() -> bool {
    let any = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    matches!(waitid(WaitId::All, any), Err(Errno::CHILD))
}
