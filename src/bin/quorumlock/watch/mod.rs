//! `quorumlock watch`: shows nodes, holders and events on a terminal, as they change.
//!
//! `polls` asks the nodes, and `collect` keeps their latest answers. `convert` turns the answers
//! into plain data. `model` compares these data with the previous data, and `draw` draws the model.
//! The loop in this module connects the other modules.

mod changes;
mod collect;
mod convert;
mod draw;
mod event;
mod keys;
mod model;
mod polls;
#[cfg(test)]
mod screens;
mod seen;
mod terminal;
mod text;

use std::io::{IsTerminal, stdout};
use std::ops::ControlFlow;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use crossterm::event::{Event, EventStream};
use futures::StreamExt;
use rustix::process::Signal;
use tokio::time::{MissedTickBehavior, interval};

use crate::cli::Watch;
use crate::duration::exact;
use crate::failure::{Failure, Outcome};
use crate::process::{self, Signals};
use crate::settings::Settings;
use collect::Collected;
use keys::Next;
use model::Model;
use polls::{Answer, Polls};
use terminal::Screen;

/// How often the screen is drawn. Cells that have not changed are not written again.
const FRAME: Duration = Duration::from_millis(100);
const LEAST: Duration = Duration::from_millis(100);
const MOST: Duration = Duration::from_secs(60);

pub(crate) async fn watch(args: Watch) -> Outcome {
    if !stdout().is_terminal() {
        return Err(Failure::usage(
            "watch needs a terminal, and standard output is not a terminal: for a program, use `quorumlock status \
             --json`; to wait for a quorum, use `quorumlock status --wait`",
        ));
    }
    if !(LEAST..=MOST).contains(&args.every) {
        let (given, least, most) = (exact(args.every), exact(LEAST), exact(MOST));
        return Err(Failure::usage(format!("--every is {given}; use {least} to {most}")));
    }
    let settings = Settings::with_nodes(&args.nodes)?;
    let mut signals = Signals::ending()?;
    let quorum = settings.onlooker()?.open()?;
    let polls = Polls::begin(&settings, &quorum, args.name.as_deref(), args.every)?;
    let collected = Collected::new(quorum.clone(), settings.clone(), args.name.is_some());
    let model = Model::new(args.name, args.every);
    let screen = Screen::enter().map_err(|error| Failure::internal(format!("the terminal cannot be used: {error}")))?;
    let code = Watching { screen, model, collected, polls }.until_told(&mut signals).await;
    quorum.shutdown(Duration::ZERO).await;
    code
}

struct Watching {
    screen: Screen,
    model: Model,
    collected: Collected,
    polls: Polls,
}

impl Watching {
    /// Draws until a key or a signal ends the command. Restores the terminal before it returns.
    async fn until_told(mut self, signals: &mut Signals) -> Outcome {
        let (mut keyboard, mut frames) = (EventStream::new(), interval(FRAME));
        frames.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                biased;
                signal = signals.next() => return Ok(ended(signal)),
                event = keyboard.next() => match event.transpose()? {
                    Some(event) => {
                        if self.typed(&event).is_break() {
                            return Ok(ExitCode::SUCCESS);
                        }
                        self.draw()?;
                    }
                    None => return Err(Failure::internal("the terminal has gone")),
                },
                _ = frames.tick() => {
                    self.model.see(Instant::now(), self.collected.seen());
                    self.draw()?;
                }
                answer = self.polls.next() => self.learn(answer),
            }
        }
    }

    fn typed(&mut self, event: &Event) -> ControlFlow<()> {
        match event {
            Event::Key(key) if self.model.controls.pressed(*key) == Next::Quit => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        }
    }

    fn learn(&mut self, answer: Answer) {
        match answer {
            Answer::Asked { node } => self.collected.asked(node),
            Answer::Told { node, said, took } => self.collected.told(node, said, took),
            Answer::All(inspected) => self.collected.all(*inspected),
            Answer::Rights(rights) => self.collected.rights(rights),
            Answer::Names { names, began } => self.model.see_names(Instant::now(), names, began),
        }
    }

    fn draw(&mut self) -> std::io::Result<()> {
        let model = &mut self.model;
        self.screen.draw(|frame| draw::draw(frame, model, Instant::now()))
    }
}

/// The exit code. SIGINT is a usual end, like the key Ctrl-C, so its code is 0.
fn ended(signal: Signal) -> ExitCode {
    if signal == Signal::INT { ExitCode::SUCCESS } else { process::ended_by(signal) }
}
