//! Splits rows into those that a part of a model is fitted to and those that judge it.

use rustc_hash::FxHashMap;

/// The rows of one part.
#[derive(Debug, Clone)]
pub(crate) struct Split {
    pub(crate) kept: Vec<usize>,
    pub(crate) left: Vec<usize>,
    /// A seed for this part alone.
    pub(crate) seed: u64,
}

/// `rounds` times, the groups are shuffled and cut into folds, and each fold is left out once. Rows
/// of one group stay together.
pub(crate) fn splits(groups: &[u64], folds: usize, rounds: usize, seed: u64) -> Vec<Split> {
    let mut distinct = groups.to_vec();
    distinct.sort_unstable();
    distinct.dedup();
    let folds = folds.min(distinct.len()).max(1);
    let mut splits = Vec::with_capacity(folds * rounds);
    for round in 0..rounds {
        let seed = mix(seed, round as u64);
        distinct.sort_by_key(|group| (mix(seed, *group), *group));
        let fold: FxHashMap<u64, usize> =
            distinct.iter().enumerate().map(|(place, group)| (*group, place % folds)).collect();
        for part in 0..folds {
            let is_left = |row: &usize| fold.get(&groups[*row]) == Some(&part);
            let (left, kept) = (0..groups.len()).partition(is_left);
            splits.push(Split { kept, left, seed: mix(seed, part as u64) });
        }
    }
    splits
}

/// `SplitMix64`'s output function (Steele, Lea, Flood, 2014) over a seed and a number.
pub(crate) const fn mix(seed: u64, number: u64) -> u64 {
    let mut z = seed ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_left_out_once_a_round_with_its_group() {
        let groups: Vec<u64> = (0..100).map(|row| row / 3).collect();
        let all = splits(&groups, 7, 2, 5);
        assert_eq!(all.len(), 14);
        for round in all.chunks(7) {
            let mut left: Vec<usize> = round.iter().flat_map(|split| split.left.clone()).collect();
            left.sort_unstable();
            assert_eq!(left, (0..100).collect::<Vec<_>>());
        }
        for split in &all {
            for row in &split.left {
                assert!(split.kept.iter().all(|kept| groups[*kept] != groups[*row]));
            }
        }
    }
}
