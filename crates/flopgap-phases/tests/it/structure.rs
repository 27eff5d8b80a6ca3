//! Recordings that lack launches, hold them twice, or are of another network than was stated.

use std::fs;
use std::path::{Path, PathBuf};

use flopgap_files::Hint as _;
use flopgap_flops::{Pass, SquareMlp};
use flopgap_kernels::Classifier;
use flopgap_phases::{
    Analysis, Contradiction, LaunchKind, Phase, PhaseError, Phases, Profile, Recording, Strictness,
};

use crate::{analyze, fixture, unpacked_text};

const SIZES: (u64, u64, u64) = (10, 1024, 128);

/// One of the three recordings of N=10 D=1024 M=128 on an H200, as ncu printed it.
fn text(stage: &str) -> String {
    unpacked_text(format!("ncu/n10_d1024_m128_{stage}.csv.zst"))
}

/// The recording without the rows of a launch.
fn without(text: &str, launch: u64) -> String {
    let start = format!("\"{launch}\",");
    let kept: String = text.split_inclusive('\n').filter(|line| !line.starts_with(&start)).collect();
    assert!(kept.len() < text.len(), "there is no launch {launch}");
    kept
}

fn write(directory: &Path, name: &str, text: &str) -> PathBuf {
    let path = directory.join(name);
    fs::write(&path, text).unwrap();
    path
}

/// The analysis of the three recordings, changed by `change`.
fn changed(sizes: (u64, u64, u64), change: impl Fn(&str, String) -> String) -> Result<Analysis, PhaseError> {
    let directory = tempfile::tempdir().unwrap();
    let stages = ["setup", "forward", "forward_backward"];
    analyze(
        sizes,
        stages.map(|stage| write(directory.path(), &format!("{stage}.csv"), &change(stage, text(stage)))),
    )
}

/// The contradictions for which a recording is refused.
fn refused(result: Result<Analysis, PhaseError>) -> Vec<Contradiction> {
    match result {
        Err(PhaseError::Contradicted { contradictions, .. }) => contradictions,
        other => panic!("{other:?}"),
    }
}

fn lacks(found: &Contradiction, pass: Pass, kind: LaunchKind, counts: (u64, u64), place: &str) {
    let Contradiction::MissingLaunches { pass: of, kind: what, found: there, expected, .. } = found else {
        panic!("{found:?}")
    };
    assert_eq!((*of, *what, (*there, *expected)), (pass, kind, counts), "{found}");
    assert!(found.to_string().contains(place), "{found}");
}

#[test]
fn the_whole_recording_is_accepted() {
    let analysis = changed(SIZES, |_, text| text).unwrap();
    assert_eq!(analysis.contradictions, []);
}

/// Without its last launch the backward pass had an epsilon that looked like any other.
#[test]
fn a_last_launch_that_is_missing_is_named() {
    let cut = |stage: &str, text: String| match stage {
        "forward_backward" => without(&text, 80),
        _ => text,
    };
    let found = refused(changed(SIZES, cut));
    assert_eq!(found.len(), 1, "{found:?}");
    lacks(&found[0], Pass::Backward, LaunchKind::Product, (18, 19), "a product of layer 1 is missing;");
    let text = found[0].to_string();
    assert!(text.ends_with("launch 39 of 39, `vectorized_elementwise_kernel [sigmoid_backward]`"), "{text}");
}

/// Each launch of both passes, one at a time: all are missed but the reduction of the loss and the
/// fill of its gradient.
#[test]
fn every_launch_of_a_layer_is_missed() {
    let (setup, whole) = (text("setup"), text("forward_backward"));
    let classifier = Classifier::new();
    let directory = tempfile::tempdir().unwrap();
    let load =
        |name: &str, text: &str| Recording::load(&write(directory.path(), name, text), &classifier).unwrap();
    let setup = load("setup.csv", &setup);
    let network = SquareMlp::new(10, 1024, 128).unwrap();
    let (mut missed, mut accepted) = (0, Vec::new());
    for launch in 11..81 {
        let whole = without(&whole, launch);
        // The forward run is the beginning of the whole one, without the same launch.
        let end = whole.find(if launch == 41 { "\n\"42\"," } else { "\n\"41\"," }).unwrap() + 1;
        let forward = load("forward.csv", &whole[..end]);
        let whole = load("whole.csv", &whole);
        let phases = Phases::by_sequence(&setup, &forward, &whole).unwrap();
        match Analysis::new(network, &phases, Strictness::Strict) {
            Ok(_) => accepted.push(launch),
            Err(PhaseError::Contradicted { .. }) => missed += 1,
            Err(error) => panic!("{launch}: {error}"),
        }
    }
    // 10 + 19 products, 10 + 9 reductions of slices, 10 + 10 activations.
    assert_eq!((missed, &accepted[..]), (68, &[41, 42][..]));
}

