//! The required accuracy, and whether it is reached on rows that no fit has seen.

use std::collections::{BTreeMap, BTreeSet};

use flopgap_flops::Precision;
use flopgap_graph::{Mode, Op, Workload};
use flopgap_roofline::predict::FitError;

use super::{Coverage, Errors};
use crate::executed::executed_by_all;
use crate::judge::{FitRequest, Fitted, JudgeError, Judged, Pair};
use crate::row::Row;
use crate::split::{Split, at_most, model_name};

/// The most rows that fits of products may use.
const MOST: usize = 800;
/// Rows of a quick sweep.
const QUICK: usize = 150;

/// How many rows a fit may use.
#[derive(Debug, Clone, Copy)]
enum Most {
    /// All of them.
    All,
    /// This many.
    Together(usize),
    /// This many of each precision.
    Each(usize),
}

impl Most {
    fn of<'a>(self, rows: Vec<&'a Row>) -> Vec<&'a Row> {
        match self {
            Self::All => rows,
            Self::Together(most) => at_most(rows, most),
            Self::Each(most) => {
                let mut by_precision = BTreeMap::<String, Vec<&'a Row>>::new();
                for row in rows {
                    by_precision.entry(row.precision.to_string()).or_default().push(row);
                }
                by_precision.into_values().flat_map(|rows| at_most(rows, most)).collect()
            }
        }
    }
}
/// On a CPU, repeatability comes from interleaved references, so its times enter this table; a
/// GPU's are used as measured.
const CPU: &str = "cpu";
/// The engine that `estimate` on the device queries for kernels.
const NAMES_KERNELS: &str = "cuda";

/// An accuracy requirement.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bar {
    /// A description.
    pub what: &'static str,
    /// Largest mean of the relative errors, as a fraction.
    pub mape: f64,
    /// Largest 90th percentile, if required.
    pub p90: Option<f64>,
}

impl Bar {
    /// Whether these errors are small enough.
    pub fn holds(&self, errors: &Errors) -> bool {
        errors.mape <= self.mape && self.p90.is_none_or(|p90| errors.p90 <= p90)
    }
}

/// A line of the table: the requirement and what was reached.
#[derive(Debug, Clone, PartialEq)]
pub struct Verdict {
    /// The requirement.
    pub bar: Bar,
    /// Rows that were fitted; 0 where nothing is fitted, as for FLOPs.
    pub fitted: usize,
    /// Errors on rows that were not fitted, of estimates from sizes alone; `None` without such
    /// rows.
    pub errors: Option<Errors>,
    /// Errors of estimates that know the kernels that the library chose; `None` where none were
    /// recorded.
    pub with_kernels: Option<Errors>,
    /// Whether `estimate` on the device knows these kernels too: then these errors decide.
    pub kernels_decide: bool,
    /// Repeatability: how much repeated measurements of these rows differ.
    pub repeatability: Option<f64>,
    /// The reason for missing errors, or a note on them.
    pub note: String,
}

/// The note of a line without measurements.
const NOT_MEASURED: &str = "not measured in this calibration";

impl Verdict {
    fn nothing(bar: Bar, fitted: usize) -> Self {
        Verdict {
            bar,
            fitted,
            errors: None,
            with_kernels: None,
            kernels_decide: false,
            repeatability: None,
            note: String::new(),
        }
    }

    /// Whether the bar is met: with the recorded kernels if `estimate` on the device knows them,
    /// otherwise from sizes alone. `None` without measurements.
    pub fn met(&self) -> Option<bool> {
        let with_kernels = self.with_kernels.filter(|_| self.kernels_decide);
        with_kernels.or(self.errors).map(|errors| self.bar.holds(&errors))
    }

    fn set_times(&mut self, judged: &[Judged]) {
        let kernels = judged.iter().filter_map(|row| row.with_kernels).map(|known| known.time);
        self.set(judged.iter().map(|row| row.time).collect(), kernels.collect());
    }

    fn set(&mut self, sizes: Vec<Pair>, kernels: Vec<Pair>) {
        self.errors = Errors::of(sizes.into_iter().map(Pair::tuple));
        self.with_kernels = Errors::of(kernels.into_iter().map(Pair::tuple));
    }
}

/// The required range of the coverage of 90 % intervals, in each regime.
pub const COVERAGE: (f64, f64) = (0.87, 0.93);

