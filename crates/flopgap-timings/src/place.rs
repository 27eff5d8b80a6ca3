//! Places: a process on a GPU, and the spread over several of them.

use std::fmt;

use flopgap_hint::Hint as _;
use flopgap_nsys::{CudaDevice, GlobalId, Trace};
use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::times::in_words;

/// A process on a GPU: a rank of a distributed program, or one of the GPUs of a single process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Place {
    /// The process id; absent where an export does not say it, or where one process did everything.
    pub process: Option<i64>,
    /// The GPU as the machine numbers it, or where an export does not say that, as its process
    /// does. Absent where a process used one alone and it is not known, or for what happens on the
    /// host.
    pub gpu: Option<i64>,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.process, self.gpu) {
            (Some(process), Some(gpu)) => write!(f, "process {process}, GPU {gpu}"),
            (Some(process), None) => write!(f, "process {process}"),
            (None, Some(gpu)) => write!(f, "GPU {gpu}"),
            (None, None) => f.write_str("all"),
        }
    }
}

/// The GPUs of a machine by the numbers that its processes give them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Gpus(Vec<CudaDevice>);

impl Gpus {
    pub(crate) fn read(trace: &Trace) -> Result<Gpus, Error> {
        match trace.cuda_devices() {
            Ok(devices) => Ok(Gpus(devices)),
            Err(error) if error.is_absence() => Ok(Gpus::default()),
            Err(error) => Err(error.into()),
        }
    }

    pub(crate) fn place(&self, process: Option<GlobalId>, device: i64) -> Place {
        let process = process.map(GlobalId::pid);
        let known = self.0.iter().find(|known| Some(known.pid) == process && known.device == device);
        Place { process, gpu: Some(known.and_then(|known| known.gpu).unwrap_or(device)) }
    }
}

/// The spread of a time over several places, and the slowest of them.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// How many places.
    pub places: u64,
    /// The smallest of their times.
    pub min_ns: f64,
    /// The median.
    pub median_ns: f64,
    /// The largest.
    pub max_ns: f64,
    /// The straggler: the place with the largest time.
    pub slowest: Place,
}

impl Spread {
    /// The spread of the times of several places; `None` for fewer than two.
    pub fn of(times: impl IntoIterator<Item = (Place, f64)>) -> Option<Spread> {
        let mut times: Vec<(Place, f64)> = times.into_iter().collect();
        times.sort_by(|one, other| one.1.total_cmp(&other.1).then(other.0.cmp(&one.0)));
        let (first, last) = (times.first()?, times.last()?);
        let middle = f64::midpoint(times[(times.len() - 1) / 2].1, times[times.len() / 2].1);
        (times.len() > 1).then_some(Spread {
            places: times.len() as u64,
            min_ns: first.1,
            median_ns: middle,
            max_ns: last.1,
            slowest: last.0,
        })
    }

    /// `process 12, GPU 1 takes longest: 5.300 ms, median 5.100 ms, least 4.900 ms`.
    pub(crate) fn in_words(&self) -> String {
        format!(
            "{} takes longest of {}: {} (median {}, least {})",
            self.slowest,
            self.places,
            in_words(self.max_ns),
            in_words(self.median_ns),
            in_words(self.min_ns)
        )
    }
}

/// What a mean is a mean of: `mean of 6`, or where places have their own, `means of 3 in each of 2
/// places`. `None` for whole traces.
pub(crate) fn mean_of(whole: Option<u64>, places: impl Iterator<Item = Option<u64>>) -> Option<String> {
    let whole = whole?;
    let places: Vec<u64> = places.flatten().collect();
    Some(match (places.iter().min(), places.iter().max()) {
        (Some(least), Some(most)) if places.len() > 1 => {
            let each = if least == most { least.to_string() } else { format!("{least} to {most}") };
            format!("means of {each} in each of {} places", places.len())
        }
        _ => format!("mean of {whole}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_n_that_is_shown_is_that_which_divides() {
        let words = |whole, places: &[u64]| mean_of(whole, places.iter().map(|count| Some(*count)));
        assert_eq!(words(Some(6), &[]).unwrap(), "mean of 6");
        assert_eq!(words(Some(6), &[3, 3]).unwrap(), "means of 3 in each of 2 places");
        assert_eq!(words(Some(5), &[2, 3]).unwrap(), "means of 2 to 3 in each of 2 places");
        assert_eq!(words(None, &[]), None);
    }

    #[test]
    fn the_straggler_is_the_place_with_the_most_time() {
        let place = |process: i64, gpu: i64| Place { process: Some(process), gpu: Some(gpu) };
        let times = [(place(7, 0), 4.0), (place(8, 1), 9.0), (place(9, 2), 5.0), (place(10, 3), 6.0)];
        let spread = Spread::of(times).unwrap();
        assert_eq!((spread.min_ns, spread.median_ns, spread.max_ns, spread.places), (4.0, 5.5, 9.0, 4));
        assert_eq!(spread.slowest.to_string(), "process 8, GPU 1");
        assert_eq!(Spread::of([(place(7, 0), 4.0)]), None);
        assert_eq!(Spread::of([(place(7, 0), 4.0), (place(8, 0), 4.0)]).unwrap().slowest, place(7, 0));
    }
}
