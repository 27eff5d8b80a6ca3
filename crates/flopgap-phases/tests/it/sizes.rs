//! Widths and columns that are not those that ran.

use std::path::PathBuf;

use flopgap_files::Hint as _;
use flopgap_flops::SquareMlp;
use flopgap_kernels::Classifier;
use flopgap_phases::{Analysis, Contradiction, PhaseError, Phases, Recording, SizeEvidence, Strictness};

use crate::{analyze, fixture};

const STAGES: [&str; 3] = ["setup", "forward", "forward_backward"];

/// What is said of the notebook's recording of N=10 D=1024 M=128 with other sizes. It has no grids.
fn notebook(width: u64, columns: u64) -> (String, String) {
    let stages = STAGES.map(|stage| fixture(format!("notebook/{stage}.csv")));
    let error = analyze((10, width, columns), stages).unwrap_err();
    assert!(matches!(error, PhaseError::Contradicted { .. }), "{error}");
    (error.to_string(), error.hint().unwrap().into_owned())
}

/// 10 layers, 894 wide, on 146 columns: padding explains the products, and 393,216 FLOPs of a
/// sigmoid's gradient are 3.0126 for each of 130,524 elements.
#[test]
fn activations_contradict_sizes_that_padding_explains() {
    let (message, hint) = notebook(894, 146);
    for said in [
        "the counts are not those of width 894 and 146 columns",
        "3.0126 for each of 130524 elements, which is not a whole number",
        "; they fit width 1024 and 128 columns",
    ] {
        assert!(message.contains(said), "{message}");
    }
    assert_eq!(hint, "pass width 1024 and 128 columns, or name the recording after them");
}

/// Half of the columns: whole numbers of FLOPs, twice those of a gradient.
#[test]
fn whole_multiples_are_recognized_by_the_arithmetic_of_a_gradient() {
    let (message, _) = notebook(1024, 64);
    let gradient = "6.0000 for each of 65536 elements, and the gradient of a sigmoid takes 3";
    assert!(message.contains(gradient), "{message}");
    assert!(message.contains("; they fit width 1024 and 128 columns"), "{message}");
}

/// The same elements with another width: only the products are against it.
#[test]
fn products_contradict_sizes_with_the_same_elements() {
    for (width, columns) in [(512, 256), (256, 512), (2048, 64)] {
        let (message, _) = notebook(width, columns);
        assert!(message.contains("; they fit width 1024 and 128 columns"), "{message}");
    }
}

/// The launches of a recorded network of the run, setup first.
fn recorded(config: (u64, u64, u64)) -> [Recording; 3] {
    let (n, d, m) = config;
    let classifier = Classifier::new();
    let path =
        |stage: &str| -> PathBuf { fixture(format!("runs/h200-pytorch/raw/n{n}_d{d}_m{m}_{stage}.csv.zst")) };
    let setup = Recording::load_setup(&path(STAGES[0]), &classifier).unwrap();
    let load = |stage| Recording::load(&path(stage), &classifier).unwrap();
    [setup, load(STAGES[1]), load(STAGES[2])]
}

/// All 36 recorded networks, each with its own sizes and with eleven others.
#[test]
fn every_recorded_network_is_known_by_its_sizes() {
    let mut tried = 0;
    for n in [2, 4, 8] {
        for d in [256, 512, 1024, 2048] {
            for m in [16, 64, 256] {
                let [setup, forward, whole] = recorded((n, d, m));
                let phases = Phases::by_sequence(&setup, &forward, &whole).unwrap();
                let analysis = |width, columns| {
                    let network = SquareMlp::new(n, width, columns).unwrap();
                    Analysis::new(network, &phases, Strictness::Forced).unwrap()
                };
                let own = analysis(d, m);
                assert_eq!((own.contradictions, own.warnings), (vec![], vec![]), "n{n} d{d} m{m}");
                let others = [
                    (d, m + 1),
                    (d, m - 1),
                    (d + 1, m),
                    (d - 1, m),
                    (d, m / 2),
                    (d / 2, m),
                    (d, 2 * m),
                    (d / 2, 2 * m),
                    (2 * d, m / 2),
                    (d - 7, m + 3),
                    (d / 4, m),
                ];
                for (width, columns) in others {
                    tried += 1;
                    let found = analysis(width, columns).contradictions;
                    let Some(Contradiction::OtherSizes { fits, .. }) = found.first() else {
                        panic!("n{n} d{d} m{m} as d{width} m{columns}: {found:?}")
                    };
                    assert_eq!(fits[..], [(d, m)], "n{n} d{d} m{m} as d{width} m{columns}");
                }
            }
        }
    }
    assert_eq!(tried, 396);
}

/// A grid says how many elements there are when the arithmetic of the kernel does not.
#[test]
fn grids_contradict_sizes() {
    let [setup, forward, whole] = recorded((2, 512, 64));
    let classifier = Classifier::new();
    // The same launches under names that do not say what they compute.
    let renamed = |recording: &Recording| {
        let mut copy = Recording::new("renamed.csv");
        for launch in recording.launches() {
            let name = recording.kernel(launch.kernel).name.replace("sigmoid", "gelu");
            copy.push(&classifier, &name, launch.grid, launch.block, launch.flops, launch.range);
        }
        copy
    };
    let [setup, forward, whole] = [&setup, &forward, &whole].map(renamed);
    let phases = Phases::by_sequence(&setup, &forward, &whole).unwrap();
    let of = |columns| {
        Analysis::new(SquareMlp::new(2, 512, columns).unwrap(), &phases, Strictness::Forced).unwrap()
    };
    assert_eq!(of(64).contradictions, []);
    let found = of(32).contradictions;
    let Some(Contradiction::OtherSizes { evidence, .. }) = found.first() else { panic!("{found:?}") };
    // 128 blocks of 128 threads with two elements each, for 512 times 64 elements.
    let grid = evidence.iter().find_map(|one| match one {
        SizeEvidence::Grid { least, most, elements, .. } => Some((*least, *most, *elements)),
        _ => None,
    });
    assert_eq!(grid, Some((32513, 32768, 16384)), "{evidence:?}");
}
