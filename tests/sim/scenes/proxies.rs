//! Servers that are replaced behind connections that stay open.

use super::part::Part;
use super::script::{NEVER, Script, forgets, millis};

/// A holds n0 and n1. n0 restarts empty behind a proxy, and nobody's connection ends. B asks it and
/// notices; what B did to notice must not hide it from C, who asks right after.
pub fn one_client_notices_and_the_next_must_too(script: &mut Script) {
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
