//! A predictor that remembers its training rows.

use flopgap_graph::{Op, Step, Workload};
use flopgap_roofline::Ceilings;
use flopgap_roofline::predict::{
    Baseline, Bottleneck, Estimate, FitError, FitSettings, Observation, Predictor,
};
use rustc_hash::FxHashSet;

use super::{Doubt, JudgeError, Judged, Pair, WithKernels, observation, series};
use crate::Calibration;
use crate::executed::executed_by_all;
use crate::grid::working_set;
use crate::row::{Row, mode_name};
use crate::split::order;

/// The inputs of a fit.
#[derive(Debug, Clone, Copy)]
pub struct FitRequest<'a> {
    /// Ceilings of the machine, where it was probed.
    pub ceilings: Option<&'a Ceilings>,
    /// The settings of the fit.
    pub settings: &'a FitSettings,
}

impl Calibration {
    /// A predictor fitted to all rows of an engine, by sizes alone; of one that was measured with
    /// several numbers of threads, to the rows of the number that has most.
    ///
    /// # Errors
    /// When the engine has no rows that a predictor could be fitted to, or sizes that describe no
    /// network.
    pub fn predictor(&self, engine: &str) -> Result<Predictor, JudgeError> {
        let found = series(&self.rows).into_iter().find(|(series, _)| series.engine == engine);
        let rows = found.map(|(_, rows)| rows).unwrap_or_default();
        let settings = FitSettings::default().sizes_alone();
        let request = FitRequest { ceilings: self.header.ceilings.as_ref(), settings: &settings };
        Ok(Fitted::fit(&rows, request)?.into_predictor())
    }
}

/// A predictor, with the workloads that it was fitted to.
#[derive(Debug)]
pub struct Fitted {
    predictor: Predictor,
    seen: FxHashSet<u64>,
    rows: usize,
}

impl Fitted {
    /// Fits a predictor to rows of one series.
    ///
    /// # Errors
    /// Too few rows; rows that describe no network.
    pub fn fit(rows: &[&Row], request: FitRequest<'_>) -> Result<Fitted, JudgeError> {
        let observations: Vec<Observation> =
            rows.iter().map(|row| observation(row)).collect::<Result<_, _>>()?;
        let predictor = Predictor::fit(request.ceilings, &observations, request.settings)?;
        let seen = rows.iter().map(|row| order(&row.workload)).collect();
        Ok(Fitted { predictor, seen, rows: rows.len() })
    }

    /// The predictor.
    pub fn predictor(&self) -> &Predictor {
        &self.predictor
    }

    /// The predictor alone, without its training workloads.
    pub fn into_predictor(self) -> Predictor {
        self.predictor
    }

    /// How many rows it was fitted to.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Estimates rows that the fit never saw: from sizes alone, as on any machine, and if kernels
    /// were recorded, also with these, as on the device.
    ///
    /// # Errors
    /// [`JudgeError::Leak`] for a row whose workload was fitted, in whatever precision or mode.
    pub fn judge(&self, rows: &[&Row]) -> Result<Vec<Judged>, JudgeError> {
        if let Some(row) = rows.iter().find(|row| self.seen.contains(&order(&row.workload))) {
            return Err(JudgeError::Leak { label: row.workload.label() });
        }
        rows.iter().map(|row| self.judge_row(row)).collect()
    }

    fn judge_row(&self, row: &Row) -> Result<Judged, JudgeError> {
        let measurement = &row.measurement;
        let steps = row.workload.steps()?;
        let estimate = self.predictor.estimate(&steps, row.precision, row.mode, None)?;
        let (work, bytes) = work_of(&row.workload, &steps, row)?;
        let time = &measurement.time;
        let pair = |measured: f64, estimated: Option<f64>| {
            estimated.filter(|_| measured > 0.0).map(|estimated| Pair { measured, estimated })
        };
        let memory = |estimate: &Estimate| {
            measurement.memory_bytes.and_then(|bytes| pair(bytes as f64, estimate.memory_bytes))
        };
        let energy =
            |estimate: &Estimate| measurement.energy.and_then(|energy| pair(energy.joules, estimate.joules));
        let counted =
            |flops: Option<f64>| measurement.counted_flops.and_then(|counted| pair(counted as f64, flops));
        let algorithms = measurement.algorithms.as_slice();
        let with_kernels = if algorithms.is_empty() {
            None
        } else {
            let estimate = self.predictor.estimate(&steps, row.precision, row.mode, Some(algorithms))?;
            let executed = executed_by_all(&steps, row.precision, algorithms);
            Some(WithKernels {
                time: Pair { measured: time.median_ns, estimated: estimate.nanoseconds },
                interval: (estimate.low, estimate.high),
                memory: memory(&estimate),
                flops: counted(executed.map(|flops| flops as f64)),
                energy: energy(&estimate),
            })
        };
        let baselines =
            Baseline::ALL.map(|baseline| self.predictor.baseline(baseline, &steps, row.precision, row.mode));
        let mut shares: Vec<(Bottleneck, f64)> = Vec::new();
        for step in &estimate.by_step {
            match shares.iter_mut().find(|(bottleneck, _)| *bottleneck == step.bottleneck) {
                Some((_, sum)) => *sum += step.nanoseconds,
                None => shares.push((step.bottleneck.clone(), step.nanoseconds)),
            }
        }
        shares.sort_by(|a, b| b.1.total_cmp(&a.1));
        Ok(Judged {
            label: row.workload.label(),
            model: without_batch(&row.workload),
            family: row.workload.family().to_owned(),
            engine: row.engine.clone(),
            mode: mode_name(row.mode).to_owned(),
            precision: row.precision.to_string(),
            batch: row.workload.batch(),
            time: Pair { measured: time.median_ns, estimated: estimate.nanoseconds },
            interval: Some((estimate.low, estimate.high)),
            memory: memory(&estimate),
            flops: counted(Some(work)),
            energy: energy(&estimate),
            with_kernels,
            baselines: Some(baselines),
            work: Some(work),
            bytes: Some(bytes),
            working_set: working_set(&row.workload, row.precision)?.map(|bytes| bytes as f64),
            launch: Some(estimate.by_step.iter().map(|step| step.launch_ns).sum()),
            bottleneck: shares.first().map(|(bottleneck, _)| bottleneck.name().to_owned()),
            regime: Some(estimate.regime.name().to_owned()),
            shares,
            extrapolated: estimate.extrapolated || !estimate.from_floor.is_empty(),
            doubts: doubts(row),
            spread: Some((time.high_ns - time.low_ns) / 2.0 / time.median_ns),
        })
    }
}

