//! One node over a transport of which the test answers every command by hand, on a virtual clock.

mod calls;
mod connections;
mod news;
mod stage;
