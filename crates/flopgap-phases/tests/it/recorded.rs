//! The notebook's counts and recordings of an H200, from the reports to the overheads.

use flopgap_flops::ClassFlops;
use flopgap_phases::{Analysis, Phases, Recording, Share, Strictness};

use crate::{analyze, fixture, unpacked_text};

fn stages(prefix: &str, ending: &str) -> [std::path::PathBuf; 3] {
    ["setup", "forward", "forward_backward"].map(|stage| fixture(format!("{prefix}{stage}{ending}")))
}

#[test]
fn the_notebook_comes_out_digit_for_digit() {
    let analysis = analyze((10, 1024, 128), stages("notebook/", ".csv")).unwrap();

    let forward = &analysis.forward.decomposition;
    assert_eq!(
        forward.measured,
        ClassFlops { gemm: 2_702_704_640, split_k: 3_932_160, activation: 20_969_786, other: 0 }
    );
    assert_eq!(forward.measured.total().unwrap(), 2_727_606_586);
    let factors = forward.factors;
    assert_eq!(
        format!("{:.4} {:.4} {:.4}", factors.epsilon, factors.rho, factors.kappa),
        "0.0068 3.0000 14.9987"
    );
    assert_eq!(forward.difference, 0);

    let backward = &analysis.backward.decomposition;
    assert_eq!(
        backward.measured,
        ClassFlops { gemm: 5_120_196_608, split_k: 10_824_176, activation: 3_932_160, other: 0 }
    );
    assert_eq!(backward.measured.total().unwrap(), 5_134_952_944);
    let factors = backward.factors;
    assert_eq!(
        format!("{:.4} {:.4} {:.4}", factors.epsilon, factors.rho, factors.kappa),
        "0.0039 4.3464 0.5789"
    );
    assert_eq!(backward.difference, 0);
    assert!(analysis.warnings.is_empty(), "{:?}", analysis.warnings);
}

/// Everything that was counted after setup is in one of the two passes, and no launch is left
/// unclaimed.
fn check_whole(analysis: &Analysis, counted_after_setup: u64) {
    let mut total = 0;
    for part in [&analysis.forward, &analysis.backward] {
        assert_eq!(part.kernels.iter().filter(|kernel| kernel.share == Share::Other).count(), 0);
        assert_eq!(part.decomposition.difference, 0);
        assert_eq!(
            part.kernels.iter().map(|kernel| kernel.flops).sum::<u64>(),
            part.decomposition.reconstructed
        );
        assert!(part.plausibility.is_plausible(), "{}", part.plausibility);
        total += part.decomposition.reconstructed;
    }
    assert_eq!(total, counted_after_setup);
}

/// fadd + fmul + 2·ffma over a whole file, straight from its metrics.
fn counted(path: &std::path::Path) -> u64 {
    let report = flopgap_ncu::read(path).unwrap();
    let mut sum = 0;
    for launch in report.iter() {
        for (operation, weight) in [("fadd", 1), ("fmul", 1), ("ffma", 2)] {
            let name = format!("smsp__sass_thread_inst_executed_op_{operation}_pred_on.sum");
            let flopgap_ncu::Value::U64(count) = launch.metric_named(&name).unwrap().value else {
                panic!("{name} is not a count")
            };
            sum += weight * count;
        }
    }
    sum
}

#[test]
fn recordings_of_an_h200_add_up() {
    for (sizes, prefix, ending) in [
        ((10, 1024, 128), "ncu/n10_d1024_m128_", ".csv.zst"),
        ((4, 512, 64), "runs/h200-pytorch/raw/n4_d512_m64_", ".csv.zst"),
    ] {
        let files = stages(prefix, ending);
        let after_setup = counted(&files[2]) - counted(&files[0]);
        check_whole(&analyze(sizes, files).unwrap(), after_setup);
    }
}

