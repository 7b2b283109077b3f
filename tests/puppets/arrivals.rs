//! Arrivals, the order of waiters: they follow the nodes' clocks, whatever the client's wall clock
//! shows.

use quorumlock::node::Verb;

use crate::answers::held;
use crate::asked::Asked;
use crate::stage::{SECOND, Stage};

/// An hour, in microseconds.
const HOUR: i128 = 3_600 * 1_000_000;

async fn arrival(ahead: [Option<i128>; 3]) -> u64 {
    let stage = Stage::new(3);
    for (node, ahead) in ahead.into_iter().enumerate() {
        if let Some(ahead) = ahead {
            stage.clock_ahead(node, ahead);
        }
    }
    let _waiting = stage.acquire(60 * SECOND);
    let claim: Asked = stage.round(Verb::Claim, |_, _| held(60)).await;
    claim.waiter.expect("it waits").arrival
}

fn about(hours: i128) -> std::ops::Range<u64> {
    let at = u64::try_from(hours * HOUR).unwrap();
    at..at + 60_000_000
}

#[tokio::test(start_paused = true)]
async fn arrival_is_the_median_of_the_nodes_clocks_and_ones_own() {
    // The client's own clock shows the present year, which is far ahead of these clocks. Of the two
    // times in the middle, the later one counts.
    assert!(about(9).contains(&arrival([Some(9 * HOUR), Some(HOUR), Some(2 * HOUR)]).await));
}

#[tokio::test(start_paused = true)]
async fn arrival_is_not_before_most_clocks_where_one_is_behind() {
    // The client's own clock shows the present year, which is far ahead of these clocks.
    assert!(about(3).contains(&arrival([Some(HOUR), Some(3 * HOUR), Some(3 * HOUR)]).await));
    assert!(about(7).contains(&arrival([Some(7 * HOUR), None, Some(3 * HOUR)]).await));
}

#[tokio::test(start_paused = true)]
async fn arrival_uses_the_wall_clock_if_no_node_clock_is_known() {
    assert!(arrival([None; 3]).await > about(400_000).start, "the year 2015 is long ago");
}

#[tokio::test(start_paused = true)]
async fn arrival_from_an_impossible_clock_stays_within_bounds() {
    assert_eq!(arrival([Some(-HOUR); 3]).await, 0, "before 1970");
    assert_eq!(arrival([Some(i128::from(u64::MAX)); 3]).await, 1 << 53, "beyond what nodes count exactly");
}
