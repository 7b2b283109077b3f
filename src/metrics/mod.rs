//! All metrics in one table: name, unit, labels, buckets and description of each.
//!
//! The library records through the [`metrics`] facade and installs no exporter. Install your
//! exporter **before** you connect. Connecting registers all series with the value zero; the first
//! use of a class registers those of the class. So a rate includes the first event. Give the
//! exporter the [`buckets`]. Without buckets, most exporters make summaries, and summaries of
//! several processes cannot be added up.
//!
//! # Labels
//!
//! All labels have a bounded number of values, and no label holds the name of a lock.
//!
//! * `quorum`: [`QuorumBuilder::name`](crate::QuorumBuilder::name), `default` by default. Quorums of
//!   one process that have the same name share their series.
//! * `node`: the node's address without user and password.
//! * `class`: [`LockOptions::metrics_class`](crate::LockOptions::metrics_class). Series of locks
//!   without a class do not have the label. A process has at most [`MAX_CLASSES`] classes; classes
//!   that come after these are recorded as `other`.
//!
//! One quorum of five nodes has fewer than 300 series, and about 50 more for each class.

mod class;
mod family;
mod meters;
mod table;

pub(crate) use class::Class;
pub use class::MAX_CLASSES;
pub(crate) use family::{Ended, RoundEnded};
pub(crate) use meters::{Counted, GreeterMeters, Meters};
pub use table::{Kind, METRICS, Metric, buckets};
pub(crate) use table::{NODE_DOUBTS, NODE_FAULTS, NODE_OPERATIONS, NODE_QUARANTINED, NODE_UP, ROUND_TRIP};