/// One run with NVTX ranges gives what three runs without give, in the CSV and in the binary
/// report.
#[test]
fn ranges_and_sequences_agree() {
    let by_sequence =
        analyze((4, 512, 64), stages("runs/h200-pytorch/raw/n4_d512_m64_", ".csv.zst")).unwrap();
    let classifier = flopgap_kernels::Classifier::new();
    for name in ["ncu/phases_nvtx_details.csv.zst", "ncu/phases_nvtx.ncu-rep.zst"] {
        let recording = Recording::load(&fixture(name), &classifier).unwrap();
        let by_ranges =
            Analysis::new(by_sequence.config, &Phases::by_ranges(&recording).unwrap(), Strictness::Strict)
                .unwrap();
        assert_eq!(by_ranges.forward.decomposition, by_sequence.forward.decomposition, "{name}");
        assert_eq!(by_ranges.backward.decomposition, by_sequence.backward.decomposition, "{name}");
        assert!(by_ranges.warnings.is_empty(), "{:?}", by_ranges.warnings);
    }
}

/// The same report as `ncu --print-nvtx-rename kernel` prints it: the innermost range, a slash and
/// the kernel.
#[test]
fn ranges_before_the_kernels_names_change_nothing() {
    let text = unpacked_text("ncu/phases_nvtx_details.csv.zst");
    let mut renamed = String::new();
    for line in text.lines() {
        let mut cells: Vec<&str> = line.split("\",\"").collect();
        // `3512  ""<default domain>:forward:none:…""  ""<default domain>:layer:0:none:…"" `
        let innermost = cells.get(4).and_then(|cell| cell.rsplit("<default domain>:").next());
        let range = innermost.and_then(|item| item.split_once(":none")).map(|(range, _)| range);
        let name = range.map(|range| format!("{range}/{}", cells[6]));
        if let Some(name) = &name {
            cells[6] = name;
        }
        renamed += &(cells.join("\",\"") + "\n");
    }
    assert!(renamed.contains("\"layer:0/void cutlass::Kernel2<"), "{renamed}");
    let classifier = flopgap_kernels::Classifier::new();
    let network = flopgap_flops::SquareMlp::new(4, 512, 64).unwrap();
    let analysis_of = |text: String| {
        let path = std::path::Path::new("renamed.csv");
        let reader = flopgap_ncu::Reader::from_reader(std::io::Cursor::new(text.into_bytes()), path).unwrap();
        let recording = Recording::read(reader, path, &classifier).unwrap();
        Analysis::new(network, &Phases::by_ranges(&recording).unwrap(), Strictness::Strict).unwrap()
    };
    assert_eq!(analysis_of(renamed), analysis_of(text));
}

#[test]
fn sizes_far_below_those_that_ran_are_refused() {
    let error = analyze((10, 256, 128), stages("ncu/n10_d1024_m128_", ".csv.zst")).unwrap_err().to_string();
    assert!(error.contains("16.0 times the 167772160"), "{error}");
    assert!(error.contains("they fit width 1024 and 128 columns"), "{error}");
}

#[test]
fn json_has_the_documented_shape() {
    let analysis = analyze((10, 1024, 128), stages("notebook/", ".csv")).unwrap();
    let json: serde_json::Value = serde_json::to_value(&analysis).unwrap();
    assert_eq!(json["config"], serde_json::json!({"layers": 10, "width": 1024, "columns": 128}));
    assert_eq!(
        json["backward"]["measured"],
        serde_json::json!({
            "gemm": 5_120_196_608_u64, "split_k": 10_824_176, "activation": 3_932_160, "other": 0,
            "total": 5_134_952_944_u64
        })
    );
    assert_eq!(json["forward"]["theory"]["total"], 2_685_665_280_u64);
    assert_eq!(json["forward"]["reconstructed"], 2_727_606_586_u64);
    let keys: Vec<&str> = json["forward"].as_object().unwrap().keys().map(String::as_str).collect();
    for key in ["measured", "theory", "epsilon", "rho", "kappa", "omega", "reconstructed"] {
        assert!(keys.contains(&key), "{key}");
    }
    assert_eq!(keys.len(), 7);
    assert_eq!(json.as_object().unwrap().len(), 3);
}