#[test]
fn a_layer_in_the_middle_is_named() {
    // Launch 23 is the product of the fifth layer, 25 its sigmoid.
    let found =
        refused(changed(SIZES, |stage, text| if stage == "setup" { text } else { without(&text, 23) }));
    lacks(&found[0], Pass::Forward, LaunchKind::Product, (9, 10), "a product of layer 5 is missing;");
    let found =
        refused(changed(SIZES, |stage, text| if stage == "setup" { text } else { without(&text, 25) }));
    lacks(
        &found[0],
        Pass::Forward,
        LaunchKind::Activation,
        (9, 10),
        "before launch 15 of 29, `sm80_xmma_gemm",
    );
    // 54 is the second product of the eighth layer, counted from the first.
    let cut = |stage: &str, text: String| if stage == "forward_backward" { without(&text, 54) } else { text };
    lacks(
        &refused(changed(SIZES, cut))[0],
        Pass::Backward,
        LaunchKind::Product,
        (18, 19),
        "a product of layer 8 is missing;",
    );
}

/// Cut before its last sigmoid, the forward run gives that launch to the backward pass.
#[test]
fn a_forward_run_that_ends_too_early_is_refused() {
    let found =
        refused(changed(SIZES, |stage, text| if stage == "forward" { without(&text, 40) } else { text }));
    lacks(&found[0], Pass::Forward, LaunchKind::Activation, (9, 10), "the phase ends with launch 29 of 29");
}

#[test]
fn a_report_appended_to_itself_is_refused_with_id_and_lines() {
    let directory = tempfile::tempdir().unwrap();
    let once = text("forward_backward");
    let twice = write(directory.path(), "twice.csv", &(once.clone() + &once));
    let first = once.lines().position(|line| line.starts_with("\"0\",")).unwrap() + 1;
    let second = first + once.lines().count();
    let process = once.lines().nth(first - 1).unwrap().split('"').nth(3).unwrap().to_owned();
    let start = format!("twice.csv:{second}: launch 0 of process {process} is already at {first}");
    let errors =
        [Recording::load(&twice, &Classifier::new()).unwrap_err(), Profile::open(&twice).unwrap_err()];
    for error in errors {
        assert!(error.to_string().contains(&start), "{error} is not about {start}");
        assert!(error.hint().is_some());
    }
    // Appended without its header, where the reader sees one table.
    let rows: String = once.split_inclusive('\n').skip(first - 1).collect();
    let longer = write(directory.path(), "longer.csv", &(once.clone() + &rows));
    let error = Profile::open(&longer).unwrap_err();
    assert!(matches!(error, PhaseError::RepeatedLaunch { id: 0, .. }), "{error}");
    // Another process numbers its launches from 0, too.
    let other = once.replace(&format!("\"{process}\","), "\"4711\",");
    let both = write(directory.path(), "both.csv", &(once + &other));
    assert_eq!(Profile::open(&both).unwrap().totals.launches, 162);
}

#[test]
fn other_sizes_than_those_that_ran_are_refused_with_the_cause() {
    let refused = |sizes| {
        let error = changed(sizes, |_, text| text).unwrap_err();
        assert!(matches!(error, PhaseError::Contradicted { .. }), "{error}");
        (error.to_string(), error.hint().unwrap().into_owned())
    };
    for layers in [17, 5] {
        let (message, hint) = refused((layers, 1024, 128));
        let cause =
            format!("10 products forward and 19 backward, which are those of 10 layers, not of {layers}");
        assert!(message.contains(&cause), "{message}");
        assert!(hint.contains("number of layers that ran"), "{hint}");
    }
    for sizes in [(10, 1024, 130), (10, 1025, 128), (10, 2048, 128)] {
        let (message, hint) = refused(sizes);
        assert!(message.contains("FLOPs were counted, but the stated network needs"), "{message}");
        assert!(message.contains("layers, width or columns are not those that ran"), "{message}");
        assert!(hint.contains("pass width 1024 and 128 columns"), "{hint}");
    }
}