/// A table of bars with, for the coverage of intervals, the rows that they were judged by.
#[derive(Debug, Clone, PartialEq)]
pub struct Accuracy {
    /// The lines of the table.
    pub verdicts: Vec<Verdict>,
    /// The rows of the largest fit's validation, with their estimates.
    pub judged: Vec<Judged>,
    /// Coverage of the intervals in each regime, by name.
    pub coverage: Vec<(String, Coverage)>,
}

/// Rows of one series, and how they are fitted.
#[derive(Debug, Clone, Copy)]
pub struct Candidates<'a> {
    /// The rows.
    pub rows: &'a [&'a Row],
    /// `cuda` or `cpu`.
    pub kind: &'a str,
    /// The settings of the fits.
    pub request: FitRequest<'a>,
}

type Result<T> = std::result::Result<T, JudgeError>;

/// Judges one series by the table.
///
/// # Errors
/// When rows describe no network, or a fit fails other than for too few rows, which is noted in its
/// line.
pub fn accuracy(candidates: Candidates<'_>) -> Result<Accuracy> {
    let mut table = Table { candidates, verdicts: Vec::new() };
    let gpu = candidates.kind != CPU;
    if gpu {
        table.products()?;
    }
    table.mlps(gpu)?;
    if gpu {
        table.convolutions()?;
    }
    table.resnets(gpu)?;
    let judged = table.everything()?;
    let coverage = coverage(&judged);
    Ok(Accuracy { verdicts: table.verdicts, judged, coverage })
}

/// The coverage of intervals in each regime.
pub fn coverage(judged: &[Judged]) -> Vec<(String, Coverage)> {
    let mut regimes = BTreeMap::<String, Coverage>::new();
    for row in judged {
        let (Some(regime), Some((low, high))) = (&row.regime, row.interval) else { continue };
        let one = Coverage::of([(row.time.measured, low, high)]);
        let sum = regimes.entry(regime.clone()).or_default();
        sum.count += one.count;
        sum.covered += one.covered;
    }
    regimes.into_iter().collect()
}

struct Table<'a> {
    candidates: Candidates<'a>,
    verdicts: Vec<Verdict>,
}

fn is_gemm(row: &Row) -> bool {
    matches!(&row.workload, Workload::Step(step) if matches!(step.op, Op::Gemm(_)))
}

fn is_empty(row: &Row) -> bool {
    matches!(&row.workload, Workload::Step(step) if matches!(step.op, Op::Empty))
}

fn is_mlp(row: &Row) -> bool {
    matches!(row.workload, Workload::Mlp(_))
}

fn is_resnet(row: &Row) -> bool {
    matches!(row.workload, Workload::Resnet(_))
}

/// Whether a row is a convolution, and whether its channels are multiples of 8.
fn conv_by_eight(row: &Row) -> Option<bool> {
    let Workload::Step(step) = &row.workload else { return None };
    let Op::Conv(conv) = &step.op else { return None };
    Some(conv.inputs.is_multiple_of(8) && conv.outputs.is_multiple_of(8))
}

