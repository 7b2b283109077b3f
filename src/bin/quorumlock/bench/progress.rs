//! How far a benchmark is, on a terminal; elsewhere nothing is shown.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::output;

/// Gone when it is dropped.
pub(super) struct Progress {
    bar: ProgressBar,
    began: Instant,
}

impl Progress {
    /// Of so many steps.
    pub(super) fn steps(what: &str, steps: u64) -> Self {
        let live = std::io::stderr().is_terminal() && !output::is_json();
        let target = if live { ProgressDrawTarget::term(output::terminal(), 10) } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(Some(steps), target);
        let style = ProgressStyle::with_template("{bar:40.green/black} {msg}");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        bar.set_message(what.to_owned());
        Self { bar, began: Instant::now() }
    }

    /// Of a length of time.
    pub(super) fn time(what: &str, length: Duration) -> Self {
        Self::steps(what, u64::try_from(length.as_millis()).unwrap_or(u64::MAX))
    }

    /// One step further.
    pub(super) fn step(&self) {
        self.bar.inc(1);
    }

    /// As far as time has passed.
    pub(super) fn tick(&self) {
        self.bar.set_position(u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX));
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
