//! `flopgap calibrate estimate`: time, memory, energy and FLOPs of a model, with intervals.

mod answer;
mod cache;
mod elsewhere;
mod framework;
mod kernels;
mod known;
mod machine;
mod model;
mod output;
mod precision;

use std::collections::BTreeMap;

use clap::ValueEnum;
use flopgap_calibration::judge::Series;
use flopgap_calibration::{Origin, mode_name};
use flopgap_cli::{Console, Exit, Failure, OutputArgs};
use flopgap_flops::Precision;
use flopgap_graph::{Mode, Step};
use flopgap_roofline::machines::{Machine, NAMES, REFERENCE, named};
use flopgap_roofline::predict::FitSettings;
use flopgap_roofline::pytorch::{self, Computed, Parts, PyTorch, Way};

use self::answer::{Answer, Asked};
use self::cache::Cache;
use self::kernels::Kernels;
use self::known::{Contents, Known, Listed};
use self::machine::{MachineOptions, Target};
use self::precision::PrecisionArg;
use crate::PROGRAM;
use crate::language::{self, LanguageOptions, Request};

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  flopgap calibrate estimate fixtures/models/resnet50.pt2 --machine h200 --precision fp16
  flopgap calibrate estimate config.json --machine b200 --batch 32 --context 4096 --tensor-parallel 2
  flopgap calibrate estimate --calibration run --widths 784,512,512,10 --batch 64")]
pub(crate) struct Arguments {
    #[command(flatten)]
    model: model::ModelOptions,
    #[command(flatten)]
    machine: machine::MachineOptions,
    /// Precision: fp32, tf32, fp16, bf16 or int8; of a language model's weights bf16, fp8,
    /// fp8-block, nvfp4, int4, mxfp4 or mxfp4-fp8 [default: the model's own; fp32 of widths]
    #[arg(long, value_name = "PRECISION")]
    precision: Option<PrecisionArg>,
    /// Engine in the calibration [default: the one with the most rows in this precision]
    #[arg(long, value_name = "ENGINE")]
    engine: Option<String>,
    /// CPU threads [default: those of most rows]
    #[arg(long, value_name = "N")]
    threads: Option<u32>,
    /// What runs the model [default: eager of a `.pt2` archive where PyTorch is known, else own]
    #[arg(long = "as", value_enum, value_name = "WAY")]
    run_as: Option<RunAs>,
    /// A training step by PyTorch: forward, backward and fused `AdamW`, without a loss
    #[arg(long)]
    train: bool,
    /// Launch mode of `--as own` [default: stream, if it was measured]
    #[arg(long, value_enum, value_name = "MODE")]
    mode: Option<ModeArg>,
    /// Do not query this machine's GPU for the kernels that would run
    #[arg(long)]
    sizes_alone: bool,
    /// Fit again, without reading or writing the cache of fits
    #[arg(long)]
    no_cache: bool,
    #[command(flatten)]
    language: LanguageOptions,
    #[command(flatten)]
    output: OutputArgs,
}

/// What runs a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum RunAs {
    /// PyTorch, operator by operator
    Eager,
    /// PyTorch, the same kernels replayed as a CUDA graph
    Graph,
    /// `torch.compile`, in its default mode
    Compile,
    /// `torch.compile` in mode `reduce-overhead`: its kernels replayed as a CUDA graph
    CompileGraph,
    /// The engine of the calibration; `cuda` fuses operators and is no framework
    Own,
}

impl RunAs {
    /// How PyTorch runs it; `None` of the calibration's engine.
    const fn way(self) -> Option<Way> {
        match self {
            Self::Eager => Some(Way::Eager),
            Self::Graph => Some(Way::Graph),
            Self::Compile => Some(Way::Compiled),
            Self::CompileGraph => Some(Way::CompiledGraph),
            Self::Own => None,
        }
    }

    const fn of(way: Way) -> Self {
        match way {
            Way::Eager => Self::Eager,
            Way::Graph => Self::Graph,
            Way::Compiled => Self::Compile,
            Way::CompiledGraph => Self::CompileGraph,
        }
    }

