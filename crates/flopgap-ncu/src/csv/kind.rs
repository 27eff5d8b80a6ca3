//! Derives properties of a metric from its name and unit.

/// Whether a metric only takes whole values, so far as its name and unit tell: an unscaled sum over
/// all units, a launch parameter, or a label that counts.
pub(super) fn is_whole(name: &str, unit: &str) -> bool {
    const UNITS: &str = "inst byte ns nsecond cycle sector sectors thread block warp request register/thread \
                         byte/block SM branches pass sample cluster wavefront bit op";
    if !unit.is_empty() && !UNITS.split(' ').any(|one| one == unit) {
        return false;
    }
    if let Some((_, roll_up)) = name.split_once("__") {
        let sum = roll_up.rsplit_once('.').map_or(!roll_up.contains('.'), |(_, last)| last == "sum");
        return sum && !name.starts_with("derived");
    }
    // A label of the details page. Averages are printed with decimals.
    !unit.is_empty() && !name.starts_with("Avg") && !name.starts_with("Average")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_metrics_kind_decides_whether_it_counts() {
        for (name, unit) in [
            ("smsp__sass_thread_inst_executed_op_ffma_pred_on.sum", "inst"),
            ("gpu__time_duration.sum", "ns"),
            ("sm__ops_path_tensor_src_bf16_dst_fp32.sum", ""),
            ("launch__thread_count", "thread"),
            ("Threads", "thread"),
            ("Elapsed Cycles", "cycle"),
        ] {
            assert!(is_whole(name, unit), "{name}");
        }
        for (name, unit) in [
            ("dram__bytes.sum", "Mbyte"),
            ("sm__throughput.avg.pct_of_peak_sustained_elapsed", "%"),
            ("smsp__cycles_elapsed.avg", "cycle"),
            ("sm__ops_path_tensor_src_fp64.sum.per_second", ""),
            ("Average DRAM Active Cycles", "cycle"),
            ("Waves Per SM", ""),
        ] {
            assert!(!is_whole(name, unit), "{name}");
        }
    }
}
