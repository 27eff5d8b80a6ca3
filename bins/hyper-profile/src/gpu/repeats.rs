//! Counts launches that are alike once.
//!
//! Networks of the same width and columns launch the same kernels for their layers, however many
//! they have, and what a launch executes depends on its kernel, grid, block and sizes alone. So
//! forward and backward passes of deeper networks run uncounted, and each launch has the counts of
//! the equal one that was counted before. Nothing is assumed that is not looked at: every launch
//! is seen, a network with an unknown one is counted whole, and samples are counted whole to see
//! whether repeats are equal.

use std::collections::{BTreeSet, HashMap};

use crate::square::SquareError;
use flopgap_gpu::counters::{CounterSource, Launch, LaunchCounts};
use flopgap_phases::Phase;
use flopgap_phases::sweep::{Config, MeterError};

use super::counting::{count, expected_launches, region, within};

/// The depth at which a network has every kind of layer: a last one, and a first one without a
/// gradient of its input. In between are layers with the launches of both.
const SHALLOW: u64 = 2;

/// One of so many networks whose counts would be taken over is counted whole.
const SAMPLED: u64 = 64;

/// What the launches of networks of one width and number of columns execute; `None` where equal
/// launches of one network differ, as two products of one kernel and grid do that sum over other
/// lengths.
type Known = HashMap<(Phase, Launch), Option<Vec<u64>>>;

/// The launches that were counted, by width and columns.
#[derive(Debug, Default)]
pub(super) struct Repeats {
    known: HashMap<(u64, u64), Known>,
    /// Depths for which one network was counted whole, for comparison.
    compared: BTreeSet<u64>,
    /// Whether any network has counts of another one.
    are_taken: bool,
    /// Whether launches of deeper networks were seen to differ: then all are counted.
    differ: bool,
}

/// The launches of a network, and how many have the counts of another network's.
pub(super) type Counted = (Vec<LaunchCounts>, u64);

impl Repeats {
    /// The launches of a network with their counts. `open` makes a network, which then runs its
    /// phases.
    ///
    /// # Errors
    /// Those of `open` and of counting; [`MeterError::Lost`] where counts were taken over, and a
    /// network that is counted shows that equal launches differ.
    pub(super) fn measure<F>(
        &mut self,
        source: &mut dyn CounterSource,
        config: Config,
        open: &mut dyn FnMut(Config) -> Result<F, MeterError>,
    ) -> Result<Counted, MeterError>
    where
        F: FnMut(Phase) -> Result<(), SquareError>,
    {
        // Room for other numbers of launches costs more than the launches of a shallow network.
        let expected = expected_launches(Config { n: SHALLOW, ..config });
        let mut whole = |config| count(source, expected, &mut open(config)?);
        let sizes = (config.d, config.m);
        if self.differ {
            return Ok((whole(config)?, 0));
        }
        if config.n > SHALLOW && !self.known.contains_key(&sizes) {
            let shallow = whole(Config { n: SHALLOW, ..config })?;
            self.learn(sizes, &shallow)?;
        }
        let is_compared = self.compared.insert(config.n) || is_sampled(config);
        if config.n <= SHALLOW || is_compared {
            let rows = whole(config)?;
            self.learn(sizes, &rows)?;
            return Ok((rows, 0));
        }
        let mut run = open(config)?;
        // How many numbers setup draws depends on the depth: it is counted each time.
        let mut rows = within(&[Phase::Setup], &mut run, |work| source.per_launch(expected, work))?;
        let passes = within(&[Phase::Forward, Phase::Backward], &mut run, |work| source.uncounted(work))?;
        drop(run);
        let taken_over = passes.len() as u64;
        let known = &self.known[&sizes];
        for mut row in passes {
            let key = region(&row).map(|phase| (phase, row.launch.clone()));
            let Some(counts) = key.and_then(|key| known.get(&key)?.as_ref()) else {
                let rows = count(source, expected, &mut open(config)?)?;
                self.learn(sizes, &rows)?;
                return Ok((rows, 0));
            };
            row.counts.clone_from(counts);
            rows.push(row);
        }
        self.are_taken = true;
        Ok((rows, taken_over))
    }

    /// Keeps the counts of a network's passes, and compares them with what is known.
    fn learn(&mut self, sizes: (u64, u64), rows: &[LaunchCounts]) -> Result<(), MeterError> {
        let mut own = Known::new();
        for row in rows {
            let Some(phase) = region(row).filter(|&phase| phase != Phase::Setup) else { continue };
            let new = || Some(row.counts.clone());
            let counts = own.entry((phase, row.launch.clone())).or_insert_with(new);
            counts.take_if(|counts| *counts != row.counts);
        }
        let known = self.known.entry(sizes).or_default();
        for (key, counts) in own {
            let before = known.entry(key.clone()).or_insert_with(|| counts.clone());
            if before.is_none() || *before == counts {
                continue;
            }
            self.differ = true;
            if self.are_taken {
                let (phase, Launch { symbol, grid, .. }) = key;
                let (d, m) = sizes;
                return Err(MeterError::Lost {
                    message: format!(
                        "equal {phase} launches of `{symbol}` (grid {grid:?}, d={d}, m={m}) have different counts, and such counts \
                         were taken over: measure with --count-all, in another directory"
                    ),
                });
            }
        }
        Ok(())
    }
}