    /// Its name in JSON and on command lines.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Eager => "eager",
            Self::Graph => "graph",
            Self::Compile => "compile",
            Self::CompileGraph => "compile-graph",
            Self::Own => "own",
        }
    }
}

/// Launch mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ModeArg {
    /// Calls on a CPU
    Call,
    /// Launches on a stream, one after the other
    Stream,
    /// Replays of a CUDA graph
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

pub(crate) fn run(arguments: &Arguments, console: Console) -> Result<(), Failure> {
    if let Some(path) = arguments.model.language() {
        if arguments.train {
            return Err(Failure::new("--train is for models that torch.export wrote")
                .exit(Exit::Usage)
                .hint("omit it: language models are estimated as they generate text"));
        }
        let request = Request {
            options: &arguments.language,
            batch: arguments.model.batch(),
            format: arguments.precision.map(PrecisionArg::format).transpose()?,
            machine: arguments.machine.name(),
            output: &arguments.output,
        };
        return language::run(path, &request, console);
    }
    arguments.language.refuse()?;
    let model = console.timed("model: read", || arguments.model.model(arguments.train))?;
    let precision = model.precision(arguments.precision.map(PrecisionArg::precision).transpose()?)?;
    let (model, framework) = match arguments.framework(&model, precision)? {
        Some(framework) => (model.by_layer(), Some(framework)),
        None => (model, None),
    };
    let written = &arguments.output;
    let one = |machine: &MachineOptions, moves: bool| -> Result<Found, Failure> {
        let graph = moves || matches!(arguments.machine.target(), Target::All);
        let mut found = estimated(arguments, machine, &model, (precision, graph), moves, console)?;
        let unknown = model.unknown.iter().map(|unknown| format!("{unknown} has no formula"));
        found.answer.missing.extend(unknown);
        Ok(found)
    };
    let moved = |found: Found, machine: &Machine| elsewhere::moved(found, &model.steps, machine);
    let elsewhere = match arguments.machine.target() {
        _ if framework.is_some() => None,
        Target::Calibrated => None,
        Target::Elsewhere(machine) => Some(machine),
        Target::All => {
            let reference = arguments.machine.reference();
            let mut found = vec![one(&reference, false)?];
            let of_sizes = one(&reference, true)?;
            let others = NAMES.iter().filter(|name| **name != REFERENCE).filter_map(|name| named(name));
            found.extend(others.map(|machine| moved(of_sizes.clone(), machine)));
            let mut missing: BTreeMap<String, Vec<&str>> = BTreeMap::new();
            for found in found.iter().filter(|found| !found.answer.missing.is_empty()) {
                missing.entry(found.answer.missing.join("; ")).or_default().push(&found.origin.device);
            }
            for (why, devices) in missing {
                let devices = devices.join(", ");
                flopgap_cli::warn(PROGRAM, format_args!("the model is not estimated on {devices}: {why}"));
            }
            let outputs: Vec<output::Output<'_>> = found.iter().map(|found| found.output(&model)).collect();
            return written.write(console, &output::of_all(&outputs, written.format(), &written.text())?);
        }
    };
    let found = match (framework, elsewhere) {
        (Some((pytorch, way)), _) => {
            let precision = (precision, arguments.precision.is_some());
            framework::estimated(&model, precision, pytorch, (way, arguments.train))?
        }
        (None, Some(machine)) => moved(one(&arguments.machine.reference(), true)?, machine),
        (None, None) => one(&arguments.machine, false)?,
    };
    if found.answer.estimate.as_ref().is_some_and(|estimate| estimate.extrapolated) {
        flopgap_cli::warn(
            PROGRAM,
            "some sizes are outside the measured range: the estimate is extrapolated, and its interval is twice as wide",
        );
    }
    let output = found.output(&model);
    flopgap_cli::warn_all(PROGRAM, output.warnings());
    written.write(console, &output.render(written.format(), &written.text())?)
}

/// An estimate and how it was made.
#[derive(Clone)]
struct Found {
    answer: Answer,
    kernels: Kernels,
    origin: Origin,
    series: Series,
    precision: Precision,
    mode: Mode,
    rows: usize,
    least_bytes: u64,
    run_as: RunAs,
    /// Whether convolutions are computed in TF32 though the model is in fp32.
    convolutions_in_tf32: bool,
    /// The parts of a training step.
    training: Option<Parts>,
    /// Nanoseconds of the GPU and of the host, and what host, where a host launches operators.
    parts: Option<(f64, f64, String)>,
}

