//! What a predictor promises, on a machine that is a formula.

#![expect(clippy::print_stderr, reason = "the figures are what a reader of a test wants")]

use flopgap_flops::Precision;
use flopgap_graph::op::Gemm;
use flopgap_graph::{Algorithm, Mode, Op, Step};
use flopgap_roofline::predict::{
    Baseline, Basis, Bottleneck, Estimate, FitError, FitSettings, Observation, Predictor,
};

use crate::synthetic::{self, Numbers, layer, network, observations};

fn fit(rows: &[Observation]) -> Predictor {
    Predictor::fit(None, rows, &FitSettings::default().with_units(100)).unwrap()
}

fn ask(predictor: &Predictor, row: &Observation) -> Estimate {
    predictor.estimate(&row.steps, row.precision, row.mode, None).unwrap()
}

/// Mean relative error of times, memory and energy, share within intervals.
fn judge(predictor: &Predictor, rows: &[Observation]) -> [f64; 4] {
    let mut sums = [0.0; 4];
    for row in rows {
        let said = ask(predictor, row);
        assert!(!said.measured);
        assert!(said.low <= said.nanoseconds && said.nanoseconds <= said.high, "{said:?}");
        let inside = said.low <= row.nanoseconds && row.nanoseconds <= said.high;
        let errors = [
            (said.nanoseconds / row.nanoseconds - 1.0).abs(),
            (said.memory_bytes.unwrap() / row.memory_bytes.unwrap() as f64 - 1.0).abs(),
            (said.joules.unwrap() / row.joules.unwrap() - 1.0).abs(),
            f64::from(u8::from(inside)),
        ];
        for (sum, error) in sums.iter_mut().zip(errors) {
            *sum += error / rows.len() as f64;
        }
    }
    sums
}

#[test]
fn steps_and_models_that_were_never_fitted() {
    let predictor = fit(&observations(1, 150, 60));
    // Of a model nothing is known but its steps, whose errors may all have one cause: its interval
    // is wider than models like those that were fitted need.
    let models = ("models", observations(3, 0, 60), 0.9..=1.0);
    for (what, rows, share) in [("steps", observations(2, 100, 0), 0.84..=0.96), models] {
        let [time, memory, energy, covered] = judge(&predictor, &rows);
        eprintln!("{what}: time {time:.4}, memory {memory:.4}, energy {energy:.4}, covered {covered:.3}");
        assert!(time < 0.06, "{what}: {time}");
        assert!(memory < 0.03, "{what}: {memory}");
        assert!(energy < 0.08, "{what}: {energy}");
        assert!(share.contains(&covered), "{what}: {covered}");
    }
}

#[test]
fn models_alone_are_enough() {
    let predictor = fit(&observations(4, 0, 120));
    let rows = observations(5, 0, 60);
    let [time, ..] = judge(&predictor, &rows);
    let error = |row: &Observation| {
        let said = predictor.baseline(Baseline::LaunchEfficiency, &row.steps, row.precision, row.mode);
        (said / row.nanoseconds - 1.0).abs()
    };
    let baseline = rows.iter().map(error).sum::<f64>() / rows.len() as f64;
    eprintln!("models from models: {time:.4}, by two constants {baseline:.4}");
    assert!(time < 0.08 && time < baseline / 1.5, "{time} {baseline}");
}

#[test]
fn a_stored_predictor_says_the_same() {
    let rows = observations(1, 60, 30);
    let predictor = fit(&rows);
    let bytes = predictor.to_bytes().unwrap();
    let stored = Predictor::from_bytes(&bytes).unwrap();
    assert_eq!(stored.to_bytes().unwrap().len(), bytes.len());
    for row in observations(2, 20, 20).iter().chain(&rows) {
        let (said, again) = (ask(&predictor, row), ask(&stored, row));
        assert_eq!(format!("{said:?}"), format!("{again:?}"));
        for baseline in Baseline::ALL {
            let of =
                |predictor: &Predictor| predictor.baseline(baseline, &row.steps, row.precision, row.mode);
            assert_eq!(of(&predictor).to_bits(), of(&stored).to_bits());
        }
    }
    for end in [0, 1, bytes.len() / 2, bytes.len() - 1] {
        assert!(Predictor::from_bytes(&bytes[..end]).is_none(), "cut at {end}");
    }
    assert!(Predictor::from_bytes(&[&*bytes, &[0]].concat()).is_none());
}

#[test]
fn without_kernels_estimates_from_sizes_are_the_same() {
    let rows = observations(1, 60, 30);
    let settings = FitSettings::default().with_units(100).sizes_alone();
    let sizes = Predictor::fit(None, &rows, &settings).unwrap();
    assert!(!sizes.knows_kernels());
    let both = fit(&rows);
    for row in observations(2, 20, 20) {
        assert_eq!(format!("{:?}", ask(&sizes, &row)), format!("{:?}", ask(&both, &row)));
    }
}