impl Table<'_> {
    fn rows(&self, keep: impl Fn(&Row) -> bool) -> Vec<&Row> {
        self.candidates.rows.iter().copied().filter(|row| keep(row)).collect()
    }

    /// A line whose rows are divided by `split`; at most `most` rows are fitted.
    fn line(
        &mut self,
        bar: Bar,
        split: &Split,
        most: Most,
        fits: impl Fn(&Row) -> bool,
        judge_by: impl Fn(&Row) -> bool,
    ) -> Result<()> {
        let rows = self.rows(|row| fits(row) || judge_by(row));
        let divided = split.divide(rows.iter().copied());
        let validation: Vec<&Row> = divided.validation.into_iter().filter(|row| judge_by(row)).collect();
        let fit = most.of(divided.fit.into_iter().filter(|row| fits(row)).collect());
        let mut verdict = Verdict::nothing(bar, fit.len());
        verdict.repeatability = repeatability(&validation);
        let mut judged = Vec::new();
        if validation.is_empty() {
            NOT_MEASURED.clone_into(&mut verdict.note);
        } else {
            match judge(&fit, &validation, split, self.candidates.request)? {
                Ok(found) => judged = found,
                Err(note) => verdict.note = note,
            }
        }
        verdict.set_times(&judged);
        self.push(verdict);
        Ok(())
    }

    fn products(&mut self) -> Result<()> {
        let floats = |row: &Row| matches!(row.precision, Precision::Fp32 | Precision::Fp16);
        let float = |row: &Row| is_gemm(row) && floats(row);
        let with_empty = |row: &Row| float(row) || is_empty(row);
        let bar = |what, mape, p90| Bar { what, mape, p90 };
        let halves = &Split::Workloads;
        let all = bar("GEMM and MLP layers, fp32 and fp16, at most 800 fitted rows", 0.05, Some(0.12));
        self.line(all, halves, Most::Together(MOST), with_empty, float)?;
        // 800 of each, as in the experiments that the bar comes from: they fitted one precision at
        // a time.
        let each = bar("the same from at most 800 of each precision", 0.05, Some(0.12));
        self.line(each, halves, Most::Each(MOST), with_empty, float)?;
        let quick = bar("the same from 150 fitted rows", 0.08, None);
        self.line(quick, halves, Most::Together(QUICK), with_empty, float)?;
        let int8 = |row: &Row| is_gemm(row) && row.precision == Precision::Int8;
        let product = |row: &Row| is_gemm(row) || is_empty(row);
        self.line(bar("int8", 0.08, Some(0.18)), halves, Most::All, product, int8)?;
        let values = bar("dimension values never fitted", 0.07, None);
        self.line(values, &Split::Values, Most::All, product, float)
    }

    fn mlps(&mut self, gpu: bool) -> Result<()> {
        let modes: &[(Mode, &str)] = if gpu {
            &[
                (Mode::Stream, "whole MLPs left out, launched"),
                (Mode::Graph, "whole MLPs left out, in a graph"),
            ]
        } else {
            &[(Mode::Call, "CPU MLPs left out, in reference-normalized time")]
        };
        for &(mode, what) in modes {
            let bar = if gpu {
                Bar { what, mape: 0.06, p90: None }
            } else {
                Bar { what, mape: 0.07, p90: Some(0.14) }
            };
            let judges = |row: &Row| is_mlp(row) && row.mode == mode;
            self.line(bar, &Split::Networks, Most::All, |row| !is_resnet(row), judges)?;
        }
        Ok(())
    }

    fn convolutions(&mut self) -> Result<()> {
        let is_step = |row: &Row| matches!(row.workload, Workload::Step(_));
        let bars = [
            (Bar { what: "Conv2D, channels multiples of 8", mape: 0.10, p90: None }, true),
            (Bar { what: "Conv2D, any channels", mape: 0.15, p90: None }, false),
        ];
        for (bar, by_eight) in bars {
            let judges = |row: &Row| conv_by_eight(row).is_some_and(|found| !by_eight || found);
            self.line(bar, &Split::Workloads, Most::All, is_step, judges)?;
        }
        Ok(())
    }

    /// Each depth is judged by a fit that saw no network of that depth, in any batch.
    fn resnets(&mut self, gpu: bool) -> Result<()> {
        let bar = if gpu {
            Bar { what: "ResNets left out whole, GPU", mape: 0.08, p90: None }
        } else {
            Bar { what: "ResNets left out whole, CPU", mape: 0.10, p90: None }
        };
        let rows = self.rows(is_resnet);
        let names: BTreeSet<String> = rows.iter().filter_map(|row| model_name(&row.workload)).collect();
        let mut verdict = Verdict::nothing(bar, 0);
        verdict.repeatability = repeatability(&rows);
        let mut judged = Vec::new();
        for name in &names {
            let split = Split::Models { leaves_out: BTreeSet::from([name.clone()]) };
            let divided = split.divide(self.candidates.rows.iter().copied());
            match judge(&divided.fit, &divided.validation, &split, self.candidates.request)? {
                Ok(found) => judged.extend(found),
                Err(note) => verdict.note = note,
            }
            verdict.fitted = verdict.fitted.max(divided.fit.len());
        }
        if names.is_empty() {
            NOT_MEASURED.clone_into(&mut verdict.note);
        }
        verdict.set_times(&judged);
        self.push(verdict);
        Ok(())
    }

    /// Memory and energy from one fit to all rows of the fitted side; FLOPs of all rows, as no fit
    /// is in them.
    fn everything(&mut self) -> Result<Vec<Judged>> {
        let split = Split::Networks;
        let divided = split.divide(self.candidates.rows.iter().copied());
        let validation = &divided.validation;
        let (judged, note) = match judge(&divided.fit, validation, &split, self.candidates.request)? {
            Ok(found) => (found, NOT_MEASURED.to_owned()),
            Err(note) => (Vec::new(), note),
        };
        let fitted = divided.fit.len();
        let bar = |what, mape| Bar { what, mape, p90: None };
        let known = || judged.iter().filter_map(|row| row.with_kernels);

        let mut memory = Verdict::nothing(bar("memory", 0.03), fitted);
        let sizes = judged.iter().filter_map(|row| row.memory).collect();
        memory.set(sizes, known().filter_map(|known| known.memory).collect());
        let holds_none = |row: &&&Row| row.measurement.memory_bytes == Some(0);
        memory.note = match validation.iter().filter(holds_none).count() {
            _ if memory.errors.is_none() => note.clone(),
            0 => String::new(),
            count => format!("without {} that hold no memory, such as empty launches", rows_of(count)),
        };
        self.push(memory);

        let flops = self.flops(bar("FLOPs of GEMMs against counters", 0.01))?;
        self.push(flops);

        let mut energy = Verdict::nothing(bar("energy", 0.15), fitted);
        let sizes = judged.iter().filter_map(|row| row.energy).collect();
        energy.set(sizes, known().filter_map(|known| known.energy).collect());
        if energy.errors.is_none() {
            energy.note = note;
        }
        self.push(energy);
        Ok(judged)
    }

    /// FLOPs of products and of networks of them: by the closed form, and as the kernels execute
    /// them.
    fn flops(&self, bar: Bar) -> Result<Verdict> {
        let (mut theory, mut executed) = (Vec::new(), Vec::new());
        for row in self.rows(|row| is_gemm(row) || is_mlp(row)) {
            let Some(counted) = row.measurement.counted_flops.filter(|counted| *counted > 0) else {
                continue;
            };
            let measured = counted as f64;
            theory.push(Pair { measured, estimated: flops_of(row)? });
            let steps = row.workload.steps()?;
            if let Some(flops) = executed_by_all(&steps, row.precision, &row.measurement.algorithms) {
                executed.push(Pair { measured, estimated: flops as f64 });
            }
        }
        let mut verdict = Verdict::nothing(bar, 0);
        let unknown = theory.len() - executed.len();
        verdict.note = match (theory.len(), executed.len()) {
            (0, _) => NOT_MEASURED.to_owned(),
            (_, 0) => "from sizes alone: the FLOPs that the kernels execute are not known".to_owned(),
            _ if unknown > 0 => {
                format!("with kernels without {} whose kernels are not known", rows_of(unknown))
            }
            _ => String::new(),
        };
        verdict.set(theory, executed);
        Ok(verdict)
    }

    fn push(&mut self, mut verdict: Verdict) {
        let engine = self.candidates.rows.first().map(|row| row.engine.as_str());
        verdict.kernels_decide = self.candidates.kind != CPU && engine == Some(NAMES_KERNELS);
        self.verdicts.push(verdict);
    }
}

