//! `flopgap nsys attention TRACE`: the parts of attention, their time against their FLOPs.

use std::path::PathBuf;

use flopgap_answers::ask;
use flopgap_cli::{Failure, OutputArgs};
use flopgap_flops::{Attention, AttentionMask};
use flopgap_timings::RangePattern;
use flopgap_timings::attention::Names;

use crate::answer::print;
use crate::failure;
use crate::opening::{Opener, warn_all};
use crate::scope::ScopeArguments;

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  flopgap nsys attention fixtures/nsys/small_forward.sqlite.zst --batch 4 --heads 12 --seq 512 --head-dim 64")]
pub(crate) struct Arguments {
    /// A trace: an export of `nsys export --type sqlite`, a trace of `torch.profiler`, or a
    /// directory with those of all ranks of a job.
    trace: PathBuf,
    /// Samples in a batch, each a sequence.
    #[arg(long, value_name = "SAMPLES", value_parser = clap::value_parser!(u64).range(1..))]
    batch: u64,
    /// Attention heads.
    #[arg(long, value_name = "H", value_parser = clap::value_parser!(u64).range(1..))]
    heads: u64,
    /// Attention heads of keys and values, if fewer.
    #[arg(long, value_name = "H", value_parser = clap::value_parser!(u64).range(1..))]
    kv_heads: Option<u64>,
    /// Positions of a sequence.
    #[arg(long, value_name = "S", value_parser = clap::value_parser!(u64).range(1..))]
    seq: u64,
    /// Width of a head.
    #[arg(long, value_name = "D", value_parser = clap::value_parser!(u64).range(1..))]
    head_dim: u64,
    /// The range around the scores; `flopgap nsys --help` says how ranges are written.
    #[arg(long, value_name = "RANGE", default_value_t = Names::default().scores)]
    qk: RangePattern,
    /// The range around softmax.
    #[arg(long, value_name = "RANGE", default_value_t = Names::default().softmax)]
    softmax: RangePattern,
    /// The range around the weighted sum of the values.
    #[arg(long, value_name = "RANGE", default_value_t = Names::default().weighted_sum)]
    av: RangePattern,
    #[command(flatten)]
    scope: ScopeArguments,
    #[command(flatten)]
    output: OutputArgs,
}

pub(crate) fn run(arguments: &Arguments, opener: &Opener) -> Result<(), Failure> {
    let trace = opener.open(&arguments.trace)?;
    let sizes = Attention {
        batch: arguments.batch,
        heads: arguments.heads,
        kv_heads: arguments.kv_heads.unwrap_or(arguments.heads),
        queries: arguments.seq,
        keys: arguments.seq,
        head_width: arguments.head_dim,
        value_width: None,
        mask: AttentionMask::Full,
    };
    let names = Names {
        scores: arguments.qk.clone(),
        softmax: arguments.softmax.clone(),
        weighted_sum: arguments.av.clone(),
    };
    let part = arguments.scope.part(&[]);
    let answer = ask::attention(&trace, &part, sizes, names).map_err(|error| failure(&error))?;
    warn_all(&trace);
    print(&answer, &arguments.output, opener.console())
}
