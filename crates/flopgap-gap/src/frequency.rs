//! How fast the clocks of GPUs ran while they worked, beside how fast they can.

use flopgap_timings::Place;
use flopgap_trace::{ClockSample, GpuId, Recording};
use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::operation::Lane;
use crate::timeline::Timeline;

/// The clock of the multiprocessors while kernels of measured steps ran, the mean over all samples
/// of all GPUs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Frequency {
    /// How often it was sampled meanwhile.
    pub samples: u64,
    /// As it was, in hertz.
    pub mean_hz: f64,
    /// The highest that these GPUs have, in hertz, by the recording's own list of them.
    pub highest_hz: f64,
}

/// Fewer samples are not a mean.
const ENOUGH: u64 = 10;

/// Samples of the clocks, and the sums of those within kernels of measured steps.
#[derive(Debug, Default)]
pub(crate) struct Frequencies {
    samples: Vec<ClockSample>,
    highest: Vec<(GpuId, i64)>,
    count: u64,
    sum: f64,
    of_highest: f64,
}

impl Frequencies {
    pub(crate) fn read(trace: &dyn Recording) -> Result<Frequencies, Error> {
        let samples = trace.clock_samples()?;
        let highest = if samples.is_empty() { Vec::new() } else { trace.highest_clocks()? };
        Ok(Frequencies { samples, highest, ..Frequencies::default() })
    }

    /// Adds the samples within computation of a lane in measured intervals; both lie by time.
    pub(crate) fn add(&mut self, timeline: &Timeline, lane: &Lane, place: Place, measured: &[(i64, i64)]) {
        let Some(gpu) = place.gpu else { return };
        let Some((_, highest)) = self.highest.iter().find(|(of, _)| *of == gpu) else { return };
        let (mut next, mut window, mut busy_until) = (0, 0, i64::MIN);
        for sample in self.samples.iter().filter(|sample| sample.gpu == gpu) {
            while let Some(op) = lane.operations.get(next).filter(|op| op.start <= sample.time) {
                if timeline.kind(op).rank() == 0 {
                    busy_until = busy_until.max(op.end);
                }
                next += 1;
            }
            while measured.get(window).is_some_and(|(_, end)| *end <= sample.time) {
                window += 1;
            }
            let is_measured = measured.get(window).is_some_and(|(start, _)| *start <= sample.time);
            if is_measured && sample.time < busy_until {
                self.count += 1;
                self.sum += sample.hertz as f64;
                self.of_highest += *highest as f64;
            }
        }
    }

    /// The means; none of too few samples.
    pub(crate) fn mean(&self) -> Option<Frequency> {
        let each = |sum: f64| sum / self.count as f64;
        (self.count >= ENOUGH).then(|| Frequency {
            samples: self.count,
            mean_hz: each(self.sum),
            highest_hz: each(self.of_highest),
        })
    }
}
