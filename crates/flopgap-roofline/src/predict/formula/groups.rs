//! Groups of rows, merged into coarser ones if a group has few.

use flopgap_flops::Precision;
use rustc_hash::FxHashMap;

/// A finer sum, as far as it is within a factor of the coarser one: few rows say nothing about
/// sizes far from theirs.
pub(crate) fn near(sum: f64, coarser: f64, factor: f64) -> f64 {
    if sum > 0.0 { sum.clamp(coarser / factor, coarser * factor) } else { coarser }
}

/// Kernels in both 16-bit formats have the same tiles and times.
pub(crate) fn class(precision: Precision) -> Precision {
    if precision == Precision::Bf16 { Precision::Fp16 } else { precision }
}

/// Rows by a key, in the order in which the keys first appear.
pub(crate) fn by<K: Clone + Eq + std::hash::Hash>(
    rows: &[usize],
    key: impl Fn(usize) -> Option<K>,
) -> Vec<(K, Vec<usize>)> {
    let mut places: FxHashMap<K, usize> = FxHashMap::default();
    let mut groups: Vec<(K, Vec<usize>)> = Vec::new();
    for &row in rows {
        if let Some(key) = key(row) {
            let place = *places.entry(key.clone()).or_insert_with(|| {
                groups.push((key, Vec::new()));
                groups.len() - 1
            });
            groups[place].1.push(row);
        }
    }
    groups
}
