//! The current cost of a launch on the host: the unit of times dominated by launches.

use std::collections::BTreeMap;
use std::time::Instant;

use flopgap_gpu::launch::{Arguments, Launch};
use flopgap_gpu::{Kernel, Stream};

use crate::engines::error::EngineError;

use super::own::OwnKernels;

/// The name of the reference in the header of a calibration file.
const NAME: &str = "launch";

/// Launches of a measurement.
const GROUP: u32 = 64;

/// Measurements from which the best is taken, where it is not given.
const FIRST: usize = 400;

/// Launches of an empty kernel, which interleave with what is timed.
///
/// The host of a GPU is as noisy as any CPU: on a virtual machine, the same launches took 3.6 to
/// 4.4 µs within minutes. What takes as long as its launches is therefore timed in units of them,
/// and given in the best that was seen, as times on a CPU are.
#[derive(Debug)]
pub(super) struct Launches {
    kernel: Kernel,
    best: f64,
}

impl Launches {
    /// With the best of an earlier session, or after a quarter of a second of launches.
    ///
    /// # Errors
    /// The driver's.
    pub(super) fn new(
        stream: &Stream,
        own: &OwnKernels,
        given: Option<&BTreeMap<String, f64>>,
    ) -> Result<Self, EngineError> {
        let mut launches = Launches { kernel: own.kernel("nothing")?, best: f64::INFINITY };
        if let Some(&best) = given.and_then(|given| given.get(NAME)).filter(|best| best.is_normal()) {
            launches.best = best;
            return Ok(launches);
        }
        for _ in 0..FIRST {
            launches.best = launches.best.min(launches.nanoseconds(stream)?);
        }
        Ok(launches)
    }

    /// The best, by the name of the reference.
    pub(super) fn references(&self) -> BTreeMap<String, f64> {
        BTreeMap::from([(NAME.to_owned(), self.best)])
    }

    /// The factor from what takes so long now to what it takes at best.
    ///
    /// # Errors
    /// The driver's.
    pub(super) fn factor(&self, stream: &Stream) -> Result<f64, EngineError> {
        Ok(self.best / self.nanoseconds(stream)?)
    }

    /// What a launch costs now, by the host's clock: the device, which is idle before, never makes
    /// it wait.
    fn nanoseconds(&self, stream: &Stream) -> Result<f64, EngineError> {
        let begin = Instant::now();
        for _ in 0..GROUP {
            // SAFETY: the kernel takes nothing and does nothing.
            #[expect(unsafe_code, reason = "launches a kernel")]
            unsafe {
                Launch::new(1, 32).queue(stream, &self.kernel, Arguments::default())?;
            }
        }
        let elapsed = begin.elapsed().as_nanos() as f64 / f64::from(GROUP);
        stream.synchronize()?;
        Ok(elapsed)
    }
}
