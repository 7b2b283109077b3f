//! The children of this process. On Linux, orphaned descendants become its children, too.

use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use rustix::io::Errno;
use rustix::process::{Pid, WaitId, WaitIdOptions, WaitOptions, wait, waitid};

/// From now on, descendants whose parent ends become children of this process, which can find them.
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

/// Reaps all ended children, and calls `reaped` with each. If this call reaps `child`, returns the
/// exit status of `child`. Fails if no child is left, and this call did not reap `child`.
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

/// Whether all children of this process have ended and were reaped. The kernel checks all children
/// at one moment. So if this returns true after [`adopt`], this process has no descendants.
pub(super) fn are_gone() -> bool {
    let any = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    matches!(waitid(WaitId::All, any), Err(Errno::CHILD))
}