fn rows_of(count: usize) -> String {
    if count == 1 { "1 row".to_owned() } else { format!("{count} rows") }
}

/// FLOPs of a step by its closed form.
fn flops_of(row: &Row) -> Result<f64> {
    let mut flops = 0.0;
    for step in row.workload.steps()? {
        let label = || row.workload.label();
        let work = step.work(row.precision).map_err(|source| JudgeError::Work { label: label(), source })?;
        flops += work.flops as f64;
    }
    Ok(flops)
}

/// Validation rows with their estimates, or the reason why there are too few rows to fit.
fn judge(
    fit: &[&Row],
    validation: &[&Row],
    split: &Split,
    request: FitRequest<'_>,
) -> Result<std::result::Result<Vec<Judged>, String>> {
    match Fitted::fit(fit, Some(split), request) {
        Ok(fitted) => fitted.judge(validation).map(Ok),
        Err(JudgeError::Fit(error @ FitError::TooFew { .. })) => Ok(Err(error.to_string())),
        Err(error) => Err(error),
    }
}

/// Mean relative distance of repeated measurements from their mean, over the rows that were
/// measured more than once; `None` without any.
pub fn repeatability(rows: &[&Row]) -> Option<f64> {
    let mut times = rustc_hash::FxHashMap::<_, Vec<f64>>::default();
    for row in rows {
        times.entry(row.key()).or_default().push(row.measurement.time.median_ns);
    }
    let distances: Vec<f64> = times
        .values()
        .filter(|times| times.len() > 1)
        .flat_map(|times| {
            let mean = times.iter().sum::<f64>() / times.len() as f64;
            times.iter().map(move |time| (time - mean).abs() / mean)
        })
        .collect();
    (!distances.is_empty()).then(|| distances.iter().sum::<f64>() / distances.len() as f64)
}
