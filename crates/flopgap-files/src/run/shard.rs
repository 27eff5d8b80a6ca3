//! The part of a plan that one of several processes takes on.

use std::fmt;
use std::str::FromStr;

use crate::{ErrorKind, Hint};

/// Why a shard is invalid, in words.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ShardError(String);

impl Hint for ShardError {
    fn kind(&self) -> ErrorKind {
        ErrorKind::Usage
    }
}

/// The part of a plan that one of several independent workers takes on: every K-th entry.
///
/// Every worker computes its part from the plan alone. The parts of one K have nothing in common,
/// leave nothing out, and differ by at most one entry in length.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Shard {
    index: u32,
    of: u32,
}

impl Shard {
    /// The whole plan.
    pub const WHOLE: Shard = Shard { index: 1, of: 1 };

    /// The `index`-th of `of` workers, counted from 1.
    ///
    /// # Errors
    /// A number beyond theirs.
    pub fn new(index: u32, of: u32) -> Result<Shard, ShardError> {
        if index == 0 || index > of {
            let reason = format!("invalid shard `{index}/{of}`: workers are counted from 1 to {of}");
            return Err(ShardError(reason));
        }
        Ok(Shard { index, of })
    }

    /// The shard of a task of a Slurm job array, from the values of `SLURM_ARRAY_TASK_ID`,
    /// `_COUNT`, `_MIN` and `_STEP`; without the last two, ids count from 0 upwards.
    ///
    /// # Errors
    /// A value that is missing or not a number, or beyond the others.
    pub fn of_slurm_task(variable: impl Fn(&str) -> Option<String>) -> Result<Shard, ShardError> {
        let number = |name: &str| variable(name).and_then(|text| text.trim().parse::<u32>().ok());
        let (id, of) = (number("SLURM_ARRAY_TASK_ID"), number("SLURM_ARRAY_TASK_COUNT"));
        let (Some(id), Some(of)) = (id, of) else {
            let reason =
                "not a task of a Slurm job array: SLURM_ARRAY_TASK_ID and SLURM_ARRAY_TASK_COUNT are not set";
            return Err(ShardError(reason.to_owned()));
        };
        let least = number("SLURM_ARRAY_TASK_MIN").unwrap_or(0);
        let step = number("SLURM_ARRAY_TASK_STEP").unwrap_or(1).max(1);
        let index = id.checked_sub(least).map_or(0, |offset| (offset / step).saturating_add(1));
        Shard::new(index, of)
    }

    /// The number of this worker, from 1.
    pub fn index(self) -> u32 {
        self.index
    }

    /// How many workers there are.
    pub fn of(self) -> u32 {
        self.of
    }

    /// Whether there is only this worker.
    pub fn is_whole(self) -> bool {
        self.of == 1
    }

    /// Whether two workers may have entries in common.
    pub fn overlaps(self, other: Shard) -> bool {
        self.of != other.of || self.index == other.index
    }

    /// The entries that fall to this worker, in their order. All workers must pass the same plan.
    pub fn deal<T>(self, plan: impl IntoIterator<Item = T>) -> impl Iterator<Item = T> {
        plan.into_iter().skip(self.index as usize - 1).step_by(self.of as usize)
    }
}

/// `2/4`.
impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.index, self.of)
    }
}

/// Reads `2/4`.
impl FromStr for Shard {
    type Err = ShardError;

    fn from_str(text: &str) -> Result<Shard, ShardError> {
        let parts =
            text.split_once('/').and_then(|(index, of)| Some((index.parse().ok()?, of.parse().ok()?)));
        let expected = || {
            ShardError(format!("invalid shard `{text}`: expected I/K, the I-th of K workers, counted from 1"))
        };
        let (index, of) = parts.ok_or_else(expected)?;
        Shard::new(index, of)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn shards_as_text() {
        let message = |text: &str| text.parse::<Shard>().unwrap_err().to_string();
        assert_eq!("2/4".parse::<Shard>().unwrap().to_string(), "2/4");
        assert_eq!(message("0/4"), "invalid shard `0/4`: workers are counted from 1 to 4");
        assert_eq!(message("5/4"), "invalid shard `5/4`: workers are counted from 1 to 4");
        assert_eq!(message("2"), "invalid shard `2`: expected I/K, the I-th of K workers, counted from 1");
    }

    #[test]
    fn shards_of_slurm_arrays() {
        let shard = |values: &[(&str, &str)]| {
            Shard::of_slurm_task(|name| {
                let name = name.strip_prefix("SLURM_ARRAY_TASK_")?;
                values.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned())
            })
            .map(|shard| shard.to_string())
        };
        assert_eq!(shard(&[("ID", "0"), ("COUNT", "4"), ("MIN", "0"), ("STEP", "1")]).unwrap(), "1/4");
        assert_eq!(shard(&[("ID", "4"), ("COUNT", "4"), ("MIN", "1")]).unwrap(), "4/4");
        assert_eq!(shard(&[("ID", "30"), ("COUNT", "3"), ("MIN", "10"), ("STEP", "10")]).unwrap(), "3/3");
        assert_eq!(shard(&[("ID", "3"), ("COUNT", "4")]).unwrap(), "4/4");
        assert!(
            shard(&[("ID", "7"), ("COUNT", "4"), ("MIN", "0")]).unwrap_err().to_string().contains("`8/4`")
        );
        assert!(shard(&[("ID", "4"), ("COUNT", "4")]).unwrap_err().to_string().contains("`5/4`"));
        assert!(shard(&[("ID", "4294967295"), ("COUNT", "4")]).is_err());
        assert!(shard(&[]).unwrap_err().to_string().contains("SLURM_ARRAY_TASK_ID"));
    }

    proptest! {
        #[test]
        fn shards_partition_any_plan(length in 0usize..200, of in 1u32..30) {
            let shards: Vec<Vec<usize>> =
                (1..=of).map(|index| Shard::new(index, of).unwrap().deal(0..length).collect()).collect();
            let mut all = shards.concat();
            all.sort_unstable();
            prop_assert_eq!(all, (0..length).collect::<Vec<_>>());
            let sizes = || shards.iter().map(Vec::len);
            prop_assert!(sizes().max().unwrap() - sizes().min().unwrap() <= 1);
            prop_assert!(shards.iter().all(|shard| shard.is_sorted()));
        }

        #[test]
        fn any_text_is_a_shard_or_an_error(text in "[-0-9/+ a]{0,12}") {
            if let Ok(shard) = text.parse::<Shard>() {
                prop_assert!((1..=shard.of()).contains(&shard.index()));
                prop_assert_eq!(shard.to_string().parse(), Ok(shard));
            }
        }
    }
}
