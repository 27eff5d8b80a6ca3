//! What the work of a step needs at least, and how much of its time that is.

use flopgap_gap::{
    Active, Bar, Executed, Floor, Gap, Operations, Peak, Peaks, Source, Sums, TypeFlops, WholeSteps,
};
use flopgap_report::numbers;

use super::{list, percent, time};

/// Sizes are recorded for so much of the time of products, or utilization is more than is said.
const COVERED: f64 = 0.99;

/// Samples cover so much of the measured time, or how much they do is said.
const SAMPLED: f64 = 0.95;

/// Sums that differ by less are near: a few kernels execute by their data.
const NEAR: f64 = 0.001;

/// A smaller share would be printed as 0.
const LEAST: f64 = 0.0005;

/// The utilization, and the time that kernels take beyond what they need; nothing where no sizes
/// are recorded, or nothing multiplies.
pub(crate) fn floor(found: &Gap) -> Option<String> {
    let floor = found.floor.as_ref()?;
    let model: u64 = floor.flops.iter().map(|own| own.model).sum();
    if model == 0 {
        return None;
    }
    let flops = numbers::si_with_unit(model as f64 / found.measured.max(1) as f64, "FLOP");
    let Some((peaks, mfu)) = floor.peaks.as_ref().zip(floor.mfu) else {
        let why = match found.gpus.as_slice() {
            [] => "the recording does not say which GPU it is".to_owned(),
            [gpu] => format!("no data sheet of {gpu} is"),
            several => format!("the GPUs are of several kinds: {}", several.join(", ")),
        };
        return Some(format!(
            "Operators of a step need {flops}; their share of the peak is not known, since {why}."
        ));
    };
    let least = if floor.covered < COVERED && mfu >= LEAST { "at least " } else { "" };
    let mut said = vec![format!(
        "MFU is {least}{}: a step's {flops} take {} at the peak of {} ({}).",
        utilization(mfu),
        time(mfu * found.step_ns as f64),
        peaks.gpu,
        peaks_of(peaks, floor)
    )];
    if let Some(hfu) = floor.hfu.filter(|hfu| percent(*hfu) != percent(mfu)) {
        said.push(format!("With what is done again, HFU is {least}{}.", utilization(hfu)));
    }
    if floor.covered < COVERED {
        let missing = percent(1.0 - floor.covered);
        said.push(format!("No sizes are recorded for {missing} of the time of products."));
    }
    let bars = found.waterfall();
    let share = |bar: Bar| found.share(bars.iter().filter(|own| own.0 == bar).map(|own| own.1).sum());
    if share(Bar::Executed) >= LEAST {
        let least = percent(share(Bar::Executed));
        said.push(format!("Padding of tiles and reductions of split-K take at least {least} of the time."));
    }
    let memory = match peaks.bytes_by {
        Source::DataSheet => String::new(),
        Source::Measured => {
            format!(", by a memory of {}, measured,", numbers::si_with_unit(peaks.bytes, "B/s"))
        }
    };
    said.push(format!(
        "Kernels above their floor{memory} take {} of the time, and kernels whose floor is unknown {}.",
        percent(share(Bar::AboveFloor)),
        percent(share(Bar::FloorUnknown))
    ));
    Some(said.join(" "))
}

/// A share that is not 0.
fn utilization(share: f64) -> String {
    if share < LEAST { "below 0.1%".to_owned() } else { percent(share) }
}

/// The peaks of the types that are multiplied, those with the most FLOPs first, and where they are
/// from.
fn peaks_of(peaks: &Peaks, floor: &Floor) -> String {
    let mut types: Vec<&TypeFlops> = floor.flops.iter().collect();
    types.sort_by_key(|own| std::cmp::Reverse(own.model));
    let own: Vec<&Peak> = types.iter().filter_map(|own| peaks.of_type(own.number)).collect();
    let of = |by: Source, source: &str| {
        let own = own.iter().filter(|peak| peak.by == by);
        let own = own.map(|peak| format!("{} {}", peak.number, numbers::si_with_unit(peak.flops, "FLOP/s")));
        let own = list(&own.collect::<Vec<_>>());
        (!own.is_empty()).then(|| format!("{own}, {source}"))
    };
    let said = [of(Source::Measured, "measured"), of(Source::DataSheet, "data sheet")];
    said.into_iter().flatten().collect::<Vec<_>>().join("; ")
}

