//! `flopgap nsys compare A B`: the GPU time of two traces by kind of work, such as inference and
//! training.

use std::path::PathBuf;

use flopgap_answers::{ask, sentences};
use flopgap_cli::{Failure, OutputArgs};
use flopgap_timings::RangePattern;

use crate::answer::{print, unanswered};
use crate::failure;
use crate::opening::{Opener, warn_all};
use crate::scope::ScopeArguments;

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  flopgap nsys compare fixtures/nsys/small_forward.sqlite.zst fixtures/nsys/small_training_step.sqlite.zst")]
pub(crate) struct Arguments {
    /// A trace: an export of `nsys export --type sqlite`, a trace of `torch.profiler`, or a
    /// directory with those of all ranks of a job.
    a: PathBuf,
    /// The one to compare with it.
    b: PathBuf,
    /// Only these ranges in both traces: work launched within them [default: whole steps if both
    /// traces mark steps, otherwise everything]. Can be repeated; `flopgap nsys --help` says how
    /// ranges are written.
    #[arg(long, value_name = "RANGE")]
    range: Vec<RangePattern>,
    /// Only these ranges in A.
    #[arg(long, value_name = "RANGE", conflicts_with = "range", requires = "range_b")]
    range_a: Vec<RangePattern>,
    /// Only these ranges in B.
    #[arg(long, value_name = "RANGE", conflicts_with = "range", requires = "range_a")]
    range_b: Vec<RangePattern>,
    /// Compare everything that was recorded, also where steps are marked.
    #[arg(long, conflicts_with_all = ["range", "range_a"])]
    all: bool,
    #[command(flatten)]
    scope: ScopeArguments,
    #[command(flatten)]
    output: OutputArgs,
}

pub(crate) fn run(arguments: &Arguments, opener: &Opener) -> Result<(), Failure> {
    let (a, b) = (opener.open(&arguments.a)?, opener.open(&arguments.b)?);
    let part = arguments.scope.part(&arguments.range);
    let own = |ranges: &[RangePattern]| arguments.scope.part(ranges).named();
    let scopes = match (own(&arguments.range_a), own(&arguments.range_b)) {
        (Some(a), Some(b)) => [a, b],
        _ if arguments.all => [part.scope(), part.scope()],
        _ => {
            let both = part.of_both(a.recording(), b.recording()).map_err(|error| unanswered(&error))?;
            [both.clone(), both]
        }
    };
    let mut answer = ask::compare([&a, &b], [&scopes[0], &scopes[1]]).map_err(|error| failure(&error))?;
    warn_all(&a);
    warn_all(&b);
    let (one, other) = (sentences::of_scope(&answer.data.a), sentences::of_scope(&answer.data.b));
    let compared = format!("A is {one} of {}, B {other} of {}.", a.name(), b.name());
    answer.sentences.insert(0, compared);
    print(&answer, &arguments.output, opener.console())
}