#[test]
fn what_was_measured_comes_back_as_measured() {
    let rows = observations(1, 40, 20);
    let predictor = fit(&rows);
    for row in &rows {
        let said = ask(&predictor, row);
        assert!(said.measured && !said.extrapolated);
        assert_eq!(said.nanoseconds.to_bits(), row.nanoseconds.to_bits());
        assert_eq!(Some([said.low, said.high]), row.bounds);
        assert_eq!(said.memory_bytes, row.memory_bytes.map(|bytes| bytes as f64));
        assert_eq!(said.joules, row.joules);
    }
    // A measured step within a model that was not measured.
    let steps = [rows[0].steps[0].clone(), layer(77, 88, 99, true)];
    let said = predictor.estimate(&steps, rows[0].precision, rows[0].mode, None).unwrap();
    let basis = [said.by_step[0].basis, said.by_step[1].basis];
    assert!(!said.measured && basis == [Basis::Measured, Basis::Fitted]);
    assert_eq!(said.by_step[0].nanoseconds.to_bits(), rows[0].nanoseconds.to_bits());
}

#[test]
fn equal_fits_say_the_same() {
    let rows = observations(6, 40, 30);
    let (one, other) = (fit(&rows), fit(&rows));
    for row in observations(7, 10, 10) {
        assert_eq!(ask(&one, &row), ask(&other, &row));
    }
}

#[test]
fn extrapolation_is_marked_and_widens_the_interval() {
    let rows = observations(8, 100, 0);
    let predictor = fit(&rows);
    let width = |said: &Estimate| (said.high / said.low).ln();
    let inside =
        predictor.estimate(&[layer(512, 512, 512, true)], Precision::Fp32, Mode::Graph, None).unwrap();
    let beyond = predictor
        .estimate(&[layer(100_000, 20_000, 20_000, true)], Precision::Fp32, Mode::Graph, None)
        .unwrap();
    assert!(!inside.extrapolated && beyond.extrapolated);
    assert!(width(&beyond) > 1.5 * width(&inside), "{inside:?} {beyond:?}");
    // The time still grows with the work.
    let truth = synthetic::run(&[layer(100_000, 20_000, 20_000, true)], Precision::Fp32, Mode::Graph);
    assert!((beyond.nanoseconds / truth).ln().abs() < 0.5, "{} of {truth}", beyond.nanoseconds);
}

/// Products and sums were fitted, in two precisions and in a graph.
#[test]
fn what_was_never_measured_is_from_its_floor_or_not_estimated() {
    let mut rows = observations(8, 100, 20);
    rows.retain(|row| row.mode == Mode::Graph);
    let predictor = fit(&rows);
    let at = |steps: &[Step], precision, mode| predictor.estimate(steps, precision, mode, None);
    let product = layer(512, 512, 512, true);
    let several = Step::plain(Op::Gemm(Gemm { batch: 4, m: 512, n: 512, k: 512 }));
    for (step, precision, mode, kind) in [
        (&product, Precision::Int8, Mode::Graph, "product"),
        (&product, Precision::Fp16, Mode::Stream, "product"),
        (&several, Precision::Fp16, Mode::Graph, "batched product"),
    ] {
        let said = at(std::slice::from_ref(step), precision, mode).unwrap();
        assert_eq!(said.from_floor, [kind]);
        assert!(!said.measured && said.by_step[0].basis == Basis::Floor);
        assert!((said.high / said.low / 10.0 - 1.0).abs() < 1e-9, "{said:?}");
        assert!((said.nanoseconds.powi(2) / said.low / said.high - 1.0).abs() < 1e-9, "{said:?}");
        // Not less than the roofline, nor more than the formula of the machine allows a launch.
        let floor = said.by_step[0].roofline_ns;
        assert!(said.low > floor && said.low < floor + 5000.0, "{said:?}");
        // Within a model, both bounds move by the bounds of the step.
        let model = at(&[product.clone(), step.clone()], precision, mode).unwrap();
        assert!(model.high - model.low > 0.99 * (said.high - said.low) * model.correction, "{model:?}");
    }
    let softmax = Step::plain(Op::Softmax { rows: 8, columns: 8 });
    let pool = Step::plain(Op::Reduce { inputs: 64, outputs: 8 });
    let steps = [product, softmax.clone(), pool, softmax];
    let error = at(&steps, Precision::Fp16, Mode::Graph).unwrap_err();
    let kinds = vec!["softmax".to_owned(), "reduction".to_owned()];
    assert_eq!(error, FitError::NeverMeasured { kinds, steps: vec![1, 2, 3] });
    assert_eq!(error.to_string(), "never measured: softmax, reduction");
}

/// Rows on a stream that are faster than in a graph, which no launch is.
#[test]
fn a_stream_takes_as_long_as_a_graph() {
    let mut rows = observations(8, 100, 20);
    for row in rows.iter_mut().filter(|row| row.mode == Mode::Stream) {
        row.nanoseconds *= 0.3;
        row.bounds = None;
    }
    let predictor = fit(&rows);
    for row in observations(10, 20, 20) {
        let of = |mode| predictor.estimate(&row.steps, row.precision, mode, None).unwrap();
        let (graph, stream) = (of(Mode::Graph), of(Mode::Stream));
        assert!(stream.nanoseconds >= graph.nanoseconds, "{stream:?} {graph:?}");
        assert!(stream.low >= graph.low && stream.high >= graph.high, "{stream:?} {graph:?}");
        for (stream, graph) in stream.by_step.iter().zip(&graph.by_step) {
            assert!(stream.nanoseconds >= graph.nanoseconds);
        }
    }
}