/// What a step needs, executes and launches, as far as that is known.
pub(crate) fn work(found: &Gap) -> impl Iterator<Item = String> {
    let said = [floor(found), executed(found), whole_steps(found), activity(found), launches(found)];
    said.into_iter().flatten()
}

/// What kernels executed, by counters, and how fast; nothing where nothing was counted.
fn executed(found: &Gap) -> Option<String> {
    let executed = found.executed.as_ref()?;
    let steps = found.measured.max(1) as f64;
    let Sums { launches, counted, ns, counted_ns, bound_ns } = executed.all;
    let [least, most] = executed.flops.map(|flops| numbers::si_with_unit(flops as f64 / steps, "FLOP"));
    let flops = if least == most { least } else { format!("{least} to {most}") };
    let bytes = numbers::si_with_unit(executed.dram_bytes as f64 / steps, "B");
    let share = percent(counted_ns as f64 / ns.max(1) as f64);
    let of = if counted == launches {
        "Kernels of a step".to_owned()
    } else {
        format!("Of a step's kernels, those that were counted ({share} of their time)")
    };
    let mut said = vec![format!("{of} execute {flops} and move {bytes} by counters.")];
    if let Some(hfu) = executed.utilization {
        let least = if counted < launches { "at least " } else { "" };
        said.push(format!("HFU by counters is {least}{}.", utilization(hfu)));
    }
    if let Some(bound) = bound_ns.filter(|_| counted_ns > 0) {
        let share = percent(bound as f64 / counted_ns as f64);
        said.push(format!("At the GPU's peaks, that takes {share} of their time."));
    }
    Some(said.join(" "))
}

/// How active the tensor cores and the memory were, where that was sampled instead of counting.
fn activity(found: &Gap) -> Option<String> {
    let activity = found.activity.as_ref()?;
    let Active { measured_ns, sampled_ns, tensor, dram } = activity.all;
    let units = [
        tensor.map(|share| format!("tensor cores were active {} of the measured time", percent(share))),
        dram.map(|share| format!("DRAM bandwidth was at {} of its maximum", percent(share))),
    ];
    let units = list(&units.into_iter().flatten().collect::<Vec<_>>());
    let whose = match activity.gpus.len() {
        1 => "the whole GPU".to_owned(),
        several => format!("{several} whole GPUs"),
    };
    let mut said = Vec::new();
    if found.executed.is_none() && found.whole_steps.is_none() {
        said.push("FLOPs were not counted.".to_owned());
    }
    said.push(format!("By NVML's sampling (GPM), {units}; that is activity of {whose}, not FLOPs."));
    let each = activity.gpus.iter().filter_map(|own| own.active.tensor);
    let [least, most] = [f64::min, f64::max].map(|of| each.clone().reduce(of).map(percent));
    if least != most
        && let Some((least, most)) = least.zip(most)
    {
        said.push(format!("By GPU, tensor cores were active {least} to {most}."));
    }
    let covered = sampled_ns as f64 / measured_ns.max(1) as f64;
    if covered < SAMPLED {
        said.push(format!("Samples cover {} of the measured time.", percent(covered)));
    }
    Some(said.join(" "))
}