/// Whether a network is drawn: the same in every run.
fn is_sampled(Config { n, d, m }: Config) -> bool {
    // The finalizer of SplitMix64 (Steele, Lea, Flood 2014), by which neighbors are drawn apart.
    let mut bits = (n << 40) ^ (d << 20) ^ m;
    for factor in [0xbf58_476d_1ce4_e5b9, 0x94d0_49bb_1331_11eb] {
        bits = (bits ^ (bits >> 30)).wrapping_mul(factor);
    }
    (bits ^ (bits >> 31)).is_multiple_of(SAMPLED)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gpu::fake::{Fake, Network};

    /// The kernel of a layer's product forward, and what it executes besides what its sizes say.
    type Odd = fn(Config, u64) -> (&'static str, u64);

    const EQUAL: Odd = |_, _| ("gemm", 0);

    fn phases(mut on: Network, config: Config, odd: Odd) -> impl FnMut(Phase) -> Result<(), SquareError> {
        move |phase| {
            let Config { n, d, m } = config;
            match phase {
                Phase::Setup => on.launch("random", [0, n * d * d, 0]),
                Phase::Forward => (0..n).for_each(|layer| {
                    let (symbol, more) = odd(config, layer);
                    on.launch(symbol, [0, 0, d * d * m + more]);
                }),
                Phase::Backward => (0..n).for_each(|_| on.launch("gradient", [0, m, d * d])),
            }
            Ok(())
        }
    }

    fn grid() -> impl Iterator<Item = Config> {
        let sizes = (1..=16).flat_map(|d| (1..=16).map(move |m| (128 * d, 16 * m)));
        [2, 4, 8, 3].into_iter().flat_map(move |n| sizes.clone().map(move |(d, m)| Config { n, d, m }))
    }

    /// Measures the grid. Returns each network with its launches, and how many launches were
    /// counted; checks that all have the counts that they have when all are counted.
    fn measured(odd: Odd) -> Result<(Vec<(Config, Counted)>, usize), MeterError> {
        let (mut source, mut all) = (Fake::default(), Fake::default());
        let (on, on_all) = (source.network(), all.network());
        let mut repeats = Repeats::default();
        let mut networks = Vec::new();
        for config in grid() {
            let counted =
                repeats.measure(&mut source, config, &mut |config| Ok(phases(on.clone(), config, odd)))?;
            let truth = count(&mut all, 1, &mut phases(on_all.clone(), config, odd))?;
            assert_eq!(counted.0, truth, "{config}");
            networks.push((config, counted));
        }
        // Another number would cost a change of room.
        assert!(source.expected.iter().all(|&expected| expected == 17 || expected == 0));
        Ok((networks, source.counted))
    }

    #[test]
    fn launches_that_are_alike_are_counted_once() {
        let (networks, counted) = measured(EQUAL).unwrap();
        let whole = |config: Config| config.n == 2 || (config.d, config.m) == (128, 16) || is_sampled(config);
        let mut expected = 0;
        for (config, (rows, taken_over)) in networks {
            let taken = if whole(config) { 0 } else { 2 * config.n };
            assert_eq!(taken_over, taken, "{config}");
            expected += rows.len() - usize::try_from(taken).unwrap();
        }
        assert_eq!(counted, expected);
        let sampled = grid().filter(|&config| is_sampled(config)).count();
        assert!((8..=24).contains(&sampled), "{sampled} of 1,024");
    }

    /// The first network that is deeper shows it.
    #[test]
    fn where_layers_differ_all_launches_are_counted() {
        let (networks, _) = measured(|_, layer| ("gemm", u64::from(layer == 2))).unwrap();
        assert!(networks.iter().all(|(_, (_, taken_over))| *taken_over == 0));
        // Here, two launches of the most shallow network: known from the beginning.
        let (networks, _) = measured(|_, layer| ("gemm", u64::from(layer == 1))).unwrap();
        assert!(networks.iter().all(|(_, (_, taken_over))| *taken_over == 0));
    }

    #[test]
    fn a_kernel_that_was_not_counted_has_its_network_counted_whole() {
        let unaligned: Odd = |_, layer| (if layer == 3 { "gemm_unaligned" } else { "gemm" }, 0);
        let (networks, _) = measured(unaligned).unwrap();
        let whole =
            |n| networks.iter().filter(move |(config, (_, taken))| config.n == n && *taken == 0).count();
        // Once for each width and number of columns, by the networks of 4 layers.
        assert_eq!(whole(4), 256);
        assert!(whole(8) < 32 && whole(3) < 32);
    }

    #[test]
    fn counts_that_were_taken_over_and_turn_out_wrong_end_the_run() {
        let sampled_one: Odd =
            |config, layer| ("gemm", u64::from(config.n == 8 && layer == 5 && is_sampled(config)));
        let error = measured(sampled_one).unwrap_err();
        let MeterError::Lost { message } = error else { panic!("{error}") };
        assert!(message.starts_with("equal forward launches of `gemm` (grid [2, 1, 1], d="), "{message}");
        assert!(message.ends_with("measure with --count-all, in another directory"), "{message}");
    }
}
