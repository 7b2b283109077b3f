//! Tests of one node on a virtual clock. The tests themselves answer each command of the node.

mod calls;
mod connections;
mod news;
mod stage;
