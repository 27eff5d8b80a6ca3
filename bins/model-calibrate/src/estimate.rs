//! `model-calibrate estimate`: time, memory, energy and FLOPs of a model, with intervals.

mod kernels;
mod machine;
mod model;
mod output;

use clap::ValueEnum;
use flopgap_calibration::judge::{FitRequest, Fitted, Series, series};
use flopgap_calibration::{Calibration, Row};
use flopgap_cli::{Exit, Failure, FormatArg};
use flopgap_flops::Precision;
use flopgap_graph::{Mode, Step};
use flopgap_roofline::predict::FitSettings;

use self::kernels::Kernels;
use crate::PROGRAM;
use crate::load::of_judge;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    model: model::ModelOptions,
    #[command(flatten)]
    machine: machine::MachineOptions,
    /// Arithmetic: fp32, tf32, fp16, bf16, int8.
    #[arg(long, value_parser = |text: &str| text.parse::<Precision>().map_err(|error| error.to_string()))]
    #[arg(default_value = "fp32")]
    precision: Precision,
    /// Engine of the calibration [default: the one with most rows in this precision].
    #[arg(long, value_name = "NAME")]
    engine: Option<String>,
    /// Threads of the CPU that compute [default: those of most rows].
    #[arg(long, value_name = "COUNT")]
    threads: Option<u32>,
    /// How work reaches the device [default: launched on a stream where that was measured].
    #[arg(long, value_enum)]
    mode: Option<ModeArg>,
    /// Do not ask this machine's GPU which kernels would run, even if it is the calibration's.
    #[arg(long)]
    sizes_alone: bool,
    /// How to print the result.
    #[arg(long, value_enum, default_value_t)]
    format: FormatArg,
}

/// How work reaches the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ModeArg {
    /// A CPU's call.
    Call,
    /// Launches on a stream, one after the other.
    Stream,
    /// Replays of a CUDA graph.
    Graph,
}

impl From<ModeArg> for Mode {
    fn from(mode: ModeArg) -> Mode {
        match mode {
            ModeArg::Call => Mode::Call,
            ModeArg::Stream => Mode::Stream,
            ModeArg::Graph => Mode::Graph,
        }
    }
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let model = arguments.model.model()?;
    let calibration = arguments.machine.calibration()?;
    let (of, rows, mode) = chosen(arguments, &calibration)?;
    let settings = FitSettings::default();
    let request = FitRequest { ceilings: calibration.header.ceilings.as_ref(), settings: &settings };
    let fitted = Fitted::fit(&rows, None, request).map_err(|error| of_judge(&error))?;
    let steps: Vec<Step> = model.steps.iter().map(|step| step.step.clone()).collect();
    let kernels = if arguments.sizes_alone {
        Kernels::SizesAlone("as asked by --sizes-alone".to_owned())
    } else if of.engine != kernels::TELLS || calibration.header.origin.kind != kernels::TELLS {
        Kernels::SizesAlone(format!("engine {} is not asked", of.engine))
    } else if fitted.predictor().knows_kernels() {
        kernels::ask(&calibration.header, &steps, arguments.precision, mode)
    } else {
        Kernels::SizesAlone("the calibration does not have enough rows with kernels".to_owned())
    };
    let estimate = fitted
        .predictor()
        .estimate(&steps, arguments.precision, mode, kernels.algorithms())
        .map_err(|error| Failure::from_error(&error))?;
    for unknown in &model.unknown {
        flopgap_cli::warn(PROGRAM, format_args!("{unknown} has no formula and is not in the estimate"));
    }
    if estimate.extrapolated {
        flopgap_cli::warn(
            PROGRAM,
            "some sizes lie outside of what was measured: the estimate is extrapolated, its interval twice as wide",
        );
    }
    let output = output::Output {
        model: &model,
        device: &calibration.header.origin.device,
        series: &of,
        precision: arguments.precision,
        mode,
        rows: rows.len(),
        estimate: &estimate,
        kernels: &kernels,
    };
    flopgap_cli::print(&output.render(arguments.format)?)
}

/// The rows to fit: those of one series that has the precision, and the mode to estimate.
fn chosen<'a>(
    arguments: &Arguments,
    calibration: &'a Calibration,
) -> Result<(Series, Vec<&'a Row>, Mode), Failure> {
    let wanted: Option<Mode> = arguments.mode.map(Mode::from);
    let fits = |row: &Row| row.precision == arguments.precision && wanted.is_none_or(|mode| row.mode == mode);
    let all = series(&calibration.rows);
    let named = |of: &Series| {
        arguments.engine.as_ref().is_none_or(|engine| *engine == of.engine)
            && arguments.threads.is_none_or(|threads| threads == of.threads)
    };
    let best = all
        .iter()
        .filter(|(of, _)| named(of))
        .max_by_key(|(_, rows)| rows.iter().filter(|row| fits(row)).count());
    let Some((of, rows)) = best.filter(|(_, rows)| rows.iter().any(|row| fits(row))) else {
        let what = match wanted {
            Some(mode) => format!("{} as {}", arguments.precision, format!("{mode:?}").to_lowercase()),
            None => arguments.precision.to_string(),
        };
        let engine = arguments.engine.as_ref().map(|name| format!(" by {name}")).unwrap_or_default();
        let message =
            format!("the calibration of {} has no row in {what}{engine}", calibration.header.origin.device);
        let there = all.iter().map(|(of, rows)| {
            let mut precisions: Vec<&str> = rows.iter().map(|row| row.precision.name()).collect();
            precisions.sort_unstable();
            precisions.dedup();
            format!("{of} ({})", precisions.join(", "))
        });
        let hint = format!("it has {}", there.collect::<Vec<_>>().join("; "));
        return Err(Failure::new(message).exit(Exit::Absent).hint(hint));
    };
    let order = [Mode::Stream, Mode::Graph, Mode::Call];
    let measured =
        |mode: Mode| rows.iter().any(|row| row.mode == mode && row.precision == arguments.precision);
    let mode = wanted.or_else(|| order.into_iter().find(|&mode| measured(mode)));
    Ok((of.clone(), rows.clone(), mode.unwrap_or(Mode::Call)))
}
