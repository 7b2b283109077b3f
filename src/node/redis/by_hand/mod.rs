//! One node over a transport whose commands the test answers one by one, on a virtual clock.

mod calls;
mod connections;
mod news;
mod stage;
