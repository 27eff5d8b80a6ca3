//! The table of `docs/measurements/calibration.md`: errors of estimates on rows that no fit has
//! seen, next to the errors that are allowed.
//!
//! ```sh
//! cargo run --release -p flopgap-benches --bin calibration-accuracy fixtures/calibration/h200.jsonl.zst
//! cargo run --release -p flopgap-benches --bin calibration-accuracy fixtures/calibration/h200.jsonl.zst \
//!     fixtures/calibration/h200-models.jsonl.zst
//! ```
//!
//! With a second calibration, its rows are judged by a fit to all rows of the first: models that no
//! sweep has.
//!
//! Rows are divided by what was run, never by row, and [`Fitted::judge`] refuses a row whose
//! workload was fitted.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a program")]

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::path::Path;
use std::process::ExitCode;

use flopgap_benches::division::{Division, Side, at_most};
use flopgap_calibration::accuracy::{Coverage, Errors, coverage, repeatability};
use flopgap_calibration::judge::{FitRequest, Fitted, JudgeError, Judged, Pair, series};
use flopgap_calibration::split::model_name;
use flopgap_calibration::{Calibration, Row, executed_flops, mode_name};
use flopgap_flops::Precision;
use flopgap_graph::{Mode, Op, Workload};
use flopgap_roofline::predict::{FitError, FitSettings};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// The errors that a line may have, as fractions.
#[derive(Clone, Copy)]
struct Bar {
    what: &'static str,
    mape: f64,
    p90: Option<f64>,
}

impl Bar {
    const fn new(what: &'static str, mape: f64) -> Bar {
        Bar { what, mape, p90: None }
    }

    const fn with_p90(self, p90: f64) -> Bar {
        Bar { p90: Some(p90), ..self }
    }

    fn print(&self, fitted: usize, sizes: Vec<Pair>, kernels: Vec<Pair>, repeated: Option<f64>, note: &str) {
        let percent = |fraction: f64| format!("{:.1}", 100.0 * fraction);
        let errors = |pairs: Vec<Pair>| {
            let Some(errors) = Errors::of(pairs.into_iter().map(Pair::tuple)) else { return "-".to_owned() };
            let met = errors.mape <= self.mape && self.p90.is_none_or(|p90| errors.p90 <= p90);
            let met = if met { "met" } else { "not met" };
            format!("{} ({}) of {}, {met}", percent(errors.mape), percent(errors.p90), errors.count)
        };
        let p90 = self.p90.map_or_else(String::new, |p90| format!(" ({})", percent(p90)));
        let repeated = repeated.map_or_else(|| "-".to_owned(), percent);
        println!(
            "{} | {}{p90} | {fitted} | {} | {} | {repeated} | {note}",
            self.what,
            percent(self.mape),
            errors(sizes),
            errors(kernels)
        );
    }
}

/// The rows of one series.
struct Table<'a> {
    rows: Vec<&'a Row>,
    request: FitRequest<'a>,
}

/// How many rows a fit may use.
#[derive(Clone, Copy)]
enum Limit {
    None,
    Together(usize),
    OfEachPrecision(usize),
}

impl Limit {
    fn choose(self, rows: Vec<&Row>) -> Vec<&Row> {
        match self {
            Limit::None => rows,
            Limit::Together(most) => at_most(rows, most),
            Limit::OfEachPrecision(most) => {
                let mut by_precision = BTreeMap::<String, Vec<&Row>>::new();
                for row in rows {
                    by_precision.entry(row.precision.to_string()).or_default().push(row);
                }
                by_precision.into_values().flat_map(|rows| at_most(rows, most)).collect()
            }
        }
    }
}

fn op(row: &Row) -> Option<&Op> {
    match &row.workload {
        Workload::Step(step) => Some(&step.op),
        _ => None,
    }
}

fn is_gemm(row: &Row) -> bool {
    matches!(op(row), Some(Op::Gemm(_)))
}

