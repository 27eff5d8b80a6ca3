//! Places: a process on a GPU, and the spread over several of them.

use std::fmt;

use flopgap_trace::{DeviceId, GpuId, GpuNumber, ProcessId, Recording};
use serde::{Deserialize, Serialize};

use crate::error::Error;

/// A process on a GPU: a rank of a distributed program, or one of the GPUs of a single process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Place {
    /// The rank of the process in its job; absent where a recording does not say it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rank: Option<u64>,
    /// The process id; absent where an export does not say it, or where one process did everything.
    pub process: Option<i64>,
    /// The GPU as the machine numbers it, or where an export does not say that, as its process
    /// does. Absent where a process used one alone and it is not known, or for what happens on the
    /// host.
    pub gpu: Option<GpuId>,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.process, self.gpu) {
            (_, Some(gpu)) if let Some(rank) = self.rank => write!(f, "rank {rank}, GPU {gpu}"),
            (_, None) if let Some(rank) = self.rank => write!(f, "rank {rank}"),
            (Some(process), Some(gpu)) => write!(f, "process {process}, GPU {gpu}"),
            (Some(process), None) => write!(f, "process {process}"),
            (None, Some(gpu)) => write!(f, "GPU {gpu}"),
            (None, None) => f.write_str("all"),
        }
    }
}

/// The GPUs of a machine by the numbers that its processes give them, and the ranks of these.
#[derive(Clone, Debug, Default)]
pub(crate) struct Gpus {
    numbers: Vec<GpuNumber>,
    ranks: Vec<(ProcessId, u64)>,
}

impl Gpus {
    pub(crate) fn read(trace: &dyn Recording) -> Result<Gpus, Error> {
        Ok(Gpus { numbers: trace.gpu_numbers()?, ranks: trace.ranks() })
    }

    pub(crate) fn place(&self, process: Option<ProcessId>, device: DeviceId) -> Place {
        let pid = process.map(ProcessId::pid);
        let known = self.numbers.iter().find(|known| Some(known.pid) == pid && known.device == device);
        let gpu = Some(known.map_or(GpuId(device.0), |known| known.gpu));
        Place { rank: process.and_then(|process| self.rank(process)), process: pid, gpu }
    }

    pub(crate) fn rank(&self, process: ProcessId) -> Option<u64> {
        self.ranks.iter().find(|(known, _)| *known == process).map(|(_, rank)| *rank)
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
}

/// What a mean is a mean of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MeanOf {
    /// So many instances.
    Instances(u64),
    /// The instances of each of several places, from `least` to `most` of them.
    Places {
        /// How many places.
        places: u64,
        /// The fewest instances of a place.
        least: u64,
        /// The most instances of a place.
        most: u64,
    },
}

impl MeanOf {
    /// What the means of a scope are means of, given its instances and those of its places; nothing
    /// for whole traces.
    pub(crate) fn instances(whole: Option<u64>, places: impl Iterator<Item = Option<u64>>) -> Option<MeanOf> {
        let whole = whole?;
        let places: Vec<u64> = places.flatten().collect();
        Some(match (places.iter().min(), places.iter().max()) {
            (Some(&least), Some(&most)) if places.len() > 1 => {
                MeanOf::Places { places: places.len() as u64, least, most }
            }
            _ => MeanOf::Instances(whole),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_n_that_is_shown_is_that_which_divides() {
        let of = |whole, places: &[u64]| MeanOf::instances(whole, places.iter().map(|count| Some(*count)));
        let places = |least, most| Some(MeanOf::Places { places: 2, least, most });
        assert_eq!(of(Some(6), &[]), Some(MeanOf::Instances(6)));
        assert_eq!((of(Some(6), &[3, 3]), of(Some(5), &[2, 3])), (places(3, 3), places(2, 3)));
        assert_eq!(of(None, &[]), None);
    }

    #[test]
    fn the_straggler_is_the_place_with_the_most_time() {
        let place =
            |process: i64, gpu: i64| Place { rank: None, process: Some(process), gpu: Some(GpuId(gpu)) };
        let times = [(place(7, 0), 4.0), (place(8, 1), 9.0), (place(9, 2), 5.0), (place(10, 3), 6.0)];
        let spread = Spread::of(times).unwrap();
        assert_eq!((spread.min_ns, spread.median_ns, spread.max_ns, spread.places), (4.0, 5.5, 9.0, 4));
        assert_eq!(spread.slowest.to_string(), "process 8, GPU 1");
        assert_eq!(Spread::of([(place(7, 0), 4.0)]), None);
        assert_eq!(Spread::of([(place(7, 0), 4.0), (place(8, 0), 4.0)]).unwrap().slowest, place(7, 0));
    }
}