impl Arguments {
    /// The framework that is estimated and how it runs the model; `None` of the calibration's
    /// engine.
    fn framework(
        &self,
        model: &model::Model,
        precision: Precision,
    ) -> Result<Option<(&'static PyTorch, Way)>, Failure> {
        let named = if self.train { pytorch::training } else { pytorch::named };
        let known = self.machine.name().and_then(named);
        let of_engine =
            [self.mode.is_some(), self.engine.is_some(), self.threads.is_some(), self.sizes_alone];
        let is_own = of_engine.contains(&true) || self.machine.has_ceilings();
        let way = match self.run_as {
            Some(way @ (RunAs::Own | RunAs::Compile | RunAs::CompileGraph)) if self.train => {
                let failure = Failure::new("--train is for --as eager and graph: others were not measured");
                return Err(failure.exit(Exit::Usage).hint(format!("omit `--as {}`", way.name())));
            }
            Some(way) => way,
            None if self.train => RunAs::Eager,
            None if is_own || known.is_none() || !model.graph().is_of_pytorch() => return Ok(None),
            None if Computed::of(precision, None).is_none() => return Ok(None),
            None => RunAs::Eager,
        };
        let Some(way) = way.way() else { return Ok(None) };
        // Our own engine does not train.
        let or_own = |text: &'static str| if self.train { "" } else { text };
        if is_own {
            let hint = format!("omit them{}", or_own(", or pass `--as own`"));
            return Err(Failure::new(
                "--mode, --engine, --threads, --sizes-alone and --ceilings are for --as own",
            )
            .exit(Exit::Usage)
            .hint(hint));
        }
        if !model.graph().is_of_pytorch() {
            return Err(Failure::new(format!(
                "{}: PyTorch is estimated from what torch.export wrote",
                model.name
            ))
            .exit(Exit::Usage)
            .hint(format!("export the model with torch.export.save{}", or_own(", or pass `--as own`"))));
        }
        known.map(|known| Some((known, way))).ok_or_else(|| {
            let own = or_own("; `--as own` estimates for others");
            let hint = format!("`--machine` of PyTorch: {}{own}", pytorch::NAMES.join(", "));
            Failure::new("PyTorch was not measured on this machine").exit(Exit::Absent).hint(hint)
        })
    }
}

impl Found {
    fn output<'a>(&'a self, model: &'a model::Model) -> output::Output<'a> {
        output::Output {
            model,
            origin: &self.origin,
            series: &self.series,
            precision: self.precision,
            mode: self.mode,
            rows: self.rows,
            least_bytes: self.least_bytes,
            run_as: self.run_as,
            convolutions_in_tf32: self.convolutions_in_tf32,
            training: self.training,
            parts: self.parts.as_ref(),
            answer: &self.answer,
            kernels: &self.kernels,
        }
    }
}

/// A GPU of which no calibration is here, by what the driver calls it.
fn gpu(device: &str, memory_bytes: u64) -> Origin {
    let memory = ("memory_bytes".to_owned(), memory_bytes.to_string());
    Origin {
        device: device.to_owned(),
        kind: "cuda".to_owned(),
        properties: BTreeMap::from([memory]),
        versions: BTreeMap::new(),
    }
}

