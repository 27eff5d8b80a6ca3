//! One pass of a measurement: the open regions, and the rows of counts that belong to each.

use std::sync::Arc;

use super::launches::Watch;
use super::range::Mode;
use super::tally::Tally;
use super::{CounterError, Launch, LaunchCounts, RegionCounts};

/// Follows the regions of the work through one pass.
///
/// CUPTI's ranges are not nested here: a region that begins inside another one interrupts its
/// range, and the outer one goes on with a new range when the inner one ends. So every launch
/// belongs to the innermost region, and a region's counts are the sum of its ranges.
#[derive(Debug)]
pub(super) struct Pass {
    mode: Mode,
    /// Names of the open regions, and their places among `regions`.
    open: Vec<(String, usize)>,
    /// From which launch on which region is open.
    marks: Vec<(usize, Option<Arc<str>>)>,
    /// The regions that were entered, by their names with those around them.
    regions: Vec<Arc<str>>,
    /// The ranges of the profiler, where regions are counted.
    ranges: Vec<Range>,
}

/// A range of the profiler: what was launched while a region was the innermost.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Range {
    region: usize,
    launches: std::ops::Range<usize>,
    graphs: usize,
}

impl Pass {
    pub(super) fn new(mode: Mode) -> Self {
        Pass { mode, open: Vec::new(), marks: Vec::new(), regions: Vec::new(), ranges: Vec::new() }
    }

    /// Ranges so far: the number of the next.
    pub(super) fn rows(&self) -> usize {
        self.ranges.len()
    }

    pub(super) fn enter(&mut self, name: &str, tally: &mut Tally, watch: &Watch) -> Result<(), CounterError> {
        if self.mode == Mode::Region {
            if !self.open.is_empty() {
                self.end_range(tally, watch)?;
            }
            self.start_range(self.regions.len(), tally, watch)?;
        }
        self.open.push((name.to_owned(), self.regions.len()));
        let names: Vec<&str> = self.open.iter().map(|(name, _)| name.as_str()).collect();
        let label: Arc<str> = names.join("/").into();
        self.regions.push(label.clone());
        self.mark(Some(label), watch);
        Ok(())
    }

    pub(super) fn leave(&mut self, tally: &mut Tally, watch: &Watch) -> Result<(), CounterError> {
        if self.open.pop().is_none() {
            return Err(CounterError::NoRegion { what: "no region to leave".to_owned() });
        }
        let outer = self.open.last().map(|(_, region)| *region);
        self.mark(outer.map(|region| self.regions[region].clone()), watch);
        if self.mode == Mode::Region {
            self.end_range(tally, watch)?;
            if let Some(outer) = outer {
                self.start_range(outer, tally, watch)?;
            }
        }
        Ok(())
    }

    /// Leaves what is open. Returns the innermost region that was.
    pub(super) fn close(&mut self, tally: &mut Tally, watch: &Watch) -> Result<Option<String>, CounterError> {
        let innermost = self.open.pop().map(|(name, _)| name);
        self.open.clear();
        if innermost.is_some() && self.mode == Mode::Region {
            self.end_range(tally, watch)?;
        }
        Ok(innermost)
    }

    fn start_range(&mut self, region: usize, tally: &mut Tally, watch: &Watch) -> Result<(), CounterError> {
        tally.push(self.ranges.len())?;
        let start = watch.launches();
        // `graphs` holds the count at the start until the range ends.
        self.ranges.push(Range { region, launches: start..start, graphs: watch.graphs() });
        Ok(())
    }

    fn end_range(&mut self, tally: &mut Tally, watch: &Watch) -> Result<(), CounterError> {
        if let Some(range) = self.ranges.last_mut() {
            range.launches.end = watch.launches();
            range.graphs = watch.graphs() - range.graphs;
        }
        tally.pop()
    }

    fn mark(&mut self, label: Option<Arc<str>>, watch: &Watch) {
        if self.mode == Mode::Launch {
            self.marks.push((watch.launches(), label));
        }
    }

    /// The result of the pass, with the launches seen meanwhile.
    pub(super) fn done(self, launches: Vec<Launch>) -> Done {
        Done { launches, marks: self.marks, regions: self.regions, ranges: self.ranges }
    }
}

/// The launches and regions of a pass.
#[derive(Debug)]
pub(super) struct Done {
    launches: Vec<Launch>,
    /// From which launch on which region is open.
    marks: Vec<(usize, Option<Arc<str>>)>,
    regions: Vec<Arc<str>>,
    ranges: Vec<Range>,
}

impl Done {
    /// Rows of counts that it must have.
    pub(super) fn rows(&self, mode: Mode) -> usize {
        match mode {
            Mode::Launch => self.launches.len(),
            Mode::Region => self.ranges.len(),
        }
    }

