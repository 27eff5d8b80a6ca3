//! Results.

use std::fmt;
use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read as _};
use std::path::Path;

use flopgap_cli::Failure;
use flopgap_files::unpack::{Compression, Meter};
use flopgap_gpu::timing::Samples;
use serde::{Deserialize, Serialize};

use crate::floor::{Peaks, Work};

/// The clock, and the state of the cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Clock {
    /// The GPU's, in a graph: the work alone. What fits the second-level cache stays there from one
    /// pass to the next.
    Graph,
    /// The same, with an empty second-level cache before every pass.
    GraphCold,
    /// The GPU's, between two events around a launch.
    Launch,
    /// The host's, until the stream is done.
    Host,
}

impl Clock {
    /// All, in the order in which they are shown.
    pub(crate) const ALL: [Clock; 4] = [Clock::Graph, Clock::GraphCold, Clock::Launch, Clock::Host];

    /// Its name in results.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Clock::Graph => "gpu-graph",
            Clock::GraphCold => "gpu-graph-cold",
            Clock::Launch => "gpu-launch",
            Clock::Host => "cpu",
        }
    }
}

/// What is timed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Subject {
    /// The implementation, or the other program.
    #[serde(rename = "impl")]
    pub(crate) implementation: String,
    pub(crate) size: String,
    pub(crate) precision: String,
    pub(crate) pass: String,
    pub(crate) batch: usize,
}

impl Subject {
    /// Whether two results are of the same work, by any implementation.
    pub(crate) fn same_work(&self, other: &Subject) -> bool {
        (&self.size, &self.precision, &self.pass, self.batch)
            == (&other.size, &other.precision, &other.pass, other.batch)
    }
}

/// `coopmat small fp16 forward, batch 256`.
impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Subject { implementation, size, precision, pass, batch } = self;
        write!(f, "{implementation} {size} {precision} {pass}, batch {batch}")
    }
}

/// One line of the results.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Measurement {
    #[serde(flatten)]
    pub(crate) subject: Subject,
    /// The clock.
    pub(crate) timing: String,
    pub(crate) median_us: f64,
    pub(crate) p10_us: Option<f64>,
    pub(crate) p90_us: Option<f64>,
    /// FLOP/s of the products: `2 in out` for each layer and sample forward, twice that backward.
    pub(crate) tflops: f64,
    /// Compulsory bytes per second.
    pub(crate) gbps: f64,
    /// The floor's part of the time; more than 1 where the second-level cache beats the memory;
    /// absent where the peaks are not known.
    pub(crate) floor_fraction: Option<f64>,
    /// The largest relative error against 64 bits; absent for other programs.
    pub(crate) max_rel_error: Option<f64>,
}

impl Measurement {
    /// Of our own.
    pub(crate) fn new(
        subject: &Subject,
        clock: &str,
        samples: &Samples,
        work: &Work,
        floor_us: Option<f64>,
        error: f64,
    ) -> Self {
        let microseconds = |part| samples.quantile(part) / 1e3;
        Measurement {
            p10_us: Some(microseconds(0.1)),
            p90_us: Some(microseconds(0.9)),
            max_rel_error: Some(error),
            ..Self::of_median(subject, clock, microseconds(0.5), work, floor_us)
        }
    }

    /// A result of another program, which reports only its median.
    pub(crate) fn of_median(
        subject: &Subject,
        clock: &str,
        median_us: f64,
        work: &Work,
        floor_us: Option<f64>,
    ) -> Self {
        Measurement {
            subject: subject.clone(),
            timing: clock.to_owned(),
            median_us,
            p10_us: None,
            p90_us: None,
            tflops: work.flops / median_us / 1e6,
            gbps: work.bytes / median_us / 1e3,
            floor_fraction: floor_us.map(|floor| floor / median_us),
            max_rel_error: None,
        }
    }

    /// Whether another program measured it; those report no error.
    pub(crate) fn is_peer(&self) -> bool {
        self.max_rel_error.is_none()
    }
}