#[test]
fn what_bounds_a_step() {
    let predictor = fit(&observations(9, 150, 0));
    let bottleneck = |m, n, k| {
        let said = predictor.estimate(&[layer(m, n, k, true)], Precision::Fp16, Mode::Graph, None).unwrap();
        said.by_step[0].bottleneck.clone()
    };
    assert_eq!(bottleneck(8, 8, 8), Bottleneck::Launch);
    assert_eq!(bottleneck(8000, 4000, 4000), Bottleneck::Compute);
    assert_eq!(bottleneck(4, 4096, 4096), Bottleneck::Memory("memory".to_owned()));
}

/// Half of the steps run by a kernel that is three times slower, and nothing but its name says.
fn with_kernels(seed: u64) -> Vec<Observation> {
    let mut numbers = Numbers::new(seed + 99);
    let mut rows = observations(seed, 120, 0);
    for row in &mut rows {
        let slow = numbers.next() < 0.5;
        let id = if slow { "slow" } else { "fast" };
        row.algorithms = vec![Algorithm { id: id.to_owned(), ..Algorithm::default() }];
        row.nanoseconds *= if slow { 3.0 } else { 1.0 };
    }
    rows
}

#[test]
fn kernels_help_where_they_are_known() {
    let predictor = fit(&with_kernels(10));
    let error = |reported: bool| {
        let rows = with_kernels(11);
        let each = rows.iter().map(|row| {
            let algorithms = reported.then_some(&*row.algorithms);
            let said = predictor.estimate(&row.steps, row.precision, row.mode, algorithms).unwrap();
            (said.nanoseconds / row.nanoseconds - 1.0).abs()
        });
        each.sum::<f64>() / rows.len() as f64
    };
    let (reported, unreported) = (error(true), error(false));
    eprintln!("kernels reported {reported:.4}, unreported {unreported:.4}");
    assert!(reported < 0.06 && unreported > 0.2, "{reported} {unreported}");
}

#[test]
fn algorithms_of_another_plan_are_left_aside() {
    let predictor = fit(&with_kernels(12));
    let steps = network(&mut Numbers::new(1));
    let alien = vec![Algorithm::default(); steps.len() + 1];
    let with = predictor.estimate(&steps, Precision::Fp16, Mode::Graph, Some(&alien)).unwrap();
    assert_eq!(with, predictor.estimate(&steps, Precision::Fp16, Mode::Graph, None).unwrap());
}

#[test]
fn what_was_not_measured_is_absent() {
    let mut rows = observations(13, 40, 0);
    for row in &mut rows {
        row.memory_bytes = None;
        row.joules = None;
    }
    let said = ask(&fit(&rows), &observations(14, 1, 0)[0]);
    assert_eq!((said.memory_bytes, said.joules), (None, None));
}

#[test]
fn what_no_fit_can_use_is_refused() {
    let rows = observations(15, 30, 0);
    let with = |change: &dyn Fn(&mut Observation)| {
        let mut rows = rows.clone();
        change(&mut rows[17]);
        Predictor::fit(None, &rows, &FitSettings::default()).map(|_| ()).unwrap_err()
    };
    for nanoseconds in [0.0, -1.0, f64::INFINITY] {
        let found = with(&|row| row.nanoseconds = nanoseconds);
        assert_eq!(found, FitError::NotATime { index: 17, nanoseconds });
    }
    assert!(matches!(with(&|row| row.nanoseconds = f64::NAN), FitError::NotATime { index: 17, .. }));
    assert_eq!(with(&|row| row.joules = Some(0.0)), FitError::NotAnEnergy { index: 17, joules: 0.0 });
    assert_eq!(with(&|row| row.steps.clear()), FitError::Nothing { index: 17 });
    let few = Predictor::fit(None, &rows[..19], &FitSettings::default()).map(|_| ()).unwrap_err();
    assert_eq!(few, FitError::TooFew { needed: 20, found: 19 });
    let mut whole = FitSettings::default();
    whole.level = 1.0;
    let level = Predictor::fit(None, &rows, &whole).map(|_| ()).unwrap_err();
    assert_eq!(level.to_string(), "level is 1; expected between 0 and 1");
    let none = fit(&rows).estimate(&[], Precision::Fp32, Mode::Graph, None).unwrap_err();
    assert_eq!(none, FitError::NoSteps);
}

#[test]
fn a_fit_of_very_few_rows_says_how_unsure_it_is() {
    let rows = observations(16, 5, 0);
    let predictor = fit(&rows);
    let said = ask(&predictor, &observations(17, 1, 0)[0]);
    assert!(said.nanoseconds > 0.0 && said.high / said.low > 1.05, "{said:?}");
}