/// What a step executes by counters that counted it as a whole, and whether its kernels add up to
/// it; nothing where none was counted so.
fn whole_steps(found: &Gap) -> Option<String> {
    let whole = found.whole_steps.as_ref()?;
    let steps = found.measured.max(1) as f64;
    let each = |sum: u64| numbers::si_with_unit(sum as f64 / steps, "FLOP");
    let operations = match whole.flops.map(|bounds| bounds.map(each)) {
        Some([least, most]) if least == most => vec![least],
        Some([least, most]) => vec![format!("{least} to {most}")],
        None => whole.operations.iter().map(|own| format!("{} of {}", each(own.most), own.kind)).collect(),
    };
    let bytes = whole.dram_bytes.map(|bytes| numbers::si_with_unit(bytes as f64 / steps, "B"));
    let moves = bytes.map(|bytes| format!(" and moves {bytes}")).unwrap_or_default();
    let times = whole.times;
    let mut said = vec![format!(
        "Counted as a whole ({times} {}), a step executes {}{moves}.",
        if times == 1 { "step" } else { "steps" },
        list(&operations)
    )];
    if whole.flops.is_none() {
        said.push("Not all types are counted; in CUDA graphs, those of shader cores never are.".to_owned());
    }
    said.extend(found.executed.as_ref().and_then(|executed| beside(whole, executed)));
    if found.executed.is_none()
        && let Some(hfu) = whole.utilization
    {
        said.push(format!("HFU by counters is at least {}.", utilization(hfu)));
    }
    Some(said.join(" "))
}

/// Whether kernels add up to whole steps.
fn beside(whole: &WholeSteps, executed: &Executed) -> Option<String> {
    let [least, most] = whole.flops?.map(|flops| flops as f64);
    let [sum_least, sum_most] = executed.flops.map(|flops| flops as f64);
    let (all, kernels) = (f64::midpoint(least, most), f64::midpoint(sum_least, sum_most));
    if all == 0.0 {
        return None;
    }
    if executed.all.counted < executed.all.launches {
        return Some(format!("The kernels that were counted have {} of it.", percent(kernels / all)));
    }
    if sum_most - sum_least > NEAR * all {
        return Some(if sum_least <= most && least <= sum_most {
            "That is within what its kernels add up to.".to_owned()
        } else {
            let [from, to] = [sum_least, sum_most].map(|sum| percent(sum / all));
            format!("Its kernels add up to {from} to {to} of it.")
        });
    }
    // Whether HFMA is arithmetic is known of a kernel, not of a step.
    let of = |all: &[Operations], kind: &str| {
        all.iter().find(|own| own.kind == kind).map_or([0; 2], |own| [own.least, own.most])
    };
    let mut kinds = whole.operations.iter().chain(&executed.operations).map(|own| own.kind.as_str());
    let agree = kinds.all(|kind| {
        let ([least, most], [sum_least, sum_most]) =
            (of(&whole.operations, kind), of(&executed.operations, kind));
        kind == "fp16" || least <= sum_most && sum_least <= most
    });
    Some(if agree {
        "Its kernels add up to it.".to_owned()
    } else if (kernels / all - 1.0).abs() < NEAR {
        format!("Its kernels add up to it within {}.", percent(NEAR))
    } else {
        format!("Its kernels add up to {} of it.", percent(kernels / all))
    })
}

/// What as many launches take as a step has; nothing where that was not measured.
fn launches(found: &Gap) -> Option<String> {
    let launches = found.launches.as_ref().filter(|launches| launches.count > 0)?;
    let steps = found.measured.max(1) as f64;
    let count = launches.count as f64 / steps;
    // A mean of steps that differ is no whole number.
    let count = if launches.count % found.measured.max(1) == 0 {
        numbers::group_thousands(launches.count / found.measured.max(1))
    } else {
        format!("{count:.1}")
    };
    Some(format!(
        "A step launches kernels by {count} calls; as many empty launches take {} ({} each, measured).",
        time(launches.ns / steps),
        time(launches.each_ns)
    ))
}

#[cfg(test)]
mod tests {
    use flopgap_gap::{ActiveGpu, Activity, Gap};
    use flopgap_kernels::NumberType;
    use flopgap_trace::GpuId;

    use super::*;
    use crate::{Part, ask, open};

    fn found(name: &str) -> Gap {
        let path = format!("{}/../../fixtures/{name}", env!("CARGO_MANIFEST_DIR"));
        ask::gap(&open::open(path).unwrap(), &Part::default()).unwrap().data
    }

