//! `flopgap calibrate estimate config.json`: a pass through a language model.

mod answer;
mod output;

use std::path::Path;

use clap::ValueEnum;
use flopgap_cli::{Console, Exit, Failure, OutputArgs};
use flopgap_graph::language::{Division, Format, LanguageModel, Pass, Phase, Routing};
use flopgap_roofline::machines::{Machine, NAMES, named};

use self::answer::Answer;

/// Tokens of a prompt, and of a sequence that is continued, where nothing else is asked.
const TOKENS: u64 = 1024;

#[derive(clap::Args)]
#[command(next_help_heading = "Language models")]
pub(crate) struct LanguageOptions {
    /// Tokens of a prompt, all of which go through the model at once [default: 1024, unless only
    /// --context is passed]
    #[arg(long, value_name = "TOKENS", value_parser = clap::value_parser!(u64).range(1..1 << 24))]
    prompt: Option<u64>,
    /// Tokens of a sequence when the next one is decoded [default: 1024, unless only --prompt is
    /// passed]
    #[arg(long, value_name = "TOKENS", value_parser = clap::value_parser!(u64).range(1..1 << 24))]
    context: Option<u64>,
    /// GPUs of a node that share each layer [default: 1]
    #[arg(long, value_name = "GPUS", value_parser = clap::value_parser!(u64).range(1..=8))]
    tensor_parallel: Option<u64>,
    /// Of these, groups with experts of their own [default: 1]
    #[arg(long, value_name = "GPUS", value_parser = clap::value_parser!(u64).range(1..=8))]
    expert_parallel: Option<u64>,
    /// Format of keys and values: bf16 or fp8 [default: bf16]
    #[arg(long, value_name = "FORMAT", value_parser = cache_format)]
    cache: Option<Format>,
    /// How tokens are distributed over experts [default: skewed]
    #[arg(long, value_enum, value_name = "LOAD")]
    routing: Option<RoutingArg>,
}

/// The load of experts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum RoutingArg {
    /// The same for each
    Balanced,
    /// A power law with exponent 1.01
    Skewed,
    /// A power law with exponent 1.2
    VerySkewed,
}

impl From<RoutingArg> for Routing {
    fn from(load: RoutingArg) -> Routing {
        match load {
            RoutingArg::Balanced => Routing::Balanced,
            RoutingArg::Skewed => Routing::Skewed,
            RoutingArg::VerySkewed => Routing::VerySkewed,
        }
    }
}

fn cache_format(text: &str) -> Result<Format, String> {
    let format = Format::of_name(text).filter(|format| matches!(format, Format::Bf16 | Format::Fp8));
    format.ok_or_else(|| format!("invalid format `{text}`; expected bf16 or fp8"))
}

impl LanguageOptions {
    /// Refuses options that another model does not have.
    pub(crate) fn refuse(&self) -> Result<(), Failure> {
        let given = [
            ("--prompt", self.prompt.is_some()),
            ("--context", self.context.is_some()),
            ("--tensor-parallel", self.tensor_parallel.is_some()),
            ("--expert-parallel", self.expert_parallel.is_some()),
            ("--cache", self.cache.is_some()),
            ("--routing", self.routing.is_some()),
        ];
        match given.iter().find(|(_, given)| *given) {
            None => Ok(()),
            Some((name, _)) => Err(Failure::new(format!("{name} is for language models"))
                .exit(Exit::Usage)
                .hint("pass the config.json of a language model")),
        }
    }
}

/// What is asked.
pub(crate) struct Request<'a> {
    pub(crate) options: &'a LanguageOptions,
    /// Sequences.
    pub(crate) batch: u64,
    /// The format of weights, instead of the model's own.
    pub(crate) format: Option<Format>,
    /// A machine by its name, or `all`.
    pub(crate) machine: Option<&'a str>,
    pub(crate) output: &'a OutputArgs,
}

impl Request<'_> {
    fn division(&self) -> Division {
        let tensor = self.options.tensor_parallel.unwrap_or(1);
        Division { tensor, experts: self.options.expert_parallel.unwrap_or(1) }
    }

    fn pass(&self, phase: Phase, batch: u64, tokens: u64) -> Pass {
        let routing = self.options.routing.map_or(Routing::Skewed, Routing::from);
        Pass { phase, batch, tokens, cache: self.options.cache.unwrap_or(Format::Bf16), routing }
    }

    /// Tokens of the prompt and of the context; `None` where only the other is requested.
    fn tokens(&self) -> [Option<u64>; 2] {
        match (self.options.prompt, self.options.context) {
            (None, None) => [Some(TOKENS); 2],
            given => given.into(),
        }
    }
}

/// Answers.
pub(crate) fn run(path: &Path, request: &Request<'_>, console: Console) -> Result<(), Failure> {
    let mut model = LanguageModel::read(path).map_err(|error| Failure::of(&error))?;
    if let Some(format) = request.format {
        (model.linear, model.experts) = (format, format);
    } else if model.linear == Format::Bf16 && !["bfloat16", "float16"].contains(&model.dtype.as_str()) {
        let message = format!("{}: computes in {}, which no table has", path.display(), model.dtype);
        return Err(Failure::new(message)
            .exit(Exit::Absent)
            .hint("`--precision bf16` estimates it in 16 bits"));
    }
    let output = request.output;
    let format = output.format();
    if request.machine == Some("all") {
        let answers = NAMES.iter().filter_map(|name| named(name));
        let answers: Vec<Answer<'_>> =
            answers.map(|machine| Answer::of(&model, machine, request)).collect::<Result<_, _>>()?;
        return output.write(console, &output::all(&answers, format, &output.text())?);
    }
    let answer = Answer::of(&model, machine(request.machine)?, request)?;
    flopgap_cli::warn_all(crate::PROGRAM, answer.warnings());
    let rendered = match format {
        flopgap_report::table::Format::Json => output::json(&answer)?,
        _ => output::text(&answer, format, &output.text())?,
    };
    output.write(console, &rendered)
}

fn machine(name: Option<&str>) -> Result<&'static Machine, Failure> {
    let hint = format!("language models are estimated for {}, all", NAMES.join(", "));
    let Some(name) = name else {
        return Err(Failure::new("no machine to estimate for: pass --machine NAME")
            .exit(Exit::Usage)
            .hint(hint));
    };
    named(name).ok_or_else(|| {
        Failure::new(format!("no table of `{name}` is built in")).exit(Exit::Absent).hint(hint)
    })
}
