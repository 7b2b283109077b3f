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
async fn where_no_nodes_clock_is_known_the_wall_clock_counts() {
    assert!(arrival([None; 3]).await > about(400_000).start, "the year 2015 is long ago");
}

#[tokio::test(start_paused = true)]
async fn clocks_that_cannot_be_right_give_the_first_and_the_last_arrival_and_none_beyond() {
    assert_eq!(arrival([Some(-HOUR); 3]).await, 0, "before 1970");
    assert_eq!(arrival([Some(i128::from(u64::MAX)); 3]).await, 1 << 53, "beyond what nodes count exactly");
}
