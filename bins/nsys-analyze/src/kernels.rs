//! `flopgap nsys kernels TRACE [TRACE2]`: where the GPU time of a trace or a range went, by kernel;
//! or of two traces side by side.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use flopgap_answers::tables::KernelNames;
use flopgap_answers::{Answer, sentences, tables};
use flopgap_cli::{Exit, Failure, OutputArgs};
use flopgap_kernels::{Classifier, KernelClass};
use flopgap_report::table::Format;
use flopgap_timings::RangePattern;
use flopgap_timings::kernels::{Kernels, Pair, kernels, side_by_side};
use flopgap_trace::AttributeBy;
use serde::Serialize;

use crate::answer::{print, unanswered};
use crate::opening::{Opener, warn_all};
use crate::scope::ScopeArguments;

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  flopgap nsys kernels fixtures/nsys/small_forward.sqlite.zst --range forward --top 5
  flopgap nsys kernels fixtures/nsys/small_forward.sqlite.zst fixtures/nsys/small_forward_backward.sqlite.zst
  flopgap nsys kernels fixtures/kineto/ddp_rank0.json.gz --range 'ProfilerStep#*' -o kernels.csv")]
pub(crate) struct Arguments {
    /// A trace: an export of `nsys export --type sqlite`, a trace of `torch.profiler`, or a
    /// directory with those of all ranks of a job; or two of them, to be shown side by side.
    #[arg(required = true, num_args = 1..=2, value_name = "TRACE")]
    traces: Vec<PathBuf>,
    /// Only these ranges, such as `forward` or `step_*`: kernels launched within them. Can be
    /// repeated; `flopgap nsys --help` says how ranges are written.
    #[arg(long, value_name = "RANGE")]
    range: Vec<RangePattern>,
    /// Leave out kernels of these classes, such as `matmul,copy`.
    #[arg(long, value_delimiter = ',', value_name = "CLASS")]
    exclude: Vec<KernelClass>,
    /// Show only the first N kernels.
    #[arg(long, value_name = "N")]
    top: Option<NonZeroUsize>,
    #[command(flatten)]
    scope: ScopeArguments,
    #[command(flatten)]
    output: OutputArgs,
}

/// What JSON prints of two traces.
#[derive(Serialize)]
struct SideBySide<'a> {
    a: &'a str,
    b: &'a str,
    kernels: &'a [Pair],
}

pub(crate) fn run(arguments: &Arguments, opener: &Opener) -> Result<(), Failure> {
    let classifier = Classifier::new();
    let scope = arguments.scope.part(&arguments.range).scope();
    let (mut found, mut names) = (Vec::new(), Vec::new());
    for path in &arguments.traces {
        let trace = opener.open(path)?;
        found.push(kernels(trace.recording(), &scope, &classifier).map_err(|error| unanswered(&error))?);
        warn_all(&trace);
        names.push(trace.name());
    }
    match found.as_slice() {
        [one, other] => two(arguments, [one, other], [&names[0], &names[1]], opener),
        _ => one(arguments, &found[0], opener),
    }
}

impl Arguments {
    /// The first of the kernels that are not of an excluded class; shares stay those of everything.
    fn shown<T: Clone>(&self, kernels: &[T], class: impl Fn(&T) -> KernelClass) -> Result<Vec<T>, Failure> {
        let shown = kernels.iter().filter(|kernel| !self.exclude.contains(&class(kernel)));
        let shown: Vec<T> = shown.take(self.top.map_or(usize::MAX, NonZeroUsize::get)).cloned().collect();
        if shown.is_empty() {
            return Err(Failure::new(format!("{}: no kernel is left to show", self.traces[0].display()))
                .hint("all are of an excluded class")
                .exit(Exit::Absent));
        }
        Ok(shown)
    }
}

/// How kernels are called in this format: programs read CSV, where names are whole.
pub(crate) fn names_for(format: Format) -> KernelNames {
    if format.is_csv() { KernelNames::Full } else { KernelNames::Short }
}

fn one(arguments: &Arguments, found: &Kernels, opener: &Opener) -> Result<(), Failure> {
    let shown = arguments.shown(&found.kernels, |kernel| kernel.class)?;
    let names = names_for(arguments.output.format());
    let table = tables::kernels(&title(arguments, found), names, found, &shown)?;
    let shown = Kernels { kernels: shown, ..found.clone() };
    let said = if arguments.exclude.is_empty() {
        sentences::kernels(&shown)
    } else {
        sentences::other_kernels(&shown)
    };
    let answer = Answer { data: shown, tables: vec![table], sentences: said };
    print(&answer, &arguments.output, opener.console())
}

fn title(arguments: &Arguments, found: &Kernels) -> String {
    match found.instances {
        Some(instances) => {
            let by = if arguments.scope.part(&[]).attribution.by == AttributeBy::Process {
                ", by process"
            } else {
                ""
            };
            format!("Kernels launched within `{}`{by} ({instances} instances)", found.scope)
        }
        None => "Kernels".to_owned(),
    }
}

fn two(
    arguments: &Arguments,
    found: [&Kernels; 2],
    names: [&str; 2],
    opener: &Opener,
) -> Result<(), Failure> {
    let pairs = arguments.shown(&side_by_side(found[0], found[1]), |pair| pair.class)?;
    let table = tables::kernel_pairs(&pairs, names_for(arguments.output.format()))?;
    let mut said = vec![format!("A is {}, B is {}.", names[0], names[1])];
    said.extend(sentences::kernels_of_both(found));
    let data = SideBySide { a: names[0], b: names[1], kernels: &pairs };
    let answer = Answer { data, tables: vec![table], sentences: said };
    print(&answer, &arguments.output, opener.console())
}
