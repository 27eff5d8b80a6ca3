//! The kernels of two traces, matched by name.

use std::collections::BTreeMap;

use flopgap_kernels::Classifier;
use flopgap_trace::fold_name;

use super::{Change, KernelChange, Operation, Side};
use crate::scope::Part;

/// Calls, total and bytes.
type Sum = (u64, i128, Option<u128>);

pub(super) fn matched(place: usize, parts: [&Part; 2], classifier: &Classifier) -> Vec<KernelChange> {
    let mut names: BTreeMap<String, (Operation, [Sum; 2])> = BTreeMap::new();
    for (at, part) in parts.into_iter().enumerate() {
        let kernels = part.kernels.iter();
        let kernels =
            kernels.map(|(name, times)| (Operation::Kernel, fold_name(name).into_owned(), times, None));
        let copies = part.copies.iter();
        let copies =
            copies.map(|times| (Operation::Memcpy, "[CUDA memcpy]".to_owned(), times, part.copied_bytes));
        let sets = part.sets.iter();
        let sets = sets.map(|times| (Operation::Memset, "[CUDA memset]".to_owned(), times, part.set_bytes));
        for (operation, name, times, bytes) in kernels.chain(copies).chain(sets) {
            let (_, sums) = names.entry(name).or_insert((operation, [Sum::default(); 2]));
            let sum = &mut sums[at];
            *sum = (sum.0 + times.count, sum.1 + times.total, bytes);
        }
    }
    let changes = names.into_iter().map(|(name, (operation, [before, after]))| {
        let info = classifier.get(&name);
        let time = Change { before: side(before, parts[0]), after: side(after, parts[1]) };
        KernelChange { place, short: info.short.clone(), class: info.class, operation, name, time }
    });
    changes.collect()
}

/// `None` without calls.
fn side((calls, total_ns, bytes): Sum, part: &Part) -> Option<Side> {
    (calls > 0).then(|| Side {
        calls,
        each_calls: part.each(i128::from(calls)),
        total_ns,
        mean_ns: total_ns as f64 / calls as f64,
        each_ns: part.each(total_ns),
        each_bytes: bytes.and_then(|bytes| i128::try_from(bytes).ok()).map(|bytes| part.each(bytes)),
    })
}
