//! The plan of a run: the user's sizes, and the share of one worker.

use std::collections::BTreeSet;
use std::str::FromStr;

#[cfg(feature = "workers")]
use flopgap_files::run::Shard;
use flopgap_files::{ErrorKind, Hint};
use flopgap_flops::Pass;

use crate::sweep::{Config, Grid};

/// The largest size that is accepted: cuBLAS counts rows and columns in `int`.
pub const MAX_SIZE: u64 = i32::MAX as u64;

/// The most configurations that one grid may have.
pub const MAX_CONFIGS: usize = 1_000_000;

/// Why sizes are invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PlanError {
    /// Neither a number nor a range, or out of bounds.
    #[error("invalid {what} `{text}`: {reason}")]
    Invalid {
        /// `size` or `range`.
        what: &'static str,
        /// The text.
        text: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A size that occurs twice.
    #[error("size {size} is given twice (again by `{text}`)")]
    Duplicate {
        /// The size.
        size: u64,
        /// Where it occurs again.
        text: String,
    },
    /// An axis without a size.
    #[error("no size is given for {axis}")]
    NoSizes {
        /// `n`, `d` or `m`.
        axis: &'static str,
    },
    /// More than [`MAX_CONFIGS`].
    #[error("the sizes give more than {MAX_CONFIGS} configurations")]
    TooMany,
    /// The closed forms of a configuration overflow `u64`.
    #[error("{config}: its FLOPs exceed 64 bits, which no counter holds")]
    Uncountable {
        /// The configuration.
        config: Config,
    },
}

impl Hint for PlanError {
    fn kind(&self) -> ErrorKind {
        ErrorKind::Usage
    }
}

/// Sizes of one axis as the user writes them: `256`, or a range `128..2048:128` with both ends
/// included
/// (`:1` may be left out).
///
/// ```
/// use flopgap_phases::sweep::Sizes;
///
/// let written = ["128..512:128".parse()?, "1..3".parse()?];
/// assert_eq!(Sizes::join("n", &written)?, [128, 256, 384, 512, 1, 2, 3]);
/// assert_eq!("8..2".parse::<Sizes>().unwrap_err().to_string(), "invalid range `8..2`: its end is below its start");
/// # Ok::<(), flopgap_phases::sweep::PlanError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sizes {
    text: String,
    values: Vec<u64>,
}

impl Sizes {
    /// Joins what was written for one axis.
    ///
    /// # Errors
    /// [`PlanError::Duplicate`] when a size occurs twice, [`PlanError::NoSizes`] when there is
    /// none.
    pub fn join(axis: &'static str, written: &[Sizes]) -> Result<Vec<u64>, PlanError> {
        let mut seen = BTreeSet::new();
        let mut all = Vec::new();
        for sizes in written {
            for &size in &sizes.values {
                if !seen.insert(size) {
                    return Err(PlanError::Duplicate { size, text: sizes.text.clone() });
                }
                all.push(size);
            }
        }
        if all.is_empty() { Err(PlanError::NoSizes { axis }) } else { Ok(all) }
    }
}

impl FromStr for Sizes {
    type Err = PlanError;

    fn from_str(text: &str) -> Result<Sizes, PlanError> {
        let values = match text.split_once("..") {
            None => vec![size(text, text)?],
            Some((first, rest)) => {
                let (last, step) = rest.split_once(':').unwrap_or((rest, "1"));
                range(text, first, last, step)?
            }
        };
        Ok(Sizes { text: text.to_owned(), values })
    }
}

fn range(text: &str, first: &str, last: &str, step: &str) -> Result<Vec<u64>, PlanError> {
    let (first, last) = (size(text, first)?, size(text, last)?);
    if step == "0" {
        return Err(invalid("range", text, "a step is at least 1"));
    }
    let step = size(text, step)?;
    if last < first {
        return Err(invalid("range", text, "its end is below its start"));
    }
    if (last - first) / step >= MAX_CONFIGS as u64 {
        return Err(PlanError::TooMany);
    }
    // Within MAX_SIZE, so that no sum overflows.
    Ok((0..=(last - first) / step).map(|index| first + index * step).collect())
}