/// Rows with estimates by fits that saw no row of their workloads: each of `folds` parts is
/// judged by a fit to the others. In the order of the rows, each with its place among them;
/// launches that do nothing are in every fit and not judged, nor are rows of an operation that only
/// their part has.
///
/// # Errors
/// As [`Fitted::fit`] and [`Fitted::judge`].
pub fn cross_validated(
    rows: &[&Row],
    folds: u64,
    request: FitRequest<'_>,
) -> Result<Vec<(usize, Judged)>, JudgeError> {
    // A launch that does nothing says what a call costs, and has no size to leave out.
    let fold = |row: &Row| match &row.workload {
        Workload::Step(step) if step.op == Op::Empty => None,
        workload => Some(order(workload) % folds.max(1)),
    };
    let mut judged: Vec<(usize, Judged)> = Vec::with_capacity(rows.len());
    for index in 0..folds {
        let (places, others): (Vec<usize>, Vec<usize>) =
            (0..rows.len()).partition(|&place| fold(rows[place]) == Some(index));
        if places.is_empty() {
            continue;
        }
        let of = |places: &[usize]| places.iter().map(|&place| rows[place]).collect::<Vec<_>>();
        let fitted = Fitted::fit(&of(&others), request)?;
        for place in places {
            match fitted.judge(&[rows[place]]) {
                Ok(estimates) => judged.extend(estimates.into_iter().map(|estimate| (place, estimate))),
                // Without this part, nothing says how long such an operation takes.
                Err(JudgeError::Fit(FitError::NeverMeasured { .. })) => {}
                Err(error) => return Err(error),
            }
        }
    }
    judged.sort_unstable_by_key(|(place, _)| *place);
    Ok(judged)
}

/// FLOPs and bytes of a row by the closed forms.
fn work_of(workload: &Workload, steps: &[Step], row: &Row) -> Result<(f64, f64), JudgeError> {
    let (mut flops, mut bytes) = (0.0, 0.0);
    for step in steps {
        let work = step
            .work(row.precision)
            .map_err(|source| JudgeError::Work { label: workload.label(), source })?;
        flops += work.flops as f64;
        bytes += (work.bytes_read + work.bytes_written) as f64;
    }
    Ok((flops, bytes))
}

/// The label of a workload with a batch of 1, which runs that differ only in their batch share.
fn without_batch(workload: &Workload) -> String {
    let mut workload = workload.clone();
    match &mut workload {
        Workload::Mlp(spec) => spec.batch = 1,
        Workload::Resnet(spec) => spec.batch = 1,
        Workload::File(spec) => spec.batch = 1,
        Workload::Step(step) => match &mut step.op {
            Op::Gemm(gemm) => gemm.m = 1,
            Op::Conv(conv) => conv.batch = 1,
            _ => {}
        },
    }
    workload.label()
}

/// Half-width of the measured interval above which a measurement is doubtful.
const WIDE: f64 = 0.05;

fn doubts(row: &Row) -> Vec<Doubt> {
    let mut doubts = Vec::new();
    let time = &row.measurement.time;
    let half = (time.high_ns - time.low_ns) / 2.0 / time.median_ns;
    if half > WIDE {
        doubts.push(Doubt::Imprecise { half_width: half });
    }
    if let Some(state) = &row.measurement.state {
        doubts.extend(state.throttle.iter().map(|reason| Doubt::Throttled { reason: reason.clone() }));
    }
    doubts
}