fn is_product(row: &Row) -> bool {
    matches!(op(row), Some(Op::Gemm(_) | Op::Empty))
}

fn is_float(row: &Row) -> bool {
    matches!(row.precision, Precision::Fp32 | Precision::Fp16)
}

fn is_resnet(row: &Row) -> bool {
    matches!(row.workload, Workload::Resnet(_))
}

fn times(judged: &[Judged]) -> (Vec<Pair>, Vec<Pair>) {
    let kernels = judged.iter().filter_map(|row| row.with_kernels).map(|known| known.time);
    (judged.iter().map(|row| row.time).collect(), kernels.collect())
}

impl Table<'_> {
    /// Rows with estimates by a fit to others, or why there are too few to fit.
    fn judge(&self, fit: &[&Row], validation: &[&Row]) -> Result<std::result::Result<Vec<Judged>, String>> {
        if validation.is_empty() {
            return Ok(Err("not measured in this calibration".to_owned()));
        }
        match Fitted::fit(fit, self.request) {
            Ok(fitted) => Ok(Ok(fitted.judge(validation)?)),
            Err(JudgeError::Fit(error @ FitError::TooFew { .. })) => Ok(Err(error.to_string())),
            Err(error) => Err(error.into()),
        }
    }

    /// A line about times. The rows for which `fits` holds may be fitted, those for which
    /// `is_judged` does are judged.
    fn line(
        &self,
        bar: Bar,
        division: Division,
        limit: Limit,
        fits: impl Fn(&Row) -> bool,
        is_judged: impl Fn(&Row) -> bool,
    ) -> Result<()> {
        let on = |side| move |row: &&&Row| division.side(&row.workload) == Some(side);
        let fit = self.rows.iter().filter(on(Side::Fit)).copied().filter(|row| fits(row)).collect();
        let fit = limit.choose(fit);
        let validation: Vec<&Row> =
            self.rows.iter().filter(on(Side::Validation)).copied().filter(|row| is_judged(row)).collect();
        let (judged, note) = match self.judge(&fit, &validation)? {
            Ok(judged) => (judged, String::new()),
            Err(note) => (Vec::new(), note),
        };
        let (sizes, kernels) = times(&judged);
        bar.print(fit.len(), sizes, kernels, repeatability(&validation), &note);
        Ok(())
    }

    fn products(&self) -> Result<()> {
        let float = |row: &Row| is_gemm(row) && is_float(row);
        let fits = |row: &Row| is_product(row) && (is_float(row) || !is_gemm(row));
        let all =
            Bar::new("GEMM and MLP layers, fp32 and fp16, at most 800 fitted rows", 0.05).with_p90(0.12);
        self.line(all, Division::Workloads, Limit::Together(800), fits, float)?;
        let each = Bar { what: "the same from at most 800 of each precision", ..all };
        self.line(each, Division::Workloads, Limit::OfEachPrecision(800), fits, float)?;
        let quick = Bar::new("the same from 150 fitted rows", 0.08);
        self.line(quick, Division::Workloads, Limit::Together(150), fits, float)?;
        let int8 = |row: &Row| is_gemm(row) && row.precision == Precision::Int8;
        let bar = Bar::new("int8", 0.08).with_p90(0.18);
        self.line(bar, Division::Workloads, Limit::None, is_product, int8)?;
        let bar = Bar::new("dimension values never fitted", 0.07);
        self.line(bar, Division::Values, Limit::None, is_product, float)
    }

    fn mlps(&self, gpu: bool) -> Result<()> {
        let cpu = Bar::new("CPU MLPs left out, in reference-normalized time", 0.07).with_p90(0.14);
        let modes: &[(Mode, Bar)] = if gpu {
            &[
                (Mode::Stream, Bar::new("whole MLPs left out, launched", 0.06)),
                (Mode::Graph, Bar::new("whole MLPs left out, in a graph", 0.06)),
            ]
        } else {
            &[(Mode::Call, cpu)]
        };
        for &(mode, bar) in modes {
            let is_judged = |row: &Row| matches!(row.workload, Workload::Mlp(_)) && row.mode == mode;
            self.line(bar, Division::Networks, Limit::None, |row| !is_resnet(row), is_judged)?;
        }
        Ok(())
    }

    fn convolutions(&self) -> Result<()> {
        let bars = [
            (Bar::new("Conv2D, channels multiples of 8", 0.10), 8),
            (Bar::new("Conv2D, any channels", 0.15), 1),
        ];
        for (bar, multiple) in bars {
            let is_judged = |row: &Row| {
                matches!(op(row), Some(Op::Conv(conv))
                    if conv.inputs.is_multiple_of(multiple) && conv.outputs.is_multiple_of(multiple))
            };
            self.line(bar, Division::Workloads, Limit::None, |row| op(row).is_some(), is_judged)?;
        }
        Ok(())
    }

    /// Each depth is judged by a fit that saw no network of that depth, in any batch.
    fn resnets(&self, gpu: bool) -> Result<()> {
        let bar = Bar::new("ResNets left out whole", if gpu { 0.08 } else { 0.10 });
        let rows: Vec<&Row> = self.rows.iter().copied().filter(|row| is_resnet(row)).collect();
        let names: BTreeSet<String> = rows.iter().filter_map(|row| model_name(&row.workload)).collect();
        let (mut judged, mut fitted, mut note) = (Vec::new(), 0, String::new());
        for name in names {
            let (validation, fit): (Vec<&Row>, Vec<&Row>) =
                self.rows.iter().partition(|row| model_name(&row.workload).as_ref() == Some(&name));
            match self.judge(&fit, &validation)? {
                Ok(found) => judged.extend(found),
                Err(why) => note = why,
            }
            fitted = fitted.max(fit.len());
        }
        let (sizes, kernels) = times(&judged);
        bar.print(fitted, sizes, kernels, repeatability(&rows), &note);
        Ok(())
    }

    /// Memory, energy and the coverage of intervals from one fit; FLOPs of all rows, as no fit is
    /// in them.
    fn everything(&self) -> Result<()> {
        let on = |side| move |row: &&&Row| Division::Networks.side(&row.workload) == Some(side);
        let fit: Vec<&Row> = self.rows.iter().filter(on(Side::Fit)).copied().collect();
        let validation: Vec<&Row> = self.rows.iter().filter(on(Side::Validation)).copied().collect();
        let (judged, note) = match self.judge(&fit, &validation)? {
            Ok(judged) => (judged, String::new()),
            Err(note) => (Vec::new(), note),
        };
        let known = || judged.iter().filter_map(|row| row.with_kernels);
        let sizes = judged.iter().filter_map(|row| row.memory).collect();
        let kernels = known().filter_map(|known| known.memory).collect();
        Bar::new("memory", 0.03).print(fit.len(), sizes, kernels, None, &note);
        self.flops()?;
        let sizes = judged.iter().filter_map(|row| row.energy).collect();
        let kernels = known().filter_map(|known| known.energy).collect();
        Bar::new("energy", 0.15).print(fit.len(), sizes, kernels, None, &note);
        for (regime, coverage) in coverage(&judged) {
            let share = coverage.share().unwrap_or_default();
            let met = if (0.87..=0.93).contains(&share) { "met" } else { "not met" };
            println!(
                "90% intervals cover, {regime} | 87 to 93 | | {:.1} of {}, {met}",
                100.0 * share,
                coverage.count
            );
        }
        Ok(())
    }

    /// FLOPs of products and of networks of them: by the closed form, and as the kernels execute
    /// them.
    fn flops(&self) -> Result<()> {
        let (mut theory, mut executed) = (Vec::new(), Vec::new());
        for row in self.rows.iter().filter(|row| is_gemm(row) || matches!(row.workload, Workload::Mlp(_))) {
            let Some(counted) = row.measurement.counted_flops.filter(|counted| *counted > 0) else {
                continue;
            };
            let measured = counted as f64;
            let (steps, algorithms) = (row.workload.steps()?, &row.measurement.algorithms);
            let mut estimated = 0.0;
            for step in &steps {
                estimated += step.work(row.precision)?.flops as f64;
            }
            theory.push(Pair { measured, estimated });
            let of_step = |(step, algorithm)| executed_flops(step, row.precision, algorithm);
            let sum = steps.iter().zip(algorithms).map(of_step).sum::<Option<u64>>();
            if steps.len() == algorithms.len() {
                executed.extend(sum.map(|flops| Pair { measured, estimated: flops as f64 }));
            }
        }
        Bar::new("FLOPs of GEMMs against counters", 0.01).print(0, theory, executed, None, "");
        Ok(())
    }
}

