//! The tools: most are a command of flopgap, run in this process.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use flopgap_cli::{Exit, Failure, Restart, captured};
use rmcp::handler::server::tool::schema_for_type;
use rmcp::model::JsonObject;
use rmcp::schemars::{self, JsonSchema};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{Said, bounds, explain, open, rows};
use crate::answer::{as_argument, in_shell};
use crate::content::{self, Content};
use crate::elsewhere::Then;
use crate::programs::{BENCH, NCU, NSYS, Program};

/// A tool.
pub(super) struct Tool {
    pub(super) name: &'static str,
    pub(super) about: &'static str,
    pub(super) schema: fn() -> Arc<JsonObject>,
    pub(super) call: fn(Value) -> Result<Said, Failure>,
}

pub(super) const ALL: &[Tool] = &[
    Tool {
        name: "open",
        about: "What a file or directory is, recognized by its content: its kind, its tables, the GPUs and steps of a \
            trace, and which of these tools answer about it.",
        schema: schema_for_type::<Open>,
        call: |arguments| {
            let Open { file } = read(arguments)?;
            Ok(bounds::json(&open::open(Path::new(&file))?, MOST).into())
        },
    },
    Tool {
        name: "gap",
        about: "What a step of a trace consists of (busy, exposed, idle, each by cause), why the GPU does nothing, and \
            what to change first with an upper bound of the gain. Several traces of one job are its ranks; of two others, \
            by which causes a step of the second takes longer.",
        schema: schema_for_type::<Gap>,
        call: |arguments| {
            let Gap { files, ranges, limit, format } = read(arguments)?;
            let files = recognized(&files)?;
            let mut words = words(&["gap"]);
            words.extend(ranges.iter().map(|range| option("range", range)));
            ask(&NSYS, words, &files, limit, format)
        },
    },
    Tool {
        name: "kernels",
        about: "Kernels with class, launches and time, longest first: of a trace or of some of its ranges, or of two \
            traces side by side; of a report of Nsight Compute, with executed FLOPs and bytes.",
        schema: schema_for_type::<Kernels>,
        call: |arguments| {
            let Kernels { files, ranges, limit, format } = read(arguments)?;
            let files = recognized(&files)?;
            let program = one_program(&files, &[&NSYS, &NCU])?;
            let mut words = words(&["kernels"]);
            words.push(option("top", &limit.clamp(1, MOST).to_string()));
            words.extend(ranges.iter().map(|range| option("range", range)));
            ask(program, words, &files, limit, format)
        },
    },
    Tool {
        name: "diff",
        about: "What became slower or faster between two traces, two reports of Nsight Compute or two results of \
            flopgap bench: steps, passes, ranges and kernels, and whether the difference is beyond the scatter.",
        schema: schema_for_type::<Diff>,
        call: |arguments| {
            let Diff { before, after, limit, format } = read(arguments)?;
            let files = recognized(&[before, after])?;
            let program = one_program(&files, &[&NSYS, &NCU, &BENCH])?;
            ask(program, words(&["diff"]), &files, limit, format)
        },
    },
    Tool {
        name: "rows",
        about: "Rows of a table of a file as CSV, by conditions, largest first if requested: single kernels, ranges, \
            copies and calls of a trace, metrics of a report, rows of a calibration. `open` lists the tables.",
        schema: schema_for_type::<rows::Rows>,
        call: |arguments| rows::rows(&read(arguments)?),
    },
    #[cfg(feature = "calibrate")]
    Tool {
        name: "estimate",
        about: "Time with a 90 % interval, memory, energy and FLOPs of a model that was not run: ONNX, .pt2 of \
            torch.export, or config.json of a language model, on a GPU that need not be here.",
        schema: schema_for_type::<Estimate>,
        call: |arguments| {
            let asked: Estimate = read(arguments)?;
            let mut words = words(&["estimate"]);
            words.push(option("machine", &asked.machine));
            let texts = [("precision", asked.precision), ("as", asked.run_as)];
            words.extend(texts.iter().filter_map(|(name, value)| Some(option(name, value.as_ref()?))));
            let numbers = [
                ("batch", asked.batch),
                ("context", asked.context),
                ("tensor-parallel", asked.tensor_parallel),
            ];
            words.extend(
                numbers.iter().filter_map(|(name, value)| Some(option(name, &value.as_ref()?.to_string()))),
            );
            words.extend(asked.shapes.iter().map(|shape| option("shape", shape)));
            words.extend(asked.train.then(|| "--train".into()));
            let files = recognized(&[asked.model])?;
            ask(&crate::programs::CALIBRATE, words, &files, asked.limit, asked.format)
        },
    },
    Tool {
        name: "explain",
        about: "What a word of an answer means: a cause of time, an advice, or a term of the glossary.",
        schema: schema_for_type::<Explain>,
        call: |arguments| {
            let Explain { term } = read(arguments)?;
            Ok(explain::explain(&term)?.into())
        },
    },
];

/// Entries of a list at most, whatever is requested.
const MOST: usize = 1000;

/// How many entries a list has if nothing is requested.
pub(super) fn few() -> usize {
    20
}

