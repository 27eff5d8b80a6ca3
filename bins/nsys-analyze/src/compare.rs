//! `flopgap nsys compare A B`: the GPU time of two traces by kind of work, such as inference and
//! training.

use std::path::PathBuf;

use flopgap_cli::{Failure, OutputArgs};
use flopgap_kernels::Classifier;
use flopgap_timings::compare::{compare, scopes};
use flopgap_timings::{RangePattern, Ranges};

use crate::answer::{Answer, name_of, report, unanswered};
use crate::opening::Opener;
use crate::scope::{ScopeArguments, named};
use crate::{sentences, tables};

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
    let classifier = Classifier::new();
    let (a, b) = (opener.open(&arguments.a)?, opener.open(&arguments.b)?);
    let scope = |ranges: Ranges| arguments.scope.scope(ranges);
    let of = |own: &[RangePattern]| named(own).or_else(|| named(&arguments.range));
    let scopes = match (of(&arguments.range_a), of(&arguments.range_b)) {
        (Some(a), Some(b)) => [scope(a), scope(b)],
        _ if arguments.all => [scope(Ranges::All), scope(Ranges::All)],
        _ => {
            let both = scopes(a.recording(), b.recording(), &scope(Ranges::Steps))
                .map_err(|error| unanswered(&error))?;
            [both.clone(), both]
        }
    };
    let found = compare((a.recording(), &scopes[0]), (b.recording(), &scopes[1]), &classifier)
        .map_err(|error| unanswered(&error))?;
    a.warn_all();
    b.warn_all();
    let tables = tables::comparison(&found).map_err(|error| report(&error))?;
    let mut said = vec![format!(
        "A is {} of {}, B {} of {}.",
        sentences::of_scope(&found.a),
        name_of(&arguments.a),
        sentences::of_scope(&found.b),
        name_of(&arguments.b)
    )];
    said.extend(sentences::compare(&found));
    Answer::new(&found, tables, said)?.print(&arguments.output, opener.console())
}
