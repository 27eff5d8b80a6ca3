//! Places: a process on a GPU, and the spread over several of them.

use std::fmt;

use flopgap_trace::{DeviceId, GpuId, GpuNumber, ProcessId, Recording};
use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::times::Times;

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
pub struct Gpus {
    pub(crate) numbers: Vec<GpuNumber>,
    pub(crate) ranks: Vec<(ProcessId, u64)>,
    /// Whether several processes did GPU work.
    pub(crate) several: bool,
}

impl Gpus {
    /// Reads what a recording says of them.
    ///
    /// # Errors
    /// What keeps it from being read.
    pub fn read(trace: &dyn Recording) -> Result<Gpus, Error> {
        Ok(Gpus { numbers: trace.gpu_numbers()?, ranks: trace.ranks(), several: false })
    }

    /// With the processes that did GPU work.
    #[must_use]
    pub fn with_processes(self, processes: impl Iterator<Item = Option<ProcessId>>) -> Gpus {
        let mut first = None;
        let several = processes.flatten().any(|process| *first.get_or_insert(process) != process);
        Gpus { several, ..self }
    }

    /// The GPU that a process calls `device`, the same for all processes that use it. Where the
    /// recording does not say which of the machine's it is, and several processes did GPU work, it
    /// is a GPU of that process or rank.
    pub fn gpu(&self, process: Option<ProcessId>, device: DeviceId) -> Place {
        let own = self.place(process, device);
        let is_known = process.is_some_and(|process| {
            self.numbers.iter().any(|known| known.pid == process.pid() && known.device == device)
        });
        if is_known || !self.several { Place { rank: None, process: None, ..own } } else { own }
    }

    /// A process on a GPU.
    pub fn place(&self, process: Option<ProcessId>, device: DeviceId) -> Place {
        let pid = process.map(ProcessId::pid);
        let known = self.numbers.iter().find(|known| Some(known.pid) == pid && known.device == device);
        let gpu = Some(known.map_or(GpuId(device.0), |known| known.gpu));
        Place { rank: process.and_then(|process| self.rank(process)), process: pid, gpu }
    }

    pub(crate) fn rank(&self, process: ProcessId) -> Option<u64> {
        self.ranks.iter().find(|(known, _)| *known == process).map(|(_, rank)| *rank)
    }
}

/// Without measured scatter, times that differ by less than this fraction are about the same.
const ABOUT_THE_SAME: f64 = 0.05;
/// With it, times that differ by less than this fraction of the larger are, too.
const AT_LEAST: f64 = 0.01;
/// How many standard errors two means have to be apart to be different.
const STANDARD_ERRORS: f64 = 3.0;

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
    /// The place with the largest time.
    pub slowest: Place,
    /// Whether it is a straggler: its time is larger than that of every other place by more than
    /// their scatter, or where one time of each is known, by more than 5 %.
    pub is_distinct: bool,
}

impl Spread {
    /// The spread of the times of several places; `None` for fewer than two.
    pub fn of(times: impl IntoIterator<Item = (Place, f64)>) -> Option<Spread> {
        Spread::with_errors(times.into_iter().map(|(place, time)| (place, time, None)))
    }

    /// The spread of means over several places; `None` for fewer than two.
    pub fn of_means<'a>(times: impl IntoIterator<Item = (Place, &'a Times)>) -> Option<Spread> {
        Spread::with_errors(times.into_iter().map(|(place, times)| {
            let error = (times.count > 1).then(|| times.stddev_ns / (times.count as f64).sqrt());
            (place, times.mean_ns, error)
        }))
    }

    /// The spread of times with their standard errors, where these are known.
    fn with_errors(times: impl Iterator<Item = (Place, f64, Option<f64>)>) -> Option<Spread> {
        let mut times: Vec<(Place, f64, Option<f64>)> = times.collect();
        times.sort_by(|one, other| one.1.total_cmp(&other.1).then(other.0.cmp(&one.0)));
        let (first, last) = (times.first()?, times.last()?);
        let middle = f64::midpoint(times[(times.len() - 1) / 2].1, times[times.len() / 2].1);
        let is_distinct = times.iter().rev().skip(1).all(|other| {
            let (difference, larger) = (last.1 - other.1, last.1.abs());
            let errors = last.2.zip(other.2);
            errors.map_or(difference > ABOUT_THE_SAME * larger, |(one, other)| {
                difference > STANDARD_ERRORS * one.hypot(other) && difference > AT_LEAST * larger
            })
        });
        (times.len() > 1).then_some(Spread {
            places: times.len() as u64,
            min_ns: first.1,
            median_ns: middle,
            max_ns: last.1,
            slowest: last.0,
            is_distinct,
        })
    }

    /// The straggler; `None` where the places do not differ by more than their scatter.
    pub fn straggler(&self) -> Option<Place> {
        self.is_distinct.then_some(self.slowest)
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
        assert_eq!(spread.straggler(), Some(spread.slowest));
        assert_eq!(Spread::of([(place(7, 0), 4.0)]), None);
        let same = Spread::of([(place(7, 0), 4.0), (place(8, 0), 4.0)]).unwrap();
        assert_eq!((same.slowest, same.straggler()), (place(7, 0), None));
    }

    /// The same means, once with much scatter and once with little.
    #[test]
    fn what_differs_by_its_scatter_has_no_straggler() {
        let place = |gpu: i64| Place { rank: None, process: None, gpu: Some(GpuId(gpu)) };
        let found = |one: [i64; 4], other: [i64; 4]| {
            let [one, other] = [one, other].map(|times| Times::of(times).unwrap());
            Spread::of_means([(place(0), &one), (place(1), &other)]).unwrap().straggler()
        };
        assert_eq!(found([80, 120, 90, 110], [90, 130, 95, 115]), None);
        assert_eq!(found([999, 1001, 1000, 1000], [1074, 1076, 1075, 1075]), Some(place(1)));
        // Not worth a word, however sure.
        assert_eq!(found([10_000; 4], [10_001; 4]), None);
        // Two of three are equally slow.
        let (slow, fast) = (Times::of([90, 90, 91]).unwrap(), Times::of([10, 11, 10]).unwrap());
        let three = [(place(0), &slow), (place(1), &fast), (place(2), &slow)];
        assert_eq!(Spread::of_means(three).unwrap().straggler(), None);
    }
}