/// One number of `text`.
fn size(text: &str, number: &str) -> Result<u64, PlanError> {
    let digits = number.strip_prefix('-').unwrap_or(number);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        let expected = "expected a whole number such as 256, or a range such as 128..2048:128";
        return Err(invalid("size", text, expected));
    }
    if digits.len() < number.len() || digits.bytes().all(|byte| byte == b'0') {
        return Err(invalid("size", text, "a size is at least 1"));
    }
    match number.parse() {
        Ok(size) if size <= MAX_SIZE => Ok(size),
        _ => Err(invalid("size", text, format!("the largest size is {MAX_SIZE}"))),
    }
}

fn invalid(what: &'static str, text: &str, reason: impl Into<String>) -> PlanError {
    PlanError::Invalid { what, text: text.to_owned(), reason: reason.into() }
}

impl Grid {
    /// The grid that a run without sizes measures: n 2, 4, 8, 16, 32 × d 128..2048:128 × m
    /// 16..256:16, 1,280 configurations.
    pub fn standard() -> Grid {
        Grid {
            n: vec![2, 4, 8, 16, 32],
            d: (1..=16).map(|step| step * 128).collect(),
            m: (1..=16).map(|step| step * 16).collect(),
        }
    }

    /// Checks a grid, including one from an edited manifest.
    ///
    /// # Errors
    /// [`PlanError`] for an axis without sizes, a size that is 0, too large or repeated, too many
    /// configurations, and one whose FLOPs overflow.
    pub fn check(&self) -> Result<(), PlanError> {
        for (axis, sizes) in [("n", &self.n), ("d", &self.d), ("m", &self.m)] {
            let written = sizes
                .iter()
                .map(|size| size.to_string().parse())
                .collect::<Result<Vec<Sizes>, PlanError>>()?;
            Sizes::join(axis, &written)?;
        }
        let count = [&self.d, &self.m]
            .into_iter()
            .try_fold(self.n.len(), |count, axis| count.checked_mul(axis.len()));
        if count.is_none_or(|count| count > MAX_CONFIGS) {
            return Err(PlanError::TooMany);
        }
        for config in self.configs() {
            let countable = config.network().is_ok_and(|network| {
                Pass::ALL.into_iter().all(|pass| network.theory(pass).and_then(|flops| flops.total()).is_ok())
            });
            if !countable {
                return Err(PlanError::Uncountable { config });
            }
        }
        Ok(())
    }

    /// The ranges for the name of a run directory: `n2-32_d128-2048_m16-256`, or `n4_d512_m16-64`
    /// where an axis has one size.
    pub fn span(&self) -> String {
        let axis = |name: char, sizes: &[u64]| match (sizes.iter().min(), sizes.iter().max()) {
            (Some(least), Some(most)) if least < most => format!("{name}{least}-{most}"),
            (Some(only), _) => format!("{name}{only}"),
            (None, _) => name.to_string(),
        };
        format!("{}_{}_{}", axis('n', &self.n), axis('d', &self.d), axis('m', &self.m))
    }
}