/// A refused phase can be inspected, and says in JSON that it was refused.
#[test]
fn forced_results_carry_the_reason() {
    let setup =
        Recording::load_setup(&fixture("ncu/n10_d1024_m128_setup.csv.zst"), &Classifier::new()).unwrap();
    let load = |stage: &str| {
        Recording::load(&fixture(format!("ncu/n10_d1024_m128_{stage}.csv.zst")), &Classifier::new()).unwrap()
    };
    let (forward, whole) = (load("forward"), load("forward_backward"));
    let phases = Phases::by_sequence(&setup, &forward, &whole).unwrap();
    let network = SquareMlp::new(17, 1024, 128).unwrap();
    let analysis = Analysis::new(network, &phases, Strictness::Forced).unwrap();
    assert!(analysis.forward.decomposition.factors.epsilon < -0.4);
    let json = serde_json::to_value(&analysis).unwrap();
    assert!(json["contradictions"][0].as_str().unwrap().contains("not of 17"), "{json}");
}

/// The analysis of a network with 2 layers of width 8 on 8 columns, recorded with these kernels and
/// FLOPs.
fn small(forward: &[(&str, u64)], backward: &[(&str, u64)]) -> Result<Analysis, PhaseError> {
    let classifier = Classifier::new();
    let mut recording = Recording::new("small.csv");
    for (phase, launches) in [(Phase::Forward, forward), (Phase::Backward, backward)] {
        for &(kernel, flops) in launches {
            recording.push(&classifier, kernel, Some([1; 3]), Some([32, 1, 1]), flops, Some(phase));
        }
    }
    let phases = Phases::by_ranges(&recording).unwrap();
    Analysis::new(SquareMlp::new(2, 8, 8).unwrap(), &phases, Strictness::Strict)
}

const GEMM: (&str, u64) = ("ampere_sgemm_32x32_nn", 1024);
const ACTIVATION: (&str, u64) = ("sigmoid_elementwise_kernel", 1024);
const BACKWARD: [(&str, u64); 5] = [ACTIVATION, GEMM, GEMM, ACTIVATION, GEMM];

#[test]
fn more_launches_than_products_are_no_contradiction() {
    small(&[GEMM, ACTIVATION, GEMM, ACTIVATION], &BACKWARD).unwrap();
    // A product in two launches, and a copy and a loss between the layers.
    let half = ("ampere_sgemm_64x64_nn", 512);
    let copy = ("void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>>(int)", 0);
    let forward = [half, half, ACTIVATION, copy, GEMM, ACTIVATION, ("mse_loss_elementwise_kernel", 64)];
    small(&forward, &BACKWARD).unwrap();
}

/// On two streams, the next launch of the report need not be the product's own reduction.
#[test]
fn reductions_that_stand_apart_are_not_missed() {
    let reduce = ("splitKreduce_kernel", 64);
    let apart = [ACTIVATION, GEMM, GEMM, reduce, reduce, ACTIVATION, GEMM, reduce];
    small(&[GEMM, ACTIVATION, GEMM, ACTIVATION], &apart).unwrap();
    let one = [ACTIVATION, GEMM, reduce, GEMM, ACTIVATION, GEMM, reduce];
    let found = refused(small(&[GEMM, ACTIVATION, GEMM, ACTIVATION], &one));
    lacks(&found[0], Pass::Backward, LaunchKind::SplitKReduction, (2, 3), "the one after launch 4 of 7");
}

#[test]
fn activations_that_a_compiler_fused_are_found() {
    let (inner, last) = (("triton_poi_fused_sigmoid_0", 1024), ("triton_per_fused_sum_1", 1088));
    let forward = [GEMM, inner, GEMM, last];
    let analysis = small(&forward, &BACKWARD).unwrap();
    assert_eq!(analysis.contradictions, []);
    // Within the product there is nothing to tell them by, and a kappa of -1 is no measurement.
    let epilogue = ("triton_tem_fused_mm_sigmoid_0", 2048);
    let error = small(&[epilogue, epilogue], &BACKWARD).unwrap_err();
    assert!(error.to_string().contains("the forward phase has 0 of 2 activations"), "{error}");
    assert!(error.hint().unwrap().contains("fused into its products"), "{error}");
}
