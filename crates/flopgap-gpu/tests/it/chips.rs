//! What chips can count: CUPTI answers without a GPU.

use flopgap_gpu::counters::{Chip, CounterError, Preset, cupti_version};
use flopgap_gpu::library::{Library, probe};

use crate::has_cupti;

const FFMA: &str = "smsp__sass_thread_inst_executed_op_ffma_pred_on.sum";

/// A chip of each generation.
fn generations() -> impl Iterator<Item = (&'static str, Chip)> {
    let names = ["TU102", "GA100", "GA102", "AD102", "GH100", "GB100", "GB202"];
    names.into_iter().filter_map(|name| match Chip::named(name) {
        Ok(chip) => Some((name, chip)),
        // Older releases of CUPTI do not know the newest chips.
        Err(CounterError::UnknownChip { .. }) if name.starts_with("GB") => None,
        Err(error) => panic!("{name}: {error}"),
    })
}

#[test]
fn presets_exist_on_every_generation_and_their_passes_are_known_beforehand() {
    if !has_cupti() {
        return;
    }
    for (name, chip) in generations() {
        for preset in Preset::ALL {
            let metrics = chip.preset(preset);
            assert!(!metrics.is_empty(), "{name} {preset}");
            let plan = chip.plan(&metrics).unwrap_or_else(|error| panic!("{name} {preset}: {error}"));
            assert_eq!(plan.metrics(), metrics);
            // Instructions are all counted in one pass, bytes in another, time in any.
            let one_pass = preset != Preset::FlopsAll;
            assert_eq!(plan.passes() == 1, one_pass, "{name} {preset}: {} passes", plan.passes());
        }
    }
}

#[test]
fn hopper_has_the_known_metrics() {
    if !has_cupti() {
        return;
    }
    let chip = Chip::named("GH100").unwrap();
    let sass = |operation: &str| format!("smsp__sass_thread_inst_executed_op_{operation}_pred_on.sum");
    assert_eq!(chip.preset(Preset::Flops), ["fadd", "fmul", "ffma"].map(sass));
    assert_eq!(chip.preset(Preset::Bytes), ["dram__bytes.sum", "lts__t_bytes.sum", "l1tex__t_bytes.sum"]);
    let all = chip.preset(Preset::FlopsAll);
    for tensor in ["bf16_dst_fp32", "fp16", "fp64", "fp8", "tf32_dst_fp32"] {
        let name = format!("sm__ops_path_tensor_src_{tensor}.sum");
        assert!(all.contains(&name), "{name}");
    }
    // Instructions and time are counted by different means: two passes.
    let mixed: Vec<String> =
        [Preset::Flops, Preset::Time].into_iter().flat_map(|preset| chip.preset(preset)).collect();
    assert_eq!(chip.plan(&mixed).unwrap().passes(), 2);
}

#[test]
fn blackwell_counts_packed_instructions_too() {
    if !has_cupti() {
        return;
    }
    let chip = match Chip::named("GB100") {
        Ok(chip) => chip,
        Err(error) => return flopgap_testing::skip("CUPTI that knows GB100", error),
    };
    let flops = chip.preset(Preset::Flops);
    assert_eq!(flops.len(), 6, "{flops:?}");
    assert!(flops.iter().any(|metric| metric.contains("ffma2")), "{flops:?}");
}

#[test]
fn names_are_checked_with_suggestions() {
    if !has_cupti() {
        return;
    }
    let chip = Chip::named("GH100").unwrap();
    let refused = |metrics: &[&str]| chip.plan(metrics).unwrap_err();
    assert!(matches!(refused(&[]), CounterError::NoMetric));
    assert!(matches!(refused(&[FFMA, FFMA]), CounterError::Twice { .. }));

    let typo = refused(&["smsp__sass_thread_inst_executed_op_fmma_pred_on.sum"]);
    let CounterError::UnknownMetric { suggestions, .. } = &typo else { panic!("{typo}") };
    assert!(suggestions.iter().any(|name| name == FFMA), "{suggestions:?}");
    assert!(typo.to_string().contains("GH100 has no metric"), "{typo}");

    let bare = refused(&["dram__bytes"]);
    assert!(bare.to_string().contains("did you mean dram__bytes.sum?"), "{bare}");
    let rate = refused(&["dram__bytes.sum.per_second"]);
    assert!(matches!(rate, CounterError::NotACount { .. }), "{rate}");
    let nonsense = refused(&["?\0"]);
    assert!(matches!(nonsense, CounterError::UnknownMetric { .. }), "{nonsense}");
}

