//! FLOPs by hardware counters.

use flopgap_files::Hint as _;
use flopgap_flops::Precision;
use flopgap_gpu::Context;
use flopgap_gpu::counters::{Chip, CounterError, CounterSession, Preset};

use crate::engines::error::EngineError;

use super::clock::Run;

/// The most kernels of a step. Every available row costs time.
const MOST_KERNELS: usize = 8;

/// Operations of the tensor cores on 8-bit integers.
const INTEGERS: &str = "sm__ops_path_tensor_src_int8.sum";

/// Operations that one count of a metric stands for.
///
/// Instructions are counted by thread: a fused multiply-add is two operations, a packed one (`…2`)
/// twice as many. Counters of the tensor cores count operations. Half-precision instructions are
/// left out: compilers load constants and convert with them, and no kernel that is measured here
/// computes with them.
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

/// What counts the operations of a precision: instructions on 32-bit floats, and what its tensor
/// cores do. Others are not asked for, because each pass runs the work again.
fn metrics(chip: &Chip, precision: Precision) -> Vec<String> {
    let tensor = match precision {
        Precision::Fp32 => None,
        Precision::Int8 => return with_integers(chip),
        _ => Some(format!("sm__ops_path_tensor_src_{precision}")),
    };
    let wanted = |metric: &String| {
        metric.contains("_op_f") && operations(metric) > 0
            || tensor.as_ref().is_some_and(|tensor| metric.starts_with(tensor.as_str()))
    };
    chip.preset(Preset::FlopsAll).into_iter().filter(wanted).collect()
}

fn with_integers(chip: &Chip) -> Vec<String> {
    let mut found = metrics(chip, Precision::Fp32);
    found.extend(chip.plan(&[INTEGERS]).is_ok().then(|| INTEGERS.to_owned()));
    found
}

/// FLOPs of one run of so many steps, or `None` where counters cannot be read here.
///
/// # Errors
/// The work's; counters that are there but fail.
pub(super) fn counted_flops(
    context: &Context,
    (steps, precision): (usize, Precision),
    run: &mut Run<'_>,
) -> Result<Option<u64>, EngineError> {
    match count(context, (steps, precision), run) {
        Ok(count) => Ok(Some(count)),
        Err(error) if error.is_absence() => Ok(None),
        Err(error) => Err(EngineError::Failed {
            action: "count FLOPs".to_owned(),
            message: flopgap_files::chain(&error).to_string(),
        }),
    }
}

fn count(
    context: &Context,
    (steps, precision): (usize, Precision),
    run: &mut Run<'_>,
) -> Result<u64, CounterError> {
    let chip = Chip::new(context)?;
    let mut session = CounterSession::on_chip(context, &chip, &metrics(&chip, precision))?;
    let launches = session.per_launch((steps + 1) * MOST_KERNELS, &mut |_| Ok(run()?))?;
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

    /// Without a GPU: CUPTI knows the chips.
    #[test]
    fn a_precision_asks_for_its_own_operations() {
        let chip = match Chip::named("GH100") {
            Ok(chip) => chip,
            Err(error) => return flopgap_testing::skip("cupti", error),
        };
        let fp32 = metrics(&chip, Precision::Fp32);
        assert_eq!(fp32.len(), 3, "{fp32:?}");
        for precision in [Precision::Tf32, Precision::Fp16, Precision::Bf16, Precision::Int8] {
            let found = metrics(&chip, precision);
            let tensor = format!("src_{precision}");
            assert!(found.iter().any(|metric| metric.contains(&tensor)), "{found:?}");
            assert!(found.len() <= 6 && fp32.iter().all(|metric| found.contains(metric)), "{found:?}");
            assert!(chip.plan(&found).unwrap().passes() <= 4, "{found:?}");
        }
    }
}