    /// The launches in their order, with the region of each and these counts.
    pub(super) fn launches(self, counts: Vec<Vec<u64>>) -> Vec<LaunchCounts> {
        let mut marks = self.marks.into_iter().peekable();
        let mut region = None;
        let rows = self.launches.into_iter().zip(counts).enumerate().map(|(index, (launch, counts))| {
            while let Some((_, label)) = marks.next_if(|(first, _)| *first <= index) {
                region = label;
            }
            LaunchCounts { launch, region: region.clone(), counts }
        });
        rows.collect()
    }

    /// The regions in the order in which they were entered, with the counts of their ranges.
    pub(super) fn regions(self, counts: Vec<Vec<u64>>) -> Vec<RegionCounts> {
        let empty = |region| RegionCounts { region, launches: Vec::new(), graphs: 0, counts: Vec::new() };
        let mut rows: Vec<RegionCounts> = self.regions.into_iter().map(empty).collect();
        for (range, counts) in self.ranges.into_iter().zip(counts) {
            let Some(row) = rows.get_mut(range.region) else { continue };
            row.launches.extend_from_slice(self.launches.get(range.launches).unwrap_or_default());
            row.graphs += range.graphs;
            if row.counts.is_empty() {
                row.counts = counts;
            } else {
                // Counts are below 2^53 each: the sum of all ranges of a session does not overflow.
                row.counts.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
            }
        }
        rows
    }

    /// Checks that a later pass did the same as the first.
    pub(super) fn same_as(&self, now: &Done, pass: usize) -> Result<(), CounterError> {
        let different = |what| Err(CounterError::NotRepeatable { pass, what });
        if self.launches.len() != now.launches.len() {
            return different(format!(
                "{} kernels, the first pass {}",
                now.launches.len(),
                self.launches.len()
            ));
        }
        let mut pairs = self.launches.iter().zip(&now.launches).enumerate();
        if let Some((index, (before, after))) = pairs.find(|(_, (before, after))| before != after) {
            return different(format!(
                "{} {:?} {:?} as number {index}, the first pass {} {:?} {:?}",
                after.symbol, after.grid, after.block, before.symbol, before.grid, before.block
            ));
        }
        if self.regions != now.regions {
            return different("kernels in other regions".to_owned());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn launch(symbol: &str, blocks: u32) -> Launch {
        Launch { symbol: symbol.into(), grid: [blocks, 1, 1], block: [1, 1, 1], shared_bytes: 0 }
    }

    fn done(launches: &[(&str, u32)], regions: &[&str]) -> Done {
        Done {
            launches: launches.iter().map(|&(symbol, blocks)| launch(symbol, blocks)).collect(),
            marks: Vec::new(),
            regions: regions.iter().map(|&name| name.into()).collect(),
            ranges: Vec::new(),
        }
    }

    #[test]
    fn a_pass_that_does_something_else_is_named() {
        let first = done(&[("a", 1), ("b", 2)], &["r"]);
        assert!(first.same_as(&done(&[("a", 1), ("b", 2)], &["r"]), 2).is_ok());
        let text = |now: &Done| first.same_as(now, 2).unwrap_err().to_string();
        assert!(text(&done(&[("a", 1)], &["r"])).contains("1 kernels, the first pass 2"));
        assert!(text(&done(&[("a", 1), ("b", 3)], &["r"])).contains("b [3, 1, 1]"));
        assert!(text(&done(&[("a", 1), ("b", 2)], &["s"])).contains("other regions"));
    }

    /// `outer` is interrupted by `outer/inner`, and both are entered twice.
    #[test]
    fn a_region_has_the_sum_of_its_ranges() {
        let range = |region, launches, graphs| Range { region, launches, graphs };
        let done = Done {
            ranges: vec![range(0, 0..1, 0), range(1, 1..2, 1), range(0, 2..3, 0), range(2, 3..3, 0)],
            ..done(&[("a", 1), ("b", 1), ("c", 1)], &["outer", "outer/inner", "outer"])
        };
        assert_eq!(done.rows(Mode::Region), 4);
        let rows = done.regions(vec![vec![1, 10], vec![2, 20], vec![4, 40], vec![8, 80]]);
        let of = |row: &RegionCounts| {
            let symbols: Vec<_> = row.launches.iter().map(|launch| launch.symbol.to_string()).collect();
            (row.region.to_string(), symbols.concat(), row.graphs, row.counts.clone())
        };
        assert_eq!(
            rows.iter().map(of).collect::<Vec<_>>(),
            [
                ("outer".to_owned(), "ac".to_owned(), 0, vec![5, 50]),
                ("outer/inner".to_owned(), "b".to_owned(), 1, vec![2, 20]),
                ("outer".to_owned(), String::new(), 0, vec![8, 80]),
            ]
        );
    }
}
