//! The begin and end times of critical sections, by the machine's clock. These times show an
//! overlap of two sections even if quorumlock has a bug.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// One critical section. Times are microseconds of the monotonic clock, which all processes share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) struct Section {
    /// The time just after the lock was acquired.
    pub(super) entered: u64,
    /// The time just before the lock is released.
    pub(super) left: u64,
}

/// The sections of all workers, sorted by their start.
pub(super) struct Course(Vec<Section>);

impl Course {
    pub(super) fn new(mut sections: Vec<Section>) -> Self {
        sections.sort_unstable();
        Self(sections)
    }

    /// How many sections began before an earlier one had ended.
    pub(super) fn overlaps(&self) -> u64 {
        let mut latest = 0;
        let mut overlaps = 0;
        for section in &self.0 {
            overlaps += u64::from(section.entered < latest);
            latest = latest.max(section.left);
        }
        overlaps
    }

    /// A percentile of the gaps between the end of a section and the start of the next section. The
    /// fraction `share` of these gaps is no longer than the result.
    pub(super) fn handover(&self, share: f64) -> Duration {
        let handovers = self.0.windows(2).map(|pair| pair[1].entered.saturating_sub(pair[0].left));
        percentile(handovers.collect(), share)
    }

    /// The median length of a section.
    pub(super) fn hold(&self) -> Duration {
        percentile(self.0.iter().map(|section| section.left.saturating_sub(section.entered)).collect(), 0.5)
    }
}

fn percentile(mut microseconds: Vec<u64>, share: f64) -> Duration {
    microseconds.sort_unstable();
    let rank = (microseconds.len() as f64 * share).ceil().max(1.0) as usize;
    Duration::from_micros(microseconds.get(rank - 1).copied().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn course(sections: &[(u64, u64)]) -> Course {
        Course::new(sections.iter().map(|&(entered, left)| Section { entered, left }).collect())
    }

    #[test]
    fn a_section_that_began_within_another_is_an_overlap() {
        assert_eq!(course(&[(20, 30), (0, 10), (10, 20)]).overlaps(), 0);
        assert_eq!(course(&[(0, 10), (9, 12)]).overlaps(), 1);
        assert_eq!(course(&[(0, 100), (10, 20), (30, 40), (100, 101)]).overlaps(), 2);
    }

    #[test]
    fn a_handover_is_from_an_end_to_the_next_begin() {
        let course = course(&[(0, 10), (13, 20), (25, 40), (47, 48)]);
        assert_eq!([0.5, 0.99].map(|share| course.handover(share)), [5, 7].map(Duration::from_micros));
        assert_eq!(course.hold(), Duration::from_micros(7));
    }
}
