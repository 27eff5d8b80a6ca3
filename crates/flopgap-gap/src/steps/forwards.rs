//! Forward passes of a language model, by the sizes of their attention: a cache that grows.

use std::collections::BTreeMap;

use flopgap_flops::torch::OperatorKind;
use flopgap_trace::ThreadId;

use super::{FoundBy, HostStep, HostSteps};
use crate::host::Host;

/// Attention of one size, once for each layer.
#[derive(Clone, Copy, Debug)]
struct Forward {
    start: i64,
    queries: u32,
    keys: u32,
    layers: usize,
}

impl Forward {
    fn is_decode(&self) -> bool {
        self.queries == 1 && self.keys > 1
    }
}

/// Steps from the first attention of a forward pass to that of the next, where passes of one token
/// each see one key more than the pass before. Passes of prompts are left out. None without two
/// tokens, with gradients, and where passes differ in their number of layers.
pub(crate) fn forwards(host: &Host) -> Option<HostSteps> {
    let ranges = host.ranges.as_ref()?;
    let mut threads: BTreeMap<ThreadId, Vec<(i64, [u32; 2])>> = BTreeMap::new();
    for (at, (range, work)) in (0_u32..).zip(&*host.works) {
        // Attention that others call is theirs.
        let is_outermost = u32::try_from(*range).is_ok_and(|range| host.operator_of(range) == at);
        if work.kind == OperatorKind::Attention && is_outermost {
            let range = &ranges.ranges[*range];
            threads.entry(range.thread).or_default().push((range.start, work.result?));
        }
    }
    let mut steps: Vec<HostStep> = Vec::new();
    for (thread, mut calls) in threads {
        calls.sort_unstable();
        let same = calls.chunk_by(|(_, one), (_, other)| one == other);
        let passes = same.filter_map(|own| {
            let &(start, [queries, keys]) = own.first()?;
            Some(Forward { start, queries, keys, layers: own.len() })
        });
        let passes: Vec<Forward> = passes.collect();
        steps.extend(tokens(thread, &passes).into_iter().flatten());
    }
    steps.sort_by_key(|step| step.start);
    let name = "decode *".to_owned();
    (!steps.is_empty()).then_some(HostSteps { found: FoundBy::GrowingCache, name, steps })
}

/// The passes of a thread as steps.
fn tokens(thread: ThreadId, passes: &[Forward]) -> Option<Vec<HostStep>> {
    let first = passes.first()?;
    let follows = |pair: &[Forward]| pair[0].keys.checked_add(1) == Some(pair[1].keys);
    let grows = passes.windows(2).all(|pair| !pair[1].is_decode() || follows(pair));
    let tokens = passes.iter().filter(|pass| pass.is_decode()).count();
    if tokens < 2 || !grows || passes.iter().any(|pass| pass.layers != first.layers) {
        return None;
    }
    let step = |pair: &[Forward]| {
        let kind = if pair[0].is_decode() { "decode" } else { "prefill" };
        HostStep {
            name: format!("{kind} {}", pair[0].keys),
            process: Some(thread.process()),
            thread: Some(thread),
            start: pair[0].start,
            end: pair[1].start,
            warm_up: !pair[0].is_decode(),
        }
    };
    Some(passes.windows(2).map(step).collect())
}
