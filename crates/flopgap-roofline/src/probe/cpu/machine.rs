//! Reads properties of the machine from the system.

use std::collections::BTreeMap;
use std::fs;

use super::super::levels::Capacity;

/// The caches that so many threads fill, by properties such as `L2`: `1024K x 8`.
pub(super) fn capacities(properties: &BTreeMap<String, String>, threads: usize) -> Vec<Capacity> {
    let capacity = |(property, name): (&str, &str)| {
        let (size, count) = properties.get(property)?.split_once(" x ")?;
        // A thread fills one of each; a cache that all share is there once.
        let count = count.trim().parse::<u64>().ok()?.min(threads as u64);
        let bytes = bytes(size)?.checked_mul(count).filter(|bytes| *bytes > 0)?;
        Some(Capacity { name: name.to_owned(), bytes })
    };
    [("L1d", "L1"), ("L2", "L2"), ("L3", "L3")].into_iter().filter_map(capacity).collect()
}

/// `48K`, `2M`, `512`.
fn bytes(size: &str) -> Option<u64> {
    let size = size.trim();
    let (digits, unit) = match size.strip_suffix('K') {
        Some(digits) => (digits, 1 << 10),
        None => size.strip_suffix('M').map_or((size, 1), |digits| (digits, 1 << 20)),
    };
    digits.parse::<u64>().ok()?.checked_mul(unit)
}

/// Bytes of memory that can be had without swapping.
pub(super) fn available_memory() -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.split_whitespace().next()?.parse::<u64>().ok()?.checked_mul(1 << 10)
}

/// The median of the current clocks of the cores, if the system reports them.
pub(super) fn clock_mhz() -> Option<f64> {
    clock_in(&fs::read_to_string("/proc/cpuinfo").ok()?)
}

fn clock_in(cpuinfo: &str) -> Option<f64> {
    let value = |line: &str| line.strip_prefix("cpu MHz")?.split_once(':')?.1.trim().parse::<f64>().ok();
    let mut clocks: Vec<f64> = cpuinfo.lines().filter_map(value).collect();
    clocks.sort_by(f64::total_cmp);
    clocks.get(clocks.len() / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_fill_a_cache_each_but_no_more_than_there_are() {
        let of = |pairs: &[(&str, &str)], threads| -> Vec<(String, u64)> {
            let properties =
                pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
            capacities(&properties, threads).into_iter().map(|one| (one.name, one.bytes)).collect()
        };
        let server = [("L1d", "48K x 8"), ("L2", "2M x 8"), ("L3", "107520K x 1")];
        let named = |sizes: [u64; 3]| {
            ["L1", "L2", "L3"].map(str::to_owned).into_iter().zip(sizes).collect::<Vec<_>>()
        };
        assert_eq!(of(&server, 4), named([192 << 10, 8 << 20, 105 << 20]));
        assert_eq!(of(&server, 64), named([384 << 10, 16 << 20, 105 << 20]));
        assert!(of(&[("L1d", "many x 2"), ("L2", "0K x 1"), ("L3", "5M")], 1).is_empty());
    }

    #[test]
    fn the_clock_is_that_of_the_middle_core() {
        assert_eq!(
            clock_in("cpu MHz\t\t: 2600.0\nx : y\ncpu MHz\t\t: 4100.5\ncpu MHz : 2700.0\n"),
            Some(2700.0)
        );
        assert_eq!(clock_in("Features : fp"), None);
    }

    #[test]
    fn this_machine_has_memory() {
        if std::path::Path::new("/proc/meminfo").exists() {
            assert!(available_memory().unwrap() > 1 << 20);
        }
    }
}
