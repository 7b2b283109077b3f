//! Whether something grows for as long as a measurement lasts.

/// How many samples there must be to compare.
const FEWEST: usize = 20;

/// What it came to in the end, as a multiple of what it was at half the time: the mean of the last
/// tenth of the samples, to that of the tenth right before half. What goes up and down meanwhile,
/// as that of keys which a node has not removed yet, is no growth.
pub(super) fn flat(samples: &[f64]) -> Option<f64> {
    if samples.len() < FEWEST {
        return None;
    }
    let half = mean(before(samples, samples.len() / 2));
    (half > 0.0).then(|| mean(before(samples, samples.len())) / half)
}

/// The tenth of all samples that ends at `end`.
fn before(samples: &[f64], end: usize) -> &[f64] {
    &samples[end - samples.len() / 10..end]
}

fn mean(samples: &[f64]) -> f64 {
    samples.iter().sum::<f64>() / samples.len() as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(found: Option<f64>, expected: f64) {
        assert!(found.is_some_and(|found| (found - expected).abs() < 1e-9), "{found:?}, not {expected}");
    }

    #[test]
    fn what_grows_with_time_has_doubled_since_half_and_what_stays_has_not_grown() {
        close(flat(&(0..=99).map(f64::from).collect::<Vec<_>>()), 94.5 / 44.5);
        close(flat(&[7.0; 100]), 1.0);
        let levels_off = (0..240).map(|second| f64::from(second.min(90)));
        close(flat(&levels_off.collect::<Vec<_>>()), 1.0);
    }

    #[test]
    fn a_peak_elsewhere_and_what_comes_and_goes_is_no_growth() {
        let mut samples: Vec<f64> = (0..100).map(|number| if number % 2 == 0 { 9.0 } else { 11.0 }).collect();
        samples[60] = 1e6;
        close(flat(&samples), 1.0);
    }

    #[test]
    fn nothing_is_said_of_a_few_samples_or_of_what_was_nothing() {
        assert_eq!([flat(&[1.0; 19]), flat(&[0.0; 100]), flat(&[])], [None; 3]);
    }
}
