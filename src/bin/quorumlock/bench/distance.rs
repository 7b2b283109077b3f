//! `quorumlock bench distance`: how long an acquisition and a release take, as multiples of the
//! round trip to the node that completes a quorum.

use std::process::ExitCode;
use std::time::Duration;

use quorumlock::Quorum;
use serde_json::json;

use super::progress::Progress;
use super::samples::Samples;
use super::target::{Target, name};
use super::{ratio, rounded};
use crate::cli::bench::Distance;
use crate::duration::show;
use crate::failure::{Failure, Outcome};
use crate::output::{self, aligned_rows};

pub(super) async fn measured(args: &Distance) -> Outcome {
    let target = Target::at(&args.place, &args.latency)?;
    let quorum = target.connected().await?;
    let progress = Progress::steps("acquired and released", args.pairs.into());
    let mut course = Course::default();
    for number in 0..args.pairs {
        course.samples.add_pair(&quorum.lock(name(number))).await?;
        course.look(&quorum);
        progress.step();
    }
    drop(progress);
    let trips = course.round_trips()?;
    quorum.shutdown(Duration::from_secs(1)).await;
    told(&quorum, &course.samples, &trips, args.json).await?;
    Ok(ExitCode::SUCCESS)
}

#[derive(Default)]
struct Course {
    samples: Samples,
    /// For each node: the round trips that the `Quorum` reported, read once after each pair.
    trips: Vec<Vec<Duration>>,
}

impl Course {
    fn look(&mut self, quorum: &Quorum) {
        let nodes = quorum.nodes();
        self.trips.resize_with(nodes.len(), Vec::new);
        self.trips.iter_mut().zip(nodes).for_each(|(trips, node)| trips.extend(node.round_trip));
    }

    /// The median round trip to each node. Leaves out nodes that reported no round trip. Fails if
    /// at least half of the nodes reported none.
    fn round_trips(&mut self) -> Result<Vec<Duration>, Failure> {
        let median = |trips: &mut Vec<Duration>| {
            trips.sort_unstable();
            trips.get(trips.len() / 2).copied()
        };
        let medians = self.trips.iter_mut().filter_map(median).collect::<Vec<_>>();
        if medians.len() > self.trips.len() / 2 {
            Ok(medians)
        } else {
            Err(Failure::internal("most nodes have no measured round trip"))
        }
    }
}

async fn told(quorum: &Quorum, samples: &Samples, trips: &[Duration], as_json: bool) -> Result<(), Failure> {
    let mut sorted = trips.to_vec();
    sorted.sort_unstable();
    // The round trip to the node that completes a quorum.
    let decides = sorted[(quorum.nodes().len() / 2).min(sorted.len() - 1)];
    let to_trip = |time: Option<Duration>| ratio(time?.as_secs_f64(), decides.as_secs_f64()).map(rounded);
    if as_json {
        let mut said = samples.json();
        said.insert("nodes".to_owned(), quorum.nodes().len().into());
        let millis = |trip: &Duration| rounded(trip.as_secs_f64() * 1e3);
        said.insert("round_trips_ms".to_owned(), trips.iter().map(millis).collect::<Vec<_>>().into());
        said.insert("quorum_round_trip_ms".to_owned(), json!(millis(&decides)));
        for (name, time) in [
            ("acquire", [samples.acquired(0.5), samples.acquired(0.99)]),
            ("release", [samples.released(0.5), samples.released(0.99)]),
        ] {
            said.insert(format!("{name}_p50_to_round_trip"), json!(to_trip(time[0])));
            said.insert(format!("{name}_p99_to_round_trip"), json!(to_trip(time[1])));
        }
        return Ok(output::say(&serde_json::Value::from(said).to_string()).await?);
    }
    let said = |time: Option<Duration>| {
        let times = to_trip(time).map_or_else(String::new, |ratio| format!("{ratio:.3} of it"));
        [time.map_or_else(|| "-".to_owned(), show), times]
    };
    let all = trips.iter().copied().map(show).collect::<Vec<_>>().join(", ");
    let mut rows = vec![vec!["quorum round trip".to_owned(), show(decides), format!("of {all}")]];
    for (name, time) in [
        ("acquire p50", samples.acquired(0.5)),
        ("acquire p99", samples.acquired(0.99)),
        ("release p50", samples.released(0.5)),
        ("release p99", samples.released(0.99)),
    ] {
        rows.push([name.to_owned()].into_iter().chain(said(time)).collect());
    }
    Ok(output::say(&aligned_rows(&rows).join("\n")).await?)
}
