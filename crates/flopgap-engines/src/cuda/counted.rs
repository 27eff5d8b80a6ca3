//! FLOPs by hardware counters.

use flopgap_gpu::Context;
use flopgap_gpu::counters::{Chip, CounterError, CounterSession, CounterSource as _, Preset};

use crate::error::EngineError;

use super::clock::Run;

/// Rows of counts that there is room for: kernels that one run launches.
const MOST_LAUNCHES: usize = 4096;

/// Operations of the tensor cores on 8-bit integers.
const INTEGERS: &str = "sm__ops_path_tensor_src_int8.sum";

/// Operations that one count of a metric stands for.
///
/// Instructions are counted by thread: a fused multiply-add is two operations, a packed one (`…2`) twice as many. Counters of the tensor
/// cores count operations. Half-precision instructions are left out: compilers load constants and convert with them, and no kernel that
/// is measured here computes with them.
fn operations(metric: &str) -> u64 {
    if metric.starts_with("sm__ops_path_tensor_src_") {
        return 1;
    }
    let operation =
        metric.strip_prefix("smsp__sass_thread_inst_executed_op_").and_then(|rest| rest.split('_').next());
    match operation {
        Some("fadd" | "fmul" | "dadd" | "dmul") => 1,
        Some("ffma" | "dfma" | "fadd2" | "fmul2") => 2,
        Some("ffma2") => 4,
        _ => 0,
    }
}

/// FLOPs of one run, or `None` where counters cannot be read here.
///
/// # Errors
/// The work's; counters that are there but fail.
pub(super) fn counted_flops(context: &Context, run: &mut Run<'_>) -> Result<Option<u64>, EngineError> {
    match count(context, run) {
        Ok(count) => Ok(Some(count)),
        Err(error) if error.is_absence() => Ok(None),
        Err(error) => {
            Err(EngineError::Failed { action: "count FLOPs".to_owned(), message: error.to_string() })
        }
    }
}

fn count(context: &Context, run: &mut Run<'_>) -> Result<u64, CounterError> {
    let chip = Chip::of(context)?;
    let mut metrics = chip.preset(Preset::FlopsAll);
    metrics.retain(|metric| operations(metric) > 0);
    if chip.plan(&[INTEGERS]).is_ok() {
        metrics.push(INTEGERS.to_owned());
    }
    let mut session = CounterSession::on_chip(context, &chip, &metrics)?;
    let launches = session.per_launch(MOST_LAUNCHES, &mut |_| Ok(run()?))?;
    let factors: Vec<u64> = session.metrics().iter().map(|metric| operations(metric)).collect();
    let counts = launches.iter().flat_map(|launch| launch.counts.iter().zip(&factors));
    Ok(counts.map(|(count, factor)| count * factor).sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_count_operations_or_instructions() {
        let thread = |name: &str| format!("smsp__sass_thread_inst_executed_op_{name}_pred_on.sum");
        assert_eq!(operations(&thread("fadd")), 1);
        assert_eq!(operations(&thread("ffma")), 2);
        assert_eq!(operations(&thread("ffma2")), 4);
        assert_eq!(operations(&thread("hadd")), 0);
        assert_eq!(operations(INTEGERS), 1);
        assert_eq!(operations("gpu__time_duration.sum"), 0);
    }
}