/// A worker's configurations, in the plan's order.
///
/// Configurations are distributed in order of falling cost, so that workers have about equal loads;
/// every worker computes the same distribution from the plan alone.
#[cfg(feature = "workers")]
pub(crate) fn part(shard: Shard, plan: &BTreeSet<Config>) -> Vec<Config> {
    let cost = |config: &Config| {
        u128::from(config.n) * u128::from(config.d) * u128::from(config.d) * u128::from(config.m)
    };
    let mut dealt: Vec<Config> = plan.iter().copied().collect();
    dealt.sort_by_key(|config| (std::cmp::Reverse(cost(config)), *config));
    let mut mine: Vec<Config> = shard.deal(dealt).collect();
    mine.sort_unstable();
    mine
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn message(text: &str) -> String {
        text.parse::<Sizes>().unwrap_err().to_string()
    }

    #[test]
    fn invalid_sizes_are_named() {
        for (text, expected) in [
            ("-4", "invalid size `-4`: a size is at least 1"),
            ("0", "invalid size `0`: a size is at least 1"),
            ("0..4", "invalid size `0..4`: a size is at least 1"),
            ("2147483648", "invalid size `2147483648`: the largest size is 2147483647"),
            (
                "99999999999999999999999",
                "invalid size `99999999999999999999999`: the largest size is 2147483647",
            ),
            ("512..256:128", "invalid range `512..256:128`: its end is below its start"),
            ("1..4:0", "invalid range `1..4:0`: a step is at least 1"),
            ("1..2147483647", "the sizes give more than 1000000 configurations"),
        ] {
            assert_eq!(message(text), expected);
        }
        for text in ["", "2k", "+2", "1..", "1..=4"] {
            let expected = "expected a whole number such as 256, or a range such as 128..2048:128";
            assert_eq!(message(text), format!("invalid size `{text}`: {expected}"));
        }
    }

    #[test]
    fn a_range_ends_at_the_last_step_within_it() {
        assert_eq!("128..2000:128".parse::<Sizes>().unwrap().values.last(), Some(&1920));
        assert_eq!("7..7:3".parse::<Sizes>().unwrap().values, [7]);
    }

    #[test]
    fn duplicates_and_empty_axes() {
        let written: Vec<Sizes> = ["256", "128..512:128"].iter().map(|text| text.parse().unwrap()).collect();
        let error = Sizes::join("d", &written).unwrap_err();
        assert_eq!(error.to_string(), "size 256 is given twice (again by `128..512:128`)");
        assert_eq!(Sizes::join("d", &[]).unwrap_err().to_string(), "no size is given for d");
    }

    #[test]
    fn grids_that_cannot_be_measured() {
        let grid = |n: &[u64], d: &[u64], m: &[u64]| Grid { n: n.to_vec(), d: d.to_vec(), m: m.to_vec() };
        let message = |grid: Grid| grid.check().unwrap_err().to_string();
        assert_eq!(message(grid(&[2], &[0], &[1])), "invalid size `0`: a size is at least 1");
        assert_eq!(message(grid(&[2], &[], &[1])), "no size is given for d");
        assert_eq!(message(grid(&[2, 2], &[1], &[1])), "size 2 is given twice (again by `2`)");
        assert_eq!(
            message(grid(&[1, 9], &[2_000_000_000], &[1])),
            "n9_d2000000000_m1: its FLOPs exceed 64 bits, which no counter holds"
        );
        let many: Vec<u64> = (1..=1001).collect();
        assert_eq!(message(grid(&many, &many, &[1])), "the sizes give more than 1000000 configurations");
    }

    #[test]
    fn the_standard_grid() {
        let grid = Grid::standard();
        grid.check().unwrap();
        assert_eq!(grid.configs().count(), 1280);
        assert_eq!(grid.span(), "n2-32_d128-2048_m16-256");
        assert_eq!(Grid { n: vec![4], ..grid }.span(), "n4_d128-2048_m16-256");
    }

    proptest! {
        #[test]
        fn shards_partition_the_plan(
            n in 1u64..9, d in 1u64..9, m in 1u64..9, of in 1u32..12,
        ) {
            let grid = Grid { n: (1..=n).collect(), d: (1..=d).collect(), m: (1..=m).collect() };
            let plan: BTreeSet<Config> = grid.configs().collect();
            let shards: Vec<Vec<Config>> =
                (1..=of).map(|index| part(Shard::new(index, of).unwrap(), &plan)).collect();
            let mut all: Vec<Config> = shards.concat();
            all.sort_unstable();
            prop_assert_eq!(all, plan.into_iter().collect::<Vec<_>>());
            let sizes = || shards.iter().map(Vec::len);
            prop_assert!(sizes().max().unwrap() - sizes().min().unwrap() <= 1);
        }

        #[test]
        fn any_text_is_sizes_or_an_error(text in "[-0-9.:a]{0,12}") {
            if let Ok(sizes) = text.parse::<Sizes>() {
                prop_assert!(!sizes.values.is_empty());
                prop_assert!(sizes.values.iter().all(|&size| (1..=MAX_SIZE).contains(&size)));
            }
        }
    }
}
