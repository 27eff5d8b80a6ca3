//! Plans as they are drawn.

use super::*;
use crate::grid::{Caches, SEED};

fn request(target: Target, size: Size) -> Request {
    let modes = match target {
        Target::Cpu => vec![Mode::Call],
        Target::Cuda => vec![Mode::Stream, Mode::Graph],
    };
    Request {
        target,
        size,
        families: Vec::new(),
        batches: Vec::new(),
        precisions: Vec::new(),
        modes,
        scenario: None,
        caches: Caches { l1: Some(48 << 10), l2: Some(1 << 20), l3: Some(32 << 20) },
        seed: SEED,
    }
}

fn all(request: &Request) -> Vec<Point> {
    plan(request, &mut |_| Ok(())).unwrap().points
}

/// What `native` can do.
fn connected(point: &Point) -> Result<(), String> {
    match Family::of(&point.workload) {
        Some(Family::Mlp) if point.precision == Precision::Fp32 => Ok(()),
        _ => Err("only fully connected layers in fp32".to_owned()),
    }
}

#[test]
fn plans_are_frozen() {
    // A change of any draw changes what accuracy is judged on: change these numbers only on
    // purpose, and measure again.
    let digest = |target, size| {
        let points = all(&request(target, size));
        let mut hasher = crc32fast::Hasher::new();
        for point in &points {
            hasher.update(serde_json::to_string(point).unwrap().as_bytes());
        }
        (points.len(), hasher.finalize())
    };
    let digests = [
        digest(Target::Cpu, Size::Quick),
        digest(Target::Cuda, Size::Quick),
        digest(Target::Cpu, Size::Full),
        digest(Target::Cuda, Size::Full),
    ];
    assert_eq!(
        digests,
        [(150, 3_010_860_637), (150, 2_566_876_905), (1783, 3_518_295_107), (15978, 1_789_104_547)]
    );
}

#[test]
fn a_quick_sweep_has_150_rows_of_each_family() {
    for target in [Target::Cpu, Target::Cuda] {
        for family in [Family::Mlp, Family::Conv, Family::Memory] {
            let request = Request { families: vec![family], ..request(target, Size::Quick) };
            let points = all(&request);
            assert_eq!(points.len(), QUICK, "{target:?} {family}");
            assert!(points.iter().all(|point| Family::of(&point.workload) == Some(family)));
        }
    }
    let both = Request { families: vec![Family::Mlp, Family::Conv], ..request(Target::Cuda, Size::Quick) };
    assert_eq!(all(&both).len(), 2 * QUICK);
    let native = plan(&request(Target::Cpu, Size::Quick), &mut connected).unwrap();
    assert_eq!(native.points.len(), QUICK);
    let networks = native.points.iter().filter(|point| matches!(point.workload, Workload::Mlp(_))).count();
    assert_eq!(networks, 56);
}

#[test]
fn a_full_sweep_has_the_grid_in_both_modes_and_every_residual_network() {
    let points = all(&request(Target::Cuda, Size::Full));
    let grid: HashSet<MlpSpec> = mlp::on_grid(&[]).into_iter().collect();
    for mode in [Mode::Stream, Mode::Graph] {
        let of_grid = points.iter().filter(|point| {
            (point.mode, point.precision) == (mode, Precision::Fp32)
                && matches!(&point.workload, Workload::Mlp(mlp) if grid.contains(mlp))
        });
        assert_eq!(of_grid.count(), 480);
    }
    for depth in [18, 34, 50, 101, 152] {
        let at = |batch| Workload::Resnet(ResnetSpec { depth, batch, image: 224 });
        for batch in [1, 8, 32] {
            for precision in [Precision::Fp32, Precision::Fp16, Precision::Int8] {
                let point = Point { workload: at(batch), mode: Mode::Graph, precision };
                assert!(points.contains(&point), "{point:?}");
            }
        }
    }
    let empties =
        points.iter().filter(|point| matches!(&point.workload, Workload::Step(step) if step.op == Op::Empty));
    assert_eq!(empties.count(), 2 * 5);
}

