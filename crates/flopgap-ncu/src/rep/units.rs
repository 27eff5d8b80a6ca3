//! Units of metrics, which a report does not store: they follow from the metric's name.
//!
//! The values of a report are unscaled, so the unit is always a base unit in the words of `ncu
//! --print-units base`. The rules are those that hold for every metric name they cover on the CSV
//! pages of ncu 2025.3 and in NVIDIA's own reader; a name they do not cover has no unit here, even
//! where ncu prints one.

/// The unit of a metric by its name; empty for a bare number, and if the name does not determine
/// it.
pub(super) fn unit_of(metric: &str) -> &'static str {
    // `lts__t_bytes.sum.per_second`: hardware unit, counter, rollup, submetric. A sampled metric
    // has a prefix with dots.
    let Some((unit, rest)) = metric.split_once("__") else { return "" };
    if unit.starts_with("breakdown:") {
        return ""; // the value is a list of the metrics that a throughput is the largest of
    }
    let unit = unit.rsplit('.').next().unwrap_or(unit);
    let mut parts = rest.split('.');
    let counter = parts.next().unwrap_or_default();
    let Some(rollup) = parts.next() else { return without_rollup(metric) };
    let submetric = parts.next();
    if submetric.unwrap_or(rollup).starts_with("pct") {
        return "%";
    }
    if unit == "derived" || !matches!(rollup, "avg" | "max" | "min" | "sum") || parts.next().is_some() {
        return "";
    }
    let Some(quantity) = quantity(unit, counter) else { return "" };
    match submetric {
        None => quantity,
        Some("per_second") => match quantity {
            "byte" => "byte/s",
            "cycle" => "hz",
            "inst" => "inst/s",
            "sector" => "sector/s",
            _ => "",
        },
        Some("per_cycle_active" | "per_cycle_elapsed" | "peak_sustained") => match quantity {
            "byte" => "byte/cycle",
            "inst" => "inst/cycle",
            "sector" => "sector/cycle",
            _ => "",
        },
        Some(_) => "",
    }
}

/// The unit of a hardware counter.
fn quantity(unit: &str, counter: &str) -> Option<&'static str> {
    let has = |words: &str| {
        counter.match_indices(words).any(|(at, _)| {
            let (before, after) = (&counter[..at], &counter[at + words.len()..]);
            (before.is_empty() || before.ends_with('_')) && (after.is_empty() || after.starts_with('_'))
        })
    };
    if has("bytes") {
        Some("byte")
    } else if has("time_duration") {
        Some("ns")
    } else if has("sectors") && matches!(unit, "dram" | "l1tex" | "lrc" | "lts") {
        Some("sector")
    } else if has("inst_executed") || has("inst_issued") {
        Some("inst")
    } else if counter.starts_with("cycles_elapsed") || counter.starts_with("cycles_active") {
        Some("cycle")
    } else {
        None
    }
}

/// Launch properties, which are no counters and have no rollup.
fn without_rollup(metric: &str) -> &'static str {
    match metric {
        "launch__persisting_l2_cache_size" | "launch__shared_mem_config_size" => "byte",
        "launch__registers_per_thread" | "launch__registers_per_thread_allocated" => "register/thread",
        "launch__thread_count" => "thread",
        _ if metric.starts_with("launch__shared_mem_per_block") => "byte/block",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::unit_of;

    #[test]
    fn units_follow_from_names() {
        let pairs = [
            ("gpu__time_duration.sum", "ns"),
            ("dram__bytes.sum", "byte"),
            ("dram__bytes_read.sum.per_second", "byte/s"),
            ("dram__bytes.avg.peak_sustained", "byte/cycle"),
            ("lts__t_sectors_op_read.sum", "sector"),
            ("SM_B.TriageCompute.l1tex__t_sectors.sum", "sector"),
            ("smsp__sass_thread_inst_executed_op_ffma_pred_on.sum", "inst"),
            ("smsp__sass_thread_inst_executed_op_ffma_pred_on.sum.per_cycle_elapsed", "inst/cycle"),
            ("sm__cycles_elapsed.max", "cycle"),
            ("sm__cycles_elapsed.avg.per_second", "hz"),
            ("sm__throughput.avg.pct_of_peak_sustained_elapsed", "%"),
            ("l1tex__t_sector_hit_rate.pct", "%"),
            ("launch__shared_mem_per_block_static", "byte/block"),
        ];
        for (metric, unit) in pairs {
            assert_eq!(unit_of(metric), unit, "{metric}");
        }
    }

    #[test]
    fn a_name_that_does_not_tell_has_no_unit() {
        for metric in [
            "",
            "Duration",
            "breakdown:sm__throughput.avg.pct_of_peak_sustained_elapsed",
            "launch__grid_size",
            "device__attribute_max_gpu_frequency_khz",
            "sm__ops_path_tensor_src_fp16.sum",
            "gcc__xbar2gcc_sectors.sum",
            "lts__lts2xbar_cycles_active.avg.peak_sustained",
            "smsp__average_warps_active_per_inst_executed.ratio",
            "derived__lts__lts2xbar_bytes.sum.per_second",
            "derived__l1tex__lsu_writeback_bytes_mem_lgds.sum.peak_sustained",
        ] {
            assert_eq!(unit_of(metric), "", "{metric}");
        }
    }
}