#[test]
fn unknown_chips_are_named() {
    if !has_cupti() {
        return;
    }
    for name in ["GX999", "", "GH\0"] {
        let error = Chip::named(name).unwrap_err();
        assert!(matches!(error, CounterError::UnknownChip { .. }), "{name:?}: {error}");
    }
}

/// Groups: each is one pass, each metric is in one, and together they have all float operations.
#[test]
fn groups_are_counted_in_one_pass_where_the_chip_can_and_have_everything() {
    if !has_cupti() {
        return;
    }
    for (name, chip) in generations() {
        let groups = chip.groups().unwrap();
        let mut seen = Vec::new();
        for group in &groups {
            let plan = chip.plan(&group.metrics).unwrap_or_else(|error| panic!("{name}: {error}"));
            assert_eq!(plan.passes(), group.passes, "{name}: {group:?}");
            // A B200 counts some types in no pass.
            assert!(
                group.passes == 1 || name.starts_with("GB") && group.name != "tensor",
                "{name}: {group:?}"
            );
            seen.extend(group.metrics.iter().filter(|metric| metric.contains("ops_path_tensor")).cloned());
        }
        let names: Vec<&str> = groups.iter().map(|group| group.name.as_str()).collect();
        assert_eq!(names[0], "tensor", "{name}");
        assert_eq!(names[names.len() - 2..], ["sass", "memory"], "{name}");
        let count = seen.len();
        seen.sort();
        seen.dedup();
        assert_eq!(seen.len(), count, "{name}: a metric is in two groups");
        // Every type of the sums is in a group: by itself, or in parts.
        for sum in chip.preset(Preset::FlopsAll).iter().filter(|metric| metric.contains("tensor")) {
            let source = sum.trim_start_matches("sm__ops_path_tensor_").trim_end_matches(".sum");
            assert!(seen.iter().any(|metric| metric.contains(source)), "{name}: {sum} is in no group");
        }
        assert_eq!(chip.group("tensor").unwrap().as_ref(), groups.first(), "{name}");
        assert_eq!(
            chip.group("sass").unwrap().unwrap().metrics.len(),
            chip.preset(Preset::FlopsAll).len()
                - chip.preset(Preset::FlopsAll).iter().filter(|m| m.contains("tensor")).count()
        );
        assert_eq!(chip.group("none").unwrap(), None);
    }
}

/// On Hopper one pass has what `bf16` networks do on tensor cores: `WGMMA` of all types, and
/// `mma.sync`, which flash attention uses.
#[test]
fn hopper_counts_bf16_whole_in_one_pass() {
    if !has_cupti() {
        return;
    }
    let group = Chip::named("GH100").unwrap().group("tensor").unwrap().unwrap();
    for part in [
        "op_hgmma_src_bf16_dst_fp32",
        "op_hgmma_src_fp16",
        "op_hgmma_src_tf32_dst_fp32",
        "src_fp8",
        "op_hmma_src_bf16_dst_fp32",
    ] {
        assert!(group.metrics.contains(&format!("sm__ops_path_tensor_{part}.sum")), "{part}: {group:?}");
    }
    for metric in ["gpu__time_duration.sum", "dram__bytes_read.sum", "dram__bytes_write.sum"] {
        assert!(group.metrics.iter().any(|found| found == metric), "{metric}: {group:?}");
    }
}

/// `cuptiGetVersion` of CUPTI 13 would recurse until the stack overflows.
#[test]
fn without_a_driver_cupti_is_not_asked_for_its_version() {
    if !has_cupti() {
        return;
    }
    let version = cupti_version();
    match probe(Library::Driver) {
        Ok(_) => assert!(version.unwrap() > 120_000),
        Err(error) => assert_eq!(version.unwrap_err().to_string(), CounterError::from(error).to_string()),
    }
}
