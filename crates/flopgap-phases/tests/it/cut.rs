//! Cutting by sequence: what is accepted, and the first difference where it is not.

use flopgap_files::Hint as _;
use flopgap_kernels::Classifier;
use flopgap_phases::{Phase, PhaseError, Phases, Recording};
use proptest::prelude::*;

/// A recording of launches given as (kernel, grid x, FLOPs).
fn recording(name: &str, launches: &[(&str, u64, u64)]) -> Recording {
    let classifier = Classifier::new();
    let mut recording = Recording::new(name);
    for &(kernel, grid, flops) in launches {
        recording.push(&classifier, kernel, Some([grid, 1, 1]), Some([128, 1, 1]), flops, None);
    }
    recording
}

const SETUP: [(&str, u64, u64); 2] = [
    ("void unnamed>::distribution_elementwise_kernel<float>(int)", 64, 5),
    ("void fill_kernel<int>(T1)", 1, 0),
];
/// The same two launches as another report spells them, and two more.
const FORWARD: [(&str, u64, u64); 4] = [
    ("void at::<unnamed>::distribution_elementwise_kernel<float>(int)", 64, 5),
    ("void at::native::fill_kernel<int>(T1)", 1, 0),
    ("ampere_sgemm_128x64_nn", 8, 700),
    ("void vectorized_elementwise_kernel<4, sigmoid>(int)", 8, 70),
];

#[test]
fn names_may_be_spelled_differently() {
    let setup = recording("setup.csv", &SETUP);
    let forward = recording("forward.csv", &FORWARD);
    let both = recording("both.csv", &[&FORWARD[..], &[("ampere_sgemm_32x32_nt", 9, 1400)]].concat());
    let phases = Phases::by_sequence(&setup, &forward, &both).unwrap();
    assert_eq!(phases.forward.launches, forward.launches()[2..]);
    assert_eq!(phases.backward.launches, both.launches()[4..]);
    assert!(phases.outside.launches.is_empty());
}

#[test]
fn the_first_difference_is_named() {
    let setup = recording("setup.csv", &SETUP);
    let mut launches = FORWARD;
    launches[1].1 = 2;
    let forward = recording("forward.csv", &launches);
    let error = Phases::by_sequence(&setup, &forward, &forward).unwrap_err();
    assert_eq!(
        error.to_string(),
        "forward.csv does not begin with the launches of setup.csv: launch 1 should be `fill_kernel` with \
         grid (1, 1, 1), block (128, 1, 1), but is `fill_kernel` with grid (2, 1, 1), block (128, 1, 1)"
    );
    assert!(error.hint().unwrap().contains("NVTX ranges named setup"));
}

#[test]
fn a_shorter_or_equal_run_is_no_continuation() {
    let setup = recording("setup.csv", &SETUP);
    let short = recording("short.csv", &SETUP[..1]);
    let error = Phases::by_sequence(&setup, &short, &short).unwrap_err();
    assert!(matches!(error, PhaseError::TooFewLaunches { expected: 2, found: 1, .. }), "{error}");
    let error = Phases::by_sequence(&setup, &setup, &setup).unwrap_err();
    assert_eq!(error.to_string(), "setup.csv: no launch belongs to the forward phase");
}

#[test]
fn an_empty_setup_is_a_beginning_of_everything() {
    let empty = Recording::new("setup.csv");
    let forward = recording("forward.csv", &FORWARD);
    let both = recording("both.csv", &[&FORWARD[..], &FORWARD[2..3]].concat());
    let phases = Phases::by_sequence(&empty, &forward, &both).unwrap();
    assert_eq!(phases.forward.launches.len(), 4);
    assert_eq!(phases.backward.launches.len(), 1);
}

#[test]
fn launches_outside_of_the_ranges_are_kept_apart() {
    let classifier = Classifier::new();
    let mut run = Recording::new("run.csv");
    for (flops, range) in
        [(1, None), (2, Some(Phase::Forward)), (4, Some(Phase::Backward)), (8, Some(Phase::Setup))]
    {
        run.push(&classifier, "ampere_sgemm_128x64_nn", None, None, flops, range);
    }
    let phases = Phases::by_ranges(&run).unwrap();
    assert_eq!(phases.forward.launches[0].flops, 2);
    assert_eq!(phases.backward.launches[0].flops, 4);
    assert_eq!(phases.outside.launches.len(), 1);
    let error = Phases::by_ranges(&recording("plain.csv", &FORWARD)).unwrap_err();
    assert_eq!(error.to_string(), "plain.csv: no launch belongs to the forward phase");
}

proptest! {
    /// Whatever a run is cut into, no launch is lost and none is counted twice.
    #[test]
    fn cutting_keeps_every_launch(
        launches in proptest::collection::vec((0_usize..4, 1_u64..9, 0_u64..1000), 3..40),
        first in any::<prop::sample::Index>(),
        second in any::<prop::sample::Index>(),
    ) {
        let launches: Vec<_> = launches.into_iter().map(|(k, grid, flops)| (FORWARD[k].0, grid, flops)).collect();
        let count = launches.len();
        let forward_end = 1 + second.index(count - 2);
        let setup_end = first.index(forward_end);
        let whole = recording("whole", &launches);
        let (setup, forward) = (recording("s", &launches[..setup_end]), recording("f", &launches[..forward_end]));
        let phases = Phases::by_sequence(&setup, &forward, &whole).unwrap();
        let joined: Vec<_> =
            setup.launches().iter().chain(&phases.forward.launches).chain(&phases.backward.launches).map(|l| l.flops).collect();
        let expected: Vec<_> = launches.iter().map(|launch| launch.2).collect();
        prop_assert_eq!(joined, expected);
    }
}
