//! Shows the progress of a benchmark as a bar on a terminal. Without a terminal, shows nothing.

use std::io::IsTerminal;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::output;

/// A progress bar. Dropping this value removes the bar.
pub(super) struct Progress(ProgressBar);

impl Progress {
    pub(super) fn steps(what: &str, steps: u64) -> Self {
        let live = std::io::stderr().is_terminal() && !output::is_json();
        let target = if live { ProgressDrawTarget::term(output::terminal(), 10) } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(Some(steps), target);
        let style = ProgressStyle::with_template("{bar:40.green/black} {msg}");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        bar.set_message(what.to_owned());
        Self(bar)
    }

    pub(super) fn step(&self) {
        self.0.inc(1);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