/// How an answer is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Format {
    /// Sentences and tables with units
    #[default]
    Text,
    /// Exact numbers, whole nanoseconds and bytes
    Json,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Open {
    /// Path of a file or directory
    file: String,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Gap {
    /// Exports of nsys (.sqlite), traces of torch.profiler, or directories with those of all ranks
    files: Vec<String>,
    /// Ranges that are steps, such as `forward` or `step_*`; without, those that the trace marks
    #[serde(default)]
    ranges: Vec<String>,
    /// Entries of each list of JSON at most
    #[serde(default = "few")]
    #[schemars(range(min = 1, max = 1000))]
    limit: usize,
    /// How the answer is written
    #[serde(default)]
    format: Format,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Kernels {
    /// One or two traces, or one report of Nsight Compute
    files: Vec<String>,
    /// Only kernels launched within these ranges of a trace
    #[serde(default)]
    ranges: Vec<String>,
    /// Kernels at most
    #[serde(default = "few")]
    #[schemars(range(min = 1, max = 1000))]
    limit: usize,
    /// How the answer is written
    #[serde(default)]
    format: Format,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Diff {
    /// The recording before a change
    before: String,
    /// One of the same kind after it
    after: String,
    /// Entries of each list of JSON at most
    #[serde(default = "few")]
    #[schemars(range(min = 1, max = 1000))]
    limit: usize,
    /// How the answer is written
    #[serde(default)]
    format: Format,
}

#[cfg(feature = "calibrate")]
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Estimate {
    /// A model: .onnx, .pt2, or config.json of a language model
    model: String,
    /// A GPU or CPU that is built in, such as h200, h100, b200 or xeon
    #[serde(default = "reference")]
    machine: String,
    /// fp32, tf32, fp16, bf16 or int8; of a language model's weights also fp8, nvfp4, int4 or mxfp4
    #[serde(default)]
    precision: Option<String>,
    /// What runs it: eager, graph, compile, compile-graph (PyTorch) or own (flopgap)
    #[serde(default, rename = "as")]
    run_as: Option<String>,
    /// Sizes that the model leaves open, such as `batch=64`
    #[serde(default)]
    shapes: Vec<String>,
    /// Sequences of a language model that are decoded together
    #[serde(default)]
    batch: Option<u64>,
    /// Tokens of a sequence when a language model decodes the next one
    #[serde(default)]
    context: Option<u64>,
    /// GPUs that share each layer of a language model
    #[serde(default)]
    tensor_parallel: Option<u64>,
    /// A training step instead of inference
    #[serde(default)]
    train: bool,
    /// Entries of each list of JSON at most
    #[serde(default = "few")]
    #[schemars(range(min = 1, max = 1000))]
    limit: usize,
    /// How the answer is written
    #[serde(default)]
    format: Format,
}

#[cfg(feature = "calibrate")]
fn reference() -> String {
    crate::answer::MACHINE.to_owned()
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Explain {
    /// A name such as `blocking-call`, a phrase such as `launch latency`, or a term such as MAPE
    term: String,
}

/// The arguments of a tool.
fn read<T: DeserializeOwned>(arguments: Value) -> Result<T, Failure> {
    serde_json::from_value(arguments).map_err(|error| {
        Failure::new(format!("invalid arguments: {error}"))
            .hint("the input schema of the tool names all of them")
            .exit(Exit::Usage)
    })
}

fn words(command: &[&str]) -> Vec<OsString> {
    command.iter().map(OsString::from).collect()
}

/// An option with its value as one word, so that no value is taken for an option.
fn option(name: &str, value: &str) -> OsString {
    format!("--{name}={value}").into()
}

fn recognized(files: &[String]) -> Result<Vec<(PathBuf, Content)>, Failure> {
    let of = |file: &String| {
        let path = PathBuf::from(file);
        let content = content::of(&path)?;
        Ok((path, content))
    };
    files.iter().map(of).collect()
}

/// The program that reads all of these files: one of some.
fn one_program(
    files: &[(PathBuf, Content)],
    programs: &[&'static Program],
) -> Result<&'static Program, Failure> {
    let mut found: Option<&Program> = None;
    for (path, content) in files {
        let of = match content {
            Content::Trace | Content::Recording => &NSYS,
            Content::Report | Content::Record => &NCU,
            Content::Bench => &BENCH,
            _ => return Err(other(path)),
        };
        if found.is_some_and(|found| found.name != of.name) {
            let failure = Failure::new(format!("{}: of another kind than the file before", path.display()));
            return Err(failure.hint("ask about files of one kind").exit(Exit::Usage));
        }
        found = programs.iter().copied().find(|program| program.name == of.name);
        if found.is_none() {
            return Err(other(path));
        }
    }
    found.ok_or_else(|| Failure::new("no file is named").exit(Exit::Usage))
}

fn other(path: &Path) -> Failure {
    let message = format!("{}: this tool does not answer about files of this kind", path.display());
    Failure::new(message).hint("`open` says which tools do").exit(Exit::Absent)
}

/// The answer of a command.
fn ask(
    program: &Program,
    mut words: Vec<OsString>,
    files: &[(PathBuf, Content)],
    limit: usize,
    format: Format,
) -> Result<Said, Failure> {
    if files.iter().any(|(_, content)| *content == Content::Recording) {
        words.push("--export".into());
    }
    words.extend(files.iter().map(|(path, _)| as_argument(path)));
    let shown: Vec<String> = words.iter().map(|word| in_shell(&word.to_string_lossy())).collect();
    let same_as = format!("the same as `{} {}`", program.within(), shown.join(" "));
    let json = (format == Format::Json).then(|| "--format=json".into());
    let arguments = std::iter::once(program.within().into()).chain(words).chain(json);
    let (exit, printed) = captured(|| program.run(&Restart::default(), Then::Wait, arguments.collect()));
    if exit != Exit::Done {
        // It begins with the program's name, as on a terminal.
        return Err(Failure::new(printed.stderr.trim_end()).exit(exit));
    }
    let answer = match format {
        Format::Text => printed.stdout,
        Format::Json => {
            let answer =
                serde_json::from_str(&printed.stdout).map_err(|error| Failure::from_error(&error))?;
            bounds::json(&answer, limit.clamp(1, MOST))
        }
    };
    Ok(Said { answer, notes: format!("{same_as}\n{}", printed.stderr).trim_end().to_owned() })
}
