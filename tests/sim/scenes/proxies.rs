//! Servers that are replaced behind connections that stay open.

use std::time::Duration;

use super::part::Part;
use super::script::{NEVER, Script, forgets, millis};
use crate::cue::Cue;
use crate::judge::history::Memory;

/// A holds n0 and n1. n0 restarts empty behind a proxy, so no connection ends. B asks n0 and
/// notices the restart. B's next requests must not hide the restart from C, which asks right after
/// B.
pub fn restart_behind_a_proxy_is_noticed_by_each_client(script: &mut Script) {
    script.world(3, 3, 2_000, 3_000);
    script.plan.proxied = true;
    script.hold_back(0, &[2], 0..NEVER, NEVER);
    script.asks(0, 0, Part::default());
    script.at(300, forgets(0));
    for process in [1, 2] {
        let timeout = millis(300);
        script.asks(400 + 30 * (process as u64 - 1), process, Part { timeout, ..Part::default() });
    }
}

/// A holds n0 and n1. B connects to n0 again. Once B has read which server process answers, another
/// server process without data takes over, and carries out B's next request.
pub fn replaced_while_it_is_greeted(script: &mut Script) {
    script.world(3, 2, 2_000, 3_000);
    script.plan.proxied = true;
    script.hold_back(0, &[2], 0..NEVER, NEVER);
    script.asks(0, 0, Part::default());
    script.jitter = 2;
    script.at(300, Cue::Replace { process: 1, node: 0 });
    let crash = Cue::Crash { node: 0, memory: Memory::Empty, down: Duration::ZERO };
    let at = script.about(303, 3);
    script.at(at, crash);
    script.asks(302, 1, Part { timeout: millis(300), ..Part::default() });
}
