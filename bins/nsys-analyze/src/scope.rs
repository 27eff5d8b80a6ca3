//! The options that say which ranges count and what belongs to them.

use flopgap_answers::Part;
use flopgap_timings::{RangePattern, WarmUp};
use flopgap_trace::Attribution;

use crate::attribution::AttributeArg;

/// The end of `flopgap nsys --help`: examples, and the syntax of ranges for every option that takes
/// them.
pub(crate) const AFTER_HELP: &str = "\
Examples:
  flopgap nsys summary fixtures/nsys/small_training_step.sqlite.zst
  flopgap nsys kernels fixtures/kineto/ddp_rank0.json.gz --range 'ProfilerStep#*'
  flopgap nsys diff before.sqlite after.sqlite --fail-if-slower 5

How ranges are written (RANGE), in every option that takes them:
  forward         ranges of this name, in any NVTX domain; upper and lower case differ
  model:forward   those of the domain `model`; `:forward` those of the default domain
  step_*          `*` stands for any text: all steps, as tables show them with their numbers folded
  'blocks.*.attn' one row for all layers; `blocks.7.attn` is one of them alone
  '*'             all ranges
  'a, b'          commas, spaces and brackets are part of a name; for several ranges give the option several times
  'a\\*b'          `\\*` is a star in a name, `\\\\` a backslash
--filter-nvtx of `stats` and `rules` is nsys's own option and written as nsys has it: NAME[@DOMAIN][/INDEX].";

/// Attribution of GPU work for every command that measures passes: by process, because the
/// questions are about whole passes.
#[derive(Clone, Copy, Debug, clap::Args)]
struct OwnerArguments {
    /// How GPU work is attributed to ranges.
    #[arg(long, value_enum, value_name = "WHOSE", default_value_t = AttributeArg::Process)]
    attribute: AttributeArg,
}

/// The warm-up, for every command that measures.
#[derive(Clone, Debug, clap::Args)]
struct WarmUpArguments {
    /// Leave out the first N instances of each range [default: 0 if warm-up is marked, otherwise
    /// the first step, or without steps the first instance of each pass].
    #[arg(long, value_name = "N")]
    warmup: Option<u64>,
    /// Leave out these ranges with everything within them; those named `warmup` are always left
    /// out.
    #[arg(long, value_name = "RANGE")]
    warmup_range: Vec<RangePattern>,
    /// Leave nothing out.
    #[arg(long, conflicts_with_all = ["warmup", "warmup_range"])]
    with_warmup: bool,
}

/// The options that every command for ranges takes.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct ScopeArguments {
    #[command(flatten)]
    warm_up: WarmUpArguments,
    #[command(flatten)]
    owner: OwnerArguments,
    /// Combine all processes and GPUs; by default each process on each GPU has its own numbers.
    #[arg(long)]
    pool: bool,
}

impl ScopeArguments {
    /// These ranges with these options.
    pub(crate) fn part(&self, ranges: &[RangePattern]) -> Part {
        let WarmUpArguments { warmup, warmup_range, with_warmup } = self.warm_up.clone();
        Part {
            ranges: ranges.to_vec(),
            warm_up: WarmUp { names: warmup_range, skip: warmup, keep: with_warmup },
            // Graphs that were traced as a whole are work like any other; an answer without them
            // would be wrong.
            attribution: Attribution { by: self.owner.attribute.into(), whole_graphs: true },
            pool: self.pool,
            peaks: None,
            capture: None,
        }
    }
}