/// Estimates a model by a calibration, from sizes alone where the estimate `moves` to other
/// machines. These were measured in graphs only, and what is beside them is in one, too.
fn estimated(
    arguments: &Arguments,
    machine: &MachineOptions,
    model: &model::Model,
    (precision, graph): (Precision, bool),
    moves: bool,
    console: Console,
) -> Result<Found, Failure> {
    let cache = if arguments.no_cache { Cache::none() } else { Cache::of_user() };
    let mut known = Known::open(machine.source()?, cache, console)?;
    machine.expect(&mut known.contents.header)?;
    let (listed, mode) = chosen(arguments, precision, graph, &known.contents)?;
    let (of, origin) = (listed.series(), &known.contents.header.origin);
    let (steps, rows) = (model.steps.len(), listed.rows);
    console
        .detail(format_args!("{}: {steps} steps, by {rows} rows of {of} on {}", model.name, origin.device));
    let steps: Vec<Step> = model.steps.iter().map(|step| step.step.clone()).collect();
    let mut kernels = if moves || arguments.sizes_alone {
        Kernels::SizesAlone("as requested by --sizes-alone".to_owned())
    } else if of.engine != kernels::NAMES_KERNELS || origin.kind != kernels::NAMES_KERNELS {
        Kernels::SizesAlone(format!("engine {} is not asked", of.engine))
    } else if listed.reported == 0 {
        Kernels::without_rows()
    } else {
        kernels::query(&known.contents.header, &steps, precision, mode)
    };
    // The work is only done if it is requested.
    let settings = FitSettings::default();
    let settings = if kernels.algorithms().is_some() { settings } else { settings.sizes_alone() };
    let predictor = known.predictor(&of, &settings)?;
    if kernels.algorithms().is_some() && !predictor.knows_kernels() {
        kernels = Kernels::without_rows();
    }
    let answer = Answer::of(&predictor, Asked { steps: &steps, precision, mode, kernels: &kernels })?;
    let least_bytes = model.least_bytes(precision)?;
    let (origin, rows) = (origin.clone(), listed.rows);
    let (run_as, convolutions_in_tf32, training, parts) = (RunAs::Own, false, None, None);
    Ok(Found {
        answer,
        kernels,
        origin,
        series: of,
        precision,
        mode,
        rows,
        least_bytes,
        run_as,
        convolutions_in_tf32,
        training,
        parts,
    })
}

/// The series to fit, which has the precision, and the mode to estimate.
fn chosen<'a>(
    arguments: &Arguments,
    precision: Precision,
    graph: bool,
    contents: &'a Contents,
) -> Result<(&'a Listed, Mode), Failure> {
    let mut requested: Option<Mode> = arguments.mode.map(Mode::from);
    if graph {
        if requested.is_some_and(|mode| mode != Mode::Graph) {
            return Err(Failure::new("other machines were measured in CUDA graphs only")
                .exit(Exit::Absent)
                .hint("omit `--mode`, or pass `--mode graph`"));
        }
        requested = Some(Mode::Graph);
    }
    let fitting = |listed: &Listed| listed.count(precision, requested);
    let named = |of: &Series| {
        arguments.engine.as_ref().is_none_or(|engine| *engine == of.engine)
            && arguments.threads.is_none_or(|threads| threads == of.threads)
    };
    let best = contents
        .series
        .iter()
        .filter(|listed| named(&listed.series()))
        .max_by_key(|listed| fitting(listed))
        .filter(|listed| fitting(listed) > 0);
    let Some(listed) = best else {
        let what = match requested {
            Some(mode) => format!("{precision} as {}", mode_name(mode)),
            None => precision.to_string(),
        };
        let engine = arguments.engine.as_ref().map(|name| format!(" by {name}")).unwrap_or_default();
        let message =
            format!("the calibration of {} has no row in {what}{engine}", contents.header.origin.device);
        let there = contents.series.iter().map(|listed| {
            let mut precisions: Vec<&str> = listed.ways.iter().map(|(of, ..)| of.name()).collect();
            precisions.sort_unstable();
            precisions.dedup();
            format!("{} ({})", listed.series(), precisions.join(", "))
        });
        let hint = format!("it has {}", there.collect::<Vec<_>>().join("; "));
        let failure = Failure::new(message).exit(Exit::Absent).hint(hint);
        let elsewhere = contents.series.iter().any(|listed| listed.count(precision, None) > 0);
        return Err(if arguments.precision.is_some() || elsewhere {
            failure
        } else {
            failure.hint("`--precision PRECISION` estimates the model in another one")
        });
    };
    let order = [Mode::Stream, Mode::Graph, Mode::Call];
    let measured = |mode: Mode| listed.count(precision, Some(mode)) > 0;
    let mode = requested.or_else(|| order.into_iter().find(|&mode| measured(mode)));
    Ok((listed, mode.unwrap_or(Mode::Call)))
}