    /// 381,178,347,520 FLOPs of FP32 on CUDA cores in 8.17 ms, by `torch.utils.flop_counter` and
    /// the data sheet.
    #[test]
    fn utilization_is_said_with_its_denominator() {
        let said = floor(&found("advice/fp32-products.before.json.zst")).unwrap();
        let begin = "MFU is 69.7%: a step's 381 GFLOP take 5.698 ms at the peak of NVIDIA H100 80GB HBM3 (fp32 66.9 TFLOP/s, data sheet). Kernels above their floor take ";
        assert!(said.starts_with(begin), "{said}");
        let said = floor(&found("advice/needless-recomputation.before.json.zst")).unwrap();
        assert!(said.contains(" With what is done again, HFU is 59.5%."), "{said}");
        // 403 ns of 4.841 ms.
        let said = floor(&found("advice/launch-training.before.json.zst")).unwrap();
        assert!(said.starts_with("MFU is below 0.1%: "), "{said}");
    }

    /// The sums are those of SQL in the tests of `flopgap-gap`, of 1,057 of 1,123 kernels.
    #[test]
    fn what_kernels_execute_is_said_with_what_is_not_known() {
        let mut gap = found("record/h100_counted.sqlite.zst");
        let said = executed(&gap).unwrap();
        let some = "Of a step's kernels, those that were counted (98.7% of their time) execute 36.5 GFLOP and move 921 MB by counters. HFU by counters is at least 1.0%. At the GPU's peaks, that takes 47.8% of their time.";
        assert_eq!(said, some);
        let own = gap.executed.as_mut().unwrap();
        own.all.counted = own.all.launches;
        own.flops = [23_000_000_000, 46_000_000_000];
        let said = executed(&gap).unwrap();
        let all = "Kernels of a step execute 1.00 GFLOP to 2.00 GFLOP and move 921 MB by counters. HFU by counters is 1.0%.";
        assert!(said.starts_with(all), "{said}");
        let own = gap.executed.as_mut().unwrap();
        (own.utilization, own.all.bound_ns) = (None, None);
        assert!(executed(&gap).unwrap().ends_with("by counters."));
        assert_eq!(executed(&found("advice/fp32-products.before.json.zst")), None);
    }

    #[test]
    fn activity_is_said_to_be_no_flops() {
        let mut gap = found("advice/fp32-products.before.json.zst");
        assert_eq!(activity(&gap), None);
        let all = Active { measured_ns: 1000, sampled_ns: 990, tensor: Some(0.735), dram: Some(0.12) };
        gap.activity = Some(Activity { all, gpus: vec![ActiveGpu { gpu: GpuId(0), active: all }] });
        let one = "FLOPs were not counted. By NVML's sampling (GPM), tensor cores were active 73.5% of the measured time and DRAM bandwidth was at 12.0% of its maximum; that is activity of the whole GPU, not FLOPs.";
        assert_eq!(activity(&gap).unwrap(), one);
        assert!(crate::sentences::gap(&gap).contains(&one.to_owned()));
        let own = gap.activity.as_mut().unwrap();
        (own.all.sampled_ns, own.all.dram) = (620, None);
        let tensor = [0.701, 0.769].map(Some);
        own.gpus =
            tensor.map(|tensor| ActiveGpu { gpu: GpuId(1), active: Active { tensor, ..all } }).to_vec();
        let several = "FLOPs were not counted. By NVML's sampling (GPM), tensor cores were active 73.5% of the measured time; that is activity of 2 whole GPUs, not FLOPs. By GPU, tensor cores were active 70.1% to 76.9%. Samples cover 62.0% of the measured time.";
        assert_eq!(activity(&gap).unwrap(), several);
        // Where some kernels were counted, their counts are said, too.
        let mut gap = found("record/h100_counted.sqlite.zst");
        gap.activity = Some(Activity { all, gpus: vec![ActiveGpu { gpu: GpuId(0), active: all }] });
        assert!(activity(&gap).unwrap().starts_with("By NVML's sampling"));
    }