/// Everything that was measured, on one device.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Results {
    pub(crate) device: String,
    /// The peaks behind the floor.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) peaks: Option<Peaks>,
    #[serde(rename = "results")]
    pub(crate) measurements: Vec<Measurement>,
}

/// A line of what another program measured.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(crate) struct PeerLine {
    #[serde(flatten)]
    pub(crate) subject: Subject,
    pub(crate) median_us: f64,
    /// Its clock; by default the same as ours.
    pub(crate) timing: Option<String>,
}

/// The bytes of a file of results, also if it is compressed.
///
/// # Errors
/// When it cannot be read.
pub(crate) fn read(path: &Path) -> Result<Vec<u8>, Failure> {
    let failed = |error: io::Error| Failure::new(format!("{}: cannot be read: {error}", path.display()));
    let meter = Meter::default();
    let mut packed = BufReader::new(meter.packed(File::open(path).map_err(failed)?));
    let mut bytes = Vec::new();
    match Compression::of(packed.fill_buf().map_err(failed)?) {
        Some(compression) => {
            meter.unpack(compression, packed).and_then(|mut file| file.read_to_end(&mut bytes))
        }
        None => packed.read_to_end(&mut bytes),
    }
    .map_err(failed)?;
    Ok(bytes)
}

impl Results {
    /// The baseline: the for-loop, or its unoptimized version.
    pub(crate) fn baseline(&self) -> Option<&'static str> {
        let measured = |name: &&str| self.measurements.iter().any(|m| m.subject.implementation == *name);
        ["forloop", "naive"].into_iter().find(measured)
    }

    /// Speed relative to the baseline, by the same clock.
    pub(crate) fn speed_up(&self, of: &Measurement) -> Option<f64> {
        let baseline = self.baseline()?;
        let same = |m: &&Measurement| {
            m.subject.implementation == baseline && m.timing == of.timing && m.subject.same_work(&of.subject)
        };
        Some(self.measurements.iter().find(same)?.median_us / of.median_us)
    }

    /// Speed relative to the fastest other program.
    pub(crate) fn against_peers(&self, of: &Measurement) -> Option<f64> {
        let peers = self.measurements.iter().filter(|m| m.is_peer() && m.subject.same_work(&of.subject));
        let best = peers.map(|m| m.median_us).reduce(f64::min)?;
        (!of.is_peer()).then(|| best / of.median_us)
    }

    /// Whether other programs are among them.
    pub(crate) fn with_peers(&self) -> bool {
        self.measurements.iter().any(Measurement::is_peer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measurement(implementation: &str, median: f64, ours: bool) -> Measurement {
        let subject = Subject {
            implementation: implementation.to_owned(),
            size: "small".to_owned(),
            precision: "fp16".to_owned(),
            pass: "forward".to_owned(),
            batch: 256,
        };
        let work = Work { flops: 2e6, bytes: 4e3 };
        let samples = Samples::new(vec![median * 1e3; 3]);
        if ours {
            Measurement::new(&subject, "gpu-graph", &samples, &work, Some(0.5), 1e-4)
        } else {
            Measurement::of_median(&subject, "gpu-graph", median, &work, Some(0.5))
        }
    }

    #[test]
    fn rates_speed_ups_and_the_floor_follow_from_the_median() {
        let results = Results {
            device: "a device".to_owned(),
            peaks: None,
            measurements: vec![
                measurement("forloop", 8.0, true),
                measurement("coopmat", 2.0, true),
                measurement("pytorch-graph", 6.0, false),
                measurement("pytorch-eager", 16.0, false),
            ],
        };
        let [forloop, coopmat, peer, _] = &results.measurements[..] else { panic!() };
        assert_eq!((coopmat.tflops, coopmat.gbps, coopmat.floor_fraction), (1.0, 2.0, Some(0.25)));
        assert_eq!(results.baseline(), Some("forloop"));
        assert_eq!((results.speed_up(forloop), results.speed_up(coopmat)), (Some(1.0), Some(4.0)));
        assert_eq!((results.against_peers(coopmat), results.against_peers(peer)), (Some(3.0), None));
    }
}