/// Rows of another calibration by a fit to all of these: in each mode the errors, and how many lie
/// in their 90 % intervals, from sizes and with kernels.
fn others(table: &Table<'_>, rows: &[&Row]) -> Result<()> {
    let fitted = Fitted::fit(&table.rows, table.request)?;
    println!("mode | of | MAPE (p90) in % | rows | in their 90% intervals | half-width, median in %");
    for mode in [Mode::Call, Mode::Stream, Mode::Graph] {
        let of_mode: Vec<&Row> = rows.iter().copied().filter(|row| row.mode == mode).collect();
        let judged = fitted.judge(&of_mode)?;
        let sizes = judged.iter().filter_map(|row| Some((row.time, row.interval?)));
        let kernels = judged.iter().filter_map(|row| row.with_kernels).map(|row| (row.time, row.interval));
        for (of, found) in [("sizes", sizes.collect::<Vec<_>>()), ("kernels", kernels.collect())] {
            let Some(errors) = Errors::of(found.iter().map(|(time, _)| time.tuple())) else { continue };
            let covered = Coverage::new(found.iter().map(|(time, (low, high))| (time.measured, *low, *high)));
            let mut widths: Vec<f64> = found.iter().map(|(_, (low, high))| (high / low).ln() / 2.0).collect();
            widths.sort_by(f64::total_cmp);
            println!(
                "{} | {of} | {:.1} ({:.1}) | {} | {:.1} % | {:.1}",
                mode_name(mode),
                100.0 * errors.mape,
                100.0 * errors.p90,
                errors.count,
                100.0 * covered.share().unwrap_or_default(),
                100.0 * widths[widths.len() / 2]
            );
        }
    }
    Ok(())
}