    /// The numbers are those of SQL in the tests of `flopgap-gap`.
    #[test]
    fn whole_steps_are_said_beside_their_kernels() {
        let mut gap = found("record/h200_steps.sqlite.zst");
        let counted = "Counted as a whole (2 steps), a step executes 470 GFLOP and moves 849 MB.";
        let said = |gap: &Gap| whole_steps(gap).unwrap();
        assert_eq!(said(&gap), format!("{counted} Its kernels add up to it."));
        let mut with = |change: &dyn Fn(&mut Executed)| {
            let kept = gap.executed.clone();
            change(gap.executed.as_mut().unwrap());
            let said = said(&gap);
            gap.executed = kept;
            said.strip_prefix(counted).unwrap().trim().to_owned()
        };
        let scale = |executed: &mut Executed, ten_thousandths: u64| {
            let scaled = |count: u64| count / 10_000 * ten_thousandths;
            for own in &mut executed.operations {
                own.least = scaled(own.least);
                own.most = own.least;
            }
            executed.flops = executed.flops.map(scaled);
        };
        assert_eq!(with(&|own| scale(own, 10_005)), "Its kernels add up to it within 0.1%.");
        assert_eq!(with(&|own| scale(own, 7_500)), "Its kernels add up to 75.0% of it.");
        let some = with(&|own| (own.flops, own.all.counted) = (own.flops.map(|all| all / 2), 1));
        assert_eq!(some, "The kernels that were counted have 50.0% of it.");
        let wide = |own: &mut Executed| own.flops[1] += own.flops[1] / 5;
        assert_eq!(with(&wide), "That is within what its kernels add up to.");
        let above = |own: &mut Executed| own.flops = [own.flops[0] * 2, own.flops[0] * 3];
        assert_eq!(with(&above), "Its kernels add up to 200.0% to 300.0% of it.");
        gap.executed = None;
        assert_eq!(said(&gap), format!("{counted} HFU by counters is at least 16.2%."));

        let gap = found("record/h200_graph_steps.sqlite.zst");
        let some = "Counted as a whole (2 steps), a step executes 37.8 GFLOP of tensor bf16 and 33.6 MFLOP of tensor fp16 and moves 1.06 GB. Not all types are counted; in CUDA graphs, those of shader cores never are. HFU by counters is at least 1.1%.";
        assert_eq!(said(&gap), some);
        assert_eq!(executed(&gap), None);
    }

    /// A third of the FP32 peak of the data sheet, and no FP8 in it.
    #[test]
    fn what_was_measured_is_said_to_be() {
        let path =
            format!("{}/../../fixtures/advice/fp32-products.before.json.zst", env!("CARGO_MANIFEST_DIR"));
        let measured = [(NumberType::Fp32, 22.3e12)];
        let peaks = Some(Peaks::measured("NVIDIA H100 80GB HBM3", measured, 2.5e12, Some(2500.0)));
        let part = Part { peaks, ..Part::default() };
        let gap = ask::gap(&open::open(path).unwrap(), &part).unwrap().data;
        let said = floor(&gap).unwrap();
        assert!(said.contains("(fp32 22.3 TFLOP/s, measured)"), "{said}");
        assert!(
            said.contains(" Kernels above their floor, by a memory of 2.50 TB/s, measured, take "),
            "{said}"
        );
        let of = gap.launches.as_ref().unwrap();
        let (count, ns) = (of.count / gap.measured, of.ns / gap.measured as f64);
        assert_eq!(
            launches(&gap).unwrap(),
            format!(
                "A step launches kernels by {count} calls; as many empty launches take {} (2.5 µs each, measured).",
                time(ns)
            )
        );
    }

    #[test]
    fn what_is_not_known_is_not_said() {
        assert_eq!(floor(&found("kineto/stack.json.gz")), None);
        let mut gap = found("advice/fp32-products.before.json.zst");
        let own = gap.floor.as_mut().unwrap();
        own.covered = 0.8;
        let said = floor(&gap).unwrap();
        assert!(said.starts_with("MFU is at least 69.7%"), "{said}");
        assert!(said.contains(" No sizes are recorded for 20.0% of the time of products."), "{said}");
        let own = gap.floor.as_mut().unwrap();
        (own.peaks, own.mfu, own.hfu) = (None, None, None);
        assert_eq!(
            floor(&gap).unwrap(),
            "Operators of a step need 381 GFLOP; their share of the peak is not known, since no data sheet of NVIDIA H100 80GB HBM3 is."
        );
    }
}