#[test]
fn a_plan_has_nothing_twice_and_any_part_of_it_has_everything() {
    let points = all(&request(Target::Cuda, Size::Full));
    assert_eq!(points.iter().collect::<HashSet<_>>().len(), points.len());
    let kinds = |points: &[Point]| -> HashSet<(Option<Family>, Precision, Mode)> {
        points.iter().map(|point| (Family::of(&point.workload), point.precision, point.mode)).collect()
    };
    assert_eq!(kinds(&points[..points.len() / 4]), kinds(&points));
}

#[test]
fn batches_and_precisions_are_those_that_are_asked_for() {
    let request = Request {
        batches: vec![3, 48],
        precisions: vec![Precision::Bf16],
        families: vec![Family::Mlp, Family::Conv, Family::Resnet],
        ..request(Target::Cuda, Size::Full)
    };
    for point in all(&request) {
        assert_eq!(point.precision, Precision::Bf16);
        let is_batched = matches!(&point.workload,
            Workload::Step(Step { op: Op::Gemm(gemm), .. }) if gemm.batch > 1);
        let batch = point.workload.batch();
        assert!(is_batched || batch.is_none_or(|batch| [3, 48].contains(&batch)), "{point:?}");
    }
}

#[test]
fn a_scenario_has_only_its_working_sets() {
    for scenario in Scenario::ALL {
        let request = Request { scenario: Some(scenario), ..request(Target::Cpu, Size::Quick) };
        let (low, high) = request.caches.range(scenario).unwrap();
        let points = plan(&request, &mut connected).unwrap().points;
        assert!(points.len() > 100, "{scenario}: {}", points.len());
        for point in points {
            let bytes = working_set(&point.workload, point.precision).unwrap().unwrap();
            assert!(low < bytes && bytes <= high, "{point:?}");
        }
    }
}

#[test]
fn an_empty_scenario_and_a_missing_cache_are_errors() {
    let quick = request(Target::Cpu, Size::Quick);
    let huge = Request { batches: vec![1 << 20], scenario: Some(Scenario::L1Fit), ..quick.clone() };
    assert_eq!(
        plan(&huge, &mut connected).unwrap_err().to_string(),
        "L1_fit is empty: no requested workload has a working set of more than 0 and at most 49152 bytes"
    );
    let caches = Caches { l3: None, ..quick.caches };
    let without_l3 = Request { caches, scenario: Some(Scenario::L3Fit), ..quick };
    assert!(
        plan(&without_l3, &mut connected).unwrap_err().to_string().starts_with("L3_fit needs an L3 cache")
    );
}

#[test]
fn what_no_engine_can_run_is_an_error_with_its_reason() {
    let conv = Request { families: vec![Family::Conv], ..request(Target::Cpu, Size::Quick) };
    assert_eq!(
        plan(&conv, &mut connected).unwrap_err().to_string(),
        "nothing to measure: conv: only fully connected layers in fp32"
    );
    let modeless = Request { modes: Vec::new(), ..request(Target::Cpu, Size::Quick) };
    assert!(plan(&modeless, &mut connected).unwrap_err().to_string().contains("none of the modes"));
}

#[test]
fn chosen_points_are_of_every_kind() {
    let points = all(&request(Target::Cuda, Size::Full));
    let chosen = choose(&points, 60);
    assert_eq!(chosen.len(), 60);
    let kinds: HashSet<_> =
        chosen.iter().map(|&place| (Family::of(&points[place].workload), points[place].precision)).collect();
    let every: HashSet<_> =
        points.iter().map(|point| (Family::of(&point.workload), point.precision)).collect();
    assert_eq!(kinds, every);
    assert_eq!(choose(&points[..5], 60).len(), 5);
}