fn run(path: &Path, models: Option<&Path>) -> Result<()> {
    let calibration = Calibration::read(path)?;
    let header = &calibration.header;
    let gpu = header.origin.kind == "cuda";
    let settings = FitSettings::default();
    let models = models.map(Calibration::read).transpose()?;
    for (series, rows) in series(&calibration.rows) {
        let request = FitRequest { ceilings: header.ceilings.as_ref(), settings: &settings };
        let table = Table { rows, request };
        if let Some(models) = &models {
            let of = |row: &&Row| row.engine == series.engine && row.threads == series.threads;
            others(&table, &models.rows.iter().filter(of).collect::<Vec<_>>())?;
            continue;
        }
        println!(
            "{series}: what | bar, MAPE (p90) in % | fitted rows | sizes | kernels | repeated rows | note"
        );
        if gpu {
            table.products()?;
        }
        table.mlps(gpu)?;
        if gpu {
            table.convolutions()?;
        }
        table.resnets(gpu)?;
        table.everything()?;
    }
    Ok(())
}

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    let Some(path) = arguments.next() else {
        eprintln!("usage: calibration-accuracy CALIBRATION [MODELS]");
        return ExitCode::from(2);
    };
    let models = arguments.next();
    match run(Path::new(&path), models.as_deref().map(Path::new)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("calibration-accuracy: error: {error}");
            ExitCode::FAILURE
        }
    }
}
